//! Schedules: the people who can create and change them, the slots that fire, and the messages that agents post for them.

use std::time::Duration;

use openvibe::{
    db::{Conn, now},
    ids::ScheduleId,
    schedules,
};
use serde_json::{Value, json};

use crate::{
    faults::prepared,
    support::{Answer, Gate, Person, Team, TestProcess, at_points, id, list, team, text},
};

/// A cron expression that has no slots during the tests.
fn yearly() -> String {
    let day = chrono::Utc::now() + chrono::Days::new(100);
    day.format("0 6 1 %-m *").to_string()
}

/// Form of a schedule for the default agent, with the fields of `with` added or overwritten.
pub fn form(deliver: &Value, with: Value) -> Value {
    let mut form = json!({"name": "Daily news", "cron": yearly(), "timezone": "Europe/Berlin",
        "target": {"type": "agent", "prompt": "What changed since yesterday?"}, "deliver": deliver});
    let Value::Object(fields) = with else {
        panic!("not an object: {with}")
    };
    form.as_object_mut().unwrap().extend(fields);
    form
}

pub async fn created(by: &Person, deliver: Value, with: Value) -> String {
    id(&by.post("/v1/schedules", form(&deliver, with)).await.is(201))
}

pub fn in_channel(t: &Team) -> Value {
    json!({"channel_id": t.general})
}

/// Makes a schedule due, as if its next slot were this long ago.
pub async fn due(t: &Team, schedule: &str, ago: Duration) {
    let id: ScheduleId = schedule.parse().unwrap();
    let at = now() - ago;
    let set = async move |c: &mut Conn| {
        c.q("update schedules set next_run_at = $2 where id = $1")
            .bind(id)
            .bind(at)
            .run()
            .await
    };
    t.app.db().write(id.0, set).await.unwrap();
}

pub async fn get(by: &Person, schedule: &str) -> Value {
    by.get(&format!("/v1/schedules/{schedule}")).await.ok()
}

pub async fn slots(by: &Person, schedule: &str) -> Vec<Value> {
    let found = by.get(&format!("/v1/schedules/{schedule}/slots")).await;
    list(&found.ok(), "/data")
}

/// Waits until a slot of the schedule has been stored; returns the newest one.
pub async fn slot(by: &Person, schedule: &str) -> Value {
    by.event_where("a slot", |event| {
        event["type"] == "schedule.updated"
            && event["data"]["schedule"]["id"] == schedule
            && !event["data"]["schedule"]["last_slot"].is_null()
    })
    .await;
    slots(by, schedule).await.remove(0)
}

/// Waits until the schedule has been paused for this reason.
pub async fn paused(by: &Person, schedule: &str, reason: &str) {
    by.event_where("a pause", |event| {
        event["data"]["schedule"]["id"] == schedule
            && event["data"]["schedule"]["paused_reason"] == reason
    })
    .await;
}

pub async fn run(by: &Person, schedule: &str) -> String {
    let started = by.act(&format!("/v1/schedules/{schedule}/run")).await;
    text(&started.is(202), "/task/id")
}

/// Texts of the messages that were posted for the schedule.
pub async fn posted(by: &Person, schedule: &str) -> Vec<String> {
    let events = by.events().await;
    let own = events.iter().filter(|event| {
        event["type"] == "message.created"
            && event["data"]["message"]["metadata"]["schedule_id"] == schedule
    });
    own.map(|event| text(event, "/data/message/content"))
        .collect()
}

#[tokio::test]
async fn a_slot_starts_a_thread_with_the_whole_reply() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Nothing new.")]);
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    due(&t, &schedule, Duration::ZERO).await;
    let fired = slot(&t.ada, &schedule).await;
    assert_eq!(
        (&fired["state"], &fired["count"]),
        (&json!("fired"), &json!(1))
    );
    let task = t.ada.completed(&text(&fired, "/task_id")).await;
    assert_eq!(task["kind"], "schedule");
    assert_eq!(task["requested_by"], json!(t.bo.id));
    let thread = text(&task, "/thread_id");
    let messages = t.ada.messages(&thread).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    let message = &messages[0];
    assert_eq!(message["content"], "Nothing new.");
    assert_eq!(message["state"], "complete");
    assert_eq!(message["metadata"]["schedule_id"], json!(schedule));
    assert_eq!(message["author"]["type"], "agent");
    let asked = t.model().asked_once("vibe").await;
    let line = "The person asking is Bo (role: member), by the schedule \"Daily news\".";
    let turns = asked.turns();
    let last = turns.last().unwrap();
    assert!(last.contains(line), "{last}");
    assert!(last.ends_with("What changed since yesterday?"), "{last}");
    let shown = get(&t.ada, &schedule).await;
    assert_eq!(shown["last_slot"]["task_id"], fired["task_id"]);
    assert_eq!(shown["status"], "active");
}

#[tokio::test]
async fn nothing_is_posted_before_the_reply_is_complete() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Half")
            .wait(&gate)
            .finish("stop")
            .done()],
    );
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let task = run(&t.bo, &schedule).await;
    gate.reached().await;
    assert_eq!(posted(&t.ada, &schedule).await, Vec::<String>::new());
    let again = t.bo.act(&format!("/v1/schedules/{schedule}/run")).await;
    assert_eq!(again.refused(409), "still_running");
    due(&t, &schedule, Duration::ZERO).await;
    let skipped = slot(&t.ada, &schedule).await;
    assert_eq!(skipped["state"], "skipped");
    assert_eq!(skipped["reason"], "still_running");
    let stopped = t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.ok();
    assert_eq!(stopped["status"], "cancelled");
    gate.open();
    assert_eq!(posted(&t.ada, &schedule).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_reply_in_a_thread_reads_its_history() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Two to go.")]);
    let thread = t.bo.thread(&t.general, "Three tasks are open").await;
    let schedule = created(&t.bo, json!({"thread_id": thread}), json!({})).await;
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Three tasks are open", "Two to go."]
    );
    let asked = t.model().asked_once("vibe").await.all();
    assert!(asked.contains("Three tasks are open"), "{asked}");
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.failed(&task).await;
    assert_eq!(t.bo.contents(&thread).await.len(), 3, "a notice");
}

#[tokio::test]
async fn a_heartbeat_without_a_prompt_or_news_posts_nothing() {
    let t = team().await;
    let agent = id(&t.ada.agent("vibe").await);
    let target = json!({"target": {"type": "heartbeat", "agent_id": agent}});
    let schedule = created(&t.bo, in_channel(&t), target).await;
    due(&t, &schedule, Duration::ZERO).await;
    let skipped = slot(&t.ada, &schedule).await;
    assert_eq!(
        (&skipped["state"], &skipped["reason"]),
        (&json!("skipped"), &json!("empty"))
    );
    let empty = t.bo.act(&format!("/v1/schedules/{schedule}/run")).await;
    assert_eq!(empty.is(202)["task"]["status"], "completed");
    let path = format!("/v1/agents/{agent}/files/HEARTBEAT.md");
    let long = json!({"content": "x".repeat(16 * 1024 + 1)});
    assert_eq!(t.ada.put(&path, long).await.refused(422), "file_refused");
    let file = json!({"content": "Is anything on fire?"});
    t.ada.put(&path, file).await.ok();
    t.model().script("vibe", [Answer::text(" NOTHING\n")]);
    let task = run(&t.bo, &schedule).await;
    let task = t.bo.completed(&task).await;
    assert_eq!(task["reply_message_id"], json!(null));
    assert_eq!(task["input"]["prompt"], "");
    let asked = t.model().asked_once("vibe").await.all();
    assert!(asked.contains("Is anything on fire?"), "{asked}");
    assert_eq!(posted(&t.ada, &schedule).await, Vec::<String>::new());
    t.model().script("vibe", [Answer::text("The printer is.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    assert_eq!(posted(&t.ada, &schedule).await, ["The printer is."]);
}

#[tokio::test]
async fn after_downtime_missed_slots_are_one_row() {
    let t = team().await;
    for (missed, ago, states) in [
        ("run_once", 30, &["fired"][..]),
        ("run_once", 90, &["missed"]),
        ("skip", 30, &["missed"]),
    ] {
        let schedule = created(&t.bo, in_channel(&t), json!({"missed": missed})).await;
        due(&t, &schedule, Duration::from_mins(ago)).await;
        slot(&t.ada, &schedule).await;
        let found = slots(&t.ada, &schedule).await;
        let found: Vec<&str> = found
            .iter()
            .filter_map(|slot| slot["state"].as_str())
            .collect();
        assert_eq!(found, states, "{missed} {ago}");
    }
}

#[tokio::test]
async fn passes_at_the_same_time_fire_a_slot_once() {
    let t = team().await;
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(created(&t.bo, in_channel(&t), json!({})).await);
    }
    for schedule in &made {
        due(&t, schedule, Duration::ZERO).await;
    }
    let db = t.app.db();
    let (one, two, three) = tokio::join!(
        schedules::fire_due(db),
        schedules::fire_due(db),
        schedules::fire_due(db)
    );
    for pass in [one, two, three] {
        pass.unwrap();
    }
    for schedule in &made {
        let fired = slot(&t.ada, schedule).await;
        t.ada.completed(&text(&fired, "/task_id")).await;
        assert_eq!(slots(&t.ada, schedule).await.len(), 1);
        assert_eq!(posted(&t.ada, schedule).await.len(), 1);
    }
}

#[tokio::test]
async fn a_schedule_that_cannot_be_fired_stops_no_other() {
    let t = team().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(created(&t.bo, in_channel(&t), json!({})).await);
    }
    let broken: ScheduleId = made[1].parse().unwrap();
    // Without a channel, the agent has nowhere to post its reply, so the slot cannot fire.
    let break_it = async move |c: &mut Conn| {
        c.q("update schedules set channel_id = null where id = $1")
            .bind(broken)
            .run()
            .await
    };
    t.app.db().write(broken.0, break_it).await.unwrap();
    for schedule in &made {
        due(&t, schedule, Duration::ZERO).await;
    }
    schedules::fire_due(t.app.db()).await.unwrap();
    for (at, schedule) in made.iter().enumerate() {
        if at == 1 {
            assert!(slots(&t.bo, schedule).await.is_empty());
        } else {
            slot(&t.bo, schedule).await;
            assert_eq!(slots(&t.bo, schedule).await.len(), 1);
        }
    }
}

async fn crash_around_a_slot(failpoint: &str) {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let general = id(&ada.channel("general").await);
    let schedule = created(&ada, json!({"channel_id": general}), json!({})).await;
    server.kill().await;
    let at = chrono::Utc::now() - chrono::TimeDelta::seconds(10);
    let at = at.format("%Y-%m-%d %H:%M:%S+00:00");
    p.place
        .run(&[&format!("update schedules set next_run_at = '{at}'")])
        .await;
    // The server may crash before it listens for connections.
    let settings = [("FAILPOINT", failpoint)];
    if let Ok(server) = TestProcess::try_start(&p.place, &p.model, &settings).await {
        assert!(!server.exited().await.success(), "{failpoint}");
    }
    let (server, ada) = p.start(&[("LEASE_MS", "2000")]).await;
    ada.event_where("the reply", |event| {
        event["data"]["message"]["metadata"]["schedule_id"] == schedule
    })
    .await;
    assert_eq!(slots(&ada, &schedule).await.len(), 1, "{failpoint}");
    assert_eq!(posted(&ada, &schedule).await.len(), 1, "{failpoint}");
    server.kill().await;
}

at_points! {
    a_crash_around_a_slot_fires_it_once, crash_around_a_slot:
    slot_store_1,
    slot_stored_1,
    turn_complete_1,
    turn_completed_1,
}

#[tokio::test]
async fn a_schedule_whose_owner_left_is_paused_and_listed_for_admins() {
    let t = team().await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let member = format!("/v1/members/{}", t.bo.id);
    assert_eq!(t.ada.delete(&member).await.status / 100, 2);
    due(&t, &schedule, Duration::ZERO).await;
    paused(&t.ada, &schedule, "owner_gone").await;
    let shown = get(&t.ada, &schedule).await;
    assert_eq!(
        (&shown["next_run_at"], &shown["owner_name"]),
        (&json!(null), &json!("Bo"))
    );
    let waiting = t.ada.get("/v1/waiting").await.ok();
    let entries = list(&waiting, "/paused");
    assert_eq!(entries.len(), 1);
    assert_eq!(
        entries[0]["text"],
        "Schedule \"Daily news\" is paused: Bo left the workspace."
    );
    let resume = json!({"status": "active"});
    let path = format!("/v1/schedules/{schedule}");
    assert_eq!(t.ada.patch(&path, resume).await.refused(403), "not_yours");
    assert_eq!(t.ada.delete(&path).await.status, 204);
    let waiting = t.ada.get("/v1/waiting").await.ok();
    assert_eq!(waiting["paused"], json!([]));
}

#[tokio::test]
async fn five_failures_in_a_row_pause_a_schedule() {
    let t = team().await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    for _ in 0..5 {
        assert_eq!(get(&t.bo, &schedule).await["status"], "active");
        t.model().script("vibe", [Answer::status(400, "{}")]);
        let task = run(&t.bo, &schedule).await;
        t.bo.failed(&task).await;
    }
    paused(&t.bo, &schedule, "failing").await;
    assert_eq!(posted(&t.ada, &schedule).await, Vec::<String>::new());
    let waiting = t.bo.get("/v1/waiting").await.ok();
    assert_eq!(waiting["paused"][0]["reason"], "failing");
    assert_eq!(t.ada.get("/v1/waiting").await.ok()["paused"], json!([]));
    let path = format!("/v1/schedules/{schedule}");
    let resumed = t.bo.patch(&path, json!({"status": "active"})).await.ok();
    assert_eq!(resumed["paused_reason"], json!(null));
    assert!(resumed["next_run_at"].is_string());
    t.model().script("vibe", [Answer::text("Better.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
}

#[tokio::test]
async fn a_reply_is_not_posted_where_its_owner_can_no_longer_post() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Late")
            .wait(&gate)
            .finish("stop")
            .done()],
    );
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let task = run(&t.bo, &schedule).await;
    gate.reached().await;
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "viewer"}),
        )
        .await
        .ok();
    gate.open();
    let (_, code) = t.ada.failed(&task).await;
    assert_eq!(code, "not_allowed");
    assert_eq!(posted(&t.ada, &schedule).await, Vec::<String>::new());
    paused(&t.ada, &schedule, "owner_gone").await;
}

#[tokio::test]
async fn the_owner_edits_and_admins_pause() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let path = format!("/v1/schedules/{schedule}");
    let rename = json!({"name": "Weekly"});
    for other in [&t.ada, &cy] {
        assert_eq!(
            other.patch(&path, rename.clone()).await.refused(403),
            "not_yours"
        );
    }
    let renamed = t.bo.patch_if(&path, "1", rename.clone()).await.ok();
    assert_eq!(
        (&renamed["name"], &renamed["version"]),
        (&json!("Weekly"), &json!(2))
    );
    let stale = t.bo.patch_if(&path, "1", rename).await;
    assert_eq!(stale.refused(409), "version_conflict");
    let pause = json!({"status": "paused"});
    assert_eq!(
        cy.patch(&path, pause.clone()).await.refused(403),
        "not_yours"
    );
    let paused = t.ada.patch(&path, pause).await.ok();
    assert_eq!(paused["paused_reason"], "by_admin");
    let resume = json!({"status": "active"});
    assert_eq!(
        t.bo.patch(&path, resume.clone()).await.refused(403),
        "not_yours"
    );
    assert_eq!(t.ada.patch(&path, resume).await.ok()["status"], "active");
    cy.delete(&path).await.refused(403);
    assert_eq!(t.bo.delete(&path).await.status, 204);
    t.bo.get(&path).await.refused(404);

    let hidden = t.bo.private_channel("plans", &[]).await;
    let schedule = created(&t.bo, json!({"channel_id": hidden}), json!({})).await;
    let path = format!("/v1/schedules/{schedule}");
    for other in [&t.ada, &cy] {
        assert_eq!(other.get(&path).await.refused(404), "schedule_not_found");
        let seen = other.get("/v1/schedules").await.ok();
        assert_eq!(seen["data"], json!([]));
    }
}

#[tokio::test]
async fn invalid_schedules_are_refused() {
    let t = team().await;
    let place = in_channel(&t);
    for (with, code, param) in [
        (json!({"cron": "* * * * *"}), "too_frequent", "cron"),
        (json!({"cron": "0 0 31 2 *"}), "never_runs", "cron"),
        (json!({"cron": "@daily"}), "invalid_value", "cron"),
        (
            json!({"timezone": "Europe/Nowhere"}),
            "invalid_value",
            "timezone",
        ),
        (json!({"name": " "}), "invalid_value", "name"),
        (json!({"deliver": null}), "invalid_value", "deliver"),
        (
            json!({"target": {"type": "webhook", "url": "x"}}),
            "invalid_value",
            "target.type",
        ),
    ] {
        let refused = t.bo.post("/v1/schedules", form(&place, with.clone())).await;
        let error = refused.json()["error"].clone();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!(code), &json!(param)),
            "{with}"
        );
        assert_eq!(refused.status, 422, "{with}");
    }
    for _ in 0..20 {
        created(&t.bo, place.clone(), json!({})).await;
    }
    let more = t.bo.post("/v1/schedules", form(&place, json!({}))).await;
    assert_eq!(more.refused(409), "too_many_schedules");
    let preview = json!({"cron": "0 9 * * *", "timezone": "Asia/Tokyo"});
    let preview = t.bo.post("/v1/schedules/preview", preview).await.ok();
    let next = list(&preview, "/next");
    assert_eq!(next.len(), 5);
    assert!(
        text(&next[0], "/at").ends_with("T00:00:00.000Z"),
        "{next:?}"
    );
    assert!(
        text(&next[0], "/local").ends_with("T09:00:00+09:00"),
        "{next:?}"
    );
}

#[tokio::test]
async fn schedules_are_exported_and_erased_with_their_owner() {
    let t = team().await;
    let with = json!({"name": "Zebra", "target": {"type": "agent", "prompt": "Count the zebras"}});
    let schedule = created(&t.bo, in_channel(&t), with).await;
    t.model().script("vibe", [Answer::text("Two.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    let export =
        t.bo.get(&format!("/v1/members/{}/export", t.bo.id))
            .await
            .ok();
    assert_eq!(export["schedules"][0]["prompt"], "Count the zebras");
    t.ada.erase(&t.bo).await;
    t.ada
        .get(&format!("/v1/schedules/{schedule}"))
        .await
        .refused(404);
    for needle in ["Zebra", "Count the zebras"] {
        let found = t.app.place.places_of(needle).await;
        assert!(found.is_empty(), "{needle}: {found:?}");
    }
}
