//! The search document of a message, written in the transaction that changes the message.
//!
//! ```text
//! thread title (of a root message) · = · text · = · file names · = · =terms · =stems
//! ```
//!
//! Notices, deleted messages, and unfinished replies have no document. Documents are stored by
//! `dialect::search`. A document of very many words is replaced later if only its properties change (see `backlog`).

use pulldown_cmark::{Event, Tag};

use super::{
    query::Has,
    stems::stems,
    words::{composed, folded, has_more_words},
};
use crate::{
    chat::{
        reading::Reading,
        rows::message::{Message, MessageKind, MessageState, find_message},
    },
    db::{Conn, DbError, dialect::search as store, now},
    ids::{MessageId, WorkspaceId},
};

/// Version of the plain texts and of the document format; after a change, `rebuild` derives all of them again.
pub(super) const VERSION: &str = "5";

/// Maximum indexed size of a plain text in bytes; twice the limit for people's messages. It bounds the time for indexing, also in
/// transactions such as adding a reaction.
const INDEXED_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of distinct words of a document that is replaced in the transaction that changes its properties. Deleting a word takes
/// about five times as long as inserting it, because no trace may remain. Almost all texts have fewer words.
const WORDS_REPLACED_MAX: usize = 2000;

/// Maximum size of a word that is left out instead of cut.
const WORD_BYTES_MAX: usize = 256;

/// The searchable parts of a text; computed outside of transactions if the text is known before.
#[derive(Debug, Clone, Default)]
pub struct SearchDocument {
    words: String,
    stems: Vec<String>,
    has_link: bool,
    has_code: bool,
}

impl SearchDocument {
    /// Builds the parts from Markdown and its plain text.
    pub fn of(content: &str, plain: &str) -> Self {
        let (mut has_link, mut has_code) = (false, false);
        for (event, _) in Reading::of(content).events() {
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
        let whole = composed(beginning(plain));
        Self {
            words: folded(&whole),
            stems: stems(&whole).iter().map(|stem| stem_term(stem)).collect(),
            has_link,
            has_code,
        }
    }
}

/// The indexed part of a text, without a word that is cut.
pub(super) fn beginning(plain: &str) -> &str {
    if plain.len() <= INDEXED_BYTES_MAX {
        return plain;
    }
    let cut = &plain[..plain.floor_char_boundary(INDEXED_BYTES_MAX)];
    // Scripts without spaces between words have none to cut at.
    let space = cut.rfind(char::is_whitespace);
    space
        .filter(|at| cut.len() - at <= WORD_BYTES_MAX)
        .map_or(cut, |at| &cut[..at])
}

/// The part of an ID after its prefix. The prefix is omitted because the kind of term implies it.
fn ending(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(_, end)| end)
}

/// Term for the author of a message; `id` is the ID that clients see.
pub fn author_term(id: &str) -> String {
    format!("=f{}", ending(id))
}

/// Term for the channel of a message.
pub fn channel_term(id: &str) -> String {
    format!("=c{}", ending(id))
}

/// Term for the conversation of a message; `id` is the ID of its fork or, in the main line, of its thread.
pub fn conversation_term(id: &str) -> String {
    format!("=t{}", ending(id))
}

/// Term for the stem of a word.
pub fn stem_term(stem: &str) -> String {
    format!("=s{stem}")
}

/// Term for root messages of threads.
pub const ROOT_TERM: &str = "=root";
/// Term for ordinary messages.
pub const TEXT_TERM: &str = "=text";
/// Term for resolution messages.
pub const RESULT_TERM: &str = "=result";

pub fn has_term(what: Has) -> &'static str {
    match what {
        Has::File => "=file",
        Has::Link => "=link",
        Has::Code => "=code",
        Has::Reaction => "=reaction",
        Has::Result => RESULT_TERM,
    }
}

/// Thread of which a message is the root, if any, with the thread's title.
#[derive(Debug, Clone, Copy)]
pub enum ThreadRoot<'a> {
    Nothing,
    Thread(Option<&'a str>),
}

fn document(message: &Message, text: &SearchDocument, root: ThreadRoot<'_>) -> String {
    let mut out = String::with_capacity(text.words.len() + 128);
    let mut push = |word: &str| {
        if !word.is_empty() {
            out.push_str(word);
            out.push(' ');
        }
    };
    if let ThreadRoot::Thread(Some(title)) = root {
        push(&folded(title));
    }
    // A separator, so that phrases do not match across the title and the text.
    push("=");
    push(&text.words);
    for file in &message.attachments {
        push("=");
        push(&folded(&file.name));
        push(&folded(file.alt.as_deref().unwrap_or_default()));
    }
    push("=");
    if let Some(author) = &message.author.id {
        push(&author_term(author));
    }
    push(&channel_term(&message.channel_id.to_string()));
    let fork = message.fork_id.map(|fork| fork.to_string());
    let conversation = fork.unwrap_or_else(|| message.thread_id.to_string());
    push(&conversation_term(&conversation));
    if matches!(root, ThreadRoot::Thread(_)) {
        push(ROOT_TERM);
    }
    push(if message.kind == MessageKind::Resolution {
        RESULT_TERM
    } else {
        TEXT_TERM
    });
    let has = [
        (Has::File, !message.attachments.is_empty()),
        (Has::Link, text.has_link),
        (Has::Code, text.has_code),
        (Has::Reaction, !message.reactions.is_empty()),
    ];
    for (what, _) in has.into_iter().filter(|(_, holds)| *holds) {
        push(has_term(what));
    }
    for stem in &text.stems {
        push(stem);
    }
    out
}

pub(super) fn is_found(message: &Message) -> bool {
    message.kind != MessageKind::Notice
        && message.state != MessageState::Streaming
        && message.deleted_at.is_none()
}

/// Queues a message whose document is outdated for the job in `backlog`.
async fn reindex_later(c: &mut Conn, id: MessageId) -> Result<(), DbError> {
    c.q(
        "insert into search_backlog (message_id, queued_at) values ($1, $2) \
         on conflict (message_id) do update set queued_at = excluded.queued_at",
    )
    .bind(id)
    .bind(now())
    .run()
    .await?;
    Ok(())
}

/// Indexes a new message.
pub async fn add(
    c: &mut Conn,
    message: &Message,
    text: &SearchDocument,
    root: ThreadRoot<'_>,
) -> Result<(), DbError> {
    if !is_found(message) {
        return Ok(());
    }
    let document = document(message, text, root);
    store::put_document(c, message.workspace_id.0, message.seq, &document).await
}

/// Reindexes a changed message.
pub async fn reindex(
    c: &mut Conn,
    message: &Message,
    text: &SearchDocument,
) -> Result<(), DbError> {
    let thread: Option<(MessageId, Option<String>)> = c
        .q("select root_message_id, title from threads where id = $1")
        .bind(message.thread_id)
        .opt()
        .await?;
    let title = thread
        .filter(|(root, _)| *root == message.id)
        .map(|(_, title)| title);
    let root = title.as_ref().map_or(ThreadRoot::Nothing, |title| {
        ThreadRoot::Thread(title.as_deref())
    });
    add(c, message, text, root).await
}

/// Reindexes a message whose text is unchanged. A document of very many words is replaced later, so that repeated changes do not take the
/// writer's time.
pub async fn reindex_unchanged(c: &mut Conn, message: &Message) -> Result<(), DbError> {
    if is_found(message) && is_long(&message.content_plain) {
        return reindex_later(c, message.id).await;
    }
    let text = SearchDocument::of(&message.content, &message.content_plain);
    reindex(c, message, &text).await
}

/// Returns true if the indexed part of a text has more than `WORDS_REPLACED_MAX` distinct words.
fn is_long(plain: &str) -> bool {
    has_more_words(&composed(beginning(plain)), WORDS_REPLACED_MAX)
}

/// Reindexes a stored message for which no `SearchDocument` was prepared.
pub async fn reindex_stored(c: &mut Conn, id: MessageId) -> Result<(), DbError> {
    if let Some(message) = find_message(c, id).await? {
        let text = SearchDocument::of(&message.content, &message.content_plain);
        reindex(c, &message, &text).await?;
    }
    Ok(())
}

/// Removes a message from the index.
pub async fn remove(c: &mut Conn, message: &Message) -> Result<(), DbError> {
    remove_at(c, message.workspace_id, message.seq).await
}

/// Removes the message with a sequence number from the index.
pub async fn remove_at(c: &mut Conn, workspace: WorkspaceId, seq: i64) -> Result<(), DbError> {
    store::remove_document(c, workspace.0, seq).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_long_text_is_indexed() {
        let text = format!("Harbor {} lighthouse", "é ".repeat(INDEXED_BYTES_MAX));
        let document = SearchDocument::of(&text, &text);
        assert!(document.words.starts_with("harbor e e"));
        assert!(document.words.len() < text.len() / 2);
        assert!(document.stems.contains(&stem_term("harbor")));
        assert!(!document.stems.contains(&stem_term("lighthous")));
    }

    #[test]
    fn only_distinct_words_make_a_text_long() {
        let many = |count: usize| {
            let words: Vec<String> = (0..count).map(|n| format!("harbor{n}x")).collect();
            words.join(" ")
        };
        assert!(!is_long(&many(WORDS_REPLACED_MAX)));
        assert!(is_long(&many(WORDS_REPLACED_MAX + 1)));
        assert!(!is_long(
            &"many words, but few different ones ".repeat(1000)
        ));
        // Each character and each pair of neighboring characters is indexed.
        let pairs: String = (0x4E00_u32..0x5600).filter_map(char::from_u32).collect();
        assert!(is_long(&pairs));
    }

    #[test]
    fn no_word_is_cut_at_the_end_of_the_indexed_part() {
        let text = format!("{}lighthouse", "a ".repeat(INDEXED_BYTES_MAX / 2 - 2));
        assert!(beginning(&text).ends_with(" a"));
        let without_spaces = "東".repeat(INDEXED_BYTES_MAX);
        assert!(beginning(&without_spaces).len() > INDEXED_BYTES_MAX - 4);
    }
}
