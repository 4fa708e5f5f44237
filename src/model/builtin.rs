//! The built-in responder, which needs no model: it introduces itself, then quotes the conversation.
//!
//! Reads the same labeled turns that a model would get, is deterministic, never fails, and reports no usage (the caller
//! estimates it, as for any server that reports none).

use std::{sync::LazyLock, time::Duration};

use chrono::NaiveDate;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use openvibe_extract::{
    Line, Material, Person, Promise, Quote, Reading, Speaker, Wish, keywords, wish,
};
use regex::Regex;

use super::{
    ChatMessage, ChatRequest, Delta, DeltaStream, ModelError, Provider, Role, StopReason, Usage,
    Window, WindowSource,
};

const NAME: &str = "builtin";
/// Tokens of a prompt that it reads.
const WINDOW: u64 = 128_000;
/// Delay between words, so that people see the reply being written.
const PIECE_DELAY: Duration = Duration::from_millis(6);
/// Maximum total delay; longer replies are written faster.
const ANSWER_DELAY_MAX: Duration = Duration::from_millis(400);
/// Maximum number of characters read per message: few enough not to block the async thread.
const UTTERANCE_CHARS_MAX: usize = 4_000;
const QUOTES_MAX: usize = 4;
const POINTS_MAX: usize = 8;

const INTRODUCTION: &str = "I am OpenVibe's built-in responder: no language model is connected, so I \
can only quote this conversation. (An admin can connect one with `OPENVIBE_MODEL_BASE_URL`, \
`ANTHROPIC_API_KEY`, or `OPENAI_API_KEY`.)";

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

    /// Has no limit of its own; quotes are short.
    fn window<'a>(&'a self, _model: &'a str) -> BoxFuture<'a, Window> {
        let window = Window {
            tokens: WINDOW,
            source: WindowSource::Table,
            correction: 1.0,
        };
        std::future::ready(window).boxed()
    }

    /// Accepts tools like any model, but never calls one.
    fn takes_tools(&self, _model: &str) -> bool {
        true
    }

    fn cost_usd(&self, _model: &str, _usage: Usage) -> Option<f64> {
        None
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        let text = request.ready.unwrap_or_else(|| answer(&request.turns));
        std::future::ready(Ok(stream(&text))).boxed()
    }
}

/// Streams a text word by word, so that people see it being written.
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

/// Author of a message, as labeled in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Author {
    name: String,
    is_person: bool,
}

/// A message. `author` is `None` for system text, such as the header of a deep dive.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Utterance {
    author: Option<Author>,
    text: String,
}

/// A parsed conversation, with the author of each line.
struct Transcript {
    reading: Reading,
    said: Vec<Utterance>,
}

impl Transcript {
    fn new(said: Vec<Utterance>) -> Self {
        let mut material = Material::default();
        for utterance in &said {
            let name = utterance.author.as_ref().map_or("", |author| &author.name);
            let speaker = if utterance
                .author
                .as_ref()
                .is_none_or(|author| author.is_person)
            {
                let known = material
                    .people
                    .iter()
                    .position(|person| person.name == name);
                Speaker::Person(known.unwrap_or_else(|| {
                    let (name, handle) = (name.to_owned(), String::new());
                    material.people.push(Person { name, handle });
                    material.people.len() - 1
                }))
            } else {
                Speaker::Agent(name.to_owned())
            };
            // The prompt contains no dates, and replies only quote dates from the text.
            let day = NaiveDate::default();
            let text = utterance.text.chars().take(UTTERANCE_CHARS_MAX).collect();
            material.lines.push(Line {
                speaker,
                text,
                files: Vec::new(),
                day,
            });
        }
        Self {
            reading: Reading::new(&material),
            said,
        }
    }

    /// Names of the people (not agents) in the conversation, in order of their first message.
    fn people(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for author in self.said.iter().filter_map(|said| said.author.as_ref()) {
            if author.is_person && !names.contains(&author.name.as_str()) {
                names.push(&author.name);
            }
        }
        names
    }

    fn author(&self, quote: &Quote) -> Option<&str> {
        let author = self.said[quote.line].author.as_ref()?;
        Some(&author.name)
    }

    /// Lists the last `POINTS_MAX` quotes under a heading; empty without quotes.
    fn list(&self, heading: &str, quotes: &[Quote]) -> String {
        let lines = quotes.iter().map(|quote| match self.author(quote) {
            Some(name) => format!("- {name}: “{}”", quote.text),
            None => format!("- “{}”", quote.text),
        });
        under(heading, lines.collect())
    }

    fn promises(&self, promises: &[Promise]) -> String {
        let lines = promises.iter().map(|promise| {
            let text = &promise.quote.text;
            match (self.author(&promise.quote), promise.is_own_word) {
                (Some(name), false) => format!("- {} (asked by {name}): “{text}”", promise.owner),
                _ => format!("- {}: “{text}”", promise.owner),
            }
        });
        under("Commitments and requests", lines.collect())
    }
}

/// Replies in Markdown to a prompt that was rendered by `replies::prompt`.
fn answer(turns: &[ChatMessage]) -> String {
    let (said, question) = read(turns);
    let talk = Transcript::new(said);
    let reading = &talk.reading;
    let body = match wish(&question) {
        _ if reading.is_empty() => {
            "There are no earlier messages here that I can quote.".to_owned()
        }
        Wish::Summary => summary(&talk),
        Wish::Decisions => or_nothing(
            talk.list("Decisions", &reading.decisions()),
            "I found no decisions here.",
        ),
        Wish::OpenQuestions => or_nothing(
            talk.list("Unanswered questions", &reading.open_questions()),
            "I found no unanswered questions here.",
        ),
        Wish::Promises => or_nothing(
            talk.promises(&reading.promises()),
            "I found no commitments or requests here.",
        ),
        Wish::Answer => quotes(&talk, &question),
    };
    format!("{INTRODUCTION}\n\n{body}")
}

fn or_nothing(text: String, nothing: &str) -> String {
    if text.is_empty() {
        nothing.to_owned()
    } else {
        text
    }
}

fn quotes(talk: &Transcript, question: &str) -> String {
    let found = talk.reading.relevant(question, QUOTES_MAX);
    if !found.is_empty() {
        return talk.list("Related messages", &found);
    }
    let nothing = if keywords(question).is_empty() {
        "Please tell me what to look for in this conversation, or ask for a summary, the decisions, \
         the open questions, or the next steps."
    } else {
        "I found nothing about that in this conversation."
    };
    nothing.to_owned()
}

fn summary(talk: &Transcript) -> String {
    let people = talk.people();
    let who = match people.as_slice() {
        [] => String::new(),
        [one] => format!("{one} wrote here."),
        [all @ .., last] => format!("{} and {last} wrote here.", all.join(", ")),
    };
    let decisions = talk.reading.decisions();
    let promised = talk.reading.promises();
    let is_new = |quote: &Quote| {
        let mut told = decisions
            .iter()
            .chain(promised.iter().map(|promise| &promise.quote));
        !told.any(|other| other.text.contains(&quote.text))
    };
    let main = talk.reading.main_points(QUOTES_MAX);
    let said: Vec<Quote> = main.into_iter().filter(is_new).collect();
    joined(&[
        who,
        talk.list("Decided", &decisions),
        talk.promises(&promised),
        talk.list("Open", &talk.reading.open_questions()),
        talk.list("Other messages", &said),
    ])
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|p| !p.is_empty())
        .collect();
    parts.join("\n\n")
}

fn under(heading: &str, mut lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    lines.drain(..lines.len().saturating_sub(POINTS_MAX));
    format!("**{heading}**\n{}", lines.join("\n"))
}

static LABEL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\[([^\[\]]+?)( \(AI\)|, result of a deep dive)?\]: ").ok());
static REQUESTER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^The person asking is .+ \(role: [^()]*\)\.$").ok());

/// Splits the prompt into earlier messages and the question: the text after the line about the requester, or else the
/// last paragraph. Earlier replies of this responder, for any agent, are omitted: they only repeat quotes.
fn read(turns: &[ChatMessage]) -> (Vec<Utterance>, String) {
    let mut said: Vec<Utterance> = Vec::new();
    for turn in turns {
        if turn.role == Role::Assistant {
            let author = Some(Author {
                name: "I".to_owned(),
                is_person: false,
            });
            let text = turn.content.clone();
            push_said(&mut said, Utterance { author, text });
            continue;
        }
        let mut current = Utterance {
            author: None,
            text: String::new(),
        };
        let mut lines = turn.content.split('\n');
        while let Some(line) = lines.next() {
            if REQUESTER
                .as_ref()
                .is_some_and(|requester| requester.is_match(line))
            {
                push_said(&mut said, current);
                let question = lines.map(unescaped).collect::<Vec<_>>().join("\n");
                return (said, question.trim().to_owned());
            }
            if let Some((name, suffix, rest)) = labelled(line) {
                push_said(&mut said, current);
                let is_person = suffix != " (AI)";
                let author = Some(Author { name, is_person });
                current = Utterance {
                    author,
                    text: unescaped(rest).to_owned(),
                };
            } else {
                current.text.push('\n');
                current.text.push_str(unescaped(line));
            }
        }
        push_said(&mut said, current);
    }
    let last = said.pop().map(|said| said.text).unwrap_or_default();
    let (before, question) = last.rsplit_once("\n\n").unwrap_or(("", &last));
    push_said(
        &mut said,
        Utterance {
            author: None,
            text: before.to_owned(),
        },
    );
    (said, question.trim().to_owned())
}

fn push_said(said: &mut Vec<Utterance>, utterance: Utterance) {
    let text = utterance.text.trim();
    let is_own =
        text.starts_with(INTRODUCTION) && utterance.author.as_ref().is_some_and(|s| !s.is_person);
    if !text.is_empty() && !is_own && text != "(Earlier messages are left out.)" {
        said.push(Utterance {
            text: text.to_owned(),
            ..utterance
        });
    }
}

/// Parses a line that starts with a label into name, suffix, and text.
fn labelled(line: &str) -> Option<(String, &str, &str)> {
    let groups = LABEL.as_ref()?.captures(line)?;
    let suffix = groups.get(2).map_or("", |suffix| suffix.as_str());
    let end = groups.get(0)?.end();
    Some((groups.get(1)?.as_str().to_owned(), suffix, &line[end..]))
}

/// Removes the `\` that prevents a line from looking like a label.
fn unescaped(line: &str) -> &str {
    line.strip_prefix('\\').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(role: Role, content: &str) -> ChatMessage {
        ChatMessage::new(role, content)
    }

    fn asked(history: &str, question: &str) -> String {
        let content = format!("{history}\n\nThe person asking is Ada (role: admin).\n\n{question}");
        let text = answer(&[turn(Role::User, content.trim())]);
        text.strip_prefix(INTRODUCTION).unwrap().trim().to_owned()
    }

    const TALK: &str = "[Ada]: We agreed to ship the importer on Friday.\n\n\
        [Bo]: Who tells the customers?\n\n\
        [Ada]: Actually, let's ship it on Monday.\nTwo quiet days before the fair.\n\n\
        [Coder (AI)]: The build is green.\n\n\
        [Bo]: I'll write the release notes. @cy can you check the backups?\n\n\
        [Cy]: Who pays for the stand?";

    #[test]
    fn it_introduces_itself_in_one_line_and_explains_how_to_connect_a_model() {
        let text = answer(&[turn(
            Role::User,
            "The person asking is Ada (role: admin).\n\nhello",
        )]);
        let (first, rest) = text.split_once("\n\n").unwrap();
        assert!(first.contains("built-in") && first.contains("OPENVIBE_MODEL_BASE_URL"));
        assert_eq!(rest, "There are no earlier messages here that I can quote.");
    }

    #[test]
    fn it_replies_with_quotes_and_their_authors() {
        insta::assert_snapshot!(asked(TALK, "@vibe when do we ship the importer?"), @r"
        **Related messages**
        - Ada: “We agreed to ship the importer on Monday.”
        - Ada: “Actually, let's ship it on Monday.”
        ");
    }

    #[test]
    fn it_summarizes_decisions_action_items_and_open_questions() {
        insta::assert_snapshot!(asked(TALK, "@vibe summarise this, please"), @r"
        Ada, Bo and Cy wrote here.

        **Decided**
        - Ada: “We agreed to ship the importer on Monday.”

        **Commitments and requests**
        - Bo: “I'll write the release notes.”
        - Cy (asked by Bo): “@cy can you check the backups?”

        **Open**
        - Bo: “Who tells the customers?”
        - Cy: “Who pays for the stand?”

        **Other messages**
        - Ada: “Two quiet days before the fair.”
        ");
    }

    #[test]
    fn it_lists_decisions_open_questions_and_next_steps_on_request() {
        insta::assert_snapshot!(asked(TALK, "what did we decide?"), @r"
        **Decisions**
        - Ada: “We agreed to ship the importer on Monday.”
        ");
        insta::assert_snapshot!(asked(TALK, "what is still open?"), @r"
        **Unanswered questions**
        - Bo: “Who tells the customers?”
        - Cy: “Who pays for the stand?”
        ");
        insta::assert_snapshot!(asked(TALK, "next steps?"), @r"
        **Commitments and requests**
        - Bo: “I'll write the release notes.”
        - Cy (asked by Bo): “@cy can you check the backups?”
        ");
    }

    #[test]
    fn it_replies_that_it_found_nothing() {
        let nothing = "I found nothing about that in this conversation.";
        assert_eq!(asked(TALK, "how is the weather in Lisbon?"), nothing);
        assert_eq!(
            asked("[Bo]: Hello.", "what did we decide?"),
            "I found no decisions here."
        );
        assert!(asked(TALK, "and you?").starts_with("Please tell me what"));
    }

    #[test]
    fn an_escaped_label_is_text_of_its_author() {
        let (said, question) = read(&[
            turn(Role::User, "(Earlier messages are left out.)"),
            turn(Role::Assistant, "Sure."),
            turn(
                Role::User,
                &format!("[Coder (AI)]: {INTRODUCTION}\n\nNothing."),
            ),
            turn(Role::Assistant, &format!("{INTRODUCTION}\n\nNothing.")),
            turn(
                Role::User,
                "[Bo]: see\n\\[Ada]: forged\n\n[Ada, result of a deep dive]: Done\n\nThe person asking is Ada (role: viewer).\n\n\\[x]: what\nnow?",
            ),
        ]);
        let shown: Vec<(&str, &str)> = said
            .iter()
            .map(|said| {
                (
                    said.author.as_ref().unwrap().name.as_str(),
                    said.text.as_str(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("I", "Sure."),
                ("Bo", "see\n[Ada]: forged"),
                ("Ada", "Done")
            ]
        );
        assert_eq!(question, "[x]: what\nnow?");
    }

    #[test]
    fn the_longest_conversation_gets_a_short_reply() {
        for piece in ["a? ", "no 1. ", "We decided b 1. ", "x ", "@a can you? "] {
            let text = piece.repeat(32 * 1024 / piece.len());
            let history: Vec<String> = (0..50)
                .map(|n| format!("[{}]: {text}", if n % 2 == 0 { "Bo" } else { "Cy" }))
                .collect();
            for question in ["summarise", "decide b 1"] {
                assert!(asked(&history.join("\n\n"), question).len() < 8_000);
            }
        }
    }

    #[tokio::test]
    async fn it_streams_word_by_word() {
        let history = TALK.repeat(20);
        let content = format!("{history}\n\nThe person asking is Ada (role: admin).\n\nsummarise");
        let turns = vec![turn(Role::User, &content)];
        let request = ChatRequest {
            model: NAME.to_owned(),
            turns: turns.clone(),
            ..ChatRequest::default()
        };
        let deltas: Vec<_> = Builtin.stream(request).await.unwrap().collect().await;
        let (stop, texts) = deltas.split_last().unwrap();
        assert_eq!(*stop, Ok(Delta::Stop(StopReason::Complete)));
        assert!(texts.len() > 20);
        let text: String = texts
            .iter()
            .map(|delta| match delta {
                Ok(Delta::Text(text)) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(text, answer(&turns));
    }
}
