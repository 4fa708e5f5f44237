//! Deleted messages leave no copy in the work that agents did for them: briefs, answers, calls, runs, and replays.

use serde_json::{Value, json};

use crate::{
    collaboration,
    delegation::{delegate, delegating, lead_calls},
    replays::{asked, draft, started},
    run_faults::approve,
    runs::reaches,
    support::{Answer, Gate, Team, id, list, team, team_with, text, within},
    tools_loop::{actions, reader},
};

/// Word that is in every deleted message and in all briefs, calls, and answers, but in no reply.
const WORD: &str = "zebrafish";

/// Work of agents, and the message whose deletion must remove the work's texts.
struct Done {
    message: String,
    /// Paths of the responses that contain the texts.
    paths: Vec<String>,
}

fn tree_of(root: &str) -> String {
    format!("/v1/tasks/{root}/tree")
}

/// Work: an agent delegates to another one, which searches.
async fn delegated(t: &Team) -> Done {
    delegating(&t.ada, "lead", json!({})).await;
    reader(&t.ada, "finder", json!({})).await;
    let arguments = json!({"agent": "finder", "message": "Feed the zebrafish.", "facts": ["The zebrafish is hungry."],
        "constraints": ["Do not scare the zebrafish."], "output": "Weight of the zebrafish."});
    lead_calls(t, &[("delegate", arguments)]);
    let search = ("search_messages", json!({"query": WORD}));
    let looks = Answer::calls("Looking for the zebrafish.", &[search]);
    t.model()
        .script("finder", [looks, Answer::text("The zebrafish is fed.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let said = t.bo.say(&thread, "@lead feed the zebrafish").await;
    let root = t.bo.completed(&text(&said, "/tasks/0/id")).await;
    let found = actions(&t.bo, &root).await;
    let child = text(&found[0], "/child_task_id");
    Done {
        message: text(&said, "/message/id"),
        paths: vec![
            tree_of(&id(&root)),
            format!("/v1/tasks/{child}/context"),
            format!("/v1/actions?task_id={child}"),
        ],
    }
}

async fn chained(t: &Team) -> Done {
    let wish = "@vibe name the zebrafish → @coder weigh the zebrafish";
    let started = t.bo.start(&t.general, wish).await;
    t.bo.completed(&text(&started, "/tasks/1/id")).await;
    Done {
        message: text(&started, "/message/id"),
        paths: vec![tree_of(&text(&started, "/tasks/0/id"))],
    }
}

/// Work: two agents collaborate; the first one ends its turn with a summary, and the second one's turn fails.
async fn collaborated(t: &Team) -> Done {
    let agents = [
        id(&t.ada.agent("coder").await),
        id(&t.ada.agent("vibe").await),
    ];
    let done = ("done", json!({"summary": "The zebrafish is fed."}));
    t.model()
        .script("coder", [Answer::calls("Noted.", &[done])]);
    t.model().script("vibe", [Answer::status(400, "{}")]);
    let form = json!({"collaborators": agents, "goal": "Feed the zebrafish."});
    let begun = collaboration::start(&t.bo, &t.general, form).await;
    t.bo.failed(&begun.task).await;
    let turns = collaboration::children(&t.bo, &begun.task, "reply").await;
    Done {
        message: begun.goal,
        paths: vec![
            tree_of(&begun.task),
            format!("/v1/actions?task_id={}", id(&turns[0])),
        ],
    }
}

/// Work: a message starts a run with an answer, and with a condition and an approval that use it.
async fn run_through(t: &Team) -> Done {
    let channel = t.bo.post("/v1/channels", json!({"name": "fish"})).await;
    let channel = id(&channel.is(201));
    let steps = json!([
        {"id": "ask", "kind": "agent", "prompt": "Feed it: {{message}}"},
        {"id": "judge", "kind": "condition", "value": "{{steps.ask.output}}", "op": "model_says", "with": "Is it fed?",
            "then": "gate", "else": "end"},
        {"id": "gate", "kind": "approval", "text": "{{message}} {{steps.ask.output}}", "who": "requester"},
        {"id": "post", "kind": "output", "content": "Done: {{steps.judge.output}}"},
    ]);
    let form = json!({"name": "feed", "on_message": {"channel_id": channel}, "steps": steps});
    t.bo.post("/v1/workflows", form).await.is(201);
    t.model()
        .script("vibe", [Answer::text("The zebrafish is fed.")]);
    t.model().script("condition", [Answer::text("Yes.")]);
    let started = t.bo.start(&channel, "The zebrafish is hungry.").await;
    let run = id(&t.bo.every("/v1/runs").await[0]);
    let waiting = reaches(&t.bo, &run, "waiting").await;
    let action = text(&waiting, "/steps/2/action_id");
    approve(&t.bo, &action).await.unwrap();
    let done = reaches(&t.bo, &run, "completed").await;
    Done {
        message: text(&started, "/message/id"),
        paths: vec![
            format!("/v1/runs/{run}"),
            tree_of(&text(&done, "/root_task_id")),
            format!("/v1/actions/{action}"),
        ],
    }
}

async fn replayed(t: &Team) -> Done {
    let sage = t.ada.make_agent("sage").await;
    let answers = ["Noted.", "The zebrafish is fed."];
    t.model().script("sage", answers.map(Answer::text));
    let (message, _) = asked(&t.bo, &t.general, "feed the zebrafish").await;
    let replay = started(&t.bo, &sage, draft()).await;
    t.bo.completed(&replay).await;
    Done {
        message,
        paths: vec![format!("/v1/tasks/{replay}/replay")],
    }
}

async fn delete(t: &Team, message: &str) {
    let path = format!("/v1/messages/{message}");
    t.bo.delete(&path).await.is(200);
}

/// Waits until the database no longer contains the word.
async fn gone(t: &Team) {
    within("the word to be gone", async {
        while !t.app.place.places_of(WORD).await.is_empty() {
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn deleted_messages_leave_no_copy_in_the_work_of_agents() {
    let t = team_with(&[("RATE_LIMITS", "off"), ("COMPACTION", "off")]).await;
    let all = [
        delegated(&t).await,
        chained(&t).await,
        collaborated(&t).await,
        run_through(&t).await,
        replayed(&t).await,
    ];
    for path in all.iter().flat_map(|done| &done.paths) {
        let seen = t.bo.get(path).await;
        assert!(seen.text.contains(WORD), "{path}: {}", seen.text);
    }
    for done in &all {
        delete(&t, &done.message).await;
    }
    for path in all.iter().flat_map(|done| &done.paths) {
        let seen = t.bo.get(path).await;
        assert_eq!(seen.status, 200, "{path}");
        assert!(!seen.text.contains(WORD), "{path}: {}", seen.text);
    }
    gone(&t).await;
}

/// An answer that contains the word and waits for the gate.
fn late(gate: &Gate) -> Answer {
    let answer = Answer::stream().wait(gate);
    answer.piece("The zebrafish is fed.").end()
}

#[tokio::test]
async fn the_answer_of_an_asked_agent_is_not_kept_if_a_message_is_deleted_during_the_call() {
    let t = team().await;
    delegating(&t.ada, "lead", json!({"context": "conversation"})).await;
    lead_calls(&t, &[delegate("coder", "Draft it.")]);
    let gate = Gate::new();
    t.model().script("coder", [late(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let message = t.bo.tell(&thread, "Feed the zebrafish.").await;
    let task = t.bo.ask(&thread, "@lead write").await;
    gate.reached().await;
    delete(&t, &message).await;
    gate.open();
    let task = t.bo.completed(&task).await;
    let found = actions(&t.bo, &task).await;
    assert_eq!(found[0]["error"], "not_found");
    let results = t.model().asked("lead", 2).await[1].results();
    assert!(
        results[0].contains("The answer was removed."),
        "{results:?}"
    );
    gone(&t).await;
}

#[tokio::test]
async fn the_answer_in_a_run_is_not_kept_if_a_message_is_deleted_during_the_call() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script("vibe", [late(&gate)]);
    let steps = json!([
        {"id": "ask", "kind": "agent", "prompt": "Feed it: {{message}}"},
        {"id": "post", "kind": "output", "content": "{{steps.ask.output}}"},
    ]);
    let form = json!({"name": "feed", "on_message": {"channel_id": t.general}, "steps": steps});
    t.bo.post("/v1/workflows", form).await.is(201);
    let started = t.bo.start(&t.general, "The zebrafish is hungry.").await;
    let run = id(&t.bo.every("/v1/runs").await[0]);
    gate.reached().await;
    delete(&t, &text(&started, "/message/id")).await;
    gate.open();
    let steps = list(&reaches(&t.bo, &run, "failed").await, "/steps");
    assert_eq!(
        (&steps[0]["error"], &steps[0]["output"]),
        (&json!("its answer was deleted"), &Value::Null)
    );
    gone(&t).await;
}
