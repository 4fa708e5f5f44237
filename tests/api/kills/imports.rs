//! An import of an archive, and undoing it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{POLL, Stage, Work, get, kills};
use crate::{
    faults::prepared,
    imports::{json_lines, sums, zipped},
    support::{Person, id, list, number, text},
};

/// Messages of each of the three days.
const PER_DAY: usize = 60;
const SETTINGS: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

/// Number of deep dives of the thread of an export of this program, and of messages of each.
const DIVES: usize = 3;
const PER_DIVE: usize = 40;

/// Import of a generated archive, whose source is the name of the work.
#[derive(Clone, Copy)]
enum Importing {
    Slack,
    /// Deep dives with results.
    OpenVibe,
}

/// An export of this program with one thread, whose first message is followed by a result for each of its deep dives.
fn dives(name: &str) -> Vec<u8> {
    let at = |n: usize| format!("2025-05-03T10:{:02}:{:02}.000Z", n / 60, n % 60);
    let message = |key: String, n: usize, fork: Option<String>| {
        let root = fork
            .is_none()
            .then(|| json!({"id": "m0", "created_at": at(0), "title": null}));
        json!({"id": key, "kind": "text", "content": key, "created_at": at(n), "fork_id": fork, "root": root,
            "author": {"type": "human", "id": "u1", "name": format!("U1 of {name}")}})
    };
    let (mut main, mut said) = (vec![message("m0".to_owned(), 0, None)], Vec::new());
    let (mut forks, mut results, mut items) = (Vec::new(), Vec::new(), Vec::new());
    for dive in 0..DIVES {
        let fork = format!("f{dive}");
        forks.push(json!({"id": fork, "channel_id": "c1", "message_id": "m0", "title": fork, "status": "resolved", "created_by": "u1",
            "context": "thread", "created_at": at(1), "resolved_at": at(900)}));
        for n in 0..PER_DIVE {
            said.push(message(format!("{dive}-{n}"), n + 2, Some(fork.clone())));
        }
        main.push(message(format!("r{dive}"), 900 + dive, None));
        let (source, item) = (format!("{dive}-{}", PER_DIVE - 1), format!("i{dive}"));
        let todo =
            json!({"id": item, "text": "Pay", "owner_id": "u1", "done": true, "sources": [source]});
        results.push(json!({"id": format!("r{dive}"), "channel_id": "c1", "fork_id": fork, "version": 1, "status": "published",
            "headline": format!("Result {dive}"), "key_points": [{"text": "Point", "sources": [source, "m0"]}], "action_items": [todo],
            "message_id": format!("r{dive}"), "created_at": at(900), "updated_at": at(900)}));
        items.push(json!({"id": item, "resolution_id": format!("r{dive}"), "channel_id": "c1", "done_by": "u1", "done_at": at(901),
            "created_at": at(900)}));
    }
    let manifest = json!({"format": "openvibe", "version": 1, "workspace": {"id": name}});
    let channel = json!({"id": "c1", "kind": "public", "name": format!("all-{name}"), "created_at": at(0), "member_ids": []});
    zipped(&[
        ("manifest.json", json_lines(&[manifest])),
        ("channels.jsonl", json_lines(&[channel])),
        ("forks.jsonl", json_lines(&forks)),
        ("resolutions.jsonl", json_lines(&results)),
        ("action_items.jsonl", json_lines(&items)),
        ("messages/c1/2025-05.jsonl", json_lines(&main)),
        ("messages/c1/deep-dives/2025-05.jsonl", json_lines(&said)),
    ])
}

fn slack(name: &str) -> Vec<u8> {
    let user = |key: &str| json!({"id": key, "team_id": name, "profile": {"real_name": format!("{key} of {name}")}});
    let users = json!([user("U1"), user("U2")]);
    let channel = |key: &str, title: String| json!({"id": key, "name": title, "created": 1_600_000_000, "members": ["U1", "U2"]});
    let channels = json!([channel("C1", format!("all-{name}"))]);
    let groups = json!([channel("G1", format!("few-{name}"))]);
    let mut entries = vec![
        ("users.json".to_owned(), users),
        ("channels.json".to_owned(), channels),
        ("groups.json".to_owned(), groups),
    ];
    for day in 1..=3 {
        let root = format!("16200{day}0000.000000");
        let messages: Vec<Value> = (0..PER_DAY)
            .map(|n| {
                let ts = format!("16200{day}{n:04}.000000");
                json!({"type": "message", "user": if n % 2 == 0 { "U1" } else { "U2" }, "ts": ts, "text": format!("{day}-{n}"),
                    "thread_ts": root, "files": if n == 1 { json!([{"id": format!("F{day}"), "name": "a.txt"}]) } else { json!([]) }})
            })
            .collect();
        entries.push((format!("all-{name}/2021-05-0{day}.json"), json!(messages)));
        entries.push((
            format!("__uploads/F{day}/a.txt"),
            json!(format!("{name} {day}")),
        ));
    }
    let entries: Vec<(&str, Vec<u8>)> = entries
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_string().into_bytes()))
        .collect();
    zipped(&entries)
}

impl Importing {
    fn archive(self, name: &str) -> Vec<u8> {
        match self {
            Self::Slack => slack(name),
            Self::OpenVibe => dives(name),
        }
    }

    /// Uploads the archive as a whole; `None` if the server has crashed.
    async fn upload(self, ada: &Person, name: &str) -> Option<()> {
        let made = ada.try_post("/v1/imports", json!({})).await?;
        let import = id(&made.is(201));
        let archive = self.archive(name);
        let total = archive.len();
        let range = format!("bytes 0-{}/{total}", total - 1);
        let headers = [
            ("content-range", range.as_str()),
            ("content-type", "application/octet-stream"),
        ];
        let path = format!("/v1/imports/{import}/archive");
        ada.try_send(Method::PUT, &path, &headers, Some(archive))
            .await?;
        Some(())
    }

    async fn act(ada: &Person, path: &str) -> Option<()> {
        ada.try_send(Method::POST, path, &[], None).await?;
        Some(())
    }

    /// The import of this name that has been read, if any.
    fn find(self, imports: &Value, name: &str) -> Option<Value> {
        let source = match self {
            Self::Slack => format!("slack:{name}"),
            Self::OpenVibe => format!("openvibe:{name}"),
        };
        let mut imports = list(imports, "/data").into_iter();
        imports.find(|import| import["source"] == source.as_str())
    }
}

impl Work for Importing {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        loop {
            let all = get(ada, "/v1/imports").await?;
            let Some(import) = self.find(&all, name) else {
                let is_read = list(&all, "/data")
                    .iter()
                    .any(|import| import["state"] == "reading");
                if is_read {
                    tokio::time::sleep(POLL).await;
                } else {
                    self.upload(ada, name).await?;
                }
                continue;
            };
            let path = format!("/v1/imports/{}", id(&import));
            match text(&import, "/state").as_str() {
                "ready" => Self::act(ada, &format!("{path}/start")).await?,
                "running" => tokio::time::sleep(POLL).await,
                "done" => return Some(()),
                other => panic!("{name}: the import is {other}: {import}"),
            }
        }
    }

    async fn check(&self, ada: &Person, name: &str) {
        let imports = ada.get("/v1/imports").await.ok();
        let import = self.find(&imports, name).unwrap();
        let path = format!("/v1/imports/{}", id(&import));
        let report = ada.get(&format!("{path}/report")).await.ok();
        sums(&report);
        let count = |n: usize| i64::try_from(n).unwrap();
        let all = count(3 * PER_DAY);
        let expected = match self {
            Self::Slack => vec![
                ("people", 2),
                ("channels", 2),
                ("messages", all),
                ("files", 3),
            ],
            Self::OpenVibe => vec![
                ("channels", 1),
                ("messages", count(1 + DIVES + DIVES * PER_DIVE)),
                ("forks", count(DIVES)),
                ("resolutions", count(DIVES)),
                ("action_items", count(DIVES)),
            ],
        };
        for (kind, imported) in expected {
            let n = &report["kinds"][kind];
            assert_eq!(
                (number(n, "/read"), number(n, "/imported")),
                (imported, imported),
                "{name}: {kind}: {report}"
            );
        }
        let channels = ada.get("/v1/channels").await.ok();
        let channels = list(&channels, "/data");
        let channel = channels
            .iter()
            .find(|channel| channel["name"] == format!("all-{name}"));
        let channel = id(channel.unwrap());
        let threads = ada.every(&format!("/v1/channels/{channel}/threads")).await;
        if matches!(self, Self::OpenVibe) {
            return check_dives(ada, name, &threads).await;
        }
        assert_eq!(threads.len(), 3, "{name}: {threads:?}");
        for thread in threads {
            assert_eq!(number(&thread, "/reply_count"), all / 3 - 1, "{name}");
            let contents = ada.contents(&id(&thread)).await;
            let day = contents[0].split('-').next().unwrap().to_owned();
            let expected: Vec<String> = (0..PER_DAY).map(|n| format!("{day}-{n}")).collect();
            assert_eq!(contents, expected, "{name}");
        }
    }
}

/// Checks that each deep dive has each of its messages once, and its result.
async fn check_dives(ada: &Person, name: &str, threads: &[Value]) {
    assert_eq!(threads.len(), 1, "{name}: {threads:?}");
    let thread = id(&threads[0]);
    assert_eq!(ada.messages(&thread).await.len(), 1 + DIVES, "{name}");
    let forks = ada.every(&format!("/v1/threads/{thread}/forks")).await;
    assert_eq!(forks.len(), DIVES, "{name}: {forks:?}");
    for fork in forks {
        let dive = text(&fork, "/title").trim_start_matches('f').to_owned();
        let said = ada.messages_in(&id(&fork)).await;
        let contents: Vec<String> = said.iter().map(|one| text(one, "/content")).collect();
        let expected: Vec<String> = (0..PER_DIVE).map(|n| format!("{dive}-{n}")).collect();
        assert_eq!(contents, expected, "{name}");
        assert_eq!(fork["message_count"], PER_DIVE, "{name}");
        let result = ada.resolution(&id(&fork)).await;
        let newest = &said[PER_DIVE - 1]["id"];
        let sources = &result["key_points"][0]["sources"];
        assert_eq!(*sources, json!([newest, fork["message_id"]]), "{name}");
        let items = list(&result, "/action_items");
        assert_eq!(items.len(), 1, "{name}: {items:?}");
        assert_eq!(items[0]["sources"], json!([newest]), "{name}");
    }
}

#[tokio::test]
async fn kills_during_an_import_lose_and_repeat_nothing() {
    let p = prepared().await;
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.kill_during(&Importing::Slack, kills()).await;
}

#[tokio::test]
async fn kills_during_an_import_of_deep_dives_lose_and_repeat_nothing() {
    let p = prepared().await;
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.kill_during(&Importing::OpenVibe, kills()).await;
}
