//! Fits a context into the window of a model.
//!
//! ```text
//! window = reserve for the reply + room for the prompt
//! room   = system, requester, and trigger message, which are never cut
//!        + the messages, of which long ones lose their middle and the oldest ones are dropped
//!        + the workspace context, MEMORY.md, USER.md, memories, and passages of vector stores, each within its cap
//! ```

use std::collections::HashMap;

use crate::{
    agents::files::NOTES_TOKENS_MAX,
    ids::MessageId,
    model::{Window, estimate_tokens, grouped},
    replies::prompt::{
        Context, KnowledgePassage, Memory, Prompt, Source, memory_line, old_message_line, render,
    },
};

/// Minimum number of tokens reserved for the reply, unless the window is small.
const RESERVE_TOKENS_MIN: u64 = 4_000;
/// Numbers of messages that remain after each step of dropping the oldest ones.
const MESSAGES_KEPT: [usize; 2] = [20, 12];
/// Maximum size of a summary in tokens if dropping messages is not enough.
const SUMMARY_TOKENS_KEPT: u64 = 300;
/// Maximum size of the memories in tokens. The memories and MEMORY.md each get at most 1/`BLOCK_SHARE` of the window.
pub(super) const MEMORIES_TOKENS_MAX: u64 = 2_000;
const BLOCK_SHARE: u64 = 10;
/// Maximum size of the passages of attached vector stores in tokens; they also get at most 1/`BLOCK_SHARE` of the window.
pub(super) const KNOWLEDGE_TOKENS_MAX: u64 = 2_000;
/// Maximum size of USER.md in tokens; it also gets at most 1/`ABOUT_SHARE` of the window.
pub(super) const ABOUT_TOKENS_MAX: u64 = 1_000;
pub(super) const ABOUT_SHARE: u64 = 20;
/// Maximum size of MEMORY.md in tokens, and maximum number of memories, if messages have to be dropped.
const NOTES_TOKENS_KEPT: u64 = 500;
const MEMORIES_KEPT: usize = 3;
/// Estimated number of tokens of a message's label.
const LABEL_TOKENS: u64 = 8;
/// Length, in characters, of the note that replaces the middle of a message.
const NOTE_CHARS: usize = 50;

/// Token budget of one model call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    pub window: Window,
    /// Output limit of the agent.
    pub output_tokens_max: u32,
    /// Number of tokens in tool definitions and earlier rounds, which are sent in addition to the context; corrected for the model.
    pub taken: u64,
}

impl Budget {
    /// Returns the tokens reserved for the reply.
    pub fn reserve(&self) -> u64 {
        let window = self.window.tokens;
        u64::from(self.output_tokens_max)
            .max(RESERVE_TOKENS_MIN.min(window / 4))
            .min(window / 2)
    }

    /// Returns the maximum size of the prompt in tokens.
    pub fn room(&self) -> u64 {
        (self.window.tokens - self.reserve()).saturating_sub(self.taken)
    }
}

/// A context that fits, and its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    pub prompt: Prompt,
    /// Size of the prompt in tokens, corrected for the model.
    pub tokens: u64,
    /// Output limit to send.
    pub output_limit: u32,
    /// Messages that were dropped, oldest first.
    pub dropped: Vec<MessageId>,
    /// The context as it was rendered.
    pub context: Context,
}

/// Part of a prompt that does not fit even by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooLarge {
    Instructions { tokens: u64, window: u64 },
    Message { tokens: u64, window: u64 },
}

impl TooLarge {
    /// Reports the larger of the two as the part that does not fit.
    fn of(instructions: u64, message: u64, window: u64) -> Self {
        if instructions > message {
            Self::Instructions {
                tokens: instructions,
                window,
            }
        } else {
            Self::Message {
                tokens: message,
                window,
            }
        }
    }

    /// Returns the notice for the conversation.
    pub fn notice(self, agent_display_name: &str) -> String {
        let (what, tokens, window, verb, pronoun) = match self {
            Self::Instructions { tokens, window } => {
                ("its instructions", tokens, window, "do", "them")
            }
            Self::Message { tokens, window } => ("the message", tokens, window, "does", "it"),
        };
        format!(
            "{agent_display_name} could not answer: {what} ({} tokens) {verb} not fit the model's context window ({} tokens). Shorten {pronoun} or choose another model.",
            grouped(tokens),
            grouped(window),
        )
    }
}

/// Cuts one more part around the messages: memories beyond `MEMORIES_KEPT` first, then passages of vector stores, USER.md, MEMORY.md,
/// and the workspace context. Returns false if nothing is left to cut.
fn cut_surroundings(context: &mut Context, window: &Window) -> bool {
    if context.memories.len() + context.old_messages.len() > MEMORIES_KEPT {
        context.memories.truncate(MEMORIES_KEPT);
        let room = MEMORIES_KEPT - context.memories.len();
        context.old_messages.truncate(room);
        return true;
    }
    !std::mem::take(&mut context.knowledge).is_empty()
        || context.about.take().is_some()
        || cut_notes(context, window.estimate_for(NOTES_TOKENS_KEPT))
        || context.workspace.take().is_some()
}

/// Leaves out one more part of a context that has no messages left to drop. Returns false if only parts that are never cut are left.
fn leave_out_rest(context: &mut Context) -> bool {
    context.summary.take().is_some()
        || context.background_summary.take().is_some()
        || context.root.take().is_some()
        || context.notes.take().is_some()
        || !std::mem::take(&mut context.memories).is_empty()
        || !std::mem::take(&mut context.old_messages).is_empty()
        || !std::mem::take(&mut context.ask.files).is_empty()
        || leave_out_picture(context, |_, _| true)
}

/// Leaves out the last picture that satisfies `is_wanted`; its line stays. `is_wanted` receives the messages of the picture and of the
/// trigger. Returns false if there is none.
fn leave_out_picture(
    context: &mut Context,
    is_wanted: impl Fn(MessageId, MessageId) -> bool,
) -> bool {
    let trigger = context.ask.message_id;
    let mut pictures = context.pictures.iter_mut().rev();
    let last = pictures
        .find(|picture| picture.picture.is_some() && is_wanted(picture.message_id, trigger));
    last.is_some_and(|last| last.picture.take().is_some())
}

/// Renders the context within the budget.
///
/// # Errors
/// `TooLarge` if the system prompt, the requester, and the trigger message exceed the room.
pub fn fit(context: &Context, budget: &Budget) -> Result<Fit, TooLarge> {
    let window = budget.window;
    let room = budget.room();
    let mut context = context.clone();
    shorten(&mut context, window.estimate_for(room / 4));
    cap_blocks(&mut context, &window);
    let mut dropped = Vec::new();
    loop {
        let prompt = render(&context);
        let tokens = window.corrected(prompt.tokens());
        if tokens <= room {
            return Ok(Fit {
                output_limit: window.output_limit(budget.output_tokens_max, tokens + budget.taken),
                prompt,
                tokens,
                dropped,
                context,
            });
        }
        let instructions = window.corrected(prompt.system.tokens());
        let asked = prompt.parts.iter().filter(|part| is_asked(&part.source));
        let message = window.corrected(asked.map(|part| part.tokens).sum());
        let too_large = TooLarge::of(instructions, message, window.tokens);
        let left = context.background.len() + context.history.len();
        if instructions + message > room {
            return Err(too_large);
        }
        if leave_out_picture(&mut context, |of, trigger| of != trigger) {
            continue;
        }
        let kept = MESSAGES_KEPT.into_iter().find(|kept| left > *kept);
        if kept != Some(MESSAGES_KEPT[0]) && cut_surroundings(&mut context, &window) {
            continue;
        }
        let summary_tokens = window.estimate_for(SUMMARY_TOKENS_KEPT);
        if kept.is_none() && shorten_summaries(&mut context, summary_tokens) {
            continue;
        }
        if kept.is_none() && left == 0 {
            if !leave_out_rest(&mut context) {
                return Err(too_large);
            }
            continue;
        }
        let kept = kept.unwrap_or(usize::from(left > 1));
        let count = count_to_drop(&context, &prompt, &window, tokens - room);
        dropped.extend(drop_oldest(&mut context, count.min(left - kept)));
    }
}

/// Checks whether a part belongs to the question, which is never cut.
fn is_asked(source: &Source) -> bool {
    matches!(
        source,
        Source::Requester | Source::Trigger { .. } | Source::Brief { .. }
    )
}

/// Number of the most recent messages that fit into half of the room, or of `tokens_max` if that is smaller; at least 1.
pub fn kept(context: &Context, budget: &Budget, tokens_max: u64) -> usize {
    let room = budget.room().min(tokens_max);
    let mut left = budget.window.estimate_for(room / 2);
    let newest = context.history.iter().rev();
    let kept = newest.take_while(|message| {
        let tokens = estimate_tokens(&message.content) + LABEL_TOKENS;
        let fits = tokens <= left;
        left = left.saturating_sub(tokens);
        fits
    });
    kept.count().max(1)
}

/// Size of the messages before the `kept` most recent ones, in tokens, corrected for the model.
pub fn tokens_before(context: &Context, budget: &Budget, kept: usize) -> u64 {
    let older = context.history.len().saturating_sub(kept);
    let sizes = context.history[..older].iter();
    let sizes = sizes.map(|message| estimate_tokens(&message.content) + LABEL_TOKENS);
    budget.window.corrected(sizes.sum())
}

/// Removes the middle of messages and files that are longer than `tokens_max`.
fn shorten(context: &mut Context, tokens_max: u64) {
    let mut texts: Vec<&mut String> = Vec::new();
    let messages = context.background.iter_mut().chain(&mut context.history);
    texts.extend(messages.map(|message| &mut message.content));
    texts.extend(context.root.as_mut().map(|root| &mut root.content));
    texts.extend(context.ask.files.iter_mut().map(|file| &mut file.text));
    if let Some(header) = &mut context.fork_header {
        texts.extend(&mut header.forked_content);
        texts.extend(header.forked.as_mut().map(|forked| &mut forked.content));
    }
    for text in texts {
        if let Some(shorter) = without_middle(text, tokens_max) {
            *text = shorter;
        }
    }
}

/// Limits the workspace context, the files, and the memories to their caps. Keeps the beginnings of files, and the best memories.
fn cap_blocks(context: &mut Context, window: &Window) {
    let cap = |tokens: u64| window.estimate_for(tokens.min(window.tokens / BLOCK_SHARE));
    if let Some(workspace) = &mut context.workspace {
        workspace.limit(window);
    }
    while cut_notes(context, cap(NOTES_TOKENS_MAX)) {}
    if let Some(about) = &mut context.about {
        let tokens_max = ABOUT_TOKENS_MAX.min(window.tokens / ABOUT_SHARE);
        while cut_text(&mut about.text, window.estimate_for(tokens_max)) {}
    }
    let about = context.about.as_ref();
    if about.is_some_and(|about| about.text.trim().is_empty()) {
        context.about = None;
    }
    let mut room = cap(MEMORIES_TOKENS_MAX);
    let fits = |memory: &&Memory| {
        let tokens = estimate_tokens(&memory_line(memory));
        let fits = tokens <= room;
        room = room.saturating_sub(tokens);
        fits
    };
    let count = context.memories.iter().take_while(fits).count();
    context.memories.truncate(count);
    context.old_messages.retain(|old| {
        let tokens = estimate_tokens(&old_message_line(old));
        let fits = tokens <= room;
        room = room.saturating_sub(tokens);
        fits
    });
    limit_passages(&mut context.knowledge, cap(KNOWLEDGE_TOKENS_MAX));
}

/// Removes passages that do not fit into `room`, in tokens.
pub(super) fn limit_passages(passages: &mut Vec<KnowledgePassage>, mut room: u64) {
    passages.retain(|passage| {
        let tokens = estimate_tokens(&passage.lines());
        let fits = tokens <= room;
        room = room.saturating_sub(tokens);
        fits
    });
}

/// Limits the summaries. Returns true if the limit of any of them changed.
fn shorten_summaries(context: &mut Context, tokens_max: u64) -> bool {
    let mut is_changed = false;
    let summaries = context.summary.iter_mut();
    for summary in summaries.chain(&mut context.background_summary) {
        is_changed |= summary.tokens_max > tokens_max;
        summary.tokens_max = summary.tokens_max.min(tokens_max);
    }
    is_changed
}

/// Keeps only the beginning of MEMORY.md. Returns true if the text was cut.
fn cut_notes(context: &mut Context, tokens_max: u64) -> bool {
    let Some(notes) = &mut context.notes else {
        return false;
    };
    let is_cut = cut_text(&mut notes.text, tokens_max);
    if notes.text.trim().is_empty() {
        context.notes = None;
    }
    is_cut
}

/// Keeps only the beginning of `text`. Returns true if it was cut.
fn cut_text(text: &mut String, tokens_max: u64) -> bool {
    let Some(kept) = chars_within(text, tokens_max) else {
        return false;
    };
    // Leaves a margin, so that rounding does not make the text a token too long.
    let kept = kept.saturating_sub(8);
    *text = text.chars().take(kept).collect();
    true
}

/// Returns the number of characters of `text` that fit into `tokens_max`; `None` if the whole text fits.
fn chars_within(text: &str, tokens_max: u64) -> Option<usize> {
    let tokens = estimate_tokens(text);
    if tokens <= tokens_max {
        return None;
    }
    let chars = text.chars().count();
    let share = u128::from(tokens_max) * chars as u128 / u128::from(tokens);
    Some(usize::try_from(share).unwrap_or(chars))
}

/// Replaces the middle of `text` with a note so that it fits into `tokens_max`; `None` if the whole text fits.
pub fn without_middle(text: &str, tokens_max: u64) -> Option<String> {
    let kept = chars_within(text, tokens_max)?.saturating_sub(NOTE_CHARS);
    let chars = text.chars().count();
    let half = kept / 2;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(half)], &text[at(chars - half)..]);
    let left_out = chars - 2 * half;
    Some(format!(
        "{head}\n[… {left_out} characters left out …]\n{tail}"
    ))
}

/// Returns how many of the oldest messages must be dropped to save at least `excess` tokens; at least 1.
fn count_to_drop(context: &Context, prompt: &Prompt, window: &Window, excess: u64) -> usize {
    let sizes: HashMap<MessageId, u64> = prompt
        .parts
        .iter()
        .filter_map(|part| match &part.source {
            Source::Message { message_id, .. } => Some((*message_id, part.tokens)),
            _ => None,
        })
        .collect();
    let mut freed = 0;
    let oldest_first = context.background.iter().chain(&context.history);
    let before = oldest_first.take_while(|message| {
        let is_short = window.corrected(freed) < excess;
        freed += sizes.get(&message.message_id).copied().unwrap_or_default();
        is_short
    });
    before.count().max(1)
}

/// Drops the oldest messages: those of the thread, then those of its fork. The first message of a thread stays at the
/// beginning.
fn drop_oldest(context: &mut Context, count: usize) -> Vec<MessageId> {
    let of_thread = count.min(context.background.len());
    let first: Vec<_> = context.background.drain(..of_thread).collect();
    context.background_left_out += first.len() as u64;
    let second: Vec<_> = context.history.drain(..count - of_thread).collect();
    context.left_out += second.len() as u64;
    let mut dropped: Vec<_> = first.into_iter().chain(second).collect();
    let root = context.setting.root_id.filter(|_| context.root.is_none());
    if let Some(root) = root
        && let Some(at) = dropped.iter().position(|m| m.message_id == root)
    {
        context.root = Some(dropped.remove(at));
    }
    dropped
        .into_iter()
        .map(|message| message.message_id)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        agents::system::{System, SystemPartName},
        ids::{AgentId, UserId},
        model::WindowSource,
        replies::prompt::{About, Author, HistoryKind, HistoryMessage, Part},
    };

    fn budget(tokens: u64, output_tokens_max: u32, correction: f64) -> Budget {
        Budget {
            window: Window {
                tokens,
                source: WindowSource::Table,
                reasoning_tokens: 0,
                correction,
            },
            output_tokens_max,
            taken: 0,
        }
    }

    fn context(instructions: usize, asked: usize, messages: &[usize]) -> Context {
        let mut context = Context {
            system: System::of(SystemPartName::Instructions, &"i".repeat(instructions)),
            ..Context::for_tests(AgentId::new())
        };
        context.ask.content = "q".repeat(asked);
        context.history = messages
            .iter()
            .map(|chars| HistoryMessage {
                asks_agent: false,
                mentions_agent: false,
                message_id: MessageId::new(),
                author: Author::Human {
                    id: UserId::new(),
                    name: "Bo".to_owned(),
                },
                kind: HistoryKind::Complete,
                handle: None,
                posted_at: context.ask.asked_at,
                content: "x".repeat(*chars),
                attachments: Vec::new(),
            })
            .collect();
        context
    }

    fn messages(fit: &Fit) -> usize {
        let is_message = |source: &Source| matches!(source, Source::Message { .. });
        let parts = fit.prompt.parts.iter();
        parts.filter(|part| is_message(&part.source)).count()
    }

    #[test]
    fn the_reserve_is_the_output_limit_but_at_most_half_of_the_window() {
        for (window, output, reserve) in [
            (200_000, 4_096, 4_096),
            (200_000, 500, 4_000),
            (8_000, 500, 2_000),
            (2_048, 4_096, 1_024),
            (2_048, 100, 512),
        ] {
            assert_eq!(
                budget(window, output, 1.0).reserve(),
                reserve,
                "{window} {output}"
            );
        }
    }

    #[test]
    fn what_fits_is_sent_whole_with_the_agents_output_limit() {
        let fit = fit(&context(400, 40, &[400; 50]), &budget(200_000, 4_096, 1.0)).unwrap();
        assert_eq!((messages(&fit), fit.dropped.len()), (50, 0));
        assert_eq!(fit.output_limit, 4_096);
    }

    #[test]
    fn a_long_message_loses_its_middle() {
        let fit = fit(&context(400, 40, &[9_752]), &budget(2_048, 4_096, 1.0)).unwrap();
        assert_eq!(messages(&fit), 1);
        let is_message = |part: &&Part| matches!(part.source, Source::Message { .. });
        let part = fit.prompt.parts.iter().find(is_message).unwrap();
        let text = &part.text;
        assert!(text.contains("\n[… 8"), "{text}");
        assert!(text.contains(" characters left out …]\n"), "{text}");
        assert!(part.tokens <= 1_024 / 4);
        assert!(fit.tokens + u64::from(fit.output_limit) <= 2_048);
        assert_eq!(without_middle("short", 2), None);
    }

    #[test]
    fn the_oldest_messages_are_dropped_until_the_rest_fits() {
        let context = context(400, 40, &[400; 50]);
        let fit = fit(&context, &budget(8_192, 4_096, 1.0)).unwrap();
        assert!((30..40).contains(&messages(&fit)), "{}", messages(&fit));
        let oldest = context.history.iter().take(fit.dropped.len());
        assert!(oldest.map(|m| m.message_id).eq(fit.dropped.iter().copied()));
        let corrected = super::fit(&context, &budget(8_192, 4_096, 3.0)).unwrap();
        assert!(messages(&corrected) < messages(&fit) / 2);
        assert!(corrected.tokens <= 4_096);
    }

    #[test]
    fn user_md_has_a_cap_and_is_dropped_before_messages() {
        let mut context = context(400, 40, &[400; 13]);
        context.about = Some(About {
            text: "a ".repeat(10_000),
            only_user: None,
        });
        let is_about = |part: &&Part| matches!(part.source, Source::About { .. });
        let large = fit(&context, &budget(8_192, 500, 1.0)).unwrap();
        let about = large.prompt.parts.iter().find(is_about).unwrap();
        assert!((380..430).contains(&about.tokens), "{}", about.tokens);
        let small = fit(&context, &budget(2_048, 500, 1.0)).unwrap();
        assert!(small.prompt.parts.iter().all(|part| !is_about(&part)));
        assert_eq!((messages(&small), small.dropped.len()), (13, 0));
    }

    #[test]
    fn what_never_fits_is_named_with_its_size() {
        let rows = [
            (
                20_800,
                40,
                "its instructions (5,200 tokens) do not fit the model's context window (4,096 tokens). Shorten them or choose another model.",
            ),
            (
                400,
                35_916,
                "the message (9,000 tokens) does not fit the model's context window (4,096 tokens). Shorten it or choose another model.",
            ),
        ];
        for (instructions, asked, wanted) in rows {
            let context = context(instructions, asked, &[10; 3]);
            let refused = fit(&context, &budget(4_096, 500, 1.0)).unwrap_err();
            let notice = refused.notice("Vibe");
            assert_eq!(notice, format!("Vibe could not answer: {wanted}"));
        }
    }

    proptest! {
        #[test]
        fn every_prompt_fits_into_its_window_or_is_refused(
            window in 512_u64..40_000,
            output in 1_u32..16_000,
            correction in 0.5_f64..3.0,
            instructions in 0_usize..4_000,
            asked in 1_usize..4_000,
            sizes in prop::collection::vec(0_usize..8_000, 0..60),
        ) {
            let budget = budget(window, output, correction);
            let context = context(instructions, asked, &sizes);
            if let Ok(fit) = fit(&context, &budget) {
                prop_assert!(fit.tokens <= budget.room());
                prop_assert!(fit.tokens + u64::from(fit.output_limit) <= window);
                prop_assert!(fit.output_limit <= output);
                prop_assert_eq!(messages(&fit) + fit.dropped.len(), sizes.len());
                prop_assert!(fit.prompt.parts.last().unwrap().text.len() == asked);
            } else {
                let fixed = budget.window.corrected(((instructions + asked) / 4) as u64 + 80);
                prop_assert!(fixed > budget.room());
            }
        }
    }
}
