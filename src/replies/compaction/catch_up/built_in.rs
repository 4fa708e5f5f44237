//! Makes catch-up lines without a model.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use openvibe_extract::{Reading, plain_sentences};

use crate::{
    agents::segments::CompactionState,
    blocking::Interrupt,
    db::{Conn, DbError},
    ids::{MemoryId, MessageId, ThreadId},
    memory::{
        automatic::{self, SegmentEntry},
        entry::MemoryKind,
        sources::sources_of,
    },
    replies::{
        compaction::{
            check::{ITEM_CHARS_MAX, Source, shortened},
            draft::RawItem,
            item::{Item, SourceLine, rank},
            offline,
            pass::lines_of,
            store,
        },
        history::{Row, SeqRange},
    },
};

use super::{CatchUpLine, CatchUpSection, LINES_MAX, range::Range};

/// Maximum number of entries, and of resolutions, that are read.
const ENTRIES_MAX: i64 = 2_000;
const RESULTS_MAX: i64 = 200;

/// A sentence that can become a line. Its sources are positions of messages, in ascending order; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// `None` for the resolution of a fork, which comes first.
    pub kind: Option<MemoryKind>,
    pub text: String,
    pub sources: Vec<usize>,
}

impl Candidate {
    pub(super) fn of(item: Item) -> Self {
        Self {
            kind: Some(item.kind),
            text: item.text,
            sources: item.sources,
        }
    }

    fn rank(&self) -> usize {
        self.kind.map_or(0, |kind| rank(kind) + 1)
    }

    fn section(&self) -> CatchUpSection {
        match self.kind {
            None | Some(MemoryKind::Decision) => CatchUpSection::Decided,
            Some(MemoryKind::OpenLoop) => CatchUpSection::Open,
            Some(_) => CatchUpSection::Also,
        }
    }
}

/// Selects the most important sentences, preferring newer ones of the same importance. Returns them in the order of their messages,
/// and the number of sentences that were not selected. `messages` contains the message at each position.
pub(super) fn choose(
    candidates: Vec<Candidate>,
    messages: &[MessageId],
) -> (Vec<CatchUpLine>, i64) {
    let mut texts = HashSet::new();
    let mut found: Vec<Candidate> = candidates
        .into_iter()
        .filter(|candidate| texts.insert(candidate.text.to_lowercase()))
        .collect();
    found.sort_by_key(|candidate| (candidate.rank(), Reverse(candidate.sources.last().copied())));
    let left = found.len().saturating_sub(LINES_MAX);
    found.truncate(LINES_MAX);
    found.sort_by_key(|candidate| candidate.sources.first().copied());
    let lines = found.into_iter().map(|candidate| CatchUpLine {
        section: candidate.section(),
        author: None,
        at: None,
        sources: (candidate.sources.iter())
            .filter_map(|at| messages.get(*at).copied())
            .collect(),
        text: candidate.text,
    });
    (lines.collect(), i64::try_from(left).unwrap_or(i64::MAX))
}

/// Checks sentences against the messages in the same way as entries of segments.
pub(super) fn checked(source: &Source<'_>, reading: &Reading, items: &[RawItem]) -> Vec<Item> {
    let items = items.iter().filter_map(|raw| source.check_one(raw, ""));
    items
        .filter(|item| !offline::is_corrected(reading, &item.text, &item.sources))
        .collect()
}

/// Everything that is needed to make lines without a model.
pub(super) struct Material {
    rows: Vec<Row>,
    /// Ranges of segments with entries.
    covered: Vec<(i64, i64)>,
    entries: Vec<SegmentEntry>,
    sources: HashMap<MemoryId, Vec<MessageId>>,
    /// Headlines of published resolutions, by the message that publishes them.
    headlines: HashMap<MessageId, String>,
}

impl Material {
    pub(super) async fn load(
        c: &mut Conn,
        thread: ThreadId,
        range: Range,
        ends: SeqRange,
    ) -> Result<Self, DbError> {
        let segments = store::list_since(c, thread.0, ends.from).await?;
        let is_current =
            |state| matches!(state, CompactionState::Active | CompactionState::Expanded);
        let segments: Vec<_> = (segments.into_iter())
            .filter(|segment| segment.from_seq <= ends.to && is_current(segment.state))
            .collect();
        let ids = segments.iter().map(|segment| segment.id);
        let entries = automatic::list(c, ids, ENTRIES_MAX).await?;
        let sources = sources_of(c, entries.iter().map(|entry| entry.id).collect()).await?;
        let headlines: Vec<(MessageId, String)> = c
            .q("select r.message_id, r.headline from resolutions r join messages m on m.id = r.message_id \
                where r.thread_id = $1 and r.status = 'published' and m.seq between $2 and $3 order by m.seq desc limit $4")
            .bind(thread)
            .bind(ends.from)
            .bind(ends.to)
            .bind(RESULTS_MAX)
            .all()
            .await?;
        Ok(Self {
            rows: range.rows,
            covered: (segments.iter())
                .map(|segment| (segment.from_seq, segment.to_seq))
                .collect(),
            entries,
            sources,
            headlines: headlines.into_iter().collect(),
        })
    }

    /// Makes the lines. Processes all messages, so it must run in a blocking thread. Ends early, with what has been found until then, if
    /// time runs out.
    pub(super) fn lines(&self, time: &Time<'_>) -> BuiltIn {
        let messages: Vec<MessageId> = self.rows.iter().map(|row| row.id).collect();
        let at: HashMap<MessageId, usize> = (messages.iter().enumerate())
            .map(|(at, id)| (*id, at))
            .collect();
        let mut candidates = self.results();
        candidates.extend(self.remembered(&at));
        let (extracted, unread) = self.extracted(time);
        candidates.extend(extracted);
        let (lines, left) = choose(candidates, &messages);
        BuiltIn {
            lines,
            left,
            unread,
        }
    }

    fn results(&self) -> Vec<Candidate> {
        let results = self.rows.iter().enumerate().filter_map(|(at, row)| {
            let text = self.headlines.get(&row.id)?;
            Some(Candidate {
                kind: None,
                text: text.clone(),
                sources: vec![at],
            })
        });
        results.filter(|result| !result.text.is_empty()).collect()
    }

    /// Returns the entries whose sources are all in the range. Omits references, which are meaningless alone, and preferences, which
    /// are meant for agents.
    fn remembered(&self, at: &HashMap<MessageId, usize>) -> Vec<Candidate> {
        let is_told = |entry: &&SegmentEntry| {
            !matches!(entry.kind, MemoryKind::Reference | MemoryKind::Preference)
        };
        let entries = self.entries.iter().filter(is_told);
        let entries = entries.filter_map(|entry| {
            let sources = self.sources.get(&entry.id)?;
            let mut sources: Vec<usize> = sources
                .iter()
                .map(|id| at.get(id).copied())
                .collect::<Option<_>>()?;
            sources.sort_unstable();
            let is_result = |at: &usize| self.headlines.contains_key(&self.rows[*at].id);
            let sentences = plain_sentences(&entry.text);
            let text = shortened(sentences.iter().map(String::as_str), ITEM_CHARS_MAX);
            let is_new = !sources.is_empty() && !sources.iter().all(is_result) && !text.is_empty();
            is_new.then_some(Candidate {
                kind: Some(entry.kind),
                text,
                sources,
            })
        });
        entries.collect()
    }

    /// Returns sentences from messages that are neither part of a segment nor a published resolution, and the number of the oldest such
    /// messages for which there was no time.
    fn extracted(&self, time: &Time<'_>) -> (Vec<Candidate>, usize) {
        let is_covered = |row: &Row| {
            let mut covered = self.covered.iter();
            covered.any(|(from, to)| (*from..=*to).contains(&row.seq))
        };
        let is_told = |row: &Row| is_covered(row) || self.headlines.contains_key(&row.id);
        let mut places: Vec<usize> = (0..self.rows.len())
            .filter(|at| !is_told(&self.rows[*at]))
            .collect();
        let rows: Vec<Row> = places.iter().map(|at| self.rows[*at].clone()).collect();
        let (mut lines, people) = lines_of(&rows);
        if lines.is_empty() {
            return (Vec::new(), 0);
        }
        let material = offline::material(&lines, &people);
        let (reading, unread) = Reading::newest(&material, &|| time.is_over(time.read_until));
        lines.drain(..unread);
        places.drain(..unread);
        if lines.is_empty() {
            return (Vec::new(), unread);
        }
        let raw = sentences_of(&reading, &lines);
        let source = Source::new(&lines, &people, &[]);
        let raw = raw.iter().take_while(|_| !time.is_over(time.until));
        let items = raw.flat_map(|raw| checked(&source, &reading, std::slice::from_ref(raw)));
        let candidates = items.map(|item| Candidate {
            sources: item.sources.iter().map(|at| places[*at]).collect(),
            ..Candidate::of(item)
        });
        (candidates.collect(), unread)
    }
}

/// Lines that were made without a model.
#[derive(Debug, Default)]
pub(super) struct BuiltIn {
    pub lines: Vec<CatchUpLine>,
    /// Number of sentences that did not fit.
    pub left: i64,
    /// Number of the oldest messages for which there was no time.
    pub unread: usize,
}

/// Time for the lines of a catch-up. The work looks at it between messages.
pub(super) struct Time<'a> {
    /// Ends the reading of messages; the rest of the time is for the checks of their sentences.
    read_until: Instant,
    until: Instant,
    interrupt: &'a Interrupt,
}

impl<'a> Time<'a> {
    pub(super) fn new(length: Duration, interrupt: &'a Interrupt) -> Self {
        let now = Instant::now();
        Self {
            read_until: now + length / 2,
            until: now + length,
            interrupt,
        }
    }

    fn is_over(&self, until: Instant) -> bool {
        self.interrupt.is_set() || Instant::now() >= until
    }
}

/// Words of a text, without those with digits, because corrections replace values.
fn words_of(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty() && !word.contains(char::is_numeric));
    words.map(str::to_lowercase).collect()
}

/// Reduces the sources of a sentence to the message that it quotes. Returns false if it joins several messages.
fn quotes_one(item: &mut RawItem, lines: &[SourceLine]) -> bool {
    if item.sources.len() < 2 {
        return true;
    }
    let words = words_of(&item.text);
    let is_quoted = |handle: &&String| {
        let number = handle.strip_prefix('m').and_then(|n| n.parse().ok());
        let line = number.and_then(|n: usize| lines.get(n.checked_sub(1)?));
        line.is_some_and(|line| words.is_subset(&words_of(&line.text)))
    };
    let quoted = item.sources.iter().find(is_quoted).cloned();
    if let Some(quoted) = &quoted {
        item.sources = vec![quoted.clone()];
    }
    quoted.is_some()
}

/// Returns decisions, tasks, and values as they would be stored as entries, then whatever else the extractor finds in other messages.
/// Each sentence quotes one message.
fn sentences_of(reading: &Reading, lines: &[SourceLine]) -> Vec<RawItem> {
    let mut items = Vec::new();
    let mut known = HashSet::new();
    for mut item in offline::draft(reading, lines).items {
        let sources = item.sources.clone();
        if quotes_one(&mut item, lines) {
            known.extend(sources);
            items.push(item);
        }
    }
    let outline = reading.outline();
    let points = |kind: MemoryKind, points: Vec<openvibe_extract::Point>| {
        let points = points.into_iter();
        points.map(move |point| raw(kind, point.text, &point.sources))
    };
    let tasks = outline.action_items.into_iter();
    let tasks = tasks.map(|task| raw(MemoryKind::Todo, task.text, &task.sources));
    // Without the question, the statement would be unclear.
    let decisions = reading.decisions().into_iter();
    let decisions = decisions.filter(|decision| decision.asked.is_none());
    let decisions =
        decisions.map(|one| raw(MemoryKind::Decision, one.stated.text, &[one.stated.line]));
    let others = decisions
        .chain(points(MemoryKind::OpenLoop, outline.open_questions))
        .chain(tasks)
        .chain(points(MemoryKind::Fact, outline.key_points));
    for mut other in others {
        let sources = other.sources.clone();
        let is_new = !sources.iter().any(|source| known.contains(source));
        if is_new && quotes_one(&mut other, lines) {
            known.extend(sources);
            items.push(other);
        }
    }
    items
}

/// Creates an item with the handles of its messages. If there are no handles, the check searches for the message.
fn raw(kind: MemoryKind, text: String, sources: &[usize]) -> RawItem {
    RawItem {
        text,
        kind: kind.to_string(),
        sources: sources.iter().map(|at| format!("m{}", at + 1)).collect(),
        about: None,
        for_agent: false,
    }
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::*;

    fn candidate(kind: Option<MemoryKind>, text: &str, sources: &[usize]) -> Candidate {
        Candidate {
            kind,
            text: text.to_owned(),
            sources: sources.to_vec(),
        }
    }

    fn ids(count: usize) -> Vec<MessageId> {
        (0..count).map(|_| MessageId::new()).collect()
    }

    #[test]
    fn results_and_open_questions_are_kept_before_facts_and_lines_follow_the_messages() {
        let messages = ids(20);
        let fact = |at: usize| candidate(Some(MemoryKind::Fact), &format!("Fact {at}"), &[at]);
        let mut all: Vec<Candidate> = (0..15).map(fact).collect();
        all.push(candidate(Some(MemoryKind::OpenLoop), "Who pays?", &[0, 2]));
        all.push(candidate(None, "We launch on Monday", &[1]));
        all.push(candidate(None, "WE LAUNCH on Monday", &[3]));
        let (lines, left) = choose(all, &messages);
        let texts: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(texts[..3], ["Who pays?", "We launch on Monday", "Fact 5"]);
        assert_eq!((lines.len(), left), (12, 5));
        assert_eq!(lines[0].sources, [messages[0], messages[2]]);
    }

    #[test]
    fn lines_without_a_model_are_quotes_with_their_messages() {
        let line = |person: usize, text: &str| SourceLine {
            person: Some(person),
            name: ["Ada", "Bo"][person].to_owned(),
            text: text.to_owned(),
            day: NaiveDate::from_ymd_opt(2026, 11, 20).unwrap_or_default(),
            is_resolution: false,
            asks: None,
        };
        let lines = [
            line(0, "morning all"),
            line(
                1,
                "Decision: we ship the importer to all customers on Friday, 27 November.",
            ),
            line(
                0,
                "Who tells the customers in Basel about the new importer?",
            ),
        ];
        let reading = Reading::new(&offline::material(&lines, &[]));
        let raw = sentences_of(&reading, &lines);
        let items = checked(&Source::new(&lines, &[], &[]), &reading, &raw);
        assert!(
            items
                .iter()
                .any(|item| item.text.contains("Friday") && item.sources.contains(&1)),
            "{items:?}"
        );
        assert!(
            !items.iter().any(|item| item.text.contains("morning")),
            "{items:?}"
        );
    }

    #[test]
    fn a_line_quotes_one_message_or_is_left_out() {
        let line = |person: usize, text: &str| SourceLine {
            person: Some(person),
            name: ["Ada", "Bo", "Cem"][person].to_owned(),
            text: text.to_owned(),
            day: NaiveDate::from_ymd_opt(2026, 11, 20).unwrap_or_default(),
            is_resolution: false,
            asks: None,
        };
        let lines = [
            line(0, "Do we ship the importer on Friday or on Monday?"),
            line(1, "Monday, because nobody works on Saturday."),
            line(2, "Agreed, Monday."),
            line(0, "Decision: the importer ships on Monday, at nine."),
            line(1, "I write the notes until Sunday."),
        ];
        let reading = Reading::new(&offline::material(&lines, &[]));
        for item in sentences_of(&reading, &lines) {
            assert!(item.sources.len() < 2, "{item:?}");
        }
        let joined = "Do we ship the importer on Friday or on Monday? Monday, because nobody works on Saturday.";
        let mut item = raw(MemoryKind::Decision, joined.to_owned(), &[0, 1]);
        assert!(!quotes_one(&mut item, &lines));
        let quote = "because nobody works on Saturday".to_owned();
        let mut item = raw(MemoryKind::Decision, quote, &[0, 1]);
        assert!(quotes_one(&mut item, &lines));
        assert_eq!(item.sources, ["m2"]);
    }
}
