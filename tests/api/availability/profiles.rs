//! A base agent with many children.

use serde_json::json;

use super::Bystander;
use crate::support::{TestApp, id, text};

/// Number of children of the base; their long instructions are 75 MB in total.
const CHILDREN: usize = 300;
const INSTRUCTIONS_BYTES: usize = 250_000;

#[tokio::test]
async fn a_base_with_300_long_children_is_changed_without_blocking_others() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let ada = app.founder("Ada").await;
    let base = json!({"name": "base", "instructions": "Mind the tide."});
    let base = id(&ada.post("/v1/agents", base).await.is(201));
    let mut last = String::new();
    for n in 0..CHILDREN {
        let long = format!("Child {n}. {}", "word ".repeat(INSTRUCTIONS_BYTES / 5));
        let child =
            json!({"name": format!("child-{n}"), "instructions": long, "base_profile_id": base});
        last = id(&ada.post("/v1/agents", child).await.is(201));
    }
    let mut bystander = Bystander::start(&app.base).await;
    let path = format!("/v1/agents/{base}");
    let change = json!({"instructions": "Mind the ebb."});
    ada.patch(&path, change).await.is(200);
    // The last child is updated while the bystander keeps working.
    let follows = async {
        loop {
            let child = ada
                .get(&format!("/v1/agents/{last}?resolve=true"))
                .await
                .ok();
            if text(&child, "/instructions").starts_with("Mind the ebb.") {
                break;
            }
            bystander.rounds(1).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(5), follows)
        .await
        .expect("all children follow");
    bystander.stop().await;
}
