//! Lines that cannot be the source of a result.

use openvibe_extract::{Act, Line, Material, Reading, Speaker, Value, tokens};

/// Number of people's lines in which somebody can agree to a line.
const AGREED_LINES: usize = 3;

/// Reason why a line cannot be the source of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    Agent,
    Joke,
    Dropped,
    Machine,
    /// A question, or a statement that nobody agreed to; only for headline and conclusion.
    Unsettled,
}

/// Checks whether a text alone gives an order to a machine.
fn is_order(line: &Line, text: String) -> bool {
    let lines = vec![Line {
        text,
        ..line.clone()
    }];
    let alone = Material {
        people: Vec::new(),
        lines,
    };
    Reading::new(&alone).acts(0).contains(&Act::Machine)
}

/// Checks whether the code or the quoted lines of a message give an order to a machine. The extractor does not read them.
fn hides_order(line: &Line) -> bool {
    let is_mark = |c: char| matches!(c, '`' | '>' | '~');
    line.text.contains(is_mark) && is_order(line, line.text.replace(is_mark, " "))
}

/// A message that quotes an order to a machine, without its quotations; doubtful if it gives an order itself.
pub(super) fn without_order(line: &Line) -> (String, Option<Doubt>) {
    let mut said = line.text.clone();
    for token in tokens(&line.text)
        .iter()
        .rev()
        .filter(|token| token.is_quoted)
    {
        said.replace_range(token.from..token.to, " ");
    }
    if said == line.text || is_order(line, said.clone()) || hides_order(line) {
        return (line.text.clone(), Some(Doubt::Machine));
    }
    (said, None)
}

/// Checks whether one of the next people's lines agrees, before one objects.
pub(super) fn is_agreed(material: &Material, reading: &Reading, line: usize) -> bool {
    const AGAINST: [Act; 5] = [
        Act::Dissent,
        Act::Retraction,
        Act::Refusal,
        Act::Correction,
        Act::Deferral,
    ];
    let author = &material.lines[line].speaker;
    let later = material
        .lines
        .iter()
        .enumerate()
        .skip(line + 1)
        .take(AGREED_LINES * 3);
    let people = later
        .filter(|(_, said)| matches!(said.speaker, Speaker::Person(_)) && said.speaker != *author);
    for (at, _) in people.take(AGREED_LINES) {
        let acts = reading.acts(at);
        if acts.iter().any(|act| AGAINST.contains(act)) {
            return false;
        }
        let is_repeated = |value: &&Value| {
            reading.values(at).iter().any(|other| {
                (other.kind, &other.key) == (value.kind, &value.key)
                    && !acts.contains(&Act::Question)
            })
        };
        if acts.contains(&Act::Assent)
            || acts.contains(&Act::Commitment)
            || reading.values(line).iter().any(is_repeated)
        {
            return true;
        }
    }
    false
}

/// Value of what agents say in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLines {
    /// Results only if a person adopts them.
    Ideas,
    /// The work that people asked for, as in a collaboration.
    Work,
}

impl AgentLines {
    pub(super) fn has(self, doubt: Doubt) -> bool {
        self == Self::Ideas || doubt != Doubt::Agent
    }
}

/// Reason why a line is doubtful, if it is.
pub(super) fn doubt(material: &Material, reading: &Reading, line: usize) -> Option<Doubt> {
    let acts = reading.acts(line);
    let is = |act: Act| acts.contains(&act);
    if is(Act::Machine) || hides_order(&material.lines[line]) {
        return Some(Doubt::Machine);
    }
    if matches!(material.lines[line].speaker, Speaker::Agent(_)) {
        let is_adopted = reading.is_adopted(line) || is_agreed(material, reading, line);
        return (!is_adopted).then_some(Doubt::Agent);
    }
    if is(Act::Joke) {
        Some(Doubt::Joke)
    } else {
        let is_task = is(Act::Commitment) || is(Act::Request);
        (!is_task && reading.is_rejected(line) && !is_agreed(material, reading, line))
            .then_some(Doubt::Dropped)
    }
}
