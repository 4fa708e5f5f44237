//! Short texts of items.

/// Maximum length of an item's text, in UTF-16 code units.
pub(super) const TEXT_UNITS_MAX: usize = 240;
/// Maximum length of an item's title, in UTF-16 code units.
pub(super) const TITLE_UNITS_MAX: usize = 200;
/// Length of the text before a mention, in UTF-16 code units.
const BEFORE_UNITS: usize = 80;

/// The beginning of a text, on one line.
pub(super) fn beginning(text: &str, units_max: usize) -> String {
    around(text, 0, units_max)
}

/// Part of a text around a mention of a handle, on one line; the beginning if the text does not contain the handle.
pub(super) fn around_handle(text: &str, handle: &str) -> String {
    let name = format!("@{handle}");
    let lower = text.to_lowercase();
    // Lowercase can have another length, so the position is only valid if it has not.
    let at = lower.find(&name).filter(|_| lower.len() == text.len());
    around(text, at.unwrap_or(0), TEXT_UNITS_MAX)
}

/// At most `units_max` code units of a text, with the byte `at`, on one line. An ellipsis stands for what is left out.
fn around(text: &str, at: usize, units_max: usize) -> String {
    let line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = line(text.get(..at).unwrap_or_default());
    let after = line(text.get(at..).unwrap_or(text));
    let whole = if before.is_empty() {
        after.clone()
    } else {
        format!("{before} {after}")
    };
    if whole.encode_utf16().count() <= units_max {
        return whole;
    }
    let kept: Vec<char> = {
        let mut units = 0;
        let back = before.chars().rev().take_while(|c| {
            units += c.len_utf16();
            units < BEFORE_UNITS
        });
        back.collect()
    };
    let is_cut = kept.len() < before.chars().count();
    let mut cut: String = if is_cut {
        "…".to_owned()
    } else {
        String::new()
    };
    cut.extend(kept.iter().rev());
    if !before.is_empty() {
        cut.push(' ');
    }
    let mut units = cut.encode_utf16().count() + 1;
    for c in after.chars() {
        units += c.len_utf16();
        if units > units_max {
            return format!("{}…", cut.trim_end());
        }
        cut.push(c);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_kept_on_one_line() {
        assert_eq!(
            around_handle("Hi @bo,\n\ncan you?", "bo"),
            "Hi @bo, can you?"
        );
    }

    #[test]
    fn a_long_text_is_cut_around_the_handle() {
        let text = format!("{} @bo {}", "word ".repeat(200), "later ".repeat(200));
        let cut = around_handle(&text, "bo");
        assert!(
            cut.contains("@bo later") && cut.starts_with('…') && cut.ends_with('…'),
            "{cut}"
        );
        assert!(cut.encode_utf16().count() <= TEXT_UNITS_MAX, "{cut}");
        let cut = beginning(&"😀".repeat(300), TEXT_UNITS_MAX);
        assert_eq!(cut.encode_utf16().count(), 239, "{cut}");
    }
}
