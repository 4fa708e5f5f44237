//! Trees of tasks: their tasks, costs, and visibility.

use serde_json::{Value, json};

use crate::support::{Answer, Gate, ModelsFile, Person, id, list, number, team, team_with, text};

async fn tree(by: &Person, task: &str) -> Value {
    by.get(&format!("/v1/tasks/{task}/tree")).await.ok()
}

fn links(tree: &Value) -> Vec<Value> {
    let mut tasks = list(tree, "/tasks");
    tasks.retain(|task| task["kind"] == "reply");
    tasks
}

#[tokio::test]
async fn a_tree_shows_its_tasks_and_what_they_used() {
    let t = team().await;
    t.model().offer(&["claude-sonnet-4-5", "tiny"]);
    let coder = format!("/v1/agents/{}", id(&t.ada.agent("coder").await));
    t.ada.patch(&coder, json!({"model": "tiny"})).await.is(200);
    let gate = Gate::new();
    t.model().script(
        "coder",
        [Answer::stream()
            .piece("A draft.")
            .finish("stop")
            .usage(100, 20)
            .done()],
    );
    t.model().script(
        "vibe",
        [Answer::stream()
            .piece("Better.")
            .wait(&gate)
            .finish("stop")
            .usage(200, 30)
            .done()],
    );
    let started = t.bo.start(&t.general, "@coder a → @vibe b").await;
    let (first, second) = (text(&started, "/tasks/0/id"), text(&started, "/tasks/1/id"));
    gate.reached().await;
    let during = tree(&t.bo, &second).await;
    assert_eq!(during["object"], "task_tree");
    assert_eq!(during["root_task_id"], json!(first));
    assert_eq!(during["status"], "running");
    gate.open();
    t.bo.completed(&second).await;
    let after = tree(&t.ada, &first).await;
    assert_eq!(after["status"], "completed");
    let found: Vec<String> = links(&after).iter().map(id).collect();
    assert_eq!(found, [first, second]);
    assert!(number(&after, "/spent/calls") >= 2, "{after}");
    assert!(number(&after, "/spent/input_tokens") >= 300, "{after}");
    assert!(number(&after, "/spent/output_tokens") >= 50, "{after}");
    assert!(number(&after, "/spent/run_ms") > 0, "{after}");
    let by_model = list(&after, "/spent/by_model");
    let models: Vec<String> = by_model.iter().map(|one| text(one, "/model")).collect();
    assert_eq!(models, ["claude-sonnet-4-5", "tiny"], "{after}");
    for counter in ["/input_tokens", "/output_tokens"] {
        let sum: i64 = by_model.iter().map(|one| number(one, counter)).sum();
        assert_eq!(sum, number(&after["spent"], counter), "{after}");
    }
    assert!(number(&by_model[1], "/input_tokens") >= 100, "{after}");
    let limits =
        json!({"calls": 120, "run_ms": 3_600_000, "tasks": 64, "depth": 5, "delegations": 5});
    assert_eq!(after["limits"], limits);
    assert_eq!(after["score"], 0);
}

#[tokio::test]
async fn a_task_alone_is_a_tree_of_its_own() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe hi").await;
    t.bo.completed(&task).await;
    let alone = tree(&t.bo, &task).await;
    assert_eq!(alone["root_task_id"], json!(task));
    assert_eq!(links(&alone).len(), 1);
    assert_eq!(alone["status"], "completed");
}

#[tokio::test]
async fn a_tree_ends_as_its_last_link_ended() {
    let t = team().await;
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let started = t.bo.start(&t.general, "@coder a → @vibe b").await;
    let second = text(&started, "/tasks/1/id");
    t.bo.failed(&second).await;
    assert_eq!(tree(&t.bo, &second).await["status"], "failed");
}

#[tokio::test]
async fn only_readers_of_the_conversation_see_the_tree() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let channel = t.bo.private_channel("plans", &[]).await;
    let started = t.bo.start(&channel, "@coder a → @vibe b").await;
    let (first, second) = (text(&started, "/tasks/0/id"), text(&started, "/tasks/1/id"));
    t.bo.completed(&second).await;
    let path = format!("/v1/tasks/{first}/tree");
    assert_eq!(t.ada.get(&path).await.refused(404), "task_not_found");
    let zoe = t.app.founder("Zoe").await;
    assert_eq!(zoe.get(&path).await.refused(404), "task_not_found");
    let cancel = format!("/v1/tasks/{first}/cancel");
    let form = json!({"scope": "tree"});
    t.ada.post(&cancel, form.clone()).await.refused(404);
    zoe.post(&cancel, form).await.refused(404);
}

#[tokio::test]
async fn a_task_in_a_hidden_conversation_shows_only_its_status() {
    let mut t = team().await;
    let channel = t.bo.private_channel("plans", &[]).await;
    let hidden = text(&t.bo.start(&channel, "@coder a").await, "/tasks/0/id");
    let shown = text(&t.bo.start(&t.general, "@vibe b").await, "/tasks/0/id");
    for task in [&hidden, &shown] {
        t.bo.completed(task).await;
    }
    t.app.stop().await;
    let set = "update tasks set parent_task_id = (select k.id from tasks k join channels h on h.id = k.channel_id \
               where h.kind = 'public' and k.kind = 'reply'), root_task_id = (select k.id from tasks k \
               join channels h on h.id = k.channel_id where h.kind = 'public' and k.kind = 'reply') \
               where kind = 'reply' and channel_id in (select id from channels where kind = 'private')";
    t.app.place.run(&[set]).await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    let tasks = list(&tree(&ada, &shown).await, "/tasks");
    let found = tasks.iter().find(|task| task["id"] == json!(hidden));
    assert_eq!(
        found,
        Some(&json!({"id": hidden, "status": "completed", "hidden": true}))
    );
    assert!(
        tasks
            .iter()
            .any(|task| task["id"] == json!(shown) && task["kind"] == "reply")
    );
    let bo = t.bo.at(&t.app.base);
    assert!(
        list(&tree(&bo, &shown).await, "/tasks")
            .iter()
            .all(|task| task["hidden"].is_null())
    );
}

#[tokio::test]
async fn costs_of_a_tree_follow_the_policy() {
    let file = ModelsFile::of("context_window = 200000\ninput_usd = 1.0\noutput_usd = 1.0\n");
    let t = team_with(&[("MODELS_FILE", file.path())]).await;
    let started = t.bo.start(&t.general, "@coder a → @vibe b").await;
    let second = text(&started, "/tasks/1/id");
    t.bo.completed(&second).await;
    assert!(tree(&t.bo, &second).await["spent"]["cost_usd"].is_number());
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let admins = json!({"show_costs": "admins"});
    t.ada.patch(&policy, admins).await.is(200);
    assert!(tree(&t.bo, &second).await["spent"]["cost_usd"].is_null());
    assert!(tree(&t.ada, &second).await["spent"]["cost_usd"].is_number());
}
