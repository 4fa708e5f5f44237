//! What a sentence says that somebody will do, or asks somebody to do.

mod calls;
mod claims;
mod german;
mod named;
mod phrase;
mod promises;
mod romance;

pub(crate) use self::claims::begins_row;

use super::{
    Owner, cues::Cue, cues::Form, cues::Language, people::People, sentence::Hit,
    sentence::Sentence, sentence::is_any, tokens::Token,
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
    /// Up to this token nothing else is looked for.
    pub(crate) resume: usize,
    /// The verb says it all: "je conduis".
    pub(crate) is_whole: bool,
}

/// Whom a sentence can speak to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hearers<'a> {
    /// Whom an earlier sentence of the message names.
    pub(crate) addressed: Option<&'a Option<Owner>>,
    /// Who spoke right before.
    pub(crate) before: Option<usize>,
    /// The message is a list of who does what.
    pub(crate) is_list: bool,
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
                at = draft.from.max(at + 1).max(draft.resume);
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
            resume: 0,
            is_whole: false,
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
        self.row(at)
            .or_else(|| self.claim(at))
            .or_else(|| self.take_on(at))
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
}
