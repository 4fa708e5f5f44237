//! The story of the demo: `seeds/demo.yaml`.

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

const TEXT: &str = include_str!("../../../seeds/demo.yaml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Story {
    pub(super) workspace: String,
    /// People; the first one creates the workspace.
    pub(super) people: Vec<Character>,
    /// Channels, in addition to the initial ones of every workspace.
    pub(super) channels: Vec<Channel>,
    pub(super) threads: Vec<Thread>,
    pub(super) memories: Vec<StoryMemory>,
    pub(super) runs: Vec<StoryRun>,
    pub(super) schedules: Vec<StorySchedule>,
    /// Answers and calls of the agents, in their order.
    pub(super) recorded: Vec<RecordedAnswer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Character {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) email: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channel {
    pub(super) name: String,
    pub(super) topic: String,
    pub(super) by: String,
    #[serde(default)]
    pub(super) private: bool,
    /// Members of a private channel, besides its creator.
    #[serde(default)]
    pub(super) members: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thread {
    pub(super) channel: String,
    pub(super) by: String,
    pub(super) title: Option<String>,
    pub(super) say: String,
    /// File that is attached to the first message.
    pub(super) file: Option<File>,
    #[serde(default)]
    pub(super) replies: Vec<StoryMessage>,
    #[serde(default)]
    pub(super) reactions: Vec<Reaction>,
    pub(super) dive: Option<StoryFork>,
    /// True if the thread starts after the first person has read everything.
    #[serde(default)]
    pub(super) late: bool,
    /// True if agents give recorded answers in the thread.
    #[serde(default)]
    pub(super) recorded: bool,
}

/// Something that a person lets agents remember.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoryMemory {
    pub(super) by: String,
    pub(super) text: String,
    pub(super) kind: String,
    /// Title of the thread to which the memory belongs; `None` if it is about the person.
    pub(super) thread: Option<String>,
    /// Zero-based indices of the source messages among people's messages in the thread.
    #[serde(default)]
    pub(super) from: Vec<usize>,
    /// True if the person publishes it to the workspace.
    #[serde(default)]
    pub(super) publish: bool,
}

/// A run of a workflow, whose steps get recorded answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoryRun {
    /// Name of the recipe.
    pub(super) recipe: String,
    pub(super) by: String,
    pub(super) channel: String,
    pub(super) input: String,
    /// True if the person approves what the run asks for; otherwise, it waits.
    pub(super) approve: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorySchedule {
    pub(super) name: String,
    pub(super) by: String,
    /// Name of the recipe.
    pub(super) recipe: String,
    pub(super) channel: String,
    pub(super) cron: String,
    pub(super) timezone: String,
}

/// An answer of an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedAnswer {
    /// Words of the prompt that the answer belongs to.
    pub(super) asked: String,
    /// Text of the answer. `[source: WORDS]` becomes the handle of the found message with these words.
    #[serde(default)]
    pub(super) say: String,
    #[serde(default)]
    pub(super) calls: Vec<RecordedCall>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedCall {
    pub(super) name: String,
    pub(super) arguments: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoryMessage {
    pub(super) by: String,
    pub(super) say: String,
    /// Answer of the built-in responder to a question to an agent.
    #[expect(dead_code, reason = "a test compares it with the answer in the demo")]
    pub(super) answer: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reaction {
    /// Message that receives the reaction, as a zero-based index among people's messages in the thread.
    pub(super) on: usize,
    pub(super) by: String,
    pub(super) emoji: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoryFork {
    /// Message that the fork starts from, as a zero-based index among people's messages in the thread.
    pub(super) on: usize,
    pub(super) by: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) say: Vec<StoryMessage>,
    /// `None` while the fork is open.
    pub(super) result: Option<StoryResolution>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoryResolution {
    pub(super) by: String,
    pub(super) headline: String,
    pub(super) conclusion: String,
    pub(super) key_points: Vec<Point>,
    pub(super) action_items: Vec<Point>,
    pub(super) open_questions: Vec<Point>,
    pub(super) deferred_items: Vec<Point>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Point {
    pub(super) text: String,
    /// Owner of an action item.
    pub(super) owner: Option<String>,
    /// Zero-based indices of the source messages in the fork.
    pub(super) from: Vec<usize>,
}

/// # Errors
/// If the seed file is invalid.
pub(super) fn read() -> anyhow::Result<Story> {
    serde_yaml_ng::from_str(TEXT).context("seeds/demo.yaml")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_demo_story_parses() {
        let story = super::read().unwrap();
        assert!(story.people.len() >= 4);
        let dives: Vec<_> = story
            .threads
            .iter()
            .filter_map(|t| t.dive.as_ref())
            .collect();
        assert!(dives.iter().any(|dive| dive.result.is_some()));
        assert!(dives.iter().any(|dive| dive.result.is_none()));
    }
}
