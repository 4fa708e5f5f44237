//! Entries that people write.

use serde_json::{Value, json};

use super::{path, refused, remember};
use crate::support::{Person, Team, id, list, team, team_with, text, unknown_id};

async fn found(who: &Person, query: &str) -> Vec<String> {
    let all = who.every(&format!("/v1/memories?{query}")).await;
    all.iter().map(|entry| text(entry, "/text")).collect()
}

#[tokio::test]
async fn an_entry_about_oneself_is_stored_and_shown_to_its_owner_only() {
    let t = team().await;
    let form = json!({"text": " Prefers short answers ", "kind": "preference", "client_id": "one"});
    let reply = t.bo.post("/v1/memories", form.clone()).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    let made = reply.is(201);
    assert_eq!(made["object"], "memory");
    assert_eq!(made["scope"], "user");
    assert_eq!(made["text"], "Prefers short answers");
    assert_eq!(made["user_id"], t.bo.id.as_str());
    assert_eq!(made["visibility"], "workspace");
    assert_eq!(
        (&made["trust"], &made["origin"]),
        (&json!("person"), &json!("hand"))
    );
    assert_eq!(made["source_message_ids"], json!([]));
    // A resend returns the existing entry.
    assert_eq!(
        id(&t.bo.post("/v1/memories", form).await.is(200)),
        id(&made)
    );
    assert_eq!(t.bo.get(&path(&made)).await.is(200), made);
    assert_eq!(found(&t.bo, "user_id=me").await, ["Prefers short answers"]);
    let code = t.ada.get(&path(&made)).await.refused(404);
    assert_eq!(code, "memory_not_found");
    assert_eq!(found(&t.ada, "").await, Vec::<String>::new());
    for reply in [
        t.ada.patch(&path(&made), json!({"kind": "note"})).await,
        t.ada.delete(&path(&made)).await,
    ] {
        assert_eq!(reply.refused(404), "memory_not_found");
    }
}

#[tokio::test]
async fn the_client_id_of_an_entry_belongs_to_its_owner() {
    let t = team().await;
    let one = t.ada.thread(&t.general, "One").await;
    let two = t.ada.thread(&t.general, "Two").await;
    let form = |thread: &str| json!({"text": "Deploys happen on Fridays", "kind": "fact", "thread_id": thread, "client_id": "one"});
    let made = t.ada.post("/v1/memories", form(&one)).await.is(201);
    let again = t.ada.post("/v1/memories", form(&one)).await.is(200);
    assert_eq!(id(&again), id(&made));
    for other in [
        form(&two),
        json!({"text": "Deploys happen on Fridays", "kind": "fact", "client_id": "one"}),
    ] {
        let reply = t.ada.post("/v1/memories", other).await;
        assert_eq!(reply.refused(409), "client_id_reused");
    }
}

#[tokio::test]
async fn the_length_of_an_entry_is_counted_in_utf_16_code_units() {
    let t = team().await;
    remember(&t.ada, &"😀".repeat(500), json!({})).await;
    let long = json!({"text": "😀".repeat(501)});
    assert_eq!(refused(&t.ada, long).await, "422 invalid_value");
}

#[tokio::test]
async fn an_equal_text_with_the_same_owner_is_stored_once() {
    // Equal texts are recognized by a hash that uses the server's key.
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let t = team_with(&[("SECRET_KEY", key)]).await;
    let first = t.ada.start(&t.general, "The harbor opens at nine").await;
    let second = t.ada.start(&t.general, "At nine, the harbor opens").await;
    let (one, two) = (text(&first, "/message/id"), text(&second, "/message/id"));
    let made = remember(
        &t.ada,
        "Harbor: opens at 9",
        json!({"source_message_ids": [one]}),
    )
    .await;
    let form = json!({"text": "harbor opens at 9!", "kind": "note", "source_message_ids": [two]});
    let again = t.ada.post("/v1/memories", form).await.is(200);
    assert_eq!(id(&again), id(&made));
    assert_eq!(again["source_message_ids"], json!([one, two]));
    assert_eq!(
        (&again["kind"], &again["version"]),
        (&json!("fact"), &json!(2))
    );
    // Other owners have their own entries.
    let others = remember(&t.bo, "Harbor opens at 9", json!({})).await;
    assert_ne!(id(&others), id(&made));
    // A forgotten text can be remembered again.
    t.ada.delete(&path(&made)).await.is(200);
    let anew = t
        .ada
        .post(
            "/v1/memories",
            json!({"text": "Harbor opens at 9", "kind": "fact"}),
        )
        .await;
    assert_ne!(id(&anew.is(201)), id(&made));
}

#[tokio::test]
async fn entries_are_listed_newest_first_with_filters() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let agent = id(&t.ada.agent("vibe").await);
    remember(&t.ada, "Lives in Lisbon", json!({})).await;
    remember(
        &t.ada,
        "Deploys happen on Fridays",
        json!({"kind": "note", "thread_id": thread}),
    )
    .await;
    remember(
        &t.ada,
        "Answers in Portuguese",
        json!({"scope": "persona", "agent_id": agent}),
    )
    .await;
    remember(
        &t.ada,
        "Deployed by Kai",
        json!({"scope": "agent", "agent_id": agent}),
    )
    .await;
    let all = [
        "Deployed by Kai",
        "Answers in Portuguese",
        "Deploys happen on Fridays",
        "Lives in Lisbon",
    ];
    assert_eq!(found(&t.ada, "").await, all);
    assert_eq!(found(&t.bo, "").await, [all[0], all[2]]);
    assert_eq!(found(&t.ada, "user_id=me").await, [all[1], all[3]]);
    assert_eq!(found(&t.ada, "scope=user").await, [all[3]]);
    assert_eq!(
        found(&t.ada, &format!("agent_id={agent}")).await,
        [all[0], all[1]]
    );
    assert_eq!(
        found(&t.ada, &format!("thread_id={thread}")).await,
        [all[2]]
    );
    assert_eq!(found(&t.ada, "kind=note").await, [all[2]]);
    // A search matches all forms of a word, and all words must match.
    assert_eq!(found(&t.ada, "q=deployment").await, [all[0], all[2]]);
    assert_eq!(found(&t.ada, "q=deploys+Friday").await, [all[2]]);
    assert_eq!(found(&t.ada, "q=the").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "status=archived").await, Vec::<String>::new());
    let page = t.ada.get("/v1/memories?limit=3").await.ok();
    let cursor = text(&page, "/next_cursor");
    let rest = t
        .ada
        .get(&format!("/v1/memories?limit=3&cursor={cursor}"))
        .await
        .ok();
    assert_eq!(text(&list(&rest, "/data")[0], "/text"), all[3]);
    assert_eq!(
        (&rest["has_more"], &rest["next_cursor"]),
        (&json!(false), &Value::Null)
    );
    let bad = t.ada.get("/v1/memories?cursor=x").await.refused(400);
    assert_eq!(bad, "invalid_cursor");
}

#[tokio::test]
async fn invalid_entries_are_refused() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let agent = id(&t.ada.agent("vibe").await);
    for (fields, wanted) in [
        (json!({"text": " "}), "422 invalid_value"),
        (json!({"text": "x".repeat(1_001)}), "422 invalid_value"),
        (
            json!({"text": "The password is Hunter22"}),
            "422 looks_like_secret",
        ),
        (
            json!({"text": "Pay with 4111 1111 1111 1111"}),
            "422 looks_like_secret",
        ),
        (json!({"scope": "conversation"}), "422 invalid_value"),
        (
            json!({"scope": "user", "thread_id": thread}),
            "422 invalid_value",
        ),
        (json!({"scope": "persona"}), "422 invalid_value"),
        (json!({"agent_id": agent}), "422 invalid_value"),
        (json!({"scope": "organization"}), "422 invalid_value"),
        (
            json!({"thread_id": unknown_id("thread")}),
            "404 thread_not_found",
        ),
        (
            json!({"scope": "persona", "agent_id": unknown_id("agent")}),
            "404 agent_not_found",
        ),
        (
            json!({"source_message_ids": [unknown_id("msg")]}),
            "404 message_not_found",
        ),
        (
            json!({"source_message_ids": vec![unknown_id("msg"); 21]}),
            "422 invalid_value",
        ),
        (
            json!({"thread_id": thread, "visibility": "direct"}),
            "422 not_visible_there",
        ),
        (json!({"visibility": "channel"}), "422 not_visible_there"),
        (json!({"scope": "everything"}), "400 invalid_field"),
    ] {
        assert_eq!(refused(&t.ada, fields.clone()).await, wanted, "{fields}");
    }
    assert_eq!(t.app.place.count("memories").await, 0);
}

#[tokio::test]
async fn an_entry_reaches_no_further_than_its_sources() {
    let t = team().await;
    let closed = t.ada.private_channel("closed", &[]).await;
    let hers = t.ada.start(&closed, "The budget is 40k").await;
    let (thread, source) = (text(&hers, "/thread/id"), text(&hers, "/message/id"));
    let other = t.ada.private_channel("other", &[]).await;
    let elsewhere = text(&t.ada.start(&other, "Or 50k").await, "/message/id");
    for (fields, wanted) in [
        (
            json!({"source_message_ids": [source], "visibility": "workspace"}),
            "422 not_visible_there",
        ),
        (
            json!({"source_message_ids": [source, elsewhere]}),
            "422 not_visible_there",
        ),
        (
            json!({"thread_id": thread, "visibility": "workspace"}),
            "422 not_visible_there",
        ),
        (
            json!({"thread_id": thread, "source_message_ids": [elsewhere]}),
            "422 not_visible_there",
        ),
    ] {
        assert_eq!(refused(&t.ada, fields.clone()).await, wanted, "{fields}");
    }
    let made = remember(
        &t.ada,
        "The budget is 40k",
        json!({"source_message_ids": [source]}),
    )
    .await;
    assert_eq!(
        (&made["visibility"], &made["channel_id"]),
        (&json!("channel"), &json!(closed))
    );
    let wider = json!({"visibility": "workspace"});
    let code = t.ada.patch(&path(&made), wider).await.refused(422);
    assert_eq!(code, "not_visible_there");
    // A person cannot use a message as a source without being able to read it.
    let fields = json!({"source_message_ids": [source]});
    assert_eq!(refused(&t.bo, fields).await, "404 message_not_found");
    let here = remember(&t.ada, "Only here", json!({"thread_id": thread})).await;
    assert_eq!(
        t.bo.get(&path(&here)).await.refused(404),
        "memory_not_found"
    );
}

#[tokio::test]
async fn only_messages_of_people_and_complete_replies_are_sources() {
    let t = team().await;
    let started = t.ada.start(&t.general, "@vibe hello").await;
    let thread = text(&started, "/thread/id");
    let done = t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let reply = text(&done, "/output/message_id");
    let fields = json!({"thread_id": thread, "source_message_ids": [reply]});
    let made = remember(&t.ada, "Vibe said fine", fields).await;
    assert_eq!(made["trust"], "agent");
    // A new text keeps the sources.
    let changed = json!({"text": "Vibe said: fine"});
    let changed = t.ada.patch(&path(&made), changed).await.ok();
    assert_eq!(
        (&changed["trust"], &changed["origin"]),
        (&json!("agent"), &json!("hand"))
    );
    // An agent's statement never becomes an entry about a person.
    let fields = json!({"source_message_ids": [reply]});
    assert_eq!(refused(&t.ada, fields).await, "422 invalid_value");
    let gone = t.ada.tell(&thread, "Never mind").await;
    t.ada.delete(&format!("/v1/messages/{gone}")).await.is(200);
    let fields = json!({"thread_id": thread, "source_message_ids": [gone]});
    assert_eq!(refused(&t.ada, fields).await, "422 invalid_value");
}

#[tokio::test]
async fn a_change_needs_the_current_version_if_it_names_one() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let made = remember(&t.ada, "Ship on Friday", json!({"thread_id": thread})).await;
    let change = json!({"text": "Ship on Monday", "flagged": true});
    // Everyone who can post in the conversation can change its entries.
    let reply = t.bo.patch_if(&path(&made), "\"1\"", change.clone()).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"2\""));
    let changed = reply.is(200);
    assert_eq!(changed["text"], "Ship on Monday");
    assert_eq!(changed["flagged"], true);
    let reply = t.ada.patch_if(&path(&made), "\"1\"", change).await;
    let current = reply.json()["error"]["current"]["version"].clone();
    assert_eq!(
        (reply.refused(409), current),
        ("version_conflict".to_owned(), json!(2))
    );
    assert_eq!(found(&t.ada, "q=friday").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "q=monday").await, ["Ship on Monday"]);
    for (change, code) in [
        (json!({"status": "stale"}), "invalid_value"),
        (json!({"text": "Token: abc123def456"}), "looks_like_secret"),
    ] {
        assert_eq!(t.ada.patch(&path(&made), change).await.refused(422), code);
    }
    t.ada
        .patch(&path(&made), json!({"status": "archived"}))
        .await
        .is(200);
    assert_eq!(found(&t.ada, "").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "status=archived").await, ["Ship on Monday"]);
    let viewer = t.app.join(&t.ada, "Vera", "viewer").await;
    viewer.get(&path(&made)).await.is(200);
    viewer
        .patch(&path(&made), json!({"flagged": false}))
        .await
        .refused(403);
}

#[tokio::test]
async fn a_foreign_entry_does_not_exist_for_any_request() {
    let t = team().await;
    let made = remember(&t.ada, "Ada prefers tea", json!({})).await;
    for text in ["", "The password is hunter22", &"x".repeat(1_001)] {
        let change = json!({"text": text});
        t.bo.patch(&path(&made), change).await.refused(404);
    }
    let publish = format!("{}/publish", path(&made));
    t.bo.post(&publish, json!({})).await.refused(404);
    t.bo.delete(&path(&made)).await.refused(404);
}

async fn published(t: &Team, entry: &Value) -> crate::support::Reply {
    t.ada.act(&format!("{}/publish", path(entry))).await
}

#[tokio::test]
async fn an_admin_publishes_what_may_be_shared() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let source = t.bo.tell(&thread, "The office is in Porto").await;
    let fields = json!({"thread_id": thread, "source_message_ids": [source]});
    let made = remember(&t.bo, "The office is in Porto", fields).await;
    assert_eq!(published(&t, &made).await.refused(422), "not_shared");
    let share = json!({"share_with_organization": true, "kind": "preference"});
    t.bo.patch(&path(&made), share).await.is(200);
    assert_eq!(published(&t, &made).await.refused(422), "kind_not_allowed");
    t.bo.patch(&path(&made), json!({"kind": "fact"}))
        .await
        .is(200);
    t.bo.act(&format!("{}/publish", path(&made)))
        .await
        .refused(403);
    let copy = published(&t, &made).await.is(201);
    assert_eq!(
        (&copy["scope"], &copy["origin"]),
        (&json!("organization"), &json!("published"))
    );
    assert_eq!(copy["source_message_ids"], json!([source]));
    assert_eq!(copy["thread_id"], Value::Null);
    t.bo.patch(&path(&copy), json!({"kind": "note"}))
        .await
        .refused(403);
    let audit = t
        .ada
        .get("/v1/audit-log?action=memory.published")
        .await
        .ok();
    assert_eq!(audit["data"][0]["target"], copy["id"]);
    assert_eq!(audit["data"][0]["data"]["memory_id"], made["id"]);
    // Publishing an entry of a conversation that not everyone can read would leak it.
    let closed = t.ada.private_channel("closed", &[&t.bo]).await;
    let thread = t.bo.thread(&closed, "Root").await;
    let secret = remember(&t.bo, "The budget is 40k", json!({"thread_id": thread})).await;
    t.bo.patch(&path(&secret), json!({"share_with_organization": true}))
        .await
        .is(200);
    assert_eq!(
        published(&t, &secret).await.refused(422),
        "not_visible_there"
    );
    // Forgetting an entry also forgets its copy.
    let gone = t.bo.delete(&path(&made)).await.is(200);
    assert_eq!(
        gone["remaining"],
        json!({"rows": 0, "index": 0, "contexts": 0})
    );
    t.ada.get(&path(&copy)).await.refused(404);
}

#[tokio::test]
async fn a_published_original_is_deleted_only_by_admins_its_person_and_its_authors() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let shared = json!({"share_with_organization": true});
    let publish = async |words: &str| {
        let source = t.bo.tell(&thread, words).await;
        let fields = json!({"thread_id": thread, "source_message_ids": [source]});
        let made = remember(&t.ada, words, fields).await;
        t.ada.patch(&path(&made), shared.clone()).await.is(200);
        (made.clone(), published(&t, &made).await.is(201))
    };
    let (porto, copy) = publish("The office is in Porto").await;
    assert_eq!(cy.delete(&path(&porto)).await.refused(403), "published");
    // Deleting everything of the thread leaves it, too.
    let of_thread = format!("/v1/memories?thread_id={thread}");
    cy.delete(&of_thread).await.is(200);
    cy.get(&path(&copy)).await.is(200);
    let gone = t.bo.delete(&path(&porto)).await.is(200);
    assert_eq!(gone["remaining"]["rows"], 0);
    cy.get(&path(&copy)).await.refused(404);
    let audit = "/v1/audit-log?action=memory.unpublished";
    let audit = t.ada.get(audit).await.ok();
    assert_eq!(audit["data"][0]["target"], copy["id"]);
    assert_eq!(audit["data"][0]["data"]["memory_id"], porto["id"]);
    let (lisbon, copy) = publish("The office is in Lisbon").await;
    t.ada.delete(&path(&lisbon)).await.is(200);
    t.ada.get(&path(&copy)).await.refused(404);
}

#[tokio::test]
async fn events_reach_those_who_see_the_entry() {
    let t = team().await;
    let closed = t.ada.private_channel("closed", &[]).await;
    let thread = t.ada.thread(&closed, "Root").await;
    let open = t.ada.thread(&t.general, "Root").await;
    let hidden = remember(&t.ada, "The budget is 40k", json!({"thread_id": thread})).await;
    let own = remember(&t.ada, "Lives in Lisbon", json!({})).await;
    let shown = remember(&t.ada, "Ship on Friday", json!({"thread_id": open})).await;
    t.ada
        .patch(&path(&shown), json!({"flagged": true}))
        .await
        .is(200);
    t.ada.delete(&path(&shown)).await.is(200);
    let heard = async |who: &Person| -> Vec<Value> {
        let all = who.events().await.into_iter();
        all.filter(|event| event["type"] == "memory.changed")
            .map(|event| event["data"].clone())
            .collect()
    };
    let data = |entry: &Value, action: &str| json!({"memory_id": entry["id"], "scope": entry["scope"], "action": action});
    let of_shown = ["created", "updated", "deleted"].map(|action| data(&shown, action));
    assert_eq!(heard(&t.bo).await, of_shown);
    let mut all = vec![data(&hidden, "created"), data(&own, "created")];
    all.extend(of_shown);
    assert_eq!(heard(&t.ada).await, all);
}
