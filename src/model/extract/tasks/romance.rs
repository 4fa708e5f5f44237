//! Spanish and French: verb forms are converted to infinitives.

use super::super::{cues::Form, cues::Language, sentence::Hit, sentence::is_any, tokens::Kind};
use super::{Draft, Finder, TaskSort};

impl Finder<'_> {
    pub(super) fn shape_romance(
        &self,
        draft: &mut Draft,
        hit: &Hit,
        _care: &str,
        charge: &str,
        occupy: &str,
    ) -> bool {
        let phrase: Vec<&str> = (hit.at..hit.end).map(|at| self.text(at)).collect();
        let last = phrase.last().copied().unwrap_or_default();
        let is_charge = phrase
            .iter()
            .any(|word| word.starts_with("encarg") || word.starts_with("charg"));
        let is_occupy = phrase
            .iter()
            .any(|word| word.starts_with("ocup") || word.starts_with("occup"));
        if is_charge || is_occupy {
            let verb = if is_charge { charge } else { occupy };
            let joint = if is_any(last, "de del du des d'") {
                last
            } else {
                ""
            };
            format!("{verb} {joint}").trim().clone_into(&mut draft.lead);
            return true;
        }
        if self.infinitive_of(draft.from).is_some() {
            return true;
        }
        if let Some(infinitive) = self.work(draft.from, Form::Third) {
            infinitive.clone_into(&mut draft.lead);
            draft.from += 1;
            return true;
        }
        // In "envía el informe por favor", the verb comes before the cue.
        let start = self.sentence.start();
        if let Some(infinitive) = self.work(start, Form::Third)
            && start < hit.at
        {
            infinitive.clone_into(&mut draft.lead);
            draft.from = start + 1;
            draft.drops.extend(hit.at..hit.end);
            return true;
        }
        if self.infinitive_of(start).is_some() && start < hit.at {
            draft.from = start;
            draft.drops.extend(hit.at..hit.end);
            return true;
        }
        false
    }

    /// A Spanish or French infinitive, known or recognized by its ending.
    pub(super) fn infinitive_of(&self, at: usize) -> Option<&str> {
        let token = self
            .sentence
            .tokens
            .get(at)
            .filter(|token| token.kind == Kind::Word)?;
        let text = token.word.text.as_str();
        let is_verb = match self.sentence.language {
            Language::Spanish => {
                let bare = [
                    "melo", "lo", "la", "los", "las", "le", "les", "me", "te", "se", "nos", "os",
                ]
                .iter()
                .find_map(|clitic| text.strip_suffix(clitic))
                .filter(|bare| bare.len() > 3)
                .unwrap_or(text);
                [text, bare].iter().any(|text| {
                    text.len() > 3 && ["ar", "er", "ir"].iter().any(|end| text.ends_with(end))
                        || *text == "ver"
                })
            }
            Language::French => {
                text.len() > 3
                    && ["er", "ir", "re", "oir"]
                        .iter()
                        .any(|end| text.ends_with(end))
            }
            Language::English => self.work(at, Form::Infinitive).is_some(),
            _ => false,
        };
        (is_verb && !self.is_idle(at)).then_some(text)
    }

    pub(super) fn spanish(&self, at: usize) -> Option<Draft> {
        if self.sentence.is_question {
            return None;
        }
        let text = self.text(at);
        if matches!(text, "encargo" | "ocupo" | "encargaré" | "ocuparé")
            && self.text(at.wrapping_sub(1)) == "me"
        {
            return self.care(
                at,
                if text.starts_with('e') {
                    "Encargarse"
                } else {
                    "Ocuparse"
                },
            );
        }
        if text == "puedo" && self.text(at.wrapping_sub(1)) != "no" {
            let verb = self.skip_fillers(at + 1);
            let is_work =
                self.work(verb, Form::Infinitive).is_some() || self.text(verb).ends_with("lo");
            return (is_work && self.infinitive_of(verb).is_some())
                .then(|| Draft::new(TaskSort::Promise, self.speaker(), verb));
        }
        let before = at.checked_sub(1).map_or("", |at| self.text(at));
        let is_object = matches!(before, "lo" | "la" | "los" | "las");
        if let Some(infinitive) = self.spanish_future(at, 'é') {
            let mut draft = Draft::new(TaskSort::Promise, self.speaker(), at + 1);
            draft.is_anaphoric = is_object && self.ends(at + 1);
            draft.lead = infinitive;
            return (before != "no").then_some(draft);
        }
        let infinitive = self.work(at, Form::First)?;
        let start = self.sentence.clause_start(at);
        let is_start = at == start
            || before == "yo"
            || (is_any(before, "lo la los las te os le les") && at - start <= 2);
        if !is_start || (is_object && !self.ends(at + 1)) || (self.ends(at + 1) && !is_object) {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), at + 1);
        draft.is_anaphoric = is_object;
        infinitive.clone_into(&mut draft.lead);
        Some(draft)
    }

    /// "enviaré" becomes "enviar".
    pub(super) fn spanish_future(&self, at: usize, ending: char) -> Option<String> {
        let token = self
            .sentence
            .tokens
            .get(at)
            .filter(|token| token.kind == Kind::Word && !token.is_quoted)?;
        let stem = token.word.text.strip_suffix(ending)?;
        let infinitive = match stem {
            "har" => "hacer".to_owned(),
            "pondr" => "poner".to_owned(),
            "dir" => "decir".to_owned(),
            "ser" | "estar" | "ir" | "tendr" | "podr" | "querr" | "ver" | "vendr" | "habr"
            | "sabr" | "creer" | "quedar" | "llegar" | "esperar" | "pensar" => return None,
            _ if stem.chars().count() > 4
                && ["ar", "er", "ir"].iter().any(|end| stem.ends_with(end)) =>
            {
                stem.to_owned()
            }
            _ => return None,
        };
        Some(infinitive)
    }

    /// "me encargo de las bebidas".
    pub(super) fn care(&self, at: usize, verb: &str) -> Option<Draft> {
        let joint = self.text(at + 1);
        if !is_any(joint, "de del du des d'") {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), at + 2);
        draft.is_anaphoric =
            matches!(self.text(at + 2), "eso" | "ello" | "ça" | "cela") && self.ends(at + 3);
        draft.lead = format!("{verb} {joint}");
        Some(draft)
    }

    pub(super) fn french(&self, at: usize) -> Option<Draft> {
        if self.sentence.is_question {
            return None;
        }
        let text = self.text(at);
        let before = at.checked_sub(1).map_or("", |at| self.text(at));
        let second = at.checked_sub(2).map_or("", |at| self.text(at));
        if matches!(before, "m'" | "me")
            && matches!(text, "occupe" | "charge" | "occuperai" | "chargerai")
        {
            return self.care(
                at,
                if text.starts_with('o') {
                    "S'occuper"
                } else {
                    "Se charger"
                },
            );
        }
        let is_clitic = |text: &str| is_any(text, "te vous t' l' le la les lui leur");
        let is_mine =
            matches!(before, "je" | "j'") || (is_clitic(before) && matches!(second, "je" | "j'"));
        if !is_mine {
            return None;
        }
        if text == "peux" {
            let mut verb = self.skip_fillers(at + 1);
            if is_clitic(self.text(verb)) {
                verb += 1;
            }
            return (self.work(verb, Form::Infinitive).is_some() && self.text(at + 1) != "pas")
                .then(|| Draft::new(TaskSort::Promise, self.speaker(), verb));
        }
        let infinitive =
            french_future(text, "ai").or_else(|| self.work(at, Form::First).map(str::to_owned))?;
        let is_object = matches!(before, "l'" | "le" | "la" | "les");
        let is_whole = is_any(text, "conduis cuisine modère anime présente");
        if (self.ends(at + 1) && !is_object && !is_whole)
            || (is_object && !self.ends(at + 1))
            || matches!(self.text(at + 1), "pas" | "plus" | "attention")
        {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), at + 1);
        draft.is_anaphoric = is_object;
        draft.is_whole = is_whole && self.ends(at + 1);
        draft.lead = infinitive;
        Some(draft)
    }
}

/// "enverrai" becomes "envoyer": the ending `ai` for the speaker, `a` for another person.
pub(super) fn french_future(text: &str, ending: &str) -> Option<String> {
    let stem = text.strip_suffix(ending)?;
    let infinitive = match stem {
        "fer" => "faire".to_owned(),
        "enverr" => "envoyer".to_owned(),
        "préviendr" => "prévenir".to_owned(),
        "appeller" => "appeler".to_owned(),
        "achèter" => "acheter".to_owned(),
        "ser" | "aur" | "pourr" | "ir" | "saur" | "voudr" | "devr" | "verr" | "viendr"
        | "tiendr" | "rester" | "arriver" | "penser" | "aimer" | "préférer" | "faudr" => {
            return None;
        }
        _ if stem.chars().count() > 4 && (stem.ends_with("er") || stem.ends_with("ir")) => {
            stem.to_owned()
        }
        _ if stem.chars().count() > 4 && (stem.ends_with("dr") || stem.ends_with("tr")) => {
            format!("{stem}e")
        }
        _ => return None,
    };
    Some(infinitive)
}
