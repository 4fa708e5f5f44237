//! The inbox: items, their states, and who can see them.

use openvibe::db::{Conn, DbError};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Person, Socket, Team, id, list, number, team, text, unknown_id};

mod catch_up;
mod generated;
mod kills;
mod levels;
mod lists;
mod weeks;
mod work;

/// A list of the inbox as `reason state text`, newest first.
async fn inbox(person: &Person, query: &str) -> Vec<String> {
    let page = person.get(&format!("/v1/inbox{query}")).await.ok();
    list(&page, "/data")
        .iter()
        .map(|item| {
            format!(
                "{} {} {}",
                text(item, "/reason"),
                text(item, "/state"),
                text(item, "/text")
            )
        })
        .collect()
}

async fn open_items(person: &Person) -> Vec<Value> {
    list(&person.get("/v1/inbox").await.ok(), "/data")
}

/// The only open item.
async fn only_item(person: &Person) -> Value {
    let mut items = open_items(person).await;
    assert_eq!(items.len(), 1, "{items:?}");
    items.remove(0)
}

async fn set_state(person: &Person, ids: &[&str], state: &str) -> Value {
    let form = json!({"ids": ids, "state": state});
    person.put("/v1/inbox/state", form).await.is(200)
}

async fn read(person: &Person, thread: &str) {
    let newest = person.messages(thread).await.pop().unwrap();
    let form = json!({"seq": newest["seq"]});
    person
        .put(&format!("/v1/threads/{thread}/read"), form)
        .await
        .is(200);
}

/// A time this many seconds from now.
fn in_seconds(seconds: i64) -> String {
    let at = chrono::Utc::now() + chrono::TimeDelta::seconds(seconds);
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

#[tokio::test]
async fn a_mention_makes_an_item_that_stays_open_until_it_is_done() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let thread = t.ada.thread(&t.general, "Offline sync").await;
    let said = t.ada.say(&thread, "@bo can you check this?").await;
    let created = socket.of("inbox.created").await;
    assert_eq!(created["seq"], said["message"]["seq"]);
    let item = only_item(&t.bo).await;
    assert_eq!(item["reason"], "mention");
    assert_eq!(item["object"], "inbox_item");
    assert_eq!(item["title"], "Offline sync");
    assert_eq!(item["text"], "@bo can you check this?");
    assert_eq!(item["from"]["name"], "Ada");
    assert_eq!(item["message_id"], said["message"]["id"]);
    assert_eq!(item["subject_id"], said["message"]["id"]);
    assert_eq!(item["thread_id"], thread.as_str());
    assert_eq!(
        json!([
            item["is_question"],
            item["unread"],
            item["count"],
            item["notifies"],
            item["fork_id"]
        ]),
        json!([true, true, 1, true, null])
    );
    assert_eq!(
        json!([item["level"], item["cause"]]),
        json!(["all", "mentioned"])
    );
    read(&t.bo, &thread).await;
    assert_eq!(only_item(&t.bo).await["unread"], false);
    let done = set_state(&t.bo, &[&id(&item)], "done").await;
    assert_eq!(done["data"][0]["state"], "done");
    assert!(open_items(&t.bo).await.is_empty());
    assert_eq!(
        inbox(&t.bo, "?state=done").await,
        ["mention done @bo can you check this?"]
    );
    assert!(open_items(&t.ada).await.is_empty(), "the author has none");
}

#[tokio::test]
async fn a_mention_that_an_edit_removes_is_announced_as_done() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let said = t.ada.say(&thread, "@bo can you check this?").await;
    let item = id(&only_item(&t.bo).await);
    let mut socket = t.bo.socket().await;
    let message = format!("/v1/messages/{}", text(&said, "/message/id"));
    let edited = json!({"content": "I checked this."});
    t.ada.patch(&message, edited).await.is(200);
    let updated = socket.of("inbox.updated").await;
    let done = json!([{"id": item, "state": "done", "until": null}]);
    assert_eq!(updated["data"]["items"], done);
    assert_eq!(inbox(&t.bo, "").await, ["reply open I checked this."]);
}

#[tokio::test]
async fn a_message_makes_one_item_for_each_person_by_the_first_reason() {
    let t = team().await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    t.bo.say(&thread, "Here").await;
    t.ada.say(&thread, "@bo @everyone Friday").await;
    assert_eq!(
        inbox(&t.bo, "").await,
        ["mention open @bo @everyone Friday"]
    );
    assert_eq!(inbox(&cem, "").await, ["group open @bo @everyone Friday"]);
    // Bo's answer is for Ada, who follows the thread; the mention of everyone was her own.
    assert_eq!(inbox(&t.ada, "").await, ["reply open Here"]);
}

#[tokio::test]
async fn a_reply_that_another_item_replaces_is_not_listed_as_done() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "@bo one").await;
    t.ada.say(&thread, "two").await;
    assert_eq!(inbox(&t.bo, "").await, ["mention open @bo one"]);
    assert_eq!(inbox(&t.bo, "?state=done").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_direct_message_makes_an_item_that_closes_when_it_is_read() {
    let t = team().await;
    let form = json!({"member_ids": [t.bo.id]});
    let direct = id(&t.ada.post("/v1/direct", form).await.ok());
    let thread = t.ada.thread(&direct, "Lunch?").await;
    t.ada.say(&thread, "Or later, @bo?").await;
    assert_eq!(
        inbox(&t.bo, "").await,
        ["mention open Or later, @bo?", "direct open Lunch?"]
    );
    let mut socket = t.bo.socket().await;
    read(&t.bo, &thread).await;
    let updated = socket.of("inbox.updated").await;
    assert_eq!(updated["data"]["items"][0]["state"], "done");
    assert_eq!(inbox(&t.bo, "").await, ["mention open Or later, @bo?"]);
    assert_eq!(inbox(&t.ada, "").await, Vec::<String>::new());
}

#[tokio::test]
async fn reading_a_whole_channel_closes_items_that_close_when_read() {
    let t = team().await;
    let form = json!({"member_ids": [t.bo.id]});
    let direct = id(&t.ada.post("/v1/direct", form).await.ok());
    t.ada.thread(&direct, "One").await;
    t.ada.thread(&direct, "Two").await;
    assert_eq!(open_items(&t.bo).await.len(), 2);
    t.bo.act(&format!("/v1/channels/{direct}/read")).await.ok();
    assert!(open_items(&t.bo).await.is_empty());
}

#[tokio::test]
async fn a_mention_of_everyone_is_one_row_whatever_the_size_of_the_channel() {
    let t = team().await;
    let others = ["Cem", "Dora", "Eli", "Fay"];
    let mut people = Vec::new();
    for name in others {
        people.push(t.app.join(&t.ada, name, "member").await);
    }
    let thread = t.ada.thread(&t.general, "@channel Friday").await;
    assert_eq!(t.app.place.count("inbox_items").await, 1);
    for person in people.iter().chain([&t.bo]) {
        assert_eq!(inbox(person, "").await, ["group open @channel Friday"]);
    }
    // One of them is done, another one reads it; the others still have it.
    let item = only_item(&people[0]).await;
    set_state(&people[0], &[&id(&item)], "done").await;
    read(&people[1], &thread).await;
    assert!(open_items(&people[0]).await.is_empty());
    assert_eq!(
        inbox(&people[0], "?state=done").await,
        ["group done @channel Friday"]
    );
    assert!(open_items(&people[1]).await.is_empty());
    assert_eq!(open_items(&people[2]).await.len(), 1);
    // The copy has the same ID, so the change can be undone.
    set_state(&people[0], &[&id(&item)], "open").await;
    assert_eq!(id(&only_item(&people[0]).await), id(&item));
    let late = t.app.join(&t.ada, "Gus", "member").await;
    assert!(open_items(&late).await.is_empty(), "joined later");
}

#[tokio::test]
async fn a_mention_of_everyone_without_a_notification_makes_no_item() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": "@channel Friday", "notify": false});
    let posted = t.ada.post(&path, form).await.is(201);
    assert_eq!(posted["message"]["mentions"][0]["type"], "group");
    assert!(open_items(&t.bo).await.is_empty());
    let form = json!({"content": "@channel @bo Friday", "notify": false});
    t.ada.post(&path, form).await.is(201);
    assert_eq!(inbox(&t.bo, "").await, ["mention open @channel @bo Friday"]);
    let form = json!({"content": "@here quietly", "notify": false});
    let threads = format!("/v1/channels/{}/threads", t.general);
    t.ada.post(&threads, form).await.is(201);
    assert_eq!(open_items(&t.bo).await.len(), 1);
}

#[tokio::test]
async fn a_policy_reserves_mentions_of_large_channels_for_admins() {
    let t = team().await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let form = json!({"group_mentions": "admins"});
    let stored = t.ada.patch(&policy, form).await.is(200);
    assert_eq!(stored["group_mentions"], "admins");
    t.bo.thread(&t.general, "@channel while it is small").await;
    assert_eq!(open_items(&t.ada).await.len(), 1);
    // A large channel.
    let columns = "insert into users (id, email, name, password_hash, created_at, name_skeleton, name_folded)";
    let people = if crate::support::is_shared_engine() {
        "select gen_random_uuid(), 'p' || n || '@large.example', 'P', '', u.created_at, '', '' \
         from generate_series(1, 100) n, (select created_at from users limit 1) u"
    } else {
        "with recursive n (n) as (select 1 union all select n + 1 from n where n < 100) \
         select randomblob(16), 'p' || n || '@large.example', 'P', '', u.created_at, '', '' from n, (select created_at from users limit 1) u"
    };
    let members = "insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) \
         select c.id, u.id, 0, 0, u.created_at from channels c, users u where c.name = 'general' and u.password_hash = ''";
    t.app
        .place
        .run(&[&format!("{columns} {people}"), members])
        .await;
    let plain = t.bo.start(&t.general, "@channel while it is large").await;
    assert_eq!(plain["message"]["mentions"], json!([]));
    assert_eq!(open_items(&t.ada).await.len(), 1);
    t.ada.thread(&t.general, "@channel by an admin").await;
    assert_eq!(inbox(&t.bo, "").await, ["group open @channel by an admin"]);
}

#[tokio::test]
async fn a_follower_has_one_item_for_the_unread_messages_of_a_conversation() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    assert!(open_items(&t.ada).await.is_empty());
    t.bo.say(&thread, "Friday").await;
    t.bo.say(&thread, "Or Monday").await;
    let item = only_item(&t.ada).await;
    assert_eq!(
        json!([
            item["reason"],
            item["count"],
            item["text"],
            item["subject_id"],
            item["notifies"]
        ]),
        json!(["reply", 2, "Or Monday", thread, false])
    );
    assert_eq!(t.app.place.count("inbox_items").await, 0);
    // Done is not read, and later messages open it again.
    set_state(&t.ada, &[&id(&item)], "done").await;
    assert!(open_items(&t.ada).await.is_empty());
    let seen = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(number(&seen, "/unread_count"), 2);
    t.bo.say(&thread, "Monday then").await;
    let again = only_item(&t.ada).await;
    assert_eq!(json!([again["id"], again["count"]]), json!([item["id"], 1]));
    read(&t.ada, &thread).await;
    assert!(open_items(&t.ada).await.is_empty());
}

#[tokio::test]
async fn a_reply_that_was_marked_as_done_is_listed_until_the_next_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    t.bo.say(&thread, "Friday").await;
    let reply = id(&only_item(&t.ada).await);
    assert_eq!(inbox(&t.ada, "?state=done").await, Vec::<String>::new());
    set_state(&t.ada, &[&reply], "done").await;
    assert_eq!(inbox(&t.ada, "?state=done").await, ["reply done Friday"]);
    set_state(&t.ada, &[&reply], "open").await;
    assert_eq!(inbox(&t.ada, "").await, ["reply open Friday"]);
    set_state(&t.ada, &[&reply], "done").await;
    t.bo.say(&thread, "Or Monday").await;
    assert_eq!(inbox(&t.ada, "").await, ["reply open Or Monday"]);
    read(&t.ada, &thread).await;
    assert_eq!(inbox(&t.ada, "?state=done").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_reply_is_left_out_while_another_item_of_its_conversation_is_open() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    t.bo.say(&thread, "Friday").await;
    t.bo.say(&thread, "@ada ok?").await;
    t.bo.say(&thread, "Or Monday").await;
    let mention = only_item(&t.ada).await;
    assert_eq!(mention["reason"], "mention");
    set_state(&t.ada, &[&id(&mention)], "done").await;
    // Only the message after the mention is left.
    let item = only_item(&t.ada).await;
    assert_eq!(
        json!([item["reason"], item["count"], item["text"]]),
        json!(["reply", 1, "Or Monday"])
    );
}

#[tokio::test]
async fn changes_of_state_can_be_repeated_and_undone() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    t.ada.say(&thread, "@bo one").await;
    t.ada.say(&thread, "@bo two").await;
    let ids: Vec<String> = open_items(&t.bo).await.iter().map(id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let unknown = unknown_id("inbox");
    let first = set_state(&t.bo, &[ids[0], ids[1], &unknown], "done").await;
    assert_eq!(first["missing"], json!([unknown]));
    let before = t.bo.events().await.len();
    let second = set_state(&t.bo, &[ids[0], ids[1], &unknown], "done").await;
    assert_eq!(second, first);
    assert_eq!(
        t.bo.events().await.len(),
        before,
        "a repetition is no event"
    );
    let undone = set_state(&t.bo, &ids, "open").await;
    assert_eq!(list(&undone, "/data").len(), 2);
    assert_eq!(open_items(&t.bo).await.len(), 2);
}

#[tokio::test]
async fn a_change_of_state_is_for_1_to_200_items() {
    let t = team().await;
    let change = |count| json!({"ids": vec![unknown_id("inbox"); count], "state": "done"});
    for count in [0, 201] {
        let refused = t.bo.put("/v1/inbox/state", change(count)).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    t.bo.put("/v1/inbox/state", change(200)).await.is(200);
}

#[tokio::test]
async fn an_item_can_be_postponed_for_a_minute_to_a_year() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "@bo look").await;
    let item = id(&only_item(&t.bo).await);
    let later = |until: Option<String>| json!({"ids": [item], "state": "later", "until": until});
    for until in [
        None,
        Some(in_seconds(10)),
        Some(in_seconds(400 * 24 * 3600)),
    ] {
        let refused = t.bo.put("/v1/inbox/state", later(until)).await;
        assert_eq!(refused.refused(422), "until_required");
    }
    let until = in_seconds(3600);
    let set =
        t.bo.put("/v1/inbox/state", later(Some(until.clone())))
            .await;
    assert_eq!(set.is(200)["data"][0]["until"], until);
    assert!(open_items(&t.bo).await.is_empty());
    assert_eq!(
        inbox(&t.bo, "?state=later").await,
        ["mention later @bo look"]
    );
    // A reply is postponed in the same way.
    t.bo.say(&thread, "Done").await;
    let reply = id(&only_item(&t.ada).await);
    let form = json!({"ids": [reply], "state": "later", "until": until});
    t.ada.put("/v1/inbox/state", form).await.is(200);
    assert!(open_items(&t.ada).await.is_empty());
    assert_eq!(inbox(&t.ada, "?state=later").await, ["reply later Done"]);
}

#[tokio::test]
async fn the_job_opens_items_that_are_due() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "@bo look").await;
    t.bo.say(&thread, "Done").await;
    let until = in_seconds(3600);
    for person in [&t.bo, &t.ada] {
        let item = id(&only_item(person).await);
        let form = json!({"ids": [item], "state": "later", "until": until});
        person.put("/v1/inbox/state", form).await.is(200);
    }
    openvibe::inbox::expire::open_due(t.app.db()).await.unwrap();
    assert!(open_items(&t.bo).await.is_empty(), "not due yet");
    let mut socket = t.bo.socket().await;
    let past = "2026-01-01T00:00:00.000000+00:00";
    t.app
        .place
        .run(&[
            &format!("update inbox_items set until = '{past}'"),
            &format!("update follows set until = '{past}' where until is not null"),
        ])
        .await;
    openvibe::inbox::expire::open_due(t.app.db()).await.unwrap();
    let updated = socket.of("inbox.updated").await;
    assert_eq!(updated["data"]["items"][0]["state"], "open");
    socket.of("inbox.created").await;
    assert_eq!(inbox(&t.bo, "").await, ["mention open @bo look"]);
    assert_eq!(inbox(&t.ada, "").await, ["reply open Done"]);
}

#[tokio::test]
async fn old_items_are_deleted() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "@bo one").await;
    t.ada.say(&thread, "@bo two").await;
    let items = open_items(&t.bo).await;
    set_state(&t.bo, &[&id(&items[0])], "done").await;
    openvibe::inbox::expire::delete_old(t.app.db())
        .await
        .unwrap();
    assert_eq!(t.app.place.count("inbox_items").await, 2);
    let age = |days: i64| {
        let at = in_seconds(-days * 24 * 3600).replace('Z', "000+00:00");
        format!("update inbox_items set changed_at = '{at}'")
    };
    t.app.place.run(&[&age(31)]).await;
    openvibe::inbox::expire::delete_old(t.app.db())
        .await
        .unwrap();
    assert_eq!(inbox(&t.bo, "").await, ["mention open @bo one"]);
    t.app.place.run(&[&age(366)]).await;
    openvibe::inbox::expire::delete_old(t.app.db())
        .await
        .unwrap();
    assert_eq!(t.app.place.count("inbox_items").await, 0);
}

#[tokio::test]
async fn a_saved_message_waits_without_a_time_and_can_get_a_reminder() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let message = t.ada.tell(&thread, "The plan").await;
    let path = format!("/v1/messages/{message}/saved");
    let saved = t.bo.put(&path, json!({})).await.is(200);
    assert_eq!(
        json!([
            saved["reason"],
            saved["state"],
            saved["until"],
            saved["text"]
        ]),
        json!(["saved", "later", null, "The plan"])
    );
    assert_eq!(
        t.bo.put(&path, json!({})).await.is(200),
        saved,
        "idempotent"
    );
    let until = in_seconds(7200);
    let reminder = t.bo.put(&path, json!({"until": until})).await.is(200);
    assert_eq!(
        json!([reminder["id"], reminder["until"]]),
        json!([saved["id"], until])
    );
    let wrong = t.bo.put(&path, json!({"until": in_seconds(1)})).await;
    assert_eq!(wrong.refused(422), "until_required");
    assert_eq!(inbox(&t.bo, "?state=later").await, ["saved later The plan"]);
    t.bo.delete(&path).await.is(204);
    t.bo.delete(&path).await.is(204);
    assert!(inbox(&t.bo, "?state=later").await.is_empty());
}

#[tokio::test]
async fn at_most_a_thousand_messages_are_saved() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let message = t.ada.tell(&thread, "The plan").await;
    let saved = format!("/v1/messages/{message}/saved");
    t.bo.put(&saved, json!({})).await.is(200);
    // Copies of the item, each for another message.
    let copy = async |c: &mut Conn| {
        for _ in 1..1000 {
            c.q("insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
                 conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) \
                 select $1, workspace_id, recipient_id, reason, subject_type, $1, actor_id, channel_id, thread_id, conversation_id, message_id, seq, \
                 changed_seq, state, until, is_quiet, created_at, changed_at from inbox_items where reason = 'saved' limit 1")
                .bind(Uuid::now_v7())
                .run()
                .await?;
        }
        Ok::<_, DbError>(())
    };
    t.app.db().write(Uuid::nil(), copy).await.unwrap();
    let another = t.ada.tell(&thread, "Another plan").await;
    let path = format!("/v1/messages/{another}/saved");
    let refused = t.bo.put(&path, json!({})).await;
    assert_eq!(refused.refused(409), "too_many_saved");
    // One that is saved can still get a reminder, and its place is free once it is not.
    let until = json!({"until": in_seconds(7200)});
    t.bo.put(&saved, until).await.is(200);
    t.bo.delete(&saved).await.is(204);
    t.bo.put(&path, json!({})).await.is(200);
}

#[tokio::test]
async fn pages_continue_after_a_cursor() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    for n in 1..=5 {
        t.ada.say(&thread, &format!("@bo {n}")).await;
    }
    let first = t.bo.get("/v1/inbox?limit=2").await.ok();
    assert_eq!(first["has_more"], true);
    assert_eq!(number(&first, "/open"), 5);
    let mut texts: Vec<String> = list(&first, "/data")
        .iter()
        .map(|i| text(i, "/text"))
        .collect();
    let mut cursor = text(&first, "/next_cursor");
    loop {
        let page =
            t.bo.get(&format!("/v1/inbox?limit=2&cursor={cursor}"))
                .await
                .ok();
        texts.extend(list(&page, "/data").iter().map(|i| text(i, "/text")));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(texts, ["@bo 5", "@bo 4", "@bo 3", "@bo 2", "@bo 1"]);
    let foreign = t.bo.get("/v1/inbox?cursor=dGhyZWFkczo0Mg").await;
    assert_eq!(foreign.refused(400), "invalid_cursor");
}

#[tokio::test]
async fn a_list_can_be_filtered_by_reason_and_channel() {
    let t = team().await;
    let other = id(&t
        .ada
        .post("/v1/channels", json!({"name": "ops"}))
        .await
        .is(201));
    t.bo.act(&format!("/v1/channels/{other}/join")).await.ok();
    t.ada.thread(&t.general, "@bo here").await;
    t.ada.thread(&other, "@everyone there").await;
    assert_eq!(
        inbox(&t.bo, "?reason=mention").await,
        ["mention open @bo here"]
    );
    assert_eq!(
        inbox(&t.bo, &format!("?channel_id={other}")).await,
        ["group open @everyone there"]
    );
    let hidden = t.ada.private_channel("board", &[]).await;
    let refused = t.bo.get(&format!("/v1/inbox?channel_id={hidden}")).await;
    assert_eq!(refused.refused(404), "channel_not_found");
}

#[tokio::test]
async fn changes_contain_everything_since_an_event() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let since = number(&t.bo.get("/v1/inbox").await.ok(), "/seq");
    t.ada.say(&thread, "@bo one").await;
    t.ada.say(&thread, "@everyone two").await;
    let changes = |since: i64| {
        let bo = t.bo.clone();
        async move {
            bo.get(&format!("/v1/inbox/changes?since={since}"))
                .await
                .ok()
        }
    };
    let first = changes(since).await;
    let reasons: Vec<String> = list(&first, "/data")
        .iter()
        .map(|i| text(i, "/reason"))
        .collect();
    assert_eq!(
        reasons.iter().filter(|r| *r != "reply").count(),
        2,
        "{first}"
    );
    assert_eq!(json!([first["open"], first["resync"]]), json!([2, false]));
    let mention = list(&first, "/data")
        .into_iter()
        .find(|item| item["reason"] == "mention")
        .unwrap();
    set_state(&t.bo, &[&id(&mention)], "done").await;
    let second = changes(number(&first, "/seq") + 1).await;
    let found = list(&second, "/data");
    let same = found
        .iter()
        .find(|item| item["id"] == mention["id"])
        .unwrap();
    assert_eq!(same["state"], "done");
    assert!(number(same, "/changed_seq") > number(&first, "/seq"));
    assert_eq!(changes(i64::MAX).await["resync"], true);
}

#[tokio::test]
async fn too_many_changes_ask_for_a_new_list() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "@bo first").await;
    let rows = "insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, \
         thread_id, conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) ";
    let (sqlite, postgres) = (
        "with recursive n (n) as (select 1 union all select n + 1 from n where n < 600) \
         select randomblob(16), workspace_id, recipient_id, reason, subject_type, randomblob(16), actor_id, channel_id, thread_id, \
         conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at from inbox_items, n",
        "select gen_random_uuid(), workspace_id, recipient_id, reason, subject_type, gen_random_uuid(), actor_id, channel_id, thread_id, \
         conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at from inbox_items, generate_series(1, 600)",
    );
    let select = if crate::support::is_shared_engine() {
        postgres
    } else {
        sqlite
    };
    t.app.place.run(&[&format!("{rows}{select}")]).await;
    let changes = t.bo.get("/v1/inbox/changes?since=0").await.ok();
    assert_eq!(changes["resync"], true);
    assert_eq!(list(&changes, "/data").len(), 500);
    assert_eq!(number(&changes, "/open"), 601);
    drop(thread);
}

#[tokio::test]
async fn leaving_a_channel_deletes_its_items() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let thread = t.ada.thread(&channel, "@bo look").await;
    let message = t.ada.tell(&thread, "@everyone too").await;
    t.bo.put(&format!("/v1/messages/{message}/saved"), json!({}))
        .await
        .is(200);
    let item = id(&open_items(&t.bo).await[0]);
    assert_eq!(open_items(&t.bo).await.len(), 2);
    t.bo.act(&format!("/v1/channels/{channel}/leave"))
        .await
        .ok();
    assert!(open_items(&t.bo).await.is_empty());
    assert!(inbox(&t.bo, "?state=later").await.is_empty());
    let missing = set_state(&t.bo, &[&item], "done").await;
    assert_eq!(missing["missing"], json!([item]));
    let again = json!({"user_id": t.bo.id});
    t.ada
        .post(&format!("/v1/channels/{channel}/members"), again)
        .await
        .is(201);
    assert!(open_items(&t.bo).await.is_empty(), "deleted, not hidden");
}

#[tokio::test]
async fn deleting_a_message_or_a_mention_deletes_its_item() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    let deleted = t.ada.tell(&thread, "@bo one").await;
    let edited = t.ada.tell(&thread, "@bo two").await;
    assert_eq!(open_items(&t.bo).await.len(), 2);
    t.ada.delete(&format!("/v1/messages/{deleted}")).await.ok();
    let path = format!("/v1/messages/{edited}");
    t.ada.patch(&path, json!({"content": "two"})).await.is(200);
    assert_eq!(t.app.place.count("inbox_items").await, 0);
    // A mention that an edit adds makes an item without a notification.
    t.ada
        .patch(&path, json!({"content": "two, @bo"}))
        .await
        .is(200);
    let items = open_items(&t.bo).await;
    assert_eq!(
        json!([items[0]["reason"], items[0]["notifies"]]),
        json!(["mention", false])
    );
    let group = json!({"content": "two, @here"});
    t.ada.patch(&path, group).await.is(200);
    assert_eq!(
        inbox(&t.bo, "?reason=group").await,
        ["group open two, @here"]
    );
    t.ada.patch(&path, json!({"content": "two"})).await.is(200);
    assert_eq!(t.app.place.count("inbox_items").await, 0);
}

#[tokio::test]
async fn nobody_gets_an_item_for_a_channel_that_they_cannot_read() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    t.ada.thread(&channel, "@bo cannot read this").await;
    assert!(open_items(&t.bo).await.is_empty());
    assert_eq!(t.app.place.count("inbox_items").await, 0);
    let other = t
        .ada
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    let elsewhere = t.ada.in_workspace(&id(&other));
    let thread = t.bo.thread(&t.general, "@ada look").await;
    assert_eq!(
        open_items(&t.ada.in_workspace(&t.ada.workspace))
            .await
            .len(),
        1
    );
    assert!(open_items(&elsewhere).await.is_empty());
    drop(thread);
}

#[tokio::test]
async fn items_of_another_person_are_missing() {
    let t = team().await;
    t.ada.thread(&t.general, "@bo look").await;
    let item = id(&only_item(&t.bo).await);
    let missing = set_state(&t.ada, &[&item], "done").await;
    assert_eq!(missing, json!({"data": [], "missing": [item]}));
    assert_eq!(open_items(&t.bo).await.len(), 1);
}

#[tokio::test]
async fn a_viewer_changes_their_own_items_and_a_key_needs_the_scope_for_writing() {
    let t = team().await;
    let vi = t.app.join(&t.ada, "Vi", "viewer").await;
    t.ada.thread(&t.general, "@vi @bo look").await;
    let item = id(&only_item(&vi).await);
    set_state(&vi, &[&item], "done").await;
    assert!(open_items(&vi).await.is_empty());
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    let item = id(&only_item(&reader).await);
    let form = json!({"ids": [item], "state": "done"});
    let refused = reader.put("/v1/inbox/state", form.clone()).await;
    assert_eq!(refused.refused(403), "scope_missing");
    let (writer, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    writer.put("/v1/inbox/state", form).await.is(200);
}

#[tokio::test]
async fn a_snapshot_has_the_number_of_open_items() {
    let t = team().await;
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert_eq!(number(&snapshot, "/inbox/open"), 0);
    t.ada.thread(&t.general, "@bo look").await;
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert_eq!(number(&snapshot, "/inbox/open"), 1);
    assert_eq!(snapshot["inbox"]["seq"], snapshot["seq"]);
}

#[tokio::test]
async fn changes_of_an_inbox_reach_only_its_person() {
    let t = team().await;
    t.ada.thread(&t.general, "@bo look").await;
    let item = id(&only_item(&t.bo).await);
    set_state(&t.bo, &[&item], "done").await;
    let updates = |events: Vec<Value>| {
        events
            .into_iter()
            .filter(|event| event["type"] == "inbox.updated")
            .count()
    };
    assert_eq!(updates(t.bo.events().await), 1);
    assert_eq!(updates(t.ada.events().await), 0);
    let mut socket = Socket::open(&t.bo, json!({"since": 0})).await;
    let replayed = socket.of("inbox.updated").await;
    assert_eq!(
        replayed["data"]["items"],
        json!([{"id": item, "state": "done", "until": null}])
    );
}

/// A mention in a fork of a thread, by Ada for Bo.
async fn mention_in_fork(t: &Team) -> (String, String) {
    let dive = t.dive().await;
    t.ada.tell_in(&dive.fork, "@bo in the deep").await;
    (dive.thread, dive.fork)
}

#[tokio::test]
async fn a_mention_in_a_fork_makes_an_item_there() {
    let t = team().await;
    let (thread, fork) = mention_in_fork(&t).await;
    let items = open_items(&t.bo).await;
    let item = items
        .iter()
        .find(|item| item["reason"] == "mention")
        .unwrap();
    assert_eq!(
        json!([item["thread_id"], item["fork_id"], item["text"]]),
        json!([thread, fork, "@bo in the deep"])
    );
}
