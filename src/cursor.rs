//! List positions as opaque cursors for clients. A cursor is valid only for its kind of list and only in the exact
//! form in which it was returned.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// Part of a list that is sorted by creation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange<Id> {
    /// Only objects after this one.
    pub after: Option<Id>,
    /// Only the last objects before this one.
    pub before: Option<Id>,
}

impl<Id> PageRange<Id> {
    pub const ALL: Self = Self {
        after: None,
        before: None,
    };
}

/// Creates a cursor for a kind of list. Sequence numbers of imported messages are negative.
pub fn write(list: &str, place: &[i64]) -> String {
    let mut text = list.to_owned();
    for number in place {
        text.push(':');
        text.push_str(&number.to_string());
    }
    URL_SAFE_NO_PAD.encode(text)
}

/// Creates a cursor for the position of an object in a list. Cursors contain 63-bit numbers, so the lower half of the ID is split in
/// two.
pub fn write_id(list: &str, id: uuid::Uuid) -> String {
    let (high, low) = id.as_u64_pair();
    let number = |part: u64| i64::try_from(part).unwrap_or_default();
    write(
        list,
        &[number(high), number(low >> 32), number(low & 0xffff_ffff)],
    )
}

/// Parses a cursor for the position of an object in this kind of list.
///
/// # Errors
/// `None` for any string that `write_id` never returns.
pub fn read_id(list: &str, cursor: &str) -> Option<uuid::Uuid> {
    let [high, upper, lower] = read::<3>(list, cursor)?;
    let (upper, lower) = (u32::try_from(upper).ok()?, u32::try_from(lower).ok()?);
    let low = (u64::from(upper) << 32) | u64::from(lower);
    let high = u64::try_from(high).ok()?;
    Some(uuid::Uuid::from_u64_pair(high, low))
}

/// Parses a cursor of this kind of list.
///
/// # Errors
/// `None` for any string that `write` never returns.
pub fn read<const N: usize>(list: &str, cursor: &str) -> Option<[i64; N]> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let mut place = [0; N];
    let mut numbers = text.strip_prefix(list)?.strip_prefix(':')?.split(':');
    for slot in &mut place {
        *slot = numbers.next()?.parse().ok()?;
    }
    // Rejects other spellings of the same numbers, such as `+7` and `007`.
    (write(list, &place) == cursor).then_some(place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus;

    const LISTS: [&str; 3] = ["threads", "search", "decisions"];

    #[test]
    fn every_corpus_cursor_belongs_to_one_list_or_none() {
        for case in corpus::cases("cursors", "cursor") {
            let cursor = String::from_utf8_lossy(&case.bytes);
            let mut taken: Vec<String> = LISTS
                .iter()
                .filter_map(|list| Some(format!("{list} {:?}", read::<1>(list, &cursor)?)))
                .collect();
            taken.extend(read::<2>("ranked", &cursor).map(|place| format!("ranked {place:?}")));
            case.expect(&taken.join("\n"));
        }
    }

    proptest! {
        #![proptest_config(corpus::config(256))]

        #[test]
        fn encoded_cursors_are_decoded(list in "[a-z]{1,12}", place: [i64; 2]) {
            let cursor = write(&list, &place);
            prop_assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(read::<2>(&list, &cursor), Some(place));
            prop_assert_eq!(read::<1>(&list, &cursor), None);
            prop_assert_eq!(read::<3>(&list, &cursor), None);
            prop_assert_eq!(read::<2>("another", &cursor), None);
        }

        #[test]
        fn other_values_are_rejected(cursor in corpus::mutated_text("cursors", "cursor", &["A", "=", "-", "dGhyZWFkczo0Mg", "Og"])) {
            for list in LISTS {
                if let Some(place) = read::<1>(list, &cursor) {
                    prop_assert_eq!(write(list, &place), cursor.as_str());
                }
            }
        }
    }
}
