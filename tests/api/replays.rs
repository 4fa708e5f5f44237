//! Replays: an agent's recent replies, written again with a draft.

use serde_json::{Value, json};

use crate::{
    faults::prepared,
    support::{
        Answer, Gate, ModelsFile, Person, Reply, id, list, number, team, team_with, text,
        unknown_id,
    },
    tools_loop::reader,
};

fn path_of(agent: &Value) -> String {
    format!("/v1/agents/{}/replays", id(agent))
}

pub fn draft() -> Value {
    json!({"draft": {"instructions": "You are Sage, and brief.", "temperature": 0.3}})
}

pub async fn read(by: &Person, task: &str) -> Reply {
    by.get(&format!("/v1/tasks/{task}/replay")).await
}

/// Starts a replay; returns its root task.
pub async fn started(by: &Person, agent: &Value, form: Value) -> String {
    let queued = by.post(&path_of(agent), form).await.is(202);
    text(&queued, "/task/id")
}

/// Starts a replay and waits until it has completed; returns its root task and its cases.
async fn replayed(by: &Person, agent: &Value, form: Value) -> (String, Value) {
    let task = started(by, agent, form).await;
    by.completed(&task).await;
    let cases = read(by, &task).await.ok();
    (task, cases)
}

/// Asks `sage` in a new thread and waits until the task has completed; returns the message and the task.
pub async fn asked(by: &Person, channel: &str, question: &str) -> (String, String) {
    let thread = by.thread(channel, "Root").await;
    let said = by.say(&thread, &format!("@sage {question}")).await;
    let task = text(&said, "/tasks/0/id");
    by.completed(&task).await;
    (text(&said, "/message/id"), task)
}

#[tokio::test]
async fn a_reply_is_written_again_with_the_draft_and_nothing_is_posted() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    t.model().script(
        "sage",
        [Answer::text("On Monday."), Answer::text("Monday.")],
    );
    let (_, reply) = asked(&t.bo, &t.general, "which day?").await;
    let counts = async || {
        let mut counts = Vec::new();
        for table in [
            "messages",
            "memories",
            "task_contexts",
            "agent_versions",
            "actions",
        ] {
            counts.push(t.app.place.count(table).await);
        }
        counts
    };
    let before = counts().await;
    let (task, replay) = replayed(&t.ada, &sage, draft()).await;
    assert_eq!(counts().await, before);
    let cases = list(&replay, "/cases");
    assert_eq!((cases.len(), &replay["skipped"]), (1, &json!([])));
    let case = &cases[0];
    assert_eq!(
        (&case["task_id"], &case["asked"]),
        (&json!(reply), &json!("which day?"))
    );
    assert_eq!(
        (&case["status"], &case["partial"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(case["before"]["text"], "On Monday.");
    assert_eq!(case["after"]["text"], "Monday.");
    for field in ["would_call", "error"] {
        assert_eq!(case["after"][field], Value::Null);
    }
    assert_eq!(case["before"]["model"], case["after"]["model"]);
    assert!(number(case, "/before/tokens") > 0 && number(case, "/after/tokens") > 0);
    let requests = t.model().asked("sage", 2).await;
    assert_eq!(requests[1].instructions(), "You are Sage, and brief.");
    assert_eq!(requests[1].body["temperature"], 0.3);
    assert_eq!(requests[1].turns(), requests[0].turns());
    let calls =
        "select purpose || ' ' || outcome from model_calls where purpose <> 'reply' order by id";
    assert_eq!(t.app.place.texts(calls).await, ["replay completed"]);
    let used = t.ada.get(&format!("/v1/usage?user_id={}", t.ada.id)).await;
    assert_eq!(number(&used.ok(), "/total/output_tokens"), 7);
    let root = t.ada.task(&task).await;
    assert_eq!(
        (&root["kind"], &root["trigger_message_id"]),
        (&json!("replay"), &Value::Null)
    );
}

#[tokio::test]
async fn a_stored_version_can_be_tried() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let path = format!("/v1/agents/{}", id(&sage));
    let change = json!({"instructions": "You are Sage, and long."});
    t.ada.patch(&path, change).await.is(200);
    asked(&t.ada, &t.general, "which day?").await;
    replayed(&t.ada, &sage, json!({"version": 1})).await;
    let requests = t.model().asked("sage", 2).await;
    assert_eq!(requests[0].instructions(), "You are Sage, and long.");
    assert_eq!(requests[1].instructions(), "You are Sage, made for a test.");
    let unknown = t.ada.post(&path_of(&sage), json!({"version": 9})).await;
    assert_eq!(unknown.refused(404), "version_not_found");
}

#[tokio::test]
async fn a_call_would_ask_if_another_member_wrote_a_text_that_the_draft_keeps() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let tools = json!([{"type": "web_fetch"}]);
    let sage = reader(&t.bo, "sage", json!({"tools": tools})).await;
    asked(&cy, &t.general, "which day?").await;
    let own = json!({"instructions": "You are Sage, and brief.", "tools": [{"type": "web_fetch", "max_uses": 9}]});
    for (draft, would_ask) in [(json!({}), true), (own, false)] {
        let url = json!({"url": "https://127.0.0.1/days"});
        let calls = Answer::calls("", &[("web_fetch", url)]);
        t.model().script("sage", [calls]);
        let (_, replay) = replayed(&cy, &sage, json!({"draft": draft})).await;
        let call = &replay["cases"][0]["after"]["would_call"];
        assert_eq!(call["would_ask"], would_ask, "{replay}");
    }
}

#[tokio::test]
async fn a_case_ends_at_its_first_call_and_no_tool_runs() {
    let t = team().await;
    let sage = reader(&t.ada, "sage", json!({})).await;
    t.model().script(
        "sage",
        [
            Answer::text("It is 40 euros."),
            Answer::calls(
                "Let me look.",
                &[
                    ("search_messages", json!({"query": "zebra"})),
                    ("read_thread", json!({"thread_id": "none"})),
                ],
            ),
        ],
    );
    asked(&t.ada, &t.general, "what does it cost?").await;
    let (_, replay) = replayed(&t.ada, &sage, json!({"draft": {}})).await;
    let after = &replay["cases"][0]["after"];
    assert_eq!(after["text"], "Let me look.");
    let call =
        json!({"name": "search_messages", "arguments": {"query": "zebra"}, "would_ask": false});
    assert_eq!(after["would_call"], call);
    assert_eq!(t.app.place.count("actions").await, 0);
    let requests = t.model().asked("sage", 2).await;
    assert!(!requests[0].offered().is_empty());
    assert_eq!(requests[1].offered(), requests[0].offered());
}

#[tokio::test]
async fn twenty_replays_post_no_message_and_run_no_tool() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let sage = reader(&t.ada, "sage", json!({})).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for n in 0..21 {
        let task = t.ada.ask(&thread, &format!("@sage question {n}")).await;
        t.ada.completed(&task).await;
    }
    let messages = t.app.place.count("messages").await;
    let looks = (0..20).map(|_| Answer::calls("", &[("search_messages", json!({"query": "x"}))]));
    t.model().script("sage", looks);
    let (_, replay) = replayed(&t.ada, &sage, draft()).await;
    let cases = list(&replay, "/cases");
    assert_eq!(cases.len(), 20);
    assert_eq!(cases[0]["asked"], "question 20");
    assert!(
        cases
            .iter()
            .all(|case| case["after"]["would_call"]["name"] == "search_messages")
    );
    assert_eq!(t.app.place.count("messages").await, messages);
    assert_eq!(t.app.place.count("actions").await, 0);
    let few = json!({"draft": {}, "count": 2});
    assert_eq!(
        list(&replayed(&t.ada, &sage, few).await.1, "/cases").len(),
        2
    );
}

#[tokio::test]
async fn an_estimate_calls_no_model_and_stores_nothing() {
    let file = ModelsFile::of("context_window = 200000\ninput_usd = 1.0\noutput_usd = 1.0\n");
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let sage = t.ada.make_agent("sage").await;
    let path = format!("{}?estimate=true", path_of(&sage));
    let none = t.ada.post(&path, draft()).await.is(200);
    assert_eq!((number(&none, "/cases"), number(&none, "/calls")), (0, 0));
    asked(&t.ada, &t.general, "which day?").await;
    let events = t.ada.events().await.len();
    let rows = t.app.place.row_counts().await;
    let estimate = t.ada.post(&path, draft()).await.is(200);
    assert_eq!(
        (number(&estimate, "/cases"), number(&estimate, "/calls")),
        (1, 1)
    );
    assert!(number(&estimate, "/input_tokens") > 0, "{estimate}");
    assert!(
        estimate["cost_usd_max"].as_f64().unwrap() > 0.0,
        "{estimate}"
    );
    assert_eq!(t.app.place.row_counts().await, rows);
    assert_eq!(t.ada.events().await.len(), events);
    assert_eq!(t.model().asked("sage", 1).await.len(), 1);
}

#[tokio::test]
async fn only_its_requester_sees_a_replay() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let sage = t.ada.make_agent("sage").await;
    asked(&t.ada, &t.general, "which day?").await;
    let (task, _) = replayed(&t.bo, &sage, draft()).await;
    let zoe = t.app.founder("Zoe").await;
    for other in [&t.ada, &zoe] {
        assert_eq!(read(other, &task).await.refused(404), "task_not_found");
        for path in [
            format!("/v1/tasks/{task}"),
            format!("/v1/tasks/{task}/tree"),
        ] {
            other.get(&path).await.refused(404);
        }
        let cancel = format!("/v1/tasks/{task}/cancel");
        other.post(&cancel, json!({})).await.refused(404);
    }
    let is_replay = |task: &Value| task["kind"] == "replay";
    let in_events = |events: Vec<Value>| {
        let mut events = events.into_iter();
        events.any(|event| is_replay(&event["data"]["task"]))
    };
    assert!(in_events(t.bo.events().await));
    assert!(!in_events(t.ada.events().await));
    let tasks = t.ada.get("/v1/tasks?limit=100").await.ok();
    assert!(!list(&tasks, "/data").iter().any(is_replay));
    let tasks = t.bo.get("/v1/tasks?limit=100").await.ok();
    assert_eq!(
        list(&tasks, "/data")
            .iter()
            .filter(|task| is_replay(task))
            .count(),
        2
    );
    let unknown = unknown_id("task");
    assert_eq!(read(&t.bo, &unknown).await.refused(404), "task_not_found");
}

#[tokio::test]
async fn parts_for_other_people_are_not_sent() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let fact = json!({"text": "The harbor ferry starts at Pier 4711", "kind": "fact"});
    t.bo.post("/v1/memories", fact).await.is(201);
    asked(&t.bo, &t.general, "where does the harbor ferry start?").await;
    let (_, own) = replayed(&t.bo, &sage, draft()).await;
    let (_, others) = replayed(&t.ada, &sage, draft()).await;
    let requests = t.model().asked("sage", 3).await;
    let sent: Vec<bool> = (requests.iter())
        .map(|request| request.all().contains("4711"))
        .collect();
    assert_eq!(sent, [true, true, false]);
    assert_eq!(own["cases"][0]["partial"], false);
    assert_eq!(others["cases"][0]["partial"], true);
}

#[tokio::test]
async fn replies_in_conversations_of_others_are_not_replayed() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let plans = t.bo.private_channel("plans", &[&t.ada]).await;
    let secret = t.bo.private_channel("secret", &[]).await;
    asked(&t.bo, &secret, "what is hidden?").await;
    let refused = t.ada.post(&path_of(&sage), draft()).await;
    assert_eq!(refused.refused(422), "nothing_to_replay");
    let (_, reply) = asked(&t.bo, &plans, "which day?").await;
    let (task, replay) = replayed(&t.ada, &sage, draft()).await;
    assert_eq!(list(&replay, "/cases").len(), 1);
    assert!(!replay.to_string().contains("hidden"), "{replay}");
    let membership = format!("/v1/channels/{plans}/members/{}", t.ada.id);
    t.bo.delete(&membership).await.is(204);
    let skipped = json!({"cases": [], "skipped": [{"task_id": reply, "reason": "not_readable"}]});
    assert_eq!(read(&t.ada, &task).await.ok(), skipped);
}

#[tokio::test]
async fn an_expired_prompt_is_skipped() {
    let mut t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let (_, reply) = asked(&t.ada, &t.general, "which day?").await;
    t.app.stop().await;
    t.app.place.run(&["delete from context_texts"]).await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    let (_, replay) = replayed(&ada, &sage, draft()).await;
    let skipped = json!({"cases": [], "skipped": [{"task_id": reply, "reason": "expired"}]});
    assert_eq!(replay, skipped);
    assert_eq!(t.app.model.asked("sage", 1).await.len(), 1);
}

#[tokio::test]
async fn a_deleted_message_leaves_no_text_in_a_replay() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    t.model().script(
        "sage",
        [Answer::text("Noted."), Answer::text("The zebrafish swims.")],
    );
    let (message, _) = asked(&t.ada, &t.general, "feed the zebrafish").await;
    let (task, replay) = replayed(&t.ada, &sage, draft()).await;
    assert!(replay.to_string().contains("zebrafish"));
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    let case = read(&t.ada, &task).await.ok()["cases"][0].clone();
    assert_eq!(
        (&case["asked"], &case["after"]["text"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(case["before"]["text"], "Noted.");
    assert_eq!(
        t.app.place.places_of("zebrafish").await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn an_answer_about_a_message_that_was_deleted_meanwhile_is_not_stored() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let gate = Gate::new();
    t.model().script(
        "sage",
        [
            Answer::text("Noted."),
            Answer::stream()
                .wait(&gate)
                .piece("The zebrafish swims.")
                .end(),
        ],
    );
    let (message, reply) = asked(&t.ada, &t.general, "feed the zebrafish").await;
    let task = started(&t.ada, &sage, draft()).await;
    gate.reached().await;
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    gate.open();
    t.ada.completed(&task).await;
    let skipped = json!({"cases": [], "skipped": [{"task_id": reply, "reason": "deleted"}]});
    assert_eq!(read(&t.ada, &task).await.ok(), skipped);
    assert_eq!(
        t.app.place.places_of("zebrafish").await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn one_replay_runs_at_a_time_and_can_be_stopped() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    asked(&t.ada, &t.general, "which day?").await;
    let gate = Gate::new();
    t.model().script(
        "sage",
        [Answer::stream().wait(&gate).piece("Monday.").end()],
    );
    let task = started(&t.ada, &sage, draft()).await;
    gate.reached().await;
    let second = t.ada.post(&path_of(&sage), draft()).await;
    assert_eq!(second.refused(409), "replay_active");
    let during = read(&t.ada, &task).await.ok();
    assert_eq!(during["cases"][0]["after"], Value::Null);
    let cancel = format!("/v1/tasks/{task}/cancel");
    let stopped = t.ada.post(&cancel, json!({})).await.is(200);
    assert_eq!(stopped["status"], "cancelled");
    t.model().given_up(1).await;
    let case = read(&t.ada, &task).await.ok()["cases"][0].clone();
    assert_eq!(
        (&case["status"], &case["after"]),
        (&json!("cancelled"), &Value::Null)
    );
    replayed(&t.ada, &sage, draft()).await;
    // Another person can have a replay at the same time.
    replayed(&t.bo, &sage, draft()).await;
}

#[tokio::test]
async fn a_failed_call_is_shown_with_its_case() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    t.model()
        .script("sage", [Answer::text("Monday."), Answer::status(400, "{}")]);
    asked(&t.ada, &t.general, "which day?").await;
    let (_, replay) = replayed(&t.ada, &sage, draft()).await;
    let case = &replay["cases"][0];
    assert_eq!(case["status"], "failed");
    assert_eq!(case["after"]["error"]["code"], "bad_request");
    assert_eq!(case["after"]["text"], Value::Null);
}

#[tokio::test]
async fn invalid_replays_are_refused() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    for form in [
        json!({}),
        json!({"draft": {}, "version": 1}),
        json!({"draft": {}, "count": 0}),
        json!({"draft": {}, "count": 21}),
        json!({"draft": {"temperature": 9}}),
    ] {
        let refused = t.ada.post(&path_of(&sage), form.clone()).await;
        assert_eq!(refused.refused(422), "invalid_value", "{form}");
    }
    let refused = t.ada.post(&path_of(&sage), json!({"drafts": {}})).await;
    refused.refused(400);
    let cy = t.app.join(&t.ada, "Cy", "viewer").await;
    cy.post(&path_of(&sage), draft()).await.refused(403);
    let (key, _) = t.ada.make_key(&["agents:read"]).await;
    key.post(&path_of(&sage), draft()).await.refused(403);
}

#[tokio::test]
async fn a_replay_needs_a_model() {
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    let sage = t.ada.make_agent("sage").await;
    asked(&t.ada, &t.general, "which day?").await;
    for query in ["", "?estimate=true"] {
        let path = format!("{}{query}", path_of(&sage));
        let refused = t.ada.post(&path, draft()).await;
        assert_eq!(refused.refused(422), "no_model");
    }
}

async fn exported(of: &Person) -> Value {
    of.get(&format!("/v1/members/{}/export", of.id))
        .await
        .is(200)
}

#[tokio::test]
async fn an_export_contains_the_answers_of_own_replays() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    t.model()
        .script("sage", [Answer::text("Noted."), Answer::text("Monday.")]);
    asked(&t.ada, &t.general, "which day?").await;
    replayed(&t.bo, &sage, draft()).await;
    let own = exported(&t.bo).await;
    assert_eq!(own["replays"][0]["agent_id"], sage["id"]);
    assert!(text(&own, "/replays/0/text").contains("Monday."));
    assert_eq!(exported(&t.ada).await["replays"], json!([]));
}

#[tokio::test]
async fn each_case_is_stored_once_after_a_crash() {
    for failpoint in ["model_call_ended:1", "replay_store:1", "replay_stored:1"] {
        let p = prepared().await;
        let (server, ada) = p.start(&[]).await;
        let sage = ada.make_agent("sage").await;
        for n in 0..2 {
            let task = ada.ask(&p.thread, &format!("@sage question {n}")).await;
            ada.completed(&task).await;
        }
        server.kill().await;
        let (server, ada) = p.start(&[("FAILPOINT", failpoint)]).await;
        drop(ada.try_post(&path_of(&sage), draft()).await);
        server.exited().await;
        let (server, ada) = p.start(&[]).await;
        let tasks = ada.get("/v1/tasks?limit=100").await.ok();
        let tasks = list(&tasks, "/data").into_iter();
        let mut replays: Vec<Value> = tasks.filter(|task| task["kind"] == "replay").collect();
        assert_eq!(replays.len(), 3, "{failpoint}");
        replays.retain(|task| task["parent_task_id"].is_null());
        let root = id(&replays[0]);
        ada.completed(&root).await;
        let cases = list(&read(&ada, &root).await.ok(), "/cases");
        let questions: Vec<&Value> = cases.iter().map(|case| &case["asked"]).collect();
        assert_eq!(questions, ["question 1", "question 0"], "{failpoint}");
        assert!(
            cases.iter().all(|case| case["after"]["text"] == "Fine."),
            "{failpoint}"
        );
        server.kill().await;
    }
}
