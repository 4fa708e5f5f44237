//! A compaction pass: reads messages, makes segments, and stores them.

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use uuid::Uuid;

use crate::{
    agents::{
        derived,
        profiles::{self, MemoryScopes},
        segments::{
            self, CompactedAuthor, CompactionState, CompactionTrigger, PassOptions, Segment,
        },
        system,
    },
    auth::quota,
    blocking::Interrupt,
    chat::{messages::AuthorKind, presets},
    db::{Conn, DbError, Json, dialect::hexadecimal_ids, now},
    failpoint,
    ids::{AgentId, CompactionId, MessageId, UserId},
    memory::{
        automatic::{self, NewItem, PersonalOwner, SegmentEntry},
        content::Content,
        entry::{MemoryKind, MemoryTrust},
    },
    model::{builtin, estimate_tokens},
    realtime::EventType,
    secrets::Keyring,
    sql_with_ids,
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskKind,
        calls::{CallError, Purpose},
        queue, slow,
    },
};

use super::{
    check::Source,
    draft::{self, RawDraft},
    item::{Item, SegmentPerson, SourceLine},
    offline,
    settle::{self, Gist, Settled},
    store::{self, Key},
};
use crate::replies::{
    history::{self, Row, SeqRange},
    prompt::HistoryKind,
    utility::{Answer, Patience, Utility, UtilityCall, UtilityModel},
};

/// Maximum size of a segment in messages.
const SEGMENT_MESSAGES_MAX: usize = 48;
pub(super) const SEGMENTS_AT_ONCE: usize = 8;
/// Minimum number of messages for an automatic pass.
pub const AUTOMATIC_MESSAGES_MIN: usize = 12;
const CALLS_AT_ONCE: usize = 4;
/// Maximum number of messages read from a range; larger than any segment.
const MESSAGES_READ_MAX: usize = 1_000;
/// Maximum number of messages in the pass that a reply waits for.
pub const WAITED_MESSAGES_MAX: i64 = 192;
/// Maximum number of attempts to make a segment whose messages change in the meantime.
const REMADE_MAX: usize = 3;
/// Maximum numbers of older entries, and of their segments, that are compared with corrections.
pub(super) const COMPARED_MAX: i64 = 200;
const COMPARED_SEGMENTS_MAX: i64 = 20;
/// Value of `model` if no model is used.
pub const BUILT_IN: &str = builtin::NAME;

/// Runs passes.
#[derive(Clone)]
pub struct Compactor {
    pub utility: Utility,
    /// Keys for the hashes of entries.
    pub keyring: Arc<Keyring>,
    pub settings: super::profile::CompactionSettings,
}

/// A pass that is about to run.
#[derive(Debug, Clone)]
pub struct Pass {
    pub task: Task,
    pub lease: Lease,
    pub options: PassOptions,
    pub patience: Patience,
}

impl Pass {
    /// A model call of the pass, without a schema.
    pub(super) fn call(&self, system: &str, text: String) -> UtilityCall {
        UtilityCall {
            patience: self.patience,
            ..UtilityCall::for_task(&self.task, Purpose::Compact, system, text)
        }
    }
}

/// Result of a pass.
#[derive(Debug, Default)]
pub struct Passed {
    pub stored: Vec<CompactionId>,
    /// True if the pass did not process all messages that it was supposed to.
    pub has_rest: bool,
    pub error: Option<PassError>,
    pub model: String,
}

/// Error of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassError {
    Model(CallError),
    /// The storage quota of the workspace is exceeded.
    QuotaExceeded,
}

impl PassError {
    pub fn code(&self) -> FailCode {
        match self {
            Self::Model(e) => e.code(),
            Self::QuotaExceeded => FailCode::QuotaExceeded,
        }
    }
}

/// Messages that are to become one segment, or the segment that is being rebuilt.
#[derive(Debug, Clone)]
struct Part {
    from: i64,
    to: i64,
    replaced: Option<Segment>,
}

/// ID of the stored segment, `None` if no messages are left, or the error of the model call.
type Segmented = Result<Option<CompactionId>, CallError>;

/// Values that all segments of a pass share.
struct Shared {
    key: Key,
    /// Model for the pass; `None` if the extractor is used instead.
    model: Option<UtilityModel>,
    system: String,
    /// Memory scopes, some of which the agent may turn off.
    scopes: Option<MemoryScopes>,
}

/// A segment before it is stored.
struct Made {
    gist: String,
    items: Vec<NewItem>,
    left_out: BTreeMap<String, i64>,
    model: String,
}

impl Compactor {
    /// Makes and stores the segments of a pass, at most eight of them.
    ///
    /// # Errors
    /// `Gone` if the task was canceled or assigned to another worker.
    pub async fn run(&self, pass: &Pass) -> Result<Passed, LeaseLost> {
        let (lease, task) = (&pass.lease, &pass.task);
        let target = lease.target;
        let key = Key {
            workspace: lease.workspace,
            thread: target.thread,
            fork: target.fork,
        };
        let mut c = self.utility.db.read().await?;
        let (parts, upper) = parts(&mut c, key.id(), pass).await?;
        let mut passed = Passed {
            model: BUILT_IN.to_owned(),
            has_rest: upper.is_none(),
            ..Passed::default()
        };
        if !parts.is_empty() && quota::is_full(&mut c, lease.workspace).await? {
            passed.error = Some(PassError::QuotaExceeded);
            return Ok(passed);
        }
        drop(c);
        let shared = self.shared(pass, key, parts.is_empty()).await?;
        if let Some(model) = &shared.model {
            passed.model.clone_from(&model.name);
        }
        let mut running: Vec<BoxFuture<'_, Result<Segmented, LeaseLost>>> =
            Vec::with_capacity(parts.len());
        for part in &parts {
            running.push(self.segment(pass, &shared, part).boxed());
        }
        let made: Vec<Result<Segmented, LeaseLost>> = futures::stream::iter(running)
            .buffer_unordered(CALLS_AT_ONCE)
            .collect()
            .await;
        for one in made {
            match one? {
                Ok(stored) => passed.stored.extend(stored),
                Err(e) => passed.error = Some(PassError::Model(e)),
            }
        }
        passed.stored.sort();
        self.settle(pass, &shared, &passed.stored).await?;
        let last = parts
            .iter()
            .map(|part| part.to)
            .max()
            .filter(|_| !passed.stored.is_empty());
        self.cover(pass, key, upper, last).await?;
        tracing::debug!(task.id = %task.id, segments = passed.stored.len(), "messages compacted");
        Ok(passed)
    }

    /// Looks up the values that all segments of a pass share. If `is_empty`, there are no segments to make, and no model is chosen.
    async fn shared(&self, pass: &Pass, key: Key, is_empty: bool) -> Result<Shared, LeaseLost> {
        let (lease, target) = (&pass.lease, pass.lease.target);
        let mut c = self.utility.db.read().await?;
        // The agent may have been deleted in the meantime.
        let agent = profiles::find_resolved(&mut c, target.agent, target.agent_version).await?;
        let system = match &agent {
            Some(agent) => system::in_conversation(&mut c, lease.workspace, agent)
                .await?
                .text(),
            None => String::new(),
        };
        let profile = agent.map(|agent| agent.profile).unwrap_or_default();
        drop(c);
        let model = if is_empty {
            None
        } else {
            self.model(pass, profile.model.as_deref()).await?
        };
        Ok(Shared {
            key,
            model,
            system,
            scopes: profile.memory.and_then(|memory| memory.scopes),
        })
    }

    /// Stores the progress of a pass: all messages before `upper` belong to segments, and `last` is the last message of the segments
    /// made.
    async fn cover(
        &self,
        pass: &Pass,
        key: Key,
        upper: Option<i64>,
        last: Option<i64>,
    ) -> Result<(), LeaseLost> {
        let (lease, trigger) = (pass.lease, pass.options.trigger);
        let agent = lease.target.agent;
        self.utility
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                if let Some(upper) = upper {
                    store::set_covered(c, key.id(), upper).await?;
                }
                let moves = matches!(
                    trigger,
                    CompactionTrigger::Manual
                        | CompactionTrigger::Size
                        | CompactionTrigger::Overflow
                );
                if let Some(last) = last.filter(|_| moves) {
                    store::move_starts(c, key, agent, last + 1).await?;
                }
                if last.is_some() {
                    presets::review_after_pass(c, key.workspace, key.id()).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await
    }

    /// Returns the model for a pass; `None` if the workspace has no language model. `own` is the agent's model.
    pub(super) async fn model(
        &self,
        pass: &Pass,
        own: Option<&str>,
    ) -> Result<Option<UtilityModel>, DbError> {
        let provider = &self.utility.provider;
        if provider.is_offline() {
            return Ok(None);
        }
        let main = match &pass.options.model {
            Some(main) => main.clone(),
            None => provider.choose_model(own).await,
        };
        let choice = pass.options.summary_model.as_deref();
        let model = self.utility.model(pass.lease.workspace, choice, &main);
        model.await.map(Some)
    }

    /// Makes and stores a segment. Starts over if its messages change in the meantime.
    async fn segment(
        &self,
        pass: &Pass,
        shared: &Shared,
        part: &Part,
    ) -> Result<Segmented, LeaseLost> {
        let conversation = pass.lease.target.conversation();
        for _ in 0..REMADE_MAX {
            let mut c = self.utility.db.read().await?;
            let mut part = part.clone();
            if let Some(old) = &part.replaced {
                part.replaced = segments::find_segment(&mut c, old.id).await?;
                if part.replaced.is_none() {
                    return Ok(Ok(None));
                }
            }
            let range = SeqRange {
                from: part.from,
                to: part.to,
            };
            let rows = history::between(&mut c, conversation, range, MESSAGES_READ_MAX).await?;
            drop(c);
            failpoint!("compaction_read");
            let made = match self.make(pass, shared, &rows).await? {
                Ok(made) => made,
                Err(e) => return Ok(Err(e)),
            };
            let segment = new_segment(pass, shared.key, &part, &rows, &made);
            let (lease, scopes) = (pass.lease, shared.scopes);
            failpoint!("compaction_store");
            let stored = self
                .utility
                .db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::lock_lease(c, &lease).await?;
                    let read = history::between(c, conversation, range, MESSAGES_READ_MAX).await?;
                    if !is_same(&read, &rows) {
                        return Ok(None);
                    }
                    put(
                        c,
                        &lease,
                        &part,
                        segment.as_ref(),
                        &made.items,
                        scopes.as_ref(),
                    )
                    .await
                })
                .await?;
            failpoint!("compaction_stored");
            if let Some(stored) = stored {
                return Ok(Ok(stored));
            }
        }
        Ok(Ok(None))
    }

    async fn make(
        &self,
        pass: &Pass,
        shared: &Shared,
        rows: &[Row],
    ) -> Result<Result<Made, CallError>, DbError> {
        let (lines, people) = lines_of(rows);
        if lines.is_empty() {
            return Ok(Ok(Made {
                gist: String::new(),
                items: Vec::new(),
                left_out: BTreeMap::new(),
                model: BUILT_IN.to_owned(),
            }));
        }
        let recalled = recalled(&mut self.utility.db.read().await?, rows).await?;
        let mut prose = None;
        let mut raw = None;
        if let Some(model) = &shared.model {
            let text = draft::request(&lines, model.room(draft::INSTRUCTIONS));
            let call = UtilityCall {
                schema: Some(draft::schema()),
                ..pass.call(draft::INSTRUCTIONS, text)
            };
            match self.utility.ask(model, &call, draft::parse).await? {
                Ok(Answer::Read(read)) => raw = Some(read),
                Ok(Answer::Unread(text)) => prose = Some(text),
                // The extractor makes the segment.
                Ok(Answer::Incomplete) => {}
                Err(e) => return Ok(Err(e)),
            }
        }
        let system = shared.system.clone();
        let tokens_max = pass.options.max_tokens;
        let (rows, keyring) = (rows.to_vec(), Arc::clone(&self.keyring));
        let workspace = shared.key.workspace;
        let has_model = shared.model.is_some();
        // The extractor and the checks process all of the messages, so they run in a blocking thread.
        let work = slow::run(pass.task.requested_by, move |interrupt| {
            let reading = offline::read(&lines, &people, interrupt);
            if interrupt.is_set() {
                return Default::default();
            }
            let source = Source::new(&lines, &people, &recalled);
            let mut raw = raw.unwrap_or_else(|| offline::draft(&reading, &lines));
            if let Some(prose) = prose {
                raw = RawDraft {
                    gist: source.prose(&prose),
                    is_prose: true,
                    ..raw
                };
            }
            let mut checked = source.check(&raw, &system, tokens_max);
            // If a model is used, it decides later which entries a decision overrules.
            let is_corrected = if has_model {
                offline::is_explicitly_corrected
            } else {
                offline::is_corrected
            };
            checked.leave_out(|item| is_corrected(&reading, &item.text, &item.sources));
            let items = checked.items.iter().filter_map(|item| {
                // The checks have already dropped texts that cannot be entries.
                let content = Content::parse(&item.text, workspace, &keyring).ok()?;
                new_item(item, content, &rows, &lines, &people)
            });
            (items.collect(), checked.gist, checked.left_out)
        });
        let (items, gist, left_out) = work.await.unwrap_or_else(|e| {
            tracing::error!(error = %e, "checking a segment panicked");
            (Vec::new(), String::new(), BTreeMap::new())
        });
        let model = shared.model.as_ref();
        Ok(Ok(Made {
            gist,
            items,
            left_out,
            model: model.map_or_else(|| BUILT_IN.to_owned(), |model| model.name.clone()),
        }))
    }

    /// Retires entries whose value is no longer current: older entries that a new segment corrects and, if no model is used,
    /// entries whose value a later message changes.
    async fn settle(
        &self,
        pass: &Pass,
        shared: &Shared,
        stored: &[CompactionId],
    ) -> Result<(), LeaseLost> {
        let (conversation, id) = (pass.lease.target.conversation(), shared.key.id());
        let mut first: Option<i64> = None;
        for segment in stored {
            let mut c = self.utility.db.read().await?;
            let Some(segment) = segments::find_segment(&mut c, *segment).await? else {
                continue;
            };
            first = Some(first.map_or(segment.from_seq, |first| first.min(segment.from_seq)));
            let older = older(&mut c, id, segment.from_seq).await?;
            if older.is_empty() {
                continue;
            }
            let new = automatic::list(&mut c, [segment.id], COMPARED_MAX).await?;
            let range = SeqRange {
                from: segment.from_seq,
                to: segment.to_seq,
            };
            let rows = history::between(&mut c, conversation, range, MESSAGES_READ_MAX).await?;
            drop(c);
            let (lines, people) = lines_of(&rows);
            let work = move |interrupt: &Interrupt| {
                settle::corrected(&older, &new, lines, &people, interrupt)
            };
            let settled = slow::run(pass.task.requested_by, work).await;
            self.retire(pass, settled.unwrap_or_default()).await?;
        }
        let Some(first) = first.filter(|_| shared.model.is_none()) else {
            return Ok(());
        };
        let mut c = self.utility.db.read().await?;
        let mut entries = older(&mut c, id, first).await?;
        let since = store::list_since(&mut c, id, first).await?;
        let ids = since.iter().map(|segment| segment.id);
        entries.extend(automatic::list(&mut c, ids, COMPARED_MAX).await?);
        let before = store::list_before(&mut c, id, first, COMPARED_SEGMENTS_MAX).await?;
        let gists = since.into_iter().chain(before).map(|segment| Gist {
            segment: segment.id,
            to_seq: segment.to_seq,
            text: segment.gist,
        });
        let gists: Vec<Gist> = gists.collect();
        let range = SeqRange {
            from: first,
            to: i64::MAX,
        };
        let rows = history::between(&mut c, conversation, range, MESSAGES_READ_MAX).await?;
        drop(c);
        let (lines, people) = lines_of(&rows);
        let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
        let work = move |interrupt: &Interrupt| {
            settle::changed(&entries, gists, &lines, &seqs, &people, interrupt)
        };
        let settled = slow::run(pass.task.requested_by, work).await;
        self.retire(pass, settled.unwrap_or_default()).await
    }

    async fn retire(&self, pass: &Pass, settled: Settled) -> Result<(), LeaseLost> {
        if settled == Settled::default() {
            return Ok(());
        }
        let lease = pass.lease;
        self.utility
            .db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                for (old, new) in &settled.superseded {
                    automatic::supersede(c, *old, *new).await?;
                }
                for old in &settled.outdated {
                    automatic::archive(c, *old).await?;
                }
                for gist in &settled.gists {
                    store::shorten_gist(c, gist).await?;
                }
                Ok::<_, LeaseLost>(())
            })
            .await
    }
}

/// Returns the parts of a pass, and the sequence number before which all messages will belong to segments after the pass. The number
/// is `None` if older messages remain.
async fn parts(
    c: &mut Conn,
    conversation: Uuid,
    pass: &Pass,
) -> Result<(Vec<Part>, Option<i64>), DbError> {
    let options = &pass.options;
    let at_once = i64::try_from(SEGMENTS_AT_ONCE).unwrap_or(i64::MAX);
    let outdated = store::list_outdated(c, conversation, at_once).await?;
    let mut parts: Vec<Part> = outdated
        .into_iter()
        .map(|segment| Part {
            from: segment.from_seq,
            to: segment.to_seq,
            replaced: Some(segment),
        })
        .collect();
    if options.trigger == CompactionTrigger::Redo {
        let is_all = parts.len() < SEGMENTS_AT_ONCE;
        return Ok((parts, is_all.then_some(0)));
    }
    let before = options.before_seq.unwrap_or(i64::MAX);
    let upper = match options.keep {
        0 => Some(before),
        keep => store::nth_newest(c, conversation, before, keep).await?,
    };
    let Some(mut upper) = upper else {
        return Ok((parts, Some(0)));
    };
    // A reply that is being written keeps its seq, while later messages have already been posted.
    let unfinished: Option<i64> = c
        .q("select min(m.seq) from tasks t join messages m on m.id = t.reply_message_id \
            where t.conversation_id = $1 and t.status in ('queued', 'running') and m.state = 'streaming'")
        .bind(conversation)
        .value()
        .await?;
    upper = unfinished.map_or(upper, |seq| upper.min(seq));
    let limit = match (pass.patience, options.trigger) {
        (Patience::ReplyWaits, CompactionTrigger::Auto) => WAITED_MESSAGES_MAX,
        _ => i64::try_from(SEGMENTS_AT_ONCE * SEGMENT_MESSAGES_MAX).unwrap_or(i64::MAX),
    };
    let mut seqs = store::uncovered(c, conversation, upper, limit).await?;
    seqs.reverse();
    let is_all = i64::try_from(seqs.len()).unwrap_or(i64::MAX) < limit;
    let Some((first, last)) = seqs.first().copied().zip(seqs.last().copied()) else {
        return Ok((parts, Some(upper.min(before))));
    };
    let others: Vec<(i64,)> = c
        .q("select from_seq from compactions where conversation_id = $1 and from_seq > $2 and from_seq < $3 order by from_seq")
        .bind(conversation)
        .bind(first)
        .bind(last)
        .all()
        .await?;
    let others: Vec<i64> = others.into_iter().map(|row| row.0).collect();
    let left = match options.trigger {
        CompactionTrigger::Auto => split_off_few(&mut seqs, &others),
        _ => None,
    };
    parts.extend(split(&seqs, &others));
    Ok((parts, is_all.then_some(left.unwrap_or(last + 1))))
}

/// Leaves the messages after the newest segment to a later pass if there are only a few, because they may have been posted between
/// the pass of a lost worker and its repetition. Returns the first of these messages.
fn split_off_few(seqs: &mut Vec<i64>, others: &[i64]) -> Option<i64> {
    let newest = others.last();
    let at = seqs.partition_point(|seq| newest.is_some_and(|newest| seq < newest));
    let is_few = seqs.len() - at < AUTOMATIC_MESSAGES_MIN;
    is_few
        .then(|| seqs.split_off(at))
        .and_then(|left| left.first().copied())
}

/// Splits messages into parts of equal size, none of which spans another segment. Both lists must be in ascending order.
fn split(seqs: &[i64], others: &[i64]) -> Vec<Part> {
    let is_between = |a: i64, b: i64| others.iter().any(|other| a < *other && *other < b);
    let runs = seqs.chunk_by(|a, b| !is_between(*a, *b));
    let parts = runs.flat_map(|run| {
        let count = run.len().div_ceil(SEGMENT_MESSAGES_MAX);
        (0..count).map(move |n| {
            let (from, to) = (n * run.len() / count, (n + 1) * run.len() / count);
            Part {
                from: run[from],
                to: run[to - 1],
                replaced: None,
            }
        })
    });
    parts.collect()
}

/// Lists the entries of segments that begin before a sequence number.
pub(super) async fn older(
    c: &mut Conn,
    conversation: Uuid,
    before_seq: i64,
) -> Result<Vec<SegmentEntry>, DbError> {
    let segments = store::list_before(c, conversation, before_seq, COMPARED_SEGMENTS_MAX).await?;
    automatic::list(c, segments.iter().map(|segment| segment.id), COMPARED_MAX).await
}

/// Lists the memory texts that agents received for those of these messages that are replies, with the positions of the replies.
pub(super) async fn recalled(c: &mut Conn, rows: &[Row]) -> Result<Vec<(usize, String)>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select distinct t.reply_message_id, e.text from tasks t join context_parts p on p.task_id = t.id \
         join citations k on k.owner_type = 'context_text' and k.owner_id = p.text_id and k.source_type = 'memory' \
         join memories e on e.id = k.source_id and e.forgotten_at is null where t.reply_message_id in",
        1,
        "order by t.reply_message_id, e.text limit 1000"
    );
    let replies = rows
        .iter()
        .filter(|row| row.author_type == AuthorKind::Agent);
    let found: Vec<(MessageId, String)> = c
        .q(sql)
        .bind(hexadecimal_ids(replies.map(|row| row.id.0)))
        .all()
        .await?;
    let at = |id| rows.iter().position(|row| row.id == id);
    let found = found.into_iter();
    Ok(found
        .filter_map(|(id, text)| Some((at(id)?, text)))
        .collect())
}

pub(super) fn lines_of(rows: &[Row]) -> (Vec<SourceLine>, Vec<SegmentPerson>) {
    let mut people: Vec<SegmentPerson> = Vec::new();
    let lines = rows.iter().map(|row| {
        let message = row.clone().history_message();
        let name = row
            .author_name
            .clone()
            .unwrap_or_else(|| "Deleted account".to_owned());
        let person = matches!(row.author_type, AuthorKind::Human | AuthorKind::System).then(|| {
            let id = UserId(row.author_id.unwrap_or_default());
            let known = people.iter().position(|known| known.id == id);
            known.unwrap_or_else(|| {
                people.push(SegmentPerson {
                    id,
                    name: name.clone(),
                });
                people.len() - 1
            })
        });
        SourceLine {
            person,
            name,
            text: row.shown(),
            day: message.posted_at.day(),
            is_resolution: message.kind == HistoryKind::Result,
            asks: row.asked_agent_id,
        }
    });
    let lines = lines.collect();
    (lines, people)
}

/// Converts an item to its stored form; `None` if it has no source.
fn new_item(
    item: &Item,
    content: Content,
    rows: &[Row],
    lines: &[SourceLine],
    people: &[SegmentPerson],
) -> Option<NewItem> {
    let first = rows.get(*item.sources.first()?)?;
    let said_by = lines[item.sources[0]]
        .person
        .map(|person| people[person].id);
    let is_theirs = |person: usize| {
        let mut sources = item.sources.iter();
        sources.all(|at| lines[*at].person == Some(person))
    };
    let is_personal = matches!(item.kind, MemoryKind::Preference | MemoryKind::Person);
    let owner = item
        .about
        .filter(|person| is_personal && is_theirs(*person));
    let asked = item.sources.iter().find_map(|at| lines[*at].asks);
    let is_of_person = |at: &usize| lines[*at].person.is_some();
    Some(NewItem {
        kind: item.kind,
        content,
        sources: item.sources.iter().map(|at| rows[*at].id).collect(),
        said_at: first.created_at,
        said_by,
        about: item.about.map(|person| people[person].id),
        trust: if item.sources.iter().all(is_of_person) {
            MemoryTrust::Person
        } else {
            MemoryTrust::Agent
        },
        personal: owner.map(|person| PersonalOwner {
            user: people[person].id,
            agent: asked.filter(|_| item.for_agent),
        }),
    })
}

pub(super) fn is_same(a: &[Row], b: &[Row]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.id == b.id && a.shown() == b.shown())
}

/// Creates the segment of these messages; `None` if no message is left.
fn new_segment(pass: &Pass, key: Key, part: &Part, rows: &[Row], made: &Made) -> Option<Segment> {
    let (first, last) = rows.first().zip(rows.last())?;
    let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut authors: BTreeMap<Option<AgentId>, i64> = BTreeMap::new();
    for row in rows {
        let agent = row
            .author_id
            .filter(|_| row.author_type == AuthorKind::Agent);
        *authors.entry(agent.map(AgentId)).or_default() += 1;
    }
    let agents = authors
        .into_iter()
        .map(|(agent_id, count)| CompactedAuthor { agent_id, count });
    let before = rows.iter().map(|row| estimate_tokens(&row.shown())).sum();
    let items = made.items.iter();
    let items = items.map(|item| estimate_tokens(item.content.text()));
    let after = items.sum::<u64>() + estimate_tokens(&made.gist);
    let old = part.replaced.as_ref();
    Some(Segment {
        id: old.map_or_else(CompactionId::new, |old| old.id),
        workspace_id: key.workspace,
        conversation_id: key.id(),
        thread_id: key.thread,
        fork_id: key.fork,
        trigger: old.map_or(pass.options.trigger, |old| old.trigger),
        state: CompactionState::Active,
        from_seq: old.map_or(part.from, |old| old.from_seq),
        to_seq: old.map_or(part.to, |old| old.to_seq),
        from_message_id: first.id,
        to_message_id: last.id,
        message_count: i64::try_from(rows.len()).unwrap_or(i64::MAX),
        tokens_before: tokens(before),
        tokens_after: tokens(after),
        agents: Json(agents.collect()),
        gist: made.gist.clone(),
        left_out: Json(made.left_out.clone()),
        model: made.model.clone(),
        task_id: pass.task.id,
        created_by: old.map_or(pass.task.requested_by, |old| old.created_by),
        created_at: old.map_or_else(now, |old| old.created_at),
        expanded_at: None,
        blanked: old.map_or(0, |old| old.blanked),
        version: old.map_or(1, |old| old.version + 1),
    })
}

/// Stores a segment with its entries. Returns `None` without storing anything if the segment to be replaced has changed in the
/// meantime.
async fn put(
    c: &mut Conn,
    lease: &Lease,
    part: &Part,
    segment: Option<&Segment>,
    items: &[NewItem],
    scopes: Option<&MemoryScopes>,
) -> Result<Option<Option<CompactionId>>, LeaseLost> {
    if let Some(old) = &part.replaced {
        let current = segments::find_segment(c, old.id).await?;
        if current.is_none_or(|current| current.version != old.version) {
            return Ok(None);
        }
        derived::remove_replaced(c, old.id).await?;
    }
    let Some(segment) = segment else {
        // All messages of the segment were deleted.
        if let Some(old) = &part.replaced {
            store::delete(c, old).await?;
            segments::announce(c, old, EventType::CompactionDeleted, lease.audience).await?;
        }
        return Ok(Some(None));
    };
    let key = Key {
        workspace: segment.workspace_id,
        thread: segment.thread_id,
        fork: segment.fork_id,
    };
    store::insert_conversation(c, key).await?;
    let mut segment = segment.clone();
    for kind in automatic::insert_all(c, &segment, items, scopes).await? {
        *segment.left_out.0.entry(kind.to_string()).or_default() += 1;
    }
    store::put(c, &segment).await?;
    let kind = match part.replaced {
        None => EventType::CompactionCreated,
        Some(_) => EventType::CompactionUpdated,
    };
    segments::announce(c, &segment, kind, lease.audience).await?;
    Ok(Some(Some(segment.id)))
}

/// Returns the options of a `compact` task; `None` for other tasks.
pub fn options_of(task: &Task) -> Option<PassOptions> {
    let options = task
        .input
        .0
        .options
        .clone()
        .filter(|_| task.kind == TaskKind::Compact)?;
    serde_json::from_value(options).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_messages_after_the_newest_segment_are_left() {
        let mut seqs: Vec<i64> = (1..=40).chain([81]).collect();
        assert_eq!(split_off_few(&mut seqs, &[41]), Some(81));
        assert_eq!(seqs.len(), 40);
        assert_eq!(split_off_few(&mut seqs, &[]), None);
        assert_eq!(seqs.len(), 40);
        seqs.truncate(11);
        assert_eq!(split_off_few(&mut seqs, &[]), Some(1));
        assert!(seqs.is_empty());
    }

    #[test]
    fn parts_are_even_and_do_not_span_other_segments() {
        let sizes = |count: i64, others: &[i64]| -> Vec<i64> {
            let seqs: Vec<i64> = (1..=count).map(|n| n * 10).collect();
            let parts = split(&seqs, others);
            parts
                .iter()
                .map(|part| (part.to - part.from) / 10 + 1)
                .collect()
        };
        assert_eq!(sizes(12, &[]), [12]);
        assert_eq!(sizes(48, &[]), [48]);
        assert_eq!(sizes(49, &[]), [24, 25]);
        assert_eq!(sizes(192, &[]), [48, 48, 48, 48]);
        assert_eq!(sizes(60, &[205]), [20, 40]);
        assert_eq!(sizes(0, &[]), [] as [i64; 0]);
    }
}
