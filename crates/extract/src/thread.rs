//! Links: which sentence answers which. One pass over the units, with bounded look-back.

use crate::{
    Superseded,
    lexicon::Cue,
    units::{Act, Edit, Unit},
    values::Value,
};

/// Look-back in people's lines.
const REACH: usize = 6;
const REACH_CORRECTION: usize = 14;
/// Look-back in entries, for conversations with very long messages.
const ENTRIES_MAX: usize = 40;
/// A final statement holds if nobody objects in this many people's lines.
const FINAL_LINES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Accepted,
    /// Accepted, then objected to.
    Contested,
    Dropped,
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
    /// Whether the owner is named in the request.
    pub(crate) is_named: bool,
    /// Unit and position of the value that says when.
    pub(crate) due: Option<(usize, usize)>,
    turn: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) unit: usize,
    pub(crate) is_open: bool,
    pub(crate) is_deferred: bool,
    is_unsure: bool,
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

pub(crate) fn add(lines: &mut Vec<usize>, line: usize) {
    if !lines.contains(&line) {
        lines.push(line);
    }
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
        if unit.is(Act::Machine) || unit.is_ticked == Some(true) {
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
        if !took && assented.is_none() {
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
        let is_fragment = !is_question && !unit.has(Cue::Fact);
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
            if question.unit == at || asked.is(Act::Unsure) {
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
        let weight = self.weight(at);
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
        if unit.is(Act::Question) || unit.is(Act::Dissent) || unit.words.len() > 5 {
            return None;
        }
        let recent = self.matters.iter().enumerate().rev().take(ENTRIES_MAX);
        recent
            .take_while(|(_, matter)| self.distance(at, matter.turn) <= REACH)
            .filter(|(_, matter)| {
                let said = &self.units[matter.unit];
                said.person != Some(person)
                    && said.person.is_some()
                    && matter.state != State::Dropped
            })
            .find(|(_, matter)| {
                let said = &self.units[matter.unit];
                let shared = unit.shared(said);
                let has_value = unit
                    .values
                    .iter()
                    .any(|value| said.values.iter().any(|old| value.is_same(old)));
                (shared > 0 && shared * 2 >= unit.words.len()) || has_value
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
        matter.supporters.extend(before.supporters.iter().copied().filter(|who| *who != person));
        let is_vote = before.weight + matter.weight >= 2;
        self.matters[old].state = State::Dropped;
        if is_vote || before.state == State::Accepted {
            self.accept(new, at);
        }
    }

    fn assent(&mut self, at: usize, person: usize) -> Option<usize> {
        let unit = &self.units[at];
        if !unit.is(Act::Assent) || unit.is(Act::Unsure) {
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
            if weight + strength + shared.min(1) < if is_agent { 4 } else { 3 }
                && !(weight == 1 && strength == 2)
            {
                continue;
            }
            if matter.state == State::Dropped && shared == 0 {
                continue;
            }
            let score = 10 - 3 * as_i64(distance) + 2 * as_i64(weight) + 4 * as_i64(shared);
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, n));
            }
        }
        let (_, found) = best?;
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
        for old in first..self.matters.len() {
            if old == matter || self.matters[old].unit >= new.unit {
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
            let is_near = now.turn.saturating_sub(before.turn) <= 3;
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
            if said.person.is_some() || before.state == State::Accepted {
                self.supersede(value);
            }
            let before = &mut self.matters[old];
            if before.state != State::Deferred {
                before.state = State::Dropped;
            }
        }
    }

    fn supersede(&mut self, value: Superseded) {
        if !self.superseded.contains(&value) && value.old.to_lowercase() != value.new.to_lowercase()
        {
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
            let fits = said.values.iter().position(|value| match &old {
                Some(old) => value.is_same(old),
                None => value.is_like(&new) && !value.is_same(&new),
            });
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
        let unit_kind = unit.values[value].clone();
        unit.values[value] =
            Value { day, key: new.key.clone(), text: new.text.clone(), ..unit_kind };
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
        let mut found = None;
        for (n, matter) in self.matters.iter().enumerate().rev().take(ENTRIES_MAX) {
            let said = &self.units[matter.unit];
            let distance = self.distance(at, matter.turn);
            if distance > REACH {
                break;
            }
            if said.line == line || matter.state == State::Dropped || matter.weight == 0 {
                continue;
            }
            let is_own = said.person == Some(person) && matter.supporters.len() < 2;
            if is_own && !is_retraction && !is_deferral {
                continue;
            }
            let shared = unit.shared(said);
            if shared > 0 || distance <= if is_retraction { 3 } else { 2 } {
                found = Some(n);
                if shared > 0 || unit.words.len() < 3 || matter.state == State::Accepted {
                    break;
                }
            }
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
            matter.dissents.push((person, at));
            return;
        }
        matter.state = match matter.state {
            State::Accepted => State::Contested,
            State::Open => State::Dropped,
            other => other,
        };
        matter.dissents.push((person, at));
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
            self.questions.iter_mut().rev().find(|question| question.is_open)
            && self.units[at].words.len() < 3
        {
            question.is_deferred = true;
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
            is_deferred: false,
            is_unsure: false,
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
        let is_unsure = unit.is(Act::Unsure) || unit.is(Act::Deferral);
        let mut best: Option<(i64, usize)> = None;
        for (n, question) in self.questions.iter().enumerate().rev().take(ENTRIES_MAX) {
            let asked = &self.units[question.unit];
            let distance = self.distance(at, asked.turn);
            if distance > REACH {
                break;
            }
            if !question.is_open || asked.line == line {
                continue;
            }
            let shared = unit.shared(asked);
            let is_own = asked.person == Some(person);
            let mut score = 4 - 2 * as_i64(distance.saturating_sub(1)) + 3 * as_i64(shared.min(2));
            score -= if is_own && shared == 0 { 5 } else { 0 };
            if unit.is(Act::Commitment) && !asked.is(Act::Need) {
                score -= 3;
            }
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, n));
            }
        }
        if let Some((_, n)) = best {
            let question = &mut self.questions[n];
            if is_unsure {
                question.is_unsure = true;
                add(&mut question.sources, line);
            } else if !question.is_unsure || unit.shared(&self.units[question.unit]) > 0 {
                question.is_open = false;
            }
        }
    }

    // Tasks

    fn work(&mut self, at: usize, person: usize) -> bool {
        let unit = &self.units[at];
        if unit.is(Act::Refusal) {
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

    fn due(&self, at: usize) -> Option<(usize, usize)> {
        let value = self.units[at].values.iter().position(|value| value.day.is_some())?;
        Some((at, value))
    }

    /// What a short commitment takes on: a need, request, or question of the last lines.
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
        let target = if is_bare { self.target(at, person, false) } else { None };
        if is_bare && target.is_none() && unit.words.is_empty() {
            return;
        }
        let line = unit.line;
        // The same task again, or an accepted request.
        let subject = target.unwrap_or(at);
        let due = self.due(at);
        let turn = unit.turn;
        let known = self.tasks.iter().rposition(|task| {
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
        self.push_task(at, None, owner, TaskState::Asked, named.is_some());
    }

    fn accept_request(&mut self, at: usize, person: usize) -> bool {
        let (line, turn) = (self.units[at].line, self.units[at].turn);
        let due = self.due(at);
        let found = self.tasks.iter().rposition(|task| {
            task.state == TaskState::Asked
                && task.owner == Some(person)
                && turn.saturating_sub(task.turn) <= REACH
                && self.units[task.unit].line != line
        });
        let Some(found) = found else { return false };
        let task = &mut self.tasks[found];
        task.state = TaskState::Taken;
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

    fn finish(&mut self, at: usize, person: usize) {
        let turn = self.units[at].turn;
        let found = self.tasks.iter().rposition(|task| {
            task.owner == Some(person)
                && task.state == TaskState::Asked
                && turn.saturating_sub(task.turn) <= 3
        });
        if let Some(found) = found {
            self.tasks[found].state = TaskState::Gone;
        }
    }

    /// Settles what depends on later lines.
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
        // A question with an owner is a task.
        let taken: Vec<usize> = self
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

/// Positions of two values of one kind that differ, if the new text does not repeat the old value.
fn clash(old: &Unit, new: &Unit) -> Option<(usize, usize)> {
    for (from, value) in old.values.iter().enumerate() {
        if new.values.iter().any(|other| other.is_same(value)) {
            continue;
        }
        if let Some(to) = new.values.iter().position(|other| other.is_like(value)) {
            return Some((from, to));
        }
    }
    None
}
