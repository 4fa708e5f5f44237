//! Blocks that precede a conversation through the API, for the requester as the only reader: workspace, notes, USER.md, memories, passages
//! of attached vector stores. They are the same as in a direct message.

use std::collections::HashSet;

use crate::{
    agents::{
        files::{self, NOTES_TOKENS_MAX},
        profiles::Resolved,
    },
    chat::search::{
        passages::find::PassageQuestion,
        shared::{NO_CHANNEL, Readers},
    },
    db::{Conn, DbError},
    ids::{ApiKeyId, BEFORE_ALL_SEQS, MessageId, ThreadId, UserId, WorkspaceId},
    memory::{
        recall::{Recall, recall},
        user_file::{self, RequesterFile},
    },
    model::{Window, estimate_tokens},
    realtime::hub::Conversation,
    replies::{
        budget::{
            ABOUT_SHARE, ABOUT_TOKENS_MAX, KNOWLEDGE_TOKENS_MAX, MEMORIES_TOKENS_MAX,
            limit_passages,
        },
        context::{memory_scopes, remembered},
        knowledge,
        lines::{MEMORIES, about_heading, escape_lines, notes_heading, without_control_tokens},
        prompt::{KnowledgePassage, knowledge_text, memory_line},
        workspace::{self, ContextPlace, beginning},
    },
};

/// A call through the API for which the blocks are loaded.
#[derive(Debug, Clone, Copy)]
pub struct ApiCall<'a> {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    /// Display name of the requester.
    pub name: &'a str,
    pub api_key: Option<ApiKeyId>,
    pub agent: &'a Resolved,
    /// The last message of the request.
    pub question: PassageQuestion<'a>,
}

/// The blocks.
#[derive(Debug, Clone, Default)]
pub struct Briefing {
    pub text: String,
}

impl Briefing {
    /// Loads the blocks, each within its share of the model's window.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn load(c: &mut Conn, of: &ApiCall<'_>, window: &Window) -> Result<Self, DbError> {
        let cap = |tokens_max: u64| window.estimate_for(tokens_max);
        let mut briefing = Self::default();
        let place = ContextPlace {
            workspace: of.workspace,
            channel: None,
            thread: None,
            reader: of.requester,
            scopes: memory_scopes(of.agent),
        };
        if let Some(mut context) = workspace::load(c, &place).await? {
            context.limit(window);
            let rendered = context.render();
            briefing.add(rendered.as_ref().map_or("", |rendered| &rendered.text));
        }
        if let Some(notes) = files::notes(c, of.agent.agent).await? {
            let text = escape_lines(notes.text.trim());
            let text = beginning(&text, cap(NOTES_TOKENS_MAX));
            briefing.add(&format!("{}\n{text}", notes_heading(&of.agent.shown_name)));
        }
        let readers = Readers {
            workspace: of.workspace,
            requester: of.requester,
            api_key: of.api_key,
            channel: NO_CHANNEL,
            question: MessageId(uuid::Uuid::nil()),
        };
        if let RequesterFile::Read(text, _) = user_file::about(c, &readers).await? {
            let tokens_max = ABOUT_TOKENS_MAX.min(window.tokens / ABOUT_SHARE);
            let text = beginning(&escape_lines(text.trim()), cap(tokens_max));
            briefing.add(&format!("{}\n{text}", about_heading(of.name)));
        }
        briefing
            .add_memories(c, of, cap(MEMORIES_TOKENS_MAX))
            .await?;
        let mut passages = knowledge::find(c, of.agent, &readers, of.question).await?;
        limit_passages(&mut passages, cap(KNOWLEDGE_TOKENS_MAX));
        if !passages.is_empty() {
            briefing.add(&knowledge_text(
                passages.iter().map(KnowledgePassage::lines),
            ));
        }
        Ok(briefing)
    }

    async fn add_memories(
        &mut self,
        c: &mut Conn,
        of: &ApiCall<'_>,
        tokens_max: u64,
    ) -> Result<(), DbError> {
        let thread = ThreadId(NO_CHANNEL.0);
        let recall_of = Recall {
            workspace: of.workspace,
            requester: of.requester,
            api_key: of.api_key,
            agent: of.agent.agent,
            handle: &of.agent.name,
            scopes: memory_scopes(of.agent),
            channel: NO_CHANNEL,
            thread,
            conversation: Conversation::Thread(thread),
            trigger: MessageId(NO_CHANNEL.0),
            trigger_seq: BEFORE_ALL_SEQS,
            question: of.question.text,
            summary: &HashSet::new(),
            window_start: None,
        };
        let recalled = recall(c, &recall_of).await?;
        let mut text = MEMORIES.to_owned();
        let mut count = 0;
        for entry in &recalled.used {
            let line = format!("\n\n{}", memory_line(&remembered(entry)));
            if estimate_tokens(&text) + estimate_tokens(&line) > tokens_max {
                break;
            }
            text.push_str(&line);
            count += 1;
        }
        if count > 0 {
            self.add(&text);
        }
        Ok(())
    }

    fn add(&mut self, block: &str) {
        if !self.text.is_empty() && !block.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&without_control_tokens(block));
    }
}
