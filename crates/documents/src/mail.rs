//! Mails: their fields, their text, and the names of their attachments.

use mail_parser::{Address, DateTime, MessageParser, MimeHeaders};

use crate::{
    Reason,
    sink::{Draft, Sink, Step},
};

const ADDRESSES_MAX: usize = 100;
const ATTACHMENTS_MAX: usize = 100;

pub(crate) fn read(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mail = MessageParser::default()
        .parse(document)
        .ok_or(Reason::Damaged)?;
    let mut text = String::new();
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            text.extend([name, ": ", value.as_str(), "\n"]);
        }
    };
    let addresses = |address: Option<&Address<'_>>| address.map(list).unwrap_or_default();
    field("From", addresses(mail.from()));
    field("To", addresses(mail.to()));
    field("Cc", addresses(mail.cc()));
    field(
        "Date",
        mail.date().map(DateTime::to_rfc3339).unwrap_or_default(),
    );
    field("Subject", mail.subject().unwrap_or_default().to_owned());
    text.push('\n');
    for n in 0..mail.text_body_count() {
        if let Some(body) = mail.body_text(n) {
            text.push_str(body.trim_end());
            text.push_str("\n\n");
        }
    }
    let names = mail.attachments().filter_map(MimeHeaders::attachment_name);
    let names: Vec<&str> = names.take(ATTACHMENTS_MAX).collect();
    if !names.is_empty() {
        text.push_str("Attachments:\n");
        for name in names {
            text.extend(["- ", name, "\n"]);
        }
    }
    sink.part(Draft {
        label: "mail".to_owned(),
        heading: mail.subject().map(str::to_owned),
        text,
        ..Draft::default()
    })
}

fn list(addresses: &Address<'_>) -> String {
    let shown = addresses.iter().take(ADDRESSES_MAX).map(|one| {
        let address = one.address().unwrap_or_default();
        match one.name() {
            Some(name) if !name.is_empty() => format!("{name} <{address}>"),
            _ => address.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}
