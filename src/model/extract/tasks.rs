//! What a sentence says that somebody will do, or asks somebody to do.

use super::{
    Owner,
    cues::{Cue, Form, Language},
    people::People,
    sentence::{Hit, Sentence, is_any},
    tokens::{Kind, Token},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSort {
    /// The owner's own word.
    Promise,
    /// Counts once somebody accepts.
    Offer,
    /// Somebody else asks the owner, or anybody who answers.
    Request,
    /// Somebody else says that the owner will.
    Assigned,
    /// "Who can …?"
    WhoAsks,
}

/// A task as its sentence words it.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) sort: TaskSort,
    pub(crate) owner: Option<Owner>,
    /// Tokens that say what is to be done.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Words before and behind them that make it a phrase.
    pub(crate) lead: String,
    pub(crate) tail: String,
    /// Tokens left out of it.
    pub(crate) drops: Vec<usize>,
    /// Stands for what was spoken of before: "I'll do it".
    pub(crate) is_anaphoric: bool,
    /// A position in the values of the sentence.
    pub(crate) due: Option<usize>,
}

/// Whom a sentence can speak to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hearers<'a> {
    /// Whom an earlier sentence of the message names.
    pub(crate) addressed: Option<&'a Option<Owner>>,
    /// Who spoke right before.
    pub(crate) before: Option<usize>,
}

/// Everything that one sentence says of tasks.
pub(crate) fn drafts(sentence: &Sentence, people: &People, hearers: Hearers<'_>) -> Vec<Draft> {
    if sentence.language == Language::Other {
        return Vec::new();
    }
    let finder = Finder {
        sentence,
        people,
        hearers,
    };
    let mut starts: Vec<Draft> = Vec::new();
    let mut at = 0;
    while at < sentence.tokens.len() {
        match finder.draft(at) {
            Some(draft) => {
                at = draft.from.max(at + 1);
                starts.push(draft);
            }
            None => at += 1,
        }
    }
    let bounds: Vec<usize> = starts.iter().map(|draft| finder.bound(draft)).collect();
    let mut found = Vec::new();
    for (index, mut draft) in starts.into_iter().enumerate() {
        let end = bounds
            .get(index + 1)
            .copied()
            .unwrap_or(sentence.tokens.len());
        if finder.finish(&mut draft, end) {
            found.push(draft);
        }
    }
    found
}

impl Draft {
    fn new(sort: TaskSort, owner: Option<Owner>, from: usize) -> Self {
        Self {
            sort,
            owner,
            from,
            to: from,
            lead: String::new(),
            tail: String::new(),
            drops: Vec::new(),
            is_anaphoric: false,
            due: None,
        }
    }
}

struct Finder<'a> {
    sentence: &'a Sentence,
    people: &'a People,
    hearers: Hearers<'a>,
}

impl Finder<'_> {
    fn text(&self, at: usize) -> &str {
        self.sentence
            .tokens
            .get(at)
            .map_or("", |token| &token.word.text)
    }

    fn hit(&self, at: usize, cue: Cue) -> Option<&Hit> {
        self.sentence
            .hits
            .iter()
            .find(|hit| hit.cue == cue && hit.at == at)
    }

    fn speaker(&self) -> Option<Owner> {
        self.sentence.person.map(Owner::Person)
    }

    /// Where the words of a draft begin, its subject included.
    fn bound(&self, draft: &Draft) -> usize {
        let mut at = self.sentence.clause_start(draft.from);
        if at == draft.from && at > 0 {
            at -= 1;
        }
        at
    }

    /// The verb of work at `at`: its infinitive.
    fn work(&self, at: usize, form: Form) -> Option<&'static str> {
        let entry = self.sentence.tokens.get(at)?.known()?;
        entry
            .work
            .iter()
            .find(|(language, _, has)| *language == self.sentence.language && *has == form)
            .map(|(_, infinitive, _)| *infinitive)
    }

    fn is_idle(&self, at: usize) -> bool {
        let entry = self.sentence.tokens.get(at).and_then(Token::known);
        entry.is_some_and(|entry| entry.idle.contains(&self.sentence.language))
    }

    fn is_filler(&self, at: usize) -> bool {
        let entry = self.sentence.tokens.get(at).and_then(Token::known);
        entry.is_some_and(|entry| entry.fillers.contains(&self.sentence.language))
    }

    fn skip_fillers(&self, mut at: usize) -> usize {
        while self.is_filler(at) && !(self.text(at) == "to" && at + 1 >= self.sentence.tokens.len())
        {
            at += 1;
        }
        at
    }

    /// Nothing but marks, fillers and dates from here to the end of the clause.
    fn ends(&self, mut at: usize) -> bool {
        loop {
            if self.sentence.is_mark(at) {
                return true;
            }
            let value = self
                .sentence
                .values
                .iter()
                .find(|value| value.lead <= at && at < value.to);
            let is_end =
                self.hit(at, Cue::Aside).is_some() || is_any(self.text(at), "and und y et if");
            if is_end {
                return true;
            }
            match value {
                Some(value) => at = value.to,
                None if self.hit(at, Cue::HandOver).is_some() => {
                    at = self.hit(at, Cue::HandOver).map_or(at + 1, |hit| hit.end);
                }
                None if self.is_filler(at) => at += 1,
                None => return false,
            }
        }
    }

    /// A task whose words begin behind the token at `at`.
    fn draft(&self, at: usize) -> Option<Draft> {
        self.take_on(at)
            .or_else(|| self.request(at))
            .or_else(|| self.who_asks(at))
            .or_else(|| self.offer(at))
            .or_else(|| self.promise(at))
            .or_else(|| match self.sentence.language {
                Language::English => self.english(at),
                Language::German => self.german(at),
                Language::Spanish => self.spanish(at),
                Language::French => self.french(at),
                Language::Other => None,
            })
            .or_else(|| self.named(at))
    }

    fn take_on(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::TakeOn)?;
        let is_fragment =
            hit.end - hit.at <= 2 && is_any(self.text(at), "i i'll me mine yo moi ich je on");
        let is_alone = self.sentence.clause_start(at) == at && self.ends(hit.end);
        if self.sentence.is_question || (is_fragment && !is_alone) || !self.ends(hit.end) {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
        draft.is_anaphoric = true;
        Some(draft)
    }

    fn promise(&self, at: usize) -> Option<Draft> {
        let hit = self.hit(at, Cue::Promise)?;
        if self.sentence.is_question {
            return None;
        }
        let first = self.text(at);
        let needs_start = is_any(first, "will happy gladly let lass");
        if needs_start && self.sentence.clause_start(at) != at {
            return None;
        }
        let verb = self.skip_fillers(hit.end);
        if self.sentence.language == Language::German {
            return self.german_infinitive(verb, TaskSort::Promise, self.speaker());
        }
        if self.sentence.is_mark(verb) || self.is_idle_phrase(verb) {
            return None;
        }
        let is_work =
            self.work(verb, Form::Infinitive).is_some() || self.infinitive_of(verb).is_some();
        let is_certain = !needs_start && self.sentence.language == Language::English;
        (is_certain || is_work).then(|| Draft::new(TaskSort::Promise, self.speaker(), verb))
    }

    /// "be there", "have lunch", "get there": promises nothing.
    fn is_idle_phrase(&self, verb: usize) -> bool {
        let (verb_text, next) = (self.text(verb), self.text(verb + 1));
        match verb_text {
            "have" => !(verb..self.sentence.tokens.len())
                .any(|at| matches!(self.text(at), "look" | "ready" | "done" | "finished")),
            "keep" => is_any(next, "you it an in that my"),
            "get" => is_any(next, "there home in lunch it off a"),
            "do" => matches!((next, self.text(verb + 2)), ("my", "best")) || next == "fine",
            "take" => {
                matches!(next, "a" | "the")
                    && is_any(
                        self.text(verb + 2),
                        "train bus day break nap seat blue metro",
                    )
            }
            "check" | "look" if matches!(next, "in" | "forward") && self.ends(verb + 2) => true,
            "go" => !matches!(next, "through" | "over" | "and"),
            "give" => matches!(next, "up" | "it"),
            "call" => matches!(self.text(verb + 2), "day"),
            "eat" | "drink" => true,
            _ => self.is_idle(verb),
        }
    }

    fn request(&self, at: usize) -> Option<Draft> {
        if self.sentence.all(Cue::Rhetorical).any(|hit| hit.at == at) {
            return None;
        }
        // "@bo send …", "Bo: please send …"
        if let Some(draft) = self.vocative(at) {
            return Some(draft);
        }
        let hit = self.hit(at, Cue::Request)?;
        let (owner, to) = self.addressee(hit);
        let is_statement = is_any(self.text(at), "you you'll i du tienes debes tu necesito");
        if is_statement && owner.is_none() && !self.sentence.is_question {
            return None;
        }
        let verb = self.skip_marks(self.skip_fillers(to));
        let mut draft = Draft::new(TaskSort::Request, owner.flatten(), verb);
        if self.ends(verb) {
            return None;
        }
        if self.reads_like_a_task(&mut draft, hit) {
            return Some(draft);
        }
        None
    }

    fn skip_marks(&self, mut at: usize) -> usize {
        while at < self.sentence.tokens.len()
            && (self.text(at) == ","
                || self.sentence.tokens[at].kind == Kind::Mention
                || self.text(at) == ":")
        {
            at += 1;
        }
        self.skip_fillers(at)
    }

    /// Makes the words behind a request a task, in the way of the language.
    fn reads_like_a_task(&self, draft: &mut Draft, hit: &Hit) -> bool {
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

    fn shape_romance(
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
        // "envía el informe por favor": the verb stands before the cue.
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

    /// An infinitive of Spanish or French: known, or told by its ending.
    fn infinitive_of(&self, at: usize) -> Option<&str> {
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

    /// Whom a request speaks to, and where its words begin.
    fn addressee(&self, hit: &Hit) -> (Option<Option<Owner>>, usize) {
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
                    // An agent was asked: no task of a person.
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
    fn vocative(&self, at: usize) -> Option<Draft> {
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
                // "@bo schick die Folien": the imperative is the stem.
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

    fn who_asks(&self, at: usize) -> Option<Draft> {
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
                    let entry = super::cues::LEXICON
                        .get(third)
                        .or_else(|| super::cues::LEXICON.get(third.strip_suffix('e')?))?;
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

    fn offer(&self, at: usize) -> Option<Draft> {
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

    fn english(&self, at: usize) -> Option<Draft> {
        if self.sentence.is_question {
            return None;
        }
        // "… and you take the photos"
        if self.text(at) == "you" && at > 0 && self.sentence.clause_start(at) == at {
            let owner = Owner::Person(self.hearers.before?);
            let is_work = self.work(at + 1, Form::Infinitive).is_some() && !self.ends(at + 2);
            return is_work.then(|| Draft::new(TaskSort::Assigned, Some(owner), at + 1));
        }
        let hit = self.hit(at, Cue::CanDo)?;
        let phrase: Vec<&str> = (hit.at..hit.end).map(|at| self.text(at)).collect();
        let verb = self.skip_fillers(hit.end);
        let has_due = !self
            .sentence
            .values
            .iter()
            .all(|value| value.date.is_none());
        let is_start = self.sentence.clause_start(at) == at;
        let (owner, is_meant) = match phrase.as_slice() {
            ["i", "can"] | ["ill"] => (self.speaker(), true),
            ["gonna" | "can"] | ["going", "to"] => (self.speaker(), is_start),
            ["i", "take"] => {
                let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
                "take".clone_into(&mut draft.lead);
                let is_object = matches!(self.text(hit.end), "the" | "care" | "over");
                return (is_start && is_object).then_some(draft);
            }
            ["i'm", "taking"] => {
                let mut draft = Draft::new(TaskSort::Promise, self.speaker(), hit.end);
                "take".clone_into(&mut draft.lead);
                return matches!(self.text(hit.end), "the" | "care" | "over").then_some(draft);
            }
            ["we'll"] | ["we", "will"] => (
                None,
                has_due
                    && !is_any(
                        self.text(verb),
                        "ship release move start take do hire choose close open",
                    ),
            ),
            ["todo" | "to", ..] if self.text(hit.end - 1) == ":" => (None, true),
            ["i", "have" | "need" | "plan", "to"] | ["i", "must"] | ["i'm", "planning", "to"] => {
                (self.speaker(), has_due)
            }
            _ => return None,
        };
        let is_work = self.work(verb, Form::Infinitive).is_some() && !self.is_idle_phrase(verb);
        let sort = TaskSort::Promise;
        (is_meant && is_work).then(|| Draft::new(sort, owner, verb))
    }

    fn clause_end(&self, from: usize) -> usize {
        (from..self.sentence.tokens.len())
            .find(|at| {
                self.sentence.is_mark(*at)
                    && !matches!(self.text(*at), "%" | "€" | "$" | "\u{1}" | "#" | "/")
                    && !(self.text(*at) == "." && at + 1 < self.sentence.tokens.len())
            })
            .unwrap_or(self.sentence.tokens.len())
    }

    fn german_infinitive(
        &self,
        from: usize,
        sort: TaskSort,
        owner: Option<Owner>,
    ) -> Option<Draft> {
        let mut draft = Draft::new(sort, owner, from);
        self.shape_german(&mut draft, None).then_some(draft)
    }

    /// "die Folien bis Freitag schicken": ends with an infinitive; or a form before the cue becomes one.
    fn shape_german(&self, draft: &mut Draft, hit: Option<&Hit>) -> bool {
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
    fn tail_with_prefix(&self, draft: &mut Draft, end: usize, infinitive: &str) {
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

    fn german(&self, at: usize) -> Option<Draft> {
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
            let infinitive = self.work(at, Form::First)?;
            let mut draft = self.german_present(at + 2, infinitive)?;
            if at > start {
                draft.from = start;
                draft.drops.extend([at, at + 1]);
            }
            return Some(draft);
        }
        // Chatty: "schicke die Folien morgen".
        let infinitive = self.work(at, Form::First)?;
        let is_start = at == start && at == self.sentence.start() && self.sentence.is_first;
        (is_start && !self.ends(at + 1) && self.text(at + 1) != "du")
            .then(|| self.german_present(at + 1, infinitive))
            .flatten()
    }

    fn german_present(&self, from: usize, infinitive: &str) -> Option<Draft> {
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

    fn spanish(&self, at: usize) -> Option<Draft> {
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

    /// "enviaré" is "enviar".
    fn spanish_future(&self, at: usize, ending: char) -> Option<String> {
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
    fn care(&self, at: usize, verb: &str) -> Option<Draft> {
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

    fn french(&self, at: usize) -> Option<Draft> {
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
        if (self.ends(at + 1) && !is_object)
            || (is_object && !self.ends(at + 1))
            || matches!(self.text(at + 1), "pas" | "plus" | "attention")
        {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), at + 1);
        draft.is_anaphoric = is_object;
        draft.lead = infinitive;
        Some(draft)
    }

    /// "Bo will send …", "Bo übernimmt …", "Bo se encarga de …", "Bo va envoyer …".
    fn named(&self, at: usize) -> Option<Draft> {
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
                let entry = super::cues::LEXICON
                    .get(third)
                    .or_else(|| super::cues::LEXICON.get(third.strip_suffix('e')?))?;
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

    /// A capitalised word that is no member and no word of the language.
    fn stranger(&self, at: usize) -> Option<Owner> {
        let token = self.sentence.tokens.get(at)?;
        let shown = &self.sentence.text[token.from..token.to];
        let is_name = token.kind == Kind::Word
            && !token.is_quoted
            && token.word.known.is_none()
            && shown.starts_with(char::is_uppercase)
            && shown.chars().skip(1).all(char::is_lowercase)
            && shown.chars().count() > 1;
        // "Postgres will handle the load": a person does a person's work.
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

    /// Cuts a draft at the end of its words; whether something is left.
    fn finish(&self, draft: &mut Draft, limit: usize) -> bool {
        let sentence = self.sentence;
        if draft.owner == Some(Owner::Named(String::new())) {
            return false;
        }
        let from = draft.from;
        let mut to = limit.max(from).min(sentence.tokens.len());
        let is_check = |at: usize| {
            at.checked_sub(1).is_some_and(|at| {
                is_any(
                    self.text(at),
                    "check ask see find out test know verify prüfen fragen frage prüfe comprobar \
preguntar vérifier demander her",
                ) || self.people.named(&sentence.tokens[at]).is_some()
            })
        };
        for at in from..to {
            let text = self.text(at);
            let is_mark = sentence.tokens[at].kind == Kind::Mark
                && is_any(text, "? ! ; ( – — - … 。 😀 →")
                || (text == "."
                    && !sentence
                        .values
                        .iter()
                        .any(|value| value.from <= at && at < value.to))
                || (sentence.tokens[at].kind == Kind::Mark
                    && text.chars().all(|c| c as u32 > 0x2600));
            let is_aside =
                at > from && sentence.all(Cue::Aside).any(|hit| hit.at == at) && !is_check(at);
            let is_called = |at: usize| {
                sentence
                    .tokens
                    .get(at)
                    .is_none_or(|token| token.kind == Kind::Mention)
                    || self
                        .people
                        .named_at(sentence, at)
                        .is_some_and(|(_, length)| sentence.is_mark(at + length))
            };
            let is_next_sentence = text == "," && at > from && is_called(at + 1);
            if is_mark || is_aside || is_next_sentence {
                to = at;
                break;
            }
        }
        let in_range = |at: usize| draft.from <= at && at < to.max(draft.from + 1);
        // The date that is nearest behind the verb, else one before it in the clause.
        let clause = sentence.clause_start(from.saturating_sub(1));
        let dates: Vec<usize> = (0..sentence.values.len())
            .filter(|at| sentence.values[*at].date.is_some())
            .collect();
        let inside = dates
            .iter()
            .copied()
            .filter(|at| in_range(sentence.values[*at].from));
        let due = inside
            .clone()
            .find(|at| sentence.values[*at].is_deadline)
            .or_else(|| inside.clone().next_back())
            .or_else(|| {
                dates
                    .iter()
                    .copied()
                    .find(|at| (clause..from).contains(&sentence.values[*at].from))
            })
            .or_else(|| {
                let is_only = bounds_one(sentence, to);
                dates.iter().copied().find(|at| {
                    sentence.values[*at].from < from
                        && sentence.values[*at].from < clause
                        && is_only
                        && sentence.values[*at].lead == sentence.start()
                })
            });
        draft.due = due;
        if let Some(due) = due {
            let value = &sentence.values[due];
            draft
                .drops
                .extend(value.lead.max(from.min(value.lead))..value.to);
            // "at 10" behind the day stays with the task.
        }
        // Trim both ends.
        let dropped = |at: usize, draft: &Draft| draft.drops.contains(&at);
        let trims = |at: usize| {
            self.sentence.tokens[at].kind == Kind::Mark
                && !matches!(self.text(at), "%" | "€" | "$" | ")" | "\"")
                || self.is_filler(at)
                || is_any(self.text(at), "and und y et , so but aber pero mais")
        };
        while to > draft.from
            && (trims(to - 1) || dropped(to - 1, draft))
            && self.is_trimmable(to - 1)
        {
            to -= 1;
        }
        while draft.from < to && (trims(draft.from) || dropped(draft.from, draft)) {
            draft.from += 1;
        }
        draft.to = to;
        // Who is spoken to is not part of the task.
        for at in draft.from..draft.to {
            let before = at.checked_sub(1).map_or("", |at| self.text(at));
            let is_called = sentence.tokens[at].kind == Kind::Mention
                && self.people.named(&sentence.tokens[at]) == Some(draft.owner.clone())
                && draft.sort == TaskSort::Request;
            if is_called
                || (before == ","
                    && at + 1 == draft.to
                    && self.people.named_at(sentence, at).is_some())
            {
                draft.drops.push(at);
            }
        }
        for hit in sentence
            .all(Cue::HandOver)
            .filter(|hit| draft.from <= hit.at && hit.end <= draft.to)
        {
            if is_any(
                self.text(hit.at),
                "instead in for statt an à en from für por off",
            ) {
                draft.drops.extend(hit.at..hit.end);
            }
        }
        if draft.is_anaphoric {
            return true;
        }
        let left: Vec<usize> = (draft.from..draft.to)
            .filter(|at| !draft.drops.contains(at))
            .collect();
        let words: Vec<usize> = left
            .iter()
            .copied()
            .filter(|at| {
                matches!(
                    sentence.tokens[*at].kind,
                    Kind::Word | Kind::Number | Kind::Mention | Kind::Link
                )
            })
            .collect();
        if words.is_empty() {
            return false;
        }
        // "do it", "take that": what was spoken of.
        let generic = is_any(self.text(words[0]), "do take handle own cover hacerlo make")
            || matches!(
                draft.lead.as_str(),
                "take" | "hacer" | "faire" | "take over"
            )
            || matches!(draft.tail.as_str(), "machen" | "übernehmen" | "erledigen");
        let rest = &words[usize::from(draft.lead.is_empty() && draft.tail.is_empty())..];
        let is_it = |at: usize| {
            self.hit(at, Cue::It).is_some()
                || matches!(self.text(at), "over" | "care" | "of" | "too")
        };
        if generic && rest.iter().all(|at| is_it(*at)) {
            draft.is_anaphoric = true;
        }
        true
    }

    fn is_trimmable(&self, at: usize) -> bool {
        !matches!(self.text(at), "it" | "that" | "this")
            || self
                .sentence
                .tokens
                .get(at)
                .is_some_and(|token| token.kind == Kind::Mark)
            || self.text(at) == "that" && self.text(at.saturating_sub(1)) == ","
    }
}

fn bounds_one(sentence: &Sentence, _to: usize) -> bool {
    sentence.all(Cue::Promise).count() + sentence.all(Cue::Request).count() <= 1
}

fn member_is_person(owner: &Owner) -> bool {
    matches!(owner, Owner::Person(_))
}

/// "enverrai" is "envoyer": with `ai` of the speaker, with `a` of somebody.
fn french_future(text: &str, ending: &str) -> Option<String> {
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

/// The infinitive that a form of a German verb belongs to.
fn german_verb(text: &str) -> Option<&'static str> {
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
    let entry = forms
        .iter()
        .find_map(|form| super::cues::LEXICON.get(form))
        .filter(|entry| !entry.work.is_empty())?;
    entry
        .work
        .iter()
        .find(|(language, ..)| *language == Language::German)
        .map(|(_, infinitive, _)| *infinitive)
}
