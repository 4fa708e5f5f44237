//! The layout of Slack's exports: lists of people and channels, and a folder per channel with a file per day. Programs that read exports of
//! Slack read it.
//!
//! A day has the threads that started on it, each with its replies, so that nothing has to be read twice. Results are messages, and deep
//! dives are left out; `README.txt` lists them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    contents::next_file,
    error::ExportError,
    lists::{CHANNELS, ExportedChannel, ExportedPerson, PEOPLE, list_members},
    messages::{DeepDives, Root, next_messages},
    page::{Content, Page, Position, Rows, Shape, exported, of_workspace},
    view::{View, is_exported},
};
use crate::{
    auth::{Role, members::MemberStatus},
    chat::{
        channels::ChannelKind,
        messages::{Message, MessageKind},
    },
    db::{Conn, is_example},
    ids::{ChannelId, FileId, ForkId, WorkspaceId},
    slack::{self, AgentRow, RobotRow, ThreadFacts, channel_id, team_id, user_id},
};

/// Number of people in a direct channel that is not a group.
const PAIR: usize = 2;
const README: &str = "README.txt";
const USERS: &str = "users.json";
const HEAD: &str = "This archive has the layout of an export of Slack. Files are in __uploads, by the ID of the file. A file of a day has \
    the threads that started on that day (UTC). These deep dives are not in the archive:";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelList {
    Channels,
    Groups,
    GroupMessages,
    DirectMessages,
}

impl ChannelList {
    fn name(self) -> &'static str {
        match self {
            Self::Channels => "channels.json",
            Self::Groups => "groups.json",
            Self::GroupMessages => "mpims.json",
            Self::DirectMessages => "dms.json",
        }
    }

    /// The list that has a channel.
    fn of(kind: ChannelKind, members: usize) -> Self {
        match kind {
            ChannelKind::Public => Self::Channels,
            ChannelKind::Private => Self::Groups,
            ChannelKind::Direct if members > PAIR => Self::GroupMessages,
            ChannelKind::Direct => Self::DirectMessages,
        }
    }
}

/// Parts of an archive, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Readme,
    People,
    Bots,
    Agents,
    Channels(ChannelList),
    Messages,
    Files,
}

const PARTS: [Part; 10] = [
    Part::Readme,
    Part::People,
    Part::Bots,
    Part::Agents,
    Part::Channels(ChannelList::Channels),
    Part::Channels(ChannelList::Groups),
    Part::Channels(ChannelList::GroupMessages),
    Part::Channels(ChannelList::DirectMessages),
    Part::Messages,
    Part::Files,
];

const BOTS: &str = "select b.id, u.name, b.handle, b.created_at from bots b join users u on u.id = b.id \
    where b.workspace_id = $1 and b.id > $2 order by b.id limit $3";

const AGENTS: &str = slack::agent_sql!("and a.id > $2 order by a.id limit $3");

#[derive(sqlx::FromRow)]
struct ForkRow {
    id: ForkId,
    title: String,
    name: Option<String>,
    message_count: i64,
}

const FORKS: &str = concat!(
    "select f.id, f.title, ch.name, f.message_count from forks f join channels ch on ch.id = f.channel_id \
     where f.workspace_id = $1 and f.id > $2 and ",
    is_exported!("ch"),
    " and not ",
    is_example!("f.thread_id"),
    " order by f.id limit $3"
);

/// The page after a position; `None` at the end. `public_url` is that of the server.
///
/// # Errors
/// `Db`.
pub(super) async fn next(
    c: &mut Conn,
    view: &View,
    public_url: &str,
    position: &Position,
) -> Result<Option<Page>, ExportError> {
    let mut at = position.clone();
    while let Some(part) = PARTS.get(at.part) {
        let page = match part {
            Part::Readme => next_forks(c, view, &at).await?,
            Part::People => next_people(c, view, &at).await?,
            Part::Bots => next_bots(c, view, &at).await?,
            Part::Agents => next_agents(c, view, &at).await?,
            Part::Channels(list) => next_channels(c, view, *list, &at).await?,
            Part::Messages => next_day(c, view, public_url, &at).await?,
            Part::Files => {
                let named =
                    |id: FileId, name: &str| format!("__uploads/{}/{name}", slack::file_id(id));
                next_file(c, view, &at, named).await?
            }
        };
        if page.is_some() {
            return Ok(page);
        }
        at = Position {
            part: at.part + 1,
            ..Position::default()
        };
    }
    Ok(None)
}

/// A page of a list after `at`. The first one exists even without rows, so that the list does.
fn page(rows: Rows, at: &Position, last: Option<Uuid>) -> Option<Page> {
    let after = match last {
        Some(last) => last,
        None if at.after.is_nil() => Uuid::max(),
        None => return None,
    };
    Some(Page {
        content: Content::Rows(rows),
        next: Position {
            after,
            ..at.clone()
        },
    })
}

/// Rows of a list of objects.
fn list(name: &str, kind: &'static str, rows: impl Iterator<Item = Value>) -> Rows {
    Rows {
        name: name.to_owned(),
        shape: Shape::Array,
        kind: Some(kind),
        rows: rows.map(|row| row.to_string()).collect(),
    }
}

async fn next_forks(c: &mut Conn, view: &View, at: &Position) -> Result<Option<Page>, ExportError> {
    let forks: Vec<ForkRow> = exported(c, view, FORKS, view.workspace.0, at.after).await?;
    let head = at.after.is_nil().then(|| HEAD.to_owned());
    let lines = forks.iter().map(|fork| {
        let channel = fork.name.as_deref().unwrap_or("direct messages");
        format!(
            "- {channel}: {} ({} messages)",
            fork.title, fork.message_count
        )
    });
    let rows = Rows {
        name: README.to_owned(),
        shape: Shape::Lines,
        kind: None,
        rows: head.into_iter().chain(lines).collect(),
    };
    Ok(page(rows, at, forks.last().map(|fork| fork.id.0)))
}

fn person(workspace: WorkspaceId, person: &ExportedPerson) -> Value {
    let team = team_id(workspace);
    let mut profile = json!({
        "real_name": person.name, "real_name_normalized": person.name,
        "display_name": person.handle, "display_name_normalized": person.handle, "team": team,
    });
    if let Some(email) = &person.email {
        profile["email"] = email.as_str().into();
    }
    json!({
        "id": user_id(person.user_id.0), "team_id": team, "name": person.handle, "real_name": person.name,
        "deleted": person.status == MemberStatus::Suspended, "is_admin": person.role == Role::Admin, "is_owner": false,
        "is_bot": false, "is_app_user": false, "updated": person.joined_at.unix_s(), "profile": profile,
    })
}

async fn next_people(
    c: &mut Conn,
    view: &View,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let people: Vec<ExportedPerson> = of_workspace(c, view, PEOPLE, at.after).await?;
    let rows = people.iter().map(|one| person(view.workspace, one));
    let last = people.last().map(|one| one.user_id.0);
    Ok(page(list(USERS, "people", rows), at, last))
}

async fn next_bots(c: &mut Conn, view: &View, at: &Position) -> Result<Option<Page>, ExportError> {
    let bots: Vec<RobotRow> = of_workspace(c, view, BOTS, at.after).await?;
    let rows = bots.iter().map(|bot| slack::robot(view.workspace, bot));
    let last = bots.last().map(|bot| bot.id.0);
    Ok(page(list(USERS, "bots", rows), at, last))
}

async fn next_agents(
    c: &mut Conn,
    view: &View,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let agents: Vec<AgentRow> = of_workspace(c, view, AGENTS, at.after).await?;
    let rows = agents
        .iter()
        .map(|agent| slack::agent(view.workspace, agent));
    let last = agents.last().map(|agent| agent.id.0);
    Ok(page(list(USERS, "agents", rows), at, last))
}

/// Members of a channel, and the agent or the bot of a direct one, as users.
fn members(row: &ExportedChannel) -> Vec<String> {
    let people = row.member_ids.iter().map(|id| id.0);
    let agent = row.agent_id.map(|id| id.0);
    let bot = row.bot_id.map(|id| id.0);
    people.chain(agent).chain(bot).map(user_id).collect()
}

fn channel(row: &ExportedChannel) -> Value {
    let id = channel_id(row.id, row.kind);
    let members = members(row);
    let created = row.created_at.unix_s();
    if ChannelList::of(row.kind, members.len()) == ChannelList::DirectMessages {
        return json!({"id": id, "created": created, "members": members});
    }
    let topic = row.topic.clone().unwrap_or_default();
    let creator = row.created_by.map(|id| user_id(id.0)).unwrap_or_default();
    json!({
        "name": row.name.as_ref().unwrap_or(&id), "created": created, "creator": creator, "is_archived": row.archived_at.is_some(),
        "is_general": false, "members": members, "topic": {"value": topic, "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0}, "id": id,
    })
}

async fn next_channels(
    c: &mut Conn,
    view: &View,
    wanted: ChannelList,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let mut channels: Vec<ExportedChannel> =
        exported(c, view, CHANNELS, view.workspace.0, at.after).await?;
    let last = channels.last().map(|channel| channel.id.0);
    for channel in &mut channels {
        channel.member_ids = list_members(c, channel.id).await?;
    }
    let is_wanted =
        |row: &&ExportedChannel| ChannelList::of(row.kind, members(row).len()) == wanted;
    let rows = channels.iter().filter(is_wanted).map(channel);
    Ok(page(list(wanted.name(), "channels", rows), at, last))
}

/// Folder of a channel's messages: its name, or its ID if it is direct.
async fn folder(c: &mut Conn, id: ChannelId) -> Result<String, ExportError> {
    let row: Option<(ChannelKind, Option<String>)> = c
        .q("select kind, name from channels where id = $1")
        .bind(id)
        .opt()
        .await?;
    let (kind, name) = row.unwrap_or((ChannelKind::Private, None));
    Ok(name.unwrap_or_else(|| channel_id(id, kind)))
}

fn is_shown(message: &Message) -> bool {
    message.kind != MessageKind::Notice && message.deleted_at.is_none()
}

/// The next messages of a day.
async fn next_day(
    c: &mut Conn,
    view: &View,
    public_url: &str,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let page = next_messages(c, view, at, DeepDives::LeftOut, "%Y-%m-%d").await?;
    let Some(page) = page else {
        return Ok(None);
    };
    let shown = page
        .messages
        .iter()
        .filter(|(message, _)| is_shown(message));
    let rows: Vec<Value> = shown
        .map(|(message, root)| {
            let facts = ThreadFacts {
                thread_ts: root.as_ref().map(Root::ts),
                reply_count: None,
            };
            slack::message(message, &facts, public_url)
        })
        .collect();
    let content = if rows.is_empty() {
        Content::Nothing
    } else {
        let name = format!("{}/{}.json", folder(c, page.channel).await?, page.date);
        Content::Rows(list(&name, "messages", rows.into_iter()))
    };
    Ok(Some(Page {
        content,
        next: page.next,
    }))
}
