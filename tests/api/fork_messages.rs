//! Conversations in forks: responders, reply counts in the thread, and watching.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, Team, id, list, number, team, team_with, text};

/// Creates a thread and a fork with Vibe; returns their IDs.
async fn with_partner(t: &Team) -> (String, String) {
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t.ada.start_fork(&thread, &root, json!({})).await;
    (thread, id(&fork))
}

#[tokio::test]
async fn the_forks_agent_replies_to_every_message() {
    let t = team().await;
    t.model().script(
        "vibe",
        [
            Answer::text("Two quiet days."),
            Answer::text("Nothing else."),
        ],
    );
    let (thread, fork) = with_partner(&t).await;
    let asked = t.ada.say_in(&fork, "What speaks for Monday?").await;
    let message = &asked["message"];
    assert_eq!(
        (&message["fork_id"], &message["thread_id"]),
        (&json!(fork), &json!(thread))
    );
    let task = &asked["tasks"][0];
    assert_eq!(
        (
            &task["kind"],
            &task["fork_id"],
            &task["thread_id"],
            &task["trigger_message_id"]
        ),
        (
            &json!("reply"),
            &json!(fork),
            &json!(thread),
            &message["id"]
        )
    );
    t.ada.completed(&id(task)).await;
    let second = t.bo.ask_in(&fork, "What else?").await;
    let done = t.bo.completed(&second).await;
    let messages = t.ada.messages_in(&fork).await;
    let contents: Vec<String> = messages.iter().map(|m| text(m, "/content")).collect();
    assert_eq!(
        contents,
        [
            "What speaks for Monday?",
            "Two quiet days.",
            "What else?",
            "Nothing else."
        ]
    );
    assert!(messages.iter().all(|m| m["fork_id"] == fork.as_str()));
    assert_eq!(messages[3]["parent_id"], messages[2]["id"]);
    assert_eq!(messages[3]["id"], done["output"]["message_id"]);
    assert_eq!(t.ada.fork(&fork).await["message_count"], 4);
}

#[tokio::test]
async fn a_mention_invokes_another_agent() {
    let t = team().await;
    let (_, fork) = with_partner(&t).await;
    let posted = t.ada.say_in(&fork, "@coder is it green?").await;
    let tasks = list(&posted, "/tasks");
    assert_eq!(
        tasks.len(),
        1,
        "the fork's agent does not reply if another one is mentioned"
    );
    assert_eq!(tasks[0]["agent_id"], t.ada.agent("coder").await["id"]);
    t.ada.completed(&id(&tasks[0])).await;
    let both = t.ada.say_in(&fork, "@coder @vibe decide").await;
    let tasks = list(&both, "/tasks");
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        t.ada.completed(&id(&task)).await;
    }
    assert_eq!(t.ada.fork(&fork).await["message_count"], 5);
}

#[tokio::test]
async fn the_forks_agent_keeps_its_pinned_version_even_when_mentioned() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": sage}))
        .await;
    t.ada
        .patch(
            &format!("/v1/agents/{sage}"),
            json!({"description": "Newer"}),
        )
        .await
        .is(200);
    for content in ["Unasked", "@sage asked"] {
        let task = t.ada.ask_in(&id(&fork), content).await;
        assert_eq!(
            t.ada.completed(&task).await["agent_version"],
            1,
            "{content}"
        );
    }
    let loose = t.ada.ask(&thread, "@sage and here?").await;
    assert_eq!(t.ada.completed(&loose).await["agent_version"], 2);
}

#[tokio::test]
async fn without_an_agent_only_mentions_are_answered() {
    let t = team().await;
    let dive = t.dive().await;
    assert_eq!(
        t.ada.say_in(&dive.fork, "Among people").await["tasks"],
        json!([])
    );
    let task = t.bo.ask_in(&dive.fork, "@vibe and you?").await;
    t.bo.completed(&task).await;
    assert_eq!(
        t.ada.contents_in(&dive.fork).await,
        ["Among people", "@vibe and you?", "Fine."]
    );
}

#[tokio::test]
async fn an_agents_reply_invokes_no_agent() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("@coder what do you say?")]);
    let (_, fork) = with_partner(&t).await;
    let task = t.ada.ask_in(&fork, "Why?").await;
    t.ada.completed(&task).await;
    let all = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(list(&all, "/data").len(), 1);
}

#[tokio::test]
async fn the_thread_does_not_show_messages_of_its_dives() {
    let t = team().await;
    let dive = t.dive().await;
    let path = format!("/v1/threads/{}", dive.thread);
    let listed = format!("/v1/channels/{}/threads", t.general);
    let (before, before_list) = (t.bo.get(&path).await.ok(), t.bo.get(&listed).await.ok());
    let gate = Gate::new();
    t.model().script("vibe", [Answer::text("Yes.").held(&gate)]);
    let posted = t.ada.say_in(&dive.fork, "@vibe @bo hello @everyone").await;
    gate.reached().await;
    let mut amid = t.bo.get(&path).await.ok();
    amid["active_tasks"] = json!([]);
    assert_eq!(amid, before, "only the activity is visible");
    gate.open();
    t.ada.completed(&text(&posted, "/tasks/0/id")).await;
    assert_eq!(t.bo.get(&path).await.ok(), before);
    assert_eq!(t.bo.get(&listed).await.ok(), before_list);
    assert_eq!(t.bo.contents(&dive.thread).await, [crate::support::ROOT]);
}

#[tokio::test]
async fn messages_in_a_dive_are_not_unread() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.act(&format!("/v1/channels/{}/read", t.general))
        .await
        .is(200);
    t.ada.say_in(&dive.fork, "@bo hello @everyone").await;
    for channel in [
        t.bo.get(&format!("/v1/channels/{}", t.general)).await.ok(),
        t.bo.get("/v1/snapshot").await.ok()["channels"][0].clone(),
    ] {
        assert_eq!(channel["id"], t.general.as_str());
        assert_eq!(
            (&channel["unread_count"], &channel["mention_count"]),
            (&json!(0), &json!(0))
        );
    }
}

#[tokio::test]
async fn messages_of_a_dive_are_listed_in_pages() {
    let t = team().await;
    let dive = t.dive().await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(t.ada.tell_in(&dive.fork, &n.to_string()).await);
    }
    t.ada.tell(&dive.thread, "In the thread").await;
    let page = async |query: &str| {
        let path = format!("/v1/forks/{}/messages{query}", dive.fork);
        let page = t.bo.get(&path).await.ok();
        let found: Vec<usize> = list(&page, "/data")
            .iter()
            .map(|m| ids.iter().position(|known| *known == id(m)).unwrap())
            .collect();
        (found, page["has_more"] == true)
    };
    assert_eq!(page("").await, ((0..7).collect(), false));
    assert_eq!(page("?limit=3").await, (vec![4, 5, 6], true), "the newest");
    let before = format!("?limit=3&before={}", ids[4]);
    assert_eq!(page(&before).await, (vec![1, 2, 3], true));
    let after = format!("?limit=3&after={}", ids[3]);
    assert_eq!(page(&after).await, (vec![4, 5, 6], false));
    let (around, _) = page(&format!("?limit=3&around={}", ids[2])).await;
    assert!(around.contains(&2) && around.len() <= 3, "{around:?}");
    let path = format!("/v1/forks/{}/messages", dive.fork);
    t.bo.get(&format!("{path}?after={}", dive.root))
        .await
        .refused(404);
    let in_thread = format!("/v1/threads/{}/messages?after={}", dive.thread, ids[0]);
    t.bo.get(&in_thread).await.refused(404);
    for bad in ["limit=0", "limit=101", "after=x", "colour=red"] {
        t.bo.get(&format!("{path}?{bad}")).await.refused(400);
    }
}

#[tokio::test]
async fn a_parent_message_must_be_in_the_same_dive() {
    let t = team().await;
    let dive = t.dive().await;
    let sibling = id(&t
        .ada
        .start_fork(&dive.thread, &dive.root, json!({"agent_id": null}))
        .await);
    let in_sibling = t.ada.tell_in(&sibling, "There").await;
    let first = t.ada.tell_in(&dive.fork, "Here").await;
    let path = format!("/v1/forks/{}/messages", dive.fork);
    let answer =
        t.bo.post(&path, json!({"content": "x", "parent_id": first}))
            .await
            .is(201);
    assert_eq!(answer["message"]["parent_id"], first.as_str());
    for parent in [&in_sibling, &dive.root] {
        t.bo.post(&path, json!({"content": "x", "parent_id": parent}))
            .await
            .refused(422);
    }
    t.bo.post(
        &format!("/v1/threads/{}/messages", dive.thread),
        json!({"content": "x", "parent_id": first}),
    )
    .await
    .refused(422);
}

#[tokio::test]
async fn a_resend_returns_the_first_message() {
    let t = team().await;
    let (thread, fork) = with_partner(&t).await;
    let path = format!("/v1/forks/{fork}/messages");
    let form = json!({"content": "Once", "client_id": "c-1"});
    let first = t.ada.post(&path, form.clone()).await.is(201);
    t.ada.completed(&text(&first, "/tasks/0/id")).await;
    let again = t.ada.post(&path, form.clone()).await.is(200);
    assert_eq!(again["message"], first["message"]);
    assert_eq!(again["tasks"][0]["id"], first["tasks"][0]["id"]);
    assert_eq!(t.ada.fork(&fork).await["message_count"], 2);
    let elsewhere = t
        .ada
        .post(&format!("/v1/threads/{thread}/messages"), form.clone())
        .await;
    assert_eq!(elsewhere.refused(409), "client_id_reused");
    t.ada.abandon(&fork).await;
    t.ada.post(&path, form).await.is(200);
}

#[tokio::test]
async fn invalid_messages_are_rejected_as_in_a_thread() {
    let t = team().await;
    let dive = t.dive().await;
    let path = format!("/v1/forks/{}/messages", dive.fork);
    for (form, status) in [
        (json!({"content": 7}), 400),
        (json!({}), 400),
        (json!({"content": "x", "colour": "red"}), 400),
        (json!({"content": " \n"}), 422),
        (json!({"content": "x".repeat(32 * 1024 + 1)}), 413),
    ] {
        t.ada.post(&path, form).await.refused(status);
    }
    let agents: Vec<String> = (0..9).map(|n| format!("a{n}")).collect();
    for agent in &agents {
        t.ada.make_agent(agent).await;
    }
    let mentions = format!("@{}", agents.join(" @"));
    assert_eq!(
        t.ada.try_say_in(&dive.fork, &mentions).await.refused(422),
        "too_many_agents"
    );
    assert_eq!(t.ada.fork(&dive.fork).await["message_count"], 0);
}

#[tokio::test]
async fn messages_of_a_dive_can_be_edited_deleted_and_reacted_to() {
    let t = team().await;
    let dive = t.dive().await;
    let first = t.ada.tell_in(&dive.fork, "First").await;
    let second = t.ada.tell_in(&dive.fork, "Second").await;
    let mut socket = t.bo.socket().await;
    let path = format!("/v1/messages/{first}");
    let edited = t
        .ada
        .patch(&path, json!({"content": "@vibe edited"}))
        .await
        .is(200);
    assert_eq!(edited["fork_id"], dive.fork.as_str());
    let event = socket.of("message.updated").await;
    assert_eq!(
        (&event["fork_id"], &event["data"]["message"]),
        (&json!(dive.fork), &edited)
    );
    t.bo.put(&format!("{path}/reactions/tada"), json!({}))
        .await
        .is(200);
    let event = socket.of("reaction.added").await;
    assert_eq!(event["fork_id"], dive.fork.as_str());
    t.bo.delete(&format!("/v1/messages/{second}"))
        .await
        .refused(403);
    t.ada
        .delete(&format!("/v1/messages/{second}"))
        .await
        .is(200);
    let event = socket.of("message.deleted").await;
    assert_eq!(event["fork_id"], dive.fork.as_str());
    assert_eq!(t.bo.contents_in(&dive.fork).await, ["@vibe edited", ""]);
    assert_eq!(
        t.ada.fork(&dive.fork).await["message_count"],
        2,
        "a tombstone is listed, so it counts"
    );
    let tasks = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"], json!([]), "editing never triggers");
}

#[tokio::test]
async fn a_closed_dive_is_read_only_but_authors_can_delete_their_messages() {
    let t = team().await;
    let (dive, _) = t.resolved("Monday it is").await;
    let message = id(&t.ada.messages_in(&dive.fork).await[0]);
    let path = format!("/v1/messages/{message}");
    let edited = t.bo.patch(&path, json!({"content": "x"})).await;
    assert_eq!(edited.refused(409), "fork_closed");
    let reacted = t.bo.put(&format!("{path}/reactions/tada"), json!({})).await;
    assert_eq!(reacted.refused(409), "fork_closed");
    t.bo.delete(&path).await.is(200);
    assert_eq!(t.ada.contents_in(&dive.fork).await, [""]);
}

#[tokio::test]
async fn a_deleted_trigger_message_cancels_its_task() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Never.").held(&gate)]);
    let (_, fork) = with_partner(&t).await;
    let asked = t.ada.say_in(&fork, "Why?").await;
    gate.reached().await;
    t.ada
        .delete(&format!("/v1/messages/{}", text(&asked, "/message/id")))
        .await
        .is(200);
    let task = t.ada.ended(&text(&asked, "/tasks/0/id")).await;
    assert_eq!(task["status"], "cancelled");
    assert_eq!(t.ada.contents_in(&fork).await, [""]);
}

#[tokio::test]
async fn everyone_in_the_channel_receives_the_events_of_a_dive() {
    let t = team().await;
    let (_, fork) = with_partner(&t).await;
    let mut socket = t.bo.socket().await;
    t.ada.ask_in(&fork, "Why?").await;
    let seen = socket
        .events_through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    assert!(
        seen.iter().all(|f| f["fork_id"] == fork.as_str()),
        "{seen:?}"
    );
    let kinds: Vec<String> = seen.iter().map(|f| text(f, "/type")).collect();
    assert_eq!(
        &kinds[..2],
        ["message.created", "task.status_changed"],
        "the message comes first"
    );
    assert_eq!(kinds.iter().filter(|k| *k == "message.created").count(), 2);
}

#[tokio::test]
async fn deltas_of_a_dive_reach_watchers_of_the_dive_and_not_of_the_thread() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::stream().piece("Hello").wait(&gate).end()]);
    let (thread, fork) = with_partner(&t).await;
    let (mut of_dive, mut of_thread) = (t.ada.socket().await, t.bo.socket().await);
    of_dive.watch(&fork).await;
    of_thread.subscribe(&thread).await;
    let task = t.ada.ask_in(&fork, "hi").await;
    let delta = of_dive.of("task.delta").await;
    assert_eq!(
        (&delta["task_id"], &delta["text"]),
        (&json!(task), &json!("Hello"))
    );
    let mut late = t.bo.socket().await;
    late.watch(&fork).await;
    let so_far = late.of("task.delta").await;
    assert_eq!(
        (&so_far["offset"], &so_far["text"]),
        (&json!(0), &json!("Hello"))
    );
    of_dive
        .ack(json!({"type": "unsubscribe", "fork_id": fork}))
        .await;
    gate.open();
    let is_end = |f: &Value| f["data"]["task"]["status"] == "completed";
    let seen = of_thread.through("the end", is_end).await;
    assert!(seen.iter().all(|f| f["type"] != "task.delta"), "{seen:?}");
}

#[tokio::test]
async fn deltas_of_a_thread_do_not_reach_watchers_of_its_dive() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::pieces(&["One ", "two ", "three."])]);
    let (thread, fork) = with_partner(&t).await;
    let mut of_dive = t.bo.socket().await;
    of_dive.watch(&fork).await;
    t.ada.ask(&thread, "@vibe hi").await;
    let seen = of_dive
        .through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    assert!(seen.iter().all(|f| f["type"] != "task.delta"), "{seen:?}");
}

#[tokio::test]
async fn a_message_can_be_sent_over_the_socket() {
    let t = team().await;
    let (_, fork) = with_partner(&t).await;
    let mut socket = t.ada.socket().await;
    let send =
        json!({"type": "message.send", "fork_id": fork, "content": "Why?", "client_id": "c-1"});
    let first = socket.ack(send.clone()).await;
    assert_eq!(first["message"]["fork_id"], fork.as_str());
    assert_eq!(first["tasks"][0]["fork_id"], fork.as_str());
    t.ada.completed(&text(&first, "/tasks/0/id")).await;
    let again = socket.ack(send).await;
    assert_eq!(again["message"], first["message"]);
    let answer = json!({"type": "message.send", "fork_id": fork, "content": "So", "client_id": "c-2",
        "parent_id": first["message"]["id"]});
    assert_eq!(
        socket.ack(answer).await["message"]["parent_id"],
        first["message"]["id"]
    );
    t.ada.abandon(&fork).await;
    let closed =
        json!({"type": "message.send", "fork_id": fork, "content": "x", "client_id": "c-3"});
    assert_eq!(socket.request(closed).await["error"]["code"], "fork_closed");
    let two = json!({"type": "message.send", "fork_id": fork, "channel_id": t.general, "content": "x", "client_id": "c-4"});
    assert_eq!(
        socket.request(two).await["error"]["type"],
        "invalid_request"
    );
}

#[tokio::test]
async fn typing_in_a_dive_is_visible_to_its_watchers() {
    let t = team().await;
    let dive = t.dive().await;
    let (mut ada, mut bo, mut in_thread) = (
        t.ada.socket().await,
        t.bo.socket().await,
        t.bo.socket().await,
    );
    bo.watch(&dive.fork).await;
    in_thread.subscribe(&dive.thread).await;
    ada.send(&json!({"type": "typing", "fork_id": dive.fork}))
        .await;
    let frame = bo.of("typing").await;
    assert_eq!(
        frame,
        json!({"type": "typing", "thread_id": null, "fork_id": dive.fork, "user_id": t.ada.id})
    );
    let seen = in_thread.settle().await;
    assert!(seen.iter().all(|f| f["type"] != "typing"), "{seen:?}");
}

#[tokio::test]
async fn a_reply_in_a_dive_can_be_canceled_and_retried() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [
            Answer::stream().piece("I was about").wait(&gate),
            Answer::text("Whole."),
        ],
    );
    let (thread, fork) = with_partner(&t).await;
    let mut socket = t.bo.socket().await;
    socket.watch(&fork).await;
    let task = t.ada.ask_in(&fork, "Why?").await;
    // Waits for some text, because a reply that is canceled before that is empty.
    socket.streamed("I was about").await;
    let stopped = t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    assert_eq!(stopped["status"], "cancelled");
    let messages = t.ada.messages_in(&fork).await;
    assert_eq!(
        (&messages[1]["content"], &messages[1]["state"]),
        (&json!("I was about"), &json!("interrupted"))
    );
    t.bo.act(&format!("/v1/tasks/{task}/retry"))
        .await
        .refused(403);
    let retried = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    assert_eq!(
        (
            &retried["retry_of"],
            &retried["fork_id"],
            &retried["thread_id"]
        ),
        (&json!(task), &json!(fork), &json!(thread))
    );
    t.ada.completed(&id(&retried)).await;
    assert_eq!(t.ada.contents_in(&fork).await, ["Why?", "", "Whole."]);
}

#[tokio::test]
async fn a_failed_reply_posts_its_notice_in_the_dive() {
    let t = team().await;
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let (thread, fork) = with_partner(&t).await;
    let task = t.ada.ask_in(&fork, "Why?").await;
    t.ada.failed(&task).await;
    let messages = t.ada.messages_in(&fork).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(
        (&messages[1]["kind"], &messages[1]["fork_id"]),
        (&json!("notice"), &json!(fork))
    );
    assert_eq!(t.ada.contents(&thread).await, ["Root"]);
    let counted = t.ada.fork(&fork).await["message_count"].clone();
    assert_eq!(counted, 2, "a notice is listed, so it counts");
}

#[tokio::test]
async fn abandoning_a_dive_cancels_its_tasks_and_no_others() {
    let t = team().await;
    let (in_dive, in_thread) = (Gate::new(), Gate::new());
    t.model()
        .script("vibe", [Answer::stream().piece("Half").wait(&in_dive)]);
    t.model()
        .script("coder", [Answer::text("Done.").held(&in_thread)]);
    let (thread, fork) = with_partner(&t).await;
    let stopped = t.ada.ask_in(&fork, "Why?").await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    let goes_on = t.ada.ask(&thread, "@coder work").await;
    in_thread.reached().await;
    t.bo.abandon(&fork).await;
    assert_eq!(t.ada.ended(&stopped).await["status"], "cancelled");
    assert_eq!(t.ada.messages_in(&fork).await[1]["state"], "interrupted");
    in_thread.open();
    t.ada.completed(&goes_on).await;
    let retry = t.ada.act(&format!("/v1/tasks/{stopped}/retry")).await;
    assert_eq!(retry.refused(409), "fork_closed");
}

#[tokio::test]
async fn one_agent_can_reply_in_a_dive_and_its_thread_concurrently() {
    let t = team_with(&[("WORKERS", "4")]).await;
    let gates = [Gate::new(), Gate::new()];
    t.model().script(
        "vibe",
        gates.iter().map(|gate| Answer::text("Done.").held(gate)),
    );
    let (thread, fork) = with_partner(&t).await;
    let one = t.ada.ask_in(&fork, "Here").await;
    let other = t.ada.ask(&thread, "@vibe there").await;
    for gate in &gates {
        gate.reached().await;
    }
    for gate in &gates {
        gate.open();
    }
    t.ada.completed(&one).await;
    t.ada.completed(&other).await;
}

#[tokio::test]
async fn tasks_of_a_thread_include_those_of_its_dives() {
    let t = team().await;
    let (thread, fork) = with_partner(&t).await;
    let task = t.ada.ask_in(&fork, "Why?").await;
    t.ada.completed(&task).await;
    let found = t
        .ada
        .get(&format!("/v1/tasks?thread_id={thread}"))
        .await
        .ok();
    assert_eq!(found["data"][0]["id"], task.as_str());
    assert_eq!(found["data"][0]["fork_id"], fork.as_str());
    let seen = t.ada.task_context(&task).await;
    assert_eq!(seen["task_id"], task.as_str());
}

#[tokio::test]
async fn posting_in_a_dive_joins_the_channel() {
    let t = team().await;
    let channel = id(&t
        .ada
        .post("/v1/channels", json!({"name": "launch"}))
        .await
        .is(201));
    let started = t.ada.start(&channel, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    t.bo.say_in(&id(&fork), "Hello").await;
    let members = t
        .ada
        .get(&format!("/v1/channels/{channel}/members"))
        .await
        .ok();
    assert_eq!(list(&members, "/data").len(), 2);
    let own = t.ada.get(&format!("/v1/channels/{channel}")).await.ok();
    assert_eq!(number(&own, "/unread_count"), 0);
}
