//! Positions in lists that are sorted by a sequence number and an ID, newest first.

use uuid::Uuid;

use crate::{chat::ChatError, cursor};

/// Part of a list: rows before this position, newest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) id: Uuid,
}

/// Cursor of the page after a row.
pub(super) fn cursor(list: &str, seq: i64, id: Uuid) -> String {
    let (high, low) = id.as_u64_pair();
    let number = |part: u64| i64::try_from(part).unwrap_or_default();
    cursor::write(
        list,
        &[
            seq,
            number(high >> 32),
            number(high & 0xffff_ffff),
            number(low >> 32),
            number(low & 0xffff_ffff),
        ],
    )
}

/// Parses the position after which a page begins.
///
/// # Errors
/// `Invalid`.
pub(super) fn parse(list: &str, cursor: Option<&str>) -> Result<Position, ChatError> {
    let Some(text) = cursor.filter(|text| !text.is_empty()) else {
        return Ok(Position {
            seq: i64::MAX,
            id: Uuid::max(),
        });
    };
    let position = cursor::read::<5>(list, text).and_then(|[seq, parts @ ..]| {
        let mut id: u128 = 0;
        for part in parts {
            id = (id << 32) | u128::from(u32::try_from(part).ok()?);
        }
        Some(Position {
            seq,
            id: Uuid::from_u128(id),
        })
    });
    position.ok_or_else(|| {
        ChatError::Invalid(
            "the cursor does not belong to this list: use `next_cursor` of the previous page"
                .to_owned(),
            "cursor",
        )
    })
}
