//! What people see of a turn: its text, steps, plan, cost, and log.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::frames::{Event, PlanEntry, Step, StepState, TEXT_BYTES_MAX, cut};

const TEXT_INTERVAL: Duration = Duration::from_millis(50);
const STEP_INTERVAL: Duration = Duration::from_millis(500);
/// Interval while the server is away, and events pile up.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Number of events that are not acknowledged, from which the interval is slow.
const UNACKED_MAX: usize = 500;
const REPLY_BYTES_MAX: usize = 1 << 20;
const STEPS_MAX: usize = 1000;
const STEPS_PER_FRAME: usize = 50;
const PLAN_MAX: usize = 50;
const LOG_BYTES_MAX: u64 = 10 << 20;
/// Maximum number of tokens of a prompt: sums of them can be counted.
const TOKENS_MAX: u64 = 1 << 40;

pub(crate) struct Record {
    task: String,
    text: String,
    reply_bytes: usize,
    is_cut: bool,
    /// True if something else happened since the last text.
    is_paused: bool,
    /// Size of the text since then.
    part_bytes: usize,
    /// The same without white space at its end; that of an earlier part if there is nothing else.
    last_text_bytes: usize,
    /// Number of the first step.
    first: usize,
    steps: Vec<(Step, Instant)>,
    numbers: HashMap<String, usize>,
    changed: BTreeSet<usize>,
    plan: Option<Vec<PlanEntry>>,
    cost: Option<f64>,
    /// Tokens that were not sent.
    input_tokens: u64,
    output_tokens: u64,
    log: File,
    log_bytes: u64,
    text_at: Instant,
    steps_at: Instant,
}

impl Record {
    /// Continues the log at the path, and the numbers of its steps.
    pub(crate) fn open(task: &str, log: &Path) -> io::Result<Self> {
        let first = steps_in(log);
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let now = Instant::now();
        Ok(Self {
            task: task.to_owned(),
            text: String::new(),
            reply_bytes: usize::from(first > 0),
            is_cut: false,
            is_paused: first > 0,
            part_bytes: 0,
            last_text_bytes: 0,
            first,
            steps: Vec::new(),
            numbers: HashMap::new(),
            changed: BTreeSet::new(),
            plan: None,
            cost: None,
            input_tokens: 0,
            output_tokens: 0,
            log_bytes: log.metadata()?.len(),
            log,
            text_at: now,
            steps_at: now,
        })
    }

    /// Starts the next text in a new paragraph.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Size of the text after the last step in bytes.
    pub(crate) fn last_text_bytes(&self) -> u64 {
        self.last_text_bytes as u64
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes an update of the agent; unknown ones are ignored.
    pub(crate) fn update(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                if let Some(text) = update["content"]["text"].as_str() {
                    self.add_text(text);
                }
            }
            Some("tool_call" | "tool_call_update") => self.tool_call(update),
            Some("plan") => self.set_plan(&update["entries"]),
            Some("usage_update") if update["cost"]["currency"] == "USD" => {
                self.cost =
                    update["cost"]["amount"].as_f64().filter(|cost| *cost >= 0.0).or(self.cost);
            }
            _ => {}
        }
    }

    /// Takes the usage of a prompt. Some agents count tokens from a cache or for thoughts twice, but not in the total.
    pub(crate) fn add_tokens(&mut self, usage: &Value) {
        let count = |name: &str| usage[name].as_u64().map(|count| count.min(TOKENS_MAX));
        let sum = |names: &[&str]| names.iter().filter_map(|name| count(name)).sum::<u64>();
        let input = sum(&["inputTokens", "cachedReadTokens", "cachedWriteTokens"]);
        let output = sum(&["outputTokens", "thoughtTokens"]);
        let total = count("totalTokens").unwrap_or(input + output);
        let input = input.min(total.saturating_sub(sum(&["outputTokens"])));
        self.input_tokens += input;
        self.output_tokens += total - input;
    }

    fn set_plan(&mut self, entries: &Value) {
        let entries = entries.as_array().into_iter().flatten().take(PLAN_MAX);
        let entry = |entry: &Value| {
            let text = |name: &str, bytes_max: usize| {
                cut(entry[name].as_str().unwrap_or_default(), bytes_max).to_owned()
            };
            PlanEntry { content: text("content", 500), status: text("status", 20) }
        };
        self.plan = Some(entries.map(entry).collect());
    }

    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let gap = if self.is_paused && self.reply_bytes > 0 { "\n\n" } else { "" };
        if self.is_paused {
            self.part_bytes = 0;
        }
        self.is_paused = false;
        let left = REPLY_BYTES_MAX.saturating_sub(self.reply_bytes + gap.len());
        let kept = cut(text, left);
        self.is_cut |= kept.len() < text.len();
        if !kept.is_empty() {
            self.text.push_str(gap);
            self.text.push_str(kept);
            self.reply_bytes += gap.len() + kept.len();
            let words = kept.trim_end().len();
            if words > 0 {
                self.last_text_bytes = self.part_bytes + words;
            }
            self.part_bytes += kept.len();
        }
    }

    /// Takes a call, or what has changed of it.
    pub(crate) fn tool_call(&mut self, update: &Value) {
        self.is_paused = true;
        // OpenCode has a tool for its plan, and sends no other one.
        if update["rawInput"]["todos"].is_array() {
            self.set_plan(&update["rawInput"]["todos"]);
        }
        let Some(id) = update["toolCallId"].as_str() else { return };
        let Some(number) = self.step(cut(id, 200)) else { return };
        let (step, started) = &mut self.steps[number];
        if let Some(title) = update["title"].as_str() {
            cut(title, 300).clone_into(&mut step.title);
        }
        if let Some(kind) = update["kind"].as_str() {
            cut(kind, 50).clone_into(&mut step.kind);
        }
        let state = match update["status"].as_str() {
            Some("completed") => StepState::Done,
            Some("failed") => StepState::Failed,
            Some(_) => StepState::Running,
            None => step.state,
        };
        if state != StepState::Running && step.state == StepState::Running {
            step.ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        }
        step.state = state;
        let number = step.step;
        let line = json!({"kind": "step", "task": self.task, "step": number, "title": step.title, "tool": step.kind, "state": state, "ms": step.ms});
        self.write(&line);
        for content in update["content"].as_array().into_iter().flatten() {
            let text = match content["type"].as_str() {
                Some("content") => {
                    content["content"]["text"].as_str().unwrap_or_default().to_owned()
                }
                Some("diff") => {
                    let text = |name: &str| content[name].as_str().unwrap_or_default();
                    format!(
                        "{}\n--- before\n{}\n+++ after\n{}",
                        text("path"),
                        text("oldText"),
                        text("newText")
                    )
                }
                _ => continue,
            };
            self.write_content(number, &text);
        }
        // Codex sends the output of its commands so, piece by piece.
        if let Some(output) = update["_meta"]["terminal_output_delta"]["data"].as_str() {
            self.write_content(number, output);
        }
    }

    fn write_content(&mut self, number: usize, text: &str) {
        let text = cut(text, TEXT_BYTES_MAX);
        if !text.is_empty() {
            self.write(
                &json!({"kind": "content", "task": self.task, "step": number, "text": text}),
            );
        }
    }

    /// Number of a step, which is added if it is new. `None` if there are too many.
    fn step(&mut self, id: &str) -> Option<usize> {
        let number = match self.numbers.get(id) {
            Some(number) => *number,
            None if self.first + self.steps.len() >= STEPS_MAX => return None,
            None => {
                let number = self.steps.len();
                let (title, kind) = (String::new(), "other".to_owned());
                let step = self.first + number;
                let new = Step { step, title, kind, state: StepState::Running, ms: 0 };
                self.steps.push((new, Instant::now()));
                self.numbers.insert(id.to_owned(), number);
                number
            }
        };
        self.changed.insert(number);
        Some(number)
    }

    /// A step of the runner, such as `Blocked: example.com`; repeated ones count once.
    pub(crate) fn add_step(&mut self, title: &str) {
        let update =
            json!({"toolCallId": format!("runner: {title}"), "title": title, "status": "failed"});
        self.tool_call(&update);
    }

    fn write(&mut self, line: &Value) {
        let text = format!("{line}\n");
        let size = text.len() as u64;
        // A log that cannot be written does not end the turn.
        if self.log_bytes + size <= LOG_BYTES_MAX && self.log.write_all(text.as_bytes()).is_ok() {
            self.log_bytes += size;
        }
    }

    /// Time of the next events; `None` if there are none.
    pub(crate) fn next_at(&self, unacked: usize) -> Option<Instant> {
        let delay = delay(unacked);
        let text = (!self.text.is_empty()).then(|| self.text_at + TEXT_INTERVAL.max(delay));
        let has_steps = !self.changed.is_empty() || self.plan.is_some() || self.has_usage();
        let steps = has_steps.then(|| self.steps_at + STEP_INTERVAL.max(delay));
        text.into_iter().chain(steps).min()
    }

    /// Events that are due.
    pub(crate) fn due(&mut self, unacked: usize) -> Vec<Event> {
        let now = Instant::now();
        let mut events = Vec::new();
        let delay = delay(unacked);
        if now >= self.text_at + TEXT_INTERVAL.max(delay) {
            self.text_at = now;
            self.take_text(&mut events);
        }
        if now >= self.steps_at + STEP_INTERVAL.max(delay) {
            self.steps_at = now;
            self.take_steps(&mut events);
        }
        events
    }

    /// All events that are left, at the end of the turn: nothing runs any more.
    pub(crate) fn rest(&mut self) -> Vec<Event> {
        for (number, (step, started)) in self.steps.iter_mut().enumerate() {
            if step.state == StepState::Running {
                step.state = StepState::Done;
                step.ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.changed.insert(number);
            }
        }
        self.flush()
    }

    /// All events up to now.
    pub(crate) fn flush(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.take_text(&mut events);
        self.take_steps(&mut events);
        events
    }

    fn take_text(&mut self, events: &mut Vec<Event>) {
        let text = std::mem::take(&mut self.text);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES_MAX));
            events.push(Event::Text { task: self.task.clone(), text: part.to_owned() });
            rest = after;
        }
    }

    fn take_steps(&mut self, events: &mut Vec<Event>) {
        let numbers: Vec<usize> = std::mem::take(&mut self.changed).into_iter().collect();
        for part in numbers.chunks(STEPS_PER_FRAME) {
            let steps = part.iter().map(|number| self.steps[*number].0.clone()).collect();
            events.push(Event::Step { task: self.task.clone(), steps });
        }
        if let Some(entries) = self.plan.take() {
            events.push(Event::Plan { task: self.task.clone(), entries });
        }
        if self.has_usage() {
            events.push(Event::Usage {
                task: self.task.clone(),
                reported_cost_usd: self.cost.take(),
                input_tokens: std::mem::take(&mut self.input_tokens),
                output_tokens: std::mem::take(&mut self.output_tokens),
            });
        }
    }

    fn has_usage(&self) -> bool {
        self.cost.is_some() || self.input_tokens + self.output_tokens > 0
    }
}

fn delay(unacked: usize) -> Duration {
    if unacked > UNACKED_MAX { SLOW_INTERVAL } else { Duration::ZERO }
}

/// Number of steps in the log of an earlier process.
fn steps_in(log: &Path) -> usize {
    let Ok(file) = File::open(log) else { return 0 };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let numbers = lines.filter_map(|line| {
        let line: Value = serde_json::from_str(&line).ok()?;
        usize::try_from(line["step"].as_u64()?).ok()
    });
    numbers.max().map_or(0, |number| number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_steps_become_events_in_batches() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut record = Record::open("task_1", &path).unwrap();
        record.update(&json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}));
        assert_eq!(record.next_at(0), None);
        for text in ["I ", "look."] {
            record.update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
        }
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Read x", "kind": "read", "status": "in_progress"});
        record.update(&call);
        let end = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "data"}}]});
        record.update(&end);
        record.update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}));
        let now = Instant::now();
        (record.text_at, record.steps_at) = (now + SLOW_INTERVAL, now + SLOW_INTERVAL);
        assert_eq!(record.due(0), []);
        record.text_at = now - TEXT_INTERVAL;
        let text = "I look.\n\nDone.".to_owned();
        assert_eq!(record.due(0), [Event::Text { task: "task_1".to_owned(), text }]);
        record.steps_at = now - STEP_INTERVAL;
        let events = record.due(0);
        let [Event::Step { steps, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((&*steps[0].title, steps[0].state), ("Read x", StepState::Done));
        assert_eq!(record.last_text_bytes(), "Done.".len() as u64);
        let log = std::fs::read_to_string(path).unwrap();
        assert!(log.lines().any(|line| line.contains(r#""text":"data""#)), "{log}");
    }

    #[test]
    fn each_token_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        for (usage, input_tokens, output_tokens) in [
            (json!({"inputTokens": 5, "outputTokens": 2}), 5, 2),
            (
                json!({"inputTokens": 5, "cachedReadTokens": 90, "cachedWriteTokens": 3, "outputTokens": 2, "totalTokens": 100}),
                98,
                2,
            ),
            (
                json!({"inputTokens": 5, "outputTokens": 2, "thoughtTokens": 4, "totalTokens": 11}),
                5,
                6,
            ),
            // Those from the cache are input, too, and those for thoughts are output.
            (
                json!({"inputTokens": 95, "cachedReadTokens": 90, "outputTokens": 5, "thoughtTokens": 4, "totalTokens": 100}),
                95,
                5,
            ),
            (
                json!({"inputTokens": u64::MAX, "outputTokens": -1, "totalTokens": "x"}),
                TOKENS_MAX,
                0,
            ),
        ] {
            let mut record = Record::open("task_1", &directory.path().join("log")).unwrap();
            record.add_tokens(&usage);
            let task = "task_1".to_owned();
            let event = Event::Usage { task, reported_cost_usd: None, input_tokens, output_tokens };
            assert_eq!(record.flush(), [event], "{usage}");
            record.add_tokens(&Value::Null);
            assert_eq!(record.flush(), []);
        }
    }

    #[test]
    fn pieces_of_output_are_logged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut record = Record::open("task_1", &path).unwrap();
        record.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "ls", "content": [{"type": "terminal", "terminalId": "a"}]}));
        for piece in ["one\n", "two\n"] {
            record.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "_meta": {"terminal_output_delta": {"data": piece, "terminal_id": "a"}}}));
        }
        let log = std::fs::read_to_string(path).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let texts: Vec<Value> = lines.map(|line| line["text"].clone()).collect();
        assert_eq!(texts, [json!(null), json!(null), json!("one\n"), json!(null), json!("two\n")]);
    }

    #[test]
    fn todos_of_a_call_are_a_plan() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut record = Record::open("task_1", &path).unwrap();
        let todos = json!([{"content": "Look", "status": "in_progress", "priority": "high"}, {"content": "Fix", "status": "pending"}]);
        record.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "todowrite", "rawInput": {}}));
        record.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "rawInput": {"todos": todos}, "content": [{"type": "content", "content": {"type": "image"}}]}));
        let plan = record.rest().pop().unwrap();
        let entry = |content: &str, status: &str| PlanEntry {
            content: content.to_owned(),
            status: status.to_owned(),
        };
        let entries = vec![entry("Look", "in_progress"), entry("Fix", "pending")];
        assert_eq!(plan, Event::Plan { task: "task_1".to_owned(), entries });
        // A picture has no text.
        let log = std::fs::read_to_string(path).unwrap();
        assert!(!log.contains(r#""kind":"content""#), "{log}");
    }

    #[test]
    fn the_last_text_is_the_one_after_the_last_step() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = Record::open("task_1", &directory.path().join("log")).unwrap();
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Read x"});
        for (text, bytes) in [("Look.", 5), ("\nFix ", 4), ("it. ", 8), (" \n", 8)] {
            let is_part = text != "it. ";
            if is_part {
                record.update(&call);
            }
            record.update(
                &json!({"sessionUpdate": "agent_message_chunk", "content": {"text": text}}),
            );
            assert_eq!(record.last_text_bytes(), bytes, "{text}");
        }
        record.update(&call);
        assert_eq!(record.last_text_bytes(), 8);
        assert!(record.text.trim_end().ends_with("\n\n\nFix it."), "{}", record.text);
    }

    #[test]
    fn a_flood_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut record = Record::open("task_1", &path).unwrap();
        let long = "x".repeat(64 << 10);
        for n in 0..STEPS_MAX + 100 {
            record.update(&json!({"sessionUpdate": "tool_call", "toolCallId": format!("{n}"), "title": "t", "content": [{"type": "content", "content": {"type": "text", "text": long}}]}));
        }
        for _ in 0..17 {
            record.update(
                &json!({"sessionUpdate": "agent_message_chunk", "content": {"text": long}}),
            );
        }
        assert!(record.is_cut());
        assert!(std::fs::metadata(&path).unwrap().len() <= LOG_BYTES_MAX);
        let events = record.rest();
        let steps = events
            .iter()
            .map(|event| if let Event::Step { steps, .. } = event { steps.len() } else { 0 });
        assert_eq!(steps.sum::<usize>(), STEPS_MAX);
        for event in events {
            assert!(serde_json::to_string(&event).unwrap().len() < crate::frames::FRAME_BYTES_MAX);
        }
    }
}
