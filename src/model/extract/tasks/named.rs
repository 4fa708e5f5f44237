//! Tasks of a named person: "Bo will send …".

use super::super::{
    Owner, cues::Cue, cues::Form, cues::LEXICON, cues::Language, sentence::is_any, tokens::Kind,
};
use super::{Draft, Finder, TaskSort, romance::french_future};

impl Finder<'_> {
    /// "Bo will send …", "Bo übernimmt …", "Bo se encarga de …", "Bo va envoyer …".
    pub(super) fn named(&self, at: usize) -> Option<Draft> {
        let sentence = self.sentence;
        let start = sentence.clause_start(at);
        if sentence.is_question || at != start {
            return None;
        }
        let member = self.people.named_at(sentence, at);
        let (owner, length) = match member {
            Some((owner, length)) => (owner?, length),
            None => (self.stranger(at)?, 1),
        };
        if self.people.is_agent(&sentence.tokens[at]) {
            return None;
        }
        let is_member = member_is_person(&owner);
        let joint = at + length;
        let hit = self.hit(joint, Cue::WillDo);
        let mut draft = Draft::new(TaskSort::Assigned, Some(owner), joint);
        let first = self.text(joint);
        if !is_member && !is_any(first, "will 'll is wird übernimmt kümmert va se s' to") {
            return None;
        }
        match sentence.language {
            Language::English => {
                if let Some(hit) = hit {
                    let verb = self.skip_fillers(hit.end);
                    let is_mark = matches!(first, ":" | "-");
                    let is_soft = matches!(first, "would" | "could");
                    if matches!(first, "takes" | "handles" | "owns") && hit.end == joint + 1 {
                        first.trim_end_matches('s').clone_into(&mut draft.lead);
                        draft.from = hit.end;
                        draft.is_anaphoric =
                            matches!(self.text(hit.end), "it" | "that" | "this" | "over")
                                && self.ends(hit.end + 1);
                        return Some(draft);
                    }
                    if self.text(hit.end - 1) == "of" && first == "takes" {
                        "take care of".clone_into(&mut draft.lead);
                        draft.from = hit.end;
                        return Some(draft);
                    }
                    if first == "takes" && self.text(hit.end - 1) == "over" {
                        draft.from = hit.end;
                        draft.is_anaphoric = self.ends(hit.end) || self.text(hit.end) == "from";
                        "take over".clone_into(&mut draft.lead);
                        return Some(draft);
                    }
                    if is_soft {
                        return None;
                    }
                    draft.from = verb;
                    let is_work =
                        self.work(verb, Form::Infinitive).is_some() && !self.is_idle_phrase(verb);
                    let is_certain = is_member
                        && matches!(first, "will" | "'ll" | "is")
                        && !self.is_idle_phrase(verb)
                        && !sentence.is_mark(verb);
                    let _ = is_mark;
                    return (is_work || is_certain).then_some(draft);
                }
                // "Bo books the room."
                let third = first.strip_suffix('s')?;
                let entry = LEXICON
                    .get(third)
                    .or_else(|| LEXICON.get(third.strip_suffix('e')?))?;
                let (_, infinitive, _) = entry.work.iter().find(|(language, _, form)| {
                    *language == Language::English && *form == Form::Infinitive
                })?;
                let has_object = !self.ends(joint + 1);
                (*infinitive).clone_into(&mut draft.lead);
                draft.from = joint + 1;
                has_object.then_some(draft)
            }
            Language::German => {
                let hit_verb = self.work(joint, Form::Third);
                if let Some(infinitive) = hit_verb {
                    draft.from = joint + 1;
                    if self.text(draft.from) == "sich" {
                        draft.from += 1;
                    }
                    let end = self.clause_end(draft.from);
                    draft.is_anaphoric =
                        matches!(self.text(draft.from), "das" | "es" | "darum" | "drum")
                            && self.ends(draft.from + 1);
                    if self.ends(draft.from) && self.hit(joint, Cue::HandOver).is_none() {
                        return None;
                    }
                    draft.is_anaphoric |= self.ends(draft.from);
                    self.tail_with_prefix(&mut draft, end, infinitive);
                    return Some(draft);
                }
                let hit = hit?;
                if matches!(first, "würde" | "könnte" | "will" | "darf") {
                    return None;
                }
                draft.from = self.skip_fillers(hit.end);
                self.shape_german(&mut draft, None).then_some(draft)
            }
            Language::Spanish | Language::French => {
                let is_spanish = sentence.language == Language::Spanish;
                let (charge, occupy) = if is_spanish {
                    ("Encargarse", "Ocuparse")
                } else {
                    ("Se charger", "S'occuper")
                };
                let future = if is_spanish {
                    self.spanish_future(joint, 'á')
                } else {
                    french_future(first, "a")
                };
                if let Some(infinitive) = future {
                    draft.lead = infinitive;
                    draft.from = joint + 1;
                    return Some(draft);
                }
                if let Some(hit) = hit {
                    draft.from = self.skip_fillers(hit.end);
                    if matches!(first, "lo" | "la") {
                        draft.is_anaphoric = true;
                        draft.from = hit.end + 1;
                        return self.work(hit.end, Form::Third).map(|_| draft);
                    }
                    if self.ends(draft.from) && matches!(first, "se" | "s'") {
                        draft.is_anaphoric = true;
                        return Some(draft);
                    }
                    if first == "prend" {
                        "prendre".clone_into(&mut draft.lead);
                        return Some(draft);
                    }
                    return self
                        .shape_romance(&mut draft, hit, "", charge, occupy)
                        .then_some(draft);
                }
                let infinitive = self.work(joint, Form::Third)?;
                infinitive.clone_into(&mut draft.lead);
                draft.from = joint + 1;
                (!self.ends(joint + 1)).then_some(draft)
            }
            Language::Other => None,
        }
    }

    /// A capitalized word that is neither a member's name nor a word of the language.
    pub(super) fn stranger(&self, at: usize) -> Option<Owner> {
        let token = self.sentence.tokens.get(at)?;
        let shown = &self.sentence.text[token.from..token.to];
        let is_name = token.kind == Kind::Word
            && !token.is_quoted
            && token.word.known.is_none()
            && shown.starts_with(char::is_uppercase)
            && shown.chars().skip(1).all(char::is_lowercase)
            && shown.chars().count() > 1;
        // In "Postgres will handle the load", the verb does not describe a person's work.
        let verb = self.text(at + 2);
        let is_work = match self.sentence.language {
            Language::English => {
                self.text(at + 1) != "to"
                    && self.work(at + 2, Form::Infinitive).is_some()
                    && !is_any(
                        verb,
                        "handle run give make get create remove add move build cover finish take close \
open clear sort",
                    )
                    || self.text(at + 1) == "is"
            }
            _ => true,
        };
        (is_name && is_work).then(|| Owner::Named(shown.to_owned()))
    }
}

fn member_is_person(owner: &Owner) -> bool {
    matches!(owner, Owner::Person(_))
}
