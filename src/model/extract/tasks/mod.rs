//! Tasks in a sentence: commitments and requests.

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
    /// A commitment by the owner.
    Promise,
    /// Counts when someone accepts it.
    Offer,
    /// A request by someone else to the owner, or to anyone.
    Request,
    /// A statement by someone else that the owner will do it.
    Assigned,
    /// "Who can …?"
    WhoAsks,
}

/// A task in the words of its sentence.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) sort: TaskSort,
    pub(crate) owner: Option<Owner>,
    /// Tokens that describe the task.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Words added before and after them to form a phrase.
    pub(crate) lead: String,
    pub(crate) tail: String,
    /// Tokens that are left out.
    pub(crate) drops: Vec<usize>,
    /// Refers to something mentioned earlier: "I'll do it".
    pub(crate) is_anaphoric: bool,
    /// Position in the values of the sentence.
    pub(crate) due: Option<usize>,
    /// The search for further tasks continues after this token.
    pub(crate) resume: usize,
    /// The verb alone is a complete task: "je conduis".
    pub(crate) is_whole: bool,
}

/// Possible addressees of a sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hearers<'a> {
    /// People named in an earlier sentence of the message.
    pub(crate) addressed: Option<&'a Option<Owner>>,
    /// The previous speaker.
    pub(crate) before: Option<usize>,
    /// The message is a list of tasks by person.
    pub(crate) is_list: bool,
}

/// All tasks in one sentence.
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

    /// Start of a draft's words, including its subject.
    fn bound(&self, draft: &Draft) -> usize {
        let mut at = self.sentence.clause_start(draft.from);
        if at == draft.from && at > 0 {
            at -= 1;
        }
        at
    }

    /// Infinitive of the action verb at `at`.
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

    /// Whether the rest of the clause contains only punctuation, fillers, and dates.
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

    /// A task whose words start after the token at `at`.
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
