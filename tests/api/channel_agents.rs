//! Channel agents: settings, replies without a mention, and the daily limit.

use std::collections::HashMap;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::{Person, Reply, Team, id, list, setting, team, team_with, text};

fn tasks(posted: &Value) -> usize {
    list(posted, "/tasks").len()
}

async fn try_set(by: &Person, channel: &str, agent: Value) -> Reply {
    let path = format!("/v1/channels/{channel}");
    by.patch(&path, json!({"agent": agent})).await
}

/// Sets the agent of #general. Returns the channel.
async fn set(t: &Team, agent: &Value, mode: &str, daily_max: i64) -> Value {
    let agent = json!({"agent_id": id(agent), "mode": mode, "daily_max": daily_max});
    try_set(&t.ada, &t.general, agent).await.is(200)
}

async fn thread_agent(t: &Team, thread: &str) -> Value {
    let path = format!("/v1/threads/{thread}");
    t.ada.get(&path).await.ok()["agent_id"].clone()
}

#[tokio::test]
async fn everyone_who_can_edit_a_channel_can_set_its_agent() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    assert_eq!(t.bo.channel("general").await["agent"], Value::Null);
    let mut socket = t.ada.socket().await;
    let form = json!({"agent_id": vibe["id"], "mode": "roots"});
    let stored = json!({"agent_id": vibe["id"], "mode": "roots", "daily_max": 100});
    let changed = try_set(&t.bo, &t.general, form).await.is(200);
    assert_eq!(changed["agent"], stored);
    let event = socket.of("channel.updated").await;
    assert_eq!(event["data"]["channel"]["agent"], stored);
    let path = format!("/v1/channels/{}", t.general);
    let renamed = t.bo.patch(&path, json!({"topic": "Plans"})).await.is(200);
    assert_eq!(renamed["agent"], stored, "an absent field is unchanged");
    let removed = try_set(&t.bo, &t.general, Value::Null).await.is(200);
    assert_eq!(removed["agent"], Value::Null);
    assert_eq!(t.ada.channel("general").await["agent"], Value::Null);
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    for daily_max in [-1, 0, 10_001] {
        let form = json!({"agent_id": vibe["id"], "mode": "all", "daily_max": daily_max});
        let refused = try_set(&t.ada, &t.general, form).await;
        assert_eq!(refused.json()["error"]["param"], "agent.daily_max");
        assert_eq!(refused.refused(422), "invalid_value");
    }
    for form in [
        json!({"agent_id": vibe["id"]}),
        json!({"mode": "all"}),
        json!({"agent_id": vibe["id"], "mode": "always"}),
        json!({"agent_id": vibe["id"], "mode": "all", "daily_max": 1.5}),
        json!({"agent_id": vibe["id"], "mode": "all", "more": 1}),
    ] {
        try_set(&t.ada, &t.general, form).await.refused(400);
    }
    let direct = t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await
        .is(201);
    for form in [Value::Null, json!({"agent_id": vibe["id"], "mode": "all"})] {
        let refused = try_set(&t.ada, &id(&direct), form).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    let cy = t.app.join(&t.ada, "Cy", "viewer").await;
    let form = json!({"agent_id": vibe["id"], "mode": "all"});
    try_set(&cy, &t.general, form.clone()).await.refused(403);
    let (writer, _) = t.ada.make_key(&["chat:read", "chat:write"]).await;
    try_set(&writer, &t.general, form).await.refused(403);
    assert_eq!(t.ada.channel("general").await["agent"], Value::Null);
}

#[tokio::test]
async fn in_the_mode_roots_only_first_messages_get_a_reply() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    set(&t, &vibe, "roots", 100).await;
    let started = t.bo.start(&t.general, "Friday or Monday?").await;
    assert_eq!(tasks(&started), 1);
    assert_eq!(started["tasks"][0]["agent_id"], vibe["id"]);
    assert_eq!(started["tasks"][0]["requested_by"], t.bo.id);
    assert_eq!(started["thread"]["agent_id"], Value::Null);
    t.bo.completed(&text(&started, "/tasks/0/id")).await;
    let thread = text(&started, "/thread/id");
    assert_eq!(tasks(&t.bo.say(&thread, "Thank you").await), 0);
    assert_eq!(tasks(&t.bo.say(&thread, "@vibe sure?").await), 1);
    for content in ["@ada, ready?", "@here we go", "@bo note to myself"] {
        let started = t.bo.start(&t.general, content).await;
        assert_eq!(tasks(&started), 0, "{content}");
    }
    let other = t.bo.start(&t.general, "@coder is it green?").await;
    assert_eq!(tasks(&other), 1);
    assert_ne!(other["tasks"][0]["agent_id"], vibe["id"]);
    let threads = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "Among people", "agent_id": null});
    assert_eq!(tasks(&t.bo.post(&threads, form).await.is(201)), 0);
    let random = id(&t.bo.channel("random").await);
    assert_eq!(tasks(&t.bo.start(&random, "Elsewhere").await), 0);
}

#[tokio::test]
async fn in_the_mode_all_new_threads_start_bound_and_others_do_not_change() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    let before = t.bo.thread(&t.general, "Before").await;
    set(&t, &vibe, "all", 100).await;
    let started = t.bo.start(&t.general, "First").await;
    assert_eq!(tasks(&started), 1);
    assert_eq!(started["thread"]["agent_id"], vibe["id"]);
    let thread = text(&started, "/thread/id");
    assert_eq!(tasks(&t.ada.say(&thread, "And now?").await), 1);
    assert_eq!(tasks(&t.bo.say(&thread, "@ada, you decide").await), 0);
    assert_eq!(tasks(&t.bo.say(&before, "Still quiet").await), 0);
    assert_eq!(thread_agent(&t, &before).await, Value::Null);
}

#[tokio::test]
async fn leaving_the_mode_all_suspends_its_bindings() {
    let t = team().await;
    let (vibe, sage) = (t.ada.agent("vibe").await, t.ada.make_agent("sage").await);
    set(&t, &vibe, "all", 100).await;
    let thread = t.bo.thread(&t.general, "First").await;
    for (agent, mode) in [
        (&vibe, "roots"),
        (&vibe, "mentions"),
        (&vibe, "off"),
        (&sage, "all"),
    ] {
        set(&t, agent, mode, 100).await;
        assert_eq!(thread_agent(&t, &thread).await, Value::Null, "{mode}");
        assert_eq!(tasks(&t.bo.say(&thread, "Anyone?").await), 0, "{mode}");
        set(&t, &vibe, "all", 100).await;
        assert_eq!(thread_agent(&t, &thread).await, vibe["id"], "{mode}");
        assert_eq!(tasks(&t.bo.say(&thread, "Again?").await), 1, "{mode}");
    }
    try_set(&t.ada, &t.general, Value::Null).await.is(200);
    assert_eq!(thread_agent(&t, &thread).await, Value::Null);
    t.bo.event_where("the thread without an agent", |event| {
        event["type"] == "thread.updated"
            && event["data"]["thread"]["id"] == thread
            && event["data"]["thread"]["agent_id"].is_null()
    })
    .await;
}

#[tokio::test]
async fn a_persons_choice_in_a_thread_outlives_the_mode() {
    let t = team().await;
    let (vibe, sage) = (t.ada.agent("vibe").await, t.ada.make_agent("sage").await);
    set(&t, &vibe, "all", 100).await;
    let [kept, handed, quiet] = [
        t.bo.thread(&t.general, "One").await,
        t.bo.thread(&t.general, "Two").await,
        t.bo.thread(&t.general, "Three").await,
    ];
    for (thread, agent) in [
        (&kept, vibe["id"].clone()),
        (&handed, sage["id"].clone()),
        (&quiet, Value::Null),
    ] {
        let path = format!("/v1/threads/{thread}");
        t.bo.patch(&path, json!({"agent_id": agent})).await.is(200);
    }
    for mode in ["mentions", "all"] {
        set(&t, &vibe, mode, 100).await;
        assert_eq!(thread_agent(&t, &kept).await, vibe["id"], "{mode}");
        assert_eq!(thread_agent(&t, &handed).await, sage["id"], "{mode}");
        assert_eq!(thread_agent(&t, &quiet).await, Value::Null, "{mode}");
    }
}

#[tokio::test]
async fn the_mention_of_an_agent_that_is_off_is_text() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    let form = json!({"content": "Bound", "agent_id": vibe["id"]});
    let threads = format!("/v1/channels/{}/threads", t.general);
    let bound = t.bo.post(&threads, form).await.is(201);
    let bound = text(&bound, "/thread/id");
    set(&t, &vibe, "off", 100).await;
    let started = t.bo.start(&t.general, "@vibe hello").await;
    assert_eq!(tasks(&started), 0);
    assert_eq!(started["message"]["mentions"], json!([]));
    assert_eq!(tasks(&t.bo.say(&bound, "Are you there?").await), 0);
    assert_eq!(tasks(&t.bo.say(&bound, "@coder hello").await), 1);
    let message = text(&started, "/message/id");
    let path = format!("/v1/messages/{message}");
    let edited = t.bo.patch(&path, json!({"content": "@vibe @ada"})).await;
    assert_eq!(list(&edited.is(200), "/mentions").len(), 1);
    let random = id(&t.bo.channel("random").await);
    assert_eq!(tasks(&t.bo.start(&random, "@vibe hello").await), 1);
    set(&t, &vibe, "mentions", 100).await;
    assert_eq!(tasks(&t.bo.start(&t.general, "@vibe hello").await), 1);
    assert_eq!(tasks(&t.bo.say(&bound, "And now?").await), 1);
}

#[tokio::test]
async fn nothing_happens_for_an_author_who_cannot_invoke_the_agent() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let path = format!("/v1/agents/{}", id(&sage));
    let admins = json!({"allowed_subjects": ["role:admin"], "denied_subjects": []});
    let form = json!({"access_control": admins});
    t.ada.patch(&path, form).await.is(200);
    let form = json!({"agent_id": sage["id"], "mode": "all"});
    assert_eq!(
        try_set(&t.bo, &t.general, form).await.refused(404),
        "agent_not_found"
    );
    set(&t, &sage, "all", 100).await;
    let hers = t.ada.start(&t.general, "Ada asks").await;
    assert_eq!(tasks(&hers), 1);
    let hers = text(&hers, "/thread/id");
    let his = t.bo.start(&t.general, "Bo asks").await;
    assert_eq!((tasks(&his), &his["thread"]["agent_id"]), (0, &Value::Null));
    assert_eq!(tasks(&t.bo.say(&hers, "Bo asks here").await), 0);
    let (writer, _) = t.ada.make_key(&["chat:read", "chat:write"]).await;
    assert_eq!(tasks(&writer.start(&t.general, "A robot").await), 0);
    let scopes = ["chat:read", "chat:write", "agents:use"];
    let (user, _) = t.ada.make_key(&scopes).await;
    assert_eq!(tasks(&user.start(&t.general, "A user of agents").await), 1);
    let off = json!({"status": "inactive"});
    t.ada.patch(&path, off).await.is(200);
    let late = t.ada.start(&t.general, "Ada asks again").await;
    assert_eq!(tasks(&late), 0);
    assert_eq!(tasks(&t.ada.say(&hers, "And here").await), 0);
    for thread in [hers, text(&his, "/thread/id"), text(&late, "/thread/id")] {
        let messages = t.ada.messages(&thread).await;
        let notices = messages.iter().filter(|m| m["kind"] == "notice").count();
        assert_eq!(notices, 0);
    }
    // Users can change the mode even if they cannot invoke the agent.
    let form = json!({"agent_id": sage["id"], "mode": "off"});
    try_set(&t.bo, &t.general, form).await.is(200);
}

#[tokio::test]
async fn a_permanently_deleted_agent_leaves_its_channels_and_their_threads() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    set(&t, &sage, "all", 100).await;
    let thread = t.bo.thread(&t.general, "Keep going").await;
    let path = format!("/v1/agents/{}?permanent=true", id(&sage));
    t.ada.delete(&path).await.is(200);
    assert_eq!(t.bo.channel("general").await["agent"], Value::Null);
    assert_eq!(thread_agent(&t, &thread).await, Value::Null);
    assert_eq!(tasks(&t.bo.say(&thread, "Anyone?").await), 0);
    t.bo.event_where("the channel without an agent", |event| {
        event["type"] == "channel.updated" && event["data"]["channel"]["agent"].is_null()
    })
    .await;
}

const NOTICE: &str =
    "Vibe has reached its limit of 2 replies a day here. Mention it to ask anyway.";

#[tokio::test]
async fn at_the_limit_one_notice_a_day_replaces_the_replies() {
    let mut t = team().await;
    let vibe = t.ada.agent("vibe").await;
    set(&t, &vibe, "roots", 2).await;
    let threads = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "One", "client_id": "c-1"});
    let first = t.bo.post(&threads, form.clone()).await.is(201);
    let again = t.bo.post(&threads, form).await.is(200);
    assert_eq!(first["tasks"][0]["id"], again["tasks"][0]["id"]);
    let path = format!("/v1/messages/{}", text(&first, "/message/id"));
    t.bo.patch(&path, json!({"content": "Uno"})).await.is(200);
    assert_eq!(
        tasks(&t.bo.start(&t.general, "Two").await),
        1,
        "neither the repeated nor the edited message counts"
    );
    let third = t.bo.start(&t.general, "Three").await;
    assert_eq!(tasks(&third), 0);
    let third = text(&third, "/thread/id");
    assert_eq!(t.bo.contents(&third).await, ["Three", NOTICE]);
    let fourth = t.bo.thread(&t.general, "Four").await;
    assert_eq!(t.bo.contents(&fourth).await, ["Four"]);
    assert_eq!(tasks(&t.bo.say(&third, "@vibe please").await), 1);
    try_set(&t.ada, &t.general, Value::Null).await.is(200);
    set(&t, &vibe, "all", 2).await;
    let fifth = t.bo.start(&t.general, "Five").await;
    assert_eq!(tasks(&fifth), 0, "other settings do not reset the count");
    assert_eq!(fifth["thread"]["agent_id"], vibe["id"]);

    t.app.stop().await;
    t.app
        .place
        .run(&["update channel_agents set replied_on = '2020-01-01 00:00:00+00:00', announced_on = '2020-01-01 00:00:00+00:00'"])
        .await;
    t.app.restart(&[]).await;
    let bo = t.bo.at(&t.app.base);
    for (content, replies) in [("Six", 1), ("Seven", 1), ("Eight", 0)] {
        assert_eq!(tasks(&bo.start(&t.general, content).await), replies);
    }
    let notices = bo.events().await;
    let notices = notices
        .iter()
        .filter(|event| event["data"]["message"]["content"] == NOTICE);
    assert_eq!(notices.count(), 2, "one for each day");
}

/// Messages per mode in the test below; `OPENVIBE_TEST_POSTS` sets another number.
const POSTS: usize = 300;
const DAILY_MAX: usize = 10;
/// One of this many messages is a mention; replies to mentions are not limited.
const MENTIONED: usize = 10;

fn posts() -> usize {
    setting("OPENVIBE_TEST_POSTS").unwrap_or(POSTS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Post {
    Mention,
    /// First message of a thread.
    First,
    /// Message in a thread.
    Later,
}

impl Post {
    fn of(n: usize) -> Self {
        if n.is_multiple_of(MENTIONED) {
            Self::Mention
        } else if n.is_multiple_of(2) {
            Self::First
        } else {
            Self::Later
        }
    }
}

/// Numbers of tasks, replies, and notices that posts in a channel caused.
#[derive(Debug, Default)]
struct Crowd {
    tasks: HashMap<Post, usize>,
    replies: usize,
    notices: usize,
}

/// Posts messages, 25 at a time, and waits for the replies.
async fn crowd(t: &Team, channel: &str) -> Crowd {
    let first = t.bo.start(channel, "The first thread").await;
    let thread = text(&first, "/thread/id");
    let post = |n: usize| {
        let (thread, by) = (&thread, if n.is_multiple_of(4) { &t.ada } else { &t.bo });
        async move {
            let kind = Post::of(n);
            let posted = match kind {
                Post::Mention => by.start(channel, &format!("@vibe, mention {n}")).await,
                Post::First => by.start(channel, &format!("Thread {n}")).await,
                Post::Later => by.say(thread, &format!("Message {n}")).await,
            };
            (kind, tasks(&posted))
        }
    };
    let mut found = Crowd::default();
    found.tasks.insert(Post::First, tasks(&first));
    let mut posted = stream::iter((0..posts()).map(post)).buffer_unordered(25);
    while let Some((kind, tasks)) = posted.next().await {
        *found.tasks.entry(kind).or_default() += tasks;
    }
    t.settled().await;
    for event in t.bo.events().await {
        let message = &event["data"]["message"];
        if event["type"] != "message.created" || event["channel_id"] != channel {
            continue;
        }
        let content = message["content"].as_str().unwrap_or_default();
        found.notices += usize::from(content.contains("limit of 10 replies a day"));
        let is_reply = message["author"]["type"] == "agent" && message["kind"] == "text";
        found.replies += usize::from(is_reply);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_follow_the_mode_and_never_exceed_the_limit() {
    let settings = [
        ("RATE_LIMITS", "off"),
        ("COMPACTION", "off"),
        ("TASKS_QUEUED_MAX", "10000"),
    ];
    let t = team_with(&settings).await;
    let vibe = t.ada.agent("vibe").await;
    for mode in ["off", "mentions", "roots", "all"] {
        let channel = t.ada.private_channel(mode, &[&t.bo]).await;
        let agent = json!({"agent_id": vibe["id"], "mode": mode, "daily_max": DAILY_MAX});
        try_set(&t.ada, &channel, agent).await.is(200);
        let found = crowd(&t, &channel).await;
        let [first, later, mentions] =
            [Post::First, Post::Later, Post::Mention].map(|kind| found.tasks[&kind]);
        let asked = match mode {
            "off" => 0,
            _ => posts().div_ceil(MENTIONED),
        };
        assert_eq!(mentions, asked, "{mode}");
        let is_unasked = matches!(mode, "roots" | "all");
        let unasked = if is_unasked { DAILY_MAX } else { 0 };
        assert_eq!(first + later, unasked, "{mode}: {found:?}");
        assert_eq!(found.replies, asked + unasked, "{mode}: {found:?}");
        assert_eq!(found.notices, usize::from(is_unasked), "{mode}: {found:?}");
        if mode == "roots" {
            assert_eq!(later, 0, "{mode}");
        }
    }
}
