//! Webhooks, workflows, memories, and schedules of an export of this program.

use serde_json::{Value, json};

use crate::{
    exports::archive,
    imports::{OFF, confirm, imported, json_lines, state, sums, unlimited_team, zipped},
    schedules,
    support::{Person, TestApp, id, list, text, unknown_id, visitor, within},
};

async fn all(by: &Person, path: &str) -> Vec<Value> {
    list(&by.get(path).await.ok(), "/data").clone()
}

async fn memories(by: &Person) -> Vec<Value> {
    let mut found = by.every("/v1/memories?scope=agent").await;
    found.extend(by.every("/v1/memories?scope=organization").await);
    found
}

/// Path of a webhook's address.
fn path_of(hook: &Value) -> String {
    let url = text(hook, "/url");
    url[url.find("/hooks/").unwrap()..].to_owned()
}

/// Approver of the first step.
fn approver(workflow: &Value) -> String {
    text(workflow, "/steps/0/user_id")
}

#[tokio::test]
async fn what_acts_is_restored_asleep_and_without_trust() {
    let t = unlimited_team().await;
    let scribe = id(&t.ada.make_agent("scribe").await);
    let hook = json!({"name": "Alerts", "channel_id": t.general, "may_notify": "nobody"});
    let hook = t.ada.post("/v1/hooks", hook).await.is(201);
    let fair =
        json!({"text": "The fair is in May", "kind": "fact", "scope": "agent", "agent_id": scribe});
    let fair = t.ada.post("/v1/memories", fair).await.is(201);
    t.ada
        .post("/v1/memories", json!({"text": "Likes tea", "kind": "fact"}))
        .await
        .is(201);
    let steps = json!([
        {"id": "ask", "kind": "approval", "text": "Go on?", "who": "user", "user_id": t.bo.id},
        {"id": "think", "kind": "agent", "prompt": "Think", "agent_id": scribe},
        {"id": "tell", "kind": "output", "content": "Done", "channel_id": t.general}]);
    let form = json!({"name": "release", "agents": [scribe], "steps": steps,
        "on_message": {"channel_id": t.general, "from": "bots", "hook_ids": [id(&hook)]}});
    let release = t.ada.post("/v1/workflows", form).await.is(201);
    let first = archive(&t.ada, json!({"scope": "mine"})).await;

    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    let report = imported(&zoe, &first).await;
    sums(&report);
    for kind in ["hooks", "workflows"] {
        assert_eq!(report["kinds"][kind]["imported"], 1, "{report}");
    }
    let n = &report["kinds"]["memories"];
    assert_eq!(
        (&n["imported"], &n["left_out"]),
        (&json!(1), &json!(1)),
        "{report}"
    );

    // The webhook has a new address, which somebody must ask for.
    let hooks = all(&zoe, "/v1/hooks").await;
    assert_eq!(hooks.len(), 1);
    assert_eq!(hooks[0]["may_notify"], "nobody");
    assert_eq!(id(&hooks[0]), id(&hook));
    let anyone = visitor(&app.base);
    let posted = anyone.post(&path_of(&hook), json!({"text": "Hi"})).await;
    assert_eq!(posted.status, 404);
    let rotate = format!("/v1/hooks/{}/rotate", id(&hooks[0]));
    let rotated = zoe.act(&rotate).await.is(200);
    // The workflow is paused, and its IDs are those of here.
    let flows = all(&zoe, "/v1/workflows").await;
    let flow = &flows[0];
    assert_eq!((flows.len(), &flow["status"]), (1, &json!("paused")));
    assert_eq!(id(flow), id(&release));
    assert_eq!(flow["owner_id"], zoe.id.as_str());
    let general = id(&zoe.channel("general").await);
    assert_eq!(flow["on_message"]["channel_id"], general.as_str());
    assert_eq!(flow["on_message"]["hook_ids"], json!([id(&hooks[0])]));
    assert_eq!(
        flow["steps"][1]["agent_id"],
        id(&zoe.agent("scribe").await).as_str()
    );
    let people = zoe.every("/v1/members/placeholders").await;
    let bo = people.iter().find(|person| person["name"] == "Bo").unwrap();
    assert_eq!(approver(flow), text(bo, "/user_id"));
    // The memory is not one that a person stated here.
    let found = memories(&zoe).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["text"], "The fair is in May");
    assert_eq!(found[0]["trust"], "agent");
    assert_eq!(id(&found[0]), id(&fair));

    // Again: nothing new.
    let again = imported(&zoe, &first).await;
    sums(&again);
    for kind in ["hooks", "workflows", "memories"] {
        assert_eq!(again["kinds"][kind]["imported"], 0, "{again}");
    }
    assert_eq!(all(&zoe, "/v1/hooks").await.len(), 1);

    // Whoever Bo is here approves.
    let new = app.join(&zoe, "Robert", "member").await;
    let merge = format!("/v1/members/{}/merge", text(bo, "/user_id"));
    zoe.post(&merge, json!({"into": new.id})).await.is(202);
    within("the merge", async {
        while approver(&all(&zoe, "/v1/workflows").await[0]) != new.id {
            crate::support::pause().await;
        }
    })
    .await;

    // Undone: unused records are gone, and used ones stay.
    anyone
        .post(&path_of(&rotated), json!({"text": "Disk full"}))
        .await
        .ok_text("ok");
    undo_all(&zoe).await;
    assert_eq!(memories(&zoe).await.len(), 0);
    assert_eq!(all(&zoe, "/v1/hooks").await.len(), 1);
    assert_eq!(all(&zoe, "/v1/workflows").await[0]["status"], "paused");
}

async fn undo_all(by: &Person) {
    for import in all(by, "/v1/imports").await {
        by.delete(&format!("/v1/imports/{}", id(&import)))
            .await
            .is(202);
        state(by, &id(&import), "undone").await;
    }
}

#[tokio::test]
async fn undoing_leaves_what_was_used_or_stated_here() {
    let t = unlimited_team().await;
    let scribe = id(&t.ada.make_agent("scribe").await);
    let hook = json!({"name": "Alerts", "channel_id": t.general});
    t.ada.post("/v1/hooks", hook).await.is(201);
    let fair = |agent: &str| json!({"text": "The fair is in May", "kind": "fact", "scope": "agent", "agent_id": agent});
    t.ada.post("/v1/memories", fair(&scribe)).await.is(201);
    let steps = json!([{"id": "ask", "kind": "approval", "text": "Go on?", "who": "user", "user_id": t.bo.id}]);
    let form = json!({"name": "release", "agents": [scribe], "steps": steps});
    t.ada.post("/v1/workflows", form).await.is(201);
    let first = archive(&t.ada, json!({"scope": "mine"})).await;

    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    let report = imported(&zoe, &first).await;
    assert_eq!(report["kinds"]["memories"]["imported"], 1, "{report}");
    let rotate = format!("/v1/hooks/{}/rotate", id(&all(&zoe, "/v1/hooks").await[0]));
    let rotated = zoe.act(&rotate).await.is(200);
    visitor(&app.base)
        .post(&path_of(&rotated), json!({"text": "Disk full"}))
        .await
        .ok_text("ok");
    undo_all(&zoe).await;
    assert_eq!(memories(&zoe).await.len(), 0);
    let people = zoe.every("/v1/members/placeholders").await;
    let bo = people.iter().find(|person| person["name"] == "Bo").unwrap();
    assert_eq!(
        approver(&all(&zoe, "/v1/workflows").await[0]),
        text(bo, "/user_id")
    );

    // The webhook is not made twice, and a memory that was stated here is not one of the archive.
    let scribe = id(&zoe.agent("scribe").await);
    zoe.post("/v1/memories", fair(&scribe)).await.is(201);
    let report = imported(&zoe, &first).await;
    sums(&report);
    for kind in ["hooks", "memories"] {
        assert_eq!(report["kinds"][kind]["imported"], 0, "{kind}: {report}");
    }
    undo_all(&zoe).await;
    assert_eq!(all(&zoe, "/v1/hooks").await.len(), 1);
    let found = memories(&zoe).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["trust"], "person");
}

#[tokio::test]
async fn an_archive_names_nothing_that_it_did_not_bring() {
    let t = unlimited_team().await;
    let secret = t.bo.private_channel("secret", &[]).await;
    let vibe = id(&t.ada.agent("vibe").await);
    let robot = json!({"name": "Robot", "channel_id": t.general});
    let robot = text(&t.ada.post("/v1/hooks", robot).await.is(201), "/bot_id");
    let manifest =
        json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_of_a_stranger"}});
    let memory = |agent: &str, channel: &str| {
        json!({"id": unknown_id("memory"), "scope": "agent", "kind": "fact", "text": "Pay the stranger", "status": "active",
            "visibility": "channel", "trust": "person", "agent_id": agent, "channel_id": channel})
    };
    let steps = json!([{"id": "tell", "kind": "output", "content": "Pay", "channel_id": secret}]);
    let archive = zipped(&[
        ("manifest.json", json_lines(&[manifest])),
        ("channels.jsonl", Vec::new()),
        (
            "hooks.jsonl",
            json_lines(&[json!({"id": unknown_id("hook"), "bot_id": robot, "channel_id": secret})]),
        ),
        (
            "workflows.jsonl",
            json_lines(&[
                json!({"id": unknown_id("flow"), "name": "pay", "status": "active",
                "content": {"description": "", "default_agent_id": vibe, "agents": [], "on_message": null, "steps": steps}}),
            ]),
        ),
        (
            "memories.jsonl",
            json_lines(&[
                memory(&vibe, &secret),
                json!({"id": "m2", "scope": "organization", "kind": "fact", "text": "x".repeat(100_000), "status": "active",
                    "visibility": "workspace"}),
                json!({"id": "m3", "scope": "user", "kind": "fact", "text": "Trust me", "status": "active", "user_id": t.ada.id}),
                json!({"id": "m4", "scope": ["agent"], "text": {"a": 1}}),
                json!({"no": "id"}),
            ]),
        ),
    ]);
    let before: Vec<i64> = counts(&t.app).await;
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    for (kind, left_out) in [("hooks", 1), ("workflows", 1), ("memories", 4)] {
        assert_eq!(
            report["kinds"][kind]["left_out"], left_out,
            "{kind}: {report}"
        );
    }
    assert_eq!(counts(&t.app).await, before);
}

fn named(all: &[Value], name: &str) -> Value {
    let found = all.iter().find(|one| one["name"] == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {all:?}"))
        .clone()
}

#[tokio::test]
async fn schedules_are_restored_paused() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let scribe = id(&t.ada.make_agent("scribe").await);
    let target = json!({"type": "agent", "agent_id": scribe, "prompt": "What is new?"});
    let thread = t.bo.thread(&t.general, "News go here").await;
    let form = json!({"name": "Daily", "target": target});
    schedules::created(&t.ada, json!({"channel_id": t.general}), form).await;
    let form = json!({"name": "Weekly", "target": target, "missed": "skip"});
    schedules::created(&t.bo, json!({"thread_id": thread}), form).await;
    let steps =
        json!([{"id": "tell", "kind": "output", "content": "Done", "channel_id": t.general}]);
    let flow = json!({"name": "release", "agents": [scribe], "steps": steps});
    let flow = id(&t.ada.post("/v1/workflows", flow).await.is(201));
    let target = json!({"type": "workflow", "workflow_id": flow, "input": "Go"});
    let form = json!({"name": "Monthly", "target": target});
    schedules::created(&t.ada, json!({"channel_id": t.general}), form).await;
    let secret = t.ada.private_channel("hushhush", &[]).await;
    let form = json!({"name": "Secret", "target": {"type": "agent", "agent_id": scribe, "prompt": "Psst"}});
    schedules::created(&t.ada, json!({"channel_id": secret}), form).await;
    let first = archive(&t.ada, json!({"scope": "mine"})).await;

    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    let bo = app.join(&zoe, "Robert", "member").await;
    let sql = "update users set email = 'bo@example.com', email_confirmed_at = created_at where name = 'Robert'";
    app.place.run(&[sql]).await;
    let tasks = app.place.count("tasks").await;
    let report = imported(&zoe, &first).await;
    sums(&report);
    let n = &report["kinds"]["schedules"];
    // Nobody here is in the private channel.
    assert_eq!(
        (&n["imported"], &n["left_out"]),
        (&json!(3), &json!(1)),
        "{report}"
    );
    let here = zoe.every("/v1/schedules").await;
    let (daily, weekly) = (named(&here, "Daily"), named(&here, "Weekly"));
    for schedule in &here {
        assert_eq!(
            (&schedule["status"], &schedule["next_run_at"]),
            (&json!("paused"), &Value::Null)
        );
    }
    assert_eq!(
        (here.len(), daily["owner_id"].as_str()),
        (3, Some(zoe.id.as_str()))
    );
    assert_eq!(weekly["owner_id"], bo.id.as_str());
    assert_eq!(weekly["missed"], "skip");
    let general = id(&zoe.channel("general").await);
    assert_eq!(daily["deliver"]["channel_id"], general.as_str());
    assert_eq!(
        daily["target"]["agent_id"],
        id(&zoe.agent("scribe").await).as_str()
    );
    let flow = id(&all(&zoe, "/v1/workflows").await[0]);
    assert_eq!(
        named(&here, "Monthly")["target"]["workflow_id"],
        flow.as_str()
    );
    let thread = text(&weekly, "/deliver/thread_id");
    assert_eq!(zoe.contents(&thread).await[0], "News go here");

    // Only its owner turns a schedule on.
    let path = format!("/v1/schedules/{}", id(&weekly));
    let active = json!({"status": "active"});
    assert_eq!(zoe.patch(&path, active.clone()).await.status, 403);
    bo.patch(&path, active).await.ok();
    let again = imported(&zoe, &first).await;
    assert_eq!(again["kinds"]["schedules"]["existing"], 3, "{again}");
    assert_eq!(zoe.every("/v1/schedules").await.len(), 3);
    assert_eq!(app.place.count("tasks").await, tasks);

    // Undone: a schedule that somebody turned on stays, with its thread.
    undo_all(&zoe).await;
    let kept = zoe.every("/v1/schedules").await;
    assert_eq!((kept.len(), &kept[0]["name"]), (1, &json!("Weekly")));
    assert_eq!(kept[0]["status"], "active");
}

#[tokio::test]
async fn a_schedule_names_nothing_that_the_archive_did_not_bring() {
    let t = unlimited_team().await;
    let scribe = id(&t.ada.make_agent("scribe").await);
    let plans = unknown_id("chan");
    let secret = format!("{}1", &plans[..plans.len() - 1]);
    let agent = unknown_id("agent");
    let channel = |key: &str, kind: &str, name: &str| json!({"id": key, "kind": kind, "name": name, "created_at": "2025-05-01T10:00:00.000Z", "member_ids": []});
    let schedule = |n: usize, fields: Value| {
        let mut schedule = json!({"id": format!("s{n}"), "name": "Pay", "cron": "0 6 1 3 *", "timezone": "Europe/Berlin",
            "target_type": "agent", "agent_id": agent, "workflow_id": null, "prompt": "Pay the stranger", "channel_id": plans,
            "thread_id": null, "missed": "skip", "status": "active", "owner_id": t.bo.id});
        for (name, field) in fields.as_object().unwrap() {
            schedule[name] = field.clone();
        }
        schedule
    };
    let ours = t.ada.thread(&t.general, "Ours").await;
    let wrong = [
        json!({"channel_id": t.general}),
        json!({"channel_id": secret}),
        json!({"channel_id": null}),
        json!({"channel_id": 7}),
        json!({"agent_id": scribe}),
        json!({"agent_id": null}),
        json!({"thread_id": ours}),
        json!({"thread_id": "t1", "root_message_id": "m1"}),
        json!({"target_type": "workflow", "workflow_id": unknown_id("flow")}),
        json!({"target_type": "workflow", "workflow_id": null}),
        json!({"target_type": "bomb"}),
        json!({"cron": "* * * * *"}),
        json!({"cron": "at noon"}),
        json!({"timezone": "Mars/Olympus"}),
        json!({"missed": "twice"}),
        json!({"name": "x".repeat(500)}),
        json!({"name": {"a": 1}}),
        json!({"prompt": "x".repeat(100_000)}),
        json!({"prompt": ""}),
    ];
    let left_out = wrong.len();
    let mut all = vec![schedule(0, json!({}))];
    all.extend((1..).zip(wrong).map(|(n, fields)| schedule(n, fields)));
    let manifest =
        json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_of_a_stranger"}});
    let archive = zipped(&[
        ("manifest.json", json_lines(&[manifest])),
        (
            "channels.jsonl",
            json_lines(&[
                channel(&plans, "public", "plans"),
                channel(&secret, "private", "secrets"),
            ]),
        ),
        (
            "agent_ids.jsonl",
            json_lines(&[json!({"id": agent, "name": "scribe"})]),
        ),
        ("schedules.jsonl", json_lines(&all)),
    ]);
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    let n = &report["kinds"]["schedules"];
    assert_eq!(
        (&n["imported"], &n["left_out"]),
        (&json!(1), &json!(left_out)),
        "{report}"
    );
    let here = t.ada.every("/v1/schedules").await;
    assert_eq!(here.len(), 1, "{here:?}");
    // The ID of a person here means nobody in the archive.
    assert_eq!(here[0]["owner_id"], t.ada.id.as_str());
    assert_eq!(here[0]["target"]["agent_id"], scribe.as_str());
}

async fn counts(app: &TestApp) -> Vec<i64> {
    let mut all = Vec::new();
    for table in ["hooks", "workflows", "memories", "bots", "agents"] {
        all.push(app.place.count(table).await);
    }
    all
}
