//! Fills the demo workspace. Each step of the story is an API request by the person who performs the step.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{
    person::{Person, text},
    recorded::Recorded,
    story::{
        Point, Story, StoryFork, StoryMemory, StoryMessage, StoryResolution, StoryRun,
        StorySchedule, Thread,
    },
};
use crate::{
    config::Secret,
    model::{Provider, builtin::Builtin},
    providers::Providers,
};

/// All people and channels, by name.
struct Cast {
    people: BTreeMap<String, Person>,
    channels: BTreeMap<String, String>,
}

/// A thread with people's messages.
struct HeldThread {
    id: String,
    messages: Vec<String>,
}

/// Fills an empty server.
///
/// # Errors
/// The error contains the failed request and the server's response.
pub(super) async fn fill(
    base: &str,
    setup_token: Option<String>,
    story: Story,
    password: &Secret,
    providers: &Providers,
) -> anyhow::Result<()> {
    let recorded = Recorded::new(story.recorded);
    let story = Story {
        recorded: Vec::new(),
        ..story
    };
    let filled = fill_with(base, setup_token, &story, password, &recorded, providers).await;
    providers.stand_in(None);
    filled?;
    ensure!(
        recorded.left() == 0,
        "seeds/demo.yaml: {} recorded answers were not given",
        recorded.left()
    );
    Ok(())
}

async fn fill_with(
    base: &str,
    setup_token: Option<String>,
    story: &Story,
    password: &Secret,
    recorded: &Arc<Recorded>,
    providers: &Providers,
) -> anyhow::Result<()> {
    let builtin: Arc<dyn Provider> = Arc::new(Builtin);
    let recorded: Arc<dyn Provider> = Arc::clone(recorded) as _;
    let of_agents = |provider: &Arc<dyn Provider>| providers.stand_in(Some(Arc::clone(provider)));
    of_agents(&builtin);
    let cast = gather(base, setup_token, story, password).await?;
    let first = cast.person(
        &story
            .people
            .first()
            .context("seeds/demo.yaml: there are no people")?
            .name,
    )?;
    let mut held = BTreeMap::new();
    for thread in story.threads.iter().filter(|thread| !thread.late) {
        of_agents(if thread.recorded { &recorded } else { &builtin });
        held.insert(thread.title.clone(), cast.hold(thread).await?);
    }
    of_agents(&recorded);
    for memory in &story.memories {
        cast.remember(memory, &held).await?;
    }
    cast.automate(first, story).await?;
    of_agents(&builtin);
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
    async fn hold(&self, thread: &Thread) -> anyhow::Result<HeldThread> {
        let channel = self.channel(&thread.channel)?;
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
        Ok(HeldThread { id, messages })
    }

    fn channel(&self, name: &str) -> anyhow::Result<&String> {
        let channel = self.channels.get(name);
        channel.with_context(|| format!("seeds/demo.yaml: there is no channel {name}"))
    }

    /// Stores a memory, and publishes it if the story says so.
    async fn remember(
        &self,
        memory: &StoryMemory,
        held: &BTreeMap<Option<String>, HeldThread>,
    ) -> anyhow::Result<()> {
        let person = self.person(&memory.by)?;
        let mut form = json!({"text": memory.text, "kind": memory.kind});
        if memory.thread.is_some() {
            let thread = held.get(&memory.thread);
            let thread =
                thread.context("seeds/demo.yaml: the thread of a memory does not exist")?;
            let sources = memory.from.iter().map(|&at| thread.messages.get(at));
            let sources: Option<Vec<&String>> = sources.collect();
            form["thread_id"] = thread.id.as_str().into();
            form["source_message_ids"] =
                json!(sources.context("seeds/demo.yaml: the source of a memory does not exist")?);
        }
        let stored = person.post("/v1/memories", form).await?;
        if memory.publish {
            let path = format!("/v1/memories/{}", text(&stored, "/id")?);
            let share = json!({"share_with_organization": true});
            person.patch(&path, share).await?;
            person.post(&format!("{path}/publish"), json!({})).await?;
        }
        Ok(())
    }

    /// Creates the workflows and schedules, and starts the runs. The admin creates each workflow from its recipe.
    async fn automate(&self, admin: &Person, story: &Story) -> anyhow::Result<()> {
        let recipes = admin.get("/v1/workflow-recipes").await?;
        let mut workflows = BTreeMap::new();
        let of_runs = story.runs.iter().map(|run| &run.recipe);
        for name in of_runs.chain(story.schedules.iter().map(|one| &one.recipe)) {
            if workflows.contains_key(name) {
                continue;
            }
            let mut forms = recipes["data"].as_array().into_iter().flatten();
            let form = forms.find(|form| form["name"] == name.as_str());
            let form = form.with_context(|| format!("there is no recipe {name}"))?;
            let made = admin.post("/v1/workflows", form.clone()).await?;
            workflows.insert(name, text(&made, "/id")?);
        }
        for run in &story.runs {
            self.run(run, &workflows[&run.recipe]).await?;
        }
        for schedule in &story.schedules {
            self.schedule(schedule, &workflows[&schedule.recipe])
                .await?;
        }
        Ok(())
    }

    /// Starts a run, and waits until it has ended or waits for its requester.
    async fn run(&self, run: &StoryRun, workflow: &str) -> anyhow::Result<()> {
        let person = self.person(&run.by)?;
        let form = json!({"input": run.input, "channel_id": self.channel(&run.channel)?});
        let path = format!("/v1/workflows/{workflow}/runs");
        let started = person.post(&path, form).await?;
        let path = format!("/v1/runs/{}", text(&started, "/run/id")?);
        let waiting = person.wait_for(&path, &["waiting"]).await?;
        if run.approve {
            let mut steps = waiting["steps"].as_array().into_iter().flatten();
            let action = steps.find_map(|step| step["action_id"].as_str());
            let action = action.context("a run of the demo asks for nothing")?;
            let action = format!("/v1/actions/{action}");
            let shown = person.get(&action).await?;
            let form = json!({"arguments_hash": shown["arguments_hash"]});
            person.post(&format!("{action}/approve"), form).await?;
            person.wait_for(&path, &["completed"]).await?;
        }
        Ok(())
    }

    async fn schedule(&self, schedule: &StorySchedule, workflow: &str) -> anyhow::Result<()> {
        let form = json!({
            "name": schedule.name,
            "cron": schedule.cron,
            "timezone": schedule.timezone,
            "target": {"type": "workflow", "workflow_id": workflow, "input": ""},
            "deliver": {"channel_id": self.channel(&schedule.channel)?},
        });
        self.person(&schedule.by)?
            .post("/v1/schedules", form)
            .await?;
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
        person
            .wait_for(&format!("/v1/tasks/{task}"), &["completed"])
            .await?;
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
