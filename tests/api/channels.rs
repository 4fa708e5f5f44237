//! Public, private, and direct channels.

use serde_json::{Value, json};

use crate::support::{Person, Team, id, list, number, team, text, unknown_id};

async fn names(person: &Person) -> Vec<String> {
    let all = person.get("/v1/channels?limit=100").await.ok();
    list(&all, "/data")
        .iter()
        .filter_map(|c| c["name"].as_str().map(str::to_owned))
        .collect()
}

async fn member_ids(person: &Person, channel: &str) -> Vec<String> {
    let all = person
        .get(&format!("/v1/channels/{channel}/members"))
        .await
        .ok();
    list(&all, "/data")
        .iter()
        .map(|m| text(m, "/user_id"))
        .collect()
}

#[tokio::test]
async fn a_workspace_starts_with_general_and_random_for_everyone() {
    let t = team().await;
    assert_eq!(names(&t.bo).await, ["general", "random"]);
    for name in ["general", "random"] {
        let channel = t.bo.channel(name).await;
        assert_eq!(channel["kind"], "public");
        assert_eq!(channel["is_member"], true);
    }
    assert_eq!(
        member_ids(&t.bo, &t.general).await,
        [t.ada.id.clone(), t.bo.id.clone()]
    );
}

#[tokio::test]
async fn a_public_channel_is_visible_to_all_and_open_to_join() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let made = t
        .ada
        .post(
            "/v1/channels",
            json!({"name": "launch", "topic": "The fair"}),
        )
        .await
        .is(201);
    assert_eq!(made["kind"], "public");
    assert_eq!(made["topic"], "The fair");
    assert_eq!(made["is_member"], true);
    assert!(made.get("member_ids").is_none());
    let created = socket.of("channel.created").await;
    assert_eq!(created["data"]["channel"]["id"], made["id"]);
    assert!(
        created["data"]["channel"].get("is_member").is_none(),
        "an event is the same for all"
    );
    let channel = id(&made);
    assert_eq!(t.bo.channel("launch").await["is_member"], false);
    t.ada.thread(&channel, "Readable before joining").await;
    assert_eq!(
        list(
            &t.bo
                .get(&format!("/v1/channels/{channel}/threads"))
                .await
                .ok(),
            "/data"
        )
        .len(),
        1
    );
    assert_eq!(
        t.bo.act(&format!("/v1/channels/{channel}/join"))
            .await
            .is(200)["is_member"],
        true
    );
    assert_eq!(
        socket.of("channel.member_added").await["data"]["user_id"],
        t.bo.id.as_str()
    );
    assert_eq!(
        member_ids(&t.ada, &channel).await,
        [t.ada.id.clone(), t.bo.id.clone()]
    );
    assert_eq!(
        t.bo.act(&format!("/v1/channels/{channel}/leave"))
            .await
            .is(200)["is_member"],
        false
    );
    assert_eq!(member_ids(&t.ada, &channel).await, [t.ada.id.as_str()]);
}

#[tokio::test]
async fn posting_to_a_public_channel_joins_it() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "launch"}))
        .await
        .is(201));
    let thread = t.ada.thread(&channel, "Hello").await;
    t.bo.say(&thread, "Hi").await;
    assert_eq!(t.bo.channel("launch").await["is_member"], true);
}

#[tokio::test]
async fn a_private_channel_is_not_found_for_nonmembers() {
    let t = team().await;
    let made = t
        .ada
        .post("/v1/channels", json!({"name": "board", "private": true}))
        .await
        .is(201);
    assert_eq!(made["kind"], "private");
    let channel = id(&made);
    let started = t.ada.start(&channel, "Between us").await;
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    assert_eq!(names(&t.bo).await, ["general", "random"]);
    for path in [
        format!("/v1/channels/{channel}"),
        format!("/v1/channels/{channel}/threads"),
        format!("/v1/channels/{channel}/members"),
        format!("/v1/threads/{thread}"),
        format!("/v1/threads/{thread}/messages"),
        format!("/v1/messages/{message}"),
    ] {
        t.bo.get(&path).await.refused(404);
    }
    for action in ["join", "leave", "archive", "read"] {
        t.bo.act(&format!("/v1/channels/{channel}/{action}"))
            .await
            .refused(404);
    }
    t.bo.post(
        &format!("/v1/threads/{thread}/messages"),
        json!({"content": "x"}),
    )
    .await
    .refused(404);
    t.bo.post(
        &format!("/v1/channels/{channel}/threads"),
        json!({"content": "x"}),
    )
    .await
    .refused(404);
    t.bo.post(
        &format!("/v1/channels/{channel}/members"),
        json!({"user_id": t.bo.id}),
    )
    .await
    .refused(404);
    t.bo.patch(&format!("/v1/channels/{channel}"), json!({"topic": "x"}))
        .await
        .refused(404);
    t.bo.patch(&format!("/v1/threads/{thread}"), json!({"title": "x"}))
        .await
        .refused(404);
    t.bo.patch(&format!("/v1/messages/{message}"), json!({"content": "x"}))
        .await
        .refused(404);
    t.bo.delete(&format!("/v1/messages/{message}"))
        .await
        .refused(404);
    t.bo.put(&format!("/v1/messages/{message}/reactions/x"), json!({}))
        .await
        .refused(404);
    t.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": 1}))
        .await
        .refused(404);
    let seen = t.bo.events().await;
    assert!(
        seen.iter().all(|e| e["channel_id"] != channel.as_str()),
        "no event"
    );
}

#[tokio::test]
async fn members_of_a_private_channel_see_all_of_it_and_removed_ones_nothing() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let thread = t.ada.thread(&channel, "Before Bo").await;
    let mut socket = t.bo.socket().await;
    let path = format!("/v1/channels/{channel}/members");
    t.ada.post(&path, json!({"user_id": t.bo.id})).await.is(201);
    let added = socket.event().await;
    assert_eq!(added["type"], "channel.member_added");
    assert_eq!(added["data"]["channel"]["id"], channel.as_str());
    assert_eq!(t.bo.contents(&thread).await, ["Before Bo"]);
    t.ada.say(&thread, "With Bo").await;
    assert_eq!(
        socket.event().await["data"]["message"]["content"],
        "With Bo"
    );
    t.ada.delete(&format!("{path}/{}", t.bo.id)).await.is(204);
    let removed = socket.event().await;
    assert_eq!(removed["type"], "channel.member_removed");
    assert_eq!(removed["data"]["user_id"], t.bo.id.as_str());
    t.ada.say(&thread, "Without Bo").await;
    let public = t.ada.thread(&t.general, "For all").await;
    assert_eq!(socket.event().await["thread_id"], public.as_str());
    t.bo.get(&format!("/v1/threads/{thread}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn adding_someone_twice_changes_nothing() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let before = t.ada.events().await.len();
    t.ada
        .post(
            &format!("/v1/channels/{channel}/members"),
            json!({"user_id": t.bo.id}),
        )
        .await
        .ok();
    assert_eq!(t.ada.events().await.len(), before);
    assert_eq!(member_ids(&t.ada, &channel).await.len(), 2);
}

#[tokio::test]
async fn an_unknown_user_cannot_be_added() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let path = format!("/v1/channels/{channel}/members");
    t.ada
        .post(&path, json!({"user_id": unknown_id("user")}))
        .await
        .refused(404);
    t.ada
        .delete(&format!("{path}/{}", t.bo.id))
        .await
        .refused(404);
}

#[tokio::test]
async fn the_same_people_share_one_direct_channel() {
    let t = team().await;
    let made = t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await
        .is(201);
    assert_eq!(made["kind"], "direct");
    assert!(made["name"].is_null());
    let mut people = vec![t.ada.id.clone(), t.bo.id.clone()];
    people.sort();
    let mut found: Vec<String> = list(&made, "/member_ids")
        .iter()
        .map(|m| m.as_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, people);
    let same =
        t.bo.post("/v1/direct", json!({"member_ids": [t.ada.id, t.bo.id]}))
            .await
            .is(200);
    assert_eq!(same["id"], made["id"]);
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let other = t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id, cy.id]}))
        .await
        .is(201);
    assert_ne!(other["id"], made["id"]);
    cy.get(&format!("/v1/channels/{}", id(&made)))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_direct_channel_reaches_the_other_user_live() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let direct = id(&t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await
        .is(201));
    assert_eq!(socket.event().await["type"], "channel.created");
    t.ada.thread(&direct, "Psst").await;
    assert_eq!(
        socket.of("message.created").await["data"]["message"]["content"],
        "Psst"
    );
}

#[tokio::test]
async fn the_people_of_a_direct_channel_cannot_change() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let direct = id(&t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await
        .is(201));
    t.ada
        .post(
            &format!("/v1/channels/{direct}/members"),
            json!({"user_id": cy.id}),
        )
        .await
        .refused(422);
    t.ada
        .delete(&format!("/v1/channels/{direct}/members/{}", t.bo.id))
        .await
        .refused(422);
    t.ada
        .act(&format!("/v1/channels/{direct}/leave"))
        .await
        .refused(422);
    t.ada
        .patch(&format!("/v1/channels/{direct}"), json!({"name": "named"}))
        .await
        .refused(422);
    t.ada
        .act(&format!("/v1/channels/{direct}/archive"))
        .await
        .refused(422);
    t.ada
        .post("/v1/direct", json!({"member_ids": [unknown_id("user")]}))
        .await
        .refused(404);
    t.ada
        .post("/v1/direct", json!({"agent_id": unknown_id("agent")}))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_channel_name_is_normalized_and_unique() {
    let t = team().await;
    let made = t
        .ada
        .post("/v1/channels", json!({"name": " Launch Plan! "}))
        .await
        .is(201);
    assert_eq!(made["name"], "launch-plan");
    assert_eq!(
        t.bo.post("/v1/channels", json!({"name": "launch plan"}))
            .await
            .refused(409),
        "name_taken"
    );
    let private = json!({"name": "launch-plan", "private": true});
    assert_eq!(
        t.bo.post("/v1/channels", private).await.refused(409),
        "name_taken"
    );
    for bad in [
        String::new(),
        "  ".to_owned(),
        "!!!".to_owned(),
        "x".repeat(81),
    ] {
        t.ada
            .post("/v1/channels", json!({"name": bad}))
            .await
            .refused(422);
    }
    t.ada
        .post("/v1/channels", json!({"name": "x".repeat(80)}))
        .await
        .is(201);
}

#[tokio::test]
async fn one_of_several_concurrent_requests_for_a_name_wins() {
    let t = team().await;
    let posts = (0..10).map(|_| t.ada.post("/v1/channels", json!({"name": "race"})));
    let replies = futures::future::join_all(posts).await;
    let won = replies.iter().filter(|r| r.status == 201).count();
    let lost = replies.iter().filter(|r| r.status == 409).count();
    assert_eq!((won, lost), (1, 9));
}

#[tokio::test]
async fn name_and_topic_can_change() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "launch"}))
        .await
        .is(201));
    let mut socket = t.bo.socket().await;
    let path = format!("/v1/channels/{channel}");
    let changed = t
        .ada
        .patch(&path, json!({"name": "Fair", "topic": "In May"}))
        .await
        .is(200);
    assert_eq!(
        (&changed["name"], &changed["topic"]),
        (&json!("fair"), &json!("In May"))
    );
    assert_eq!(
        socket.of("channel.updated").await["data"]["channel"]["name"],
        "fair"
    );
    assert!(t.ada.patch(&path, json!({"topic": null})).await.is(200)["topic"].is_null());
    assert_eq!(
        t.ada
            .patch(&path, json!({"name": "general"}))
            .await
            .refused(409),
        "name_taken"
    );
    t.ada
        .patch(&path, json!({"kind": "private"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn a_channel_can_be_archived_by_its_creator_or_an_admin() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let channel = id(&t
        .bo
        .post("/v1/channels", json!({"name": "launch"}))
        .await
        .is(201));
    cy.act(&format!("/v1/channels/{channel}/archive"))
        .await
        .refused(403);
    let mut socket = cy.socket().await;
    assert!(
        t.bo.act(&format!("/v1/channels/{channel}/archive"))
            .await
            .is(200)["archived_at"]
            .is_string()
    );
    assert_eq!(socket.event().await["type"], "channel.archived");
    assert!(
        t.ada
            .act(&format!("/v1/channels/{channel}/unarchive"))
            .await
            .is(200)["archived_at"]
            .is_null()
    );
}

#[tokio::test]
async fn channels_are_listed_in_pages_by_creation_order() {
    let t = team().await;
    for name in ["a", "b", "c"] {
        t.ada
            .post("/v1/channels", json!({"name": name}))
            .await
            .is(201);
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = t.bo.get(&format!("/v1/channels?limit=2{after}")).await.ok();
        seen.extend(list(&page, "/data").iter().map(|c| text(c, "/name")));
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", text(&page, "/last_id"));
    }
    assert_eq!(seen, ["general", "random", "a", "b", "c"]);
    let last = id(&t.ada.channel("c").await);
    let page =
        t.bo.get(&format!("/v1/channels?limit=2&before={last}"))
            .await
            .ok();
    let before: Vec<String> = list(&page, "/data")
        .iter()
        .map(|c| text(c, "/name"))
        .collect();
    assert_eq!(before, ["a", "b"]);
    assert_eq!(page["has_more"], true);
}

#[tokio::test]
async fn a_former_member_of_a_private_channel_has_no_access() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let left = t.bo.act(&format!("/v1/channels/{channel}/leave")).await;
    assert!((200..300).contains(&left.status), "{}", left.text);
    t.bo.get(&format!("/v1/channels/{channel}"))
        .await
        .refused(404);
    assert_eq!(names(&t.bo).await, ["general", "random"]);
    let found: Value = t.ada.get(&format!("/v1/channels/{channel}")).await.ok();
    assert_eq!(found["name"], "board");
}

/// Returns the direct channel with these people or this agent.
async fn direct(person: &Person, form: Value) -> String {
    let opened = person.post("/v1/direct", form).await;
    assert!(matches!(opened.status, 200 | 201), "{}", opened.text);
    id(&opened.json())
}

/// Removes Bo from Ada's workspace; returns the path with which he accepts a new invite.
async fn dismissed(t: &Team) -> String {
    let members = format!("/v1/members/{}", t.bo.id);
    t.ada.delete(&members).await.is(204);
    let invite = t.ada.post("/v1/invites", json!({})).await.is(201);
    format!("/v1/invites/{}/accept", text(&invite, "/token"))
}

#[tokio::test]
async fn posting_is_impossible_after_the_only_member_has_left() {
    let t = team().await;
    let direct = direct(&t.ada, json!({"member_ids": [t.bo.id]})).await;
    let thread = t.ada.thread(&direct, "Lunch?").await;
    let accept = dismissed(&t).await;
    for path in [
        format!("/v1/channels/{direct}/threads"),
        format!("/v1/threads/{thread}/messages"),
    ] {
        let refused = t
            .ada
            .post(&path, json!({"content": "Are you there?"}))
            .await;
        let error = refused.is(409);
        assert_eq!(error["error"]["code"], "member_left");
        assert_eq!(
            error["error"]["message"],
            "Bo has left this workspace and can't read messages here"
        );
    }
    t.bo.act(&accept).await.ok();
    t.ada.say(&thread, "Welcome back").await;
    assert_eq!(t.bo.contents(&thread).await, ["Lunch?", "Welcome back"]);
}

#[tokio::test]
async fn somebody_who_returns_is_in_all_direct_channels_again_and_the_newest_are_announced() {
    let t = team().await;
    let first = direct(&t.ada, json!({"member_ids": [t.bo.id]})).await;
    let new_id = if t.app.place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    let channels = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 300) \
         insert into channels (id, workspace_id, kind, direct_key, joined_by_all, created_by, created_at) \
         select {new_id}, ch.workspace_id, ch.kind, 'copy ' || n.i, ch.joined_by_all, ch.created_by, ch.created_at \
         from channels ch cross join n where ch.kind = 'direct'"
    );
    let members = "insert into direct_members (user_id, channel_id) select dm.user_id, ch.id from channels ch cross join direct_members dm \
                   where ch.direct_key like 'copy %'";
    let accept = dismissed(&t).await;
    t.app.place.run(&[&channels, members]).await;
    let before = number(&t.ada.get("/v1/snapshot").await.ok(), "/seq");
    t.bo.act(&accept).await.ok();
    let after = number(&t.ada.get("/v1/snapshot").await.ok(), "/seq");
    assert!((100..110).contains(&(after - before)), "{before}, {after}");
    let mine = t.bo.every("/v1/channels").await;
    let direct = mine.iter().filter(|channel| channel["kind"] == "direct");
    assert_eq!(direct.count(), 301);
    assert!(mine.iter().any(|channel| channel["id"] == first.as_str()));
}

#[tokio::test]
async fn direct_channels_include_their_members() {
    let t = team().await;
    let with_ada = direct(&t.ada, json!({"member_ids": [t.bo.id]})).await;
    let agent = id(&t.ada.agent("vibe").await);
    let with_agent = direct(&t.bo, json!({"agent_id": agent})).await;
    t.ada.thread(&with_ada, "Lunch?").await;
    let mut ada = t.ada.socket().await;
    let accept = dismissed(&t).await;
    t.bo.get(&format!("/v1/channels/{with_ada}"))
        .await
        .refused(404);
    t.bo.act(&accept).await.ok();
    let added = ada.of("channel.member_added").await;
    assert_eq!(
        (&added["channel_id"], &added["data"]["user_id"]),
        (&json!(with_ada), &json!(t.bo.id))
    );
    for channel in [&with_ada, &with_agent] {
        let found = t.bo.get(&format!("/v1/channels/{channel}")).await.ok();
        assert_eq!(found["is_member"], true, "{found}");
    }
    assert_eq!(
        direct(&t.bo, json!({"member_ids": [t.ada.id]})).await,
        with_ada
    );
    t.bo.thread(&with_ada, "Yes, at noon").await;
    t.bo.thread(&with_agent, "A note for you").await;
}

#[tokio::test]
async fn the_channel_list_includes_member_counts() {
    let t = team().await;
    let made = t.ada.post("/v1/channels", json!({"name": "launch"})).await;
    let launch = id(&made.is(201));
    let count = async |who: &Person, name: &str| {
        let all = list(&who.get("/v1/channels").await.ok(), "/data");
        let found = all.iter().find(|c| c["name"] == name).cloned();
        found.expect("a listed channel")["member_count"].clone()
    };
    assert_eq!(count(&t.bo, "general").await, 2);
    assert_eq!(count(&t.bo, "launch").await, 1);
    t.bo.post(&format!("/v1/channels/{launch}/join"), json!({}))
        .await
        .ok();
    assert_eq!(count(&t.bo, "launch").await, 2);
    let secret = json!({"name": "board", "private": true});
    t.ada.post("/v1/channels", secret).await.is(201);
    assert_eq!(count(&t.ada, "board").await, 1);
    assert_eq!(
        count(&t.ada, "launch").await,
        2,
        "a channel in between does not affect the counts"
    );
}
