//! Ownership of tasks: accepted, reassigned, returned, or finished.

use super::super::{
    Owner, cues::Cue, sentence::Sentence, sentence::is_any, sentence::shared, tasks, tasks::Draft,
    tasks::TaskSort,
};
use super::{POINTING_REACH, Question, RECENT, REPLY_REACH, Task, Thread, add};

impl Thread {
    pub(super) fn find_tasks(&mut self, at: usize) -> bool {
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
            is_list: self.is_list(at),
        };
        let drafts = tasks::drafts(&self.sentences[at], &self.people, hearers);
        let (mut has_task, mut is_fun) = (false, false);
        for draft in drafts.into_iter().take(6) {
            let sentence = &self.sentences[at];
            let is_promise = matches!(draft.sort, TaskSort::Promise | TaskSort::Assigned);
            let clause = sentence.clause_start(draft.from.saturating_sub(1));
            // "Bo writes the report by Friday" does not mean that Bo has written it.
            let is_verb = |end: usize| {
                let next = sentence
                    .tokens
                    .get(end)
                    .map(|token| token.word.text.as_str());
                end == draft.from
                    && draft.due.is_some()
                    && !draft.lead.is_empty()
                    && next.is_some_and(|next| is_any(next, "the a an up our his her their"))
            };
            let is_told = sentence.all(Cue::Reported).any(|hit| {
                let is_before = hit.at < draft.from && draft.from - hit.at < 8;
                is_before && !is_verb(hit.end)
            });
            let is_hedged = is_promise
                && sentence
                    .all(Cue::Hedge)
                    .any(|hit| hit.at + 6 >= clause && hit.at < draft.to + 2);
            let is_conditional = draft.sort != TaskSort::WhoAsks
                && self.is_conditional(at, draft.from)
                && !(draft.sort == TaskSort::Request
                    && (sentence.is_question
                        || sentence
                            .all(Cue::Request)
                            .any(|hit| sentence.tokens[hit.end - 1].is("if"))));
            let is_joke = draft.sort == TaskSort::Promise && has_laugh(sentence);
            let is_negated = sentence.tokens.get(draft.from).is_some_and(|token| {
                matches!(token.word.text.as_str(), "not" | "never" | "nicht" | "pas")
            });
            let is_past = draft.sort == TaskSort::Promise
                && sentence.has(Cue::Done)
                && sentence
                    .all(Cue::Done)
                    .filter(|hit| draft.lead.is_empty() || hit.end != draft.from)
                    .any(|hit| hit.at < draft.from && hit.end + 3 > draft.from);
            is_fun |= is_joke;
            if is_told || is_hedged || is_conditional || is_joke || is_negated || is_past {
                has_task |= is_conditional || is_hedged;
                continue;
            }
            has_task |= self.take(at, draft);
        }
        self.sentences[at].is_hidden |= is_fun && !has_task;
        has_task
    }

    /// Whether at least two lines of the message start with a person and a colon.
    fn is_list(&self, at: usize) -> bool {
        let line = self.sentences[at].line;
        let around = at.saturating_sub(12)..(at + 12).min(self.sentences.len());
        self.sentences[around]
            .iter()
            .filter(|said| said.line == line && tasks::begins_row(said, &self.people))
            .nth(1)
            .is_some()
    }

    /// The task or sentence that "it" refers to.
    pub(super) fn antecedent(
        &self,
        at: usize,
        owner: Option<&Owner>,
    ) -> (Option<usize>, Option<usize>) {
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
            // Unassigned tasks come first.
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

    pub(super) fn take(&mut self, at: usize, draft: Draft) -> bool {
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
            // The owner's words, if they are at least as detailed.
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
        if is_own || sort == TaskSort::Assigned {
            for question in self.questions.iter_mut().rev().take(8) {
                let asked = &self.sentences[question.sentence];
                let is_who = asked.all(Cue::WhoAsks).any(|hit| hit.at <= asked.start());
                let is_split = asked
                    .tokens
                    .iter()
                    .any(|token| is_any(token.word.text.as_str(), "what was qué quoi"));
                if is_who && asked.line <= line && line - asked.line <= 3 && is_split {
                    question.is_open = false;
                }
            }
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

    /// "Check it": the sentence by another person that "it" refers to.
    pub(super) fn about(&self, at: usize, draft: &Draft) -> Option<usize> {
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

    /// "I'll do it", "Bo takes over": assigns an earlier task to this owner.
    pub(super) fn take_over(
        &mut self,
        at: usize,
        draft: &Draft,
        due: Option<(usize, usize)>,
    ) -> bool {
        let line = self.sentences[at].line;
        let (task, before) = self.antecedent(at, draft.owner.as_ref());
        let task_line = task.map(|task| self.sentences[self.tasks[task].sentence].line);
        let before_line = before.map(|before| self.sentences[before].line);
        let is_own = draft.sort == TaskSort::Promise;
        // "ok, will do" has already assigned it.
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

    pub(super) fn close_task_questions(&mut self, index: usize) {
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if question.task == Some(index) {
                question.is_open = false;
            }
        }
    }

    pub(super) fn topic_of(&self, at: usize, draft: &Draft) -> Vec<u32> {
        let sentence = &self.sentences[at];
        let mut topic: Vec<u32> = (draft.from..draft.to)
            .filter(|at| !draft.drops.contains(at))
            .filter_map(|at| sentence.tokens[at].word.stem)
            .collect();
        topic.sort_unstable();
        topic.dedup();
        topic
    }
}

/// Whether the sentence is a joke.
fn has_laugh(sentence: &Sentence) -> bool {
    let text = sentence.text.to_lowercase();
    let fun = [
        "problem solved",
        "just kidding",
        "kidding",
        "🤣",
        "😜",
        "haha",
        "jajaja",
        "mdr",
        "quatsch mit",
    ];
    let first = text.split(|c: char| !c.is_alphanumeric()).next();
    let is_laughing = first.is_some_and(|first| {
        is_any(
            first,
            "ha hah haha hehe hihi lol rofl jaja jeje mdr ptdr xd",
        )
    });
    fun.iter().any(|fun| text.contains(fun)) || text.ends_with("lol") || is_laughing
}
