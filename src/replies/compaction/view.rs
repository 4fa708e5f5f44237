//! Selects the part of a conversation with segments that a prompt contains.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    agents::segments::{CompactionState, Segment},
    db::{Conn, DbError},
    ids::{AgentId, BEFORE_ALL_SEQS, CompactionId},
    memory::automatic::{self, SegmentEntry},
    realtime::hub::Conversation,
    replies::history::{self, Row, SeqRange},
    time::Timestamp,
};

use super::{
    pass::WAITED_MESSAGES_MAX,
    profile::Strategy,
    render::{SegmentState, Summarized, Summary, SummaryLine},
    store,
    window::{self, STEP},
};

/// Maximum number of segments in a summary, of entries in it, and of segments whose messages are included in the prompt. The newest
/// ones are used.
const SEGMENTS_MAX: i64 = 200;
const ENTRIES_MAX: i64 = 4_000;
const EXPANDED_MAX: usize = 8;

/// The part of a conversation that an agent's prompt contains.
#[derive(Debug, Clone)]
pub struct View {
    /// Sequence number of the first message in the prompt; `None` if the prompt contains the `sent` most recent messages.
    pub start: Option<i64>,
    /// Number of the most recent messages in the prompt.
    pub sent: usize,
    /// Maximum number of messages in the prompt if there is no `start`.
    pub sent_max: usize,
    /// True if a pass has to run first.
    pub is_due: bool,
    pub has_segments: bool,
}

impl View {
    /// Start of the agent's next window; `None` if messages before `start` do not all belong to segments yet.
    pub fn next_start(&self) -> Option<i64> {
        self.start.filter(|_| !self.is_due)
    }

    /// Selects which of the messages before the trigger message the prompt contains.
    pub async fn find(
        c: &mut Conn,
        conversation: Conversation,
        trigger_seq: i64,
        agent: AgentId,
        strategy: Strategy,
    ) -> Result<Self, DbError> {
        let (id, n) = (conversation.id(), strategy.window());
        let count = i64::try_from(n + STEP).unwrap_or(i64::MAX);
        let newest = store::newest_between(c, id, BEFORE_ALL_SEQS, trigger_seq, count).await?;
        let has_segments = strategy.is_on() && store::has_segments(c, id).await?;
        let (mut covered, mut stored) = (Vec::new(), None);
        if let Some(oldest) = newest.last().filter(|_| has_segments) {
            covered = store::list_since(c, id, *oldest).await?;
            stored = store::window_start(c, id, agent).await?;
        }
        let is_covered = |seq: i64| {
            let is_in = |segment: &Segment| segment.from_seq <= seq && seq <= segment.to_seq;
            covered.iter().any(is_in)
        };
        let window = window::choose(&newest, n, stored, has_segments, is_covered);
        let first = window.sent.checked_sub(1).and_then(|at| newest.get(at));
        let start = match (first, stored) {
            (Some(first), _) => *first,
            (None, Some(stored)) => stored,
            (None, None) => trigger_seq,
        };
        let mut is_due = window.is_due && strategy.is_on();
        if window.is_new && !is_due {
            is_due = has_gap(c, id, start).await?;
        }
        Ok(Self {
            start: has_segments.then_some(start),
            sent: window.sent,
            sent_max: n,
            is_due,
            has_segments,
        })
    }
}

/// Checks whether any of the messages that a pass before a reply would process does not belong to a segment. Older messages are left
/// to background passes.
async fn has_gap(c: &mut Conn, conversation: Uuid, start: i64) -> Result<bool, DbError> {
    let uncovered = store::uncovered(c, conversation, start, 1).await?;
    let Some(newest) = uncovered.first() else {
        return Ok(false);
    };
    let oldest = store::nth_newest(c, conversation, start, WAITED_MESSAGES_MAX).await?;
    Ok(oldest.is_none_or(|oldest| oldest <= *newest))
}

/// Times of the first and the last message of a segment.
struct SegmentDates {
    id: CompactionId,
    from: Timestamp,
    to: Timestamp,
}

/// Returns the dates of the segments that start in a range.
async fn dates_of(
    c: &mut Conn,
    conversation: Uuid,
    first: i64,
    last: i64,
) -> Result<Vec<SegmentDates>, DbError> {
    let rows: Vec<(CompactionId, Timestamp, Timestamp)> = c
        .q("select k.id, f.created_at, t.created_at from compactions k join messages f on f.id = k.from_message_id \
            join messages t on t.id = k.to_message_id where k.conversation_id = $1 and k.from_seq >= $2 and k.from_seq <= $3")
        .bind(conversation)
        .bind(first)
        .bind(last)
        .all()
        .await?;
    let dates = rows.into_iter();
    Ok(dates
        .map(|(id, from, to)| SegmentDates { id, from, to })
        .collect())
}

/// Returns the gists and entries of segments as lines.
async fn lines_of(
    c: &mut Conn,
    summarized: &[Segment],
    dates: &[SegmentDates],
) -> Result<Vec<SummaryLine>, DbError> {
    let ids = summarized.iter().map(|segment| segment.id);
    let mut found: HashMap<CompactionId, Vec<SegmentEntry>> = HashMap::new();
    for entry in automatic::list(c, ids, ENTRIES_MAX).await? {
        found.entry(entry.compaction_id).or_default().push(entry);
    }
    let mut lines: Vec<SummaryLine> = Vec::new();
    for segment in summarized {
        let state = SegmentState {
            id: segment.id,
            blanked: segment.blanked,
        };
        // The gist of a stale segment may contain text that has been edited since then.
        let has_gist = segment.state == CompactionState::Active && !segment.gist.is_empty();
        let date = dates.iter().find(|date| date.id == segment.id);
        let gist = date.filter(|_| has_gist);
        let gist = gist.map(|date| SummaryLine::gist(date.from, segment.gist.clone()));
        let entries = found.remove(&segment.id).unwrap_or_default();
        let own = gist.into_iter().chain(entries.iter().map(SummaryLine::of));
        lines.extend(own.map(|line| SummaryLine {
            segment: Some(state),
            ..line
        }));
    }
    Ok(lines)
}

/// Returns the summary of the messages before a sequence number, and the messages of expanded segments, which are included in the
/// prompt instead of their summaries.
pub(in crate::replies) async fn summary(
    c: &mut Conn,
    conversation: Conversation,
    start: i64,
) -> Result<(Option<Summary>, Vec<Row>), DbError> {
    let id = conversation.id();
    let mut segments = store::list_before(c, id, start, SEGMENTS_MAX).await?;
    segments.reverse();
    let Some((first, last)) = segments.first().zip(segments.last()) else {
        return Ok((None, Vec::new()));
    };
    let dates = dates_of(c, id, first.from_seq, last.from_seq).await?;
    let is_expanded = |segment: &Segment| segment.state == CompactionState::Expanded;
    let (expanded, summarized): (Vec<Segment>, Vec<Segment>) =
        segments.iter().cloned().partition(is_expanded);
    let lines = lines_of(c, &summarized, &dates).await?;
    let mut rows: Vec<Row> = Vec::new();
    for segment in expanded.iter().rev().take(EXPANDED_MAX).rev() {
        let range = SeqRange {
            from: segment.from_seq,
            to: segment.to_seq.min(start - 1),
        };
        rows.extend(history::between(c, conversation, range, 100).await?);
    }
    let day = |at: Timestamp| at.day().to_string();
    let summary = Summary {
        of: Summarized::Conversation,
        count: store::count_summarized(c, id, start).await?,
        from: dates
            .iter()
            .map(|date| date.from)
            .min()
            .map(day)
            .unwrap_or_default(),
        to: dates
            .iter()
            .map(|date| date.to)
            .max()
            .map(day)
            .unwrap_or_default(),
        lines,
        tokens_max: u64::MAX,
    };
    Ok((Some(summary).filter(|_| !summarized.is_empty()), rows))
}
