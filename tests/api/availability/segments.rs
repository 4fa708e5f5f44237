//! Replies in a long thread whose messages are almost all summarized in segments.

use super::{Bystander, copy_message};
use crate::{
    compaction::{answered, sage_team_open},
    support::{number, text},
};

const MESSAGES: i64 = 15_000;

#[tokio::test]
async fn replies_in_a_thread_with_thousands_of_segments_do_not_delay_others() {
    let t = sage_team_open().await;
    let thread = text(&t.ada.start(&t.general, "Copied").await, "/thread/id");
    answered(&t.ada, &thread, "@sage hello").await;
    copy_message(&t.app.place, MESSAGES).await;
    let new_id = if t.app.place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    // Only the first messages are not part of a segment, so a search for unsummarized messages reads past all segments.
    let segments = format!(
        "insert into compactions (id, workspace_id, conversation_id, thread_id, trigger, state, from_seq, to_seq, from_message_id, to_message_id, \
           message_count, tokens_before, tokens_after, agents, gist, left_out, model, task_id, created_by, created_at, version) \
         select {new_id}, m.workspace_id, m.conversation_id, m.thread_id, 'auto', 'active', m.seq, m.seq, m.id, m.id, 1, 1, 1, '[]', 'Copied.', '{{}}', \
           'offline', {new_id}, m.author_id, m.created_at, 1 \
         from messages m join threads t on t.id = m.thread_id where m.content = 'Copied' and m.id <> t.root_message_id"
    );
    t.app.place.run(&[&segments]).await;
    let mut bystander = Bystander::start(&t.app.base).await;
    for _ in 0..3 {
        let task = answered(&t.ada, &thread, "@sage and now?").await;
        let task = t.ada.get(&format!("/v1/tasks/{task}")).await.ok();
        assert_eq!(number(&task, "/attempt"), 1, "{task}");
    }
    bystander.rounds(1).await;
    bystander.stop().await;
}
