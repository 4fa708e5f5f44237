//! Requesting a draft of a fork's resolution: the task and its events, and the effect on earlier drafts.

use openvibe::tasks::slow::SlowTurn;
use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, Team, TestFork, id, list, number, soon, team, team_with, text, texts_of, units,
    within,
};

/// A fork in which Ada and Bo made a decision.
async fn settled(t: &Team) -> (TestFork, [String; 2]) {
    let dive = t.dive().await;
    let said = [
        t.ada
            .tell_in(&dive.fork, "Let's ship on Monday, two quiet days.")
            .await,
        t.bo.tell_in(
            &dive.fork,
            &format!("Agreed. I'll book the room by {}.", soon()),
        )
        .await,
    ];
    (dive, said)
}

/// A team without a configured model, so that the built-in responder is used.
async fn offline() -> Team {
    team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await
}

/// Starts a resolve task whose model call waits for the gate; returns both.
async fn held(t: &Team, fork: &str) -> (Gate, String) {
    let gate = Gate::new();
    t.model()
        .script("resolver", [Answer::text("Fine.").held(&gate)]);
    let task = t.ada.resolve(fork).await;
    gate.reached().await;
    (gate, task)
}

#[tokio::test]
async fn a_resolve_waits_in_the_queue_while_another_one_of_the_same_person_is_read() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    let (other, _) = settled(&t).await;
    let turn = SlowTurn::take(t.ada.id.parse().unwrap()).await;
    let task = t.ada.resolve(&dive.fork).await;
    within("the task to be requeued", async {
        loop {
            let shown = t.ada.task(&task).await;
            if shown["status"] == "queued" && !shown["retry_at"].is_null() {
                assert_eq!(
                    (&shown["wait_reason"], &shown["attempt"]),
                    (&Value::Null, &json!(1))
                );
                break;
            }
            crate::support::pause().await;
        }
    })
    .await;
    // Others are not affected.
    let bo = t.bo.resolve(&other.fork).await;
    t.bo.completed(&bo).await;
    drop(turn);
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn a_resolve_is_a_task_and_ends_with_a_draft() {
    let t = offline().await;
    let (dive, said) = settled(&t).await;
    let answer = t
        .ada
        .try_resolve(&dive.fork, json!({"guidance": " Look at the day. "}))
        .await
        .is(202);
    let task = &answer["task"];
    assert_eq!(answer["fork"], t.ada.fork(&dive.fork).await);
    assert_eq!(
        (
            &task["kind"],
            &task["fork_id"],
            &task["thread_id"],
            &task["trigger_message_id"],
            &task["requested_by"],
            &task["input"]["prompt"]
        ),
        (
            &json!("resolve"),
            &json!(dive.fork),
            &json!(dive.thread),
            &Value::Null,
            &json!(t.ada.id),
            &json!("Look at the day.")
        )
    );
    let done = t.ada.completed(&id(task)).await;
    let draft = t.bo.resolution(&dive.fork).await;
    assert_eq!(done["output"]["resolution_id"], draft["id"]);
    assert!(done["output"].get("message_id").is_none_or(Value::is_null));
    let length = units(&text(&draft, "/headline")) + units(&text(&draft, "/conclusion"));
    assert_eq!(done["output"]["response_length"], length);
    assert!(id(&draft).starts_with("res_"));
    for (field, value) in [
        ("workspace_id", json!(t.ada.workspace)),
        ("channel_id", json!(t.general)),
        ("thread_id", json!(dive.thread)),
        ("fork_id", json!(dive.fork)),
        ("fork_title", json!("The day")),
        ("version", json!(1)),
        ("status", json!("draft")),
        ("generated_by", json!("builtin")),
        ("edited_by", json!([])),
        ("revision", json!(1)),
        ("message_id", Value::Null),
        ("published_by", Value::Null),
        ("published_at", Value::Null),
        ("covers_seq", t.ada.message(&said[1]).await["seq"].clone()),
    ] {
        assert_eq!(draft[field], value, "{field}");
    }
    assert!(!text(&draft, "/headline").is_empty());
    assert!(units(&text(&draft, "/headline")) <= 120);
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(
        (
            &fork["draft_id"],
            &fork["status"],
            &fork["stale"],
            &fork["resolution_id"]
        ),
        (&draft["id"], &json!("active"), &json!(false), &Value::Null)
    );
    assert_eq!(
        t.ada.contents(&dive.thread).await.len(),
        1,
        "no resolution message yet"
    );
    assert_eq!(t.ada.contents_in(&dive.fork).await.len(), 2, "no notice");
}

#[tokio::test]
async fn drafting_sends_its_events_in_order() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    let mut socket = t.bo.socket().await;
    let task = t.ada.resolve(&dive.fork).await;
    let seen = socket
        .events_through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    let told: Vec<String> = seen
        .iter()
        .map(|f| match f["data"]["task"]["status"].as_str() {
            Some(status) => format!("{} {status}", text(f, "/type")),
            None => text(f, "/type"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "task.status_changed queued",
            "task.status_changed running",
            "resolution.drafted",
            "fork.updated",
            "task.status_changed completed"
        ]
    );
    for frame in &seen {
        assert_eq!(
            (&frame["channel_id"], &frame["thread_id"], &frame["fork_id"]),
            (&json!(t.general), &json!(dive.thread), &json!(dive.fork))
        );
    }
    assert_eq!(
        seen[2]["data"]["resolution"],
        t.ada.resolution(&dive.fork).await
    );
    assert_eq!(seen[3]["data"]["fork"], t.ada.fork(&dive.fork).await);
    assert_eq!(seen[4]["data"]["task"]["id"], task.as_str());
}

#[tokio::test]
async fn sources_and_owners_of_an_extracted_draft_belong_to_the_dive() {
    let t = offline().await;
    let (dive, said) = settled(&t).await;
    let sibling = id(&t
        .ada
        .start_fork(&dive.thread, &dive.root, json!({"agent_id": null}))
        .await);
    t.ada.say_in(&sibling, "I'll feed the cat by Friday.").await;
    let draft = t.ada.drafted(&dive.fork).await;
    let known = [dive.root.clone(), said[0].clone(), said[1].clone()];
    for field in [
        "key_points",
        "action_items",
        "open_questions",
        "deferred_items",
    ] {
        for point in list(&draft, &format!("/{field}")) {
            for source in list(&point, "/sources") {
                let source = source.as_str().unwrap().to_owned();
                assert!(known.contains(&source), "{field}: {point}");
            }
        }
    }
    for item in list(&draft, "/action_items") {
        assert!(id(&item).starts_with("item_"));
        assert_eq!(item["done"], false);
        if !item["owner_id"].is_null() {
            assert!(
                [&t.ada.id, &t.bo.id].contains(&&text(&item, "/owner_id")),
                "{item}"
            );
        }
    }
    assert!(
        texts_of(&draft).iter().all(|text| !text.contains("cat")),
        "{draft}"
    );
}

#[tokio::test]
async fn an_action_item_that_bo_accepted_is_assigned_to_him() {
    let t = offline().await;
    let (dive, said) = settled(&t).await;
    let draft = t.ada.drafted(&dive.fork).await;
    let items = list(&draft, "/action_items");
    assert_eq!(items.len(), 1, "{draft}");
    assert_eq!(
        (
            &items[0]["owner_id"],
            &items[0]["owner_name"],
            &items[0]["due"],
            &items[0]["sources"]
        ),
        (
            &json!(t.bo.id),
            &json!("Bo"),
            &json!(soon()),
            &json!([said[1]])
        )
    );
}

#[tokio::test]
async fn resolving_while_a_resolve_runs_returns_the_same_task() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    let again =
        t.bo.try_resolve(&dive.fork, json!({"publish": true}))
            .await
            .is(202);
    assert_eq!(again["task"]["id"], task.as_str());
    assert_eq!(again["task"]["requested_by"], t.ada.id.as_str());
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(t.ada.fork(&dive.fork).await["status"], "active");
    assert_ne!(t.ada.resolve(&dive.fork).await, task);
}

#[tokio::test]
async fn many_concurrent_resolves_share_one_task() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model()
        .script("resolver", [Answer::text("Fine.").held(&gate)]);
    let asking = (0..10).map(|_| t.ada.try_resolve(&dive.fork, json!({})));
    let mut tasks: Vec<String> = futures::future::join_all(asking)
        .await
        .into_iter()
        .map(|reply| text(&reply.is(202), "/task/id"))
        .collect();
    tasks.dedup();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    gate.open();
    t.ada.completed(&tasks[0]).await;
}

#[tokio::test]
async fn a_dive_without_messages_cannot_be_resolved() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    let refused = t.ada.try_resolve(&fork, json!({})).await;
    assert_eq!(refused.refused(422), "fork_empty");
    let coder = t.ada.agent("coder").await["id"].clone();
    t.ada
        .patch(&format!("/v1/forks/{fork}"), json!({"agent_id": coder}))
        .await
        .is(200);
    assert_eq!(t.ada.messages_in(&fork).await[0]["kind"], "notice");
    let refused = t.ada.try_resolve(&fork, json!({})).await;
    assert_eq!(refused.refused(422), "fork_empty", "a notice has no author");
    t.ada
        .patch(&format!("/v1/forks/{fork}"), json!({"agent_id": null}))
        .await
        .is(200);
    let message = t.ada.tell_in(&fork, "Gone").await;
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    let refused = t.ada.try_resolve(&fork, json!({})).await;
    assert_eq!(refused.refused(422), "fork_empty", "all of it was deleted");
    let tasks = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(tasks["data"], json!([]));
}

#[tokio::test]
async fn malformed_options_are_rejected() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    for (form, status) in [
        (json!({"publish": "yes"}), 400),
        (json!({"publish": null}), 400),
        (json!({"colour": "red"}), 400),
        (json!({"guidance": 7}), 400),
        (json!({"guidance": "x".repeat(2001)}), 422),
        (json!({"guidance": "👋".repeat(1001)}), 422),
    ] {
        t.ada
            .try_resolve(&dive.fork, form.clone())
            .await
            .refused(status);
    }
    t.ada
        .get(&format!("/v1/forks/{}/resolution", dive.fork))
        .await
        .refused(404);
    let longest = json!({"guidance": "👋".repeat(1000)});
    let task = t.ada.try_resolve(&dive.fork, longest).await.is(202);
    t.ada.completed(&text(&task, "/task/id")).await;
    let path = format!("/v1/forks/{}/resolve", dive.fork);
    let without_body = t.ada.act(&path).await.is(202);
    t.ada.completed(&text(&without_body, "/task/id")).await;
}

#[tokio::test]
async fn a_draft_edited_by_a_person_is_kept_unless_replacement_is_requested() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    let first = t.ada.drafted(&dive.fork).await;
    let untouched = t.ada.drafted(&dive.fork).await;
    assert_eq!(untouched["version"], 1, "a draft without edits is replaced");
    let edited =
        t.bo.change_draft(&dive.fork, json!({"headline": "Ours"}))
            .await;
    let refused = t.ada.try_resolve(&dive.fork, json!({})).await;
    assert_eq!(refused.refused(409), "draft_edited");
    let refused = t
        .ada
        .try_resolve(&dive.fork, json!({"replace_draft": false, "publish": true}))
        .await;
    assert_eq!(refused.refused(409), "draft_edited");
    assert_eq!(t.ada.resolution(&dive.fork).await, edited);
    let task = t
        .ada
        .try_resolve(&dive.fork, json!({"replace_draft": true}))
        .await
        .is(202);
    t.ada.completed(&text(&task, "/task/id")).await;
    let replaced = t.ada.resolution(&dive.fork).await;
    assert_eq!(replaced["headline"], first["headline"]);
    assert_eq!(
        (
            &replaced["edited_by"],
            &replaced["version"],
            &replaced["status"]
        ),
        (&json!([]), &json!(1), &json!("draft"))
    );
    assert_eq!(t.ada.fork(&dive.fork).await["draft_id"], replaced["id"]);
}

#[tokio::test]
async fn edits_made_while_a_resolve_runs_are_never_overwritten() {
    let t = team().await;
    for wish in [json!({}), json!({"replace_draft": true, "publish": true})] {
        let (dive, _) = settled(&t).await;
        t.ada
            .begin_draft(&dive.fork, json!({"headline": "First"}))
            .await;
        if wish == json!({}) {
            t.ada.publish(&dive.fork).await;
            t.ada.reopen(&dive.fork).await;
        }
        let gate = Gate::new();
        t.model()
            .script("resolver", [Answer::text("Fine.").held(&gate)]);
        let answer = t.ada.try_resolve(&dive.fork, wish.clone()).await.is(202);
        gate.reached().await;
        let edited =
            t.bo.change_draft(&dive.fork, json!({"headline": "Written meanwhile"}))
                .await;
        gate.open();
        let ended = t.ada.ended(&text(&answer, "/task/id")).await;
        assert_eq!(ended["status"], "completed", "{wish}");
        assert_eq!(t.ada.resolution(&dive.fork).await, edited, "{wish}");
        assert_eq!(t.ada.fork(&dive.fork).await["status"], "active", "{wish}");
    }
}

#[tokio::test]
async fn a_draft_started_by_hand_while_a_resolve_runs_is_kept() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    let by_hand =
        t.bo.begin_draft(&dive.fork, json!({"headline": "By hand"}))
            .await;
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(t.ada.resolution(&dive.fork).await, by_hand);
}

#[tokio::test]
async fn a_resolve_can_be_canceled_and_retried() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (_gate, task) = held(&t, &dive.fork).await;
    let stopped = t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    assert_eq!(stopped["status"], "cancelled");
    t.model().given_up(1).await;
    let none = t
        .ada
        .get(&format!("/v1/forks/{}/resolution", dive.fork))
        .await;
    assert_eq!(none.refused(404), "no_resolution");
    t.bo.act(&format!("/v1/tasks/{task}/retry"))
        .await
        .refused(403);
    let again = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    assert_eq!(
        (&again["kind"], &again["retry_of"], &again["fork_id"]),
        (&json!("resolve"), &json!(task), &json!(dive.fork))
    );
    let done = t.ada.completed(&id(&again)).await;
    assert_eq!(
        done["output"]["resolution_id"],
        t.ada.resolution(&dive.fork).await["id"]
    );
    t.ada
        .act(&format!("/v1/tasks/{}/retry", id(&again)))
        .await
        .refused(409);
    assert_eq!(t.ada.contents_in(&dive.fork).await.len(), 2, "no notice");
}

#[tokio::test]
async fn abandoning_cancels_a_resolve() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    t.bo.abandon(&dive.fork).await;
    assert_eq!(t.ada.ended(&task).await["status"], "cancelled");
    gate.open();
    t.model().given_up(1).await;
    t.ada.reopen(&dive.fork).await;
    let none = t
        .ada
        .get(&format!("/v1/forks/{}/resolution", dive.fork))
        .await;
    assert_eq!(none.refused(404), "no_resolution");
}

#[tokio::test]
async fn publishing_cancels_a_resolve() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    let published =
        t.bo.publish_as(&dive.fork, json!({"headline": "Monday it is"}))
            .await;
    assert_eq!(t.ada.ended(&task).await["status"], "cancelled");
    gate.open();
    t.model().given_up(1).await;
    assert_eq!(t.ada.resolution(&dive.fork).await, published["resolution"]);
    assert!(t.ada.fork(&dive.fork).await["draft_id"].is_null());
}

#[tokio::test]
async fn messages_after_a_draft_make_it_stale() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    t.ada.drafted(&dive.fork).await;
    let mut socket = t.bo.socket().await;
    t.bo.say_in(&dive.fork, "One more thing").await;
    let event = socket.of("fork.updated").await;
    assert_eq!(event["data"]["fork"]["stale"], true);
    t.bo.say_in(&dive.fork, "And another").await;
    let seen = socket.settle().await;
    assert!(
        seen.iter()
            .all(|f| f["type"] != "fork.updated" && f["type"] != "resolution.updated"),
        "it is already so: {seen:?}"
    );
    t.ada.drafted(&dive.fork).await;
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], false);
}

#[tokio::test]
async fn edits_and_deletions_after_a_draft_make_it_stale() {
    let t = offline().await;
    for action in ["edit", "delete", "edit root", "delete root", "react"] {
        let (dive, said) = settled(&t).await;
        t.ada.drafted(&dive.fork).await;
        assert_eq!(t.ada.fork(&dive.fork).await["stale"], false);
        let message = if action.ends_with("root") {
            &dive.root
        } else {
            &said[0]
        };
        let path = format!("/v1/messages/{message}");
        let reply = match action {
            "react" => t.ada.put(&format!("{path}/reactions/x"), json!({})).await,
            "edit" | "edit root" => t.ada.patch(&path, json!({"content": "Other"})).await,
            _ => t.ada.delete(&path).await,
        };
        reply.is(200);
        assert_eq!(
            t.ada.fork(&dive.fork).await["stale"],
            action != "react",
            "{action}"
        );
    }
}

#[tokio::test]
async fn messages_in_the_thread_or_a_sibling_do_not_make_a_draft_stale() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    let sibling = id(&t
        .ada
        .start_fork(&dive.thread, &dive.root, json!({"agent_id": null}))
        .await);
    t.ada.drafted(&dive.fork).await;
    t.ada.say_in(&sibling, "Elsewhere").await;
    let reply = t.ada.tell(&dive.thread, "In the thread").await;
    t.ada.delete(&format!("/v1/messages/{reply}")).await.is(200);
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], false);
    assert_eq!(
        t.ada.fork(&sibling).await["stale"],
        false,
        "it had no effect"
    );
}

#[tokio::test]
async fn messages_posted_while_a_resolve_runs_make_its_draft_stale() {
    let t = team().await;
    let (dive, said) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    t.bo.say_in(&dive.fork, "Wait, no").await;
    gate.open();
    t.ada.completed(&task).await;
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(fork["stale"], true);
    let draft = t.ada.resolution(&dive.fork).await;
    let last_read = t.ada.message(&said[1]).await;
    assert_eq!(draft["covers_seq"], last_read["seq"]);
    let event = t
        .ada
        .event_where("the draft", |e| {
            e["data"]["fork"]["draft_id"] == draft["id"]
        })
        .await;
    assert_eq!(
        event["data"]["fork"]["stale"], true,
        "it is rejected at once"
    );
}

#[tokio::test]
async fn edits_and_deletions_while_a_resolve_runs_make_its_draft_stale() {
    let t = team().await;
    for action in ["edit", "delete", "edit root"] {
        let (dive, said) = settled(&t).await;
        let (gate, task) = held(&t, &dive.fork).await;
        let message = if action == "edit root" {
            &dive.root
        } else {
            &said[0]
        };
        let path = format!("/v1/messages/{message}");
        if action == "delete" {
            t.ada.delete(&path).await.is(200);
        } else {
            t.ada
                .patch(&path, json!({"content": "Other"}))
                .await
                .is(200);
        }
        gate.open();
        t.ada.completed(&task).await;
        assert_eq!(t.ada.fork(&dive.fork).await["stale"], true, "{action}");
    }
}

#[tokio::test]
async fn a_reply_that_completes_after_the_draft_makes_it_stale() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("Late.").held(&gate)]);
    let reply = t.ada.ask_in(&dive.fork, "@coder look").await;
    gate.reached().await;
    t.ada.drafted(&dive.fork).await;
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], false);
    gate.open();
    t.ada.completed(&reply).await;
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], true);
}

#[tokio::test]
async fn a_reply_that_was_unfinished_at_drafting_makes_it_stale_once_complete() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model().script(
        "coder",
        [Answer::stream()
            .piece("Half")
            .wait(&gate)
            .piece(", whole.")
            .end()],
    );
    let reply = t.ada.ask_in(&dive.fork, "@coder look").await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    t.ada.drafted(&dive.fork).await;
    gate.open();
    t.ada.completed(&reply).await;
    assert_eq!(t.ada.fork(&dive.fork).await["stale"], true);
}

#[tokio::test]
async fn the_forks_agent_resolves_and_otherwise_the_default_agent() {
    let t = team().await;
    let coder = t.ada.agent("coder").await["id"].clone();
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": coder}))
        .await);
    let reply = t.ada.ask_in(&fork, "We take Monday.").await;
    t.ada.completed(&reply).await;
    let task = t.ada.try_resolve(&fork, json!({})).await.is(202);
    assert_eq!(task["task"]["agent_id"], coder);
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "Monday").await;
    let task = t.ada.try_resolve(&dive.fork, json!({})).await.is(202);
    assert_eq!(task["task"]["agent_id"], t.ada.agent("vibe").await["id"]);
}

#[tokio::test]
async fn publish_true_posts_the_resolution_message_as_the_agent() {
    let t = offline().await;
    let (dive, _) = settled(&t).await;
    let vibe = t.ada.agent("vibe").await;
    let answer = t
        .ada
        .try_resolve(&dive.fork, json!({"publish": true}))
        .await
        .is(202);
    let done = t.ada.completed(&text(&answer, "/task/id")).await;
    let card = t.ada.messages(&dive.thread).await.pop().unwrap();
    assert_eq!(done["output"]["message_id"], card["id"]);
    assert_eq!(
        (
            &card["kind"],
            &card["author"]["type"],
            &card["author"]["id"],
            &card["parent_id"],
            &card["fork_id"]
        ),
        (
            &json!("resolution"),
            &json!("agent"),
            &vibe["id"],
            &json!(dive.root),
            &Value::Null
        )
    );
    assert_eq!(
        (
            &card["metadata"]["agent_id"],
            &card["metadata"]["task_id"],
            &card["metadata"]["resolution_id"]
        ),
        (&vibe["id"], &done["id"], &done["output"]["resolution_id"])
    );
    let told = list(&card, "/metadata/notify_user_ids");
    assert!(
        told.contains(&json!(t.ada.id)) && told.contains(&json!(t.bo.id)),
        "none of them published it: {told:?}"
    );
    let channel = t.ada.get(&format!("/v1/channels/{}", t.general)).await.ok();
    assert_eq!(number(&channel, "/mention_count"), 1, "she is notified");
    let result = t.ada.resolution(&dive.fork).await;
    assert_eq!(
        (&result["status"], &result["version"], &result["message_id"]),
        (&json!("published"), &json!(1), &card["id"])
    );
    assert_eq!(
        result["published_by"],
        json!({"type": "agent", "id": vibe["id"], "name": "Vibe"})
    );
    let fork = t.ada.fork(&dive.fork).await;
    assert_eq!(
        (&fork["status"], &fork["resolution_id"], &fork["draft_id"]),
        (&json!("resolved"), &result["id"], &Value::Null)
    );
}

/// A fork in which Ada made a proposal, and Bo only asked something.
async fn unsettled(t: &Team) -> TestFork {
    let dive = t.dive().await;
    t.ada
        .tell_in(&dive.fork, "Let's ship on Monday, two quiet days.")
        .await;
    t.bo.tell_in(&dive.fork, "Who is on call on Monday?").await;
    dive
}

#[tokio::test]
async fn without_agreement_a_draft_has_no_headline_and_waits_for_one_from_a_person() {
    let t = offline().await;
    let dive = unsettled(&t).await;
    let task = t.ada.resolve(&dive.fork).await;
    t.ada.completed(&task).await;
    let draft = t.ada.resolution(&dive.fork).await;
    assert_eq!(
        (&draft["headline"], &draft["conclusion"]),
        (&json!(""), &json!("I found no clear decision."))
    );
    let points = list(&draft, "/key_points");
    let proposal = points.last().unwrap();
    assert!(
        text(proposal, "/text").contains(": “Let's ship on Monday, two quiet days.”"),
        "{points:?}"
    );
    let refused = t.ada.try_publish(&dive.fork, json!({})).await;
    refused.refused(422);
    let form = json!({"resolution": {"headline": "We ship on Monday"}});
    t.ada.try_publish(&dive.fork, form).await.ok();
    let result = t.bo.resolution(&dive.fork).await;
    assert_eq!(
        (&result["status"], &result["headline"]),
        (&json!("published"), &json!("We ship on Monday"))
    );
}

#[tokio::test]
async fn an_unreviewed_result_without_agreement_states_that_there_is_no_decision() {
    let t = offline().await;
    let dive = unsettled(&t).await;
    let answer = t
        .ada
        .try_resolve(&dive.fork, json!({"publish": true}))
        .await
        .is(202);
    t.ada.completed(&text(&answer, "/task/id")).await;
    let result = t.ada.resolution(&dive.fork).await;
    assert_eq!(
        (&result["status"], &result["headline"], &result["edited_by"]),
        (&json!("published"), &json!("No clear decision"), &json!([]))
    );
    let card = t.ada.messages(&dive.thread).await.pop().unwrap();
    assert!(
        text(&card, "/content").contains("No clear decision"),
        "{card}"
    );
}

#[tokio::test]
async fn a_publishing_resolve_leaves_a_draft_if_the_thread_is_archived_meanwhile() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model()
        .script("resolver", [Answer::text("Fine.").held(&gate)]);
    let answer = t
        .ada
        .try_resolve(&dive.fork, json!({"publish": true}))
        .await
        .is(202);
    gate.reached().await;
    t.ada
        .patch(
            &format!("/v1/threads/{}", dive.thread),
            json!({"status": "archived"}),
        )
        .await
        .is(200);
    gate.open();
    t.ada.completed(&text(&answer, "/task/id")).await;
    assert_eq!(
        t.ada.contents(&dive.thread).await.len(),
        1,
        "no resolution message"
    );
    assert_eq!(t.ada.resolution(&dive.fork).await["status"], "draft");
}

#[tokio::test]
async fn a_resolve_rejected_by_a_full_queue_fails_with_a_notice_in_the_dive() {
    let t = team_with(&[("WORKERS", "1")]).await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("Done.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "Queue").await;
    t.ada.ask(&thread, "@coder hold the only worker").await;
    gate.reached().await;
    for _ in 0..200 {
        t.ada.ask(&thread, "@vibe wait").await;
    }
    let answer = t.ada.try_resolve(&dive.fork, json!({})).await.is(202);
    assert_eq!(
        (&answer["task"]["status"], &answer["task"]["error"]["code"]),
        (&json!("failed"), &json!("queue_full"))
    );
    assert_eq!(t.ada.messages_in(&dive.fork).await[2]["kind"], "notice");
    assert_eq!(number(&t.ada.fork(&dive.fork).await, "/message_count"), 3);
}

#[tokio::test]
async fn the_resolve_request_does_not_wait_for_the_model() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (gate, task) = held(&t, &dive.fork).await;
    assert_eq!(t.ada.task(&task).await["status"], "running");
    t.bo.say_in(&dive.fork, "People talk on").await;
    gate.open();
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn without_a_result_reading_it_returns_not_found() {
    let t = team().await;
    let dive = t.dive().await;
    let none = t
        .ada
        .get(&format!("/v1/forks/{}/resolution", dive.fork))
        .await;
    assert_eq!(none.refused(404), "no_resolution");
    let published = t.ada.try_publish(&dive.fork, json!({})).await;
    assert_eq!(published.refused(409), "no_draft");
    let versions = t
        .ada
        .get(&format!("/v1/forks/{}/resolutions", dive.fork))
        .await
        .ok();
    assert_eq!(versions["data"], json!([]));
}

#[tokio::test]
async fn a_retry_never_overwrites_later_edits_by_people() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "First"}))
        .await;
    let gate = Gate::new();
    t.model()
        .script("resolver", [Answer::text("Fine.").held(&gate)]);
    let form = json!({"replace_draft": true, "publish": true});
    let task = text(
        &t.ada.try_resolve(&dive.fork, form).await.is(202),
        "/task/id",
    );
    gate.reached().await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    let edited =
        t.bo.change_draft(&dive.fork, json!({"headline": "Written since"}))
            .await;
    let again = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    t.ada.completed(&id(&again)).await;
    assert_eq!(t.ada.resolution(&dive.fork).await, edited);
    t.bo.abandon(&dive.fork).await;
    let other = t.dive().await;
    t.ada.say_in(&other.fork, "Said").await;
    let (_gate, task) = held(&t, &other.fork).await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    t.ada.abandon(&other.fork).await;
    let closed = t.ada.act(&format!("/v1/tasks/{task}/retry")).await;
    assert_eq!(closed.refused(409), "fork_closed");
}

#[tokio::test]
async fn a_retry_while_another_resolve_runs_leaves_one_draft() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let (_gate, first) = held(&t, &dive.fork).await;
    t.ada
        .act(&format!("/v1/tasks/{first}/cancel"))
        .await
        .is(200);
    let (gate, second) = held(&t, &dive.fork).await;
    let retry = t.ada.act(&format!("/v1/tasks/{first}/retry")).await;
    assert!(matches!(retry.status, 201 | 409), "{}", retry.text);
    gate.open();
    t.ada.completed(&second).await;
    if retry.status == 201 {
        t.ada.completed(&id(&retry.json())).await;
    }
    let draft = t.ada.resolution(&dive.fork).await;
    assert_eq!(draft["id"], t.ada.fork(&dive.fork).await["draft_id"]);
    assert_eq!(draft["version"], 1);
}

#[tokio::test]
async fn a_resolve_continues_after_its_requester_leaves() {
    let t = team().await;
    let (dive, _) = settled(&t).await;
    let gate = Gate::new();
    t.model()
        .script("resolver", [Answer::text("Fine.").held(&gate)]);
    let task = t.bo.resolve(&dive.fork).await;
    gate.reached().await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    gate.open();
    t.ada.completed(&task).await;
    let draft = t.ada.resolution(&dive.fork).await;
    assert_eq!(draft["status"], "draft");
}
