//! State of a conversation while it is read from the first sentence to the last.
//!
//! Each search backward is bounded, so that the running time is linear in the length.

mod agents;
mod assent;
mod dissent;
mod matters;
mod owners;
mod progress;
mod proposals;
mod questions;

use std::collections::{BTreeMap, BTreeSet, HashSet};

pub(crate) use self::questions::asks_for_value;

use super::{
    Owner, Superseded, cues::Cue, cues::Language, people::People, sentence::Sentence, tasks::Draft,
    tasks::TaskSort,
};

/// Number of later lines in which someone can still agree or answer.
pub(crate) const REPLY_REACH: usize = 6;
/// Immediately after a question, a message of at most this many words is treated as its answer.
const ANSWER_WORDS_MAX: usize = 10;
/// Number of later lines in which words shared with a question can still answer it.
const ANSWER_REACH: usize = 12;
/// Maximum number of source lines for a statement.
const SOURCES_MAX: usize = 20;
/// Number of previous sentences that "it" can refer to.
const POINTING_REACH: usize = 100;
/// Number of recent matters, tasks, or questions that are searched.
const RECENT: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Accepted,
    Contested,
    Dropped,
}

/// A proposal or a decision.
#[derive(Debug)]
pub(crate) struct Matter {
    pub(crate) sentence: usize,
    /// Tokens with the content.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) standing: Standing,
    /// `None` for an agent's suggestion.
    pub(crate) by: Option<usize>,
    pub(crate) contested_by: Option<usize>,
    pub(crate) sources: Vec<usize>,
    /// Its text with a replaced value.
    pub(crate) reworded: Option<String>,
    /// Sentence and value that it replaces when accepted, and the sentence and value that replace them.
    pub(crate) changes: Option<(usize, usize, usize, usize)>,
    /// An old name and its replacement, which takes effect when this is accepted.
    pub(crate) renames: Option<(Vec<String>, String)>,
    /// The question that it answers.
    pub(crate) answers: Option<usize>,
    pub(crate) is_alternative: bool,
    pub(crate) is_preference: bool,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) sentence: usize,
    pub(crate) draft: Draft,
    pub(crate) sort: TaskSort,
    pub(crate) owner: Option<Owner>,
    pub(crate) is_live: bool,
    /// Whether the owner committed to it.
    pub(crate) is_confirmed: bool,
    pub(crate) sources: Vec<usize>,
    /// Sentence and value.
    pub(crate) due: Option<(usize, usize)>,
    pub(crate) topic: Vec<u32>,
    /// The sentence that it refers to, if its own words are only a reference.
    pub(crate) about: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) sentence: usize,
    pub(crate) is_open: bool,
    /// The task that it asks for, or the matter that it proposes.
    pub(crate) task: Option<usize>,
    pub(crate) matter: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Deferral {
    pub(crate) sentence: usize,
    pub(crate) sources: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) people: People,
    /// The first sentence of each line; the last entry is the number of sentences.
    pub(crate) first_of_line: Vec<usize>,
    pub(crate) matters: Vec<Matter>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) questions: Vec<Question>,
    pub(crate) deferrals: Vec<Deferral>,
    pub(crate) superseded: Vec<Superseded>,
    /// Old values in lowercase, as tokens.
    pub(crate) dead: HashSet<Vec<String>>,
    /// The last preference of each person: a sentence and its start in the sentence.
    pub(crate) stances: BTreeMap<usize, (usize, usize)>,
    pub(crate) taken_up: BTreeSet<usize>,
    /// Sentence and value, newest last.
    pub(crate) values_seen: Vec<(usize, usize)>,
    words_of_line: Vec<usize>,
    /// Lines by agent name.
    pub(crate) agent_lines: Vec<(String, usize)>,
    addressed: Option<Option<Owner>>,
    addressed_line: usize,
}

impl Thread {
    pub(crate) fn new(
        sentences: Vec<Sentence>,
        people: People,
        lines: usize,
        agents: Vec<(String, usize)>,
    ) -> Self {
        let mut first_of_line = vec![sentences.len(); lines + 1];
        for (at, sentence) in sentences.iter().enumerate().rev() {
            first_of_line[sentence.line] = at;
        }
        for line in (0..lines).rev() {
            first_of_line[line] = first_of_line[line].min(first_of_line[line + 1]);
        }
        let mut words_of_line = vec![0; lines];
        for sentence in &sentences {
            words_of_line[sentence.line] += sentence.words();
        }
        let mut thread = Self {
            words_of_line,
            sentences,
            people,
            first_of_line,
            matters: Vec::new(),
            tasks: Vec::new(),
            questions: Vec::new(),
            deferrals: Vec::new(),
            superseded: Vec::new(),
            dead: HashSet::new(),
            stances: BTreeMap::new(),
            taken_up: BTreeSet::new(),
            values_seen: Vec::new(),
            agent_lines: agents,
            addressed: None,
            addressed_line: usize::MAX,
        };
        for at in 0..thread.sentences.len() {
            thread.read(at);
        }
        thread
    }

    fn read(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.language == Language::Other {
            return;
        }
        if sentence.person.is_none() {
            self.hear_agent(at);
            return;
        }
        let is_ordered = (self.first_of_line[sentence.line]..at)
            .rev()
            .take(12)
            .any(|before| self.sentences[before].has(Cue::Order));
        if sentence.has(Cue::Order) || is_ordered && sentence.words() > 3 {
            self.sentences[at].is_hidden = true;
            return;
        }
        self.note_addressed(at);
        let is_corrected = self.correct(at);
        self.note_values(at);
        let is_question = self.sentences[at].is_question;
        let is_retracted = !is_corrected
            && !is_question
            && self.sentences[at].has(Cue::Retract)
            && self.retract(at);
        // "I can't do the posters after all, can somebody take them?"
        let asks_behind = is_question && {
            let sentence = &self.sentences[at];
            let mut cannot = sentence.all(Cue::Cannot);
            cannot.any(|hit| {
                (hit.end..sentence.tokens.len()).any(|at| sentence.tokens[at].is(","))
                    && hit.at <= sentence.start() + 2
            })
        };
        if (!is_question || asks_behind) && self.sentences[at].has(Cue::Cannot) {
            self.decline(at);
        }
        let is_done =
            self.sentences[at].has(Cue::Done) || progress::is_already(&self.sentences[at]);
        if !is_question && is_done {
            self.finish(at);
        }
        let is_agreed = !is_retracted && self.agree(at);
        let is_objected = !is_corrected && !is_retracted && !is_agreed && self.object(at);
        let has_task = !is_retracted && self.find_tasks(at);
        if !has_task && !is_corrected && !is_question {
            self.date_own_task(at);
        }
        if !has_task
            && !is_retracted
            && !is_corrected
            && !is_question
            && self.sentences[at].has(Cue::Defer)
            && self.defer(at)
        {
            return;
        }
        if is_retracted {
            self.sentences[at].is_hidden = true;
            return;
        }
        let is_matter = !is_corrected
            && !is_objected
            && (self.decide(at, has_task) || (!has_task && self.propose(at, is_agreed)));
        if is_objected && !self.sentences[at].has(Cue::Cannot) {
            self.stance(at);
        }
        if self.sentences[at].is_question {
            if !is_matter && !has_task {
                self.ask(at);
            }
        } else if !is_matter
            || self
                .matters
                .last()
                .is_some_and(|matter| matter.standing == Standing::Accepted)
        {
            if self.sentences[at].has(Cue::Open) && !is_matter && !has_task {
                self.questions.push(Question {
                    sentence: at,
                    is_open: true,
                    task: None,
                    matter: None,
                });
            } else if !is_corrected {
                self.answer(at);
            }
        } else {
            self.answer(at);
        }
    }

    fn note_addressed(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.line != self.addressed_line {
            self.addressed = None;
            self.addressed_line = sentence.line;
        }
        let first = (0..sentence.tokens.len().min(3)).find_map(|at| {
            let (owner, length) = self.people.named_at(sentence, at)?;
            let is_called = sentence.tokens[at].kind == super::tokens::Kind::Mention
                || sentence
                    .tokens
                    .get(at + length)
                    .is_some_and(|token| token.is(",") || token.is(":"));
            is_called.then_some(if self.people.is_agent(&sentence.tokens[at]) {
                Some(Owner::Named(String::new()))
            } else {
                owner
            })
        });
        if let Some(owner) = first {
            self.addressed = Some(owner);
        }
    }

    fn note_values(&mut self, at: usize) {
        let count = self.sentences[at].values.len();
        self.values_seen
            .extend((0..count.min(20)).map(|value| (at, value)));
    }
}

pub(crate) fn add(sources: &mut Vec<usize>, line: usize) {
    if sources.len() < SOURCES_MAX && !sources.contains(&line) {
        sources.push(line);
    }
}
