//! Values that replace earlier ones.

mod names;
mod replace;

use super::{
    cues::Cue, sentence::Edit, sentence::Sentence, sentence::is_any, thread::REPLY_REACH,
    thread::Standing, thread::Thread, values::Sort, values::Value,
};

/// Number of recent values that a correction can refer to.
const VALUES_REACH: usize = 300;
/// Number of recent sentences that are searched for a corrected name.
const NAMES_REACH: usize = 40;

impl Thread {
    /// Finds the value that a sentence corrects and applies the correction. Returns whether there was one.
    pub(crate) fn correct(&mut self, at: usize) -> bool {
        let within = self.correct_within(at);
        let sentence = &self.sentences[at];
        let is_counter = sentence.has(Cue::Favour) || sentence.is_question;
        if is_counter {
            return false;
        }
        let denied: Vec<usize> = self.sentences[at].denied.clone();
        let said: Vec<usize> = (0..sentence.values.len())
            .filter(|value| {
                !denied.contains(value)
                    && !is_absence(sentence, *value)
                    && !sentence
                        .edits
                        .iter()
                        .any(|edit| edit.from == sentence.values[*value].from)
            })
            .collect();
        let mut is_corrected = false;
        for old in &denied {
            let Some(new) = said
                .iter()
                .copied()
                .find(|new| sentence_sort(&self.sentences[at], *new, *old))
            else {
                continue;
            };
            let key = self.sentences[at].values[*old].key.clone();
            let found = self
                .seen(at)
                .find(|(sentence, value)| self.key(*sentence, *value) == key);
            if let Some((sentence, value)) = found {
                is_corrected |= self.change(sentence, value, at, new);
            } else {
                let surface = surface(&self.sentences[at], &self.sentences[at].values[*old]);
                let new = surface_of(&self.sentences[at], new);
                self.bury(&surface, &new, self.sentences[at].line);
            }
            self.sentences[at].is_hidden = true;
        }
        if denied.is_empty() {
            let sentence = &self.sentences[at];
            // "sorry, the 14th"
            let is_sudden = |value: usize| {
                let from = sentence.values[value].lead;
                sentence.all(Cue::Restate).any(|hit| {
                    let text = sentence.tokens[hit.at].word.text.as_str();
                    is_any(text, "sorry wait moment hold hang update warte")
                        && hit.end <= from
                        && from - hit.end <= 2
                })
            };
            // "It's 9 April" immediately after another date.
            let is_contradiction = sentence.topic.is_empty()
                && said
                    .first()
                    .is_some_and(|value| self.contradicts(at, *value));
            let is_strong = is_contradiction
                || sentence.has(Cue::Correct)
                || said.first().is_some_and(|value| is_sudden(*value));
            let is_weak = sentence.has(Cue::Restate);
            if is_strong || is_weak {
                let mut gone: Vec<String> = Vec::new();
                for new in said.into_iter().take(4) {
                    // "No, Tuesday, on Monday they are closed": Monday is the value that is replaced.
                    if gone.contains(&self.sentences[at].values[new].key) {
                        continue;
                    }
                    if let Some((sentence, value)) = self.corrected_by(at, new, is_strong) {
                        gone.push(self.key(sentence, value).to_owned());
                        is_corrected |= self.change(sentence, value, at, new);
                    }
                }
            }
        }
        if !is_corrected && !within {
            is_corrected = self.correct_name(at);
        }
        if is_corrected && self.is_bare_correction(at) {
            self.sentences[at].is_hidden = true;
        }
        is_corrected
    }

    fn is_bare_correction(&self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        sentence.topic.len() <= 2
    }

    /// Values in people's sentences before this one, newest first.
    fn seen(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        self.values_seen
            .iter()
            .rev()
            .take(VALUES_REACH)
            .copied()
            .filter(move |(sentence, _)| *sentence < at)
    }

    /// Current key of a value.
    fn key(&self, sentence: usize, value: usize) -> &str {
        self.sentences[sentence].key(value)
    }

    /// "Friday, sorry, Monday": both values in one sentence.
    fn correct_within(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let mut found = None;
        for (old, new) in (0..sentence.values.len()).zip(1..sentence.values.len()) {
            let (a, b) = (&sentence.values[old], &sentence.values[new]);
            let is_between = sentence.hits.iter().any(|hit| {
                let text = sentence.tokens[hit.at].word.text.as_str();
                (matches!(hit.cue, Cue::Correct | Cue::Object)
                    || (hit.cue == Cue::Restate && is_any(text, "sorry wait moment hold hang")))
                    && hit.at >= a.to
                    && hit.end <= b.from
                    && !is_any(text, "moved moves move pushed doch mais lieber besser")
            });
            if a.sort.replaces(&b.sort)
                && a.key != b.key
                && is_between
                && !sentence.denied.contains(&new)
            {
                found = Some((old, new));
            }
        }
        let Some((old, new)) = found else {
            return false;
        };
        let (a, b) = (&sentence.values[old], &sentence.values[new]);
        let edit = Edit {
            from: a.from,
            to: b.to,
            text: surface(sentence, b),
            key: b.key.clone(),
            date: b.date,
            line: sentence.line,
            sentence: at,
            is_bare: b.is_bare,
        };
        let old = surface(sentence, a);
        let text = edit.text.clone();
        let line = sentence.line;
        self.sentences[at].edits.push(edit);
        self.bury(&old, &text, line);
        true
    }

    /// The earlier value that a new one refers to.
    fn corrected_by(&self, at: usize, new: usize, is_strong: bool) -> Option<(usize, usize)> {
        let sentence = &self.sentences[at];
        let value = &sentence.values[new];
        let fits = |(said, old): &(usize, usize)| {
            let other = &self.sentences[*said].values[*old];
            other.sort.replaces(&value.sort) && self.key(*said, *old) != value.key
        };
        if let Some(spoken_of) = self.spoken_of(at, value).filter(|_| is_strong) {
            return Some(spoken_of);
        }
        let mut best: Option<(usize, (usize, usize))> = None;
        let mut nearest = None;
        let mut held = None;
        let mut own = None;
        for found in self.seen(at).filter(fits) {
            let said = &self.sentences[found.0];
            if said.person.is_none() {
                continue;
            }
            let common = said.shared(&sentence.topic) + said.near(&said.values[found.1], sentence);
            if common > best.map_or(0, |(common, _)| common) {
                best = Some((common, found));
            }
            if sentence.line - said.line <= REPLY_REACH + 2 {
                // Proposals and commitments take precedence over plain statements.
                if nearest.is_none() {
                    nearest = Some(found);
                }
                if held.is_none() && self.is_held(found.0) {
                    held = Some(found);
                }
                if own.is_none() && said.person == sentence.person && self.is_task(found.0) {
                    own = Some(found);
                }
            }
        }
        // Only the owner can move the date of a commitment with "make that Wednesday".
        let is_others = held.is_some_and(|(said, _)| {
            self.is_task(said) && self.sentences[said].person != sentence.person
        });
        if let Some(own) = own.filter(|_| is_strong && is_others && best.is_none()) {
            return Some(own);
        }
        // Among similar statements, proposals take precedence over plain statements.
        if let Some((common, (said, _))) = best
            && let Some(held) = held.filter(|_| is_strong && common <= 2 && !self.is_held(said))
        {
            return Some(held);
        }
        // A value with the same unit takes precedence over one without a unit.
        match best {
            Some((_, found)) => Some(found),
            None if is_strong => held.or(nearest).filter(|(said, _)| {
                // A sentence with its own subject starts a separate matter.
                sentence.topic.len() <= 3 || self.sentences[*said].topic.is_empty()
            }),
            None => None,
        }
    }

    /// Whether the value contradicts another one that was stated immediately before.
    fn contradicts(&self, at: usize, value: usize) -> bool {
        let sentence = &self.sentences[at];
        let value = &sentence.values[value];
        // "On the 19th we are away. So on the 24th."
        let is_own_line = self.spoken_of(at, value).is_some()
            && at > 0
            && self.sentences[at - 1].line == sentence.line;
        let last = self.seen(at).next();
        is_own_line
            || last.is_some_and(|(said, other)| {
                let said = &self.sentences[said];
                let is_near = sentence.line == said.line + 1
                    && said.person != sentence.person
                    && sentence.has(Cue::Restate);
                is_near && !said.is_question && said.values[other].sort.replaces(&value.sort)
            })
    }

    /// "On the 19th we are away. Let's make it the 24th": values in the sentence that named the previous value.
    pub(crate) fn spoken_of(&self, at: usize, value: &Value) -> Option<(usize, usize)> {
        let line = self.sentences[at].line;
        let named = self
            .seen(at)
            .take_while(|(said, _)| line - self.sentences[*said].line <= 2);
        named
            .filter(|(said, named)| {
                let other = &self.sentences[*said].values[*named];
                let is_told = self.sentences[*said].person.is_some() && !self.is_held(*said);
                let is_clear = !matches!(&other.sort, Sort::Amount(unit) if unit.is_empty());
                is_told && is_clear && other.sort == value.sort && other.key != value.key
            })
            .take(6)
            .find_map(|(said, named)| {
                let key = self.key(said, named);
                self.seen(at).find(|(held, value)| {
                    *held != said && self.key(*held, *value) == key && self.is_held(*held)
                })
            })
    }

    fn is_task(&self, at: usize) -> bool {
        let mut tasks = self.tasks.iter().rev().take(60);
        tasks.any(|task| task.sentence == at)
    }

    /// Whether a sentence contains a proposal or a commitment.
    fn is_held(&self, at: usize) -> bool {
        let is_matter = self
            .matters
            .iter()
            .rev()
            .take(60)
            .any(|matter| matter.sentence == at && matter.standing != Standing::Dropped);
        is_matter || self.is_task(at)
    }
}

/// "Scratch that, I'm away from tomorrow": a day on which someone is unavailable.
fn is_absence(sentence: &Sentence, value: usize) -> bool {
    let value = &sentence.values[value];
    let clause = sentence.clause_start(value.lead);
    let mut cannot = sentence.all(Cue::Cannot);
    value.date.is_some()
        && cannot.any(|hit| hit.at >= clause && hit.at < value.from)
        && sentence.has(Cue::Retract)
}

fn sentence_sort(sentence: &Sentence, a: usize, b: usize) -> bool {
    sentence.values[a].sort.replaces(&sentence.values[b].sort)
}

fn surface(sentence: &Sentence, value: &Value) -> String {
    sentence.text[sentence.tokens[value.from].from..sentence.tokens[value.to - 1].to].to_owned()
}

fn surface_of(sentence: &Sentence, value: usize) -> String {
    surface(sentence, &sentence.values[value])
}
