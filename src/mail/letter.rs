//! Text of an email, in plain form and as HTML without remote content.

use std::time::SystemTime;

use lettre::{
    Message,
    message::{
        Mailbox, MultiPart,
        header::{Header, HeaderName, HeaderValue},
    },
};

use super::fault::MailFault;

/// Maximum length of a subject, in characters.
const SUBJECT_CHARS_MAX: usize = 120;

/// An email to one person.
#[derive(Debug, Clone, Default)]
pub struct Letter {
    /// Address of the recipient.
    pub to: String,
    pub subject: String,
    pub paragraphs: Vec<String>,
    /// List below the paragraphs.
    pub entries: Vec<LetterEntry>,
    /// Label and address of the link that the email is about.
    pub link: Option<(String, String)>,
    /// Last, small paragraph: the reason why the person gets the email.
    pub reason: String,
    /// Address that ends such emails when a mail program posts to it (RFC 8058).
    pub unsubscribe: Option<String>,
}

/// Entry of the list.
#[derive(Debug, Clone)]
pub struct LetterEntry {
    pub title: String,
    /// Can be empty.
    pub text: String,
    pub url: String,
}

/// Tells other programs not to reply (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// Headers whose values need no encoding.
macro_rules! plain_header {
    ($name:ident, $text:literal) => {
        #[derive(Clone)]
        struct $name(String);

        impl Header for $name {
            fn name() -> HeaderName {
                HeaderName::new_from_ascii_str($text)
            }

            fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
                Ok(Self(text.to_owned()))
            }

            fn display(&self) -> HeaderValue {
                HeaderValue::dangerous_new_pre_encoded(Self::name(), self.0.clone(), self.0.clone())
            }
        }
    };
}

plain_header!(ListUnsubscribe, "List-Unsubscribe");
plain_header!(ListUnsubscribePost, "List-Unsubscribe-Post");

impl Letter {
    /// Formats the email as in RFC 5322. An `id` that stays the same makes an email that is sent twice recognizable.
    ///
    /// # Errors
    /// `Address` if the recipient's address cannot be used.
    pub(super) fn message(&self, from: &Mailbox, id: &str) -> Result<Message, MailFault> {
        let to = self.to.parse().map_err(|_| MailFault::Address)?;
        let subject: String = self
            .subject
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let mut message = Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(subject.chars().take(SUBJECT_CHARS_MAX).collect::<String>())
            .date(SystemTime::now())
            .message_id(Some(format!("<{id}@{}>", from.email.domain())))
            .header(AutoSubmitted);
        if let Some(url) = self.unsubscribe.as_ref().filter(|url| is_header_text(url)) {
            let one_click = "List-Unsubscribe=One-Click".to_owned();
            message = message
                .header(ListUnsubscribe(format!("<{url}>")))
                .header(ListUnsubscribePost(one_click));
        }
        let message =
            message.multipart(MultiPart::alternative_plain_html(self.plain(), self.html()));
        message.map_err(|_| MailFault::Address)
    }

    fn plain(&self) -> String {
        let link = self
            .link
            .as_ref()
            .map(|(label, url)| format!("{label}: {url}"));
        let entries = self.entries.iter().map(|entry| {
            let lines = [&entry.title, &entry.text, &entry.url].into_iter();
            let lines = lines.map(String::as_str).filter(|line| !line.is_empty());
            lines.collect::<Vec<_>>().join("\n")
        });
        let parts = self.paragraphs.iter().cloned();
        let parts = parts.chain(entries).chain(link);
        let mut text: String = parts.map(|part| part + "\n\n").collect();
        text.push_str("-- \n");
        text.push_str(&self.reason);
        text.push('\n');
        text
    }

    fn html(&self) -> String {
        let mut html = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><body style=\"font:16px/1.5 sans-serif;max-width:36em\">".to_owned();
        for text in &self.paragraphs {
            html.push_str(&paragraph("", &escape(text)));
        }
        for entry in &self.entries {
            let (title, url) = (escape(&entry.title), escape(&entry.url));
            let mut content = format!("<a href=\"{url}\">{title}</a>");
            if !entry.text.is_empty() {
                content.push_str("<br>");
                content.push_str(&escape(&entry.text).replace('\n', "<br>"));
            }
            html.push_str(&paragraph("", &content));
        }
        if let Some((label, url)) = &self.link {
            let (label, url) = (escape(label), escape(url));
            html.push_str(&paragraph("", &format!("<a href=\"{url}\">{label}</a>")));
            html.push_str(&paragraph(SMALL, &url));
        }
        html.push_str(&paragraph(SMALL, &escape(&self.reason)));
        html.push_str("</body></html>");
        html
    }
}

const SMALL: &str = "font-size:13px";

fn paragraph(style: &str, content: &str) -> String {
    format!("<p style=\"{style}\">{content}</p>")
}

/// Checks whether a text can stand in a header as it is.
fn is_header_text(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>'))
}

/// Replaces the characters that have a meaning in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        Letter {
            to: "bo@example.org".to_owned(),
            subject: "Join\r\nBcc: eve@example.org".to_owned(),
            paragraphs: vec!["<b>Ada</b> invites you.".to_owned()],
            link: Some((
                "Join".to_owned(),
                "https://chat.example.org/invite/x".to_owned(),
            )),
            reason: "You get this because Ada entered your address.".to_owned(),
            ..Letter::default()
        }
    }

    #[test]
    fn names_cannot_add_headers_or_markup() {
        let from = "OpenVibe <chat@example.org>".parse().unwrap();
        let message = letter().message(&from, "m1").unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        assert!(!text.contains("\r\nBcc:"), "{text}");
        let (_, html) = text.split_once("text/html").unwrap();
        assert!(!html.contains("<b>"), "{html}");
        for header in [
            "Auto-Submitted: auto-generated",
            "Message-ID: <m1@example.org>",
        ] {
            assert!(text.contains(header), "{header} in {text}");
        }
    }

    #[test]
    fn entries_are_escaped_and_the_unsubscribe_address_is_one_line() {
        let from = "chat@example.org".parse().unwrap();
        let mut letter = letter();
        letter.entries = vec![LetterEntry {
            title: "<i>Ada</i> mentioned you".to_owned(),
            text: "<img src=x>".to_owned(),
            url: "https://chat.example.org/a?b&c".to_owned(),
        }];
        letter.unsubscribe = Some(format!("https://chat.example.org/{}", "x".repeat(90)));
        let message = letter.message(&from, "m1").unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        let header = format!(
            "List-Unsubscribe: <https://chat.example.org/{}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
            "x".repeat(90)
        );
        assert!(text.contains(&header), "{text}");
        let (_, html) = text.split_once("text/html").unwrap();
        assert!(!html.contains("<img") && !html.contains("<i>"), "{html}");
        letter.unsubscribe = Some("https://x\r\nBcc: eve@example.org".to_owned());
        let message = letter.message(&from, "m1").unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        assert!(!text.contains("List-Unsubscribe"), "{text}");
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let from = "chat@example.org".parse().unwrap();
        let letter = Letter {
            to: "bo@".to_owned(),
            ..letter()
        };
        assert!(matches!(
            letter.message(&from, "m1"),
            Err(MailFault::Address)
        ));
    }
}
