//! Publishing resolutions: the resolution message, its recipients, versions, and deletion.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, Person, id, list, number, team, team_with, text, unknown_id};

async fn counts(person: &Person, channel: &str) -> (i64, i64) {
    let channel = person.get(&format!("/v1/channels/{channel}")).await.ok();
    (
        number(&channel, "/unread_count"),
        number(&channel, "/mention_count"),
    )
}

#[tokio::test]
async fn a_result_is_posted_as_a_message_at_the_end_of_the_thread() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday suits everybody.").await;
    t.bo.tell(&dive.thread, "Meanwhile").await;
    let draft = t
        .ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Ship on Monday", "conclusion": "Both agreed.",
                "key_points": [{"text": "Two quiet days", "sources": [said]}],
                "action_items": [{"text": "Book the room", "owner_id": t.bo.id, "due": "2026-12-01"}]}),
        )
        .await;
    let answer = t.ada.publish(&dive.fork).await;
    let card = t.ada.messages(&dive.thread).await.pop().unwrap();
    assert_eq!(answer["message"], card);
    assert_eq!(
        (
            &card["kind"],
            &card["state"],
            &card["fork_id"],
            &card["thread_id"],
            &card["parent_id"]
        ),
        (
            &json!("resolution"),
            &json!("complete"),
            &Value::Null,
            &json!(dive.thread),
            &json!(dive.root)
        )
    );
    assert_eq!(
        card["author"],
        json!({"type": "human", "id": t.ada.id, "name": "Ada", "avatar_url": null})
    );
    assert_eq!(
        card["metadata"],
        json!({"fork_id": dive.fork, "resolution_id": draft["id"], "notify_user_ids": [t.bo.id]})
    );
    let content = text(&card, "/content");
    for part in [
        "Ship on Monday",
        "Both agreed.",
        "Two quiet days",
        "Book the room",
        "Bo",
        "2026-12-01",
    ] {
        assert!(content.contains(part), "{content}");
    }
    assert!(!text(&card, "/content_plain").contains("**"), "{card}");
    let mut expected = draft.clone();
    expected["status"] = json!("published");
    expected["message_id"] = card["id"].clone();
    expected["published_by"] = json!({"type": "human", "id": t.ada.id, "name": "Ada"});
    for time in ["published_at", "updated_at"] {
        assert!(answer["resolution"][time].is_string());
        expected[time] = answer["resolution"][time].clone();
    }
    assert_eq!(answer["resolution"], expected);
    assert_eq!(t.bo.resolution(&dive.fork).await, expected);
    let fork = &answer["fork"];
    assert_eq!(*fork, t.bo.fork(&dive.fork).await);
    assert_eq!(
        (
            &fork["status"],
            &fork["resolution_id"],
            &fork["draft_id"],
            &fork["stale"],
            &fork["message_count"]
        ),
        (
            &json!("resolved"),
            &draft["id"],
            &Value::Null,
            &json!(false),
            &json!(1)
        )
    );
    assert!(fork["resolved_at"].is_string());
    assert_eq!(
        t.ada.get("/v1/snapshot").await.ok()["open_forks"],
        json!([])
    );
}

#[tokio::test]
async fn publishing_sends_its_events_in_order() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Monday it is"}))
        .await;
    let mut socket = t.bo.socket().await;
    let answer = t.ada.publish(&dive.fork).await;
    let seen = socket
        .events_through("the end", |f| f["type"] == "fork.updated")
        .await;
    let told: Vec<String> = seen.iter().map(|f| text(f, "/type")).collect();
    assert_eq!(
        told,
        ["message.created", "resolution.published", "fork.updated"]
    );
    assert_eq!(seen[0]["data"]["message"], answer["message"]);
    assert_eq!(seen[0]["fork_id"], Value::Null);
    assert_eq!(seen[1]["data"]["resolution"], answer["resolution"]);
    assert_eq!(seen[2]["data"]["fork"], answer["fork"]);
    for frame in &seen[1..] {
        assert_eq!(
            (&frame["thread_id"], &frame["fork_id"]),
            (&json!(dive.thread), &json!(dive.fork))
        );
    }
}

#[tokio::test]
async fn a_resolution_message_counts_as_a_reply_and_notifies_participants_and_owners() {
    let t = team().await;
    let mia = t.app.join(&t.ada, "Mia", "member").await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "I was in the dive").await;
    let everybody = [&t.ada, &t.bo, &mia, &cy];
    for person in everybody {
        person
            .act(&format!("/v1/channels/{}/read", t.general))
            .await
            .is(200);
    }
    let published = t
        .bo
        .publish_as(
            &dive.fork,
            json!({"headline": "Monday it is", "action_items": [{"text": "Book", "owner_id": mia.id}]}),
        )
        .await;
    let told: Vec<String> = list(&published, "/message/metadata/notify_user_ids")
        .iter()
        .map(|user| user.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told.len(), 2, "without the publisher: {told:?}");
    assert!(told.contains(&t.ada.id), "she started it");
    assert!(told.contains(&mia.id), "she owns an item");
    assert_eq!(counts(&t.ada, &t.general).await, (1, 1));
    assert_eq!(counts(&t.bo, &t.general).await, (0, 0));
    assert_eq!(counts(&mia, &t.general).await, (1, 1));
    assert_eq!(
        counts(&cy, &t.general).await,
        (1, 0),
        "others see one resolution message"
    );
    let thread = t
        .ada
        .get(&format!("/v1/threads/{}", dive.thread))
        .await
        .ok();
    assert_eq!(
        (&thread["reply_count"], &thread["last_message"]["id"]),
        (&json!(1), &published["message"]["id"])
    );
    let seq = number(&published, "/message/seq");
    let mark = mia
        .put(
            &format!("/v1/threads/{}/read", dive.thread),
            json!({"seq": seq}),
        )
        .await
        .is(200);
    assert_eq!(
        (&mark["unread_count"], &mark["mention_count"]),
        (&json!(0), &json!(0))
    );
}

#[tokio::test]
async fn a_resolution_message_invokes_no_agent() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&path, json!({"content": "Root", "agent_id": vibe}))
        .await
        .is(201);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    t.ada
        .publish_as(&fork, json!({"headline": "@coder and @vibe decide"}))
        .await;
    let tasks = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(list(&tasks, "/data").len(), 1);
}

#[tokio::test]
async fn publishing_twice_returns_the_same_resolution_message() {
    let t = team().await;
    let (dive, first) = t.resolved("Monday it is").await;
    let mut socket = t.ada.socket().await;
    let again = t.bo.publish(&dive.fork).await;
    assert_eq!(again, first);
    let other =
        t.bo.publish_as(&dive.fork, json!({"headline": "Something else"}))
            .await;
    assert_eq!(other, first);
    let seen = socket.settle().await;
    assert!(seen.iter().all(|f| f["data"].is_null()), "{seen:?}");
    assert_eq!(t.ada.messages(&dive.thread).await.len(), 2);
}

#[tokio::test]
async fn many_concurrent_publishers_create_one_resolution_message() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Monday it is"}))
        .await;
    let publishing = (0..20).map(|n| {
        let person = if n % 2 == 0 { &t.ada } else { &t.bo };
        person.publish(&dive.fork)
    });
    let mut answers = futures::future::join_all(publishing).await;
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(t.ada.messages(&dive.thread).await.len(), 2);
    let decisions = t.ada.get("/v1/decisions").await.ok();
    assert_eq!(list(&decisions, "/data").len(), 1);
}

#[tokio::test]
async fn the_request_can_contain_the_result_to_publish() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada
        .begin_draft(
            &dive.fork,
            json!({"headline": "Friday", "conclusion": "As it was.", "action_items": [{"text": "Book"}]}),
        )
        .await;
    let published =
        t.bo.publish_as(&dive.fork, json!({"headline": "Monday"}))
            .await;
    let result = &published["resolution"];
    assert_eq!(
        (
            &result["headline"],
            &result["conclusion"],
            &result["action_items"][0]["text"]
        ),
        (&json!("Monday"), &json!("As it was."), &json!("Book"))
    );
    assert_eq!(result["edited_by"], json!([t.ada.id, t.bo.id]));
    let other = t.dive().await;
    let without_draft =
        t.bo.publish_as(&other.fork, json!({"headline": "Never drafted"}))
            .await;
    assert_eq!(without_draft["resolution"]["version"], 1);
    assert_eq!(without_draft["resolution"]["edited_by"], json!([t.bo.id]));
}

#[tokio::test]
async fn a_result_requires_a_headline() {
    let t = team().await;
    let dive = t.dive().await;
    let nothing = t.ada.try_publish(&dive.fork, json!({})).await;
    assert_eq!(nothing.refused(409), "no_draft");
    let nothing = t
        .ada
        .try_publish(&dive.fork, json!({"resolution": null}))
        .await;
    assert!(matches!(nothing.status, 400 | 409), "{}", nothing.text);
    for form in [
        json!({"resolution": {}}),
        json!({"resolution": {"headline": " \n "}}),
        json!({"resolution": {"conclusion": "Only that"}}),
    ] {
        t.ada.try_publish(&dive.fork, form).await.refused(422);
    }
    t.ada
        .begin_draft(&dive.fork, json!({"conclusion": "Only that"}))
        .await;
    t.ada.try_publish(&dive.fork, json!({})).await.refused(422);
    for (form, status) in [
        (json!({"resolution": {"colour": "red"}}), 400),
        (json!({"resolution": "x"}), 400),
        (json!({"colour": "red"}), 400),
        (
            json!({"resolution": {"headline": "x", "action_items": [{"text": "x", "owner_id": unknown_id("user")}]}}),
            422,
        ),
    ] {
        t.ada.try_publish(&dive.fork, form).await.refused(status);
    }
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(fork["status"], "active");
    assert_eq!(t.ada.messages(&dive.thread).await.len(), 1);
    let draft = t.ada.resolution(&dive.fork).await;
    assert_eq!(
        (&draft["headline"], &draft["revision"]),
        (&json!(""), &json!(1)),
        "nothing of the rejected request is stored"
    );
}

#[tokio::test]
async fn an_empty_dive_can_be_published_by_hand() {
    let t = team().await;
    let dive = t.dive().await;
    let published = t
        .ada
        .publish_as(&dive.fork, json!({"headline": "Settled in the corridor"}))
        .await;
    assert_eq!(published["fork"]["status"], "resolved");
    assert_eq!(published["resolution"]["generated_by"], Value::Null);
}

#[tokio::test]
async fn publishing_cancels_replies_in_the_dive() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::stream().piece("Half").wait(&gate)]);
    let dive = t.dive().await;
    let task = t.ada.ask_in(&dive.fork, "@vibe think").await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    t.bo.publish_as(&dive.fork, json!({"headline": "Monday"}))
        .await;
    assert_eq!(t.ada.ended(&task).await["status"], "cancelled");
    assert_eq!(
        t.ada.messages_in(&dive.fork).await[1]["state"],
        "interrupted"
    );
}

#[tokio::test]
async fn a_reopened_dive_becomes_stale_and_gets_a_second_version() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Friday").await;
    let items = json!([{"text": "Book the room", "owner_id": t.bo.id}, {"text": "Bake a cake"}, {"text": "Dropped"}]);
    let content = json!({"headline": "Friday", "key_points": [{"text": "Quiet", "sources": [said]}], "action_items": items});
    let first = t.ada.publish_as(&dive.fork, content).await;
    let ids: Vec<String> = list(&first, "/resolution/action_items")
        .iter()
        .map(id)
        .collect();
    t.bo.patch(
        &format!("/v1/action-items/{}", ids[0]),
        json!({"done": true}),
    )
    .await
    .is(200);
    let reopened = t.bo.reopen(&dive.fork).await;
    assert_eq!(
        (
            &reopened["status"],
            &reopened["stale"],
            &reopened["resolved_at"],
            &reopened["resolution_id"]
        ),
        (
            &json!("active"),
            &json!(false),
            &Value::Null,
            &first["resolution"]["id"]
        )
    );
    t.bo.say_in(&dive.fork, "No, Monday").await;
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], true);
    let mut socket = t.ada.socket().await;
    let items = json!([{"id": ids[0], "text": "Book the other room", "owner_id": t.ada.id}, {"id": ids[1], "text": "Bake a cake"},
        {"text": "Tell Mia"}]);
    let second = t
        .ada
        .publish_as(
            &dive.fork,
            json!({"headline": "Monday", "action_items": items}),
        )
        .await;
    let result = &second["resolution"];
    assert_eq!(
        (
            &result["version"],
            &result["status"],
            &second["fork"]["stale"]
        ),
        (&json!(2), &json!("published"), &json!(false))
    );
    assert_eq!(second["fork"]["resolution_id"], result["id"]);
    let now = list(result, "/action_items");
    let kept: Vec<(String, bool)> = now.iter().map(|i| (id(i), i["done"] == true)).collect();
    assert_eq!(kept[..2], [(ids[0].clone(), true), (ids[1].clone(), false)]);
    assert!(!ids.contains(&kept[2].0));
    let seen = socket
        .events_through("the end", |f| f["type"] == "resolution.updated")
        .await;
    let old = &seen.last().unwrap()["data"]["resolution"];
    assert_eq!(
        (&old["id"], &old["status"], &old["headline"]),
        (
            &first["resolution"]["id"],
            &json!("superseded"),
            &json!("Friday")
        )
    );
    assert_ne!(
        second["message"]["id"], first["message"]["id"],
        "a new resolution message"
    );
    let path = format!("/v1/forks/{}/resolutions", dive.fork);
    let versions = list(&t.bo.get(&path).await.ok(), "/data");
    let told: Vec<(i64, String, String)> = versions
        .iter()
        .map(|v| {
            (
                number(v, "/version"),
                text(v, "/status"),
                text(v, "/headline"),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, "superseded".to_owned(), "Friday".to_owned()),
            (2, "published".to_owned(), "Monday".to_owned())
        ]
    );
    assert_eq!(versions[0]["action_items"][0]["text"], "Book the room");
    assert_eq!(versions[0]["key_points"][0]["sources"], json!([said]));
    assert_eq!(
        t.bo.contents(&dive.thread).await.len(),
        3,
        "the first resolution message stays readable"
    );
    t.bo.patch(
        &format!("/v1/action-items/{}", ids[2]),
        json!({"done": true}),
    )
    .await
    .refused(404);
}

#[tokio::test]
async fn messages_that_the_draft_missed_leave_the_published_result_stale() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Friday").await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Friday"}))
        .await;
    t.bo.say_in(&dive.fork, "No, Monday").await;
    let published = t.ada.publish(&dive.fork).await;
    assert_eq!(published["fork"]["stale"], true);
}

#[tokio::test]
async fn deleting_a_source_makes_a_published_result_stale() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Friday").await;
    t.ada
        .publish_as(
            &dive.fork,
            json!({"headline": "Friday", "key_points": [{"text": "x", "sources": [said]}]}),
        )
        .await;
    let mut socket = t.ada.socket().await;
    t.bo.delete(&format!("/v1/messages/{said}")).await.is(200);
    let event = socket.of("fork.updated").await;
    assert_eq!(
        (
            &event["data"]["fork"]["stale"],
            &event["data"]["fork"]["status"]
        ),
        (&json!(true), &json!("resolved"))
    );
    assert_eq!(
        t.ada.resolution(&dive.fork).await["key_points"][0]["sources"],
        json!([said])
    );
}

#[tokio::test]
async fn deleting_a_resolution_message_deletes_its_result() {
    const SECRET: &str = "xyzzy-plugh-4711";
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Monday").await;
    let point = json!([{"text": format!("Point {SECRET}"), "sources": [said]}]);
    let content = json!({"headline": format!("Headline {SECRET}"), "conclusion": SECRET, "key_points": point,
        "action_items": [{"text": format!("Item {SECRET}"), "owner_id": t.bo.id}],
        "open_questions": point, "deferred_items": point});
    t.ada.begin_draft(&dive.fork, content).await;
    let published = t.ada.publish(&dive.fork).await;
    let item = id(&published["resolution"]["action_items"][0]);
    t.bo.patch(&format!("/v1/action-items/{item}"), json!({"done": true}))
        .await
        .is(200);
    let task = t.ada.ask(&dive.thread, "@vibe what now?").await;
    t.ada.completed(&task).await;
    let mut socket = t.bo.socket().await;
    t.ada
        .delete(&format!("/v1/messages/{}", text(&published, "/message/id")))
        .await
        .is(200);
    let event = socket.of("fork.updated").await;
    assert!(event["data"]["fork"]["resolution_id"].is_null(), "{event}");
    for list in ["/v1/decisions", "/v1/action-items"] {
        assert_eq!(t.ada.get(list).await.ok()["data"], json!([]), "{list}");
    }
    let ticked =
        t.bo.patch(&format!("/v1/action-items/{item}"), json!({"done": false}))
            .await;
    ticked.refused(404);
    for path in [
        format!("/v1/forks/{}", dive.fork),
        format!("/v1/forks/{}/messages", dive.fork),
        format!("/v1/forks/{}/resolution", dive.fork),
        format!("/v1/forks/{}/resolutions", dive.fork),
        format!("/v1/threads/{}/messages", dive.thread),
        format!("/v1/tasks/{task}/context"),
        "/v1/events?limit=100".to_owned(),
        "/v1/snapshot".to_owned(),
        "/v1/decisions?q=xyzzy".to_owned(),
    ] {
        let reply = t.ada.get(&path).await;
        assert!(!reply.text.contains(SECRET), "{path}: {}", reply.text);
    }
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
    t.ada.reopen(&dive.fork).await;
    let again = t
        .ada
        .publish_as(&dive.fork, json!({"headline": "Anew"}))
        .await;
    assert_eq!(again["fork"]["status"], "resolved");
}

#[tokio::test]
async fn deleting_the_message_of_an_older_version_keeps_the_newer_one() {
    let t = team().await;
    let (dive, first) = t.resolved("Friday").await;
    t.ada.reopen(&dive.fork).await;
    let second = t
        .ada
        .publish_as(&dive.fork, json!({"headline": "Monday"}))
        .await;
    t.ada
        .delete(&format!("/v1/messages/{}", text(&first, "/message/id")))
        .await
        .is(200);
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(fork["resolution_id"], second["resolution"]["id"]);
    let decisions = t.ada.get("/v1/decisions").await.ok();
    assert_eq!(decisions["data"][0]["headline"], "Monday");
    let versions = t
        .ada
        .get(&format!("/v1/forks/{}/resolutions", dive.fork))
        .await;
    assert!(!versions.text.contains("Friday\""), "{}", versions.text);
}

#[tokio::test]
async fn a_resolution_message_cannot_be_edited() {
    let t = team().await;
    let (_, published) = t.resolved("Monday").await;
    let path = format!("/v1/messages/{}", text(&published, "/message/id"));
    let edited = t.ada.patch(&path, json!({"content": "x"})).await;
    assert_eq!(edited.refused(409), "not_editable");
    t.bo.put(&format!("{path}/reactions/tada"), json!({}))
        .await
        .is(200);
}

#[tokio::test]
async fn anyone_with_write_access_can_publish() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let dive = t.dive().await;
    let form = json!({"resolution": {"headline": "Monday"}});
    vera.try_publish(&dive.fork, form.clone())
        .await
        .refused(403);
    let published = t.bo.try_publish(&dive.fork, form).await.is(200);
    assert_eq!(published["message"]["author"]["id"], t.bo.id.as_str());
}

#[tokio::test]
async fn a_result_survives_a_restart() {
    let mut t = team_with(&[("WORKERS", "2")]).await;
    let (dive, first) = t.resolved("Monday").await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    assert_eq!(ada.publish(&dive.fork).await, first);
    assert_eq!(
        ada.get("/v1/decisions").await.ok()["data"][0],
        first["resolution"]
    );
}

#[tokio::test]
async fn versions_are_listed_in_pages() {
    let t = team().await;
    let (dive, _) = t.resolved("v1").await;
    for n in 2..=4 {
        t.ada.reopen(&dive.fork).await;
        t.ada
            .publish_as(&dive.fork, json!({"headline": format!("v{n}")}))
            .await;
    }
    let path = format!("/v1/forks/{}/resolutions", dive.fork);
    let whole = list(&t.bo.get(&path).await.ok(), "/data");
    let page = async |query: String| {
        let page = t.bo.get(&format!("{path}{query}")).await.ok();
        let headlines: Vec<String> = list(&page, "/data")
            .iter()
            .map(|v| text(v, "/headline"))
            .collect();
        (headlines, page["has_more"] == true)
    };
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    assert_eq!(
        page(String::new()).await,
        (names(&["v1", "v2", "v3", "v4"]), false)
    );
    assert_eq!(
        page("?limit=2".to_owned()).await,
        (names(&["v1", "v2"]), true)
    );
    let after = format!("?limit=2&after={}", id(&whole[1]));
    assert_eq!(page(after).await, (names(&["v3", "v4"]), false));
    let before = format!("?limit=2&before={}", id(&whole[3]));
    assert_eq!(page(before).await, (names(&["v2", "v3"]), true));
    t.bo.get(&format!("{path}?after={}", unknown_id("res")))
        .await
        .refused(404);
    t.bo.get(&format!("{path}?after=x")).await.refused(400);
}

#[tokio::test]
async fn former_members_are_not_notified() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let channel = t.ada.private_channel("board", &[&t.bo, &cy]).await;
    let started = t.ada.start(&channel, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&cy
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    t.bo.say_in(&fork, "Monday").await;
    t.ada
        .delete(&format!("/v1/members/{}", cy.id))
        .await
        .is(204);
    t.ada
        .delete(&format!("/v1/channels/{channel}/members/{}", t.bo.id))
        .await
        .is(204);
    let published = t.ada.publish_as(&fork, json!({"headline": "Monday"})).await;
    let told = published["message"]["metadata"]
        .get("notify_user_ids")
        .cloned()
        .unwrap_or_else(|| json!([]));
    assert_eq!(told, json!([]), "neither sees the resolution message");
}

/// Performs concurrent actions on one fork; checks that acknowledged changes are stored, and that the state is consistent.
#[tokio::test]
async fn concurrent_actions_on_a_dive_keep_it_consistent() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "Start").await;
    let path = format!("/v1/forks/{}", dive.fork);
    let mut tasks = Vec::new();
    for round in 0..8 {
        let content =
            json!({"headline": format!("Round {round}"), "action_items": [{"text": "Book"}]});
        let form = json!({"resolution": content});
        let said = t.ada.try_say_in(&dive.fork, "More");
        let resolved =
            t.bo.try_resolve(&dive.fork, json!({"publish": round % 3 == 0}));
        let edited = t.ada.edit_draft(&dive.fork, round, content.clone());
        let published = async {
            if round % 2 == 0 {
                Some(t.bo.try_publish(&dive.fork, form).await)
            } else {
                None
            }
        };
        let abandon = format!("{path}/abandon");
        let abandoned = t.bo.act(&abandon);
        let reopen = format!("{path}/reopen");
        let reopened = t.ada.act(&reopen);
        let (said, resolved, edited, published, abandoned, reopened) =
            tokio::join!(said, resolved, edited, published, abandoned, reopened);
        if resolved.status == 202 {
            tasks.push(text(&resolved.json(), "/task/id"));
        }
        for reply in [said, resolved, edited, abandoned, reopened]
            .into_iter()
            .chain(published)
        {
            assert!(matches!(reply.status, 200..=202 | 409), "{}", reply.text);
        }
        t.ada.reopen(&dive.fork).await;
    }
    for task in &tasks {
        t.ada.ended(task).await;
    }
    let messages = t.ada.messages(&dive.thread).await;
    let cards: Vec<Value> = messages
        .into_iter()
        .filter(|m| m["kind"] == "resolution")
        .collect();
    let versions = t
        .ada
        .get(&format!("{path}/resolutions?limit=100"))
        .await
        .ok();
    let versions = list(&versions, "/data");
    let numbers: Vec<i64> = versions.iter().map(|v| number(v, "/version")).collect();
    assert_eq!(
        numbers,
        (1..=i64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>()
    );
    let shown: Vec<String> = versions.iter().map(|v| text(v, "/message_id")).collect();
    assert_eq!(shown, cards.iter().map(id).collect::<Vec<_>>());
    let current = versions.iter().filter(|v| v["status"] == "published");
    assert_eq!(current.count(), versions.len().min(1));
    let fork = t.ada.fork(&dive.fork).await;
    let newest = versions.last().map_or(Value::Null, |v| v["id"].clone());
    assert_eq!(fork["resolution_id"], newest);
    let said = t.ada.messages_in(&dive.fork).await.len();
    assert_eq!(
        number(&fork, "/message_count"),
        i64::try_from(said).unwrap()
    );
    let seqs: Vec<i64> = t
        .ada
        .events()
        .await
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    assert_eq!(
        seqs,
        (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>()
    );
}
