//! Reads a whole fork as input for a draft.

use std::collections::{HashMap, HashSet};

use openvibe_extract::{Line, Material, Person, Speaker};

use crate::{
    chat::{
        forks::{self, Fork, ForkContext},
        messages::AuthorKind,
    },
    db::{Conn, DbError, Json},
    files::Attachment,
    forks::draft::Background,
    ids::{AgentId, ForkId, MessageId, UserId},
    model::estimate_tokens,
    replies::{
        lines::{AI_SUFFIX, BOT_SUFFIX, clean_name, escape_lines, person_name, without_middle},
        prompt::{Attached, Author, attached_line},
    },
    time::Timestamp,
};

/// Maximum number of thread messages that are read from before the forked message. Each is shortened to `BACKGROUND_CHARS_MAX`
/// characters.
const BACKGROUND_MAX: i64 = 50;
const BACKGROUND_CHARS_MAX: usize = 1_200;
/// Maximum number of members whose names are searched for in a fork.
const MEMBERS_MAX: i64 = 20_000;

/// A fork at the time it was read.
#[derive(Debug, Clone)]
pub struct ForkMaterial {
    pub fork: Fork,
    pub material: Material,
    /// Message IDs, parallel to `material.lines`.
    pub message_ids: Vec<MessageId>,
    /// Authors, parallel to `material.lines`.
    pub authors: Vec<Author>,
    /// Messages of the thread that precede the forked message, oldest first. Empty unless the fork's context is `thread`.
    pub background: Vec<BackgroundMessage>,
    /// User IDs, parallel to `material.people`; `None` for former members.
    pub people: Vec<Option<UserId>>,
    /// `seq` of the newest message read.
    pub covers_seq: i64,
}

/// A message of the thread that precedes the forked message.
#[derive(Debug, Clone)]
pub struct BackgroundMessage {
    pub message_id: MessageId,
    pub author: Author,
    text: String,
}

impl ForkMaterial {
    /// The newest messages of `background` that fit into `tokens_max`, with their labels, oldest first.
    pub fn background(&self, tokens_max: u64) -> Vec<Background> {
        let mut room = tokens_max;
        let first = self.material.lines.len();
        let mut kept: Vec<Background> = Vec::new();
        for (n, message) in self.background.iter().enumerate().rev() {
            let Some(left) = room.checked_sub(estimate_tokens(&message.text) + 1) else {
                break;
            };
            room = left;
            kept.push(Background {
                line: first + n,
                text: message.text.clone(),
            });
        }
        kept.reverse();
        kept
    }

    /// Message and author of a line, or of a message that precedes the forked message.
    pub fn source(&self, line: usize) -> Option<(MessageId, Author)> {
        match line.checked_sub(self.material.lines.len()) {
            Some(before) => {
                let before = self.background.get(before)?;
                Some((before.message_id, before.author.clone()))
            }
            None => Some((
                *self.message_ids.get(line)?,
                self.authors.get(line)?.clone(),
            )),
        }
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: MessageId,
    seq: i64,
    author_type: AuthorKind,
    author_id: Option<uuid::Uuid>,
    author_name: Option<String>,
    content: String,
    mentions: Json<Vec<crate::chat::messages::Mention>>,
    attachments: Json<Vec<Attachment>>,
    created_at: Timestamp,
}

macro_rules! said_sql {
    ($tail:literal) => {
        concat!(
            "select m.id, m.seq, m.author_type, m.author_id, coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
             m.content, m.mentions, m.attachments, m.created_at from messages m \
             left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id ",
            $tail
        )
    };
}

/// Reads a fork. Returns `None` if it no longer exists. `c` must be a snapshot of the database.
pub async fn load(c: &mut Conn, id: ForkId) -> Result<Option<ForkMaterial>, DbError> {
    let fork = match forks::get_fork(c, id).await {
        Ok(fork) => fork,
        Err(crate::chat::ChatError::Db(e)) => return Err(e),
        Err(_) => return Ok(None),
    };
    // A deleted forked message is kept as an empty line, because the fork still starts from it.
    let origin: Option<Row> = c
        .q(said_sql!("where m.id = $1"))
        .bind(fork.message_id)
        .opt()
        .await?;
    let background: Vec<Row> = match &origin {
        Some(origin) if fork.context == ForkContext::Thread => {
            c.q(said_sql!(
                "where m.conversation_id = $1 and m.seq < $2 and m.deleted_at is null and m.kind = 'text' \
                 and m.state <> 'streaming' order by m.seq desc limit $3"
            ))
            .bind(fork.thread_id)
            .bind(origin.seq)
            .bind(BACKGROUND_MAX)
            .all()
            .await?
        }
        _ => Vec::new(),
    };
    let said: Vec<Row> = c
        .q(said_sql!(
            "where m.conversation_id = $1 and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' order by m.seq"
        ))
        .bind(id)
        .all()
        .await?;
    let covers_seq = said.last().map_or(0, |row| row.seq);
    let rows: Vec<Row> = origin.into_iter().chain(said).collect();
    let members: Vec<NamedMember> = c
        .q("select m.user_id, u.name, m.handle from members m join users u on u.id = m.user_id where m.workspace_id = $1 \
            order by m.joined_at, m.user_id limit $2")
        .bind(fork.workspace_id)
        .bind(MEMBERS_MAX)
        .all()
        .await?;
    let mut material = assemble(fork, covers_seq, rows, members);
    material.background = background.into_iter().rev().map(Row::background).collect();
    Ok(Some(material))
}

/// A member whose name may occur in the fork.
#[derive(sqlx::FromRow)]
struct NamedMember {
    user_id: UserId,
    name: String,
    handle: String,
}

/// Members who posted in the fork, or who are mentioned or named in it.
fn people_of(rows: &[Row], members: Vec<NamedMember>) -> Vec<(Option<UserId>, Person)> {
    let spoke: HashSet<UserId> = rows.iter().filter_map(Row::person).collect();
    let mentioned: HashSet<&str> = rows
        .iter()
        .flat_map(|row| &row.mentions.0)
        .filter_map(|mention| mention.id.as_deref())
        .collect();
    let words: HashSet<String> = rows.iter().flat_map(|row| words(&row.content)).collect();
    let named = |name: &str| {
        let mut parts = self::words(name).peekable();
        parts.peek().is_some() && parts.all(|part| words.contains(&part))
    };
    let first_named = |name: &str| {
        let first = self::words(name).next();
        first.is_some_and(|first| first.chars().count() > 2 && words.contains(&first))
    };
    let is_concerned = |member: &NamedMember| {
        spoke.contains(&member.user_id)
            || mentioned.contains(member.user_id.to_string().as_str())
            || named(&member.name)
            || first_named(&member.name)
            || named(&member.handle)
    };
    let person = |member: NamedMember| {
        let NamedMember {
            user_id,
            name,
            handle,
        } = member;
        (Some(user_id), Person { name, handle })
    };
    let concerned = members.into_iter().filter(is_concerned);
    concerned.map(person).collect()
}

fn assemble(
    fork: Fork,
    covers_seq: i64,
    rows: Vec<Row>,
    members: Vec<NamedMember>,
) -> ForkMaterial {
    let mut people = people_of(&rows, members);
    let mut place: HashMap<UserId, usize> = people
        .iter()
        .enumerate()
        .filter_map(|(n, (id, _))| id.map(|id| (id, n)))
        .collect();
    let (mut lines, mut message_ids, mut authors) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let name = row
            .author_name
            .clone()
            .unwrap_or_else(|| "Deleted account".to_owned());
        let (speaker, author) = if let Some(user) = row.person() {
            let n = *place.entry(user).or_insert_with(|| {
                // A former member can be a speaker, but not an owner.
                let person = Person {
                    name: name.clone(),
                    handle: String::new(),
                };
                people.push((None, person));
                people.len() - 1
            });
            (Speaker::Person(n), Author::Human { id: user, name })
        } else {
            let id = AgentId(row.author_id.unwrap_or_default());
            (Speaker::Agent(name.clone()), Author::Agent { id, name })
        };
        authors.push(author);
        message_ids.push(row.id);
        lines.push(Line {
            speaker,
            text: row.content,
            files: files_told(row.attachments.0),
            day: row.created_at.day(),
        });
    }
    let (ids, people) = people.into_iter().unzip();
    ForkMaterial {
        fork,
        material: Material { people, lines },
        message_ids,
        authors,
        background: Vec::new(),
        people: ids,
        covers_seq,
    }
}

fn files_told(files: Vec<Attachment>) -> Vec<String> {
    let told = |file: Attachment| {
        attached_line(&Attached {
            name: file.name,
            size_bytes: file.size_bytes,
        })
    };
    files.into_iter().map(told).collect()
}

impl Row {
    fn background(self) -> BackgroundMessage {
        let name = self
            .author_name
            .clone()
            .unwrap_or_else(|| "Deleted account".to_owned());
        let (author, label) = if let Some(id) = self.person() {
            let label = person_name(&name);
            (Author::Human { id, name }, label)
        } else if self.author_type == AuthorKind::Bot {
            let id = UserId(self.author_id.unwrap_or_default());
            let label = format!("{}{BOT_SUFFIX}", clean_name(&name));
            (Author::Human { id, name }, label)
        } else {
            let id = AgentId(self.author_id.unwrap_or_default());
            let label = format!("{}{AI_SUFFIX}", clean_name(&name));
            (Author::Agent { id, name }, label)
        };
        let text = escape_lines(&without_middle(self.content.trim(), BACKGROUND_CHARS_MAX));
        BackgroundMessage {
            message_id: self.id,
            author,
            text: format!("[{label}, {}]: {text}", self.created_at.day()),
        }
    }

    fn person(&self) -> Option<UserId> {
        self.author_id
            .filter(|_| self.author_type == AuthorKind::Human)
            .map(UserId)
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
