//! The evening move: a team leaves Slack on a Friday evening, and has its history, people, bots, and alerts on Monday.

use serde_json::{Value, json};

use crate::{
    imports::{OFF, imported, messages, sums, threads, with_content, zipped},
    support::{
        Answer, Person, ProgramServer, SECRET_KEY, TestApp, id, list, number, sign_up, text,
        visitor, within,
    },
};

const PEOPLE: [(&str, &str); 20] = [
    ("U1", "Ada"),
    ("U2", "Bea"),
    ("U3", "Cem"),
    ("U4", "Dan"),
    ("U5", "Eva"),
    ("U6", "Fay"),
    ("U7", "Gus"),
    ("U8", "Hal"),
    ("U9", "Ida"),
    ("U10", "Jan"),
    ("U11", "Kai"),
    ("U12", "Lea"),
    ("U13", "Max"),
    ("U14", "Nia"),
    ("U15", "Oda"),
    ("U16", "Pia"),
    ("U17", "Rob"),
    ("U18", "Sam"),
    ("U19", "Tea"),
    ("U20", "Uwe"),
];

fn said(user: &str, second: u64, text: &str) -> Value {
    json!({"type": "message", "user": user, "ts": format!("{}.000100", 1_700_000_000 + second), "text": text})
}

/// The export of a team of 20, with a public, a private, and a direct channel.
fn slack() -> Vec<u8> {
    let all: Vec<&str> = PEOPLE.iter().map(|(key, _)| *key).collect();
    let users: Vec<Value> = PEOPLE
        .iter()
        .map(|(key, name)| json!({"id": key, "team_id": "T1", "name": name.to_lowercase(),
            "profile": {"real_name": name, "email": format!("{}@example.org", name.to_lowercase())}}))
        .collect();
    let channel = |key: &str, name: &str, members: &[&str]| json!({"id": key, "name": name, "created": 1_600_000_000, "creator": "U2", "members": members});
    let mut rules = said("U2", 1, "The rules: be kind");
    rules["pinned_to"] = json!(["C1"]);
    let mut asked = said("U3", 2, "Who deploys on Monday?");
    asked["thread_ts"] = asked["ts"].clone();
    let mut answered = said("U4", 3, "I do, <@U3>");
    answered["thread_ts"] = asked["ts"].clone();
    answered["reactions"] = json!([{"name": "tada", "users": ["U3", "U5"]}]);
    let alert = json!({"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "Alerts",
        "ts": "1700000004.000100", "text": "Disk full"});
    let bytes = |value: Value| value.to_string().into_bytes();
    zipped(&[
        ("users.json", bytes(json!(users))),
        (
            "channels.json",
            bytes(json!([
                channel("C1", "general", &all),
                channel("C2", "ops", &all)
            ])),
        ),
        (
            "groups.json",
            bytes(json!([channel("G1", "salaries", &["U2", "U5"])])),
        ),
        (
            "dms.json",
            bytes(json!([{"id": "D1", "created": 1_600_000_000, "members": ["U3", "U4"]}])),
        ),
        (
            "general/2023-11-14.json",
            bytes(json!([rules, asked, answered])),
        ),
        ("ops/2023-11-14.json", bytes(json!([alert]))),
        (
            "salaries/2023-11-14.json",
            bytes(json!([said("U5", 5, "The raise is confidential")])),
        ),
        (
            "D1/2023-11-14.json",
            bytes(json!([said("U3", 6, "Lunch between us?")])),
        ),
    ])
}

async fn finds(who: &Person, word: &str) -> usize {
    let found = who.get(&format!("/v1/search?q={word}")).await.ok();
    list(&found, "/data").len()
}

/// Waits until no person of the archive is left.
async fn everyone_is_here(ada: &Person) {
    within("the people", async {
        while !ada.every("/v1/members/placeholders").await.is_empty() {
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_team_leaves_slack_in_an_evening() {
    let server = ProgramServer::start().await;
    let app = TestApp::with(&[
        OFF,
        ("HOOK_ALLOW", server.host()),
        ("SECRET_KEY", SECRET_KEY),
    ])
    .await;

    // 18:00: an empty server. The founder brings the history.
    let ada = app.founder("Ada").await;
    let report = imported(&ada, &slack()).await;
    sums(&report);
    assert_eq!(number(&report, "/kinds/messages/imported"), 6);
    assert_eq!(number(&report, "/kinds/messages/left_out"), 0);

    // 19:00: everyone gets a link, also Ada, who was in Slack herself.
    let people = ada.every("/v1/members/placeholders").await;
    assert_eq!(people.len(), 20);
    let ids: Vec<String> = people
        .iter()
        .map(|person| text(person, "/user_id"))
        .collect();
    let invites = ada
        .post("/v1/invites", json!({"member_ids": ids}))
        .await
        .is(201);
    let mut team = Vec::new();
    for (person, invite) in people.iter().zip(list(&invites, "/data")) {
        let token = text(&invite, "/token");
        if person["name"] == "Ada" {
            ada.act(&format!("/v1/invites/{token}/accept"))
                .await
                .is(200);
        } else {
            let name = text(person, "/name");
            team.push(sign_up(&app.base, &name, Some(&token)).await);
        }
    }
    assert_eq!(team.len(), 19);

    // 20:00: the alerts and a bot that answers.
    let ops = id(&ada.channel("ops").await);
    let hook = json!({"name": "Alertmanager", "channel_id": ops});
    let hook = ada.post("/v1/hooks", hook).await.is(201);
    let bot = json!({"name": "Deploy", "channel_ids": [ops], "commands": [{"name": "deploy"}]});
    let bot = id(&ada.post("/v1/bots", bot).await.is(201));
    let events = json!({"url": server.url("deploy"), "events": ["app_mention"]});
    ada.put(&format!("/v1/bots/{bot}/subscription"), events)
        .await
        .is(200);
    let keys = format!("/v1/bots/{bot}/keys");
    let key = ada.post(&keys, json!({"name": "Deployer"})).await.is(201);
    let program = visitor(&app.base).with_key(&text(&key, "/key"));

    // Monday: everyone is here, reads what they could read before, and nothing else; nothing is unread.
    everyone_is_here(&ada).await;
    let member = |name: &str| team.iter().find(|person| person.name == name).unwrap();
    let (bea, cem, dan, eva) = (member("Bea"), member("Cem"), member("Dan"), member("Eva"));
    let general = id(&bea.channel("general").await);
    let all = messages(bea, &general).await;
    let answer = with_content(&all, "I do");
    assert_eq!(answer["author"]["id"], dan.id.as_str());
    assert_eq!(answer["mentions"][0]["id"], cem.id.as_str());
    assert_eq!(list(&answer, "/reactions/0/user_ids").len(), 2);
    assert_eq!(
        answer["thread_id"],
        with_content(&all, "Who deploys")["thread_id"]
    );
    let pins = bea.get(&format!("/v1/channels/{general}/pins")).await.ok();
    assert_eq!(pins["data"][0]["content"], "The rules: be kind");
    for person in &team {
        let own = bea.get(&format!("/v1/members/{}", person.id)).await.ok();
        assert_eq!(own["handle"], person.name.to_lowercase());
        let is_paid = ["Bea", "Eva"].contains(&person.name.as_str());
        assert_eq!(finds(person, "confidential").await, usize::from(is_paid));
        let had_lunch = ["Cem", "Dan"].contains(&person.name.as_str());
        assert_eq!(finds(person, "lunch").await, usize::from(had_lunch));
        let channels = person.get("/v1/channels").await.ok();
        for channel in list(&channels, "/data") {
            assert_eq!(number(&channel, "/unread_count"), 0, "{channel}");
        }
    }
    assert_eq!(finds(&ada, "confidential").await, 0, "not even the admin");

    // An agent knows the history of the thread in which it is asked, and nothing that is private.
    app.model.script("vibe", [Answer::text("Dan does.")]);
    let thread = text(&answer, "/thread_id");
    let task = cem.ask(&thread, "@vibe so, who deploys?").await;
    cem.completed(&task).await;
    let sent = app.model.requests()[0].turns().join("\n");
    for known in ["Who deploys on Monday?", "I do,", "so, who deploys?"] {
        assert!(sent.contains(known), "{known}: {sent}");
    }
    assert!(
        !sent.contains("confidential") && !sent.contains("Lunch"),
        "{sent}"
    );
    let contents = dan.contents(&thread).await;
    assert_eq!(contents.last().unwrap(), "Dan does.");
    assert_eq!(contents.len(), 4);

    // An alert arrives, and a bot deploys.
    let url = text(&hook, "/url");
    let path = &url[url.find("/hooks/").unwrap()..];
    let firing = json!({"version": "4", "groupKey": "disk", "status": "firing", "receiver": "ops", "groupLabels": {},
        "commonLabels": {"alertname": "Disk"}, "commonAnnotations": {}, "externalURL": "http://alerts.example",
        "alerts": [{"status": "firing", "labels": {"alertname": "Disk"}, "annotations": {"summary": "90 % used"}, "generatorURL": ""}]});
    let reply = visitor(&app.base).post(path, firing).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "ok"));
    eva.start(&ops, "@deploy please").await;
    let asked = server.events("deploy", 1).await[0].json();
    assert_eq!(asked["type"], "app_mention");
    let posted = program
        .post(
            "/api/chat.postMessage",
            json!({"channel": "#ops", "text": "*Deployed*"}),
        )
        .await
        .is(200);
    assert_eq!(posted["ok"], true, "{posted}");
    let run = json!({"channel_id": ops, "text": "web"});
    dan.post("/v1/commands/deploy", run).await.is(200);
    assert_eq!(threads(eva, &ops).await.len(), 4);
}
