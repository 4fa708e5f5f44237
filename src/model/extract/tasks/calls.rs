//! Requests for tasks: "@bo can you …?", "Who can …?".

use super::super::{
    Owner, cues::Cue, cues::Form, cues::LEXICON, cues::Language, sentence::Hit, sentence::is_any,
    tokens::Kind,
};
use super::{Draft, Finder, TaskSort, german::german_verb};

impl Finder<'_> {
    pub(super) fn request(&self, at: usize) -> Option<Draft> {
        if self.sentence.all(Cue::Rhetorical).any(|hit| hit.at == at) {
            return None;
        }
        // "@bo send …", "Bo: please send …"
        if let Some(draft) = self.vocative(at) {
            return Some(draft);
        }
        let hit = self.hit(at, Cue::Request)?;
        if self.text(hit.end - 1) == "if" {
            // "It would be great if Bo could …"
            let (owner, length) = self.people.named_at(self.sentence, hit.end)?;
            let could = hit.end + length;
            let verb = self.skip_fillers(could + 1);
            let is_asked = is_any(self.text(could), "could can would might")
                && self.work(verb, Form::Infinitive).is_some()
                && !self.people.is_agent(&self.sentence.tokens[hit.end]);
            return is_asked.then(|| Draft::new(TaskSort::Request, owner, verb));
        }
        let (owner, to) = self.addressee(hit);
        let is_statement = is_any(self.text(at), "you you'll i du tienes debes tu necesito");
        if is_statement && owner.is_none() && !self.sentence.is_question {
            return None;
        }
        let verb = self.skip_marks(self.skip_fillers(to));
        let mut draft = Draft::new(TaskSort::Request, owner.flatten(), verb);
        if is_any(self.text(hit.end - 1), "mind minding")
            && let Some(infinitive) = self.gerund(verb)
        {
            infinitive.clone_into(&mut draft.lead);
            draft.from = verb + 1;
            return Some(draft);
        }
        if self.ends(verb) {
            return None;
        }
        if self.reads_like_a_task(&mut draft, hit) {
            return Some(draft);
        }
        None
    }

    /// "Calling": returns the action verb "call".
    fn gerund(&self, at: usize) -> Option<&'static str> {
        let stem = self.text(at).strip_suffix("ing")?;
        let mut short = stem.chars();
        short.next_back();
        let forms = [
            stem.to_owned(),
            format!("{stem}e"),
            short.as_str().to_owned(),
        ];
        let work = forms.iter().filter_map(|form| LEXICON.get(form.as_str()));
        work.flat_map(|entry| entry.work.iter())
            .find(|(language, _, form)| *language == Language::English && *form == Form::Infinitive)
            .map(|(_, infinitive, _)| *infinitive)
    }

    pub(super) fn skip_marks(&self, mut at: usize) -> usize {
        while at < self.sentence.tokens.len()
            && (self.text(at) == ","
                || self.sentence.tokens[at].kind == Kind::Mention
                || self.text(at) == ":")
        {
            at += 1;
        }
        self.skip_fillers(at)
    }

    /// Builds a task from the words after a request, by the rules of the language.
    pub(super) fn reads_like_a_task(&self, draft: &mut Draft, hit: &Hit) -> bool {
        let verb = draft.from;
        match self.sentence.language {
            Language::English => {
                let has_work = self.work(verb, Form::Infinitive).is_some();
                let is_please = matches!(self.text(hit.at), "please" | "pls" | "plz" | "kindly");
                let is_idle =
                    self.is_idle(verb) && !is_any(self.text(verb), "join keep leave let have");
                has_work
                    || (!is_please
                        && !is_idle
                        && self
                            .sentence
                            .tokens
                            .get(verb)
                            .is_some_and(|t| t.kind == Kind::Word))
            }
            Language::German => self.shape_german(draft, Some(hit)),
            Language::Spanish => self.shape_romance(
                draft,
                hit,
                "se encarga|te encargas",
                "Encargarse",
                "Ocuparse",
            ),
            Language::French => self.shape_romance(draft, hit, "", "Se charger", "S'occuper"),
            Language::Other => false,
        }
    }

    /// Addressee of a request, and the start of its words.
    pub(super) fn addressee(&self, hit: &Hit) -> (Option<Option<Owner>>, usize) {
        let sentence = self.sentence;
        let mut to = hit.end;
        let mut found: Vec<Option<Owner>> = Vec::new();
        let mut at = 0;
        while at < sentence.tokens.len() {
            let Some((owner, length)) = self.people.named_at(sentence, at) else {
                at += 1;
                continue;
            };
            let is_mention = sentence.tokens[at].kind == Kind::Mention;
            let before = at.checked_sub(1).map_or("", |at| self.text(at));
            let after = self.text(at + length);
            let is_called = match at {
                at if at + length <= hit.at => {
                    is_mention
                        || matches!(after, "," | ":")
                        || at + length == hit.at
                        || matches!(before, "and" | "und" | "y" | "et")
                }
                at if at == hit.end || (at == hit.end + 1 && before == ",") => {
                    is_mention || matches!(after, ",") || before == ","
                }
                at => {
                    let is_last =
                        (at + length..sentence.tokens.len()).all(|at| sentence.is_mark(at));
                    is_last && before == ","
                        || (is_last
                            && is_mention
                            && !is_any(
                                before,
                                "to for with an für mit a para con à pour avec from and",
                            ))
                }
            };
            if is_called {
                let is_agent = self.people.is_agent(&sentence.tokens[at]);
                if is_agent {
                    // The request is addressed to an agent, so it is not a person's task.
                    found.push(Some(Owner::Named(String::new())));
                } else {
                    found.push(owner);
                }
                if at == hit.end {
                    to = at + length;
                }
            }
            at += length;
        }
        found.dedup();
        match found.as_slice() {
            [] => (self.hearers.addressed.cloned(), to),
            [one] => (Some(one.clone()), to),
            _ => (Some(None), to),
        }
    }

    /// "@bo send the slides", "Bo, send the slides", "Bo: the slides".
    pub(super) fn vocative(&self, at: usize) -> Option<Draft> {
        let sentence = self.sentence;
        if sentence.is_question || sentence.clause_start(at) != at {
            return None;
        }
        let (owner, length) = self.people.named_at(sentence, at)?;
        let owner = owner.filter(|_| !self.people.is_agent(&sentence.tokens[at]))?;
        let is_mention = sentence.tokens[at].kind == Kind::Mention;
        let mark = self.text(at + length);
        let skip = usize::from(is_any(mark, ", : - – — →"));
        let verb = self.skip_fillers(at + length + skip);
        if Some(&owner) == self.speaker().as_ref() || !(is_mention || skip == 1) {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Request, Some(owner), verb);
        match sentence.language {
            Language::English => {
                let is_work = self.work(verb, Form::Infinitive).is_some()
                    && !is_any(self.text(verb + 1), "is was are looks of , please")
                    && !sentence.is_mark(verb + 1);
                is_work.then_some(draft)
            }
            Language::German => {
                // In "@bo schick die Folien", the imperative is the stem.
                let text = self.text(verb);
                let infinitive = german_verb(text)?;
                (infinitive.starts_with(text) && !sentence.is_mark(verb + 1)).then(|| {
                    draft.from = verb + 1;
                    infinitive.clone_into(&mut draft.tail);
                    draft
                })
            }
            Language::Spanish | Language::French => {
                let infinitive = self.work(verb, Form::Third)?;
                infinitive.clone_into(&mut draft.lead);
                draft.from = verb + 1;
                (!sentence.is_mark(verb + 1)).then_some(draft)
            }
            Language::Other => None,
        }
    }

    pub(super) fn who_asks(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::WhoAsks)?;
        let is_start =
            self.sentence.clause_start(at) == at || self.text(at.saturating_sub(1)) == "¿";
        let is_asked = self.sentence.is_question
            || is_any(self.text(at), "someone somebody jemand alguien quelqu'");
        if !is_start || !is_asked {
            return None;
        }
        let verb = self.skip_fillers(hit.end);
        let mut draft = Draft::new(TaskSort::WhoAsks, None, verb);
        let bare = hit.end - hit.at == 1;
        match self.sentence.language {
            Language::English => {
                if bare {
                    // "Who books the room?"
                    let third = self.text(verb).strip_suffix('s')?;
                    let entry = LEXICON
                        .get(third)
                        .or_else(|| LEXICON.get(third.strip_suffix('e')?))?;
                    let (_, infinitive, _) = entry.work.iter().find(|(language, _, form)| {
                        *language == Language::English && *form == Form::Infinitive
                    })?;
                    (*infinitive).clone_into(&mut draft.lead);
                    draft.from = verb + 1;
                } else if self.text(hit.end - 1) == "takes" {
                    "take".clone_into(&mut draft.lead);
                } else if is_any(self.text(verb), "be know see say think have") {
                    return None;
                }
                Some(draft)
            }
            Language::German => {
                if bare {
                    let infinitive = self.work(verb, Form::Third)?;
                    infinitive.clone_into(&mut draft.tail);
                    draft.from = verb + 1;
                    Some(draft)
                } else {
                    self.shape_german(&mut draft, Some(hit)).then_some(draft)
                }
            }
            Language::Spanish => {
                if bare {
                    let infinitive = self.work(verb, Form::Third)?;
                    infinitive.clone_into(&mut draft.lead);
                    draft.from = verb + 1;
                    return Some(draft);
                }
                self.shape_romance(&mut draft, hit, "", "Encargarse", "Ocuparse")
                    .then_some(draft)
            }
            Language::French => {
                if bare {
                    let infinitive = self.work(verb, Form::Third)?;
                    infinitive.clone_into(&mut draft.lead);
                    draft.from = verb + 1;
                    return Some(draft);
                }
                self.shape_romance(&mut draft, hit, "", "Se charger", "S'occuper")
                    .then_some(draft)
            }
            Language::Other => None,
        }
    }

    pub(super) fn offer(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::Offer)?;
        if !self.sentence.is_question || self.sentence.clause_start(at) != at {
            return None;
        }
        let verb = self.skip_fillers(hit.end);
        let mut draft = Draft::new(TaskSort::Offer, self.speaker(), verb);
        let fits = match self.sentence.language {
            Language::German => self.shape_german(&mut draft, None),
            Language::English => self.work(verb, Form::Infinitive).is_some(),
            _ => self.infinitive_of(verb).is_some(),
        };
        fits.then_some(draft)
    }
}
