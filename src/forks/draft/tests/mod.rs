//! Test conversations, and properties of every answer.

mod answers;
mod briefs;
mod checks;
mod corpus;
mod languages;
mod limits;

use chrono::NaiveDate;
use openvibe_extract::{Line, Material, Person, Speaker};

/// A message and its author; people are identified by their names.
#[derive(Clone, Copy)]
pub(super) enum Talk {
    Person(&'static str, &'static str),
    Agent(&'static str, &'static str),
}

/// The first line is the forked message. All messages are from Friday, November 20, 2026; a handle
/// is the lowercase first word of the name.
pub(super) fn material(talk: &[Talk]) -> Material {
    let mut material = Material::default();
    for said in talk {
        let (speaker, text) = match *said {
            Talk::Agent(name, text) => (Speaker::Agent(name.to_owned()), text),
            Talk::Person(name, text) => {
                let known = material
                    .people
                    .iter()
                    .position(|person| person.name == name);
                let at = known.unwrap_or_else(|| {
                    let first = name.split(' ').next().unwrap_or_default();
                    material.people.push(Person {
                        name: name.to_owned(),
                        handle: first.to_lowercase(),
                    });
                    material.people.len() - 1
                });
                (Speaker::Person(at), text)
            }
        };
        material.lines.push(Line {
            speaker,
            text: text.to_owned(),
            files: Vec::new(),
            day: day(20),
        });
    }
    material
}

/// A day in November 2026; the 20th is a Friday.
pub(super) fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, day).unwrap()
}
