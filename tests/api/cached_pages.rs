//! The newest page of a thread, which the server caches as bytes, always equals the one in the database.

use openvibe::{
    db::{Conn, DbError},
    ids::MessageId,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Gate, Person, Team, id, list, team, team_with, text, within};

fn newest(thread: &str) -> String {
    format!("/v1/threads/{thread}/messages")
}

/// Returns the newest page of a short thread. Panics if it differs from the page that the server reads from the database.
async fn page(reader: &Person, thread: &str) -> Vec<Value> {
    let stored = reader.get(&format!("{}?limit=49", newest(thread))).await;
    let (stored, mut read) = (stored.ok(), Value::Null);
    for path in [newest(thread), format!("{}?limit=50", newest(thread))] {
        read = reader.get(&path).await.ok();
        assert_eq!(read, stored, "{path}");
    }
    list(&read, "/data")
}

/// Replaces the text of a message in the database, without an event.
async fn overwrite(t: &Team, message: &str, content: &'static str) {
    let message: MessageId = message.parse().unwrap();
    let overwrite = async move |c: &mut Conn| {
        c.q("update messages set content = $2 where id = $1")
            .bind(message)
            .bind(content)
            .run()
            .await
    };
    let written: Result<u64, DbError> = t.app.db().write(Uuid::nil(), overwrite).await;
    assert_eq!(written.unwrap(), 1);
}

async fn content(reader: &Person, thread: &str) -> String {
    let page = reader.get(&newest(thread)).await.ok();
    text(&page, "/data/0/content")
}

#[tokio::test]
async fn a_page_is_read_again_only_after_an_event_of_its_channel_or_the_workspace() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Stored").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let random = id(&t.ada.channel("random").await);
    assert_eq!(content(&t.ada, &thread).await, "Stored");
    overwrite(&t, &root, "Overwritten").await;
    for reader in [&t.ada, &t.bo] {
        assert_eq!(content(reader, &thread).await, "Stored", "the kept page");
    }
    t.bo.thread(&random, "Elsewhere").await;
    assert_eq!(content(&t.bo, &thread).await, "Stored", "another channel");
    t.bo.thread(&t.general, "Another thread").await;
    assert_eq!(content(&t.bo, &thread).await, "Overwritten");
    overwrite(&t, &root, "Again").await;
    assert_eq!(content(&t.bo, &thread).await, "Overwritten");
    t.app.join(&t.ada, "Cy", "member").await;
    assert_eq!(content(&t.bo, &thread).await, "Again");
}

#[tokio::test]
async fn a_page_far_behind_the_log_is_read_again() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let started = t.ada.start(&t.general, "Stored").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let random = id(&t.ada.channel("random").await);
    let elsewhere = t.ada.thread(&random, "Elsewhere").await;
    assert_eq!(content(&t.ada, &thread).await, "Stored");
    overwrite(&t, &root, "Overwritten").await;
    for n in 0..60 {
        t.ada.say(&elsewhere, &n.to_string()).await;
    }
    assert_eq!(content(&t.ada, &thread).await, "Stored");
    for n in 0..101 {
        t.ada.say(&elsewhere, &n.to_string()).await;
    }
    assert_eq!(content(&t.ada, &thread).await, "Overwritten");
}

#[tokio::test]
async fn a_page_shows_each_change_of_its_messages_at_once() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    assert_eq!(page(&t.bo, &thread).await.len(), 1);
    let file = t.bo.upload("note.txt", b"text").await;
    let reply = json!({"content": "Reply", "attachments": [id(&file)]});
    let reply = t.bo.post(&newest(&thread), reply).await.is(201);
    let reply = text(&reply, "/message/id");
    assert_eq!(
        page(&t.bo, &thread).await[1]["attachments"][0]["name"],
        "note.txt"
    );
    let path = format!("/v1/messages/{root}");
    let edit = json!({"content": "Edited"});
    t.ada.patch(&path, edit).await.is(200);
    assert_eq!(page(&t.bo, &thread).await[0]["content"], "Edited");
    let thumb = format!("{path}/reactions/%F0%9F%91%8D");
    t.bo.put(&thumb, json!({})).await.is(200);
    let reactions = page(&t.bo, &thread).await[0]["reactions"].clone();
    assert_eq!(reactions[0]["user_ids"], json!([t.bo.id]));
    t.bo.delete(&thumb).await.is(200);
    assert_eq!(page(&t.bo, &thread).await[0]["reactions"], json!([]));
    t.bo.delete(&format!("/v1/messages/{reply}")).await.is(200);
    let tombstone = page(&t.bo, &thread).await[1].clone();
    assert_eq!(
        (&tombstone["content"], &tombstone["attachments"]),
        (&json!(""), &json!([]))
    );
    let fork = t.ada.start_fork(&thread, &root, json!({"agent_id": null}));
    let fork = id(&fork.await);
    t.ada.say_in(&fork, "Said").await;
    t.ada
        .publish_as(&fork, json!({"headline": "Settled"}))
        .await;
    assert_eq!(page(&t.bo, &thread).await[2]["kind"], "resolution");
}

#[tokio::test]
async fn a_page_shows_the_current_names_of_people_and_agents() {
    let t = team().await;
    let agent = t.ada.make_agent("sage").await;
    let agent_path = format!("/v1/agents/{}", id(&agent));
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let names = async |expected: [&str; 3]| {
        let page = page(&t.ada, &thread).await;
        let names = page.iter().map(|message| text(message, "/author/name"));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    };
    names(["Bo", "Ada", "sage"]).await;
    let renamed = json!({"name": "Boris"});
    t.bo.patch("/v1/auth/me", renamed).await.is(200);
    names(["Boris", "Ada", "sage"]).await;
    let renamed = json!({"display_name": "Sage of Rust"});
    t.ada.patch(&agent_path, renamed).await.is(200);
    names(["Boris", "Ada", "Sage of Rust"]).await;
    let gone = format!("{agent_path}?permanent=true");
    t.ada.delete(&gone).await.ok();
    names(["Boris", "Ada", "Sage of Rust"]).await;

    // The workspace receives no event about a former member's new name.
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.delete(&member).await.ok();
    names(["Boris", "Ada", "Sage of Rust"]).await;
    let renamed = json!({"name": "Bob"});
    t.bo.patch("/v1/auth/me", renamed).await.is(200);
    names(["Bob", "Ada", "Sage of Rust"]).await;
}

#[tokio::test]
async fn a_page_does_not_show_an_account_that_was_erased_in_another_workspace() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let left = t.bo.tell(&thread, "Soon deleted").await;
    t.bo.delete(&format!("/v1/messages/{left}")).await.is(200);
    let member = format!("/v1/members/{}", t.bo.id);
    let second = t
        .ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201);
    let (here, there) = (
        t.ada.in_workspace(&t.ada.workspace),
        t.ada.in_workspace(&id(&second)),
    );
    let invite = there.post("/v1/invites", json!({})).await.is(201);
    let accept = format!("/v1/invites/{}/accept", text(&invite, "/token"));
    t.bo.act(&accept).await.ok();
    here.delete(&member).await.ok();
    assert_eq!(page(&here, &thread).await[0]["author"]["name"], "Bo");
    there.erase(&t.bo).await;
    let authors: Vec<String> = page(&here, &thread)
        .await
        .iter()
        .map(|message| text(message, "/author/name"))
        .collect();
    assert_eq!(authors, ["Deleted account", "Deleted account"]);
}

#[tokio::test]
async fn a_page_shows_an_erased_person_as_a_deleted_account() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.bo.say(&thread, "Kept until the end").await;
    let deleted = t.bo.tell(&thread, "Deleted earlier").await;
    t.bo.delete(&format!("/v1/messages/{deleted}"))
        .await
        .is(200);
    assert_eq!(page(&t.ada, &thread).await[1]["author"]["name"], "Bo");
    t.ada.erase(&t.bo).await;
    let page = page(&t.ada, &thread).await;
    assert!(
        !Value::from(page.clone()).to_string().contains(&t.bo.id),
        "{page:?}"
    );
}

#[tokio::test]
async fn a_page_shows_the_saved_text_of_a_streaming_reply() {
    let t = team().await;
    let gate = Gate::new();
    let long = "Half. ".repeat(1000);
    let answer = Answer::stream().piece(&long).wait(&gate).piece("Whole.");
    t.model().script("vibe", [answer.end()]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    // The server saves the text of a streaming reply without an event.
    within("the text to be saved", async {
        loop {
            let page = t.bo.get(&newest(&thread)).await.ok();
            if page["data"][2]["content"] == long.as_str() {
                assert_eq!(page["data"][2]["state"], "streaming");
                break;
            }
        }
    })
    .await;
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(
        page(&t.bo, &thread).await[2]["content"],
        format!("{long}Whole.")
    );
}

#[tokio::test]
async fn a_kept_page_is_only_for_those_who_can_read_the_thread() {
    let t = team().await;
    let secret = t.ada.private_channel("secret", &[&t.bo]).await;
    let thread = t.ada.thread(&secret, "Between us").await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let (robot, _) = t.bo.make_key(&["agents:use"]).await;
    assert_eq!(page(&t.bo, &thread).await.len(), 1);
    assert_eq!(
        cy.get(&newest(&thread)).await.refused(404),
        "thread_not_found"
    );
    robot.get(&newest(&thread)).await.refused(403);
    let member = format!("/v1/channels/{secret}/members/{}", t.bo.id);
    t.ada.delete(&member).await.ok();
    t.bo.get(&newest(&thread)).await.refused(404);
    assert_eq!(page(&t.ada, &thread).await.len(), 1);
}
