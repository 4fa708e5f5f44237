//! Posting, reading, editing, and reacting.

use serde_json::{Value, json};

use crate::{
    corpus,
    support::{Team, id, list, number, team, text, units, within},
};

async fn page(t: &Team, thread: &str, query: &str) -> (Vec<String>, bool) {
    let page =
        t.bo.get(&format!("/v1/threads/{thread}/messages?{query}"))
            .await
            .ok();
    assert_eq!(page["object"], "list");
    let data = list(&page, "/data");
    assert_eq!(
        page["first_id"],
        data.first().map_or(Value::Null, |m| m["id"].clone())
    );
    assert_eq!(
        page["last_id"],
        data.last().map_or(Value::Null, |m| m["id"].clone())
    );
    let contents = data.iter().map(|m| text(m, "/content")).collect();
    (contents, page["has_more"].as_bool().unwrap())
}

/// A thread with the messages `0` to `n - 1`, and their IDs.
async fn counted(t: &Team, n: usize) -> (String, Vec<String>) {
    let started = t.ada.start(&t.general, "0").await;
    let thread = text(&started, "/thread/id");
    let mut ids = vec![text(&started, "/message/id")];
    for i in 1..n {
        ids.push(t.ada.tell(&thread, &i.to_string()).await);
    }
    (thread, ids)
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn a_message_has_the_documented_shape() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let posted = t
        .ada
        .say(&thread, "**Bold** [link](https://example.org)")
        .await;
    let message = &posted["message"];
    assert_eq!(posted["tasks"], json!([]));
    assert_eq!(message["workspace_id"], t.ada.workspace.as_str());
    assert_eq!(message["channel_id"], t.general.as_str());
    assert_eq!(message["thread_id"], thread.as_str());
    assert_eq!(
        message["author"],
        json!({"type": "human", "id": t.ada.id, "name": "Ada", "avatar_url": null})
    );
    assert_eq!(message["kind"], "text");
    assert_eq!(message["state"], "complete");
    assert_eq!(message["content_plain"], "Bold link");
    assert_eq!(message["reactions"], json!([]));
    assert_eq!(message["attachments"], json!([]));
    assert_eq!(message["metadata"], json!({}));
    for empty in [
        "fork_id",
        "parent_id",
        "client_id",
        "edited_at",
        "deleted_at",
    ] {
        assert!(message.get(empty).is_some_and(Value::is_null), "{empty}");
    }
    let at = text(message, "/created_at");
    let form = regex::Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$").unwrap();
    assert!(form.is_match(&at), "{at}");
    let form = regex::Regex::new("^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$").unwrap();
    assert!(form.is_match(&id(message)));
    assert_eq!(t.bo.message(&id(message)).await, *message);
}

#[tokio::test]
async fn without_a_cursor_the_newest_page_is_returned_oldest_first() {
    let t = team().await;
    let (thread, _) = counted(&t, 7).await;
    assert_eq!(page(&t, &thread, "limit=3").await, (numbers(4..7), true));
    assert_eq!(page(&t, &thread, "limit=7").await, (numbers(0..7), false));
    assert_eq!(page(&t, &thread, "").await, (numbers(0..7), false));
}

#[tokio::test]
async fn pages_go_back_to_the_first_message() {
    let t = team().await;
    let (thread, ids) = counted(&t, 7).await;
    assert_eq!(
        page(&t, &thread, &format!("limit=3&before={}", ids[4])).await,
        (numbers(1..4), true)
    );
    assert_eq!(
        page(&t, &thread, &format!("limit=3&before={}", ids[1])).await,
        (numbers(0..1), false)
    );
    assert_eq!(
        page(&t, &thread, &format!("limit=3&before={}", ids[3])).await,
        (numbers(0..3), false)
    );
    assert_eq!(
        page(&t, &thread, &format!("before={}", ids[0])).await,
        (vec![], false)
    );
}

#[tokio::test]
async fn pages_go_forward_to_the_newest_message() {
    let t = team().await;
    let (thread, ids) = counted(&t, 7).await;
    assert_eq!(
        page(&t, &thread, &format!("limit=3&after={}", ids[0])).await,
        (numbers(1..4), true)
    );
    assert_eq!(
        page(&t, &thread, &format!("limit=3&after={}", ids[3])).await,
        (numbers(4..7), false)
    );
    assert_eq!(
        page(&t, &thread, &format!("after={}", ids[6])).await,
        (vec![], false)
    );
}

#[tokio::test]
async fn a_page_around_a_message_includes_it_and_its_neighbors() {
    let t = team().await;
    let (thread, ids) = counted(&t, 9).await;
    for limit in 1..=9 {
        let (contents, _) = page(&t, &thread, &format!("limit={limit}&around={}", ids[4])).await;
        assert_eq!(contents.len(), limit, "{contents:?}");
        assert!(contents.contains(&"4".to_owned()), "{contents:?}");
        let mut sorted = contents.clone();
        sorted.sort();
        assert_eq!(contents, sorted);
    }
    assert_eq!(
        page(&t, &thread, &format!("limit=5&around={}", ids[4]))
            .await
            .0,
        numbers(2..7)
    );
    assert!(
        page(&t, &thread, &format!("limit=5&around={}", ids[0]))
            .await
            .0
            .contains(&"0".to_owned())
    );
    assert!(
        page(&t, &thread, &format!("limit=5&around={}", ids[8]))
            .await
            .0
            .contains(&"8".to_owned())
    );
}

#[tokio::test]
async fn a_cursor_of_another_thread_is_not_found() {
    let t = team().await;
    let (thread, _) = counted(&t, 2).await;
    let (_, elsewhere) = counted(&t, 1).await;
    for cursor in ["before", "after", "around"] {
        let path = format!("/v1/threads/{thread}/messages?{cursor}={}", elsewhere[0]);
        t.ada.get(&path).await.refused(404);
    }
}

#[tokio::test]
async fn a_page_accepts_only_one_cursor() {
    let t = team().await;
    let (thread, ids) = counted(&t, 3).await;
    let path = format!(
        "/v1/threads/{thread}/messages?before={}&after={}",
        ids[2], ids[0]
    );
    t.ada.get(&path).await.refused(400);
}

#[tokio::test]
async fn a_message_can_reply_to_another_in_its_thread() {
    let t = team().await;
    let (thread, ids) = counted(&t, 2).await;
    let path = format!("/v1/threads/{thread}/messages");
    let posted =
        t.bo.post(&path, json!({"content": "Yes", "parent_id": ids[1]}))
            .await
            .is(201);
    assert_eq!(posted["message"]["parent_id"], ids[1].as_str());
    let (_, elsewhere) = counted(&t, 1).await;
    t.bo.post(&path, json!({"content": "Yes", "parent_id": elsewhere[0]}))
        .await
        .refused(422);
    let unknown = crate::support::unknown_id("msg");
    t.bo.post(&path, json!({"content": "Yes", "parent_id": unknown}))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_message_can_have_32_kib_and_not_a_byte_more() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let exact = "é".repeat(16 * 1024);
    let posted = t.ada.post(&path, json!({"content": exact})).await.is(201);
    assert_eq!(units(&text(&posted, "/message/content")), 16 * 1024);
    t.ada
        .post(&path, json!({"content": format!("{exact}x")}))
        .await
        .refused(413);
    let message = text(&posted, "/message/id");
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": format!("{exact}x")}),
        )
        .await
        .refused(413);
    assert_eq!(t.ada.messages(&thread).await.len(), 2);
}

#[tokio::test]
async fn a_blank_message_is_rejected() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let cases = corpus::table("blank.json");
    let blank = cases.iter().filter(|case| case["blank"] == true);
    for blank in blank.map(|case| case["text"].as_str().unwrap()) {
        t.ada
            .post(
                &format!("/v1/threads/{thread}/messages"),
                json!({"content": blank}),
            )
            .await
            .refused(422);
        t.ada
            .post(
                &format!("/v1/channels/{}/threads", t.general),
                json!({"content": blank}),
            )
            .await
            .refused(422);
    }
    assert_eq!(t.ada.messages(&thread).await.len(), 1);
    let message = t.ada.tell(&thread, "**").await;
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "&#8203;"}),
        )
        .await
        .refused(422);
    assert_eq!(t.ada.message(&message).await["content"], "**");
}

#[tokio::test]
async fn an_emoji_in_two_spellings_is_one_reaction() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Nice").await;
    let path = |emoji: &str| format!("/v1/messages/{message}/reactions/{emoji}");
    for spelling in ["%E2%98%BA", "%E2%98%BA%EF%B8%8F"] {
        t.ada.put(&path(spelling), json!({})).await.is(200);
    }
    t.bo.put(&path("thumbsup"), json!({})).await.is(200);
    t.bo.put(&path("%F0%9F%91%8D"), json!({})).await.is(200);
    let reactions = t.ada.message(&message).await["reactions"].clone();
    assert_eq!(
        reactions,
        json!([
            {"emoji": "☺\u{fe0f}", "user_ids": [t.ada.id], "agent_ids": []},
            {"emoji": "👍", "user_ids": [t.bo.id], "agent_ids": []},
        ])
    );
    t.ada.delete(&path("%E2%98%BA")).await.is(200);
    t.bo.delete(&path("%3A%2B1%3A")).await.is(200);
    assert_eq!(t.ada.message(&message).await["reactions"], json!([]));
}

#[tokio::test]
async fn stored_reactions_in_two_spellings_are_joined() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Nice").await;
    let (ada, bo) = (t.ada.id.clone(), t.bo.id.clone());
    let stored = json!([
        {"emoji": "☺", "user_ids": [ada], "agent_ids": []},
        {"emoji": "tada", "user_ids": [bo], "agent_ids": []},
        {"emoji": "☺\u{fe0f}", "user_ids": [ada, bo], "agent_ids": []},
    ]);
    t.app
        .place
        .run(&[&format!(
            "update messages set reactions = '{stored}' where content = 'Nice'"
        )])
        .await;
    assert_eq!(
        t.ada.message(&message).await["reactions"],
        json!([
            {"emoji": "☺\u{fe0f}", "user_ids": [ada, bo], "agent_ids": []},
            {"emoji": "🎉", "user_ids": [bo], "agent_ids": []},
        ])
    );
}

#[tokio::test]
async fn text_is_stored_as_typed() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for typed in [
        "  two spaces\r\n\tand a tab  ",
        "👩‍👩‍👧‍👦 e\u{301}\u{202e}",
        "<script>alert(1)</script>",
        "a\u{1}b",
        "' or 1=1; --",
    ] {
        let message = t.ada.tell(&thread, typed).await;
        assert_eq!(t.bo.message(&message).await["content"], typed);
    }
}

#[tokio::test]
async fn an_edit_changes_text_and_mentions_and_marks_the_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Hello @bo").await;
    let mut socket = t.bo.socket().await;
    let edited = t
        .ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "Good *bye*"}),
        )
        .await
        .is(200);
    assert_eq!(edited["content"], "Good *bye*");
    assert_eq!(edited["content_plain"], "Good bye");
    assert_eq!(edited["mentions"], json!([]));
    assert!(edited["edited_at"].is_string());
    assert_eq!(t.bo.message(&message).await, edited);
    assert_eq!(
        socket.of("message.updated").await["data"]["message"],
        edited
    );
}

#[tokio::test]
async fn only_the_author_can_edit_a_message() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Mine").await;
    let message = t.bo.tell(&thread, "Bo's").await;
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "Ada's"}),
        )
        .await
        .refused(403);
    let task = t.bo.ask(&thread, "@vibe hi").await;
    let reply = text(&t.bo.completed(&task).await, "/output/message_id");
    t.bo.patch(&format!("/v1/messages/{reply}"), json!({"content": "Bo's"}))
        .await
        .refused(403);
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Mine", "Bo's", "@vibe hi", "Fine."]
    );
}

#[tokio::test]
async fn a_deleted_message_cannot_be_edited_or_reacted_to() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Gone").await;
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "Back"}),
        )
        .await
        .refused(409);
    t.ada
        .put(&format!("/v1/messages/{message}/reactions/👍"), json!({}))
        .await
        .refused(409);
}

#[tokio::test]
async fn reactions_are_counted_once_per_user() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Nice").await;
    let path = format!("/v1/messages/{message}/reactions/%F0%9F%91%8D");
    t.ada.put(&path, json!({})).await.is(200);
    t.bo.act(&format!("/v1/messages/{message}"))
        .await
        .refused(405);
    let twice = t.ada.put(&path, json!({})).await.is(200);
    assert_eq!(
        twice["reactions"],
        json!([{"emoji": "👍", "user_ids": [t.ada.id], "agent_ids": []}])
    );
    let both = t.bo.put(&path, json!({})).await.is(200);
    assert_eq!(
        both["reactions"],
        json!([{"emoji": "👍", "user_ids": [t.ada.id, t.bo.id], "agent_ids": []}])
    );
    let one = t.ada.delete(&path).await.is(200);
    assert_eq!(
        one["reactions"],
        json!([{"emoji": "👍", "user_ids": [t.bo.id], "agent_ids": []}])
    );
    t.ada.delete(&path).await.is(200);
    assert_eq!(t.bo.delete(&path).await.is(200)["reactions"], json!([]));
    let kinds: Vec<String> = t
        .ada
        .events()
        .await
        .iter()
        .map(|e| text(e, "/type"))
        .collect();
    assert_eq!(
        kinds.iter().filter(|k| *k == "reaction.added").count(),
        2,
        "no change, so no event"
    );
    assert_eq!(kinds.iter().filter(|k| *k == "reaction.removed").count(), 2);
}

#[tokio::test]
async fn a_reaction_event_includes_all_reactions_of_the_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Nice").await;
    let mut socket = t.bo.socket().await;
    t.ada
        .put(&format!("/v1/messages/{message}/reactions/tada"), json!({}))
        .await
        .is(200);
    let event = socket.of("reaction.added").await;
    assert_eq!(
        event["data"],
        json!({"message_id": message, "emoji": "🎉", "user_id": t.ada.id,
            "reactions": [{"emoji": "🎉", "user_ids": [t.ada.id], "agent_ids": []}]})
    );
    assert_eq!(event["thread_id"], thread.as_str());
}

#[tokio::test]
async fn a_reaction_that_is_not_an_emoji_is_rejected() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "Nice").await;
    let too_long = "x".repeat(65);
    let blank = ["%0A", "%20", "%E2%80%8B", "%E3%85%A4", "%EF%B8%8F"];
    for bad in ["a%20b", "%3Cb%3E", &too_long].into_iter().chain(blank) {
        t.ada
            .put(
                &format!("/v1/messages/{message}/reactions/{bad}"),
                json!({}),
            )
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn the_same_client_id_returns_the_first_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": "@vibe once", "client_id": "c-1"});
    let first = t.ada.post(&path, form.clone()).await.is(201);
    assert_eq!(first["message"]["client_id"], "c-1");
    let task = text(&first, "/tasks/0/id");
    t.ada.completed(&task).await;
    let again = t.ada.post(&path, form).await.is(200);
    assert_eq!(again["message"], first["message"]);
    assert_eq!(again["tasks"][0]["id"], task.as_str());
    let other_text = t
        .ada
        .post(&path, json!({"content": "other", "client_id": "c-1"}))
        .await
        .is(200);
    assert_eq!(other_text["message"]["content"], "@vibe once");
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root", "@vibe once", "Fine."]
    );
}

#[tokio::test]
async fn a_client_id_is_forgotten_after_30_days() {
    let mut t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": "Once", "client_id": "c-1"});
    t.ada.post(&path, form.clone()).await.is(201);
    let of_30_days = "update client_ids set created_at = '2026-01-01T00:00:00.000Z'";
    t.app.place.run(&[of_30_days]).await;
    t.app.restart(&[]).await;
    within("the client ID to be forgotten", async {
        while t.app.place.count("client_ids").await > 0 {
            crate::support::pause().await;
        }
    })
    .await;
    t.ada.at(&t.app.base).post(&path, form).await.is(201);
}

#[tokio::test]
async fn the_same_client_id_in_another_thread_is_a_conflict() {
    let t = team().await;
    let (here, there) = (
        t.ada.thread(&t.general, "Here").await,
        t.ada.thread(&t.general, "There").await,
    );
    let form = json!({"content": "Once", "client_id": "c-1"});
    t.ada
        .post(&format!("/v1/threads/{here}/messages"), form.clone())
        .await
        .is(201);
    let elsewhere = [
        format!("/v1/threads/{there}/messages"),
        format!("/v1/channels/{}/threads", t.general),
    ];
    for path in elsewhere {
        assert_eq!(
            t.ada.post(&path, form.clone()).await.refused(409),
            "client_id_reused"
        );
    }
    assert_eq!(t.ada.contents(&there).await, ["There"]);
}

#[tokio::test]
async fn two_users_can_use_the_same_client_id() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    t.ada
        .post(&path, json!({"content": "Ada's", "client_id": "c-1"}))
        .await
        .is(201);
    t.bo.post(&path, json!({"content": "Bo's", "client_id": "c-1"}))
        .await
        .is(201);
    assert_eq!(t.ada.contents(&thread).await, ["Root", "Ada's", "Bo's"]);
}

#[tokio::test]
async fn the_same_client_id_returns_the_first_thread() {
    let t = team().await;
    let path = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "Root", "title": "Plan", "client_id": "c-1"});
    let first = t.ada.post(&path, form.clone()).await.is(201);
    let again = t.ada.post(&path, form).await.is(200);
    assert_eq!(again, first);
    assert_eq!(list(&t.ada.get(&path).await.ok(), "/data").len(), 1);
}

#[tokio::test]
async fn a_client_id_is_recognized_after_a_restart() {
    let mut t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": "Once", "client_id": "c-1"});
    let first = t.ada.post(&path, form.clone()).await.is(201);
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    assert_eq!(
        ada.post(&path, form).await.is(200)["message"],
        first["message"]
    );
    assert_eq!(ada.contents(&thread).await, ["Root", "Once"]);
}

#[tokio::test]
async fn many_concurrent_resends_create_one_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let sends = (0..20).map(|_| {
        t.ada
            .post(&path, json!({"content": "Once", "client_id": "c-1"}))
    });
    let replies = futures::future::join_all(sends).await;
    assert_eq!(replies.iter().filter(|r| r.status == 201).count(), 1);
    let ids: std::collections::HashSet<String> = replies
        .into_iter()
        .map(|r| text(&r.ok(), "/message/id"))
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(t.ada.contents(&thread).await, ["Root", "Once"]);
}

#[tokio::test]
async fn a_client_id_has_1_to_64_characters() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    t.ada
        .post(&path, json!({"content": "x", "client_id": "c".repeat(64)}))
        .await
        .is(201);
    for bad in [String::new(), "c".repeat(65)] {
        let reply = t
            .ada
            .post(&path, json!({"content": "x", "client_id": bad}))
            .await;
        assert!(matches!(reply.status, 400 | 422), "{}", reply.text);
    }
}

#[tokio::test]
async fn an_archived_channel_accepts_no_messages() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "old"}))
        .await
        .is(201));
    let thread = t.ada.thread(&channel, "Root").await;
    t.ada
        .act(&format!("/v1/channels/{channel}/archive"))
        .await
        .is(200);
    t.ada
        .post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": "x"}),
        )
        .await
        .refused(409);
    t.ada
        .post(
            &format!("/v1/channels/{channel}/threads"),
            json!({"content": "x"}),
        )
        .await
        .refused(409);
    t.ada
        .act(&format!("/v1/channels/{channel}/unarchive"))
        .await
        .is(200);
    t.ada.say(&thread, "Again").await;
}

#[tokio::test]
async fn concurrent_posts_get_gapless_sequence_numbers() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let other = t.bo.thread(&t.general, "Other").await;
    let first = t.ada.events().await.len();
    let posts = (0..60).map(|n| {
        let (who, place) = if n % 2 == 0 {
            (&t.ada, &thread)
        } else {
            (&t.bo, &other)
        };
        async move { number(&who.say(place, &n.to_string()).await, "/message/seq") }
    });
    let mut seqs = futures::future::join_all(posts).await;
    seqs.sort_unstable();
    let first = i64::try_from(first).unwrap() + 1;
    assert_eq!(seqs, (first..first + 60).collect::<Vec<i64>>());
    let logged: Vec<i64> = t
        .ada
        .events()
        .await
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    assert_eq!(logged, (1..first + 60).collect::<Vec<i64>>());
    let order: Vec<i64> = t
        .ada
        .messages(&thread)
        .await
        .iter()
        .map(|m| number(m, "/seq"))
        .collect();
    assert!(order.is_sorted());
}
