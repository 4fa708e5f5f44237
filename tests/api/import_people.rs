//! Placeholders of imports, and merging them into members.

use serde_json::json;

use crate::{
    imports::{
        confirm, export, imported, placeholder, ready, said, state, sums, threads, unlimited_team,
    },
    support::{Person, Team, id, list, number, sign_up, text, visitor, within},
};

async fn find(by: &Person, name: &str) -> String {
    let all = by.get("/v1/members/placeholders").await.ok();
    let found = list(&all, "/data")
        .into_iter()
        .find(|member| member["name"] == name);
    text(
        &found.unwrap_or_else(|| panic!("no {name}: {all}")),
        "/user_id",
    )
}

/// Waits until no placeholder has this ID.
async fn gone(by: &Person, user: &str) {
    within("the merge", async {
        while by.get(&format!("/v1/members/{user}")).await.status == 200 {
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn placeholders_are_listed_and_are_not_members() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let all = t.ada.get("/v1/members/placeholders?limit=2").await.ok();
    assert_eq!(
        (list(&all, "/data").len(), &all["has_more"]),
        (2, &json!(true))
    );
    assert_eq!(all["data"][0]["status"], "placeholder");
    let all = t.ada.every("/v1/members/placeholders").await;
    let mut names: Vec<String> = all.iter().map(|member| text(member, "/name")).collect();
    names.sort();
    // Vibe is the name of an agent.
    assert_eq!(
        names,
        ["Bo", "Guest Star", "U9", "Una", "Unknown (slack)", "Vibe 2"]
    );
    let members = t.ada.get("/v1/members").await.ok();
    assert_eq!(list(&members, "/data").len(), 2);
    t.bo.get("/v1/members/placeholders").await.refused(403);
}

#[tokio::test]
async fn a_member_gets_what_a_placeholder_wrote_and_read() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let una = find(&t.ada, "Una").await;
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 0);
    let path = format!("/v1/members/{una}/merge");
    t.bo.post(&path, json!({"into": t.bo.id}))
        .await
        .refused(403);
    t.ada.post(&path, json!({"into": una})).await.refused(422);
    let of_member = format!("/v1/members/{}/merge", t.ada.id);
    t.ada
        .post(&of_member, json!({"into": t.bo.id}))
        .await
        .refused(422);
    t.ada.post(&path, json!({"into": t.bo.id})).await.is(202);
    gone(&t.ada, &una).await;
    let items = list(&t.bo.get("/v1/inbox").await.ok(), "/data");
    let notice = items.iter().find(|item| item["reason"] == "notice");
    let notice = notice.unwrap_or_else(|| panic!("no notice: {items:?}"));
    assert!(notice.to_string().contains("merged an imported person"));
    // The channels of the placeholder are Bo's.
    let names = t.bo.get("/v1/channels").await.ok().to_string();
    assert!(names.contains("secret"), "{names}");
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    let mut by_bo = 0;
    for thread in threads(&t.bo, &t.general).await {
        for message in t.bo.messages(&id(&thread)).await {
            assert_ne!(message["author"]["id"], una.as_str());
            by_bo += usize::from(message["author"]["id"] == t.bo.id.as_str());
        }
        assert!(!thread["participants"].to_string().contains(&una));
    }
    assert!(by_bo > 0);
    let found = t.ada.get("/v1/search?q=from:bo%20welcome").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    let audit = t.ada.get("/v1/audit-log?action=member.merged").await.ok();
    assert_eq!(list(&audit, "/data").len(), 1);
    // A repeated import knows who Una is.
    let again = imported(&t.ada, &export(&[])).await;
    sums(&again);
    assert_eq!(number(&again, "/kinds/people/imported"), 0);
    assert_eq!(number(&again, "/kinds/messages/imported"), 0);
    let all = t.ada.every("/v1/members/placeholders").await;
    assert!(all.iter().all(|member| member["name"] != "Una"), "{all:?}");
}

#[tokio::test]
async fn a_mention_and_a_reaction_of_a_placeholder_become_those_of_the_member() {
    let t = unlimited_team().await;
    let past = placeholder(&t.app, &t.ada.workspace, "Past").await;
    let thread = t.ada.thread(&t.general, "@past look").await;
    let before = t.ada.messages(&thread).await;
    assert_eq!(before[0]["mentions"][0]["id"], past.as_str());
    let path = format!("/v1/members/{past}/merge");
    t.ada.post(&path, json!({"into": t.bo.id})).await.is(202);
    gone(&t.ada, &past).await;
    let after = t.ada.messages(&thread).await;
    assert_eq!(after[0]["mentions"][0]["id"], t.bo.id.as_str());
}

#[tokio::test]
async fn the_direct_channel_of_a_bot_and_a_placeholder_becomes_that_of_the_bot_and_the_member() {
    let t = unlimited_team().await;
    let past = placeholder(&t.app, &t.ada.workspace, "Past").await;
    let form = json!({"name": "Deploy", "channel_ids": []});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "CI"})).await.is(201);
    let program = visitor(&t.app.base).with_key(&text(&key, "/key"));
    let open = "/api/conversations.open";
    let before = program.post(open, json!({"users": past})).await.is(200);
    assert_eq!(before["ok"], true, "{before}");
    let path = format!("/v1/members/{past}/merge");
    t.ada.post(&path, json!({"into": t.bo.id})).await.is(202);
    gone(&t.ada, &past).await;
    let after = program.post(open, json!({"users": t.bo.id})).await.is(200);
    assert_eq!(after["channel"]["id"], before["channel"]["id"]);
    // Bo's notes are not in it.
    let notes =
        t.bo.post("/v1/direct", json!({"member_ids": []}))
            .await
            .is(201);
    assert_eq!(notes.get("bot_id"), None, "{notes}");
}

/// Number of memberships in channels of people who are not in the workspace.
async fn foreign_members(t: &Team) -> i64 {
    let sql =
        "select count(*) from channel_members where user_id not in (select user_id from members)";
    t.app.place.numbers(&[sql.to_owned()]).await[0]
}

#[tokio::test]
async fn a_person_who_left_after_the_choice_gets_no_channel() {
    let t = unlimited_team().await;
    let import = ready(&t.ada, &export(&[])).await;
    let path = format!("/v1/imports/{import}");
    t.ada
        .patch(&path, json!({"people": {"U3": t.bo.id}}))
        .await
        .ok();
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    t.ada.act(&format!("{path}/start")).await.is(202);
    state(&t.ada, &import, "done").await;
    assert_eq!(foreign_members(&t).await, 0);
    find(&t.ada, "Vibe 2").await;
}

#[tokio::test]
async fn a_guest_gets_no_channel_of_an_archive() {
    let t = unlimited_team().await;
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["general"]).await;
    let import = ready(&t.ada, &export(&[])).await;
    let path = format!("/v1/imports/{import}");
    // U3 is in the private channel `secret`.
    t.ada
        .patch(&path, json!({"people": {"U3": gus.id}}))
        .await
        .ok();
    t.ada.act(&format!("{path}/start")).await.is(202);
    state(&t.ada, &import, "done").await;
    let own = gus.every("/v1/channels").await;
    let names: Vec<String> = own.iter().map(|channel| text(channel, "/name")).collect();
    assert_eq!(names, ["general"]);
}

#[tokio::test]
async fn a_person_of_an_earlier_import_who_left_gets_no_channel() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    imported(&t.ada, &export(&[])).await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    let later = json!([{"id": "G2", "name": "later", "created": 1_600_000_000, "creator": "U1", "members": ["U1", "U2"]}]);
    let report = imported(&t.ada, &export(&[("groups.json", later)])).await;
    sums(&report);
    assert_eq!(report["kinds"]["channels"]["imported"], 1);
    assert_eq!(foreign_members(&t).await, 0);
}

#[tokio::test]
async fn an_erased_person_is_in_no_preview_and_is_left_out() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let import = ready(&t.ada, &export(&[])).await;
    t.ada.erase(&t.bo).await;
    let path = format!("/v1/imports/{import}");
    let preview = t.ada.get(&format!("{path}/preview")).await.ok();
    assert!(!preview.to_string().contains("bo@example.com"), "{preview}");
    let people = list(&preview, "/people");
    let erased = people.iter().find(|person| person["key"] == "U2").unwrap();
    assert_eq!(erased["name"], "Deleted account");
    t.ada.act(&format!("{path}/start")).await.is(202);
    state(&t.ada, &import, "done").await;
    let report = t.ada.get(&format!("{path}/report")).await.ok();
    sums(&report);
    assert_eq!(report["kinds"]["people"]["left_out"], 1);
    let said = said(&t.ada, &t.general).await;
    assert!(said.iter().all(|(_, text)| text != "Thanks"), "{said:?}");
}

#[tokio::test]
async fn whoever_uses_the_invite_for_a_placeholder_becomes_it() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let una = find(&t.ada, "Una").await;
    let invite = t
        .ada
        .post("/v1/invites", json!({"member_id": una, "max_uses": 5}))
        .await
        .is(201);
    assert_eq!(invite["member_id"], una.as_str());
    assert_eq!(invite["max_uses"], 1, "only one person can be Una");
    let token = text(&invite, "/token");
    let person = sign_up(&t.app.base, "Una", Some(&token)).await;
    let second = visitor(&t.app.base)
        .post(
            "/v1/auth/signup",
            json!({"email": "x@example.org", "name": "X", "password": "correct horse", "invite": token}),
        )
        .await;
    assert_eq!(second.refused(404), "invite_not_found");
    gone(&t.ada, &una).await;
    let own = t.ada.get(&format!("/v1/members/{}", person.id)).await.ok();
    assert_eq!(own["handle"], "una", "the placeholder gave up its handle");
    let names = person.get("/v1/channels").await.ok().to_string();
    assert!(names.contains("secret"), "{names}");
    let found = person.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    let audit = t.ada.get("/v1/audit-log?action=member.merged").await.ok();
    assert_eq!(audit["data"][0]["actor_id"], person.id.as_str());
    // A repeated import knows who Una is.
    let again = imported(&t.ada, &export(&[])).await;
    assert_eq!(number(&again, "/kinds/people/imported"), 0);
}

#[tokio::test]
async fn a_member_becomes_a_placeholder_with_its_invite_and_not_by_an_address() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    // The address is that of the archive, and not confirmed.
    let typed = json!({"email": "bo@example.com", "name": "Bob", "password": "correct horse"});
    let open = t.ada.post("/v1/invites", json!({})).await.is(201);
    let mut form = typed;
    form["invite"] = text(&open, "/token").into();
    visitor(&t.app.base)
        .post("/v1/auth/signup", form)
        .await
        .is(201);
    let past = find(&t.ada, "Bo").await;
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 0);
    let invite = t
        .ada
        .post("/v1/invites", json!({"member_id": past}))
        .await
        .is(201);
    let accept = format!("/v1/invites/{}/accept", text(&invite, "/token"));
    let accepted = t.bo.act(&accept).await.is(200);
    assert_eq!(accepted["member"]["handle"], t.bo.handle.as_str());
    gone(&t.ada, &past).await;
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    t.bo.act(&accept).await.refused(404);
}

#[tokio::test]
async fn invites_for_placeholders_are_checked() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let una = find(&t.ada, "Una").await;
    let star = find(&t.ada, "Guest Star").await;
    for (form, param) in [
        (json!({"member_id": t.bo.id}), "member_id"),
        (json!({"member_ids": [una, t.bo.id]}), "member_id"),
        (
            json!({"member_id": una, "role": "guest", "channel_ids": [t.general]}),
            "role",
        ),
        (json!({"member_ids": [una], "member_id": una}), "member_ids"),
        (
            json!({"member_ids": [una], "emails": ["a@example.org"]}),
            "member_ids",
        ),
        (json!({"member_ids": vec![&una; 101]}), "member_ids"),
    ] {
        let refused = t.ada.post("/v1/invites", form.clone()).await;
        assert_eq!(refused.json()["error"]["param"], param, "{form}");
        refused.refused(422);
    }
    let invites = t.ada.every("/v1/invites").await.len();
    let both = t
        .ada
        .post("/v1/invites", json!({"member_ids": [una, star]}))
        .await
        .is(201);
    assert_eq!(
        [&both["data"][0]["member_id"], &both["data"][1]["member_id"]],
        [una.as_str(), star.as_str()]
    );
    assert_eq!(t.ada.every("/v1/invites").await.len(), invites + 2);
    let all = t.ada.every("/v1/members/placeholders").await;
    let address = |name: &str| {
        let found = all.iter().find(|member| member["name"] == name);
        text(found.unwrap(), "/email")
    };
    assert_eq!(
        (address("Bo"), address("Una")),
        ("bo@example.com".to_owned(), String::new())
    );
    let table = t.ada.get("/v1/members/placeholders?format=csv").await;
    assert!(
        table.text.starts_with("name,handle,address\r\n"),
        "{}",
        table.text
    );
    assert!(table.text.contains("\"bo@example.com\""), "{}", table.text);
    assert!(
        table.text.contains("\"Una\",\"una\",\"\""),
        "{}",
        table.text
    );
    t.bo.get("/v1/members/placeholders?format=csv")
        .await
        .refused(403);
    let export = t
        .ada
        .get(&format!("/v1/members/{}/export", find(&t.ada, "Bo").await))
        .await;
    assert!(export.text.contains("bo@example.com"), "{}", export.text);
}
