//! An import of an archive, and undoing it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{POLL, Stage, Work, get, kills};
use crate::{
    faults::prepared,
    imports::{sums, zipped},
    support::{Person, id, list, number, text},
};

/// Messages of each of the three days.
const PER_DAY: usize = 60;
const SETTINGS: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

/// Import of a generated archive, whose source is the name of the work.
struct Importing;

fn archive(name: &str) -> Vec<u8> {
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
    /// Uploads the archive as a whole; `None` if the server has crashed.
    async fn upload(ada: &Person, name: &str) -> Option<()> {
        let made = ada.try_post("/v1/imports", json!({})).await?;
        let import = id(&made.is(201));
        let archive = archive(name);
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
    fn find(imports: &Value, name: &str) -> Option<Value> {
        let source = format!("slack:{name}");
        let mut imports = list(imports, "/data").into_iter();
        imports.find(|import| import["source"] == source.as_str())
    }
}

impl Work for Importing {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        loop {
            let all = get(ada, "/v1/imports").await?;
            let Some(import) = Self::find(&all, name) else {
                let is_read = list(&all, "/data")
                    .iter()
                    .any(|import| import["state"] == "reading");
                if is_read {
                    tokio::time::sleep(POLL).await;
                } else {
                    Self::upload(ada, name).await?;
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
        let import = Self::find(&imports, name).unwrap();
        let path = format!("/v1/imports/{}", id(&import));
        let report = ada.get(&format!("{path}/report")).await.ok();
        sums(&report);
        let all = i64::try_from(3 * PER_DAY).unwrap();
        for (kind, imported) in [
            ("people", 2),
            ("channels", 2),
            ("messages", all),
            ("files", 3),
        ] {
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

#[tokio::test]
async fn kills_during_an_import_lose_and_repeat_nothing() {
    let p = prepared().await;
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.kill_during(&Importing, kills()).await;
}
