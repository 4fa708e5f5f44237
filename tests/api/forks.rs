//! Starting, changing, abandoning, and reopening forks.

use serde_json::{Value, json};

use crate::support::{Team, id, list, team, text, unknown_id};

/// Creates a thread in #general with this root message; returns both IDs.
async fn thread(t: &Team, content: &str) -> (String, String) {
    let started = t.ada.start(&t.general, content).await;
    (text(&started, "/thread/id"), text(&started, "/message/id"))
}

#[tokio::test]
async fn a_deep_dive_starts_from_a_message() {
    let t = team().await;
    let (thread, root) = thread(&t, "Friday or Monday?").await;
    let vibe = id(&t.ada.agent("vibe").await);
    let mut socket = t.bo.socket().await;
    let fork = t
        .ada
        .start_fork(
            &thread,
            &root,
            json!({"title": "The day", "description": "Which day suits all?", "agent_id": vibe, "context": "thread"}),
        )
        .await;
    assert!(id(&fork).starts_with("fork_"));
    let expected = json!({"id": fork["id"], "workspace_id": t.ada.workspace, "channel_id": t.general, "thread_id": thread,
        "message_id": root, "title": "The day", "description": "Which day suits all?", "agent_id": vibe, "agent_version": 1,
        "auto_reply": true, "context": "thread", "status": "active", "stale": false, "message_count": 0,
        "created_by": t.ada.id, "created_at": fork["created_at"], "resolved_at": null, "resolution_id": null,
        "draft_id": null, "presets": [], "collaboration": null});
    assert_eq!(fork, expected);
    assert_eq!(t.bo.fork(&id(&fork)).await, fork);
    let event = socket.event().await;
    assert_eq!(event["type"], "fork.created");
    assert_eq!(event["data"], json!({"fork": fork}));
    assert_eq!(
        (&event["channel_id"], &event["thread_id"], &event["fork_id"]),
        (&fork["channel_id"], &fork["thread_id"], &fork["id"])
    );
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["open_forks"], json!([fork]));
}

#[tokio::test]
async fn the_default_start_uses_the_default_agent_and_only_the_message() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let fork = t.ada.start_fork(&thread, &root, json!({})).await;
    assert_eq!(fork["agent_id"], t.ada.agent("vibe").await["id"]);
    assert_eq!(
        (&fork["context"], &fork["auto_reply"], &fork["description"]),
        (&json!("message"), &json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn a_deep_dive_uses_the_threads_agent_at_its_pinned_version() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&path, json!({"content": "Root", "agent_id": sage}))
        .await
        .is(201);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    t.ada
        .patch(
            &format!("/v1/agents/{sage}"),
            json!({"instructions": "You are Newer, made for a test."}),
        )
        .await
        .is(200);
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t.bo.start_fork(&thread, &root, json!({})).await;
    assert_eq!(
        (&fork["agent_id"], &fork["agent_version"]),
        (&json!(sage), &json!(1))
    );
    let task = t.bo.ask_in(&id(&fork), "Why?").await;
    assert_eq!(t.bo.completed(&task).await["agent_version"], 1);
    assert_eq!(t.model().asked("sage", 2).await.len(), 2);
}

#[tokio::test]
async fn a_deep_dive_with_a_chosen_agent_uses_its_newest_version() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let sage = id(&t.ada.make_agent("sage").await);
    t.ada
        .patch(
            &format!("/v1/agents/{sage}"),
            json!({"description": "Knows"}),
        )
        .await
        .is(200);
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": sage}))
        .await;
    assert_eq!(
        (&fork["agent_id"], &fork["agent_version"]),
        (&json!(sage), &json!(2))
    );
}

#[tokio::test]
async fn a_deep_dive_can_start_without_an_agent() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    assert_eq!(
        (
            &fork["agent_id"],
            &fork["agent_version"],
            &fork["auto_reply"]
        ),
        (&Value::Null, &Value::Null, &json!(false))
    );
}

#[tokio::test]
async fn an_agent_that_cannot_be_invoked_is_rejected_as_for_threads() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let sage = id(&t.ada.make_agent("sage").await);
    t.ada
        .patch(&format!("/v1/agents/{sage}"), json!({"status": "inactive"}))
        .await
        .is(200);
    let path = format!("/v1/channels/{}/threads", t.general);
    for agent in [sage, unknown_id("agent")] {
        let of_thread = t
            .ada
            .post(&path, json!({"content": "x", "agent_id": agent}))
            .await;
        let of_dive = t
            .ada
            .try_fork(&thread, &root, json!({"agent_id": agent}))
            .await;
        assert_eq!(of_dive.status, of_thread.status, "{agent}");
        assert_eq!(
            of_dive.json()["error"]["code"],
            of_thread.json()["error"]["code"]
        );
    }
}

#[tokio::test]
async fn the_title_is_the_first_line_of_the_forked_message_and_stays() {
    let t = team().await;
    let (thread, root) = thread(&t, "**Which** day?\nSecond line").await;
    let fork = t.ada.start_fork(&thread, &root, json!({})).await;
    assert_eq!(fork["title"], "Which day?");
    let fork = id(&fork);
    let task = t.bo.ask_in(&fork, "What speaks for Monday?").await;
    t.bo.completed(&task).await;
    t.bo.say_in(&fork, "Another thing").await;
    assert_eq!(t.bo.fork(&fork).await["title"], "Which day?");
}

#[tokio::test]
async fn a_given_title_is_kept() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let given = t
        .ada
        .start_fork(
            &thread,
            &root,
            json!({"title": " The day ", "agent_id": null}),
        )
        .await;
    let changed = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    let (given, changed) = (id(&given), id(&changed));
    t.ada
        .patch(
            &format!("/v1/forks/{changed}"),
            json!({"title": "The place"}),
        )
        .await
        .is(200);
    let mut socket = t.ada.socket().await;
    t.bo.say_in(&given, "Something").await;
    t.bo.say_in(&changed, "Something").await;
    assert_eq!(t.ada.fork(&given).await["title"], "The day");
    assert_eq!(t.ada.fork(&changed).await["title"], "The place");
    let seen = socket.settle().await;
    assert!(seen.iter().all(|f| f["type"] != "fork.updated"), "{seen:?}");
}

#[tokio::test]
async fn a_derived_title_has_at_most_60_units() {
    let t = team().await;
    for (content, title) in [
        ("👋".repeat(31), "👋".repeat(30)),
        ("word ".repeat(20), "word ".repeat(12).trim_end().to_owned()),
    ] {
        let (thread, root) = thread(&t, &content).await;
        let fork = t.ada.start_fork(&thread, &root, json!({})).await;
        assert_eq!(fork["title"], title);
    }
}

#[tokio::test]
async fn a_quote_does_not_become_the_title() {
    let t = team().await;
    let said = "> **Bo:** the fair is on Friday\n\nWhat **else** is on?";
    let (thread, root) = thread(&t, said).await;
    let fork = t.ada.start_fork(&thread, &root, json!({})).await;
    assert_eq!(fork["title"], "What else is on?");
}

#[tokio::test]
async fn only_messages_of_people_and_agents_in_the_thread_can_be_forked() {
    let t = team().await;
    t.model()
        .script("vibe", [crate::support::Answer::status(400, "{}")]);
    let (thread, root) = thread(&t, "Root").await;
    let failing = t.ada.ask(&thread, "@vibe fail").await;
    t.ada.failed(&failing).await;
    let notice = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(notice["kind"], "notice");
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    let in_dive = t.ada.tell_in(&fork, "One level deep").await;
    let elsewhere = text(&t.ada.start(&t.general, "Elsewhere").await, "/message/id");
    let deleted = t.ada.tell(&thread, "Gone").await;
    t.ada
        .delete(&format!("/v1/messages/{deleted}"))
        .await
        .is(200);
    for message in [id(&notice), in_dive, elsewhere, deleted] {
        let refused = t.ada.try_fork(&thread, &message, json!({})).await;
        assert_eq!(refused.json()["error"]["param"], "message_id");
        assert_eq!(refused.refused(422), "not_forkable", "{message}");
    }
    let of_wrong_kind = t.ada.try_fork(&thread, &thread, json!({})).await;
    assert!(
        matches!(of_wrong_kind.status, 400 | 422),
        "{}",
        of_wrong_kind.text
    );
    t.ada
        .try_fork(&thread, &unknown_id("msg"), json!({}))
        .await
        .refused(404);
    let all = t.ada.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    assert_eq!(list(&all, "/data").len(), 1);
}

#[tokio::test]
async fn replies_and_results_can_be_forked() {
    let t = team().await;
    let (dive, published) = t.resolved("Monday it is").await;
    let reply = t.bo.tell(&dive.thread, "Reply").await;
    for message in [reply, text(&published, "/message/id")] {
        let fork = t.ada.start_fork(&dive.thread, &message, json!({})).await;
        assert_eq!(fork["message_id"], message.as_str());
    }
}

#[tokio::test]
async fn malformed_dives_are_rejected() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    for (fields, status) in [
        (json!({"context": "everything"}), 400),
        (json!({"title": 7}), 400),
        (json!({"colour": "red"}), 400),
        (json!({"agent_id": "nonsense"}), 400),
        (json!({"description": "x".repeat(2001)}), 422),
        (json!({"title": "two\nlines"}), 422),
        (json!({"client_id": "x".repeat(65)}), 422),
    ] {
        t.ada
            .try_fork(&thread, &root, fields.clone())
            .await
            .refused(status);
    }
    let path = format!("/v1/threads/{thread}/forks");
    t.ada.post(&path, json!({})).await.refused(400);
    t.ada
        .post(&path, json!({"message_id": null}))
        .await
        .refused(400);
    t.ada
        .start_fork(&thread, &root, json!({"description": "👋".repeat(1000)}))
        .await;
}

#[tokio::test]
async fn an_archived_thread_or_channel_accepts_no_new_or_changed_dives() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "Said").await;
    let archive = format!("/v1/threads/{}", dive.thread);
    t.ada
        .patch(&archive, json!({"status": "archived"}))
        .await
        .is(200);
    let fork = format!("/v1/forks/{}", dive.fork);
    let refusals = async |code: &str| {
        let t = &t;
        let started = t.ada.try_fork(&dive.thread, &dive.root, json!({})).await;
        assert_eq!(started.refused(409), code);
        let said = t.ada.try_say_in(&dive.fork, "x").await;
        assert_eq!(said.refused(409), code);
        let changed = t.ada.patch(&fork, json!({"title": "x"})).await;
        assert_eq!(changed.refused(409), code);
        for action in ["resolve", "publish", "abandon", "reopen"] {
            let acted = t.ada.act(&format!("{fork}/{action}")).await;
            assert_eq!(acted.refused(409), code, "{action}");
        }
        let edited = t.ada.edit_draft(&dive.fork, 0, json!({})).await;
        assert_eq!(edited.refused(409), code);
        t.ada.get(&format!("{fork}/messages")).await.is(200);
    };
    refusals("thread_archived").await;
    t.ada
        .patch(&archive, json!({"status": "open"}))
        .await
        .is(200);
    t.ada
        .act(&format!("/v1/channels/{}/archive", t.general))
        .await
        .is(200);
    refusals("channel_archived").await;
}

#[tokio::test]
async fn the_eighth_active_dive_of_a_thread_is_rejected() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let mut forks = Vec::new();
    for _ in 0..7 {
        let fork = t.ada.start_fork(&thread, &root, json!({"agent_id": null}));
        forks.push(id(&fork.await));
    }
    let eighth = t.ada.try_fork(&thread, &root, json!({})).await;
    assert_eq!(eighth.refused(409), "too_many_forks");
    t.ada.abandon(&forks[0]).await;
    t.ada.start_fork(&thread, &root, json!({})).await;
    let reopened = t.ada.act(&format!("/v1/forks/{}/reopen", forks[0])).await;
    assert_eq!(reopened.refused(409), "too_many_forks");
    assert_eq!(t.ada.fork(&forks[0]).await["status"], "abandoned");
    t.ada
        .publish_as(&forks[1], json!({"headline": "Done"}))
        .await;
    t.ada.reopen(&forks[0]).await;
    let (other, root) = self::thread(&t, "Another thread").await;
    t.ada.start_fork(&other, &root, json!({})).await;
}

#[tokio::test]
async fn seven_of_many_concurrent_starts_create_a_dive() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let starting = (0..20).map(|_| t.ada.try_fork(&thread, &root, json!({"agent_id": null})));
    let replies = futures::future::join_all(starting).await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(made, 7);
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply.status, 201 | 409))
    );
    let all = t.ada.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    assert_eq!(list(&all, "/data").len(), 7);
}

#[tokio::test]
async fn a_resend_returns_the_first_dive() {
    let mut t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let fields = json!({"client_id": "c-1", "title": "Once"});
    let first = t.ada.start_fork(&thread, &root, fields.clone()).await;
    t.app.restart(&[]).await;
    let (ada, bo) = (t.ada.at(&t.app.base), t.bo.at(&t.app.base));
    let again = ada.try_fork(&thread, &root, fields.clone()).await.is(200);
    assert_eq!(again, json!({"fork": first}));
    let by_bo = bo.start_fork(&thread, &root, fields).await;
    assert_ne!(by_bo["id"], first["id"], "client IDs are per person");
    let all = ada.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    assert_eq!(list(&all, "/data").len(), 2);
}

#[tokio::test]
async fn a_resend_for_another_message_is_rejected() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let (other, other_root) = self::thread(&t, "Other").await;
    let fields = json!({"client_id": "c-1"});
    t.ada.start_fork(&thread, &root, fields.clone()).await;
    let elsewhere = t.ada.try_fork(&other, &other_root, fields).await;
    assert_eq!(elsewhere.refused(409), "client_id_reused");
    let message = json!({"content": "x", "client_id": "c-1"});
    let as_message = t
        .ada
        .post(&format!("/v1/threads/{thread}/messages"), message)
        .await;
    assert_eq!(as_message.refused(409), "client_id_reused");
    let first = json!({"content": "x", "client_id": "c-2"});
    t.ada
        .post(&format!("/v1/threads/{thread}/messages"), first)
        .await
        .is(201);
    let reused = t
        .ada
        .try_fork(&thread, &root, json!({"client_id": "c-2"}))
        .await;
    assert_eq!(reused.refused(409), "client_id_reused");
}

#[tokio::test]
async fn dives_of_a_private_channel_are_not_found_for_nonmembers() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let started = t.ada.start(&channel, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let mut outside = t.bo.socket().await;
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    let message = t.ada.tell_in(&fork, "Between us").await;
    let draft = t.ada.begin_draft(&fork, json!({"headline": "Ours"})).await;
    let path = format!("/v1/forks/{fork}");
    for sub in ["", "/messages", "/resolution", "/resolutions"] {
        t.bo.get(&format!("{path}{sub}")).await.refused(404);
    }
    t.bo.get(&format!("/v1/threads/{thread}/forks"))
        .await
        .refused(404);
    t.bo.try_fork(&thread, &root, json!({})).await.refused(404);
    t.bo.try_say_in(&fork, "x").await.refused(404);
    t.bo.patch(&path, json!({"title": "x"})).await.refused(404);
    for action in ["resolve", "publish", "abandon", "reopen"] {
        t.bo.act(&format!("{path}/{action}")).await.refused(404);
    }
    t.bo.edit_draft(&fork, 1, json!({})).await.refused(404);
    t.bo.get(&format!("/v1/messages/{message}"))
        .await
        .refused(404);
    let published = t.ada.publish(&fork).await;
    assert_eq!(published["resolution"]["id"], draft["id"]);
    let seen = outside.settle().await;
    assert!(seen.iter().all(|f| f["data"].is_null()), "{seen:?}");
    t.ada.reopen(&fork).await;
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["open_forks"], json!([]));
    let subscribe = outside
        .request(json!({"type": "subscribe", "fork_id": fork}))
        .await;
    assert_eq!(subscribe["error"]["type"], "not_found");
    let send = json!({"type": "message.send", "fork_id": fork, "content": "x", "client_id": "1"});
    assert_eq!(outside.request(send).await["error"]["type"], "not_found");
}

#[tokio::test]
async fn dives_of_a_thread_are_listed_oldest_first() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let reply = t.bo.tell(&thread, "Reply").await;
    let mut forks = Vec::new();
    for message in [&root, &reply, &root] {
        forks.push(
            t.ada
                .start_fork(&thread, message, json!({"agent_id": null}))
                .await,
        );
    }
    t.ada.abandon(&id(&forks[1])).await;
    let all = t.bo.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    let ids: Vec<String> = list(&all, "/data").iter().map(id).collect();
    assert_eq!(ids, forks.iter().map(id).collect::<Vec<_>>());
    assert_eq!(all["data"][1]["status"], "abandoned");
    let open = t.bo.get("/v1/snapshot").await.ok()["open_forks"].clone();
    let open: Vec<String> = list(&open, "").iter().map(id).collect();
    assert_eq!(open, [id(&forks[0]), id(&forks[2])], "only active forks");
}

#[tokio::test]
async fn a_dive_can_be_changed_by_anyone_with_write_access() {
    let t = team().await;
    let dive = t.dive().await;
    let path = format!("/v1/forks/{}", dive.fork);
    let mut socket = t.ada.socket().await;
    let changes =
        json!({"title": "The place", "description": "Where to meet", "context": "thread"});
    let changed = t.bo.patch(&path, changes).await.is(200);
    assert_eq!(
        (
            &changed["title"],
            &changed["description"],
            &changed["context"]
        ),
        (
            &json!("The place"),
            &json!("Where to meet"),
            &json!("thread")
        )
    );
    let event = socket.event().await;
    assert_eq!(event["type"], "fork.updated");
    assert_eq!(event["data"], json!({"fork": changed}));
    let emptied =
        t.bo.patch(&path, json!({"description": null}))
            .await
            .is(200);
    assert!(emptied["description"].is_null());
    for (change, status) in [
        (json!({"title": " "}), 422),
        (json!({"title": null}), 400),
        (json!({"context": "all"}), 400),
        (json!({"status": "resolved"}), 400),
        (json!({"description": "x".repeat(2001)}), 422),
        (json!({"auto_reply": true}), 422),
    ] {
        t.bo.patch(&path, change).await.refused(status);
    }
    assert_eq!(t.ada.fork(&dive.fork).await["title"], "The place");
}

#[tokio::test]
async fn another_agent_takes_over_with_a_notice() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    let coder = id(&t.ada.agent("coder").await);
    let path = format!("/v1/forks/{fork}");
    let changed = t.bo.patch(&path, json!({"agent_id": coder})).await.is(200);
    assert_eq!(
        (&changed["agent_id"], &changed["message_count"]),
        (&json!(coder), &json!(1))
    );
    let notice = t.ada.messages_in(&fork).await.remove(0);
    assert_eq!(
        (
            &notice["kind"],
            &notice["author"]["type"],
            &notice["fork_id"]
        ),
        (&json!("notice"), &json!("system"), &json!(fork))
    );
    let words = text(&notice, "/content");
    assert!(words.contains("Vibe") && words.contains("Coder"), "{words}");
    let task = t.ada.ask_in(&fork, "And now?").await;
    assert_eq!(t.ada.completed(&task).await["agent_id"], coder.as_str());
    assert_eq!(t.ada.contents(&thread).await, ["Root"]);
}

#[tokio::test]
async fn a_forks_agent_can_be_silenced_or_removed() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    let path = format!("/v1/forks/{fork}");
    let quiet = t
        .ada
        .patch(&path, json!({"auto_reply": false}))
        .await
        .is(200);
    assert_eq!(quiet["auto_reply"], false);
    assert_eq!(t.ada.say_in(&fork, "Among us").await["tasks"], json!([]));
    t.ada
        .patch(&path, json!({"auto_reply": true}))
        .await
        .is(200);
    let task = t.ada.ask_in(&fork, "And you?").await;
    t.ada.completed(&task).await;
    let alone = t.ada.patch(&path, json!({"agent_id": null})).await.is(200);
    assert!(alone["agent_id"].is_null());
    assert_eq!(t.ada.say_in(&fork, "Alone").await["tasks"], json!([]));
}

#[tokio::test]
async fn an_abandoned_dive_is_closed_until_it_is_reopened() {
    let t = team().await;
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "Said").await;
    let mut socket = t.ada.socket().await;
    let closed = t.bo.abandon(&dive.fork).await;
    assert_eq!(closed["status"], "abandoned");
    assert!(closed["resolved_at"].is_null());
    let event = socket.of("fork.updated").await;
    assert_eq!(event["data"]["fork"], closed);
    assert_eq!(t.bo.abandon(&dive.fork).await, closed, "twice: unchanged");
    assert_eq!(
        t.ada.get("/v1/snapshot").await.ok()["open_forks"],
        json!([])
    );
    let path = format!("/v1/forks/{}", dive.fork);
    for refused in [
        t.ada.try_say_in(&dive.fork, "x").await,
        t.ada.patch(&path, json!({"title": "x"})).await,
        t.ada.try_resolve(&dive.fork, json!({})).await,
        t.ada.edit_draft(&dive.fork, 0, json!({})).await,
        t.ada
            .try_publish(&dive.fork, json!({"resolution": {"headline": "x"}}))
            .await,
    ] {
        assert_eq!(refused.refused(409), "fork_closed");
    }
    assert_eq!(t.bo.contents_in(&dive.fork).await, ["Said"]);
    let reopened = t.ada.reopen(&dive.fork).await;
    assert_eq!(reopened["status"], "active");
    assert_eq!(t.ada.reopen(&dive.fork).await, reopened, "twice: unchanged");
    t.ada.say_in(&dive.fork, "Again").await;
}

#[tokio::test]
async fn a_resolved_dive_cannot_be_abandoned() {
    let t = team().await;
    let (dive, _) = t.resolved("Monday it is").await;
    let refused = t.ada.act(&format!("/v1/forks/{}/abandon", dive.fork)).await;
    assert_eq!(refused.refused(409), "fork_closed");
    assert_eq!(t.ada.fork(&dive.fork).await["status"], "resolved");
}

#[tokio::test]
async fn dive_actions_accept_an_empty_object_or_no_body() {
    let t = team().await;
    let dive = t.dive().await;
    let path = format!("/v1/forks/{}", dive.fork);
    for action in ["abandon", "reopen", "abandon", "reopen"] {
        t.ada.act(&format!("{path}/{action}")).await.is(200);
        t.ada
            .post(&format!("{path}/{action}"), json!({}))
            .await
            .is(200);
    }
    for action in ["resolve", "publish"] {
        let reply = t
            .ada
            .post(&format!("{path}/{action}"), json!({"colour": "red"}))
            .await;
        reply.refused(400);
    }
}

#[tokio::test]
async fn an_archived_agent_is_replaced_by_the_default_agent() {
    let t = team().await;
    let (thread, root) = thread(&t, "Root").await;
    let sage = id(&t.ada.make_agent("sage").await);
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": sage}))
        .await);
    t.ada.delete(&format!("/v1/agents/{sage}")).await.is(200);
    let task = t.ada.ask_in(&fork, "Anyone?").await;
    let vibe = t.ada.agent("vibe").await["id"].clone();
    assert_eq!(t.ada.completed(&task).await["agent_id"], vibe);
    assert_eq!(t.ada.fork(&fork).await["agent_id"], vibe);
    let kinds: Vec<String> = t
        .ada
        .messages_in(&fork)
        .await
        .iter()
        .map(|m| text(m, "/kind"))
        .collect();
    assert_eq!(kinds, ["text", "notice", "text"]);
}
