//! Takes the text of a document, in a process that can do nothing else.
//!
//! ```text
//! openvibe ─► openvibe extract ─► sandbox ─► kind (by content) ─► one module per format ─► sink (limits) ─► JSON lines
//!     ▲                                                                                                   │
//!     └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The process reads the document from its standard input and writes `Part`s, then one `End`. If the last line is missing, the process
//! was killed: by its own limits, by the sandbox, or by its parent.
//!
//! `PICTURE` instead of a file's ending makes the process scale a picture: it writes a `PictureHeader` as a line, then the bytes.

pub mod html;

mod book;
mod child;
mod kind;
mod lines;
mod mail;
mod markdown;
mod open_document;
mod package;
mod pdf;
mod picture;
mod sandbox;
mod sections;
mod sheets;
mod sink;
mod slides;
mod word;
mod xml;

use serde::{Deserialize, Serialize};

pub use child::{NO_SANDBOX, run};
pub use picture::{
    PICTURE, PICTURE_BYTES_MAX, PICTURE_PIXELS_MAX, PICTURE_SIDE_MAX, PictureFormat, PictureHeader,
};
pub use sandbox::{Unavailable, enter};
pub use sink::{PARTS_MAX, TEXT_BYTES_MAX};

/// Number of this extractor; a document that another version read is read again.
pub const VERSION: i64 = 3;

/// Part of a document: a page, slide, sheet, section, or a range of lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the part, starting at 1.
    pub part: u32,
    /// Name of the part, such as `page 12`. Empty for a text without headings, which is named after its file.
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// Header row of a table, for passages that do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    pub text: String,
}

/// Result for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Everything was read.
    Ready,
    /// Some parts were not read.
    Partial,
    /// Nothing was read.
    Failed,
    /// The file has no text that can be read, like pictures, sound, and archives.
    None,
}

/// Reason for a document that was not read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Pages are pictures without text.
    Scanned,
    Encrypted,
    Damaged,
    TooLarge,
    TooSlow,
    /// The characters of a font cannot be mapped to text.
    NoTextMap,
    /// Formats of old versions of Word and `PowerPoint`, and RTF.
    OldFormat,
}

/// Kind of a document, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    Pdf,
    /// DOCX and ODT.
    Text,
    Slides,
    Sheets,
    Book,
    Html,
    Markdown,
    Mail,
    /// Values separated by commas or tabs.
    Table,
    /// Code and other plain text.
    Lines,
    /// Files that are not read, or whose process ended before it reported the kind.
    Other,
}

impl DocumentKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Text => "text",
            Self::Slides => "slides",
            Self::Sheets => "sheets",
            Self::Book => "book",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Mail => "mail",
            Self::Table => "table",
            Self::Lines => "lines",
            Self::Other => "other",
        }
    }
}

/// The last line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Numbers of parts that were not read; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_parts: Vec<u32>,
    pub kind: DocumentKind,
}

/// A line of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Part(Part),
    End(End),
}

impl Line {
    /// Parses a line; `None` if a process that was killed did not finish it.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"{\"part\":") {
            serde_json::from_slice(line).ok().map(Self::Part)
        } else {
            serde_json::from_slice(line).ok().map(Self::End)
        }
    }
}
