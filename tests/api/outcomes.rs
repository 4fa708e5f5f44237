//! Decisions and action items of all resolutions.

use serde_json::{Value, json};

use crate::support::{Person, Team, id, list, team, text, unknown_id};

/// Publishes a resolution of a new fork in this channel; returns it.
async fn result_in(t: &Team, channel: &str, content: Value) -> Value {
    let started = t.ada.start(channel, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    t.ada.publish_as(&fork, content).await["resolution"].clone()
}

async fn result(t: &Team, content: Value) -> Value {
    result_in(t, &t.general, content).await
}

async fn headlines(person: &Person, query: &str) -> Vec<String> {
    let found = person.get(&format!("/v1/decisions{query}")).await.ok();
    list(&found, "/data")
        .iter()
        .map(|r| text(r, "/headline"))
        .collect()
}

/// Texts of the action items that match a query.
async fn items(person: &Person, query: &str) -> Vec<String> {
    let found = person.get(&format!("/v1/action-items{query}")).await.ok();
    list(&found, "/data")
        .iter()
        .map(|i| text(i, "/text"))
        .collect()
}

#[tokio::test]
async fn decisions_are_published_results_listed_newest_first() {
    let t = team().await;
    let first = result(&t, json!({"headline": "One"})).await;
    let second = result(&t, json!({"headline": "Two"})).await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Only a draft"}))
        .await;
    let found = t.bo.get("/v1/decisions").await.ok();
    assert_eq!(list(&found, "/data"), [second, first.clone()]);
    assert_eq!(found["has_more"], false);
    let fork = text(&first, "/fork_id");
    t.bo.reopen(&fork).await;
    assert_eq!(
        headlines(&t.bo, "").await,
        ["Two", "One"],
        "a resolution stays while its fork is reopened"
    );
    t.bo.publish_as(&fork, json!({"headline": "One, again"}))
        .await;
    assert_eq!(headlines(&t.bo, "").await, ["One, again", "Two"]);
}

#[tokio::test]
async fn decisions_are_listed_in_pages() {
    let t = team().await;
    for n in 0..5 {
        result(&t, json!({"headline": n.to_string()})).await;
    }
    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = t.bo.get(&format!("/v1/decisions{query}")).await.ok();
        seen.extend(list(&page, "/data").iter().map(|r| text(r, "/headline")));
        let cursor = page["next_cursor"].as_str();
        assert_eq!(page["has_more"], cursor.is_some());
        let Some(cursor) = cursor else { break };
        if seen.len() == 2 {
            result(&t, json!({"headline": "Newer than the page"})).await;
        }
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["4", "3", "2", "1", "0"]);
    for bad in [
        "cursor=x",
        "cursor=MTIz",
        "limit=0",
        "limit=101",
        "limit=x",
        "colour=red",
        "channel_id=x",
    ] {
        t.bo.get(&format!("/v1/decisions?{bad}")).await.refused(400);
    }
    let threads =
        t.bo.get(&format!("/v1/channels/{}/threads?limit=1", t.general))
            .await
            .ok();
    let foreign = text(&threads, "/next_cursor");
    t.bo.get(&format!("/v1/decisions?cursor={foreign}"))
        .await
        .refused(400);
}

#[tokio::test]
async fn decisions_are_found_by_all_query_words() {
    let t = team().await;
    result(
        &t,
        json!({"headline": "Ship on Monday", "conclusion": "The Queue is empty, 100% sure."}),
    )
    .await;
    result(
        &t,
        json!({"headline": "The venue", "key_points": [{"text": "Größe of the hall"}],
            "action_items": [{"text": "Ring up the_caterer"}], "open_questions": [{"text": "Who sings?"}],
            "deferred_items": [{"text": "Fireworks"}]}),
    )
    .await;
    let ship = ["Ship on Monday"].as_slice();
    let venue = ["The venue"].as_slice();
    for (q, found) in [
        ("monday", ship),
        ("MONDAY queue", ship),
        ("queue monday ship", ship),
        ("monday hall", &[]),
        ("100%25", ship),
        ("10%25sure", &[]),
        ("gr%C3%B6%C3%9Fe", venue),
        ("GR%C3%96", venue),
        ("the_caterer", venue),
        ("theXcaterer", &[]),
        ("sings", venue),
        ("fireworks", venue),
        ("the", &["The venue", "Ship on Monday"]),
        ("", &["The venue", "Ship on Monday"]),
        ("+%20+", &["The venue", "Ship on Monday"]),
        ("'%3B--", &[]),
    ] {
        assert_eq!(headlines(&t.bo, &format!("?q={q}")).await, found, "{q}");
    }
    let longest = "x".repeat(200);
    assert_eq!(
        headlines(&t.bo, &format!("?q={longest}")).await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn decisions_can_be_filtered_by_channel() {
    let t = team().await;
    let random = id(&t.ada.channel("random").await);
    result(&t, json!({"headline": "In general"})).await;
    result_in(&t, &random, json!({"headline": "In random"})).await;
    assert_eq!(
        headlines(&t.bo, &format!("?channel_id={random}")).await,
        ["In random"]
    );
    assert_eq!(
        headlines(&t.bo, &format!("?channel_id={}&q=in", t.general)).await,
        ["In general"]
    );
    t.bo.get(&format!("/v1/decisions?channel_id={}", unknown_id("chan")))
        .await
        .refused(404);
}

#[tokio::test]
async fn visibility_of_decisions_is_checked_at_query_time() {
    let t = team().await;
    let board = t.ada.private_channel("board", &[]).await;
    let result = result_in(
        &t,
        &board,
        json!({"headline": "Secret", "action_items": [{"text": "Hush"}]}),
    )
    .await;
    let item = format!("/v1/action-items/{}", id(&result["action_items"][0]));
    let unseen = async || {
        assert!(headlines(&t.bo, "").await.is_empty());
        assert!(headlines(&t.bo, "?q=secret").await.is_empty());
        assert!(items(&t.bo, "").await.is_empty());
        for list in ["decisions", "action-items"] {
            t.bo.get(&format!("/v1/{list}?channel_id={board}"))
                .await
                .refused(404);
        }
        t.bo.patch(&item, json!({"done": true})).await.refused(404);
        t.bo.get(&format!(
            "/v1/action-items?after={}",
            id(&result["action_items"][0])
        ))
        .await
        .refused(404);
    };
    unseen().await;
    let members = format!("/v1/channels/{board}/members");
    t.ada
        .post(&members, json!({"user_id": t.bo.id}))
        .await
        .is(201);
    assert_eq!(headlines(&t.bo, "").await, ["Secret"]);
    assert_eq!(items(&t.bo, "").await, ["Hush"]);
    t.ada
        .delete(&format!("{members}/{}", t.bo.id))
        .await
        .is(204);
    unseen().await;
    assert_eq!(headlines(&t.ada, "").await, ["Secret"]);
}

#[tokio::test]
async fn an_action_item_links_to_its_origin() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "I'll book the room").await;
    let content = json!({"headline": "Monday", "action_items": [{"text": "Book the room", "owner_id": t.bo.id,
        "due": "2026-12-01", "sources": [said]}]});
    let published = t.ada.publish_as(&dive.fork, content).await;
    let result = &published["resolution"];
    let found = t.bo.get("/v1/action-items").await.ok();
    let item = &list(&found, "/data")[0];
    let expected = json!({"id": result["action_items"][0]["id"], "text": "Book the room", "owner_id": t.bo.id,
        "owner_name": "Bo", "due": "2026-12-01", "done": false, "sources": [said], "resolution_id": result["id"],
        "fork_id": dive.fork, "channel_id": t.general, "thread_id": dive.thread, "message_id": published["message"]["id"],
        "headline": "Monday", "workspace_id": t.ada.workspace, "created_at": item["created_at"], "done_at": null,
        "done_by": null});
    assert_eq!(*item, expected);
}

#[tokio::test]
async fn action_items_are_filtered_by_owner_state_and_channel() {
    let t = team().await;
    let random = id(&t.ada.channel("random").await);
    result(
        &t,
        json!({"headline": "One", "action_items": [{"text": "Ada's", "owner_id": t.ada.id},
            {"text": "Bo's", "owner_id": t.bo.id}, {"text": "May's", "owner_name": "Aunt May"}, {"text": "Nobody's"},
            {"text": "Bo's done", "owner_id": t.bo.id, "done": true}]}),
    )
    .await;
    result_in(
        &t,
        &random,
        json!({"headline": "Two", "action_items": [{"text": "Bo's other", "owner_id": t.bo.id}]}),
    )
    .await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Draft", "action_items": [{"text": "Not yet", "owner_id": t.bo.id}]}),
        )
        .await;
    let (ada, random) = (t.ada.id.clone(), random);
    for (query, found) in [
        (
            String::new(),
            vec![
                "Ada's",
                "Bo's",
                "May's",
                "Nobody's",
                "Bo's done",
                "Bo's other",
            ],
        ),
        (
            "?owner=me".to_owned(),
            vec!["Bo's", "Bo's done", "Bo's other"],
        ),
        (
            "?owner=me&done=false".to_owned(),
            vec!["Bo's", "Bo's other"],
        ),
        ("?owner=me&done=true".to_owned(), vec!["Bo's done"]),
        (format!("?owner={ada}"), vec!["Ada's"]),
        ("?owner=none".to_owned(), vec!["May's", "Nobody's"]),
        (format!("?owner=me&channel_id={random}"), vec!["Bo's other"]),
        (format!("?done=true&channel_id={random}"), vec![]),
    ] {
        assert_eq!(items(&t.bo, &query).await, found, "{query}");
    }
    for bad in [
        "owner=x",
        "owner=someone",
        "done=yes",
        "done=1",
        "channel_id=x",
        "limit=0",
        "limit=101",
        "after=x",
        "colour=red",
    ] {
        t.bo.get(&format!("/v1/action-items?{bad}"))
            .await
            .refused(400);
    }
    for (unknown, status) in [
        (format!("channel_id={}", unknown_id("chan")), 404),
        (format!("after={}", unknown_id("item")), 404),
    ] {
        t.bo.get(&format!("/v1/action-items?{unknown}"))
            .await
            .refused(status);
    }
}

#[tokio::test]
async fn an_item_can_be_completed_by_anyone_with_write_access() {
    let t = team().await;
    let published = result(
        &t,
        json!({"headline": "Monday", "action_items": [{"text": "Book", "owner_id": t.ada.id}]}),
    )
    .await;
    let path = format!("/v1/action-items/{}", id(&published["action_items"][0]));
    let mut socket = t.ada.socket().await;
    let done = t.bo.patch(&path, json!({"done": true})).await.is(200);
    assert_eq!(
        (&done["done"], &done["done_by"]),
        (&json!(true), &json!(t.bo.id))
    );
    assert!(done["done_at"].is_string());
    let event = socket.event().await;
    assert_eq!(event["type"], "action_item.updated");
    assert_eq!(event["data"], json!({"action_item": done}));
    assert_eq!(
        (&event["channel_id"], &event["thread_id"], &event["fork_id"]),
        (
            &published["channel_id"],
            &published["thread_id"],
            &published["fork_id"]
        )
    );
    let again = t.ada.patch(&path, json!({"done": true})).await.is(200);
    assert_eq!(again, done, "checking twice has no further effect");
    let seen = socket.settle().await;
    assert!(seen.iter().all(|f| f["data"].is_null()), "{seen:?}");
    let fork = text(&published, "/fork_id");
    assert_eq!(
        t.ada.resolution(&fork).await["action_items"][0]["done"],
        true
    );
    let open = t.ada.patch(&path, json!({"done": false})).await.is(200);
    assert_eq!(
        (&open["done"], &open["done_by"], &open["done_at"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    vera.patch(&path, json!({"done": true})).await.refused(403);
}

#[tokio::test]
async fn an_items_owner_and_due_date_can_be_changed_and_cleared() {
    let t = team().await;
    let published = result(
        &t,
        json!({"headline": "Monday", "action_items": [{"text": "Book", "owner_name": "Aunt May"}]}),
    )
    .await;
    let path = format!("/v1/action-items/{}", id(&published["action_items"][0]));
    let changed =
        t.bo.patch(&path, json!({"owner_id": t.bo.id, "due": "2028-02-29"}))
            .await
            .is(200);
    assert_eq!(
        (
            &changed["owner_id"],
            &changed["owner_name"],
            &changed["due"]
        ),
        (&json!(t.bo.id), &json!("Bo"), &json!("2028-02-29"))
    );
    assert_eq!(items(&t.bo, "?owner=me").await, ["Book"]);
    for (form, status) in [
        (json!({"done": null}), 400),
        (json!({"done": "yes"}), 400),
        (json!({"due": "2027-02-29"}), 400),
        (json!({"due": 7}), 400),
        (json!({"owner_id": "x"}), 400),
        (json!({"owner_id": unknown_id("user")}), 422),
        (json!({"text": "x"}), 400),
        (json!({"colour": "red"}), 400),
    ] {
        t.bo.patch(&path, form).await.refused(status);
    }
    assert_eq!(
        t.bo.patch(&path, json!({})).await.is(200),
        changed,
        "nothing was changed"
    );
    let emptied =
        t.bo.patch(&path, json!({"owner_id": null, "due": null}))
            .await
            .is(200);
    assert_eq!(
        (
            &emptied["owner_id"],
            &emptied["owner_name"],
            &emptied["due"]
        ),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    t.bo.patch(
        &format!("/v1/action-items/{}", unknown_id("item")),
        json!({"done": true}),
    )
    .await
    .refused(404);
}

#[tokio::test]
async fn an_item_of_a_draft_is_not_listed_yet() {
    let t = team().await;
    let dive = t.dive().await;
    let draft = t
        .ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Draft", "action_items": [{"text": "Not yet"}]}),
        )
        .await;
    let path = format!("/v1/action-items/{}", id(&draft["action_items"][0]));
    t.ada.patch(&path, json!({"done": true})).await.refused(404);
}

#[tokio::test]
async fn an_item_completed_while_its_dive_is_reopened_stays_completed() {
    let t = team().await;
    let published = result(
        &t,
        json!({"headline": "Monday", "action_items": [{"text": "Book"}, {"text": "Bake"}]}),
    )
    .await;
    let fork = text(&published, "/fork_id");
    t.ada.reopen(&fork).await;
    t.ada
        .change_draft(&fork, json!({"headline": "Tuesday"}))
        .await;
    let path = format!("/v1/action-items/{}", id(&published["action_items"][0]));
    let done = t.bo.patch(&path, json!({"done": true})).await.is(200);
    let second = t.ada.publish(&fork).await["resolution"].clone();
    assert_eq!(second["action_items"][0]["done"], true);
    let found = t.bo.get("/v1/action-items").await.ok();
    assert_eq!(list(&found, "/data").len(), 2, "each item once");
    let kept = &found["data"][0];
    assert_eq!(
        (&kept["id"], &kept["done_at"], &kept["created_at"]),
        (&done["id"], &done["done_at"], &done["created_at"])
    );
    assert_eq!(
        (&kept["resolution_id"], &kept["headline"]),
        (&second["id"], &json!("Tuesday"))
    );
}

#[tokio::test]
async fn an_item_keeps_the_name_of_an_owner_who_left() {
    let t = team().await;
    let mia = t.app.join(&t.ada, "Mia", "member").await;
    result(
        &t,
        json!({"headline": "Monday", "action_items": [{"text": "Mia's", "owner_id": mia.id}]}),
    )
    .await;
    t.ada
        .delete(&format!("/v1/members/{}", mia.id))
        .await
        .is(204);
    let found = t.bo.get("/v1/action-items").await.ok();
    assert_eq!(found["data"][0]["owner_name"], "Mia", "it names the person");
    mia.in_workspace(&t.ada.workspace)
        .get("/v1/action-items?owner=me")
        .await
        .refused(404);
}

#[tokio::test]
async fn items_of_an_archived_thread_can_be_completed() {
    let t = team().await;
    let published = result(
        &t,
        json!({"headline": "Monday", "action_items": [{"text": "Book"}]}),
    )
    .await;
    let thread = format!("/v1/threads/{}", text(&published, "/thread_id"));
    t.ada
        .patch(&thread, json!({"status": "archived"}))
        .await
        .is(200);
    let path = format!("/v1/action-items/{}", id(&published["action_items"][0]));
    t.bo.patch(&path, json!({"done": true})).await.is(200);
    assert_eq!(headlines(&t.bo, "").await, ["Monday"]);
}

#[tokio::test]
async fn an_owner_without_channel_access_does_not_see_the_item() {
    let t = team().await;
    let board = t.ada.private_channel("board", &[]).await;
    let content =
        json!({"headline": "Secret", "action_items": [{"text": "Hush", "owner_id": t.bo.id}]});
    let mut socket = t.bo.socket().await;
    result_in(&t, &board, content).await;
    assert!(items(&t.bo, "?owner=me").await.is_empty());
    let seen = socket.settle().await;
    assert!(seen.iter().all(|f| f["data"].is_null()), "{seen:?}");
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert!(!snapshot.to_string().contains(&board));
}
