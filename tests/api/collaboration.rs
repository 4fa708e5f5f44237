//! Collaborations: agents take turns working on a goal in a fork, and draft its resolution.

use serde_json::{Value, json};

use crate::{
    approvals::waiting,
    faults::{Prepared, prepared},
    support::{
        Answer, Gate, ModelsFile, Person, Team, TestProcess, drafting, id, list, number, team,
        team_with, text, unknown_id,
    },
    tools_loop::reader,
};

pub const GOAL: &str = "Write the release notes.";

/// A collaboration of `coder` and others in a new fork of #general, started by Bo.
pub struct Started {
    pub fork: String,
    pub goal: String,
    pub task: String,
}

async fn agents(t: &Team, names: &[&str]) -> Vec<String> {
    let mut agents = Vec::new();
    for name in names {
        let agent = match *name {
            "coder" => t.ada.agent(name).await,
            name => t.ada.make_agent(name).await,
        };
        agents.push(id(&agent));
    }
    agents
}

pub async fn start(by: &Person, channel: &str, fields: Value) -> Started {
    let started = by.start(channel, "What do we tell people?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let begun = by.try_fork(&thread, &root, fields).await.is(201);
    Started {
        fork: text(&begun, "/fork/id"),
        goal: text(&begun, "/message/id"),
        task: text(&begun, "/task/id"),
    }
}

/// Starts a collaboration of `coder` and `reviewer` with these additional fields.
pub async fn pair(t: &Team, fields: Value) -> Started {
    let mut form = json!({"collaborators": agents(t, &["coder", "reviewer"]).await, "goal": GOAL});
    for (field, value) in fields.as_object().unwrap() {
        form[field] = value.clone();
    }
    start(&t.bo, &t.general, form).await
}

/// Model response with a draft of a resolution.
pub fn result() -> Answer {
    drafting(
        &json!({"headline": "Notes are ready", "conclusion": "The notes name both changes.",
        "key_points": [], "action_items": [], "open_questions": [], "deferred_items": []}),
    )
}

fn done(summary: &str) -> (&'static str, Value) {
    ("done", json!({"summary": summary}))
}

pub async fn state(by: &Person, fork: &str) -> (String, i64) {
    let fork = by.fork(fork).await;
    (
        text(&fork, "/collaboration/state"),
        number(&fork, "/collaboration/turns"),
    )
}

pub async fn children(by: &Person, root: &str, kind: &str) -> Vec<Value> {
    let tree = by.get(&format!("/v1/tasks/{root}/tree")).await.ok();
    let mut tasks = list(&tree, "/tasks");
    tasks.retain(|task| task["kind"] == kind && task["parent_task_id"] == root);
    tasks
}

#[tokio::test]
async fn two_agents_take_turns_and_their_draft_waits_for_the_person_who_asked() {
    let t = team().await;
    t.model()
        .script("coder", [Answer::text("A draft."), Answer::text("Better.")]);
    t.model().script(
        "reviewer",
        [Answer::text("Too long."), Answer::text("Good.")],
    );
    t.model().script("resolver", [result()]);
    let started = pair(&t, json!({"turns_max": 4})).await;
    let ended = t.bo.completed(&started.task).await;
    assert_eq!(ended["kind"], "collaborate");
    assert_eq!(
        t.bo.contents_in(&started.fork).await,
        [GOAL, "A draft.", "Too long.", "Better.", "Good."]
    );
    let fork = t.bo.fork(&started.fork).await;
    let coder = t.ada.agent("coder").await;
    assert_eq!(
        fork["collaboration"],
        json!({"agents": [coder["id"], t.ada.agent("reviewer").await["id"]], "turns": 4, "turns_max": 4, "state": "done"})
    );
    assert_eq!(
        (&fork["agent_id"], &fork["auto_reply"], &fork["status"]),
        (&coder["id"], &json!(true), &json!("active"))
    );
    let waiting = t.bo.get("/v1/waiting").await.ok();
    assert_eq!(waiting["count"], 1);
    assert_eq!(waiting["drafts"][0]["headline"], "Notes are ready");
    assert_eq!(waiting["drafts"][0]["id"], fork["draft_id"]);
    assert_eq!(ended["output"]["resolution_id"], fork["draft_id"]);
    let others = t.ada.get("/v1/waiting").await.ok();
    assert_eq!(
        (&others["count"], &others["drafts"]),
        (&json!(0), &json!([]))
    );
    t.bo.publish(&started.fork).await;
    assert_eq!(t.bo.get("/v1/waiting").await.ok()["count"], 0);
    let turns = children(&t.bo, &started.task, "reply").await;
    let of: Vec<i64> = turns
        .iter()
        .map(|turn| number(turn, "/input/options/turn"))
        .collect();
    assert_eq!(of, [1, 2, 3, 4]);
    assert!(
        turns
            .iter()
            .all(|turn| turn["trigger_message_id"] == json!(started.goal))
    );
}

#[tokio::test]
async fn a_turn_reads_what_was_written_so_far_and_ends_with_the_goal() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("A draft.").held(&gate)]);
    let started = pair(&t, json!({"turns_max": 2})).await;
    gate.reached().await;
    let said = t.bo.say_in(&started.fork, "Name the dates, too.").await;
    assert_eq!(said["tasks"], json!([]), "people start nothing");
    gate.open();
    t.bo.completed(&started.task).await;
    let first = t.model().asked_once("coder").await;
    assert!(!first.all().contains("Name the dates"));
    assert_eq!(first.all().matches(GOAL).count(), 1, "{}", first.all());
    let second = t.model().asked_once("reviewer").await;
    for read in ["A draft.", "Name the dates, too."] {
        assert!(second.all().contains(read), "{}", second.all());
    }
    let last = second.turns().pop().unwrap();
    assert!(
        last.contains("This is turn 2 of 2 of your work with Coder on the goal below."),
        "{last}"
    );
    assert!(last.ends_with(GOAL), "{last}");
    assert_eq!(second.all().matches(GOAL).count(), 1, "{}", second.all());
    assert!(second.offered().contains(&"done".to_owned()));
}

#[tokio::test]
async fn an_early_end_is_remembered_until_each_agent_had_a_turn() {
    let t = team().await;
    t.model().script(
        "coder",
        [Answer::calls("", &[done("The notes are written.")])],
    );
    t.model().script("reviewer", [Answer::text("I agree.")]);
    let started = pair(&t, json!({})).await;
    t.bo.completed(&started.task).await;
    assert_eq!(
        t.bo.contents_in(&started.fork).await,
        [GOAL, "The notes are written.", "I agree."]
    );
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 2));
    // The model is not called again after `done`.
    t.model().asked_once("coder").await;
    let turns = children(&t.bo, &started.task, "reply").await;
    assert_eq!(turns[0]["output"]["done"], true);
    assert!(turns[1]["output"]["done"].is_null());
}

#[tokio::test]
async fn a_turn_with_a_text_keeps_it_when_it_ends_the_work() {
    let t = team().await;
    t.model().script("coder", [Answer::text("A draft.")]);
    t.model().script(
        "reviewer",
        [Answer::calls("It is good.", &[done("Ready.")])],
    );
    let started = pair(&t, json!({})).await;
    t.bo.completed(&started.task).await;
    assert_eq!(
        t.bo.contents_in(&started.fork).await,
        [GOAL, "A draft.", "It is good."]
    );
}

#[tokio::test]
async fn a_model_without_tools_ends_the_work_with_a_line() {
    let models = ModelsFile::of("context_window = 32000\ntools = false\n");
    let t = team_with(&[("MODELS_FILE", models.path())]).await;
    t.model().script("coder", [Answer::text("A draft.")]);
    t.model()
        .script("reviewer", [Answer::text("It is good.\n\nDONE")]);
    let started = pair(&t, json!({})).await;
    t.bo.completed(&started.task).await;
    assert_eq!(
        t.bo.contents_in(&started.fork).await,
        [GOAL, "A draft.", "It is good."]
    );
    let asked = t.model().asked_once("coder").await;
    assert!(
        asked.all().contains("end with the line DONE"),
        "{}",
        asked.all()
    );
    assert_eq!(asked.offered(), [""; 0]);
}

#[tokio::test]
async fn nobody_else_can_end_the_work() {
    let t = team().await;
    t.model().script(
        "vibe",
        [Answer::calls("", &[done("No.")]), Answer::text("Hm.")],
    );
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe are we done?").await;
    t.bo.completed(&task).await;
    let asked = t.model().asked("vibe", 1).await;
    assert!(!asked[0].offered().contains(&"done".to_owned()));
}

#[tokio::test]
async fn agents_publish_the_result_if_nobody_wants_to_review_it() {
    let t = team().await;
    t.model().script("resolver", [result()]);
    let started = pair(&t, json!({"turns_max": 2, "auto_publish": true})).await;
    t.bo.completed(&started.task).await;
    let fork = t.bo.fork(&started.fork).await;
    assert_eq!(
        (&fork["status"], &fork["collaboration"]["state"]),
        (&json!("resolved"), &json!("done"))
    );
    let resolution = t.bo.resolution(&started.fork).await;
    assert_eq!(resolution["published_by"]["type"], "agent");
    assert_eq!(t.bo.get("/v1/waiting").await.ok()["count"], 0);
}

#[tokio::test]
async fn a_failed_first_turn_leaves_no_draft_and_can_be_retried() {
    let t = team().await;
    t.model().script("coder", [Answer::status(400, "{}")]);
    let started = pair(&t, json!({"turns_max": 2})).await;
    assert_eq!(t.bo.failed(&started.task).await.1, "bad_request");
    let fork = t.bo.fork(&started.fork).await;
    assert_eq!(fork["collaboration"]["state"], "failed");
    assert!(fork["draft_id"].is_null());
    assert!(!fork["agent_id"].is_null());
    let notices = t.bo.messages_in(&started.fork).await;
    let notices = notices.iter().filter(|m| m["kind"] == "notice");
    assert_eq!(notices.count(), 1);
    let turn = id(&children(&t.bo, &started.task, "reply").await[0]);
    let path = format!("/v1/tasks/{turn}/retry");
    assert_eq!(t.bo.act(&path).await.refused(409), "not_root");
    let path = format!("/v1/tasks/{}/retry", started.task);
    let again = id(&t.bo.act(&path).await.is(201));
    t.bo.completed(&again).await;
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 2));
}

#[tokio::test]
async fn a_failed_third_turn_ends_the_work_with_a_draft() {
    let t = team().await;
    t.model().script(
        "coder",
        [Answer::text("A draft."), Answer::status(400, "{}")],
    );
    t.model().script("resolver", [result()]);
    let started = pair(&t, json!({})).await;
    t.bo.completed(&started.task).await;
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 3));
}

#[tokio::test]
async fn stop_ends_the_turn_and_the_work_without_a_draft() {
    let t = team().await;
    for scope in ["task", "tree"] {
        for stops_turn in [false, true] {
            let gate = Gate::new();
            t.model()
                .script("coder", [Answer::stream().piece("Half").wait(&gate).end()]);
            let form = json!({"collaborators": [t.ada.agent("coder").await["id"], t.ada.agent("vibe").await["id"]],
                "goal": GOAL});
            let started = start(&t.bo, &t.general, form).await;
            gate.reached().await;
            let turn = children(&t.bo, &started.task, "reply").await;
            let stopped = if stops_turn {
                id(&turn[0])
            } else {
                started.task.clone()
            };
            let path = format!("/v1/tasks/{stopped}/cancel");
            t.bo.post(&path, json!({"scope": scope})).await.is(200);
            let root = t.bo.ended(&started.task).await;
            assert_eq!(root["status"], "cancelled", "{scope} {stops_turn}");
            assert_eq!(state(&t.bo, &started.fork).await, ("stopped".to_owned(), 1));
            let messages = t.bo.messages_in(&started.fork).await;
            let half: Vec<&Value> = messages
                .iter()
                .filter(|m| m["author"]["type"] == "agent")
                .collect();
            assert!(half.iter().all(|m| m["state"] == "interrupted"), "{half:?}");
            assert!(t.bo.fork(&started.fork).await["draft_id"].is_null());
            gate.open();
        }
    }
}

#[tokio::test]
async fn deleting_the_goal_stops_the_work() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("A draft.").held(&gate)]);
    let started = pair(&t, json!({})).await;
    gate.reached().await;
    let path = format!("/v1/messages/{}", started.goal);
    t.bo.delete(&path).await.is(200);
    assert_eq!(t.bo.ended(&started.task).await["status"], "cancelled");
    assert_eq!(state(&t.bo, &started.fork).await.0, "stopped");
}

#[tokio::test]
async fn a_mentioned_agent_replies_during_the_work_as_always() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("A draft.").held(&gate)]);
    t.model().script("vibe", [Answer::text("On Monday.")]);
    let started = pair(&t, json!({"turns_max": 2})).await;
    gate.reached().await;
    let asked = t.bo.ask_in(&started.fork, "@vibe when do we ship?").await;
    t.bo.completed(&asked).await;
    gate.open();
    t.bo.completed(&started.task).await;
    let reviewer = t.model().asked_once("reviewer").await;
    assert!(reviewer.all().contains("On Monday."));
}

#[tokio::test]
async fn mentions_of_agents_in_the_goal_are_text() {
    let t = team().await;
    let form = json!({"collaborators": agents(&t, &["coder", "reviewer"]).await, "turns_max": 2,
        "goal": "Ask @vibe → @coder, and tell @ada."});
    let started = start(&t.bo, &t.general, form).await;
    t.bo.completed(&started.task).await;
    let goal = t.bo.message(&started.goal).await;
    let kinds: Vec<Value> = list(&goal, "/mentions")
        .iter()
        .map(|mention| mention["type"].clone())
        .collect();
    assert_eq!(kinds, ["user"]);
    assert!(t.model().requests().iter().all(|r| r.speaker != "vibe"));
}

#[tokio::test]
async fn an_agent_that_may_no_longer_be_asked_ends_the_work() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("A draft.").held(&gate)]);
    let started = pair(&t, json!({})).await;
    gate.reached().await;
    let reviewer = id(&t.ada.agent("reviewer").await);
    let path = format!("/v1/agents/{reviewer}");
    t.ada
        .patch(&path, json!({"status": "inactive"}))
        .await
        .is(200);
    gate.open();
    assert_eq!(t.bo.failed(&started.task).await.1, "not_allowed");
    assert_eq!(state(&t.bo, &started.fork).await, ("failed".to_owned(), 1));
}

#[tokio::test]
async fn a_collaboration_uses_a_draft_that_a_person_requested() {
    let t = team().await;
    let (turn, draft) = (Gate::new(), Gate::new());
    t.model()
        .script("reviewer", [Answer::text("It is fine.").held(&turn)]);
    t.model().script("resolver", [result().held(&draft)]);
    let started = pair(&t, json!({"turns_max": 2})).await;
    turn.reached().await;
    let resolve = t.bo.resolve(&started.fork).await;
    draft.reached().await;
    turn.open();
    t.bo.completed(&started.task).await;
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 2));
    draft.open();
    t.bo.completed(&resolve).await;
    let waiting = t.bo.get("/v1/waiting").await.ok();
    assert_eq!(waiting["drafts"][0]["headline"], "Notes are ready");
}

#[tokio::test]
async fn a_turn_that_waited_ends_for_a_requester_who_became_a_viewer() {
    let t = team().await;
    let rules = json!([{"action": "search", "requires": "any_member"}]);
    let trust = json!({"trust": {"approve": ["search"], "approval_rules": rules}});
    let sage = reader(&t.ada, "sage", trust).await;
    let search = ("search_messages", json!({"query": "zebra"}));
    t.model().script("sage", [Answer::calls("", &[search])]);
    let form =
        json!({"collaborators": [sage["id"], t.ada.agent("vibe").await["id"]], "goal": GOAL});
    let started = start(&t.bo, &t.general, form).await;
    let event =
        t.bo.event_where("the first turn", |event| {
            let task = &event["data"]["task"];
            task["parent_task_id"] == json!(started.task) && task["kind"] == "reply"
        })
        .await;
    let turn = text(&event, "/data/task/id");
    let card = waiting(&t.bo, &turn).await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&member, json!({"role": "viewer"})).await.ok();
    let path = format!("/v1/actions/{}/approve", id(&card));
    let form = json!({"arguments_hash": card["arguments_hash"]});
    t.ada.post(&path, form).await.is(200);
    assert_eq!(t.ada.failed(&turn).await.1, "not_allowed");
    assert_eq!(t.ada.failed(&started.task).await.1, "not_allowed");
    t.model().asked_once("sage").await;
    assert_eq!(state(&t.ada, &started.fork).await.0, "failed");
}

#[tokio::test]
async fn a_request_that_cannot_be_met_starts_nothing() {
    let t = team().await;
    let agents = agents(&t, &["coder", "reviewer", "tester", "planner", "editor"]).await;
    let started = t.bo.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let (first, second) = (&agents[0], &agents[1]);
    for (form, code, param) in [
        (
            json!({"collaborators": [first], "goal": "x"}),
            "invalid_value",
            "collaborators",
        ),
        (
            json!({"collaborators": [first, first], "goal": "x"}),
            "invalid_value",
            "collaborators",
        ),
        (
            json!({"collaborators": agents, "goal": "x"}),
            "invalid_value",
            "collaborators",
        ),
        (
            json!({"collaborators": [first, second]}),
            "invalid_value",
            "goal",
        ),
        (
            json!({"collaborators": [first, second], "goal": "x".repeat(4001)}),
            "invalid_value",
            "goal",
        ),
        (
            json!({"collaborators": [first, second], "goal": "x", "turns_max": 1}),
            "invalid_value",
            "turns_max",
        ),
        (
            json!({"collaborators": [first, second], "goal": "x", "turns_max": 9}),
            "invalid_value",
            "turns_max",
        ),
        (
            json!({"collaborators": [first, second], "goal": "x", "agent_id": first}),
            "invalid_value",
            "agent_id",
        ),
        (json!({"goal": "x"}), "invalid_value", "collaborators"),
    ] {
        let reply = t.bo.try_fork(&thread, &root, form.clone()).await;
        assert_eq!(reply.json()["error"]["param"], param, "{form}");
        assert_eq!(reply.refused(422), code, "{form}");
    }
    let form = json!({"collaborators": [first, unknown_id("agent")], "goal": "x"});
    let reply = t.bo.try_fork(&thread, &root, form).await;
    assert_eq!(reply.refused(404), "agent_not_found");
    let path = format!("/v1/agents/{second}");
    t.ada
        .patch(
            &path,
            json!({"access_control": {"allowed_subjects": [], "denied_subjects": [t.bo.id]}}),
        )
        .await
        .is(200);
    let form = json!({"collaborators": [first, second], "goal": "x"});
    let reply = t.bo.try_fork(&thread, &root, form).await;
    assert_eq!(reply.refused(404), "agent_not_found");
    let path = format!("/v1/threads/{thread}/forks");
    assert_eq!(t.bo.get(&path).await.ok()["data"], json!([]));
}

#[tokio::test]
async fn without_a_model_the_work_cannot_start() {
    let mut t = team().await;
    let eve = t.app.join(&t.ada, "Eve", "member").await;
    let plans = t.bo.private_channel("plans", &[]).await;
    let started = t.bo.start(&plans, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let agents = agents(&t, &["coder", "reviewer"]).await;
    let form = |client_id: &str| json!({"collaborators": agents, "goal": "x", "turns_max": 2, "client_id": client_id});
    let first = t.bo.try_fork(&thread, &root, form("once")).await.is(201);
    t.bo.completed(&text(&first, "/task/id")).await;
    let without = [("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")];
    t.app.restart(&without).await;
    let (bo, eve) = (t.bo.at(&t.app.base), eve.at(&t.app.base));
    let reply = bo.try_fork(&thread, &root, form("again")).await;
    assert_eq!(reply.refused(422), "no_model");
    let reply = eve.try_fork(&thread, &root, form("again")).await;
    assert_eq!(reply.refused(404), "thread_not_found");
    let resent = bo.try_fork(&thread, &root, form("once")).await.is(200);
    for at in ["/fork/id", "/message/id", "/task/id"] {
        assert_eq!(text(&first, at), text(&resent, at));
    }
}

#[tokio::test]
async fn a_resent_request_returns_the_first_work() {
    let t = team().await;
    let started = t.bo.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let form = json!({"collaborators": agents(&t, &["coder", "reviewer"]).await, "goal": GOAL, "client_id": "once", "turns_max": 2});
    let first = t.bo.try_fork(&thread, &root, form.clone()).await.is(201);
    let again = t.bo.try_fork(&thread, &root, form).await.is(200);
    for at in ["/fork/id", "/message/id", "/task/id"] {
        assert_eq!(text(&first, at), text(&again, at));
    }
    t.bo.completed(&text(&first, "/task/id")).await;
}

/// Starts a collaboration while a failpoint makes the server exit. Repeats the request after a restart, and checks that each turn and
/// the draft exist exactly once.
async fn crash(p: &Prepared, root: &str, failpoint: &str) {
    p.model.script("resolver", [result(), result()]);
    let server = TestProcess::start(&p.place, &p.model, &[("FAILPOINT", failpoint)]).await;
    let ada = p.ada.at(&server.base);
    let agents = [id(&ada.agent("coder").await), id(&ada.agent("vibe").await)];
    let form = json!({"message_id": root, "collaborators": agents, "goal": GOAL, "turns_max": 3, "client_id": failpoint});
    let path = format!("/v1/threads/{}/forks", p.thread);
    ada.try_post(&path, form.clone()).await;
    server.exited().await;
    let (server, ada) = p.start(&[]).await;
    let begun = ada.post(&path, form).await.ok();
    let (fork, task) = (text(&begun, "/fork/id"), text(&begun, "/task/id"));
    ada.completed(&task).await;
    for (kind, count) in [("reply", 3), ("resolve", 1)] {
        let children = children(&ada, &task, kind).await;
        assert_eq!(children.len(), count, "{failpoint}: {kind}");
    }
    let messages = ada.messages_in(&fork).await;
    assert_eq!(messages.len(), 4, "{failpoint}");
    assert_eq!(
        state(&ada, &fork).await,
        ("done".to_owned(), 3),
        "{failpoint}"
    );
    ada.act(&format!("/v1/forks/{fork}/abandon")).await.is(200);
    server.kill().await;
}

#[tokio::test]
async fn a_crash_between_turns_repeats_none_of_them() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let root = id(&ada.messages(&p.thread).await[0]);
    server.kill().await;
    for n in 1..=5 {
        for moment in ["collaborate_advance", "collaborate_advanced"] {
            crash(&p, &root, &format!("{moment}:{n}")).await;
        }
    }
    for failpoint in [
        "turn_complete:2",
        "turn_completed:2",
        "resolve_drafted:1",
        "resolve_stored:1",
    ] {
        crash(&p, &root, failpoint).await;
    }
}

#[tokio::test]
async fn a_crash_around_the_end_of_a_turn_keeps_its_end() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let root = id(&ada.messages(&p.thread).await[0]);
    let agents = [id(&ada.agent("coder").await), id(&ada.agent("vibe").await)];
    server.kill().await;
    let path = format!("/v1/threads/{}/forks", p.thread);
    for failpoint in [
        "round_stored:1",
        "action_started:1",
        "action_ended:1",
        "turn_complete:1",
    ] {
        p.model.forget();
        p.model
            .script("coder", [Answer::calls("", &[done("Written.")])]);
        let form = json!({"message_id": root, "collaborators": agents, "goal": GOAL, "client_id": failpoint});
        let server = TestProcess::start(&p.place, &p.model, &[("FAILPOINT", failpoint)]).await;
        p.ada.at(&server.base).try_post(&path, form.clone()).await;
        server.exited().await;
        let (server, ada) = p.start(&[]).await;
        let begun = ada.post(&path, form).await.ok();
        ada.completed(&text(&begun, "/task/id")).await;
        let fork = text(&begun, "/fork/id");
        assert_eq!(ada.contents_in(&fork).await[1], "Written.", "{failpoint}");
        p.model.asked_once("coder").await;
        ada.act(&format!("/v1/forks/{fork}/abandon")).await.is(200);
        server.kill().await;
    }
}
