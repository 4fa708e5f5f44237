//! German: the verb comes last, as in "die Folien schicken".

use super::super::{
    Owner, cues::Form, cues::LEXICON, cues::Language, sentence::Hit, sentence::is_any,
};
use super::{Draft, Finder, TaskSort};

impl Finder<'_> {
    pub(super) fn clause_end(&self, from: usize) -> usize {
        (from..self.sentence.tokens.len())
            .find(|at| {
                self.sentence.is_mark(*at)
                    && !matches!(self.text(*at), "%" | "€" | "$" | "\u{1}" | "#" | "/")
                    && !(self.text(*at) == "." && at + 1 < self.sentence.tokens.len())
            })
            .unwrap_or(self.sentence.tokens.len())
    }

    pub(super) fn german_infinitive(
        &self,
        from: usize,
        sort: TaskSort,
        owner: Option<Owner>,
    ) -> Option<Draft> {
        let mut draft = Draft::new(sort, owner, from);
        self.shape_german(&mut draft, None).then_some(draft)
    }

    /// "die Folien bis Freitag schicken": ends with an infinitive; otherwise, the form before the cue is converted to
    /// one.
    pub(super) fn shape_german(&self, draft: &mut Draft, hit: Option<&Hit>) -> bool {
        let mut end = self.clause_end(draft.from);
        while end > draft.from && self.is_filler(end - 1) {
            end -= 1;
        }
        if let Some(hit) = hit {
            // "schickst du die Folien", "wer übernimmt die Folien", "@bo schick bitte die Folien"
            let head = (hit.at.saturating_sub(1)..hit.end)
                .filter(|at| {
                    !is_any(
                        self.text(*at),
                        "bitte du kannst könntest wer kann magst würdest",
                    )
                })
                .find_map(|at| german_verb(self.text(at)));
            if let Some(infinitive) = head
                && (hit.at..hit.end).any(|at| matches!(self.text(at), "du" | "wer" | "bitte"))
                && !self.ends(draft.from)
            {
                self.tail_with_prefix(draft, end, infinitive);
                if self.text(hit.end - 1) == "um" {
                    "um".clone_into(&mut draft.lead);
                }
                return true;
            }
        }
        let Some(last) = end.checked_sub(1).filter(|last| *last >= draft.from) else {
            return false;
        };
        let text = self.text(last);
        let known = self.work(last, Form::Infinitive).is_some();
        let is_infinitive =
            text.len() > 4 && ["en", "ern", "eln"].iter().any(|end| text.ends_with(end));
        let is_task = (known || is_infinitive) && !self.is_idle(last);
        if is_task {
            return true;
        }
        // "bitte schick die Folien"
        let Some(infinitive) = german_verb(self.text(draft.from)).filter(|_| hit.is_some()) else {
            return false;
        };
        draft.from += 1;
        self.tail_with_prefix(draft, end, infinitive);
        true
    }

    /// "ruft … an" is "anrufen".
    pub(super) fn tail_with_prefix(&self, draft: &mut Draft, end: usize, infinitive: &str) {
        let last = end.checked_sub(1).filter(|last| *last > draft.from);
        let prefix = last.map(|at| (at, self.text(at))).filter(|(_, text)| {
            is_any(
                text,
                "an auf aus ab ein vor mit zu nach durch um weg her hin los fest fertig zusammen \
vorbei rein raus hoch bereit zurück weiter frei bei",
            )
        });
        match prefix {
            Some((at, prefix)) => {
                draft.drops.push(at);
                draft.tail = format!("{prefix}{infinitive}");
            }
            None => infinitive.clone_into(&mut draft.tail),
        }
    }

    pub(super) fn german(&self, at: usize) -> Option<Draft> {
        if self.sentence.is_question {
            return None;
        }
        let start = self.sentence.clause_start(at);
        let is_modal = |text: &str| matches!(text, "kann" | "werde" | "könnte");
        if self.text(at) == "ich" {
            let next = self.text(at + 1);
            if is_modal(next) && next != "könnte" {
                let draft = self.german_infinitive(at + 2, TaskSort::Promise, self.speaker())?;
                let end = self.clause_end(draft.from);
                let is_work = (draft.from..end).any(|at| {
                    self.work(at, Form::Infinitive).is_some() || (next == "werde" && at + 1 == end)
                });
                return is_work.then_some(draft);
            }
            let infinitive = self.work(at + 1, Form::First).or_else(|| {
                let text = self.text(at + 1);
                (!text.ends_with('e')).then(|| german_verb(text)).flatten()
            });
            if let Some(infinitive) = infinitive {
                return self.german_present(at + 2, infinitive);
            }
        }
        // "Bis Freitag schicke ich die Folien", "Den Raum buche ich".
        if self.text(at + 1) == "ich" {
            if is_modal(self.text(at)) && self.text(at) != "könnte" && at > start {
                return self
                    .german_infinitive(at + 2, TaskSort::Promise, self.speaker())
                    .map(|mut draft| {
                        draft.from = start;
                        draft.drops.extend([at, at + 1]);
                        draft
                    });
            }
            let infinitive = self.work(at, Form::First).or_else(|| {
                let text = self.text(at);
                let is_cut = text.len() > 3 && !text.ends_with('e') && !text.ends_with("st");
                is_cut.then(|| german_verb(text)).flatten()
            })?;
            let mut draft = self.german_present(at + 2, infinitive)?;
            if at > start {
                draft.from = start;
                draft.drops.extend([at, at + 1]);
            }
            return Some(draft);
        }
        // Colloquial: "schicke die Folien morgen".
        let infinitive = self.work(at, Form::First)?;
        let is_start = at == start && at == self.sentence.start() && self.sentence.is_first;
        (is_start && !self.ends(at + 1) && self.text(at + 1) != "du")
            .then(|| self.german_present(at + 1, infinitive))
            .flatten()
    }

    pub(super) fn german_present(&self, from: usize, infinitive: &str) -> Option<Draft> {
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), from);
        let end = self.clause_end(from);
        for at in from..end.min(from + 2) {
            if self.text(at) == "mich" && infinitive == "kümmern" {
                draft.drops.push(at);
            }
        }
        let is_negated = (from..end).any(|at| is_any(self.text(at), "nicht keine kein keinen nie"));
        if is_negated
            || (infinitive == "machen" && matches!(self.text(from), "mir" | "urlaub" | "pause"))
        {
            return None;
        }
        self.tail_with_prefix(&mut draft, end, infinitive);
        if is_any(self.text(from), "das es sie darum drum") && self.ends(from + 1) {
            draft.is_anaphoric = true;
        }
        Some(draft)
    }
}

/// The infinitive of a German verb form.
pub(super) fn german_verb(text: &str) -> Option<&'static str> {
    let stem = text
        .strip_suffix("st")
        .filter(|stem| stem.len() > 2)
        .unwrap_or(text);
    let forms = [
        text.to_owned(),
        format!("{text}e"),
        format!("{stem}e"),
        format!("{stem}en"),
    ];
    forms.iter().find_map(|form| {
        let work = LEXICON.get(form)?.work.iter();
        let mut german = work.filter(|(language, ..)| *language == Language::German);
        german.next().map(|(_, infinitive, _)| *infinitive)
    })
}
