//! Proposals and their authors.

use super::super::{asking::tag, cues::Cue, sentence::Sentence, sentence::is_any};
use super::{Matter, POINTING_REACH, Question, RECENT, REPLY_REACH, Standing, Thread};

impl Thread {
    /// Records a proposal. Returns whether the sentence contained one.
    pub(super) fn propose(&mut self, at: usize, is_agreed: bool) -> bool {
        let sentence = &self.sentences[at];
        let person = sentence.person;
        let tag = tag(sentence);
        if tag == Some(0) && self.is_asked_to_agree(at) {
            let mut matter = self.matter(at - 1, Standing::Open);
            matter.from = self.content_start(at - 1);
            matter.to = self.matter_end(at - 1, matter.from);
            self.matters.push(matter);
            return true;
        }
        let tag = tag.filter(|tag| *tag > 3 && !sentence.begins(Cue::Asks));
        let is_outcry = sentence.begins(Cue::Rhetorical)
            && sentence.begins(Cue::WhoAsks)
            && sentence.is_question;
        if is_outcry
            || (sentence.has(Cue::Rhetorical)
                && sentence.values.is_empty()
                && sentence.is_question
                && sentence.words() < 7)
            || sentence.has(Cue::Undecided) && !sentence.is_question
        {
            return false;
        }
        let head = sentence
            .all(Cue::Proposal)
            .filter(|hit| sentence.clause_start(hit.at) == hit.at || hit.at <= sentence.start())
            .find(|hit| {
                let first = sentence.tokens[hit.at].word.text.as_str();
                match first {
                    "is" | "does" | "would" | "ist" | "passt" | "geht" | "how"
                        if hit.end - hit.at <= 1
                            || first == "how" && sentence.tokens[hit.end - 1].is("does") =>
                    {
                        sentence.is_question
                            && !sentence.values.is_empty()
                            && sentence.has(Cue::Works)
                            || (sentence.is_question
                                && !sentence.values.is_empty()
                                && sentence.words() <= 6
                                && matches!(first, "passt" | "geht" | "does"))
                    }
                    "can" | "können" | "podemos" => {
                        let next = sentence.tokens.get(hit.end);
                        // "Can we already come in?" asks for permission.
                        let is_leave = next.is_some_and(|next| {
                            is_any(&next.word.text, "already still schon noch ya todavía")
                        });
                        sentence.is_question && !is_leave
                    }
                    _ => true,
                }
            })
            .copied();
        let favour = sentence
            .all(Cue::Favour)
            .filter(|hit| {
                !sentence.is_question
                    && sentence.clause_start(hit.at) + 1 >= hit.at
                    && !self.is_conditional(at, 0)
            })
            .max_by_key(|hit| hit.end)
            .copied();
        let is_elliptic = sentence.is_question
            && !sentence.values.is_empty()
            && (sentence.words() <= 7
                || sentence.words() <= 14
                    && sentence.values.iter().any(|value| value.date.is_some())
                    && sentence.tokens.iter().any(|token| token.is(","))
                || sentence.words() <= 10 && sentence.tokens.iter().any(|token| token.is(":")))
            && !sentence.begins(Cue::Asks)
            && !sentence.tokens.iter().any(|token| {
                is_any(
                    token.word.text.as_str(),
                    "is are was did why ist war has have es est",
                )
            });
        let is_taken_up = sentence.is_question
            && sentence.words() <= 4
            && !sentence.topic.is_empty()
            && !sentence.begins(Cue::Asks)
            && !sentence.has(Cue::Rhetorical)
            && self.is_spoken_of(at);
        // "Then the small hall?", with a name that was not mentioned before.
        let is_fallback = sentence.is_question
            && sentence.words() <= 5
            && !sentence.topic.is_empty()
            && sentence.is_first
            && !sentence.begins(Cue::Asks)
            && !sentence.begins(Cue::Request)
            && sentence.tokens[..sentence.start()]
                .iter()
                .any(|token| is_any(&token.word.text, "then dann alors entonces"))
            && !sentence.tokens.iter().any(|token| {
                is_any(
                    &token.word.text,
                    "is are was do does did you he she they we i ist sind du er sie wir ich es tú está hay \
                     est tu vous on il elle je what who why was wer qué quién que qui quoi",
                )
            });
        let is_elliptic = is_elliptic || is_taken_up || is_fallback;
        // "Blue!", "Monday works for me": an answer to a question is a proposal.
        let answers = self.asked_before(at);
        let is_reply = !sentence.is_question
            && !is_agreed
            && answers.is_some()
            && sentence.is_first
            && !(sentence.topic.is_empty() && sentence.values.is_empty())
            && (sentence.words() <= 5
                || sentence.words() <= 8
                    && answers
                        .is_some_and(|asked| self.sentences[asked].shared(&sentence.topic) > 0))
            && !sentence.has(Cue::NoAnswer)
            && !sentence.begins(Cue::Refuse)
            && !sentence.has(Cue::Cannot);
        // "So we go with the blue one?"
        let is_asked = sentence.is_question
            && sentence.has(Cue::Decision)
            && !sentence.begins(Cue::Asks)
            && !sentence.has(Cue::Reported);
        let (from, is_preference) = match (head, favour) {
            (Some(head), _) => {
                let is_kept = keeps_head(sentence, head.at);
                (if is_kept { head.at } else { head.end }, false)
            }
            (None, Some(favour)) => (favour.end, true),
            _ if is_elliptic || is_asked || tag.is_some() => (sentence.start(), false),
            _ if is_reply => (sentence.start(), true),
            _ => return false,
        };
        let is_put_off = (self.first_of_line[sentence.line]..at)
            .any(|before| self.sentences[before].has(Cue::Undecided));
        if is_put_off && !sentence.is_question || is_talk(sentence, from) {
            return false;
        }
        let is_negative = sentence.all(Cue::Not).any(|hit| hit.at == from);
        if from >= sentence.tokens.len()
            || sentence.words() < 1
            || (from + 1 >= sentence.tokens.len() && sentence.is_mark(from))
        {
            return false;
        }
        let is_pointing = (from..sentence.tokens.len()).all(|at| {
            sentence.is_mark(at)
                || sentence.all(Cue::It).any(|hit| hit.at == at)
                || is_any(
                    sentence.tokens[at].word.text.as_str(),
                    "do try go for with then",
                )
        });
        let is_mere = sentence.values.is_empty()
            && sentence.is_question
            && head.is_some()
            && (from..sentence.tokens.len())
                .filter(|at| !sentence.is_mark(*at))
                .count()
                < 2;
        if is_pointing || is_mere || is_negative && from == 0 {
            return false;
        }
        let is_alternative = sentence.is_question
            && sentence
                .tokens
                .iter()
                .any(|token| matches!(token.word.text.as_str(), "or" | "oder" | "o" | "ou"))
            && !sentence.values.iter().any(|value| {
                sentence
                    .tokens
                    .get(value.to)
                    .is_some_and(|token| token.is("or"))
                    && sentence
                        .tokens
                        .get(value.to + 1)
                        .is_some_and(|token| token.is("so"))
            });
        let is_question = sentence.is_question;
        let mut matter = self.matter(at, Standing::Open);
        matter.from = from;
        matter.to = self.matter_end(at, from);
        if let Some(tag) = tag.filter(|tag| *tag > from + 1) {
            matter.to = matter.to.min(tag - 1);
        }
        matter.answers = answers;
        matter.is_alternative = is_alternative;
        matter.is_preference = is_preference;
        if let Some(person) = person.filter(|_| !is_alternative) {
            self.stances.insert(person, (at, from));
        }
        // "Yes, let's do Monday" repeats the agreement.
        if is_agreed
            && let Some(agreed) = self
                .matters
                .iter_mut()
                .rev()
                .take(RECENT)
                .find(|matter| matter.standing == Standing::Accepted)
        {
            let old = &self.sentences[agreed.sentence];
            let new = &self.sentences[at];
            let has_other = new.values.iter().any(|value| {
                old.values
                    .iter()
                    .any(|other| other.sort == value.sort && other.key != value.key)
            });
            if !has_other
                && (old.shared(&new.topic) > 0
                    || new
                        .values
                        .iter()
                        .any(|value| old.values.iter().any(|other| other.key == value.key)))
            {
                return true;
            }
        }
        if is_question {
            let matter_at = self.matters.len();
            self.questions.push(Question {
                sentence: at,
                is_open: true,
                task: None,
                matter: (!is_alternative).then_some(matter_at),
            });
        }
        if !is_preference {
            self.find_change(&mut matter, at);
            matter.renames = self.other_name(at).filter(|_| matter.changes.is_none());
        }
        if is_preference {
            matter.to = self.phrase_end(at, from, matter.to);
        }
        self.matters.push(matter);
        true
    }

    /// "6 talks, 7 minutes each. Ok for all?": whether the preceding sentence is a statement that people can agree
    /// to.
    fn is_asked_to_agree(&self, at: usize) -> bool {
        at > 0 && {
            let said = &self.sentences[at - 1];
            let is_told = said.line == self.sentences[at].line
                && !said.is_question
                && !said.is_hidden
                && said.words() > 2;
            let mut matters = self.matters.iter().rev().take(4);
            let mut tasks = self.tasks.iter().rev().take(4);
            is_told
                && !matters.any(|matter| matter.sentence == at - 1)
                && !tasks.any(|task| task.sentence == at - 1)
        }
    }

    /// A proposal that replaces the value of an agreement once it is accepted.
    pub(super) fn find_change(&self, matter: &mut Matter, at: usize) {
        let new = &self.sentences[at];
        let spoken_of = new.held().find_map(|(new_at, value)| {
            let (old, old_at) = self.spoken_of(at, value)?;
            Some((old, old_at, at, new_at))
        });
        if spoken_of.is_some() {
            matter.changes = spoken_of;
            return;
        }
        let old = self.matters.iter().rev().take(RECENT).find_map(|old| {
            if !matches!(old.standing, Standing::Accepted | Standing::Open) || old.sentence == at {
                return None;
            }
            let sentence = &self.sentences[old.sentence];
            let is_close = new.line - sentence.line <= 2 * REPLY_REACH;
            let is_bare = new.topic.is_empty() || sentence.topic.is_empty();
            let is_same = sentence.shared(&new.topic) > 0
                || new.has(Cue::HandOver)
                || new.has(Cue::Correct)
                || is_close && is_bare;
            let pair = new
                .held()
                .find_map(|(new_at, value)| Some((sentence.counterpart(value, new)?, new_at)))?;
            is_same.then_some((old.sentence, pair.0, at, pair.1))
        });
        matter.changes = old.or_else(|| self.find_due(at));
    }

    /// The due date of a recent task that a proposal would change.
    pub(super) fn find_due(&self, at: usize) -> Option<(usize, usize, usize, usize)> {
        let new = &self.sentences[at];
        if !new.topic.is_empty() {
            return None;
        }
        let close = self.tasks.iter().rev().take(8).find(|task| {
            let said = task.sources.last().copied().unwrap_or_default();
            task.is_live && task.due.is_some() && new.line - said.min(new.line) <= 2
        })?;
        let (sentence, due) = close.due?;
        let old = &self.sentences[sentence];
        let value = new.values.iter().position(|value| {
            value.date.is_some()
                && value.key != old.key(due)
                && value.sort.replaces(&old.values[due].sort)
        })?;
        Some((sentence, due, at, value))
    }

    /// Whether a recent matter or choice contains one of the words.
    pub(super) fn is_spoken_of(&self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let is_close = |other: usize| {
            let said = &self.sentences[other];
            other < at
                && sentence.line - said.line <= 2 * REPLY_REACH
                && said.shared(&sentence.topic) > 0
        };
        let matters = self
            .matters
            .iter()
            .rev()
            .take(RECENT)
            .map(|matter| matter.sentence);
        let questions = self
            .questions
            .iter()
            .rev()
            .take(4)
            .map(|question| question.sentence);
        let first = self.first_of_line[sentence.line.saturating_sub(3)];
        let last = (first..at).rev().take(POINTING_REACH);
        matters.chain(questions).chain(last).any(is_close)
    }

    /// The question that a decision closes, regardless of who asked it.
    pub(super) fn chosen(&mut self, at: usize) -> Option<usize> {
        let asked = self.choice_before(at, |_| true)?;
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if question.sentence == asked {
                question.is_open = false;
            }
        }
        Some(asked)
    }

    /// A question immediately before, by someone else, that asks for a choice.
    pub(super) fn asked_before(&self, at: usize) -> Option<usize> {
        let person = self.sentences[at].person;
        self.choice_before(at, |asker| asker != person)
    }

    pub(super) fn choice_before(
        &self,
        at: usize,
        fits: impl Fn(Option<usize>) -> bool,
    ) -> Option<usize> {
        let sentence = &self.sentences[at];
        self.questions
            .iter()
            .rev()
            .take(4)
            .map(|question| question.sentence)
            .find(|asked| {
                let asked_sentence = &self.sentences[*asked];
                let is_choice = asked_sentence.tokens.iter().any(|token| {
                    is_any(token.word.text.as_str(), "when which where or wann welche welcher welches welchen wo oder cuándo cuál \
dónde o quand quel quelle où ou what how wie was qué cuánto cuántos combien")
                }) && asked_sentence.tokens.iter().any(|token| {
                    is_any(&token.word.text, "or oder o ou which welche welcher welches welchen cuál quel quelle")
                        || token.known().is_some_and(|entry| {
                            entry.phrases.iter().any(|phrase| phrase.cue == Cue::We)
                        })
                });
                fits(asked_sentence.person)
                    && sentence.line - asked_sentence.line <= REPLY_REACH
                    && is_choice
            })
    }

    pub(super) fn stance(&mut self, at: usize) {
        if let Some(person) = self.sentences[at].person {
            let start = self.sentences[at].start();
            self.stances.insert(person, (at, start));
        }
    }
}

pub(super) fn keeps_head(sentence: &Sentence, at: usize) -> bool {
    let first = sentence.tokens[at].word.text.as_str();
    let second = sentence
        .tokens
        .get(at + 1)
        .map_or("", |token| token.word.text.as_str());
    match first {
        "on" => !matches!(second, "devrait" | "pourrait" | "peut"),
        _ => {
            is_any(
                first,
                "machen nehmen treffen gehen passt bleiben fahren verschieben ist geht is does \
would quedamos usemos hagamos vayamos quedemos pongamos dejemos nos os te les \
lanzamos hacemos usamos faisons prenons partons utilisons gardons disons ça \
einigen sagen we",
            ) && second != "should"
                && second != "could"
                && second != "might"
        }
    }
}

/// "Let's discuss the details": proposes a discussion, not an action.
fn is_talk(sentence: &Sentence, from: usize) -> bool {
    let word = |at: usize| {
        sentence
            .tokens
            .get(at)
            .map_or("", |token| token.word.text.as_str())
    };
    let is_verb = is_any(
        word(from),
        "discuss brainstorm talk think see hear fix sort collect besprechen reden sammeln hablar hablemos \
         veamos ver parler discuter parlons discutons voyons voir",
    );
    let is_details = (from..sentence.tokens.len())
        .any(|at| is_any(word(at), "details ideas options agenda here it this about"));
    let is_plain = !is_any(word(from), "fix sort collect hear ver voir see think") || is_details;
    is_verb && is_plain && sentence.values.is_empty()
}
