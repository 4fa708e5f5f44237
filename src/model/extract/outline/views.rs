//! Fallback content if nothing was settled: people's preferences and the most discussed topics.

use std::collections::{HashMap, HashSet};

use super::super::{
    Outline, Point, cues::Cue, cues::Language, sentence::Sentence, thread::Standing,
};
use super::{
    Maker, POINT_WORDS, POINTS_MAX, text::headline, text::shortened, text::statement_or_question,
};

impl Maker<'_> {
    pub(super) fn undecided(&self, outline: &mut Outline) {
        let views = self.views();
        let phrases = self.phrases;
        let who: Vec<String> = views
            .iter()
            .filter_map(|(person, sentence, from)| {
                let name = self.thread.people.name(*person);
                self.favoured(*sentence, *from)
                    .map(|what| format!("{name} {} {what}", phrases.favours))
            })
            .collect();
        let start = self.thread.sentences.iter().find(|sentence| {
            let is_title = sentence.line == 0 && !sentence.topic.is_empty();
            sentence.person.is_some()
                && !sentence.is_hidden
                && (sentence.words() > 1 || is_title && sentence.words() == 1)
        });
        let subject = start
            .map(|sentence| statement_or_question(&sentence.current()))
            .filter(|text| !self.is_dead(text));
        outline.conclusion = if who.len() > 1 {
            format!("{}: {}.", phrases.no_conclusion, who.join(", "))
        } else if !outline.action_items.is_empty() {
            let tasks: Vec<String> = outline
                .action_items
                .iter()
                .take(3)
                .map(|item| match self.owner_name(item) {
                    Some(name) => {
                        format!("{name}: {}", shortened(&item.text, 9).trim_end_matches('.'))
                    }
                    None => shortened(&item.text, 9).trim_end_matches('.').to_owned(),
                })
                .collect();
            format!("{}: {}.", phrases.tasks_only, tasks.join("; "))
        } else {
            phrases.nothing_settled.to_owned()
        };
        outline.headline = match (outline.action_items.first(), &subject) {
            (Some(_), Some(subject)) if who.len() < 2 && self.is_subject(subject) => headline(
                &format!("{}: {}", short_subject(subject), self.phrases.next_steps),
            ),
            (Some(item), _) if who.len() < 2 => {
                let text = item.text.trim_end_matches('.');
                headline(
                    &self
                        .owner_name(item)
                        .map_or(text.to_owned(), |name| format!("{name}: {text}")),
                )
            }
            (_, Some(subject)) => headline(&format!(
                "{}: {}",
                phrases.discussion,
                shortened(subject, 12)
            )),
            _ => phrases.discussion.to_owned(),
        };
        outline.key_points = views
            .iter()
            .filter_map(|(person, sentence, _)| self.quote(*person, *sentence))
            .take(POINTS_MAX)
            .collect();
        if outline.key_points.len() < 2 {
            let used: Vec<usize> = views.iter().map(|(_, sentence, _)| *sentence).collect();
            let said = self.main_points(2 - outline.key_points.len(), &used, &outline.key_points);
            outline.key_points.extend(said);
        }
    }

    /// Whether a text names the subject of a conversation in a few words.
    pub(super) fn is_subject(&self, text: &str) -> bool {
        short_subject(text).split_whitespace().count() <= 8
            && !text.ends_with('?')
            && !self.is_dead(text)
    }

    /// The last view of each person, in chronological order.
    pub(super) fn views(&self) -> Vec<(usize, usize, usize)> {
        let mut views: Vec<(usize, usize, usize)> = self
            .thread
            .stances
            .iter()
            .filter(|(_, (sentence, _))| {
                let said = &self.thread.sentences[*sentence];
                !said.is_hidden && !is_machine_talk(&said.text) && !self.is_dead(&said.current())
            })
            .map(|(person, (sentence, from))| (*person, *sentence, *from))
            .collect();
        views.sort_by_key(|(_, sentence, _)| *sentence);
        views.drain(..views.len().saturating_sub(POINTS_MAX));
        views
    }

    /// "Postgres" from "I'd prefer Postgres because it scales".
    pub(super) fn favoured(&self, at: usize, from: usize) -> Option<String> {
        let sentence = &self.thread.sentences[at];
        let is_plain = sentence
            .hits
            .iter()
            .any(|hit| matches!(hit.cue, Cue::Favour | Cue::Proposal) && hit.end == from);
        let (open, close) = self.phrases.quotes;
        if !is_plain || sentence.is_question {
            let whole = shortened(&statement_or_question(&sentence.current()), 14);
            return Some(format!("{open}{}{close}", whole.trim_end_matches('.')));
        }
        let end = (from + 1..sentence.tokens.len())
            .find(|at| sentence.is_mark(*at) || sentence.all(Cue::Aside).any(|hit| hit.at == *at))
            .unwrap_or(sentence.tokens.len());
        let text = sentence.rendered(from, end, |_| false);
        if text.is_empty() {
            return None;
        }
        let is_name = end - from <= 3;
        Some(if is_name {
            text
        } else {
            format!("{open}{}{close}", shortened(&text, 12))
        })
    }

    pub(super) fn quote(&self, person: usize, at: usize) -> Option<Point> {
        let sentence = &self.thread.sentences[at];
        let (open, close) = self.phrases.quotes;
        // A corrected statement cannot be quoted, neither in its original form nor in its current form.
        if !sentence.edits.is_empty() || is_machine_talk(&sentence.text) {
            return None;
        }
        let text = shortened(&sentence.current(), POINT_WORDS);
        (!text.is_empty()).then(|| Point {
            text: format!("{}: {open}{text}{close}", self.thread.people.name(person)),
            sources: vec![sentence.line],
        })
    }

    /// Statements of people with the most frequent words.
    pub(super) fn main_points(&self, most: usize, used: &[usize], shown: &[Point]) -> Vec<Point> {
        let mut counts: HashMap<u32, f64> = HashMap::new();
        for sentence in self
            .thread
            .sentences
            .iter()
            .filter(|sentence| sentence.person.is_some())
        {
            for stem in &sentence.topic {
                *counts.entry(*stem).or_default() += 1.0;
            }
        }
        let tasks: Vec<usize> = self.thread.tasks.iter().map(|task| task.sentence).collect();
        let last_decision = self
            .thread
            .matters
            .iter()
            .filter(|matter| matter.standing == Standing::Accepted)
            .map(|matter| matter.sentence)
            .max();
        let decided: Vec<&Sentence> = self
            .thread
            .matters
            .iter()
            .rev()
            .filter(|matter| matter.standing == Standing::Accepted)
            .take(12)
            .map(|matter| &self.thread.sentences[matter.sentence])
            .collect();
        // A different value of the same kind was decided later, so this one does not hold.
        let is_outdated = |sentence: &Sentence| {
            sentence.values.iter().any(|value| {
                let later = || decided.iter().filter(|later| later.line > sentence.line);
                let has =
                    |said: &Sentence| (0..said.values.len()).any(|at| said.key(at) == value.key);
                later().any(|said| said.values.iter().any(|new| value.sort.replaces(&new.sort)))
                    && !later().any(|said| has(said))
            })
        };
        let gone: Vec<usize> = self
            .thread
            .matters
            .iter()
            .filter(|matter| {
                matter.standing == Standing::Dropped
                    || last_decision.is_some_and(|last| {
                        matter.standing != Standing::Accepted && matter.sentence < last
                    })
            })
            .map(|matter| matter.sentence)
            .chain(
                self.thread
                    .deferrals
                    .iter()
                    .map(|deferral| deferral.sentence),
            )
            .chain(tasks)
            .collect();
        let gone: HashSet<usize> = gone.into_iter().chain(used.iter().copied()).collect();
        let fits = |at: usize, sentence: &Sentence| {
            sentence.person.is_some()
                && sentence.language != Language::Other
                && !sentence.is_question
                && !sentence.is_hidden
                && sentence.topic.len() > 1
                && sentence.words() > 3
                && !sentence.has(Cue::Correct)
                && !is_outdated(sentence)
                && !(sentence.line == 0 && sentence.words() <= 8 && self.is_subject(&sentence.text))
                && !(sentence.begins(Cue::Agree) && sentence.words() < 8)
                && !sentence.has(Cue::Retract)
                && !gone.contains(&at)
        };
        let mut scored: Vec<(f64, usize)> = self
            .thread
            .sentences
            .iter()
            .enumerate()
            .filter(|(at, sentence)| fits(*at, sentence))
            .map(|(at, sentence)| {
                let repeated: f64 = sentence.topic.iter().map(|stem| counts[stem] - 1.0).sum();
                let length = f64::from(u32::try_from(sentence.topic.len()).unwrap_or(u32::MAX));
                (repeated / length.sqrt() + length.min(12.0) / 12.0, at)
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        let mut found: Vec<(usize, Point)> = scored
            .into_iter()
            .filter_map(|(_, at)| Some((at, self.quote(self.thread.sentences[at].person?, at)?)))
            .filter(|(_, point)| {
                !self.is_dead(&point.text) && !shown.iter().any(|other| other.text == point.text)
            })
            .take(most)
            .collect();
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, point)| point).collect()
    }

    pub(super) fn unread(&self) -> Outline {
        let said: Vec<(usize, &Sentence)> = self
            .thread
            .sentences
            .iter()
            .enumerate()
            .filter(|(_, sentence)| sentence.person.is_some())
            .collect();
        let Some((_, last)) = said.last() else {
            return Outline {
                headline: self.phrases.empty.to_owned(),
                conclusion: self.phrases.empty.to_owned(),
                ..Outline::default()
            };
        };
        let (open, close) = self.phrases.quotes;
        let quoted = shortened(&last.text, 25);
        let mut longest: Vec<(usize, usize)> = said
            .iter()
            .filter(|(_, sentence)| !sentence.is_question)
            .map(|(at, sentence)| (sentence.text.chars().count(), *at))
            .collect();
        longest.sort_by(|a, b| b.cmp(a));
        let mut chosen: Vec<usize> = longest.into_iter().take(3).map(|(_, at)| at).collect();
        chosen.sort_unstable();
        Outline {
            headline: self.phrases.discussion.to_owned(),
            conclusion: format!(
                "{} {}: {open}{quoted}{close}",
                self.phrases.unreadable, self.phrases.ends_with
            ),
            key_points: chosen
                .into_iter()
                .filter_map(|at| self.quote(self.thread.sentences[at].person?, at))
                .collect(),
            ..Outline::default()
        }
    }
}

/// Text addressed to a machine, including quoted text.
const ORDERS: &[&str] = &[
    "ignore all",
    "ignore previous",
    "ignore your",
    "ignore any",
    "ignore the previous",
    "ignore every",
    "disregard all",
    "disregard previous",
    "system prompt",
    "dear ai",
    "to the ai",
    "ignoriere alle",
    "ignoriere deine",
    "ignoriert alle",
    "vergiss alle",
    "an die ki",
    "ignora todas",
    "ignora las",
    "ignora tus",
    "olvida todas",
    "a la ia",
    "ignore toutes",
    "ignore les",
    "ignore tes",
    "ignorez toutes",
    "ignorez les",
    "oublie toutes",
    "à l'ia",
];

/// Code, data, and instructions to machines are not addressed to people.
fn is_machine_talk(text: &str) -> bool {
    let marks = text
        .chars()
        .filter(|c| {
            matches!(
                c,
                '{' | '}' | '[' | ']' | '`' | '<' | '>' | '|' | '=' | '\\'
            )
        })
        .count();
    let lower = text.to_lowercase();
    let is_order = ORDERS.iter().any(|order| lower.contains(order));
    marks > 2 || text.contains("```") || text.contains("{\"") || is_order
}

/// "Summer fest" from "Summer fest, who does what".
pub(super) fn short_subject(text: &str) -> &str {
    let end = text.find([',', ':', ';', '–', '(']).unwrap_or(text.len());
    text[..end].trim_end_matches(['.', ' ', '!'])
}
