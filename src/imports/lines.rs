//! Lines of an entry, one at a time.

use std::{
    io::{BufRead, BufReader, Read},
    ops::ControlFlow,
};

use super::utf8::ValidUtf8;

/// Maximum size of a line.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line, or the reason why it cannot be read.
pub(super) type Line<'a> = Result<&'a [u8], String>;

/// Calls `each` with every line and its number, from 1 on, until it breaks.
pub(super) fn each_line(
    reader: &mut dyn Read,
    each: &mut dyn FnMut(i64, Line<'_>) -> ControlFlow<()>,
) -> Result<(), String> {
    let mut reader = BufReader::with_capacity(256 * 1024, ValidUtf8::new(reader));
    let mut line = Vec::new();
    for n in 1.. {
        line.clear();
        let mut bounded = (&mut reader).take(LINE_BYTES_MAX);
        let len = bounded
            .read_until(b'\n', &mut line)
            .map_err(|e| e.to_string())?;
        if len == 0 {
            break;
        }
        let is_cut = len as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n');
        let read = if is_cut {
            reader.skip_until(b'\n').map_err(|e| e.to_string())?;
            Err(format!("line {n} is larger than {LINE_BYTES_MAX} bytes"))
        } else {
            Ok(line.trim_ascii())
        };
        if matches!(read, Ok([])) {
            continue;
        }
        if each(n, read).is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = "x".repeat(usize::try_from(LINE_BYTES_MAX).unwrap() + 10);
        let text = format!("one\n\n{long}\ntwo");
        let mut lines = Vec::new();
        each_line(&mut text.as_bytes(), &mut |n, line| {
            lines.push((n, line.map(<[u8]>::len)));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(
            (lines.len(), &lines[0], &lines[2]),
            (3, &(1, Ok(3)), &(4, Ok(3)))
        );
        assert!(lines[1].1.is_err());
    }
}
