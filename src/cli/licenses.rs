//! `openvibe licenses`.

use std::io::{self, Read};

use flate2::read::GzDecoder;

use super::output::say;

/// License of this program.
const OWN: &str = include_str!("../../LICENSE");
/// Licenses of everything else in it, compressed; empty unless `make release` built the program.
static OTHERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/notices.gz"));

/// Prints the licenses of everything that is part of the program.
pub(super) fn print() -> anyhow::Result<()> {
    say(OWN.trim_end());
    say("");
    say(match unpack(OTHERS)?.as_deref() {
        Some(others) => others.trim_end(),
        None => {
            "This program was not made by `make release`, so the licenses of its dependencies are only in their packages."
        }
    });
    Ok(())
}

/// `None` if there is nothing to unpack.
fn unpack(compressed: &[u8]) -> io::Result<Option<String>> {
    if compressed.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn licenses_are_unpacked() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(b"adler2: MIT").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(unpack(&packed).unwrap().as_deref(), Some("adler2: MIT"));
        assert_eq!(unpack(b"").unwrap(), None);
        assert!(unpack(b"not gzip").is_err());
    }
}
