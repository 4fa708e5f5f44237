//! Matters: statements on which a group can decide. An accepted matter overrules older values. This code is independent of the linear
//! model, so that checks of other drafts do not depend on the model either.

use crate::{
    Superseded,
    lexicon::Cue,
    text::Kind,
    thread::{REACH, REACH_CORRECTION, Thread},
    units::{Act, Unit},
    values::{Value, ValueKind},
};

/// Maximum number of terms in a sentence that picks an option.
const PICK_TERMS_MAX: usize = 4;
/// Maximum number of words in a vote that repeats an option.
const VOTE_WORDS_MAX: usize = 5;

/// A statement on which a group can decide.
#[derive(Debug, Clone, Copy)]
struct Matter {
    /// 3 for a final statement, 2 for a proposal, 1 for a fragment or option, 0 for a statement of fact.
    weight: usize,
    is_accepted: bool,
    /// True if a newer matter repeats this one.
    is_repeated: bool,
    /// Position of the last related line among people's lines.
    turn: usize,
}

/// Matters by sentence.
struct Matters<'a> {
    thread: &'a mut Thread,
    known: Vec<Option<Matter>>,
}

impl Thread {
    /// Lets each accepted matter overrule the older values and options of its topic.
    pub(crate) fn overrule(&mut self) {
        let known = vec![None; self.units.len()];
        let mut matters = Matters { thread: self, known };
        for at in 0..matters.known.len() {
            matters.read(at);
        }
        self.settle();
    }
}

impl Matters<'_> {
    fn unit(&self, at: usize) -> &Unit {
        &self.thread.units[at]
    }

    fn read(&mut self, at: usize) {
        let unit = self.unit(at);
        let is_read = unit.person.is_some()
            && !unit.is(Act::Machine)
            && !unit.is_quotation()
            && !unit.is(Act::Chatter)
            && (!unit.is(Act::Joke) || unit.is(Act::Assent))
            && unit.is_ticked != Some(true)
            && !(unit.addresses_agent() && unit.is(Act::Question));
        if !is_read {
            return;
        }
        if let Some(agreed) = self.agreed(at) {
            let (said, unit) = (self.unit(agreed), self.unit(at));
            let is_clear = said.is(Act::Proposal)
                && unit.has(Cue::Assent)
                && said.person != unit.person
                && unit.turn == said.turn + 1;
            self.thread.agreed[at] = Some(agreed);
            self.thread.accepted[agreed] |= is_clear;
            self.accept(agreed, at);
            return;
        }
        // The due date of a task is not an option.
        let is_task = [Act::Commitment, Act::Request, Act::Refusal].iter().any(|act| unit.is(*act));
        if !is_task || unit.is(Act::Decision) || self.picks(at) {
            self.propose(at);
        }
    }

    fn weight(&self, at: usize) -> usize {
        let unit = self.unit(at);
        let is_question = unit.is(Act::Question);
        let picks = unit.is(Act::Assent) && !is_question && self.picks(at);
        if picks || unit.is(Act::Decision) && !is_question && !unit.is(Act::Unsure) {
            return 3;
        }
        if unit.is(Act::Proposal) {
            return 2;
        }
        // "100, the mobile team complains" is an option with a reason.
        let is_border = |word: &str| matches!(word, "," | "." | "-" | "–" | ";");
        let end = unit.tokens.iter().position(|token| is_border(&token.word));
        // In "Right, Friday is a holiday", the part before the comma is only a filler.
        let end = end
            .filter(|end| *end > 1 || *end == 1 && unit.tokens[0].kind == Kind::Number)
            .unwrap_or(unit.tokens.len());
        let is_fragment = !is_question && !unit.all(Cue::Fact).any(|hit| hit.from < end);
        usize::from(is_fragment && !unit.is(Act::Unsure))
    }

    /// Checks whether a sentence chooses an option that a question offers ("blue or green?").
    fn picks(&self, at: usize) -> bool {
        let unit = self.unit(at);
        // "Right, Friday is a holiday" names an option without choosing it.
        unit.is(Act::Assent)
            && !unit.has(Cue::Fact)
            && unit.terms() <= PICK_TERMS_MAX
            && self.thread.topics[at].is_some_and(|topic| {
                self.unit(topic).has(Cue::Or) && self.unit(topic).shared(unit) > 0
            })
    }

    fn propose(&mut self, at: usize) {
        let unit = self.unit(at);
        let has_content =
            !unit.words.is_empty() || !unit.values.is_empty() || unit.people().next().is_some();
        if !has_content || unit.is(Act::Deferral) || unit.is(Act::Retraction) {
            return;
        }
        let weight = self.weight(at);
        let is_objection = unit.is(Act::Dissent) && unit.words.len() < 2;
        if weight < 2 && (unit.is(Act::Question) || is_objection) {
            return;
        }
        let is_final = weight == 3 && !unit.is(Act::Hedge);
        let turn = unit.turn;
        let repeated = self.repeated(at);
        let matter = Matter { weight, is_accepted: false, is_repeated: false, turn };
        self.known[at] = Some(matter);
        self.thread.weights[at] = Some(weight);
        self.thread.repeats[at] = repeated;
        match repeated.and_then(|old| self.known[old].as_mut()) {
            Some(old) => {
                old.is_repeated = true;
                if old.weight + weight >= 2 || old.is_accepted {
                    self.accept(at, at);
                }
            }
            None if is_final => self.accept(at, at),
            None => {}
        }
    }

    /// Matters within reach that were raised by other people or were accepted, newest first.
    fn others(&self, at: usize) -> impl Iterator<Item = (usize, Matter)> {
        let (person, turn) = (self.unit(at).person, self.unit(at).turn);
        let earlier = self.thread.earlier(at, REACH_CORRECTION);
        earlier.filter_map(move |old| {
            let matter = self.known[old]?;
            let is_other = self.unit(old).person != person || matter.is_accepted;
            (is_other && turn - matter.turn <= REACH).then_some((old, matter))
        })
    }

    /// Another person's option that a short statement repeats as a vote for it.
    fn repeated(&self, at: usize) -> Option<usize> {
        let unit = self.unit(at);
        if unit.is(Act::Question) || unit.is(Act::Dissent) || unit.words.len() > 9 {
            return None;
        }
        let found = self.others(at).find(|(old, matter)| {
            let said = self.unit(*old);
            let shared = unit.shared(said);
            let is_like = shared > 0 && shared * 2 >= unit.words.len();
            let is_vote = is_like && unit.words.len() <= VOTE_WORDS_MAX || has_value(said, unit);
            said.person != unit.person
                && !matter.is_repeated
                && !self.thread.rejected[*old]
                && is_vote
        });
        found.map(|(old, _)| old)
    }

    /// The matter that a sentence agrees to.
    fn agreed(&self, at: usize) -> Option<usize> {
        let unit = self.unit(at);
        // "Settled then" confirms a statement before it.
        let agrees = unit.is(Act::Assent) || unit.is_bare_assent();
        if !agrees || unit.is(Act::Question) || unit.is(Act::Unsure) || self.picks(at) {
            return None;
        }
        let strength = if unit.has(Cue::Ok) && !unit.has(Cue::Assent) { 1 } else { 2 };
        let is_answer = self.thread.answers_question(at);
        let mut best: Option<(i64, usize)> = None;
        for (old, matter) in self.others(at) {
            let said = self.unit(old);
            let distance = (unit.turn - matter.turn).max(1);
            let shared = unit.shared(said).min(2) + usize::from(has_value(said, unit));
            let is_told = strength == 2
                && distance == 1
                && !said.values.is_empty()
                && !said.is(Act::Question);
            let is_rejected = self.thread.rejected[old] && shared == 0;
            let is_weak = matter.weight + strength + shared.min(1) < 3 && !is_told;
            if matter.is_repeated || is_rejected || is_weak || is_answer && shared == 0 {
                continue;
            }
            let gain = 10 + 2 * matter.weight + 4 * shared + said.values.len().min(2);
            let score = as_i64(gain) - 3 * as_i64(distance);
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, old));
            }
        }
        // "Ok, so node 16 is out" is a decision of its own.
        let is_own = |old: usize| {
            unit.is(Act::Decision) && unit.terms() > 0 && unit.shared(self.unit(old)) == 0
        };
        best.map(|(_, old)| old).filter(|old| !is_own(*old))
    }

    fn accept(&mut self, at: usize, by: usize) {
        let turn = self.unit(by).turn;
        if let Some(matter) = &mut self.known[at] {
            (matter.is_accepted, matter.turn) = (true, turn);
        }
        // A line that corrects a value does not overrule any others: "make it 21" corrects the 14 and leaves the 90 unchanged.
        let line = self.unit(at).line;
        let mut corrections = self.thread.superseded.iter();
        if corrections.any(|value| value.line == line) {
            return;
        }
        let olds: Vec<usize> = self.thread.earlier(at, REACH_CORRECTION).collect();
        let mut restated: Vec<Value> = Vec::new();
        for old in olds {
            let Some(matter) = self.known[old] else { continue };
            let Some((from, to)) = self.overruled(old, matter, at) else { continue };
            let (said, now) = (self.unit(old), self.unit(at));
            let value = &said.values[from];
            // "Access stays at 90, and debug drops to 14?" restates the 90.
            let others = said.values.iter().enumerate().filter(|(other, _)| *other != from);
            let others: Vec<Value> = others.map(|(_, other)| other.clone()).collect();
            let is_restated = restated.iter().any(|other: &Value| other.is_same(value));
            restated.extend(others);
            if is_restated {
                continue;
            }
            // A fact that names a value is not corrected by a decision.
            if matter.weight > 0 || matter.is_accepted {
                let (old, new) = (said.values[from].text.clone(), now.values[to].text.clone());
                let of = said.line;
                self.thread.supersede(Superseded { old, new, of, line, is_explicit: false });
            }
            self.thread.rejected[old] |= !matter.is_repeated;
        }
    }

    /// Positions of the overruled value of an older matter, and of the value that overrules it.
    fn overruled(&self, old: usize, matter: Matter, at: usize) -> Option<(usize, usize)> {
        let (said, now) = (self.unit(old), self.unit(at));
        let (from, to) = clash(said, now)?;
        let topic = self.thread.topics[at];
        let is_same_topic =
            topic.is_some() && (self.thread.topics[old] == topic || topic == Some(old));
        // A bare value replaces the last one of its kind, however long ago.
        let is_bare = now.words.len() < 2 && matter.is_accepted;
        let is_near = now.turn.saturating_sub(matter.turn) <= 3 || is_bare;
        // If a question was asked after the older matter, the new values belong to another topic.
        let is_other_topic = !is_same_topic
            && topic.is_some_and(|topic| self.unit(topic).turn > matter.turn)
            && said.shared(now) == 0
            && said.values[from].kind != ValueKind::Date;
        // "We buy the house on Monday" does not overrule "we sell the car on Friday".
        let is_other_matter = !is_same_topic && matter.is_accepted && said.has_other_subject(now);
        let is_about = is_same_topic || is_near || said.shared(now) > 0;
        (is_about && !is_other_topic && !is_other_matter).then_some((from, to))
    }
}

fn has_value(said: &Unit, unit: &Unit) -> bool {
    unit.values.iter().any(|value| said.values.iter().any(|old| value.is_same(old)))
}

/// Checks whether two amounts identify things by number: "ticket 11 is fixed" and "ticket 12 is fixed" are both true.
fn are_numbers_of_things(old: &Unit, value: &Value, new: &Unit, other: &Value) -> bool {
    let before = |unit: &Unit, value: &Value| {
        let word = &unit.tokens[value.from.checked_sub(1)?].word;
        unit.words.iter().any(|stem| word.starts_with(stem.as_str())).then(|| word.clone())
    };
    value.kind == ValueKind::Amount
        && value.unit.is_empty()
        && other.unit.is_empty()
        && before(old, value).is_some_and(|word| before(new, other) == Some(word))
}

/// Checks whether at least two amounts with units differ: "table 1 seats 4 guests" and "table 2 seats 6 guests" are about two tables.
fn have_two_other_amounts(old: &Unit, new: &Unit) -> bool {
    let is_amount = |value: &&Value| value.kind == ValueKind::Amount && !value.unit.is_empty();
    let differs = |value: &&Value| {
        new.values.iter().any(|other| other.is_like(value) && other.unit == value.unit)
    };
    old.values.iter().filter(is_amount).filter(differs).count() > 1
}

/// Positions of two values of one kind that differ, if the new text does not repeat any old value.
fn clash(old: &Unit, new: &Unit) -> Option<(usize, usize)> {
    // "Friday or Monday?" is not corrected by "Monday".
    if old.values.iter().any(|value| new.values.iter().any(|other| other.is_same(value))) {
        return None;
    }
    if have_two_other_amounts(old, new) {
        return None;
    }
    // In "access stays at 90, and debug drops to 14?", the last value is the new one.
    old.values.iter().enumerate().rev().find_map(|(from, value)| {
        let is_plain = |other: &Value| {
            value.kind != ValueKind::Amount || other.unit == value.unit || new.words.len() <= 3
        };
        let is_other = |other: &Value| {
            other.is_like(value)
                && is_plain(other)
                && !are_numbers_of_things(old, value, new, other)
        };
        let to = new.values.iter().position(is_other)?;
        Some((from, to))
    })
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
