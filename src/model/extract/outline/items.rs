//! Tasks, open questions, and deferred topics.

use super::super::{Item, Point, sentence::is_any, tasks::TaskSort, thread::Task, thread::add};
use super::{
    DEFERRED_MAX, ITEM_WORDS, ITEMS_MAX, Maker, QUESTIONS_MAX, open_questions, text::capitalised,
    text::shortened, text::statement_or_question, text::without_receiver,
};

impl Maker<'_> {
    pub(super) fn items(&self) -> Vec<Item> {
        let live = self
            .thread
            .tasks
            .iter()
            .filter(|task| task.is_live && task.sort != TaskSort::WhoAsks);
        let mut items: Vec<Item> = live.filter_map(|task| self.item(task)).collect();
        items.drain(..items.len().saturating_sub(ITEMS_MAX));
        items
    }

    pub(super) fn item(&self, task: &Task) -> Option<Item> {
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

    pub(super) fn task_text(&self, task: &Task) -> Option<String> {
        let sentence = &self.thread.sentences[task.sentence];
        let draft = &task.draft;
        let (open, close) = self.phrases.quotes;
        if draft.is_anaphoric {
            let about = task.about?;
            let text = shortened(&self.thread.sentences[about].current(), 12);
            let verb = format!("{}{}", draft.lead, draft.tail);
            let is_plain = verb.contains(' ')
                || is_any(
                    &verb,
                    "take do hacer faire machen übernehmen erledigen kümmern prendre coger asumir tomar",
                );
            let lead = if verb.is_empty() || is_plain {
                self.phrases.take_care.to_owned()
            } else {
                capitalised(&verb)
            };
            return Some(format!("{lead}: {open}{text}{close}"));
        }
        let middle = sentence.rendered(draft.from, draft.to, |at| draft.drops.contains(&at));
        let middle = match sentence.person {
            // "Send me the figures": addressed to the requester.
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

    pub(super) fn questions(&self) -> Vec<Point> {
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

    pub(super) fn deferred(&self) -> Vec<Point> {
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
}
