//! Catch-ups of labeled weeks: in each thread, a label marks the message that a colleague would mention to Bo.

use serde::Deserialize;
use serde_json::{Value, json};

use super::generated::flat;
use crate::support::{Person, Team, id, list, team_with, text};

const WEEKS: &str = include_str!("../../weeks/weeks.json");
const COUNT: usize = 20;
/// Minimum share of threads, in percent, of which the labeled message is quoted.
const RECALL_MIN: usize = 80;

/// Threads of a channel that Bo has not read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabeledWeek {
    title: String,
    threads: Vec<LabeledThread>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabeledThread {
    group: String,
    /// Position of the message that a colleague would mention to Bo.
    quoted: usize,
    /// Number of messages that Bo has read.
    #[serde(default)]
    read: usize,
    messages: Vec<LabeledMessage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabeledMessage {
    by: String,
    text: Option<String>,
    /// Headline of the result of a fork, instead of a text.
    result: Option<String>,
}

struct WeekTeam {
    t: Team,
    cem: Person,
    dora: Person,
}

/// Publishes the result of a fork of a message. Returns the message with the result.
async fn publish(by: &Person, thread: &str, message: &str, headline: &str) -> Value {
    let fork = by
        .start_fork(thread, message, json!({"agent_id": null}))
        .await;
    let fork = id(&fork);
    by.say_in(&fork, "We all agree.").await;
    let published = by.publish_as(&fork, json!({"headline": headline})).await;
    published["message"].clone()
}

impl WeekTeam {
    fn named(&self, name: &str) -> &Person {
        match name {
            "Ada" => &self.t.ada,
            "Bo" => &self.t.bo,
            "Cem" => &self.cem,
            "Dora" => &self.dora,
            _ => panic!("nobody is named {name}"),
        }
    }

    /// Posts the messages of a thread. Returns its ID and its messages.
    async fn post(&self, channel: &str, labeled: &LabeledThread) -> (String, Vec<Value>) {
        let mut thread = String::new();
        let mut messages: Vec<Value> = Vec::new();
        for said in &labeled.messages {
            let by = self.named(&said.by);
            let content = said.text.as_deref().unwrap_or_default();
            let posted = match (&said.result, messages.last()) {
                (Some(headline), Some(last)) => publish(by, &thread, &id(last), headline).await,
                (_, None) => {
                    let started = by.start(channel, content).await;
                    thread = text(&started, "/thread/id");
                    started["message"].clone()
                }
                (None, Some(_)) => by.say(&thread, content).await["message"].clone(),
            };
            messages.push(posted);
            if messages.len() == labeled.read {
                let form = json!({"seq": messages[labeled.read - 1]["seq"]});
                let path = format!("/v1/threads/{thread}/read");
                self.t.bo.put(&path, form).await.is(200);
            }
        }
        (thread, messages)
    }

    /// Posts a week in a channel of its own, and checks that each line of Bo's catch-up quotes one unread message of its thread. Returns
    /// the number of labeled messages that are quoted.
    async fn recalled(&self, name: &str, week: &LabeledWeek) -> usize {
        let others = [&self.t.bo, &self.cem, &self.dora];
        let channel = self.t.ada.private_channel(name, &others).await;
        let mut posted = Vec::new();
        for labeled in &week.threads {
            posted.push(self.post(&channel, labeled).await);
        }
        let path = format!("/v1/channels/{channel}/catch-up");
        let summary = self.t.bo.get(&path).await.ok();
        let groups = list(&summary, "/groups");
        let lines: Vec<(String, Value)> = groups
            .iter()
            .flat_map(|group| {
                let name = text(group, "/name");
                let lines = list(group, "/lines").into_iter();
                lines.map(move |line| (name.clone(), line))
            })
            .collect();
        assert_eq!(lines.len(), week.threads.len(), "{}", week.title);
        let mut hits = 0;
        for (labeled, (thread, messages)) in week.threads.iter().zip(&posted) {
            let of_thread = lines.iter().find(|(_, line)| line["thread_id"] == **thread);
            let (group, line) = of_thread.unwrap_or_else(|| panic!("{}: {thread}", week.title));
            assert_eq!(*group, labeled.group, "{}: {line}", week.title);
            let sources = list(line, "/sources");
            assert_eq!(sources.len(), 1, "joined: {line}");
            let at = messages.iter().position(|m| m["id"] == sources[0]);
            let at = at.unwrap_or_else(|| panic!("foreign: {line}"));
            assert!(at >= labeled.read, "already read: {line}");
            let message = self.t.bo.message(&id(&messages[at])).await;
            let author = self.named(&labeled.messages[at].by);
            assert_eq!(line["author"]["id"], author.id.as_str(), "{line}");
            assert_eq!(line["at"], message["created_at"], "{line}");
            let whole = flat(&text(&message, "/content_plain"));
            let quoted = flat(&text(line, "/text"));
            assert!(whole.contains(quoted.trim_matches('…')), "{whole}: {line}");
            hits += usize::from(at == labeled.quoted);
        }
        hits
    }
}

#[tokio::test]
async fn catch_ups_of_labeled_weeks_quote_what_a_colleague_would_tell() {
    let weeks: Vec<LabeledWeek> = serde_json::from_str(WEEKS).unwrap();
    assert_eq!(weeks.len(), COUNT);
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    let dora = t.app.join(&t.ada, "Dora", "member").await;
    let people = WeekTeam { t, cem, dora };
    let (mut hits, mut labels) = (0, 0);
    for (n, week) in weeks.iter().enumerate() {
        hits += people.recalled(&format!("week-{n}"), week).await;
        labels += week.threads.len();
    }
    assert!(
        hits * 100 >= labels * RECALL_MIN,
        "{hits} of {labels} labeled messages are quoted"
    );
}
