//! Explicit decisions, and decisions by closing words.

use super::super::{cues::Cue, sentence::Hit, sentence::is_any};
use super::{Matter, RECENT, REPLY_REACH, Standing, Thread};

impl Thread {
    pub(super) fn matter(&self, at: usize, standing: Standing) -> Matter {
        let sentence = &self.sentences[at];
        Matter {
            sentence: at,
            from: 0,
            to: sentence.tokens.len(),
            standing,
            by: sentence.person,
            contested_by: None,
            sources: vec![sentence.line],
            reworded: None,
            changes: None,
            renames: None,
            answers: None,
            is_alternative: false,
            is_preference: false,
        }
    }

    pub(super) fn decide(&mut self, at: usize, has_task: bool) -> bool {
        let sentence = &self.sentences[at];
        let closing = (!has_task && self.is_closing(at)).then_some(Hit {
            cue: Cue::Decision,
            at: sentence.start(),
            end: sentence.start(),
        });
        let Some(hit) = sentence.all(Cue::Decision).next().copied().or(closing) else {
            return false;
        };
        let is_plain = !sentence.is_question
            && !sentence.has(Cue::Undecided)
            && !sentence.has(Cue::Hedge)
            && !self.is_conditional(at, hit.at)
            && !sentence
                .all(Cue::Reported)
                .any(|reported| reported.at < hit.at)
            && !sentence.all(Cue::Not).any(|not| {
                not.end == hit.at
                    || (not.at >= hit.at
                        && not.end <= hit.end + 1
                        && sentence.tokens[not.at].is("not"))
            });
        // "Agreed." alone refers to the previous statement.
        let content = closing.is_some()
            || sentence.words() > hit.end - hit.at
            || sentence.words() > 4
            || sentence.tokens[hit.end - 1].is(":")
                && (hit.end..sentence.tokens.len()).any(|at| !sentence.is_mark(at));
        let is_future = has_task
            && is_any(
                sentence.tokens[hit.at].word.text.as_str(),
                "we'll we wir on vamos",
            );
        if !is_plain || !content || is_future {
            return false;
        }
        let clause = sentence.clause_start(hit.at);
        // Text before the clause ("Ok, …") is not part of it.
        let from = if clause > 0
            && clause < 5
            && sentence.tokens[..clause]
                .iter()
                .all(|t| t.word.known.is_some())
        {
            clause
        } else {
            0
        };
        // "Final: 900" becomes "900".
        let is_label = hit.at <= from.max(sentence.start())
            && hit.end > hit.at
            && sentence.tokens[hit.end - 1].is(":")
            && (hit.end..sentence.tokens.len()).any(|at| !sentence.is_mark(at));
        let from = if is_label { hit.end } else { from };
        let mut matter = self.matter(at, Standing::Accepted);
        matter.from = from;
        matter.to = self.matter_end(at, from);
        if closing.is_some() {
            matter.from = matter.from.max(self.content_start(at));
            matter.to = self.phrase_end(at, matter.from, matter.to);
            matter.answers = self.chosen(at);
            self.find_change(&mut matter, at);
            if let Some((old, old_at, new, new_at)) = matter.changes.take() {
                self.replace(old, old_at, new, new_at);
            }
        }
        if closing.is_some() {
            self.drop_gone(at);
        }
        self.supersede_same(at);
        self.close_questions(at);
        self.matters.push(matter);
        true
    }

    /// "They are closed." – "Ok, the barn then.": drops the previous agreement and its tasks.
    fn drop_gone(&mut self, at: usize) {
        const GONE: &str = "closed taken gone full booked unavailable shut sold occupied geschlossen belegt \
            ausgebucht voll vergeben cerrado cerrada cerrados ocupado ocupada lleno llena fermé fermée fermés \
            complet complète pris prise occupé occupée";
        let line = self.sentences[at].line;
        let since = self.first_of_line[line.saturating_sub(REPLY_REACH)];
        let told = (since..at).rev().find(|before| {
            let said = &self.sentences[*before];
            let is_gone = said
                .tokens
                .iter()
                .any(|token| is_any(&token.word.text, GONE));
            is_gone && !said.is_question && !said.has(Cue::Not) && !said.has(Cue::If)
        });
        let (Some(told), true) = (told, self.sentences[at].values.is_empty()) else {
            return;
        };
        let new = self.sentences[at].topic.clone();
        let gone = self.matters.iter().rposition(|matter| {
            let said = &self.sentences[matter.sentence];
            matter.standing == Standing::Accepted
                && matter.sentence < told
                && self.sentences[told].line - said.line <= 2 * REPLY_REACH
                && said.values.is_empty()
                && !said.topic.is_empty()
                && said.topic.len() <= 4
                && said.shared(&new) == 0
        });
        let Some(gone) = gone else {
            return;
        };
        self.matters[gone].standing = Standing::Dropped;
        let sentence = self.matters[gone].sentence;
        let about = self.sentences[sentence].topic.clone();
        self.sentences[sentence].is_hidden = true;
        for task in self.tasks.iter_mut().rev().take(RECENT) {
            if self.sentences[task.sentence].shared(&about) > 0 && task.sentence > sentence {
                task.is_live = false;
                // A new commitment to it uses new words.
                task.topic.clear();
            }
        }
        for said in sentence + 1..at {
            if self.sentences[said].shared(&about) > 0 {
                self.sentences[said].is_hidden = true;
            }
        }
    }

    /// Start of a task or other text that does not belong to a matter.
    pub(super) fn matter_end(&self, at: usize, from: usize) -> usize {
        let sentence = &self.sentences[at];
        let cut = sentence
            .all(Cue::Promise)
            .chain(sentence.all(Cue::InsteadOf).filter(|hit| {
                // "La fecha no cambia" is not a boundary.
                let next = sentence.tokens.get(hit.end);
                let is_verb = next.is_some_and(|next| next.word.stem.is_some());
                hit.end - hit.at > 1 || !sentence.tokens[hit.at].is("no") || !is_verb
            }))
            .map(|hit| {
                if hit.cue == Cue::Promise {
                    sentence.clause_start(hit.at)
                } else {
                    hit.at
                }
            })
            .filter(|cut| *cut > from + 1)
            .min();
        let mut to = cut.unwrap_or(sentence.tokens.len());
        while to > from
            && (sentence.is_mark(to - 1)
                || is_any(
                    sentence.tokens[to - 1].word.text.as_str(),
                    "and und y et but so",
                ))
            && cut.is_some()
        {
            to -= 1;
        }
        to
    }

    pub(super) fn is_conditional(&self, at: usize, before: usize) -> bool {
        let sentence = &self.sentences[at];
        sentence.all(Cue::If).any(|hit| {
            let previous = hit
                .at
                .checked_sub(1)
                .map_or("", |at| sentence.tokens[at].word.text.as_str());
            let is_whether = is_any(
                previous,
                "check ask see find out test know verify prüfen fragen wonder comprobar \
preguntar vérifier demander voir ver , her him them",
            ) && hit.at > before
                && previous != ",";
            let is_courtesy = sentence.tokens.get(hit.at + 1).is_some_and(|token| {
                is_any(
                    token.word.text.as_str(),
                    "possible necessary needed not möglich nötig posible possible,",
                )
            });
            !is_whether && !is_courtesy
        })
    }

    /// A later decision on the same subject with a different value implicitly replaces the earlier one.
    pub(super) fn supersede_same(&mut self, at: usize) {
        let mut pairs = Vec::new();
        let new = &self.sentences[at];
        for matter in self.matters.iter().rev().take(RECENT) {
            let old = &self.sentences[matter.sentence];
            if matter.standing == Standing::Dropped || matter.sentence == at {
                continue;
            }
            let common = old.shared(&new.topic);
            let is_bare = old.topic.is_empty() || new.topic.is_empty();
            let is_close = is_bare && new.line - old.line <= 2 * REPLY_REACH;
            let is_related = common > 0 && common * 2 >= old.topic.len().min(new.topic.len());
            if !is_related && !is_close {
                continue;
            }
            for (new_at, value) in new.held() {
                if let Some(old_at) = old.counterpart(value, new) {
                    pairs.push((matter.sentence, old_at, at, new_at));
                }
            }
        }
        for (old, old_at, new, new_at) in pairs {
            self.replace(old, old_at, new, new_at);
        }
        // Repeated statements are listed once.
        let new = &self.sentences[at];
        for matter in self.matters.iter_mut().rev().take(RECENT) {
            let old = &self.sentences[matter.sentence];
            let common = old.shared(&new.topic);
            let same_values = old.values.iter().all(|value| {
                let key = old
                    .edits
                    .iter()
                    .find(|edit| edit.from == value.from)
                    .map_or(&value.key, |edit| &edit.key);
                new.values.iter().any(|other| other.key == *key)
            });
            let is_bare = old.topic.is_empty() || new.topic.is_empty();
            let is_close =
                is_bare && !old.values.is_empty() && new.line - old.line <= 2 * REPLY_REACH;
            let is_related = common > 0 && common * 2 > old.topic.len().min(new.topic.len());
            if (is_related || is_close) && same_values {
                matter.standing = Standing::Dropped;
            }
        }
    }

    pub(super) fn close_questions(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            let common = asked.shared(&sentence.topic);
            let is_close = sentence.line.abs_diff(asked.line) <= REPLY_REACH;
            let has_same = asked.topic.is_empty()
                && !asked.values.is_empty()
                && asked
                    .values
                    .iter()
                    .all(|value| sentence.values.iter().any(|own| own.key == value.key));
            if common > 0 && common * 2 >= asked.topic.len() || is_close && has_same {
                question.is_open = false;
            }
        }
    }

    /// Start of a reason or an aside after a preference; trailing words such as "too" are excluded.
    pub(super) fn phrase_end(&self, at: usize, from: usize, to: usize) -> usize {
        let sentence = &self.sentences[at];
        let mut end = (from + 1..to)
            .find(|at| sentence.all(Cue::Aside).any(|hit| hit.at == *at))
            .unwrap_or(to);
        let is_filler = |at: usize| {
            let entry = sentence.tokens[at].known();
            if sentence.tokens[at].is("well") && sentence.tokens[at - 1].is("as") {
                return false;
            }
            sentence.is_mark(at)
                || entry.is_some_and(|entry| entry.fillers.contains(&sentence.language))
        };
        while end > from + 1 && is_filler(end - 1) {
            end -= 1;
        }
        end
    }

    /// After "ok," or "great, then".
    pub(super) fn content_start(&self, at: usize) -> usize {
        let sentence = &self.sentences[at];
        let is_opening = |at: usize| {
            sentence.is_mark(at)
                || is_any(
                    sentence.tokens[at].word.text.as_str(),
                    "so then also dann alors entonces",
                )
        };
        let mut from = sentence.start();
        while let Some(end) = sentence
            .all(Cue::Agree)
            .filter(|hit| hit.at == from)
            .map(|hit| hit.end)
            .max()
        {
            from = end;
            while from + 1 < sentence.tokens.len() && is_opening(from) {
                from += 1;
            }
        }
        if from + 1 >= sentence.tokens.len() && sentence.is_mark(from) {
            return sentence.start();
        }
        from
    }

    /// "Svelte it is", "Granada then", "ok so 1400", "1400, final": closes the current topic.
    pub(super) fn is_closing(&self, at: usize) -> bool {
        const THEN: &str = "then entonces alors dann pues";
        const OPENINGS: &str = "hm hmm oh ah well also so then and und gut bon bueno pues entonces \
            alors donc dann na nun right great fine good";
        const CLOSERS: &str = "final settled done closed fixed cerrado decidido hecho fix entschieden \
            beschlossen adjugé définitif acté decided agreed deal";
        let sentence = &self.sentences[at];
        let is_open = sentence.is_question || sentence.has(Cue::If) || sentence.has(Cue::Undecided);
        if is_open || sentence.has(Cue::NoAnswer) || sentence.has(Cue::Cannot) {
            return false;
        }
        let text = |at: usize| sentence.tokens[at].word.text.as_str();
        // "True. So 9 euros."
        let is_behind = at > self.first_of_line[sentence.line] && {
            let before = &self.sentences[at - 1];
            before.words() <= 3 && before.begins(Cue::Agree) && !before.is_question
        };
        let (mut from, mut is_agreed, mut is_then) = (0, is_behind, false);
        while from < sentence.tokens.len() {
            let agreed = sentence.all(Cue::Agree).filter(|hit| hit.at == from);
            if let Some(end) = agreed.map(|hit| hit.end).max() {
                is_agreed = true;
                from = end;
            } else if sentence.is_mark(from) || is_any(text(from), OPENINGS) {
                is_then |=
                    is_any(text(from), THEN) || is_agreed && is_any(text(from), "so also donc");
                from += 1;
            } else {
                break;
            }
        }
        let is_within = |at: usize| {
            let mut values = sentence.values.iter();
            values.any(|value| value.from <= at && at < value.to)
        };
        let comma = (from..sentence.tokens.len()).find(|at| text(*at) == "," && !is_within(*at));
        let end = comma.unwrap_or(sentence.tokens.len());
        let words = |from: usize, to: usize| -> Vec<&str> {
            let told = (from..to).map(text);
            told.filter(|text| text.chars().any(char::is_alphanumeric))
                .collect()
        };
        let all = words(from, sentence.tokens.len());
        let first = words(from, end);
        let behind = words(end, sentence.tokens.len());
        let is_final = behind.len() == 1 && is_any(behind[0], CLOSERS);
        let closes = |told: &[&str]| {
            let is_last = told.last().is_some_and(|word| is_any(word, THEN));
            told.len() <= 9 && (told.ends_with(&["it", "is"]) || is_last)
                || is_then && told.len() <= 5
        };
        // "I'm still for it, then" is only an opinion.
        let is_view = first
            .first()
            .is_some_and(|word| is_any(word, "i i'm i'd i'll ich yo sigo je j' moi"));
        if first.is_empty() || is_view {
            return false;
        }
        let told = &all;
        let is_closed = is_final && first.len() <= 9 || closes(&first) || closes(&all);
        let is_value = !sentence.values.is_empty() && sentence.topic.is_empty();
        let is_bare = is_agreed && told.len() <= 4 && is_value && self.takes_up_value(at);
        // "So 2 May", repeating other people's value.
        let is_so = told.len() <= 3
            && sentence
                .tokens
                .first()
                .is_some_and(|token| is_any(&token.word.text, "so also donc"))
            && is_value
            && self.takes_up_value(at);
        let is_short_name = is_agreed && told.len() <= 4 && self.is_put_forward(at);
        is_closed && (is_value || self.is_spoken_of(at)) || is_bare || is_so || is_short_name
    }

    /// "Ok 1400": a value of the kind that was recently discussed, and not the requested date of a task.
    fn takes_up_value(&self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let is_asked = self.tasks.iter().rev().take(4).any(|task| {
            let said = task.sources.last().copied().unwrap_or_default();
            sentence.line - said.min(sentence.line) <= 2
        });
        let close = self.values_seen.iter().rev().take(20);
        !is_asked
            && close.into_iter().any(|(said, value)| {
                let other = &self.sentences[*said];
                let is_close = *said < at && sentence.line - other.line <= 3;
                let other = &other.values[*value];
                is_close
                    && sentence
                        .values
                        .iter()
                        .any(|value| !value.is_deadline && other.sort.replaces(&value.sort))
            })
    }

    /// "Ok, the blue one": all of its words occur in someone else's recent proposal.
    fn is_put_forward(&self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let topic = &sentence.topic;
        let is_asked = self.questions.iter().rev().take(8).any(|question| {
            let said = &self.sentences[question.sentence];
            said.line < sentence.line
                && sentence.line - said.line <= REPLY_REACH
                && said.words() <= 5
                && said.topic == *topic
        });
        !topic.is_empty()
            && (is_asked
                || self.matters.iter().rev().take(8).any(|matter| {
                    let said = &self.sentences[matter.sentence];
                    said.line < sentence.line
                        && sentence.line - said.line <= REPLY_REACH
                        && matter.standing != Standing::Dropped
                        && said.person.is_some()
                        && said.person != sentence.person
                        && said.shared(topic) == topic.len()
                }))
    }
}
