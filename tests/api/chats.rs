//! Chats of a person with an agent: titles and deletion.

use openvibe::db::{Conn, DbError, Json};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    schedules,
    support::{
        Answer, Gate, ModelServer, Person, Team, TestDatabase, TestProcess, id, list,
        sign_up_with_workspace, team, text, within,
    },
};

const SECRET: &str = "xyzzy-chat-4712";
/// Tables with rows of threads.
const TABLES: [&str; 18] = [
    "adaptation_states",
    "bindings",
    "catch_ups",
    "compactions",
    "conversations",
    "follows",
    "forks",
    "grants",
    "inbox_items",
    "memories",
    "message_mentions",
    "messages",
    "reads",
    "resolutions",
    "runs",
    "schedules",
    "tasks",
    "thread_removals",
];

/// A person's direct channel with an agent.
pub async fn channel_with(person: &Person, agent: &str) -> String {
    let agent = id(&person.agent(agent).await);
    let direct = person.post("/v1/direct", json!({"agent_id": agent})).await;
    id(&direct.ok())
}

/// Starts a chat and waits for the reply. Returns the response of the start, and the task.
pub async fn chat(person: &Person, content: &str) -> (Value, Value) {
    let channel = channel_with(person, "vibe").await;
    let started = person.start(&channel, content).await;
    let task = person.completed(&text(&started, "/tasks/0/id")).await;
    (started, task)
}

async fn count(t: &Team, sql: &'static str) -> i64 {
    let mut c = t.app.db().read().await.unwrap();
    c.q(sql).value().await.unwrap()
}

/// Waits until all deleted threads have been removed.
pub async fn removed(t: &Team) {
    within("the removal of deleted threads", async {
        while count(t, "select count(*) from thread_removals").await > 0 {
            crate::support::pause().await;
        }
    })
    .await;
}

/// Waits until a text is not stored anywhere.
pub async fn forgotten(t: &Team, word: &str) {
    within("the text to be removed", async {
        loop {
            let places = t.app.place.places_of(word).await;
            if places.is_empty() {
                break;
            }
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_chat_is_hidden_at_once_and_removed_everywhere() {
    let t = team().await;
    let bytes = "select cast(sum(message_bytes + file_bytes) as bigint) from workspace_sizes";
    let before = count(&t, bytes).await;
    t.model()
        .script("vibe", [Answer::text(&format!("I noted {SECRET}."))]);
    let (started, task) = chat(&t.bo, &format!("Remember {SECRET}")).await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let channel = text(&started, "/thread/channel_id");
    t.bo.patch(
        &format!("/v1/threads/{thread}"),
        json!({"title": format!("About {SECRET}")}),
    )
    .await
    .is(200);
    let file =
        t.bo.upload(&format!("{SECRET}.txt"), SECRET.as_bytes())
            .await;
    let with_file =
        json!({"content": "See the file", "attachments": [id(&file)], "client_id": "once"});
    let messages = format!("/v1/threads/{thread}/messages");
    let posted = t.bo.post(&messages, with_file).await.is(201);
    t.bo.completed(&text(&posted, "/tasks/0/id")).await;
    let fork =
        t.bo.start_fork(
            &thread,
            &root,
            json!({"description": SECRET, "agent_id": null}),
        )
        .await;
    let fork = id(&fork);
    let in_fork = json!({"content": format!("{SECRET} in depth")});
    t.bo.post(&format!("/v1/forks/{fork}/messages"), in_fork)
        .await
        .is(201);
    t.bo.put(&format!("/v1/messages/{root}/saved"), json!({}))
        .await
        .is(200);
    schedules::created(&t.bo, json!({"thread_id": thread}), json!({})).await;
    let other = t.bo.thread(&channel, "Another chat").await;
    assert!(!t.app.place.places_of(SECRET).await.is_empty());
    let mut socket = t.bo.socket().await;

    let path = format!("/v1/threads/{thread}");
    t.bo.delete(&path).await.is(204);
    let event = socket.of("thread.deleted").await;
    assert_eq!(event["thread_id"], json!(thread));
    assert_eq!(
        event["data"],
        json!({"thread_id": thread, "channel_id": channel})
    );
    for gone in [
        path.clone(),
        messages,
        format!("/v1/messages/{root}"),
        format!("/v1/forks/{fork}"),
        format!("/v1/tasks/{}", id(&task)),
        format!("/v1/tasks/{}/context", id(&task)),
        format!("/v1/files/{}", id(&file)),
    ] {
        t.bo.get(&gone).await.refused(404);
    }
    t.bo.delete(&path).await.refused(404);
    let threads = t.bo.get(&format!("/v1/channels/{channel}/threads")).await;
    let threads = list(&threads.ok(), "/data");
    assert_eq!(threads.len(), 1);
    assert_eq!(id(&threads[0]), other);
    for path in [
        format!("/v1/search?q={SECRET}"),
        "/v1/following".to_owned(),
        "/v1/inbox".to_owned(),
        "/v1/inbox?state=later".to_owned(),
        "/v1/channels?limit=100".to_owned(),
        "/v1/schedules".to_owned(),
        "/v1/tasks".to_owned(),
        "/v1/snapshot".to_owned(),
        "/v1/memories".to_owned(),
    ] {
        let reply = t.bo.get(&path).await;
        assert!(!reply.text.contains(&thread), "{path}: {}", reply.text);
    }

    removed(&t).await;
    forgotten(&t, SECRET).await;
    let uuid = thread_uuid(&thread);
    for table in TABLES {
        let sql: &'static str = format!("select count(*) from {table} where thread_id = $1").leak();
        let mut c = t.app.db().read().await.unwrap();
        let rows: i64 = c.q(sql).bind(uuid).value().await.unwrap();
        drop(c);
        assert_eq!(rows, 0, "{table}");
    }
    t.bo.delete(&format!("/v1/threads/{other}")).await.is(204);
    removed(&t).await;
    assert_eq!(count(&t, bytes).await, before, "nothing counts anymore");
    let events = t.bo.get("/v1/events?after=0&limit=100").await;
    assert!(!events.text.contains(SECRET));
    assert!(events.text.contains("thread.deleted"));
    // A client ID of the chat can be used again.
    let again = json!({"content": "New", "client_id": "once"});
    t.bo.post(&format!("/v1/channels/{channel}/threads"), again)
        .await
        .is(201);
}

fn thread_uuid(thread: &str) -> Uuid {
    thread.parse::<openvibe::ids::ThreadId>().unwrap().0
}

#[tokio::test]
async fn a_removal_interrupted_by_a_crash_is_completed_at_startup() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("RATE_LIMITS", "off")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let (started, _) = chat(&ada, SECRET).await;
    let thread = text(&started, "/thread/id");
    let path = format!("/v1/threads/{thread}");
    ada.patch(&path, json!({"auto_reply": false})).await.is(200);
    // More messages than one transaction removes.
    for n in 0..510 {
        ada.tell(&thread, &format!("{SECRET} {n}")).await;
    }
    server.kill().await;
    let armed = [settings[0], ("FAILPOINT", "removing_thread:1")];
    let server = TestProcess::start(&place, &model, &armed).await;
    let ada = ada.at(&server.base);
    // The server crashes before or after it responds.
    ada.try_delete(&path).await;
    server.exited().await;
    assert!(!place.places_of(SECRET).await.is_empty());
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = ada.at(&server.base);
    ada.get(&path).await.refused(404);
    within("the removal to be finished", async {
        while !place.places_of(SECRET).await.is_empty() {
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn other_threads_and_chats_of_others_cannot_be_deleted() {
    let t = team().await;
    let (started, _) = chat(&t.bo, "Mine").await;
    let chat = format!("/v1/threads/{}", text(&started, "/thread/id"));
    t.ada.delete(&chat).await.refused(404);
    let public = format!("/v1/threads/{}", t.bo.thread(&t.general, "Root").await);
    for who in [&t.ada, &t.bo] {
        assert_eq!(who.delete(&public).await.refused(403), "not_deletable");
    }
    let direct =
        t.bo.post("/v1/direct", json!({"member_ids": [t.ada.id]}))
            .await;
    let direct = t.bo.thread(&id(&direct.ok()), "For both").await;
    let direct = format!("/v1/threads/{direct}");
    assert_eq!(t.bo.delete(&direct).await.refused(403), "not_deletable");
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    reader.delete(&chat).await.refused(403);
    t.bo.get(&chat).await.is(200);
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    writer.delete(&chat).await.is(204);
}

#[tokio::test]
async fn admins_can_delete_an_example() {
    let t = team().await;
    let started = t.ada.start(&t.general, "An example").await;
    let root = text(&started, "/message/id").parse::<openvibe::ids::MessageId>();
    let root = root.unwrap();
    let mark = async move |c: &mut Conn| {
        c.q("update messages set metadata = $2 where id = $1")
            .bind(root)
            .bind(Json(json!({"example": true})))
            .run()
            .await
    };
    let marked: Result<u64, DbError> = t.app.db().write(Uuid::nil(), mark).await;
    assert_eq!(marked.unwrap(), 1);
    let path = format!("/v1/threads/{}", text(&started, "/thread/id"));
    assert_eq!(t.bo.delete(&path).await.refused(403), "not_deletable");
    let mut socket = t.bo.socket().await;
    t.ada.delete(&path).await.is(204);
    socket.of("thread.deleted").await;
    t.bo.get(&path).await.refused(404);
    removed(&t).await;
}

#[tokio::test]
async fn a_reply_that_is_being_written_ends_with_its_chat() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream().piece(SECRET).wait(&gate).piece(".").end()],
    );
    let channel = channel_with(&t.bo, "vibe").await;
    let started = t.bo.start(&channel, "Write").await;
    let task = text(&started, "/tasks/0/id");
    gate.reached().await;
    t.bo.delete(&format!("/v1/threads/{}", text(&started, "/thread/id")))
        .await
        .is(204);
    gate.open();
    removed(&t).await;
    t.bo.get(&format!("/v1/tasks/{task}")).await.refused(404);
    forgotten(&t, SECRET).await;
    // The agent's turn in other chats is free.
    chat(&t.bo, "Again").await;
}

/// The title of a chat after its task `title` has ended, and that task.
async fn titled(person: &Person, thread: &str) -> (Value, Value) {
    let task = within("the title", async {
        loop {
            let tasks = person.get("/v1/tasks?limit=100").await.ok();
            let ended = list(&tasks, "/data").into_iter().find(|task| {
                task["kind"] == "title"
                    && task["thread_id"] == thread
                    && !task["completed_at"].is_null()
            });
            if let Some(task) = ended {
                return task;
            }
            crate::support::pause().await;
        }
    })
    .await;
    let found = person.get(&format!("/v1/threads/{thread}")).await.ok();
    (found["title"].clone(), task)
}

#[tokio::test]
async fn a_model_names_a_chat_once_after_the_first_reply() {
    let t = team().await;
    t.model()
        .script("title", [Answer::text("\"Date of the launch.\"")]);
    let (started, _) = chat(&t.bo, "When do we launch?").await;
    let thread = text(&started, "/thread/id");
    let (title, task) = titled(&t.bo, &thread).await;
    assert_eq!(title, "Date of the launch");
    assert_eq!(task["status"], "completed");
    // The second reply does not cause another call, and a person's title stays.
    t.model().script("title", [Answer::text("A second title")]);
    let path = format!("/v1/threads/{thread}");
    t.bo.patch(&path, json!({"title": null})).await.is(200);
    let asked = t.bo.ask(&thread, "And where?").await;
    t.bo.completed(&asked).await;
    let tasks = t.bo.get("/v1/tasks?limit=100").await.ok();
    let titles = list(&tasks, "/data").into_iter();
    assert_eq!(titles.filter(|task| task["kind"] == "title").count(), 1);
    assert_eq!(t.bo.get(&path).await.ok()["title"], json!(null));
}

#[tokio::test]
async fn a_title_of_a_person_stays_and_threads_of_a_team_get_none() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "title",
        [Answer::stream().wait(&gate).piece("By a model").end()],
    );
    let (started, _) = chat(&t.bo, "When do we launch?").await;
    let thread = text(&started, "/thread/id");
    gate.reached().await;
    let path = format!("/v1/threads/{thread}");
    t.bo.patch(&path, json!({"title": "Mine"})).await.is(200);
    gate.open();
    assert_eq!(titled(&t.bo, &thread).await.0, "Mine");
    let shared = t.bo.thread(&t.general, "Root").await;
    let asked = t.bo.ask(&shared, "@vibe when?").await;
    t.bo.completed(&asked).await;
    let tasks = t.bo.get("/v1/tasks?limit=100").await.ok();
    let of_shared = |task: &Value| task["kind"] == "title" && task["thread_id"] == shared.as_str();
    assert!(!list(&tasks, "/data").iter().any(of_shared));
}

#[tokio::test]
async fn a_chat_without_a_model_title_shows_its_first_line() {
    let t = team().await;
    t.model()
        .script("title", [Answer::text("..."), Answer::text("...")]);
    let (started, _) = chat(&t.bo, "When do we launch?").await;
    let (title, task) = titled(&t.bo, &text(&started, "/thread/id")).await;
    assert_eq!(title, json!(null));
    assert_eq!(task["error"]["code"], "bad_response");
}

#[tokio::test]
async fn a_title_disappears_with_the_message_that_it_was_made_from() {
    let t = team().await;
    t.model().script("title", [Answer::text(SECRET)]);
    let (started, _) = chat(&t.bo, "A word, please").await;
    let thread = text(&started, "/thread/id");
    assert_eq!(titled(&t.bo, &thread).await.0, SECRET);
    // Another event contains the title, too.
    let path = format!("/v1/threads/{thread}");
    t.bo.patch(&path, json!({"memory": "off"})).await.is(200);
    let root = text(&started, "/message/id");
    t.bo.delete(&format!("/v1/messages/{root}")).await.is(200);
    assert_eq!(t.bo.get(&path).await.ok()["title"], json!(null));
    forgotten(&t, SECRET).await;
}
