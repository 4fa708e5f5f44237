//! Builds the prompt for the reply to a message that a person would post now, without storing anything or calling a
//! model.

use serde::Serialize;
use uuid::Uuid;

use super::{
    authored::{self, AuthoredTexts},
    budget::{Budget, TooLarge},
    compaction::{profile::CompactionSettings, store, window::STEP},
    context::{self, Loaded, ReplyPlace},
    fitted::Fitted,
    manifest::Manifest,
    sources::{Because, SourceName},
    turn::{definitions_of, limit_definitions},
};
use crate::{
    agents::{
        policy,
        profiles::{Compaction, Resolved, SkillList},
        skills::READ_SKILL,
    },
    db::{Conn, Db, DbError},
    ids::{ApiKeyId, MemoryId, MessageId, TaskId},
    memory::recall::Recalled,
    model::{Provider, Window},
    tasks::queue,
    time::Timestamp,
    tools::{
        builtin::skills::SKILLS,
        runner::{NotOffered, Offer, ToolTask, Toolbox},
    },
};

/// Window in which any agent's instructions fit.
const WHOLE_TOKENS: u64 = 10_000_000;

/// Compaction of a conversation for an agent.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct CompactionOutlook {
    pub profile: Compaction,
    /// True if older messages would be summarized before the reply.
    pub is_due: bool,
    /// The task that is summarizing messages of the conversation.
    pub task_id: Option<TaskId>,
    pub last_compacted_at: Option<Timestamp>,
    /// Number of unsummarized messages at which the older ones are summarized before a reply. Null if compaction is turned off.
    pub threshold: Option<usize>,
}

/// A loaded context that has not been fitted into a window yet.
pub struct Next {
    loaded: Loaded,
    task: ToolTask,
    /// False if the prompt consists of the system text and the definitions of functions.
    has_conversation: bool,
}

/// A prompt that has not been sent, and the state of compaction.
pub struct NextPrompt {
    pub manifest: Manifest,
    /// True if older messages would be summarized before the reply.
    pub is_compaction_due: bool,
}

impl CompactionOutlook {
    /// # Errors
    /// Only database errors.
    pub async fn load(c: &mut Conn, place: &ReplyPlace, next: &Next) -> Result<Self, DbError> {
        let conversation: Uuid = place.target.conversation().id();
        let strategy = next.loaded.strategy;
        Ok(Self {
            profile: strategy.0,
            is_due: next.loaded.view.is_due,
            task_id: queue::active_compact(c, conversation)
                .await?
                .map(|task| task.id),
            last_compacted_at: store::last_compacted_at(c, conversation).await?,
            threshold: strategy.is_on().then_some(strategy.window() + STEP),
        })
    }
}

impl Next {
    /// Loads everything from a snapshot of the database.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn load(
        c: &mut Conn,
        place: &ReplyPlace,
        api_key: Option<ApiKeyId>,
        agent: &Resolved,
        settings: CompactionSettings,
    ) -> Result<Self, DbError> {
        let loaded = context::load_next(c, place, api_key, agent, settings).await?;
        let skills = agent.profile.skills.clone();
        Ok(Self::of(loaded, place, api_key, skills, true))
    }

    /// Loads what the agent is told without a conversation.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn load_without_conversation(
        c: &mut Conn,
        place: &ReplyPlace,
        api_key: Option<ApiKeyId>,
        agent: &Resolved,
    ) -> Result<Self, DbError> {
        let loaded = context::load_without_conversation(c, place, api_key, agent).await?;
        let skills = agent.profile.skills.clone();
        Ok(Self::of(loaded, place, api_key, skills, false))
    }

    fn of(
        loaded: Loaded,
        place: &ReplyPlace,
        api_key: Option<ApiKeyId>,
        skills: Option<SkillList>,
        has_conversation: bool,
    ) -> Self {
        // No task has this ID, so there are no earlier calls.
        let task = ToolTask {
            workspace: place.workspace,
            task: TaskId::new(),
            agent: place.target.agent,
            agent_version: place.target.agent_version,
            requester: place.requester,
            api_key,
            channel: place.target.channel,
            thread: place.target.thread,
            fork: place.target.fork,
            trigger: MessageId::new(),
            typed: String::new(),
            is_turn: false,
            skills,
        };
        Self {
            loaded,
            task,
            has_conversation,
        }
    }

    /// Removes the authors of the parts that a draft changes.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn as_draft(mut self, c: &mut Conn, draft: &Resolved) -> Result<Self, DbError> {
        let sent = &mut self.loaded.authored.sent;
        // The skills are those of the draft.
        sent.retain(|text| text.part == SKILLS);
        sent.extend(authored::kept(c, draft).await?);
        Ok(self)
    }

    /// Texts of the prompt that people wrote.
    pub fn authored(&self) -> &AuthoredTexts {
        &self.loaded.authored
    }

    /// IDs of the memory entries that match.
    pub fn memory_ids(&self) -> Vec<MemoryId> {
        let used = self.loaded.memories.used.iter();
        used.map(|entry| entry.id).collect()
    }

    /// Returns the functions that would be offered to the model.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn offer(
        &self,
        db: &Db,
        toolbox: &Toolbox,
        provider: &dyn Provider,
        agent: &Resolved,
    ) -> Result<Offer, DbError> {
        if !agent.profile.has_functions() {
            return Ok(Offer::default());
        }
        if provider.is_offline() {
            return Ok(Offer::without(NotOffered::ByModel));
        }
        let model = provider.choose_model(agent.profile.model.as_deref()).await;
        let policy = policy::find(&mut db.read().await?, self.task.workspace).await?;
        let mut offer = toolbox.offer(&self.task, &agent.profile, &policy).await?;
        limit_definitions(&mut offer, provider, &model).await;
        Ok(offer)
    }

    /// Fits the context into the window of the agent's model, together with the definitions of the functions.
    ///
    /// # Errors
    /// `TooLarge` if the instructions do not fit.
    pub async fn fit(
        self,
        provider: &dyn Provider,
        agent: &Resolved,
        offer: &Offer,
    ) -> Result<NextPrompt, TooLarge> {
        let (model, window) = window_of(provider, agent).await;
        self.fit_into(window, &model, provider, agent, offer)
    }

    /// Like `fit`, but shows the whole context if the instructions do not fit.
    ///
    /// # Errors
    /// `TooLarge` if the instructions do not fit into the largest window.
    pub async fn fit_or_show_whole(
        self,
        provider: &dyn Provider,
        agent: &Resolved,
        offer: &Offer,
    ) -> Result<NextPrompt, TooLarge> {
        let (model, window) = window_of(provider, agent).await;
        let whole = Window {
            tokens: WHOLE_TOKENS,
            ..window
        };
        let again = Self {
            loaded: self.loaded.clone(),
            task: self.task.clone(),
            ..self
        };
        if let Ok(prompt) = self.fit_into(window, &model, provider, agent, offer) {
            return Ok(prompt);
        }
        let mut prompt = again.fit_into(whole, &model, provider, agent, offer)?;
        prompt.manifest.window = window;
        Ok(prompt)
    }

    fn fit_into(
        mut self,
        window: Window,
        model: &str,
        provider: &dyn Provider,
        agent: &Resolved,
        offer: &Offer,
    ) -> Result<NextPrompt, TooLarge> {
        if provider.is_offline() {
            // The built-in responder replies without the prompt, so memories and old messages are not part of it.
            self.loaded.memories = Recalled::default();
            self.loaded.context.memories.clear();
            self.loaded.context.old_messages.clear();
            self.loaded.context.knowledge.clear();
        }
        let definitions = definitions_of(offer);
        let budget = Budget {
            window,
            output_tokens_max: agent.profile.output_tokens_max(),
            taken: definitions
                .as_ref()
                .map_or(0, |part| window.corrected(part.tokens)),
        };
        let (mut context, left_out) = (self.loaded.context.clone(), self.loaded.left_out.clone());
        if offer.find(READ_SKILL).is_some() {
            context.system.mention_read_skill();
        }
        let fitted = Fitted::of(&self.loaded, context, left_out, budget)?;
        let is_compaction_due = self.loaded.view.is_due || fitted.kept_by_size().is_some();
        let mut manifest = Manifest {
            rounds: definitions.into_iter().collect(),
            functions_left_out: offer.left_out().to_vec(),
            calls_in_text: provider.leaves_calls_in_text(model),
            ..fitted.manifest(&self.loaded, model, 1)
        };
        let not_offered = offer.not_offered().map(Because::from);
        manifest.add_reason(SourceName::Tools, not_offered);
        if !self.has_conversation {
            manifest.prompt.parts.clear();
        }
        Ok(NextPrompt {
            manifest,
            is_compaction_due,
        })
    }
}

/// The model of an agent, and its window.
async fn window_of(provider: &dyn Provider, agent: &Resolved) -> (String, Window) {
    let model = provider.choose_model(agent.profile.model.as_deref()).await;
    let window = provider.window(&model).await;
    (model, window)
}
