//! The preview of an import: reads the whole archive, and stores nothing of it but numbers and names.

use std::{
    collections::{HashMap, HashSet},
    io::{Read, Seek},
    ops::ControlFlow,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    discord,
    error::ImportError,
    key::{Keys, RecordKind, bounded},
    options::{ChannelChoice, ImportOptions},
    record::{SourceChannelKind, SourceFiles, SourceIndex, SourceItem, SourceNames, SourcePerson},
    source::SourceArchive,
};
use crate::{
    auth::quota,
    chat::channels::{ChannelKind, parse_name},
    db::{Conn, DbError},
    ids::{ChannelId, UserId, WorkspaceId},
    text_enum::text_enum,
};

/// Messages that an import stores per second at least, for the estimate.
const PER_SECOND: i64 = 1000;

/// Maximum number of problems that are shown.
const PROBLEMS_MAX: usize = 100;

text_enum! {
    /// Fate of a channel of the archive.
    pub enum ChannelFate {
        /// A channel of its own.
        New = "new",
        /// The messages go to an existing channel.
        Joins = "joins",
        LeftOut = "left_out",
    }
}

/// Numbers of what an archive contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ImportNumbers {
    pub people: i64,
    pub channels: i64,
    pub private_channels: i64,
    pub direct_channels: i64,
    pub messages: i64,
    /// Entries that will be left out: joins, renames, deleted messages, and so on.
    pub left_out: i64,
    /// Files whose bytes are in the archive, that are only links, and that the source does not have.
    pub files_here: i64,
    pub files_linked: i64,
    pub files_missing: i64,
    /// Bytes of the files in the archive.
    pub file_bytes: i64,
    /// Bytes of the texts.
    pub text_bytes: i64,
    pub minutes: i64,
}

impl ImportNumbers {
    /// Counted size of the messages, whose texts are stored twice, and of the files in the archive.
    fn bytes_needed(&self) -> i64 {
        let rows = self.messages.saturating_mul(quota::message_bytes("", ""));
        let texts = self.text_bytes.saturating_mul(2);
        let files = quota::file_bytes(self.files_here, self.file_bytes);
        rows.saturating_add(texts).saturating_add(files)
    }
}

/// A person of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportPerson {
    pub key: String,
    pub name: String,
    pub email: Option<String>,
    pub is_bot: bool,
    /// The member of the workspace who this is: chosen, or with the same confirmed address.
    #[serde(default)]
    pub match_id: Option<UserId>,
    /// Handle here of this member, or of what the person became in an earlier import; null for others.
    #[serde(default)]
    pub handle: Option<String>,
}

/// A channel of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportChannel {
    pub key: String,
    pub name: String,
    #[schema(inline)]
    pub kind: SourceChannelKind,
    pub members: i64,
    /// Entries of its files, including those that will be left out.
    pub messages: i64,
    #[schema(inline)]
    #[serde(default = "new_fate")]
    pub becomes: ChannelFate,
    /// The existing channel that it joins.
    #[serde(default)]
    pub channel_id: Option<ChannelId>,
    /// True if the person who imports was in the channel, as far as this was known when the archive was read.
    #[serde(default)]
    pub is_member: bool,
}

fn new_fate() -> ChannelFate {
    ChannelFate::New
}

/// Preview of an import, before anything is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ImportPreview {
    /// Such as `slack:T024BE7LD`. A later archive of the same source adds only what is new.
    pub source: String,
    pub counts: ImportNumbers,
    /// Bytes of the workspace's storage that the messages and the files of the archive need, and those that are free.
    pub bytes_needed: i64,
    pub bytes_free: i64,
    pub people: Vec<ImportPerson>,
    pub channels: Vec<ImportChannel>,
    pub problems: Vec<String>,
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Counts an entry.
fn count_item(counts: &mut ImportNumbers, item: &SourceItem, files: &dyn SourceFiles) {
    let SourceItem::Message(message) = item else {
        counts.left_out += 1;
        return;
    };
    counts.messages += 1;
    counts.text_bytes += count(message.text.len());
    for file in &message.files {
        if file.left_out.is_some() {
            counts.files_missing += 1;
        } else if let Some(bytes) = files.file_bytes(&file.key) {
            counts.files_here += 1;
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            counts.file_bytes = counts.file_bytes.saturating_add(bytes);
        } else {
            counts.files_linked += 1;
        }
    }
}

/// Reads the whole archive. `is_own` finds the person who imports. Returns `None` if `is_stopped` before the end.
pub(super) fn read<R: Read + Seek>(
    archive: &mut SourceArchive<R>,
    is_own: &dyn Fn(&SourcePerson) -> bool,
    is_stopped: &dyn Fn() -> bool,
) -> Option<ImportPreview> {
    let SourceIndex {
        source,
        people,
        channels,
        mut problems,
    } = archive.index();
    let mut counts = ImportNumbers {
        people: count(people.len()),
        channels: count(channels.len()),
        ..ImportNumbers::default()
    };
    for channel in &channels {
        match channel.kind {
            SourceChannelKind::Public => {}
            SourceChannelKind::Private => counts.private_channels += 1,
            SourceChannelKind::Direct => counts.direct_channels += 1,
        }
    }
    let folders: HashSet<&str> = channels.iter().map(|c| c.folder.as_str()).collect();
    let mut messages: HashMap<String, i64> = HashMap::new();
    let mut has_stopped = false;
    archive.units(&SourceNames::default(), 0, &mut |unit, files| {
        if is_stopped() {
            has_stopped = true;
            return ControlFlow::Break(());
        }
        for problem in unit.problems {
            // Some parts are read twice.
            if problems.len() < PROBLEMS_MAX && !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        for placed in unit.items {
            if matches!(placed.item, SourceItem::Record(_)) {
                continue;
            }
            let entries = messages.entry(placed.folder.clone()).or_default();
            *entries += 1;
            let is_in_folder = !placed.folder.is_empty();
            if *entries == 1 && is_in_folder && !folders.contains(placed.folder.as_str()) {
                problems.push(format!(
                    "the folder {} belongs to no channel",
                    placed.folder
                ));
            }
            count_item(&mut counts, &placed.item, files);
        }
        problems.truncate(PROBLEMS_MAX);
        ControlFlow::Continue(())
    });
    if has_stopped {
        return None;
    }
    counts.minutes = (counts.messages / PER_SECOND + 59) / 60;
    let own = people.iter().filter(|person| is_own(person));
    let own: HashSet<&str> = own.map(|person| person.key.as_str()).collect();
    let channels = channels.into_iter().map(|channel| ImportChannel {
        members: count(channel.members.len()),
        messages: messages.get(&channel.folder).copied().unwrap_or(0),
        key: channel.key,
        name: channel.name,
        kind: channel.kind,
        becomes: ChannelFate::New,
        channel_id: None,
        is_member: channel.members.iter().any(|key| own.contains(key.as_str())),
    });
    let channels = channels.collect();
    let people = people.into_iter().map(|person| ImportPerson {
        key: person.key,
        name: person.name,
        email: person.email,
        is_bot: person.is_bot,
        match_id: None,
        handle: None,
    });
    Some(ImportPreview {
        source,
        counts,
        people: people.collect(),
        channels,
        problems,
        ..ImportPreview::default()
    })
}

/// Members with a confirmed address, by address.
pub(super) async fn confirmed_members(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<HashMap<String, UserId>, DbError> {
    let rows: Vec<(String, UserId)> = c
        .q(
            "select u.email, u.id from members m join users u on u.id = m.user_id \
            where m.workspace_id = $1 and m.status = 'active' and u.email_confirmed_at is not null",
        )
        .bind(workspace)
        .all()
        .await?;
    Ok(rows
        .into_iter()
        .map(|(email, id)| (email.to_lowercase(), id))
        .collect())
}

/// Handles of the workspace, by their owners.
async fn handles_here(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<HashMap<Uuid, String>, DbError> {
    let rows: Vec<(Uuid, String)> = c
        .q("select owner_id, handle from handles where workspace_id = $1")
        .bind(workspace)
        .all()
        .await?;
    Ok(rows.into_iter().collect())
}

/// The public channel with this name.
async fn public_channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Option<ChannelId>, DbError> {
    let Ok(name) = parse_name(name) else {
        return Ok(None);
    };
    let row: Option<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 and name = $2 and kind = 'public'")
        .bind(workspace)
        .bind(name)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Kind of a channel that an earlier import found or created; `None` if it is no longer here.
pub(super) async fn kind_here(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: Uuid,
) -> Result<Option<ChannelKind>, DbError> {
    let row: Option<(ChannelKind,)> = c
        .q("select kind from channels where id = $1 and workspace_id = $2")
        .bind(id)
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Checks whether the channel here would show what is private in the archive, such as after a channel of the source became private.
pub(super) fn would_show(source: SourceChannelKind, here: ChannelKind) -> bool {
    source != SourceChannelKind::Public && here == ChannelKind::Public
}

/// Fate of a channel that an earlier import of the source knew. The ID is only that of a public channel.
async fn known_fate(
    c: &mut Conn,
    keys: &Keys,
    channel: &ImportChannel,
    choice: Option<ChannelChoice>,
) -> Result<Option<(ChannelFate, Option<ChannelId>)>, DbError> {
    let Some(id) = keys.find(c, RecordKind::Channels, &channel.key).await? else {
        return Ok(None);
    };
    let here = kind_here(c, keys.workspace, id).await?;
    Ok(here.map(|here| {
        if would_show(
            ChannelChoice::kind_of(choice, channel.kind, keys.product()),
            here,
        ) {
            return (ChannelFate::LeftOut, None);
        }
        let public = (here == ChannelKind::Public).then_some(ChannelId(id));
        (ChannelFate::Joins, public)
    }))
}

/// Fate of a channel, and the existing channel that it joins.
pub(super) async fn fate_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    kind: SourceChannelKind,
    name: &str,
    choice: Option<ChannelChoice>,
) -> Result<(ChannelFate, Option<ChannelId>), DbError> {
    match (choice, kind) {
        (Some(ChannelChoice::LeaveOut), _) => Ok((ChannelFate::LeftOut, None)),
        (Some(ChannelChoice::Existing(id)), SourceChannelKind::Public) => {
            Ok((ChannelFate::Joins, Some(id)))
        }
        (None, SourceChannelKind::Public) => {
            let known = public_channel(c, workspace, name).await?;
            let fate = known.map_or(ChannelFate::New, |_| ChannelFate::Joins);
            Ok((fate, known))
        }
        _ => Ok((ChannelFate::New, None)),
    }
}

impl ImportPreview {
    /// Adds the people and channels that are here already, and the choices.
    pub(super) async fn match_with(
        &mut self,
        c: &mut Conn,
        workspace: WorkspaceId,
        options: &ImportOptions,
    ) -> Result<(), DbError> {
        let storage = quota::get_storage(c, workspace).await?;
        self.bytes_needed = self.counts.bytes_needed();
        self.bytes_free = (storage.bytes_max - storage.bytes).max(0);
        let known = confirmed_members(c, workspace).await?;
        let keys = Keys {
            workspace,
            source: self.source.clone(),
        };
        let earlier = keys.list(c, RecordKind::People).await?;
        let earlier: HashMap<String, Uuid> = earlier.into_iter().collect();
        let handles = handles_here(c, workspace).await?;
        for person in &mut self.people {
            person.email = options.address_of(&person.key, person.email.take());
            let chosen = options.people.get(&person.key);
            let email = person.email.as_ref().filter(|_| !person.is_bot);
            let same = email.and_then(|email| known.get(email));
            person.match_id = chosen.or(same).copied();
            let here = person.match_id.map(|id| id.0);
            let here = here.or_else(|| earlier.get(&bounded(&person.key)).copied());
            person.handle = here.and_then(|id| handles.get(&id).cloned());
        }
        for channel in &mut self.channels {
            let choice = options.channels.get(&channel.key).copied();
            let known = match choice {
                Some(ChannelChoice::LeaveOut) => None,
                _ => known_fate(c, &keys, channel, choice).await?,
            };
            let fate = if let Some(known) = known {
                known
            } else {
                let kind = ChannelChoice::kind_of(choice, channel.kind, keys.product());
                fate_of(c, workspace, kind, &channel.name, choice).await?
            };
            (channel.becomes, channel.channel_id) = fate;
        }
        Ok(())
    }

    /// Checks that choices name people and channels of the archive, and that what was private does not go to an existing channel.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) fn check(&self, options: &ImportOptions) -> Result<(), ImportError> {
        let people: HashSet<&str> = self.people.iter().map(|p| p.key.as_str()).collect();
        for (mut keys, field) in [
            (options.people.keys().collect::<Vec<_>>(), "people"),
            (options.addresses.keys().collect(), "addresses"),
        ] {
            keys.retain(|key| !people.contains(key.as_str()));
            if let Some(key) = keys.first() {
                let problem = format!("the archive has no person `{key}`");
                return Err(ImportError::Invalid(problem, field));
            }
        }
        let channels: HashMap<&str, SourceChannelKind> = self
            .channels
            .iter()
            .map(|c| (c.key.as_str(), c.kind))
            .collect();
        for (key, choice) in &options.channels {
            let Some(kind) = channels.get(key.as_str()) else {
                let problem = format!("the archive has no channel `{key}`");
                return Err(ImportError::Invalid(problem, "channels"));
            };
            let is_shown = matches!(choice, ChannelChoice::Existing(_));
            if is_shown && *kind != SourceChannelKind::Public {
                let problem =
                    format!("`{key}` was private: it can only become a channel of its own");
                return Err(ImportError::Invalid(problem, "channels"));
            }
            let has_permissions = !self.source.starts_with(discord::PRODUCT);
            if *choice == ChannelChoice::Public
                && (has_permissions || *kind != SourceChannelKind::Private)
            {
                let problem = format!("`{key}` keeps its members: it cannot become public");
                return Err(ImportError::Invalid(problem, "channels"));
            }
        }
        Ok(())
    }
}
