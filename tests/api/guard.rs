//! The loop guard: agents that repeat themselves are stopped, and people can let them go on.

use serde_json::{Value, json};

use crate::{
    collaboration::{pair, state},
    support::{Answer, Team, id, team},
};

/// Lets `coder` and `reviewer` write the same in each of these numbers of turns.
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
