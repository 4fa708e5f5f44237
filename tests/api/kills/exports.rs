//! An export of the workspace.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::{POLL, Stage, Work, get, kills, post};
use crate::{
    exports::{entries, lines},
    faults::prepared,
    support::{Person, id, list, number, text},
};

/// Number of messages besides the first one.
const MESSAGES: usize = 20;
const SETTINGS: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

/// Exports by the name of the work.
#[derive(Default)]
struct Exporting(Mutex<BTreeMap<String, String>>);

impl Exporting {
    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<String> {
        self.known().get(name).cloned()
    }
}

impl Work for Exporting {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        let export = if let Some(export) = self.find(name) {
            export
        } else {
            let made = post(ada, "/v1/exports", json!({})).await?;
            self.known().insert(name.to_owned(), id(&made));
            id(&made)
        };
        loop {
            let export = get(ada, &format!("/v1/exports/{export}")).await?;
            match text(&export, "/state").as_str() {
                "running" => tokio::time::sleep(POLL).await,
                "done" => return Some(()),
                other => panic!("{name}: the export is {other}: {export}"),
            }
        }
    }

    async fn check(&self, ada: &Person, name: &str) {
        let export = self.find(name).unwrap();
        let path = format!("/v1/exports/{export}/file");
        let archive = ada.stream(&path).await.bytes().await.unwrap();
        // No entry is there twice.
        let entries = entries(&archive);
        let mut said: Vec<String> = lines(&entries, "messages/")
            .iter()
            .map(|message| text(message, "/content"))
            .collect();
        said.sort();
        said.dedup();
        assert_eq!(said.len(), MESSAGES + 1, "{name}: {said:?}");
        let manifest: Value = serde_json::from_slice(&entries["manifest.json"]).unwrap();
        let count = usize::try_from(number(&manifest, "/counts/messages")).unwrap();
        assert_eq!(count, MESSAGES + 1, "{name}: {manifest}");
        assert_eq!(list(&manifest, "/entries").len(), entries.len() - 1);
    }
}

#[tokio::test]
async fn kills_during_an_export_lose_and_repeat_nothing() {
    let p = prepared().await;
    let (server, ada) = p.start(&SETTINGS).await;
    for n in 0..MESSAGES {
        ada.tell(&p.thread, &format!("Message {n}")).await;
    }
    server.kill().await;
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.kill_during(&Exporting::default(), kills()).await;
}
