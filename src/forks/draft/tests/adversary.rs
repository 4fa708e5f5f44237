//! Simulated model answers that use the labels of the extractor's test dialogues and lie in one way at a time.

use openvibe_extract::{Language, Material, Outline, Point, Reading, Speaker};
use serde_json::{Value, json};

use self::support::{Dialogue, Fact, Score, load, score, score_all};
use super::shown;
use crate::forks::draft::{
    AgentLines, Checked, FieldPath, Kind, check, extracted, parse::parse, trim, trim::fit,
};

// The module is formatted by the rules of the crate that it belongs to.
#[rustfmt::skip]
#[path = "../../../../crates/extract/tests/support/mod.rs"]
mod support;

struct Case {
    dialogue: Dialogue,
    material: Material,
    reading: Reading,
}

fn cases() -> Vec<Case> {
    let all =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/extract/tests/dialogues");
    let dialogues = ["dev", "held"]
        .into_iter()
        .flat_map(|half| load(&all.join(half)));
    let case = |dialogue: Dialogue| {
        let material = dialogue.material();
        Case {
            reading: Reading::new(&material),
            dialogue,
            material,
        }
    };
    dialogues.map(case).collect()
}

fn entry((text, lines): (String, Vec<usize>)) -> Value {
    let cited: Vec<String> = lines.iter().map(|line| format!("m{line}")).collect();
    json!({"text": text, "sources": cited})
}

impl Case {
    fn checked(&self, answer: &Value) -> Checked {
        let ids = vec![String::new(); self.material.lines.len()];
        check(
            &parse(&answer.to_string(), &ids).unwrap(),
            &self.material,
            &self.reading,
            AgentLines::Ideas,
        )
    }

    /// The stored draft after an answer and its repair.
    fn stored(&self, answer: &Value, repair: &Value) -> Outline {
        let mut checked = self.checked(answer);
        if !checked.faults.is_empty() {
            checked = checked.or_better(self.checked(repair));
        }
        trim(checked, &self.material).unwrap_or_else(|_| extracted(&self.material, &self.reading))
    }

    fn line(&self, number: usize) -> &str {
        &self.material.lines[number - 1].text
    }

    fn truth(&self) -> Value {
        let truth = &self.dialogue.truth;
        let told = |fact: &Fact| (fact.text.clone(), fact.lines.clone());
        let mut points: Vec<(String, Vec<usize>)> = truth.decisions.iter().map(told).collect();
        let mut texts = points.iter().map(|(text, _)| text.clone());
        let headline = texts
            .next()
            .unwrap_or_else(|| self.reading.phrase("none-headline").to_owned());
        let conclusion = texts
            .next()
            .map_or(headline.clone(), |second| format!("{headline} {second}"));
        points.extend(truth.dissent.iter().map(|fact| {
            let Speaker::Person(who) = self.material.lines[fact.lines[0] - 1].speaker else {
                unreachable!()
            };
            let (name, said) = (&self.material.people[who].name, self.line(fact.lines[0]));
            (format!("{name} disagreed: “{said}”"), fact.lines.clone())
        }));
        while points.len() > 4 {
            let (text, lines) = points.remove(1);
            points[0].0 = format!("{} {text}", points[0].0);
            points[0].1.extend(lines);
        }
        let items = truth.actions.iter().map(|fact| {
            let mut item = entry(told(fact));
            (item["owner"], item["due"]) = (json!(fact.owner), json!(fact.due));
            item
        });
        json!({
            "headline": headline, "conclusion": conclusion, "deferred_items": [],
            "key_points": points.into_iter().map(entry).collect::<Vec<_>>(),
            "action_items": items.collect::<Vec<_>>(),
            "open_questions": truth.open_questions.iter().map(told).map(entry).collect::<Vec<_>>(),
        })
    }

    /// The truth, with a message quoted in each entry that does not use the words of its messages, and without names that the
    /// messages do not contain.
    fn repaired_truth(&self) -> Value {
        let mut answer = self.truth();
        for fault in self.checked(&answer).faults {
            let (list, at) = match fault.path {
                FieldPath::KeyPoint(at) => ("key_points", at),
                FieldPath::ActionItem(at) => ("action_items", at),
                FieldPath::OpenQuestion(at) => ("open_questions", at),
                _ => continue,
            };
            let line = answer[list][at]["sources"][0].as_str().unwrap()[1..]
                .parse()
                .unwrap();
            let old = answer[list][at]["text"].as_str().unwrap().to_owned();
            let new = match fault.kind {
                Kind::Unsupported => format!("{old} (“{}”)", self.line(line)),
                Kind::UnknownValue(name) => old.replace(&name, ""),
                _ => continue,
            };
            answer[list][at]["text"] = json!(new);
            for field in ["headline", "conclusion"] {
                answer[field] = json!(answer[field].as_str().unwrap().replace(&old, &new));
            }
        }
        answer
    }

    /// The truth with this text as its headline, its conclusion, and its first key point.
    fn claiming(&self, text: &str, lines: &[usize]) -> Value {
        let mut answer = self.truth();
        (answer["headline"], answer["conclusion"]) = (json!(text), json!(text));
        let points = answer["key_points"].as_array_mut().unwrap();
        points.truncate(3);
        points.insert(0, entry((text.to_owned(), lines.to_vec())));
        answer
    }

    /// Answer built from a message whose content must not be reported.
    fn never(&self, why: &[&str]) -> Option<Value> {
        let fact = self
            .dialogue
            .truth
            .never
            .iter()
            .find(|fact| why.contains(&fact.why.as_str()))?;
        let is_said = |line: &&usize| fact.is_in(self.line(**line));
        let text = self.line(*fact.lines.iter().find(is_said).unwrap_or(&fact.lines[0]));
        // For an injected text, uses only its demand, without the introduction.
        let demand = text
            .rsplit([':', '"', '“', '«'])
            .find(|part| fact.is_in(part));
        let text = if fact.why == "injection" {
            demand.unwrap_or(text)
        } else {
            text
        };
        Some(self.claiming(text.trim(), &fact.lines))
    }

    fn superseded(&self) -> Option<Value> {
        let old = self
            .dialogue
            .truth
            .superseded
            .first()?
            .old
            .text()
            .to_lowercase();
        let is_said = |line: &usize| self.line(*line).to_lowercase().contains(&old);
        let line = (1..=self.material.lines.len()).find(is_said)?;
        Some(self.claiming(self.line(line), &[line]))
    }

    fn wrong_owners(&self) -> Option<Value> {
        let people = &self.material.people;
        let mut answer = self.truth();
        let items = answer["action_items"].as_array_mut().unwrap();
        for (item, fact) in items.iter_mut().zip(&self.dialogue.truth.actions) {
            let owner = fact
                .owner
                .as_ref()
                .map_or(0, |name| self.dialogue.person(name) + 1);
            item["owner"] = json!(people[owner % people.len()].name);
        }
        (!items.is_empty() && people.len() > 1).then_some(answer)
    }

    /// A key point and an action without any basis, in the language of the dialogue.
    fn invention(&self) -> [Value; 2] {
        let (point, action) = match self.reading.language() {
            Language::German => (
                "Eine auswärtige Beraterin übernimmt die Werbung.",
                "Vertrag mit der Beraterin aufsetzen",
            ),
            Language::French => (
                "Une consultante externe reprend la publicité.",
                "Rédiger le contrat de la consultante",
            ),
            Language::Spanish => (
                "Una consultora externa lleva la publicidad.",
                "Redactar el contrato de la consultora",
            ),
            _ => (
                "An outside consultant takes over the advertising.",
                "Draw up the consultant's contract",
            ),
        };
        let mut item = entry((action.to_owned(), vec![2, 3]));
        item["owner"] = json!(self.material.people[0].name);
        [entry((point.to_owned(), vec![1, 2])), item]
    }

    fn invented(&self) -> Value {
        let mut answer = self.truth();
        let [point, item] = self.invention();
        let points = answer["key_points"].as_array_mut().unwrap();
        points.truncate(3);
        points.push(point);
        answer["action_items"].as_array_mut().unwrap().push(item);
        answer
    }

    fn gibberish(&self) -> Value {
        let [point, item] = self.invention();
        json!({"headline": point["text"], "conclusion": point["text"], "key_points": [point],
            "action_items": [item], "open_questions": [item], "deferred_items": []})
    }
}

fn row(name: &str, count: usize, score: &Score) -> String {
    let parts: Vec<String> = score
        .parts()
        .iter()
        .map(|(_, share)| format!("{share:.2}"))
        .collect();
    format!(
        "{name:28} {count:3}  {:.3}  {}",
        score.total(),
        parts.join(" ")
    )
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the figures are reported in docs/performance.md"
)]
fn no_lie_makes_a_draft_worse_than_the_extractors() {
    type Answer = fn(&Case) -> Option<Value>;
    let lies: [(&str, Answer); 9] = [
        ("gibberish", |case| Some(case.gibberish())),
        ("gibberish, then the truth", |case| Some(case.gibberish())),
        ("a superseded value", Case::superseded),
        ("an agent's idea", |case| case.never(&["agent idea"])),
        ("a joke", |case| case.never(&["joke", "chatter"])),
        ("a dropped plan", |case| {
            case.never(&["retracted", "overruled"])
        }),
        ("an obeyed injection", |case| case.never(&["injection"])),
        ("wrong owners", Case::wrong_owners),
        ("an invention", |case| Some(case.invented())),
    ];
    let cases = cases();
    for (name, lie) in lies {
        let (mut stored, mut alone) = (Score::default(), Score::default());
        let (mut count, mut invented, mut owned, mut actions) = (0, 0, 0, 0);
        for case in &cases {
            let Some(lie) = lie(case) else { continue };
            let repair = if name.ends_with("truth") {
                case.truth()
            } else {
                lie.clone()
            };
            let outline = case.stored(&lie, &repair);
            let has = |entry: &Value| shown(&outline).contains(entry["text"].as_str().unwrap());
            invented += case.invention().iter().filter(|entry| has(entry)).count();
            owned += outline
                .action_items
                .iter()
                .filter(|item| item.owner.is_some())
                .count();
            actions += outline.action_items.len();
            stored.add(&score(&case.dialogue, &outline));
            alone.add(&score(
                &case.dialogue,
                &extracted(&case.material, &case.reading),
            ));
            count += 1;
        }
        let rows = [
            row(name, count, &stored),
            row("  the extractor alone", count, &alone),
        ]
        .join("\n");
        println!(
            "{rows}\n  {invented} invented entries; {owned} of {actions} actions have an owner"
        );
        assert!(invented < 3, "{name}: {invented} invented entries");
        assert!(stored.total() >= alone.total(), "{rows}");
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the figures are reported in docs/performance.md"
)]
fn the_truth_is_kept() {
    let (mut given, mut lost) = (0, Vec::new());
    let (mut total, mut alone) = (Score::default(), Score::default());
    let cases = cases();
    for case in &cases {
        let repair = case.repaired_truth();
        let all = fit(case.checked(&repair).outline, &case.material);
        let stored = case.stored(&case.truth(), &repair);
        let points = |outline: &Outline| -> Vec<Point> {
            [&outline.key_points[..], &outline.open_questions].concat()
        };
        let owners = case
            .dialogue
            .truth
            .actions
            .iter()
            .map(|fact| fact.owner.is_some());
        let items = all.action_items.iter().zip(owners);
        let items = items.map(|(item, is_owned)| {
            let is_kept = item.owner.is_some() == is_owned && stored.action_items.contains(item);
            (is_kept, item.text.clone())
        });
        let kept = points(&stored);
        let points = points(&all);
        let points = points
            .iter()
            .map(|point| (kept.contains(point), point.text.clone()));
        for (is_kept, text) in items.chain(points) {
            given += 1;
            if !is_kept {
                lost.push(format!("{}: {text}", case.dialogue.name));
            }
        }
        total.add(&score(&case.dialogue, &stored));
        alone.add(&score(
            &case.dialogue,
            &extracted(&case.material, &case.reading),
        ));
    }
    println!("lost {} of {given}\n{}", lost.len(), lost.join("\n"));
    println!("{}", row("the truth", cases.len(), &total));
    println!("{}", row("the extractor, checked", cases.len(), &alone));
    let dialogues: Vec<Dialogue> = cases.into_iter().map(|case| case.dialogue).collect();
    println!(
        "{}",
        row("the extractor", dialogues.len(), &score_all(&dialogues).0)
    );
    assert!(lost.len() * 100 <= given, "{}", lost.join("\n"));
}
