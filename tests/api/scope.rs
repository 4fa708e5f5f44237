//! Sockets that receive only the traffic of joined and open channels.

use serde_json::{Value, json};

use crate::support::{Person, Socket, Team, id, list, number, team, text};

/// A team with a public channel that Bo has not joined; returns the channel's ID and that of a thread in it, too.
async fn apart() -> (Team, String, String) {
    let t = team().await;
    let channel = t.ada.post("/v1/channels", json!({"name": "apart"})).await;
    let channel = id(&channel.is(201));
    let thread = t.ada.thread(&channel, "Root").await;
    (t, channel, thread)
}

async fn scoped(person: &Person) -> Socket {
    Socket::open(person, json!({"scope": "joined"})).await
}

/// Types and contents of the events before a message in #general, which everyone in the team receives.
async fn received(t: &Team, socket: &mut Socket) -> Vec<String> {
    let marker = t.ada.thread(&t.general, "Marker").await;
    let events = socket
        .events_through("the marker", |frame| {
            frame["type"] == "message.created" && frame["thread_id"] == marker.as_str()
        })
        .await;
    described(&events, &marker)
}

fn described(events: &[Value], marker: &str) -> Vec<String> {
    let others = events.iter().filter(|event| event["thread_id"] != marker);
    others
        .map(|event| match event["data"]["message"]["content"].as_str() {
            Some(content) => format!("{} {content}", text(event, "/type")),
            None => text(event, "/type"),
        })
        .collect()
}

#[tokio::test]
async fn traffic_of_a_public_channel_reaches_only_sockets_that_follow_it() {
    let (t, channel, thread) = apart().await;
    let (mut bo, mut bo_all) = (scoped(&t.bo).await, t.bo.socket().await);
    let mut ada = scoped(&t.ada).await;
    let message = t.ada.tell(&thread, "One").await;
    let path = format!("/v1/messages/{message}");
    let edit = json!({"content": "Two"});
    t.ada.patch(&path, edit).await.is(200);
    let thumb = format!("{path}/reactions/%F0%9F%91%8D");
    t.ada.put(&thumb, json!({})).await.is(200);
    t.ada.delete(&path).await.is(200);
    let topic = json!({"topic": "Far away"});
    let channel = format!("/v1/channels/{channel}");
    t.ada.patch(&channel, topic).await.is(200);
    let all = [
        "message.created One",
        "message.updated Two",
        "reaction.added",
        "message.deleted ",
        "channel.updated",
    ];
    assert_eq!(received(&t, &mut ada).await, all);
    assert_eq!(received(&t, &mut bo_all).await[..5], all);
    let others = ["message.deleted ", "channel.updated"];
    let bo = received(&t, &mut bo).await;
    assert_eq!(bo[..2], others);
}

#[tokio::test]
async fn a_channel_is_followed_from_joining_to_leaving() {
    let (t, channel, thread) = apart().await;
    let mut bo = scoped(&t.bo).await;
    t.ada.say(&thread, "Before").await;
    let path = format!("/v1/channels/{channel}");
    t.bo.act(&format!("{path}/join")).await.ok();
    t.ada.say(&thread, "Joined").await;
    t.bo.act(&format!("{path}/leave")).await.ok();
    t.ada.say(&thread, "After").await;
    // Posting also joins the channel.
    t.bo.say(&thread, "Here again").await;
    let expected = [
        "channel.member_added",
        "message.created Joined",
        "channel.member_removed",
        "channel.member_added",
        "message.created Here again",
    ];
    assert_eq!(received(&t, &mut bo).await, expected);
    let created = t.bo.post("/v1/channels", json!({"name": "mine"})).await;
    t.ada
        .thread(&id(&created.is(201)), "In a new channel")
        .await;
    let new = received(&t, &mut bo).await;
    assert!(
        new.contains(&"message.created In a new channel".to_owned()),
        "{new:?}"
    );
}

#[tokio::test]
async fn an_open_channel_or_conversation_is_followed_until_it_is_closed() {
    let (t, channel, thread) = apart().await;
    let other = t.ada.thread(&channel, "Other").await;
    let mut bo = scoped(&t.bo).await;
    bo.ack(json!({"type": "subscribe", "channel_id": channel}))
        .await;
    t.ada.say(&thread, "By channel").await;
    bo.subscribe(&thread).await;
    let close = json!({"type": "unsubscribe", "channel_id": channel});
    bo.ack(close.clone()).await;
    t.ada.say(&other, "By another thread").await;
    bo.ack(json!({"type": "unsubscribe", "thread_id": thread}))
        .await;
    // Closing the channel again does not change anything.
    bo.ack(close).await;
    t.ada.say(&thread, "Closed").await;
    assert_eq!(
        received(&t, &mut bo).await,
        [
            "message.created By channel",
            "message.created By another thread"
        ]
    );
}

#[tokio::test]
async fn only_visible_channels_can_be_opened() {
    let t = team().await;
    let secret = t.ada.private_channel("secret", &[]).await;
    let thread = t.ada.thread(&secret, "Root").await;
    let hello = json!({"scope": "joined", "channels": [secret]});
    let mut bo = Socket::open(&t.bo, hello).await;
    let refused = bo
        .request(json!({"type": "subscribe", "channel_id": secret}))
        .await;
    assert_eq!(refused["error"]["code"], "channel_not_found");
    let two = json!({"type": "subscribe", "channel_id": t.general, "thread_id": thread});
    let refused = bo.request(two).await;
    assert_eq!(refused["error"]["code"], "one_place");
    t.ada.say(&thread, "Secret").await;
    assert!(received(&t, &mut bo).await.is_empty());
}

#[tokio::test]
async fn a_mention_reaches_a_person_who_has_not_joined_the_channel() {
    let (t, _, thread) = apart().await;
    let mut bo = scoped(&t.bo).await;
    let since = bo.cursor;
    t.ada.say(&thread, "@bo look").await;
    t.ada.say(&thread, "@channel look").await;
    t.ada.say(&thread, "Nobody").await;
    let expected = ["message.created @bo look"];
    assert_eq!(received(&t, &mut bo).await, expected);
    let hello = json!({"scope": "joined", "since": since});
    let mut resumed = Socket::open(&t.bo, hello).await;
    let marker = t.ada.thread(&t.general, "End").await;
    let events = resumed
        .events_through("the end", |frame| {
            frame["type"] == "message.created" && frame["thread_id"] == marker.as_str()
        })
        .await;
    let there: Vec<&Value> = events
        .iter()
        .filter(|event| event["thread_id"] == thread.as_str())
        .collect();
    assert_eq!(there.len(), 1, "{there:?}");
}

#[tokio::test]
async fn a_resumed_socket_gets_the_events_that_it_would_have_got_live() {
    let (t, channel, thread) = apart().await;
    for hello in [
        json!({"scope": "joined"}),
        json!({"scope": "joined", "channels": [channel]}),
        json!({"scope": "all"}),
    ] {
        let mut live = Socket::open(&t.bo, hello.clone()).await;
        let since = live.cursor;
        t.ada.say(&thread, "One").await;
        let message = t.ada.tell(&thread, "@bo two").await;
        let path = format!("/v1/messages/{message}");
        t.ada
            .patch(&path, json!({"content": "Three"}))
            .await
            .is(200);
        t.ada.thread(&t.general, "Elsewhere").await;
        t.ada.delete(&path).await.is(200);
        t.bo.act(&format!("/v1/channels/{channel}/join")).await.ok();
        t.ada.say(&thread, "For members").await;
        t.bo.act(&format!("/v1/channels/{channel}/leave"))
            .await
            .ok();
        let marker = t.ada.thread(&t.general, "Marker").await;
        let is_end = |frame: &Value| {
            frame["type"] == "message.created" && frame["thread_id"] == marker.as_str()
        };
        let seqs = |events: &[Value]| -> Vec<i64> {
            events.iter().map(|event| number(event, "/seq")).collect()
        };
        let mut live = live.events_through("the end", is_end).await;
        // A live socket receives what Bo's membership allowed at that time; a replay contains what his current membership allows.
        live.retain(|event| {
            event["data"]["message"]["content"] != "For members"
                || hello["scope"] == "all"
                || !hello["channels"].is_null()
        });
        let mut again = hello.clone();
        again["since"] = since.into();
        let mut resumed = Socket::open(&t.bo, again).await;
        let mut replayed = resumed.events_through("the end", is_end).await;
        // The edited message no longer mentions Bo.
        let is_two = |event: &Value| {
            event["data"]["message"]["id"] == message.as_str() && event["type"] == "message.created"
        };
        if hello["scope"] == "joined" && hello["channels"].is_null() {
            live.retain(|event| !is_two(event));
            replayed.retain(|event| !is_two(event));
        }
        assert_eq!(seqs(&live), seqs(&replayed), "{hello}");
    }
}

#[tokio::test]
async fn activity_of_other_public_channels_is_announced_with_its_newest_event() {
    let (t, channel, thread) = apart().await;
    let (mut bo, mut ada) = (scoped(&t.bo).await, scoped(&t.ada).await);
    let said = t.ada.tell(&thread, "One").await;
    let seq = number(&t.ada.message(&said).await, "/seq");
    let activity = bo.of("channel.activity").await;
    assert_eq!(activity["channel_id"], channel.as_str());
    assert!(number(&activity, "/seq") >= seq);
    assert!(activity.get("data").is_none());
    assert!(bo.cursor < seq, "activity is no event");
    // Another frame is sent only after more traffic; members do not receive these frames.
    t.ada.say(&thread, "Two").await;
    let second = bo.of("channel.activity").await;
    assert!(number(&second, "/seq") > number(&activity, "/seq"));
    let marker = t.ada.tell(&thread, "Three").await;
    let frames = ada
        .through("the last message", |f| {
            f["data"]["message"]["id"] == marker.as_str()
        })
        .await;
    assert!(frames.iter().all(|f| f["type"] != "channel.activity"));
}

#[tokio::test]
async fn a_hello_with_an_unknown_scope_or_too_many_channels_is_malformed() {
    let t = team().await;
    let channels = vec![t.general.as_str(); 101];
    for (fields, code) in [
        (json!({"scope": "some"}), "invalid_field"),
        (json!({"deltas": "tiny"}), "invalid_field"),
        (json!({"channels": channels}), "too_many_subscriptions"),
    ] {
        let mut socket = Socket::silent(&t.ada).await;
        let mut hello = json!({"type": "hello", "protocol": 1, "workspace_id": t.ada.workspace});
        for (name, value) in fields.as_object().unwrap() {
            hello[name] = value.clone();
        }
        socket.send(&hello).await;
        let error = socket.next().await;
        assert_eq!(error["error"]["code"], code, "{error}");
    }
    let page = t.ada.get("/v1/events?after=0&limit=100").await.ok();
    assert!(!list(&page, "/data").is_empty());
}
