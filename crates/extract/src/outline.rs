//! The outline: quotes from people, within the limits of a resolution.

use crate::{
    Decision, Item, Outline, Owner, Point, Quotation,
    lexicon::{Cue, Lexicon},
    roles::Role,
    settled::Settlement,
    tasks::Task,
    text::Kind,
    thread::{REACH, Thread},
    units::{Act, Unit},
};

/// Maximum length in UTF-16 code units.
const HEADLINE_UNITS_MAX: usize = 120;
const CONCLUSION_UNITS_MAX: usize = 600;
const POINTS_MAX: usize = 4;
/// Maximum number of proposals that are listed if nothing was decided.
const PROPOSALS_MAX: usize = 2;
/// Room in the headline for the words around a quotation, in UTF-16 code units.
const AGREED_UNITS: usize = 20;
const ITEMS_MAX: usize = 12;
const QUESTIONS_MAX: usize = 5;
const DEFERRED_MAX: usize = 4;
/// Maximum number of decisions; those with the highest scores are kept.
const DECISIONS_MAX: usize = 12;
const DISSENTS_MAX: usize = 2;
/// Number of lines by people at which the increases below are halved, because longer conversations have more open questions and
/// dissents.
const STEP_LINES: f32 = 30.0;
/// Minimum score for the first open question and the first dissent, and the increase for each further question and dissent.
const QUESTION_MIN: f32 = -0.4;
const DISSENT_MIN: f32 = -0.4;
const QUESTION_STEP: f32 = 2.0;
const DISSENT_STEP: f32 = 3.0;
/// Added to the score of a question in the first line if nothing was decided.
const UNDECIDED: f32 = 2.0;
/// Maximum number of corrected values that a text is searched for, newest first.
const SCANNED_MAX: usize = 100;
/// Maximum number of sources of a result.
const SOURCES_MAX: usize = 20;
const WORDS_MAX: usize = 185;
const QUOTE_WORDS: usize = 26;
/// Maximum number of words of a sentence that is quoted before another one.
const CONTEXT_WORDS: usize = 12;
/// Statements with fewer terms are quoted with the question that they answer.
const SHORT_WORDS: usize = 4;

/// Adds a source; if there are too many, the first and the newest ones are kept.
fn add(lines: &mut Vec<usize>, line: usize) {
    if !lines.contains(&line) {
        if lines.len() == SOURCES_MAX {
            lines.remove(1);
        }
        lines.push(line);
    }
}

pub(crate) struct Maker<'a> {
    pub(crate) names: &'a [String],
    pub(crate) thread: &'a Thread,
    pub(crate) lexicon: &'static Lexicon,
}

impl Maker<'_> {
    pub(crate) fn outline(&self) -> Outline {
        let settled = self.settled();
        let decisions = self.points(&settled);
        let open_questions = self.questions(&decisions);
        let mut outline = Outline {
            action_items: self.items(),
            deferred_items: self.deferred(),
            ..Outline::default()
        };
        match settled.as_slice() {
            [] => self.lexicon.template("none").clone_into(&mut outline.conclusion),
            [.., last] => {
                outline.headline = self.headline(last);
                outline.conclusion = self.conclusion(&settled);
            }
        }
        let dissents = self.dissents();
        let room = POINTS_MAX - dissents.len();
        outline.key_points = if settled.is_empty() {
            self.proposals(&open_questions)
        } else {
            self.bundled(&settled, decisions, room)
        };
        outline.key_points.truncate(room);
        outline.key_points.extend(dissents);
        outline.open_questions = open_questions;
        fit(&mut outline);
        outline
    }

    /// The sentence that states a decision, or the question that it agrees to, as a quotation.
    fn headline(&self, settled: &Settlement) -> String {
        let proposed = self.unit(settled.proposed);
        if settled.stated == settled.proposed
            || !proposed.ends_with_question()
            || !self.unit(settled.stated).is_bare_assent()
        {
            return cut(&self.quote(settled.stated, usize::MAX), 16, HEADLINE_UNITS_MAX);
        }
        let text = self.quote(settled.proposed, usize::MAX);
        let text = cut(&text, 14, HEADLINE_UNITS_MAX - AGREED_UNITS);
        self.lexicon.template("agreed-to").replace("{text}", &text)
    }

    /// The newest decisions: the message that states the last one, or quotations if there are two.
    fn conclusion(&self, settled: &[Settlement]) -> String {
        let text = match settled {
            [.., first, last] => [first, last].map(|one| self.attributed_result(one)).join(" "),
            [only] if self.quoted(only).len() == 1 => self.statement(only.stated),
            [only] => self.attributed_result(only),
            [] => String::new(),
        };
        cut(&text, 48, CONCLUSION_UNITS_MAX)
    }

    fn unit(&self, at: usize) -> &Unit {
        &self.thread.units[at]
    }

    /// Sentences with a role, best first.
    fn best(&self, role: Role) -> Vec<usize> {
        let all = (0..self.thread.units.len()).filter(|at| self.thread.has_role(*at, role));
        let mut found: Vec<usize> = all.collect();
        let chance = |at: &usize| self.thread.chances[*at][role as usize];
        found.sort_by(|a, b| chance(b).total_cmp(&chance(a)));
        found
    }

    /// Sentences in descending order of their scores, as long as the score exceeds a minimum that rises with each
    /// sentence.
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn rare(
        &self,
        mut sums: Vec<(usize, f32)>,
        min: f32,
        step: f32,
    ) -> impl Iterator<Item = usize> {
        sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let step = step / (1.0 + self.thread.turns.len() as f32 / STEP_LINES);
        let mins = std::iter::successors(Some(min), move |min| Some(min + step));
        let kept = sums.into_iter().zip(mins).take_while(|((_, sum), min)| sum > min);
        kept.map(|((at, _), _)| at)
    }

    /// Settled statements, oldest first, each once.
    fn settled(&self) -> Vec<Settlement> {
        let mut found: Vec<Settlement> = Vec::new();
        for at in self.best(Role::Decision) {
            let Some(settled) = self.thread.settlement(at) else { continue };
            let stated = self.unit(settled.stated);
            let text = self.quote(settled.stated, usize::MAX);
            let is_known = |known: &Settlement| {
                known.root == settled.root
                    || known.stated == settled.stated
                    || self.quote(known.stated, usize::MAX).contains(&text)
            };
            if text.is_empty()
                || self.is_outdated(settled.stated)
                || self.is_superseded(&text, stated.line + 1)
                || found.iter().any(is_known)
            {
                continue;
            }
            found.push(settled);
            if found.len() == DECISIONS_MAX {
                break;
            }
        }
        found.sort_by_key(|settled| settled.stated);
        found
    }

    /// Decisions, oldest first.
    pub(crate) fn decisions(&self) -> Vec<Decision> {
        self.settled().iter().map(|settled| self.decision(settled)).collect()
    }

    fn decision(&self, settled: &Settlement) -> Decision {
        let quotation =
            |at: usize| Quotation { line: self.unit(at).line, text: self.quote(at, QUOTE_WORDS) };
        let mut before = self.quoted(settled).into_iter();
        let asked = before.find(|at| *at != settled.stated && self.unit(*at).ends_with_question());
        let sources = self.sources(settled);
        Decision { asked: asked.map(quotation), stated: quotation(settled.stated), sources }
    }

    /// Lines that prove a decision.
    fn sources(&self, settled: &Settlement) -> Vec<usize> {
        let mut sources = vec![self.unit(settled.stated).line];
        let edits = self.unit(settled.stated).edits.iter().map(|edit| edit.line);
        let quoted = self.quoted(settled);
        let all = settled.assents.iter().chain(&quoted).chain([&settled.root]);
        all.map(|at| self.unit(*at).line).chain(edits).for_each(|line| add(&mut sources, line));
        sources.sort_unstable();
        sources
    }

    /// Sentences that are quoted for a decision: the question without which it is unclear, the proposal, and the sentence that states
    /// the result.
    fn quoted(&self, settled: &Settlement) -> Vec<usize> {
        let mut parts = vec![settled.stated];
        if settled.proposed != settled.stated && !self.is_outdated(settled.proposed) {
            parts.insert(0, settled.proposed);
        }
        let terms: usize = parts.iter().map(|at| self.unit(*at).terms()).sum();
        if terms < SHORT_WORDS {
            let before =
                self.thread.before(parts[0]).filter(|at| terms < 2 && self.is_context(*at));
            let asked = self.asked(parts[0]).or(before);
            if let Some(at) = asked {
                parts.insert(0, at);
            }
        }
        // A message is quoted once.
        let is_stated = |at: usize| self.unit(at).line == self.unit(settled.stated).line;
        parts.retain(|at| *at == settled.stated || !is_stated(*at));
        parts
    }

    /// The question without which a short statement is unclear.
    fn asked(&self, at: usize) -> Option<usize> {
        let unit = self.unit(at);
        // A rejected option would look like part of the result.
        let is_plain = |topic: &usize| {
            let asked = self.unit(*topic);
            asked.has(Cue::Ask)
                || asked.has(Cue::Or) && asked.shared(unit) == 0
                || !asked.is(Act::Proposal)
        };
        let topic = self.thread.topics[at].filter(|_| !unit.is(Act::Question));
        // "Ok garden" answers the question before "the garden then?".
        topic.filter(is_plain).or_else(|| self.thread.topics[topic?].filter(is_plain))
    }

    /// Decisions as texts, oldest first.
    pub(crate) fn decision_points(&self) -> Vec<Point> {
        self.points(&self.settled())
    }

    /// Decisions as points: the words of one person, or quotations with their authors.
    fn points(&self, settled: &[Settlement]) -> Vec<Point> {
        settled.iter().map(|settled| self.point(settled)).collect()
    }

    fn point(&self, settled: &Settlement) -> Point {
        let text = match self.quoted(settled).as_slice() {
            [only] => self.statement(*only),
            _ => self.attributed_result(settled),
        };
        Point { text, sources: self.sources(settled) }
    }

    /// The entry that a sentence would become if it were a decision.
    pub(crate) fn result(&self, at: usize) -> Point {
        let settled = self.thread.settlement(at);
        let unsettled = || Settlement { stated: at, proposed: at, root: at, assents: Vec::new() };
        self.point(&settled.unwrap_or_else(unsettled))
    }

    /// Drops the oldest decisions beyond twice `most`, then merges neighbors, as quotations with their authors, until at most `most`
    /// points are left.
    fn bundled(&self, settled: &[Settlement], mut points: Vec<Point>, most: usize) -> Vec<Point> {
        let mut quotations: Vec<String> =
            settled.iter().map(|settled| self.attributed_result(settled)).collect();
        let old = points.len().saturating_sub(most * 2);
        points.drain(..old);
        quotations.drain(..old);
        while points.len() > most {
            let length = |at: &usize| points[*at].text.len() + points[at + 1].text.len();
            let at = (0..points.len() - 1).min_by_key(length).unwrap_or(0);
            let next = points.remove(at + 1);
            let further = quotations.remove(at + 1);
            quotations[at].push(' ');
            quotations[at].push_str(&further);
            let point = &mut points[at];
            point.text.clone_from(&quotations[at]);
            next.sources.into_iter().for_each(|line| add(&mut point.sources, line));
            point.sources.sort_unstable();
        }
        points
    }

    fn attributed_result(&self, settled: &Settlement) -> String {
        let parts = self.quoted(settled).into_iter().map(|at| {
            let is_context = at != settled.stated;
            let text = if is_context { self.quote(at, CONTEXT_WORDS) } else { self.statement(at) };
            self.attributed(at, text)
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    /// A text as a quotation of the author of a sentence.
    fn attributed(&self, at: usize, text: String) -> String {
        match self.unit(at).person.and_then(|person| self.names.get(person)) {
            Some(name) => {
                let quote = self.lexicon.template("quote");
                quote.replace("{name}", name).replace("{text}", &text)
            }
            None => text,
        }
    }

    /// Returns the proposals that were not rejected, with their authors.
    fn proposals(&self, questions: &[Point]) -> Vec<Point> {
        let is_left = |at: &usize| {
            let unit = self.unit(*at);
            unit.is(Act::Proposal)
                && unit.person.is_some()
                && self.thread.weights[*at].is_some()
                && !self.thread.rejected[*at]
                && !self.is_outdated(*at)
                && !unit.is(Act::Joke)
                && !unit.is(Act::Hedge)
                && unit.terms() > 1
                && (!unit.is(Act::Question) || unit.has(Cue::Propose))
                && !questions.iter().any(|point| point.sources.contains(&unit.line))
        };
        let all = (0..self.thread.units.len()).rev().filter(is_left).take(PROPOSALS_MAX);
        let points = all.map(|at| Point {
            text: self.attributed(at, self.quote(at, QUOTE_WORDS)),
            sources: vec![self.unit(at).line],
        });
        let mut points: Vec<Point> = points.collect();
        points.reverse();
        points
    }

    /// Checks whether a sentence states a value that was corrected in the same line or a later one.
    fn is_outdated(&self, at: usize) -> bool {
        self.is_superseded(&self.quote(at, usize::MAX), self.unit(at).line)
    }

    /// Checks whether a sentence can be quoted before another one as context. It must not have been rejected, and it must not be a
    /// result itself, because it would then appear twice.
    fn is_context(&self, at: usize) -> bool {
        !self.thread.rejected[at] && !self.thread.has_role(at, Role::Decision)
    }

    /// Checks whether a text contains a value that was corrected in `line` or later, but not the new value.
    fn is_superseded(&self, text: &str, line: usize) -> bool {
        let mut newest = self.thread.superseded.iter().rev().take(SCANNED_MAX);
        newest.any(|value| {
            value.line >= line && has_value(text, &value.old) && !has_value(text, &value.new)
        })
    }

    fn dissents(&self) -> Vec<Point> {
        let sums = self.thread.chances.iter().map(|sums| sums[Role::Dissent as usize]);
        let sums = sums.enumerate().collect();
        let best = self.rare(sums, DISSENT_MIN, DISSENT_STEP).take(DISSENTS_MAX);
        let mut best: Vec<usize> = best.collect();
        best.sort_unstable();
        best.into_iter().map(|at| self.dissent(at)).collect()
    }

    pub(crate) fn dissent(&self, at: usize) -> Point {
        let unit = self.unit(at);
        let name = unit.person.and_then(|person| self.names.get(person));
        let name = name.map_or("", String::as_str);
        let text = self.lexicon.template("dissent").replace("{name}", name);
        let text = text.replace("{text}", &self.whole(at));
        Point { text, sources: vec![unit.line] }
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        let tasks = self.thread.tasks();
        let first = tasks.len().saturating_sub(ITEMS_MAX);
        let items = tasks[first..].iter().map(|task| self.item(task));
        items.filter(|item| !item.text.is_empty()).collect()
    }

    pub(crate) fn item(&self, task: &Task) -> Item {
        let mut parts = Vec::new();
        if let Some(target) = task.target {
            // "Who tells them?" needs the sentence before it.
            let is_vague = self.unit(target).words.len() < 3;
            let before = self.thread.before(target);
            let before = before.filter(|at| is_vague && !self.thread.rejected[*at]);
            parts.extend(before.map(|at| (at, self.message(at))));
            if !self.thread.rejected[target] {
                parts.push((target, self.message(target)));
            }
        }
        let line = self.unit(task.unit).line;
        if task.target.is_none_or(|target| self.unit(target).line != line) {
            parts.push((task.unit, self.own(task.unit)));
        }
        // Words of several people are quotations.
        let author = |at: usize| self.unit(at).person;
        let is_of_one = parts.windows(2).all(|two| author(two[0].0) == author(two[1].0));
        let mut sources = task.sources.clone();
        for (at, _) in &parts {
            add(&mut sources, self.unit(*at).line);
        }
        sources.sort_unstable();
        let parts = parts.into_iter();
        let texts =
            parts.map(|(at, text)| if is_of_one { text } else { self.attributed(at, text) });
        let text = texts.collect::<Vec<_>>().join(" ");
        Item { text, owner: task.owner.map(Owner::Person), due: task.due, sources }
    }

    /// Unanswered questions, oldest first.
    pub(crate) fn questions(&self, decisions: &[Point]) -> Vec<Point> {
        let all = 0..self.thread.units.len();
        let mut best: Vec<usize> = all.rev().filter(|at| self.is_last_question(*at)).collect();
        if decisions.is_empty() {
            best.extend((0..self.thread.units.len()).rev().find(|at| self.is_reported(*at)));
        }
        // If nothing was decided, the question at the beginning is still open.
        let sum = |at: usize| {
            let unit = self.unit(at);
            let is_left = decisions.is_empty() && unit.turn == 0 && unit.is(Act::Question);
            let more = if is_left { UNDECIDED } else { 0.0 };
            (at, self.thread.chances[at][Role::Question as usize] + more)
        };
        let sums = (0..self.thread.units.len()).map(sum).collect();
        for at in self.rare(sums, QUESTION_MIN, QUESTION_STEP) {
            if !best.contains(&at) {
                best.push(at);
            }
        }
        best.truncate(QUESTIONS_MAX);
        best.sort_unstable();
        best.into_iter().map(|at| self.open_question(at)).collect()
    }

    /// Checks whether a sentence reports a question of somebody outside of the conversation, and nobody takes care of it.
    fn is_reported(&self, at: usize) -> bool {
        let unit = self.unit(at);
        let takes = |next: usize| self.unit(next).is(Act::Commitment);
        unit.has(Cue::Reported)
            && self.thread.is_candidate(at)
            && !unit.is(Act::Question)
            && !unit.is_idle()
            && !self.thread.later(at, REACH).any(takes)
    }

    /// Checks whether a sentence asks for something, and all of the next lines by people are only small talk or addressed to an
    /// agent.
    fn is_last_question(&self, at: usize) -> bool {
        let unit = self.unit(at);
        let is_asked = self.thread.is_candidate(at)
            && unit.is(Act::Question)
            && unit.has(Cue::Ask)
            && !unit.is(Act::Proposal)
            && !unit.is_idle()
            && !unit.words.is_empty();
        let is_over = |next: usize| self.unit(next).is_idle() || self.unit(next).addresses_agent();
        is_asked && self.thread.later(at, REACH).all(is_over)
    }

    /// A question. Its sources include the line in which somebody does not know the answer.
    pub(crate) fn open_question(&self, at: usize) -> Point {
        let mut sources = vec![self.unit(at).line];
        let unsure = self
            .thread
            .later(at, REACH)
            .find(|next| self.unit(*next).is(Act::Unsure) && self.thread.topics[*next] == Some(at));
        sources.extend(unsure.map(|next| self.unit(next).line));
        Point { text: self.question(at), sources }
    }

    /// Text of a question. A short question is preceded by the sentence before it in the same message.
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
        let units = self.thread.units.iter().enumerate().rev();
        for (at, unit) in units.filter(|(_, unit)| unit.is(Act::Deferral) && unit.person.is_some())
        {
            let topic = self.thread.topics[at].filter(|_| unit.words.len() < 3);
            let subject = topic.unwrap_or(at);
            let text = self.quote(subject, QUOTE_WORDS);
            let is_told = !unit.is_idle() && !self.unit(subject).words.is_empty();
            if is_told && !points.iter().any(|point| point.text == text) {
                let mut sources = vec![self.unit(subject).line];
                add(&mut sources, unit.line);
                points.push(Point { text, sources });
            }
            if points.len() == DEFERRED_MAX {
                break;
            }
        }
        points.reverse();
        points
    }

    /// A sentence with the other statements of its message that are neither tasks nor outdated.
    fn statement(&self, at: usize) -> String {
        let is_told = |other: usize| {
            let unit = self.unit(other);
            let excluded = [Act::Question, Act::Commitment, Act::Request];
            !unit.is_idle() && !excluded.iter().any(|act| unit.is(*act)) && !self.is_outdated(other)
        };
        self.joined(at, is_told)
    }

    fn whole(&self, at: usize) -> String {
        let is_told = |unit: &Unit| !unit.is_idle() && !unit.is(Act::Question);
        self.joined(at, |other| is_told(self.unit(other)))
    }

    /// Text of the message that contains a task, without questions or other tasks.
    fn own(&self, at: usize) -> String {
        let is_other = |unit: &Unit| {
            unit.is(Act::Question) || unit.is(Act::Commitment) || unit.is(Act::Request)
        };
        self.joined(at, |other| !self.unit(other).is_idle() && !is_other(self.unit(other)))
    }

    fn message(&self, at: usize) -> String {
        let is_told = |unit: &Unit| !unit.is_idle() && !unit.is(Act::Commitment);
        self.joined(at, |other| is_told(self.unit(other)))
    }

    /// Joins a unit with the other sentences of its message that `is_told` accepts. Returns only the unit if the result is too long.
    fn joined(&self, at: usize, is_told: impl Fn(usize) -> bool) -> String {
        let parts: Vec<String> = (self.thread.line_of(at))
            .filter(|other| *other == at || is_told(*other))
            .map(|other| self.quote(other, QUOTE_WORDS))
            .collect();
        let text = parts.join(" ");
        if count(&text) <= QUOTE_WORDS { text } else { self.quote(at, QUOTE_WORDS) }
    }

    /// A sentence without leading punctuation or trailing emoji, cut at a clause boundary if it is long.
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

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The beginning of a text with at most this many words and UTF-16 units, cut at a clause boundary if there is one.
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

/// Texts and sources of the entries.
fn entries(outline: &mut Outline) -> impl Iterator<Item = (&mut String, &mut Vec<usize>)> {
    let points = outline.key_points.iter_mut().chain(&mut outline.open_questions);
    let points = points.chain(&mut outline.deferred_items);
    let items = outline.action_items.iter_mut();
    points
        .map(|point| (&mut point.text, &mut point.sources))
        .chain(items.map(|item| (&mut item.text, &mut item.sources)))
}

/// Shortens texts, then drops the least important entries.
fn fit(outline: &mut Outline) {
    let words = |outline: &mut Outline| {
        let heads = count(&outline.headline) + count(&outline.conclusion);
        heads + entries(outline).map(|(text, _)| count(text)).sum::<usize>()
    };
    for most in [30, 22, 16, 12] {
        if words(outline) <= WORDS_MAX {
            break;
        }
        entries(outline).for_each(|(text, _)| *text = cut(text, most, usize::MAX));
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
    entries(outline).for_each(|(_, sources)| sources.truncate(SOURCES_MAX));
}
