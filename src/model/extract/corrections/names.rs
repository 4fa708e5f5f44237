//! Names and options that replace earlier ones.

use super::super::{
    Owner, cues::Cue, sentence::Edit, sentence::Sentence, sentence::is_any, thread::REPLY_REACH,
    thread::Standing, thread::Thread, thread::add, tokens::Kind, tokens::Token,
};
use super::NAMES_REACH;

impl Thread {
    /// Handles "blue instead of red", "not red but blue", and "let's paint it blue instead". Returns whether the old
    /// words were found earlier.
    ///
    /// A replacement proposed by someone else takes effect only when it is accepted.
    pub(super) fn correct_name(&mut self, at: usize) -> bool {
        let Some((old, new)) = self.other_name(at) else {
            return false;
        };
        let sentence = &self.sentences[at];
        let is_proposal = sentence
            .all(Cue::Proposal)
            .any(|hit| hit.at == sentence.clause_start(hit.at));
        let is_others = self
            .places(at, &old)
            .last()
            .is_some_and(|(said, _)| self.sentences[*said].person != sentence.person);
        if is_proposal && is_others && !sentence.has(Cue::Decision) {
            return false;
        }
        self.rename(at, &old, &new)
    }

    /// Old words in lowercase, and new words as written.
    pub(crate) fn other_name(&self, at: usize) -> Option<(Vec<String>, String)> {
        let sentence = &self.sentences[at];
        let is_framed = sentence.has(Cue::Correct) || sentence.has(Cue::InsteadOf);
        self.named_pair(at)
            .or_else(|| self.turned_pair(at))
            .or_else(|| is_framed.then(|| self.framed_pair(at)).flatten())
    }

    /// Sentence and token positions of recent occurrences of these words in people's messages.
    fn places(&self, at: usize, words: &[String]) -> Vec<(usize, usize)> {
        let is_there = |said: usize, from: usize| {
            let tokens = &self.sentences[said].tokens[from..];
            tokens.len() >= words.len()
                && words
                    .iter()
                    .zip(tokens)
                    .all(|(word, token)| token.word.text == *word)
        };
        (at.saturating_sub(NAMES_REACH)..at)
            .filter(|said| self.sentences[*said].person.is_some())
            .flat_map(|said| (0..self.sentences[said].tokens.len()).map(move |from| (said, from)))
            .filter(|(said, from)| is_there(*said, *from))
            .collect()
    }

    /// Replaces the old name with the new one from here on. Returns whether the old name occurred earlier.
    pub(crate) fn rename(&mut self, at: usize, old: &[String], new: &str) -> bool {
        let line = self.sentences[at].line;
        let owners = self.people_named(old, new);
        let mut places = self.places(at, old);
        if owners.is_some() {
            // A person's name can occur in other contexts, so only its last occurrence is replaced.
            places.drain(..places.len().saturating_sub(1));
        }
        for (said, from) in &places {
            let edit = Edit {
                from: *from,
                to: from + old.len(),
                text: new.to_owned(),
                key: format!("o{}", new.to_lowercase()),
                date: None,
                line,
                sentence: at,
                is_bare: false,
            };
            // Reasons for the old option do not apply to the new one.
            let is_kept = self.is_held(*said);
            let sentence = &mut self.sentences[*said];
            sentence.edits.retain(|edit| edit.from != *from);
            sentence.edits.push(edit);
            sentence.is_hidden |= !is_kept;
        }
        if places.is_empty() {
            return false;
        }
        self.sentences[at].is_hidden = true;
        if let Some((old, new)) = owners {
            let mut tasks = self.tasks.iter_mut().rev().take(60);
            if let Some(task) = tasks.find(|task| task.owner.as_ref() == Some(&old)) {
                task.owner = Some(new);
                task.is_confirmed = false;
                add(&mut task.sources, line);
            }
        } else {
            self.bury(&old.join(" "), new, line);
        }
        true
    }

    /// "not red but blue", "from red to blue", "blue replaces red".
    fn turned_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
        let sentence = &self.sentences[at];
        let word = |at: usize| sentence.tokens[at].word.text.as_str();
        let is_move = (0..sentence.tokens.len()).any(|at| {
            is_any(
                word(at),
                "switch move change replace wechseln cambiar cambiamos passer passe ersetzen",
            )
        });
        let (first, second) = if sentence.has(Cue::ButNew) && sentence.has(Cue::Not) {
            let turn = sentence.all(Cue::ButNew).find(|hit| {
                sentence
                    .all(Cue::Not)
                    .any(|not| not.end < hit.at && hit.at - not.end <= 5)
            })?;
            let not = sentence
                .all(Cue::Not)
                .filter(|not| not.end < turn.at)
                .last()?;
            (not.end..turn.at, turn.end)
        } else if is_move {
            let from = (0..sentence.tokens.len())
                .find(|at| is_any(word(*at), "from von replace ersetzen de"))?;
            let to = (from + 2..sentence.tokens.len().min(from + 6))
                .find(|at| is_any(word(*at), "to with by auf zu durch a por à par"))?;
            (from + 1..to, to + 1)
        } else {
            return None;
        };
        let is_name = |at: &usize| {
            let token = &sentence.tokens[*at];
            let is_stop = token.word.known.is_some_and(|entry| entry.is_stop);
            matches!(token.kind, Kind::Word | Kind::Number) && !is_stop
        };
        let old: Vec<usize> = first.filter(is_name).collect();
        let new: Vec<usize> = (second..sentence.tokens.len())
            .skip_while(|at| !is_name(at) && !sentence.is_mark(*at))
            .take_while(is_name)
            .take(old.len().max(1))
            .collect();
        let is_row = |row: &[usize]| row.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if old.is_empty() || old.len() > 3 || new.is_empty() || !is_row(&old) {
            return None;
        }
        let words = old.iter().map(|at| word(*at).to_owned()).collect();
        let text = &sentence.text[sentence.tokens[new[0]].from..sentence.tokens[*new.last()?].to];
        Some((words, text.to_owned()))
    }

    /// Returns both if both are members.
    fn people_named(&self, old: &[String], new: &str) -> Option<(Owner, Owner)> {
        let old = self.people.find(&old.join(" "))?;
        Some((old, self.people.find(&new.to_lowercase())?))
    }

    /// Old words in lowercase, and new words as written.
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

    /// Differing words between this sentence and a matter with the same surrounding words.
    fn framed_pair(&self, at: usize) -> Option<(Vec<String>, String)> {
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
