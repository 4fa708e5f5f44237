//! Texts of archives as valid UTF-8.

use std::io::{self, Read};

const BUFFER_BYTES: usize = 64 * 1024;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Replaces each invalid part of a text with `�`, and leaves out a byte order mark at the beginning. Otherwise, a single byte would make the
/// rest of an entry unreadable.
pub(super) struct ValidUtf8<R> {
    reader: R,
    /// Bytes that were read and not checked.
    rest: Vec<u8>,
    /// Valid text, of which the first `taken` bytes were taken.
    text: Vec<u8>,
    taken: usize,
    has_begun: bool,
    has_ended: bool,
}

/// Length without the beginning of a character whose other bytes were not read yet.
fn complete_len(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|b| b & 0xc0 != 0x80);
    let Some(n) = last.map(|n| n + 1) else {
        return bytes.len();
    };
    let start = bytes.len() - n;
    let needed = match bytes[start] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if needed > n { start } else { bytes.len() }
}

impl<R: Read> ValidUtf8<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            rest: Vec::new(),
            text: Vec::new(),
            taken: 0,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Reads and checks the next bytes.
    fn fill(&mut self) -> io::Result<()> {
        let known = self.rest.len();
        self.rest.resize(known + BUFFER_BYTES, 0);
        let read = self.reader.read(&mut self.rest[known..]);
        self.rest.truncate(known + read.as_ref().map_or(0, |n| *n));
        self.has_ended = read? == 0;
        let len = if self.has_ended {
            self.rest.len()
        } else {
            complete_len(&self.rest)
        };
        self.taken = 0;
        self.text.clear();
        let valid = String::from_utf8_lossy(&self.rest[..len]);
        self.text.extend_from_slice(valid.as_bytes());
        self.rest.drain(..len);
        if !self.has_begun && !self.text.is_empty() {
            self.has_begun = true;
            if self.text.starts_with(BYTE_ORDER_MARK) {
                self.taken = BYTE_ORDER_MARK.len();
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for ValidUtf8<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() && !self.has_ended {
            self.fill()?;
        }
        let n = out.len().min(self.text.len() - self.taken);
        out[..n].copy_from_slice(&self.text[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            let (part, rest) = self.0.split_at(n);
            out[..n].copy_from_slice(part);
            self.0 = rest;
            Ok(n)
        }
    }

    #[test]
    fn a_text_is_valid_however_it_is_read() {
        let texts: [&[u8]; 9] = [
            b"",
            b"plain",
            "é\u{feff} 中 😀".as_bytes(),
            b"caf\xe9 and more",
            b"\xe2\x82A \xf0\x9f\x98",
            b"\x80\x80\x80\x80\x80",
            b"\xc3(\xff\xfe",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98\x80\xe4\xb8",
        ];
        for text in texts {
            for size in [1, 2, 3, 7, 100] {
                let mut read = String::new();
                let mut reader = ValidUtf8::new(Slow(text, size));
                reader.read_to_string(&mut read).unwrap();
                assert_eq!(read, String::from_utf8_lossy(text), "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_left_out_at_the_beginning() {
        for size in [1, 2, 100] {
            let mut read = String::new();
            let text = "\u{feff}[\u{feff}]";
            let mut reader = ValidUtf8::new(Slow(text.as_bytes(), size));
            reader.read_to_string(&mut read).unwrap();
            assert_eq!(read, "[\u{feff}]");
        }
    }
}
