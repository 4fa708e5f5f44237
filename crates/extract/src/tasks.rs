//! Tasks that people took on or were asked to do, with owners and due dates.

use chrono::NaiveDate;

use crate::{
    lexicon::Cue,
    roles::Role,
    thread::{REACH, Thread},
    units::{Act, Unit},
};

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) unit: usize,
    /// The request, need, or question that a short commitment refers to.
    pub(crate) target: Option<usize>,
    pub(crate) owner: Option<usize>,
    pub(crate) due: Option<NaiveDate>,
    pub(crate) sources: Vec<usize>,
}

/// Number of previous tasks that are searched for an earlier mention of a task.
const TASKS_MAX: usize = 12;
/// Number of lines by people after a request in which somebody can accept or refuse it.
const REACH_ANSWER: usize = 3;

impl Thread {
    /// Tasks in the order of their first mention.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let mut found: Vec<Task> = Vec::new();
        let is_task = |at: &usize| self.has_role(*at, Role::Action) && !self.withdrawn[*at];
        for at in (0..self.units.len()).filter(is_task) {
            let task = self.task(at);
            let recent = found.iter_mut().rev().take(TASKS_MAX);
            match { recent }.find(|known| self.is_same(known, &task)) {
                Some(known) => self.merge(known, task),
                None => found.push(task),
            }
        }
        found
    }

    pub(crate) fn task(&self, at: usize) -> Task {
        let unit = &self.units[at];
        let target = self.target(at);
        let (mut owner, mut due) = (self.owner(at), due(unit));
        let mut sources = vec![unit.line];
        if let Some(target) = target {
            sources.push(self.units[target].line);
            due = due.or_else(|| self::due(&self.units[target]));
        }
        let is_own = owner.is_some() && owner == unit.person;
        for next in self.later(at, REACH_ANSWER) {
            let answer = &self.units[next];
            let is_asked = owner.is_none_or(|owner| Some(owner) == answer.person);
            if is_own || answer.person == unit.person || !is_asked || self.withdrawn[next] {
                continue;
            }
            if answer.is(Act::Refusal) || answer.has(Cue::No) {
                owner = None;
            } else if answer.is(Act::Assent) || answer.is(Act::Commitment) {
                let is_bare = answer.words.len() < 3 || answer.shared(unit) > 0;
                owner = answer.person;
                if is_bare {
                    due = due.or_else(|| self::due(answer));
                }
                sources.push(answer.line);
            } else {
                continue;
            }
            break;
        }
        sources.sort_unstable();
        sources.dedup();
        Task { unit: at, target, owner, due, sources }
    }

    /// The person who should do what a sentence states; `None` if this depends on the next lines.
    fn owner(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        let named = unit.people().find(|who| Some(*who) != unit.person);
        if unit.is(Act::Commitment) && !unit.is(Act::Question) {
            return unit.person;
        }
        if unit.is(Act::Request)
            || unit.is(Act::Question)
            || unit.is(Act::Need)
            || unit.terms() == 0
        {
            let mut before = self.earlier(at, REACH).map(|before| self.units[before].person);
            let addressee = || before.find(|person| *person != unit.person).flatten();
            let asks = unit.is(Act::Request) && !unit.is(Act::Need);
            return named.or_else(|| asks.then(addressee).flatten());
        }
        named.filter(|_| unit.named[0].is_some()).or(unit.person)
    }

    /// Subject of a short commitment: a need, request, or question in the last lines.
    fn target(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        let is_vague = unit.has(Cue::Bare) || unit.has(Cue::Pronoun) || unit.words.len() < 3;
        if !is_vague {
            return None;
        }
        let mut best: Option<(i64, usize)> = None;
        for before in self.earlier(at, REACH) {
            let said = &self.units[before];
            // A commitment by somebody else is another task.
            if said.is_idle() || said.words.is_empty() || said.is(Act::Commitment) {
                continue;
            }
            let distance = as_i64(unit.turn - said.turn);
            let is_own = said.person == unit.person;
            let sort = match () {
                () if said.is(Act::Need) => 6,
                () if said.is(Act::Request) => 5,
                () if is_own => continue,
                () if said.is(Act::Question) || said.is(Act::Proposal) => 3,
                () if unit.has(Cue::Bare) || unit.terms() < 2 => i64::from(distance <= 1) * 2,
                () => continue,
            };
            let score = sort * 2 - 3 * distance + 3 * as_i64(unit.shared(said).min(2))
                - i64::from(is_own) * 6;
            if score > 0 && best.is_none_or(|(known, _)| score > known) {
                best = Some((score, before));
            }
        }
        best.map(|(_, before)| before)
    }

    fn is_same(&self, known: &Task, task: &Task) -> bool {
        let (old, new) = (&self.units[known.unit], &self.units[task.unit]);
        let shared = old.shared(new);
        let is_like = shared > 0 && shared * 2 >= old.words.len().min(new.words.len());
        let is_mine = known.owner.is_none() || task.owner.is_none() || known.owner == task.owner;
        task.target == Some(known.unit)
            || task.target.is_some() && task.target == known.target && is_mine
            || is_like && is_mine
    }

    fn merge(&self, known: &mut Task, task: Task) {
        if self.units[known.unit].line != self.units[task.unit].line {
            known.target = known.target.or(Some(known.unit));
            known.unit = task.unit;
        }
        known.owner = task.owner.or(known.owner);
        known.due = task.due.or(known.due);
        known.sources.extend(task.sources);
        known.sources.sort_unstable();
        known.sources.dedup();
    }
}

/// The last day that a sentence names, or the day of the message for immediate tasks.
fn due(unit: &Unit) -> Option<NaiveDate> {
    let named = unit.values.iter().rev().find_map(|value| value.day);
    named.or_else(|| unit.has(Cue::Now).then_some(unit.day))
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
