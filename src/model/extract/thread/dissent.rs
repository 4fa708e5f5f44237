//! Objections and retractions.

use super::super::{
    Owner, cues::Cue, sentence::Sentence, sentence::is_any, sentence::shared, tasks::TaskSort,
};
use super::{RECENT, REPLY_REACH, Standing, Thread};

impl Thread {
    /// Handles "No", "wait", and "I disagree". Returns whether the objection struck a statement.
    pub(super) fn object(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        if sentence.is_question && sentence.words() < 3 {
            return false;
        }
        let line_start = self.first_of_line[sentence.line] == at;
        let is_refusal = line_start && (sentence.begins(Cue::Refuse) || declines_at_end(sentence));
        if is_comfort(sentence) {
            return false;
        }
        // "I'd wait for that" does not block anything.
        let objection = sentence.all(Cue::Object).find(|hit| {
            let text = sentence.tokens[hit.at].word.text.as_str();
            !is_any(text, "wait warte warten espera esperar attends")
                || sentence.clause_start(hit.at) == hit.at
                || hit.at <= sentence.start()
        });
        if !is_refusal && objection.is_none() {
            return false;
        }
        // "No idea" is not a refusal; "ok, noted, but …" does not revoke a decision.
        let is_conceded = line_start
            && sentence.begins(Cue::Agree)
            && sentence.tokens.iter().any(|token| {
                is_any(
                    token.word.text.as_str(),
                    "noted fair accept notiert akzeptiere anotado acepto noté accepte",
                )
            });
        if is_conceded || gives_in(sentence) || sentence.has(Cue::NoAnswer) && objection.is_none() {
            return false;
        }
        let me = sentence.person;
        let line = sentence.line;
        let in_reach = |said: usize, reach: usize| said < line && line - said <= reach;
        let newest_question = self
            .questions
            .iter()
            .rev()
            .take(RECENT)
            .filter(|question| {
                question.is_open
                    && question.matter.is_none()
                    && self.sentences[question.sentence].person != me
            })
            .map(|question| self.sentences[question.sentence].line)
            .filter(|said| in_reach(*said, REPLY_REACH))
            .max();
        let newest_request = self
            .tasks
            .iter()
            .rev()
            .take(RECENT)
            .filter(|task| {
                !task.is_confirmed
                    && self.sentences[task.sentence].person != me
                    && (task.owner == me.map(Owner::Person)
                        || (task.owner.is_none() && task.sort == TaskSort::Request)
                        || task.sort == TaskSort::Offer)
                    && task.sort != TaskSort::WhoAsks
            })
            .map(|task| self.sentences[task.sentence].line)
            .filter(|said| in_reach(*said, REPLY_REACH))
            .max();
        let reach = if objection.is_some() {
            3 * REPLY_REACH
        } else {
            REPLY_REACH
        };
        let candidates: Vec<(usize, usize, usize)> = self
            .matters
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, matter)| {
                matches!(
                    matter.standing,
                    Standing::Open | Standing::Accepted | Standing::Contested
                )
            })
            .filter(|(_, matter)| objection.is_some() || matter.by != me)
            .map(|(index, matter)| {
                let said = *matter.sources.last().unwrap_or(&0);
                let own = self.sentences[matter.sentence].line;
                (
                    index,
                    said.max(own),
                    self.sentences[matter.sentence].shared(&sentence.topic),
                )
            })
            .filter(|(_, said, _)| in_reach(*said, reach))
            .collect();
        let best = candidates
            .iter()
            .filter(|(_, _, common)| *common > 0)
            .max_by_key(|(index, ..)| *index)
            .or_else(|| {
                candidates
                    .iter()
                    .max_by_key(|(index, said, _)| (*said, *index))
            })
            .copied();
        let newest_matter = best.map(|(_, said, _)| said);
        if newest_request > newest_matter && newest_request >= newest_question {
            if is_refusal && !self.sentences[at].has(Cue::Cannot) {
                let said = newest_request.unwrap_or_default();
                for task in self.tasks.iter_mut().rev().take(RECENT) {
                    if self.sentences[task.sentence].line == said
                        && !task.is_confirmed
                        && task.owner.as_ref().is_none_or(|owner| {
                            Some(owner) == me.map(Owner::Person).as_ref()
                                || task.sort == TaskSort::Offer
                        })
                    {
                        task.is_live = false;
                        task.owner = None;
                    }
                }
            }
            return is_refusal;
        }
        // "Oh no" in response to a commitment refers to that commitment.
        let is_to_promise = objection.is_none()
            && sentence.topic.is_empty()
            && self.tasks.last().is_some_and(|task| {
                let said = self.sentences[task.sentence].line;
                task.sort == TaskSort::Promise && said + 1 == line && Some(said) > newest_matter
            });
        if is_to_promise {
            return false;
        }
        if newest_question > newest_matter {
            if is_refusal && !self.sentences[at].has(Cue::NoAnswer) {
                self.close_line(newest_question.unwrap_or_default());
            }
            return false;
        }
        let Some((index, said, _)) = best else {
            return false;
        };
        let proposal_line = self.sentences[self.matters[index].sentence].line;
        let is_late = line - said > REPLY_REACH && self.sentences[at].topic.is_empty();
        if is_late {
            return false;
        }
        let first = self.matters.len().saturating_sub(RECENT);
        for matter in &mut self.matters[first..] {
            if self.sentences[matter.sentence].line == proposal_line
                && matter.standing != Standing::Dropped
            {
                matter.standing = Standing::Contested;
                matter.contested_by = me;
            }
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if self.sentences[question.sentence].line == proposal_line {
                question.is_open = false;
            }
        }
        true
    }

    /// Retracts the previous statement, or the one with the same subject.
    pub(super) fn retract(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let Some(hit) = sentence.all(Cue::Retract).next() else {
            return false;
        };
        let line = sentence.line;
        // "Do we need a permit? Ah no, forget it."
        let own = self.questions.iter().rposition(|question| {
            let asked = question.sentence;
            asked + 2 >= at && self.sentences[asked].line == line && question.is_open
        });
        if let Some(own) = own.filter(|_| sentence.clause_start(hit.at) == hit.at) {
            self.questions[own].is_open = false;
            if let Some(matter) = self.questions[own].matter {
                self.matters[matter].standing = Standing::Dropped;
            }
            return true;
        }
        let text = sentence.tokens[hit.at].word.text.as_str();
        let is_pointing = sentence.tokens[hit.at..].iter().any(|token| {
            is_any(
                token.word.text.as_str(),
                "that it this das es eso ça mind nevermind nvm doch all lo",
            )
        }) || text.starts_with("olv")
            || text.starts_with("déja")
            || text.starts_with("deja");
        // "Never mind, …" without anything that it refers to.
        let is_whole = sentence.clause_start(hit.at) == hit.at
            && sentence.is_mark(
                sentence
                    .all(Cue::Retract)
                    .map(|hit| hit.end)
                    .min()
                    .unwrap_or(0),
            );
        let score = |topic: &[u32]| shared(topic, &sentence.topic);
        let matter = self
            .matters
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, matter)| matter.standing != Standing::Dropped)
            .map(|(index, matter)| {
                (
                    score(&self.sentences[matter.sentence].topic),
                    self.sentences[matter.sentence].line,
                    index,
                )
            })
            .max_by_key(|(score, line, index)| (*score, *line, *index));
        let task = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, task)| task.is_live)
            .map(|(index, task)| {
                (
                    score(&task.topic),
                    *task.sources.last().unwrap_or(&0),
                    index,
                )
            })
            .max_by_key(|(score, line, index)| (*score, *line, *index));
        let near = |said: usize| line - said <= 2 * REPLY_REACH;
        let fits = |found: &(usize, usize, usize)| {
            found.0 > 0
                || (is_pointing && near(found.1) && sentence.topic.len() < 2)
                || (is_whole && near(found.1))
        };
        let matter = matter.filter(fits);
        let task = task.filter(fits);
        match (matter, task) {
            (Some(matter), Some(task)) if (task.0, task.1) > (matter.0, matter.1) => {
                self.tasks[task.2].is_live = false;
            }
            (Some(matter), _) => {
                self.matters[matter.2].standing = Standing::Dropped;
                let gone = self.matters[matter.2].sentence;
                self.sentences[gone].is_hidden = true;
                // Tasks for it are dropped too.
                if let Some(task) = task.filter(|task| task.0 > 0) {
                    self.tasks[task.2].is_live = false;
                }
            }
            (None, Some(task)) => {
                self.tasks[task.2].is_live = false;
                let gone = self.tasks[task.2].sentence;
                self.sentences[gone].is_hidden = true;
            }
            (None, None) => return false,
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            if asked.shared(&self.sentences[at].topic) > 0 {
                question.is_open = false;
            }
        }
        true
    }
}

/// "I don't like it, but ok": does not revoke a decision.
fn gives_in(sentence: &Sentence) -> bool {
    let end = sentence.tokens.len();
    let but = (0..end).rev().find(|at| {
        is_any(
            &sentence.tokens[*at].word.text,
            "but aber pero mais still trotzdem igual quand",
        )
    });
    but.is_some_and(|but| {
        let agreed = sentence.all(Cue::Agree).filter(|hit| hit.at == but + 1);
        let until = agreed.map(|hit| hit.end).max();
        until.is_some_and(|until| (until..end).filter(|at| !sentence.is_mark(*at)).count() <= 3)
    })
}

/// "No worries, …" is not a refusal.
fn is_comfort(sentence: &Sentence) -> bool {
    let start = sentence.start();
    let text = |at: usize| {
        sentence
            .tokens
            .get(at)
            .map_or("", |token| token.word.text.as_str())
    };
    let next = (text(start + 1), text(start + 2));
    matches!(
        (text(start), next.0),
        ("no", "worries" | "problem" | "problema" | "prob" | "stress")
            | (
                "kein" | "keine" | "sin",
                "problem" | "sorge" | "problema" | "thema" | "stress"
            )
    ) || matches!((text(start), next), ("no", ("pasa", "nada")))
}

/// "Sounds like a bank, no thanks".
fn declines_at_end(sentence: &Sentence) -> bool {
    let end = sentence.tokens.len();
    let comma = (0..end).rev().find(|at| sentence.tokens[*at].is(","));
    let Some(comma) = comma.filter(|_| sentence.words() <= 10 && !sentence.is_question) else {
        return false;
    };
    let text = |at: usize| {
        sentence
            .tokens
            .get(at)
            .map_or("", |token| token.word.text.as_str())
    };
    let is_plain_no = is_any(text(comma + 1), "no nein non nope nee")
        && (comma + 2..end).all(|at| sentence.is_mark(at))
        && !sentence.has(Cue::Agree)
        && !sentence.has(Cue::Works);
    is_plain_no
        || matches!(
            (text(comma + 1), text(comma + 2)),
            (
                "no" | "nein" | "non",
                "thanks" | "thank" | "danke" | "gracias" | "merci"
            ) | (
                "rather" | "lieber" | "mejor" | "plutôt",
                "not" | "nicht" | "no" | "pas"
            )
        )
}
