//! Labeled dialogues and their score.
//!
//! A dialogue is a YAML file (`tests/dialogues/FORMAT.md`). Every part is scored over all dialogues together:
//!
//! - **decisions**, **dissent**, **open questions**, **actions**: F1. An expected item is found if an output item of that kind
//!   contains all of its `words` (alternatives separated by `|`; beginnings suffice), regardless of the lines that it cites, because
//!   people often say the same thing twice. Headline and conclusion count as decisions, and a dissent has to be one of the key
//!   points. For precision, an output item is wrong if it matches no expected item; a key point can match a decision, a dissent, an
//!   open question, or an action.
//! - **owners**, **dates**: share of the found actions with the right owner, and with the right due date or correctly without one.
//! - **superseded**: share of the corrected values that no headline, conclusion, point, or action contains without the new value.
//! - **never**: share of the entries that are not reported. An entry is reported if a point or an action contains all of its words
//!   and cites one of its lines, or if a headline or conclusion contains all of its words and does not match an expected decision.
//! - **result**: share of the dialogues in which the outline has a headline if and only if the group reached a decision. The other key
//!   points of an outline without a headline are proposals, and count neither as found nor as wrong.
//!
//! The total is the mean of decisions, actions, owners, dates, open questions, dissent, and superseded.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a module of an example and of tests of two crates; counts are small"
)]

use std::{collections::BTreeMap, path::Path};

use chrono::NaiveDate;
use openvibe_extract::{Line, Material, Model, Outline, Owner, Person, Reading, Speaker};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Dialogue {
    #[serde(skip)]
    pub name: String,
    pub date: NaiveDate,
    people: Vec<String>,
    lines: Vec<Said>,
    pub truth: Truth,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Long { who: String, day: Option<NaiveDate>, text: Text },
    Short(BTreeMap<String, Text>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Words(String),
    Number(f64),
    Bool(bool),
}

impl Text {
    pub fn text(&self) -> String {
        match self {
            Self::Words(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct Truth {
    #[serde(default)]
    pub decisions: Vec<Fact>,
    #[serde(default)]
    pub actions: Vec<Fact>,
    #[serde(default)]
    pub open_questions: Vec<Fact>,
    #[serde(default)]
    pub dissent: Vec<Fact>,
    #[serde(default)]
    pub superseded: Vec<Old>,
    #[serde(default)]
    pub never: Vec<Fact>,
    result: bool,
}

#[derive(Debug, Deserialize)]
pub struct Fact {
    #[serde(default)]
    pub text: String,
    pub lines: Vec<usize>,
    words: Vec<Text>,
    pub owner: Option<String>,
    pub due: Option<NaiveDate>,
    #[serde(default)]
    pub why: String,
}

#[derive(Debug, Deserialize)]
pub struct Old {
    pub old: Text,
    new: Text,
}

impl Fact {
    pub fn words(&self) -> String {
        self.words.iter().map(Text::text).collect::<Vec<_>>().join(" + ")
    }

    pub fn is_in(&self, text: &str) -> bool {
        let text = plain(text);
        self.words.iter().all(|word| word.text().split('|').any(|word| has(&text, &plain(word))))
    }

    fn cites(&self, sources: &[usize]) -> bool {
        self.lines.iter().any(|line| sources.contains(&(line - 1)))
    }
}

fn plain(text: &str) -> String {
    text.to_lowercase().replace(['’', '‘'], "'")
}

/// Checks whether a text contains a word, possibly as part of a longer one; numbers must be whole.
fn has(text: &str, word: &str) -> bool {
    let word = word.trim();
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            let is_number = word.ends_with(|c: char| c.is_ascii_digit());
            let is_inside = before.is_some_and(char::is_alphanumeric);
            let begins = !is_inside || !word.starts_with(|c: char| c.is_ascii_digit());
            begins && !(is_number && after.is_some_and(|c| c.is_ascii_digit()))
        })
}

/// Loads the dialogues of a directory, sorted by name.
pub fn load(directory: &Path) -> Vec<Dialogue> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut dialogue: Dialogue =
            serde_yaml_ng::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        dialogue.name = path.file_stem().unwrap().to_string_lossy().into_owned();
        dialogue
    };
    files.iter().map(read).collect()
}

impl Dialogue {
    pub fn material(&self) -> Material {
        let people = self.people.iter().map(|name| Person {
            name: name.clone(),
            handle: name.split_whitespace().next().unwrap().to_lowercase(),
        });
        let mut material = Material { people: people.collect(), lines: Vec::new() };
        let mut today = self.date;
        for said in &self.lines {
            let (who, text) = match said {
                Said::Long { who, day, text } => {
                    today = day.unwrap_or(today);
                    (who, text)
                }
                Said::Short(map) => map.iter().next().unwrap(),
            };
            let speaker = match who.strip_prefix("AI ") {
                Some(agent) => Speaker::Agent(agent.to_owned()),
                None => Speaker::Person(self.person(who)),
            };
            material.lines.push(Line { speaker, text: text.text(), files: Vec::new(), day: today });
        }
        material
    }

    pub fn person(&self, name: &str) -> usize {
        let is_named =
            |full: &String| full == name || full.split_whitespace().any(|part| part == name);
        self.people.iter().position(is_named).unwrap_or_else(|| panic!("{}: {name}", self.name))
    }
}

/// Found, expected, and wrong items of a part.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    pub found: usize,
    pub expected: usize,
    pub wrong: usize,
}

impl Count {
    pub fn f1(self) -> f64 {
        if self.expected == 0 && self.wrong == 0 {
            return 1.0;
        }
        let found = self.found as f64;
        2.0 * found / (found + self.expected as f64 + self.wrong as f64).max(1.0)
    }

    pub fn share(self) -> f64 {
        if self.expected == 0 { 1.0 } else { self.found as f64 / self.expected as f64 }
    }

    fn add(&mut self, other: Self) {
        self.found += other.found;
        self.expected += other.expected;
        self.wrong += other.wrong;
    }

    fn see(&mut self, is_found: bool) {
        self.expected += 1;
        self.found += usize::from(is_found);
    }
}

#[derive(Debug, Default, Clone)]
pub struct Score {
    pub decisions: Count,
    pub actions: Count,
    pub owners: Count,
    pub dates: Count,
    pub questions: Count,
    pub dissent: Count,
    pub superseded: Count,
    pub never: Count,
    pub result: Count,
    /// Descriptions of missing and wrong items.
    pub faults: Vec<String>,
}

impl Score {
    pub fn parts(&self) -> [(&'static str, f64); 9] {
        [
            ("decisions", self.decisions.f1()),
            ("actions", self.actions.f1()),
            ("owners", self.owners.share()),
            ("dates", self.dates.share()),
            ("open questions", self.questions.f1()),
            ("dissent", self.dissent.f1()),
            ("superseded", self.superseded.share()),
            ("never", self.never.share()),
            ("result", self.result.share()),
        ]
    }

    pub fn total(&self) -> f64 {
        let parts = self.parts();
        parts[..7].iter().map(|(_, share)| share).sum::<f64>() / 7.0
    }

    pub fn add(&mut self, other: &Self) {
        self.decisions.add(other.decisions);
        self.actions.add(other.actions);
        self.owners.add(other.owners);
        self.dates.add(other.dates);
        self.questions.add(other.questions);
        self.dissent.add(other.dissent);
        self.superseded.add(other.superseded);
        self.never.add(other.never);
        self.result.add(other.result);
    }
}

pub fn score(dialogue: &Dialogue, outline: &Outline) -> Score {
    let truth = &dialogue.truth;
    let mut score = Score::default();
    let mut faults = Vec::new();
    let is_none = outline.headline.is_empty();
    let points: Vec<(&str, &[usize])> = outline
        .key_points
        .iter()
        .map(|point| (point.text.as_str(), point.sources.as_slice()))
        .collect();
    let heads = [outline.headline.as_str(), outline.conclusion.as_str()];
    for fact in &truth.decisions {
        let mut texts = points.iter().map(|(text, _)| *text).chain(heads);
        let is_found = !is_none && texts.any(|text| fact.is_in(text));
        score.decisions.see(is_found);
        if !is_found {
            faults.push(format!("- decision {:?} [{}] {}", fact.lines, fact.words(), fact.text));
        }
    }
    for fact in &truth.dissent {
        let is_found = points.iter().any(|(text, _)| fact.is_in(text));
        score.dissent.see(is_found);
        if !is_found {
            faults.push(format!("- dissent {:?} [{}]", fact.lines, fact.words()));
        }
    }
    let all = || {
        truth
            .decisions
            .iter()
            .chain(&truth.dissent)
            .chain(&truth.open_questions)
            .chain(&truth.actions)
    };
    for (text, sources) in &points {
        if !all().any(|fact| fact.is_in(text)) {
            // A point that names a person who disagreed is a dissent.
            let is_dissent = DISSENT.iter().any(|words| text.contains(words));
            if is_dissent {
                score.dissent.wrong += 1;
            } else if is_none {
                continue;
            } else {
                score.decisions.wrong += 1;
            }
            faults.push(format!("+ point {:?} {text}", numbers(sources)));
        }
    }
    let mut left: Vec<usize> = (0..outline.action_items.len()).collect();
    for fact in &truth.actions {
        let item = |at: &usize| &outline.action_items[*at];
        let fits = |at: &usize| fact.is_in(&item(at).text);
        let owner = fact.owner.as_ref().map(|name| Owner::Person(dialogue.person(name)));
        let best = (0..outline.action_items.len()).filter(|at| fits(at)).max_by_key(|at| {
            (usize::from(item(at).owner == owner), usize::from(item(at).due == fact.due))
        });
        score.actions.see(best.is_some());
        match best {
            Some(at) => {
                left.retain(|other| *other != at);
                let item = &outline.action_items[at];
                score.owners.see(item.owner == owner);
                score.dates.see(item.due == fact.due);
                if item.owner != owner {
                    faults.push(format!(
                        "  owner {:?} for {:?}: {}",
                        item.owner, fact.owner, item.text
                    ));
                }
                if item.due != fact.due {
                    faults.push(format!("  due {:?} for {:?}: {}", item.due, fact.due, item.text));
                }
            }
            None => faults.push(format!(
                "- action {:?} [{}] {:?} {}",
                fact.lines,
                fact.words(),
                fact.owner,
                fact.text
            )),
        }
    }
    for at in left {
        let item = &outline.action_items[at];
        if !truth.actions.iter().any(|fact| fact.is_in(&item.text)) {
            score.actions.wrong += 1;
            faults.push(format!("+ action {:?} {}", numbers(&item.sources), item.text));
        }
    }
    for fact in &truth.open_questions {
        let is_found = outline.open_questions.iter().any(|point| fact.is_in(&point.text));
        score.questions.see(is_found);
        if !is_found {
            faults.push(format!("- question {:?} [{}] {}", fact.lines, fact.words(), fact.text));
        }
    }
    for point in &outline.open_questions {
        if !truth.open_questions.iter().any(|fact| fact.is_in(&point.text)) {
            score.questions.wrong += 1;
            faults.push(format!("+ question {:?} {}", numbers(&point.sources), point.text));
        }
    }
    let items =
        outline.action_items.iter().map(|item| (item.text.as_str(), item.sources.as_slice()));
    let told: Vec<(&str, &[usize])> = points.iter().copied().chain(items).collect();
    for value in &truth.superseded {
        let (old, new) = (plain(&value.old.text()), plain(&value.new.text()));
        let mut texts = told.iter().map(|(text, _)| *text).chain(heads);
        let leak = texts.find(|text| has(&plain(text), &old) && !is_told(&plain(text), &new));
        score.superseded.see(leak.is_none());
        if let Some(leak) = leak {
            faults.push(format!("! superseded {old} told: {leak}"));
        }
    }
    for fact in &truth.never {
        let in_head = |text: &&&str| {
            fact.is_in(text) && !truth.decisions.iter().any(|other| other.is_in(text))
        };
        let leak = told
            .iter()
            .find(|(text, sources)| fact.is_in(text) && fact.cites(sources))
            .map(|(text, _)| *text);
        let leak = leak.or_else(|| heads.iter().find(in_head).copied());
        score.never.see(leak.is_none());
        if let Some(leak) = leak {
            faults.push(format!("! never ({}) [{}]: {leak}", fact.why, fact.words()));
        }
    }
    score.result.see(is_none != truth.result);
    score.faults = faults;
    score
}

/// Checks whether a text contains a new value or one of its words.
fn is_told(text: &str, new: &str) -> bool {
    let words = new
        .split_whitespace()
        .filter(|word| word.len() > 2 || word.starts_with(|c: char| c.is_ascii_digit()));
    words.into_iter().any(|word| has(text, word)) || has(text, new)
}

const DISSENT: [&str; 4] =
    [" disagreed: ", " war dagegen: ", " n'était pas d'accord", " no estuvo de acuerdo"];

fn numbers(lines: &[usize]) -> Vec<usize> {
    lines.iter().map(|line| line + 1).collect()
}

/// Reads and scores every dialogue.
pub fn score_all(dialogues: &[Dialogue]) -> (Score, Vec<(String, Score, Outline)>) {
    score_all_with(dialogues, Model::built_in())
}

pub fn score_all_with(
    dialogues: &[Dialogue],
    model: &Model,
) -> (Score, Vec<(String, Score, Outline)>) {
    let mut total = Score::default();
    let mut rows = Vec::new();
    for dialogue in dialogues {
        let outline = Reading::with_model(&dialogue.material(), model).outline();
        let one = score(dialogue, &outline);
        total.add(&one);
        rows.push((dialogue.name.clone(), one, outline));
    }
    (total, rows)
}
