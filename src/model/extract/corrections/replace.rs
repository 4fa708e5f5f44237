//! Effects of a correction on earlier statements.

use super::super::{
    Superseded, sentence::Edit, sentence::Sentence, thread::Matter, thread::Standing,
    thread::Thread, thread::add,
};
use super::{surface, surface_of};

impl Thread {
    /// Corrects a statement that holds; if it is only someone else's proposal, adds another proposal.
    pub(super) fn change(&mut self, old: usize, old_at: usize, new: usize, new_at: usize) -> bool {
        let me = self.sentences[new].person;
        let line = self.sentences[new].line;
        let pending = self.matters.iter().rev().take(60).find(|matter| {
            matter.sentence == old
                && matter.standing == Standing::Open
                && matter.by != me
                && matter.reworded.is_none()
        });
        let is_task = self
            .tasks
            .iter()
            .rev()
            .take(60)
            .any(|task| task.sentence == old);
        let Some(pending) = pending.filter(|_| !is_task) else {
            self.replace(old, old_at, new, new_at);
            return true;
        };
        let sentence = &self.sentences[old];
        let value = &sentence.values[old_at];
        let surface_new = surface_of(&self.sentences[new], new_at);
        let before = sentence.rendered(pending.from, value.from.max(pending.from), |_| false);
        let after = sentence.rendered(value.to, pending.to, |_| false);
        let reworded = format!("{before} {surface_new} {after}")
            .replace(" ?", "?")
            .replace(" .", ".");
        let mut sources = vec![sentence.line];
        add(&mut sources, line);
        let matter = Matter {
            sentence: old,
            from: pending.from,
            to: pending.to,
            standing: Standing::Open,
            by: me,
            contested_by: None,
            sources,
            reworded: Some(reworded.trim().to_owned()),
            answers: pending.answers,
            is_alternative: false,
            is_preference: false,
            changes: Some((old, old_at, new, new_at)),
            renames: None,
        };
        self.matters.push(matter);
        if let Some(me) = me {
            let start = self.sentences[new].start();
            self.stances.insert(me, (new, start));
        }
        for question in self.questions.iter_mut().rev().take(60) {
            if question.sentence == old {
                question.is_open = false;
            }
        }
        true
    }

    /// Replaces the old value with the new one wherever the subject is the same.
    pub(crate) fn replace(&mut self, old: usize, old_at: usize, new: usize, new_at: usize) {
        let me = self.sentences[new].person;
        for matter in self.matters.iter_mut().rev().take(60) {
            // An objection already states the speaker's own preference.
            if matter.sentence == old
                && matter.standing == Standing::Contested
                && matter.contested_by == me
            {
                matter.standing = Standing::Accepted;
            }
        }
        let value = self.sentences[new].values[new_at].clone();
        let text = surface(&self.sentences[new], &value);
        let key = self.key(old, old_at).to_owned();
        let sort = self.sentences[old].values[old_at].sort.clone();
        let shown = self.shown(old, old_at);
        let line = self.sentences[new].line;
        let own: Vec<u32> = self.sentences[new].topic.clone();
        let about: Vec<u32> = self.sentences[old].topic.clone();
        let is_about_other = |said: &Sentence| {
            // A correction with its own words applies to the statements that share them.
            !own.is_empty()
                && said.shared(&own) == 0
                && said.shared(&about) == 0
                && said.topic.len() > 1
        };
        let same: Vec<(usize, usize)> = self
            .seen(new)
            .filter(|(said, value)| {
                let sentence = &self.sentences[*said];
                let is_same =
                    self.key(*said, *value) == key && sentence.values[*value].sort.replaces(&sort);
                let is_later = *said > old && !is_about_other(sentence);
                let is_related = sentence.shared(&about) > 0;
                let from = sentence.values[*value].from;
                let is_same_chain = sentence
                    .edits
                    .iter()
                    .any(|edit| edit.from == from && edit.sentence == old);
                *said == old && *value == old_at
                    || is_same && (is_later || is_related || is_same_chain)
            })
            .collect();
        for (said, at) in same {
            if said != old && !self.is_held(said) {
                // Statements about the old value may not apply to the new one.
                self.sentences[said].is_hidden = true;
                continue;
            }
            let old_value = self.sentences[said].values[at].clone();
            let edit = Edit {
                from: old_value.from,
                to: old_value.to,
                text: text.clone(),
                key: value.key.clone(),
                date: value.date,
                line,
                sentence: new,
                is_bare: value.is_bare,
            };
            let sentence = &mut self.sentences[said];
            sentence.edits.retain(|edit| edit.from != old_value.from);
            sentence.edits.push(edit);
        }
        self.bury(&shown, &text, line);
    }

    pub(super) fn shown(&self, sentence: usize, value: usize) -> String {
        let sentence = &self.sentences[sentence];
        let value = &sentence.values[value];
        let edit = sentence.edits.iter().find(|edit| edit.from == value.from);
        edit.map_or_else(|| surface(sentence, value), |edit| edit.text.clone())
    }

    pub(super) fn bury(&mut self, old: &str, new: &str, line: usize) {
        let words = |text: &str| -> Vec<String> {
            text.to_lowercase()
                .split_whitespace()
                .map(|word| word.trim_end_matches(['.', ',']).to_owned())
                .collect()
        };
        let (gone, now) = (words(old), words(new));
        if gone == now {
            return;
        }
        self.dead.remove(&now);
        self.dead.insert(gone);
        self.superseded.push(Superseded {
            old: old.to_owned(),
            new: new.to_owned(),
            line,
        });
    }
}
