//! Finds the end of a task's words, and excludes the words that do not belong to it.

use super::super::{Owner, cues::Cue, sentence::Sentence, sentence::is_any, tokens::Kind};
use super::{Draft, Finder, TaskSort};

impl Finder<'_> {
    /// Cuts a draft at the end of its words. Returns whether any words are left.
    pub(super) fn finish(&self, draft: &mut Draft, limit: usize) -> bool {
        let sentence = self.sentence;
        if draft.owner == Some(Owner::Named(String::new())) {
            return false;
        }
        let from = draft.from;
        let mut to = limit.max(from).min(sentence.tokens.len());
        let is_check = |at: usize| {
            at.checked_sub(1).is_some_and(|at| {
                is_any(
                    self.text(at),
                    "check ask see find out test know verify prüfen fragen frage prüfe comprobar \
preguntar vérifier demander her",
                ) || self.people.named(&sentence.tokens[at]).is_some()
            })
        };
        for at in from..to {
            let text = self.text(at);
            let is_mark = sentence.tokens[at].kind == Kind::Mark
                && is_any(text, "? ! ; ( – — - … 。 😀 →")
                || (text == "."
                    && !sentence
                        .values
                        .iter()
                        .any(|value| value.from <= at && at < value.to))
                || (sentence.tokens[at].kind == Kind::Mark
                    && text.chars().all(|c| c as u32 > 0x2600));
            let is_aside =
                at > from && sentence.all(Cue::Aside).any(|hit| hit.at == at) && !is_check(at);
            let is_called = |at: usize| {
                sentence
                    .tokens
                    .get(at)
                    .is_none_or(|token| token.kind == Kind::Mention)
                    || self
                        .people
                        .named_at(sentence, at)
                        .is_some_and(|(_, length)| sentence.is_mark(at + length))
            };
            let is_next_sentence = text == "," && at > from && is_called(at + 1);
            if is_mark || is_aside || is_next_sentence {
                to = at;
                break;
            }
        }
        let in_range = |at: usize| draft.from <= at && at < to.max(draft.from + 1);
        // The nearest date after the verb, or else one before it in the clause.
        let clause = sentence.clause_start(from.saturating_sub(1));
        let dates: Vec<usize> = (0..sentence.values.len())
            .filter(|at| sentence.values[*at].date.is_some())
            .collect();
        let inside = dates
            .iter()
            .copied()
            .filter(|at| in_range(sentence.values[*at].from));
        let due = inside
            .clone()
            .find(|at| sentence.values[*at].is_deadline)
            .or_else(|| inside.clone().next_back())
            .or_else(|| {
                dates
                    .iter()
                    .copied()
                    .find(|at| (clause..from).contains(&sentence.values[*at].from))
            })
            .or_else(|| {
                let is_only = bounds_one(sentence, to);
                dates.iter().copied().find(|at| {
                    sentence.values[*at].from < from
                        && sentence.values[*at].from < clause
                        && is_only
                        && sentence.values[*at].lead == sentence.start()
                })
            });
        draft.due = due;
        if let Some(due) = due {
            let value = &sentence.values[due];
            draft
                .drops
                .extend(value.lead.max(from.min(value.lead))..value.to);
            // "at 10" after the day stays in the task.
        }
        // Trim both ends.
        let dropped = |at: usize, draft: &Draft| draft.drops.contains(&at);
        let trims = |at: usize| {
            self.sentence.tokens[at].kind == Kind::Mark
                && !matches!(self.text(at), "%" | "€" | "$" | ")" | "\"")
                || self.is_filler(at)
                || is_any(self.text(at), "and und y et , so but aber pero mais")
        };
        while to > draft.from
            && (trims(to - 1) || dropped(to - 1, draft))
            && self.is_trimmable(to - 1)
        {
            to -= 1;
        }
        while draft.from < to && (trims(draft.from) || dropped(draft.from, draft)) {
            draft.from += 1;
        }
        draft.to = to;
        // The addressee is not part of the task.
        for at in draft.from..draft.to {
            let before = at.checked_sub(1).map_or("", |at| self.text(at));
            let is_called = sentence.tokens[at].kind == Kind::Mention
                && self.people.named(&sentence.tokens[at]) == Some(draft.owner.clone())
                && draft.sort == TaskSort::Request;
            if is_called
                || (before == ","
                    && at + 1 == draft.to
                    && self.people.named_at(sentence, at).is_some())
            {
                draft.drops.push(at);
            }
        }
        for hit in sentence
            .all(Cue::HandOver)
            .filter(|hit| draft.from <= hit.at && hit.end <= draft.to)
        {
            if is_any(
                self.text(hit.at),
                "instead in for statt an à en from für por off",
            ) {
                draft.drops.extend(hit.at..hit.end);
            }
        }
        if draft.is_anaphoric {
            return true;
        }
        let left: Vec<usize> = (draft.from..draft.to)
            .filter(|at| !draft.drops.contains(at))
            .collect();
        let words: Vec<usize> = left
            .iter()
            .copied()
            .filter(|at| {
                matches!(
                    sentence.tokens[*at].kind,
                    Kind::Word | Kind::Number | Kind::Mention | Kind::Link
                )
            })
            .collect();
        if words.is_empty() || draft.is_whole {
            draft.to = if draft.is_whole { draft.from } else { draft.to };
            return draft.is_whole;
        }
        // "do it", "take that": refers to something mentioned earlier.
        let generic = is_any(self.text(words[0]), "do take handle own cover hacerlo make")
            || matches!(
                draft.lead.as_str(),
                "take" | "hacer" | "faire" | "take over"
            )
            || matches!(draft.tail.as_str(), "machen" | "übernehmen" | "erledigen");
        let rest = &words[usize::from(draft.lead.is_empty() && draft.tail.is_empty())..];
        let is_it = |at: usize| {
            self.hit(at, Cue::It).is_some()
                || matches!(self.text(at), "over" | "care" | "of" | "too")
        };
        if generic && rest.iter().all(|at| is_it(*at)) {
            draft.is_anaphoric = true;
        }
        true
    }

    pub(super) fn is_trimmable(&self, at: usize) -> bool {
        !matches!(self.text(at), "it" | "that" | "this")
            || self
                .sentence
                .tokens
                .get(at)
                .is_some_and(|token| token.kind == Kind::Mark)
            || self.text(at) == "that" && self.text(at.saturating_sub(1)) == ","
    }
}

fn bounds_one(sentence: &Sentence, _to: usize) -> bool {
    sentence.all(Cue::Promise).count() + sentence.all(Cue::Request).count() <= 1
}
