//! Detects the type of a file from its bytes, never from the sender's claims.

/// Number of bytes at the beginning of a file that are examined to detect its type.
pub(super) const HEAD_BYTES: usize = 256 * 1024;

/// Handling of a file by browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Displayed in the page or a tab.
    Inline,
    /// Saved as a download.
    Attachment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// MIME type used when serving the file.
    pub content_type: String,
    pub width: Option<i64>,
    pub height: Option<i64>,
}

/// Types that browsers display natively without running any content, as pairs of the detected type and the served type.
const SHOWN: &[(&str, &str)] = &[
    ("image/png", "image/png"),
    ("image/jpeg", "image/jpeg"),
    ("image/gif", "image/gif"),
    ("image/webp", "image/webp"),
    ("image/avif", "image/avif"),
    ("video/mp4", "video/mp4"),
    ("video/webm", "video/webm"),
    ("audio/mpeg", "audio/mpeg"),
    ("audio/m4a", "audio/mp4"),
    ("audio/mp4", "audio/mp4"),
    ("audio/ogg", "audio/ogg"),
    ("audio/opus", "audio/ogg"),
    ("video/ogg", "video/ogg"),
    ("audio/wav", "audio/wav"),
    ("audio/x-wav", "audio/wav"),
    ("application/pdf", "application/pdf"),
];
const TEXT: &str = "text/plain";
/// Internal type of text that a browser could be tricked into running or rendering.
const MARKUP: &str = "text/plain; markup";
const BYTES: &str = "application/octet-stream";
/// File extensions of formats that browsers may run or render instead of showing their text.
const MARKUP_ENDINGS: &[&str] = &[
    "html", "htm", "xhtml", "shtml", "mht", "mhtml", "svg", "svgz", "xml", "xsl", "xslt", "js",
    "mjs", "cjs", "css", "hta", "swf", "wasm",
];

impl Kind {
    /// Detects the kind of a file. `head` is the beginning of the file, or all of it if it is short. The name can only make the file
    /// less trusted.
    pub fn of(head: &[u8], name: &str) -> Self {
        let content_type = content_type(head, name);
        let size = content_type
            .starts_with("image/")
            .then(|| imagesize::blob_size(head).ok())
            .flatten();
        let side = |n: usize| i64::try_from(n).ok().filter(|n| *n > 0);
        Self {
            width: size.and_then(|size| side(size.width)),
            height: size.and_then(|size| side(size.height)),
            content_type,
        }
    }
}

fn content_type(head: &[u8], name: &str) -> String {
    if head.starts_with(b"%PDF-") {
        return "application/pdf".to_owned();
    }
    // Text is detected before the magic numbers are checked, because some of these consist of letters that a text may start with.
    if is_text(head) {
        let is_markup = reads_like_markup(head) || has_markup_ending(name);
        return if is_markup { MARKUP } else { TEXT }.to_owned();
    }
    let found = infer::get(head).map(|found| found.mime_type());
    let shown = found.and_then(|found| SHOWN.iter().find(|(mime, _)| *mime == found));
    match (shown, found) {
        (Some((_, name)), _) => (*name).to_owned(),
        (None, Some(found)) if is_inert(found) => found.to_owned(),
        _ => BYTES.to_owned(),
    }
}

/// Returns true for types that no browser runs, so the type can be sent to clients.
fn is_inert(mime: &str) -> bool {
    let active = ["text/", "html", "xml", "svg", "script", "flash", "wasm"];
    // Names of Office types contain `openxmlformats`.
    mime.starts_with("application/vnd.openxmlformats")
        || !active.iter().any(|part| mime.contains(part))
}

/// Checks whether bytes are valid UTF-8 without characters that never occur in text. A character cut off at the end is allowed.
fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() && head.len() >= HEAD_BYTES => {
            std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}'))
}

/// Checks whether a file starts with a tag, as browsers do, or with a line that names an interpreter.
fn reads_like_markup(head: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(&head[..head.len().min(4096)]);
    let begin = begin.trim_start_matches('\u{feff}').trim_start();
    begin.starts_with('<') || begin.starts_with("#!")
}

fn has_markup_ending(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| MARKUP_ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}

/// Returns true for images that browsers display.
pub(super) fn is_image(content_type: &str) -> bool {
    content_type.starts_with("image/") && delivery(content_type) == Delivery::Inline
}

/// Returns `Inline` for types that are safe to display, and `Attachment` for all others.
pub(super) fn delivery(content_type: &str) -> Delivery {
    let is_shown = content_type == TEXT || SHOWN.iter().any(|(_, name)| *name == content_type);
    if is_shown {
        Delivery::Inline
    } else {
        Delivery::Attachment
    }
}

pub(super) fn is_text_type(content_type: &str) -> bool {
    matches!(content_type, TEXT | MARKUP)
}

/// Value of the `Content-Type` header: text is declared as UTF-8, and markup is served as plain text.
pub(super) fn served_type(content_type: &str) -> &str {
    match content_type {
        TEXT | MARKUP => "text/plain; charset=utf-8",
        other => other,
    }
}

/// Content type returned to clients.
pub(super) fn told_type(content_type: &str) -> &str {
    if content_type == MARKUP {
        TEXT
    } else {
        content_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x06\0\0\0";

    #[test]
    fn the_type_is_detected_from_the_content() {
        for (head, name, expected) in [
            (PNG, "a.txt", "image/png"),
            (
                b"<!doctype html><script>1</script>".as_slice(),
                "a.png",
                MARKUP,
            ),
            (b"  <svg xmlns='x'/>", "a.svg", MARKUP),
            (b"\xef\xbb\xbf<?xml version='1.0'?>", "a", MARKUP),
            (b"#!/bin/sh\nls", "run", MARKUP),
            (b"alert(1)", "a.js", MARKUP),
            (b"plain words", "a.png", TEXT),
            (b"BMW is a maker of cars", "a", TEXT),
            (b"%PDF-1.7\n", "a", "application/pdf"),
            (b"GIF89a\x01\0\x01\0\0", "a.html", "image/gif"),
            (b"\x1f\x8b\x08\0", "a.gz", "application/gzip"),
            (b"\0\x01\x02\x03", "a.html", BYTES),
            (b"\xff\xfe<\0h\0t\0m\0l\0", "a.html", BYTES),
        ] {
            assert_eq!(Kind::of(head, name).content_type, expected, "{name}");
        }
    }

    #[test]
    fn image_dimensions_are_read() {
        let kind = Kind::of(PNG, "");
        assert_eq!((kind.width, kind.height), (Some(3), Some(2)));
        assert_eq!(Kind::of(b"GIF89a", "").width, None);
    }

    #[test]
    fn executable_content_is_never_displayed() {
        for content_type in [
            MARKUP,
            BYTES,
            "application/zip",
            "image/svg+xml",
            "text/html",
        ] {
            assert_eq!(
                delivery(content_type),
                Delivery::Attachment,
                "{content_type}"
            );
        }
        assert_eq!(served_type(MARKUP), "text/plain; charset=utf-8");
    }

    /// Summary of how browsers are told to handle a file with this name.
    fn told(bytes: &[u8], name: &str) -> String {
        let kind = Kind::of(bytes, name);
        let size = kind.width.zip(kind.height);
        let size = size.map(|(w, h)| format!(" {w}x{h}")).unwrap_or_default();
        let how = delivery(&kind.content_type);
        format!(
            "{name}: {} {how:?}{size}\n",
            served_type(&kind.content_type)
        )
    }

    #[test]
    fn every_corpus_file_has_the_expected_type() {
        for case in corpus::cases("uploads", "file") {
            let names = ["a.png", "a.HTML", "a"];
            case.expect(&names.map(|name| told(&case.bytes, name)).concat());
        }
    }

    proptest::proptest! {
        #![proptest_config(corpus::config(256))]

        #[test]
        fn no_content_is_served_with_an_executable_type(
            head in proptest::prop_oneof![
                proptest::arbitrary::any::<Vec<u8>>(),
                corpus::mutated("uploads", "file", &["<html>", "<svg", "<script>", "<?xml", "%PDF-", "GIF89a", "\0", "\u{feff}", "#!"]),
            ],
            name: String,
        ) {
            let kind = Kind::of(&head, &name);
            let served = served_type(&kind.content_type);
            let runs = ["html", "svg", "xml", "script", "css", "flash", "wasm"];
            let is_office = served.starts_with("application/vnd.openxmlformats");
            proptest::prop_assert!(is_office || !runs.iter().any(|bad| served.contains(bad)), "{}", served);
            proptest::prop_assert!(kind.width.is_none_or(|w| w > 0) && kind.height.is_none_or(|h| h > 0));
            if delivery(&kind.content_type) == Delivery::Inline && served.starts_with("text/") {
                proptest::prop_assert!(!String::from_utf8_lossy(&head).trim_start().starts_with('<'));
            }
        }
    }
}
