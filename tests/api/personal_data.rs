//! One person's data in a workspace: exported completely, or erased everywhere.

use serde_json::{Value, json};

use crate::availability::copy_message;
use crate::support::{
    Answer, ModelServer, Person, Socket, Team, TestDatabase, TestProcess, id, list, number,
    sign_up, sign_up_with_workspace, team, team_with, text, unknown_id, within,
};

/// A name and words that do not occur anywhere else.
const NAME: &str = "Quillon Zephyrine";
const TRACES: [&str; 4] = ["Quillon", "quillon", "zephyrine", "FLAMINGO"];

/// A member who has left all kinds of traces.
struct Traced {
    t: Team,
    quill: Person,
    thread: String,
    /// Ada's message in that thread.
    said_by_ada: String,
    task: String,
    agent: Value,
    item: String,
    messages: i64,
}

async fn traced() -> Traced {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let quill = t.app.join(&t.ada, NAME, "member").await;
    let started = quill.start(&t.general, "FLAMINGO begins").await;
    let thread = text(&started, "/thread/id");
    let title = json!({"title": "FLAMINGO plans"});
    quill
        .patch(&format!("/v1/threads/{thread}"), title)
        .await
        .is(200);
    let task = quill.ask(&thread, "@vibe what of FLAMINGO").await;
    quill.completed(&task).await;
    let later = t.ada.ask(&thread, "@vibe and now").await;
    t.ada.completed(&later).await;
    let said_by_ada = t.ada.tell(&thread, "Words of Ada").await;
    let thumb = format!("/v1/messages/{said_by_ada}/reactions/%F0%9F%91%8D");
    quill.put(&thumb, json!({})).await.is(200);
    t.ada.put(&thumb, json!({})).await.is(200);

    let root = text(&started, "/message/id");
    let dive =
        json!({"agent_id": null, "title": "FLAMINGO dive", "description": "FLAMINGO described"});
    let fork = id(&quill.start_fork(&thread, &root, dive).await);
    quill.tell_in(&fork, "FLAMINGO in the deep").await;
    t.ada.tell_in(&fork, "Ada in the deep").await;
    quill.begin_draft(&fork, json!({"headline": "Kept"})).await;
    let result = json!({"headline": "Kept", "conclusion": "Kept too", "action_items": [
        {"text": "Bring a cake", "owner_id": quill.id}]});
    let published = t.ada.publish_as(&fork, result).await;
    let item = text(&published, "/resolution/action_items/0/id");

    let file = quill.upload("FLAMINGO.txt", b"FLAMINGO in a file").await;
    let with_file = json!({"content": "See FLAMINGO", "attachments": [id(&file)]});
    quill
        .post(&format!("/v1/threads/{thread}/messages"), with_file)
        .await
        .is(201);
    quill
        .upload("loose-FLAMINGO.txt", b"another FLAMINGO")
        .await;
    let (robot, _) = quill.make_key(&["chat:read", "agents:use"]).await;
    let kept = json!({"input": "FLAMINGO over the API", "store": true});
    robot.post("/v1/responses", kept).await.is(200);
    let direct = quill
        .post("/v1/direct", json!({"member_ids": [t.ada.id]}))
        .await;
    quill.start(&id(&direct.ok()), "FLAMINGO in private").await;
    let agent = t.ada.make_agent("sage").await;
    let lists = json!({"access_control": {"allowed_subjects": [quill.id]}});
    let path = format!("/v1/agents/{}", id(&agent));
    t.ada.patch(&path, lists).await.is(200);
    let invite = json!({"email": quill.email});
    t.ada.post("/v1/invites", invite).await.is(201);
    let member = format!("/v1/members/{}", quill.id);
    t.ada
        .patch(&member, json!({"handle": "quillon"}))
        .await
        .is(200);
    let seq = t.ada.message(&said_by_ada).await["seq"].clone();
    quill
        .put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
        .await
        .is(200);
    let saved = format!("/v1/messages/{said_by_ada}/saved");
    quill.put(&saved, json!({})).await.is(200);
    Traced {
        t,
        quill,
        thread,
        said_by_ada,
        task,
        agent,
        item,
        messages: 5,
    }
}

async fn erase(admin: &Person, who: &Person, handle: &str) -> crate::support::Reply {
    let path = format!("/v1/members/{}/erase", who.id);
    admin.post(&path, json!({"handle": handle})).await
}

#[tokio::test]
async fn an_erased_user_is_removed_everywhere() {
    let w = traced().await;
    let place = &w.t.app.place;
    for trace in TRACES {
        assert!(!place.places_of(trace).await.is_empty(), "{trace} exists");
    }
    // Some events of the agent are restricted to the user.
    let named = "select count(*) from event_recipients r join users u on u.id = r.user_id where u.email = 'EMAIL'"
        .replace("EMAIL", &w.quill.email);
    assert!(place.numbers(&[named]).await[0] > 0);
    let done = w.t.ada.erase_as(&w.quill, "quillon").await;
    let expected = json!({
        "state": "done", "done": w.messages, "total": w.messages, "files": 2, "account_deleted": true,
    });
    assert_eq!(done, expected);
    for trace in TRACES {
        assert_eq!(
            place.places_of(trace).await,
            Vec::<String>::new(),
            "{trace}"
        );
    }
    // The account is deleted, so no event may still list it as a recipient.
    let gone = "select count(*) from event_recipients where user_id not in (select id from users)";
    assert_eq!(place.numbers(&[gone.to_owned()]).await, [0]);
    let own = w.t.ada.get("/v1/search?q=FLAMINGO").await.ok();
    assert!(list(&own, "/data").is_empty(), "{own}");
}

#[tokio::test]
async fn an_erased_user_appears_as_a_deleted_account() {
    let w = traced().await;
    let (ada, thread) = (&w.t.ada, &w.thread);
    ada.erase_as(&w.quill, "quillon").await;
    let messages = ada.messages(thread).await;
    let tombstones: Vec<&Value> = messages
        .iter()
        .filter(|message| message["deleted_at"].is_string())
        .collect();
    assert_eq!(tombstones.len(), 3);
    for tombstone in tombstones {
        assert_eq!(tombstone["author"]["name"], "Deleted account");
        assert_ne!(tombstone["author"]["id"], w.quill.id.as_str());
        assert_eq!(
            (&tombstone["content"], &tombstone["attachments"]),
            (&json!(""), &json!([]))
        );
    }
    let kept = ada.message(&w.said_by_ada).await;
    assert_eq!(kept["content"], "Words of Ada");
    assert_eq!(
        kept["reactions"],
        json!([{"emoji": "👍", "user_ids": [ada.id], "agent_ids": []}])
    );
    let seen = ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert!(seen["title"].is_null());
    let names: Vec<String> = list(&seen, "/participants")
        .iter()
        .map(|participant| text(participant, "/name"))
        .collect();
    assert_eq!(names, ["Vibe", "Ada"]);
    let items = ada.get("/v1/action-items").await.ok();
    let item = &list(&items, "/data")[0];
    assert_eq!(item["id"], w.item.as_str());
    assert_eq!(
        (&item["owner_id"], &item["owner_name"]),
        (&Value::Null, &json!("Deleted account"))
    );
    let card = messages.iter().find(|m| m["kind"] == "resolution").unwrap();
    assert!(
        text(card, "/content").contains("Bring a cake (Deleted account)"),
        "{card}"
    );
    let task = ada.task(&w.task).await;
    assert_eq!(task["input"]["prompt"], "");
    assert_ne!(task["requested_by"], w.quill.id.as_str());
    let used = ada.get("/v1/usage").await.ok();
    let names: Vec<String> = list(&used, "/data")
        .iter()
        .map(|row| text(row, "/name"))
        .collect();
    assert!(names.contains(&"Deleted account".to_owned()), "{names:?}");
    assert_eq!(
        w.t.bo
            .get(&format!("/v1/agents/{}", id(&w.agent)))
            .await
            .status,
        404,
        "a list of one subject is not an empty list"
    );
    let members = ada.get("/v1/members").await.ok().to_string();
    assert!(!members.contains(&w.quill.id));
}

#[tokio::test]
async fn an_erased_user_is_signed_out_at_once_and_the_audit_entry_has_no_name() {
    let w = traced().await;
    let mut own = w.quill.socket().await;
    let mut others = w.t.bo.socket().await;
    w.t.ada.erase_as(&w.quill, "quillon").await;
    assert_eq!(own.closed().await, 4003);
    w.quill.get("/v1/auth/me").await.refused(401);
    let told = others.of("member.removed").await;
    assert_eq!(told["data"]["member"]["user_id"], w.quill.id.as_str());
    assert_eq!(told["data"]["member"]["name"], "Deleted account");
    others.of("message.deleted").await;
    let log = w.t.ada.get("/v1/audit-log?limit=100").await.ok();
    let entry = list(&log, "/data")
        .into_iter()
        .find(|entry| entry["action"] == "member.erased")
        .expect("a record");
    assert_eq!(entry["actor_id"], w.t.ada.id.as_str());
    assert_eq!(
        entry["data"],
        json!({"messages": w.messages, "files": 2, "account_deleted": true})
    );
    assert!(!log.to_string().contains(&w.quill.id));
    // The events of other people still have no gaps.
    let mut socket = Socket::open(&w.t.bo, json!({"since": 0})).await;
    socket.of("message.deleted").await;
    let form = json!({"email": w.quill.email, "password": "correct horse", "name": "Somebody"});
    let signup = crate::support::visitor(&w.t.app.base)
        .post("/v1/auth/signup", form)
        .await;
    assert_eq!(
        signup.refused(403),
        "signup_closed",
        "the address is free again"
    );
}

#[tokio::test]
async fn an_account_in_another_workspace_is_kept_there() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let quill = t.app.join(&t.ada, NAME, "admin").await;
    let made = quill
        .post("/v1/workspaces", json!({"name": "Elsewhere"}))
        .await;
    let there = quill.in_workspace(&id(&made.is(201)));
    let here = quill.in_workspace(&t.ada.workspace);
    let thread = here.thread(&t.general, "Said here").await;
    let general = id(&there.channel("general").await);
    let kept = there.thread(&general, "Said there").await;
    t.app.join_as_guest(&here, "Gus", &["general"]).await;
    let done = t.ada.erase(&quill).await;
    assert_eq!(
        (&done["done"], &done["account_deleted"]),
        (&json!(1), &json!(false))
    );
    let invited = t.app.place.count("guests where invited_by is not null");
    assert_eq!(invited.await, 0);
    assert_eq!(
        t.ada.messages(&thread).await[0]["author"]["name"],
        "Deleted account"
    );
    assert_eq!(there.messages(&kept).await[0]["author"]["name"], NAME);
    there.get("/v1/auth/me").await.is(200);
    here.get("/v1/channels").await.refused(404);
    let again = t.ada.post("/v1/invites", json!({})).await.is(201);
    let accept = format!("/v1/invites/{}/accept", text(&again, "/token"));
    quill.act(&accept).await.is(200);
    assert_eq!(
        t.ada.messages(&thread).await[0]["author"]["name"],
        "Deleted account",
        "even after they return"
    );
}

#[tokio::test]
async fn only_admins_can_erase_and_must_confirm_the_user() {
    let t = team().await;
    let viewer = t.app.join(&t.ada, "Vi", "viewer").await;
    for who in [&t.bo, &viewer] {
        assert_eq!(erase(who, &t.bo, "bo").await.refused(403), "role_too_low");
    }
    for wrong in ["", "Bo", "ada", "bo "] {
        assert_eq!(
            erase(&t.ada, &t.bo, wrong).await.refused(422),
            "handle_mismatch"
        );
    }
    assert_eq!(
        erase(&t.ada, &t.ada, "ada").await.refused(409),
        "last_admin"
    );
    let path = format!("/v1/members/{}/erase", unknown_id("user"));
    let form = json!({"handle": "bo"});
    assert_eq!(
        t.ada.post(&path, form.clone()).await.refused(404),
        "member_not_found"
    );
    let path = format!("/v1/members/{}/erase", t.bo.id);
    t.ada.post(&path, json!({})).await.refused(400);
    t.ada
        .post(&path, json!({"handle": "bo", "sure": true}))
        .await
        .refused(400);
    t.bo.get("/v1/auth/me").await.is(200);
    t.ada.erase(&t.bo).await;
    t.ada.post(&path, form).await.refused(404);
}

#[tokio::test]
async fn an_erasure_begins_at_once_and_is_followed_to_its_end() {
    let t = team().await;
    t.bo.thread(&t.general, "Root").await;
    let path = format!("/v1/members/{}/erase", t.bo.id);
    assert_eq!(t.ada.get(&path).await.refused(404), "member_not_found");
    let form = json!({"handle": "bo"});
    let begun = t.ada.post(&path, form).await.is(202);
    assert!(begun["done"].is_number(), "{begun}");
    assert_ne!(t.bo.get("/v1/snapshot").await.status, 200);
    assert_eq!(t.ada.erasure_of(&t.bo).await["total"], 1);
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    assert_eq!(cy.get(&path).await.refused(403), "role_too_low");
    for (action, count) in [("member.erasure_started", 1), ("member.erased", 1)] {
        let log = t.ada.get(&format!("/v1/audit-log?action={action}")).await;
        assert_eq!(list(&log.ok(), "/data").len(), count, "{action}");
    }
}

#[tokio::test]
async fn two_concurrent_erasures_erase_a_user_once() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let cy = t.app.join(&t.ada, "Cy", "admin").await;
    let thread = t.bo.thread(&t.general, "Root").await;
    for n in 0..60 {
        t.bo.tell(&thread, &format!("Number {n}")).await;
    }
    let both = [&t.ada, &cy].map(|admin| erase(admin, &t.bo, "bo"));
    let replies = futures::future::join_all(both).await;
    for reply in replies {
        // The second request does not find the user if the first one has already erased it.
        if reply.status != 404 {
            reply.is(202);
        }
    }
    let expected =
        json!({"state": "done", "done": 61, "total": 61, "files": 0, "account_deleted": true});
    assert_eq!(t.ada.erasure_of(&t.bo).await, expected);
    let log = t.ada.get("/v1/audit-log?action=member.erased").await.ok();
    assert_eq!(list(&log, "/data").len(), 1);
}

#[tokio::test]
async fn an_erasure_interrupted_by_a_crash_is_completed_at_startup() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("RATE_LIMITS", "off")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let invite = ada.post("/v1/invites", json!({})).await.is(201);
    let quill = sign_up(&server.base, NAME, Some(&text(&invite, "/token"))).await;
    let general = id(&ada.channel("general").await);
    let thread = quill.thread(&general, "FLAMINGO").await;
    for n in 0..70 {
        quill.tell(&thread, &format!("FLAMINGO {n}")).await;
    }
    server.kill().await;
    let armed = [settings[0], ("FAILPOINT", "erasing:2")];
    let server = TestProcess::start(&place, &model, &armed).await;
    let ada = ada.at(&server.base);
    let path = format!("/v1/members/{}/erase", quill.id);
    let form = json!({"handle": quill.handle});
    // The server crashes before or after it responds.
    ada.try_post(&path, form).await;
    server.exited().await;
    assert!(!place.places_of("FLAMINGO").await.is_empty());
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = ada.at(&server.base);
    let entry = within("the erasure to be finished", async {
        loop {
            let log = ada.get("/v1/audit-log?action=member.erased").await.ok();
            if let Some(entry) = list(&log, "/data").pop() {
                return entry;
            }
        }
    });
    let expected = json!({"messages": 71, "files": 0, "account_deleted": true});
    assert_eq!(entry.await["data"], expected);
    ada.messages(&thread)
        .await
        .iter()
        .for_each(|message| assert_eq!(message["content"], ""));
    within("the write-ahead log to be emptied", async {
        for trace in TRACES {
            while !place.places_of(trace).await.is_empty() {
                crate::support::pause().await;
            }
        }
    })
    .await;
}

async fn export(who: &Person, of: &Person) -> Value {
    let reply = who.get(&format!("/v1/members/{}/export", of.id)).await;
    assert_eq!(reply.header("content-type").unwrap(), "application/json");
    let disposition = reply.header("content-disposition").unwrap();
    assert!(
        disposition.starts_with("attachment; filename=\"openvibe-"),
        "{disposition}"
    );
    reply.is(200)
}

#[tokio::test]
async fn an_export_contains_all_of_a_users_data_and_no_secrets() {
    let w = traced().await;
    let all = export(&w.quill, &w.quill).await;
    assert_eq!(all["object"], "export");
    assert_eq!(all["profile"]["email"], w.quill.email.as_str());
    assert_eq!(all["membership"]["handle"], "quillon");
    assert_eq!(all["membership"]["workspace"]["name"], "Ada Works");
    let said: Vec<String> = list(&all, "/messages")
        .iter()
        .map(|message| text(message, "/content"))
        .collect();
    assert_eq!(said.len(), 5);
    assert!(
        said.iter().all(|content| content.contains("FLAMINGO")),
        "{said:?}"
    );
    assert_eq!(
        all["reactions"],
        json!([{"message_id": w.said_by_ada, "channel_id": w.t.general, "emoji": ["👍"]}])
    );
    let saved = list(&all, "/inbox").into_iter();
    let saved: Vec<Value> = saved.filter(|item| item["reason"] == "saved").collect();
    assert_eq!(saved.len(), 1, "{saved:?}");
    assert_eq!(saved[0]["message_id"], w.said_by_ada.as_str());
    assert_eq!(list(&all, "/files").len(), 2);
    assert_eq!(list(&all, "/channels").len(), 3);
    assert_eq!(list(&all, "/sessions").len(), 1);
    assert_eq!(all["api_keys"][0]["name"], "robot");
    assert_eq!(all["action_items"][0]["text"], "Bring a cake");
    assert_eq!(list(&all, "/tasks").len(), 2, "the mention and the call");
    assert!(
        all["responses"]
            .to_string()
            .contains("FLAMINGO over the API")
    );
    assert_eq!(all["audit_log"][0]["action"], "key.created");
    let whole = all.to_string();
    for secret in [
        "token_hash",
        "password",
        "ov_",
        "Words of Ada",
        "Ada in the deep",
    ] {
        assert!(!whole.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn an_export_can_have_several_pages() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let thread = t.bo.thread(&t.general, "Number 0").await;
    for n in 1..=450 {
        let who = if n % 3 == 0 { &t.ada } else { &t.bo };
        who.tell(&thread, &format!("Number {n}")).await;
    }
    let all = export(&t.bo, &t.bo).await;
    let said: Vec<i64> = list(&all, "/messages")
        .iter()
        .map(|message| text(message, "/content")[7..].parse().unwrap())
        .collect();
    let expected: Vec<i64> = (0..=450).filter(|n| *n == 0 || n % 3 != 0).collect();
    assert_eq!(said, expected);
}

#[tokio::test]
async fn users_can_export_their_own_data_and_admins_are_audited() {
    let t = team().await;
    let path = format!("/v1/members/{}/export", t.ada.id);
    assert_eq!(t.bo.get(&path).await.refused(403), "role_too_low");
    let viewer = t.app.join(&t.ada, "Vi", "viewer").await;
    assert_eq!(
        export(&viewer, &viewer).await["membership"]["role"],
        "viewer"
    );
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let own = format!("/v1/members/{}/export", t.bo.id);
    robot.get(&own).await.refused(403);
    export(&t.ada, &t.bo).await;
    let log = t.ada.get("/v1/audit-log?action=member.exported").await.ok();
    let entries = list(&log, "/data");
    assert_eq!(entries.len(), 1, "exporting one's own data is not audited");
    assert_eq!(entries[0]["target"], t.bo.id.as_str());
    let nobody = format!("/v1/members/{}/export", unknown_id("user"));
    t.ada.get(&nobody).await.refused(404);
}

#[tokio::test]
async fn erasing_the_requester_ends_an_unfinished_reply() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::pieces_open(&["Half "]).silence()]);
    let started = t.bo.start(&t.general, "@vibe tell me").await;
    let task = text(&started, "/tasks/0/id");
    let mut socket = t.ada.socket().await;
    socket.subscribe(&text(&started, "/thread/id")).await;
    socket.of("task.delta").await;
    let done = t.ada.erase(&t.bo).await;
    assert_eq!(number(&done, "/done"), 1);
    assert_eq!(t.ada.task(&task).await["status"], "cancelled");
}

#[tokio::test]
async fn an_export_reaches_over_long_stretches_of_other_peoples_messages() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "First").await;
    let far = "update workspaces set seq = seq + 40000";
    t.app.place.run(&[far]).await;
    let last = t.bo.tell(&thread, "Last").await;
    let thumb = format!("/v1/messages/{last}/reactions/%F0%9F%91%8D");
    t.bo.put(&thumb, json!({})).await.is(200);
    let path = format!("/v1/members/{}/export", t.bo.id);
    let export = t.ada.get(&path).await.ok();
    let contents: Vec<String> = list(&export, "/messages")
        .iter()
        .map(|message| text(message, "/content"))
        .collect();
    assert_eq!(contents, ["First", "Last"]);
    assert_eq!(export["reactions"][0]["message_id"], last.as_str());
}

#[tokio::test]
async fn an_erasure_reaches_over_long_stretches_of_other_peoples_messages() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "First").await;
    let copied = t.ada.start(&t.general, "Copied").await;
    copy_message(&t.app.place, 2500).await;
    let last = t.bo.tell(&thread, "Last").await;
    let of_ada = text(&copied, "/message/id");
    for message in [&last, &of_ada] {
        let thumb = format!("/v1/messages/{message}/reactions/%F0%9F%91%8D");
        t.bo.put(&thumb, json!({})).await.is(200);
    }
    let done = t.ada.erase(&t.bo).await;
    assert_eq!(number(&done, "/done"), 2);
    for message in t.ada.messages(&thread).await {
        assert_eq!(message["content"], "");
        assert_ne!(message["author"]["id"], t.bo.id.as_str());
    }
    assert_eq!(t.ada.message(&of_ada).await["reactions"], json!([]));
}
