//! Models that never finish their reply.

use super::Bystander;
use crate::support::{Answer, TestApp, id, text};

const REPLY_BYTES_MAX: usize = 256 * 1024;

#[tokio::test]
async fn an_endless_reply_is_cut_and_canceled_without_blocking_others() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let general = id(&ada.channel("general").await);
    let mut bystander = Bystander::start(&app.base).await;
    let sentence = format!("{}\n", "word ".repeat(200));
    let endless = (0..=REPLY_BYTES_MAX / sentence.len())
        .fold(Answer::stream(), |answer, _| answer.piece(&sentence))
        .silence();
    app.model.script("vibe", (0..4).map(|_| endless.clone()));
    let mut tasks = Vec::new();
    for n in 0..4 {
        let started = ada.start(&general, &format!("@vibe never stop {n}")).await;
        tasks.push(text(&started, "/tasks/0/id"));
    }
    bystander.rounds(3).await;
    for task in tasks {
        let task = ada.completed(&task).await;
        let reply = ada.message(&text(&task, "/output/message_id")).await;
        let length = text(&reply, "/content").len();
        assert!(
            (REPLY_BYTES_MAX - sentence.len()..=REPLY_BYTES_MAX).contains(&length),
            "{length}"
        );
        assert_eq!(reply["metadata"]["truncated"], true);
    }
    app.model.given_up(4).await;
    bystander.stop().await;
}
