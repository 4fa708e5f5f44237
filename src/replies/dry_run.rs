//! Builds the prompt for the reply to a message that a person would post now, without storing anything or calling a
//! model.

use serde::Serialize;
use uuid::Uuid;

use super::{
    budget::{Budget, TooLarge},
    compaction::{profile::CompactionSettings, store, window::STEP},
    context::{self, Loaded, ReplyPlace},
    fitted::Fitted,
    manifest::Manifest,
    turn::{definitions_of, limit_definitions},
};
use crate::{
    agents::{
        policy,
        profiles::{Compaction, Resolved},
    },
    db::{Conn, Db, DbError},
    ids::{ApiKeyId, MessageId, TaskId},
    memory::recall::Recalled,
    model::Provider,
    tasks::queue,
    time::Timestamp,
    tools::runner::{Offer, ToolTask, Toolbox},
};

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
    outlook: CompactionOutlook,
    task: ToolTask,
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
        let conversation: Uuid = place.target.conversation().id();
        let strategy = loaded.strategy;
        let outlook = CompactionOutlook {
            profile: strategy.0,
            is_due: loaded.view.is_due,
            task_id: queue::active_compact(c, conversation)
                .await?
                .map(|task| task.id),
            last_compacted_at: store::last_compacted_at(c, conversation).await?,
            threshold: strategy.is_on().then_some(strategy.window() + STEP),
        };
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
        };
        Ok(Self {
            loaded,
            outlook,
            task,
        })
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
        let model = provider.choose_model(agent.profile.model.as_deref()).await;
        if agent.profile.reply_tools().is_empty() || !provider.takes_tools(&model) {
            return Ok(Offer::default());
        }
        let policy = policy::find(&mut db.read().await?, self.task.workspace).await?;
        let mut offer = toolbox.offer(&self.task, &agent.profile, &policy).await?;
        limit_definitions(&mut offer, provider.window(&model).await);
        Ok(offer)
    }

    /// Fits the context into the window of the agent's model, together with the definitions of the functions.
    ///
    /// # Errors
    /// `TooLarge` if the instructions do not fit.
    pub async fn fit(
        mut self,
        provider: &dyn Provider,
        agent: &Resolved,
        offer: &Offer,
    ) -> Result<(Manifest, CompactionOutlook), TooLarge> {
        if provider.is_offline() {
            // The built-in responder replies without the prompt, so memories and old messages are not part of it.
            self.loaded.memories = Recalled::default();
            self.loaded.context.memories.clear();
            self.loaded.context.old_messages.clear();
        }
        let model = provider.choose_model(agent.profile.model.as_deref()).await;
        let window = provider.window(&model).await;
        let definitions = definitions_of(offer);
        let budget = Budget {
            window,
            output_tokens_max: agent.profile.output_tokens_max(),
            taken: definitions
                .as_ref()
                .map_or(0, |part| window.corrected(part.tokens)),
        };
        let (context, left_out) = (self.loaded.context.clone(), self.loaded.left_out.clone());
        let fitted = Fitted::of(&self.loaded, context, left_out, budget)?;
        self.outlook.is_due |= fitted.kept_by_size().is_some();
        let manifest = Manifest {
            rounds: definitions.into_iter().collect(),
            ..fitted.manifest(&self.loaded, &model, 1)
        };
        Ok((manifest, self.outlook))
    }
}
