//! Fills the demo workspace. Each step of the story is an API request by the person who performs the step.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{
    person::{Person, text},
    story::{Point, Story, StoryFork, StoryMessage, StoryResolution, Thread},
};
use crate::config::Secret;

const LOOK_EVERY: Duration = Duration::from_millis(50);
const TASK_WITHIN: Duration = Duration::from_mins(1);

/// All people and channels, by name.
struct Cast {
    people: BTreeMap<String, Person>,
    channels: BTreeMap<String, String>,
}

/// Fills an empty server.
///
/// # Errors
/// The error contains the failed request and the server's response.
pub(super) async fn fill(
    base: &str,
    setup_token: Option<String>,
    story: &Story,
    password: &Secret,
) -> anyhow::Result<()> {
    let cast = gather(base, setup_token, story, password).await?;
    let first = cast.person(
        &story
            .people
            .first()
            .context("seeds/demo.yaml: there are no people")?
            .name,
    )?;
    for thread in story.threads.iter().filter(|thread| !thread.late) {
        cast.hold(thread).await?;
    }
    for channel in cast.channels.values() {
        first
            .post(&format!("/v1/channels/{channel}/read"), json!({}))
            .await?;
    }
    for thread in story.threads.iter().filter(|thread| thread.late) {
        cast.hold(thread).await?;
    }
    Ok(())
}

async fn gather(
    base: &str,
    setup_token: Option<String>,
    story: &Story,
    password: &Secret,
) -> anyhow::Result<Cast> {
    let mut people: BTreeMap<String, Person> = BTreeMap::new();
    let mut admin: Option<&str> = None;
    for who in &story.people {
        let with = match admin.and_then(|name| people.get(name)) {
            Some(admin) => {
                let form = json!({"role": who.role, "max_uses": 1});
                json!({"invite": text(&admin.post("/v1/invites", form).await?, "/token")?})
            }
            None => setup_token
                .as_ref()
                .map_or(json!({}), |token| json!({"setup_token": token})),
        };
        let person = Person::sign_up(base, &who.name, &who.email, password, with).await?;
        if admin.is_none() {
            let form = json!({"name": story.workspace});
            person.post("/v1/workspaces", form).await?;
            admin = Some(&who.name);
        }
        people.insert(who.name.clone(), person);
    }
    let mut cast = Cast {
        people,
        channels: BTreeMap::new(),
    };
    for channel in &story.channels {
        let form =
            json!({"name": channel.name, "topic": channel.topic, "private": channel.private});
        let made = cast.person(&channel.by)?.post("/v1/channels", form).await?;
        let id = text(&made, "/id")?;
        for who in &story.people {
            let person = cast.person(&who.name)?;
            if channel.private && channel.members.contains(&who.name) {
                let form = json!({"user_id": person.id});
                let path = format!("/v1/channels/{id}/members");
                cast.person(&channel.by)?.post(&path, form).await?;
            } else if !channel.private && who.name != channel.by && who.role != "viewer" {
                person
                    .post(&format!("/v1/channels/{id}/join"), json!({}))
                    .await?;
            }
        }
    }
    let admin = cast.person(admin.context("seeds/demo.yaml: there is no admin")?)?;
    let snapshot = admin.get("/v1/snapshot").await?;
    let mut channels = BTreeMap::new();
    for channel in snapshot["channels"].as_array().into_iter().flatten() {
        channels.insert(text(channel, "/name")?, text(channel, "/id")?);
    }
    cast.channels = channels;
    Ok(cast)
}

impl Cast {
    fn person(&self, name: &str) -> anyhow::Result<&Person> {
        let person = self.people.get(name);
        person.with_context(|| format!("seeds/demo.yaml: there is no person named {name}"))
    }

    /// Creates a thread, from its first message to its resolution.
    async fn hold(&self, thread: &Thread) -> anyhow::Result<()> {
        let channel = self
            .channels
            .get(&thread.channel)
            .with_context(|| format!("seeds/demo.yaml: there is no channel {}", thread.channel))?;
        let mut form = json!({"content": thread.say});
        if let Some(title) = &thread.title {
            form["title"] = title.as_str().into();
        }
        let starter = self.person(&thread.by)?;
        if let Some(file) = &thread.file {
            form["attachments"] = json!([starter.upload(&file.name, &file.content).await?]);
        }
        let started = starter
            .post(&format!("/v1/channels/{channel}/threads"), form)
            .await?;
        let id = text(&started, "/thread/id")?;
        self.answered(starter, &started).await?;
        let mut messages = vec![text(&started, "/message/id")?];
        messages.extend(
            self.talk(&format!("/v1/threads/{id}/messages"), &thread.replies)
                .await?,
        );
        for reaction in &thread.reactions {
            let message = messages
                .get(reaction.on)
                .context("seeds/demo.yaml: the message of a reaction does not exist")?;
            let path = format!("/v1/messages/{message}/reactions/{}", reaction.emoji);
            self.person(&reaction.by)?.put(&path).await?;
        }
        if let Some(dive) = &thread.dive {
            let message = messages
                .get(dive.on)
                .context("seeds/demo.yaml: the message of a dive does not exist")?;
            self.dive(&id, message, dive).await?;
        }
        Ok(())
    }

    /// Posts messages one after the other, waiting for the agents' replies to each. Returns the IDs of the messages.
    async fn talk(&self, path: &str, all: &[StoryMessage]) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        for said in all {
            let person = self.person(&said.by)?;
            let posted = person.post(path, json!({"content": said.say})).await?;
            ids.push(text(&posted, "/message/id")?);
            self.answered(person, &posted).await?;
        }
        Ok(ids)
    }

    /// Waits until the tasks started by a message have completed.
    async fn answered(&self, person: &Person, posted: &Value) -> anyhow::Result<()> {
        for task in posted["tasks"].as_array().into_iter().flatten() {
            self.done(person, &text(task, "/id")?).await?;
        }
        Ok(())
    }

    async fn done(&self, person: &Person, task: &str) -> anyhow::Result<()> {
        let path = format!("/v1/tasks/{task}");
        let ending = async {
            loop {
                let status = text(&person.get(&path).await?, "/status")?;
                if !matches!(status.as_str(), "queued" | "running") {
                    return anyhow::Ok(status);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let status = tokio::time::timeout(TASK_WITHIN, ending).await??;
        ensure!(
            status == "completed",
            "a task of the demo ended with the status {status}"
        );
        Ok(())
    }

    async fn dive(&self, thread: &str, message: &str, dive: &StoryFork) -> anyhow::Result<()> {
        let form = json!({"message_id": message, "title": dive.title, "description": dive.description, "agent_id": null});
        let opener = self.person(&dive.by)?;
        let opened = opener
            .post(&format!("/v1/threads/{thread}/forks"), form)
            .await?;
        let fork = text(&opened, "/fork/id")?;
        let said = self
            .talk(&format!("/v1/forks/{fork}/messages"), &dive.say)
            .await?;
        let Some(outcome) = &dive.result else {
            return Ok(());
        };
        let author = self.person(&outcome.by)?;
        let drafting = author
            .post(&format!("/v1/forks/{fork}/resolve"), json!({}))
            .await?;
        self.done(author, &text(&drafting, "/task/id")?).await?;
        let form = json!({"resolution": self.result(outcome, &said)?});
        author
            .post(&format!("/v1/forks/{fork}/publish"), form)
            .await?;
        Ok(())
    }

    fn result(&self, outcome: &StoryResolution, said: &[String]) -> anyhow::Result<Value> {
        let points = |list: &[Point]| {
            list.iter()
                .map(|point| self.point(point, said))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        Ok(json!({
            "headline": outcome.headline,
            "conclusion": outcome.conclusion,
            "key_points": points(&outcome.key_points)?,
            "action_items": points(&outcome.action_items)?,
            "open_questions": points(&outcome.open_questions)?,
            "deferred_items": points(&outcome.deferred_items)?,
        }))
    }

    fn point(&self, point: &Point, said: &[String]) -> anyhow::Result<Value> {
        let sources: Option<Vec<&String>> = point.from.iter().map(|&n| said.get(n)).collect();
        let mut form = json!({"text": point.text, "sources": sources.context("seeds/demo.yaml: a source message does not exist")?});
        if let Some(owner) = &point.owner {
            form["owner_id"] = self.person(owner)?.id.as_str().into();
        }
        Ok(form)
    }
}
