//! A conversation that was read once, from the first line to the last.

use super::{
    Item, Material, Outline, Owner, Point, Speaker, Superseded,
    dialogue::{self, Dialogue, Utterance},
};

/// What was understood of a conversation.
#[derive(Debug)]
pub struct Reading {
    dialogue: Dialogue,
    material: Material,
}

impl Reading {
    /// Reads every line once.
    pub fn new(material: &Material) -> Self {
        let said = material.lines.iter().map(|line| Utterance {
            speaker: Some(match &line.speaker {
                Speaker::Person(at) => dialogue::Speaker {
                    name: (material.people.get(*at)).map_or(String::new(), |p| p.name.clone()),
                    is_person: true,
                },
                Speaker::Agent(name) => dialogue::Speaker {
                    name: name.clone(),
                    is_person: false,
                },
            }),
            text: line.text.clone(),
        });
        Self {
            dialogue: Dialogue::new(said.collect()),
            material: material.clone(),
        }
    }

    /// The offline draft of a resolution.
    pub fn outline(&self) -> Outline {
        let point = |point: dialogue::Point| Point {
            text: point.text,
            sources: vec![point.utterance],
        };
        let decisions: Vec<Point> = self.dialogue.decisions().into_iter().map(point).collect();
        let conclusion = decisions.last().map_or_else(
            || "No clear conclusion.".to_owned(),
            |last| last.text.clone(),
        );
        let mut key_points = decisions;
        if key_points.len() < 2 {
            key_points.extend(self.dialogue.main_points(2).into_iter().map(point));
        }
        key_points.truncate(4);
        let items = self.dialogue.promises().into_iter().map(|promise| {
            let people = &self.material.people;
            let owner = people
                .iter()
                .position(|p| p.name == promise.owner || p.handle == promise.owner);
            Item {
                text: promise.point.text,
                owner: Some(owner.map_or(Owner::Named(promise.owner), Owner::Person)),
                due: None,
                sources: vec![promise.point.utterance],
            }
        });
        Outline {
            headline: conclusion.chars().take(60).collect(),
            conclusion,
            key_points,
            action_items: items.collect(),
            open_questions: self
                .dialogue
                .open_questions()
                .into_iter()
                .map(point)
                .collect(),
            deferred_items: Vec::new(),
        }
    }

    /// Values that were corrected, in the order of the corrections.
    pub fn superseded(&self) -> Vec<Superseded> {
        Vec::new()
    }

    /// Whether a person agreed later to what an agent said in this line.
    pub fn is_taken_up(&self, line: usize) -> bool {
        let is_agent = |line: usize| {
            let line = self.material.lines.get(line);
            line.is_some_and(|line| matches!(line.speaker, Speaker::Agent(_)))
        };
        is_agent(line)
            && !is_agent(line + 1)
            && self.material.lines.get(line + 1).is_some_and(|reply| {
                let reply = reply.text.to_lowercase();
                reply.starts_with("yes") || reply.starts_with("ok")
            })
    }

    /// Whether a text has the cue words of a decision in any of the four languages.
    pub fn reads_like_a_decision(text: &str) -> bool {
        dialogue::reads_like_a_decision(text)
    }
}
