//! Usage by user, agent, month, and model.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::{
    Answer, ModelServer, Person, Team, TestDatabase, TestProcess, id, list, number, sign_up, team,
    team_with, text, unknown_id,
};

fn answer(text: &str, input: i64, output: i64) -> Answer {
    Answer::stream()
        .piece(text)
        .finish("stop")
        .usage(input, output)
        .done()
}

async fn usage(who: &Person, query: &str) -> Value {
    who.get(&format!("/v1/usage?{query}")).await.is(200)
}

/// The row of a key: tasks, failed, tokens in and out.
fn row(answer: &Value, key: &str) -> [i64; 4] {
    let rows = list(answer, "/data");
    let row = rows.iter().find(|row| row["key"] == key);
    sums(row.unwrap_or_else(|| panic!("no {key} in {answer}")))
}

fn sums(row: &Value) -> [i64; 4] {
    ["/tasks", "/failed", "/input_tokens", "/output_tokens"].map(|field| number(row, field))
}

/// Ada has asked Vibe twice and Coder once, which failed; Bo has asked Vibe once.
async fn used() -> Team {
    let t = team_with(&[("RETRY_DELAYS", "1ms")]).await;
    t.model().script(
        "vibe",
        [
            answer("One.", 100, 10),
            answer("Two.", 200, 20),
            answer("Three.", 400, 40),
        ],
    );
    t.model().script("coder", [Answer::status(400, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    for who in [&t.ada, &t.ada, &t.bo] {
        let task = who.ask(&thread, "@vibe go").await;
        who.completed(&task).await;
    }
    let task = t.ada.ask(&thread, "@coder go").await;
    t.ada.failed(&task).await;
    t
}

fn this_month() -> String {
    chrono::Utc::now().format("%Y-%m").to_string()
}

#[tokio::test]
async fn an_admin_sees_all_usage_by_user_agent_month_and_model() {
    let t = used().await;
    let month = this_month();
    let people = usage(&t.ada, "").await;
    assert_eq!(people["group_by"], "person");
    assert_eq!(
        (&people["from"], &people["to"]),
        (&json!(month), &json!(month))
    );
    assert_eq!(row(&people, &t.ada.id), [3, 1, 300, 30]);
    assert_eq!(row(&people, &t.bo.id), [1, 0, 400, 40]);
    assert_eq!(sums(&people["total"]), [4, 1, 700, 70]);
    assert_eq!(people["data"][0]["name"], "Bo", "who used most comes first");
    assert!(people["total"].get("key").is_none());

    let agents = usage(&t.ada, "group_by=agent").await;
    assert_eq!(
        row(&agents, &id(&t.ada.agent("vibe").await)),
        [3, 0, 700, 70]
    );
    assert_eq!(row(&agents, &id(&t.ada.agent("coder").await)), [1, 1, 0, 0]);
    assert_eq!(agents["data"][0]["name"], "Vibe");

    let months = usage(&t.ada, "group_by=month&from=2020-01").await;
    assert_eq!(row(&months, &month), [4, 1, 700, 70]);
    let models = usage(&t.ada, "group_by=model").await;
    assert_eq!(row(&models, "none"), [1, 1, 0, 0]);
    assert_eq!(list(&models, "/data").len(), 2, "{models}");
    let before = usage(&t.ada, "from=2020-01&to=2020-12").await;
    assert_eq!(
        (list(&before, "/data").len(), sums(&before["total"])),
        (0, [0; 4])
    );
    let of_bo = usage(&t.ada, &format!("user_id={}", t.bo.id)).await;
    assert_eq!(sums(&of_bo["total"]), [1, 0, 400, 40]);
}

#[tokio::test]
async fn other_users_see_only_their_own_usage() {
    let t = used().await;
    for path in [
        "/v1/usage",
        "/v1/usage?group_by=month",
        &format!("/v1/usage?group_by=agent&user_id={}", t.ada.id),
    ] {
        assert_eq!(t.bo.get(path).await.refused(403), "role_too_low", "{path}");
    }
    for by in ["month", "agent", "model"] {
        let own = usage(&t.bo, &format!("group_by={by}&user_id=me")).await;
        assert_eq!(sums(&own["total"]), [1, 0, 400, 40], "{by}");
    }
    let (robot, _) = t.bo.make_key(&["agents:read"]).await;
    robot.get("/v1/usage?user_id=me").await.refused(403);
    t.bo.signed_out().get("/v1/usage").await.refused(401);
}

#[tokio::test]
async fn usage_is_counted_only_in_its_workspace() {
    let t = used().await;
    let other = t.ada.post("/v1/workspaces", json!({"name": "Other"})).await;
    let there = t.ada.in_workspace(&id(&other.is(201)));
    assert_eq!(sums(&usage(&there, "").await["total"]), [0; 4]);
    let of_bo = format!("/v1/usage?user_id={}", t.bo.id);
    there.get(&of_bo).await.refused(404);
    assert!(usage(&there, "").await["total"]["cost_usd"].is_null());
}

#[tokio::test]
async fn api_calls_and_canceled_tasks_are_counted() {
    let t = team().await;
    let (robot, _) = t.ada.make_key(&["chat:read", "agents:use"]).await;
    let reply = robot.post("/v1/responses", json!({"input": "Hello"})).await;
    reply.is(200);
    let agents = usage(&t.ada, "group_by=agent").await;
    let [tasks, failed, input, output] = row(&agents, "none");
    assert_eq!((tasks, failed), (1, 0));
    assert!(input > 0 && output > 0);
    assert_eq!(agents["data"][0]["name"], "No agent");
    t.model().script("vibe", [Answer::stream().silence()]);
    let started = t.ada.start(&t.general, "@vibe wait").await;
    let cancel = format!("/v1/tasks/{}/cancel", text(&started, "/tasks/0/id"));
    t.ada.act(&cancel).await.is(200);
    assert_eq!(sums(&usage(&t.ada, "").await["total"])[0], 2);
}

#[tokio::test]
async fn an_invalid_usage_query_is_rejected() {
    let t = team().await;
    for query in [
        "from=2026",
        "from=2026-13",
        "to=soon",
        "from=2026-03&to=2026-02",
        "group_by=mood",
        "user_id=ada",
        "user_id=agent_01k5t00000e008000000000000",
        "since=2026-01",
    ] {
        let reply = t.ada.get(&format!("/v1/usage?{query}")).await;
        assert!(
            [400, 422].contains(&reply.status),
            "{query}: {}",
            reply.text
        );
    }
    let nobody = format!("/v1/usage?user_id={}", unknown_id("user"));
    assert_eq!(t.ada.get(&nobody).await.refused(404), "member_not_found");
    let unused = usage(&t.ada, &format!("user_id={}", t.bo.id)).await;
    assert_eq!(sums(&unused["total"]), [0; 4]);
}

/// Takes the newest migrations back, as if the program had not known them.
async fn forget_usage(place: &TestDatabase) {
    let sql = [
        "drop table usage",
        "delete from _sqlx_migrations where version = 20261120190000",
    ];
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        for sql in sql {
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut c)
                .await
                .unwrap();
        }
        return;
    }
    let url = format!("sqlite://{}", place.dir.join("data/openvibe.db").display());
    let mut c = sqlx::SqliteConnection::connect(&url).await.unwrap();
    for sql in sql {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut c)
            .await
            .unwrap();
    }
    c.close().await.unwrap();
}

#[tokio::test]
async fn usage_from_before_aggregation_is_counted() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let made = ada
        .post("/v1/workspaces", json!({"name": "Acme"}))
        .await
        .is(201);
    ada.enter(&id(&made)).await;
    model.script("vibe", [answer("One.", 100, 10), answer("Two.", 200, 20)]);
    let thread = ada.thread(&id(&ada.channel("general").await), "Root").await;
    for _ in 0..2 {
        let task = ada.ask(&thread, "@vibe go").await;
        ada.completed(&task).await;
    }
    let queries = ["", "group_by=agent", "group_by=month", "group_by=model"];
    let mut before = Vec::new();
    for query in queries {
        before.push(usage(&ada, query).await);
    }
    server.kill().await;
    forget_usage(&place).await;
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = ada.at(&server.base);
    for (query, before) in queries.iter().zip(before) {
        assert_eq!(usage(&ada, query).await, before, "{query}");
    }
    assert_eq!(sums(&usage(&ada, "").await["total"]), [2, 0, 300, 30]);
}
