//! Runs a message of a chat again, in a variant of the chat that begins with the messages before it.

use super::{
    NewThread, Posted, claim_client_id,
    opening::{begin, opening_agent},
    stored,
};
use crate::{
    auth::{Caller, Scope},
    chat::{
        ChatError, access, channels,
        rows::{
            message::{Message, MessageKind, conversation_seq, get_message},
            thread::{Thread, get_thread},
        },
        text::Text,
        threads::ThreadStart,
        variants::{self, VariantBase, find_base},
    },
    db::{Conn, dialect::lock_workspace},
    files,
    ids::{AgentId, FileId, MessageId, ThreadId},
    realtime::hub::Conversation,
};

/// Message to run again.
#[derive(Debug, Clone)]
pub struct RunAgain {
    /// A message of the caller's in the first chat, or the first message of a variant.
    pub message: MessageId,
    /// Agent of the variant; `None` for the agent of the chat.
    pub agent: Option<AgentId>,
    pub client_id: Option<String>,
}

/// Finds a message that a chat contains, so that its text can be derived outside of the transaction of `run_again`, which checks
/// everything else.
///
/// # Errors
/// `ThreadNotFound`, `MessageNotFound`, or any error from `Actor::require`.
pub async fn find_in_chat(
    c: &mut Conn,
    caller: &Caller,
    chat: ThreadId,
    message: MessageId,
) -> Result<Message, ChatError> {
    let access = access::thread(c, caller, chat).await?;
    access.channel_access.actor.require(Scope::ChatWrite)?;
    contained(c, chat, message).await
}

async fn contained(c: &mut Conn, chat: ThreadId, message: MessageId) -> Result<Message, ChatError> {
    let seq = conversation_seq(c, Conversation::Thread(chat), message).await?;
    seq.ok_or(ChatError::MessageNotFound)?;
    get_message(c, message).await
}

/// Checks that the caller can run a message again, and returns the base of the variant.
///
/// # Errors
/// `NotYoursToRunAgain`, `MessageDeleted`, `InVariant`, `TooManyVariants`, `TooManyVariantsOfChat`.
async fn base_of(
    c: &mut Conn,
    caller: &Caller,
    chat: &Thread,
    message: &Message,
) -> Result<VariantBase, ChatError> {
    let base = match find_base(c, Conversation::Thread(chat.id)).await? {
        // The new variant is another one of the first chat's message.
        Some(base) if chat.root_message_id == message.id => base,
        Some(_) => return Err(ChatError::InVariant),
        None => VariantBase {
            thread: chat.id,
            message: message.id,
            seq: message.seq,
        },
    };
    if !message.author.is(caller) || message.kind != MessageKind::Text {
        return Err(ChatError::NotYoursToRunAgain);
    }
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    variants::check_room(c, base.thread, base.message).await?;
    Ok(base)
}

/// Runs a message of a chat again with this text, which replaces the one of the message. The variant gets copies of its files.
///
/// # Errors
/// `ThreadNotFound`, `NotAChat`, `MessageNotFound`, `NoSuchAgent`, `ClientIdReused`, `Invalid` for a blank text, any error from
/// `base_of` or `writing`, or those of a post.
pub async fn run_again(
    c: &mut Conn,
    caller: &Caller,
    chat: ThreadId,
    text: &Text,
    again: &RunAgain,
) -> Result<Posted, ChatError> {
    let access = access::thread(c, caller, chat).await?;
    let actor = &access.channel_access.actor;
    actor.require(Scope::ChatWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let (message, thread) = (MessageId::new(), ThreadId::new());
    let (client_id, place) = (again.client_id.as_deref(), format!("{chat}/variants"));
    if let Some(known) = claim_client_id(c, actor, client_id, &place, message.0).await? {
        return stored(c, known, true).await;
    }
    let channel_access = access.writing()?.channel_access;
    variants::check_is_chat(c, channel_access.channel).await?;
    let original = contained(c, chat, again.message).await?;
    let source = get_thread(c, chat).await?;
    let base = base_of(c, caller, &source, &original).await?;
    let mut text = text.clone();
    if original.attachments.is_empty() {
        text.require_words()?;
    }
    let attached: Vec<FileId> = original.attachments.iter().map(|file| file.id).collect();
    text.files = files::copy(c, &channel_access.actor, &attached).await?;
    let new = NewThread {
        title: None,
        agent: again.agent.map(Some),
        from: Some(chat),
        memory: source.memory,
        client_id: again.client_id.clone(),
    };
    let channel_agent = channels::find_agent(c, &channel_access).await?;
    let opening = opening_agent(c, caller, &channel_access, channel_agent, &new).await?;
    let start = ThreadStart {
        id: thread,
        root: message,
        title: None,
        memory: new.memory,
        base: Some(base),
    };
    begin(
        c,
        channel_access,
        channel_agent,
        opening,
        start,
        &text,
        client_id,
    )
    .await
}
