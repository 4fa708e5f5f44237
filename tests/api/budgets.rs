//! Budgets: limits on what model calls use, reserved before each request and settled at its end.

use serde_json::{Value, json};

use crate::{
    faults::prepared,
    support::{
        Answer, Gate, ModelsFile, Person, Team, TestDatabase, id, is_shared_engine, list, number,
        team, team_with, text, unknown_id, within,
    },
};

/// A reply that reports this usage.
fn used(input: i64, output: i64) -> Answer {
    Answer::stream()
        .piece("Yes.")
        .finish("stop")
        .usage(input, output)
        .done()
}

async fn set(admin: &Person, budgets: Value) -> Value {
    let body = json!({"data": budgets});
    admin.put("/v1/budgets", body).await.is(200)
}

async fn budgets(admin: &Person) -> Vec<Value> {
    list(&admin.get("/v1/budgets").await.ok(), "/data")
}

/// A monthly budget of the workspace.
fn monthly(tokens: i64) -> Value {
    json!({"scope": "workspace", "period": "month", "limit_tokens": tokens})
}

fn this_month() -> String {
    chrono::Utc::now().format("%B").to_string()
}

/// Waits until a query returns this number.
async fn until(place: &TestDatabase, sql: &str, wanted: i64) {
    let sql = [sql.to_owned()];
    let reached = async {
        while place.numbers(&sql).await[0] != wanted {
            crate::support::pause().await;
        }
    };
    within(&sql[0], reached).await;
}

async fn all_ended(place: &TestDatabase) {
    let running = "select count(*) from model_calls where outcome = 'running'";
    until(place, running, 0).await;
}

/// Reservation of the only running call.
async fn reserved(place: &TestDatabase) -> i64 {
    let sql = "select reserved from model_calls where outcome = 'running'".to_owned();
    let rows = place.numbers(&[sql]).await;
    assert_eq!(rows.len(), 1);
    rows[0]
}

/// Tokens that the workspace used this month.
async fn tokens(admin: &Person) -> i64 {
    let used = admin.get("/v1/usage").await.ok();
    number(&used, "/total/input_tokens") + number(&used, "/total/output_tokens")
}

/// A program that uses an API key of Ada.
async fn program(t: &Team) -> Person {
    t.ada.make_key(&["chat:read", "agents:use"]).await.0
}

fn call(output_tokens: i64) -> Value {
    json!({"model": "tiny", "input": "Hi", "max_output_tokens": output_tokens})
}

/// Prices of the tests' default model: a dollar for 1,000 tokens.
pub fn priced() -> ModelsFile {
    ModelsFile::of(
        "context_window = 200000\ntools = true\ninput_usd = 1000.0\noutput_usd = 1000.0\n",
    )
}

#[tokio::test]
async fn a_list_of_budgets_is_replaced_as_a_whole_and_can_be_sent_back() {
    let t = team().await;
    let empty = t.ada.get("/v1/budgets").await;
    assert_eq!(empty.header("etag").as_deref(), Some("\"0\""));
    assert_eq!(empty.ok(), json!({"object": "list", "data": []}));
    let vibe = id(&t.ada.agent("vibe").await);
    let stored = set(
        &t.ada,
        json!([
            {"scope": "workspace", "period": "month", "limit_usd": 50.0},
            {"scope": "person", "subject_id": null, "period": "day", "limit_tokens": 9_000, "warn_at": 0.5},
            {"scope": "agent", "subject_id": vibe, "period": "day", "limit_tokens": 8_000},
        ]),
    )
    .await;
    assert_eq!(
        stored["data"][0],
        json!({"scope": "workspace", "subject_id": null, "period": "month", "limit_usd": 50.0, "limit_tokens": null,
            "warn_at": 0.8, "spent": 0.0, "reserved": 0.0, "top_subject_id": null})
    );
    assert_eq!(
        (&stored["data"][1]["warn_at"], &stored["data"][1]["spent"]),
        (&json!(0.5), &json!(0))
    );
    assert_eq!(stored["data"][2]["subject_id"], vibe.as_str());
    let again = t.ada.put("/v1/budgets", stored.clone()).await;
    assert_eq!(again.header("etag").as_deref(), Some("\"2\""));
    assert_eq!(again.ok(), stored);
    set(&t.ada, json!([])).await;
    assert_eq!(budgets(&t.ada).await, Vec::<Value>::new());
    let log = t.ada.get("/v1/audit-log?action=budgets.changed").await.ok();
    assert_eq!(list(&log, "/data").len(), 3);
}

#[tokio::test]
async fn a_stale_or_invalid_list_changes_nothing() {
    let t = team().await;
    set(&t.ada, json!([monthly(1_000)])).await;
    let put = async |version: &str, budgets: Value| {
        let body = json!({"data": budgets}).to_string().into_bytes();
        let headers = [("if-match", version)];
        let method = reqwest::Method::PUT;
        t.ada
            .send(method, "/v1/budgets", &headers, Some(body))
            .await
    };
    let stale = put("\"0\"", json!([])).await;
    assert_eq!(
        stale.json()["error"]["current"]["data"][0]["limit_tokens"],
        1_000
    );
    assert_eq!(stale.refused(409), "version_conflict");
    put("\"1\"", json!([monthly(2_000)])).await.is(200);
    for (budget, status, param) in [
        (
            json!({"scope": "workspace", "period": "week", "limit_tokens": 1}),
            400,
            "data[0].period",
        ),
        (
            json!({"scope": "workspace", "period": "day"}),
            422,
            "data[0].limit_usd",
        ),
        (
            json!({"scope": "workspace", "period": "day", "limit_tokens": 0}),
            422,
            "data[0].limit_tokens",
        ),
        (
            json!({"scope": "person", "subject_id": unknown_id("user"), "period": "day", "limit_tokens": 1}),
            422,
            "data[0].subject_id",
        ),
        (
            json!({"scope": "agent", "subject_id": unknown_id("agent"), "period": "day", "limit_tokens": 1}),
            422,
            "data[0].subject_id",
        ),
        (
            json!({"scope": "agent", "subject_id": t.bo.id, "period": "day", "limit_tokens": 1}),
            422,
            "data[0].subject_id",
        ),
    ] {
        let body = json!({"data": [budget.clone()]});
        let reply = t.ada.put("/v1/budgets", body).await;
        assert_eq!(reply.json()["error"]["param"], param, "{budget}");
        reply.refused(status);
    }
    let many = vec![monthly(1); 101];
    let body = json!({"data": many});
    t.ada.put("/v1/budgets", body).await.refused(422);
    assert_eq!(budgets(&t.ada).await[0]["limit_tokens"], 2_000);
}

#[tokio::test]
async fn members_see_only_the_budgets_that_limit_them() {
    let t = team().await;
    set(
        &t.ada,
        json!([
            monthly(100_000),
            {"scope": "person", "subject_id": t.ada.id, "period": "month", "limit_tokens": 70_000},
            {"scope": "person", "period": "month", "limit_tokens": 60_000},
        ]),
    )
    .await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model().script("vibe", [used(100, 3_900), used(100, 20)]);
    for who in [&t.ada, &t.bo] {
        let task = who.ask(&thread, "@vibe go").await;
        who.completed(&task).await;
    }
    let own = t.bo.get("/v1/budgets?mine=true").await.ok();
    let own = list(&own, "/data");
    assert_eq!(own.len(), 1);
    assert_eq!(
        (&own[0]["limit_tokens"], &own[0]["spent"]),
        (&json!(60_000), &json!(120))
    );
    assert_eq!(t.bo.get("/v1/budgets").await.refused(403), "role_too_low");
    t.bo.put("/v1/budgets", json!({"data": []}))
        .await
        .refused(403);
    let all = budgets(&t.ada).await;
    let spent: Vec<i64> = all.iter().map(|budget| number(budget, "/spent")).collect();
    assert_eq!(spent, [4_120, 4_000, 4_000], "the last is the highest");
    assert_eq!(all[2]["top_subject_id"], t.ada.id.as_str());
}

#[tokio::test]
async fn a_new_budget_starts_with_what_was_used_before() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    t.model().script("vibe", [used(300, 40), held]);
    let task = t.ada.ask(&thread, "@vibe go").await;
    t.ada.completed(&task).await;
    let task = t.ada.ask(&thread, "@vibe go on").await;
    gate.reached().await;
    let running = reserved(&t.app.place).await;
    assert!(running > 4_096, "{running}");
    let both = json!([
        monthly(100_000),
        {"scope": "person", "period": "day", "limit_tokens": 100_000},
        {"scope": "agent", "period": "month", "limit_tokens": 100_000},
    ]);
    for budget in list(&set(&t.ada, both).await, "/data") {
        assert_eq!(
            (number(&budget, "/spent"), number(&budget, "/reserved")),
            (340, running),
            "{budget}"
        );
    }
    gate.open();
    t.ada.completed(&task).await;
    for budget in budgets(&t.ada).await {
        assert_eq!(
            (number(&budget, "/spent"), number(&budget, "/reserved")),
            (340 + 18, 0),
            "{budget}"
        );
    }
}

#[tokio::test]
async fn a_reply_without_budget_fails_at_once_with_a_notice() {
    let t = team().await;
    set(&t.ada, json!([monthly(1_000)])).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe go").await;
    let (task, code) = t.bo.failed(&task).await;
    assert_eq!(code, "budget_exceeded");
    assert_eq!(
        (&task["attempt"], &task["token_usage"]),
        (&json!(1), &Value::Null)
    );
    let notice = t.ada.contents(&thread).await.pop().unwrap();
    let month = this_month();
    assert_eq!(
        notice,
        format!(
            "Vibe could not answer: the workspace has used its 1,000 tokens for {month}. An admin can raise it in Settings › Costs."
        )
    );
    assert_eq!(t.model().requests().len(), 0);
    assert_eq!(t.app.place.count("model_calls").await, 0);

    set(&t.ada, json!([monthly(1_000_000)])).await;
    let task = t.bo.ask(&thread, "@vibe again").await;
    t.bo.completed(&task).await;
}

/// Lets these programs make 25 concurrent calls with a budget for 10 of them.
async fn assert_no_overshoot(t: &Team, programs: &[Person]) {
    // Each call uses 1,000 tokens and reserves between 1,000 and 1,100.
    set(&t.ada, json!([monthly(11_000)])).await;
    let gate = Gate::new();
    let answer = || {
        Answer::stream()
            .piece("Yes.")
            .wait(&gate)
            .finish("stop")
            .usage(10, 990)
            .done()
    };
    t.model().script("", (0..25).map(|_| answer()));
    let programs = programs.iter().cycle().take(25);
    let calls = programs.map(|program| program.post("/v1/responses", call(1_000)));
    let calls = futures::future::join_all(calls);
    let release = async {
        t.model().asked("", 10).await;
        let held = &budgets(&t.ada).await[0];
        assert!(number(held, "/reserved") <= 11_000, "{held}");
        gate.open();
    };
    let (replies, ()) = futures::future::join(calls, release).await;
    let answered = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(answered, 10);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(reply.status, 429, "{}", reply.text);
        assert_eq!(reply.json()["error"]["code"], "insufficient_quota");
        assert!(reply.header("retry-after").is_some());
    }
    assert_eq!(t.model().requests().len(), 10, "refused before the request");
    let after = &budgets(&t.ada).await[0];
    assert_eq!(
        (number(after, "/spent"), number(after, "/reserved")),
        (10_000, 0)
    );
    assert_eq!(tokens(&t.ada).await, 10_000);
}

const MANY_CALLS: [(&str, &str); 2] = [("WORKERS", "200"), ("RATE_LIMITS", "off")];

#[tokio::test]
async fn parallel_calls_cannot_overshoot_a_budget() {
    let t = team_with(&MANY_CALLS).await;
    let program = program(&t).await;
    assert_no_overshoot(&t, &[program]).await;
}

#[tokio::test]
async fn parallel_calls_on_two_nodes_cannot_overshoot_a_budget() {
    if !is_shared_engine() {
        return;
    }
    let t = team_with(&MANY_CALLS).await;
    let second = t.app.beside("two", &[]).await;
    let here = program(&t).await;
    let there = here.at(&second.base);
    assert_no_overshoot(&t, &[here, there]).await;
}

#[tokio::test]
async fn a_reply_waits_while_only_running_calls_are_in_the_way() {
    let t = team().await;
    let (one, two) = (
        t.ada.thread(&t.general, "Root").await,
        t.ada.thread(&t.general, "Root").await,
    );
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    t.model().script("vibe", [held, Answer::text("Two.")]);
    let first = t.ada.ask(&one, "@vibe go").await;
    gate.reached().await;
    let limit = reserved(&t.app.place).await + 1_000;
    set(&t.ada, json!([monthly(limit)])).await;
    let second = t.bo.ask(&two, "@vibe go").await;
    let waits =
        t.bo.event_where("the task to wait", |event| {
            let task = &event["data"]["task"];
            task["id"] == second.as_str() && task["wait_reason"] == "budget"
        })
        .await;
    assert_eq!(waits["data"]["task"]["status"], "queued");
    assert!(waits["data"]["task"]["retry_at"].is_string());
    assert_eq!(t.model().requests().len(), 1);
    gate.open();
    t.ada.completed(&first).await;
    let done = t.bo.completed(&second).await;
    assert_eq!(done["attempt"], 1, "no call was made before");
    assert!(done["wait_reason"].is_null());
    assert_eq!(budgets(&t.ada).await[0]["reserved"], 0);
}

#[tokio::test]
async fn canceled_and_failed_calls_release_what_they_reserved() {
    let t = team().await;
    set(&t.ada, json!([monthly(1_000_000)])).await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    t.model().script("vibe", [held, Answer::status(400, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    gate.reached().await;
    assert_eq!(
        number(&budgets(&t.ada).await[0], "/reserved"),
        reserved(&t.app.place).await
    );
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    all_ended(&t.app.place).await;
    let canceled = &budgets(&t.ada).await[0];
    assert_eq!(number(canceled, "/reserved"), 0);
    assert!(number(canceled, "/spent") > 0, "its prompt counts");
    assert_eq!(number(canceled, "/spent"), tokens(&t.ada).await);

    let task = t.ada.ask(&thread, "@vibe again").await;
    t.ada.failed(&task).await;
    let refused = &budgets(&t.ada).await[0];
    assert_eq!(refused["spent"], canceled["spent"], "refused by the server");
    assert_eq!(number(refused, "/reserved"), 0);
}

#[tokio::test]
async fn a_call_of_a_killed_process_is_settled_once() {
    let p = prepared().await;
    let gate = Gate::new();
    let held = Answer::pieces_open(&["One"]).wait(&gate).end();
    p.model.script("vibe", [held, Answer::text("Whole.")]);
    let file = priced();
    let settings = [("MODELS_FILE", file.path())];
    let (server, ada) = p.start(&settings).await;
    let dollars = json!({"scope": "workspace", "period": "month", "limit_usd": 1_000.0});
    set(&ada, json!([monthly(1_000_000), dollars])).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    gate.reached().await;
    server.kill().await;
    let (server, ada) = p.start(&settings).await;
    ada.completed(&task).await;
    let [tokens_left, dollars_left]: [Value; 2] = budgets(&ada).await.try_into().unwrap();
    let used = tokens(&ada).await;
    assert!(used > 18, "the lost call counts, too");
    assert_eq!(
        (
            number(&tokens_left, "/spent"),
            number(&tokens_left, "/reserved")
        ),
        (used, 0)
    );
    let spent = dollars_left["spent"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand tokens")]
    let expected = used as f64 / 1_000.0;
    assert!((spent - expected).abs() < 1e-6, "{spent}, not {expected}");
    assert_eq!(dollars_left["reserved"], 0.0);
    server.kill().await;
}

#[tokio::test]
async fn dollars_bind_only_models_with_a_known_price() {
    let file = priced();
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let program = program(&t).await;
    let cent = json!({"scope": "workspace", "period": "month", "limit_usd": 0.01});
    set(&t.ada, json!([cent])).await;
    t.model().script("", [Answer::text("Free.")]);
    program.post("/v1/responses", call(100)).await.is(200);
    assert_eq!(budgets(&t.ada).await[0]["spent"], 0.0);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    assert_eq!(t.ada.failed(&task).await.1, "budget_exceeded");
    let notice = t.ada.contents(&thread).await.pop().unwrap();
    assert!(notice.contains("has used its $0.01 for"), "{notice}");

    let enough = json!({"scope": "workspace", "period": "month", "limit_usd": 100.0});
    set(&t.ada, json!([enough])).await;
    t.model().script("vibe", [used(300, 200)]);
    let task = t.ada.ask(&thread, "@vibe again").await;
    let done = t.ada.completed(&task).await;
    assert_eq!(done["token_usage"]["cost_usd"], 0.5);
    assert_eq!(budgets(&t.ada).await[0]["spent"], 0.5);
}

#[tokio::test]
async fn each_person_has_a_budget_of_their_own() {
    let t = team().await;
    let each = json!({"scope": "person", "period": "day", "limit_tokens": 10_000});
    set(&t.ada, json!([each])).await;
    t.model().script("vibe", [used(100, 8_900), used(10, 10)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    t.ada.completed(&task).await;
    let task = t.ada.ask(&thread, "@vibe go on").await;
    assert_eq!(t.ada.failed(&task).await.1, "budget_exceeded");
    let notice = t.ada.contents(&thread).await.pop().unwrap();
    let day = chrono::Utc::now().format("%B %-d").to_string();
    assert!(
        notice.contains(&format!(
            "the requester has used their 10,000 tokens for {day}."
        )),
        "{notice}"
    );
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.completed(&task).await;
    let all = budgets(&t.ada).await;
    assert_eq!(
        (&all[0]["spent"], &all[0]["top_subject_id"]),
        (&json!(9_000), &json!(t.ada.id))
    );
}

#[tokio::test]
async fn a_day_and_an_agent_are_limited_apart_from_the_month() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    set(
        &t.ada,
        json!([
            monthly(1_000_000),
            {"scope": "agent", "subject_id": vibe, "period": "day", "limit_tokens": 100},
        ]),
    )
    .await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe go").await;
    assert_eq!(t.ada.failed(&task).await.1, "budget_exceeded");
    assert_eq!(
        budgets(&t.ada).await[0]["reserved"],
        0,
        "all counters or none"
    );
    let task = t.ada.ask(&thread, "@coder go").await;
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn a_resolution_is_extracted_without_budget() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.say_in(
        &dive.fork,
        "Monday suits everybody. Let's launch on Monday.",
    )
    .await;
    set(&t.ada, json!([monthly(100)])).await;
    let draft = t.ada.drafted(&dive.fork).await;
    assert_eq!(
        (&draft["generated_by"], &draft["fallback_reason"]),
        (&json!("builtin"), &json!("budget_exceeded"))
    );
    assert_eq!(t.model().requests().len(), 0);
}

#[tokio::test]
async fn an_exhausted_budget_does_not_block_the_test_of_a_connection() {
    let t = team().await;
    set(&t.ada, json!([monthly(1)])).await;
    t.model().script("", [Answer::text("OK")]);
    let tested = t.ada.post("/v1/model-test", json!({})).await.is(200);
    assert_eq!(tested["ok"], true, "{tested}");
    assert_eq!(budgets(&t.ada).await[0]["spent"], 18, "it counts");
}

#[tokio::test]
async fn a_draft_that_a_person_waits_for_is_refused_without_budget() {
    let t = team().await;
    set(&t.ada, json!([monthly(100)])).await;
    let description = json!({"description": "Answers questions about the harbor."});
    let refused = t.ada.post("/v1/agents/draft", description).await;
    assert_eq!(refused.refused(429), "insufficient_quota");
    assert_eq!(t.model().requests().len(), 0);
}

#[tokio::test]
async fn admins_are_notified_when_budgets_change_and_when_one_runs_out() {
    let t = team().await;
    set(&t.ada, json!([monthly(20_000)])).await;
    let updates = async |who: &Person| {
        let all = who.events().await.into_iter();
        all.filter(|event| event["type"] == "budget.updated")
            .collect::<Vec<_>>()
    };
    assert_eq!(updates(&t.ada).await.len(), 1);
    t.model()
        .script("vibe", [used(100, 9_900), used(100, 5_900)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.completed(&task).await;
    assert_eq!(updates(&t.ada).await.len(), 1, "half of it is left");
    let task = t.bo.ask(&thread, "@vibe go on").await;
    t.bo.completed(&task).await;
    let events = updates(&t.ada).await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[1]["data"], json!({"version": 1}), "no amounts");
    assert!(updates(&t.bo).await.is_empty());
}

#[tokio::test]
async fn costs_are_shown_to_those_whom_the_policy_names() {
    let file = priced();
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model().script("vibe", vec![used(300, 200); 2]);
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.completed(&task).await;
    let cost = async |who: &Person| who.task(&task).await["token_usage"]["cost_usd"].clone();
    let listed = async |who: &Person| {
        let all = who.get(&format!("/v1/tasks?thread_id={thread}")).await.ok();
        all["data"][0]["token_usage"]["cost_usd"].clone()
    };
    let in_thread = async |who: &Person| {
        let path = format!("/v1/usage?thread_id={thread}");
        who.get(&path).await.ok()["total"]["cost_usd"].clone()
    };
    let own = async || t.bo.get("/v1/usage?user_id=me").await.ok()["total"]["cost_usd"].clone();
    assert_eq!((cost(&t.bo).await, own().await), (json!(0.5), json!(0.5)));
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    assert_eq!(t.ada.get(&policy).await.ok()["show_costs"], "everyone");
    for (rule, for_admins) in [("admins", json!(0.5)), ("off", Value::Null)] {
        let changed = t.ada.patch(&policy, json!({"show_costs": rule})).await;
        assert_eq!(changed.is(200)["show_costs"], rule);
        for seen in [
            cost(&t.bo).await,
            listed(&t.bo).await,
            in_thread(&t.bo).await,
            own().await,
        ] {
            assert_eq!(seen, Value::Null, "{rule}");
        }
        for seen in [
            cost(&t.ada).await,
            listed(&t.ada).await,
            in_thread(&t.ada).await,
        ] {
            assert_eq!(seen, for_admins, "{rule}");
        }
        let all = t.ada.get("/v1/usage").await.ok();
        assert_eq!(all["total"]["cost_usd"], 0.5, "{rule}: of the workspace");
    }
    let task = t.bo.ask(&thread, "@vibe go on").await;
    let event = t.bo.completed(&task).await;
    assert_eq!(event["token_usage"]["cost_usd"], Value::Null);
    assert_eq!(event["token_usage"]["input_tokens"], 300);
    t.ada
        .patch(&policy, json!({"show_costs": "nobody"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn the_built_in_responder_needs_no_budget() {
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    set(&t.ada, json!([monthly(1)])).await;
    let thread = t.ada.thread(&t.general, "We ship on Monday.").await;
    let task = t.bo.ask(&thread, "@vibe when do we ship?").await;
    t.bo.completed(&task).await;
    let budget = &budgets(&t.ada).await[0];
    assert_eq!(
        (&budget["spent"], &budget["reserved"]),
        (&json!(0), &json!(0))
    );
    set(&t.ada, json!([monthly(1)])).await;
    assert_eq!(budgets(&t.ada).await[0]["spent"], 0);
}

#[tokio::test]
async fn a_summary_without_budget_fails_at_once() {
    let t = team().await;
    set(&t.ada, json!([monthly(1)])).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for n in 0..60 {
        t.ada.say(&thread, &format!("Point {n}")).await;
    }
    let path = format!("/v1/threads/{thread}/compactions");
    let begun = t.ada.post(&path, json!({})).await.is(202);
    let (task, code) = t.ada.failed(&text(&begun, "/task/id")).await;
    assert_eq!(
        (code.as_str(), &task["attempt"]),
        ("budget_exceeded", &json!(1))
    );
}

#[tokio::test]
async fn a_notice_does_not_reveal_a_hidden_budget() {
    let file = priced();
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    t.ada
        .patch(&policy, json!({"show_costs": "admins"}))
        .await
        .is(200);
    let cent = json!({"scope": "workspace", "period": "month", "limit_usd": 0.01});
    set(&t.ada, json!([cent])).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.failed(&task).await;
    let notice = t.ada.contents(&thread).await.pop().unwrap();
    assert!(notice.contains("has used its budget for"), "{notice}");
}

#[tokio::test]
async fn usage_is_added_up_for_a_task_a_thread_and_a_dive() {
    let t = team().await;
    let dive = t.dive().await;
    t.model()
        .script("vibe", [used(100, 10), used(200, 20), used(400, 40)]);
    let first = t.ada.ask(&dive.thread, "@vibe go").await;
    t.ada.completed(&first).await;
    let in_fork = t.bo.ask_in(&dive.fork, "@vibe go").await;
    t.bo.completed(&in_fork).await;
    let other = t.ada.thread(&t.general, "Another").await;
    let task = t.ada.ask(&other, "@vibe go").await;
    t.ada.completed(&task).await;
    for (query, tasks, input) in [
        (format!("task_id={first}"), 1, 100),
        (format!("thread_id={}", dive.thread), 2, 300),
        (format!("fork_id={}", dive.fork), 1, 200),
        (format!("thread_id={}&user_id=me", dive.thread), 1, 200),
    ] {
        let found = t.bo.get(&format!("/v1/usage?{query}")).await.ok();
        assert_eq!(
            (
                number(&found, "/total/tasks"),
                number(&found, "/total/input_tokens")
            ),
            (tasks, input),
            "{query}"
        );
    }
    let by = format!("/v1/usage?thread_id={}&group_by=person", dive.thread);
    let people = list(&t.bo.get(&by).await.ok(), "/data");
    let names: Vec<String> = people.iter().map(|row| text(row, "/name")).collect();
    assert_eq!(names, ["Bo", "Ada"], "highest usage first");
    let both = format!("/v1/usage?thread_id={}&fork_id={}", dive.thread, dive.fork);
    t.bo.get(&both).await.refused(400);
    let harbor = t.ada.private_channel("harbor", &[]).await;
    let hidden = t.ada.thread(&harbor, "Root").await;
    t.bo.get(&format!("/v1/usage?thread_id={hidden}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_preview_estimates_what_a_reply_would_reserve() {
    let file = priced();
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let vibe = id(&t.ada.agent("vibe").await);
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/context?agent_id={vibe}");
    let estimate = t.ada.get(&path).await.ok()["estimate"].clone();
    let input = number(&estimate, "/input_tokens");
    assert!(input > 0);
    // 1.5 times the input plus the default output limit, at a dollar per 1,000 tokens.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand tokens")]
    let expected = (input + (input + 1) / 2 + 4_096) as f64 / 1_000.0;
    let cost = estimate["cost_usd_max"].as_f64().unwrap();
    assert!((cost - expected).abs() < 1e-6, "{cost}, not {expected}");
}

#[tokio::test]
async fn an_erased_person_keeps_no_budget() {
    let t = team().await;
    let own = json!({"scope": "person", "subject_id": t.bo.id, "period": "month", "limit_tokens": 50_000});
    let each = json!({"scope": "person", "period": "month", "limit_tokens": 50_000});
    set(&t.ada, json!([own, each])).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe go").await;
    t.bo.completed(&task).await;
    t.ada.erase(&t.bo).await;
    let theirs = "select count(*) from budget_counters k join users u on u.id = k.subject_id";
    until(&t.app.place, theirs, 0).await;
    let left = t.ada.get("/v1/budgets").await.ok();
    assert!(!left.to_string().contains(&t.bo.id), "{left}");
    t.ada.put("/v1/budgets", left).await.is(200);
}
