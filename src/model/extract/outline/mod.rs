//! Draft of a resolution: the results of a thread, within the limits of a resolution.

mod items;
mod limits;
mod text;
mod views;

use std::collections::HashMap;

pub(crate) use self::text::shortened_to;

use self::{
    limits::bundle, limits::fit, text::headline, text::is_short, text::shortened, text::statement,
    text::statement_or_question, views::short_subject,
};
use super::{
    Item, Outline, Owner, Point, cues::Cue, cues::Language, phrases::Phrases, phrases::phrases,
    sentence::Sentence, sentence::is_any, sentence::shared, thread::Matter, thread::Question,
    thread::Standing, thread::Thread, thread::add, thread::asks_for_value, tokens::Kind,
};

/// UTF-16 code units.
const HEADLINE_MAX: usize = 120;
const CONCLUSION_MAX: usize = 600;
const POINT_MAX: usize = 500;
/// Maximum number of words in the whole outline.
const WORDS_MAX: usize = 195;
const POINTS_MAX: usize = 4;
const ITEMS_MAX: usize = 12;
const QUESTIONS_MAX: usize = 5;
const DEFERRED_MAX: usize = 4;
const SOURCES_MAX: usize = 20;
const ITEM_WORDS: usize = 16;
const POINT_WORDS: usize = 28;

pub(crate) fn outline(thread: &Thread, language: Language) -> Outline {
    let mut dead: HashMap<&str, Vec<&[String]>> = HashMap::new();
    for words in &thread.dead {
        if let Some(first) = words.first() {
            dead.entry(first).or_default().push(words);
        }
    }
    let maker = Maker {
        thread,
        phrases: phrases(language),
        dead,
    };
    let mut outline = if language == Language::Other {
        maker.unread()
    } else {
        maker.outline()
    };
    fit(&mut outline);
    outline
}

/// Questions that were neither answered nor settled.
pub(crate) fn open_questions(thread: &Thread) -> Vec<usize> {
    let accepted = thread
        .matters
        .iter()
        .rev()
        .filter(|matter| matter.standing == Standing::Accepted);
    let decisions: Vec<&Sentence> = accepted
        .take(60)
        .map(|matter| &thread.sentences[matter.sentence])
        .collect();
    let is_open = |question: &&Question| {
        let sentence = &thread.sentences[question.sentence];
        let is_settled = question.matter.is_some_and(|matter| {
            thread
                .matters
                .get(matter)
                .is_none_or(|matter| matter.standing != Standing::Open)
        }) || question.task.is_some_and(|task| thread.tasks[task].is_live);
        let is_decided = decisions.iter().any(|decision| {
            let common = decision.shared(&sentence.topic);
            let is_same = common > 0 && common * 2 > sentence.topic.len();
            // The opening message sets the subject of the decisions, regardless of who phrases them.
            let is_what_it_is_about = sentence.line == 0 && asks_for_value(sentence, decision);
            decision.line >= sentence.line && (is_same || is_what_it_is_about)
        });
        question.is_open && !is_settled && !is_decided && !sentence.is_hidden
    };
    thread
        .questions
        .iter()
        .filter(is_open)
        .map(|question| question.sentence)
        .collect()
}

struct Maker<'a> {
    thread: &'a Thread,
    phrases: &'static Phrases,
    /// Superseded values, by first word.
    dead: HashMap<&'a str, Vec<&'a [String]>>,
}

impl Maker<'_> {
    fn outline(&self) -> Outline {
        let decisions = self.decisions();
        let action_items = self.items();
        let open_questions = self.questions();
        let deferred_items = self.deferred();
        let mut outline = Outline {
            action_items,
            open_questions,
            deferred_items,
            ..Outline::default()
        };
        if decisions.is_empty() {
            self.undecided(&mut outline);
        } else {
            self.decided(&mut outline, decisions);
        }
        outline
    }

    fn decisions(&self) -> Vec<(usize, Point)> {
        let accepted = self
            .thread
            .matters
            .iter()
            .filter(|matter| matter.standing == Standing::Accepted);
        let mut found: Vec<(usize, Point)> = Vec::new();
        for matter in accepted {
            let text = self.matter_text(matter);
            if text.is_empty()
                || self.is_dead(&text)
                    && matter.reworded.is_none()
                    && self.thread.sentences[matter.sentence].edits.is_empty()
                    && self.thread.sentences[matter.sentence].is_hidden
            {
                continue;
            }
            let mut sources = matter.sources.clone();
            self.add_edits(&mut sources, matter.sentence, matter.from, matter.to);
            if let Some(question) = matter.answers.filter(|_| is_short(&text)) {
                add(&mut sources, self.thread.sentences[question].line);
            }
            sources.sort_unstable();
            found.retain(|(_, point)| point.text != text);
            found.push((matter.sentence, Point { text, sources }));
        }
        // Only the last ones if there are very many.
        found.drain(..found.len().saturating_sub(12));
        found
    }

    fn matter_text(&self, matter: &Matter) -> String {
        let sentence = &self.thread.sentences[matter.sentence];
        let text = match &matter.reworded {
            Some(text) => text.clone(),
            None => sentence.rendered(matter.from, matter.to, |_| false),
        };
        let text = statement(&text);
        // A choice would mention the rejected option again.
        let asked = matter.answers.filter(|question| {
            let asked = &self.thread.sentences[*question];
            is_short(&text)
                && !asked.tokens.iter().any(|token| {
                    token.kind == Kind::Mention || is_any(token.word.text.as_str(), "or oder o ou")
                })
        });
        match asked {
            Some(question) => {
                let asked = shortened(&self.thread.sentences[question].current(), 14);
                format!("{asked} {text}")
            }
            None => text,
        }
    }

    fn decided(&self, outline: &mut Outline, decisions: Vec<(usize, Point)>) {
        let start = self
            .thread
            .sentences
            .first()
            .map(|sentence| sentence.topic.clone())
            .unwrap_or_default();
        // Statements about the fork's origin message come first, then the latest ones.
        let main = decisions
            .iter()
            .enumerate()
            .max_by_key(|(index, (sentence, _))| {
                (
                    shared(&self.thread.sentences[*sentence].topic, &start).min(2),
                    *index,
                )
            })
            .map_or(0, |(index, _)| index);
        let texts: Vec<&str> = decisions
            .iter()
            .map(|(_, point)| point.text.as_str())
            .collect();
        outline.headline = headline(&self.completed(texts[main]));
        let others: Vec<usize> = (0..decisions.len())
            .filter(|index| *index != main)
            .collect();
        outline.conclusion = self.completed(texts[main]);
        if let Some(second) = others.last() {
            outline.conclusion = format!(
                "{} {}",
                shortened(texts[main], 26),
                shortened(texts[*second], 24)
            );
        }
        let sources: Vec<usize> = decisions.iter().map(|(sentence, _)| *sentence).collect();
        outline.key_points = bundle(decisions.into_iter().map(|(_, point)| point).collect());
        if outline.key_points.len() < 2 {
            let room = 3 - outline.key_points.len();
            let said = self.main_points(room, &sources, &outline.key_points);
            outline.key_points.extend(said);
        }
    }

    /// "Summer fest: 1400" for "1400": prefixed with a few words for the subject of the conversation.
    fn completed(&self, text: &str) -> String {
        let start = self.thread.sentences.first();
        let subject = start.filter(|start| {
            let is_choice = start
                .tokens
                .iter()
                .any(|token| is_any(token.word.text.as_str(), "or oder o ou"));
            let is_new = !start.topic.is_empty()
                && start.values.is_empty()
                && !is_choice
                && !start.has(Cue::Proposal)
                && !start.is_hidden;
            let is_told = self
                .thread
                .matters
                .iter()
                .any(|matter| matter.sentence == 0);
            is_new && !is_told && start.line == 0 && start.person.is_some()
        });
        let subject = subject
            .map(|start| statement_or_question(&start.text))
            .filter(|_| text.split_whitespace().count() <= 3)
            .filter(|subject| {
                self.is_subject(subject)
                    || subject.ends_with('?') && subject.split_whitespace().count() <= 10
            });
        match subject {
            Some(subject) if subject.ends_with('?') && !text.contains('?') => {
                format!("{subject} {text}")
            }
            Some(subject) if !text.contains('?') => format!("{}: {text}", short_subject(&subject)),
            _ => text.to_owned(),
        }
    }

    fn owner_name(&self, item: &Item) -> Option<String> {
        match item.owner.as_ref()? {
            Owner::Person(person) => Some(self.thread.people.name(*person).to_owned()),
            Owner::Named(name) => Some(name.clone()),
        }
    }

    fn add_edits(&self, sources: &mut Vec<usize>, sentence: usize, from: usize, to: usize) {
        for edit in &self.thread.sentences[sentence].edits {
            if from <= edit.from && edit.from < to.max(from + 1) {
                add(sources, edit.line);
            }
        }
    }

    /// Whether a text contains a superseded value.
    fn is_dead(&self, text: &str) -> bool {
        if self.dead.is_empty() {
            return false;
        }
        let lower = text.to_lowercase();
        let is_edge =
            |c: char| !c.is_alphanumeric() && !matches!(c, '€' | '$' | '£' | '%' | '+' | '#');
        let words: Vec<&str> = lower
            .split_whitespace()
            .map(|word| word.trim_matches(is_edge))
            .filter(|word| !word.is_empty())
            .collect();
        (0..words.len()).any(|at| {
            let same = self.dead.get(words[at]);
            same.is_some_and(|same| {
                same.iter().any(|dead| {
                    words[at..].len() >= dead.len()
                        && words[at..].iter().zip(*dead).all(|(a, b)| a == b)
                })
            })
        })
    }
}
