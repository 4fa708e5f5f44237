//! Features of sentences, from which the model determines their roles.

use std::fmt::Write;

use crate::{
    roles::Model,
    text::Kind,
    thread::{REACH, Thread},
    units::{Act, Unit},
};

/// Number of following lines by people in which agreement and objections are counted.
const NEAR: usize = 5;
/// Number of lines by people, before and after a sentence, that are searched for its subject.
const RETURN: usize = 14;

fn bucket(n: usize) -> usize {
    match n {
        0..=3 => n,
        4..=5 => 4,
        6..=8 => 6,
        _ => 9,
    }
}

impl Thread {
    /// Sums up the weights of each sentence that can have a role.
    pub(crate) fn weigh(&mut self, model: &Model) {
        let all = 0..self.units.len();
        self.chances = all.map(|at| self.chances_of(at, model)).collect();
    }

    fn chances_of(&self, at: usize, model: &Model) -> [f32; 4] {
        if !self.is_candidate(at) {
            return [f32::NEG_INFINITY; 4];
        }
        let mut sums = [0.0; 4];
        features(self, at, &mut |name| {
            if let Some(weights) = model.weights(name) {
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
            }
        });
        sums
    }
}

/// Calls `see` for each feature of a sentence.
pub(crate) fn features(thread: &Thread, at: usize, see: &mut dyn FnMut(&str)) {
    let unit = &thread.units[at];
    let form = if unit.is(Act::Question) { 'q' } else { 's' };
    let mut name = String::with_capacity(64);
    let mut emit = |arguments: std::fmt::Arguments<'_>| {
        name.clear();
        if name.write_fmt(arguments).is_ok() {
            see(&name);
        }
    };
    emit(format_args!("bias"));
    emit(format_args!("{form}"));
    own(unit, form, &mut emit);
    if thread.accepted[at] {
        emit(format_args!("{form} accepted"));
    }
    if thread.agreed[at].is_some() {
        emit(format_args!("{form} agrees"));
    }
    // The other sentences of the same line.
    let line = thread.line_of(at);
    for other in line.clone().filter(|other| *other != at) {
        let side = if other < at { "before" } else { "after" };
        for cue in thread.units[other].cues() {
            emit(format_args!("{form} {side} {cue:?}"));
        }
    }
    answers(thread, at, form, &mut emit);
    emit(format_args!("{form} first {} last {}", at == line.start, at + 1 == line.end));
    let last = thread.turns.len().saturating_sub(1);
    emit(format_args!("{form} end {}", bucket(last.saturating_sub(unit.turn))));
    emit(format_args!("{form} start {}", bucket(unit.turn)));
    // The messages before and after.
    if unit.turn > 0 {
        neighbor(thread, at, unit.turn - 1, &format!("{form} p1"), &mut emit);
    }
    if unit.turn < last {
        neighbor(thread, at, unit.turn + 1, &format!("{form} n1"), &mut emit);
    }
    let after = (unit.turn + 1)..(unit.turn + 1 + RETURN).min(last + 1);
    let others = |turn: &usize| thread.speaker(*turn) != unit.person;
    let near = || after.clone().take(NEAR).filter(others);
    for act in [Act::Assent, Act::Dissent, Act::Unsure, Act::Commitment] {
        let count = near().filter(|turn| thread.line_is(*turn, act)).count();
        emit(format_args!("{form} near {act:?} {}", count.min(3)));
    }
    // The next lines about the same subject.
    let mut returns = after.filter(|turn| thread.shares(at, *turn));
    if let Some(turn) = returns.next() {
        emit(format_args!("{form} return {}", bucket(turn - unit.turn)));
        neighbor(thread, at, turn, &format!("{form} r"), &mut emit);
        let final_turn = returns.next_back();
        emit(format_args!("{form} returns {}", final_turn.is_some()));
        if let Some(turn) = final_turn {
            neighbor(thread, at, turn, &format!("{form} f"), &mut emit);
        }
    } else {
        emit(format_args!("{form} return none"));
    }
    let mut earlier = (unit.turn.saturating_sub(RETURN)..unit.turn).rev();
    match earlier.find(|turn| thread.shares(at, *turn)) {
        Some(turn) => neighbor(thread, at, turn, &format!("{form} e"), &mut emit),
        None => emit(format_args!("{form} new")),
    }
}

/// Features of the question that a sentence answers, and of the sentences that answer it.
fn answers(thread: &Thread, at: usize, form: char, emit: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    let unit = &thread.units[at];
    match thread.topics[at] {
        Some(topic) => {
            let asked = &thread.units[topic];
            let who = if asked.person == unit.person { '=' } else { '!' };
            emit(format_args!("{form} asked{who}{}", bucket(unit.turn - asked.turn)));
            for cue in asked.cues() {
                emit(format_args!("{form} asked{who}{cue:?}"));
            }
            emit(format_args!("{form} asked shares {}", unit.shared(asked).min(2)));
        }
        None => emit(format_args!("{form} not asked")),
    }
    if !unit.is(Act::Question) {
        return;
    }
    let mut count = 0;
    for next in thread.later(at, REACH).filter(|next| thread.topics[*next] == Some(at)) {
        let said = &thread.units[next];
        let who = if said.person == unit.person { '=' } else { '!' };
        let place = if count == 0 { "a1" } else { "a" };
        count += 1;
        for cue in said.cues() {
            emit(format_args!("{form} {place}{who}{cue:?}"));
        }
        for act in said.acts() {
            emit(format_args!("{form} {place}{who}act {act:?}"));
        }
        for value in &said.values {
            emit(format_args!("{form} {place}{who}{:?}", value.kind));
        }
        if said.people().next().is_some() {
            emit(format_args!("{form} {place}{who}names"));
        }
        emit(format_args!("{form} {place}{who}terms {}", bucket(said.terms())));
    }
    emit(format_args!("{form} answers {}", bucket(count)));
}

fn own(unit: &Unit, form: char, emit: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    for cue in unit.cues() {
        emit(format_args!("{form} {cue:?}"));
    }
    for act in unit.acts() {
        emit(format_args!("{form} act {act:?}"));
    }
    emit(format_args!("{form} terms {}", bucket(unit.terms())));
    emit(format_args!("{form} tokens {}", bucket(unit.tokens.len() / 2)));
    for value in &unit.values {
        emit(format_args!("{form} {:?}", value.kind));
    }
    if unit.values.iter().any(|value| value.day.is_some()) {
        emit(format_args!("{form} day"));
    }
    let mut named = unit.people();
    if let Some(first) = named.next() {
        emit(format_args!("{form} names {}", Some(first) == unit.person));
        emit(format_args!("{form} addresses {}", unit.named[0].is_some()));
    }
    let language = unit.language as usize;
    let mut before = "^";
    for token in &unit.tokens {
        let word = match token.kind {
            Kind::Number => "#",
            Kind::Mention => "@",
            _ => &token.word,
        };
        emit(format_args!("{language} {word}"));
        emit(format_args!("{language} {before} {word}"));
        before = word;
    }
    emit(format_args!("{language} {before} $"));
}

/// Features of another line, marked by whether the same person wrote it.
fn neighbor(
    thread: &Thread,
    at: usize,
    turn: usize,
    place: &str,
    emit: &mut impl FnMut(std::fmt::Arguments<'_>),
) {
    let unit = &thread.units[at];
    let who = if thread.speaker(turn) == unit.person { '=' } else { '!' };
    for cue in thread.line_cues(turn) {
        emit(format_args!("{place}{who}{cue:?}"));
    }
    for act in [Act::Question, Act::Chatter, Act::Commitment, Act::Assent] {
        if thread.line_is(turn, act) {
            emit(format_args!("{place}{who}act {act:?}"));
        }
    }
    let words: usize = thread.turns[turn].clone().map(|at| thread.units[at].words.len()).sum();
    emit(format_args!("{place}{who}words {}", bucket(words)));
    emit(format_args!("{place}{who}shares {}", thread.shares(at, turn)));
    let has_values = thread.turns[turn].clone().any(|at| !thread.units[at].values.is_empty());
    if has_values {
        emit(format_args!("{place}{who}values"));
    }
}
