//! Resolves the owner names in a model's answer.

use openvibe_extract::{Material, Owner, Speaker};

use super::{
    OWNER_NAME_UNITS_MAX,
    clean::units,
    evidence::{Evidence, plain},
};

/// Result of resolving a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Owner(Owner),
    /// An assistant, with its display name.
    Agent(String),
    /// A group or nobody in particular.
    Nobody,
    Unknown,
}

fn tokens(text: &str) -> Vec<String> {
    plain(text).split_whitespace().map(str::to_owned).collect()
}

/// Words for groups; a task for a group has no owner.
const GROUPS: &str = " all everyone everybody team we us someone somebody anyone they alle wir jemand todos equipo \
                      alguien tous nous equipe quelquun on ";

/// Finds a member by handle, name, or unique part of the name; otherwise an assistant; otherwise a
/// name that occurs in the conversation. Of several people in one text, the first counts.
pub(super) fn find(text: &str, evidence: &Evidence<'_>) -> Found {
    let material = evidence.material;
    let text = text.trim();
    if let Some(found) = known(text, material) {
        return found;
    }
    // `Ada Lovelace (@ada)`, `ada: Ada Lovelace`, `Ada and Bo`.
    let joints = ['(', ')', ',', ';', ':', '/', '&', '+', '|', '<', '>'];
    let parts = text.split(joints).flat_map(|part| {
        let and = [" and ", " und ", " y ", " et ", " or ", " oder "];
        let joint = and.iter().find_map(|joint| part.split_once(joint));
        joint.map_or(vec![part], |(first, second)| vec![first, second])
    });
    for part in parts.filter(|part| *part != text) {
        match known(part.trim(), material) {
            Some(Found::Nobody) | None => {}
            Some(found) => return found,
        }
    }
    let is_name = units(text) <= OWNER_NAME_UNITS_MAX
        && text.chars().any(char::is_alphabetic)
        && !text.contains('_')
        && evidence.is_mentioned(text, None);
    if is_name {
        let name = text.trim_start_matches('@').to_owned();
        Found::Owner(Owner::Named(name))
    } else {
        Found::Unknown
    }
}

fn known(text: &str, material: &Material) -> Option<Found> {
    let words = tokens(text.trim_start_matches('@').trim_end_matches("(AI)"));
    if words.is_empty() {
        return None;
    }
    let is_group = words
        .last()
        .is_some_and(|last| GROUPS.contains(&format!(" {last} ")));
    if words.len() < 3 && is_group {
        return Some(Found::Nobody);
    }
    let person = |at| Some(Found::Owner(Owner::Person(at)));
    // A handle is one word that can contain punctuation; names are compared word by word.
    let bare = text.trim_start_matches('@').to_lowercase();
    if let Some(at) = material
        .people
        .iter()
        .position(|p| p.handle.to_lowercase() == bare)
    {
        return person(at);
    }
    let names: Vec<Vec<String>> = material.people.iter().map(|p| tokens(&p.name)).collect();
    let only = |is: &dyn Fn(&Vec<String>) -> bool| {
        let mut all = names.iter().enumerate().filter(|(_, name)| is(name));
        let first = all.next();
        first.filter(|_| all.next().is_none()).map(|(at, _)| at)
    };
    if let Some(at) = only(&|name| *name == words) {
        return person(at);
    }
    if names.contains(&words) {
        // Several members have this name, so it is ambiguous.
        return None;
    }
    let agents = material
        .lines
        .iter()
        .filter_map(|line| match &line.speaker {
            Speaker::Agent(name) => Some(name),
            Speaker::Person(_) => None,
        });
    if let Some(agent) = agents.into_iter().find(|name| tokens(name) == words) {
        return Some(Found::Agent(agent.clone()));
    }
    if let [word] = words.as_slice()
        && let Some(at) = only(&|name| name.contains(word))
    {
        return person(at);
    }
    // The model used a longer name than the profile.
    let first = words.first()?;
    only(&|name| name.len() == 1 && name.first() == Some(first)).and_then(person)
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
