//! Links: which sentence answers which. One pass over the units, with bounded look-back.

use std::collections::HashSet;

use chrono::NaiveDate;

use crate::{
    Superseded,
    lexicon::Cue,
    text::{Kind, Token},
    units::{Act, Edit, Unit},
    values::{Value, ValueKind},
};

/// Look-back in people's lines.
const REACH: usize = 6;
const REACH_CORRECTION: usize = 14;
/// Look-back in entries, for conversations with very long messages.
const ENTRIES_MAX: usize = 40;
/// A choice between options is short.
const PICK_TERMS_MAX: usize = 4;
/// Sources of a result.
pub(crate) const SOURCES_MAX: usize = 20;
/// A final statement holds if nobody objects in this many people's lines.
const FINAL_LINES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Accepted,
    /// Accepted, then objected to.
    Contested,
    Dropped,
    /// Repeated by a newer matter.
    Merged,
    Deferred,
}

/// Something that can be decided.
#[derive(Debug, Clone)]
pub(crate) struct Matter {
    pub(crate) unit: usize,
    /// The question that it answers.
    pub(crate) topic: Option<usize>,
    /// Units of people who agreed and added something.
    pub(crate) extra: Vec<usize>,
    pub(crate) sources: Vec<usize>,
    pub(crate) state: State,
    /// 3 is a final statement, 2 a proposal, 1 a fragment or option, 0 a statement of facts.
    weight: usize,
    supporters: Vec<usize>,
    pub(crate) dissents: Vec<(usize, usize)>,
    /// People's line of the last activity.
    turn: usize,
}

impl Matter {
    /// Keeps the last objection of each person.
    fn object(&mut self, person: usize, at: usize) {
        self.dissents.retain(|(who, _)| *who != person);
        self.dissents.push((person, at));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// Asked for, or needed.
    Asked,
    Taken,
    Gone,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) unit: usize,
    /// The request, need, or question that a short answer takes on.
    pub(crate) target: Option<usize>,
    pub(crate) owner: Option<usize>,
    pub(crate) sources: Vec<usize>,
    pub(crate) state: TaskState,
    /// True if the owner is named in the request.
    pub(crate) is_named: bool,
    pub(crate) due: Option<NaiveDate>,
    turn: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) unit: usize,
    pub(crate) is_open: bool,
    pub(crate) is_unsure: bool,
    /// Answered by a statement only: "I don't know" opens it again.
    is_soft: bool,
    pub(crate) sources: Vec<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) units: Vec<Unit>,
    pub(crate) matters: Vec<Matter>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) questions: Vec<Question>,
    /// Deferred units, with their sources.
    pub(crate) deferred: Vec<(usize, Vec<usize>)>,
    pub(crate) superseded: Vec<Superseded>,
    /// Agents' lines that a person adopted.
    pub(crate) adopted: Vec<usize>,
    /// Last unit of a person, and the person before, to whom a "you" speaks.
    last_speaker: Option<usize>,
    previous_speaker: Option<usize>,
}

/// Adds a source; of many, the first and the newest ones are kept.
pub(crate) fn add(lines: &mut Vec<usize>, line: usize) {
    if !lines.contains(&line) {
        if lines.len() == SOURCES_MAX {
            lines.remove(1);
        }
        lines.push(line);
    }
}

/// Position of the newest entry for which `is` holds, among the last ones.
fn newest<T>(entries: &[T], is: impl FnMut(&T) -> bool) -> Option<usize> {
    let first = entries.len().saturating_sub(ENTRIES_MAX);
    entries[first..].iter().rposition(is).map(|at| first + at)
}

impl Thread {
    pub(crate) fn new(units: Vec<Unit>) -> Self {
        let mut thread = Self { units, ..Self::default() };
        let mut turn = usize::MAX;
        for at in 0..thread.units.len() {
            let unit = &thread.units[at];
            if let Some(person) = unit.person
                && turn != unit.turn
            {
                turn = unit.turn;
                if thread.last_speaker != Some(person) {
                    thread.previous_speaker = thread.last_speaker;
                    thread.last_speaker = Some(person);
                }
            }
            thread.read(at);
        }
        thread.close();
        thread
    }

    fn read(&mut self, at: usize) {
        let unit = &self.units[at];
        let Some(person) = unit.person else {
            // What an agent says can be adopted, and does nothing else.
            if !unit.words.is_empty() && !unit.is(Act::Machine) && !unit.is(Act::Question) {
                self.new_matter(at, 1, None);
            }
            return;
        };
        let quoted = unit.tokens.iter().filter(|token| token.is_quoted).count();
        if unit.is(Act::Machine) || unit.is_ticked == Some(true) || quoted * 2 > unit.tokens.len() {
            return;
        }
        if unit.is(Act::Chatter) || unit.is(Act::Joke) && !unit.is(Act::Assent) {
            return;
        }
        if unit.addresses_agent() && unit.is(Act::Question) {
            return;
        }
        self.correct(at, person);
        self.object(at, person);
        let assented = self.assent(at, person);
        let took = self.work(at, person);
        self.answer(at, person);
        let unit = &self.units[at];
        if unit.is(Act::Question) && !took {
            self.ask(at);
        }
        let is_choice = !took || self.units[at].is(Act::Decision) || self.picks(at);
        if is_choice && assented.is_none() {
            self.propose(at, person);
        }
    }

    fn distance(&self, at: usize, turn: usize) -> usize {
        self.units[at].turn.saturating_sub(turn)
    }

    // Matters

    fn new_matter(&mut self, at: usize, weight: usize, topic: Option<usize>) -> usize {
        let unit = &self.units[at];
        let mut sources = vec![unit.line];
        if let Some(topic) = topic {
            add(&mut sources, self.units[topic].line);
        }
        let supporters = unit.person.into_iter().collect();
        self.matters.push(Matter {
            unit: at,
            topic,
            extra: Vec::new(),
            sources,
            state: State::Open,
            weight,
            supporters,
            dissents: Vec::new(),
            turn: unit.turn,
        });
        self.matters.len() - 1
    }

    fn weight(&self, at: usize) -> usize {
        let unit = &self.units[at];
        let is_question = unit.is(Act::Question);
        if unit.is(Act::Decision)
            && !is_question
            && !unit.is(Act::Unsure)
            && !unit.is(Act::Deferral)
        {
            return 3;
        }
        if unit.is(Act::Proposal) {
            return 2;
        }
        // "100, the mobile team complains" is an option with a reason.
        let end = unit
            .tokens
            .iter()
            .position(|token| matches!(token.word.as_str(), "," | "." | "-" | "–" | ";"));
        // "Right, Friday is a holiday" starts with a filler.
        let end = end
            .filter(|end| *end > 1 || *end == 1 && unit.tokens[0].kind == Kind::Number)
            .unwrap_or(unit.tokens.len());
        let is_fragment = !is_question && !unit.all(Cue::Fact).any(|hit| hit.from < end);
        usize::from(is_fragment && !unit.is(Act::Unsure))
    }

    /// The question that a short statement answers.
    fn topic_of(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        let mut best: Option<(usize, usize)> = None;
        for question in self.questions.iter().rev().take(ENTRIES_MAX) {
            let asked = &self.units[question.unit];
            let distance = self.distance(at, asked.turn);
            if distance > REACH {
                break;
            }
            // "Friday or Monday?" is not answered by an amount.
            let is_like = |value: &Value| asked.values.iter().any(|other| other.kind == value.kind);
            let is_other = !asked.values.is_empty()
                && !unit.values.is_empty()
                && !unit.values.iter().any(is_like);
            if question.unit == at || asked.is(Act::Unsure) || is_other {
                continue;
            }
            let score = 20 + unit.shared(asked).min(2) * 4 - distance * 2;
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, question.unit));
            }
        }
        best.map(|(_, question)| question)
    }

    fn propose(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        let has_content =
            !unit.words.is_empty() || !unit.values.is_empty() || unit.people().next().is_some();
        if !has_content || unit.is(Act::Deferral) || unit.is(Act::Retraction) {
            return;
        }
        // A refused or declined matter is not a new one.
        let picks = unit.is(Act::Assent) && !unit.is(Act::Question) && self.picks(at);
        let weight = if picks { 3 } else { self.weight(at) };
        if unit.is(Act::Question) && weight < 2 {
            return;
        }
        if unit.is(Act::Dissent) && weight < 2 && unit.words.len() < 2 {
            return;
        }
        let topic = self.topic_of(at);
        let repeated = self.repeated(at, person);
        let matter = self.new_matter(at, weight, topic);
        if let Some(old) = repeated {
            self.support(matter, old, at, person);
        } else if weight == 3 && !self.units[at].is(Act::Hedge) {
            self.accept(matter, at);
        }
    }

    /// A short statement that repeats an option of somebody else is a vote for it.
    fn repeated(&self, at: usize, person: usize) -> Option<usize> {
        let unit = &self.units[at];
        if unit.is(Act::Question) || unit.is(Act::Dissent) || unit.words.len() > 9 {
            return None;
        }
        let recent = self.matters.iter().enumerate().rev().take(ENTRIES_MAX);
        recent
            .take_while(|(_, matter)| self.distance(at, matter.turn) <= REACH)
            .filter(|(_, matter)| {
                let said = &self.units[matter.unit];
                said.person != Some(person)
                    && said.person.is_some()
                    && !matches!(matter.state, State::Dropped | State::Merged)
            })
            .find(|(_, matter)| {
                let said = &self.units[matter.unit];
                let shared = unit.shared(said);
                let has_value = unit
                    .values
                    .iter()
                    .any(|value| said.values.iter().any(|old| value.is_same(old)));
                (shared > 0 && shared * 2 >= unit.words.len() && unit.words.len() <= 5) || has_value
            })
            .map(|(n, _)| n)
    }

    /// A new statement takes the place of the option that it repeats.
    fn support(&mut self, new: usize, old: usize, at: usize, person: usize) {
        let before = self.matters[old].clone();
        for line in &before.sources {
            add(&mut self.matters[new].sources, *line);
        }
        let matter = &mut self.matters[new];
        matter.topic = before.topic.filter(|topic| *topic != before.unit).or(matter.topic);
        if self.units[before.unit].words.len() > self.units[at].words.len() {
            matter.extra.push(before.unit);
        }
        for who in before.supporters {
            if who != person && !matter.supporters.contains(&who) {
                matter.supporters.push(who);
            }
        }
        let is_vote = before.weight + matter.weight >= 2;
        self.matters[old].state = State::Merged;
        if is_vote || before.state == State::Accepted {
            self.accept(new, at);
        }
    }

    fn assent(&mut self, at: usize, person: usize) -> Option<usize> {
        let unit = &self.units[at];
        if !unit.is(Act::Assent) || unit.is(Act::Unsure) || self.picks(at) {
            return None;
        }
        let strength = if unit.has(Cue::Assent) { 2 } else { 1 };
        let mut best: Option<(i64, usize)> = None;
        for (n, matter) in self.matters.iter().enumerate().rev().take(ENTRIES_MAX) {
            let said = &self.units[matter.unit];
            let distance = self.distance(at, matter.turn).max(1);
            if distance > REACH {
                break;
            }
            let is_own = said.person == Some(person);
            if said.line == unit.line || (is_own && matter.supporters.len() < 2) {
                continue;
            }
            let shared = unit.shared(said).min(2)
                + usize::from(
                    unit.values
                        .iter()
                        .any(|value| said.values.iter().any(|old| value.is_same(old))),
                );
            let weight = matter.weight.min(3);
            let is_agent = said.person.is_none();
            // An agent's idea is adopted by a clear answer, or by its words.
            let is_adopted = shared > 0
                || strength == 2
                    && distance == 1
                    && said.is(Act::Proposal)
                    && self.is_last_idea(matter.unit, at);
            let is_told = strength == 2
                && distance == 1
                && !said.values.is_empty()
                && !said.is(Act::Question);
            if is_agent && !is_adopted
                || !is_agent && weight + strength + shared.min(1) < 3 && !is_told
            {
                continue;
            }
            if matter.state == State::Merged || matter.state == State::Dropped && shared == 0 {
                continue;
            }
            let score = 10 - 3 * as_i64(distance)
                + 2 * as_i64(weight)
                + 4 * as_i64(shared)
                + as_i64(said.values.len().min(2));
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, n));
            }
        }
        let (_, found) = best?;
        let said = &self.units[self.matters[found].unit];
        // "Ok, so node 16 is out" is a decision of its own, and "ok blue" picks an option.
        if unit.is(Act::Decision) && unit.terms() >= 1 && unit.shared(said) == 0 {
            return None;
        }
        let has_content =
            unit.words.len() >= 2 || !unit.values.is_empty() || unit.is(Act::Decision);
        let line = unit.line;
        let matter = &mut self.matters[found];
        add(&mut matter.sources, line);
        if has_content {
            matter.extra.push(at);
        }
        if !matter.supporters.contains(&person) {
            matter.supporters.push(person);
        }
        matter.dissents.retain(|(who, _)| *who != person);
        self.accept(found, at);
        let said = &self.units[self.matters[found].unit];
        if said.person.is_none() {
            let line = said.line;
            add(&mut self.adopted, line);
        }
        Some(found)
    }

    /// Checks whether no person proposed, decided, or corrected anything between two units.
    fn is_last_idea(&self, from: usize, to: usize) -> bool {
        let line = self.units[to].line;
        let mut between = self.units[from + 1..to]
            .iter()
            .filter(|unit| unit.person.is_some() && unit.line != line);
        !between.any(|unit| {
            unit.is(Act::Proposal) || unit.is(Act::Decision) || unit.is(Act::Correction)
        })
    }

    /// Checks whether a unit names an option of a question ("blue or green?").
    fn picks(&self, at: usize) -> bool {
        let unit = &self.units[at];
        // "Right, Friday is a holiday" names one without choosing it.
        if !unit.is(Act::Assent) || unit.has(Cue::Fact) || unit.terms() > PICK_TERMS_MAX {
            return false;
        }
        let topic = self.topic_of(at).map(|topic| &self.units[topic]);
        topic.is_some_and(|asked| {
            asked.has(Cue::Or)
                && asked.shared(&self.units[at]) > 0
                && asked.line != self.units[at].line
        })
    }

    fn accept(&mut self, matter: usize, at: usize) {
        let turn = self.units[at].turn;
        let found = &mut self.matters[matter];
        found.state = State::Accepted;
        found.turn = turn;
        let (unit, topic) = (found.unit, found.topic);
        for question in self.questions.iter_mut().rev().take(ENTRIES_MAX) {
            if question.unit == unit || Some(question.unit) == topic {
                question.is_open = false;
            }
        }
        self.overrule(matter);
    }

    /// An accepted matter overrules the older values and options of its topic.
    fn overrule(&mut self, matter: usize) {
        let new = self.matters[matter].clone();
        let first = matter.saturating_sub(ENTRIES_MAX);
        for old in first..matter {
            if self.matters[old].unit >= new.unit {
                continue;
            }
            let before = &self.matters[old];
            let (said, now) = (&self.units[before.unit], &self.units[new.unit]);
            if said.line == now.line || now.turn.saturating_sub(said.turn) > REACH_CORRECTION {
                continue;
            }
            let is_same_topic =
                before.topic == new.topic && new.topic.is_some() || new.topic == Some(before.unit);
            let clash = clash(said, now);
            // A bare value replaces the last one of its kind, however long ago.
            let is_bare = now.words.len() < 2 && before.state == State::Accepted;
            let is_near = now.turn.saturating_sub(before.turn) <= 3 || is_bare;
            // Another question has been asked since: its values are other ones.
            let is_other_topic = !is_same_topic
                && new.topic.is_some_and(|topic| self.units[topic].turn > before.turn)
                && said.shared(now) == 0
                && clash.is_some_and(|(from, _)| said.values[from].kind != ValueKind::Date);
            // "We buy the house on Monday" leaves "we sell the car on Friday" as it was decided.
            let is_other_matter =
                !is_same_topic && before.state == State::Accepted && said.has_other_subject(now);
            if is_other_topic || is_other_matter {
                continue;
            }
            let Some((from, to)) =
                clash.filter(|_| is_same_topic || is_near || said.shared(now) > 0)
            else {
                continue;
            };
            let value = Superseded {
                old: said.values[from].text.clone(),
                new: now.values[to].text.clone(),
                line: now.line,
            };
            // A fact that names a value is not corrected by a decision.
            let is_option = before.weight > 0 || before.state == State::Accepted;
            if is_option && said.person.is_some() {
                self.supersede(value);
            }
            let before = &mut self.matters[old];
            if !matches!(before.state, State::Deferred | State::Merged) {
                before.state = State::Dropped;
            }
        }
    }

    fn supersede(&mut self, value: Superseded) {
        let is_known = self.superseded.iter().rev().take(ENTRIES_MAX).any(|known| *known == value);
        if !is_known && value.old.to_lowercase() != value.new.to_lowercase() {
            self.superseded.push(value);
        }
    }

    // Corrections

    fn correct(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        if unit.is(Act::Question) && !unit.has(Cue::Instead) || !unit.is(Act::Correction) {
            return;
        }
        let pair = self.pair(at);
        let Some((new, old)) =
            pair.or_else(|| Some((self.units[at].values.first()?.clone(), None)))
        else {
            return;
        };
        if let Some(old) = &old {
            self.drop_old(at, &new, old);
        }
        let unit = &self.units[at];
        let is_short = unit.words.len() <= 4 + unit.values.len();
        let is_explicit = old.is_some();
        if !is_explicit && (!is_short || unit.is(Act::Commitment)) {
            return;
        }
        // "or 12?" and "then 12" are proposals unless somebody corrects himself.
        let line = unit.line;
        let turn = unit.turn;
        let text = new.text.clone();
        let mut target = None;
        for before in (0..at).rev().take(ENTRIES_MAX * 2) {
            let said = &self.units[before];
            if turn.saturating_sub(said.turn) > REACH_CORRECTION
                || said.line == line && !is_explicit
            {
                if said.line != line {
                    break;
                }
                continue;
            }
            if said.person.is_none() || said.is_idle() {
                continue;
            }
            let fits = match &old {
                Some(old) => said.values.iter().position(|value| value.is_same(old)),
                None => corrected(said, unit, &new),
            };
            if let Some(value) = fits
                && (is_explicit || said.person == Some(person) || turn - said.turn <= 4)
            {
                target = Some((before, value));
                break;
            }
        }
        let Some((before, value)) = target else {
            return;
        };
        let old = self.units[before].values[value].clone();
        self.supersede(Superseded { old: old.text.clone(), new: text.clone(), line });
        let unit = &mut self.units[before];
        unit.edits.retain(|edit| edit.from != old.from);
        unit.edits.push(Edit { from: old.from, to: old.to, new: text, line });
        unit.edits.sort_by_key(|edit| edit.from);
        let day = new.day;
        for task in self.tasks.iter_mut().rev().take(ENTRIES_MAX) {
            if task.due == old.day && (task.unit == before || task.target == Some(before)) {
                task.due = day;
            }
        }
        let unit_kind = unit.values[value].clone();
        unit.values[value] =
            Value { day, key: new.key.clone(), text: new.text.clone(), ..unit_kind };
    }

    /// Quotes "5000 euros, not 4000" as "5000 euros".
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

    /// "12, not 10", "12 instead of 10", "not 10 but 12", "from 10 to 12".
    fn pair(&self, at: usize) -> Option<(Value, Option<Value>)> {
        let unit = &self.units[at];
        let values = &unit.values;
        for cue in [Cue::Instead, Cue::Not] {
            for hit in unit.all(cue) {
                let after =
                    values.iter().find(|value| value.from >= hit.to && value.from <= hit.to + 2);
                let Some(old) = after else { continue };
                let is_like = |value: &&Value| value.is_like(old) && !value.is_same(old);
                let before = values.iter().rev().filter(is_like).find(|value| value.to <= hit.from);
                let later = values.iter().filter(is_like).find(|value| value.from >= old.to);
                let new = if cue == Cue::Not && unit.has(Cue::But) {
                    later.or(before)
                } else {
                    before.or(later)
                };
                if let Some(new) = new {
                    return Some((new.clone(), Some(old.clone())));
                }
            }
        }
        None
    }

    // Objections, retractions, deferrals

    fn object(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        let is_objection =
            unit.is(Act::Dissent) && !unit.is(Act::Question) || unit.is(Act::Yielding);
        let is_retraction = unit.is(Act::Retraction);
        let is_deferral = unit.is(Act::Deferral);
        if !is_objection && !is_retraction && !is_deferral {
            return;
        }
        let yields = unit.is(Act::Yielding);
        let line = unit.line;
        // "No way" objects to what the line before was about.
        let context = if unit.words.is_empty() { self.before(at) } else { None };
        let mut found = None;
        for (n, matter) in self.matters.iter().enumerate().rev().take(ENTRIES_MAX) {
            let said = &self.units[matter.unit];
            let distance = self.distance(at, matter.turn);
            if distance > REACH {
                break;
            }
            if said.line == line
                || matches!(matter.state, State::Dropped | State::Merged)
                || matter.weight == 0
            {
                continue;
            }
            let is_own = said.person == Some(person) && matter.supporters.len() < 2;
            if is_own && !is_retraction && !is_deferral {
                continue;
            }
            let shared =
                unit.shared(said) + context.map_or(0, |before| self.units[before].shared(said));
            if shared > 0 || distance <= if is_retraction { 3 } else { 2 } {
                found = Some(n);
                if shared > 0 || unit.words.len() < 3 || matter.state == State::Accepted {
                    break;
                }
            }
        }
        if is_retraction {
            self.retract_task(at, person);
        }
        if is_deferral {
            self.defer(at, found);
            return;
        }
        let Some(found) = found else { return };
        let matter = &mut self.matters[found];
        if is_retraction {
            matter.state = State::Dropped;
            return;
        }
        if yields {
            matter.object(person, at);
            return;
        }
        matter.state = match matter.state {
            State::Accepted => State::Contested,
            State::Open => State::Dropped,
            other => other,
        };
        matter.object(person, at);
    }

    fn defer(&mut self, at: usize, matter: Option<usize>) {
        let line = self.units[at].line;
        let mut sources = vec![line];
        let mut subject = at;
        if let Some(found) = matter {
            let matter = &mut self.matters[found];
            if matter.state != State::Accepted {
                matter.state = State::Deferred;
            }
            if self.units[at].words.len() < 3 {
                subject = matter.unit;
                add(&mut sources, self.units[subject].line);
            }
        } else if let Some(question) =
            self.questions.iter_mut().rev().take(ENTRIES_MAX).find(|question| question.is_open)
            && self.units[at].words.len() < 3
        {
            question.is_unsure = true;
            subject = question.unit;
            add(&mut sources, self.units[subject].line);
        }
        if !self.units[subject].words.is_empty() {
            self.deferred.push((subject, sources));
        }
    }

    // Questions

    fn ask(&mut self, at: usize) {
        let unit = &self.units[at];
        if unit.words.is_empty() && unit.values.is_empty() {
            return;
        }
        self.questions.push(Question {
            unit: at,
            is_open: true,
            is_unsure: false,
            is_soft: false,
            sources: vec![unit.line],
        });
    }

    /// Closes the question that a statement answers.
    fn answer(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        if unit.is(Act::Question) {
            return;
        }
        let line = unit.line;
        let is_unsure = unit.is(Act::Unsure) || unit.is(Act::Deferral) || unit.is(Act::Refusal);
        if unit.is(Act::Joke) || unit.is(Act::Hedge) && !is_unsure {
            return;
        }
        // "Who?" is answered by a name or by somebody who takes it on.
        let is_named = unit.is(Act::Commitment) || unit.people().next().is_some();
        let mut best: Option<(i64, usize)> = None;
        for (n, question) in self.questions.iter().enumerate().rev().take(ENTRIES_MAX) {
            let asked = &self.units[question.unit];
            let distance = self.distance(at, asked.turn);
            if distance > REACH {
                break;
            }
            let is_live = question.is_open || is_unsure && question.is_soft;
            let is_off = !is_unsure
                && (asked.is(Act::Need) && !is_named
                    || unit.is(Act::Correction) && unit.shared(asked) == 0);
            if !is_live || asked.line == line || is_off {
                continue;
            }
            let shared = unit.shared(asked);
            let is_own = asked.person == Some(person);
            let mut score = 4 - 2 * as_i64(distance.saturating_sub(1)) + 3 * as_i64(shared.min(2));
            score += if is_unsure { 2 } else { 0 };
            score -= if is_own && shared == 0 { 5 } else { 0 };
            if unit.is(Act::Commitment) && !asked.is(Act::Need) {
                score -= 3;
            }
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, n));
            }
        }
        let Some((_, n)) = best else { return };
        let asked = &self.units[self.questions[n].unit];
        // "No" to "does anybody know?" answers nothing, and an objection is no answer to "which?".
        let is_no = unit.has(Cue::No) || unit.is(Act::Dissent);
        let is_missing = is_no && (asked.has(Cue::Anyone) || asked.has(Cue::Ask));
        let shared = unit.shared(asked);
        let question = &mut self.questions[n];
        if is_unsure || is_missing && unit.values.is_empty() {
            question.is_unsure = true;
            question.is_open = true;
            add(&mut question.sources, line);
        } else if !question.is_unsure || shared > 0 {
            question.is_open = false;
            question.is_soft = !unit.is(Act::Assent) && unit.values.is_empty();
        }
    }

    // Tasks

    fn work(&mut self, at: usize, person: usize) -> bool {
        let unit = &self.units[at];
        if unit.is(Act::Refusal) || unit.has(Cue::No) && self.is_asked(at, person) {
            self.refuse(at, person);
            return false;
        }
        if unit.is(Act::Done) && !unit.is(Act::Commitment) {
            self.finish(at, person);
        }
        let unit = &self.units[at];
        if unit.is(Act::Commitment) {
            self.commit(at, person);
            return true;
        }
        if unit.is(Act::Assent) && self.accept_request(at, person) {
            return true;
        }
        let unit = &self.units[at];
        if unit.is(Act::Request) {
            self.request(at, person);
            return true;
        }
        // "Who does it?" "Bo."
        let named: Vec<usize> = unit.people().filter(|who| *who != person).collect();
        if let [only] = named[..]
            && unit.words.is_empty()
            && let Some(target) = self.target(at, person, true)
        {
            self.push_task(at, Some(target), Some(only), TaskState::Asked, true);
            return true;
        }
        if unit.is(Act::Need) && !unit.is(Act::Question) {
            self.push_task(at, None, None, TaskState::Asked, false);
        }
        false
    }

    /// Checks whether the person was asked for something in the last two lines.
    fn is_asked(&self, at: usize, person: usize) -> bool {
        let turn = self.units[at].turn;
        let mut last = self.tasks.iter().rev().take(ENTRIES_MAX);
        last.any(|task| {
            task.state == TaskState::Asked && task.owner == Some(person) && turn - task.turn <= 2
        })
    }

    fn push_task(
        &mut self,
        at: usize,
        target: Option<usize>,
        owner: Option<usize>,
        state: TaskState,
        is_named: bool,
    ) {
        let unit = &self.units[at];
        let mut sources = vec![unit.line];
        let mut due = self.due(at);
        if let Some(target) = target {
            add(&mut sources, self.units[target].line);
            due = due.or_else(|| self.due(target));
        }
        let turn = unit.turn;
        sources.sort_unstable();
        self.tasks.push(Task { unit: at, target, owner, sources, state, is_named, due, turn });
    }

    /// The first day that a unit names, or its own day for what happens at once.
    fn due(&self, at: usize) -> Option<NaiveDate> {
        let unit = &self.units[at];
        let named = unit.values.iter().rev().find_map(|value| value.day);
        named.or_else(|| unit.has(Cue::Now).then_some(unit.day))
    }

    /// Subject of a short commitment: a need, request, or question of the last lines.
    fn target(&self, at: usize, person: usize, only_who: bool) -> Option<usize> {
        let unit = &self.units[at];
        let mut best: Option<(i64, usize)> = None;
        for before in (0..at).rev().take(ENTRIES_MAX) {
            let said = &self.units[before];
            let distance = self.distance(at, said.turn);
            if distance > REACH {
                break;
            }
            if said.person.is_none()
                || said.is_idle()
                || said.line == unit.line
                || said.words.is_empty()
            {
                continue;
            }
            let is_own = said.person == Some(person);
            let sort = if said.is(Act::Need) {
                6
            } else if said.is(Act::Request) {
                5
            } else if only_who || is_own {
                continue;
            } else if said.is(Act::Question) || said.is(Act::Proposal) {
                3
            } else {
                i64::from(distance <= 1) * 2
            };
            let score = sort * 2 - 3 * as_i64(distance) + 3 * as_i64(unit.shared(said).min(2))
                - i64::from(is_own) * 6;
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, before));
            }
        }
        best.map(|(_, before)| before)
    }

    fn commit(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        let is_bare = unit.has(Cue::Bare) || unit.words.len() < 2;
        let needs_context = is_bare || unit.has(Cue::Pronoun) || unit.words.len() < 3;
        let target = if needs_context { self.target(at, person, false) } else { None };
        if is_bare && target.is_none() && unit.words.is_empty() {
            return;
        }
        let line = unit.line;
        // The same task again, or an accepted request.
        let subject = target.filter(|_| is_bare).unwrap_or(at);
        let due = self.due(at);
        let turn = unit.turn;
        let known = newest(&self.tasks, |task| {
            let is_open =
                task.state != TaskState::Gone && turn.saturating_sub(task.turn) <= REACH_CORRECTION;
            let is_mine =
                task.owner.is_none_or(|owner| owner == person) || task.state == TaskState::Asked;
            let is_same = task.unit == subject || task.target == Some(subject);
            let shared = self.units[task.unit].shared(&self.units[at]);
            let is_like = shared > 0
                && shared * 2 >= self.units[task.unit].words.len().min(self.units[at].words.len());
            is_open && is_mine && (is_same || is_like)
        });
        if let Some(known) = known {
            let task = &mut self.tasks[known];
            (task.owner, task.state, task.is_named) = (Some(person), TaskState::Taken, true);
            add(&mut task.sources, line);
            task.due = due.or(task.due);
            task.turn = turn;
            if task.target.is_none() && task.unit != at {
                task.target = Some(task.unit);
                task.unit = at;
            }
        } else {
            // A dropped task of somebody else is taken over.
            self.push_task(at, target, Some(person), TaskState::Taken, true);
        }
        // Who takes on a need answers the question.
        if let Some(target) = target {
            for question in self.questions.iter_mut().rev().take(ENTRIES_MAX) {
                if question.unit == target {
                    question.is_open = false;
                }
            }
        }
    }

    fn request(&mut self, at: usize, person: usize) {
        let unit = &self.units[at];
        if unit.terms() == 0 && unit.people().next().is_none() && !unit.has(Cue::Pronoun) {
            return;
        }
        let named = unit.people().find(|who| *who != person);
        let other = if self.last_speaker == Some(person) {
            self.previous_speaker
        } else {
            self.last_speaker
        };
        let owner = named.or(other);
        if unit.words.is_empty() {
            return;
        }
        let target =
            if unit.has(Cue::Pronoun) && unit.words.len() < 3 { self.before(at) } else { None };
        self.push_task(at, target, owner, TaskState::Asked, named.is_some());
    }

    /// The last sentence with content before a line.
    pub(crate) fn before(&self, at: usize) -> Option<usize> {
        let line = self.units[at].line;
        let mut before = (0..at).rev().take(4);
        before.find(|at| {
            let unit = &self.units[*at];
            unit.line != line && unit.person.is_some() && !unit.is_idle() && !unit.words.is_empty()
        })
    }

    fn accept_request(&mut self, at: usize, person: usize) -> bool {
        let (line, turn) = (self.units[at].line, self.units[at].turn);
        let due = self.due(at);
        let found = newest(&self.tasks, |task| {
            let distance = turn.saturating_sub(task.turn);
            let is_next =
                !task.is_named && distance <= 1 && self.units[task.unit].person != Some(person);
            task.state == TaskState::Asked
                && (task.owner == Some(person) || is_next)
                && distance <= REACH
                && self.units[task.unit].line != line
        });
        let Some(found) = found else { return false };
        let task = &mut self.tasks[found];
        (task.owner, task.state) = (Some(person), TaskState::Taken);
        task.due = due.or(task.due);
        add(&mut task.sources, line);
        true
    }

    fn refuse(&mut self, at: usize, person: usize) {
        let turn = self.units[at].turn;
        let mut best = None;
        for (n, task) in self.tasks.iter().enumerate().rev().take(ENTRIES_MAX) {
            if turn.saturating_sub(task.turn) > REACH_CORRECTION {
                break;
            }
            if task.owner != Some(person) || task.state == TaskState::Gone {
                continue;
            }
            let shared = self.units[at].shared(&self.units[task.unit]);
            if shared > 0 || best.is_none() {
                best = Some(n);
            }
            if shared > 0 {
                break;
            }
        }
        if let Some(n) = best {
            let task = &mut self.tasks[n];
            task.state = TaskState::Asked;
            (task.owner, task.is_named) = (None, false);
        }
    }

    /// A retraction that shares words with a task, or follows the speaker's own one, ends it.
    fn retract_task(&mut self, at: usize, person: usize) {
        let turn = self.units[at].turn;
        let found = newest(&self.tasks, |task| {
            let distance = turn.saturating_sub(task.turn);
            let is_own = task.owner == Some(person) && distance <= 3;
            let shared = self.units[at].shared(&self.units[task.unit]);
            let is_other = self.units[task.unit].line != self.units[at].line;
            is_other
                && task.state != TaskState::Gone
                && distance <= REACH_CORRECTION
                && (is_own || shared > 0)
        });
        if let Some(found) = found {
            self.tasks[found].state = TaskState::Gone;
        }
    }

    fn finish(&mut self, at: usize, person: usize) {
        let turn = self.units[at].turn;
        let found = newest(&self.tasks, |task| {
            task.owner == Some(person)
                && task.state == TaskState::Asked
                && turn.saturating_sub(task.turn) <= 3
        });
        if let Some(found) = found {
            self.tasks[found].state = TaskState::Gone;
        }
    }

    /// Settles what depends on later lines.
    /// An answer to a question with options, or to a proposal, stands if nobody gives another one or objects.
    fn settle_answers(&mut self, last: usize) {
        for n in 0..self.matters.len() {
            let matter = &self.matters[n];
            let unit = &self.units[matter.unit];
            let Some(topic) = matter.topic else { continue };
            let asked = &self.units[topic];
            let is_choice = asked.has(Cue::Or) || asked.is(Act::Proposal);
            let is_answer =
                unit.person.is_some() && unit.person != asked.person && matter.weight > 0;
            let is_direct =
                unit.turn - asked.turn <= 2 && (unit.shared(asked) > 0 || !unit.values.is_empty());
            let mut later = self.matters[n + 1..].iter().take(ENTRIES_MAX);
            let is_only = !later.any(|other| {
                other.topic == Some(topic) && !matches!(other.state, State::Dropped | State::Merged)
            }) && !self.matters[n.saturating_sub(ENTRIES_MAX)..n]
                .iter()
                .any(|other| other.topic == Some(topic) && other.state == State::Accepted);
            let is_final =
                last > unit.turn && matter.state == State::Open && matter.dissents.is_empty();
            if is_choice && is_answer && is_direct && is_only && is_final && !unit.is(Act::Unsure) {
                let at = matter.unit;
                self.accept(n, at);
            }
        }
    }

    fn close(&mut self) {
        let last =
            self.units.iter().rev().find(|unit| unit.person.is_some()).map_or(0, |unit| unit.turn);
        for matter in &mut self.matters {
            // A contested matter that was accepted again is accepted; see `assent`.
            if matter.state == State::Contested
                && matter.supporters.len() > 2
                && last - matter.turn > FINAL_LINES
            {
                matter.state = State::Accepted;
            }
        }
        self.settle_answers(last);
        // If nothing was decided, the question of the beginning is open.
        if !self.matters.iter().any(|matter| matter.state == State::Accepted)
            && let Some(question) = self.questions.first_mut()
            && self.units[question.unit].turn < 2
        {
            question.is_open = true;
            question.is_unsure = true;
        }
        // A question with an owner is a task.
        let taken: HashSet<usize> = self
            .tasks
            .iter()
            .filter(|task| task.state == TaskState::Taken)
            .flat_map(|task| [Some(task.unit), task.target])
            .flatten()
            .collect();
        for question in &mut self.questions {
            if taken.contains(&question.unit) {
                question.is_open = false;
            }
        }
    }
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The value of an older unit that a correction without the old value means: the only one of its kind, or the one with
/// a word of the correction beside it.
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

/// Positions of two values of one kind that differ, if the new text does not repeat the old value.
fn clash(old: &Unit, new: &Unit) -> Option<(usize, usize)> {
    // "Friday or Monday?" is not corrected by "Monday".
    if old.values.iter().any(|value| new.values.iter().any(|other| other.is_same(value))) {
        return None;
    }
    for (from, value) in old.values.iter().enumerate() {
        if new.values.iter().any(|other| other.is_same(value)) {
            continue;
        }
        let is_plain = |other: &Value| {
            value.kind != ValueKind::Amount || other.unit == value.unit || new.words.len() <= 3
        };
        if let Some(to) =
            new.values.iter().position(|other| other.is_like(value) && is_plain(other))
        {
            return Some((from, to));
        }
    }
    None
}
