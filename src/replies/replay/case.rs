//! The stored prompt of a reply, limited to what the person who replays it can see.

use crate::{
    agents::{
        profiles::Resolved,
        skills::READ_SKILL,
        system::{self, System, SystemPartName},
    },
    chat::{messages, search::shared::Readers},
    db::{Conn, DbError},
    ids::{MessageId, TaskId, UserId, WorkspaceId},
    model::{ChatMessage, Role, estimate_tokens},
    replies::{
        authored,
        context::{self, ReplyPlace},
        manifest::{self, Block, Sent, SentText},
        prompt::{Author, joined},
        skills,
    },
    tasks::{
        Task, TaskTarget,
        actions::{ActionSource, TaintKind},
        queue,
    },
    text_enum::text_enum,
    tools::{
        runner::{Offer, ToolTask},
        taint::{self, AuthoredText},
    },
};

text_enum! {
    /// Reason why a reply is not written again.
    pub enum SkipReason {
        /// The prompt of the reply is no longer kept.
        Expired = "expired",
        /// The reply or its trigger message was deleted, or the stored prompt changed during the replay.
        Deleted = "deleted",
        /// The person can no longer read the conversation of the reply.
        NotReadable = "not_readable",
    }
}

/// Parts of a stored prompt that will be sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeptPrompt {
    turns: Vec<ChatMessage>,
    /// Adaptation sentences for the person who replays the prompt.
    adaptation: String,
    /// Names of the agents whose messages are in the prompt.
    agents: Vec<String>,
    /// True if parts were left out because they belong to other people.
    is_partial: bool,
}

impl KeptPrompt {
    /// Keeps the parts of a prompt that `reader` can see. The system prompt, tool definitions, and rounds are left out, except for
    /// the adaptation sentences.
    ///
    /// # Errors
    /// `Expired` or `Deleted` if the rest is not a usable prompt.
    fn of(sent: &Sent, reader: UserId) -> Result<Self, SkipReason> {
        let mut kept = Self::default();
        let mut texts: Vec<(Role, &str)> = Vec::new();
        let mut has_trigger = false;
        for part in &sent.parts {
            let is_adaptation = part.block == Block::System(SystemPartName::Adaptation);
            let is_new = matches!(
                part.block,
                Block::System(_) | Block::Tools | Block::Round | Block::Call | Block::Result
            );
            if is_new && !is_adaptation {
                continue;
            }
            let only_user = part.only_user.as_ref().map(|(user, _)| *user);
            if only_user.is_some_and(|user| user != reader) {
                kept.is_partial = true;
                continue;
            }
            let is_trigger = part.block == Block::Trigger;
            match &part.text {
                SentText::Expired => return Err(SkipReason::Expired),
                SentText::Deleted | SentText::Rewritten if is_trigger => {
                    return Err(SkipReason::Deleted);
                }
                SentText::Kept(_)
                | SentText::Hidden(_)
                | SentText::Deleted
                | SentText::Rewritten => {}
            }
            has_trigger |= is_trigger;
            if let Some((_, Author::Agent { name, .. })) = &part.message
                && !kept.agents.contains(name)
            {
                kept.agents.push(name.clone());
            }
            if is_adaptation {
                part.text.shown().clone_into(&mut kept.adaptation);
            } else {
                texts.push((part.role, part.text.shown()));
            }
        }
        if !has_trigger {
            return Err(SkipReason::Expired);
        }
        kept.turns = joined(texts.into_iter().filter(|(_, text)| !text.is_empty()));
        Ok(kept)
    }
}

/// Returns what the task of a reply had seen, with the texts of the draft instead of those of the agent's version.
async fn seen(
    c: &mut Conn,
    reply: &Task,
    draft: &Resolved,
    reader: UserId,
    skills: &[AuthoredText],
) -> Result<Vec<ActionSource>, DbError> {
    let mut seen = taint::list(c, reply.id).await?;
    let target = reply.queued_target();
    let replaced = authored::parts(c, target.agent, target.agent_version).await?;
    let replaced: Vec<ActionSource> = replaced.iter().map(AuthoredText::source).collect();
    seen.retain(|known| {
        let is_replaced = replaced.iter().any(|old| old.source_id == known.source_id);
        let is_own = known.kind == TaintKind::Message && known.source_id == reader.0;
        !is_replaced && !is_own
    });
    if reply.requested_by != reader {
        let asked = ActionSource::new(TaintKind::Message, reply.requested_by.0, "the requester");
        seen.push(asked);
    }
    let kept = authored::kept(c, draft).await?;
    seen.extend(kept.iter().chain(skills).map(AuthoredText::source));
    taint::with_current_trust(c, reply.workspace_id, reader, seen).await
}

/// A reply that is written again with another profile.
#[derive(Debug, Clone)]
pub struct Case {
    workspace: WorkspaceId,
    reply: TaskId,
    target: TaskTarget,
    trigger: MessageId,
    /// Same as in `ToolTask`.
    typed: String,
    /// Sources that a task with the draft would have seen before its first call.
    seen: Vec<ActionSource>,
    system: System,
    kept: KeptPrompt,
}

impl Case {
    /// Loads the case of a reply for `reader`, who can read its conversation. `c` must be a snapshot of the database.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn load(
        c: &mut Conn,
        reply: &Task,
        agent: &Resolved,
        reader: UserId,
    ) -> Result<Result<Self, SkipReason>, DbError> {
        let placed = reply.target().zip(reply.trigger_message_id);
        let Some(((target, trigger), message)) = placed.zip(reply.reply_message_id) else {
            return Ok(Err(SkipReason::Deleted));
        };
        let message = messages::find_message(c, message).await?;
        if message.is_none_or(|message| message.deleted_at.is_some()) {
            return Ok(Err(SkipReason::Deleted));
        }
        let Some(sent) = manifest::find(c, reply.id).await? else {
            return Ok(Err(SkipReason::Expired));
        };
        let kept = match KeptPrompt::of(&sent, reader) {
            Ok(kept) => kept,
            Err(reason) => return Ok(Err(reason)),
        };
        let workspace = reply.workspace_id;
        let place = ReplyPlace {
            workspace,
            target,
            requester: reader,
        };
        let question = reply.input.0.prompt.clone();
        let preset = context::preset(c, &place, agent, &question).await?;
        let readers = Readers {
            workspace,
            requester: reader,
            api_key: None,
            channel: target.channel,
            question: trigger,
        };
        let skills = skills::load(c, &readers, agent).await?;
        let system = system::in_conversation(c, workspace, agent).await?;
        let is_own = reply.requested_by == reader && queue::key_of(c, reply.id).await?.is_none();
        let typed = if is_own { question } else { String::new() };
        Ok(Ok(Self {
            workspace,
            reply: reply.id,
            target,
            trigger,
            typed,
            seen: seen(c, reply, agent, reader, &skills.authored).await?,
            system: system
                .with_skills(&skills.text)
                .with_addons(&preset.text)
                .with_adaptation(&kept.adaptation),
            kept,
        }))
    }

    pub(super) fn seen(&self) -> &[ActionSource] {
        &self.seen
    }

    /// Checks whether both cases have the same stored prompt.
    pub(super) fn is_same_prompt(&self, other: &Self) -> bool {
        self.kept == other.kept
    }

    pub(super) fn is_partial(&self) -> bool {
        self.kept.is_partial
    }

    /// System text for a model to which these functions are offered.
    pub(super) fn system(&self, offer: &Offer) -> String {
        let mut system = self.system.clone();
        if offer.find(READ_SKILL).is_some() {
            system.mention_read_skill();
        }
        system.text()
    }

    pub(super) fn turns(&self) -> &[ChatMessage] {
        &self.kept.turns
    }

    /// Returns the names of the agents whose messages are in the prompt.
    pub(super) fn agents(&self) -> impl Iterator<Item = &str> {
        self.kept.agents.iter().map(String::as_str)
    }

    /// Estimated size of the prompt in tokens.
    pub(super) fn tokens(&self) -> u64 {
        let turns = self.kept.turns.iter();
        self.system.tokens()
            + turns
                .map(|turn| estimate_tokens(&turn.content))
                .sum::<u64>()
    }

    /// Returns the reply's task in the form that is needed for function definitions.
    pub(super) fn tool_task(&self, agent: &Resolved, requester: UserId) -> ToolTask {
        ToolTask {
            workspace: self.workspace,
            task: self.reply,
            agent: agent.agent,
            agent_version: agent.version,
            requester,
            api_key: None,
            channel: self.target.channel,
            thread: self.target.thread,
            fork: self.target.fork,
            trigger: self.trigger,
            typed: self.typed.clone(),
            is_turn: false,
            skills: agent.profile.skills.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replies::{
        manifest::SentPart,
        requester::{Requester, RequesterRole},
    };

    fn part(block: Block, text: &str) -> SentPart {
        SentPart {
            block,
            message: None,
            memory: None,
            old_message: None,
            action: None,
            function: None,
            only_user: None,
            role: Role::User,
            tokens: 1,
            text: SentText::Kept(text.to_owned()),
        }
    }

    fn sent(parts: Vec<SentPart>) -> Sent {
        Sent {
            model: "scripted-1".to_owned(),
            attempt: 1,
            requested_by: Requester {
                id: UserId::new(),
                name: "Ada".to_owned(),
                role: RequesterRole::Member,
                handle: None,
            },
            preset: None,
            left_out: Vec::new(),
            functions_left_out: Vec::new(),
            calls_in_text: false,
            context_window: 32_000,
            window_source: crate::model::WindowSource::Assumed,
            reserve: 4_000,
            considered: std::collections::BTreeMap::new(),
            memories: Vec::new(),
            old_messages: Vec::new(),
            reasons: crate::replies::sources::Reasons::default(),
            parts,
            attempts: Vec::new(),
        }
    }

    fn contents(kept: &KeptPrompt) -> Vec<&str> {
        kept.turns
            .iter()
            .map(|turn| turn.content.as_str())
            .collect()
    }

    #[test]
    fn the_conversation_is_kept_without_the_system_text_and_rounds() {
        let reader = UserId::new();
        let parts = vec![
            part(Block::System(SystemPartName::Instructions), "You are Vibe."),
            part(Block::Conversation, "Conversation"),
            part(Block::Trigger, "Friday?"),
            part(Block::Tools, "{}"),
            part(Block::Result, "Data"),
        ];
        let kept = KeptPrompt::of(&sent(parts), reader).unwrap();
        assert_eq!(contents(&kept), ["Conversation\n\nFriday?"]);
        assert!(!kept.is_partial);
    }

    #[test]
    fn parts_of_other_people_are_left_out() {
        let (reader, other) = (UserId::new(), UserId::new());
        let of = |user, mut part: SentPart| {
            part.only_user = Some((user, "Ada".to_owned()));
            part
        };
        let adaptation = Block::System(SystemPartName::Adaptation);
        let parts = |user| {
            vec![
                of(user, part(adaptation, "Be brief.")),
                of(user, part(Block::About, "I like tea.")),
                part(Block::Trigger, "Friday?"),
            ]
        };
        let own = KeptPrompt::of(&sent(parts(reader)), reader).unwrap();
        assert_eq!(contents(&own), ["I like tea.\n\nFriday?"]);
        assert_eq!(
            (own.adaptation.as_str(), own.is_partial),
            ("Be brief.", false)
        );
        let others = KeptPrompt::of(&sent(parts(other)), reader).unwrap();
        assert_eq!(contents(&others), ["Friday?"]);
        assert_eq!((others.adaptation.as_str(), others.is_partial), ("", true));
    }

    #[test]
    fn an_expired_prompt_and_a_deleted_question_are_skipped() {
        let reader = UserId::new();
        let kept = |text: SentText, block| {
            let mut changed = part(block, "");
            changed.text = text;
            KeptPrompt::of(
                &sent(vec![changed, part(Block::Trigger, "Friday?")]),
                reader,
            )
        };
        assert_eq!(
            kept(SentText::Expired, Block::Messages).err(),
            Some(SkipReason::Expired)
        );
        assert_eq!(
            kept(SentText::Deleted, Block::Trigger).err(),
            Some(SkipReason::Deleted)
        );
        let rest = kept(SentText::Deleted, Block::Messages).unwrap();
        assert_eq!(contents(&rest), ["(deleted)\n\nFriday?"]);
        assert_eq!(
            KeptPrompt::of(&sent(Vec::new()), reader).err(),
            Some(SkipReason::Expired)
        );
    }
}
