//! Selects the entries for a reply: those that match the question, among the ones that everyone in the conversation can
//! read. Also finds old messages of the conversation.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use crate::{
    agents::{policy, profiles::MemoryScopes, switch::SwitchLevel},
    chat::search::{
        any::{self, OldMatch, OldPart, freshness, is_rare, rarity},
        shared::{self, Readers},
    },
    db::{
        Conn, DbError,
        dialect::{
            hexadecimal_ids,
            memory::{self as store, QueryWord, Use},
        },
        is_in_visible_channel, now,
    },
    ids::{AgentId, ApiKeyId, ChannelId, MemoryId, MessageId, ThreadId, UserId, WorkspaceId},
    memory::{
        content::words_in_order,
        entry::{MemoryKind, MemoryScope},
        settings,
    },
    realtime::hub::Conversation,
    sql_with_ids,
    time::Timestamp,
};

/// Maximum number of words for which entries are searched.
const WORDS_MAX: usize = 16;
const QUESTION_WEIGHT: f64 = 1.0;
/// Weights of the requester's previous message, and of the thread's title.
const PREVIOUS_WEIGHT: f64 = 0.5;
const TITLE_WEIGHT: f64 = 0.25;
/// Number of messages that are searched for the requester's previous message.
const PREVIOUS_AMONG: i64 = 100;
/// Maximum number of entries that may contain a word that is searched for. More common words are ignored when entries are selected.
const WORD_ENTRIES_MAX: i64 = 2_000;
/// Maximum number of entries that are counted to determine how common a word is.
const COUNTED_MAX: i64 = 10_000;
/// Maximum number of entries that are considered.
const CONSIDERED_MAX: i64 = 200;
/// Maximum number of entries in a reply.
pub const USED_MAX: usize = 8;
const FLAGGED_WEIGHT: f64 = 0.5;

/// A reply for which entries are recalled.
#[derive(Debug, Clone, Copy)]
pub struct Recall<'a> {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    /// API key that posted the question.
    pub api_key: Option<ApiKeyId>,
    pub agent: AgentId,
    /// Handle of the agent; its mentions are not searched for.
    pub handle: &'a str,
    /// Memory scopes in the agent's profile, which can turn some of them off.
    pub scopes: Option<&'a MemoryScopes>,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub conversation: Conversation,
    pub trigger: MessageId,
    pub trigger_seq: i64,
    pub question: &'a str,
    /// Entries that the conversation's summary may contain.
    pub summary: &'a HashSet<MemoryId>,
    /// `seq` before which messages of the conversation are searched; `None` if there are no older messages.
    pub window_start: Option<i64>,
}

/// Entries for a reply, best first, and the number of matching entries by scope. Entries that the summary may contain do not count
/// toward the maximum, because only rendering the summary determines whether it contains them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recalled {
    pub considered: BTreeMap<MemoryScope, i64>,
    pub used: Vec<RecalledEntry>,
    /// Old messages of the conversation, best first.
    pub messages: Vec<OldMatch>,
    /// The first level that stops all entries.
    pub stopped_by: Option<SwitchLevel>,
}

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct RecalledEntry {
    pub id: MemoryId,
    pub scope: MemoryScope,
    pub kind: MemoryKind,
    pub text: String,
    /// Owner of a personal entry. The entry is shown only to this person.
    pub user_id: Option<UserId>,
    /// Person whom the entry is about, or its author.
    pub person_id: Option<UserId>,
    pub person: Option<String>,
    pub created_at: Timestamp,
    /// Number of words in common with the question.
    pub matched: i64,
    hash: Option<String>,
    flagged: bool,
    score: f64,
}

#[derive(sqlx::FromRow)]
struct Place {
    is_remembered: bool,
    title: Option<String>,
}

/// Finds the entries for a reply. The result is empty if memory is off for the conversation, or if the requester cannot read the
/// conversation.
pub async fn recall(c: &mut Conn, of: &Recall<'_>) -> Result<Recalled, DbError> {
    let none = Recalled::default();
    let place = place(c, of).await?;
    let readers = Readers {
        workspace: of.workspace,
        requester: of.requester,
        api_key: of.api_key,
        channel: of.channel,
        question: of.trigger,
    };
    let Some(is_alone) = shared::is_alone(c, &readers).await? else {
        return Ok(none);
    };
    let switches = settings::Switches::find(c, of.workspace, of.requester).await?;
    let switches = switches.with_agent(of.scopes);
    let by_thread = (!place.is_remembered).then_some(SwitchLevel::Thread);
    if let Some(level) = switches.all_stopped_by().or(by_thread) {
        return Ok(Recalled {
            stopped_by: Some(level),
            ..none
        });
    }
    let scopes = switches.scopes();
    let texts = texts(c, of, &place).await?;
    let messages = match of.window_start.filter(|_| scopes.conversation) {
        Some(below) => {
            let part = OldPart {
                workspace: of.workspace,
                reader: of.requester,
                conversation: of.conversation,
                below,
            };
            let texts: Vec<(&str, f64)> = texts.iter().map(|t| (&*t.text, t.weight)).collect();
            any::find_old(c, &part, &texts, now()).await?
        }
        None => Vec::new(),
    };
    let words = words(c, of.workspace, &texts).await?;
    if words.is_empty() {
        return Ok(Recalled { messages, ..none });
    }
    let at = now();
    let use_ = Use {
        workspace: of.workspace.0,
        channel: of.channel.0,
        conversation: of.conversation.id(),
        requester: of.requester.0,
        agent: of.agent.0,
        is_alone,
        now: at,
        unused_since: policy::find(c, of.workspace).await?.memory.unused_since(at),
        scopes,
    };
    let found: Vec<RecalledEntry> = store::rank_entries(c, &use_, words, CONSIDERED_MAX).await?;
    let mut considered = BTreeMap::new();
    for entry in &found {
        *considered.entry(entry.scope).or_default() += 1;
    }
    Ok(Recalled {
        considered,
        used: best(found, use_.now, of.summary),
        messages,
        stopped_by: None,
    })
}

async fn place(c: &mut Conn, of: &Recall<'_>) -> Result<Place, DbError> {
    let found: Option<Place> = c
        .q("select memory = 'on' as is_remembered, title from threads where id = $1")
        .bind(of.thread)
        .opt()
        .await?;
    // The thread that a schedule's reply will start does not exist yet.
    Ok(found.unwrap_or(Place {
        is_remembered: true,
        title: None,
    }))
}

/// A text whose words are searched for.
struct AskedText {
    text: String,
    weight: f64,
    writer: Writer,
}

/// Returns the question, the requester's previous message, and the title.
async fn texts(c: &mut Conn, of: &Recall<'_>, place: &Place) -> Result<Vec<AskedText>, DbError> {
    let previous: Option<(String,)> = c
        .q("select x.content from (select m.content, m.author_type, m.author_id, m.seq from messages m where m.conversation_id = $1 \
            and m.seq < $2 and m.deleted_at is null order by m.seq desc limit $4) x \
            where x.author_type = 'human' and x.author_id = $3 order by x.seq desc limit 1")
        .bind(of.conversation.id())
        .bind(of.trigger_seq)
        .bind(of.requester)
        .bind(PREVIOUS_AMONG)
        .opt()
        .await?;
    let texts = [
        (
            Some(of.question.to_owned()),
            QUESTION_WEIGHT,
            Writer::Requester,
        ),
        (
            previous.map(|(text,)| text),
            PREVIOUS_WEIGHT,
            Writer::Requester,
        ),
        (place.title.clone(), TITLE_WEIGHT, Writer::Anyone),
    ];
    let texts = texts.into_iter().filter_map(|(text, weight, writer)| {
        Some(AskedText {
            text: without_mentions(&text?, of.handle),
            weight,
            writer,
        })
    });
    Ok(texts.collect())
}

/// Removes the mentions of a handle from a text.
fn without_mentions(text: &str, handle: &str) -> String {
    let is_mention = |word: &&str| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        word.strip_prefix('@')
            .is_some_and(|mentioned| mentioned.eq_ignore_ascii_case(handle))
    };
    let words = text.split_whitespace().filter(|word| !is_mention(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the words of the texts. Each word is weighted by the weight of its text and by its rarity.
async fn words(
    c: &mut Conn,
    workspace: WorkspaceId,
    texts: &[AskedText],
) -> Result<Vec<QueryWord>, DbError> {
    let mut asked: Vec<AskedWord> = Vec::new();
    for text in texts {
        for word in words_in_order(&text.text, WORDS_MAX) {
            if asked.len() < WORDS_MAX && asked.iter().all(|known| known.word != word) {
                asked.push(AskedWord {
                    word,
                    weight: text.weight,
                    writer: text.writer,
                });
            }
        }
    }
    let all: i64 = c
        .q("select count(*) from (select 1 from memories where workspace_id = $1 limit $2) x")
        .bind(workspace)
        .bind(COUNTED_MAX)
        .value()
        .await?;
    let words = asked.iter().map(|asked| asked.word.clone()).collect();
    let counts = store::count_entries(c, workspace.0, words, WORD_ENTRIES_MAX).await?;
    let useful = counts
        .into_iter()
        .filter(|(_, count)| (1..WORD_ENTRIES_MAX).contains(count));
    let words = useful.filter_map(|(word, count)| {
        let asked = asked.iter().find(|asked| asked.word == word)?;
        Some(QueryWord {
            weight: asked.weight * rarity(count, all),
            rare: i64::from(is_rare(count, all)),
            own: i64::from(asked.writer == Writer::Requester),
            word,
        })
    });
    Ok(words.collect())
}

/// Author of a text whose words are searched for. Personal entries match only words of the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Requester,
    Anyone,
}

/// A word that is searched for.
struct AskedWord {
    word: String,
    weight: f64,
    writer: Writer,
}

/// Selects the entries for a reply. Of several entries with the same text, the one with the narrowest scope is used.
fn best(
    mut found: Vec<RecalledEntry>,
    at: Timestamp,
    summary: &HashSet<MemoryId>,
) -> Vec<RecalledEntry> {
    for entry in &mut found {
        entry.score *= freshness(entry.created_at, at);
        if entry.flagged {
            entry.score *= FLAGGED_WEIGHT;
        }
    }
    found.sort_by_key(|entry| narrowness(entry.scope));
    let mut texts = HashSet::new();
    found.retain(|entry| {
        let hash = entry.hash.clone();
        hash.is_none_or(|hash| texts.insert(hash))
    });
    found.sort_by(|one, other| {
        let by_score = other.score.total_cmp(&one.score);
        by_score.then_with(|| other.id.cmp(&one.id))
    });
    let mut count = 0;
    let is_used = |entry: &RecalledEntry| {
        count += usize::from(!summary.contains(&entry.id));
        count <= USED_MAX
    };
    found.into_iter().take_while(is_used).collect()
}

fn narrowness(scope: MemoryScope) -> u8 {
    match scope {
        MemoryScope::Persona => 0,
        MemoryScope::User => 1,
        MemoryScope::Conversation => 2,
        MemoryScope::Agent => 3,
        MemoryScope::Organization => 4,
    }
}

/// Channels of entries that come from a conversation, without those that a person cannot read.
pub async fn readable_channels(
    c: &mut Conn,
    entries: &[MemoryId],
    reader: UserId,
) -> Result<HashMap<MemoryId, ChannelId>, DbError> {
    if entries.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = sql_with_ids!(
        c,
        concat!(
            "select m.id, m.channel_id from memories m where m.channel_id is not null and ",
            is_in_visible_channel!("m.channel_id", "$2"),
            " and m.id in"
        ),
        1,
        "order by m.id"
    );
    let rows: Vec<(MemoryId, ChannelId)> = c
        .q(sql)
        .bind(hexadecimal_ids(entries.iter().map(|id| id.0)))
        .bind(reader)
        .all()
        .await?;
    Ok(rows.into_iter().collect())
}

/// Counts the use of entries by a completed reply.
pub async fn count_uses(c: &mut Conn, entries: &[MemoryId]) -> Result<(), DbError> {
    if entries.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "update memories set uses = uses + 1, last_used_at = $2 where forgotten_at is null and id in",
        1,
        ""
    );
    c.q(sql)
        .bind(hexadecimal_ids(entries.iter().map(|id| id.0)))
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Minimum interval between two updates that record the use of an entry in summaries, so that not every reply rewrites the rows of
/// all these entries.
const SUMMARIZED_NOTED_EVERY: Duration = Duration::from_hours(1);

/// Records that a completed reply used these entries in a summary, so that they do not expire. This does not count as a
/// use of the entries.
pub async fn note_summarized(c: &mut Conn, entries: &[MemoryId]) -> Result<(), DbError> {
    if entries.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "update memories set last_used_at = $2 where forgotten_at is null and coalesce(last_used_at, created_at) <= $3 and id in",
        1,
        ""
    );
    let at = now();
    c.q(sql)
        .bind(hexadecimal_ids(entries.iter().map(|id| id.0)))
        .bind(at)
        .bind(at - SUMMARIZED_NOTED_EVERY)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(scope: MemoryScope, hash: Option<&str>, score: f64) -> RecalledEntry {
        RecalledEntry {
            id: MemoryId::new(),
            scope,
            kind: MemoryKind::Fact,
            text: String::new(),
            user_id: None,
            person_id: None,
            person: None,
            created_at: now(),
            matched: 2,
            hash: hash.map(str::to_owned),
            flagged: false,
            score,
        }
    }

    #[test]
    fn an_equal_text_is_used_once_with_its_narrowest_scope() {
        let found = vec![
            entry(MemoryScope::Organization, Some("a"), 3.0),
            entry(MemoryScope::Persona, Some("a"), 2.0),
            entry(MemoryScope::Agent, None, 1.0),
            entry(MemoryScope::Agent, None, 1.5),
        ];
        let used = best(found, now(), &HashSet::new());
        let scopes: Vec<_> = used
            .iter()
            .map(|entry| (entry.scope, entry.score >= 1.9))
            .collect();
        assert_eq!(
            scopes,
            [
                (MemoryScope::Persona, true),
                (MemoryScope::Agent, false),
                (MemoryScope::Agent, false)
            ]
        );
    }

    #[test]
    fn entries_of_the_summary_do_not_take_the_place_of_others() {
        let found: Vec<RecalledEntry> = (0..20)
            .map(|n| entry(MemoryScope::Agent, None, 20.0 - f64::from(n)))
            .collect();
        let summary: HashSet<MemoryId> = found.iter().take(3).map(|entry| entry.id).collect();
        assert_eq!(best(found, now(), &summary).len(), 3 + USED_MAX);
    }

    #[test]
    fn old_and_flagged_entries_count_less() {
        let old = RecalledEntry {
            created_at: now() - Duration::from_hours(90 * 24),
            ..entry(MemoryScope::User, None, 1.0)
        };
        let flagged = RecalledEntry {
            flagged: true,
            ..entry(MemoryScope::User, None, 0.9)
        };
        let fresh = entry(MemoryScope::User, None, 0.8);
        let used = best(vec![old, flagged, fresh], now(), &HashSet::new());
        let kinds: Vec<bool> = used.iter().map(|entry| entry.flagged).collect();
        let scores: Vec<f64> = used.iter().map(|entry| entry.score).collect();
        assert_eq!(kinds, [false, false, true]);
        for (score, wanted) in scores.into_iter().zip([0.8, 0.5, 0.45]) {
            assert!((score - wanted).abs() < 0.001, "{score} {wanted}");
        }
    }

    #[test]
    fn mentions_of_the_agent_are_not_searched_for() {
        let text = "@vibe, what did @Vibe-2 tell Vibe and @bo? @VIBE!";
        assert_eq!(
            without_mentions(text, "vibe"),
            "what did @Vibe-2 tell Vibe and @bo?"
        );
    }

    #[test]
    fn a_word_is_rare_below_one_percent() {
        assert!(!is_rare(1, 100) && is_rare(1, 101));
        assert!(rarity(1, 100) > rarity(50, 100) && rarity(100, 100) > 0.0);
    }
}
