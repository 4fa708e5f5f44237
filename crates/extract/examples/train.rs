//! Trains the weights of the roles: `cargo run -p openvibe-extract --release --example train -- DIR… [--write FILE]`.
//!
//! Scores each directory of labeled dialogues (`tests/dialogues/FORMAT.md`) with a model that was trained on the other directories,
//! then each fifth of all dialogues with a model that was trained on the other four. With `--write`, writes a model that was trained
//! on all dialogues instead. A sentence is an example of a role if the entry that it would become contains the words of an expected
//! item of that kind, and if it is in one of the item's lines. The method is logistic regression (`AdaGrad`, averaged) with a penalty
//! for large weights; the same input always produces the same file.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{collections::HashMap, fmt::Write, path::Path};

use openvibe_extract::{Candidate, Model, ROLES, Reading, Role};
use support::{Dialogue, Fact, Score};

/// Minimum number of sentences in which a feature must occur to be trained.
const SEEN_MIN: usize = 4;
const ROUNDS: usize = 60;
const RATE: f32 = 0.15;
const PENALTY: f32 = 20.0;
/// Added to the bias, because a missing item costs more than a wrong one.
const BOOST: [f32; 4] = [0.4, 0.4, 0.5, 0.4];
const FOLDS: usize = 5;
/// Minimum absolute weight, in hundredths. A feature is written only if it has such a weight for at least one role.
const WEIGHT_MIN: f32 = 4.0;

/// Target value of an example for a role, and the importance of the example.
#[derive(Clone, Copy)]
struct Label {
    target: f32,
    importance: f32,
}

struct Example {
    dialogue: usize,
    features: Vec<usize>,
    labels: [Label; 4],
}

#[derive(Default)]
struct Data {
    names: Vec<String>,
    known: HashMap<String, usize>,
    examples: Vec<Example>,
}

fn label(dialogue: &Dialogue, candidate: &Candidate, role: Role) -> Label {
    let truth = &dialogue.truth;
    let groups = [&truth.decisions, &truth.actions, &truth.open_questions, &truth.dissent];
    let text = &candidate.points[role as usize].text;
    let is_own = |fact: &Fact| fact.lines.contains(&(candidate.line + 1));
    let has = |facts: &[Fact]| facts.iter().any(|fact| fact.is_in(text));
    let has_own = |facts: &[Fact]| facts.iter().any(|fact| fact.is_in(text) && is_own(fact));
    let own = groups[role as usize];
    let (target, importance) = if has_own(own) {
        // The question itself is a better example than a statement about it.
        let is_said = role == Role::Question && !candidate.features.iter().any(|name| name == "q");
        (1.0, if is_said { 0.5 } else { 1.0 })
    } else if has(own) {
        // A repetition in other lines is neither an example nor a counterexample.
        (1.0, 0.0)
    } else if has_own(&truth.never) {
        (0.0, 2.0)
    } else {
        let is_point = matches!(role, Role::Decision | Role::Dissent);
        let is_other = is_point && groups.iter().any(|group| has(group));
        (0.0, if is_other { 0.3 } else { 1.0 })
    };
    Label { target, importance }
}

impl Data {
    fn new<'a>(dialogues: impl Iterator<Item = &'a Dialogue>) -> Self {
        let mut data = Self::default();
        for (number, dialogue) in dialogues.enumerate() {
            let reading = Reading::with_model(&dialogue.material(), &Model::default());
            let candidates = reading.candidates();
            // A dialogue with few sentences counts as much as one with ten.
            #[expect(clippy::cast_precision_loss, reason = "counts are small")]
            let share = (10.0 / candidates.len().max(1) as f32).clamp(1.0, 5.0);
            for candidate in candidates {
                let labels = ROLES.map(|role| label(dialogue, &candidate, role));
                let labels =
                    labels.map(|label| Label { importance: label.importance * share, ..label });
                let features = candidate.features.into_iter().map(|name| data.id(name)).collect();
                data.examples.push(Example { dialogue: number, features, labels });
            }
        }
        data
    }

    fn id(&mut self, name: String) -> usize {
        let next = self.names.len();
        let id = *self.known.entry(name.clone()).or_insert(next);
        if id == next {
            self.names.push(name);
        }
        id
    }

    /// Trains the weights of the features for a role on the dialogues that `is_used` selects.
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn train(&self, role: Role, is_used: &dyn Fn(usize) -> bool) -> Vec<f32> {
        let examples = self.examples.iter().filter(|example| is_used(example.dialogue));
        let examples: Vec<&Example> = examples.collect();
        let mut seen = vec![0_usize; self.names.len()];
        examples.iter().flat_map(|example| &example.features).for_each(|id| seen[*id] += 1);
        let bias = self.known["bias"];
        let mut weights = vec![0.0_f32; self.names.len()];
        let mut squares = vec![1e-3_f32; self.names.len()];
        let mut sums = vec![0.0_f32; self.names.len()];
        let count = examples.len();
        for round in 0..ROUNDS {
            // A fixed shuffle: the step is a prime number.
            for n in 0..count {
                let example = examples[(n * 7919 + round * 31) % count];
                let Label { target, importance } = example.labels[role as usize];
                if importance == 0.0 {
                    continue;
                }
                let sum: f32 = example.features.iter().map(|id| weights[*id]).sum();
                let error = importance * (1.0 / (1.0 + (-sum).exp()) - target);
                for id in example.features.iter().filter(|id| seen[**id] >= SEEN_MIN) {
                    let penalty = if *id == bias { 0.0 } else { PENALTY / seen[*id] as f32 };
                    let slope = error + penalty * weights[*id];
                    squares[*id] += slope * slope;
                    weights[*id] -= RATE * slope / squares[*id].sqrt();
                }
            }
            if round >= ROUNDS / 2 {
                sums.iter_mut().zip(&weights).for_each(|(sum, weight)| *sum += weight);
            }
        }
        for sum in &mut sums {
            *sum /= (ROUNDS - ROUNDS / 2) as f32;
        }
        sums[bias] += BOOST[role as usize];
        sums
    }

    /// Scores the dialogues that `is_held` selects with a model that was trained on the others.
    fn held_out(&self, all: &[Dialogue], is_held: &dyn Fn(usize) -> bool) -> Score {
        let model = Model::parse(&self.text(&|dialogue| !is_held(dialogue)));
        let mut total = Score::default();
        for (_, dialogue) in all.iter().enumerate().filter(|(number, _)| is_held(*number)) {
            let outline = Reading::with_model(&dialogue.material(), &model).outline();
            total.add(&support::score(dialogue, &outline));
        }
        total
    }

    /// Contents of the weights file; see [`Model::parse`].
    fn text(&self, is_used: &dyn Fn(usize) -> bool) -> String {
        let weights = ROLES.map(|role| self.train(role, is_used));
        let mut rows: Vec<String> = Vec::new();
        for (id, name) in self.names.iter().enumerate() {
            let numbers = weights.each_ref().map(|weights| (weights[id] * 100.0).round() + 0.0);
            if numbers.iter().any(|number| number.abs() >= WEIGHT_MIN) {
                rows.push(format!(
                    "{name}\t{}",
                    numbers.map(|number| number.to_string()).join("\t")
                ));
            }
        }
        rows.sort();
        let mut text = String::from(
            "// Written by crates/extract/examples/train.rs from labeled dialogues: a feature of a sentence, and its weights\n\
             // as a decision, an action, an open question, and a dissent, in hundredths.\n",
        );
        for row in rows {
            let _ = writeln!(text, "{row}");
        }
        text
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let at = arguments.iter().position(|argument| argument == "--write");
    let directories = &arguments[..at.unwrap_or(arguments.len())];
    let mut all: Vec<Dialogue> = Vec::new();
    let mut groups = Vec::new();
    for directory in directories {
        let first = all.len();
        all.extend(support::load(Path::new(directory)));
        groups.push((directory.as_str(), first..all.len()));
    }
    let data = Data::new(all.iter());
    if let Some(file) = at.and_then(|at| arguments.get(at + 1)) {
        let text = data.text(&|_| true);
        std::fs::write(file, text).unwrap_or_else(|e| panic!("cannot write {file}: {e}"));
        return;
    }
    for (directory, held) in groups {
        let score = data.held_out(&all, &|dialogue| held.contains(&dialogue));
        print(&format!("{directory} with a model of the other sets"), &score);
    }
    let mut mixed = Score::default();
    for fold in 0..FOLDS {
        mixed.add(&data.held_out(&all, &|dialogue| dialogue % FOLDS == fold));
    }
    print("a fifth with a model of the other dialogues", &mixed);
}

#[expect(clippy::print_stdout, reason = "the purpose of the program")]
fn print(name: &str, score: &Score) {
    println!("{name}: total {:.3}", score.total());
    for (name, share) in score.parts() {
        println!("  {name:16}{share:.3}");
    }
}
