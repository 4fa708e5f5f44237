//! Undoes imports: removes their messages with all derived texts, then the channels and people of the source that nothing else uses.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::{
    announce::Announcer,
    archive::ArchiveFault,
    emoji::remove_emoji,
    error::ImportError,
    event::announce_import,
    key::{Keys, RecordKind},
    people::id_in_archive,
    preview::kind_here,
    row::ImportRow,
    run::Importer,
    work::remove_record,
};
use crate::{
    auth::placeholders::remove_placeholder,
    chat::{
        channels::remove_imported_channel,
        imported::{ImportedRow, list_imported, remove_imported, remove_imported_fork},
    },
    db::{Conn, DbError, Json, dialect, now},
    failpoint, hooks,
    ids::{BEFORE_ALL_SEQS, BotId, ChannelId, ForkId, ImportId, UserId},
};

/// Number of messages that are removed per transaction.
const REMOVED_AT_ONCE: usize = 100;
/// Number of messages that are read at once.
const ROWS_READ_MAX: i64 = 2000;

/// Fails if the import is no longer being undone.
async fn move_to(
    c: &mut Conn,
    id: ImportId,
    position: i64,
    removed: i64,
) -> Result<(), ImportError> {
    let n = c
        .q("update imports set position = $2, done = done + $3 where id = $1 and state = 'undoing'")
        .bind(id)
        .bind(position)
        .bind(removed)
        .run()
        .await?;
    if n == 1 {
        Ok(())
    } else {
        Err(ArchiveFault::Stopped.into())
    }
}

impl Importer {
    pub(super) async fn undo(&self, row: &ImportRow) -> Result<(), ImportError> {
        let mut last = None;
        if let Some(source) = &row.source
            && !self.is_source_used(row, source).await?
        {
            last = Some(Keys {
                workspace: row.workspace_id,
                source: source.clone(),
            });
        }
        if let Some(keys) = &last {
            // Before their threads, which would delete them without an event.
            self.remove_work(keys, &[RecordKind::Schedules]).await?;
        }
        self.remove_messages(row).await?;
        if let Some(keys) = &last {
            self.remove_work(keys, &[RecordKind::Memories, RecordKind::Hooks])
                .await?;
            self.remove_forks(keys).await?;
            self.remove_channels(keys).await?;
            self.remove_emoji(keys).await?;
            self.remove_people(keys).await?;
        }
        let id = row.id;
        self.db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                c.q("update imports set state = 'undone', finished_at = $2 where id = $1 and state = 'undoing'")
                    .bind(id)
                    .bind(now())
                    .run()
                    .await?;
                Ok::<_, ImportError>(announce_import(c, id).await?)
            })
            .await
    }

    /// Checks whether another import of the same source has stored something.
    async fn is_source_used(&self, row: &ImportRow, source: &str) -> Result<bool, DbError> {
        self.db
            .read()
            .await?
            .q("select exists (select 1 from imports where workspace_id = $1 and source = $2 and id <> $3 and started_at is not null \
                and state <> 'undone')")
            .bind(row.workspace_id)
            .bind(source.to_owned())
            .bind(row.id)
            .value()
            .await
    }

    /// Removes the messages of the import, the newest first, so that replies precede the first message of their thread.
    async fn remove_messages(&self, row: &ImportRow) -> Result<(), ImportError> {
        let (workspace, id) = (row.workspace_id, row.id);
        let mut announcer = Announcer::default();
        let mut below = row.position;
        loop {
            let mut c = self.db.read().await?;
            let rows = list_imported(&mut c, workspace, below, ROWS_READ_MAX).await?;
            drop(c);
            let Some(last) = rows.last() else { break };
            below = last.seq;
            let own: Vec<ImportedRow> = rows
                .iter()
                .filter(|found| found.import == Some(id))
                .copied()
                .collect();
            for batch in own.chunks(REMOVED_AT_ONCE) {
                if self.shutdown.is_cancelled() {
                    return Err(ArchiveFault::Stopped.into());
                }
                announcer.touch(batch.iter().map(|found| found.channel));
                let due = announcer.due();
                let (batch, hub) = (batch.to_vec(), self.hub.clone());
                self.db
                    .write(workspace.0, async move |c: &mut Conn| {
                        dialect::lock_workspace(c, workspace.0).await?;
                        for found in &batch {
                            remove_imported(c, found.id, &hub).await?;
                        }
                        Announcer::announce(c, &due).await?;
                        let position = batch.last().map_or(BEFORE_ALL_SEQS, |found| found.seq);
                        move_to(c, id, position, count(batch.len())).await
                    })
                    .await?;
                failpoint!("undoing");
            }
        }
        let due = announcer.all();
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                Announcer::announce(c, &due).await?;
                move_to(c, id, BEFORE_ALL_SEQS, 0).await
            })
            .await
    }

    /// Removes channels that imports of the source created, and that nothing uses. Those that were here before are only forgotten.
    async fn remove_channels(&self, keys: &Keys) -> Result<(), ImportError> {
        let channels = keys
            .list(&mut self.db.read().await?, RecordKind::Channels)
            .await?;
        for (key, id) in channels {
            let keys = keys.clone();
            self.db
                .write(keys.workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, keys.workspace.0).await?;
                    let kept = keys.find(c, RecordKind::KeptChannels, &key).await?;
                    let is_made = keys.is_made(RecordKind::Channels, &key, id) || kept == Some(id);
                    let is_used = is_made
                        && kind_here(c, keys.workspace, id).await?.is_some()
                        && !remove_imported_channel(c, ChannelId(id)).await?;
                    if !is_used {
                        keys.forget(c, RecordKind::Channels, &key).await?;
                        keys.forget(c, RecordKind::KeptChannels, &key).await?;
                    }
                    Ok::<_, ImportError>(())
                })
                .await?;
        }
        Ok(())
    }

    /// Removes memories, webhooks, or schedules that imports of the source created.
    async fn remove_work(&self, keys: &Keys, kinds: &[RecordKind]) -> Result<(), ImportError> {
        for kind in kinds.iter().copied() {
            let all = keys.list(&mut self.db.read().await?, kind).await?;
            for (key, id) in all {
                let keys = keys.clone();
                self.db
                    .write(keys.workspace.0, async move |c: &mut Conn| {
                        dialect::lock_workspace(c, keys.workspace.0).await?;
                        Ok::<_, ImportError>(remove_record(c, &keys, kind, &key, id).await?)
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes deep dives that imports of the source created and nobody used, and forgets the records that belong to them.
    async fn remove_forks(&self, keys: &Keys) -> Result<(), ImportError> {
        let forks = keys
            .list(&mut self.db.read().await?, RecordKind::Forks)
            .await?;
        for (_, id) in forks {
            let workspace = keys.workspace;
            self.db
                .write(workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, workspace.0).await?;
                    Ok::<_, ImportError>(remove_imported_fork(c, workspace, ForkId(id)).await?)
                })
                .await?;
        }
        for kind in FORGOTTEN {
            loop {
                let keys = keys.clone();
                let forgotten: u64 = self
                    .db
                    .write(keys.workspace.0, async move |c: &mut Conn| {
                        Ok::<_, ImportError>(keys.forget_some(c, kind).await?)
                    })
                    .await?;
                if forgotten == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes emoji that imports of the source created.
    async fn remove_emoji(&self, keys: &Keys) -> Result<(), ImportError> {
        let all = keys
            .list(&mut self.db.read().await?, RecordKind::Emoji)
            .await?;
        for (name, file) in all {
            let keys = keys.clone();
            self.db
                .write(keys.workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, keys.workspace.0).await?;
                    remove_emoji(c, &keys, &name, file).await
                })
                .await?;
        }
        Ok(())
    }

    /// Forgets a person who was here before the import.
    async fn forget_matched(&self, keys: &Keys, key: String) -> Result<(), ImportError> {
        let keys = keys.clone();
        self.db
            .write(keys.workspace.0, async move |c: &mut Conn| {
                Ok(keys.forget(c, RecordKind::People, &key).await?)
            })
            .await
    }

    /// Removes placeholders and bots that imports of the source created, and that nothing names.
    async fn remove_people(&self, keys: &Keys) -> Result<(), ImportError> {
        let mut c = self.db.read().await?;
        let people = keys.list(&mut c, RecordKind::People).await?;
        let mut unused: HashMap<Uuid, String> = HashMap::new();
        for (key, id) in people {
            // Only placeholders and bots are removed, so a member with the ID of the archive stays.
            if keys.is_made(RecordKind::People, &key, id) || id_in_archive(&key) == Some(id) {
                unused.insert(id, key);
            } else {
                self.forget_matched(keys, key).await?;
            }
        }
        for sql in NAMED {
            let named: Vec<(Uuid,)> = c.q(sql).bind(keys.workspace).all().await?;
            for (id,) in named {
                unused.remove(&id);
            }
        }
        // Restored workflows stay, and name people who approve.
        let workflows: Vec<(Json<Value>,)> = c
            .q("select content from workflows where workspace_id = $1 order by id limit $2")
            .bind(keys.workspace)
            .bind(ROWS_READ_MAX)
            .all()
            .await?;
        let mut approvers = HashSet::new();
        for (Json(content),) in &workflows {
            collect_ids(content, &mut approvers);
        }
        unused.retain(|id, _| !approvers.contains(id));
        let edited: Vec<(Json<Value>,)> = c
            .q("select edited_by from resolutions where workspace_id = $1")
            .bind(keys.workspace)
            .all()
            .await?;
        let mut editors = HashSet::new();
        for (Json(people),) in &edited {
            collect_ids(people, &mut editors);
        }
        unused.retain(|id, _| !editors.contains(id));
        let mut above = i64::MIN;
        while !unused.is_empty() {
            type Row = (i64, Option<Uuid>, Json<Value>, Json<Value>);
            let rows: Vec<Row> = c
                .q("select seq, author_id, mentions, reactions from messages where workspace_id = $1 and seq > $2 order by seq limit $3")
                .bind(keys.workspace)
                .bind(above)
                .bind(ROWS_READ_MAX)
                .all()
                .await?;
            let Some((last, ..)) = rows.last() else { break };
            above = *last;
            let mut named = HashSet::new();
            for (_, author, Json(mentions), Json(reactions)) in &rows {
                named.extend(*author);
                collect_ids(mentions, &mut named);
                collect_ids(reactions, &mut named);
            }
            unused.retain(|id, _| !named.contains(id));
        }
        drop(c);
        for (id, key) in unused {
            let keys = keys.clone();
            self.db
                .write(keys.workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, keys.workspace.0).await?;
                    let is_here: bool = c
                        .q("select exists (select 1 from users where id = $1)")
                        .bind(id)
                        .value()
                        .await?;
                    let is_removed = remove_placeholder(c, keys.workspace, UserId(id)).await?
                        || hooks::remove_imported_bot(c, keys.workspace, BotId(id)).await?;
                    if is_removed || !is_here {
                        keys.forget(c, RecordKind::People, &key).await?;
                    }
                    Ok::<_, ImportError>(())
                })
                .await?;
        }
        Ok(())
    }
}

/// Records that are forgotten once no import of their source is left.
const FORGOTTEN: [RecordKind; 4] = [
    RecordKind::Forks,
    RecordKind::Resolutions,
    RecordKind::ActionItems,
    RecordKind::Messages,
];

/// Queries for people of workspace `$1` who are named outside of messages.
const NAMED: [&str; 9] = [
    "select distinct cm.user_id from channel_members cm join channels ch on ch.id = cm.channel_id where ch.workspace_id = $1",
    "select distinct dm.user_id from direct_members dm join channels ch on ch.id = dm.channel_id where ch.workspace_id = $1",
    "select distinct created_by from channels where workspace_id = $1 and created_by is not null",
    "select distinct created_by from files where workspace_id = $1",
    "select distinct created_by from emoji where workspace_id = $1",
    "select distinct created_by from forks where workspace_id = $1",
    "select distinct publisher_id from resolutions where workspace_id = $1 and publisher_id is not null",
    "select distinct owner_id from action_items where workspace_id = $1 and owner_id is not null",
    "select distinct done_by from action_items where workspace_id = $1 and done_by is not null",
];

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Collects the IDs of users and bots in a value.
fn collect_ids(value: &Value, ids: &mut HashSet<Uuid>) {
    match value {
        Value::String(text) => {
            let id = UserId::parse(text).map(|id| id.0);
            let id = id.or_else(|_| BotId::parse(text).map(|id| id.0));
            ids.extend(id.ok());
        }
        Value::Array(list) => list.iter().for_each(|value| collect_ids(value, ids)),
        Value::Object(map) => map.values().for_each(|value| collect_ids(value, ids)),
        _ => {}
    }
}
