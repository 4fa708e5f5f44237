//! A loaded context that has been fitted into the window of a model.

use std::collections::HashSet;

use super::{
    budget::{self, Budget, Fit, TooLarge},
    compaction::{profile::Strategy, render::Summarized},
    context::Loaded,
    manifest::{LeftOut, LeftOutReason, Manifest, OldMessageFacts},
    prompt::{Context, Source},
    sources::{Because, Reasons, SourceName},
    workspace::WorkspaceContext,
};
use crate::{db::now, ids::MessageId};

/// Minimum number of messages that a pass must be able to summarize to run because of the prompt's size, and their minimum size as a
/// fraction (1/`SIZE_TOKENS_SHARE`) of the prompt's maximum size. One of them is enough.
const SIZE_MESSAGES_MIN: usize = 12;
const SIZE_TOKENS_SHARE: u64 = 5;
/// Maximum size of a thread's summary in a fork, in tokens.
const BACKGROUND_SUMMARY_TOKENS_MAX: u64 = 900;

/// A context that fits into the window, with its prompt.
pub(super) struct Fitted {
    pub context: Context,
    pub budget: Budget,
    pub fit: Fit,
    left_out: Vec<LeftOut>,
    strategy: Strategy,
    reasons: Reasons,
}

/// Lists the sources of which the window has no room for all. `loaded` is the context before it was shortened in any way, and
/// `limited` the one after the limits of its summaries.
fn shortened(loaded: &Context, limited: &Context, sent: &Context) -> Vec<SourceName> {
    let summaries = |context: &Context| {
        let summaries = [&context.summary, &context.background_summary];
        summaries.map(|summary| summary.as_ref().map(|summary| summary.tokens_max))
    };
    let is_whole =
        |context: &WorkspaceContext| context.render().is_some_and(|rendered| !rendered.is_cut);
    let recalled = |context: &Context| (context.memories.len(), context.old_messages.len());
    let parts = [
        (
            SourceName::Workspace,
            !sent.workspace.as_ref().is_none_or(is_whole) || {
                sent.workspace.is_some() != loaded.workspace.is_some()
            },
        ),
        (SourceName::Notes, sent.notes != loaded.notes),
        (
            SourceName::ForkHeader,
            sent.fork_header != loaded.fork_header,
        ),
        (
            SourceName::Summary,
            sent.background != loaded.background || summaries(sent) != summaries(limited),
        ),
        (
            SourceName::Messages,
            sent.history != loaded.history || sent.root != loaded.root,
        ),
        (SourceName::About, sent.about != loaded.about),
        (SourceName::Memories, recalled(sent) != recalled(limited)),
        (SourceName::Knowledge, sent.knowledge != loaded.knowledge),
        (
            SourceName::Files,
            sent.ask.files != loaded.ask.files || sent.pictures != loaded.pictures,
        ),
    ];
    let parts = parts.into_iter().filter(|(_, is_shortened)| *is_shortened);
    parts.map(|(name, _)| name).collect()
}

impl Fitted {
    /// Fits a context, which may already have been shortened, into the budget.
    ///
    /// # Errors
    /// `TooLarge` if the system prompt, the requester, and the trigger message do not fit.
    pub(super) fn of(
        loaded: &Loaded,
        mut context: Context,
        mut left_out: Vec<LeftOut>,
        budget: Budget,
    ) -> Result<Self, TooLarge> {
        let (strategy, window) = (loaded.strategy, budget.window);
        let tokens_max = strategy.summary_tokens_max(window.tokens);
        context.limit_summaries(|of| {
            window.estimate_for(match of {
                Summarized::Conversation => tokens_max,
                Summarized::Background => BACKGROUND_SUMMARY_TOKENS_MAX,
            })
        });
        let fit = budget::fit(&context, &budget)?;
        let mut reasons = loaded.reasons.clone();
        let parts = shortened(&loaded.context, &context, &fit.context);
        reasons.extend(parts.into_iter().map(|part| (part, Because::NoRoom)));
        if !fit.dropped.is_empty() {
            left_out.push(LeftOut::of(LeftOutReason::ContextBudget, &fit.dropped));
        }
        Ok(Self {
            context,
            budget,
            fit,
            left_out,
            strategy,
            reasons,
        })
    }

    /// Checks whether messages were dropped or the prompt is longer than the strategy allows.
    pub(super) fn is_long(&self) -> bool {
        !self.fit.dropped.is_empty() || self.fit.tokens > self.strategy.prompt_tokens_max()
    }

    /// Returns the number of most recent messages that a pass should keep if the prompt is long. Returns `None` if no pass is due:
    /// compaction is off, the prompt is not long, or too few older messages remain.
    pub(super) fn kept_by_size(&self) -> Option<usize> {
        let tokens_max = self.strategy.prompt_tokens_max();
        let keep = budget::kept(&self.context, &self.budget, tokens_max);
        let older = budget::tokens_before(&self.context, &self.budget, keep);
        let is_worth_it = self.context.history.len() >= keep + SIZE_MESSAGES_MIN
            || older >= tokens_max / SIZE_TOKENS_SHARE;
        (self.strategy.is_on() && self.is_long() && is_worth_it).then_some(keep)
    }

    /// Lists the old messages from which the prompt contains passages.
    fn old_messages(&self) -> Vec<OldMessageFacts> {
        let used_at = now();
        let parts = self.fit.prompt.parts.iter();
        let sent: HashSet<MessageId> = parts
            .filter_map(|part| match part.source {
                Source::OldMessage { message_id } => Some(message_id),
                _ => None,
            })
            .collect();
        let old = self.context.old_messages.iter();
        let old = old.filter(|old| sent.contains(&old.message.message_id));
        old.map(|old| OldMessageFacts {
            id: old.message.message_id,
            matched: old.matched,
            posted_at: old.message.posted_at,
            used_at,
        })
        .collect()
    }

    /// Returns the manifest of the prompt.
    pub(super) fn manifest(&self, loaded: &Loaded, model: &str, attempt: i64) -> Manifest {
        Manifest {
            model: model.to_owned(),
            attempt,
            requested_by: loaded.context.ask.requester.clone(),
            preset: loaded.preset.used.clone(),
            prompt: self.fit.prompt.clone(),
            left_out: self.left_out.clone(),
            functions_left_out: Vec::new(),
            calls_in_text: false,
            memories: loaded.memories.clone(),
            old_messages: self.old_messages(),
            named: Vec::new(),
            window: self.budget.window,
            reserve: self.budget.reserve(),
            rounds: Vec::new(),
            authored: loaded.authored.clone(),
            reasons: self.reasons.clone(),
        }
    }
}
