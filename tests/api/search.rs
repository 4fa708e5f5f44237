//! Full-text search of messages.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use openvibe::{
    chat::search::index,
    db::{
        Db,
        dialect::search::{ConversationScope, Match, Phrase, find_in_conversation, list_readable},
    },
    ids::{ThreadId, UserId},
};
use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, ModelServer, Person, Team, TestDatabase, TestProcess, id, list, number, sign_up,
    sign_up_with_workspace, team, team_with, text, within,
};

/// Percent-encodes a search text for a URL.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => (byte as char).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

async fn page(who: &Person, parameters: &str) -> Value {
    let page = who.get(&format!("/v1/search?{parameters}")).await.ok();
    assert_eq!(page["object"], "list");
    assert_eq!(page["has_more"], page["next_cursor"].is_string());
    page
}

async fn hits(who: &Person, question: &str) -> Vec<Value> {
    list(
        &page(who, &format!("limit=100&q={}", escaped(question))).await,
        "/data",
    )
}

/// Texts of the search results, newest first.
async fn found(who: &Person, question: &str) -> Vec<String> {
    let hits = hits(who, question).await;
    hits.iter().map(|hit| text(hit, "/content")).collect()
}

/// A workspace with these messages in #general, one thread each.
async fn said(contents: &[&str]) -> Team {
    let t = team().await;
    for content in contents {
        t.ada.start(&t.general, content).await;
    }
    t
}

#[tokio::test]
async fn words_are_found_newest_first() {
    let t = said(&["The plan for Monday", "No news", "Monday: plan B"]).await;
    assert_eq!(
        found(&t.bo, "monday plan").await,
        ["Monday: plan B", "The plan for Monday"]
    );
    assert_eq!(found(&t.bo, "friday").await, Vec::<String>::new());
    let hit = &hits(&t.bo, "news").await[0];
    assert_eq!(hit["object"], "search_hit");
    assert_eq!(hit["highlight"], "No <mark>news</mark>");
    assert_eq!(hit["channel_name"], "general");
    assert_eq!(hit["author"]["name"], "Ada");
    assert_eq!(hit["thread_title"], Value::Null);
    assert_eq!(hit["reply_count"], 0);
    assert_eq!(t.bo.message(&id(hit)).await["seq"], hit["seq"]);
}

#[tokio::test]
async fn phrases_exclusions_and_prefixes_are_supported() {
    let t = said(&[
        "red apple",
        "apple red",
        "red apples",
        "Deployment is **bold**",
    ])
    .await;
    assert_eq!(found(&t.ada, "\"red apple\"").await, ["red apple"]);
    assert_eq!(
        found(&t.ada, "red apple").await,
        ["red apples", "apple red", "red apple"]
    );
    assert_eq!(found(&t.ada, "apple red").await, ["apple red", "red apple"]);
    assert_eq!(found(&t.ada, "red -apple").await, ["red apples"]);
    assert_eq!(found(&t.ada, "-red").await, ["Deployment is **bold**"]);
    assert_eq!(
        found(&t.ada, "red -\"apple red\"").await,
        ["red apples", "red apple"]
    );
    assert_eq!(found(&t.ada, "deploy").await, ["Deployment is **bold**"]);
    assert_eq!(
        found(&t.ada, "deploy bold").await,
        Vec::<String>::new(),
        "only the last word can be a prefix"
    );
    assert_eq!(
        found(&t.ada, "bold deploy").await,
        ["Deployment is **bold**"]
    );
}

#[tokio::test]
async fn words_of_any_script_match_without_accents() {
    let t = said(&["東京タワーで会う", "Die Straße am Café", "хорошо 🎉"]).await;
    assert_eq!(found(&t.ada, "タワー").await, ["東京タワーで会う"]);
    assert_eq!(found(&t.ada, "京東").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "STRASSE cafe").await, ["Die Straße am Café"]);
    assert_eq!(found(&t.ada, "ХОР").await, ["хорошо 🎉"]);
    assert_eq!(found(&t.ada, "🎉").await, ["хорошо 🎉"]);
}

#[tokio::test]
async fn words_are_found_in_their_other_spellings() {
    let t = said(&[
        "Ship v2.10.3-rc.1 today",
        "Roll back to 3.4 now",
        "We don't need it",
        "They dont mind",
        "قرأت الكتاب أمس",
        "فكرت بالكتاب",
    ])
    .await;
    for (question, wanted) in [
        ("2.10.3-rc.1", vec!["Ship v2.10.3-rc.1 today"]),
        ("v2.10.3", vec!["Ship v2.10.3-rc.1 today"]),
        ("v3.4", vec!["Roll back to 3.4 now"]),
        ("dont", vec!["They dont mind", "We don't need it"]),
        ("don’t", vec!["They dont mind", "We don't need it"]),
        ("ship -2.10.3", vec![]),
        ("كتاب", vec!["فكرت بالكتاب", "قرأت الكتاب أمس"]),
    ] {
        assert_eq!(found(&t.ada, question).await, wanted, "{question}");
    }
    let hit = hits(&t.ada, "2.10.3").await.remove(0);
    assert_eq!(hit["highlight"], "Ship <mark>v2.10.3</mark>-rc.1 today");
    let best = any(&t.ada, "كتاب", "").await;
    assert_eq!(best.len(), 2, "agents search like this");
}

#[tokio::test]
async fn operator_like_text_is_treated_as_words() {
    let t = said(&["cats AND dogs", "50% off: a_b", "NEAR the end"]).await;
    for (question, wanted) in [
        ("and", "cats AND dogs"),
        ("cats AND dogs", "cats AND dogs"),
        ("50% off:", "50% off: a_b"),
        ("a_b", "50% off: a_b"),
        ("NEAR(the", "NEAR the end"),
        ("words:cats", ""),
        ("{words}:cats", ""),
        ("cats'; drop table messages", ""),
        ("c*", ""),
        ("=root", ""),
        ("\"=root\"", ""),
        ("^cats", "cats AND dogs"),
        ("'cats' & !'x'", ""),
    ] {
        let wanted: Vec<String> = Some(wanted.to_owned())
            .filter(|wanted| !wanted.is_empty())
            .into_iter()
            .collect();
        assert_eq!(found(&t.ada, question).await, wanted, "{question}");
    }
}

#[tokio::test]
async fn results_are_filtered_by_author_channel_kind_and_attachments() {
    let t = team().await;
    let random = id(&t.ada.channel("random").await);
    let thread = t
        .ada
        .thread(&t.general, "see https://example.org plan")
        .await;
    let second = t.bo.tell(&thread, "`code` of the plan").await;
    t.bo.start(&random, "another plan").await;
    t.ada
        .put(&format!("/v1/messages/{second}/reactions/x"), json!({}))
        .await
        .is(200);
    let (link, code, other) = (
        "see https://example.org plan",
        "`code` of the plan",
        "another plan",
    );
    let random_id = format!("in:{random}");
    for (question, wanted) in [
        ("plan", vec![other, code, link]),
        ("plan from:bo", vec![other, code]),
        ("from:@BO", vec![other, code]),
        ("plan from:me", vec![link]),
        ("from:ada from:bo", vec![other, code, link]),
        ("from:nobody plan", vec![]),
        ("plan -from:bo", vec![link]),
        ("plan -from:nobody", vec![other, code, link]),
        ("in:#random", vec![other]),
        ("in:General plan", vec![code, link]),
        ("in:nowhere plan", vec![]),
        (random_id.as_str(), vec![other]),
        ("has:link", vec![link]),
        ("has:code", vec![code]),
        ("has:reaction", vec![code]),
        ("has:file", vec![]),
        ("plan -has:link", vec![other, code]),
        ("has:link has:code", vec![]),
        ("before:2000-01-01", vec![]),
        ("plan after:2000-01-01", vec![other, code, link]),
        ("after:9999-01-01", vec![]),
        ("before:9999-12-31", vec![other, code, link]),
    ] {
        assert_eq!(found(&t.ada, question).await, wanted, "{question}");
    }
    let parameters = async |parameters: &str| -> Vec<String> {
        let page = page(&t.ada, parameters).await;
        list(&page, "/data")
            .iter()
            .map(|hit| text(hit, "/content"))
            .collect()
    };
    let author = format!("q=plan&author_id={}", t.bo.id);
    assert_eq!(parameters(&author).await, [other, code]);
    let channel = format!("channel_id={}", t.general);
    assert_eq!(parameters(&channel).await, [code, link]);
    assert_eq!(parameters("kind=thread").await, [other, link]);
    assert_eq!(parameters("kind=text&q=code").await, [code]);
    let several = parameters("kind=thread,resolution").await;
    assert_eq!(several, [other, link]);
    assert_eq!(parameters("kind=resolution").await, Vec::<String>::new());
    assert_eq!(parameters("has=code,reaction").await, [code]);
    assert_eq!(parameters(&format!("before={second}")).await, [link]);
    assert_eq!(
        parameters("q=plan&before=2000-01-01").await,
        Vec::<String>::new()
    );
    let at = text(&t.ada.message(&second).await, "/created_at");
    assert_eq!(parameters(&format!("q=plan&before={at}")).await, [link]);
    assert_eq!(parameters(&format!("after={at}")).await, [other, code]);
    t.ada
        .delete(&format!("/v1/messages/{second}/reactions/x"))
        .await
        .is(200);
    assert_eq!(parameters("has=reaction").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_is_found_by_its_file_names() {
    let t = team().await;
    let file = id(&t.ada.upload("Budget Q3.txt", b"words inside").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "have a look", "attachments": [file]});
    t.ada.post(&path, form).await.is(201);
    assert_eq!(found(&t.bo, "budget q3").await, ["have a look"]);
    assert_eq!(found(&t.bo, "look has:file").await, ["have a look"]);
    assert_eq!(found(&t.bo, "inside").await, Vec::<String>::new());
    assert_eq!(found(&t.bo, "\"look budget\"").await, Vec::<String>::new());
}

#[tokio::test]
async fn users_cannot_find_what_they_cannot_see() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let private = t.ada.private_channel("secret", &[&t.bo]).await;
    t.ada.start(&private, "the hidden plan").await;
    let direct = t
        .ada
        .post("/v1/direct", json!({"member_ids": [vera.id]}))
        .await;
    let direct = id(&direct.json());
    t.ada.start(&direct, "the direct plan").await;
    t.ada.start(&t.general, "the open plan").await;
    assert_eq!(
        found(&t.ada, "plan").await,
        ["the open plan", "the direct plan", "the hidden plan"]
    );
    assert_eq!(
        found(&t.bo, "plan").await,
        ["the open plan", "the hidden plan"]
    );
    assert_eq!(
        found(&vera, "plan").await,
        ["the open plan", "the direct plan"]
    );
    assert_eq!(found(&vera, "plan in:secret").await, Vec::<String>::new());
    vera.get(&format!("/v1/search?channel_id={private}"))
        .await
        .refused(404);
    let hidden = id(&hits(&t.bo, "hidden").await[0]);
    vera.get(&format!("/v1/search?before={hidden}"))
        .await
        .refused(404);

    t.ada
        .delete(&format!("/v1/channels/{private}/members/{}", t.bo.id))
        .await
        .is(204);
    assert_eq!(found(&t.bo, "plan").await, ["the open plan"]);
    assert_eq!(found(&t.bo, "in:secret").await, Vec::<String>::new());
    for relevance in ["plan", "hidden"] {
        let page = page(&t.bo, &format!("order=relevance&q={relevance}")).await;
        assert!(!page.to_string().contains("hidden"), "{page}");
    }
}

#[tokio::test]
async fn messages_of_another_workspace_are_never_found() {
    let t = said(&["the plan"]).await;
    let other = t
        .ada
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    let ada = t.ada.in_workspace(&id(&other));
    let general = id(&ada.channel("general").await);
    ada.start(&general, "their plan").await;
    assert_eq!(found(&ada, "plan").await, ["their plan"]);
    let here = t.ada.in_workspace(&t.ada.workspace);
    assert_eq!(found(&here, "plan").await, ["the plan"]);
    for (parameter, value) in [("channel_id", &t.general), ("author_id", &t.bo.id)] {
        ada.get(&format!("/v1/search?{parameter}={value}"))
            .await
            .refused(404);
    }
    let root = id(&hits(&here, "plan").await[0]);
    ada.get(&format!("/v1/search?before={root}"))
        .await
        .refused(404);
    let cursor = text(
        &{
            here.start(&t.general, "second plan").await;
            page(&here, "q=plan&limit=1").await
        },
        "/next_cursor",
    );
    let next = page(&ada, &format!("q=plan&cursor={cursor}")).await;
    assert!(!next.to_string().contains("the plan"), "{next}");
}

#[tokio::test]
async fn a_key_requires_read_permission() {
    let t = said(&["the plan"]).await;
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    assert_eq!(found(&reader, "plan").await, ["the plan"]);
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    writer.get("/v1/search?q=plan").await.refused(403);
    t.bo.signed_out()
        .get("/v1/search?q=plan")
        .await
        .refused(401);
    let anonymous = sign_up(
        &t.app.base,
        "Cy",
        Some(&text(
            &t.ada.post("/v1/invites", json!({})).await.is(201),
            "/token",
        )),
    )
    .await;
    assert_eq!(found(&anonymous, "plan").await, ["the plan"]);
    t.ada
        .delete(&format!("/v1/members/{}", anonymous.id))
        .await
        .is(204);
    anonymous
        .in_workspace(&t.ada.workspace)
        .get("/v1/search?q=plan")
        .await
        .refused(404);
    assert_eq!(
        list(
            &page(&t.ada, &format!("q=plan&author_id={}", t.ada.id)).await,
            "/data"
        )
        .len(),
        1
    );
}

#[tokio::test]
async fn an_edited_message_is_found_only_by_its_new_words() {
    let t = team().await;
    let message = text(&t.ada.start(&t.general, "old words").await, "/message/id");
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "new `words`"}),
        )
        .await
        .is(200);
    assert_eq!(found(&t.ada, "old").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "words has:code").await, ["new `words`"]);
    assert_eq!(list(&page(&t.ada, "kind=thread").await, "/data").len(), 1);
}

#[tokio::test]
async fn a_deleted_message_is_removed_from_the_index_at_once() {
    let t = team().await;
    let kept = t.ada.thread(&t.general, "a plan that stays").await;
    let message = t.ada.tell(&kept, "the xyzzyplugh plan").await;
    assert!(!t.app.place.places_of("xyzzyplugh").await.is_empty());
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_eq!(found(&t.ada, "xyzzyplugh").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "plan").await, ["a plan that stays"]);
    assert_eq!(
        t.app.place.places_of("xyzzyplugh").await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn replies_are_found_once_complete_and_notices_never() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [
            Answer::stream()
                .piece("Early plum")
                .wait(&gate)
                .piece(" and pear")
                .end(),
            Answer::status(400, "{}"),
        ],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe fruit?").await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    assert_eq!(found(&t.ada, "plum").await, Vec::<String>::new());
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(found(&t.ada, "plum pear").await, ["Early plum and pear"]);
    assert_eq!(
        found(&t.ada, "pear from:vibe").await,
        ["Early plum and pear"]
    );
    let vibe = id(&t.ada.agent("vibe").await);
    let by = page(&t.ada, &format!("author_id={vibe}")).await;
    assert_eq!(list(&by, "/data").len(), 1);
    let failed = t.ada.ask(&thread, "@vibe again").await;
    t.ada.failed(&failed).await;
    let notice = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(notice["kind"], "notice");
    let words = text(&notice, "/content_plain");
    let all = found(&t.ada, words.split_whitespace().next_back().unwrap()).await;
    assert!(
        all.iter()
            .all(|content| *content != text(&notice, "/content"))
    );
}

#[tokio::test]
async fn a_canceled_reply_is_found_by_its_partial_text() {
    let t = team().await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::stream().piece("Half a plum").wait(&gate)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@vibe fruit?").await;
    gate.reached().await;
    t.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    assert_eq!(found(&t.ada, "plum").await, ["Half a plum"]);
}

#[tokio::test]
async fn results_and_dives_are_searchable() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "the zebra crossing").await;
    let hit = hits(&t.ada, "zebra").await.remove(0);
    assert_eq!(
        (id(&hit), text(&hit, "/fork_id")),
        (said, dive.fork.clone())
    );
    let result = json!({"headline": "Zebras win", "conclusion": "All agreed on quokkas."});
    t.ada.publish_as(&dive.fork, result).await;
    let card = hits(&t.ada, "zebras quokkas has:result").await.remove(0);
    assert_eq!(card["kind"], "resolution");
    assert!(text(&card, "/highlight").contains("<mark>Zebras</mark>"));
    let only = page(&t.ada, "kind=resolution&q=zebras").await;
    assert_eq!(list(&only, "/data").len(), 1);
}

#[tokio::test]
async fn a_thread_is_found_by_its_title() {
    let t = team().await;
    let form = json!({"content": "Let us begin", "title": "Quarterly <planning>"});
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t.ada.post(&path, form).await.is(201);
    let thread = text(&started, "/thread/id");
    t.bo.tell(&thread, "I begin too").await;
    let hit = hits(&t.ada, "quarterly begin").await.remove(0);
    assert_eq!(hit["content"], "Let us begin");
    assert_eq!(hit["highlight"], "Let us <mark>begin</mark>");
    assert_eq!(hit["thread_title"], "Quarterly <planning>");
    assert_eq!(
        hit["thread_title_highlight"],
        "<mark>Quarterly</mark> &lt;planning&gt;"
    );
    assert_eq!(hit["reply_count"], 1);
    assert_eq!(
        found(&t.ada, "\"planning let\"").await,
        Vec::<String>::new()
    );
    t.ada
        .patch(
            &format!("/v1/threads/{thread}"),
            json!({"title": "Yearly review"}),
        )
        .await
        .is(200);
    assert_eq!(found(&t.ada, "quarterly").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "yearly").await, ["Let us begin"]);
    let titles = page(&t.ada, "kind=thread&q=review").await;
    assert_eq!(list(&titles, "/data").len(), 1);
    t.ada
        .patch(&format!("/v1/threads/{thread}"), json!({"title": null}))
        .await
        .is(200);
    assert_eq!(found(&t.ada, "yearly").await, Vec::<String>::new());
    assert_eq!(found(&t.ada, "us").await, ["Let us begin"]);
}

#[tokio::test]
async fn deep_dives_are_found_by_their_titles() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Where do we land?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let mut dives = Vec::new();
    for title in ["Zeppelin moorings", "Zeppelin hangars", "Balloons"] {
        let form = json!({"title": title, "agent_id": null});
        dives.push(id(&t.ada.start_fork(&thread, &root, form).await));
    }
    let titles = async |who: &Person, parameters: &str| -> Vec<String> {
        let hits = list(&page(who, parameters).await, "/data");
        let title = |hit: &Value| hit["fork_title"].as_str().unwrap_or("").to_owned();
        hits.iter().map(title).collect()
    };
    let found = page(&t.bo, "kind=fork&q=zepp").await;
    assert_eq!(
        titles(&t.bo, "kind=fork&q=zepp").await,
        ["Zeppelin hangars", "Zeppelin moorings"]
    );
    let hit = &found["data"][1];
    assert_eq!(
        json!([
            hit["fork_id"],
            hit["id"],
            hit["fork_status"],
            hit["content"]
        ]),
        json!([dives[0], root, "active", "Where do we land?"])
    );
    assert_eq!(
        hit["fork_title_highlight"],
        "<mark>Zeppelin</mark> moorings"
    );
    assert_eq!(titles(&t.ada, "kind=fork").await.len(), 3);
    let none = Vec::<String>::new();
    assert_eq!(titles(&t.ada, "kind=fork&q=land").await, none);
    assert_eq!(titles(&t.ada, "kind=fork&q=zepp%20-hangars").await.len(), 1);
    t.ada.say_in(&dives[2], "They drift").await;
    assert_eq!(titles(&t.ada, "q=drift").await, ["Balloons"]);

    let secret = t.ada.private_channel("secret", &[]).await;
    let hidden = t.ada.start(&secret, "Zeppelin menu").await;
    let (menu, dish) = (text(&hidden, "/thread/id"), text(&hidden, "/message/id"));
    let form = json!({"title": "Zeppelin soup", "agent_id": null});
    t.ada.start_fork(&menu, &dish, form).await;
    assert_eq!(titles(&t.bo, "kind=fork&q=zepp").await.len(), 2);
    assert_eq!(
        titles(&t.ada, &format!("kind=fork&channel_id={secret}")).await,
        ["Zeppelin soup"]
    );
    assert_eq!(
        titles(&t.ada, &format!("kind=fork&thread_id={thread}&q=soup")).await,
        none
    );
    let both = "kind=thread,fork&q=zepp&limit=1";
    assert_eq!(titles(&t.ada, both).await, ["", "Zeppelin soup"]);
    let cursor = text(&page(&t.ada, both).await, "/next_cursor");
    assert_eq!(
        titles(&t.ada, &format!("{both}&cursor={cursor}")).await,
        ["Zeppelin hangars", "Zeppelin moorings"]
    );
    let path = format!("/v1/forks/{}", dives[0]);
    t.ada.patch(&path, json!({"title": "Masts"})).await.is(200);
    assert_eq!(titles(&t.bo, "kind=fork&q=moorings").await, none);
    t.ada.delete(&format!("/v1/messages/{root}")).await.ok();
    assert_eq!(titles(&t.bo, "kind=fork&q=masts").await, none);
}

#[tokio::test]
async fn highlights_are_safe_to_display() {
    let t = said(&["<script>alert('x')</script> & \"plan\" <b>"]).await;
    let hit = hits(&t.ada, "plan").await.remove(0);
    let highlight = text(&hit, "/highlight");
    assert!(highlight.contains("<mark>plan</mark>"), "{highlight}");
    let bare = highlight.replace("<mark>", "").replace("</mark>", "");
    assert!(!bare.contains(['<', '>', '"', '\'']), "{highlight}");
}

#[tokio::test]
async fn pages_return_every_result_once_while_messages_are_posted() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "plan 0").await;
    let mut wanted = HashSet::from([text(&t.ada.messages(&thread).await[0], "/id")]);
    for n in 1..=45 {
        let message = t.ada.tell(&thread, &format!("plan {n}")).await;
        wanted.insert(message);
        t.bo.tell(&thread, "something else").await;
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = page(&t.bo, &format!("q=plan&limit=7{cursor}")).await;
        seen.extend(list(&page, "/data"));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
        t.ada.tell(&thread, "a newer plan").await;
    }
    let seqs: Vec<i64> = seen.iter().map(|hit| number(hit, "/seq")).collect();
    assert!(seqs.is_sorted_by(|a, b| a > b), "{seqs:?}");
    assert_eq!(seen.len(), wanted.len());
    assert_eq!(seen.iter().map(id).collect::<HashSet<_>>(), wanted);
    t.bo.get("/v1/search?q=plan&order=relevance&cursor=c2VhcmNoOjk5")
        .await
        .refused(400);
}

#[tokio::test]
async fn the_best_results_come_first_on_request() {
    let t = team().await;
    let path = format!("/v1/channels/{}/threads", t.general);
    let form = json!({"content": "About tuesday", "title": "Launch plan"});
    t.ada.post(&path, form).await.is(201);
    let long = format!("{} launch and at last a plan", "word ".repeat(400));
    t.ada.start(&t.general, &long).await;
    t.ada.start(&t.general, "planning a launch").await;
    t.ada.start(&t.general, "the launch plan").await;
    for n in 0..10 {
        t.ada.start(&t.general, &format!("{long} {n}")).await;
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = page(
            &t.ada,
            &format!("q=launch%20plan&order=relevance&limit=3{cursor}"),
        )
        .await;
        seen.extend(list(&page, "/data"));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
        t.ada.start(&t.general, "launch plan launch plan").await;
    }
    let contents: Vec<String> = seen.iter().map(|hit| text(hit, "/content")).collect();
    assert_eq!(
        contents[..3],
        ["About tuesday", "the launch plan", "planning a launch"],
        "{contents:?}"
    );
    assert_eq!(seen.len(), 14);
    let ids: HashSet<String> = seen.iter().map(id).collect();
    assert_eq!(ids.len(), 14);
}

/// Texts of the results of a search for any of the words, best first.
async fn any(who: &Person, question: &str, parameters: &str) -> Vec<String> {
    let parameters = format!("match=any&q={}{parameters}", escaped(question));
    let hits = list(&page(who, &parameters).await, "/data");
    hits.iter().map(|hit| text(hit, "/content")).collect()
}

#[tokio::test]
async fn any_of_the_words_is_found_in_any_form_the_rarest_first() {
    let t = said(&[
        "The launches are on Monday",
        "We launched",
        "Launching again",
        "The budget for the harbor",
        "Das Budget der Lieferungen",
        "Nothing of that",
    ])
    .await;
    assert_eq!(
        any(&t.bo, "what is the harbor budget for launches?", "").await,
        [
            "The budget for the harbor",
            "Das Budget der Lieferungen",
            "Launching again",
            "We launched",
            "The launches are on Monday"
        ]
    );
    let german = ["Das Budget der Lieferungen"];
    assert_eq!(any(&t.bo, "Wann kommt die Lieferung?", "").await, german);
    assert_eq!(any(&t.bo, "Lieferung", "").await, german);
    assert_eq!(any(&t.bo, "budget -harbor", "").await, german);
    assert!(any(&t.bo, "what is it?", "").await.is_empty());
    assert_eq!(found(&t.bo, "harbor launches").await, Vec::<String>::new());
    let parameters = format!("match=any&q={}", escaped("launch harbors"));
    let hits = list(&page(&t.bo, &parameters).await, "/data");
    assert_eq!(
        hits[0]["highlight"],
        "The budget for the <mark>harbor</mark>"
    );
    assert_eq!(hits[1]["highlight"], "<mark>Launching</mark> again");
}

#[tokio::test]
async fn irregular_forms_are_found_and_marked() {
    let t = said(&["She bought a boat for her son", "They buy nets", "The sun"]).await;
    let found = any(&t.bo, "who has been buying what?", "").await;
    assert_eq!(found, ["They buy nets", "She bought a boat for her son"]);
    let parameters = format!("match=any&q={}", escaped("what did she buy for her son?"));
    let hits = list(&page(&t.bo, &parameters).await, "/data");
    assert_eq!(
        hits[0]["highlight"],
        "She <mark>bought</mark> a boat for her <mark>son</mark>"
    );
}

#[tokio::test]
async fn neighbors_and_authors_count_in_a_search_for_any_word() {
    let t = team().await;
    let [first, second] = [
        t.ada.thread(&t.general, "Lunch").await,
        t.ada.thread(&t.general, "Travel").await,
    ];
    for thread in [&first, &second] {
        t.ada.say(thread, "We could take the ferry").await;
    }
    t.bo.say(&second, "Tickets for the harbor are sold out")
        .await;
    t.bo.say(&first, "I am hungry").await;
    let parameters = format!("match=any&q={}", escaped("ferry harbor tickets"));
    let hits = list(&page(&t.ada, &parameters).await, "/data");
    let threads: Vec<String> = hits.iter().map(|hit| text(hit, "/thread_id")).collect();
    assert_eq!(threads, [second.clone(), second.clone(), first.clone()]);
    assert_eq!(any(&t.ada, "hungry bo", "").await[0], "I am hungry");
    assert_eq!(any(&t.ada, "bo", "").await.len(), 2);
    let grouped = any(&t.ada, "ferry harbor tickets", "&group=thread").await;
    assert_eq!(
        grouped,
        [
            "Tickets for the harbor are sold out",
            "We could take the ferry"
        ]
    );
    let within = format!("&thread_id={first}");
    assert_eq!(
        any(&t.ada, "ferry harbor tickets", &within).await,
        ["We could take the ferry"]
    );
    let relevance = "q=ferry&order=relevance&group=thread";
    assert_eq!(list(&page(&t.ada, relevance).await, "/data").len(), 2);
}

#[tokio::test]
async fn an_old_message_is_found_if_all_of_its_words_are_common() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let old = "Lumo pears need salt";
    t.ada.thread(&t.general, old).await;
    // Posts many messages that contain only some of the words.
    let others = (0..1_515).map(|n| {
        let text = if n < 1_010 { "Lumo pears" } else { "The salt" };
        t.ada.thread(&t.general, text)
    });
    stream::iter(others)
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    assert_eq!(any(&t.bo, "salt for Lumo pears", "").await[0], old);
}

/// Texts of a thread's messages that the index finds for a word, newest first, and the number of them that a person can read.
async fn in_thread(t: &Team, thread: &str, who: &Person, has_most: bool) -> (Vec<String>, usize) {
    let thread: ThreadId = thread.parse().unwrap();
    let db = Db::open(&t.app.place.url(), Arc::new(|_| {}))
        .await
        .unwrap();
    let mut c = db.read().await.unwrap();
    let workspace = c.q("select workspace_id from threads where id = $1");
    let scope = ConversationScope {
        workspace: workspace.bind(thread).value().await.unwrap(),
        conversation: thread.0,
        user: who.id.parse::<UserId>().unwrap().0,
        term: Phrase::word(index::conversation_term(&thread.to_string())),
        below: i64::MAX >> 24,
        has_most,
    };
    let what = Match {
        all: vec![vec![Phrase::word("harbor")]],
        ..Match::default()
    };
    let found = find_in_conversation(&mut c, &scope, &what, scope.below, 2);
    let seqs: Vec<i64> = found.await.unwrap().into_iter().map(|(seq,)| seq).collect();
    let mut contents = Vec::new();
    for seq in &seqs {
        let sql = "select content from messages where workspace_id = $1 and seq = $2";
        let content = c.q(sql).bind(scope.workspace).bind(*seq).value();
        contents.push(content.await.unwrap());
    }
    let readable = list_readable(&mut c, &scope, seqs).await.unwrap();
    drop(c);
    db.close().await;
    (contents, readable.len())
}

#[tokio::test]
async fn messages_of_a_large_and_of_a_small_conversation_are_found() {
    let t = team().await;
    let closed = t.ada.private_channel("closed", &[]).await;
    let thread = t.ada.thread(&closed, "The first harbor").await;
    t.ada.thread(&closed, "The harbor of another thread").await;
    for content in ["A harbor", "No port", "Another harbor"] {
        t.ada.say(&thread, content).await;
    }
    t.ada.thread(&t.general, "The harbor for all").await;
    for has_most in [false, true] {
        let newest = ["Another harbor", "A harbor"].map(str::to_owned).to_vec();
        let found = in_thread(&t, &thread, &t.ada, has_most).await;
        assert_eq!(found, (newest.clone(), 2));
        let found = in_thread(&t, &thread, &t.bo, has_most).await;
        assert_eq!(found, (newest, 0));
    }
}

#[tokio::test]
async fn pages_of_any_word_return_every_hit_once_while_messages_are_posted() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "The first plan").await;
    for n in 1..25 {
        let more = if n % 3 == 0 { "for the budget" } else { "" };
        t.ada.say(&thread, &format!("Plan {n} {more}")).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(
            &t.ada,
            &format!("q=budget%20plan&match=any&limit=7{cursor}"),
        )
        .await;
        seen.extend(list(&page, "/data").iter().map(|hit| text(hit, "/content")));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
        t.bo.say(&thread, "budget plan").await;
    }
    assert!(
        seen[..8].iter().all(|hit| hit.contains("budget")),
        "{seen:?}"
    );
    let different: HashSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), different.len()), (25, 25), "{seen:?}");
}

#[tokio::test]
async fn a_search_for_any_word_finds_only_what_the_caller_can_read() {
    let t = team().await;
    let closed = t.ada.private_channel("closed", &[]).await;
    let thread = t.ada.thread(&closed, "The harbor budget").await;
    let root = id(&t.ada.messages(&thread).await[0]);
    let gone = t.ada.thread(&t.general, "A harbor").await;
    let message = id(&t.ada.messages(&gone).await[0]);
    assert_eq!(any(&t.bo, "harbors", "").await, ["A harbor"]);
    assert_eq!(any(&t.ada, "harbors", "").await.len(), 2);
    t.ada.delete(&format!("/v1/messages/{message}")).await.ok();
    assert!(any(&t.bo, "harbors", "").await.is_empty());
    t.ada
        .patch(
            &format!("/v1/messages/{root}"),
            json!({"content": "The bridge"}),
        )
        .await
        .ok();
    assert!(any(&t.ada, "harbors", "").await.is_empty());
    assert_eq!(any(&t.ada, "bridges", "").await, ["The bridge"]);
}

#[tokio::test]
async fn invalid_queries_are_rejected() {
    let t = said(&["the plan"]).await;
    let long = "x".repeat(501);
    for (parameters, code) in [
        ("", "invalid_query"),
        ("q=", "invalid_query"),
        ("q=%20!!!", "invalid_query"),
        (&*format!("q={long}"), "invalid_query"),
        ("q=plan&limit=0", "invalid_limit"),
        ("q=plan&limit=101", "invalid_limit"),
        ("q=plan&cursor=x", "invalid_cursor"),
        ("q=plan&order=best", "invalid_order"),
        ("q=plan&thread_id=general", "invalid_id"),
        ("q=plan&kind=notice", "invalid_query"),
        ("q=plan&kind=thread,notice", "invalid_query"),
        ("q=plan&kind=fork,file", "invalid_query"),
        ("q=plan&kind=fork&order=oldest", "invalid_query"),
        ("q=plan&kind=fork&match=any", "invalid_query"),
        ("q=plan&kind=fork&has=link", "invalid_query"),
        ("q=plan%20from:me&kind=thread,fork", "invalid_query"),
        ("q=plan&match=some", "invalid_query"),
        ("q=plan&match=any&order=newest", "invalid_query"),
        ("q=plan&group=thread", "invalid_query"),
        ("q=plan&group=channel&match=any", "invalid_query"),
        ("q=plan&has=nothing", "invalid_query"),
        ("q=plan&before=soon", "invalid_query"),
        ("q=plan&after=2026-02-30", "invalid_query"),
        ("q=plan&channel_id=general", "invalid_id"),
        ("q=plan&author_id=bo", "invalid_id"),
        ("q=plan&page=2", "invalid_query"),
        ("q=%00", "invalid_address"),
    ] {
        let reply = t.ada.get(&format!("/v1/search?{parameters}")).await;
        assert_eq!(reply.refused(400), code, "{parameters}");
    }
    let nobody = "user_01jz0000000000000000000000";
    for path in [
        format!("author_id={nobody}"),
        format!("author_id={}", nobody.replace("user", "agent")),
        format!("channel_id={}", nobody.replace("user", "chan")),
        format!("thread_id={}", nobody.replace("user", "thread")),
        format!("before={}", nobody.replace("user", "msg")),
    ] {
        t.ada.get(&format!("/v1/search?{path}")).await.refused(404);
    }
    let many = "ab ".repeat(166);
    assert_eq!(found(&t.ada, &many).await, Vec::<String>::new());
    let characters = "東".repeat(500);
    assert_eq!(found(&t.ada, &characters).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_search_in_one_thread_returns_its_messages_in_both_orders() {
    let t = said(&["elsewhere a plan"]).await;
    let thread = t.ada.thread(&t.general, "plan 0").await;
    for n in 1..5 {
        t.ada.say(&thread, &format!("plan {n}")).await;
    }
    let root = id(&t.ada.messages(&thread).await[0]);
    let fork = t.ada.start_fork(&thread, &root, json!({})).await;
    t.ada.say_in(&id(&fork), "a plan in a deep dive").await;
    let in_order = async |order: &str| -> Vec<String> {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let parameters =
                format!("q=plan&thread_id={thread}&order={order}&limit=2&cursor={cursor}");
            let found = page(&t.bo, &parameters).await;
            let hits = list(&found, "/data");
            seen.extend(hits.iter().map(|hit| text(hit, "/content")));
            match found["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return seen,
            }
        }
    };
    let mut expected: Vec<String> = (0..5).map(|n| format!("plan {n}")).collect();
    assert_eq!(in_order("oldest").await, expected);
    expected.reverse();
    assert_eq!(in_order("newest").await, expected);
    let oldest = page(
        &t.bo,
        &format!("q=plan&thread_id={thread}&order=oldest&limit=2"),
    )
    .await;
    let cursor = text(&oldest, "/next_cursor");
    let other = format!("/v1/search?q=plan&order=newest&cursor={cursor}");
    assert_eq!(t.bo.get(&other).await.refused(400), "invalid_cursor");
}

#[tokio::test]
async fn messages_of_a_private_channels_thread_are_not_found_by_nonmembers() {
    let t = team().await;
    let secret = t.ada.private_channel("secret", &[]).await;
    let thread = t.ada.thread(&secret, "the plan").await;
    t.bo.get(&format!("/v1/search?q=plan&thread_id={thread}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn title_prefixes_find_threads() {
    let t = team().await;
    let path = format!("/v1/channels/{}/threads", t.general);
    for (title, content) in [("Quarterly deployment", "One"), ("Lunch", "Two")] {
        t.ada
            .post(&path, json!({"title": title, "content": content}))
            .await
            .is(201);
    }
    for typed in ["de", "dep", "depl", "quarterly de", "Qu"] {
        let found = page(&t.bo, &format!("kind=thread&q={}", escaped(typed))).await;
        let titles: Vec<Value> = list(&found, "/data")
            .iter()
            .map(|hit| hit["thread_title"].clone())
            .collect();
        assert_eq!(titles, ["Quarterly deployment"], "{typed}");
    }
}

/// A text with so many distinct words that its document is replaced later when only its properties change. It ends with `last`.
fn very_many_words(kind: &str, last: &str) -> String {
    let words: Vec<String> = (0..2500).map(|n| format!("{kind}{n}")).collect();
    format!("{} {last}", words.join(" "))
}

/// Waits until a search finds this number of messages.
async fn found_later(who: &Person, question: &str, count: usize) {
    let wait = async {
        while found(who, question).await.len() != count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within("words to be indexed", wait).await;
}

#[tokio::test]
async fn all_words_of_a_very_long_message_are_found_until_it_changes() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t
        .ada
        .tell(&thread, &very_many_words("buoy", "xyzzyplugh"))
        .await;
    let at = format!("/v1/messages/{message}");
    for question in ["buoy7", "xyzzyplugh", "\"buoy2499 xyzzyplugh\" buoy0"] {
        assert_eq!(found(&t.ada, question).await.len(), 1, "{question}");
    }

    // The document is replaced later, and all words are found in the meantime.
    let thumb = format!("{at}/reactions/%F0%9F%91%8D");
    t.ada.put(&thumb, json!({})).await.is(200);
    assert_eq!(found(&t.ada, "xyzzyplugh").await.len(), 1);
    found_later(&t.ada, "xyzzyplugh has:reaction", 1).await;
    assert_eq!(t.app.place.count("search_backlog").await, 0);

    let edited = json!({"content": very_many_words("mast", "frobozz")});
    t.ada.patch(&at, edited).await.is(200);
    assert_eq!(found(&t.ada, "xyzzyplugh").await.len(), 0);
    assert_eq!(found(&t.ada, "mast7 frobozz").await.len(), 1);

    t.ada.put(&thumb, json!({})).await.is(200);
    t.ada.delete(&at).await.is(200);
    assert_eq!(found(&t.ada, "frobozz").await.len(), 0);
    let wait = async {
        while t.app.place.count("search_backlog").await > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within("the job to remove the message from its list", wait).await;
    assert_eq!(t.app.place.places_of("frobozz").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_changed_property_of_a_very_long_message_is_indexed_after_a_crash() {
    let place = TestDatabase::new().await;
    let model = ModelServer::start().await;
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let general = ada.channel("general").await;
    let content = very_many_words("buoy", "xyzzyplugh");
    let started = ada.start(&id(&general), &content).await;
    let message = text(&started, "/message/id");
    let thumb = format!("/v1/messages/{message}/reactions/%F0%9F%91%8D");
    ada.put(&thumb, json!({})).await.is(200);
    server.kill().await;
    let server = TestProcess::start(&place, &model, &[]).await;
    found_later(&ada.at(&server.base), "xyzzyplugh has:reaction", 1).await;
}

/// Starts a thread and deletes its first message.
async fn start_and_delete(t: &Team, content: &str) {
    let thread = t.ada.thread(&t.general, content).await;
    let root = id(&t.ada.messages(&thread).await[0]);
    t.ada.delete(&format!("/v1/messages/{root}")).await.is(200);
}

#[tokio::test]
async fn messages_of_a_version_without_search_are_indexed_at_startup() {
    let mut t = said(&["the plan", "another plan"]).await;
    start_and_delete(&t, "a gone plan").await;
    t.app.stop().await;
    t.app
        .place
        .run(&[
            "delete from search_index",
            "delete from meta where key = 'search'",
        ])
        .await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    found_later(&ada, "plan", 2).await;
    assert_eq!(found(&ada, "plan").await, ["another plan", "the plan"]);
    assert_eq!(list(&page(&ada, "kind=thread").await, "/data").len(), 2);
    let complete = async {
        while page(&ada, "q=plan").await.get("index").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("the rebuild to end", complete).await;
    assert_eq!(t.app.place.count("search_index").await, 2);
}

/// Statement that stores the progress of a rebuild of the current version.
fn progress(below: &str, done: i32, total: i32) -> String {
    format!(
        "insert into meta (key, value) select 'search_rebuild', '{{\"version\":\"' || value || \
         '\",\"below\":\"{below}\",\"done\":{done},\"total\":{total}}}' from meta where key = 'search'"
    )
}

#[tokio::test]
async fn an_interrupted_rebuild_of_the_index_continues_where_it_stopped() {
    let mut t = said(&["the old plan", "the new plan"]).await;
    let newest = hits(&t.ada, "new").await;
    let below = id(&newest[0]);
    t.app.stop().await;
    let rebuild = progress(&below, 1, 2);
    t.app
        .place
        .run(&[
            "delete from search_index",
            &rebuild,
            "delete from meta where key = 'search'",
        ])
        .await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    found_later(&ada, "plan", 1).await;
    assert_eq!(found(&ada, "plan").await, ["the old plan"]);
}

#[tokio::test]
async fn a_search_reports_an_index_that_is_being_rebuilt() {
    let t = said(&["the plan"]).await;
    assert_eq!(page(&t.ada, "q=plan").await.get("index"), None);
    let below = id(&hits(&t.ada, "plan").await[0]);
    t.app.place.run(&[&progress(&below, 2, 5)]).await;
    let found = page(&t.ada, "q=plan").await;
    assert_eq!(found["index"], json!({"state": "building", "done": 0.4}));
}

#[tokio::test]
async fn a_rebuild_derives_the_plain_text_again_and_leaves_deleted_messages_out() {
    let mut t = said(&["the **plan**"]).await;
    start_and_delete(&t, "a gone plan").await;
    t.app.stop().await;
    t.app
        .place
        .run(&[
            "update messages set content_plain = 'an old reading' where content <> ''",
            "delete from meta where key = 'search'",
        ])
        .await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    let read_again = async {
        while hits(&ada, "plan").await[0]["content_plain"] != "the plan" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("the plain text to be derived", read_again).await;
    assert_eq!(found(&ada, "plan").await, ["the **plan**"]);
}
