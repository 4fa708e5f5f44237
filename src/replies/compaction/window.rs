//! Selects the window of messages in a prompt. The start of the window moves only once the newest N messages and `STEP` more follow
//! it.

/// Number of messages, in addition to the newest N, that follow the start of the window before it moves.
pub const STEP: usize = 24;

/// The window of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Number of the most recent messages in the window.
    pub sent: usize,
    /// True if too many messages do not belong to a segment, so that a pass has to run before the reply.
    pub is_due: bool,
    /// True if the window has moved; all messages before it must then belong to segments.
    pub is_new: bool,
}

/// Selects the window. `newest` contains the sequence numbers of the messages before the trigger message, newest first, at most `n +
/// STEP` of them.
pub fn choose(
    newest: &[i64],
    n: usize,
    stored_start: Option<i64>,
    has_segments: bool,
    is_covered: impl Fn(i64) -> bool,
) -> Window {
    let full = n + STEP;
    if !has_segments {
        return Window {
            sent: newest.len().min(n),
            is_due: newest.len() >= full,
            is_new: false,
        };
    }
    let since_start = stored_start.map_or(full, |start| {
        newest.iter().take_while(|seq| **seq >= start).count()
    });
    if since_start < full && since_start < newest.len().max(1) {
        return Window {
            sent: since_start,
            is_due: false,
            is_new: false,
        };
    }
    let before = newest.iter().skip(n).take_while(|seq| !is_covered(**seq));
    let sent = newest.len().min(n) + before.count();
    match sent {
        sent if sent >= full => Window {
            sent: n,
            is_due: true,
            is_new: true,
        },
        sent => Window {
            sent,
            is_due: false,
            is_new: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Window of a conversation of `count` messages with the sequence numbers 1, 2, …, of which the first `covered` are in segments.
    fn window(count: i64, covered: i64, start: Option<i64>) -> (usize, bool) {
        let newest: Vec<i64> = (1..=count).rev().take(50 + STEP).collect();
        let window = choose(&newest, 50, start, covered > 0, |seq| seq <= covered);
        (window.sent, window.is_due)
    }

    #[test]
    fn without_segments_the_newest_messages_are_sent() {
        assert_eq!(window(30, 0, None), (30, false));
        assert_eq!(window(73, 0, None), (50, false));
        assert_eq!(window(74, 0, None), (50, true));
    }

    #[test]
    fn the_start_stays_until_the_window_is_full() {
        assert_eq!(window(112, 60, Some(50)), (63, false));
        assert_eq!(window(122, 60, Some(50)), (73, false));
        assert_eq!(window(123, 60, Some(50)), (63, false));
        assert_eq!(window(123, 73, Some(50)), (50, false));
    }

    #[test]
    fn a_new_window_begins_behind_the_segments_but_has_at_least_n_messages() {
        assert_eq!(window(100, 40, None), (60, false));
        assert_eq!(window(100, 90, None), (50, false));
        assert_eq!(window(100, 20, None), (50, true));
    }

    #[test]
    fn after_a_pass_up_to_the_newest_messages_fewer_are_sent() {
        assert_eq!(window(100, 90, Some(91)), (10, false));
        assert_eq!(window(60, 60, Some(61)), (0, false));
    }
}
