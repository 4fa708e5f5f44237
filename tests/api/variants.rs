//! Variants of chats: a message is run again after the messages before it.

use serde_json::{Value, json};

use crate::{
    chats::{channel_with, chat, forgotten, removed},
    support::{Answer, Person, Reply, Team, id, list, number, team, text, unknown_id},
};

fn variants_of(chat: &str) -> String {
    format!("/v1/threads/{chat}/variants")
}

/// Runs a message again, with these fields of the request.
async fn run_again(person: &Person, chat: &str, message: &str, fields: Value) -> Reply {
    let mut form = json!({"message_id": message});
    let fields = fields.as_object().unwrap().clone();
    form.as_object_mut().unwrap().extend(fields);
    person.post(&variants_of(chat), form).await
}

/// A chat of Bo with Vibe: two questions with their answers, and the IDs of the questions.
struct TwoQuestions {
    chat: String,
    first: String,
    second: String,
}

async fn two_questions(t: &Team) -> TwoQuestions {
    t.model().script(
        "vibe",
        [Answer::text("First answer"), Answer::text("Second answer")],
    );
    let (started, _) = chat(&t.bo, "Question one").await;
    let chat = text(&started, "/thread/id");
    let second = t.bo.say(&chat, "Question two").await;
    t.bo.completed(&text(&second, "/tasks/0/id")).await;
    TwoQuestions {
        first: text(&started, "/message/id"),
        second: text(&second, "/message/id"),
        chat,
    }
}

/// A variant that is complete: `{thread, message, tasks}`.
async fn variant(person: &Person, chat: &str, message: &str, fields: Value) -> Value {
    let made = run_again(person, chat, message, fields).await.is(201);
    person.completed(&text(&made, "/tasks/0/id")).await;
    made
}

fn contents(page: &Value) -> Vec<String> {
    let all = list(page, "/data");
    all.iter().map(|found| text(found, "/content")).collect()
}

#[tokio::test]
async fn a_variant_begins_with_the_messages_before_the_one_that_it_runs_again() {
    let t = team().await;
    let of = two_questions(&t).await;
    let before = t.bo.messages(&of.chat).await;
    let mut socket = t.bo.socket().await;
    t.model().script("vibe", [Answer::text("Another answer")]);
    let fields = json!({"content": "Question two, please"});
    let made = variant(&t.bo, &of.chat, &of.second, fields).await;
    let thread = text(&made, "/thread/id");
    let base = json!({"thread_id": of.chat, "message_id": of.second});
    assert_eq!(made["thread"]["variant_of"], base);
    assert_eq!(made["thread"]["title"], json!(null));
    assert_eq!(text(&made, "/message/thread_id"), thread);
    let created = socket.of("thread.created").await;
    assert_eq!(created["data"]["thread"]["variant_of"], base);
    let all = [
        "Question one",
        "First answer",
        "Question two, please",
        "Another answer",
    ];
    assert_eq!(t.bo.contents(&thread).await, all);
    assert_eq!(t.bo.messages(&of.chat).await, before, "nothing is copied");
    // Only messages of the variant are counted.
    let opened = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(number(&opened, "/reply_count"), 1);
    assert_eq!(number(&opened, "/unread_count"), 1);
    let own = t.bo.messages(&thread).await;
    assert_eq!(opened["first_unread_id"], own[3]["id"]);
    let known = json!([{"thread_id": thread, "message_id": of.second}]);
    assert_eq!(opened["variants"], known);
    let first = t.bo.get(&format!("/v1/threads/{}", of.chat)).await.ok();
    assert_eq!(first["variants"], known);
    assert_eq!(first["variant_of"], json!(null));
    let sent = t.model().asked("vibe", 3).await[2].all();
    for part in &all[..3] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("Second answer"), "{sent}");
}

#[tokio::test]
async fn pages_of_a_variant_continue_in_the_first_chat() {
    let t = team().await;
    let of = two_questions(&t).await;
    let made = variant(&t.bo, &of.chat, &of.second, json!({})).await;
    let thread = text(&made, "/thread/id");
    let messages = format!("/v1/threads/{thread}/messages");
    let first = t.bo.messages(&of.chat).await;
    let root = text(&made, "/message/id");
    let answer = id(&first[1]);
    for (query, wanted, has_more) in [
        ("limit=1".to_owned(), vec!["Fine."], true),
        (
            "limit=3".to_owned(),
            vec!["First answer", "Question two", "Fine."],
            true,
        ),
        (format!("before={root}&limit=1"), vec!["First answer"], true),
        (format!("before={answer}"), vec!["Question one"], false),
        (
            format!("after={}&limit=2", of.first),
            vec!["First answer", "Question two"],
            true,
        ),
        (
            format!("after={answer}"),
            vec!["Question two", "Fine."],
            false,
        ),
        (
            format!("around={answer}&limit=4"),
            vec!["Question one", "First answer", "Question two", "Fine."],
            false,
        ),
    ] {
        let page = t.bo.get(&format!("{messages}?{query}")).await.ok();
        assert_eq!(contents(&page), wanted, "{query}");
        assert_eq!(page["has_more"], has_more, "{query}");
    }
    // Later messages of the first chat are not part of the variant.
    for hidden in [&of.second, &id(&first[3])] {
        let page = t.bo.get(&format!("{messages}?around={hidden}")).await;
        assert_eq!(page.refused(404), "message_not_found");
    }
    // A deleted message is deleted in both.
    t.bo.delete(&format!("/v1/messages/{}", of.first))
        .await
        .is(200);
    let page = t.bo.get(&messages).await.ok();
    assert!(!page["data"][0]["deleted_at"].is_null());
}

#[tokio::test]
async fn a_search_in_a_variant_finds_its_beginning_and_others_find_each_message_once() {
    let t = team().await;
    let (started, _) = chat(&t.bo, "Zebra one").await;
    let first = text(&started, "/thread/id");
    let path = format!("/v1/threads/{first}");
    t.bo.patch(&path, json!({"auto_reply": false}))
        .await
        .is(200);
    let second = t.bo.tell(&first, "Zebra two").await;
    let fields = json!({"content": "Zebra three"});
    let made = variant(&t.bo, &first, &second, fields).await;
    let thread = text(&made, "/thread/id");
    t.bo.tell(&first, "Zebra four").await;
    for (query, wanted) in [
        (
            format!("thread_id={thread}"),
            vec!["Zebra three", "Zebra one"],
        ),
        (
            format!("thread_id={thread}&order=oldest"),
            vec!["Zebra one", "Zebra three"],
        ),
        (
            format!("thread_id={first}"),
            vec!["Zebra four", "Zebra two", "Zebra one"],
        ),
        (
            "order=newest".to_owned(),
            vec!["Zebra four", "Zebra three", "Zebra two", "Zebra one"],
        ),
    ] {
        let page = t.bo.get(&format!("/v1/search?q=zebra&{query}")).await.ok();
        assert_eq!(contents(&page), wanted, "{query}");
    }
}

#[tokio::test]
async fn only_own_messages_of_chats_can_be_run_again() {
    let t = team().await;
    let of = two_questions(&t).await;
    let messages = t.bo.messages(&of.chat).await;
    let elsewhere = t.bo.start(&t.general, "In a channel").await;
    let (shared, root) = (
        text(&elsewhere, "/thread/id"),
        text(&elsewhere, "/message/id"),
    );
    let code = run_again(&t.bo, &shared, &root, json!({})).await;
    assert_eq!(code.refused(422), "not_a_chat");
    let direct = json!({"member_ids": [t.ada.id]});
    let direct = id(&t.bo.post("/v1/direct", direct).await.ok());
    let between = t.bo.start(&direct, "For Ada").await;
    let between = (text(&between, "/thread/id"), text(&between, "/message/id"));
    let code = run_again(&t.bo, &between.0, &between.1, json!({})).await;
    assert_eq!(code.refused(422), "not_a_chat");
    let answer = id(&messages[1]);
    for (message, fields, status, code) in [
        (&answer, json!({}), 403, "not_yours"),
        (&root, json!({}), 404, "message_not_found"),
        (&unknown_id("msg"), json!({}), 404, "message_not_found"),
        (&of.second, json!({"content": " "}), 422, "invalid_value"),
        (
            &of.second,
            json!({"agent_id": unknown_id("agent")}),
            404,
            "agent_not_found",
        ),
    ] {
        let reply = run_again(&t.bo, &of.chat, message, fields).await;
        assert_eq!(reply.refused(status), code);
    }
    let reply = run_again(&t.ada, &of.chat, &of.second, json!({})).await;
    assert_eq!(reply.refused(404), "thread_not_found");
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    run_again(&reader, &of.chat, &of.second, json!({}))
        .await
        .refused(403);
    t.bo.delete(&format!("/v1/messages/{}", of.first))
        .await
        .is(200);
    let reply = run_again(&t.bo, &of.chat, &of.first, json!({})).await;
    assert_eq!(reply.refused(409), "message_deleted");
    let path = format!("/v1/threads/{}", of.chat);
    t.bo.patch(&path, json!({"status": "archived"}))
        .await
        .is(200);
    let reply = run_again(&t.bo, &of.chat, &of.second, json!({})).await;
    assert_eq!(reply.refused(409), "thread_archived");
    t.bo.patch(&path, json!({"status": "open"})).await.is(200);
    let opened = t.bo.get(&path).await.ok();
    assert_eq!(opened["variants"], json!([]), "refusals change nothing");
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    let made = run_again(&writer, &of.chat, &of.second, json!({})).await;
    assert_eq!(made.is(201)["tasks"], json!([]), "agents need agents:use");
}

#[tokio::test]
async fn in_a_variant_only_its_first_message_can_be_run_again() {
    let t = team().await;
    let of = two_questions(&t).await;
    let made = variant(&t.bo, &of.chat, &of.second, json!({})).await;
    let thread = text(&made, "/thread/id");
    let root = text(&made, "/message/id");
    let later = t.bo.tell(&thread, "And more").await;
    for message in [&later, &of.first] {
        let reply = run_again(&t.bo, &thread, message, json!({})).await;
        assert_eq!(reply.refused(409), "in_variant");
    }
    let reply = run_again(&t.bo, &thread, &of.second, json!({})).await;
    assert_eq!(reply.refused(404), "message_not_found");
    let fields = json!({"content": "A sibling"});
    let sibling = variant(&t.bo, &thread, &root, fields).await;
    let base = json!({"thread_id": of.chat, "message_id": of.second});
    assert_eq!(sibling["thread"]["variant_of"], base);
    let sibling = text(&sibling, "/thread/id");
    assert_eq!(
        t.bo.contents(&sibling).await,
        ["Question one", "First answer", "A sibling", "Fine."]
    );
}

#[tokio::test]
async fn a_message_can_be_run_again_ten_times() {
    let t = team().await;
    let of = two_questions(&t).await;
    let mut made = Vec::new();
    for _ in 0..10 {
        let variant = variant(&t.bo, &of.chat, &of.second, json!({})).await;
        made.push(text(&variant, "/thread/id"));
    }
    let reply = run_again(&t.bo, &of.chat, &of.second, json!({})).await;
    assert_eq!(reply.refused(409), "too_many_variants");
    variant(&t.bo, &of.chat, &of.first, json!({})).await;
    let path = format!("/v1/threads/{}", made[3]);
    t.bo.delete(&path).await.is(204);
    variant(&t.bo, &of.chat, &of.second, json!({})).await;
}

#[tokio::test]
async fn a_resend_returns_the_first_variant() {
    let t = team().await;
    let of = two_questions(&t).await;
    let fields = json!({"client_id": "again"});
    let made = variant(&t.bo, &of.chat, &of.second, fields.clone()).await;
    let resent = run_again(&t.bo, &of.chat, &of.second, fields.clone()).await;
    let resent = resent.is(200);
    assert_eq!(resent["thread"]["id"], made["thread"]["id"]);
    assert_eq!(resent["message"]["id"], made["message"]["id"]);
    let messages = format!("/v1/threads/{}/messages", of.chat);
    let other = json!({"content": "Other", "client_id": "again"});
    let reply = t.bo.post(&messages, other).await;
    assert_eq!(reply.refused(409), "client_id_reused");
}

#[tokio::test]
async fn another_agent_reads_what_the_first_one_wrote() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    let sage = id(&t.ada.agent("sage").await);
    let of = two_questions(&t).await;
    let path = format!("/v1/threads/{}", of.chat);
    t.bo.patch(&path, json!({"memory": "off"})).await.is(200);
    let made = variant(&t.bo, &of.chat, &of.second, json!({"agent_id": sage})).await;
    assert_eq!(text(&made, "/thread/agent_id"), sage);
    assert_eq!(text(&made, "/thread/memory"), "off");
    assert_eq!(text(&made, "/tasks/0/agent_id"), sage);
    let sent = t.model().asked_once("sage").await.all();
    for part in ["Question one", "First answer", "Question two"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("Second answer"), "{sent}");
    // The first chat keeps its agent.
    let first = t.bo.get(&path).await.ok();
    assert_ne!(text(&first, "/agent_id"), sage);
}

#[tokio::test]
async fn files_of_a_message_are_asked_about_again() {
    let t = team().await;
    let channel = channel_with(&t.bo, "vibe").await;
    let file = t.bo.upload("plan.txt", b"the plan").await;
    let form = json!({"content": "Read this", "attachments": [id(&file)]});
    let path = format!("/v1/channels/{channel}/threads");
    let started = t.bo.post(&path, form).await.is(201);
    t.bo.completed(&text(&started, "/tasks/0/id")).await;
    let (chat, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    // The text can be removed, because there is a file.
    let made = variant(&t.bo, &chat, &root, json!({"content": ""})).await;
    let attached = list(&made, "/message/attachments");
    assert_eq!(attached.len(), 1);
    assert_eq!(text(&attached[0], "/name"), "plan.txt");
    assert_eq!(attached[0]["message_id"], made["message"]["id"]);
    assert_ne!(id(&attached[0]), id(&file));
    let sent = t.model().asked("vibe", 2).await[1].all();
    assert!(sent.contains("the plan"), "{sent}");
    t.bo.delete(&format!("/v1/messages/{root}")).await.is(200);
    t.bo.get(&format!("/v1/files/{}", id(&file)))
        .await
        .refused(404);
    let copy = t.bo.get(&text(&attached[0], "/url")).await;
    copy.ok_text("the plan");
}

#[tokio::test]
async fn a_chat_is_deleted_with_its_variants_but_not_the_other_way_around() {
    let t = team().await;
    let of = two_questions(&t).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let variant = variant(&t.bo, &of.chat, &of.second, json!({"content": "xyzzy"})).await;
        made.push(text(&variant, "/thread/id"));
    }
    t.bo.delete(&format!("/v1/threads/{}", made[0]))
        .await
        .is(204);
    let path = format!("/v1/threads/{}", of.chat);
    let first = t.bo.get(&path).await.ok();
    assert_eq!(list(&first, "/variants").len(), 2);
    assert_eq!(t.bo.messages(&of.chat).await.len(), 4);
    let mut socket = t.bo.socket().await;
    t.bo.delete(&path).await.is(204);
    let mut gone = Vec::new();
    for _ in 0..3 {
        let event = socket.of("thread.deleted").await;
        gone.push(text(&event, "/thread_id"));
    }
    gone.sort();
    let mut wanted = vec![of.chat.clone(), made[1].clone(), made[2].clone()];
    wanted.sort();
    assert_eq!(gone, wanted);
    for thread in &made {
        t.bo.get(&format!("/v1/threads/{thread}/messages"))
            .await
            .refused(404);
    }
    removed(&t).await;
    forgotten(&t, "xyzzy").await;
}

#[tokio::test]
async fn a_chat_and_its_variants_are_one_row_of_the_followed_conversations() {
    let t = team().await;
    let of = two_questions(&t).await;
    let (other, _) = chat(&t.bo, "Another chat").await;
    let other = text(&other, "/thread/id");
    let made = variant(&t.bo, &of.chat, &of.second, json!({"content": "Walrus"})).await;
    let thread = text(&made, "/thread/id");
    let rows = async |query: &str| {
        let page = t.bo.get(&format!("/v1/following?kind=chat{query}")).await;
        list(&page.ok(), "/data")
    };
    let all = rows("").await;
    let ids: Vec<String> = all.iter().map(|row| text(row, "/thread/id")).collect();
    // The variant is the newest.
    assert_eq!(ids, [of.chat.clone(), other.clone()]);
    assert_eq!(text(&all[0], "/variants/0/id"), thread);
    assert_eq!(all[1]["variants"], json!([]));
    assert_eq!(rows("&q=walr").await.len(), 1);
    // A chat is unread as long as one of its variants is.
    for chat in [&of.chat, &other] {
        let last = t.bo.messages(chat).await.pop().unwrap();
        let seq = json!({"seq": last["seq"]});
        t.bo.put(&format!("/v1/threads/{chat}/read"), seq)
            .await
            .is(200);
    }
    let unread = rows("&unread=true").await;
    assert_eq!(unread.len(), 1);
    assert_eq!(text(&unread[0], "/thread/id"), of.chat);
    let last = t.bo.messages(&thread).await.pop().unwrap();
    let seq = json!({"seq": last["seq"]});
    t.bo.put(&format!("/v1/threads/{thread}/read"), seq)
        .await
        .is(200);
    assert!(rows("&unread=true").await.is_empty());
}

#[tokio::test]
async fn a_deep_dive_in_a_variant_knows_the_beginning_of_the_chat() {
    let t = team().await;
    let of = two_questions(&t).await;
    let made = variant(&t.bo, &of.chat, &of.second, json!({})).await;
    let (thread, root) = (text(&made, "/thread/id"), text(&made, "/message/id"));
    let vibe = id(&t.bo.agent("vibe").await);
    let form = json!({"context": "thread", "agent_id": vibe});
    let fork = id(&t.bo.start_fork(&thread, &root, form).await);
    let task = t.bo.ask_in(&fork, "In depth?").await;
    t.bo.completed(&task).await;
    let sent = t.model().asked("vibe", 4).await[3].all();
    for part in ["Question one", "First answer", "In depth?"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("Second answer"), "{sent}");
}
