//! Plans the next moves of a run solely from its steps and their states.

use std::collections::HashMap;

use crate::workflows::{
    definition::{END, OnError, Step, StepWork},
    run::{RunStep, StepState},
};

/// State of a step, and the jump that it led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    pub state: StepState,
    pub jump: Option<String>,
}

impl Position {
    pub(super) fn of(step: &RunStep) -> Self {
        Self {
            state: step.state,
            jump: step.jump.clone(),
        }
    }
}

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunEnd {
    Completed,
    /// A step failed. Contains its ID.
    Failed(String),
    /// A step was canceled because its approval was not granted. Contains its ID.
    Cancelled(String),
}

/// Next moves that follow from the states. Each move changes the state of its step, so that it is made only once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub start: Vec<String>,
    /// Steps that a jump skips.
    pub skip: Vec<String>,
    /// Active steps that run in parallel with a failed step.
    pub cancel: Vec<String>,
    /// `parallel` steps whose branches have ended, each with the step that failed, if any.
    pub finish: Vec<(String, Option<String>)>,
    pub end: Option<RunEnd>,
}

/// Progress of a list of steps.
enum Progress {
    Open,
    Done,
    Failed(String),
    Cancelled(String),
}

/// Plans the next moves of a run. A run that has ended has no next moves.
pub(super) fn plan(steps: &[Step], positions: &HashMap<String, Position>) -> Plan {
    let mut plan = Plan::default();
    let progress = walk(steps, positions, &mut plan);
    plan.end = match progress {
        Progress::Open => None,
        Progress::Done => Some(RunEnd::Completed),
        Progress::Failed(id) => Some(RunEnd::Failed(id)),
        Progress::Cancelled(id) => Some(RunEnd::Cancelled(id)),
    };
    plan
}

fn walk(list: &[Step], positions: &HashMap<String, Position>, plan: &mut Plan) -> Progress {
    let mut n = 0;
    while let Some(step) = list.get(n) {
        let position = positions.get(&step.id);
        let state = position.map_or(StepState::Pending, |position| position.state);
        match state {
            StepState::Pending => {
                plan.start.push(step.id.clone());
                return Progress::Open;
            }
            StepState::Running | StepState::Waiting => {
                branch_out(step, positions, plan);
                return Progress::Open;
            }
            StepState::Failed if step.on_error == OnError::Stop => {
                return Progress::Failed(step.id.clone());
            }
            StepState::Cancelled => return Progress::Cancelled(step.id.clone()),
            StepState::Completed | StepState::Failed | StepState::Skipped => {}
        }
        let jump = position.and_then(|position| position.jump.as_deref());
        let next = match jump {
            None => n + 1,
            Some(jump) => target(list, n, jump),
        };
        for left_out in &list[n + 1..next] {
            let state = positions.get(&left_out.id).map(|position| position.state);
            if state.is_none_or(|state| state == StepState::Pending) {
                plan.skip.push(left_out.id.clone());
                let inside = left_out.branches().iter().flatten();
                plan.skip.extend(inside.map(|step| step.id.clone()));
            }
        }
        n = next;
    }
    Progress::Done
}

/// Returns the index to which a jump leads: the index of a later step, or the end of the list.
fn target(list: &[Step], from: usize, jump: &str) -> usize {
    if jump == END {
        return list.len();
    }
    let later = list.iter().enumerate().skip(from + 1);
    let mut named = later.filter(|(_, step)| step.id == jump);
    named.next().map_or(list.len(), |(n, _)| n)
}

/// Plans the moves inside a `parallel` step. A failed branch ends the other branches.
fn branch_out(step: &Step, positions: &HashMap<String, Position>, plan: &mut Plan) {
    let StepWork::Parallel(parallel) = &step.work else {
        return;
    };
    let mut inside = Plan::default();
    let progress: Vec<Progress> = parallel
        .branches
        .iter()
        .map(|branch| walk(branch, positions, &mut inside))
        .collect();
    let failed = progress.iter().find_map(|progress| match progress {
        Progress::Failed(id) | Progress::Cancelled(id) => Some(id.clone()),
        Progress::Open | Progress::Done => None,
    });
    if let Some(failed) = failed {
        let steps = parallel.branches.iter().flatten();
        let active = steps.filter(|step| {
            let state = positions.get(&step.id).map(|position| position.state);
            matches!(state, Some(StepState::Running | StepState::Waiting))
        });
        plan.cancel.extend(active.map(|step| step.id.clone()));
        plan.finish.push((step.id.clone(), Some(failed)));
        return;
    }
    if progress
        .iter()
        .all(|progress| matches!(progress, Progress::Done))
    {
        plan.finish.push((step.id.clone(), None));
    }
    plan.start.extend(inside.start);
    plan.skip.extend(inside.skip);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn steps(list: &Value) -> Vec<Step> {
        serde_json::from_value(list.clone()).unwrap()
    }

    fn output(id: &str) -> Value {
        json!({"id": id, "kind": "output", "content": "x", "channel_id": null, "title": null, "on_error": "stop"})
    }

    fn condition(id: &str, then: &str, otherwise: &str) -> Value {
        json!({"id": id, "kind": "condition", "value": "x", "op": "equals", "with": "x", "then": then, "else": otherwise,
            "title": null, "on_error": "stop"})
    }

    fn parallel(id: &str, branches: &Value) -> Value {
        json!({"id": id, "kind": "parallel", "branches": branches, "title": null, "on_error": "stop"})
    }

    fn at(positions: &mut HashMap<String, Position>, id: &str, state: StepState) {
        let jump = None;
        positions.insert(id.to_owned(), Position { state, jump });
    }

    #[test]
    fn steps_start_one_after_the_other() {
        let list = steps(&json!([output("a"), output("b")]));
        let mut positions = HashMap::new();
        assert_eq!(plan(&list, &positions).start, ["a"]);
        at(&mut positions, "a", StepState::Running);
        assert_eq!(plan(&list, &positions), Plan::default());
        at(&mut positions, "a", StepState::Completed);
        assert_eq!(plan(&list, &positions).start, ["b"]);
        at(&mut positions, "b", StepState::Completed);
        assert_eq!(plan(&list, &positions).end, Some(RunEnd::Completed));
    }

    #[test]
    fn a_jump_skips_the_steps_between() {
        let list = steps(&json!([
            condition("if", "c", "end"),
            output("a"),
            parallel("p", &json!([[output("x")], [output("y")]])),
            output("c")
        ]));
        let mut positions = HashMap::new();
        for (jump, skipped, start, end) in [
            ("c", vec!["a", "p", "x", "y"], vec!["c"], None),
            (
                END,
                vec!["a", "p", "x", "y", "c"],
                vec![],
                Some(RunEnd::Completed),
            ),
        ] {
            let position = Position {
                state: StepState::Completed,
                jump: Some(jump.to_owned()),
            };
            positions.insert("if".to_owned(), position);
            let plan = plan(&list, &positions);
            assert_eq!(
                (plan.skip, plan.start, plan.end),
                (
                    skipped.into_iter().map(str::to_owned).collect(),
                    start.into_iter().map(str::to_owned).collect::<Vec<_>>(),
                    end
                )
            );
        }
    }

    #[test]
    fn a_failed_step_ends_the_run_unless_it_may_fail() {
        let mut second = output("b");
        second["on_error"] = json!("continue");
        let list = steps(&json!([output("a"), second, output("c")]));
        let mut positions = HashMap::new();
        at(&mut positions, "a", StepState::Failed);
        assert_eq!(
            plan(&list, &positions).end,
            Some(RunEnd::Failed("a".to_owned()))
        );
        at(&mut positions, "a", StepState::Completed);
        at(&mut positions, "b", StepState::Failed);
        assert_eq!(plan(&list, &positions).start, ["c"]);
    }

    #[test]
    fn branches_start_together_and_a_failed_one_ends_the_others() {
        let list = steps(&json!([
            parallel(
                "p",
                &json!([[output("a"), output("b")], [output("x"), output("y")]])
            ),
            output("z")
        ]));
        let mut positions = HashMap::new();
        assert_eq!(plan(&list, &positions).start, ["p"]);
        at(&mut positions, "p", StepState::Running);
        assert_eq!(plan(&list, &positions).start, ["a", "x"]);
        at(&mut positions, "a", StepState::Completed);
        at(&mut positions, "x", StepState::Running);
        assert_eq!(plan(&list, &positions).start, ["b"]);
        at(&mut positions, "b", StepState::Failed);
        let stopped = plan(&list, &positions);
        assert_eq!(stopped.cancel, ["x"]);
        assert_eq!(stopped.finish, [("p".to_owned(), Some("b".to_owned()))]);
        assert!(stopped.start.is_empty());
        for id in ["b", "x", "y"] {
            at(&mut positions, id, StepState::Completed);
        }
        assert_eq!(plan(&list, &positions).finish, [("p".to_owned(), None)]);
    }

    /// Generates lists of steps with forward jumps, some of them in branches.
    fn lists() -> impl Strategy<Value = Vec<Step>> {
        proptest::collection::vec((0..4_u8, 0..10_usize, 0..10_usize, any::<bool>()), 1..10)
            .prop_map(|shapes| {
                let count = shapes.len();
                let name = |from: usize, ahead: usize| {
                    let to = from + 1 + ahead;
                    if to < count {
                        format!("s{to}")
                    } else {
                        END.to_owned()
                    }
                };
                let list = shapes
                    .iter()
                    .enumerate()
                    .map(|(n, (kind, a, b, may_fail))| {
                        let id = format!("s{n}");
                        let mut step = match kind {
                            0 => condition(&id, &name(n, *a), &name(n, *b)),
                            1 => parallel(
                                &id,
                                &json!([
                                    [output(&format!("{id}a")), output(&format!("{id}b"))],
                                    [
                                        condition(&format!("{id}x"), END, &format!("{id}y")),
                                        output(&format!("{id}y"))
                                    ]
                                ]),
                            ),
                            _ => output(&id),
                        };
                        if *may_fail {
                            step["on_error"] = json!("continue");
                        }
                        step
                    });
                steps(&Value::Array(list.collect()))
            })
    }

    proptest! {
        /// Regardless of the results of steps, each step starts at most once, and the run ends.
        #[test]
        fn every_run_ends_and_starts_each_step_at_most_once(
            list in lists(),
            outcomes in proptest::collection::vec(0..10_u8, 60),
        ) {
            let all: HashMap<String, Step> = crate::workflows::definition::flat(&list)
                .into_iter()
                .map(|step| (step.id.clone(), step.clone()))
                .collect();
            let mut positions: HashMap<String, Position> = HashMap::new();
            let mut started = HashSet::new();
            let mut outcomes = outcomes.into_iter().cycle();
            let mut active: Vec<String> = Vec::new();
            for round in 0.. {
                prop_assert!(round < 200, "the run does not end");
                let next = plan(&list, &positions);
                if let Some(end) = next.end {
                    prop_assert!(next.start.is_empty());
                    if end == RunEnd::Completed {
                        for id in next.skip {
                            prop_assert!(!started.contains(&id));
                        }
                    }
                    break;
                }
                for id in &next.skip {
                    prop_assert!(!started.contains(id), "{id} was started and is skipped");
                    at(&mut positions, id, StepState::Skipped);
                }
                for id in &next.cancel {
                    active.retain(|active| active != id);
                    at(&mut positions, id, StepState::Cancelled);
                }
                for (id, failed) in &next.finish {
                    let state = match failed {
                        Some(_) => StepState::Failed,
                        None => StepState::Completed,
                    };
                    at(&mut positions, id, state);
                }
                for id in next.start {
                    prop_assert!(started.insert(id.clone()), "{id} starts twice");
                    at(&mut positions, &id, StepState::Running);
                    if all[&id].branches().is_empty() {
                        active.push(id);
                    }
                }
                let outcome = outcomes.next().unwrap_or_default();
                if active.is_empty() {
                    continue;
                }
                let id = active.remove(usize::from(outcome) % active.len());
                let state = if outcome == 0 { StepState::Failed } else { StepState::Completed };
                let jump = match &all[&id].work {
                    StepWork::Condition(step) if state == StepState::Completed => {
                        let then = outcome % 2 == 0;
                        Some(if then { step.then.clone() } else { step.otherwise.clone() })
                    }
                    _ => None,
                };
                positions.insert(id, Position { state, jump });
            }
        }
    }
}
