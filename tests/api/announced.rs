//! Replies that announce a delegation without making it: each announced delegation is made, and texts that only resemble an
//! announcement do not cause another round.

use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::{
    delegation::{delegate, delegating},
    generated_trees::{CASE, case_of},
    support::{Answer, Request, Team, team_with, text},
};

/// Number of concurrent questions.
const AT_ONCE: usize = 10;
const REMINDER: &str = "You said that you would ask Coder, but you did not call delegate.";

#[derive(Deserialize)]
struct Corpus {
    announced: Vec<String>,
    others: Vec<String>,
}

/// Replies with the text of the request's case. When reminded of its announcement, it delegates and then ends the reply.
fn lead(texts: &[String], request: &Request) -> Answer {
    let case = case_of(request);
    if !request.rounds().is_empty() {
        return Answer::text("That is all.");
    }
    if request.all().contains(REMINDER) {
        return Answer::calls("", &[delegate("coder", &format!("{CASE}{case}: do it."))]);
    }
    Answer::text(&texts[case])
}

/// Asks a question in a new thread; returns the thread.
async fn ask(t: &Team, case: usize) -> String {
    let content = format!("@lead {CASE}{case}: go on.");
    let started = t.bo.start(&t.general, &content).await;
    text(&started, "/thread/id")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_announced_delegation_is_made_and_no_near_miss_costs_a_round() {
    let corpus: Corpus =
        serde_json::from_str(include_str!("../corpus/announcements.json")).unwrap();
    let announced = corpus.announced.len();
    assert_eq!((announced, corpus.others.len()), (30, 30));
    let texts = [corpus.announced, corpus.others].concat();
    let t = team_with(&[("RATE_LIMITS", "off"), ("COMPACTION", "off")]).await;
    delegating(&t.ada, "lead", json!({})).await;
    let said = texts.clone();
    t.model()
        .answer_by("lead", move |request| lead(&said, request));
    let mut threads = Vec::new();
    for batch in (0..texts.len()).collect::<Vec<_>>().chunks(AT_ONCE) {
        threads.extend(join_all(batch.iter().map(|case| ask(&t, *case))).await);
        t.settled().await;
    }
    let requests = t.model().requests();
    let count = |speaker: &str, case: usize| {
        let own = |request: &&Request| request.speaker == speaker && case_of(request) == case;
        requests.iter().filter(own).count()
    };
    for (case, said) in texts.iter().enumerate() {
        let contents = t.bo.contents(&threads[case]).await;
        assert_eq!(contents.len(), 2, "{said}: {contents:?}");
        let is_announced = case < announced;
        let expected = if is_announced { (3, 1) } else { (1, 0) };
        let found = (count("lead", case), count("coder", case));
        assert_eq!(found, expected, "{said}");
        if is_announced {
            let reply = &contents[1];
            assert!(reply.starts_with(said.as_str()), "{reply}");
            assert!(reply.ends_with("That is all."), "{reply}");
        }
    }
    assert_eq!(t.app.place.count("actions").await, 30);
}
