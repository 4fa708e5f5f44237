//! Messages that contain any of the given words, best first.
//!
//! The rarer a word, the more it counts. BM25 is computed as if every text had average length and contained the word once, because
//! length normalization ranked answers below short messages. For a common word, the newest messages are considered, then older ones
//! that also contain one or two of the other words, so that an old message with only common words is found too.
//!
//! An answer often lacks the words of its question. Therefore, a message also gets half of the score of the better one of its two
//! direct neighbors, and a quarter of the score of the better one of the next two. Matching neighbors of the best messages are ranked
//! as well. A message also scores higher if its thread contains more of the words. A thread is ranked by its best message and by the
//! words that it contains. `scripts/bench-locomo.py` measures both rankings.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::{
    index, irregular,
    spellings::with_articles,
    stems::{QUERY_WORDS_MAX, Stemmed, query_words},
    words::words,
};
use crate::{
    db::{
        Conn, DbError, Json,
        dialect::search::{
            self as store, ConversationScope, Found, Match, PassageScope, Phrase, Scope,
        },
    },
    ids::{ThreadId, UserId, WorkspaceId},
    realtime::hub::Conversation,
    sql_with_numbers, sql_with_seqs,
    time::Timestamp,
};

/// Maximum number of messages considered for each word in each of three steps: the newest messages, older ones with one other word,
/// and older ones with two.
const FOUND_MAX: i64 = 500;
/// Maximum number of other words that old messages with a common word must also contain. One is not enough, because a name often
/// consists of two words.
const MORE_WORDS_MAX: usize = 2;
/// Number of best messages that are ranked together with their neighbors.
const RANKED_MAX: usize = 200;
/// Fraction of a neighbor's score that is added to a message, by distance.
const NEIGHBOR_WEIGHTS: [f64; 2] = [0.5, 0.25];
/// Fraction of the thread's `coverage` score that is added to a message.
const THREAD_WEIGHT: f64 = 0.2;
/// Age in days at which the score of a message is halved.
const HALF_LIFE_DAYS: f64 = 90.0;
/// Maximum number of people and agents whose names are compared with the words.
const NAMES_MAX: i64 = 2_000;

/// Fraction of the texts below which a word is a sufficient match by itself.
const RARE_SHARE: f64 = 0.01;
/// A word that occurs in at most this many messages of a conversation is also a sufficient match, if they are at most 5 % of the
/// conversation's messages. `RARE_SHARE` alone would be too strict: in a conversation of a few hundred messages, a discussion of one
/// topic makes up more than 1 % of the messages.
const RARE_MESSAGES_MAX: i64 = 5;
const RARE_MESSAGES_PART: i64 = 20;
/// Maximum number of messages counted to determine the fraction for `RARE_SHARE`.
const COUNTED_MAX: i64 = 10_000;

/// A message with one or more of the words.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    pub(super) found: Found,
    pub(super) score: f64,
    thread_score: f64,
}

/// A word that is searched for.
struct Wanted {
    word: Stemmed,
    /// Factor by which the word's rarity is multiplied.
    weight: f64,
}

/// The best messages, and an exclusive upper bound of sequence numbers. A later call with this bound ranks the same messages.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) best: Vec<Ranked>,
    pub(super) below: i64,
}

impl Ranking {
    /// Numbers with their scores, best first.
    pub(super) fn scores(self) -> impl Iterator<Item = (i64, f64)> {
        let best = self.best.into_iter();
        best.map(|ranked| (ranked.found.seq, ranked.score))
    }
}

/// The weight of a word, and the sequence numbers of the messages that contain it or whose author has this name, newest first.
struct Hits {
    weight: f64,
    seqs: Vec<i64>,
}

/// Messages that are searched.
enum Searched<'a> {
    /// Messages in a scope that also match a condition; `found` collects the matches.
    Readable {
        scope: &'a Scope,
        what: &'a Match,
        found: HashMap<i64, Found>,
    },
    /// Messages of a conversation. Their rows are read, and access is checked, only for the best ones.
    Conversation(&'a ConversationScope),
    /// Passages of files. The file takes the place of the thread, and the number of the passage that of the sequence number.
    Passages {
        scope: &'a PassageScope<'a>,
        what: &'a Match,
        found: HashMap<i64, Found>,
    },
}

impl Searched<'_> {
    fn workspace(&self) -> Uuid {
        match self {
            Self::Readable { scope, .. } => scope.workspace,
            Self::Conversation(scope) => scope.workspace,
            Self::Passages { scope, .. } => scope.workspace,
        }
    }

    /// Exclusive upper bound of message numbers.
    fn below(&self) -> i64 {
        match self {
            Self::Readable { scope, .. } => scope.below,
            Self::Conversation(scope) => scope.below,
            Self::Passages { scope, .. } => scope.below,
        }
    }

    /// Exclusive lower bound of message numbers.
    fn above(&self) -> i64 {
        match self {
            Self::Readable { scope, .. } => scope.above,
            Self::Conversation(_) => -1,
            Self::Passages { scope, .. } => scope.above,
        }
    }

    /// Finds the newest messages before `below` that match a condition.
    async fn find(&mut self, c: &mut Conn, below: i64, what: Match) -> Result<Vec<i64>, DbError> {
        match self {
            Self::Readable {
                scope,
                what: condition,
                found,
            } => {
                let older = Scope { below, ..**scope };
                let what = joined(condition, what);
                let next = store::find_documents(c, &older, &what, FOUND_MAX).await?;
                found.extend(next.iter().map(|next| (next.seq, *next)));
                Ok(next.into_iter().map(|next| next.seq).collect())
            }
            Self::Conversation(scope) => {
                let next = store::find_in_conversation(c, scope, &what, below, FOUND_MAX).await?;
                Ok(next.into_iter().map(|(seq,)| seq).collect())
            }
            Self::Passages {
                scope,
                what: condition,
                found,
            } => {
                let older = PassageScope { below, ..**scope };
                let what = joined(condition, what);
                let next = store::find_passages(c, &older, &what, FOUND_MAX).await?;
                found.extend(next.iter().map(|next| {
                    let of_file = Found {
                        seq: next.no,
                        thread_id: ThreadId(next.file_id.0),
                        created_at: next.created_at,
                    };
                    (next.no, of_file)
                }));
                Ok(next.into_iter().map(|next| next.no).collect())
            }
        }
    }
}

/// Condition of a search together with that of a word.
fn joined(condition: &Match, word: Match) -> Match {
    Match {
        all: [&*condition.all, &*word.all].concat(),
        none: condition.none.clone(),
        ..word
    }
}

/// Ranks the messages that match `what` and contain any of the words of a text.
pub(super) async fn rank(
    c: &mut Conn,
    scope: &Scope,
    what: &Match,
    text: &str,
    now: Timestamp,
) -> Result<Ranking, DbError> {
    let scope = bounded(c, scope).await?;
    let searched = Searched::Readable {
        scope: &scope,
        what,
        found: HashMap::new(),
    };
    rank_searched(c, searched, text, now).await
}

/// Ranks the passages that match `what` and contain any of the words of a text.
pub(super) async fn rank_passages(
    c: &mut Conn,
    scope: &PassageScope<'_>,
    what: &Match,
    text: &str,
    now: Timestamp,
) -> Result<Ranking, DbError> {
    let newest = store::newest_passage(c, scope.workspace).await?;
    let scope = PassageScope {
        below: scope.below.min(newest + 1),
        ..*scope
    };
    let searched = Searched::Passages {
        scope: &scope,
        what,
        found: HashMap::new(),
    };
    rank_searched(c, searched, text, now).await
}

/// Ranks what contains any of the words of a text.
async fn rank_searched(
    c: &mut Conn,
    mut searched: Searched<'_>,
    text: &str,
    now: Timestamp,
) -> Result<Ranking, DbError> {
    let query = query_words(text).into_iter();
    let query: Vec<Wanted> = query.map(|word| Wanted { word, weight: 1.0 }).collect();
    let below = searched.below();
    let hits = hits(c, &mut searched, &query).await?;
    Ok(Ranking {
        best: ranked(c, searched, &hits, now).await?,
        below,
    })
}

/// Part of a conversation to search for old messages.
#[derive(Debug, Clone, Copy)]
pub struct OldPart {
    pub workspace: WorkspaceId,
    /// Person who can read the conversation.
    pub reader: UserId,
    pub conversation: Conversation,
    /// Only messages before this sequence number.
    pub below: i64,
}

/// An old message that matches a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldMatch {
    pub seq: i64,
    /// Number of words of the question that the message contains.
    pub matched: i64,
}

/// Finds messages with at least two words or one rare word of these texts in a part of a conversation, best first. Each text has a
/// weight; a word gets the weight of the first text that contains it.
pub async fn find_old(
    c: &mut Conn,
    part: &OldPart,
    texts: &[(&str, f64)],
    now: Timestamp,
) -> Result<Vec<OldMatch>, DbError> {
    let mut query: Vec<Wanted> = Vec::new();
    for (text, weight) in texts {
        for word in query_words(text) {
            let is_known = |known: &Wanted| known.word.stems == word.stems;
            if query.len() < QUERY_WORDS_MAX && !query.iter().any(is_known) {
                query.push(Wanted {
                    word,
                    weight: *weight,
                });
            }
        }
    }
    let scope = scope_of(c, part).await?;
    let mut searched = Searched::Conversation(&scope);
    let hits = hits(c, &mut searched, &query).await?;
    if hits.iter().all(|word| word.seqs.is_empty()) {
        return Ok(Vec::new());
    }
    let all: i64 = c
        .q("select count(*) from (select 1 from messages where conversation_id = $1 and seq < $2 and deleted_at is null limit $3) x")
        .bind(part.conversation.id())
        .bind(scope.below)
        .bind(COUNTED_MAX)
        .value()
        .await?;
    let mut matched: HashMap<i64, (i64, bool)> = HashMap::new();
    for word in &hits {
        let count = count(&word.seqs);
        let is_rare = is_rare(count, all) || is_in_few(count, all);
        for seq in &word.seqs {
            let of_message = matched.entry(*seq).or_default();
            of_message.0 += 1;
            of_message.1 |= is_rare;
        }
    }
    let best = ranked(c, searched, &hits, now).await?.into_iter();
    let old = best.filter_map(|ranked| {
        let seq = ranked.found.seq;
        let (matched, has_rare) = matched.get(&seq).copied()?;
        (matched > 1 || has_rare).then_some(OldMatch { seq, matched })
    });
    Ok(old.collect())
}

async fn scope_of(c: &mut Conn, part: &OldPart) -> Result<ConversationScope, DbError> {
    let id = match part.conversation {
        Conversation::Thread(id) => id.to_string(),
        Conversation::Fork(id) => id.to_string(),
    };
    let below = bound(c, part.workspace.0, part.below).await?;
    let conversation = part.conversation.id();
    Ok(ConversationScope {
        workspace: part.workspace.0,
        conversation,
        user: part.reader.0,
        term: Phrase::word(index::conversation_term(&id)),
        below,
        has_most: store::has_most(c, conversation, below).await?,
    })
}

/// Checks whether a word in `count` of `all` texts is a sufficient match by itself.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub fn is_rare(count: i64, all: i64) -> bool {
    (count as f64) < all as f64 * RARE_SHARE
}

/// Checks whether a word in `count` of `all` messages of a conversation is a sufficient match by itself.
fn is_in_few(count: i64, all: i64) -> bool {
    count <= RARE_MESSAGES_MAX && count * RARE_MESSAGES_PART <= all
}

/// Limits a scope to the messages that exist now.
async fn bounded(c: &mut Conn, scope: &Scope) -> Result<Scope, DbError> {
    let below = bound(c, scope.workspace, scope.below).await?;
    Ok(Scope { below, ..*scope })
}

/// Limits an exclusive upper bound to the messages that exist now.
async fn bound(c: &mut Conn, workspace: Uuid, below: i64) -> Result<i64, DbError> {
    let newest: Option<i64> = c
        .q("select max(seq) from messages where workspace_id = $1")
        .bind(workspace)
        .value()
        .await?;
    Ok(below.min(newest.unwrap_or(0) + 1))
}

/// Ranks the messages in which words were found, together with their neighbors, best first.
async fn ranked(
    c: &mut Conn,
    searched: Searched<'_>,
    hits: &[Hits],
    now: Timestamp,
) -> Result<Vec<Ranked>, DbError> {
    let mut own: HashMap<i64, f64> = HashMap::new();
    for word in hits {
        for seq in &word.seqs {
            *own.entry(*seq).or_default() += word.weight;
        }
    }
    let mut first: Vec<(i64, f64)> = own.iter().map(|(seq, score)| (*seq, *score)).collect();
    first.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    first.truncate(RANKED_MAX);
    let seqs = first.iter().map(|(seq, _)| *seq).collect();
    let sides = with_neighbors(neighbors(c, &searched, seqs).await?, |seq| {
        own.contains_key(&seq)
    });
    let (all, coverage) = match searched {
        Searched::Readable { found, .. } | Searched::Passages { found, .. } => {
            let coverage = coverage(hits, |seq| found.get(&seq).map(|found| found.thread_id));
            (found, coverage)
        }
        Searched::Conversation(scope) => {
            let seqs = sides.keys().copied().collect();
            let found = store::list_readable(c, scope, seqs).await?;
            let thread = found.first().map(|found| found.thread_id);
            let found = found.into_iter().map(|found| (found.seq, found));
            (found.collect(), coverage(hits, |_| thread))
        }
    };
    let score_of = |seq: &i64| own.get(seq).copied();
    let mut best: Vec<Ranked> = sides
        .iter()
        .filter_map(|(seq, sides)| {
            let (found, own) = (*all.get(seq)?, score_of(seq)?);
            let pairs = NEIGHBOR_WEIGHTS.into_iter().zip(sides);
            let added = pairs.map(|(weight, side)| {
                let scores = side.iter().filter_map(score_of);
                weight * scores.fold(0.0, f64::max)
            });
            let alone = own + added.sum::<f64>();
            let covered = coverage.get(&found.thread_id).copied().unwrap_or(0.0);
            let freshness = freshness(found.created_at, now);
            Some(Ranked {
                found,
                score: (alone + THREAD_WEIGHT * covered) * freshness,
                thread_score: (alone + covered) * freshness,
            })
        })
        .collect();
    best.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(b.found.seq.cmp(&a.found.seq))
    });
    Ok(best)
}

/// Neighbors of a message by distance, on both sides.
type Sides = [Vec<i64>; NEIGHBOR_WEIGHTS.len()];

/// Adds the matching neighbors of the best messages. For an added message, only the best messages count as its own neighbors, because
/// all others score less.
fn with_neighbors(
    of_best: HashMap<i64, [[Option<i64>; 2]; NEIGHBOR_WEIGHTS.len()]>,
    matches: impl Fn(i64) -> bool,
) -> HashMap<i64, Sides> {
    let mut all: HashMap<i64, Sides> = HashMap::new();
    for (seq, sides) in &of_best {
        for (distance, side) in sides.iter().enumerate() {
            for neighbor in side.iter().flatten() {
                if !of_best.contains_key(neighbor) && matches(*neighbor) {
                    all.entry(*neighbor).or_default()[distance].push(*seq);
                }
            }
        }
    }
    let of_best = of_best.into_iter();
    all.extend(of_best.map(|(seq, sides)| {
        let sides = sides.map(|side| side.into_iter().flatten().collect());
        (seq, sides)
    }));
    all
}

/// The best message of each thread, best thread first.
pub(super) fn by_thread(mut best: Vec<Ranked>) -> Vec<Ranked> {
    let mut threads = HashSet::new();
    best.retain(|message| threads.insert(message.found.thread_id.0));
    best.sort_by(|a, b| {
        let by_score = b.thread_score.total_cmp(&a.thread_score);
        by_score.then(b.found.seq.cmp(&a.found.seq))
    });
    best
}

/// Phrases that are marked as matches in a hit.
pub(super) fn shown_phrases(text: &str) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for word in query_words(text) {
        let begins = |stem: &String| word.word.starts_with(stem.as_str());
        let shortest = word
            .stems
            .iter()
            .filter(|stem| begins(stem))
            .min_by_key(|stem| stem.len());
        let shown = words(shortest.unwrap_or(&word.word));
        phrases.push(Phrase {
            is_prefix: shortest.is_some() && shown.iter().all(|word| !word.is_alone),
            words: shown.into_iter().map(|word| word.text).collect(),
        });
        phrases.extend(irregular::other_forms(&word.word).map(Phrase::word));
        phrases.extend(with_articles(&word.word).map(Phrase::word));
    }
    phrases
}

/// Factor for the age of a text.
pub fn freshness(created_at: Timestamp, now: Timestamp) -> f64 {
    let days = now.since(created_at).as_secs_f64() / (24.0 * 3600.0);
    0.5_f64.powf(days / HALF_LIFE_DAYS)
}

async fn hits(
    c: &mut Conn,
    searched: &mut Searched<'_>,
    query: &[Wanted],
) -> Result<Vec<Hits>, DbError> {
    let mut hits = Vec::new();
    if query.is_empty() {
        return Ok(hits);
    }
    let names: Vec<(Uuid, String)> = match searched {
        // Files have no author whose name counts.
        Searched::Passages { .. } => Vec::new(),
        Searched::Readable { .. } | Searched::Conversation(_) => {
            c.q("select u.id, u.name from members m join users u on u.id = m.user_id where m.workspace_id = $1 \
                 union all select a.id, a.name from agents a where a.workspace_id = $1 limit $2")
                .bind(searched.workspace())
                .bind(NAMES_MAX)
                .all()
                .await?
        }
    };
    let names: Vec<(Phrase, BTreeSet<String>)> = names
        .into_iter()
        .map(|(id, name)| {
            let author = index::author_term(&UserId(id).to_string());
            let words = words(&name).into_iter().map(|word| word.text);
            (Phrase::word(author), words.collect())
        })
        .collect();
    let groups: Vec<Vec<Phrase>> = query
        .iter()
        .map(|Wanted { word, .. }| {
            let named = names.iter().filter(|(_, words)| words.contains(&word.word));
            let authors = named.map(|(author, _)| author.clone());
            let stems = word.stems.iter().cloned().chain(with_articles(&word.word));
            let stems = stems.map(|stem| Phrase::word(index::stem_term(&stem)));
            stems.chain(authors).collect()
        })
        .collect();
    for (at, wanted) in query.iter().enumerate() {
        let mut others = groups.clone();
        let own = others.remove(at);
        let mut seqs: Vec<i64> = Vec::new();
        let (mut all, mut below) = (0, searched.below());
        for more in 0..=MORE_WORDS_MAX.min(others.len()) {
            let what = with_others(&own, more, &others);
            let next = searched.find(c, below, what).await?;
            if more == 0 {
                all = estimate(&next, searched);
            }
            // Newer messages were already found.
            below = next.last().copied().unwrap_or(below);
            let is_cut = is_cut(&next);
            seqs.extend(next);
            if !is_cut {
                break;
            }
        }
        hits.push(Hits {
            weight: wanted.weight * rarity(all, searched.below()),
            seqs,
        });
    }
    Ok(hits)
}

/// Condition that a message contains a word and at least `count` of the other words. `count` is at most 2, and at most the number of
/// `others`.
fn with_others(word: &[Phrase], count: usize, others: &[Vec<Phrase>]) -> Match {
    let mut what = Match {
        all: vec![word.to_vec()],
        ..Match::default()
    };
    match count {
        0 => {}
        1 => what.all.push(others.concat()),
        _ => what.two_of = others.to_vec(),
    }
    what
}

/// Checks whether the limit left out older messages.
fn is_cut(seqs: &[i64]) -> bool {
    count(seqs) >= FOUND_MAX
}

/// Estimated number of messages with a word: exact if all were found, otherwise extrapolated from the density of the newest ones.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an estimate"
)]
fn estimate(newest: &[i64], searched: &Searched<'_>) -> i64 {
    let count = count(newest);
    let Some(oldest) = newest.last().filter(|_| is_cut(newest)) else {
        return count;
    };
    let covered = (searched.below() - oldest).max(1);
    let all = (searched.below() - searched.above()).max(covered);
    (count as f64 * all as f64 / covered as f64) as i64
}

fn count(seqs: &[i64]) -> i64 {
    i64::try_from(seqs.len()).unwrap_or(i64::MAX)
}

/// Weight of a word in `count` of about `all` texts.
#[expect(clippy::cast_precision_loss, reason = "a weight")]
pub fn rarity(count: i64, all: i64) -> f64 {
    let (count, all) = (count as f64, all.max(count) as f64);
    (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
}

/// Sum of the weights of the words in each thread; a word counts more if more messages of the thread contain it.
fn coverage(hits: &[Hits], thread_of: impl Fn(i64) -> Option<ThreadId>) -> HashMap<ThreadId, f64> {
    let mut coverage: HashMap<ThreadId, f64> = HashMap::new();
    for word in hits {
        let mut counts: HashMap<ThreadId, f64> = HashMap::new();
        for thread in word.seqs.iter().filter_map(|seq| thread_of(*seq)) {
            *counts.entry(thread).or_default() += 1.0;
        }
        for (thread, count) in counts {
            *coverage.entry(thread).or_default() += word.weight * count / (count + 1.0);
        }
    }
    coverage
}

/// SQL column with the sequence number of a message's neighbor; later neighbors must be before `$3`.
macro_rules! neighbor {
    ($conversation:literal, $seq:literal, $which:literal, $rest:literal) => {
        concat!(
            ", (select p.seq from messages p where p.conversation_id = ",
            $conversation,
            " and p.deleted_at is null and p.kind <> 'notice' and p.seq ",
            $which,
            $seq,
            $rest,
            ")"
        )
    };
}

macro_rules! select_neighbors {
    ($conversation:literal, $seq:literal) => {
        concat!(
            "select ",
            $seq,
            neighbor!($conversation, $seq, "< ", " order by p.seq desc limit 1"),
            neighbor!(
                $conversation,
                $seq,
                "> ",
                " and p.seq < $3 order by p.seq limit 1"
            ),
            neighbor!(
                $conversation,
                $seq,
                "< ",
                " order by p.seq desc limit 1 offset 1"
            ),
            neighbor!(
                $conversation,
                $seq,
                "> ",
                " and p.seq < $3 order by p.seq limit 1 offset 1"
            ),
            " "
        )
    };
}

/// The neighbors of passages in their files, as far as they match. The passages of a part have consecutive numbers.
fn neighboring_passages(
    found: &HashMap<i64, Found>,
    numbers: Vec<i64>,
) -> HashMap<i64, [[Option<i64>; 2]; 2]> {
    let file_of = |no: i64| found.get(&no).map(|found| found.thread_id);
    let sides = numbers.into_iter().map(|no| {
        let beside = |other: i64| (file_of(other) == file_of(no)).then_some(other);
        let sides = [
            [beside(no - 1), beside(no + 1)],
            [beside(no - 2), beside(no + 2)],
        ];
        (no, sides)
    });
    sides.collect()
}

/// The neighbors of messages in their conversations: the messages directly before and after each one, then the next ones on both
/// sides.
async fn neighbors(
    c: &mut Conn,
    searched: &Searched<'_>,
    seqs: Vec<i64>,
) -> Result<HashMap<i64, [[Option<i64>; 2]; 2]>, DbError> {
    type Row = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
    let (sql, of) = match searched {
        Searched::Readable { scope, .. } => (
            sql_with_seqs!(
                c,
                concat!(
                    select_neighbors!("m.conversation_id", "m.seq"),
                    "from messages m where"
                ),
                "workspace_id" = 1,
                2,
                ""
            ),
            scope.workspace,
        ),
        Searched::Conversation(scope) => (
            sql_with_numbers!(
                c,
                concat!(select_neighbors!("$1", "m.value"), "from"),
                2,
                "m"
            ),
            scope.conversation,
        ),
        Searched::Passages { found, .. } => return Ok(neighboring_passages(found, seqs)),
    };
    let rows: Vec<Row> = c
        .q(sql)
        .bind(of)
        .bind(Json(seqs))
        .bind(searched.below())
        .all()
        .await?;
    let sides = rows
        .into_iter()
        .map(|(seq, before, after, before_2, after_2)| {
            (seq, [[before, after], [before_2, after_2]])
        });
    Ok(sides.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_of_the_best_messages_are_ranked_if_they_match() {
        let best = HashMap::from([
            (5, [[Some(4), Some(6)], [None, Some(7)]]),
            (7, [[Some(6), None], [Some(5), None]]),
        ]);
        let all = with_neighbors(best, |seq| seq != 4);
        let mut seqs: Vec<i64> = all.keys().copied().collect();
        seqs.sort_unstable();
        assert_eq!(seqs, [5, 6, 7]);
        let mut beside = all[&6][0].clone();
        beside.sort_unstable();
        assert_eq!((beside, all[&6][1].is_empty()), (vec![5, 7], true));
        assert_eq!(all[&5], [vec![4, 6], vec![7]]);
    }

    #[test]
    fn a_word_of_few_messages_is_sufficient_in_a_conversation_of_a_hundred() {
        assert!(is_in_few(5, 250) && is_in_few(5, 100) && is_in_few(1, 20));
        assert!(!is_in_few(6, 250) && !is_in_few(5, 99) && !is_in_few(2, 13));
    }

    #[test]
    fn a_number_of_further_words_is_a_condition() {
        let [a, b, c] = ["a", "b", "c"].map(|word| vec![Phrase::word(word)]);
        let others = [b.clone(), c.clone()];
        let condition = |count| {
            let what = with_others(&a, count, &others);
            (what.all, what.two_of)
        };
        assert_eq!(condition(0), (vec![a.clone()], vec![]));
        let any = [b.clone(), c.clone()].concat();
        assert_eq!(condition(1), (vec![a.clone(), any], vec![]));
        assert_eq!(condition(2), (vec![a.clone()], vec![b, c]));
    }
}
