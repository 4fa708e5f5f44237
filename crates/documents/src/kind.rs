//! Kind of a document, from its bytes. The name only distinguishes kinds of text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

use crate::{DocumentKind, Reason, package::Package, sink::Stop};

#[derive(Debug)]
pub(crate) enum Kind {
    Pdf,
    Word,
    Slides,
    OpenText,
    OpenSlides,
    Book,
    Sheets(Workbook),
    Mail,
    Html(String),
    Markdown(String),
    /// Values separated by commas or tabs.
    Table(String),
    Lines(String),
    Unreadable(Reason),
}

impl Kind {
    pub(crate) fn reported(&self) -> DocumentKind {
        match self {
            Self::Pdf => DocumentKind::Pdf,
            Self::Word | Self::OpenText => DocumentKind::Text,
            Self::Slides | Self::OpenSlides => DocumentKind::Slides,
            Self::Book => DocumentKind::Book,
            Self::Sheets(_) => DocumentKind::Sheets,
            Self::Mail => DocumentKind::Mail,
            Self::Html(_) => DocumentKind::Html,
            Self::Markdown(_) => DocumentKind::Markdown,
            Self::Table(_) => DocumentKind::Table,
            Self::Lines(_) => DocumentKind::Lines,
            Self::Unreadable(_) => DocumentKind::Other,
        }
    }
}

/// Format of a workbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workbook {
    Xlsx,
    Xls,
    Ods,
}

/// Bytes at the beginning of a PDF in which its header can be.
const PDF_HEADER_WITHIN: usize = 1024;
/// Bytes at the beginning of a text that are checked.
const HEAD_BYTES: usize = 64 * 1024;
/// A file is not text if more than one of this many characters is a control character.
const CONTROLS_ONE_OF: usize = 100;

/// Kind of a document; `None` for files without text that is read.
pub(crate) fn of(bytes: &[u8], ending: &str) -> Option<Kind> {
    let head = &bytes[..bytes.len().min(PDF_HEADER_WITHIN)];
    if contains(head, b"%PDF-") {
        return Some(Kind::Pdf);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return archive(bytes);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        return compound(bytes);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Some(Kind::Unreadable(Reason::OldFormat));
    }
    let is_utf8 = std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    if !is_utf8 && infer::get(bytes).is_some() && Encoding::for_bom(bytes).is_none() {
        return None;
    }
    if is_mail(bytes, ending) {
        return Some(Kind::Mail);
    }
    let text = decoded(bytes)?;
    Some(text_kind(text, ending))
}

fn text_kind(text: String, ending: &str) -> Kind {
    let begin = text.trim_start().as_bytes();
    let starts_with = |start: &[u8]| {
        begin
            .get(..start.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(start))
    };
    match ending {
        "md" | "markdown" | "mdown" => Kind::Markdown(text),
        "csv" | "tsv" => Kind::Table(text),
        "html" | "htm" | "xhtml" => Kind::Html(text),
        _ if starts_with(b"<!doctype html") || starts_with(b"<html") => Kind::Html(text),
        // Pages are named after their URLs, and can begin with any element.
        "" if infer::get(text.as_bytes()).is_some_and(|of| of.mime_type() == "text/html") => {
            Kind::Html(text)
        }
        _ => Kind::Lines(text),
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Checks for the names of entries that every Office document, or every `OpenDocument` and book, has.
fn names_document(bytes: &[u8]) -> bool {
    bytes.get(30..38) == Some(b"mimetype".as_slice()) || contains(bytes, b"_rels/.rels")
}

/// Kind of an Office document, `OpenDocument`, or book, by what is in the archive.
fn archive(bytes: &[u8]) -> Option<Kind> {
    let mut package = match Package::open(bytes) {
        Ok(package) => package,
        // Other archives have no text that is read, whatever is wrong with them.
        Err(Stop::Because(reason)) if names_document(bytes) => {
            return Some(Kind::Unreadable(reason));
        }
        Err(_) => return None,
    };
    // `OpenDocument` and EPUB name their type in the first entry.
    let named = package.text("mimetype").ok().flatten().unwrap_or_default();
    let mut open = |kind| {
        let manifest = package.text("META-INF/manifest.xml").ok().flatten();
        let is_encrypted = manifest.is_some_and(|text| text.contains("encryption-data"));
        Some(if is_encrypted {
            Kind::Unreadable(Reason::Encrypted)
        } else {
            kind
        })
    };
    match named.trim() {
        "application/epub+zip" => return Some(Kind::Book),
        "application/vnd.oasis.opendocument.text"
        | "application/vnd.oasis.opendocument.text-template" => return open(Kind::OpenText),
        "application/vnd.oasis.opendocument.presentation"
        | "application/vnd.oasis.opendocument.presentation-template" => {
            return open(Kind::OpenSlides);
        }
        "application/vnd.oasis.opendocument.spreadsheet"
        | "application/vnd.oasis.opendocument.spreadsheet-template" => {
            return open(Kind::Sheets(Workbook::Ods));
        }
        _ => {}
    }
    let main = package.main_part().ok()?;
    let folder = main.split('/').next().unwrap_or_default();
    match folder {
        "word" => Some(Kind::Word),
        "ppt" => Some(Kind::Slides),
        "xl" if main.strip_suffix(".bin").is_none() => Some(Kind::Sheets(Workbook::Xlsx)),
        _ => None,
    }
}

/// Kind of a compound file, by the names of its streams.
fn compound(bytes: &[u8]) -> Option<Kind> {
    let has = |name: &str| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        contains(bytes, &name)
    };
    if has("EncryptedPackage") {
        return Some(Kind::Unreadable(Reason::Encrypted));
    }
    if has("WordDocument") || has("PowerPoint Document") {
        return Some(Kind::Unreadable(Reason::OldFormat));
    }
    (has("Workbook") || has("Book")).then_some(Kind::Sheets(Workbook::Xls))
}

/// Checks whether a file is a mail: by its name, or because it begins with the fields of one.
fn is_mail(bytes: &[u8], ending: &str) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]);
    let fields: Vec<&str> = head
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with([' ', '\t']))
        .collect();
    let is_field = |line: &&str| {
        let name = line.split_once(':').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_graphic() && c != b'<')
        })
    };
    let has = |name: &str| {
        let mut names = fields.iter().filter_map(|line| line.split_once(':'));
        names.any(|(field, _)| field.eq_ignore_ascii_case(name))
    };
    let from = has("from") && fields.iter().all(is_field);
    from && (ending == "eml" || (has("message-id") && has("date")))
}

/// The text of a file; `None` if it is not text.
fn decoded(bytes: &[u8]) -> Option<String> {
    let text = if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        encoding.decode(bytes).0.into_owned()
    } else if bytes.contains(&0) {
        return None;
    } else if let Ok(text) = std::str::from_utf8(bytes) {
        text.to_owned()
    } else {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(bytes, true);
        let encoding = detector.guess(None, Utf8Detection::Allow);
        encoding.decode_without_bom_handling(bytes).0.into_owned()
    };
    let (mut all, mut controls) = (0, 0);
    for c in text.chars().take(HEAD_BYTES) {
        all += 1;
        let is_control =
            c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}' | '\u{85}');
        controls += usize::from(is_control || c == '\u{fffd}');
    }
    (controls * CONTROLS_ONE_OF <= all).then_some(text)
}
