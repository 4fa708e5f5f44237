//! The prompt of the reply to a message that somebody would post now. Nothing is stored, and no model is called.

use serde::Serialize;
use uuid::Uuid;

use super::{
    budget::{Budget, TooLarge},
    compaction::{profile::CompactionSettings, store, window::STEP},
    context::{self, Loaded, ReplyPlace},
    fitted::Fitted,
    manifest::Manifest,
};
use crate::{
    agents::profiles::{Compaction, Resolved},
    db::{Conn, DbError},
    ids::{ApiKeyId, TaskId},
    memory::recall::Recalled,
    model::Provider,
    tasks::queue,
    time::Timestamp,
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
    /// Number of unsummarized messages at which the older ones are summarized before a reply; null if this is turned
    /// off.
    pub threshold: Option<usize>,
}

/// A loaded context, before it is fitted.
pub struct Next {
    loaded: Loaded,
    outlook: CompactionOutlook,
}

impl Next {
    /// Loads everything from a snapshot of the database.
    ///
    /// # Errors
    /// If the database fails.
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
        Ok(Self { loaded, outlook })
    }

    /// Fits the context into the window of the agent's model.
    ///
    /// # Errors
    /// `TooLarge` if the instructions do not fit.
    pub async fn fit(
        mut self,
        provider: &dyn Provider,
        agent: &Resolved,
    ) -> Result<(Manifest, CompactionOutlook), TooLarge> {
        if provider.is_offline() {
            // Such a reply is written without the prompt.
            self.loaded.memories = Recalled::default();
            self.loaded.context.memories.clear();
            self.loaded.context.old_messages.clear();
        }
        let model = provider.choose_model(agent.profile.model.as_deref()).await;
        let budget = Budget {
            window: provider.window(&model).await,
            output_tokens_max: agent.profile.output_tokens_max(),
            taken: 0,
        };
        let (context, left_out) = (self.loaded.context.clone(), self.loaded.left_out.clone());
        let fitted = Fitted::of(&self.loaded, context, left_out, budget)?;
        self.outlook.is_due |= fitted.kept_by_size().is_some();
        Ok((fitted.manifest(&self.loaded, &model, 1), self.outlook))
    }
}
