//! Links between sentences: answers, agreement, corrections, and rejections, with bounded look-back.

use std::ops::Range;

use crate::{
    Superseded,
    lexicon::{Cue, members},
    roles::Role,
    text::Token,
    units::{Act, Edit, Unit},
    values::Value,
};

/// Maximum look-back, in lines by people.
pub(crate) const REACH: usize = 6;
pub(crate) const REACH_CORRECTION: usize = 14;
/// Maximum look-back in sentences, for conversations with very long messages.
pub(crate) const UNITS_MAX: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) units: Vec<Unit>,
    /// Sentences of each line by a person.
    pub(crate) turns: Vec<Range<usize>>,
    cues: Vec<u64>,
    /// The question that a sentence answers.
    pub(crate) topics: Vec<Option<usize>>,
    /// Scores of each sentence, one for each role.
    pub(crate) chances: Vec<[f32; 4]>,
    /// The statement that a sentence agrees to.
    pub(crate) agreed: Vec<Option<usize>>,
    /// Proposals that another person accepted in the next line.
    pub(crate) accepted: Vec<bool>,
    /// The option of another person that a sentence repeats.
    pub(crate) repeats: Vec<Option<usize>>,
    /// Weights of the statements on which the group can decide; see `matters.rs`.
    pub(crate) weights: Vec<Option<usize>>,
    /// The sentence of another person that a sentence agrees to without reservation, and the sentences that agree to a sentence.
    pub(crate) adopts: Vec<Option<usize>>,
    pub(crate) assents: Vec<Vec<usize>>,
    /// Sentences that were retracted, overruled, or objected to.
    pub(crate) rejected: Vec<bool>,
    /// Sentences that their authors retracted.
    pub(crate) withdrawn: Vec<bool>,
    pub(crate) superseded: Vec<Superseded>,
    /// Agents' lines that a person adopted, with the sentences that adopt them.
    pub(crate) adopted: Vec<(usize, usize)>,
}

impl Thread {
    pub(crate) fn new(units: Vec<Unit>) -> Self {
        let mut thread = Self { units, ..Self::default() };
        for (at, unit) in thread.units.iter().enumerate() {
            if unit.person.is_none() {
                continue;
            }
            if thread.turns.len() <= unit.turn {
                thread.turns.resize(unit.turn + 1, at..at);
            }
            thread.turns[unit.turn].end = at + 1;
        }
        let cues = |turn: &Range<usize>| {
            thread.units[turn.clone()].iter().fold(0, |set, unit| set | unit.cues)
        };
        thread.cues = thread.turns.iter().map(cues).collect();
        thread.agreed = vec![None; thread.units.len()];
        thread.accepted = vec![false; thread.units.len()];
        thread.repeats = vec![None; thread.units.len()];
        thread.weights = vec![None; thread.units.len()];
        thread.rejected = vec![false; thread.units.len()];
        thread.withdrawn = vec![false; thread.units.len()];
        for at in 0..thread.units.len() {
            if thread.units[at].person.is_some_and(|_| !thread.units[at].is_idle()) {
                thread.correct(at);
                thread.object(at);
            }
        }
        thread.topics = (0..thread.units.len()).map(|at| thread.topic_of(at)).collect();
        thread.chances = vec![[f32::NEG_INFINITY; 4]; thread.units.len()];
        thread
    }

    pub(crate) fn has_role(&self, at: usize, role: Role) -> bool {
        let is_clear = match role {
            Role::Decision => self.accepted[at] && !self.rejected[at],
            Role::Action => {
                let before = self.line_of(at).start..at;
                self.units[at].is(Act::Commitment)
                    && ({ before }.any(|at| self.adopts[at].is_some()) || self.accepts_task(at))
            }
            Role::Question | Role::Dissent => false,
        };
        self.chances[at][role as usize] > if is_clear { role.clear_min() } else { 0.0 }
    }

    /// Checks whether a sentence says nothing but "will do" or "me" after a request or a need of another person.
    fn accepts_task(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let asks = |said: &Unit| said.is(Act::Request) || said.is(Act::Need);
        unit.has(Cue::Bare)
            && unit.words.is_empty()
            && self.earlier(at, 1).any(|before| {
                let said = &self.units[before];
                said.person != unit.person && asks(said)
            })
    }

    // Lines

    /// Sentences in the same line as a sentence, including it.
    pub(crate) fn line_of(&self, at: usize) -> Range<usize> {
        let line = self.units[at].line;
        let before = self.units[..at].iter().rev().take_while(|unit| unit.line == line).count();
        let after = self.units[at..].iter().take_while(|unit| unit.line == line).count();
        at - before..at + after
    }

    pub(crate) fn speaker(&self, turn: usize) -> Option<usize> {
        self.units[self.turns[turn].clone()].first().and_then(|unit| unit.person)
    }

    pub(crate) fn line_cues(&self, turn: usize) -> impl Iterator<Item = Cue> {
        members(self.cues[turn])
    }

    pub(crate) fn line_is(&self, turn: usize, act: Act) -> bool {
        self.units[self.turns[turn].clone()].iter().any(|unit| unit.is(act))
    }

    /// Checks whether a line repeats a content word of a sentence.
    pub(crate) fn shares(&self, at: usize, turn: usize) -> bool {
        self.units[self.turns[turn].clone()].iter().any(|other| self.units[at].shared(other) > 0)
    }

    /// Sentences by people in the lines before the line of a sentence, newest first.
    pub(crate) fn earlier(&self, at: usize, reach: usize) -> impl Iterator<Item = usize> {
        let (line, turn) = (self.units[at].line, self.units[at].turn);
        (0..at)
            .rev()
            .take(UNITS_MAX)
            .filter(move |at| self.units[*at].person.is_some() && self.units[*at].line != line)
            .take_while(move |at| turn - self.units[*at].turn <= reach)
    }

    /// Sentences in the next `reach` lines by people.
    pub(crate) fn later(&self, at: usize, reach: usize) -> impl Iterator<Item = usize> {
        let unit = &self.units[at];
        let first = unit.turn + usize::from(unit.person.is_some());
        let turns = first..(first + reach).min(self.turns.len());
        turns.flat_map(|turn| self.turns[turn].clone()).take(UNITS_MAX)
    }

    /// The last sentence with content in the lines before the line of a sentence.
    pub(crate) fn before(&self, at: usize) -> Option<usize> {
        let mut before = self.earlier(at, REACH).take(4);
        before.find(|at| !self.units[*at].is_idle() && !self.units[*at].words.is_empty())
    }

    pub(crate) fn is_candidate(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let has_content =
            !unit.words.is_empty() || !unit.values.is_empty() || unit.people().next().is_some();
        (unit.person.is_some() || self.adopted.iter().any(|(line, _)| *line == unit.line))
            && !unit.is(Act::Machine)
            && !unit.is_quotation()
            && unit.is_ticked != Some(true)
            && !unit.addresses_agent()
            && (has_content || unit.is(Act::Commitment))
    }

    // Answers and agreement

    /// The question that a statement answers.
    fn topic_of(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        let mut best: Option<(usize, usize)> = None;
        for before in self.earlier(at, REACH) {
            let asked = &self.units[before];
            // "Friday or Monday?" is not answered by an amount.
            let is_like = |value: &Value| asked.values.iter().any(|other| other.kind == value.kind);
            let is_other = !asked.values.is_empty()
                && !unit.values.is_empty()
                && !unit.values.iter().any(is_like);
            let is_question = asked.is(Act::Question) && !asked.words.is_empty();
            if !is_question || asked.is_idle() || asked.is(Act::Unsure) || is_other {
                continue;
            }
            let score = 20 + unit.shared(asked).min(2) * 4 - (unit.turn - asked.turn) * 2;
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, before));
            }
        }
        best.map(|(_, before)| before)
    }

    /// Records the agents' lines that a person adopts with a clear answer or by repeating their words.
    fn adopt(&mut self, at: usize) {
        let unit = &self.units[at];
        if !unit.is(Act::Assent) || unit.is(Act::Unsure) || unit.is(Act::Dissent) {
            return;
        }
        let first = self.line_of(at).start;
        let mut adopted = Vec::new();
        for before in (0..first).rev().take(UNITS_MAX) {
            let said = &self.units[before];
            let turns = unit.turn - said.turn;
            if turns > 2 || said.person.is_some() && said.is(Act::Proposal) {
                break;
            }
            let is_answered = turns == 0 && unit.has(Cue::Assent) && said.is(Act::Proposal);
            if said.person.is_none()
                && !said.is(Act::Machine)
                && !said.is(Act::Question)
                && (is_answered || unit.shared(said) > 0)
            {
                adopted.push((said.line, at));
            }
        }
        self.adopted.extend(adopted);
    }

    // Objections and retractions

    fn object(&mut self, at: usize) {
        self.adopt(at);
        let unit = &self.units[at];
        let is_objection = unit.is(Act::Dissent) && !unit.is(Act::Question);
        let is_retraction = unit.is(Act::Retraction);
        if unit.is(Act::Yielding) || !is_objection && !is_retraction {
            return;
        }
        let reach = if is_retraction { 3 } else { 2 };
        let found = self.earlier(at, REACH).find(|before| {
            let said = &self.units[*before];
            let is_own = said.person == unit.person;
            // A retraction of three or more words concerns only the speaker's own statements, unless words are shared: "Grid
            // generation is mine, tilemap in the bin" does not retract what others said about the sound.
            let is_about = is_own || !is_retraction || unit.words.len() < 3;
            let is_near = unit.turn - said.turn <= reach && is_about || unit.shared(said) > 0;
            // "No, scratch that" after an agreement concerns what was agreed to.
            let is_agreement = is_retraction && !is_own && said.is_bare_assent();
            let has_content = !said.words.is_empty() || is_own && said.is(Act::Commitment);
            has_content && !is_agreement && !said.is_idle() && is_near && (is_retraction || !is_own)
        });
        if let Some(found) = found {
            let is_own = self.units[found].person == self.units[at].person;
            self.rejected[found] = true;
            self.withdrawn[found] |= is_retraction && is_own;
        }
    }

    // Corrections

    pub(crate) fn supersede(&mut self, value: Superseded) {
        let is_known = self.superseded.iter().rev().take(UNITS_MAX).any(|known| *known == value);
        if !is_known && value.old.to_lowercase() != value.new.to_lowercase() {
            self.superseded.push(value);
        }
    }

    fn correct(&mut self, at: usize) {
        let unit = &self.units[at];
        if unit.is(Act::Question) && !unit.has(Cue::Instead) || !unit.is(Act::Correction) {
            return;
        }
        let pair = pair(unit);
        let Some((new, old)) = pair.or_else(|| Some((unit.values.first()?.clone(), None))) else {
            return;
        };
        if let Some(old) = &old {
            self.drop_old(at, &new, old);
        }
        let unit = &self.units[at];
        let is_short = unit.words.len() <= 4 + unit.values.len();
        if old.is_none() && (!is_short || unit.is(Act::Commitment)) {
            return;
        }
        let target = self.earlier(at, REACH_CORRECTION).find_map(|before| {
            let said = &self.units[before];
            if said.is_idle() {
                return None;
            }
            let value = match &old {
                Some(old) => said.values.iter().position(|value| value.is_same(old)),
                None => corrected(said, unit, &new),
            };
            // A text such as "or 12?" or "then 12" does not name the old value, so it can correct only a recent line or one by the
            // same person.
            let is_near = said.person == unit.person || unit.turn - said.turn <= 4;
            value.filter(|_| old.is_some() || is_near).map(|value| (before, value))
        });
        let Some((before, value)) = target else { return };
        let old = self.units[before].values[value].clone();
        let (line, text) = (unit.line, new.text.clone());
        let of = self.units[before].line;
        self.supersede(Superseded {
            old: old.text.clone(),
            new: text.clone(),
            of,
            line,
            is_explicit: true,
        });
        let unit = &mut self.units[before];
        unit.edits.retain(|edit| edit.from != old.from);
        unit.edits.push(Edit { from: old.from, to: old.to, new: text, line });
        unit.edits.sort_by_key(|edit| edit.from);
        unit.values[value] = Value { day: new.day, key: new.key, text: new.text, ..old };
    }

    /// Removes the old value from the quoted text: "5000 euros, not 4000" becomes "5000 euros".
    fn drop_old(&mut self, at: usize, new: &Value, old: &Value) {
        let unit = &self.units[at];
        let hits = unit.hits.iter().filter(|hit| matches!(hit.cue, Cue::Not | Cue::Instead));
        let hit = hits.copied().find(|hit| hit.to <= old.from && old.from <= hit.to + 2);
        let Some(hit) = hit else { return };
        let from = hit.from - usize::from(hit.from > 0 && unit.tokens[hit.from - 1].word == ",");
        let is_unit = |token: &Token| !old.unit.is_empty() && token.word.starts_with(&old.unit);
        let end = old.to + usize::from(unit.tokens.get(old.to).is_some_and(is_unit));
        let to = if new.from >= old.to { new.from } else { end };
        let line = unit.line;
        self.units[at].edits.push(Edit { from, to, new: String::new(), line });
    }
}

/// The new and the old value in "12, not 10", "12 instead of 10", or "not 10 but 12".
fn pair(unit: &Unit) -> Option<(Value, Option<Value>)> {
    let values = &unit.values;
    for hit in unit.all(Cue::Instead).chain(unit.all(Cue::Not)) {
        let old = values.iter().find(|value| (hit.to..=hit.to + 2).contains(&value.from));
        let Some(old) = old else { continue };
        let is_like = |value: &&Value| value.is_like(old) && !value.is_same(old);
        let before = values.iter().rev().filter(is_like).find(|value| value.to <= hit.from);
        let later = values.iter().filter(is_like).find(|value| value.from >= old.to);
        let is_later = hit.cue == Cue::Not && unit.has(Cue::But);
        let new = if is_later { later.or(before) } else { before.or(later) };
        if let Some(new) = new {
            return Some((new.clone(), Some(old.clone())));
        }
    }
    None
}

/// Position of the old value to which a correction refers without naming it: the only value of its kind, or the one next to a word of
/// the correction.
fn corrected(old: &Unit, correction: &Unit, new: &Value) -> Option<usize> {
    let like = |value: &&Value| value.is_like(new) && !value.is_same(new);
    let mut all = old.values.iter().filter(like);
    let first = all.next()?;
    if all.next().is_none() {
        let is_exact = first.unit == new.unit || new.unit.is_empty();
        return old.values.iter().position(|value| value == first && is_exact);
    }
    let near = |value: &Value| {
        let beside = value.from.saturating_sub(1)..(value.to + 1).min(old.tokens.len());
        let mut words = old.tokens[beside].iter().map(|token| token.word.as_str());
        words.any(|word| correction.words.iter().any(|stem| word.starts_with(stem.as_str())))
    };
    old.values.iter().position(|value| like(&value) && near(value))
}
