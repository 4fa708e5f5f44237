//! Replies while they are being streamed.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, Socket, number, team, text, units};

#[tokio::test]
async fn deltas_reach_only_watchers_of_the_conversation() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::stream().piece("Hello").wait(&gate).end()]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let other = t.ada.thread(&t.general, "Other").await;
    let (mut watching, mut elsewhere) = (t.bo.socket().await, t.ada.socket().await);
    watching.subscribe(&thread).await;
    elsewhere.subscribe(&other).await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let delta = watching.of("task.delta").await;
    assert_eq!(delta["task_id"], task.as_str());
    assert_eq!(
        (&delta["attempt"], &delta["offset"], &delta["text"]),
        (&json!(1), &json!(0), &json!("Hello"))
    );
    assert!(
        delta.get("seq").is_none(),
        "a droppable frame has no number"
    );
    gate.open();
    let seen = elsewhere
        .through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    assert!(seen.iter().all(|f| f["type"] != "task.delta"));
}

#[tokio::test]
async fn a_late_watcher_gets_the_text_so_far_and_then_the_deltas() {
    let t = team().await;
    let (first, second) = (Gate::new(), Gate::new());
    let start = "Grüße 👋🏽 ";
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece(start)
            .wait(&first)
            .piece("an alle")
            .wait(&second)
            .end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut early = t.ada.socket().await;
    early.subscribe(&thread).await;
    t.ada.ask(&thread, "@vibe hi").await;
    early.of("task.delta").await;
    let mut late = t.bo.socket().await;
    late.subscribe(&thread).await;
    let so_far = late.of("task.delta").await;
    assert_eq!(
        (&so_far["offset"], &so_far["text"]),
        (&json!(0), &json!(start))
    );
    first.open();
    let next = late.of("task.delta").await;
    assert_eq!(
        (number(&next, "/offset"), text(&next, "/text")),
        (units(start), "an alle".to_owned())
    );
    second.open();
    let updated = late.of("message.updated").await;
    assert_eq!(updated["data"]["message"]["content"], "Grüße 👋🏽 an alle");
}

#[tokio::test]
async fn offsets_count_utf16_code_units_and_texts_join_without_gaps() {
    let t = team().await;
    let pieces = ["a", "é", "👋", "日本", "👩‍👩‍👧", "e\u{301}", "\n\n", "end"];
    let mut answer = Answer::stream();
    for piece in pieces {
        answer = answer
            .piece(piece)
            .pause(std::time::Duration::from_millis(60));
    }
    t.model().script("vibe", [answer.end()]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    t.ada.ask(&thread, "@vibe hi").await;
    let frames = socket
        .through("the end", |f| f["type"] == "message.updated")
        .await;
    let mut whole = String::new();
    let deltas: Vec<&Value> = frames
        .iter()
        .filter(|f| f["type"] == "task.delta")
        .collect();
    assert!(deltas.len() > 2, "{}", deltas.len());
    for delta in deltas {
        assert_eq!(number(delta, "/offset"), units(&whole));
        whole += &text(delta, "/text");
    }
    assert!(pieces.concat().starts_with(&whole), "{whole}");
    assert_eq!(
        frames.last().unwrap()["data"]["message"]["content"],
        pieces.concat()
    );
}

#[tokio::test]
async fn many_small_chunks_are_sent_in_few_frames() {
    let t = team().await;
    let pieces = vec!["x"; 2000];
    t.model().script("vibe", [Answer::pieces(&pieces)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.subscribe(&thread).await;
    let begun = std::time::Instant::now();
    t.ada.ask(&thread, "@vibe hi").await;
    let frames = socket
        .through("the end", |f| f["type"] == "message.updated")
        .await;
    let deltas = frames.iter().filter(|f| f["type"] == "task.delta").count();
    let most = usize::try_from(begun.elapsed().as_millis() / 50).unwrap() + 2;
    assert!(deltas <= most, "{deltas} in {:?}", begun.elapsed());
    assert_eq!(
        units(&text(frames.last().unwrap(), "/data/message/content")),
        2000
    );
}

#[tokio::test]
async fn a_resuming_client_sees_the_unfinished_reply() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Half")
            .wait(&gate)
            .piece(" whole")
            .end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    let task = t.ada.ask(&thread, "@vibe hi").await;
    socket
        .until("the reply to begin", |f| {
            f["data"]["message"]["state"] == "streaming"
        })
        .await;
    drop(socket);
    let mut again = Socket::resume(&t.bo, cursor, &epoch).await;
    let begun = again
        .until("the reply to begin", |f| {
            f["data"]["message"]["state"] == "streaming"
        })
        .await;
    again.subscribe(&thread).await;
    let delta = again.of("task.delta").await;
    assert_eq!(
        (&delta["text"], &delta["message_id"]),
        (&json!("Half"), &begun["data"]["message"]["id"])
    );
    gate.open();
    assert_eq!(
        again.of("message.updated").await["data"]["message"]["content"],
        "Half whole"
    );
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn after_the_end_there_is_no_stream_to_catch_up_on() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe hi").await;
    t.ada.completed(&task).await;
    let mut socket = t.bo.socket().await;
    // The stream is closed shortly after the commit that ends the task.
    let quiet = async {
        loop {
            socket.subscribe(&thread).await;
            if socket
                .settle()
                .await
                .iter()
                .all(|f| f["type"] != "task.delta")
            {
                return;
            }
        }
    };
    crate::support::within("the stream to be closed", quiet).await;
}

#[tokio::test]
async fn two_replies_in_one_conversation_stream_concurrently() {
    let t = team().await;
    let (vibe, coder) = (Gate::new(), Gate::new());
    t.model().script(
        "vibe",
        [Answer::stream().piece("V1 ").wait(&vibe).piece("V2").end()],
    );
    t.model().script(
        "coder",
        [Answer::stream().piece("C1 ").wait(&coder).piece("C2").end()],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    t.ada.say(&thread, "@vibe @coder hi").await;
    vibe.reached().await;
    coder.reached().await;
    let mut socket = t.bo.socket().await;
    let both = async {
        loop {
            socket.subscribe(&thread).await;
            let mut texts: Vec<String> = socket
                .settle()
                .await
                .iter()
                .filter(|f| f["type"] == "task.delta" && f["offset"] == 0)
                .map(|f| text(f, "/text"))
                .collect();
            texts.sort();
            texts.dedup();
            if texts == ["C1 ", "V1 "] {
                return;
            }
        }
    };
    crate::support::within("both replies", both).await;
    vibe.open();
    coder.open();
    let ended = |f: &Value| f["type"] == "message.updated";
    let (one, two) = (
        socket.until("one", ended).await,
        socket.until("two", ended).await,
    );
    let mut contents = [
        text(&one, "/data/message/content"),
        text(&two, "/data/message/content"),
    ];
    contents.sort();
    assert_eq!(contents, ["C1 C2", "V1 V2"]);
}

#[tokio::test]
async fn a_reply_of_256_kib_arrives_complete() {
    let t = team().await;
    let piece = "0123456789abcde ".repeat(64);
    let pieces = vec![piece.as_str(); 200];
    t.model().script("vibe", [Answer::pieces(&pieces)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe much").await;
    let done = t.ada.completed(&task).await;
    let reply = text(
        &t.ada.message(&text(&done, "/output/message_id")).await,
        "/content",
    );
    assert_eq!(reply, pieces.concat().trim_end());
}

/// The next delta, in either form.
async fn delta(socket: &mut Socket) -> Value {
    socket
        .until("a delta", |frame| {
            frame.is_array() || frame["type"] == "task.delta"
        })
        .await
}

#[tokio::test]
async fn compact_deltas_are_arrays_after_a_first_object() {
    let t = team().await;
    let (first, second, last) = (Gate::new(), Gate::new(), Gate::new());
    let answer = Answer::stream()
        .piece("Grüße 👋")
        .wait(&first)
        .piece(" und")
        .wait(&second)
        .piece(" mehr")
        .wait(&last);
    t.model().script("vibe", [answer.end()]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let subscribe = json!({"type": "subscribe", "thread_id": thread});
    let mut early = Socket::open(&t.ada, json!({"deltas": "compact"})).await;
    let mut full = t.ada.socket().await;
    assert_eq!(
        early.ack(subscribe.clone()).await,
        json!({"streams": []}),
        "no reply is in progress"
    );
    assert_eq!(full.ack(subscribe.clone()).await, json!({}));
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let begin = delta(&mut early).await;
    let whole = delta(&mut full).await;
    let number = begin["stream"].as_u64().unwrap();
    assert_eq!(whole.get("stream"), None);
    for name in ["task_id", "message_id", "attempt", "offset", "text"] {
        assert_eq!(begin[name], whole[name], "{name}");
    }
    assert_eq!(
        (&begin["task_id"], &begin["offset"]),
        (&json!(task), &json!(0))
    );
    first.open();
    let at = units("Grüße 👋");
    assert_eq!(delta(&mut early).await, json!([number, at, " und"]));
    assert_eq!(delta(&mut full).await["offset"], at);

    let mut late = Socket::open(&t.bo, json!({"deltas": "compact"})).await;
    let streams = late.ack(subscribe).await;
    let named =
        json!({"stream": number, "task_id": task, "message_id": begin["message_id"], "attempt": 1});
    assert_eq!(streams, json!({"streams": [named]}));
    let so_far = delta(&mut late).await;
    assert_eq!(
        (&so_far["stream"], &so_far["offset"], &so_far["text"]),
        (&json!(number), &json!(0), &json!("Grüße 👋 und"))
    );
    second.open();
    let at = units("Grüße 👋 und");
    assert_eq!(delta(&mut late).await, json!([number, at, " mehr"]));
    assert_eq!(delta(&mut early).await, json!([number, at, " mehr"]));
    last.open();
    let updated = early.of("message.updated").await;
    assert_eq!(updated["data"]["message"]["content"], "Grüße 👋 und mehr");
}
