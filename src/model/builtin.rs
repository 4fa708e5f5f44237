//! The provider without a model: streams the reply that the caller has prepared, or else quotes the user's earlier messages.
//!
//! It is deterministic, never fails, and reports no usage (the caller estimates it, as for any server that reports none).

use std::time::Duration;

use chrono::Utc;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use openvibe_responder::{Conversation, Line, Material, Person, Question, Speaker};

use super::{
    ChatMessage, ChatRequest, Delta, DeltaStream, ModelError, Provider, Role, StopReason, Usage,
    Window, WindowSource,
};

/// Name of the built-in responder, used in place of a model's name.
pub const NAME: &str = "builtin";
/// Context window in tokens.
const WINDOW: u64 = 128_000;
/// Delay between words, so that people see the reply being written.
const PIECE_DELAY: Duration = Duration::from_millis(6);
/// Maximum total delay; longer replies are written faster.
const ANSWER_DELAY_MAX: Duration = Duration::from_millis(400);
/// Maximum number of characters of the conversation that are read, low enough not to block the async thread.
const CHARS_MAX: usize = 32_000;
/// Name of the user in quotations.
const USER: &str = "User";

/// Deterministic offline responder.
#[derive(Debug, Clone, Default)]
pub struct Builtin;

impl Provider for Builtin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_offline(&self) -> bool {
        true
    }

    fn choose_model<'a>(&'a self, _wanted: Option<&'a str>) -> BoxFuture<'a, String> {
        std::future::ready(NAME.to_owned()).boxed()
    }

    fn effective_model<'a>(&'a self, _wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        std::future::ready(None).boxed()
    }

    fn utility_model<'a>(&'a self, _main: &'a str) -> BoxFuture<'a, String> {
        std::future::ready(NAME.to_owned()).boxed()
    }

    fn has_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        std::future::ready(model == NAME).boxed()
    }

    fn lists_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        self.has_model(model)
    }

    /// A fixed window, because quotations are short anyway.
    fn window<'a>(&'a self, _model: &'a str) -> BoxFuture<'a, Window> {
        let window = Window {
            tokens: WINDOW,
            source: WindowSource::Table,
            reasoning_tokens: 0,
            correction: 1.0,
        };
        std::future::ready(window).boxed()
    }

    /// Accepts tools like any model, but never calls them.
    fn takes_tools(&self, _model: &str) -> bool {
        true
    }

    /// Returns false, because replies are sentences, not JSON.
    fn takes_json(&self, _model: &str) -> bool {
        false
    }

    fn cost_usd(&self, _model: &str, _usage: Usage) -> Option<f64> {
        None
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        let text = request.ready.unwrap_or_else(|| answer(&request.turns));
        std::future::ready(Ok(stream(&text))).boxed()
    }
}

/// Streams text word by word, so that people see it being written.
fn stream(text: &str) -> DeltaStream {
    let pieces: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
    let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX).max(1);
    let delay = PIECE_DELAY.min(ANSWER_DELAY_MAX / count);
    let deltas = pieces
        .into_iter()
        .map(Delta::Text)
        .chain([Delta::Stop(StopReason::Complete)]);
    let stream = futures::stream::iter(deltas).then(move |delta| async move {
        tokio::time::sleep(delay).await;
        Ok(delta)
    });
    stream.boxed()
}

/// Answers the last paragraph of the user's last message with quotations from the user's earlier text.
fn answer(turns: &[ChatMessage]) -> String {
    let mut said: Vec<&str> = Vec::new();
    let mut chars = CHARS_MAX;
    for turn in turns.iter().rev().filter(|turn| turn.role == Role::User) {
        // Reads whole paragraphs, newest first.
        for paragraph in turn.content.trim().rsplit("\n\n") {
            chars = chars.saturating_sub(paragraph.chars().count());
            if chars > 0 || said.is_empty() {
                said.push(paragraph);
            }
        }
    }
    let mut said = said.into_iter();
    let question = Question {
        text: said
            .next()
            .unwrap_or_default()
            .chars()
            .take(CHARS_MAX)
            .collect(),
        today: Utc::now().date_naive(),
        is_admin: false,
        workspace_path: String::new(),
        is_first: turns.iter().all(|turn| turn.role == Role::User),
    };
    let line = |text: &str| Line {
        speaker: Speaker::Person(0),
        text: text.to_owned(),
        files: Vec::new(),
        day: question.today,
    };
    let user = Person {
        name: USER.to_owned(),
        handle: String::new(),
    };
    let conversation = Conversation {
        material: Material {
            people: vec![user],
            lines: said.rev().map(line).collect(),
        },
        ..Conversation::default()
    };
    let composed = openvibe_responder::answer(&conversation, question).compose(&[]);
    // Citations are removed, because there are no messages to cite.
    let lines = composed.text.lines().map(|line| {
        let is_mark = |c: char| c.is_ascii_digit() || matches!(c, ' ' | '[' | ']');
        if line.starts_with("- ") {
            line.trim_end_matches(is_mark)
        } else {
            line
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(turns: &[(Role, &str)]) -> String {
        let turns = turns.iter();
        let turns: Vec<_> = turns
            .map(|(role, text)| ChatMessage::new(*role, *text))
            .collect();
        answer(&turns)
    }

    const TALK: &str = "The importer ships on Friday.\n\nThe party is in the garden.";

    #[test]
    fn it_quotes_what_the_user_wrote_before() {
        let first = asked(&[(
            Role::User,
            &format!("{TALK}\n\nWhen does the importer ship?"),
        )]);
        assert_eq!(
            first,
            "- User: “The importer ships on Friday.”\n\n\
             I am OpenVibe's built-in responder: no language model is connected, so I only quote people."
        );
        let later = asked(&[
            (Role::User, TALK),
            (Role::Assistant, "The party is in the park."),
            (Role::User, "Where is the party?"),
        ]);
        assert_eq!(later, "- User: “The party is in the garden.”");
    }

    #[test]
    fn it_says_what_needs_a_model() {
        let text = asked(&[(Role::User, "Write a poem about the sea.")]);
        assert!(
            text.starts_with("That needs a language model. An admin can connect one."),
            "{text}"
        );
        assert!(!asked(&[]).is_empty());
    }

    #[tokio::test]
    async fn the_end_of_a_long_conversation_is_read_and_streamed_word_by_word() {
        let long = "The importer ships on Friday. ".repeat(2_000);
        let text = asked(&[(
            Role::User,
            &format!("{long}\n\n{TALK}\n\nWhere is the party?"),
        )]);
        assert!(
            text.starts_with("- User: “The party is in the garden.”"),
            "{text}"
        );
        let mut stream = stream(&text);
        let mut streamed = String::new();
        while let Some(Ok(delta)) = stream.next().await {
            if let Delta::Text(piece) = delta {
                streamed += &piece;
            }
        }
        assert_eq!(streamed, text);
    }
}
