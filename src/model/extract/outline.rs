//! The draft of a resolution: what a thread came to, within the limits of one.

use std::collections::{HashMap, HashSet};

use super::{
    Item, Outline, Owner, Point,
    cues::{Cue, Language},
    phrases::{Phrases, phrases},
    sentence::{Sentence, shared},
    tasks::TaskSort,
    thread::{Matter, Question, Standing, Task, Thread, add},
};

/// UTF-16 code units.
const HEADLINE_MAX: usize = 120;
const CONCLUSION_MAX: usize = 600;
const POINT_MAX: usize = 500;
/// All of it together.
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

/// Sentences that ask what nobody answered and nothing settled.
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
            decision.line >= sentence.line && common > 0 && common * 2 > sentence.topic.len()
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
    /// Values that no longer hold, by their first word.
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

    // ── What was decided ──────────────────────────────────────────────────

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
        // The last ones, if there are very many.
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
        match matter.answers.filter(|_| is_short(&text)) {
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
        // What is about the message that the dive starts from comes first, then what was said last.
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
        outline.headline = headline(texts[main]);
        let others: Vec<usize> = (0..decisions.len())
            .filter(|index| *index != main)
            .collect();
        texts[main].clone_into(&mut outline.conclusion);
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

    // ── What was not ──────────────────────────────────────────────────────

    fn undecided(&self, outline: &mut Outline) {
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
            sentence.person.is_some() && !sentence.is_hidden && sentence.words() > 1
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

    fn owner_name(&self, item: &Item) -> Option<String> {
        match item.owner.as_ref()? {
            Owner::Person(person) => Some(self.thread.people.name(*person).to_owned()),
            Owner::Named(name) => Some(name.clone()),
        }
    }

    /// The last view of each person, in the order in which they were told.
    fn views(&self) -> Vec<(usize, usize, usize)> {
        let mut views: Vec<(usize, usize, usize)> = self
            .thread
            .stances
            .iter()
            .filter(|(_, (sentence, _))| {
                let said = &self.thread.sentences[*sentence];
                !said.is_hidden && !self.is_dead(&said.current())
            })
            .map(|(person, (sentence, from))| (*person, *sentence, *from))
            .collect();
        views.sort_by_key(|(_, sentence, _)| *sentence);
        views.drain(..views.len().saturating_sub(POINTS_MAX));
        views
    }

    /// "Postgres" of "I'd prefer Postgres because it scales".
    fn favoured(&self, at: usize, from: usize) -> Option<String> {
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

    fn quote(&self, person: usize, at: usize) -> Option<Point> {
        let sentence = &self.thread.sentences[at];
        let (open, close) = self.phrases.quotes;
        let text = shortened(&sentence.current(), POINT_WORDS);
        (!text.is_empty()).then(|| {
            let mut sources = vec![sentence.line];
            self.add_edits(&mut sources, at, 0, sentence.tokens.len());
            Point {
                text: format!("{}: {open}{text}{close}", self.thread.people.name(person)),
                sources,
            }
        })
    }

    /// Of people's statements the ones whose words come up most.
    fn main_points(&self, most: usize, used: &[usize], shown: &[Point]) -> Vec<Point> {
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
        let gone: Vec<usize> = self
            .thread
            .matters
            .iter()
            .filter(|matter| matter.standing == Standing::Dropped)
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

    // ── Items, questions, deferrals ───────────────────────────────────────

    fn items(&self) -> Vec<Item> {
        let live = self
            .thread
            .tasks
            .iter()
            .filter(|task| task.is_live && task.sort != TaskSort::WhoAsks);
        let mut items: Vec<Item> = live.filter_map(|task| self.item(task)).collect();
        items.drain(..items.len().saturating_sub(ITEMS_MAX));
        items
    }

    fn item(&self, task: &Task) -> Option<Item> {
        let text = self.task_text(task)?;
        let mut sources = task.sources.clone();
        let mut due = None;
        if let Some((sentence, value)) = task.due {
            let said = &self.thread.sentences[sentence];
            let value = &said.values[value];
            let edit = said.edits.iter().find(|edit| edit.from == value.from);
            due = edit.map_or(value.date, |edit| edit.date);
            if let Some(edit) = edit {
                add(&mut sources, edit.line);
            }
        }
        self.add_edits(&mut sources, task.sentence, task.draft.from, task.draft.to);
        sources.sort_unstable();
        Some(Item {
            text,
            owner: task.owner.clone(),
            due,
            sources,
        })
    }

    fn task_text(&self, task: &Task) -> Option<String> {
        let sentence = &self.thread.sentences[task.sentence];
        let draft = &task.draft;
        let (open, close) = self.phrases.quotes;
        if draft.is_anaphoric {
            let about = task.about?;
            let text = shortened(&self.thread.sentences[about].current(), 12);
            return Some(format!("{}: {open}{text}{close}", self.phrases.take_care));
        }
        let middle = sentence.rendered(draft.from, draft.to, |at| draft.drops.contains(&at));
        let middle = match sentence.person {
            // "Send me the figures": to the one who asks.
            Some(asker) if matches!(draft.sort, TaskSort::Request) => {
                middle.replace(" me ", &format!(" {} ", self.thread.people.name(asker)))
            }
            _ => middle,
        };
        let middle = without_receiver(&middle, &draft.lead);
        let text = format!("{} {middle} {}", draft.lead, draft.tail);
        let mut text = capitalised(
            shortened(text.trim(), ITEM_WORDS).trim_end_matches([',', ';', ':', ' ', '.']),
        );
        if let Some(about) = task.about {
            let said = shortened(&self.thread.sentences[about].current(), 10);
            text = format!("{text} ({open}{said}{close})");
        }
        (!text.is_empty()).then_some(text)
    }

    fn questions(&self) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        for at in open_questions(self.thread) {
            let sentence = &self.thread.sentences[at];
            let text = shortened(&sentence.current(), 22);
            if self.is_dead(&text) || found.iter().any(|point| point.text == text) {
                continue;
            }
            found.push(Point {
                text,
                sources: vec![sentence.line],
            });
        }
        found.drain(..found.len().saturating_sub(QUESTIONS_MAX));
        found
    }

    fn deferred(&self) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        for deferral in &self.thread.deferrals {
            let text = statement_or_question(&self.thread.sentences[deferral.sentence].current());
            let text = shortened(&text, 20);
            if self.is_dead(&text) || found.iter().any(|point| point.text == text) {
                continue;
            }
            let mut sources = deferral.sources.clone();
            sources.sort_unstable();
            found.push(Point { text, sources });
        }
        found.drain(..found.len().saturating_sub(DEFERRED_MAX));
        found
    }

    // ── Languages that are not read ───────────────────────────────────────

    fn unread(&self) -> Outline {
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

    // ── Corrections ───────────────────────────────────────────────────────

    fn add_edits(&self, sources: &mut Vec<usize>, sentence: usize, from: usize, to: usize) {
        for edit in &self.thread.sentences[sentence].edits {
            if from <= edit.from && edit.from < to.max(from + 1) {
                add(sources, edit.line);
            }
        }
    }

    /// Whether a text tells a value that no longer holds.
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

/// "Send you the draft" is "Send the draft".
fn without_receiver(text: &str, lead: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [verb, "you" | "u", rest @ ..]
            if lead.is_empty()
                && !rest.is_empty()
                && !matches!(rest[0], "know" | "to" | "in" | "on") =>
        {
            format!("{verb} {}", rest.join(" "))
        }
        _ => text.to_owned(),
    }
}

fn is_short(text: &str) -> bool {
    text.split_whitespace().count() <= 4
}

/// A question's content told: a capital letter before, a point behind.
fn statement(text: &str) -> String {
    let text = text
        .trim()
        .trim_start_matches(['¿', '¡', ',', ':', ' '])
        .trim_end_matches(['?', ' ', ',', ';', ':', '-']);
    let is_closed = text.ends_with(['.', '!', '…', ')', '”', '。']);
    let text = capitalised(text);
    if text.is_empty() || is_closed {
        text
    } else {
        format!("{text}.")
    }
}

fn statement_or_question(text: &str) -> String {
    if text.trim_end().ends_with('?') {
        capitalised(text.trim())
    } else {
        statement(text)
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if first.is_lowercase() && !text.starts_with("http") => {
            first.to_uppercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// At most so many words.
fn shortened(text: &str, words_max: usize) -> String {
    let text = text.trim();
    let units = text.encode_utf16().count();
    if text.split_whitespace().count() <= words_max && units <= 240 {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.split_whitespace().take(words_max).collect();
    let kept = kept.join(" ");
    let cut = within(&kept, 238);
    format!("{}…", cut.trim_end_matches([',', ';', ':', '.', ' ']))
}

/// At most so many characters.
pub(crate) fn shortened_to(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// The beginning of at most so many UTF-16 code units.
fn within(text: &str, units_max: usize) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > units_max {
            return &text[..at];
        }
    }
    text
}

fn headline(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    if text.encode_utf16().count() <= HEADLINE_MAX && text.split_whitespace().count() <= 18 {
        return text.to_owned();
    }
    let short = shortened(text, 16);
    let cut = within(short.trim_end_matches('…'), HEADLINE_MAX - 1);
    let cut = if cut.len() < short.trim_end_matches('…').len() {
        cut.rsplit_once(' ').map_or(cut, |(cut, _)| cut)
    } else {
        cut
    };
    format!("{}…", cut.trim_end())
}

/// At most `POINTS_MAX` points: of more, neighbours share one.
fn bundle(mut points: Vec<Point>) -> Vec<Point> {
    while points.len() > POINTS_MAX {
        let shortest = (0..points.len() - 1)
            .min_by_key(|at| points[*at].text.len() + points[at + 1].text.len())
            .unwrap_or(0);
        let next = points.remove(shortest + 1);
        let point = &mut points[shortest];
        point.text = format!("{} {}", point.text, next.text);
        for source in next.sources {
            add(&mut point.sources, source);
        }
    }
    for point in &mut points {
        point.text = shortened(&point.text, POINT_WORDS + 10);
        point.sources.sort_unstable();
    }
    points
}

fn words(outline: &Outline) -> usize {
    let points = outline
        .key_points
        .iter()
        .chain(&outline.open_questions)
        .chain(&outline.deferred_items);
    let texts = points
        .map(|point| point.text.as_str())
        .chain(outline.action_items.iter().map(|item| item.text.as_str()))
        .chain([outline.headline.as_str(), outline.conclusion.as_str()]);
    texts.map(|text| text.split_whitespace().count()).sum()
}

/// Within all limits: what matters least goes first.
fn fit(outline: &mut Outline) {
    let units = |text: &mut String, max: usize| {
        let cut = within(text, max).len();
        text.truncate(cut);
    };
    units(&mut outline.headline, HEADLINE_MAX);
    units(&mut outline.conclusion, CONCLUSION_MAX);
    let mut cap = POINT_WORDS;
    while words(outline) > WORDS_MAX {
        if cap > 12 {
            cap -= 4;
            for point in outline
                .key_points
                .iter_mut()
                .chain(&mut outline.open_questions)
                .chain(&mut outline.deferred_items)
            {
                point.text = shortened(&point.text, cap);
            }
            outline.conclusion = shortened(&outline.conclusion, cap + 18);
            for item in &mut outline.action_items {
                item.text = shortened(&item.text, cap.min(ITEM_WORDS));
            }
        } else if outline.deferred_items.len() > 1 {
            outline.deferred_items.pop();
        } else if outline.open_questions.len() > 1 {
            outline.open_questions.remove(0);
        } else if outline.action_items.len() > 1 {
            outline.action_items.remove(0);
        } else {
            outline.key_points.pop();
        }
    }
    let points = outline
        .key_points
        .iter_mut()
        .chain(&mut outline.open_questions)
        .chain(&mut outline.deferred_items);
    for point in points {
        units(&mut point.text, POINT_MAX);
        point.sources.truncate(SOURCES_MAX);
    }
    for item in &mut outline.action_items {
        units(&mut item.text, POINT_MAX);
        item.sources.truncate(SOURCES_MAX);
    }
}
