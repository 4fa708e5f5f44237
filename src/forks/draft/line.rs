//! Lines of a conversation, in the form in which they are compared with the texts of a draft.
//!
//! A line is *doubtful* if it cannot be the source of a result: an agent's idea that was not adopted, a joke, a dropped plan, or an
//! order to a machine. In a language that the extractor does not support, only agents' lines are doubtful.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Act, Kind, Line, Material, Reading, Speaker, Value, numbers, tokens};

use super::fault::Doubt;

/// Number of lines by other people after a line that are searched for agreement.
const AGREED_LINES: usize = 3;

/// Treatment of lines by agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLines {
    /// Ideas, which are results only if a person adopts them.
    Ideas,
    /// Work that people requested, as in a collaboration.
    Work,
}

/// Properties of a line that the checks use.
pub(super) struct Said<'a> {
    /// The text in the form ` word word `, in lowercase and without accents.
    pub(super) text: String,
    pub(super) speaker: &'a Speaker,
    /// Name and handle of the speaker, in the same form as the text.
    pub(super) name: String,
    pub(super) day: NaiveDate,
    acts: Vec<Act>,
    pub(super) values: Vec<&'a Value>,
    pub(super) numbers: BTreeSet<String>,
    pub(super) doubt: Option<Doubt>,
}

impl Said<'_> {
    pub(super) fn has(&self, acts: &[Act]) -> bool {
        self.acts.iter().any(|act| acts.contains(act))
    }

    pub(super) fn is_by(&self, person: usize) -> bool {
        *self.speaker == Speaker::Person(person)
    }

    fn is_by_person(&self) -> bool {
        matches!(self.speaker, Speaker::Person(_))
    }
}

/// Converts a text to the form ` word word ` in which lines are compared.
pub(super) fn plain(text: &str) -> String {
    let words: Vec<String> = tokens(text)
        .into_iter()
        .filter(|token| !matches!(token.kind, Kind::Mark | Kind::Emoji))
        .map(|token| token.word.trim_start_matches('@').to_owned())
        .collect();
    format!(" {} ", words.join(" "))
}

/// Reads all lines. Quoted orders to machines are removed from their lines.
pub(super) fn said_lines<'a>(
    material: &'a Material,
    reading: &'a Reading,
    agents: AgentLines,
    people: &[[String; 2]],
) -> Vec<Said<'a>> {
    let said = |(at, line): (usize, &'a Line)| Said {
        text: plain(&line.text),
        speaker: &line.speaker,
        name: match &line.speaker {
            Speaker::Person(at) => people
                .get(*at)
                .map_or_else(String::new, |name| name.concat()),
            Speaker::Agent(name) => plain(name),
        },
        day: line.day,
        acts: reading.acts(at),
        values: reading.values(at),
        numbers: numbers(&line.text),
        doubt: None,
    };
    let mut lines: Vec<Said<'a>> = material.lines.iter().enumerate().map(said).collect();
    for (at, line) in material.lines.iter().enumerate() {
        let doubt = doubt(&lines, at, line, reading);
        let said = &mut lines[at];
        if doubt == Some(Doubt::Machine)
            && let Some(text) = without_order(line)
        {
            said.text = plain(&text);
            said.numbers = numbers(&text);
        } else if doubt != Some(Doubt::Agent) || agents == AgentLines::Ideas {
            said.doubt = doubt;
        }
    }
    lines
}

/// Reason why a line is doubtful; `None` if it is not.
fn doubt(lines: &[Said<'_>], at: usize, line: &Line, reading: &Reading) -> Option<Doubt> {
    let said = &lines[at];
    if said.has(&[Act::Machine]) || hides_order(line) {
        Some(Doubt::Machine)
    } else if !said.is_by_person() {
        (!reading.is_adopted(at) && !is_agreed(lines, at)).then_some(Doubt::Agent)
    } else if said.has(&[Act::Joke]) {
        Some(Doubt::Joke)
    } else {
        let is_task = said.has(&[Act::Commitment, Act::Request]);
        (!is_task && reading.is_rejected(at) && !is_agreed(lines, at)).then_some(Doubt::Dropped)
    }
}

/// Checks whether somebody agrees in the next lines by other people before anybody objects.
pub(super) fn is_agreed(lines: &[Said<'_>], at: usize) -> bool {
    const AGAINST: [Act; 5] = [
        Act::Dissent,
        Act::Retraction,
        Act::Refusal,
        Act::Correction,
        Act::Deferral,
    ];
    let own = &lines[at];
    let later = lines.iter().skip(at + 1).take(AGREED_LINES * 3);
    let others = later.filter(|said| said.is_by_person() && said.speaker != own.speaker);
    for said in others.take(AGREED_LINES) {
        if said.has(&AGAINST) {
            return false;
        }
        let is_repeated = |value: &&Value| {
            let mut theirs = said.values.iter();
            theirs.any(|other| (other.kind, &other.key) == (value.kind, &value.key))
        };
        if said.has(&[Act::Assent, Act::Commitment])
            || !said.has(&[Act::Question]) && own.values.iter().any(is_repeated)
        {
            return true;
        }
    }
    false
}

/// Checks whether several people speak in these lines.
pub(super) fn are_several<'a>(lines: impl Iterator<Item = &'a Said<'a>>) -> bool {
    let mut lines = lines.filter(|said| said.is_by_person());
    let first = lines.next().map(|said| said.speaker);
    lines.any(|said| Some(said.speaker) != first)
}

/// Checks whether a text, taken alone, gives an order to a machine.
fn is_order(line: &Line, text: String) -> bool {
    let mut alone = Material::default();
    alone.lines.push(Line {
        text,
        ..line.clone()
    });
    Reading::new(&alone).acts(0).contains(&Act::Machine)
}

/// Checks whether the code or the quoted lines of a message give an order to a machine. The extractor ignores both.
fn hides_order(line: &Line) -> bool {
    let is_mark = |c: char| matches!(c, '`' | '>' | '~');
    line.text.contains(is_mark) && is_order(line, line.text.replace(is_mark, " "))
}

/// A message without its quotations; `None` if the message itself gives an order to a machine.
fn without_order(line: &Line) -> Option<String> {
    let mut said = line.text.clone();
    let tokens = tokens(&line.text).into_iter().rev();
    for token in tokens.filter(|token| token.is_quoted) {
        said.replace_range(token.from..token.to, " ");
    }
    let is_own = said == line.text || is_order(line, said.clone()) || hides_order(line);
    (!is_own).then_some(said)
}
