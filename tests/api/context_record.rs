//! Records of model requests: texts are shared between records, and removed when their source changes.

use serde_json::{Value, json};

use crate::compaction::segment;
use crate::support::{
    Answer, Gate, ModelServer, Person, Team, TestDatabase, TestProcess, id, list,
    sign_up_with_workspace, team, team_with, text, within,
};

const SECRET: &str = "xyzzy-plugh-4711";

/// The entry of a message in a record.
fn shown(record: &Value, message: &str) -> Value {
    list(record, "/messages")
        .into_iter()
        .find(|shown| shown["message_id"] == message)
        .expect("the message is in the record")
}

async fn delete(who: &Person, message: &str) {
    who.delete(&format!("/v1/messages/{message}")).await.is(200);
}

async fn edit(who: &Person, message: &str, content: &str) {
    let path = format!("/v1/messages/{message}");
    who.patch(&path, json!({"content": content})).await.is(200);
}

async fn replied(t: &Team, thread: &str, question: &str) -> String {
    let task = t.ada.ask(thread, question).await;
    t.ada.completed(&task).await;
    task
}

#[tokio::test]
async fn a_text_is_stored_once_for_all_prompts_that_contain_it() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Friday or Monday?").await;
    t.bo.tell(&thread, "Friday or Monday?").await;
    for n in 0..4 {
        replied(&t, &thread, &format!("@vibe question {n}")).await;
    }
    let texts = async |text: &str| {
        let sql = format!("context_texts where text = '{text}'");
        t.app.place.count(&sql).await
    };
    assert_eq!(texts("[Ada]: Friday or Monday?").await, 1);
    assert_eq!(texts("[Bo]: Friday or Monday?").await, 1);
    let parts = t.app.place.count("context_parts").await;
    // Each prompt has a preamble, instructions, conversation, date, 2 messages, requester, trigger, and tools; from the second task
    // on, also earlier questions and replies.
    assert_eq!(parts, 4 * 9 + 2 * (1 + 2 + 3));
}

#[tokio::test]
async fn a_deleted_message_is_removed_from_every_record() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let message = t.ada.tell(&thread, &format!("Word {SECRET}")).await;
    let after = t.ada.tell(&thread, "After it").await;
    let in_thread = replied(&t, &thread, "@vibe one").await;
    let fork = json!({"context": "thread"});
    let fork = id(&t.ada.start_fork(&thread, &after, fork).await);
    let in_fork = t.ada.ask_in(&fork, "@coder two").await;
    t.ada.completed(&in_fork).await;
    let fork = json!({"context": "message"});
    let fork = id(&t.ada.start_fork(&thread, &message, fork).await);
    let in_own_fork = t.ada.ask_in(&fork, "@coder three").await;
    t.ada.completed(&in_own_fork).await;
    // Prompts do not contain messages of other threads yet, so this copies a part into such a record. The deletion must find it, too.
    let other = t.ada.thread(&t.general, "Elsewhere").await;
    let elsewhere = replied(&t, &other, "@vibe four").await;
    let copy = "insert into context_parts (task_id, position, name, source_type, source_id, role, tokens, text_id) \
                select t.id, 100 + p.position, p.name, p.source_type, p.source_id, p.role, p.tokens, p.text_id \
                from context_parts p join context_texts x on x.id = p.text_id cross join tasks t \
                where p.task_id in (select id from tasks where conversation_id = thread_id order by id limit 1) \
                and x.text like '%plugh%' and t.id in (select id from tasks order by id desc limit 1)";
    t.app.place.run(&[copy]).await;
    let tasks = [&in_thread, &in_fork, &in_own_fork, &elsewhere];
    for task in tasks {
        let seen = t.ada.task_context(task).await.to_string();
        assert!(seen.contains(SECRET), "{seen}");
    }
    let before = t.ada.task_context(&in_thread).await;
    delete(&t.ada, &message).await;
    for task in tasks {
        let seen = t.ada.task_context(task).await;
        assert!(!seen.to_string().contains(SECRET), "{seen}");
        assert_eq!(seen["expired"], false);
        assert_eq!(seen["estimated"], false);
    }
    let seen = t.ada.task_context(&in_thread).await;
    let gone = shown(&seen, &message);
    assert_eq!(gone["deleted"], true);
    assert_eq!(gone["excerpt"], "(deleted)");
    // The size in tokens is still known, and everything else is unchanged.
    assert_eq!(gone["tokens"], shown(&before, &message)["tokens"]);
    assert_eq!(seen["budget"], before["budget"]);
    assert_eq!(shown(&seen, &root), shown(&before, &root));
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_edited_message_stays_as_it_was_sent_in_earlier_records() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, &format!("Word {SECRET}")).await;
    let earlier = replied(&t, &thread, "@vibe one").await;
    edit(&t.ada, &message, "Another word").await;
    let later = replied(&t, &thread, "@vibe two").await;
    let seen = t.ada.task_context(&earlier).await;
    let sent = format!("[Ada]: Word {SECRET}");
    assert_eq!(shown(&seen, &message)["excerpt"], sent);
    let seen = t.ada.task_context(&later).await;
    assert_eq!(shown(&seen, &message)["excerpt"], "[Ada]: Another word");
    delete(&t.ada, &message).await;
    for task in [&earlier, &later] {
        let seen = t.ada.task_context(task).await;
        assert_eq!(shown(&seen, &message)["deleted"], true);
        assert!(!seen.to_string().contains(SECRET), "{seen}");
    }
}

#[tokio::test]
async fn a_text_that_looks_deleted_is_shown_as_sent() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model().script("vibe", [Answer::text("(deleted)")]);
    let task = replied(&t, &thread, "@vibe one").await;
    let reply = text(&t.ada.task(&task).await, "/output/message_id");
    let later = replied(&t, &thread, "@vibe two").await;
    let seen = shown(&t.ada.task_context(&later).await, &reply);
    assert_eq!(
        (&seen["deleted"], &seen["excerpt"]),
        (&json!(false), &json!("(deleted)"))
    );
}

#[tokio::test]
async fn a_summary_is_removed_with_any_of_its_source_messages() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::too_large(),
            Answer::too_large(),
            Answer::text("Short."),
        ],
    );
    let summary = format!("THE-SUMMARY is {SECRET}");
    t.model().script(
        "summary",
        [segment("Names.", &[(&summary, "fact", &["m5"])])],
    );
    let thread = t.ada.thread(&t.general, "message 0").await;
    let mut messages = Vec::new();
    for n in 1..30 {
        let text = if n == 4 { SECRET } else { "message" };
        messages.push(t.ada.tell(&thread, &format!("{text} {n}")).await);
    }
    let task = replied(&t, &thread, "@vibe sum up").await;
    let seen = t.ada.task_context(&task).await.to_string();
    assert!(seen.contains(SECRET), "{seen}");
    // This message is sent in full, so it is not part of the summary.
    delete(&t.ada, &messages[28]).await;
    let seen = t.ada.task_context(&task).await.to_string();
    assert!(seen.contains(SECRET), "{seen}");
    delete(&t.ada, &messages[3]).await;
    let seen = t.ada.task_context(&task).await.to_string();
    assert!(!seen.contains(SECRET), "{seen}");
    assert_eq!(t.app.place.places_of(SECRET).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_deleted_before_its_prompt_is_stored_is_not_in_the_record() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [
            Answer::too_large().held(&gate),
            Answer::text("Short.").held(&gate),
        ],
    );
    let thread = t.ada.thread(&t.general, "message 0").await;
    for n in 1..25 {
        t.ada.say(&thread, &format!("message {n}")).await;
    }
    let deleted = t.ada.tell(&thread, &format!("Deleted {SECRET}")).await;
    let task = t.ada.ask(&thread, "@vibe sum up").await;
    gate.reached().await;
    // The first call has started; the second one reuses the context that was read before the first.
    delete(&t.ada, &deleted).await;
    gate.open();
    assert_eq!(t.ada.completed(&task).await["attempt"], 2);
    let sent = &t.model().asked("vibe", 2).await[1];
    assert!(sent.all().contains(SECRET), "the text was sent again");
    let seen = t.ada.task_context(&task).await;
    assert!(!seen.to_string().contains(SECRET), "{seen}");
    assert_eq!(shown(&seen, &deleted)["excerpt"], "(deleted)");
}

#[tokio::test]
async fn records_contain_no_name_of_an_erased_user() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let quill = t.app.join(&t.ada, "Quillon", "member").await;
    let thread = quill.thread(&t.general, &format!("Root {SECRET}")).await;
    let own = quill.ask(&thread, "@vibe one").await;
    quill.completed(&own).await;
    let later = replied(&t, &thread, "@vibe two").await;
    let user = if t.app.place.postgres.is_some() {
        "select replace(id::text, '-', '') from users where name = 'Quillon'"
    } else {
        "select lower(hex(id)) from users where name = 'Quillon'"
    };
    let user = t.app.place.texts(user).await.remove(0);
    let column = if t.app.place.postgres.is_some() {
        "replace(source_id::text, '-', '')"
    } else {
        "lower(hex(source_id))"
    };
    let named = [
        format!("context_parts where {column} = '{user}'"),
        format!("citations where {column} = '{user}'"),
    ];
    for rows in &named {
        assert!(t.app.place.count(rows).await > 0, "{rows}");
    }
    t.ada.erase(&quill).await;
    for rows in &named {
        assert_eq!(t.app.place.count(rows).await, 0, "{rows}");
    }
    for task in [&own, &later] {
        let seen = t.ada.task_context(task).await;
        for trace in ["Quillon", SECRET, quill.id.as_str()] {
            assert!(!seen.to_string().contains(trace), "{trace}: {seen}");
        }
    }
    let seen = t.ada.task_context(&own).await;
    assert_eq!(seen["requested_by"]["name"], "Deleted account");
    let authors: Vec<String> = list(&seen, "/messages")
        .iter()
        .map(|message| text(message, "/author/name"))
        .collect();
    assert_eq!(authors, ["Deleted account"; 2]);
    assert!(
        list(&seen, "/turns")
            .iter()
            .all(|turn| text(turn, "/content").contains("(deleted)"))
    );
}

/// A server that can be killed, with one reply in a thread.
struct Replied {
    place: TestDatabase,
    model: ModelServer,
    server: TestProcess,
    ada: Person,
    root: String,
    task: String,
}

async fn replied_once() -> Replied {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let general = id(&ada.channel("general").await);
    let started = ada.start(&general, &format!("Root {SECRET}")).await;
    let task = ada.ask(&text(&started, "/thread/id"), "@vibe sum up").await;
    ada.completed(&task).await;
    Replied {
        place,
        model,
        server,
        ada,
        root: text(&started, "/message/id"),
        task,
    }
}

#[tokio::test]
async fn unused_texts_expire_and_ids_and_token_counts_remain() {
    let r = replied_once().await;
    let before = r.ada.task_context(&r.task).await;
    r.server.kill().await;
    let place = &r.place;
    let texts = place.count("context_texts").await;
    place
        .run(&[
            "update context_texts set last_used_at = '2020-01-02 03:04:05+00:00' where text like '%plugh%'",
        ])
        .await;
    let server = TestProcess::start(place, &r.model, &[("CONTEXT_RETENTION", "2d")]).await;
    let ada = r.ada.at(&server.base);
    within("the text to expire", async {
        while place.count("context_texts where text like '%plugh%'").await > 0 {
            crate::support::pause().await;
        }
    })
    .await;
    assert_eq!(place.count("context_texts").await, texts - 1);
    let uncited = "citations where owner_id not in (select id from context_texts)";
    assert_eq!(place.count(uncited).await, 0);
    let seen = ada.task_context(&r.task).await;
    assert!(!seen.to_string().contains(SECRET), "{seen}");
    assert_eq!(
        (&before["expired"], &seen["expired"]),
        (&json!(false), &json!(true))
    );
    let (then, now) = (shown(&before, &r.root), shown(&seen, &r.root));
    assert_eq!(
        (&now["tokens"], &now["deleted"], &now["author"]),
        (&then["tokens"], &json!(false), &then["author"])
    );
    assert_eq!(seen["budget"], before["budget"]);
    let turns = list(&seen, "/turns");
    let content = text(&turns[0], "/content");
    assert!(content.contains("(no longer kept)"), "{content}");
    assert!(content.ends_with("@vibe sum up"), "{content}");
}
