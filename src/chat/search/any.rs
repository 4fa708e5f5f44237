//! Messages that contain any of the given words, best first.
//!
//! The rarer a word, the more it counts: BM25 as if every text had average length and contained the word once, because length
//! normalization ranked answers below short messages. For a common word, the newest messages are considered, then older ones that
//! also contain one or two of the other words, so that an old message with only common words is found too. An answer often lacks
//! the words of its question. Therefore half of the score of the better direct neighbor and a quarter of that of the better next
//! one are added to a message, and matching neighbors of the best messages are ranked as well. A message also scores higher if
//! its thread contains more of the words. A thread is ranked by its best message and by the words that it contains.
//! `scripts/bench-locomo.py` measures both rankings.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::{
    index, irregular,
    stems::{QUERY_WORDS_MAX, Stemmed, query_words},
    words::words,
};
use crate::{
    db::{
        Conn, DbError, Json,
        dialect::search::{self as store, Found, Match, Order, Phrase, Scope, Texts},
    },
    ids::{UserId, WorkspaceId},
    realtime::hub::Conversation,
    sql_with_numbers,
    time::Timestamp,
};

/// Maximum number of messages considered for each word: of the newest ones, of older ones with one other word, and of older ones
/// with two.
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
/// Number of people and agents whose names are compared with the words.
const NAMES_MAX: i64 = 2_000;

/// A word that occurs in a smaller fraction of the texts is a sufficient match by itself.
const RARE_SHARE: f64 = 0.01;
/// A word in at most this many messages of a conversation is also a sufficient match, if these are at most 5 % of its messages.
/// `RARE_SHARE` alone would be too strict: 1 % of a few hundred messages is less than a discussion of one topic has.
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
    /// Factor by which the weight for rarity is multiplied.
    weight: f64,
}

/// The best messages, and an upper bound for sequence numbers with which a later call ranks the same messages.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) best: Vec<Ranked>,
    pub(super) below: i64,
}

/// A word with its weight, and the messages that contain it or whose author has this name.
struct Hits {
    weight: f64,
    found: Vec<Found>,
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
    let query = query_words(text).into_iter();
    let query: Vec<Wanted> = query.map(|word| Wanted { word, weight: 1.0 }).collect();
    let hits = hits(c, &scope, what, &query).await?;
    Ok(Ranking {
        best: ranked(c, &scope, &hits, now).await?,
        below: scope.below,
    })
}

/// Part of a conversation to search for old messages.
#[derive(Debug, Clone, Copy)]
pub struct OldPart {
    pub workspace: WorkspaceId,
    /// Person who can read the conversation.
    pub reader: UserId,
    pub conversation: Conversation,
    /// Only messages before this seq.
    pub below: i64,
}

/// An old message that matches a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldMatch {
    pub seq: i64,
    /// Number of words in common.
    pub matched: i64,
}

/// Finds messages with two words or one rare word of these texts in a part of a conversation, best first. Each text has a weight;
/// a word gets the weight of the first text that contains it.
pub async fn find_old(
    c: &mut Conn,
    part: &OldPart,
    texts: &[(&str, f64)],
    now: Timestamp,
) -> Result<Vec<OldMatch>, DbError> {
    let scope = Scope {
        workspace: part.workspace.0,
        user: part.reader.0,
        shared_in: None,
        texts: Texts::All,
        except: None,
        above: -1,
        below: part.below,
        since: None,
        until: None,
        order: Order::Newest,
    };
    let scope = bounded(c, &scope).await?;
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
    let term = match part.conversation {
        Conversation::Thread(id) => index::conversation_term(&id.to_string()),
        Conversation::Fork(id) => index::conversation_term(&id.to_string()),
    };
    let what = Match {
        all: vec![vec![Phrase::word(term)]],
        none: Vec::new(),
    };
    let hits = hits(c, &scope, &what, &query).await?;
    if hits.iter().all(|word| word.found.is_empty()) {
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
        let count = count(&word.found);
        let is_rare = is_rare(count, all) || is_in_few(count, all);
        for found in &word.found {
            let of_message = matched.entry(found.seq).or_default();
            of_message.0 += 1;
            of_message.1 |= is_rare;
        }
    }
    let best = ranked(c, &scope, &hits, now).await?.into_iter();
    let old = best.filter_map(|ranked| {
        let seq = ranked.found.seq;
        let (matched, has_rare) = matched.get(&seq).copied()?;
        (matched > 1 || has_rare).then_some(OldMatch { seq, matched })
    });
    Ok(old.collect())
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
    let newest: Option<i64> = c
        .q("select max(seq) from messages where workspace_id = $1")
        .bind(scope.workspace)
        .value()
        .await?;
    let below = scope.below.min(newest.unwrap_or(0) + 1);
    Ok(Scope { below, ..*scope })
}

/// Ranks the messages in which words were found, together with their neighbors, best first.
async fn ranked(
    c: &mut Conn,
    scope: &Scope,
    hits: &[Hits],
    now: Timestamp,
) -> Result<Vec<Ranked>, DbError> {
    let mut own: HashMap<i64, f64> = HashMap::new();
    let mut all: HashMap<i64, Found> = HashMap::new();
    for word in hits {
        for found in &word.found {
            *own.entry(found.seq).or_default() += word.weight;
            all.insert(found.seq, *found);
        }
    }
    let mut first: Vec<(i64, f64)> = own.iter().map(|(seq, score)| (*seq, *score)).collect();
    first.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    first.truncate(RANKED_MAX);
    let seqs = first.iter().map(|(seq, _)| *seq).collect();
    let sides = with_neighbors(neighbors(c, scope, seqs).await?, |seq| {
        own.contains_key(&seq)
    });
    let coverage = coverage(hits);
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
            let covered = coverage.get(&found.thread_id.0).copied().unwrap_or(0.0);
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

/// Adds the matching neighbors of the best messages. Each one gets only those best messages as its own neighbors, because its
/// other neighbors score less.
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

/// The best message of each thread, ordered from the best thread.
pub(super) fn by_thread(mut best: Vec<Ranked>) -> Vec<Ranked> {
    let mut threads = HashSet::new();
    best.retain(|message| threads.insert(message.found.thread_id.0));
    best.sort_by(|a, b| {
        let by_score = b.thread_score.total_cmp(&a.thread_score);
        by_score.then(b.found.seq.cmp(&a.found.seq))
    });
    best
}

/// Phrases that a hit shows as matches.
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
    scope: &Scope,
    what: &Match,
    query: &[Wanted],
) -> Result<Vec<Hits>, DbError> {
    let mut hits = Vec::new();
    if query.is_empty() {
        return Ok(hits);
    }
    let names: Vec<(Uuid, String)> = c
        .q("select u.id, u.name from members m join users u on u.id = m.user_id where m.workspace_id = $1 \
            union all select a.id, a.name from agents a where a.workspace_id = $1 limit $2")
        .bind(scope.workspace)
        .bind(NAMES_MAX)
        .all()
        .await?;
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
            let stems = word.stems.iter();
            let stems = stems.map(|stem| Phrase::word(index::stem_term(stem)));
            stems.chain(authors).collect()
        })
        .collect();
    for (at, wanted) in query.iter().enumerate() {
        let mut others = groups.clone();
        let own = others.remove(at);
        let mut found: Vec<Found> = Vec::new();
        let (mut all, mut older) = (0, *scope);
        for more in 0..=MORE_WORDS_MAX.min(others.len()) {
            let mut what = what.clone();
            what.all.push(own.clone());
            what.all.extend(at_least(more, &others));
            let next = store::find_documents(c, &older, &what, FOUND_MAX).await?;
            if more == 0 {
                all = estimate(&next, scope);
            }
            // Messages from the oldest known one onward are already known.
            older.below = next.last().map_or(older.below, |oldest| oldest.seq);
            let is_cut = is_cut(&next);
            found.extend(next);
            if !is_cut {
                break;
            }
        }
        hits.push(Hits {
            weight: wanted.weight * rarity(all, scope.below),
            found,
        });
    }
    Ok(hits)
}

/// Condition that a message contains at least `count` of the words: it contains a word of each subset that omits `count - 1` of
/// them. `count` is at most 2, and there are at least `count` words.
fn at_least(count: usize, words: &[Vec<Phrase>]) -> Vec<Vec<Phrase>> {
    let any_but = |left_out: Option<usize>| {
        let kept = words.iter().enumerate();
        let kept = kept.filter(|(at, _)| Some(*at) != left_out);
        kept.flat_map(|(_, word)| word.clone()).collect()
    };
    match count {
        0 => Vec::new(),
        1 => vec![any_but(None)],
        _ => (0..words.len()).map(|at| any_but(Some(at))).collect(),
    }
}

/// Checks whether older messages were left out because of the limit.
fn is_cut(found: &[Found]) -> bool {
    count(found) >= FOUND_MAX
}

/// Estimated number of messages with a word: exact if all were found, otherwise extrapolated from the density of the newest ones.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an estimate"
)]
fn estimate(newest: &[Found], scope: &Scope) -> i64 {
    let count = count(newest);
    let Some(oldest) = newest.last().filter(|_| is_cut(newest)) else {
        return count;
    };
    let covered = (scope.below - oldest.seq).max(1);
    let all = (scope.below - scope.above).max(covered);
    (count as f64 * all as f64 / covered as f64) as i64
}

fn count(found: &[Found]) -> i64 {
    i64::try_from(found.len()).unwrap_or(i64::MAX)
}

/// Weight of a word in `count` of about `all` texts.
#[expect(clippy::cast_precision_loss, reason = "a weight")]
pub fn rarity(count: i64, all: i64) -> f64 {
    let (count, all) = (count as f64, all.max(count) as f64);
    (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
}

/// Sum of the weights of the words in each thread; a word counts more if more messages of the thread contain it.
fn coverage(hits: &[Hits]) -> HashMap<Uuid, f64> {
    let mut coverage: HashMap<Uuid, f64> = HashMap::new();
    for word in hits {
        let mut counts: HashMap<Uuid, f64> = HashMap::new();
        for found in &word.found {
            *counts.entry(found.thread_id.0).or_default() += 1.0;
        }
        for (thread, count) in counts {
            *coverage.entry(thread).or_default() += word.weight * count / (count + 1.0);
        }
    }
    coverage
}

/// The neighbors of messages in their conversations: the message before and the one after, then their neighbors.
async fn neighbors(
    c: &mut Conn,
    scope: &Scope,
    seqs: Vec<i64>,
) -> Result<HashMap<i64, [[Option<i64>; 2]; 2]>, DbError> {
    macro_rules! neighbor {
        ($order:literal) => {
            concat!(
                "(select p.seq from messages p where p.conversation_id = m.conversation_id and p.deleted_at is null and p.kind <> 'notice' and p.seq ",
                $order
            )
        };
    }
    type Row = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
    let sql = sql_with_numbers!(
        c,
        concat!(
            "select m.seq, ",
            neighbor!("< m.seq order by p.seq desc limit 1), "),
            neighbor!("> m.seq and p.seq < $3 order by p.seq limit 1), "),
            neighbor!("< m.seq order by p.seq desc limit 1 offset 1), "),
            neighbor!("> m.seq and p.seq < $3 order by p.seq limit 1 offset 1) "),
            "from messages m where m.workspace_id = $1 and m.seq in"
        ),
        2,
        ""
    );
    let rows: Vec<Row> = c
        .q(sql)
        .bind(scope.workspace)
        .bind(Json(seqs))
        .bind(scope.below)
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
    fn a_number_of_words_is_a_condition() {
        let [a, b, c] = ["a", "b", "c"].map(Phrase::word);
        let words = [vec![a.clone()], vec![b.clone()], vec![c.clone()]];
        assert!(at_least(0, &words).is_empty());
        assert_eq!(at_least(1, &words), [[a.clone(), b.clone(), c.clone()]]);
        let two = [[b.clone(), c.clone()], [a.clone(), c], [a, b]];
        assert_eq!(at_least(2, &words), two);
    }
}
