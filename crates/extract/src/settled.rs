//! Agreement: the statements that a group settled, and the sentences that state the results.
//!
//! Silence is not agreement: something is settled only if a person other than its author agrees to it and does not take that back, or
//! if its author announces a decision. The linear model selects which of these statements matter.

use crate::{
    lexicon::{Cue, Language, lexicon},
    roles::Role,
    text::Kind,
    thread::{REACH, Thread},
    units::{Act, Unit},
};

/// Maximum number of content words in an option without any sign of a proposal, such as "monday" or "the small one for the kids".
const OPTION_WORDS_MAX: usize = 6;
/// Maximum number of tokens in a vote without any sign of agreement, such as "red for me".
const VOTE_TOKENS_MAX: usize = 5;
/// Maximum number of tokens in a question that offers an option without a phrase for it, such as "the garden then?".
const OFFER_TOKENS_MAX: usize = 8;
/// Maximum number of content words in a sentence that takes back the line before it without repeating a word, such as "wait, no".
const SHORT_WORDS_MAX: usize = 2;
/// Number of lines by people after an agreement in which its author can take it back.
const REACH_BACK: usize = 4;
/// Number of lines by people after a statement in which the next person speaks.
const REACH_NEXT: usize = 2;
/// Maximum number of steps from a sentence to the proposal that it goes back to.
const STEPS_MAX: usize = 16;

/// A settled proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// The sentence that states the result, or the one that agrees if the proposal is a question.
    pub(crate) stated: usize,
    /// The proposal; equal to `stated` if it states the result itself.
    pub(crate) proposed: usize,
    /// The first sentence with this proposal.
    pub(crate) root: usize,
    /// Sentences that agree.
    pub(crate) assents: Vec<usize>,
}

impl Thread {
    /// Links each sentence that agrees with the sentence of another person that it agrees to.
    pub(crate) fn settle(&mut self) {
        self.adopts = (0..self.units.len()).map(|at| self.adopted_by(at)).collect();
        self.assents = vec![Vec::new(); self.units.len()];
        for at in 0..self.units.len() {
            if let Some(target) = self.adopts[at] {
                self.assents[target].push(at);
            }
        }
    }

    /// The settled proposal that a sentence makes, repeats, or agrees to; `None` if nobody agreed.
    pub(crate) fn settlement(&self, at: usize) -> Option<Settlement> {
        // A bare "settled then" confirms the statement before it.
        let confirmed = self.agreed[at].filter(|_| self.units[at].is_bare_assent());
        let at = confirmed.unwrap_or(at);
        let unit = &self.units[at];
        let root = self.root(at);
        let alone = |stated| Settlement {
            stated,
            proposed: stated,
            root,
            assents: self.assents[at].clone(),
        };
        if unit.person.is_none() {
            let (_, by) = *self.adopted.iter().find(|(line, _)| *line == unit.line)?;
            let states = !self.units[by].says_nothing_else();
            return Some(Settlement { stated: if states { by } else { at }, ..alone(at) });
        }
        if self.withdrawn[at] || unit.is_past() {
            return None;
        }
        if self.declares(at) {
            return Some(Settlement { root: at, ..alone(at) });
        }
        let target = self.adopts[at].unwrap_or(at);
        let mut assents = self.assents[target].clone();
        assents.extend(self.assents[at].iter().filter(|_| at != target));
        if self.adopts[at].is_none() && assents.is_empty() {
            assents.push(self.next_assent(at)?);
        }
        let newest = assents.iter().rev().find(|by| self.states(**by, target));
        let is_question = self.units[target].ends_with_question();
        let stated = match newest {
            Some(stated) => *stated,
            None if !is_question => target,
            None => *assents.first()?,
        };
        Some(Settlement { stated, proposed: target, root, assents })
    }

    /// The agreement of the next person who speaks to a statement that is not marked as a proposal. The caller must have another reason
    /// to believe that it is a decision.
    fn next_assent(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        let excluded = [Act::Question, Act::Unsure, Act::Deferral, Act::Refusal];
        let is_task = unit.is(Act::Commitment) || unit.is(Act::Request);
        if excluded.iter().any(|act| unit.is(*act)) || is_task && !unit.is(Act::Decision) {
            return None;
        }
        let next = self.later(at, REACH_NEXT).find(|next| {
            let said = &self.units[*next];
            said.person != unit.person && (said.is(Act::Assent) || !said.is_idle())
        })?;
        let said = &self.units[next];
        // A bare agreement covers all sentences of the message before it.
        let is_free = self.adopts[next]
            .is_none_or(|target| self.units[target].line == unit.line && said.is_bare_assent());
        let is_strong = said.has(Cue::Assent) || self.weights[at].is_some_and(|weight| weight > 0);
        let agrees = said.is(Act::Assent) && is_strong && is_free && self.is_clear(next);
        (agrees && !self.is_taken_back(next, at)).then_some(next)
    }

    /// The first sentence of the chain of agreements that ends with a sentence.
    fn root(&self, at: usize) -> usize {
        let steps = std::iter::successors(Some(at), |at| self.adopts[*at]);
        steps.take(STEPS_MAX).last().unwrap_or(at)
    }

    /// Checks whether a person announces a decision: "I decide: …", "Decision: …".
    fn declares(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let doubts = [Act::Question, Act::Unsure, Act::Deferral, Act::Retraction];
        unit.has(Cue::Declare)
            && !unit.says_nothing_else()
            && !unit.has(Cue::Condition)
            && !doubts.iter().any(|act| unit.is(*act))
    }

    /// The sentence of another person that a sentence agrees to, or that it repeats as a vote.
    fn adopted_by(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        // A clause with the same words, such as an objection without a "no", is no vote.
        let is_vote = unit.is(Act::Assent)
            || unit.is(Act::Decision)
            || unit.tokens.len() <= VOTE_TOKENS_MAX && !unit.has(Cue::Fact);
        let repeated = self.repeats[at].filter(|_| is_vote);
        let target = self.agreed[at].or(repeated).or_else(|| self.restated(at))?;
        let is_clear = unit.person != self.units[target].person && self.is_clear(at);
        // "8 then" adopts "8, I have to put the kids to bed".
        let is_final = unit.is(Act::Decision) || unit.is(Act::Assent);
        let is_option =
            self.offers(target) || is_final && repeated == Some(target) && self.is_offered(target);
        // "Yes, I will change the config" is a task, and no answer to "what about backups?".
        let asked = &self.units[target];
        let is_promise = unit.is(Act::Commitment) && !unit.says_nothing_else();
        let is_other = is_promise && asked.is(Act::Question) && unit.shared(asked) == 0;
        (is_clear && is_option && !is_other && !self.is_taken_back(at, target)).then_some(target)
    }

    /// Checks whether a sentence by a person has no sign of doubt.
    fn is_clear(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let is_sure = !unit.is(Act::Hedge) || unit.has(Cue::Assent) && !unit.has(Cue::Condition);
        let is_back = unit.is(Act::Retraction) && !unit.has(Cue::Assent);
        let is_objection =
            (unit.is(Act::Dissent) || self.has_reservation(at)) && !unit.is(Act::Yielding);
        let doubts = [Act::Question, Act::Unsure, Act::Deferral];
        unit.person.is_some()
            && is_sure
            && !is_back
            && !is_objection
            && !doubts.iter().any(|act| unit.is(*act))
    }

    /// The newest proposal of another person with a word of a final statement, which thereby adopts it.
    fn restated(&self, at: usize) -> Option<usize> {
        let unit = &self.units[at];
        if !unit.is(Act::Decision) {
            return None;
        }
        self.earlier(at, REACH).find(|before| {
            let said = &self.units[*before];
            said.person != unit.person
                && self.weights[*before].is_some_and(|weight| weight >= 2)
                && !self.rejected[*before]
                && said.shared(unit) > 0
                && self.offers(*before)
        })
    }

    /// Checks whether a "but" follows the agreement in a sentence.
    fn has_reservation(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let mut agreements = unit.all(Cue::Assent).chain(unit.all(Cue::Ok));
        agreements.any(|yes| unit.all(Cue::But).any(|but| but.from >= yes.to))
    }

    /// Checks whether a sentence is a proposal, an announcement, or an option, and not a fact, a promise, or a request.
    fn offers(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let Some(weight) = self.weights[at].filter(|_| self.is_offered(at)) else { return false };
        if unit.is(Act::Question) {
            // Whoever asks "Friday or Monday?" agrees to neither.
            let is_sign = unit.has(Cue::Propose) || unit.has(Cue::Tag);
            let is_short = unit.tokens.len() <= OFFER_TOKENS_MAX && !unit.has(Cue::Fact);
            return !unit.has(Cue::Or) && (is_sign || is_short);
        }
        // A statement without any sign of a proposal is an option only if it answers a question.
        let is_choice = || self.topics[at].is_some_and(|topic| self.units[topic].has(Cue::Or));
        let is_answer = self.topics[at].is_some() && unit.words.len() <= OPTION_WORDS_MAX;
        let is_short = unit.tokens.len() <= VOTE_TOKENS_MAX && !unit.has(Cue::Fact);
        weight >= 2
            || weight == 1
                && (is_short || is_answer || unit.language == Language::Other || is_choice())
    }

    /// Checks whether a sentence is neither a fact, nor a task, nor withdrawn.
    fn is_offered(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let is_task = [Act::Commitment, Act::Request, Act::Refusal].iter().any(|act| unit.is(*act));
        self.weights[at].is_some_and(|weight| weight > 0)
            && !self.withdrawn[at]
            && (!is_task || unit.is(Act::Decision) || unit.is(Act::Proposal))
    }

    /// Checks whether the author of an agreement retracts it, or objects to the same matter, soon afterwards.
    fn is_taken_back(&self, at: usize, target: usize) -> bool {
        let (unit, said) = (&self.units[at], &self.units[target]);
        let rest = at + 1..self.line_of(at).end;
        let mut own = rest
            .chain(self.later(at, REACH_BACK))
            .filter(|later| self.units[*later].person == unit.person);
        own.any(|later| {
            let later = &self.units[later];
            let is_short = later.turn - unit.turn <= 2 && later.subject.len() <= SHORT_WORDS_MAX;
            let is_about = later.shared(unit) + later.shared(said) > 0 || is_short;
            let is_objection =
                later.is(Act::Dissent) && !later.is(Act::Yielding) && !later.is(Act::Question);
            let is_refusal = later.is(Act::Correction) && later.is(Act::Refusal);
            let is_back = later.is(Act::Retraction) || is_objection || is_refusal;
            is_about && !later.is_idle() && is_back
        })
    }

    /// Checks whether a sentence that agrees to a proposal also states the result: "Agreed, the red one."
    fn states(&self, at: usize, target: usize) -> bool {
        let (unit, said) = (&self.units[at], &self.units[target]);
        let is_task = unit.is(Act::Commitment) || unit.is(Act::Request);
        let repeats = || {
            unit.shared(said) > 0
                || unit.values.iter().any(|value| said.values.iter().any(|old| value.is_same(old)))
        };
        let is_result = unit.is(Act::Assent)
            || unit.is(Act::Decision)
            || self.has_role(at, Role::Decision)
            || self.weights[at].is_some_and(|weight| weight > 1);
        !unit.is_bare_assent()
            && !unit.ends_with_question()
            && is_result
            && !is_task
            && !unit.is(Act::Hedge)
            && !unit.is_idle()
            && (unit.is(Act::Decision) && !unit.says_nothing_else() || repeats())
    }
}

impl Unit {
    /// Checks whether a sentence reports something from a day in the past: "last year we agreed …".
    fn is_past(&self) -> bool {
        let lexicon = lexicon(self.language);
        self.tokens.iter().any(|token| lexicon.date_phrase("past", &[&token.word]).is_some())
    }

    /// Checks whether a sentence is a question, or a proposal such as "we take the train, ok?".
    pub(crate) fn ends_with_question(&self) -> bool {
        let mut marks = self.tokens.iter().rev().filter(|token| token.kind != Kind::Emoji);
        self.is(Act::Question) || marks.next().is_some_and(|token| token.word == "?")
    }

    /// Checks whether a sentence has neither a value nor a word besides those that express agreement.
    fn says_nothing_else(&self) -> bool {
        self.subject.is_empty() && self.values.is_empty()
    }
}

/// Number of lines by people before an agreement that are searched for a question that it may answer instead.
const ASKED_TURNS: usize = 1;

impl Thread {
    /// Checks whether a "yes" answers a request for information or for a task in the line before it, and not a proposal.
    pub(crate) fn answers_question(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let mut before = self.earlier(at, REACH);
        before.next().is_some_and(|last| {
            let asked = &self.units[last];
            let is_information =
                asked.is(Act::Question) && !asked.is(Act::Proposal) || asked.is(Act::Request);
            is_information && asked.person != unit.person && unit.turn - asked.turn <= ASKED_TURNS
        })
    }
}
