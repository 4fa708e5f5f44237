//! Labeled questions to the built-in responder in a workspace with several people, measured by the reply that the requester reads.
//! `crates/responder/tests/questions` contains the questions and explains their conventions.

use std::{collections::BTreeMap, fmt::Write};

use chrono::{NaiveDate, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Person, TestApp, id, number, text};

#[derive(Deserialize)]
struct Labeled {
    today: NaiveDate,
    people: Vec<String>,
    channels: Vec<Channel>,
    questions: Vec<Asked>,
}

#[derive(Deserialize)]
struct Channel {
    name: String,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    members: Vec<String>,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
struct Thread {
    title: String,
    messages: Vec<Said>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    On {
        who: String,
        day: NaiveDate,
        text: String,
    },
    SameDay(BTreeMap<String, String>),
}

#[derive(Deserialize)]
struct Asked {
    asked_in: Place,
    by: String,
    text: String,
    kind: Kind,
    answer: Vec<String>,
    not: Vec<String>,
    lines: Vec<String>,
}

#[derive(Deserialize)]
struct Place {
    channel: String,
    thread: usize,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Here,
    Elsewhere,
    Absent,
    Private,
}

/// A workspace that contains the messages of a file.
struct Workspace {
    app: TestApp,
    /// People by first name.
    people: BTreeMap<String, Person>,
    /// Threads of each channel.
    threads: BTreeMap<String, Vec<String>>,
    /// Position of each message, in the format of `lines`, by message ID.
    lines: BTreeMap<String, String>,
}

fn first_name(name: &str) -> &str {
    name.split(' ').next().unwrap()
}

impl Workspace {
    async fn with(labeled: &Labeled) -> Self {
        let settings = [
            ("MODEL_BASE_URL", ""),
            ("MODEL_API_KEY", ""),
            ("RATE_LIMITS", "off"),
        ];
        let app = TestApp::with(&settings).await;
        let (founder, others) = labeled.people.split_first().unwrap();
        let admin = app.founder(founder).await;
        let mut people = BTreeMap::from([(first_name(founder).to_owned(), admin.clone())]);
        for name in others {
            let person = app.join(&admin, name, "member").await;
            people.insert(first_name(name).to_owned(), person);
        }
        let (mut threads, mut lines) = (BTreeMap::new(), BTreeMap::new());
        let later = Utc::now().date_naive() - labeled.today;
        let mut backdated = Vec::new();
        for channel in &labeled.channels {
            let place = if channel.private {
                let (first, others) = channel.members.split_first().unwrap();
                let others: Vec<&Person> = others.iter().map(|name| &people[name]).collect();
                people[first].private_channel(&channel.name, &others).await
            } else {
                let form = json!({"name": channel.name});
                id(&admin.post("/v1/channels", form).await.is(201))
            };
            for (n, thread) in channel.threads.iter().enumerate() {
                let mut started: Option<String> = None;
                let mut posted_on = labeled.today;
                for (line, said) in thread.messages.iter().enumerate() {
                    let (who, said) = match said {
                        Said::On { who, day, text } => {
                            posted_on = *day;
                            (who, text)
                        }
                        Said::SameDay(said) => said.first_key_value().unwrap(),
                    };
                    let posted = if let Some(thread) = &started {
                        people[who].say(thread, said).await
                    } else {
                        let path = format!("/v1/channels/{place}/threads");
                        let form = json!({"content": said, "title": thread.title});
                        people[who].post(&path, form).await.is(201)
                    };
                    if started.is_none() {
                        started = Some(text(&posted, "/thread/id"));
                    }
                    let at = format!("{}/{n}/{}", channel.name, line + 1);
                    lines.insert(text(&posted, "/message/id"), at);
                    backdated.push(format!(
                        "update messages set created_at = '{} 00:00:00+00:00' where seq = {}",
                        posted_on + later,
                        number(&posted, "/message/seq")
                    ));
                }
                let all: &mut Vec<String> = threads.entry(channel.name.clone()).or_default();
                all.push(started.unwrap());
            }
        }
        let backdated: Vec<&str> = backdated.iter().map(String::as_str).collect();
        app.place.run(&backdated).await;
        Self {
            app,
            people,
            threads,
            lines,
        }
    }

    /// Asks a question and returns the reply.
    async fn reply(&self, asked: &Asked, today: NaiveDate) -> Value {
        let who = &self.people[&asked.by];
        let thread = &self.threads[&asked.asked_in.channel][asked.asked_in.thread];
        let task = who.ask(thread, &at_this_time(&asked.text, today)).await;
        let done = who.completed(&task).await;
        who.message(&text(&done, "/output/message_id")).await
    }
}

/// Replaces the weekday in a question with the one that is equally far from today, because the messages are backdated relative to
/// today.
fn at_this_time(question: &str, today: NaiveDate) -> String {
    let (now, days) = (Utc::now().date_naive(), 0..7);
    let mut days = days.map(|n| (today - chrono::Days::new(n), now - chrono::Days::new(n)));
    let name = |day: NaiveDate| day.format("%A").to_string();
    let named = days.find(|(day, _)| question.contains(&name(*day)));
    named.map_or_else(
        || question.to_owned(),
        |(day, now)| question.replace(&name(day), &name(now)),
    )
}

/// Checks whether a reply contains one of the alternatives of each expected text and none of the forbidden ones.
fn is_right(asked: &Asked, content: &str, sources: &Value) -> bool {
    let said = content.to_lowercase();
    let is_told = |text: &str| said.contains(&text.to_lowercase());
    let answered = match asked.kind {
        Kind::Here | Kind::Elsewhere => sources.is_array(),
        Kind::Absent | Kind::Private => sources.is_null(),
    };
    answered
        && (asked.answer.iter()).all(|wanted| wanted.split('|').any(is_told))
        && !asked.not.iter().any(|forbidden| is_told(forbidden))
}

/// Asks the questions of a file. Returns the numbers of correct replies and of all replies for each kind of question, and a report.
async fn measured(file: &str) -> (BTreeMap<Kind, (usize, usize)>, String) {
    let labeled: Labeled = serde_yaml_ng::from_str(file).unwrap();
    let workspace = Workspace::with(&labeled).await;
    let mut scores: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    let mut report = String::new();
    for asked in &labeled.questions {
        let reply = workspace.reply(asked, labeled.today).await;
        let (content, sources) = (text(&reply, "/content"), &reply["metadata"]["sources"]);
        let cited = sources.as_array().into_iter().flatten();
        let cited: Vec<&String> = cited
            .map(|source| &workspace.lines[&text(source, "/message_id")])
            .collect();
        let is_right = is_right(asked, &content, sources);
        let score = scores.entry(asked.kind).or_default();
        *score = (score.0 + usize::from(is_right), score.1 + 1);
        writeln!(
            report,
            "{} {:?} {}\n{content}\ncites {cited:?}, expected {:?}\n",
            if is_right { "RIGHT" } else { "WRONG" },
            asked.kind,
            asked.text,
            asked.lines
        )
        .unwrap();
    }
    drop(workspace.app);
    (scores, report)
}

/// Asserts that no question about absent or private information is answered, and that at least `right_min` of the others are answered
/// correctly.
async fn check(file: &str, right_min: usize) {
    let (scores, report) = measured(file).await;
    for kind in [Kind::Absent, Kind::Private] {
        assert_eq!(scores[&kind].0, scores[&kind].1, "{kind:?}\n{report}");
    }
    let right = scores[&Kind::Here].0 + scores[&Kind::Elsewhere].0;
    assert!(right >= right_min, "{scores:?}\n{report}");
}

#[tokio::test]
async fn the_built_in_responder_answers_most_questions_and_no_absent_or_private_one() {
    let file = include_str!("../../crates/responder/tests/questions/dev.yaml");
    check(file, 11).await;
}

#[tokio::test]
async fn it_answers_questions_that_nobody_tuned_it_on_no_worse_than_when_they_were_first_asked() {
    let file = include_str!("../../crates/responder/tests/questions/held.yaml");
    check(file, 6).await;
}
