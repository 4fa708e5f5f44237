//! Commitments of the speaker in English.

use super::super::{Owner, cues::Cue, cues::Form, cues::Language, sentence::is_any};
use super::{Draft, Finder, TaskSort};

impl Finder<'_> {
    pub(super) fn take_on(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::TakeOn)?;
        let is_fragment =
            hit.end - hit.at <= 2 && is_any(self.text(at), "i i'll me mine yo moi ich je on");
        // "Me too" expresses agreement.
        let is_echo = is_fragment && is_any(self.text(hit.end), "too either auch también aussi");
        let is_alone = self.sentence.clause_start(at) == at && self.ends(hit.end) && !is_echo;
        if self.sentence.is_question || (is_fragment && !is_alone) || !self.ends(hit.end) {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
        draft.is_anaphoric = true;
        Some(draft)
    }

    pub(super) fn promise(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::Promise)?;
        if self.sentence.is_question {
            return None;
        }
        let first = self.text(at);
        let needs_start = is_any(first, "will happy gladly let lass");
        if needs_start && self.sentence.clause_start(at) != at {
            return None;
        }
        let verb = self.skip_fillers(hit.end);
        if self.sentence.language == Language::German {
            return self.german_infinitive(verb, TaskSort::Promise, self.speaker());
        }
        if self.sentence.is_mark(verb) || self.is_idle_phrase(verb) {
            return None;
        }
        let is_work =
            self.work(verb, Form::Infinitive).is_some() || self.infinitive_of(verb).is_some();
        let is_certain = !needs_start && self.sentence.language == Language::English;
        (is_certain || is_work).then(|| Draft::new(TaskSort::Promise, self.speaker(), verb))
    }

    /// "be there", "have lunch", "get there": not a commitment.
    pub(super) fn is_idle_phrase(&self, verb: usize) -> bool {
        let (verb_text, next) = (self.text(verb), self.text(verb + 1));
        match verb_text {
            "have" => !(verb..self.sentence.tokens.len())
                .any(|at| matches!(self.text(at), "look" | "ready" | "done" | "finished")),
            "keep" => is_any(next, "you it an in that my"),
            "get" => is_any(next, "there home in lunch it off a"),
            "do" => matches!((next, self.text(verb + 2)), ("my", "best")) || next == "fine",
            "take" => {
                matches!(next, "a" | "the")
                    && is_any(
                        self.text(verb + 2),
                        "train bus day break nap seat blue metro",
                    )
            }
            "check" | "look" if matches!(next, "in" | "forward") && self.ends(verb + 2) => true,
            "go" => !matches!(next, "through" | "over" | "and"),
            "give" => matches!(next, "up" | "it"),
            "call" => matches!(self.text(verb + 2), "day"),
            "eat" | "drink" => true,
            _ => self.is_idle(verb),
        }
    }

    pub(super) fn english(&self, at: usize) -> Option<Draft> {
        if self.sentence.is_question {
            return None;
        }
        // "… and you take the photos"
        if self.text(at) == "you" && at > 0 && self.sentence.clause_start(at) == at {
            let owner = Owner::Person(self.hearers.before?);
            let is_work = self.work(at + 1, Form::Infinitive).is_some() && !self.ends(at + 2);
            return is_work.then(|| Draft::new(TaskSort::Assigned, Some(owner), at + 1));
        }
        let hit = self.hit(at, Cue::CanDo)?;
        let phrase: Vec<&str> = (hit.at..hit.end).map(|at| self.text(at)).collect();
        let verb = self.skip_fillers(hit.end);
        let has_due = !self
            .sentence
            .values
            .iter()
            .all(|value| value.date.is_none());
        let is_start = self.sentence.clause_start(at) == at;
        let (owner, is_meant) = match phrase.as_slice() {
            ["i", "can"] | ["ill"] => (self.speaker(), true),
            ["gonna" | "can"] | ["going", "to"] => (self.speaker(), is_start),
            ["i", "do"] => {
                let is_object = is_any(self.text(hit.end), "the a my all both");
                let draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end - 1);
                return (is_start && is_object).then_some(draft);
            }
            ["i", "take"] => {
                let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
                "take".clone_into(&mut draft.lead);
                let is_object = matches!(self.text(hit.end), "the" | "care" | "over");
                return (is_start && is_object).then_some(draft);
            }
            ["i'm", "taking"] => {
                let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
                "take".clone_into(&mut draft.lead);
                return matches!(self.text(hit.end), "the" | "care" | "over").then_some(draft);
            }
            ["we'll"] | ["we", "will"] => (
                None,
                has_due
                    && !is_any(
                        self.text(verb),
                        "ship release move start take do hire choose close open",
                    ),
            ),
            ["todo" | "to", ..] if self.text(hit.end - 1) == ":" => (None, true),
            ["i", "have" | "need" | "plan", "to"] | ["i", "must"] | ["i'm", "planning", "to"] => {
                (self.speaker(), has_due)
            }
            _ => return None,
        };
        let is_work = self.work(verb, Form::Infinitive).is_some() && !self.is_idle_phrase(verb);
        let sort = TaskSort::Promise;
        (is_meant && is_work).then(|| Draft::new(sort, owner, verb))
    }
}
