//! Permissions in runs: the people who can see and stop a run, and the channels in which it can post.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    runs::{flow, reaches, start, states},
    schedules::{created, due, paused},
    support::{Person, Team, id, list, team_with, text},
};

/// A team with people who are related to a run of Bo's workflow in different ways, and a channel that only some of them are in.
struct Cast {
    t: Team,
    /// A member who starts runs manually.
    cy: Person,
    /// A member whose messages start runs.
    dee: Person,
    /// A member who is not in the private channel.
    eve: Person,
    private: String,
}

async fn cast() -> Cast {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let dee = t.app.join(&t.ada, "Dee", "member").await;
    let eve = t.app.join(&t.ada, "Eve", "member").await;
    let private = t.bo.private_channel("secret", &[&cy, &dee]).await;
    Cast {
        t,
        cy,
        dee,
        eve,
        private,
    }
}

fn says(target: &str, input: &str) -> Value {
    json!({"target": {"type": "workflow", "workflow_id": target, "input": input}})
}

impl Cast {
    /// Starts a run in a channel by this cause; the run's texts contain `mark`. Returns its ID.
    async fn started(&self, cause: &str, channel: &str, mark: &str) -> String {
        let trigger = match cause {
            "message" => json!({"channel_id": channel, "words": [mark]}),
            _ => Value::Null,
        };
        let step = json!({"id": "post", "kind": "output", "content": "Seen: {{message}}{{input}}"});
        let name = format!("w-{cause}-{}", &channel[channel.len() - 6..]);
        let form = json!({"name": name, "on_message": trigger, "steps": [step]});
        let flow = id(&self.t.bo.post("/v1/workflows", form).await.is(201));
        match cause {
            "manual" => {
                let wish = json!({"channel_id": channel, "input": mark});
                start(&self.cy, &format!("/v1/workflows/{flow}"), wish).await
            }
            "message" => {
                self.dee.start(channel, mark).await;
                let path = format!("/v1/runs?workflow_id={flow}");
                id(&self.t.bo.every(&path).await[0])
            }
            _ => {
                let place = json!({"channel_id": channel});
                let schedule = created(&self.t.bo, place, says(&flow, mark)).await;
                let path = format!("/v1/schedules/{schedule}/run");
                let begun = self.t.bo.act(&path).await.is(202);
                text(&begun, "/task/run_id")
            }
        }
    }

    /// Checks what each person can see of a run that has ended, and who can change it.
    async fn check(&self, run: &Value, (is_public, mark): (bool, &str)) {
        let Self {
            t, cy, dee, eve, ..
        } = self;
        let path = format!("/v1/runs/{}", id(run));
        let thread = text(run, "/thread_id");
        for by in [&t.ada, &t.bo, cy, dee, eve] {
            let who = format!("{} {mark}", by.name);
            let is_in = [&t.bo.id, &cy.id, &dee.id].contains(&&by.id);
            let sees = is_public || is_in;
            let status = if sees { 200 } else { 404 };
            assert_eq!(by.get(&path).await.status, status, "{who}");
            let listed = by.every("/v1/runs").await;
            assert_eq!(listed.iter().any(|one| one["id"] == run["id"]), sees);
            let messages = by.get(&format!("/v1/threads/{thread}/messages")).await;
            assert_eq!(messages.status, status, "{who}");
            let events = json!(by.events().await).to_string();
            assert_eq!(events.contains(mark), sees, "{who}");
            let requester = text(run, "/requested_by");
            let may = [&requester, &t.bo.id, &t.ada.id].contains(&&by.id);
            let status = match (sees, may) {
                (false, _) => 404,
                (true, true) => 200,
                (true, false) => 403,
            };
            let cancelled = by.act(&format!("{path}/cancel")).await;
            assert_eq!(cancelled.status, status, "{who}");
        }
    }
}

#[tokio::test]
async fn a_run_is_seen_by_readers_of_its_channel_and_changed_by_few() {
    let cast = cast().await;
    for cause in ["manual", "message", "schedule"] {
        for (channel, is_public) in [(&cast.t.general, true), (&cast.private, false)] {
            let mark = format!("zebra-{cause}-{is_public}");
            let run = cast.started(cause, channel, &mark).await;
            let run = reaches(&cast.t.bo, &run, "completed").await;
            let requester = if cause == "manual" {
                &cast.cy
            } else {
                &cast.t.bo
            };
            assert_eq!(run["requested_by"], json!(requester.id), "{mark}");
            assert_eq!(run["cause"]["type"], json!(cause));
            assert_eq!(run["steps"][0]["output"], json!(format!("Seen: {mark}")));
            cast.check(&run, (is_public, &mark)).await;
        }
    }
}

/// Number of threads in the private channel.
async fn threads(cast: &Cast) -> usize {
    let path = format!("/v1/channels/{}/threads", cast.private);
    list(&cast.cy.get(&path).await.ok(), "/data").len()
}

#[tokio::test]
async fn nobody_starts_runs_or_posts_where_they_cannot() {
    let cast = cast().await;
    let t = &cast.t;
    let steps =
        json!([{"id": "post", "kind": "output", "content": "Seen.", "channel_id": cast.private}]);
    let there = flow(&t.bo, "there", steps).await;
    let here = json!([{"id": "post", "kind": "output", "content": "Seen."}]);
    let here = flow(&t.bo, "nearby", here).await;
    let thread = t.bo.thread(&cast.private, "Ours").await;
    for (wish, code) in [
        (json!({"channel_id": cast.private}), "channel_not_found"),
        (json!({"thread_id": thread}), "thread_not_found"),
    ] {
        let refused = cast.eve.post(&format!("{here}/runs"), wish).await;
        assert_eq!(refused.refused(404), code);
    }
    let run = start(&cast.eve, &there, json!({"channel_id": t.general})).await;
    let failed = reaches(&cast.eve, &run, "failed").await;
    assert_eq!(states(&failed), ["post failed"]);
    assert_eq!(threads(&cast).await, 1, "only that of Bo");
}

#[tokio::test]
async fn messages_and_schedules_post_only_where_the_owner_can() {
    let cast = cast().await;
    let t = &cast.t;
    let step =
        json!({"id": "post", "kind": "output", "content": "Seen.", "channel_id": cast.private});
    let form = json!({"name": "there", "on_message": {"channel_id": t.general}, "steps": [step]});
    let workflow = id(&t.bo.post("/v1/workflows", form).await.is(201));
    let place = json!({"channel_id": t.general});
    let schedule = created(&t.bo, place, says(&workflow, "")).await;
    let member = format!("/v1/channels/{}/members/{}", cast.private, t.bo.id);
    assert_eq!(t.bo.delete(&member).await.status / 100, 2);
    // Dee can post in that channel, but the run acts for Bo, who cannot.
    cast.dee.start(&t.general, "Hello").await;
    let path = format!("/v1/schedules/{schedule}/run");
    t.bo.act(&path).await.is(202);
    let runs = t.bo.every("/v1/runs").await;
    assert_eq!(runs.len(), 2);
    for run in runs {
        let failed = reaches(&t.bo, &id(&run), "failed").await;
        assert_eq!(states(&failed), ["post failed"]);
    }
    assert_eq!(threads(&cast).await, 0);
}

#[tokio::test]
async fn a_workflow_and_a_schedule_end_with_the_rights_of_their_owner() {
    let cast = cast().await;
    let (t, private) = (&cast.t, &cast.private);
    let step = json!({"id": "post", "kind": "output", "content": "Seen."});
    let form = json!({"name": "echo", "on_message": {"channel_id": private}, "steps": [step]});
    let workflow = id(&t.bo.post("/v1/workflows", form).await.is(201));
    let place = json!({"channel_id": private});
    let schedule = created(&t.bo, place, says(&workflow, "")).await;
    let member = format!("/v1/channels/{private}/members/{}", t.bo.id);
    assert_eq!(t.bo.delete(&member).await.status / 100, 2);
    let started = cast.dee.start(private, "Hello").await;
    due(t, &schedule, Duration::ZERO).await;
    paused(&cast.dee, &schedule, "owner_gone").await;
    let shown = t.bo.get(&format!("/v1/workflows/{workflow}")).await.ok();
    assert_eq!(
        (&shown["status"], &shown["paused_reason"]),
        (&json!("paused"), &json!("owner_gone"))
    );
    let said = cast.dee.contents(&text(&started, "/thread/id")).await;
    assert_eq!(said, ["Hello"]);
    assert_eq!(threads(&cast).await, 1, "that of Dee");
    assert!(t.bo.every("/v1/runs").await.is_empty());
}

#[tokio::test]
async fn a_message_in_a_private_channel_is_hidden_in_the_run_from_others() {
    let cast = cast().await;
    let t = &cast.t;
    let steps = json!([
        {"id": "here", "kind": "output", "content": "Here."},
        {"id": "there", "kind": "output", "content": "There.", "channel_id": cast.private},
    ]);
    let flow = flow(&t.bo, "tell", steps).await;
    let run = start(&cast.cy, &flow, json!({"channel_id": t.general})).await;
    reaches(&cast.cy, &run, "completed").await;
    for (by, expected) in [
        (&cast.cy, json!("There.")),
        (&cast.dee, json!("There.")),
        (&cast.eve, Value::Null),
        (&t.ada, Value::Null),
    ] {
        let shown = by.get(&format!("/v1/runs/{run}")).await.ok();
        let listed = by.every("/v1/runs").await;
        for seen in [&shown, &listed[0]] {
            assert_eq!(seen["steps"][0]["output"], "Here.", "{}", by.name);
            assert_eq!(seen["steps"][1]["output"], expected, "{}", by.name);
        }
    }
}
