//! Guests see only the channels they are in, and only the people there.

use std::time::Duration;

use openvibe::{
    auth::guest_ends::{announce_ends, suspend_ended},
    db::{Conn, now},
    ids::UserId,
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
    time::Timestamp,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    documents::{found, read},
    support::{Answer, Person, Socket, Team, id, list, sign_up, team, text},
};

/// A team with a public channel `plans`, a guest in it, and a member who is in no channel with the guest.
struct World {
    t: Team,
    plans: String,
    gus: Person,
    /// Not in `plans`.
    cat: Person,
}

async fn public_channel(by: &Person, name: &str) -> String {
    let form = json!({"name": name});
    id(&by.post("/v1/channels", form).await.is(201))
}

async fn world() -> World {
    let t = team().await;
    let cat = t.app.join(&t.ada, "Cat", "member").await;
    let plans = public_channel(&t.ada, "plans").await;
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["plans"]).await;
    World { t, plans, gus, cat }
}

impl World {
    async fn change_workspace(&self, patch: Value) {
        let path = format!("/v1/workspaces/{}", self.t.ada.workspace);
        self.t.ada.patch(&path, patch).await.is(200);
    }
}

fn ids(rows: &[Value], pointer: &str) -> Vec<String> {
    let mut all: Vec<String> = rows.iter().map(|row| text(row, pointer)).collect();
    all.sort_unstable();
    all
}

fn sorted(ids: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn a_guest_sees_only_their_channels_and_the_people_there() {
    let w = world().await;
    let (gus, ada) = (&w.gus, &w.t.ada);
    let people = sorted(&[&ada.id, &gus.id]);
    let snapshot = gus.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["me"]["role"], "guest");
    assert_eq!(
        ids(&list(&snapshot, "/channels"), "/id"),
        [w.plans.as_str()]
    );
    assert_eq!(ids(&list(&snapshot, "/members"), "/user_id"), people);
    assert_eq!(
        ids(&gus.every("/v1/channels").await, "/id"),
        [w.plans.as_str()]
    );
    assert_eq!(ids(&gus.every("/v1/members").await, "/user_id"), people);
    gus.get(&format!("/v1/members/{}", ada.id)).await.is(200);
    let path = format!("/v1/members/{}", w.cat.id);
    gus.get(&path).await.refused(404);
    gus.delete(&path).await.refused(404);
    // Everyone else still sees all of it.
    let all = sorted(&[&ada.id, &w.t.bo.id, &w.cat.id, &gus.id]);
    assert_eq!(ids(&w.cat.every("/v1/members").await, "/user_id"), all);

    // Others see how many guests read a channel.
    assert_eq!(ada.channel("plans").await["guest_count"], 1);
    assert_eq!(ada.channel("general").await["guest_count"], Value::Null);

    // Someone who joins the channel becomes visible.
    let joined = format!("/v1/channels/{}/join", w.plans);
    w.cat.act(&joined).await.is(200);
    gus.get(&format!("/v1/members/{}", w.cat.id)).await.is(200);
}

#[tokio::test]
async fn what_is_in_another_public_channel_does_not_exist_for_a_guest() {
    let w = world().await;
    let (gus, ada, general) = (&w.gus, &w.t.ada, &w.t.general);
    let started = ada.start(general, "The secret zebra").await;
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let file = ada.upload("zebra.txt", b"zebra").await;
    read(ada, &file).await;
    let file = id(&file);
    let form = json!({"content": "See", "attachments": [file]});
    ada.post(&format!("/v1/threads/{thread}/messages"), form)
        .await
        .is(201);
    found(ada, "q=zebra", 1).await;
    let dive = w.t.resolved("A zebra it is").await.0;
    for path in [
        format!("/v1/channels/{general}"),
        format!("/v1/channels/{general}/members"),
        format!("/v1/channels/{general}/threads"),
        format!("/v1/channels/{general}/catch-up"),
        format!("/v1/threads/{thread}"),
        format!("/v1/threads/{thread}/messages"),
        format!("/v1/messages/{message}"),
        format!("/v1/files/{file}"),
        format!("/v1/files/{file}/metadata"),
        format!("/v1/files/{file}/text"),
        format!("/v1/files/{file}/content"),
        format!("/v1/search?kind=file&q=zebra&file_id={file}"),
        format!("/v1/search?kind=file&q=zebra&vector_store_id={general}"),
        format!("/v1/forks/{}", dive.fork),
        format!("/v1/forks/{}/messages", dive.fork),
        format!("/v1/search?q=zebra&channel_id={general}"),
        format!("/v1/search?q=zebra&author_id={}", w.cat.id),
        format!("/v1/action-items?owner={}", w.cat.id),
        format!("/v1/members?after={}", w.cat.id),
    ] {
        gus.get(&path).await.refused(404);
    }
    gus.act(&format!("/v1/channels/{general}/read"))
        .await
        .refused(404);
    let say = json!({"content": "Hi"});
    gus.post(&format!("/v1/channels/{general}/threads"), say.clone())
        .await
        .refused(404);
    gus.post(&format!("/v1/threads/{thread}/messages"), say)
        .await
        .refused(404);
    for path in [
        "/v1/search?q=zebra",
        "/v1/search?kind=file&q=zebra",
        "/v1/search?kind=file&q=zebra&match=any",
        "/v1/decisions",
        "/v1/action-items",
        "/v1/inbox",
        "/v1/inbox/catch-up",
        "/v1/following",
    ] {
        let shown = gus.get(path).await.ok().to_string();
        assert!(!shown.contains("zebra"), "{path}: {shown}");
    }
    assert_eq!(
        gus.contents(&gus.thread(&w.plans, "Hello").await).await,
        ["Hello"]
    );
}

#[tokio::test]
async fn routes_that_nothing_opens_to_guests_refuse_them() {
    let w = world().await;
    let (gus, plans) = (&w.gus, &w.plans);
    for path in [
        "/v1/agents",
        "/v1/bots",
        "/v1/memories",
        "/v1/tools",
        "/v1/tasks",
        "/v1/api-keys",
        "/v1/usage?user_id=me",
        "/v1/workflows",
        format!("/v1/members/{}/export", gus.id).as_str(),
        format!("/v1/workspaces/{}/policy", gus.workspace).as_str(),
    ] {
        gus.get(path).await.refused(403);
    }
    let invite = json!({"role": "guest", "channel_ids": [plans]});
    for (path, body) in [
        ("/v1/channels".to_owned(), json!({"name": "mine"})),
        ("/v1/invites".to_owned(), invite),
        (
            "/v1/api-keys".to_owned(),
            json!({"name": "robot", "scopes": ["chat:read"]}),
        ),
        (
            format!("/v1/channels/{plans}/members"),
            json!({"user_id": w.t.ada.id}),
        ),
    ] {
        gus.post(&path, body).await.refused(403);
    }
    gus.patch(&format!("/v1/channels/{plans}"), json!({"topic": "x"}))
        .await
        .refused(403);
}

#[tokio::test]
async fn a_guest_receives_only_the_events_of_their_channels() {
    let w = world().await;
    let (t, gus) = (&w.t, &w.gus);
    let snapshot = gus.get("/v1/snapshot").await.ok();
    let mut all = Socket::open(gus, json!({})).await;
    let mut scoped = Socket::open(gus, json!({"scope": "joined"})).await;
    t.ada.start(&t.general, "Hidden @gus").await;
    public_channel(&t.ada, "elsewhere").await;
    let newcomer = t.app.join(&t.ada, "Newcomer", "member").await;
    drop(newcomer.socket().await);
    t.ada.start(&w.plans, "Shown").await;
    let since = json!({"since": snapshot["seq"], "epoch": snapshot["epoch"]});
    let mut resumed = Socket::open(gus, since).await;
    let hidden = [
        "Hidden",
        "elsewhere",
        "Newcomer",
        newcomer.id.as_str(),
        t.general.as_str(),
    ];
    let check = |shown: &str| {
        for hidden in hidden {
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
    };
    for socket in [&mut all, &mut scoped, &mut resumed] {
        let seen = socket
            .through("the shown message", |frame| {
                frame["data"]["message"]["content"] == "Shown"
            })
            .await;
        for frame in &seen {
            check(&frame.to_string());
        }
    }
    let listed = gus.get("/v1/events?limit=100").await.ok().to_string();
    check(&listed);
    assert!(listed.contains("Shown"), "{listed}");
    // A subscription to what the guest does not see fails as if it did not exist.
    let thread = t.ada.thread(&t.general, "Hidden too").await;
    for subscription in [
        json!({"type": "subscribe", "channel_id": t.general}),
        json!({"type": "subscribe", "thread_id": thread}),
    ] {
        assert_eq!(all.request(subscription).await["type"], "error");
    }
}

#[tokio::test]
async fn mentions_reach_only_people_who_see_each_other() {
    let w = world().await;
    let (t, gus) = (&w.t, &w.gus);
    let thread = t.ada.thread(&w.plans, "Root").await;
    let content = "@ada, ask @cat or @everyone";
    let said = gus.say(&thread, content).await;
    let mentioned = list(&said, "/message/mentions");
    assert_eq!(ids(&mentioned, "/id"), [t.ada.id.as_str()]);
    let everyone = t.ada.say(&thread, "@everyone").await;
    assert_eq!(list(&everyone, "/message/mentions").len(), 1);

    // A mention where the guest cannot read opens nothing.
    t.ada.start(&t.general, "@gus the zebra").await;
    let inbox = gus.get("/v1/inbox").await.ok().to_string();
    assert!(!inbox.contains("zebra"), "{inbox}");

    // Direct messages go to people of the guest's channels.
    let to = |person: &Person| json!({"member_ids": [person.id]});
    gus.post("/v1/direct", to(&w.cat)).await.refused(404);
    gus.post("/v1/direct", to(&t.ada)).await.is(201);
}

#[tokio::test]
async fn where_a_guest_reads_agents_use_only_what_the_guest_can_read() {
    let w = world().await;
    let (t, gus) = (&w.t, &w.gus);
    let path = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let on = json!({"workspace_context": {"enabled": true}});
    t.ada.patch(&path, on).await.is(200);
    t.resolved("The zebra stays").await;
    let agent = id(&t.ada.agent("vibe").await);
    let notes = format!("/v1/agents/{agent}/files/MEMORY.md");
    let form = json!({"content": "The zebra likes hay"});
    t.ada.put(&notes, form).await.is(200);
    let prompt = async |by: &Person, channel: &str| {
        let thread = t.ada.thread(channel, "Root").await;
        let task = by.ask(&thread, "@vibe hi").await;
        t.ada.completed(&task).await;
        t.model().requests().pop().unwrap().turns().join("\n")
    };
    let open = prompt(&t.ada, &t.general).await;
    assert!(
        ["The zebra stays", "likes hay", "@cat"].map(|shown| open.contains(shown)) == [true; 3],
        "{open}"
    );
    for by in [gus, &t.ada] {
        let shared = prompt(by, &w.plans).await;
        let leaks = ["zebra", "@cat", "@bo"].map(|hidden| shared.contains(hidden));
        assert_eq!(leaks, [false; 3], "{shared}");
    }
    // A public channel that the guest is in as well is used.
    let path = format!("/v1/channels/{}/members", t.general);
    t.ada.post(&path, json!({"user_id": gus.id})).await.is(201);
    let shared = prompt(gus, &w.plans).await;
    assert!(shared.contains("The zebra stays"), "{shared}");
}

#[tokio::test]
async fn guests_use_agents_only_if_the_workspace_allows_it() {
    let w = world().await;
    let thread = w.t.ada.thread(&w.plans, "Root").await;
    let agent = id(&w.t.ada.agent("vibe").await);
    let form = json!({"agent_id": agent});
    let task = w.gus.ask(&thread, "@vibe hi").await;
    w.t.ada.completed(&task).await;
    w.gus.post("/v1/direct", form.clone()).await.is(201);
    let agents = list(&w.gus.get("/v1/snapshot").await.ok(), "/agents");
    assert!(!agents.is_empty());

    w.change_workspace(json!({"guests_use_agents": false}))
        .await;
    let said = w.gus.say(&thread, "@vibe hi").await;
    assert_eq!(list(&said, "/tasks"), Vec::<Value>::new());
    w.gus.post("/v1/direct", form).await.refused(403);
    let agents = list(&w.gus.get("/v1/snapshot").await.ok(), "/agents");
    assert_eq!(agents, Vec::<Value>::new());
}

#[tokio::test]
async fn a_guest_retries_their_own_tasks_only() {
    let w = world().await;
    let rejected = || Answer::status(400, "{}");
    w.t.model().script("vibe", [rejected(), rejected()]);
    let thread = w.t.ada.thread(&w.plans, "Root").await;
    let own = w.gus.ask(&thread, "@vibe hi").await;
    w.t.ada.failed(&own).await;
    let other = w.t.ada.ask(&thread, "@vibe hi").await;
    w.t.ada.failed(&other).await;
    let retry = async |task: &str| w.gus.act(&format!("/v1/tasks/{task}/retry")).await;
    let retried = retry(&own).await.is(201);
    assert_eq!(retried["retry_of"], own.as_str());
    w.t.ada.completed(&id(&retried)).await;
    retry(&other).await.refused(403);
}

#[tokio::test]
async fn a_guest_takes_a_deep_dive_to_its_result_with_the_people_they_see() {
    let w = world().await;
    let thread = w.t.ada.thread(&w.plans, "Root").await;
    let root = id(&w.gus.messages(&thread).await[0]);
    let form = json!({"message_id": root, "agent_id": null});
    let start = format!("/v1/threads/{thread}/forks");
    let started = w.gus.post(&start, form).await.is(201);
    let fork = format!("/v1/forks/{}", text(&started, "/fork/id"));
    let named = w.gus.patch(&fork, json!({"title": "The plan"})).await;
    assert_eq!(named.is(200)["title"], "The plan");
    let publish = format!("{fork}/publish");
    let result = |owner: &str| {
        let items = json!([{"text": "Book the room", "owner_id": owner}]);
        json!({"resolution": {"headline": "Monday", "action_items": items}})
    };
    let hidden = w.gus.post(&publish, result(&w.cat.id)).await;
    hidden.refused(422);
    let published = w.gus.post(&publish, result(&w.t.ada.id)).await.is(200);
    let item = text(&published, "/resolution/action_items/0/id");
    let item = format!("/v1/action-items/{item}");
    let done = w.gus.patch(&item, json!({"done": true})).await;
    assert_eq!(done.is(200)["done"], true);
    let hidden = w.gus.patch(&item, json!({"owner_id": w.cat.id})).await;
    hidden.refused(422);
    w.gus.act(&format!("{fork}/reopen")).await.is(200);
    w.gus.act(&format!("{fork}/abandon")).await.is(200);
}

#[tokio::test]
async fn only_admins_decide_which_channels_a_guest_is_in() {
    let w = world().await;
    let (t, gus) = (&w.t, &w.gus);
    let general = format!("/v1/channels/{}/members", t.general);
    let form = json!({"user_id": gus.id});
    t.bo.post(&general, form.clone()).await.refused(403);
    t.ada.post(&general, form).await.is(201);
    let direct = json!({"member_ids": [t.ada.id]});
    let direct = id(&gus.post("/v1/direct", direct).await.is(201));
    let path = format!("/v1/members/{}", gus.id);
    let own = async || ids(&gus.every("/v1/channels").await, "/id");
    assert_eq!(own().await, sorted(&[&w.plans, &t.general, &direct]));
    let change = json!({"channel_ids": [t.general]});
    t.bo.patch(&path, change.clone()).await.refused(403);
    t.ada.patch(&path, change).await.is(200);
    assert_eq!(own().await, sorted(&[&t.general, &direct]));
    t.ada.patch(&path, json!({"role": "member"})).await.is(200);
    assert!(own().await.contains(&w.plans));
}

#[tokio::test]
async fn a_change_of_channels_keeps_the_end_of_a_guest() {
    let w = world().await;
    let (ada, path) = (&w.t.ada, format!("/v1/members/{}", w.gus.id));
    let until = json!({"channel_ids": [w.plans], "expires_at": "2120-01-01T00:00:00Z"});
    ada.patch(&path, until).await.is(200);
    let own = ada.get(&format!("{path}/export")).await.ok();
    assert!(text(&own, "/membership/expires_at").starts_with("2120-01-01"));
    let more = json!({"channel_ids": [w.plans, w.t.general]});
    let changed = ada.patch(&path, more).await.is(200);
    assert!(text(&changed, "/expires_at").starts_with("2120-01-01"));
    let never = json!({"channel_ids": [w.plans], "expires_at": null});
    let changed = ada.patch(&path, never).await.is(200);
    assert_eq!(changed["expires_at"], Value::Null);
    // The end of an earlier time as a guest does not return.
    let until = json!({"channel_ids": [w.plans], "expires_at": "2120-01-01T00:00:00Z"});
    ada.patch(&path, until).await.is(200);
    ada.patch(&path, json!({"role": "member"})).await.is(200);
    let again = json!({"role": "guest", "channel_ids": [w.plans]});
    let changed = ada.patch(&path, again).await.is(200);
    assert_eq!(changed["expires_at"], Value::Null);
}

#[tokio::test]
async fn whoever_becomes_a_guest_keeps_only_the_given_channels_and_no_keys() {
    let w = world().await;
    let (t, cat) = (&w.t, &w.cat);
    let private = t.ada.private_channel("secret", &[cat]).await;
    let (key, _) = cat.make_key(&["chat:read"]).await;
    let path = format!("/v1/members/{}", cat.id);
    for bad in [
        json!({"role": "guest"}),
        json!({"role": "guest", "channel_ids": []}),
        json!({"role": "member", "channel_ids": [w.plans]}),
        json!({"role": "guest", "channel_ids": [w.plans], "expires_at": "2020-01-01T00:00:00Z"}),
        json!({"role": "guest", "expires_at": "2120-01-01T00:00:00Z"}),
    ] {
        t.ada.patch(&path, bad).await.refused(422);
    }
    assert!(cat.channel("secret").await["is_member"] == true);
    let change = json!({"role": "guest", "channel_ids": [w.plans]});
    let changed = t.ada.patch(&path, change).await.is(200);
    assert_eq!(changed["role"], "guest");
    assert_eq!(
        ids(&cat.every("/v1/channels").await, "/id"),
        [w.plans.as_str()]
    );
    cat.get(&format!("/v1/channels/{private}"))
        .await
        .refused(404);
    key.get("/v1/channels").await.refused(401);
    let log = t.ada.get("/v1/audit-log?action=guest.changed").await.ok();
    let entry = &list(&log, "/data")[0];
    assert_eq!(entry["data"]["channel_ids"], json!([w.plans]));
}

#[tokio::test]
async fn an_admin_who_becomes_a_guest_has_no_open_invites() {
    let w = world().await;
    let (ada, cat) = (&w.t.ada, &w.cat);
    let path = format!("/v1/members/{}", cat.id);
    ada.patch(&path, json!({"role": "admin"})).await.is(200);
    let form = json!({"role": "member"});
    let invite = cat.post("/v1/invites", form).await.is(201);
    let guest = json!({"role": "guest", "channel_ids": [w.plans]});
    ada.patch(&path, guest).await.is(200);
    let left = ada.get("/v1/invites").await.ok().to_string();
    assert!(!left.contains(&id(&invite)), "{left}");
}

#[tokio::test]
async fn whoever_returns_as_a_guest_gets_no_former_direct_channel() {
    let w = world().await;
    let (t, cat) = (&w.t, &w.cat);
    let with_bo = json!({"member_ids": [t.bo.id]});
    let direct = id(&cat.post("/v1/direct", with_bo).await.is(201));
    let path = format!("/v1/members/{}", cat.id);
    t.ada.delete(&path).await.is(204);
    let form = json!({"role": "guest", "channel_ids": [w.plans]});
    let invite = t.ada.post("/v1/invites", form).await.is(201);
    let accept = format!("/v1/invites/{}/accept", text(&invite, "/token"));
    cat.act(&accept).await.is(200);
    let own = ids(&cat.every("/v1/channels").await, "/id");
    assert_eq!(own, [w.plans.as_str()]);
    let hidden = cat.get(&format!("/v1/channels/{direct}")).await;
    hidden.refused(404);
}

#[tokio::test]
async fn a_guest_sees_no_notice_about_what_they_managed() {
    let w = world().await;
    let cat = &w.cat;
    let user: UserId = cat.id.parse().unwrap();
    let notice = Notice {
        workspace: cat.workspace.parse().unwrap(),
        subject: InboxSubject::new(InboxSubjectKind::Bot, Uuid::max()),
        actor: None,
        channel: None,
    };
    let open = async move |c: &mut Conn| notice::open_notice(c, user, &notice).await;
    let db = w.t.app.db();
    db.write(notice.workspace.0, open).await.unwrap();
    let count = async || list(&cat.get("/v1/inbox").await.ok(), "/data").len();
    assert_eq!(count().await, 1);
    let guest = json!({"role": "guest", "channel_ids": [w.plans]});
    let path = format!("/v1/members/{}", cat.id);
    w.t.ada.patch(&path, guest).await.is(200);
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn an_invite_of_a_guest_needs_channels_that_the_admin_can_read() {
    let w = world().await;
    let (t, cat) = (&w.t, &w.cat);
    let hidden = cat.private_channel("hidden", &[]).await;
    let direct = json!({"member_ids": [t.bo.id]});
    let direct = id(&t.ada.post("/v1/direct", direct).await.is(201));
    let many = vec![w.plans.as_str(); 51];
    for bad in [
        json!({"role": "guest"}),
        json!({"role": "guest", "channel_ids": []}),
        json!({"role": "guest", "channel_ids": [hidden]}),
        json!({"role": "guest", "channel_ids": [w.plans, direct]}),
        json!({"role": "member", "channel_ids": [w.plans]}),
        json!({"channel_ids": [w.plans]}),
    ] {
        t.ada.post("/v1/invites", bad).await.refused(422);
    }
    // The same channel counts once.
    let form =
        json!({"role": "guest", "channel_ids": many, "guest_expires_at": "2120-01-01T00:00:00Z"});
    let invite = t.ada.post("/v1/invites", form).await.is(201);
    assert_eq!(invite["channel_ids"], json!([w.plans]));
    let hana = sign_up(&t.app.base, "Hana", Some(&text(&invite, "/token"))).await;
    assert_eq!(
        ids(&hana.every("/v1/channels").await, "/id"),
        [w.plans.as_str()]
    );
    let member = t.ada.get(&format!("/v1/members/{}", hana.id)).await.ok();
    assert!(text(&member, "/expires_at").starts_with("2120-01-01"));
}

#[tokio::test]
async fn an_invite_names_the_end_of_a_guest_as_a_member_does() {
    let w = world().await;
    let end = "2099-01-01T00:00:00.000Z";
    for name in ["guest_expires_at", "expires_at"] {
        let mut form = json!({"role": "guest", "channel_ids": [w.plans]});
        form[name] = end.into();
        let invite = w.t.ada.post("/v1/invites", form).await.is(201);
        assert_eq!(invite["guest_expires_at"], end);
        assert_ne!(invite["expires_at"], end);
    }
    let member = json!({"expires_at": end});
    w.t.ada.post("/v1/invites", member).await.refused(422);
}

#[tokio::test]
async fn an_admin_sees_no_hidden_channel_in_the_invites_of_others() {
    let w = world().await;
    let cy = w.t.app.join(&w.t.ada, "Cy", "admin").await;
    let hidden = w.t.ada.private_channel("hidden", &[]).await;
    let form = json!({"role": "guest", "channel_ids": [w.plans, hidden]});
    let invite = w.t.ada.post("/v1/invites", form).await.is(201);
    let shown = async |by: &Person| {
        let invites = by.every("/v1/invites").await;
        let same = |known: &&Value| known["id"] == invite["id"];
        let found = invites.iter().find(same).unwrap();
        list(found, "/channel_ids").len()
    };
    assert_eq!((shown(&w.t.ada).await, shown(&cy).await), (2, 1));
}

#[tokio::test]
async fn a_guest_whose_time_has_ended_is_refused_and_then_suspended() {
    let w = world().await;
    let end = async |c: &mut Conn| {
        c.q("update guests set expires_at = $1")
            .bind(Timestamp::EPOCH)
            .run()
            .await
    };
    w.t.app.db().write(Uuid::nil(), end).await.unwrap();
    w.gus.get("/v1/snapshot").await.refused(404);
    w.gus
        .get(&format!("/v1/channels/{}", w.plans))
        .await
        .refused(404);
    suspend_ended(w.t.app.db()).await.unwrap();
    let member = w.t.ada.get(&format!("/v1/members/{}", w.gus.id)).await.ok();
    assert_eq!(member["status"], "suspended");
    let log = w.t.ada.get("/v1/audit-log?action=guest.ended").await.ok();
    assert_eq!(list(&log, "/data").len(), 1);
}

#[tokio::test]
async fn the_inviter_gets_a_notice_before_a_guest_leaves() {
    let w = world().await;
    let (t, gus) = (&w.t, &w.gus);
    let soon = async |c: &mut Conn| {
        c.q("update guests set expires_at = $1")
            .bind(now() + Duration::from_hours(48))
            .run()
            .await
    };
    t.app.db().write(Uuid::nil(), soon).await.unwrap();
    let notices = async |who: &Person| {
        let open = list(&who.get("/v1/inbox").await.ok(), "/data");
        let about = |item: &&Value| item["subject_id"] == gus.id.as_str();
        open.iter().filter(about).count()
    };
    for _ in 0..2 {
        announce_ends(t.app.db()).await.unwrap();
        assert_eq!((notices(&t.ada).await, notices(&t.bo).await), (1, 0));
    }
    let path = format!("/v1/members/{}", gus.id);
    let longer = json!({"channel_ids": [w.plans], "expires_at": "2120-01-01T00:00:00Z"});
    t.ada.patch(&path, longer).await.is(200);
    assert_eq!(notices(&t.ada).await, 0);
}
