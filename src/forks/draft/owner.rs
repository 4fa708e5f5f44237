//! Owners of action items: the names in a model's answer, and the tasks that these people take on.

use openvibe_extract::{Act, Owner, Speaker};

use super::{
    OWNER_NAME_UNITS_MAX,
    clean::units,
    evidence::Evidence,
    fault::Kind,
    field::DraftField,
    line::{Said, plain},
};

/// Number of lines after the sources of an action item in which its owner can accept or refuse.
const REPLY_LINES: usize = 4;
/// Words for groups; a task for a group has no owner.
const GROUPS: &str = " all everyone everybody team we us someone somebody anyone they alle wir jemand todos equipo \
                      alguien tous nous equipe quelquun on ";
const AND: [&str; 6] = [" and ", " und ", " y ", " et ", " or ", " oder "];

/// Result of resolving a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Owner(Owner),
    /// An assistant, with its display name.
    Agent(String),
    /// A group, or nobody in particular.
    Nobody,
    Unknown,
}

/// Finds the member or assistant that a name refers to. A member is found by handle, name, or a unique part of the name. Any other
/// name is used as it is if it occurs in the conversation. If `text` names several people, the first one is used.
pub(super) fn find(text: &str, evidence: &Evidence<'_>) -> Found {
    let text = text.trim();
    if let Some(found) = known(text, evidence) {
        return found;
    }
    // Splits texts such as `Ada Lovelace (@ada)`, `ada: Ada Lovelace`, or `Ada and Bo`.
    let parts = text.split(['(', ')', ',', ';', ':', '/', '&', '+', '|', '<', '>']);
    let parts = parts.flat_map(|part| {
        let pair = AND.iter().find_map(|and| part.split_once(and));
        pair.map_or(vec![part], |(first, second)| vec![first, second])
    });
    let mut found = parts
        .filter(|part| *part != text)
        .filter_map(|part| known(part.trim(), evidence));
    if let Some(found) = found.find(|found| *found != Found::Nobody) {
        return found;
    }
    let is_name = units(text) <= OWNER_NAME_UNITS_MAX
        && text.chars().any(char::is_alphabetic)
        && !text.contains('_')
        && is_mentioned(text, evidence.lines.iter());
    if is_name {
        Found::Owner(Owner::Named(text.trim_start_matches('@').to_owned()))
    } else {
        Found::Unknown
    }
}

fn known(text: &str, evidence: &Evidence<'_>) -> Option<Found> {
    let name = plain(text.trim_start_matches('@').trim_end_matches("(AI)"));
    let words: Vec<&str> = name.split_whitespace().collect();
    let (first, last) = (words.first()?, words.last()?);
    if words.len() < 3 && GROUPS.contains(&format!(" {last} ")) {
        return Some(Found::Nobody);
    }
    let person = |at| Found::Owner(Owner::Person(at));
    let only = |is: &dyn Fn(&str) -> bool| {
        let names = evidence.people.iter().enumerate();
        let mut found = names.filter(|(_, [name, _])| is(name));
        let (at, _) = found.next()?;
        found.next().is_none().then_some(at)
    };
    // A handle is one word that can contain punctuation; names are compared word by word.
    let bare = text.trim_start_matches('@').to_lowercase();
    let mut people = evidence.material.people.iter();
    let by_handle = people.position(|person| person.handle.to_lowercase() == bare);
    if let Some(at) = by_handle.or_else(|| only(&|other| other == name)) {
        return Some(person(at));
    }
    if evidence.people.iter().any(|[other, _]| *other == name) {
        // Several members have this name, so it is ambiguous.
        return None;
    }
    let agent = evidence.lines.iter().find_map(|line| match line.speaker {
        Speaker::Agent(agent) if line.name == name => Some(Found::Agent(agent.clone())),
        _ => None,
    });
    let by_part = || only(&|other| words.len() == 1 && other.contains(&name));
    // The model may use a longer name than the profile.
    let by_first = || only(&|other| other.trim() == *first);
    agent.or_else(|| by_part().or_else(by_first).map(person))
}

fn is_mentioned<'a>(name: &str, mut lines: impl Iterator<Item = &'a Said<'a>>) -> bool {
    let name = plain(name);
    name.len() > 2 && lines.any(|line| line.text.contains(&name))
}

impl Evidence<'_> {
    /// Reason why the owner of an action item is wrong.
    pub(super) fn owner_fault(&self, field: &DraftField) -> Option<Kind> {
        let (name, takes_part) = match field.owner.as_ref()? {
            Owner::Person(at) => {
                let person = self.material.people.get(*at);
                let name = person.map_or_else(String::new, |person| person.name.clone());
                if self.refuses(*at, &field.sources) {
                    return Some(Kind::OwnerRefused(name));
                }
                (name, self.takes_part(*at, &field.sources))
            }
            Owner::Named(name) => (name.clone(), is_mentioned(name, self.source_text(field))),
        };
        (!takes_part && !field.sources.is_empty()).then_some(Kind::OwnerAbsent(name))
    }

    /// The person who takes on a task in the sources, if there is exactly one.
    pub(super) fn taker(&self, field: &DraftField) -> Option<Owner> {
        let lines = self.cited(field);
        let mut takers = lines
            .filter(|line| line.has(&[Act::Commitment]))
            .map(|line| line.speaker);
        let taker = takers.next()?;
        match taker {
            Speaker::Person(at) if takers.all(|other| other == taker) => Some(Owner::Person(*at)),
            _ => None,
        }
    }

    /// The lines after line `at` in which somebody can answer that line.
    fn replies(&self, at: usize) -> &[Said<'_>] {
        let end = (at + 1 + REPLY_LINES).min(self.lines.len());
        &self.lines[at + 1..end]
    }

    /// Checks whether a person speaks in the sources, is named there, or accepts a request there.
    fn takes_part(&self, person: usize, sources: &[usize]) -> bool {
        let accepts = |line: &Said<'_>| {
            line.is_by(person) && (!self.is_read() || line.has(&[Act::Assent, Act::Commitment]))
        };
        sources.iter().any(|at| {
            let line = &self.lines[*at];
            line.is_by(person)
                || self.is_named(person, &line.text)
                || line.has(&[Act::Request, Act::Question, Act::Need])
                    && self.replies(*at).iter().any(accepts)
        })
    }

    /// Checks whether the last message of a person in the lines after the sources is a refusal. A person who speaks in
    /// the sources does not refuse.
    fn refuses(&self, person: usize, sources: &[usize]) -> bool {
        let speaks = sources.iter().any(|at| self.lines[*at].is_by(person));
        let replies = sources.iter().max().map(|last| self.replies(*last));
        let mut own = replies.into_iter().flatten().rev();
        let own = own.find(|line| line.is_by(person) && !speaks);
        own.is_some_and(|line| line.has(&[Act::Refusal]) && !line.has(&[Act::Commitment]))
    }

    /// Checks whether somebody takes on a task in the sources, or is asked to.
    pub(super) fn commits(&self, field: &DraftField) -> bool {
        const WORK: [Act; 7] = [
            Act::Commitment,
            Act::Request,
            Act::Need,
            Act::Question,
            Act::Proposal,
            Act::Decision,
            Act::Assent,
        ];
        let is_owners = |line: &Said<'_>| match &field.owner {
            Some(Owner::Person(who)) => line.is_by(*who) || self.is_named(*who, &line.text),
            Some(Owner::Named(name)) => line.text.contains(&plain(name)),
            None => false,
        };
        let mut sources = self.cited(field);
        !self.is_read() || sources.any(|line| line.has(&WORK) || is_owners(line))
    }
}

#[cfg(test)]
mod tests {
    use openvibe_extract::Reading;

    use super::*;
    use crate::forks::draft::AgentLines;
    use crate::forks::draft::tests::material;

    fn owner(text: &str) -> String {
        let mut material = material(
            "Ada Lovelace: Zoe Quill from the agency takes the photos, Bo the rest.
Bo: Yes.
Mia Stone: Hm.
Mia Wood: Hm.
AI Vibe: I could do it.",
        );
        for (at, handle) in [(0, "a.lovelace"), (2, "stone"), (3, "wood")] {
            material.people[at].handle = handle.to_owned();
        }
        let reading = Reading::new(&material);
        match find(text, &Evidence::new(&material, &reading, AgentLines::Ideas)) {
            Found::Owner(Owner::Person(at)) => material.people[at].name.clone(),
            Found::Owner(Owner::Named(name)) => format!("named {name}"),
            Found::Agent(name) => format!("agent {name}"),
            Found::Nobody => "nobody".to_owned(),
            Found::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn an_owner_is_matched_by_every_name_of_one_member() {
        for (text, wanted) in [
            ("a.lovelace", "Ada Lovelace"),
            ("@a.lovelace", "Ada Lovelace"),
            ("ada lovelace", "Ada Lovelace"),
            ("Ada", "Ada Lovelace"),
            ("Lovelace", "Ada Lovelace"),
            ("Ada Lovelace (@a.lovelace)", "Ada Lovelace"),
            ("a.lovelace: Ada Lovelace", "Ada Lovelace"),
            ("Ada and Bo", "Ada Lovelace"),
            ("Bo", "Bo"),
            ("Bo Nielsen", "Bo"),
            ("mia stone", "Mia Stone"),
            ("Mia", "unknown"),
            ("Ada Byron", "unknown"),
            ("Vibe", "agent Vibe"),
            ("@vibe", "agent Vibe"),
            ("Vibe (AI)", "agent Vibe"),
            ("everyone", "nobody"),
            ("Zoe Quill", "named Zoe Quill"),
            ("Zoe", "named Zoe"),
            ("Zo", "unknown"),
            ("user_01j8x0000000000000000000", "unknown"),
            ("Cleo", "unknown"),
            ("@", "unknown"),
        ] {
            assert_eq!(owner(text), wanted, "{text}");
        }
    }
}
