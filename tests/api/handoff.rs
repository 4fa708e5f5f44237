//! Responders: bindings, handoffs, initial agents of new threads, and missing agents.

use serde_json::{Value, json};

use crate::support::{Answer, Team, id, list, team, text};

/// The agents Sage and Moss, which the model server distinguishes by name.
async fn two_agents() -> (Team, Value, Value) {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let moss = t.ada.make_agent("moss").await;
    (t, sage, moss)
}

async fn bind(t: &Team, thread: &str, agent: &Value) -> Value {
    let patch = json!({"agent_id": id(agent)});
    t.bo.patch(&format!("/v1/threads/{thread}"), patch)
        .await
        .is(200)
}

async fn notices(t: &Team, thread: &str) -> Vec<String> {
    let messages = t.bo.messages(thread).await;
    let notice = |m: &&Value| m["kind"] == "notice";
    messages
        .iter()
        .filter(notice)
        .map(|m| text(m, "/content"))
        .collect()
}

async fn thread_count(t: &Team) -> usize {
    let path = format!("/v1/channels/{}/threads", t.general);
    list(&t.bo.get(&path).await.ok(), "/data").len()
}

#[tokio::test]
async fn a_thread_is_handed_off_midway_with_a_notice_and_its_history() {
    let (t, sage, moss) = two_agents().await;
    t.model().script("sage", [Answer::text("Sage was here.")]);
    let thread = t.bo.thread(&t.general, "What grows in the shade?").await;
    bind(&t, &thread, &sage).await;
    let task = t.bo.ask(&thread, "Please begin").await;
    t.bo.completed(&task).await;
    let bound = bind(&t, &thread, &moss).await;
    assert_eq!(bound["agent_id"], moss["id"]);
    assert_eq!(
        notices(&t, &thread).await,
        ["Bo handed this thread over from sage to moss."]
    );
    let task = t.bo.ask(&thread, "Go on").await;
    t.bo.completed(&task).await;
    let request = t.model().asked_once("moss").await;
    assert!(request.all().contains("[sage (AI)]: Sage was here."));
    assert!(request.all().contains("Please begin"));
}

#[tokio::test]
async fn a_notice_names_nobody_whom_a_guest_of_the_channel_does_not_see() {
    let (t, sage, moss) = two_agents().await;
    let plans = t.ada.post("/v1/channels", json!({"name": "plans"})).await;
    let plans = id(&plans.is(201));
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["plans"]).await;
    let thread = t.ada.thread(&plans, "What grows in the shade?").await;
    // Bo is not in the channel, which is public.
    bind(&t, &thread, &sage).await;
    bind(&t, &thread, &moss).await;
    let shown = gus.contents(&thread).await;
    assert_eq!(shown[1], "This thread was handed over from sage to moss.");
}

#[tokio::test]
async fn handoffs_in_quick_succession_leave_one_notice_per_user() {
    let (t, sage, moss) = two_agents().await;
    let fern = t.ada.make_agent("fern").await;
    let thread = t.bo.thread(&t.general, "Who takes this?").await;
    bind(&t, &thread, &sage).await;
    let agents = [&moss, &sage];
    let handoffs = (0..20).map(|n| bind(&t, &thread, agents[n % 2]));
    futures::future::join_all(handoffs).await;
    bind(&t, &thread, &moss).await;
    bind(&t, &thread, &fern).await;
    let left = "Bo handed this thread over from sage to fern.";
    assert_eq!(notices(&t, &thread).await, [left]);
    let messages = t.bo.messages(&thread).await;
    let notice = messages.iter().find(|m| m["kind"] == "notice").unwrap();
    assert_eq!(notice["metadata"]["agent_id"], fern["id"]);
    let replayed = t.bo.events().await;
    let told = replayed
        .iter()
        .filter(|e| e["data"]["message"]["kind"] == "notice")
        .all(|e| e["data"]["message"]["content"] == left);
    assert!(told, "the log contains only the last handoff");
    let patch = json!({"agent_id": id(&moss)});
    t.ada
        .patch(&format!("/v1/threads/{thread}"), patch)
        .await
        .is(200);
    assert_eq!(
        notices(&t, &thread).await,
        [left, "Ada handed this thread over from fern to moss."]
    );
}

#[tokio::test]
async fn a_bound_thread_keeps_its_version_until_it_is_rebound() {
    let (t, sage, _) = two_agents().await;
    let thread = t.bo.thread(&t.general, "A long matter").await;
    bind(&t, &thread, &sage).await;
    let path = format!("/v1/agents/{}", id(&sage));
    let newer = json!({"instructions": "You are sage, and you know more."});
    t.ada.patch(&path, newer).await.is(200);
    let task = t.bo.ask(&thread, "As you were").await;
    assert_eq!(t.bo.completed(&task).await["agent_version"], 1);
    let loose =
        t.bo.ask(&t.bo.thread(&t.general, "Elsewhere").await, "@sage hello")
            .await;
    assert_eq!(t.bo.completed(&loose).await["agent_version"], 2);
    let moved = bind(&t, &thread, &sage).await;
    assert_eq!(
        (&moved["agent_version"], &moved["agent_id"]),
        (&json!(2), &sage["id"])
    );
    assert!(notices(&t, &thread).await.is_empty(), "no agent took over");
    let task = t.bo.ask(&thread, "And now").await;
    assert_eq!(t.bo.completed(&task).await["agent_version"], 2);
}

#[tokio::test]
async fn a_thread_opened_from_another_starts_with_its_agent_at_the_newest_version() {
    let (t, sage, moss) = two_agents().await;
    let first = t.bo.thread(&t.general, "First").await;
    bind(&t, &first, &sage).await;
    let path = format!("/v1/agents/{}", id(&sage));
    t.ada
        .patch(&path, json!({"description": "Newer"}))
        .await
        .is(200);
    let threads = format!("/v1/channels/{}/threads", t.general);
    let open = |form: Value| t.bo.post(&threads, form);
    let next = open(json!({"content": "Second", "from_thread_id": first}))
        .await
        .is(201);
    assert_eq!(next["thread"]["agent_id"], sage["id"]);
    assert_eq!(next["thread"]["agent_version"], 2);
    assert_eq!(
        next["tasks"].as_array().unwrap().len(),
        1,
        "it replies to the first message"
    );
    let form = json!({"content": "Third", "from_thread_id": first, "agent_id": moss["id"]});
    assert_eq!(open(form).await.is(201)["thread"]["agent_id"], moss["id"]);
    let form = json!({"content": "Fourth", "from_thread_id": first, "agent_id": null});
    assert_eq!(open(form).await.is(201)["thread"]["agent_id"], Value::Null);
    let plain = open(json!({"content": "Fifth"})).await.is(201);
    assert_eq!(plain["thread"]["agent_id"], Value::Null);
}

#[tokio::test]
async fn a_thread_cannot_be_opened_from_a_hidden_one() {
    let (t, sage, _) = two_agents().await;
    let private = t.ada.private_channel("secret", &[]).await;
    let hidden = t.ada.thread(&private, "Hidden").await;
    let patch = json!({"agent_id": id(&sage)});
    t.ada
        .patch(&format!("/v1/threads/{hidden}"), patch)
        .await
        .is(200);
    let before = thread_count(&t).await;
    for from in [hidden.as_str(), "thread_01h455vb4pex5vsknk084sn02q"] {
        let form = json!({"content": "Peek", "from_thread_id": from});
        let threads = format!("/v1/channels/{}/threads", t.general);
        assert_eq!(
            t.bo.post(&threads, form).await.refused(404),
            "thread_not_found"
        );
    }
    let after = thread_count(&t).await;
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_dive_starts_with_the_threads_agent_and_version() {
    let (t, sage, _) = two_agents().await;
    let thread = t.bo.thread(&t.general, "Deep matter").await;
    bind(&t, &thread, &sage).await;
    let path = format!("/v1/agents/{}", id(&sage));
    t.ada
        .patch(&path, json!({"description": "Newer"}))
        .await
        .is(200);
    let root = text(&t.bo.messages(&thread).await[0], "/id");
    let fork = t.bo.start_fork(&thread, &root, json!({})).await;
    assert_eq!(
        (&fork["agent_id"], &fork["agent_version"]),
        (&sage["id"], &json!(1))
    );
}

#[tokio::test]
async fn an_archived_agents_direct_channel_moves_to_the_default_with_a_notice() {
    let (t, sage, _) = two_agents().await;
    let direct =
        t.bo.post("/v1/direct", json!({"agent_id": id(&sage)}))
            .await
            .is(201);
    t.ada
        .delete(&format!("/v1/agents/{}", id(&sage)))
        .await
        .is(200);
    let started = t.bo.start(&id(&direct), "Are you there?").await;
    let vibe = t.bo.agent("vibe").await;
    assert_eq!(started["thread"]["agent_id"], vibe["id"]);
    assert_eq!(started["tasks"][0]["agent_id"], vibe["id"]);
    assert_eq!(
        notices(&t, &text(&started, "/thread/id")).await,
        ["sage is no longer available, so Vibe replies here from now on."]
    );
}

#[tokio::test]
async fn a_permanently_deleted_agents_threads_move_to_the_default() {
    let (t, sage, _) = two_agents().await;
    t.model().script("sage", [Answer::text("Words that stay.")]);
    let thread = t.bo.thread(&t.general, "Keep going").await;
    bind(&t, &thread, &sage).await;
    let task = t.bo.ask(&thread, "First").await;
    t.bo.completed(&task).await;
    let path = format!("/v1/agents/{}?permanent=true", id(&sage));
    t.ada.delete(&path).await.is(200);
    let vibe = t.bo.agent("vibe").await;
    let moved = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(
        (&moved["agent_id"], &moved["agent_version"]),
        (&vibe["id"], &vibe["version"])
    );
    let task = t.bo.ask(&thread, "Second").await;
    assert_eq!(t.bo.completed(&task).await["agent_id"], vibe["id"]);
    assert_eq!(notices(&t, &thread).await, Vec::<String>::new());
    let prompt = t.model().asked_once("vibe").await.all();
    assert!(prompt.contains("[sage (AI)]: Words that stay."), "{prompt}");
    let said = t.bo.messages(&thread).await;
    let words = said
        .iter()
        .find(|m| m["content"] == "Words that stay.")
        .unwrap();
    assert_eq!(words["author"]["name"], "sage");
}

#[tokio::test]
async fn a_bound_agent_does_not_reply_to_users_who_cannot_use_it() {
    let (t, sage, _) = two_agents().await;
    let thread = t.ada.thread(&t.general, "For some").await;
    let patch = json!({"agent_id": id(&sage)});
    t.ada
        .patch(&format!("/v1/threads/{thread}"), patch)
        .await
        .is(200);
    let lists = json!({"access_control": {"denied_subjects": [t.bo.id.clone()]}});
    t.ada
        .patch(&format!("/v1/agents/{}", id(&sage)), lists)
        .await
        .is(200);
    assert_eq!(list(&t.bo.say(&thread, "Anyone?").await, "/tasks").len(), 0);
    assert_eq!(list(&t.bo.say(&thread, "@sage ?").await, "/tasks").len(), 0);
    assert_eq!(
        t.ada.say(&thread, "Mine").await["tasks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let rebind =
        t.bo.patch(
            &format!("/v1/threads/{thread}"),
            json!({"agent_id": id(&sage)}),
        )
        .await;
    assert_eq!(rebind.refused(404), "agent_not_found");
}

async fn set_status(t: &Team, agent: &Value, status: &str) {
    let path = format!("/v1/agents/{}", id(agent));
    t.ada.patch(&path, json!({"status": status})).await.is(200);
}

#[tokio::test]
async fn an_agent_that_is_turned_off_keeps_its_conversations_and_their_version() {
    let (t, sage, _) = two_agents().await;
    let vibe = t.bo.agent("vibe").await;
    let thread = t.bo.thread(&t.general, "Slow matter").await;
    bind(&t, &thread, &sage).await;
    set_status(&t, &sage, "inactive").await;
    for _ in 0..2 {
        let task = t.bo.ask(&thread, "Are you there?").await;
        assert_eq!(t.bo.completed(&task).await["agent_id"], vibe["id"]);
    }
    assert_eq!(
        notices(&t, &thread).await,
        ["sage is turned off, so Vibe replies here until it is back."]
    );
    let now = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(
        (&now["agent_id"], &now["agent_version"]),
        (&sage["id"], &json!(1))
    );
    set_status(&t, &sage, "active").await;
    let task = t.bo.ask(&thread, "And now?").await;
    let task = t.bo.completed(&task).await;
    assert_eq!(
        (&task["agent_id"], &task["agent_version"]),
        (&sage["id"], &json!(1))
    );
    set_status(&t, &sage, "inactive").await;
    let task = t.bo.ask(&thread, "Off again?").await;
    t.bo.completed(&task).await;
    assert_eq!(
        notices(&t, &thread).await.len(),
        2,
        "one notice per handoff"
    );
}

#[tokio::test]
async fn without_a_usable_default_agent_a_turned_off_agent_has_no_fallback() {
    let (t, sage, _) = two_agents().await;
    let vibe = t.bo.agent("vibe").await;
    let thread = t.bo.thread(&t.general, "Slow matter").await;
    bind(&t, &thread, &sage).await;
    set_status(&t, &sage, "inactive").await;
    let only_ada = json!({"access_control": {"allowed_subjects": [t.ada.id]}});
    let path = format!("/v1/agents/{}", id(&vibe));
    t.ada.patch(&path, only_ada).await.is(200);
    let posted = t.bo.say(&thread, "Are you there?").await;
    assert_eq!(posted["tasks"], json!([]));
    t.bo.say(&thread, "Hello?").await;
    assert_eq!(
        notices(&t, &thread).await,
        ["sage is turned off. Mention another agent."]
    );
}

#[tokio::test]
async fn a_new_conversation_with_a_turned_off_agent_stays_with_it() {
    let (t, sage, _) = two_agents().await;
    let direct = json!({"agent_id": id(&sage)});
    let direct = t.bo.post("/v1/direct", direct).await.is(201);
    set_status(&t, &sage, "inactive").await;
    let started = t.bo.start(&id(&direct), "Are you there?").await;
    assert_eq!(started["thread"]["agent_id"], sage["id"]);
    let vibe = t.bo.agent("vibe").await;
    assert_eq!(started["tasks"][0]["agent_id"], vibe["id"]);
    assert_eq!(
        notices(&t, &text(&started, "/thread/id")).await,
        ["sage is turned off, so Vibe replies here until it is back."]
    );
}

#[tokio::test]
async fn messages_between_people_do_not_invoke_the_bound_agent() {
    let (t, sage, _) = two_agents().await;
    let thread = t.bo.thread(&t.general, "Plans").await;
    bind(&t, &thread, &sage).await;
    for content in ["@ada what do you think?", "@here look", "@everyone @bo hi"] {
        let posted = t.bo.say(&thread, content).await;
        assert_eq!(posted["tasks"], json!([]), "{content}");
    }
    let asked = t.bo.say(&thread, "@ada @sage what do you think?").await;
    assert_eq!(list(&asked, "/tasks").len(), 1);
    let asked = t.bo.say(&thread, "What does nobody@example.com say?").await;
    assert_eq!(list(&asked, "/tasks").len(), 1);
}

#[tokio::test]
async fn in_dives_and_direct_channels_the_agent_replies_to_every_message() {
    let (t, sage, _) = two_agents().await;
    let thread = t.bo.thread(&t.general, "Plans").await;
    bind(&t, &thread, &sage).await;
    let root = text(&t.bo.messages(&thread).await[0], "/id");
    let fork = t.bo.start_fork(&thread, &root, json!({})).await;
    let said = t.bo.say_in(&id(&fork), "@ada look").await;
    assert_eq!(list(&said, "/tasks").len(), 1);
    let direct = json!({"agent_id": id(&sage)});
    let direct = t.bo.post("/v1/direct", direct).await.is(201);
    let started = t.bo.start(&id(&direct), "@ada says hi").await;
    assert_eq!(list(&started, "/tasks").len(), 1);
}

#[tokio::test]
async fn conversations_with_an_agent_can_be_listed_renamed_and_archived() {
    let (t, sage, _) = two_agents().await;
    let direct = json!({"agent_id": id(&sage)});
    let direct = id(&t.bo.post("/v1/direct", direct).await.is(201));
    let first = t.bo.thread(&direct, "First").await;
    let second = t.bo.thread(&direct, "Second").await;
    let path = format!("/v1/threads/{first}");
    let named = t.bo.patch(&path, json!({"title": "Gardening"})).await;
    assert_eq!(named.is(200)["title"], "Gardening");
    let archived = t.bo.patch(&path, json!({"status": "archived"})).await;
    assert_eq!(archived.is(200)["status"], "archived");
    let all = t.bo.every(&format!("/v1/channels/{direct}/threads")).await;
    let mut shown: Vec<_> = all
        .iter()
        .map(|thread| (text(thread, "/id"), text(thread, "/status")))
        .collect();
    shown.sort();
    let mut expected = [(first, "archived"), (second, "open")].map(|(a, b)| (a, b.to_owned()));
    expected.sort();
    assert_eq!(shown, expected);
    t.ada.get(&path).await.refused(404);
}
