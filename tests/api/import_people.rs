//! Placeholders of imports, and merging them into members.

use serde_json::json;

use crate::{
    imports::{export, imported, placeholder, sums, threads, unlimited_team},
    support::{Person, id, list, number, text, within},
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
            tokio::task::yield_now().await;
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
