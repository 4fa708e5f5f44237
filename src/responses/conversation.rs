//! The conversation sent to the model: alternating turns that start and end with `User` and fit into the context
//! window.

use std::collections::BTreeMap;

use super::{
    ResponseError,
    items::{Item, Speaker},
};
use crate::model::{
    ChatMessage, ChatRequest, FunctionTool, RequiredFormat, Role, ToolCall, ToolResult,
    estimate_tokens,
};

/// Rounds with functions of the server can use at most 1/`ROUNDS_SHARE` of the window.
pub(super) const ROUNDS_SHARE: u64 = 3;
/// Inserted before a conversation that would otherwise start with the assistant.
const LEFT_OUT: &str = "(Earlier messages are left out.)";
/// Estimated overhead in tokens of a call and of a result, in addition to their texts.
const CALL_TOKENS: u64 = 50;
const RESULT_TOKENS: u64 = 30;
/// Maximum number of tokens reserved for the reply if the request does not set a limit; at most a quarter of the
/// window.
const RESERVE_TOKENS_MAX: u64 = 4_000;

/// Model input built from items.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conversation {
    /// All system and developer messages, wherever they appeared: chat templates accept them only at the beginning.
    pub system: Vec<String>,
    pub turns: Vec<ChatMessage>,
}

/// Calls without an output. Models use IDs again, so an output belongs to the nearest earlier open call with its ID.
#[derive(Debug, Default)]
pub(super) struct OpenCalls<'a>(BTreeMap<&'a str, usize>);

impl<'a> OpenCalls<'a> {
    /// Adds the next item of a conversation. Returns false for an output without an open call.
    pub(super) fn follows(&mut self, item: &'a Item) -> bool {
        match item {
            Item::FunctionCall { call_id, .. } => *self.0.entry(call_id).or_default() += 1,
            Item::FunctionCallOutput { call_id, .. } => {
                let Some(count) = self.0.get_mut(call_id.as_str()) else {
                    return false;
                };
                *count -= 1;
                if *count == 0 {
                    self.0.remove(call_id.as_str());
                }
            }
            Item::Message { .. } => {}
        }
        true
    }

    fn first(&self) -> Option<&str> {
        self.0.keys().next().copied()
    }
}

/// Builds the conversation from stored items (`before`) and new ones.
///
/// # Errors
/// `Invalid` for calls without a result, results without a call, and conversations without a message.
pub(super) fn converse(before: &[Item], new: &[Item]) -> Result<Conversation, ResponseError> {
    let all = || before.iter().chain(new);
    let mut open = OpenCalls::default();
    for item in all() {
        if !open.follows(item) {
            let text =
                "an output's function call does not exist before it, or already has an output";
            let id = item.call_id().unwrap_or_default();
            return Err(ResponseError::invalid("input", format!("{text}: `{id}`")));
        }
    }
    if let Some(call_id) = open.first() {
        let text = format!("the function call `{call_id}` has no output");
        return Err(ResponseError::invalid("input", text));
    }
    let mut conversation = Conversation {
        system: Vec::new(),
        turns: Vec::new(),
    };
    for item in all() {
        conversation.add(item);
    }
    conversation.begin_with_user();
    if conversation.turns.is_empty() {
        return Err(ResponseError::invalid(
            "input",
            "input does not contain a user message to reply to",
        ));
    }
    Ok(conversation)
}

impl Conversation {
    fn turn(&mut self, role: Role) -> &mut ChatMessage {
        if self.turns.last().is_none_or(|turn| turn.role != role) {
            self.turns.push(ChatMessage::new(role, ""));
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    fn add(&mut self, item: &Item) {
        match item {
            Item::Message { text, .. } if text.trim().is_empty() => {}
            Item::Message {
                role: Speaker::System,
                text,
            } => self.system.push(text.clone()),
            Item::Message { role, text } => {
                let role = match role {
                    Speaker::Assistant => Role::Assistant,
                    _ => Role::User,
                };
                let turn = self.turn(role);
                if !turn.content.is_empty() {
                    turn.content.push_str("\n\n");
                }
                turn.content.push_str(text);
            }
            Item::FunctionCall {
                call_id,
                name,
                arguments,
            } => self.turn(Role::Assistant).calls.push(ToolCall {
                id: call_id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            Item::FunctionCallOutput { call_id, output } => {
                self.turn(Role::User).results.push(ToolResult {
                    call_id: call_id.clone(),
                    content: output.clone(),
                });
            }
        }
    }

    fn begin_with_user(&mut self) {
        if self
            .turns
            .first()
            .is_some_and(|turn| turn.role == Role::Assistant)
        {
            self.turns.insert(0, ChatMessage::new(Role::User, LEFT_OUT));
        }
    }

    /// Returns the last text of the user.
    pub(super) fn last_question(&self) -> String {
        let from_user = self
            .turns
            .iter()
            .rev()
            .filter(|turn| turn.role == Role::User);
        let mut texts = from_user.map(|turn| turn.content.clone());
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns the estimated number of tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.turns.iter().map(turn_tokens).sum()
    }

    /// Drops the oldest turns until at most `tokens_max` tokens are left. The last turn is always kept. Calls are dropped together
    /// with their results.
    pub(super) fn shorten(&mut self, tokens_max: u64) {
        let mut tokens = self.tokens();
        let mut from = 0;
        while tokens > tokens_max && from + 1 < self.turns.len() {
            tokens -= turn_tokens(&self.turns[from]);
            from += 1;
            // The remaining turns must not start with results whose calls were dropped.
            while from + 1 < self.turns.len() && !self.turns[from].results.is_empty() {
                tokens -= turn_tokens(&self.turns[from]);
                from += 1;
            }
        }
        // The last turn contains results, so the turn with their calls must be kept.
        if from + 1 == self.turns.len() && from > 0 && !self.turns[from].results.is_empty() {
            from -= 1;
        }
        self.turns.drain(..from);
        self.begin_with_user();
    }
}

/// Returns the estimated number of tokens of a turn.
pub(super) fn turn_tokens(turn: &ChatMessage) -> u64 {
    let calls = turn
        .calls
        .iter()
        .map(|call| CALL_TOKENS + estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
    let results = turn
        .results
        .iter()
        .map(|result| RESULT_TOKENS + estimate_tokens(&result.content));
    let pictures = turn.pictures.iter().map(|picture| picture.tokens);
    estimate_tokens(&turn.content)
        + pictures.sum::<u64>()
        + calls.sum::<u64>()
        + results.sum::<u64>()
        + turn.vendor.tokens()
}

/// Replaces the oldest results in turns until the turns have at most `tokens_max` tokens.
pub(super) fn leave_out_results(turns: &mut [ChatMessage], tokens_max: u64) {
    let mut tokens: u64 = turns.iter().map(turn_tokens).sum();
    let results = turns.iter_mut().flat_map(|turn| &mut turn.results);
    for (at, result) in results.enumerate() {
        if tokens <= tokens_max {
            return;
        }
        let note = format!("(result of call {} left out)", at + 1);
        let (before, after) = (estimate_tokens(&result.content), estimate_tokens(&note));
        if after < before {
            tokens -= before - after;
            result.content = note;
        }
    }
}

/// Returns the estimated number of tokens of a request without its conversation.
pub(super) fn fixed_tokens(request: &ChatRequest) -> u64 {
    let format = request.required_format.as_ref();
    estimate_tokens(&request.system)
        + tool_tokens(&request.tools)
        + format.map_or(0, RequiredFormat::prompt_tokens)
}

/// Returns the estimated number of tokens that function definitions need in the prompt.
fn tool_tokens(functions: &[FunctionTool]) -> u64 {
    functions
        .iter()
        .map(|tool| {
            let parameters = tool.parameters.as_ref().map(ToString::to_string);
            CALL_TOKENS
                + estimate_tokens(tool.description.as_deref().unwrap_or_default())
                + estimate_tokens(parameters.as_deref().unwrap_or_default())
        })
        .sum()
}

/// Returns the number of tokens in a window that a prompt can use. The rest is reserved for the reply.
pub(super) fn prompt_tokens_max(window: u64, output_tokens_max: Option<u32>) -> u64 {
    let quarter = (window / 4).min(RESERVE_TOKENS_MAX);
    let reserve = output_tokens_max.map_or(quarter, u64::from).max(quarter);
    // At least half of the window is left for the prompt, even if the limit is as large as the window.
    window - reserve.min(window / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(role: Speaker, text: &str) -> Item {
        Item::Message {
            role,
            text: text.to_owned(),
        }
    }

    fn call(id: &str) -> Item {
        Item::FunctionCall {
            call_id: id.to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    fn output(id: &str) -> Item {
        Item::FunctionCallOutput {
            call_id: id.to_owned(),
            output: format!("of {id}"),
        }
    }

    /// Renders each turn as `u` or `a`, the IDs of its results, its text, and the IDs of its calls.
    fn shown(conversation: &Conversation) -> Vec<String> {
        let turn = |turn: &ChatMessage| {
            let role = if turn.role == Role::User { "u" } else { "a" };
            let calls: Vec<&str> = turn.calls.iter().map(|call| call.id.as_str()).collect();
            let results: Vec<&str> = turn.results.iter().map(|r| r.call_id.as_str()).collect();
            let (calls, results) = (calls.join(""), results.join(""));
            [role, &results, &turn.content, &calls].join("|")
        };
        conversation.turns.iter().map(turn).collect()
    }

    #[test]
    fn items_become_alternating_turns() {
        let before = [
            says(Speaker::System, "Be brief."),
            says(Speaker::User, "One"),
            says(Speaker::User, "Two"),
            says(Speaker::Assistant, "Wait"),
            call("a"),
            call("b"),
        ];
        let new = [output("a"), output("b"), says(Speaker::User, "Well?")];
        let conversation = converse(&before, &new).unwrap();
        assert_eq!(
            shown(&conversation),
            ["u||One\n\nTwo|", "a||Wait|ab", "u|ab|Well?|"]
        );
        assert_eq!(conversation.system, ["Be brief."]);
        let answered = [says(Speaker::Assistant, "Hi"), says(Speaker::User, "Yes?")];
        assert_eq!(
            shown(&converse(&[], &answered).unwrap()),
            ["u||(Earlier messages are left out.)|", "a||Hi|", "u||Yes?|"]
        );
    }

    #[test]
    fn calls_are_kept_together_with_their_outputs() {
        for items in [
            vec![output("a")],
            vec![call("a")],
            vec![call("a"), call("a"), output("a")],
            vec![output("a"), call("a")],
            vec![call("a"), output("a"), output("a")],
            vec![says(Speaker::System, "Only this.")],
        ] {
            assert!(converse(&[], &items).is_err(), "{items:?}");
        }
    }

    #[test]
    fn a_call_id_can_be_used_again_after_its_output() {
        let items = [
            says(Speaker::User, "One"),
            call("list:0"),
            output("list:0"),
            says(Speaker::User, "Two"),
            call("list:0"),
            call("list:0"),
            output("list:0"),
            output("list:0"),
        ];
        let turns = converse(&items[..4], &items[4..]).unwrap();
        assert_eq!(
            shown(&turns),
            [
                "u||One|",
                "a|||list:0",
                "u|list:0|Two|",
                "a|||list:0list:0",
                "u|list:0list:0||"
            ]
        );
    }

    #[test]
    fn the_oldest_turns_are_dropped_first_and_calls_with_their_outputs() {
        let long = "x".repeat(400);
        let items = [
            says(Speaker::User, &long),
            call("a"),
            output("a"),
            says(Speaker::Assistant, "Done"),
            says(Speaker::User, "Next"),
        ];
        let mut conversation = converse(&[], &items).unwrap();
        conversation.shorten(60);
        assert_eq!(
            shown(&conversation),
            [
                "u||(Earlier messages are left out.)|",
                "a||Done|",
                "u||Next|"
            ]
        );
        let open = [says(Speaker::User, &long), call("a"), output("a")];
        let mut conversation = converse(&[], &open).unwrap();
        conversation.shorten(10);
        assert_eq!(
            shown(&conversation),
            ["u||(Earlier messages are left out.)|", "a|||a", "u|a||"]
        );
    }

    #[test]
    fn the_oldest_results_are_left_out_first() {
        let long = "x".repeat(400);
        let results = ["a", "b", "c"].map(|id| ToolResult {
            call_id: id.to_owned(),
            content: long.clone(),
        });
        let mut turns = [ChatMessage {
            results: results.to_vec(),
            ..ChatMessage::new(Role::User, "")
        }];
        leave_out_results(&mut turns, 330);
        let contents: Vec<&str> = turns[0]
            .results
            .iter()
            .map(|r| r.content.as_str())
            .collect();
        assert_eq!(contents, ["(result of call 1 left out)", &long, &long]);
    }

    #[test]
    fn part_of_the_window_is_reserved_for_the_response() {
        assert_eq!(prompt_tokens_max(100_000, None), 96_000);
        assert_eq!(prompt_tokens_max(8_000, None), 6_000);
        assert_eq!(prompt_tokens_max(100_000, Some(8_000)), 92_000);
        assert_eq!(prompt_tokens_max(8_000, Some(8_000)), 4_000);
    }
}
