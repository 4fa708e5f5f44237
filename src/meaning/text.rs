//! Texts that get vectors.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::files::documents::DocumentPart;

/// Length of a hash in bytes.
const HASH_BYTES: usize = 16;

/// Text of a passage that gets a vector: the passage below the heading of its part, and below the header row if it does not contain it.
/// Empty if the part has no such passage.
pub fn passage_text(part: &DocumentPart, range: Range<usize>) -> String {
    let Some(text) = part.text.get(range) else {
        return String::new();
    };
    let header = part.header.as_deref();
    let header = header.filter(|header| !text.contains(header));
    let above = [part.heading.as_deref(), header].into_iter().flatten();
    let lines: Vec<&str> = above
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .chain([text])
        .collect();
    lines.join("\n")
}

/// Hash by which equal texts share a vector.
pub fn text_hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..HASH_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_below_its_heading_and_header() {
        let part = DocumentPart {
            n: 1,
            label: "sheet Q3".to_owned(),
            heading: Some("Prices".to_owned()),
            header: Some("item | price".to_owned()),
            text: "item | price\ntea | 3".to_owned(),
        };
        assert_eq!(
            passage_text(&part, 0..part.text.len()),
            "Prices\nitem | price\ntea | 3"
        );
        assert_eq!(passage_text(&part, 13..20), "Prices\nitem | price\ntea | 3");
        assert_eq!(passage_text(&part, 13..21), "");
        let hash = text_hash("tea");
        assert_eq!(hash.len(), 32);
        assert_ne!(hash, text_hash("Tea"));
    }
}
