//! What of a message can be found, written in the transaction of whatever changes the message.
//!
//! ```text
//! title of the thread (of a first message) · = · text · = · names of files · = · =facts
//! ```
//!
//! Notices, deleted messages and replies that are still being written have no document. How documents are stored: `dialect::search`.

use pulldown_cmark::{Event, Parser, Tag};

use super::{query::Has, words::folded};
use crate::{
    chat::{
        messages::{self, Message, Row, message_sql},
        plain::MARKDOWN,
    },
    db::{Conn, Db, DbError, dialect::search as store},
    ids::{MessageId, WorkspaceId},
};

/// Which way documents are made; another one makes all of them anew at the next start.
const VERSION: &str = "2";
/// Messages that are indexed in one transaction at an upgrade.
const FILLED_AT_ONCE: i64 = 500;

/// What is found by a text; made outside of transactions.
#[derive(Debug, Clone, Default)]
pub struct Findable {
    words: String,
    has_link: bool,
    has_code: bool,
}

impl Findable {
    /// From a text as Markdown and without its marks.
    pub fn of(content: &str, plain: &str) -> Self {
        let (mut has_link, mut has_code) = (false, false);
        for event in Parser::new_ext(content, MARKDOWN) {
            match event {
                Event::Start(Tag::Link { .. }) => has_link = true,
                Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => has_code = true,
                Event::Text(text) => {
                    has_link |= ["http://", "https://"]
                        .iter()
                        .any(|begin| text.contains(begin));
                }
                _ => {}
            }
        }
        Self {
            words: folded(plain),
            has_link,
            has_code,
        }
    }
}

/// The end of an id, which tells apart what is of one kind.
fn ending(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(_, end)| end)
}

/// The fact that someone wrote a message; `id` as clients see it.
pub fn fact_author(id: &str) -> String {
    format!("=f{}", ending(id))
}

/// The fact that a message stands in a channel.
pub fn fact_channel(id: &str) -> String {
    format!("=c{}", ending(id))
}

/// Fact: the message stands in a thread, outside of its deep dives.
pub fn fact_thread(id: &str) -> String {
    format!("=t{}", ending(id))
}

/// The fact that a message begins a thread.
pub const FACT_ROOT: &str = "=root";
/// The fact that a message was simply said.
pub const FACT_TEXT: &str = "=text";
/// The fact that a message is the card of a result.
pub const FACT_RESULT: &str = "=result";

pub fn fact_has(what: Has) -> &'static str {
    match what {
        Has::File => "=file",
        Has::Link => "=link",
        Has::Code => "=code",
        Has::Reaction => "=reaction",
        Has::Result => FACT_RESULT,
    }
}

/// Whether a message begins a thread, and that one's title.
#[derive(Debug, Clone, Copy)]
pub enum Opens<'a> {
    Nothing,
    Thread(Option<&'a str>),
}

fn document(message: &Message, text: &Findable, opens: Opens<'_>) -> String {
    let mut out = String::with_capacity(text.words.len() + 128);
    let mut push = |word: &str| {
        if !word.is_empty() {
            out.push_str(word);
            out.push(' ');
        }
    };
    if let Opens::Thread(Some(title)) = opens {
        push(&folded(title));
    }
    // Also keeps a phrase from reaching over from the title into the text.
    push("=");
    push(&text.words);
    for file in &message.attachments {
        push("=");
        push(&folded(&file.name));
    }
    push("=");
    if let Some(author) = &message.author.id {
        push(&fact_author(author));
    }
    push(&fact_channel(&message.channel_id.to_string()));
    if message.fork_id.is_none() {
        push(&fact_thread(&message.thread_id.to_string()));
    }
    if matches!(opens, Opens::Thread(_)) {
        push(FACT_ROOT);
    }
    push(if message.kind == "resolution" {
        FACT_RESULT
    } else {
        FACT_TEXT
    });
    let has = [
        (Has::File, !message.attachments.is_empty()),
        (Has::Link, text.has_link),
        (Has::Code, text.has_code),
        (Has::Reaction, !message.reactions.is_empty()),
    ];
    for (what, _) in has.into_iter().filter(|(_, holds)| *holds) {
        push(fact_has(what));
    }
    out
}

fn is_found(message: &Message) -> bool {
    message.kind != "notice" && message.state != "streaming" && message.deleted_at.is_none()
}

/// Makes a new message findable.
pub async fn add(
    c: &mut Conn,
    message: &Message,
    text: &Findable,
    opens: Opens<'_>,
) -> Result<(), DbError> {
    if !is_found(message) {
        return Ok(());
    }
    let document = document(message, text, opens);
    store::put_document(c, message.workspace_id.0, message.seq, &document).await
}

/// Makes a message findable as it is now.
pub async fn renew(c: &mut Conn, message: &Message, text: &Findable) -> Result<(), DbError> {
    let thread: Option<(MessageId, Option<String>)> = c
        .q("select root_message_id, title from threads where id = $1")
        .bind(message.thread_id)
        .opt()
        .await?;
    let title = thread
        .filter(|(root, _)| *root == message.id)
        .map(|(_, title)| title);
    let opens = title
        .as_ref()
        .map_or(Opens::Nothing, |title| Opens::Thread(title.as_deref()));
    add(c, message, text, opens).await
}

/// Makes a message findable as it is now, where nothing was prepared.
pub async fn renew_stored(c: &mut Conn, id: MessageId) -> Result<(), DbError> {
    if let Some(message) = messages::find_message(c, id).await? {
        let text = Findable::of(&message.content, &message.content_plain);
        renew(c, &message, &text).await?;
    }
    Ok(())
}

/// Takes a message out of what can be found.
pub async fn remove(c: &mut Conn, message: &Message) -> Result<(), DbError> {
    store::remove_document(c, message.workspace_id.0, message.seq).await
}

/// Makes every message findable once, after an upgrade from a version without search.
///
/// A start that is cut short does it again from the beginning: a document takes the place of the one that is there.
pub async fn bring_up_to_date(db: &Db) -> Result<(), DbError> {
    let known: Option<(String,)> = db
        .read()
        .await?
        .q("select value from meta where key = 'search'")
        .opt()
        .await?;
    if known.is_some_and(|(version,)| version == VERSION) {
        return Ok(());
    }
    let mut after = (WorkspaceId(uuid::Uuid::nil()), 0_i64);
    let mut count = 0_usize;
    loop {
        let mut c = db.read().await?;
        // Workspace by workspace, in the order of the index, which is the quickest way to build it.
        let rows: Vec<Row> = c
            .q(message_sql!(
                "where (m.workspace_id, m.seq) > ($1, $2) order by m.workspace_id, m.seq limit $3"
            ))
            .bind(after.0)
            .bind(after.1)
            .bind(FILLED_AT_ONCE)
            .all()
            .await?;
        drop(c);
        let Some(last) = rows.last() else { break };
        after = (last.workspace_id, last.seq);
        let found: Vec<(Message, Findable)> = rows
            .into_iter()
            .map(Message::from)
            .filter(is_found)
            .map(|message| {
                let text = Findable::of(&message.content, &message.content_plain);
                (message, text)
            })
            .collect();
        count += found.len();
        db.write(after.0.0, async move |c: &mut Conn| {
            for (message, text) in &found {
                renew(c, message, text).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
        tracing::info!(messages = count, "making messages findable");
    }
    db.write(uuid::Uuid::nil(), async |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('search', $1) on conflict (key) do update set value = excluded.value")
            .bind(VERSION)
            .run()
            .await
    })
    .await?;
    Ok(())
}
