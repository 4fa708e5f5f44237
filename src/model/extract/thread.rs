//! What a conversation came to, kept while it is read from the first sentence to the last.
//!
//! Every look back is bounded, so that reading takes time in proportion to the length.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    Owner, Superseded,
    cues::{Cue, Language},
    people::People,
    sentence::{Hit, Sentence, is_any, shared},
    tasks::{self, Draft, TaskSort},
    values::{Sort, Value},
};

/// How many lines later somebody can still agree, or answer.
pub(crate) const REPLY_REACH: usize = 6;
/// Right after a question, a message of at most so many words is taken for its answer.
const ANSWER_WORDS_MAX: usize = 10;
/// How many lines later a question is still answered by its own words.
const ANSWER_REACH: usize = 12;
/// More lines than these are not named for one statement.
const SOURCES_MAX: usize = 20;
/// How many sentences back "it" can stand for one.
const POINTING_REACH: usize = 100;
/// How many of the newest matters, tasks or questions are looked at.
const RECENT: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Accepted,
    Contested,
    Dropped,
}

/// Something put forward or decided.
#[derive(Debug)]
pub(crate) struct Matter {
    pub(crate) sentence: usize,
    /// Tokens that say what.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) standing: Standing,
    /// `None` for an agent's suggestion.
    pub(crate) by: Option<usize>,
    pub(crate) contested_by: Option<usize>,
    pub(crate) sources: Vec<usize>,
    /// What it says with a value in place of another one.
    pub(crate) reworded: Option<String>,
    /// Sentence and value that it changes once it is accepted, and by which value of which sentence.
    pub(crate) changes: Option<(usize, usize, usize, usize)>,
    /// The question that it answers.
    pub(crate) answers: Option<usize>,
    pub(crate) is_alternative: bool,
    pub(crate) is_preference: bool,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) sentence: usize,
    pub(crate) draft: Draft,
    pub(crate) sort: TaskSort,
    pub(crate) owner: Option<Owner>,
    pub(crate) is_live: bool,
    /// The owner said so.
    pub(crate) is_confirmed: bool,
    pub(crate) sources: Vec<usize>,
    /// Sentence and value.
    pub(crate) due: Option<(usize, usize)>,
    pub(crate) topic: Vec<u32>,
    /// What it is about, if its own words only point there: a sentence.
    pub(crate) about: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) sentence: usize,
    pub(crate) is_open: bool,
    /// The task that it asks for, or the matter that it puts forward.
    pub(crate) task: Option<usize>,
    pub(crate) matter: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Deferral {
    pub(crate) sentence: usize,
    pub(crate) sources: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) people: People,
    /// The first sentence of each line; the last entry is the count of sentences.
    pub(crate) first_of_line: Vec<usize>,
    pub(crate) matters: Vec<Matter>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) questions: Vec<Question>,
    pub(crate) deferrals: Vec<Deferral>,
    pub(crate) superseded: Vec<Superseded>,
    /// Old values in lower case, as tokens.
    pub(crate) dead: HashSet<Vec<String>>,
    /// The last preference of each person: a sentence and where it begins.
    pub(crate) stances: BTreeMap<usize, (usize, usize)>,
    pub(crate) taken_up: BTreeSet<usize>,
    /// Sentence and value, newest last.
    pub(crate) values_seen: Vec<(usize, usize)>,
    words_of_line: Vec<usize>,
    /// Lines by the names of agents.
    pub(crate) agent_lines: Vec<(String, usize)>,
    addressed: Option<Option<Owner>>,
    addressed_line: usize,
}

impl Thread {
    pub(crate) fn new(
        sentences: Vec<Sentence>,
        people: People,
        lines: usize,
        agents: Vec<(String, usize)>,
    ) -> Self {
        let mut first_of_line = vec![sentences.len(); lines + 1];
        for (at, sentence) in sentences.iter().enumerate().rev() {
            first_of_line[sentence.line] = at;
        }
        for line in (0..lines).rev() {
            first_of_line[line] = first_of_line[line].min(first_of_line[line + 1]);
        }
        let mut words_of_line = vec![0; lines];
        for sentence in &sentences {
            words_of_line[sentence.line] += sentence.words();
        }
        let mut thread = Self {
            words_of_line,
            sentences,
            people,
            first_of_line,
            matters: Vec::new(),
            tasks: Vec::new(),
            questions: Vec::new(),
            deferrals: Vec::new(),
            superseded: Vec::new(),
            dead: HashSet::new(),
            stances: BTreeMap::new(),
            taken_up: BTreeSet::new(),
            values_seen: Vec::new(),
            agent_lines: agents,
            addressed: None,
            addressed_line: usize::MAX,
        };
        for at in 0..thread.sentences.len() {
            thread.read(at);
        }
        thread
    }

    fn read(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.language == Language::Other {
            return;
        }
        if sentence.person.is_none() {
            self.hear_agent(at);
            return;
        }
        if sentence.has(Cue::Order) {
            self.sentences[at].is_hidden = true;
            return;
        }
        self.note_addressed(at);
        let is_corrected = self.correct(at);
        self.note_values(at);
        let is_question = self.sentences[at].is_question;
        let is_retracted = !is_corrected
            && !is_question
            && self.sentences[at].has(Cue::Retract)
            && self.retract(at);
        if !is_question && self.sentences[at].has(Cue::Cannot) {
            self.decline(at);
        }
        if !is_question && self.sentences[at].has(Cue::Done) {
            self.finish(at);
        }
        let is_agreed = !is_retracted && self.agree(at);
        let is_objected = !is_corrected && !is_retracted && !is_agreed && self.object(at);
        let has_task = !is_retracted && self.find_tasks(at);
        if !has_task
            && !is_retracted
            && !is_corrected
            && !is_question
            && self.sentences[at].has(Cue::Defer)
            && self.defer(at)
        {
            return;
        }
        if is_retracted {
            self.sentences[at].is_hidden = true;
            return;
        }
        let is_matter = !is_corrected
            && !is_objected
            && (self.decide(at, has_task) || (!has_task && self.propose(at, is_agreed)));
        if is_objected {
            self.stance(at);
        }
        if self.sentences[at].is_question {
            if !is_matter && !has_task {
                self.ask(at);
            }
        } else if !is_matter
            || self
                .matters
                .last()
                .is_some_and(|matter| matter.standing == Standing::Accepted)
        {
            if self.sentences[at].has(Cue::Open) && !is_matter && !has_task {
                self.questions.push(Question {
                    sentence: at,
                    is_open: true,
                    task: None,
                    matter: None,
                });
            } else if !is_corrected {
                self.answer(at);
            }
        } else {
            self.answer(at);
        }
    }

    fn note_addressed(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.line != self.addressed_line {
            self.addressed = None;
            self.addressed_line = sentence.line;
        }
        let first = (0..sentence.tokens.len().min(3)).find_map(|at| {
            let (owner, length) = self.people.named_at(sentence, at)?;
            let is_called = sentence.tokens[at].kind == super::tokens::Kind::Mention
                || sentence
                    .tokens
                    .get(at + length)
                    .is_some_and(|token| token.is(",") || token.is(":"));
            is_called.then_some(if self.people.is_agent(&sentence.tokens[at]) {
                Some(Owner::Named(String::new()))
            } else {
                owner
            })
        });
        if let Some(owner) = first {
            self.addressed = Some(owner);
        }
    }

    fn note_values(&mut self, at: usize) {
        let count = self.sentences[at].values.len();
        self.values_seen
            .extend((0..count.min(20)).map(|value| (at, value)));
    }

    // ── Agents ────────────────────────────────────────────────────────────

    fn hear_agent(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let is_suggestion = (sentence.has(Cue::Proposal)
            || sentence.has(Cue::Favour)
            || sentence.has(Cue::Decision))
            && !sentence.is_question
            && sentence.words() > 2;
        self.close_for_agent(at);
        let sentence = &self.sentences[at];
        if is_suggestion {
            let head = sentence
                .all(Cue::Proposal)
                .chain(sentence.all(Cue::Favour))
                .find(|hit| hit.at <= sentence.start() && !keeps_head(sentence, hit.at));
            let from = head.map_or(0, |hit| hit.end);
            let mut matter = self.matter(at, Standing::Open);
            matter.from = from.min(matter.to - 1);
            self.matters.push(matter);
        } else if !self.sentences[at].is_question {
            self.answer(at);
        }
    }

    /// What an agent was asked, it answers.
    fn close_for_agent(&mut self, at: usize) {
        let line = self.sentences[at].line;
        for question in self.questions.iter_mut().rev().take(4) {
            let asked = &self.sentences[question.sentence];
            let is_asked = asked.line < line
                && line - asked.line <= 2
                && asked.tokens.iter().any(|token| {
                    token.kind == super::tokens::Kind::Mention && self.people.is_agent(token)
                });
            if is_asked {
                question.is_open = false;
            }
        }
    }

    fn take_up(&mut self, agent_line: usize, by: usize) {
        self.taken_up.insert(agent_line);
        let has_matter = self
            .matters
            .iter()
            .rev()
            .take(RECENT)
            .any(|matter| self.sentences[matter.sentence].line == agent_line);
        if !has_matter {
            let first = self.first_of_line[agent_line]..self.first_of_line[agent_line + 1];
            let main = first
                .clone()
                .find(|at| self.sentences[*at].words() > 3 && !self.sentences[*at].is_question);
            if let Some(main) = main {
                let matter = self.matter(main, Standing::Open);
                self.matters.push(matter);
            }
        }
        let line = self.sentences[by].line;
        self.sentences[by].is_hidden = true;
        for matter in self.matters.iter_mut().rev().take(RECENT) {
            if self.sentences[matter.sentence].line == agent_line && matter.by.is_none() {
                matter.standing = Standing::Accepted;
                add(&mut matter.sources, line);
            }
        }
    }

    fn is_agent_line(&self, line: usize) -> bool {
        self.agent_lines
            .binary_search_by_key(&line, |(_, line)| *line)
            .is_ok()
    }

    /// "go with Vibe's plan": the last line of that agent.
    fn named_agent_line(&self, at: usize) -> Option<usize> {
        let sentence = &self.sentences[at];
        let names = |name: &str| {
            let name = name.to_lowercase();
            sentence.tokens.iter().any(|token| {
                let text = token.word.text.trim_start_matches('@');
                text == name
                    || text.strip_suffix("'s") == Some(&name)
                    || text.strip_suffix('s') == Some(&name)
            })
        };
        let before = self
            .agent_lines
            .partition_point(|(_, line)| *line < sentence.line);
        self.agent_lines[..before]
            .iter()
            .rev()
            .take(RECENT)
            .find(|(name, _)| names(name))
            .map(|(_, line)| *line)
    }

    // ── Matters ───────────────────────────────────────────────────────────

    fn matter(&self, at: usize, standing: Standing) -> Matter {
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
            answers: None,
            is_alternative: false,
            is_preference: false,
        }
    }

    fn decide(&mut self, at: usize, has_task: bool) -> bool {
        let sentence = &self.sentences[at];
        let closing = self.is_closing(at).then_some(Hit {
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
        // "Agreed." alone agrees to what was said before.
        let content =
            closing.is_some() || sentence.words() > hit.end - hit.at + 1 || sentence.words() > 4;
        let is_future = has_task
            && is_any(
                sentence.tokens[hit.at].word.text.as_str(),
                "we'll we wir on vamos",
            );
        if !is_plain || !content || is_future {
            return false;
        }
        let clause = sentence.clause_start(hit.at);
        // What was said before the clause ("Ok, …") is no part of it.
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
        self.supersede_same(at);
        self.close_questions(at);
        self.matters.push(matter);
        true
    }

    /// Where a task or the rest begins that is no part of a matter.
    fn matter_end(&self, at: usize, from: usize) -> usize {
        let sentence = &self.sentences[at];
        let cut = sentence
            .all(Cue::Promise)
            .chain(sentence.all(Cue::InsteadOf))
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

    fn is_conditional(&self, at: usize, before: usize) -> bool {
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

    /// Puts something forward; whether it did.
    fn propose(&mut self, at: usize, is_agreed: bool) -> bool {
        let sentence = &self.sentences[at];
        let person = sentence.person;
        if (sentence.has(Cue::Rhetorical)
            && sentence.values.is_empty()
            && sentence.is_question
            && sentence.words() < 7)
            || sentence.has(Cue::Undecided) && !sentence.is_question
        {
            return false;
        }
        let head = sentence
            .all(Cue::Proposal)
            .filter(|hit| sentence.clause_start(hit.at) == hit.at || hit.at <= sentence.start())
            .find(|hit| {
                let first = sentence.tokens[hit.at].word.text.as_str();
                match first {
                    "is" | "does" | "would" | "ist" | "passt" | "geht" | "how"
                        if hit.end - hit.at <= 1
                            || first == "how" && sentence.tokens[hit.end - 1].is("does") =>
                    {
                        sentence.is_question
                            && !sentence.values.is_empty()
                            && sentence.has(Cue::Works)
                            || (sentence.is_question
                                && !sentence.values.is_empty()
                                && sentence.words() <= 6
                                && matches!(first, "passt" | "geht" | "does"))
                    }
                    "can" | "können" | "podemos" => sentence.is_question,
                    _ => true,
                }
            })
            .copied();
        let favour = sentence
            .all(Cue::Favour)
            .filter(|hit| {
                !sentence.is_question
                    && sentence.clause_start(hit.at) + 1 >= hit.at
                    && !self.is_conditional(at, 0)
            })
            .max_by_key(|hit| hit.end)
            .copied();
        let is_elliptic = sentence.is_question
            && !sentence.values.is_empty()
            && (sentence.words() <= 7
                || sentence.words() <= 10 && sentence.tokens.iter().any(|token| token.is(":")))
            && !sentence.begins(Cue::Asks)
            && !sentence.tokens.iter().any(|token| {
                is_any(
                    token.word.text.as_str(),
                    "is are was did why ist war has have es est",
                )
            });
        let is_taken_up = sentence.is_question
            && sentence.words() <= 4
            && !sentence.topic.is_empty()
            && !sentence.begins(Cue::Asks)
            && !sentence.has(Cue::Rhetorical)
            && self.is_spoken_of(at);
        let is_elliptic = is_elliptic || is_taken_up;
        // "Blue!", "Monday works for me": an answer to a question is put forward.
        let answers = self.asked_before(at);
        let is_reply = !sentence.is_question
            && !is_agreed
            && answers.is_some()
            && sentence.is_first
            && !(sentence.topic.is_empty() && sentence.values.is_empty())
            && (sentence.words() <= 5
                || sentence.words() <= 8
                    && answers
                        .is_some_and(|asked| self.sentences[asked].shared(&sentence.topic) > 0))
            && !sentence.has(Cue::NoAnswer)
            && !sentence.begins(Cue::Refuse)
            && !sentence.has(Cue::Cannot);
        // "So we go with the blue one?"
        let is_asked = sentence.is_question
            && sentence.has(Cue::Decision)
            && !sentence.begins(Cue::Asks)
            && !sentence.has(Cue::Reported);
        let (from, is_preference) = match (head, favour) {
            (Some(head), _) => {
                let is_kept = keeps_head(sentence, head.at);
                (if is_kept { head.at } else { head.end }, false)
            }
            (None, Some(favour)) => (favour.end, true),
            _ if is_elliptic || is_asked => (sentence.start(), false),
            _ if is_reply => (sentence.start(), true),
            _ => return false,
        };
        let is_negative = sentence.all(Cue::Not).any(|hit| hit.at == from);
        if from >= sentence.tokens.len()
            || sentence.words() < 1
            || (from + 1 >= sentence.tokens.len() && sentence.is_mark(from))
        {
            return false;
        }
        let is_pointing = (from..sentence.tokens.len()).all(|at| {
            sentence.is_mark(at)
                || sentence.all(Cue::It).any(|hit| hit.at == at)
                || is_any(
                    sentence.tokens[at].word.text.as_str(),
                    "do try go for with then",
                )
        });
        let is_mere = sentence.values.is_empty()
            && sentence.is_question
            && head.is_some()
            && (from..sentence.tokens.len())
                .filter(|at| !sentence.is_mark(*at))
                .count()
                < 2;
        if is_pointing || is_mere || is_negative && from == 0 {
            return false;
        }
        let is_alternative = sentence.is_question
            && sentence
                .tokens
                .iter()
                .any(|token| matches!(token.word.text.as_str(), "or" | "oder" | "o" | "ou"))
            && !sentence.values.iter().any(|value| {
                sentence
                    .tokens
                    .get(value.to)
                    .is_some_and(|token| token.is("or"))
                    && sentence
                        .tokens
                        .get(value.to + 1)
                        .is_some_and(|token| token.is("so"))
            });
        let is_question = sentence.is_question;
        let mut matter = self.matter(at, Standing::Open);
        matter.from = from;
        matter.to = self.matter_end(at, from);
        matter.answers = answers;
        matter.is_alternative = is_alternative;
        matter.is_preference = is_preference;
        if let Some(person) = person {
            self.stances.insert(person, (at, from));
        }
        // "Yes, let's do Monday" repeats what was agreed.
        if is_agreed
            && let Some(agreed) = self
                .matters
                .iter_mut()
                .rev()
                .take(RECENT)
                .find(|matter| matter.standing == Standing::Accepted)
        {
            let old = &self.sentences[agreed.sentence];
            let new = &self.sentences[at];
            let has_other = new.values.iter().any(|value| {
                old.values
                    .iter()
                    .any(|other| other.sort == value.sort && other.key != value.key)
            });
            if !has_other
                && (old.shared(&new.topic) > 0
                    || new
                        .values
                        .iter()
                        .any(|value| old.values.iter().any(|other| other.key == value.key)))
            {
                return true;
            }
        }
        if is_question {
            let matter_at = self.matters.len();
            self.questions.push(Question {
                sentence: at,
                is_open: true,
                task: None,
                matter: (!is_alternative).then_some(matter_at),
            });
        }
        if !is_preference {
            self.find_change(&mut matter, at);
        }
        if is_preference {
            matter.to = self.phrase_end(at, from, matter.to);
        }
        self.matters.push(matter);
        true
    }

    /// A proposal of another value than something agreed has: it changes that once it is accepted.
    fn find_change(&self, matter: &mut Matter, at: usize) {
        let new = &self.sentences[at];
        let old = self.matters.iter().rev().take(RECENT).find_map(|old| {
            if !matches!(old.standing, Standing::Accepted | Standing::Open) || old.sentence == at {
                return None;
            }
            let sentence = &self.sentences[old.sentence];
            let is_close = new.line - sentence.line <= 2 * REPLY_REACH;
            let is_bare = new.topic.is_empty() || sentence.topic.is_empty();
            let is_same = sentence.shared(&new.topic) > 0
                || new.has(Cue::HandOver)
                || new.has(Cue::Correct)
                || is_close && is_bare;
            let pair =
                new.values.iter().enumerate().find_map(|(new_at, value)| {
                    Some((sentence.counterpart(value, new)?, new_at))
                })?;
            is_same.then_some((old.sentence, pair.0, at, pair.1))
        });
        matter.changes = old.or_else(|| self.find_due(at));
    }

    /// The due date of a task close before that a proposal would change.
    fn find_due(&self, at: usize) -> Option<(usize, usize, usize, usize)> {
        let new = &self.sentences[at];
        if !new.topic.is_empty() {
            return None;
        }
        let close = self.tasks.iter().rev().take(8).find(|task| {
            let said = task.sources.last().copied().unwrap_or_default();
            task.is_live && task.due.is_some() && new.line - said.min(new.line) <= 2
        })?;
        let (sentence, due) = close.due?;
        let old = &self.sentences[sentence];
        let value = new.values.iter().position(|value| {
            value.date.is_some()
                && value.key != old.key(due)
                && value.sort.replaces(&old.values[due].sort)
        })?;
        Some((sentence, due, at, value))
    }

    /// Whether a matter or a choice close before has one of the words.
    fn is_spoken_of(&self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let is_close = |other: usize| {
            let said = &self.sentences[other];
            other < at
                && sentence.line - said.line <= 2 * REPLY_REACH
                && said.shared(&sentence.topic) > 0
        };
        let matters = self
            .matters
            .iter()
            .rev()
            .take(RECENT)
            .map(|matter| matter.sentence);
        let questions = self
            .questions
            .iter()
            .rev()
            .take(4)
            .map(|question| question.sentence);
        matters.chain(questions).any(is_close)
    }

    /// Behind "ok," or "great, then".
    fn content_start(&self, at: usize) -> usize {
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

    /// Where a reason or an aside begins behind a preference; words such as "too" at its end are left out.
    fn phrase_end(&self, at: usize, from: usize, to: usize) -> usize {
        let sentence = &self.sentences[at];
        let mut end = (from + 1..to)
            .find(|at| sentence.all(Cue::Aside).any(|hit| hit.at == *at))
            .unwrap_or(to);
        let is_filler = |at: usize| {
            let entry = sentence.tokens[at].known();
            sentence.is_mark(at)
                || entry.is_some_and(|entry| entry.fillers.contains(&sentence.language))
        };
        while end > from + 1 && is_filler(end - 1) {
            end -= 1;
        }
        end
    }

    /// "Svelte it is", "Granada then": closes what was spoken of.
    fn is_closing(&self, at: usize) -> bool {
        const THEN: [&str; 4] = ["then", "entonces", "alors", "dann"];
        let sentence = &self.sentences[at];
        let mut from = sentence.start();
        while let Some(hit) = sentence.all(Cue::Agree).find(|hit| hit.at == from) {
            from = hit.end;
            while from < sentence.tokens.len() && sentence.is_mark(from) {
                from += 1;
            }
        }
        let words: Vec<&str> = sentence.tokens[from..]
            .iter()
            .map(|token| token.word.text.as_str())
            .filter(|text| text.chars().any(char::is_alphanumeric))
            .collect();
        let is_open = sentence.is_question || sentence.has(Cue::If) || sentence.has(Cue::Undecided);
        if is_open || words.len() > 9 {
            return false;
        }
        let is_then = |word: Option<&&str>| word.is_some_and(|word| THEN.contains(word));
        let is_closed = matches!(words.as_slice(), [.., "it", "is"])
            || is_then(words.last())
            || (words.len() <= 5 && is_then(words.first()));
        let is_value = !sentence.values.is_empty() && sentence.topic.is_empty();
        is_closed && (is_value || self.is_spoken_of(at))
    }

    /// The question that a decision closes, whoever asked it.
    fn chosen(&mut self, at: usize) -> Option<usize> {
        let asked = self.choice_before(at, |_| true)?;
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if question.sentence == asked {
                question.is_open = false;
            }
        }
        Some(asked)
    }

    /// A question of somebody else right before, that asks for a choice.
    fn asked_before(&self, at: usize) -> Option<usize> {
        let person = self.sentences[at].person;
        self.choice_before(at, |asker| asker != person)
    }

    fn choice_before(&self, at: usize, fits: impl Fn(Option<usize>) -> bool) -> Option<usize> {
        let sentence = &self.sentences[at];
        self.questions
            .iter()
            .rev()
            .take(4)
            .map(|question| question.sentence)
            .find(|asked| {
                let asked_sentence = &self.sentences[*asked];
                let is_choice = asked_sentence.tokens.iter().any(|token| {
                    is_any(token.word.text.as_str(), "when which where or wann welche welcher welches welchen wo oder cuándo cuál \
dónde o quand quel quelle où ou what how wie was qué cuánto cuántos combien")
                }) && asked_sentence.tokens.iter().any(|token| {
                    token.word.text.as_str() == "or"
                        || token.known().is_some_and(|entry| {
                            entry.phrases.iter().any(|phrase| phrase.cue == Cue::We)
                        })
                });
                fits(asked_sentence.person)
                    && sentence.line - asked_sentence.line <= REPLY_REACH
                    && is_choice
            })
    }

    fn stance(&mut self, at: usize) {
        if let Some(person) = self.sentences[at].person {
            let start = self.sentences[at].start();
            self.stances.insert(person, (at, start));
        }
    }

    /// A later decision on the same subject with another value replaces the earlier one without saying so.
    fn supersede_same(&mut self, at: usize) {
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
            for (new_at, value) in new.values.iter().enumerate() {
                if let Some(old_at) = old.counterpart(value, new) {
                    pairs.push((matter.sentence, old_at, at, new_at));
                }
            }
        }
        for (old, old_at, new, new_at) in pairs {
            self.replace(old, old_at, new, new_at);
        }
        // The same said again stands once.
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

    fn close_questions(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            let common = asked.shared(&sentence.topic);
            if common > 0 && common * 2 >= asked.topic.len() {
                question.is_open = false;
            }
        }
    }

    // ── Agreement and objection ───────────────────────────────────────────

    fn agree(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let start = sentence.start();
        let line_start = self.first_of_line[sentence.line] == at;
        let opening = line_start && sentence.begins(Cue::Agree);
        let words = sentence.words();
        let is_short = words <= 14;
        let is_proposing = sentence.all(Cue::Proposal).any(|hit| {
            !is_any(
                &sentence.tokens[hit.at].word.text,
                "is does would ist passt geht ça",
            )
        });
        let works = is_short
            && sentence.has(Cue::Works)
            && (!is_proposing
                || sentence
                    .tokens
                    .iter()
                    .any(|token| token.is("let's") || token.is("lets")));
        let named = self.named_agent_line(at).filter(|_| {
            sentence.has(Cue::Works)
                || sentence.has(Cue::Agree)
                || sentence.has(Cue::Decision)
                || sentence
                    .tokens
                    .iter()
                    .any(|token| is_any(token.word.text.as_str(), "with mit con avec like"))
        });
        let has_but = sentence
            .tokens
            .iter()
            .any(|token| is_any(token.word.text.as_str(), "but aber pero mais unless unter"))
            && (sentence.has(Cue::Object)
                || sentence.has(Cue::Refuse)
                || sentence.has(Cue::If)
                || sentence.has(Cue::Favour)
                || sentence.has(Cue::Not)
                || sentence.has(Cue::Undecided)
                || sentence.is_question);
        let negated = sentence.tokens.iter().take(start + 6).any(|token| {
            is_any(
                token.word.text.as_str(),
                "not doesn't don't can't nicht pas isn't won't never kein cannot",
            )
        }) || (sentence.tokens.iter().any(|token| token.is("no"))
            && !sentence.has(Cue::Agree)
            && !sentence.has(Cue::Works));
        let first = sentence
            .tokens
            .get(start)
            .map_or("", |token| token.word.text.as_str());
        let is_no_problem = is_any(
            first,
            "no keine sin pas aucune spricht why warum pourquoi not",
        ) && opening;
        let is_asking = sentence.is_question && (words <= 3 || !opening);
        let is_unsure = (sentence.has(Cue::Object) && !is_no_problem)
            || sentence.has(Cue::Hedge) && words > 2 && !opening;
        if has_but
            || is_asking
            || is_unsure
            || (negated && !is_no_problem && !opening)
            || (!opening && !works && named.is_none())
        {
            return false;
        }
        let me = sentence.person;
        let line = sentence.line;
        if let Some(agent_line) = named {
            self.take_up(agent_line, at);
            return true;
        }
        if opening
            && negated
            && !is_no_problem
            && words < 7
            && !sentence.tokens.iter().any(|t| t.is(","))
        {
            return false;
        }
        let in_reach = |said: usize| said < line && line - said <= REPLY_REACH;
        let newest_matter = self
            .matters
            .iter()
            .rev()
            .take(RECENT)
            .filter(|matter| {
                matter.standing != Standing::Dropped && matter.by != me && !matter.is_alternative
            })
            .map(|matter| {
                let own = self.sentences[matter.sentence].line;
                let reworded = matter.reworded.as_ref().and(matter.sources.last());
                reworded.copied().unwrap_or(own)
            })
            .filter(|said| in_reach(*said))
            .max();
        let newest_task = self
            .tasks
            .iter()
            .rev()
            .take(RECENT)
            .filter(|task| {
                let is_other = self.sentences[task.sentence].person != me;
                let is_mine = task.owner == me.map(Owner::Person) || task.owner.is_none();
                is_other
                    && !task.is_confirmed
                    && match task.sort {
                        TaskSort::Request | TaskSort::Assigned => is_mine,
                        TaskSort::Offer => true,
                        TaskSort::Promise | TaskSort::WhoAsks => false,
                    }
            })
            .map(|task| self.sentences[task.sentence].line)
            .filter(|said| in_reach(*said))
            .max();
        let newest_question = self
            .questions
            .iter()
            .rev()
            .take(RECENT)
            .filter(|question| {
                question.is_open
                    && question.task.is_none()
                    && question.matter.is_none()
                    && self.sentences[question.sentence].person != me
            })
            .map(|question| self.sentences[question.sentence].line)
            .filter(|said| in_reach(*said))
            .max();
        let newest = newest_matter.max(newest_task).max(newest_question);
        // Right behind an agent's line without a suggestion: "yes, let's do that".
        let has_suggestion = self.matters.iter().rev().take(RECENT).any(|matter| {
            matter.by.is_none()
                && matter.standing == Standing::Open
                && in_reach(self.sentences[matter.sentence].line)
        });
        if line > 0
            && self.is_agent_line(line - 1)
            && newest.is_none_or(|newest| newest < line - 1)
            && !has_suggestion
        {
            let is_clear = sentence.has(Cue::Works)
                || sentence.tokens.iter().any(|token| {
                    is_any(
                        token.word.text.as_str(),
                        "do go machen hagamos faisons yes ja sí oui agreed",
                    )
                });
            if is_clear {
                self.take_up(line - 1, at);
                return true;
            }
            return false;
        }
        let Some(newest) = newest else {
            return opening;
        };
        if newest_task == Some(newest) {
            self.confirm(at, newest);
        }
        if newest_question == Some(newest) {
            self.close_line(newest);
        }
        if newest_matter == Some(newest) {
            // Other values than the proposal has are a proposal of their own.
            let has_other = self.matters.iter().rev().take(RECENT).any(|matter| {
                let old = &self.sentences[matter.sentence];
                let new = &self.sentences[at];
                old.line == newest
                    && matter.reworded.is_none()
                    && new
                        .values
                        .iter()
                        .any(|value| old.values.iter().any(|other| other.sort == value.sort))
                    && !new.values.iter().any(|value| {
                        old.values.iter().any(|other| {
                            let edited = old.edits.iter().find(|edit| edit.from == other.from);
                            other.key == value.key
                                || edited.is_some_and(|edit| edit.key == value.key)
                        })
                    })
            });
            if has_other && !(opening && self.sentences[at].has(Cue::Promise)) {
                return false;
            }
            self.accept_line(newest, at);
        }
        true
    }

    fn accept_line(&mut self, said: usize, at: usize) {
        let me = self.sentences[at].person;
        let line = self.sentences[at].line;
        let mut changes = Vec::new();
        let first = self.matters.len().saturating_sub(RECENT);
        let mut accepted_agent = None;
        let mut accepted = Vec::new();
        for index in first..self.matters.len() {
            let matter = &mut self.matters[index];
            let at_line = self.sentences[matter.sentence].line;
            let is_there = at_line == said
                || (matter.reworded.is_some() && matter.sources.last() == Some(&said));
            if !is_there
                || matter.by == me
                || matter.standing == Standing::Dropped
                || matter.is_alternative
            {
                continue;
            }
            if matter.standing == Standing::Contested && matter.contested_by != me {
                continue;
            }
            if matter.standing == Standing::Open
                && let Some(change) = matter.changes.take()
            {
                changes.push((index, change));
            }
            matter.standing = Standing::Accepted;
            matter.contested_by = None;
            add(&mut matter.sources, line);
            if matter.by.is_none() {
                accepted_agent = Some(at_line);
            }
            accepted.push(matter.sentence);
            accepted.extend(matter.answers);
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if accepted.contains(&question.sentence) {
                question.is_open = false;
            }
        }
        for sentence in accepted {
            self.close_questions(sentence);
            self.drop_alternatives(sentence);
        }
        self.taken_up.extend(accepted_agent);
        for (index, (old, old_at, new, new_at)) in changes {
            let is_known = self
                .matters
                .iter()
                .rev()
                .take(RECENT)
                .any(|matter| matter.sentence == old && matter.standing == Standing::Accepted)
                || self
                    .tasks
                    .iter()
                    .rev()
                    .take(RECENT)
                    .any(|task| task.sentence == old);
            self.replace(old, old_at, new, new_at);
            if is_known {
                self.matters[index].standing = Standing::Dropped;
            } else {
                for matter in self.matters.iter_mut().rev().take(RECENT) {
                    if matter.sentence == old && matter.reworded.is_none() {
                        matter.standing = Standing::Dropped;
                    }
                }
            }
        }
    }

    /// Other values that were proposed for the same, and not accepted.
    fn drop_alternatives(&mut self, accepted: usize) {
        let said = &self.sentences[accepted];
        let mut dropped = Vec::new();
        for matter in self.matters.iter_mut().rev().take(RECENT) {
            let other = &self.sentences[matter.sentence];
            let has_other_value = other.values.iter().any(|value| {
                let is_other = |own: &Value| own.sort == value.sort && own.key != value.key;
                said.values.iter().any(is_other)
            });
            let is_close = matter.sentence < accepted && said.line - other.line <= REPLY_REACH;
            if matter.standing == Standing::Open && other.is_question && has_other_value && is_close
            {
                matter.standing = Standing::Dropped;
                dropped.push(matter.sentence);
            }
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            let is_close = asked.line < said.line && said.line - asked.line <= REPLY_REACH;
            let is_answered = question.matter.is_none()
                && asked.values.iter().any(|value| {
                    let is_other = |own: &Value| own.sort == value.sort && own.key != value.key;
                    said.values.iter().any(is_other)
                });
            if dropped.contains(&question.sentence) || is_close && is_answered {
                question.is_open = false;
            }
        }
    }

    fn close_line(&mut self, line: usize) {
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if self.sentences[question.sentence].line == line && question.task.is_none() {
                question.is_open = false;
            }
        }
    }

    fn confirm(&mut self, at: usize, said: usize) {
        let me = self.sentences[at].person;
        let line = self.sentences[at].line;
        let due = self.sentences[at]
            .values
            .iter()
            .position(|value| value.date.is_some());
        for task in self.tasks.iter_mut().rev().take(RECENT) {
            let sentence = &self.sentences[task.sentence];
            if sentence.line != said
                || sentence.person == me
                || matches!(task.sort, TaskSort::Promise | TaskSort::WhoAsks)
                || task.is_confirmed
            {
                continue;
            }
            if task.sort == TaskSort::Offer {
                task.is_live = true;
                task.is_confirmed = true;
                add(&mut task.sources, line);
                continue;
            }
            let is_mine = task.owner.is_none() || task.owner == me.map(Owner::Person);
            if is_mine {
                task.owner = me.map(Owner::Person);
                task.is_live = true;
                task.is_confirmed = true;
                add(&mut task.sources, line);
                if let Some(due) = due {
                    task.due = Some((at, due));
                }
            }
        }
    }

    /// "No", "wait", "I disagree"; whether it struck something.
    fn object(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        if sentence.is_question && sentence.words() < 3 {
            return false;
        }
        let line_start = self.first_of_line[sentence.line] == at;
        let is_refusal = line_start && sentence.begins(Cue::Refuse);
        let objection = sentence.all(Cue::Object).next();
        if !is_refusal && objection.is_none() {
            return false;
        }
        let me = sentence.person;
        let line = sentence.line;
        let in_reach = |said: usize, reach: usize| said < line && line - said <= reach;
        let newest_question = self
            .questions
            .iter()
            .rev()
            .take(RECENT)
            .filter(|question| {
                question.is_open
                    && question.matter.is_none()
                    && self.sentences[question.sentence].person != me
            })
            .map(|question| self.sentences[question.sentence].line)
            .filter(|said| in_reach(*said, REPLY_REACH))
            .max();
        let newest_request = self
            .tasks
            .iter()
            .rev()
            .take(RECENT)
            .filter(|task| {
                !task.is_confirmed
                    && self.sentences[task.sentence].person != me
                    && (task.owner == me.map(Owner::Person)
                        || (task.owner.is_none() && task.sort == TaskSort::Request)
                        || task.sort == TaskSort::Offer)
                    && task.sort != TaskSort::WhoAsks
            })
            .map(|task| self.sentences[task.sentence].line)
            .filter(|said| in_reach(*said, REPLY_REACH))
            .max();
        let reach = if objection.is_some() {
            3 * REPLY_REACH
        } else {
            REPLY_REACH
        };
        let candidates: Vec<(usize, usize, usize)> = self
            .matters
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, matter)| {
                matches!(
                    matter.standing,
                    Standing::Open | Standing::Accepted | Standing::Contested
                )
            })
            .filter(|(_, matter)| objection.is_some() || matter.by != me)
            .map(|(index, matter)| {
                let said = *matter.sources.last().unwrap_or(&0);
                let own = self.sentences[matter.sentence].line;
                (
                    index,
                    said.max(own),
                    self.sentences[matter.sentence].shared(&sentence.topic),
                )
            })
            .filter(|(_, said, _)| in_reach(*said, reach))
            .collect();
        let best = candidates
            .iter()
            .filter(|(_, _, common)| *common > 0)
            .max_by_key(|(index, ..)| *index)
            .or_else(|| {
                candidates
                    .iter()
                    .max_by_key(|(index, said, _)| (*said, *index))
            })
            .copied();
        let newest_matter = best.map(|(_, said, _)| said);
        if newest_request > newest_matter && newest_request >= newest_question {
            if is_refusal {
                let said = newest_request.unwrap_or_default();
                for task in self.tasks.iter_mut().rev().take(RECENT) {
                    if self.sentences[task.sentence].line == said
                        && !task.is_confirmed
                        && task.owner.as_ref().is_none_or(|owner| {
                            Some(owner) == me.map(Owner::Person).as_ref()
                                || task.sort == TaskSort::Offer
                        })
                    {
                        task.is_live = false;
                        task.owner = None;
                    }
                }
            }
            return is_refusal;
        }
        if newest_question > newest_matter {
            if is_refusal && !self.sentences[at].has(Cue::NoAnswer) {
                self.close_line(newest_question.unwrap_or_default());
            }
            return false;
        }
        let Some((index, said, _)) = best else {
            return false;
        };
        let proposal_line = self.sentences[self.matters[index].sentence].line;
        let is_late = line - said > REPLY_REACH && self.sentences[at].topic.is_empty();
        if is_late {
            return false;
        }
        let first = self.matters.len().saturating_sub(RECENT);
        for matter in &mut self.matters[first..] {
            if self.sentences[matter.sentence].line == proposal_line
                && matter.standing != Standing::Dropped
            {
                matter.standing = Standing::Contested;
                matter.contested_by = me;
            }
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if self.sentences[question.sentence].line == proposal_line {
                question.is_open = false;
            }
        }
        true
    }

    /// Takes back what was said last, or what shares its subject.
    fn retract(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let Some(hit) = sentence.all(Cue::Retract).next() else {
            return false;
        };
        let line = sentence.line;
        let text = sentence.tokens[hit.at].word.text.as_str();
        let is_pointing = sentence.tokens[hit.at..].iter().any(|token| {
            is_any(
                token.word.text.as_str(),
                "that it this das es eso ça mind nevermind nvm doch all lo",
            )
        }) || text.starts_with("olv")
            || text.starts_with("déja")
            || text.starts_with("deja");
        // "Never mind, …", with nothing that it is about.
        let is_whole = sentence.clause_start(hit.at) == hit.at
            && sentence.is_mark(
                sentence
                    .all(Cue::Retract)
                    .map(|hit| hit.end)
                    .min()
                    .unwrap_or(0),
            );
        let score = |topic: &[u32]| shared(topic, &sentence.topic);
        let matter = self
            .matters
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, matter)| matter.standing != Standing::Dropped)
            .map(|(index, matter)| {
                (
                    score(&self.sentences[matter.sentence].topic),
                    self.sentences[matter.sentence].line,
                    index,
                )
            })
            .max_by_key(|(score, line, index)| (*score, *line, *index));
        let task = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, task)| task.is_live)
            .map(|(index, task)| {
                (
                    score(&task.topic),
                    *task.sources.last().unwrap_or(&0),
                    index,
                )
            })
            .max_by_key(|(score, line, index)| (*score, *line, *index));
        let near = |said: usize| line - said <= 2 * REPLY_REACH;
        let fits = |found: &(usize, usize, usize)| {
            found.0 > 0
                || (is_pointing && near(found.1) && sentence.topic.len() < 2)
                || (is_whole && near(found.1))
        };
        let matter = matter.filter(fits);
        let task = task.filter(fits);
        match (matter, task) {
            (Some(matter), Some(task)) if (task.0, task.1) > (matter.0, matter.1) => {
                self.tasks[task.2].is_live = false;
            }
            (Some(matter), _) => {
                self.matters[matter.2].standing = Standing::Dropped;
                let gone = self.matters[matter.2].sentence;
                self.sentences[gone].is_hidden = true;
                // What was to be done for it goes with it.
                if let Some(task) = task.filter(|task| task.0 > 0) {
                    self.tasks[task.2].is_live = false;
                }
            }
            (None, Some(task)) => {
                self.tasks[task.2].is_live = false;
                let gone = self.tasks[task.2].sentence;
                self.sentences[gone].is_hidden = true;
            }
            (None, None) => return false,
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            if asked.shared(&self.sentences[at].topic) > 0 {
                question.is_open = false;
            }
        }
        true
    }

    // ── Questions, deferrals ──────────────────────────────────────────────

    fn ask(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let is_idle = (sentence.has(Cue::Rhetorical) && sentence.words() <= 9)
            || sentence.words() < 2
            || sentence.topic.is_empty() && sentence.values.is_empty();
        if !is_idle {
            self.questions.push(Question {
                sentence: at,
                is_open: true,
                task: None,
                matter: None,
            });
        }
    }

    fn answer(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        if sentence.has(Cue::NoAnswer) || sentence.is_question {
            return;
        }
        let is_agent = sentence.person.is_none();
        let line_words = self.words_of_line[sentence.line];
        let mut asked_at: BTreeMap<usize, usize> = BTreeMap::new();
        for question in self.questions.iter().rev().take(RECENT) {
            *asked_at
                .entry(self.sentences[question.sentence].line)
                .or_default() += usize::from(question.is_open && question.matter.is_none());
        }
        for question in self.questions.iter_mut().rev().take(RECENT) {
            let asked = &self.sentences[question.sentence];
            if asked.line + ANSWER_REACH < sentence.line {
                break;
            }
            let is_replaced = question.matter.is_some()
                && sentence.line > asked.line
                && sentence.line - asked.line <= 2
                && sentence
                    .values
                    .iter()
                    .any(|value| asked.counterpart(value, sentence).is_some());
            if is_replaced {
                question.is_open = false;
            }
            if !question.is_open
                || asked.person == sentence.person
                || asked.line >= sentence.line
                || question.task.is_some()
                || question.matter.is_some()
            {
                continue;
            }
            let distance = sentence.line - asked.line;
            let common = asked.shared(&sentence.topic);
            let is_one_of_many = asked_at.get(&asked.line).is_some_and(|count| *count > 1);
            let is_next = distance == 1
                && (!is_one_of_many || common > 0)
                && asked.is_question
                && line_words <= ANSWER_WORDS_MAX
                && !is_agent
                && !sentence.has(Cue::Correct);
            let is_pointing =
                asked.topic.len() < 2 && asked.has(Cue::It) && distance == 1 && !is_agent;
            let is_about = asked.is_question && (is_pointing || common > 0 && distance <= 3);
            let is_surely = common > 1;
            let is_valued = distance <= 2 && asks_for_value(asked, sentence);
            if is_next || is_about || is_surely || is_valued {
                question.is_open = false;
            }
        }
    }

    fn defer(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let line = sentence.line;
        let Some(hit) = sentence.all(Cue::Defer).next() else {
            return false;
        };
        if sentence
            .values
            .iter()
            .any(|value| value.date.is_some() && !value.key.starts_with("rn"))
            || sentence.has(Cue::If)
            || sentence.has(Cue::Reported)
        {
            return false;
        }
        let is_weak = hit.end - hit.at == 1
            && is_any(
                sentence.tokens[hit.at].word.text.as_str(),
                "later später luego irgendwann backlog parked postponed",
            );
        let is_proposing =
            sentence.has(Cue::Proposal) || sentence.has(Cue::Decision) || sentence.has(Cue::We);
        if is_weak && !is_proposing && sentence.words() > 6 {
            return false;
        }
        let in_cue = |at: usize| {
            sentence
                .all(Cue::Defer)
                .any(|hit| (hit.at..hit.end).contains(&at))
        };
        let own: Vec<u32> = sentence
            .tokens
            .iter()
            .enumerate()
            .filter(|(at, _)| !in_cue(*at))
            .filter_map(|(_, token)| token.word.stem)
            .collect();
        let is_pointing = own.is_empty();
        let mut deferral = Deferral {
            sentence: at,
            sources: vec![line],
        };
        let target = self
            .questions
            .iter()
            .map(|question| question.sentence)
            .rev()
            .take(RECENT)
            .chain(
                self.matters
                    .iter()
                    .rev()
                    .take(RECENT)
                    .map(|matter| matter.sentence),
            )
            .filter(|target| {
                let said = &self.sentences[*target];
                let mut topic = own.clone();
                topic.sort_unstable();
                line - said.line <= REPLY_REACH
                    && if is_pointing {
                        true
                    } else {
                        said.shared(&topic) > 0
                    }
            })
            .max();
        let target = match target {
            None if is_pointing => {
                let before = at.checked_sub(1).filter(|before| {
                    let said = &self.sentences[*before];
                    line - said.line <= 2 && said.person.is_some() && said.words() > 2
                });
                let Some(before) = before else {
                    return false;
                };
                Some(before)
            }
            target => target,
        };
        if let Some(target) = target {
            add(&mut deferral.sources, self.sentences[target].line);
            if is_pointing {
                deferral.sentence = target;
            }
            for question in self.questions.iter_mut().rev().take(RECENT) {
                if question.sentence == target {
                    question.is_open = false;
                }
            }
            for matter in self.matters.iter_mut().rev().take(RECENT) {
                if matter.sentence == target {
                    matter.standing = Standing::Dropped;
                }
            }
            for task in self.tasks.iter_mut().rev().take(RECENT) {
                if task.sentence == target {
                    task.is_live = false;
                }
            }
        }
        self.deferrals.push(deferral);
        true
    }

    // ── Tasks ─────────────────────────────────────────────────────────────

    fn find_tasks(&mut self, at: usize) -> bool {
        let addressed = self.addressed.clone();
        let me = self.sentences[at].person;
        let line = self.sentences[at].line;
        let before = (self.first_of_line[line.saturating_sub(2)]..at)
            .rev()
            .take(POINTING_REACH)
            .find_map(|before| {
                self.sentences[before]
                    .person
                    .filter(|person| Some(*person) != me)
            });
        let hearers = tasks::Hearers {
            addressed: addressed.as_ref(),
            before,
        };
        let drafts = tasks::drafts(&self.sentences[at], &self.people, hearers);
        let mut has_task = false;
        for draft in drafts.into_iter().take(6) {
            let sentence = &self.sentences[at];
            let is_promise = matches!(draft.sort, TaskSort::Promise | TaskSort::Assigned);
            let clause = sentence.clause_start(draft.from.saturating_sub(1));
            let is_told = sentence
                .all(Cue::Reported)
                .any(|hit| hit.at < draft.from && sentence.tokens[hit.at..draft.from].len() < 8);
            let is_hedged = is_promise
                && sentence
                    .all(Cue::Hedge)
                    .any(|hit| hit.at + 6 >= clause && hit.at < draft.to + 2);
            let is_conditional = draft.sort != TaskSort::WhoAsks
                && self.is_conditional(at, draft.from)
                && !(draft.sort == TaskSort::Request && sentence.is_question);
            let is_negated = sentence.tokens.get(draft.from).is_some_and(|token| {
                matches!(token.word.text.as_str(), "not" | "never" | "nicht" | "pas")
            });
            let is_past = draft.sort == TaskSort::Promise
                && sentence.has(Cue::Done)
                && sentence
                    .all(Cue::Done)
                    .any(|hit| hit.at < draft.from && hit.end + 3 > draft.from);
            if is_told || is_hedged || is_conditional || is_negated || is_past {
                has_task |= is_conditional || is_hedged;
                continue;
            }
            has_task |= self.take(at, draft);
        }
        has_task
    }

    /// The task or sentence that "it" stands for.
    fn antecedent(&self, at: usize, owner: Option<&Owner>) -> (Option<usize>, Option<usize>) {
        let sentence = &self.sentences[at];
        let line = sentence.line;
        let task = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, task)| {
                line - task.sources.last().copied().unwrap_or(line).min(line) <= REPLY_REACH
            })
            .filter(|(_, task)| task.owner.as_ref() != owner || !task.is_confirmed)
            // What is still nobody's comes first.
            .max_by_key(|(index, task)| (!task.is_live || !task.is_confirmed, *index))
            .map(|(index, _)| index);
        let before = (self.first_of_line[line.saturating_sub(3)]..at)
            .rev()
            .take(POINTING_REACH)
            .find(|before| {
                let said = &self.sentences[*before];
                said.person.is_some()
                    && said.person != sentence.person
                    && said.words() > 2
                    && !said.is_hidden
            });
        let task = task.filter(|task| {
            let own = &self.tasks[*task];
            let is_free = !own.is_live || !own.is_confirmed;
            is_free || self.sentences[at].has(Cue::HandOver)
        });
        (task, before)
    }

    fn take(&mut self, at: usize, draft: Draft) -> bool {
        let sentence = &self.sentences[at];
        let line = sentence.line;
        let me = sentence.person.map(Owner::Person);
        let is_own = draft.sort == TaskSort::Promise;
        let due = draft.due.map(|due| (at, due));
        if draft.is_anaphoric {
            return self.take_over(at, &draft, due);
        }
        let topic = self.topic_of(at, &draft);
        let is_handed = sentence.has(Cue::HandOver);
        let same = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .find(|(_, task)| {
                let common = shared(&task.topic, &topic);
                let is_close = common > 0 && common * 2 > task.topic.len().min(topic.len());
                let is_near = line - task.sources.last().copied().unwrap_or(line).min(line)
                    <= 4 * REPLY_REACH;
                let is_same_owner = task.owner == draft.owner;
                let is_free = !task.is_live || !task.is_confirmed;
                is_close
                    && is_near
                    && (is_same_owner
                        || is_free && draft.sort != TaskSort::WhoAsks
                        || is_handed
                        || draft.sort == TaskSort::Assigned)
            })
            .map(|(index, _)| index);
        if let Some(index) = same {
            let task = &mut self.tasks[index];
            let is_weaker = !is_own
                && task.is_live
                && task.is_confirmed
                && task.owner != draft.owner
                && !is_handed
                && draft.sort != TaskSort::Assigned;
            if is_weaker || matches!(draft.sort, TaskSort::Offer | TaskSort::WhoAsks) {
                return true;
            }
            if task.sort == TaskSort::WhoAsks || draft.owner.is_some() {
                task.owner.clone_from(&draft.owner);
            }
            task.is_live = draft.sort != TaskSort::Request || draft.owner.is_some();
            task.is_confirmed |= is_own;
            add(&mut task.sources, line);
            if due.is_some() {
                task.due = due;
            }
            // The words of the owner, if they say at least as much.
            if topic.len() >= task.topic.len() && (is_own || task.sort == TaskSort::WhoAsks) {
                task.draft = draft.clone();
                task.sentence = at;
                task.topic = topic;
            }
            task.sort = draft.sort;
            self.close_task_questions(index);
            return true;
        }
        let is_question = sentence.is_question;
        let is_live = match draft.sort {
            TaskSort::Promise | TaskSort::Assigned => true,
            TaskSort::Request => draft.owner.is_some() && draft.owner != me,
            TaskSort::Offer | TaskSort::WhoAsks => false,
        };
        let sort = draft.sort;
        let about = self.about(at, &draft);
        let mut sources = vec![line];
        if let Some(about) = about {
            add(&mut sources, self.sentences[about].line);
        }
        self.tasks.push(Task {
            sentence: at,
            sort,
            owner: draft.owner.clone(),
            is_live,
            is_confirmed: is_own,
            sources,
            due,
            topic,
            about,
            draft,
        });
        let index = self.tasks.len() - 1;
        if matches!(sort, TaskSort::WhoAsks)
            || (sort == TaskSort::Request && is_question && !is_live)
        {
            self.questions.push(Question {
                sentence: at,
                is_open: true,
                task: Some(index),
                matter: None,
            });
        }
        true
    }

    /// "Check it": the sentence of somebody else that "it" stands for.
    fn about(&self, at: usize, draft: &Draft) -> Option<usize> {
        let sentence = &self.sentences[at];
        let words: Vec<usize> = (draft.from..draft.to)
            .filter(|at| !draft.drops.contains(at) && !sentence.is_mark(*at))
            .collect();
        let is_pointing = words.len() <= 3
            && words.iter().skip(1).all(|at| {
                sentence.all(Cue::It).any(|hit| hit.at == *at)
                    || sentence.tokens[*at].word.stem.is_none()
            })
            && words
                .iter()
                .skip(1)
                .any(|at| sentence.all(Cue::It).any(|hit| hit.at == *at));
        if !is_pointing || draft.sort != TaskSort::Promise {
            return None;
        }
        let own = at.checked_sub(1).filter(|before| {
            let said = &self.sentences[*before];
            said.line == sentence.line && said.topic.len() > 1 && !said.is_question
        });
        if own.is_some() {
            return own;
        }
        (self.first_of_line[sentence.line.saturating_sub(2)]..at)
            .rev()
            .take(POINTING_REACH)
            .find(|before| {
                self.sentences[*before].person.is_some()
                    && self.sentences[*before].line < sentence.line
                    && self.sentences[*before].words() > 2
            })
    }

    /// "I'll do it", "Bo takes over": an earlier task gets this owner.
    fn take_over(&mut self, at: usize, draft: &Draft, due: Option<(usize, usize)>) -> bool {
        let line = self.sentences[at].line;
        let (task, before) = self.antecedent(at, draft.owner.as_ref());
        let task_line = task.map(|task| self.sentences[self.tasks[task].sentence].line);
        let before_line = before.map(|before| self.sentences[before].line);
        let is_own = draft.sort == TaskSort::Promise;
        // "ok, will do" has taken it already.
        let taken = self.tasks.iter_mut().rev().take(8).find(|task| {
            task.is_live
                && task.is_confirmed
                && task.owner == draft.owner
                && task.sources.last() == Some(&line)
        });
        if is_own && let Some(task) = taken {
            task.due = task.due.or(due);
            return true;
        }
        if let Some(index) = task
            && (before_line.is_none_or(|before| line - before <= REPLY_REACH)
                || task_line.is_some())
        {
            let task = &mut self.tasks[index];
            task.owner.clone_from(&draft.owner);
            task.is_live = true;
            task.is_confirmed = is_own;
            task.sort = draft.sort;
            add(&mut task.sources, line);
            if due.is_some() {
                task.due = due;
            }
            self.close_task_questions(index);
            return true;
        }
        if !is_own || self.sentences[at].has(Cue::HandOver) {
            return false;
        }
        let Some(before) = before.filter(|before| line - self.sentences[*before].line <= 2) else {
            return false;
        };
        let is_short = self.sentences[at].words() <= 2
            && self.sentences[at]
                .tokens
                .first()
                .is_some_and(|token| is_any(token.word.text.as_str(), "me mine yo moi ich i i'll"));
        if is_short {
            return false;
        }
        let mut sources = vec![line];
        add(&mut sources, self.sentences[before].line);
        let topic = self.sentences[before].topic.clone();
        self.tasks.push(Task {
            sentence: at,
            draft: draft.clone(),
            sort: TaskSort::Promise,
            owner: draft.owner.clone(),
            is_live: true,
            is_confirmed: true,
            sources,
            due,
            topic,
            about: Some(before),
        });
        true
    }

    fn close_task_questions(&mut self, index: usize) {
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if question.task == Some(index) {
                question.is_open = false;
            }
        }
    }

    fn topic_of(&self, at: usize, draft: &Draft) -> Vec<u32> {
        let sentence = &self.sentences[at];
        let mut topic: Vec<u32> = (draft.from..draft.to)
            .filter(|at| !draft.drops.contains(at))
            .filter_map(|at| sentence.tokens[at].word.stem)
            .collect();
        topic.sort_unstable();
        topic.dedup();
        topic
    }

    /// "Already done!": what was just asked for or promised is no task any more.
    fn finish(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let me = sentence.person.map(Owner::Person);
        let line = sentence.line;
        let is_short = sentence.words() <= 4;
        let is_already = sentence
            .tokens
            .iter()
            .any(|token| is_any(&token.word.text, "already schon bereits ya déjà"));
        let done = self.tasks.iter_mut().rev().take(RECENT).find(|task| {
            let said = task.sources.last().copied().unwrap_or_default();
            let is_same = shared(&task.topic, &sentence.topic) > 0;
            let is_meant = task.owner == me && is_short || is_already && is_same;
            task.is_live && is_meant && line - said.min(line) <= REPLY_REACH
        });
        if let Some(task) = done {
            task.is_live = false;
            task.is_confirmed = true;
        }
    }

    /// "I can't do it after all": the speaker's task goes.
    fn decline(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let Some(me) = sentence.person.map(Owner::Person) else {
            return;
        };
        let line = sentence.line;
        let mine = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .filter(|(_, task)| {
                task.is_live && task.owner.as_ref() == Some(&me)
                    || (task.owner.is_none()
                        && task.sort == TaskSort::Request
                        && self.sentences[task.sentence].person != sentence.person)
            })
            .map(|(index, task)| {
                let said = task.sources.last().copied().unwrap_or_default();
                (shared(&task.topic, &sentence.topic), said, index)
            })
            .max();
        let Some((common, said, index)) = mine else {
            return;
        };
        let is_pointing = sentence.has(Cue::It) || sentence.topic.len() < 3;
        let is_asked = line - said <= 3 && !self.tasks[index].is_confirmed;
        if common > 0
            || (is_pointing
                && line - said <= 4 * REPLY_REACH
                && !sentence.values.iter().any(|value| value.date.is_some()))
            || is_asked
        {
            let task = &mut self.tasks[index];
            task.is_live = false;
            task.is_confirmed = false;
            // So that "it" finds it.
            add(&mut task.sources, line);
        }
    }
}

/// "When …?" and a day, "How many …?" and a number.
fn asks_for_value(asked: &Sentence, said: &Sentence) -> bool {
    let asks = |words: &str| {
        asked
            .tokens
            .iter()
            .any(|token| is_any(&token.word.text, words))
    };
    let gives = |fits: fn(&Sort) -> bool| said.values.iter().any(|value| fits(&value.sort));
    let is_when = asks("when wann cuándo quand time uhr date")
        && gives(|sort| !matches!(sort, Sort::Amount(_) | Sort::Version));
    let is_much = asks(
        "much many cost costs long kostet viel viele teuer lange cuánto cuántos cuesta combien coûte",
    ) && gives(|sort| matches!(sort, Sort::Amount(_)));
    asked.values.is_empty() && (is_when || is_much)
}

fn keeps_head(sentence: &Sentence, at: usize) -> bool {
    let first = sentence.tokens[at].word.text.as_str();
    let second = sentence
        .tokens
        .get(at + 1)
        .map_or("", |token| token.word.text.as_str());
    match first {
        "on" => !matches!(second, "devrait" | "pourrait" | "peut"),
        _ => {
            is_any(
                first,
                "machen nehmen treffen gehen passt bleiben fahren verschieben ist geht is does \
would quedamos usemos hagamos vayamos quedemos pongamos dejemos nos os te les \
lanzamos hacemos usamos faisons prenons partons utilisons gardons disons ça \
einigen sagen we",
            ) && second != "should"
                && second != "could"
                && second != "might"
        }
    }
}

pub(crate) fn add(sources: &mut Vec<usize>, line: usize) {
    if sources.len() < SOURCES_MAX && !sources.contains(&line) {
        sources.push(line);
    }
}
