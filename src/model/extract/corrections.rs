//! Values that take the place of earlier ones.

use super::{
    Owner, Superseded,
    cues::Cue,
    sentence::{Edit, Sentence, is_any},
    thread::{Matter, REPLY_REACH, Standing, Thread, add},
    tokens::Kind,
    values::{Sort, Value},
};

/// How many of the newest values a correction can be about.
const VALUES_REACH: usize = 300;
/// How many of the newest sentences are searched for a corrected name.
const NAMES_REACH: usize = 40;

impl Thread {
    /// Finds what a sentence corrects, and corrects it; whether it did.
    pub(crate) fn correct(&mut self, at: usize) -> bool {
        let within = self.correct_within(at);
        let sentence = &self.sentences[at];
        let is_counter = sentence.has(Cue::Favour) || sentence.is_question;
        if is_counter {
            return false;
        }
        let denied: Vec<usize> = self.denied(at);
        let said: Vec<usize> = (0..sentence.values.len())
            .filter(|value| {
                !denied.contains(value)
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
            // "It's 9 April" right behind another date.
            let is_contradiction = sentence.has(Cue::Restate)
                && sentence.topic.is_empty()
                && said
                    .first()
                    .is_some_and(|value| self.contradicts(at, *value));
            let is_strong = is_contradiction
                || sentence.has(Cue::Correct)
                || said.first().is_some_and(|value| is_sudden(*value));
            let is_weak = sentence.has(Cue::Restate);
            if is_strong || is_weak {
                for new in said.into_iter().take(4) {
                    if let Some((sentence, value)) = self.corrected_by(at, new, is_strong) {
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

    /// Newest first, of people's sentences before this one.
    fn seen(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        self.values_seen
            .iter()
            .rev()
            .take(VALUES_REACH)
            .copied()
            .filter(move |(sentence, _)| *sentence < at)
    }

    /// As it stands now.
    fn key(&self, sentence: usize, value: usize) -> &str {
        self.sentences[sentence].key(value)
    }

    /// "Friday, sorry, Monday": both in one sentence.
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
            if a.sort.replaces(&b.sort) && a.key != b.key && is_between {
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

    /// Values that the sentence says do not hold: "not Friday", "instead of Friday", "from Friday to Monday".
    fn denied(&self, at: usize) -> Vec<usize> {
        let sentence = &self.sentences[at];
        if sentence.values.len() < 2 {
            return Vec::new();
        }
        let before = |value: &Value, cue: Cue| {
            sentence.all(cue).any(|hit| {
                let is_near =
                    hit.end <= value.from && value.from - hit.end <= 2 && hit.end + 2 >= value.lead;
                let gap_is_plain = (hit.end..value.from).all(|at| {
                    sentence.tokens[at]
                        .word
                        .known
                        .is_some_and(|entry| entry.is_stop)
                });
                let first = sentence.tokens[hit.at].word.text.as_str();
                let is_from = is_any(first, "from von vom de del du");
                let is_moved = !is_from
                    || sentence.values.iter().any(|other| {
                        other.from > value.from
                            && (value.to..other.from).any(|at| {
                                is_any(sentence.tokens[at].word.text.as_str(), "to auf a al à au zu")
                            })
                    }) && (sentence.has(Cue::Correct)
                        || sentence.tokens.iter().any(|token| {
                            is_any(token.word.text.as_str(), "moved move moving change changed shift verschoben verschieben ändern geändert \
pasamos movemos cambiamos cambiar pasa décale décalé passe reporte raise raised \
lower switch")
                        }));
                (is_near && gap_is_plain || hit.end == value.from) && is_moved
            })
        };
        (0..sentence.values.len())
            .filter(|value| {
                before(&sentence.values[*value], Cue::Not)
                    || before(&sentence.values[*value], Cue::InsteadOf)
            })
            .collect()
    }

    /// The earlier value that a new one is about.
    fn corrected_by(&self, at: usize, new: usize, is_strong: bool) -> Option<(usize, usize)> {
        let sentence = &self.sentences[at];
        let value = &sentence.values[new];
        // What is taken on now has a day of its own.
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
                // What was put forward or promised before what was merely told.
                if nearest.is_none() {
                    nearest = Some(found);
                }
                if held.is_none() && self.is_held(found.0) {
                    held = Some(found);
                }
            }
        }
        // The same unit before none.
        match best {
            Some((_, found)) => Some(found),
            None if is_strong => held.or(nearest).filter(|(said, _)| {
                // Another subject of its own is another matter.
                sentence.topic.len() <= 3 || self.sentences[*said].topic.is_empty()
            }),
            None => None,
        }
    }

    /// Whether somebody else stated another value right before.
    fn contradicts(&self, at: usize, value: usize) -> bool {
        let sentence = &self.sentences[at];
        let value = &sentence.values[value];
        let last = self.seen(at).next();
        last.is_some_and(|(said, other)| {
            let said = &self.sentences[said];
            let is_near = sentence.line == said.line + 1 && said.person != sentence.person;
            is_near && !said.is_question && said.values[other].sort.replaces(&value.sort)
        })
    }

    /// "On the 19th we are away. Let's make it the 24th": what stands with the value that was just named.
    fn spoken_of(&self, at: usize, value: &Value) -> Option<(usize, usize)> {
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

    /// Whether a sentence puts something forward or promises it.
    fn is_held(&self, at: usize) -> bool {
        let is_matter = self
            .matters
            .iter()
            .rev()
            .take(60)
            .any(|matter| matter.sentence == at && matter.standing != Standing::Dropped);
        is_matter
            || self
                .tasks
                .iter()
                .rev()
                .take(60)
                .any(|task| task.sentence == at)
    }

    /// A correction of what stands; of what somebody else only proposes, another proposal.
    fn change(&mut self, old: usize, old_at: usize, new: usize, new_at: usize) -> bool {
        let me = self.sentences[new].person;
        let line = self.sentences[new].line;
        let pending = self.matters.iter().rev().take(60).find(|matter| {
            matter.sentence == old
                && matter.standing == Standing::Open
                && matter.by != me
                && matter.reworded.is_none()
        });
        let is_task = self
            .tasks
            .iter()
            .rev()
            .take(60)
            .any(|task| task.sentence == old);
        let Some(pending) = pending.filter(|_| !is_task) else {
            self.replace(old, old_at, new, new_at);
            return true;
        };
        let sentence = &self.sentences[old];
        let value = &sentence.values[old_at];
        let surface_new = surface_of(&self.sentences[new], new_at);
        let before = sentence.rendered(pending.from, value.from.max(pending.from), |_| false);
        let after = sentence.rendered(value.to, pending.to, |_| false);
        let reworded = format!("{before} {surface_new} {after}")
            .replace(" ?", "?")
            .replace(" .", ".");
        let mut sources = vec![sentence.line];
        add(&mut sources, line);
        let matter = Matter {
            sentence: old,
            from: pending.from,
            to: pending.to,
            standing: Standing::Open,
            by: me,
            contested_by: None,
            sources,
            reworded: Some(reworded.trim().to_owned()),
            answers: pending.answers,
            is_alternative: false,
            is_preference: false,
            changes: Some((old, old_at, new, new_at)),
        };
        self.matters.push(matter);
        if let Some(me) = me {
            let start = self.sentences[new].start();
            self.stances.insert(me, (new, start));
        }
        for question in self.questions.iter_mut().rev().take(60) {
            if question.sentence == old {
                question.is_open = false;
            }
        }
        true
    }

    /// From now on the old value reads as the new one, wherever it is about the same.
    pub(crate) fn replace(&mut self, old: usize, old_at: usize, new: usize, new_at: usize) {
        let value = self.sentences[new].values[new_at].clone();
        let text = surface(&self.sentences[new], &value);
        let key = self.key(old, old_at).to_owned();
        let sort = self.sentences[old].values[old_at].sort.clone();
        let shown = self.shown(old, old_at);
        let line = self.sentences[new].line;
        let own: Vec<u32> = self.sentences[new].topic.clone();
        let about: Vec<u32> = self.sentences[old].topic.clone();
        let is_about_other = |said: &Sentence| {
            // With words of its own, a correction is about what shares them.
            !own.is_empty()
                && said.shared(&own) == 0
                && said.shared(&about) == 0
                && said.topic.len() > 1
        };
        let same: Vec<(usize, usize)> = self
            .seen(new)
            .filter(|(said, value)| {
                let sentence = &self.sentences[*said];
                let is_same =
                    self.key(*said, *value) == key && sentence.values[*value].sort.replaces(&sort);
                let is_later = *said > old && !is_about_other(sentence);
                let is_related = sentence.shared(&about) > 0;
                let from = sentence.values[*value].from;
                let is_same_chain = sentence
                    .edits
                    .iter()
                    .any(|edit| edit.from == from && edit.sentence == old);
                *said == old && *value == old_at
                    || is_same && (is_later || is_related || is_same_chain)
            })
            .collect();
        for (said, at) in same {
            if said != old && !self.is_held(said) {
                // What was said of the old value need not hold of the new one.
                self.sentences[said].is_hidden = true;
                continue;
            }
            let old_value = self.sentences[said].values[at].clone();
            let edit = Edit {
                from: old_value.from,
                to: old_value.to,
                text: text.clone(),
                key: value.key.clone(),
                date: value.date,
                line,
                sentence: new,
                is_bare: value.is_bare,
            };
            let sentence = &mut self.sentences[said];
            sentence.edits.retain(|edit| edit.from != old_value.from);
            sentence.edits.push(edit);
        }
        self.bury(&shown, &text, line);
    }

    fn shown(&self, sentence: usize, value: usize) -> String {
        let sentence = &self.sentences[sentence];
        let value = &sentence.values[value];
        let edit = sentence.edits.iter().find(|edit| edit.from == value.from);
        edit.map_or_else(|| surface(sentence, value), |edit| edit.text.clone())
    }

    fn bury(&mut self, old: &str, new: &str, line: usize) {
        let words = |text: &str| -> Vec<String> {
            text.to_lowercase()
                .split_whitespace()
                .map(|word| word.trim_end_matches(['.', ',']).to_owned())
                .collect()
        };
        let (gone, now) = (words(old), words(new));
        if gone == now {
            return;
        }
        self.dead.remove(&now);
        self.dead.insert(gone);
        self.superseded.push(Superseded {
            old: old.to_owned(),
            new: new.to_owned(),
            line,
        });
    }

    /// "blue instead of red", "not red but blue", "let's paint it blue instead".
    fn correct_name(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let pair = self.named_pair(at).or_else(|| {
            (sentence.has(Cue::Correct) || sentence.has(Cue::InsteadOf))
                .then(|| self.framed_pair(at))
                .flatten()
        });
        let Some((old, new)) = pair else {
            return false;
        };
        let line = self.sentences[at].line;
        let mut is_found = false;
        let first = at.saturating_sub(NAMES_REACH);
        for said in first..at {
            if self.sentences[said].person.is_none() {
                continue;
            }
            let sentence = &self.sentences[said];
            let places: Vec<usize> = (0..sentence.tokens.len())
                .filter(|from| {
                    old.iter().enumerate().all(|(n, word)| {
                        sentence
                            .tokens
                            .get(from + n)
                            .is_some_and(|token| token.word.text == *word)
                    })
                })
                .collect();
            for from in places {
                is_found = true;
                let edit = Edit {
                    from,
                    to: from + old.len(),
                    text: new.clone(),
                    key: format!("o{}", new.to_lowercase()),
                    date: None,
                    line,
                    sentence: at,
                    is_bare: false,
                };
                let sentence = &mut self.sentences[said];
                sentence.edits.retain(|edit| edit.from != from);
                sentence.edits.push(edit);
                // What speaks for the old one does not speak for the new one.
                let is_kept =
                    self.matters.iter().rev().take(60).any(|matter| {
                        matter.sentence == said && matter.standing != Standing::Dropped
                    }) || self
                        .tasks
                        .iter()
                        .rev()
                        .take(60)
                        .any(|task| task.sentence == said);
                self.sentences[said].is_hidden |= !is_kept;
            }
        }
        if is_found && let Some(owners) = self.people_named(&old, &new) {
            let task = self.tasks.iter_mut().rev().take(60);
            let mut owned = task.filter(|task| task.owner.as_ref() == Some(&owners.0));
            if let Some(task) = owned.next() {
                task.owner = Some(owners.1);
                task.is_confirmed = false;
                add(&mut task.sources, line);
            }
            self.sentences[at].is_hidden = true;
            return true;
        }
        if is_found {
            self.bury(&old.join(" "), &new, line);
            self.sentences[at].is_hidden = true;
        }
        is_found
    }

    /// Both, if both are members.
    fn people_named(&self, old: &[String], new: &str) -> Option<(Owner, Owner)> {
        let old = self.people.find(&old.join(" "))?;
        Some((old, self.people.find(&new.to_lowercase())?))
    }

    /// Old words in lower case, new words as written.
    fn named_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
        let sentence = &self.sentences[at];
        let hit = sentence
            .all(Cue::InsteadOf)
            .filter(|hit| {
                !sentence.tokens[hit.end - 1].is("not")
                    || hit.end - hit.at > 1
                    || sentence
                        .tokens
                        .get(hit.at.wrapping_sub(1))
                        .is_some_and(|token| token.is(","))
            })
            .max_by_key(|hit| hit.end)?;
        let is_word = |at: usize| {
            sentence.tokens.get(at).is_some_and(|token| {
                matches!(token.kind, Kind::Word | Kind::Number)
                    && !token.word.known.is_some_and(|entry| entry.is_stop)
            })
        };
        let is_article = |at: usize| {
            sentence.tokens.get(at).is_some_and(|token| {
                is_any(
                    token.word.text.as_str(),
                    "the a to for with für mit para con à pour an der die das den el la le les los \
las dem l'",
                )
            })
        };
        let mut from = hit.end;
        while is_article(from) {
            from += 1;
        }
        let length = (from..).take_while(|at| is_word(*at)).take(3).count();
        let mut end = hit.at;
        while end > 0 && sentence.is_mark(end - 1) {
            end -= 1;
        }
        let most = length.max(1);
        let back = (0..end)
            .rev()
            .take_while(|at| is_word(*at))
            .take(most)
            .count();
        if length == 0 || back == 0 {
            return None;
        }
        let old = sentence.tokens[from..from + length]
            .iter()
            .map(|token| token.word.text.clone())
            .collect();
        let new =
            sentence.text[sentence.tokens[end - back].from..sentence.tokens[end - 1].to].to_owned();
        Some((old, new))
    }

    /// What differs between this sentence and a matter that has the same words around it.
    fn framed_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
        let sentence = &self.sentences[at];
        let is_noise = |token: &super::tokens::Token| {
            token.kind == Kind::Mark
                || is_any(
                    token.word.text.as_str(),
                    "actually also then so instead let's lets sorry no then rather the a we should agreed to ok \
doch lieber lasst uns wir stattdessen eigentlich mejor vamos en realidad el la \
plutôt finalement on le der die das wait shall sollten sollen yes please \
decided i meant",
                )
        };
        let content = |sentence: &Sentence| -> Vec<usize> {
            (0..sentence.tokens.len())
                .filter(|at| !is_noise(&sentence.tokens[*at]))
                .collect()
        };
        let mine = content(sentence);
        if mine.is_empty() || mine.len() > 12 {
            return None;
        }
        self.matters.iter().rev().take(20).find_map(|matter| {
            let other = &self.sentences[matter.sentence];
            if matter.standing == Standing::Dropped
                || matter.sentence >= at
                || sentence.line - other.line > 4 * REPLY_REACH
            {
                return None;
            }
            let theirs = content(other);
            let same =
                |a: usize, b: usize| sentence.tokens[a].word.text == other.tokens[b].word.text;
            let head = mine
                .iter()
                .zip(&theirs)
                .take_while(|(a, b)| same(**a, **b))
                .count();
            let rest = mine.len().min(theirs.len()) - head;
            let foot = mine
                .iter()
                .rev()
                .zip(theirs.iter().rev())
                .take(rest)
                .take_while(|(a, b)| same(**a, **b))
                .count();
            let new = &mine[head..mine.len() - foot];
            let old = &theirs[head..theirs.len() - foot];
            let is_near = |places: &[usize]| {
                places
                    .last()
                    .zip(places.first())
                    .is_some_and(|(b, a)| b - a < 3)
            };
            if head + foot == 0
                || new.is_empty()
                || old.is_empty()
                || new.len() > 3
                || old.len() > 3
                || !is_near(new)
                || !is_near(old)
            {
                return None;
            }
            let first = *old.first()?;
            let last = *old.last()?;
            let words = other.tokens[first..=last]
                .iter()
                .map(|token| token.word.text.clone())
                .collect();
            let text = sentence.text
                [sentence.tokens[*new.first()?].from..sentence.tokens[*new.last()?].to]
                .to_owned();
            Some((words, text))
        })
    }
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
