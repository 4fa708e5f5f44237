//! Agreement: another person's proposal, request, or offer holds from then on.

use super::super::{Owner, cues::Cue, sentence::is_any, tasks::TaskSort, values::Value};
use super::{RECENT, REPLY_REACH, Standing, Thread, add};

impl Thread {
    pub(super) fn agree(&mut self, at: usize) -> bool {
        let sentence = &self.sentences[at];
        let start = sentence.start();
        let line_start = self.first_of_line[sentence.line] == at;
        // "Good question" does not express agreement.
        let is_unknowing = sentence.begins(Cue::NoAnswer);
        let opening = line_start && sentence.begins(Cue::Agree) && !is_unknowing;
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
        // "Me too" agrees with the previous speaker.
        let is_echo = words <= 4
            && sentence
                .tokens
                .iter()
                .any(|token| is_any(&token.word.text, "too auch también aussi"));
        let reach = if is_echo { 2 } else { REPLY_REACH };
        let in_reach = |said: usize| said < line && line - said <= reach;
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
                let is_mine = task.owner == me.map(Owner::Person)
                    || task.owner.is_none() && self.is_asked_of_one(task.sentence, line);
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
        // "yes, let's do that" immediately after an agent's line without a suggestion.
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
        if newest_question == Some(newest) && !self.is_left_open(newest, line) {
            self.close_line(newest);
        }
        if newest_matter == Some(newest) {
            // Values that differ from the proposal's make a separate proposal.
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

    /// Whether an unassigned request is for any one person who answers soon, rather than for everybody.
    fn is_asked_of_one(&self, asked: usize, line: usize) -> bool {
        let asked = &self.sentences[asked];
        let is_group = asked.tokens.iter().any(|token| {
            is_any(
                &token.word.text,
                "everyone everybody all alle jeder alles todos todas todo tous toutes chacun tout",
            )
        });
        !is_group && line - asked.line <= 3
    }

    /// Whether a question asks for a choice, or someone has since said that they do not know.
    fn is_left_open(&self, asked: usize, line: usize) -> bool {
        let first = self.first_of_line[asked + 1];
        let mut since = self.sentences[first..self.first_of_line[line]].iter();
        since.any(|said| said.has(Cue::NoAnswer) || said.has(Cue::Undecided))
    }

    pub(super) fn accept_line(&mut self, said: usize, at: usize) {
        let me = self.sentences[at].person;
        let line = self.sentences[at].line;
        let mut changes = Vec::new();
        let mut renames = Vec::new();
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
            if let Some((old, new)) = matter.renames.take() {
                renames.push((index, matter.sentence, old, new));
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
        for (index, sentence, old, new) in renames {
            // The statement that it changed already covers it.
            if self.rename(sentence, &old, &new) {
                self.matters[index].standing = Standing::Dropped;
            }
        }
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

    /// Other values that were proposed for the same subject and not accepted.
    pub(super) fn drop_alternatives(&mut self, accepted: usize) {
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

    pub(super) fn close_line(&mut self, line: usize) {
        for question in self.questions.iter_mut().rev().take(RECENT) {
            if self.sentences[question.sentence].line == line && question.task.is_none() {
                question.is_open = false;
            }
        }
    }

    pub(super) fn confirm(&mut self, at: usize, said: usize) {
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
}
