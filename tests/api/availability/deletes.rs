//! Deletions of messages that are part of thousands of prompts.

use super::Bystander;
use crate::support::{TestApp, TestDatabase, id, list};

/// Number of tasks in addition to the real one, each with the record of a prompt with 50 messages.
const TASKS: i64 = 5_000;
const MESSAGES: usize = 50;
const DELETED: usize = 20;

/// Makes copies of the only task and its prompt record.
async fn copy_task(place: &TestDatabase, count: i64) {
    let new_id = if place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    let tasks = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) \
         insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, \
           conversation_id, trigger_message_id, requested_by, root_task_id, depth, attempt, retry_counts, holds_slot, input, queued_at) \
         select {new_id}, t.workspace_id, t.kind, t.status, t.agent_id, t.agent_version, t.channel_id, t.thread_id, \
           t.conversation_id, {new_id}, t.requested_by, t.root_task_id, t.depth, t.attempt, t.retry_counts, t.holds_slot, t.input, t.queued_at \
         from tasks t cross join n"
    );
    let records = "insert into task_contexts (task_id, manifest, attempts) select t.id, o.manifest, o.attempts \
                   from tasks t cross join task_contexts o \
                   where not exists (select 1 from task_contexts k where k.task_id = t.id)";
    let parts = "insert into context_parts (task_id, position, name, source_type, source_id, role, tokens, text_id) \
                 select t.id, p.position, p.name, p.source_type, p.source_id, p.role, p.tokens, p.text_id \
                 from tasks t cross join context_parts p \
                 where not exists (select 1 from context_parts k where k.task_id = t.id)";
    place.run(&[&tasks, records, parts]).await;
}

#[tokio::test]
async fn messages_in_5000_prompts_are_deleted_without_blocking_others() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let thread = ada.thread(&general, "Root").await;
    let mut messages = Vec::new();
    for n in 0..MESSAGES {
        let content = format!("message {n} {}", "word ".repeat(160));
        messages.push(ada.tell(&thread, &content).await);
    }
    let task = ada.ask(&thread, "@vibe sum up").await;
    ada.completed(&task).await;
    copy_task(&app.place, TASKS).await;
    // The text of a message is stored once, regardless of the number of prompts.
    let parts = app.place.count("context_parts").await;
    assert!(parts > TASKS * 50, "{parts}");
    let texts = app.place.count("context_texts").await;
    assert!(texts < 60, "{texts}");
    let mut bystander = Bystander::start(&app.base).await;
    bystander.rounds(1).await;
    for message in &messages[..DELETED] {
        ada.delete(&format!("/v1/messages/{message}")).await.is(200);
    }
    bystander.rounds(2).await;
    bystander.stop().await;
    // Each deletion changed only the row of the shared text.
    let taken_out = "context_texts where hash is null";
    assert_eq!(app.place.count(taken_out).await, 20);
    let tasks = format!("/v1/tasks?thread_id={thread}&limit=100");
    for task in list(&ada.get(&tasks).await.ok(), "/data").iter().take(5) {
        let seen = ada.task_context(&id(task)).await;
        let shown: Vec<(bool, bool)> = list(&seen, "/messages")
            .iter()
            .map(|m| (m["deleted"] == true, m["excerpt"] == "(deleted)"))
            .collect();
        // The prompt begins with the thread's root message, followed by the newest messages.
        assert_eq!(shown.len(), MESSAGES + 2);
        let (root, newest) = shown.split_first().unwrap();
        assert_eq!(*root, (false, false));
        assert!(newest[..DELETED].iter().all(|m| *m == (true, true)));
        assert!(newest[DELETED..].iter().all(|m| *m == (false, false)));
    }
}
