//! Questions until they are answered, and deferred topics.

use std::collections::BTreeMap;

use super::super::{cues::Cue, sentence::Sentence, sentence::is_any, values::Sort};
use super::{
    ANSWER_REACH, ANSWER_WORDS_MAX, Deferral, Question, RECENT, REPLY_REACH, Standing, Thread, add,
};

impl Thread {
    pub(super) fn ask(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let is_idle = (sentence.has(Cue::Rhetorical) && sentence.words() <= 9)
            || sentence.words() < 2
            || sentence.topic.is_empty() && sentence.values.is_empty();
        if !is_idle {
            self.questions.push(Question {
                sentence: at,
                is_open: true,
                task: None,
                matter: None,
            });
        }
    }

    pub(super) fn answer(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.has(Cue::NoAnswer) || sentence.is_question {
            return;
        }
        let is_agent = sentence.person.is_none();
        let line_words = self.words_of_line[sentence.line];
        let mut asked_at: BTreeMap<usize, usize> = BTreeMap::new();
        for question in self.questions.iter().rev().take(RECENT) {
            *asked_at
                .entry(self.sentences[question.sentence].line)
                .or_default() += usize::from(question.is_open && question.matter.is_none());
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            if asked.line + ANSWER_REACH < sentence.line {
                break;
            }
            let is_replaced = question.matter.is_some()
                && sentence.line > asked.line
                && sentence.line - asked.line <= 2
                && sentence
                    .values
                    .iter()
                    .any(|value| asked.counterpart(value, sentence).is_some());
            if is_replaced {
                question.is_open = false;
            }
            if !question.is_open
                || asked.person == sentence.person
                || asked.line >= sentence.line
                || question.task.is_some()
                || question.matter.is_some()
            {
                continue;
            }
            let distance = sentence.line - asked.line;
            let common = asked.shared(&sentence.topic);
            let is_one_of_many = asked_at.get(&asked.line).is_some_and(|count| *count > 1);
            let is_next = distance == 1
                && (!is_one_of_many || common > 0)
                && asked.is_question
                && line_words <= ANSWER_WORDS_MAX
                && !is_agent
                && !sentence.has(Cue::Correct);
            let is_pointing =
                asked.topic.len() < 2 && asked.has(Cue::It) && distance == 1 && !is_agent;
            let is_about = asked.is_question && (is_pointing || common > 0 && distance <= 3);
            let is_surely = common > 1;
            let is_valued = distance <= 2 && asks_for_value(asked, sentence);
            if is_next || is_about || is_surely || is_valued {
                question.is_open = false;
            }
        }
    }

    /// "Second: the fee": the last announced subject.
    fn heading(&self, at: usize) -> Option<usize> {
        const NUMBERS: &str = "first second third fourth next point erstens zweitens drittens viertens punkt \
            nächster primero segundo tercero punto siguiente premièrement deuxièmement troisièmement";
        let line = self.sentences[at].line;
        (self.first_of_line[line.saturating_sub(REPLY_REACH)]..at)
            .rev()
            .find(|before| {
                let said = &self.sentences[*before];
                let marked = said.tokens.iter().take(4).position(|token| token.is(":"));
                let is_numbered = marked.is_some_and(|end| {
                    let mut numbers = said.tokens[..end].iter();
                    numbers.any(|token| is_any(&token.word.text, NUMBERS))
                });
                is_numbered && said.words() <= 8 && !said.topic.is_empty()
            })
    }

    pub(super) fn defer(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let line = sentence.line;
        let Some(hit) = sentence.all(Cue::Defer).next() else {
            return false;
        };
        if sentence
            .values
            .iter()
            .any(|value| value.date.is_some() && !value.key.starts_with("rn"))
            || sentence.has(Cue::If)
            || sentence.has(Cue::Reported)
        {
            return false;
        }
        let is_weak = hit.end - hit.at == 1
            && is_any(
                sentence.tokens[hit.at].word.text.as_str(),
                "later später luego irgendwann backlog parked postponed",
            );
        // "I may come a bit later" does not defer anything.
        let is_own = sentence.tokens.iter().any(|token| {
            is_any(
                &token.word.text,
                "i i'm i'll i'd ich yo je j' llego llegaré vengo voy",
            )
        });
        let is_coming = is_own
            && !sentence.has(Cue::Favour)
            && !sentence.has(Cue::We)
            && is_any(
                &sentence.tokens[hit.end - 1].word.text,
                "later später luego tarde tard",
            );
        if is_coming {
            return false;
        }
        let is_proposing =
            sentence.has(Cue::Proposal) || sentence.has(Cue::Decision) || sentence.has(Cue::We);
        if is_weak && !is_proposing && sentence.words() > 6 {
            return false;
        }
        let in_cue = |at: usize| {
            sentence
                .all(Cue::Defer)
                .any(|hit| (hit.at..hit.end).contains(&at))
        };
        let own: Vec<u32> = sentence
            .tokens
            .iter()
            .enumerate()
            .filter(|(at, _)| !in_cue(*at))
            .filter_map(|(_, token)| token.word.stem)
            .collect();
        let is_pointing = own.is_empty() || own.len() == 1 && sentence.has(Cue::It);
        let mut deferral = Deferral {
            sentence: at,
            sources: vec![line],
        };
        // "Ok, later."
        let is_bare = is_weak && own.is_empty() && !is_proposing;
        let is_who = |asked: usize| self.sentences[asked].begins(Cue::WhoAsks);
        let target = self
            .questions
            .iter()
            .rev()
            .take(RECENT)
            .filter(|question| !is_pointing || question.is_open && !is_who(question.sentence))
            .map(|question| question.sentence)
            .chain(
                self.matters
                    .iter()
                    .rev()
                    .take(RECENT)
                    .filter(|matter| {
                        !is_pointing
                            || matter.standing != Standing::Dropped && !is_who(matter.sentence)
                    })
                    .map(|matter| matter.sentence),
            )
            .chain(self.heading(at).filter(|_| is_pointing))
            .filter(|target| {
                let said = &self.sentences[*target];
                let mut topic = own.clone();
                topic.sort_unstable();
                line - said.line <= if is_bare { 2 } else { REPLY_REACH }
                    && if is_pointing {
                        true
                    } else {
                        said.shared(&topic) > 0
                    }
            })
            .max();
        let target = match target {
            None if is_pointing => {
                let before = at.checked_sub(1).filter(|before| {
                    let said = &self.sentences[*before];
                    let is_close = line - said.line <= 2 && said.words() > 2;
                    is_close && said.person.is_some() && !said.is_question
                });
                let Some(before) = before else {
                    return false;
                };
                Some(before)
            }
            target => target,
        };
        if let Some(target) = target {
            add(&mut deferral.sources, self.sentences[target].line);
            if is_pointing {
                deferral.sentence = target;
            }
            for question in self.questions.iter_mut().rev().take(RECENT) {
                if question.sentence == target {
                    question.is_open = false;
                }
            }
            for matter in self.matters.iter_mut().rev().take(RECENT) {
                if matter.sentence == target {
                    matter.standing = Standing::Dropped;
                }
            }
            for task in self.tasks.iter_mut().rev().take(RECENT) {
                if task.sentence == target {
                    task.is_live = false;
                }
            }
        }
        self.deferrals.push(deferral);
        true
    }
}

/// "When …?" with a date, or "How many …?" with a number.
pub(crate) fn asks_for_value(asked: &Sentence, said: &Sentence) -> bool {
    let asks = |words: &str| {
        asked
            .tokens
            .iter()
            .any(|token| is_any(&token.word.text, words))
    };
    // "When do we release 2.0?" contains a value, but not of the kind that it asks for.
    let gives = |fits: fn(&Sort) -> bool| {
        said.values.iter().any(|value| fits(&value.sort))
            && !asked.values.iter().any(|value| fits(&value.sort))
    };
    let is_when = asks("when wann cuándo quand time uhr date")
        && gives(|sort| !matches!(sort, Sort::Amount(_) | Sort::Version));
    let is_much = asks(
        "much many cost costs long kostet viel viele teuer lange cuánto cuántos cuesta combien coûte",
    ) && gives(|sort| matches!(sort, Sort::Amount(_)));
    is_when || is_much
}
