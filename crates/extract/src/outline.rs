//! The outline: quotes of people, within the limits of a resolution.

use crate::{
    Item, Outline, Owner, Point,
    lexicon::{Cue, Lexicon},
    text::Kind,
    thread::{SOURCES_MAX, State, TaskState, Thread, add},
    units::{Act, Unit},
};

/// UTF-16 code units.
const HEADLINE_UNITS_MAX: usize = 120;
const CONCLUSION_UNITS_MAX: usize = 600;
const POINTS_MAX: usize = 4;
const ITEMS_MAX: usize = 12;
const QUESTIONS_MAX: usize = 5;
const DEFERRED_MAX: usize = 4;
/// Results that are told, or merged into others.
const DECISIONS_MAX: usize = 12;
const DISSENTS_MAX: usize = 2;
/// Entries that are looked at, newest first, in very long conversations.
const SCANNED_MAX: usize = 100;
const WORDS_MAX: usize = 185;
const QUOTE_WORDS: usize = 26;
/// A shorter statement is quoted with the question that it answers.
const SHORT_WORDS: usize = 4;

pub(crate) struct Maker<'a> {
    pub(crate) names: &'a [String],
    pub(crate) thread: &'a Thread,
    pub(crate) lexicon: &'static Lexicon,
}

impl Maker<'_> {
    pub(crate) fn outline(&self) -> Outline {
        let decisions = self.decisions();
        let action_items = self.items();
        let mut outline = Outline {
            open_questions: self.questions(),
            deferred_items: self.deferred(),
            ..Outline::default()
        };
        let first: Vec<&str> = decisions.iter().map(|point| point.text.as_str()).collect();
        match first.as_slice() {
            [] => {
                self.lexicon.template("none").clone_into(&mut outline.conclusion);
                self.lexicon.template("none-headline").clone_into(&mut outline.headline);
            }
            [.., last] => {
                outline.headline = cut(last, 16, HEADLINE_UNITS_MAX);
                let texts: Vec<&str> = first.iter().rev().take(2).rev().copied().collect();
                outline.conclusion = cut(&texts.join(" "), 48, CONCLUSION_UNITS_MAX);
            }
        }
        let dissents = self.dissents();
        let room = POINTS_MAX - dissents.len();
        outline.key_points = bundle(decisions, room);
        outline.key_points.extend(dissents);
        outline.action_items = action_items;
        fit(&mut outline);
        outline
    }

    fn unit(&self, at: usize) -> &Unit {
        &self.thread.units[at]
    }

    pub(crate) fn decisions(&self) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        let accepted =
            self.thread.matters.iter().rev().filter(|matter| matter.state == State::Accepted);
        for matter in accepted.take(SCANNED_MAX) {
            if found.len() == DECISIONS_MAX {
                break;
            }
            let unit = self.unit(matter.unit);
            if unit.person.is_none() && !self.thread.adopted.contains(&unit.line) {
                continue;
            }
            let mut parts: Vec<String> = Vec::new();
            let is_short = unit.terms() < SHORT_WORDS;
            // A rejected option would be told again.
            let is_plain = |topic: &usize| {
                let asked = self.unit(*topic);
                asked.has(Cue::Ask)
                    || asked.has(Cue::Or) && asked.shared(unit) == 0
                    || !asked.is(Act::Proposal)
            };
            if let Some(topic) = matter.topic.filter(|_| is_short).filter(is_plain) {
                parts.push(self.quote(topic, QUOTE_WORDS));
            } else if unit.terms() < 2
                && matter.extra.is_empty()
                && let Some(before) = self.thread.before(matter.unit)
                && !self.is_rejected(before)
            {
                parts.push(self.quote(before, QUOTE_WORDS));
            }
            parts.push(self.whole(matter.unit));
            let mut sources = matter.sources.clone();
            for extra in matter.extra.iter().filter(|_| is_short).take(1) {
                parts.push(self.quote(*extra, QUOTE_WORDS));
                add(&mut sources, self.unit(*extra).line);
            }
            for edit in &unit.edits {
                add(&mut sources, edit.line);
            }
            let text = parts.join(" ");
            if text.is_empty() || self.is_superseded(&text, unit.line) {
                continue;
            }
            sources.sort_unstable();
            if !found.iter().any(|point| point.text == text) {
                found.push(Point { text, sources });
            }
        }
        found.reverse();
        found
    }

    /// Checks whether a text has a value that was corrected after its line, without the correction.
    fn is_superseded(&self, text: &str, line: usize) -> bool {
        self.thread.superseded.iter().rev().take(SCANNED_MAX).any(|value| {
            value.line > line && has_value(text, &value.old) && !has_value(text, &value.new)
        })
    }

    /// Checks whether a unit is an option that was dropped; it is not quoted as the context of something else.
    fn is_rejected(&self, at: usize) -> bool {
        let first = self.thread.matters.partition_point(|matter| matter.unit < at);
        let found = self.thread.matters[first..].iter().take_while(|matter| matter.unit == at);
        found.into_iter().any(|matter| matches!(matter.state, State::Dropped | State::Contested))
    }

    fn dissents(&self) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        let accepted =
            self.thread.matters.iter().rev().filter(|matter| matter.state == State::Accepted);
        for matter in accepted {
            for (person, at) in matter.dissents.iter().rev() {
                if found.len() == DISSENTS_MAX {
                    break;
                }
                let text = self.quote(*at, QUOTE_WORDS);
                let name = self.names.get(*person).map_or("", String::as_str);
                let text = self
                    .lexicon
                    .template("dissent")
                    .replace("{name}", name)
                    .replace("{text}", &text);
                if !found.iter().any(|point| point.text == text) {
                    found.push(Point { text, sources: vec![self.unit(*at).line] });
                }
            }
        }
        found.reverse();
        found
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        let mut found: Vec<Item> = Vec::new();
        for task in self.thread.tasks.iter().rev() {
            if found.len() == ITEMS_MAX {
                break;
            }
            let is_live =
                task.state == TaskState::Taken || task.state == TaskState::Asked && task.is_named;
            if !is_live {
                continue;
            }
            let mut parts = Vec::new();
            if let Some(target) = task.target {
                // "Who tells them?" needs the sentence before it.
                let is_vague = self.unit(target).words.len() < 3;
                if let Some(before) = self
                    .thread
                    .before(target)
                    .filter(|before| is_vague && !self.is_rejected(*before))
                {
                    parts.push(self.message(before));
                }
                if !self.is_rejected(target) {
                    parts.push(self.message(target));
                }
            }
            if task.target.is_none_or(|target| self.unit(target).line != self.unit(task.unit).line)
            {
                parts.push(self.own(task.unit));
            }
            let mut sources = task.sources.clone();
            sources.sort_unstable();
            let text = parts.join(" ");
            if text.is_empty() {
                continue;
            }
            found.push(Item { text, owner: task.owner.map(Owner::Person), due: task.due, sources });
        }
        found.reverse();
        found
    }

    pub(crate) fn questions(&self) -> Vec<Point> {
        let last = self
            .thread
            .units
            .iter()
            .rev()
            .find(|unit| unit.person.is_some() && !unit.is(Act::Chatter));
        let last = last.map_or(0, |unit| unit.turn);
        let open = self.thread.questions.iter().rev().filter(|question| {
            let unit = self.unit(question.unit);
            let is_pending = question.is_unsure;
            let is_asked =
                !unit.is(Act::Proposal) || unit.has(Cue::Ask) || is_pending || last == unit.turn;
            let is_explicit = unit.has(Cue::Ask) && unit.tokens.len() > 3 || unit.has(Cue::Inquiry);
            let is_clear = unit.words.len() + unit.values.len()
                >= if is_pending || is_explicit { 1 } else { 2 };
            question.is_open && is_asked && is_clear && !unit.is(Act::Joke)
        });
        let points = open.map(|question| Point {
            text: self.question(question.unit),
            sources: question.sources.clone(),
        });
        let points = points.filter(|point| !point.text.is_empty());
        let mut points: Vec<Point> = points.take(QUESTIONS_MAX).collect();
        points.reverse();
        points
    }

    /// A short question with the sentence before it in its message.
    fn question(&self, at: usize) -> String {
        let text = self.quote(at, QUOTE_WORDS);
        let before = at.checked_sub(1).filter(|before| {
            let (unit, said) = (self.unit(at), self.unit(*before));
            unit.words.len() < 3
                && said.line == unit.line
                && !said.is_idle()
                && !said.words.is_empty()
        });
        match before {
            Some(before) => format!("{} {text}", self.quote(before, QUOTE_WORDS)),
            None => text,
        }
    }

    fn deferred(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for (unit, sources) in self.thread.deferred.iter().rev() {
            if points.len() == DEFERRED_MAX {
                break;
            }
            let text = self.quote(*unit, QUOTE_WORDS);
            if !text.is_empty() && !points.iter().any(|point| point.text == text) {
                points.push(Point { text, sources: sources.clone() });
            }
        }
        points.reverse();
        points
    }

    fn whole(&self, at: usize) -> String {
        self.joined(at, |unit| !unit.is_idle() && !unit.is(Act::Question))
    }

    /// The message of a task without the other tasks in it.
    fn own(&self, at: usize) -> String {
        let is_other = |unit: &Unit| {
            unit.is(Act::Question) || unit.is(Act::Commitment) || unit.is(Act::Request)
        };
        self.joined(at, |unit| !unit.is_idle() && !is_other(unit))
    }

    fn message(&self, at: usize) -> String {
        self.joined(at, |unit| !unit.is_idle() && !unit.is(Act::Commitment))
    }

    /// The message of a unit if it is short, without small talk; otherwise the unit.
    fn joined(&self, at: usize, is_told: impl Fn(&Unit) -> bool) -> String {
        let unit = self.unit(at);
        let first = self.thread.units[..at]
            .iter()
            .rev()
            .take_while(|other| other.line == unit.line)
            .count();
        let all = self.thread.units[at - first..]
            .iter()
            .take_while(|other| other.line == unit.line)
            .count();
        let parts: Vec<String> = (at - first..at - first + all)
            .filter(|other| *other == at || is_told(self.unit(*other)))
            .map(|other| self.quote(other, QUOTE_WORDS))
            .collect();
        let text = parts.join(" ");
        if count(&text) <= QUOTE_WORDS { text } else { self.quote(at, QUOTE_WORDS) }
    }

    /// A sentence without fillers at its start and emoji at its end, cut at a clause border if it is long.
    pub(crate) fn quote(&self, at: usize, words_max: usize) -> String {
        let unit = self.unit(at);
        let mut end = unit.tokens.len();
        while end > 0 && unit.tokens[end - 1].kind == Kind::Emoji {
            end -= 1;
        }
        let mut from = 0;
        while from < end
            && unit.tokens[from].kind == Kind::Mark
            && !matches!(unit.tokens[from].word.as_str(), "\"" | "“" | "„" | "«" | "(" | "¿" | "¡")
        {
            from += 1;
        }
        let text = unit.render(from, end);
        let text =
            text.trim_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | '-' | '–'));
        cut(text, words_max, usize::MAX)
    }
}

/// Checks whether a value occurs in a text as whole words.
pub(crate) fn has_value(text: &str, value: &str) -> bool {
    let (text, value) = (text.to_lowercase(), value.to_lowercase());
    text.match_indices(&value).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + value.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Merges neighbors until there are at most `most` points.
fn bundle(mut points: Vec<Point>, most: usize) -> Vec<Point> {
    points.drain(..points.len().saturating_sub(most * 2));
    while points.len() > most {
        let at = (0..points.len() - 1)
            .min_by_key(|at| points[*at].text.len() + points[at + 1].text.len())
            .unwrap_or(0);
        let next = points.remove(at + 1);
        let point = &mut points[at];
        point.text = format!("{} {}", point.text, next.text);
        next.sources.into_iter().for_each(|line| add(&mut point.sources, line));
        point.sources.sort_unstable();
    }
    points
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The beginning of a text with at most this many words and UTF-16 units, ended at a clause border if there is one.
pub(crate) fn cut(text: &str, words_max: usize, units_max: usize) -> String {
    let mut kept = text;
    let mut is_cut = false;
    while count(kept) > words_max || kept.encode_utf16().count() > units_max {
        let head = kept.trim_end_matches([',', ';', '.', ':', ' ', '–', '—', '!', '?']);
        let border = head.rfind([',', ';', '.', ':', '–', '—', '!', '?', '(']);
        let border = border.filter(|at| count(&head[..*at]) * 3 > words_max && words_max > 3);
        let space = head.rfind(char::is_whitespace);
        let Some(at) = border.or(space).filter(|at| *at > 0) else {
            let end = kept
                .char_indices()
                .nth(units_max.min(kept.len()) / 2)
                .map_or(kept.len(), |(at, _)| at);
            return kept[..end].to_owned();
        };
        kept = &head[..at];
        is_cut = border.is_none();
    }
    let kept = kept.trim_end();
    if is_cut { format!("{kept}…") } else { kept.to_owned() }
}

fn words(outline: &Outline) -> usize {
    let points =
        outline.key_points.iter().chain(&outline.open_questions).chain(&outline.deferred_items);
    let texts =
        points.map(|point| &point.text).chain(outline.action_items.iter().map(|item| &item.text));
    texts.map(|text| count(text)).sum::<usize>()
        + count(&outline.headline)
        + count(&outline.conclusion)
}

/// Shortens texts, then drops the least important entries.
fn fit(outline: &mut Outline) {
    for most in [30, 22, 16, 12] {
        if words(outline) <= WORDS_MAX {
            break;
        }
        let points = outline
            .key_points
            .iter_mut()
            .chain(&mut outline.open_questions)
            .chain(&mut outline.deferred_items);
        points.for_each(|point| point.text = cut(&point.text, most, usize::MAX));
        outline
            .action_items
            .iter_mut()
            .for_each(|item| item.text = cut(&item.text, most, usize::MAX));
        outline.conclusion = cut(&outline.conclusion, most + 12, CONCLUSION_UNITS_MAX);
    }
    while words(outline) > WORDS_MAX {
        if outline.deferred_items.pop().is_none() && outline.open_questions.len() > 1 {
            outline.open_questions.remove(0);
        } else if outline.action_items.len() > 1 {
            outline.action_items.remove(0);
        } else if outline.key_points.pop().is_none() {
            break;
        }
    }
    let points = outline
        .key_points
        .iter_mut()
        .chain(&mut outline.open_questions)
        .chain(&mut outline.deferred_items);
    points.for_each(|point| point.sources.truncate(SOURCES_MAX));
    outline.action_items.iter_mut().for_each(|item| item.sources.truncate(SOURCES_MAX));
}
