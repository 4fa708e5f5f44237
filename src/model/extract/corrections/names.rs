//! Names and options that take the place of earlier ones.

use super::super::{
    Owner, cues::Cue, sentence::Edit, sentence::Sentence, sentence::is_any, thread::REPLY_REACH,
    thread::Standing, thread::Thread, thread::add, tokens::Kind, tokens::Token,
};
use super::NAMES_REACH;

impl Thread {
    /// "blue instead of red", "not red but blue", "let's paint it blue instead".
    pub(super) fn correct_name(&mut self, at: usize) -> bool {
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
    pub(super) fn people_named(&self, old: &[String], new: &str) -> Option<(Owner, Owner)> {
        let old = self.people.find(&old.join(" "))?;
        Some((old, self.people.find(&new.to_lowercase())?))
    }

    /// Old words in lower case, new words as written.
    pub(super) fn named_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
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
    pub(super) fn framed_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
        let sentence = &self.sentences[at];
        let is_noise = |token: &Token| {
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
