//! Paged lists return the same rows in the same order in both directions.

use serde_json::{Value, json};

use crate::support::{Team, id, list, team, text, unknown_id};

/// Every list in creation order that an admin can read, with at least three rows each, and the ID type of its cursor.
async fn lists(t: &Team) -> Vec<(String, &'static str)> {
    for n in 0..3 {
        t.app.join(&t.ada, &format!("P{n}"), "member").await;
        t.ada
            .post("/v1/channels", json!({"name": format!("c{n}")}))
            .await
            .is(201);
        t.ada.make_key(&["chat:read"]).await;
        t.ada.log_in().await;
    }
    let thread = t.ada.thread(&t.general, "@vibe one").await;
    t.ada.say(&thread, "@vibe two").await;
    t.ada.say(&thread, "@vibe three").await;
    let root = id(&t.ada.messages(&thread).await[0]);
    let mut fork = String::new();
    for _ in 0..3 {
        let made = t.ada.start_fork(&thread, &root, json!({"agent_id": null}));
        fork = id(&made.await);
        t.ada.say_in(&fork, "Said").await;
    }
    for n in 0..3 {
        t.ada.reopen(&fork).await;
        t.ada.say_in(&fork, "Said").await;
        let items = json!([{"text": "One"}, {"text": "Two"}, {"text": "Three"}]);
        let content = json!({"headline": n.to_string(), "action_items": items});
        t.ada.publish_as(&fork, content).await;
    }
    vec![
        ("/v1/channels".to_owned(), "chan"),
        ("/v1/members".to_owned(), "user"),
        ("/v1/agents".to_owned(), "agent"),
        ("/v1/tasks".to_owned(), "task"),
        ("/v1/invites".to_owned(), "inv"),
        ("/v1/api-keys".to_owned(), "key"),
        ("/v1/auth/sessions".to_owned(), "sess"),
        (format!("/v1/channels/{}/members", t.general), "user"),
        (format!("/v1/threads/{thread}/messages"), "msg"),
        (format!("/v1/threads/{thread}/forks"), "fork"),
        (format!("/v1/forks/{fork}/messages"), "msg"),
        (format!("/v1/forks/{fork}/resolutions"), "res"),
        ("/v1/action-items".to_owned(), "item"),
    ]
}

fn row_id(row: &Value) -> String {
    row["id"]
        .as_str()
        .map_or_else(|| text(row, "/user_id"), str::to_owned)
}

#[tokio::test]
async fn a_list_is_consistent_across_pages_in_each_direction() {
    let t = team().await;
    for (path, _) in lists(&t).await {
        let whole = t.ada.get(&format!("{path}?limit=100")).await.ok();
        assert_eq!(whole["has_more"], false, "{path}");
        let whole: Vec<String> = list(&whole, "/data").iter().map(row_id).collect();
        assert!(whole.len() >= 3, "{path}");
        for (direction, limit) in [("after", 1), ("after", 2), ("before", 1), ("before", 2)] {
            let mut seen: Vec<String> = Vec::new();
            // `after` begins with the first row's ID, and `before` with the last row's ID.
            let forward = direction == "after";
            let mut cursor = if forward {
                whole[0].clone()
            } else {
                whole[whole.len() - 1].clone()
            };
            loop {
                let page = t
                    .ada
                    .get(&format!("{path}?limit={limit}&{direction}={cursor}"))
                    .await
                    .ok();
                let rows: Vec<String> = list(&page, "/data").iter().map(row_id).collect();
                assert!(rows.len() <= limit, "{path} {direction}");
                if page["has_more"] == true {
                    assert_eq!(rows.len(), limit, "{path} {direction}");
                    let next = if forward { "/last_id" } else { "/first_id" };
                    cursor = text(&page, next);
                }
                if forward {
                    seen.extend(rows);
                } else {
                    seen.splice(0..0, rows);
                }
                if page["has_more"] == false {
                    break;
                }
            }
            let expected = if forward {
                &whole[1..]
            } else {
                &whole[..whole.len() - 1]
            };
            assert_eq!(seen, expected, "{path} {direction} by {limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_that_is_not_in_the_list_is_not_found() {
    let t = team().await;
    for (path, prefix) in lists(&t).await {
        for direction in ["after", "before"] {
            let unknown = format!("{path}?{direction}={}", unknown_id(prefix));
            assert_eq!(t.ada.get(&unknown).await.status, 404, "{unknown}");
            let malformed = format!("{path}?{direction}=nonsense");
            assert_eq!(t.ada.get(&malformed).await.status, 400, "{malformed}");
        }
    }
}

#[tokio::test]
async fn a_list_without_rows_has_null_cursors() {
    let t = team().await;
    let empty = t.ada.get("/v1/tasks").await.ok();
    assert_eq!(
        empty,
        json!({"object": "list", "data": [], "has_more": false, "first_id": null, "last_id": null})
    );
}

#[tokio::test]
async fn a_page_has_twenty_rows_by_default() {
    let t = team().await;
    for n in 0..21 {
        t.ada
            .post("/v1/channels", json!({"name": format!("c{n}")}))
            .await
            .is(201);
    }
    let page = t.ada.get("/v1/channels").await.ok();
    assert_eq!(
        (list(&page, "/data").len(), &page["has_more"]),
        (20, &json!(true))
    );
    assert_eq!(id(&list(&page, "/data")[0]), text(&page, "/first_id"));
    let thread = t.ada.thread(&t.general, "0").await;
    for n in 1..51 {
        t.ada.say(&thread, &n.to_string()).await;
    }
    let page = t
        .ada
        .get(&format!("/v1/threads/{thread}/messages"))
        .await
        .ok();
    assert_eq!(
        (list(&page, "/data").len(), &page["has_more"]),
        (50, &json!(true))
    );
}
