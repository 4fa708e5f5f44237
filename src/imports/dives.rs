//! Deep dives of an export of this program, their results, and action items. The objects that they name must be in the same channel and
//! thread here: an archive can name anything.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    error::ImportError,
    json::{array, first, flag, number, string, strings},
    key::{Identity, RecordKind},
    message::{ChannelPlace, FORK_GONE, LATEST_UNIX_S, Storing, timestamp},
    openvibe::microseconds,
    people::Known,
    record::{SourceAuthor, SourceRecord},
    report::RecordOutcome,
    work::id_here,
};
use crate::{
    chat::{
        forks::{Fork, ForkContext, ForkStatus, TITLE_WITHOUT_TEXT, get_fork, title_after},
        imported::find_thread_of_fork,
        messages::{Message, MessageKind, find_message},
        post::parse_title,
    },
    db::{Conn, DbError},
    forks::{
        draft::{ACTION_ITEMS_MAX, DEFERRED_ITEMS_MAX, SOURCES_MAX},
        drafts::Content,
        form::{Day, one_line},
        imported::{
            ImportedFork, ImportedItem, ImportedResolution, complete_imported_item,
            insert_imported_fork, insert_imported_resolution,
        },
        resolution::{self, ResolutionItem, ResolutionStatus, SourcedText},
        resolver::EXTRACTED,
        start::parse_description,
    },
    ids::{ActionItemId, AgentId, ForkId, MessageId, ResolutionId, UserId},
    time::Timestamp,
};

/// Maximum version number, and maximum number of people who edited a version.
const VERSION_MAX: i64 = 1_000_000;
const EDITORS_MAX: usize = 100;
const RESULT_GONE: &str = "its result does not exist here, or does not contain it";
const NO_TIME: &str = "no time";
const ERASED: &str = "erased";

/// Sources of a result, by their keys: `None` if they cannot be sources here.
type Sources = HashMap<String, Option<MessageId>>;

fn time(value: &Value, name: &str) -> Option<Timestamp> {
    timestamp(microseconds(string(value, name))?)
}

impl Storing<'_> {
    /// Stores a deep dive or a version of a result, or completes an action item.
    pub(super) async fn store_record(
        &mut self,
        c: &mut Conn,
        place: &ChannelPlace,
        record: &SourceRecord,
    ) -> Result<RecordOutcome, ImportError> {
        let value: Value = serde_json::from_str(&record.text).unwrap_or_default();
        if record.key.is_empty() || !value.is_object() {
            return Ok(RecordOutcome::LeftOut("it has no ID, or is too large"));
        }
        match record.kind {
            RecordKind::Forks => self.store_fork(c, place, &record.key, &value).await,
            RecordKind::ActionItems => self.store_item(c, place, &record.key, &value).await,
            _ => self.store_resolution(c, place, &record.key, &value).await,
        }
    }

    /// The person with this key here: a placeholder if nobody knows them, and the unknown author if there is nobody.
    async fn person(&mut self, c: &mut Conn, key: &str) -> Result<Option<UserId>, ImportError> {
        let mut known = self.known(key).cloned();
        if known.is_none()
            && let Some(key) = first([key])
        {
            let author = SourceAuthor {
                key: key.to_owned(),
                name: None,
                is_bot: false,
                shown_as: None,
            };
            known = self.stranger(c, Some(&author)).await?;
        }
        if !matches!(known, Some(Known::Person { .. })) {
            known = self.stranger(c, None).await?;
        }
        Ok(match known {
            Some(Known::Person { id, .. }) => Some(id),
            _ => None,
        })
    }

    /// The message with this key, if it is in the main line of a thread of the channel here.
    async fn main_message(
        &self,
        c: &mut Conn,
        place: &ChannelPlace,
        key: &str,
    ) -> Result<Option<Message>, DbError> {
        let Some(id) = self.keys.find(c, RecordKind::Messages, key).await? else {
            return Ok(None);
        };
        let found = find_message(c, MessageId(id)).await?;
        Ok(found.filter(|message| {
            message.channel_id == place.id
                && message.fork_id.is_none()
                && message.deleted_at.is_none()
                && message.kind != MessageKind::Notice
        }))
    }

    /// The deep dive with this key, if it is in the channel here.
    async fn fork(
        &self,
        c: &mut Conn,
        place: &ChannelPlace,
        key: &str,
    ) -> Result<Option<Fork>, ImportError> {
        let Some(id) = self.keys.find(c, RecordKind::Forks, key).await? else {
            return Ok(None);
        };
        let fork = ForkId(id);
        if find_thread_of_fork(c, fork, place.id).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(get_fork(c, fork).await?))
    }

    async fn store_fork(
        &mut self,
        c: &mut Conn,
        place: &ChannelPlace,
        key: &str,
        value: &Value,
    ) -> Result<RecordOutcome, ImportError> {
        if self.fork(c, place, key).await?.is_some() {
            return Ok(RecordOutcome::Existing);
        }
        let Some(created_at) = time(value, "created_at") else {
            return Ok(RecordOutcome::LeftOut(NO_TIME));
        };
        let origin = string(value, "message_id");
        let Some(origin) = self.main_message(c, place, origin).await? else {
            return Ok(RecordOutcome::LeftOut(
                "the message that it starts from does not exist here",
            ));
        };
        let title = parse_title(Some(string(value, "title")));
        let description = parse_description(Some(string(value, "description")));
        let status = string(value, "status").parse::<ForkStatus>();
        let (Ok(Some(title)), Ok(description), Ok(status)) = (title, description, status) else {
            return Ok(RecordOutcome::LeftOut(
                "its title, description, or status is not possible here",
            ));
        };
        let creator = string(value, "created_by");
        let Some(created_by) = self.person(c, creator).await? else {
            return Ok(RecordOutcome::LeftOut(ERASED));
        };
        let is_erased = matches!(self.known(creator), Some(Known::Erased));
        // As when a person's data is erased: a title that a message gave stays.
        let (title, description) = if is_erased && title != title_after(&origin) {
            (TITLE_WITHOUT_TEXT.to_owned(), None)
        } else {
            (title, description.filter(|_| !is_erased))
        };
        let resolved_at = time(value, "resolved_at").unwrap_or(created_at);
        let kind = RecordKind::Forks;
        let identity = Identity {
            kind,
            at_ms: created_at.unix_ms(),
            key,
            in_archive: ForkId::parse(key).ok().map(|id| id.0),
            owner: Some(origin.id.0),
        };
        let new = ImportedFork {
            id: ForkId(self.keys.id_here(c, identity).await?),
            title,
            description,
            context: string(value, "context")
                .parse()
                .unwrap_or(ForkContext::Thread),
            status,
            created_by,
            created_at,
            resolved_at: (status == ForkStatus::Resolved).then_some(resolved_at),
        };
        insert_imported_fork(c, &origin, &new).await?;
        self.keys.store(c, kind, key, new.id.0).await?;
        Ok(RecordOutcome::Imported)
    }

    async fn store_resolution(
        &mut self,
        c: &mut Conn,
        place: &ChannelPlace,
        key: &str,
        value: &Value,
    ) -> Result<RecordOutcome, ImportError> {
        let kind = RecordKind::Resolutions;
        let Ok(status) = string(value, "status").parse::<ResolutionStatus>() else {
            return Ok(RecordOutcome::LeftOut("it is not a result"));
        };
        let fork = string(value, "fork_id");
        let Some(fork) = self.fork(c, place, fork).await? else {
            return Ok(RecordOutcome::LeftOut(FORK_GONE));
        };
        let mut draft = None;
        if let Some(id) = self.keys.find(c, kind, key).await?
            && let Some(known) = resolution::find(c, ResolutionId(id)).await?
        {
            let is_published_since = known.fork_id == fork.id
                && known.status == ResolutionStatus::Draft
                && known.revision == 1
                && status != ResolutionStatus::Draft;
            if !is_published_since {
                return Ok(RecordOutcome::Existing);
            }
            draft = Some(known.id);
        }
        let Some(created_at) = time(value, "created_at") else {
            return Ok(RecordOutcome::LeftOut(NO_TIME));
        };
        let version = number(value, "version");
        if !(1..=VERSION_MAX).contains(&version) {
            return Ok(RecordOutcome::LeftOut("it is not a result"));
        }
        let message = if status == ResolutionStatus::Draft {
            None
        } else {
            let found = self.main_message(c, place, string(value, "message_id"));
            found.await?.filter(|card| is_card(card, &fork))
        };
        let content = self.content(c, &fork, value).await?;
        let identity = Identity {
            kind,
            at_ms: created_at.unix_ms(),
            key,
            in_archive: ResolutionId::parse(key).ok().map(|id| id.0),
            owner: Some(fork.id.0),
        };
        let new = ImportedResolution {
            id: ResolutionId(self.keys.id_here(c, identity).await?),
            version,
            status,
            generated_by: self.generator(c, string(value, "generated_by")).await?,
            edited_by: self.editors(value),
            content,
            message,
            draft,
            created_at,
            updated_at: time(value, "updated_at").unwrap_or(created_at),
            published_at: time(value, "published_at"),
        };
        if let Err(reason) = insert_imported_resolution(c, &fork, &new).await? {
            return Ok(RecordOutcome::LeftOut(reason));
        }
        self.keys.store(c, kind, key, new.id.0).await?;
        Ok(RecordOutcome::Imported)
    }

    /// The agent that wrote a draft, if it is here.
    async fn generator(&self, c: &mut Conn, by: &str) -> Result<Option<String>, DbError> {
        match by {
            EXTRACTED => Ok(Some(by.to_owned())),
            _ if AgentId::parse(by).is_ok() => id_here(c, self.keys, self.agents, by).await,
            _ => Ok(None),
        }
    }

    /// People who edited a draft and are known here.
    fn editors(&self, value: &Value) -> Vec<UserId> {
        let mut editors = Vec::new();
        for key in strings(value, "edited_by").iter().take(EDITORS_MAX) {
            if let Some(Known::Person { id, .. }) = self.known(key)
                && !editors.contains(id)
            {
                editors.push(*id);
            }
        }
        editors
    }

    async fn content(
        &mut self,
        c: &mut Conn,
        fork: &Fork,
        value: &Value,
    ) -> Result<Content, ImportError> {
        let mut sources = Sources::new();
        let (key_points, open_questions, deferred_items) = (
            self.points(c, fork, value, "key_points", &mut sources)
                .await?,
            self.points(c, fork, value, "open_questions", &mut sources)
                .await?,
            self.points(c, fork, value, "deferred_items", &mut sources)
                .await?,
        );
        Ok(Content {
            headline: one_line(string(value, "headline")),
            conclusion: one_line(string(value, "conclusion")),
            key_points,
            action_items: self.items(c, fork, value, &mut sources).await?,
            open_questions,
            deferred_items,
        })
    }

    async fn points(
        &self,
        c: &mut Conn,
        fork: &Fork,
        value: &Value,
        list: &str,
        sources: &mut Sources,
    ) -> Result<Vec<SourcedText>, DbError> {
        let mut points = Vec::new();
        // One more than possible, so that a longer list is refused as a whole.
        for point in array(value, list).iter().take(DEFERRED_ITEMS_MAX + 1) {
            points.push(SourcedText {
                text: one_line(string(point, "text")),
                sources: self.sources(c, fork, point, sources).await?,
            });
        }
        Ok(points)
    }

    /// Action items of a result, each once.
    async fn items(
        &mut self,
        c: &mut Conn,
        fork: &Fork,
        value: &Value,
        sources: &mut Sources,
    ) -> Result<Vec<ResolutionItem>, ImportError> {
        let mut items: Vec<ResolutionItem> = Vec::new();
        // One more than possible, so that a longer list is refused as a whole.
        for item in array(value, "action_items")
            .iter()
            .take(ACTION_ITEMS_MAX + 1)
        {
            let key = string(item, "id");
            let id = self.item_id(c, fork.id, key).await?;
            if key.is_empty() || items.iter().any(|known| known.id == id) {
                continue;
            }
            let (owner_id, owner_name) = self.owner(c, item).await?;
            let due = item.get("due").cloned();
            let due = due.and_then(|due| serde_json::from_value::<Day>(due).ok());
            items.push(ResolutionItem {
                id,
                text: one_line(string(item, "text")),
                owner_id,
                owner_name,
                due: due.map(|day| day.0),
                done: flag(item, "done"),
                sources: self.sources(c, fork, item, sources).await?,
            });
        }
        Ok(items)
    }

    /// ID of an action item here, which is the same in all versions of a result. It has the time of the archive's ID, for the order of lists.
    async fn item_id(
        &self,
        c: &mut Conn,
        fork: ForkId,
        key: &str,
    ) -> Result<ActionItemId, DbError> {
        let id = ActionItemId::parse(key).ok();
        let at = id.and_then(|id| id.0.get_timestamp());
        let at_ms = at.map_or(0, |at| {
            let (seconds, nanoseconds) = at.to_unix();
            i64::try_from(seconds).map_or(LATEST_UNIX_S, |s| s.min(LATEST_UNIX_S)) * 1000
                + i64::from(nanoseconds / 1_000_000)
        });
        let identity = Identity {
            kind: RecordKind::ActionItems,
            at_ms,
            key: &format!("{fork}:{key}"),
            in_archive: id.map(|id| id.0),
            owner: Some(fork.0),
        };
        Ok(ActionItemId(self.keys.id_here(c, identity).await?))
    }

    /// The owner of an action item here, a placeholder if nobody knows them, and their name.
    async fn owner(
        &mut self,
        c: &mut Conn,
        item: &Value,
    ) -> Result<(Option<UserId>, Option<String>), ImportError> {
        let name = Some(one_line(string(item, "owner_name"))).filter(|name| !name.is_empty());
        let Some(key) = first([string(item, "owner_id")]) else {
            return Ok((None, name));
        };
        if self.known(key).is_none() {
            let author = SourceAuthor {
                key: key.to_owned(),
                name: name.clone(),
                is_bot: false,
                shown_as: None,
            };
            self.stranger(c, Some(&author)).await?;
        }
        Ok(match self.known(key) {
            Some(Known::Person { id, .. }) => (Some(*id), name),
            // Neither programs nor people whose data was erased own items.
            _ => (None, None),
        })
    }

    /// Completes an action item, which was stored with its result.
    async fn store_item(
        &mut self,
        c: &mut Conn,
        place: &ChannelPlace,
        key: &str,
        value: &Value,
    ) -> Result<RecordOutcome, ImportError> {
        let kind = RecordKind::ActionItems;
        let resolution = string(value, "resolution_id");
        let own_key = format!("{resolution}:{key}");
        if self.keys.find(c, kind, &own_key).await?.is_some() {
            return Ok(RecordOutcome::Existing);
        }
        let found = self.keys.find(c, RecordKind::Resolutions, resolution);
        let found = match found.await? {
            Some(id) => resolution::find(c, ResolutionId(id)).await?,
            None => None,
        };
        let Some(resolution) = found else {
            return Ok(RecordOutcome::LeftOut(RESULT_GONE));
        };
        let Some(created_at) = time(value, "created_at") else {
            return Ok(RecordOutcome::LeftOut(NO_TIME));
        };
        let done_by = match first([string(value, "done_by")]) {
            Some(by) => self.person(c, by).await?,
            None => None,
        };
        let new = ImportedItem {
            resolution: resolution.id,
            id: self.item_id(c, resolution.fork_id, key).await?,
            created_at,
            done_at: time(value, "done_at"),
            done_by,
        };
        if !complete_imported_item(c, place.id, new).await? {
            return Ok(RecordOutcome::LeftOut(RESULT_GONE));
        }
        self.keys.store(c, kind, &own_key, new.id.0).await?;
        Ok(RecordOutcome::Imported)
    }

    /// Sources of a point that are messages of the deep dive, or the message that it starts from.
    async fn sources(
        &self,
        c: &mut Conn,
        fork: &Fork,
        point: &Value,
        known: &mut Sources,
    ) -> Result<Vec<MessageId>, DbError> {
        let mut found = Vec::new();
        for key in strings(point, "sources").into_iter().take(SOURCES_MAX + 1) {
            let source = if let Some(source) = known.get(&key) {
                *source
            } else {
                let source = self.source(c, fork, &key).await?;
                known.insert(key, source);
                source
            };
            if let Some(source) = source.filter(|source| !found.contains(source)) {
                found.push(source);
            }
        }
        Ok(found)
    }

    async fn source(
        &self,
        c: &mut Conn,
        fork: &Fork,
        key: &str,
    ) -> Result<Option<MessageId>, DbError> {
        let Some(id) = self.keys.find(c, RecordKind::Messages, key).await? else {
            return Ok(None);
        };
        let row: Option<(MessageId,)> = c
            .q("select id from messages where id = $1 and (conversation_id = $2 or id = $3) and kind <> 'notice'")
            .bind(id)
            .bind(fork.id)
            .bind(fork.message_id)
            .opt()
            .await?;
        Ok(row.map(|row| row.0))
    }
}

/// Checks whether a message can publish a result of the deep dive: a text message of an archive in the same thread.
fn is_card(message: &Message, fork: &Fork) -> bool {
    message.thread_id == fork.thread_id
        && message.id != fork.message_id
        && message.kind == MessageKind::Text
        && message.seq < 0
}
