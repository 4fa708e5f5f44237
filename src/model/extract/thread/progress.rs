//! Changes to accepted tasks: due date, completion, and return.

use super::super::{
    Owner, cues::Cue, sentence::Sentence, sentence::is_any, sentence::shared, tasks::TaskSort,
};
use super::{RECENT, REPLY_REACH, Thread, add};

impl Thread {
    /// "Posters will be ready by Friday": a due date for a task that the speaker accepted earlier.
    pub(super) fn date_own_task(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let me = sentence.person.map(Owner::Person);
        let is_due = sentence.tokens.iter().any(|token| {
            is_any(
                token.word.text.as_str(),
                "ready need done finished fertig brauche listo lista listos listas prêt prête prêts prêtes",
            )
        });
        let due = sentence
            .held()
            .find(|(_, value)| value.date.is_some() && (value.is_deadline || is_due))
            .map(|(due, _)| due);
        let (Some(due), false) = (due, sentence.has(Cue::If) || sentence.has(Cue::Reported)) else {
            return;
        };
        let line = sentence.line;
        let topic = &sentence.topic;
        // "Sure, by Friday" after the speaker's own commitment.
        let is_answer = topic.is_empty()
            && sentence.begins(Cue::Agree)
            && sentence.words() <= 6
            && line > 0
            && self.sentences[self.first_of_line[line - 1]..at]
                .iter()
                .any(|before| before.person != sentence.person && !before.values.is_empty());
        let mine = self.tasks.iter_mut().rev().take(RECENT).find(|task| {
            let said = task.sources.last().copied().unwrap_or_default();
            let is_same =
                shared(&task.topic, topic) > 0 && line - said.min(line) <= 2 * REPLY_REACH;
            task.is_live && task.owner == me && (is_same || is_answer && line - said.min(line) <= 3)
        });
        if let Some(task) = mine {
            task.due = Some((at, due));
            add(&mut task.sources, line);
        }
    }

    /// "Already done!": completes the task that was just requested or promised.
    pub(super) fn finish(&mut self, at: usize) {
        let sentence = &self.sentences[at];
        let me = sentence.person.map(Owner::Person);
        let line = sentence.line;
        let is_short = sentence.words() <= 4;
        let is_already = sentence
            .tokens
            .iter()
            .any(|token| is_any(&token.word.text, "already schon bereits ya déjà"));
        // "I did that yesterday" in response to a request to anyone.
        let asked = self
            .tasks
            .iter()
            .enumerate()
            .rev()
            .take(4)
            .find(|(_, task)| {
                let said = self.sentences[task.sentence].line;
                let is_others = self.sentences[task.sentence].person != sentence.person;
                !task.is_live && task.owner.is_none() && is_others && line - said.min(line) == 1
            });
        if let Some(index) = asked.map(|(index, _)| index) {
            self.close_task_questions(index);
        }
        let sentence = &self.sentences[at];
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

    /// "I can't do it after all": removes the speaker's task.
    pub(super) fn decline(&mut self, at: usize) {
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
            if task.sort == TaskSort::Request && !task.is_confirmed {
                // A "yes" to someone else does not restore it.
                task.sort = TaskSort::WhoAsks;
            }
            task.is_confirmed = false;
            // Allows "it" to refer to the task.
            add(&mut task.sources, line);
        }
    }
}

/// "Already ordered", "schon bestellt": completed, unless it is "already on it".
pub(super) fn is_already(sentence: &Sentence) -> bool {
    let start = sentence.start();
    let text = |at: usize| {
        sentence
            .tokens
            .get(at)
            .map_or("", |token| token.word.text.as_str())
    };
    let at = (start..start + 3).find(|at| is_any(text(*at), "already schon bereits ya déjà"));
    let is_going_on = sentence.has(Cue::TakeOn)
        || sentence.tokens.iter().any(|token| {
            is_any(
                &token.word.text,
                "on dabei dran voy estoy dessus working doing weg da unterwegs not nicht pas no",
            )
        });
    at.is_some_and(|at| sentence.tokens.get(at + 1).is_some() && !sentence.is_mark(at + 1))
        && sentence.words() <= 4
        && !sentence.is_question
        && !is_going_on
}
