//! The loop guard: agents that repeat themselves are stopped, and people can let them continue.

use serde_json::{Value, json};

use crate::{
    collaboration::{pair, start, state},
    delegation::{asked, delegate, errors, lead_calls, lead_team},
    support::{Answer, Gate, Team, id, team, within},
    tools_loop::actions,
};

/// Scripts the model so that `coder` and `reviewer` each write the same text in this number of turns.
fn repeat(t: &Team, coder: usize, reviewer: usize) {
    for (agent, text, count) in [
        ("coder", "It is ready.", coder),
        ("reviewer", "I agree with it.", reviewer),
    ] {
        let answers = (0..count).map(|_| Answer::text(text));
        t.model().script(agent, answers);
    }
}

#[tokio::test]
async fn a_stopped_collaboration_goes_on_with_a_higher_limit() {
    let t = team().await;
    repeat(&t, 2, 2);
    let started = pair(&t, json!({"turns_max": 5})).await;
    assert_eq!(t.bo.failed(&started.task).await.1, "loop");
    assert_eq!(state(&t.bo, &started.fork).await, ("failed".to_owned(), 4));
    let path = format!("/v1/tasks/{}/retry", started.task);
    for wrong in [3, 9] {
        let refused = t.bo.post(&path, json!({"guard": wrong})).await;
        assert_eq!(refused.json()["error"]["param"], "guard");
        assert_eq!(refused.refused(422), "invalid_value");
    }
    repeat(&t, 3, 2);
    let again = t.bo.post(&path, json!({"guard": 8})).await.is(201);
    let mut expected = t.bo.task(&started.task).await["input"]["options"].clone();
    expected["guard"] = Value::from(8);
    assert_eq!(again["input"]["options"], expected);
    t.bo.completed(&id(&again)).await;
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 5));
}

#[tokio::test]
async fn the_name_of_an_unknown_agent_is_deleted_with_the_request() {
    let t = lead_team().await;
    let long = "Zebra ".repeat(2_000);
    lead_calls(
        &t,
        &[delegate("zebra-quagga", "Go."), delegate(&long, "Go.")],
    );
    let (thread, task) = asked(&t, "@lead ask around").await;
    let found = actions(&t.bo, &task).await;
    assert_eq!(errors(&found), json!(["not_found", "bad_arguments"]));
    let trigger = id(&t.bo.messages(&thread).await[1]);
    t.bo.delete(&format!("/v1/messages/{trigger}"))
        .await
        .is(200);
    for needle in ["zebra-quagga", "zebra quagga", "Zebra Zebra"] {
        let gone = async {
            while !t.app.place.places_of(needle).await.is_empty() {
                crate::support::pause().await;
            }
        };
        within(needle, gone).await;
    }
}

/// Number of delegations and turns that the guard keeps to compare new ones with.
async fn compared(t: &Team) -> i64 {
    let mut c = t.app.db().read().await.unwrap();
    c.q("select (select count(*) from tree_delegations) + (select count(*) from tree_turns)")
        .value()
        .await
        .unwrap()
}

#[tokio::test]
async fn the_guard_forgets_a_tree_that_has_ended() {
    let t = lead_team().await;
    for stops in [false, true] {
        let gate = Gate::new();
        lead_calls(&t, &[delegate("coder", "Draft it.")]);
        t.model()
            .script("coder", [Answer::text("The draft.").held(&gate)]);
        let thread = t.bo.thread(&t.general, "Root").await;
        let task = t.bo.ask(&thread, "@lead write").await;
        gate.reached().await;
        assert_eq!(compared(&t).await, 1, "{stops}");
        if stops {
            t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
        }
        gate.open();
        t.bo.ended(&task).await;
        assert_eq!(compared(&t).await, 0, "{stops}");
        t.model().forget();
    }
    let started = pair(&t, json!({"turns_max": 2})).await;
    t.bo.completed(&started.task).await;
    assert_eq!(compared(&t).await, 0);
}

/// Model responses that each delegate the message with one of these numbers to `coder`.
fn asks(message: &str, numbers: [i32; 3]) -> [Answer; 3] {
    numbers.map(|n| Answer::calls("", &[delegate("coder", &format!("{message} {n}"))]))
}

#[tokio::test]
async fn numbered_work_on_a_goal_is_not_a_repetition() {
    let t = lead_team().await;
    let agents = [t.ada.agent("lead").await, t.ada.agent("vibe").await];
    let items = [71, 72, 73];
    let answers = asks("Review item", items);
    let answers = answers.into_iter().chain([Answer::text("All are fine.")]);
    t.model().script("lead", answers);
    let answers = items.map(|n| Answer::text(&format!("Item {n} is fine.")));
    t.model().script("coder", answers);
    let form = json!({"collaborators": [agents[0]["id"], agents[1]["id"]], "turns_max": 2,
        "goal": "Review items 71, 72, and 73."});
    let started = start(&t.bo, &t.general, form).await;
    t.bo.completed(&started.task).await;
    assert_eq!(state(&t.bo, &started.fork).await, ("done".to_owned(), 2));
}

#[tokio::test]
async fn numbers_that_agents_count_up_are_a_repetition() {
    let t = lead_team().await;
    t.model()
        .script("lead", asks("Try it, attempt", [71, 72, 73]));
    let answers = (0..3).map(|_| Answer::text("It did not work again."));
    t.model().script("coder", answers);
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@lead make it work").await;
    assert_eq!(t.bo.failed(&task).await.1, "loop");
}
