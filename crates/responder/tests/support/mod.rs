//! Conversations and questions.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "test helpers")]

use chrono::NaiveDate;
use openvibe_extract::{Line, Material, Person, Speaker};
use openvibe_responder::{Composed, Conversation, Question, answer};

pub fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, day).unwrap()
}

/// Parses lines of the form `NAME: text`. A line such as `= 19` sets the day in November for the lines below it.
pub fn talk(text: &str) -> Conversation {
    let mut material = Material::default();
    let mut at = day(19);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(number) = line.strip_prefix("= ") {
            at = day(number.parse().unwrap());
            continue;
        }
        let (name, said) = line.split_once(": ").unwrap();
        let known = material.people.iter().position(|person| person.name == name);
        let person = known.unwrap_or_else(|| {
            material.people.push(Person { name: name.to_owned(), handle: name.to_lowercase() });
            material.people.len() - 1
        });
        let line = Line {
            speaker: Speaker::Person(person),
            text: said.to_owned(),
            files: vec![],
            day: at,
        };
        material.lines.push(line);
    }
    let read = u64::try_from(material.lines.len()).unwrap();
    Conversation { title: String::new(), material, read, total: read }
}

pub fn question(text: &str) -> Question {
    Question {
        text: text.to_owned(),
        today: day(20),
        is_admin: false,
        workspace_path: "/ebb".to_owned(),
        is_first: false,
    }
}

pub fn asked(conversation: &Conversation, text: &str) -> Composed {
    answer(conversation, question(text)).compose(&[])
}
