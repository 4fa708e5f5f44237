//! Tasks without an action verb: "drinks on me", "music: leave it with me", "- Bo: the posters".

use super::super::{
    Owner, cues::Cue, cues::Form, cues::Language, sentence::is_any, tokens::Kind, tokens::Token,
};
use super::{Draft, Finder, TaskSort};

/// After an object, the speaker commits to it.
const MINE: &[&str] = &[
    "on me",
    "is on me",
    "are on me",
    "is mine",
    "are mine",
    "is my job",
    "are my job",
    "is with me",
    "comes from me",
    "come from me",
    "will come from me",
    "mach ich",
    "mache ich",
    "übernehm ich",
    "übernehme ich",
    "erledige ich",
    "kann ich machen",
    "kann ich übernehmen",
    "bleibt bei mir",
    "bleiben bei mir",
    "stays with me",
    "stay with me",
    "se queda conmigo",
    "se quedan conmigo",
    "reste pour moi",
    "restent pour moi",
    "kommt von mir",
    "kommen von mir",
    "geht auf mich",
    "gehen auf mich",
    "corre de mi cuenta",
    "corren de mi cuenta",
    "corre por mi cuenta",
    "corren por mi cuenta",
    "son cosa mía",
    "es cosa mía",
    "vient de moi",
    "viennent de moi",
    "est pour moi",
    "sont pour moi",
    "c' est moi",
    "c' est pour moi",
];

/// The same, after an object and a colon or a dash.
const MINE_APART: &[&str] = &[
    "me",
    "mine",
    "on me",
    "leave it with me",
    "leave that with me",
    "leave it to me",
    "leave that to me",
    "i'll do it",
    "i'll take it",
    "i'll do that",
    "i'll take that",
    "i've got it",
    "i can do it",
    "ich",
    "mach ich",
    "mache ich",
    "übernehme ich",
    "ich mach das",
    "yo",
    "me encargo",
    "me encargo yo",
    "yo me encargo",
    "lo hago yo",
    "moi",
    "pour moi",
    "je m' en occupe",
    "je m' en charge",
    "je prends",
];

/// Maximum number of words that name the object of a commitment.
const THING_WORDS_MAX: usize = 6;

impl Finder<'_> {
    /// "Drinks on me", "music: me", "and me the posters", "los carteles los hago yo".
    pub(super) fn claim(&self, at: usize) -> Option<Draft> {
        let sentence = self.sentence;
        let is_start = sentence.clause_start(at) == at && !sentence.is_mark(at);
        if sentence.is_question || !is_start || self.hit(at, Cue::It).is_some_and(is_pronoun(self))
        {
            return None;
        }
        let last = (at + THING_WORDS_MAX + 3).min(sentence.tokens.len());
        // "Then the posters stay with me" in German: the verb comes first.
        if is_any(self.text(at), "bleibt bleiben") {
            let end = (at + 1..last).find_map(|marker| {
                let end = self.reads(marker, "bei mir")?;
                self.ends(end).then_some((marker, end))
            });
            if let Some((marker, end)) = end {
                return self.taken(at + 1, marker, end);
            }
        }
        for marker in at + 1..last {
            let before = self.text(marker - 1);
            let (row, thing_end) = if is_any(before, ": - – —") {
                (MINE_APART, marker - 1)
            } else {
                (MINE, marker)
            };
            let found = row
                .iter()
                .filter_map(|words| self.reads(marker, words))
                .find(|end| self.ends(*end));
            if let Some(end) = found.or_else(|| self.spanish_claim(marker)) {
                return self.taken(at, thing_end, end);
            }
            if sentence.is_mark(marker) && !is_any(self.text(marker), ": - – —") {
                break;
            }
        }
        self.claim_first(at)
    }

    /// "… los hago yo" after the object: returns its end.
    fn spanish_claim(&self, at: usize) -> Option<usize> {
        let is_spanish = self.sentence.language == Language::Spanish;
        let is_meant = is_spanish
            && is_any(self.text(at), "lo la los las")
            && self.work(at + 1, Form::First).is_some()
            && self.text(at + 2) == "yo";
        (is_meant && self.ends(at + 3)).then_some(at + 3)
    }

    /// "Me the posters", "ich: die Getränke".
    fn claim_first(&self, at: usize) -> Option<Draft> {
        let first = self.text(at);
        if !is_any(first, "me ich yo moi i") {
            return None;
        }
        let is_row = self.text(at + 1) == ":" && self.hearers.is_list;
        let from = at + 1 + usize::from(is_row);
        let is_thing = is_any(
            self.text(from),
            "the die das den los las el la le les l' un une ein eine einen",
        ) && first != "i";
        let end = self.clause_end(from);
        let is_verbless = !(from..end).any(|at| {
            self.work(at, Form::First).is_some() || is_any(self.text(at), "is are bin ist es est")
        });
        if !(is_row || is_thing) || end > from + THING_WORDS_MAX || !is_verbless {
            return None;
        }
        self.taken(from, end, end)
    }

    /// "- Bo: the posters", in a list that names at least two people.
    pub(super) fn row(&self, at: usize) -> Option<Draft> {
        let sentence = self.sentence;
        let is_start = (0..at).all(|at| sentence.is_mark(at));
        if !self.hearers.is_list || sentence.is_question || !is_start {
            return None;
        }
        let (owner, length) = self.people.named_at(sentence, at)?;
        let owner = owner.filter(|_| !self.people.is_agent(&sentence.tokens[at]))?;
        let from = at + length + 1;
        let is_row = is_any(self.text(at + length), ": - – — → =");
        let has_verb = self.work(from, Form::Infinitive).is_some()
            || self.work(from, Form::Third).is_some()
            || self
                .hit(at + length, Cue::WillDo)
                .is_some_and(|hit| hit.end > from)
            || self.hit(from, Cue::Request).is_some();
        if !is_row || has_verb {
            return None;
        }
        let mut draft = self.taken(from, sentence.tokens.len(), sentence.tokens.len())?;
        let is_own = Some(&owner) == self.speaker().as_ref();
        draft.sort = if is_own {
            TaskSort::Promise
        } else {
            TaskSort::Assigned
        };
        draft.owner = Some(owner);
        Some(draft)
    }

    /// A task of the speaker for the object in these tokens; the text up to `end` and the rest of its clause add
    /// nothing to the task.
    fn taken(&self, from: usize, thing_end: usize, end: usize) -> Option<Draft> {
        let sentence = self.sentence;
        let words = (from..thing_end)
            .filter(|at| !sentence.is_mark(*at))
            .count();
        let names = (from..thing_end).any(|at| sentence.tokens[at].word.stem.is_some());
        let is_told = is_any(
            self.text(from),
            "i we he she they it that this es das eso ça",
        );
        // "Friday is fine: me" is not a commitment, nor is "the joke is on me".
        let is_said = (from..thing_end).any(|at| {
            is_any(
                self.text(at),
                "is are was works looks sounds joke shame ist sind war es son est sont",
            )
        });
        if is_said || words == 0 || words > 8 || !names || is_told {
            return None;
        }
        let mut draft = Draft::new(TaskSort::Promise, self.speaker(), from);
        match sentence.language {
            Language::German => "übernehmen".clone_into(&mut draft.tail),
            Language::Spanish if self.text(from) == "el" => {
                "Encargarse del".clone_into(&mut draft.lead);
                draft.from += 1;
            }
            Language::Spanish => "Encargarse de".clone_into(&mut draft.lead),
            Language::French => "S'occuper de".clone_into(&mut draft.lead),
            _ => "Take care of".clone_into(&mut draft.lead),
        }
        let is_date = |at: usize| {
            let mut values = sentence.values.iter();
            values.any(|value| value.date.is_some() && value.lead <= at && at < value.to)
        };
        draft
            .drops
            .extend((thing_end..sentence.tokens.len()).filter(|at| !is_date(*at)));
        draft.resume = end;
        Some(draft)
    }

    /// End of these words if they occur at `at`.
    fn reads(&self, at: usize, words: &str) -> Option<usize> {
        let mut end = at;
        for word in words.split(' ') {
            if self.text(end) != word {
                return None;
            }
            end += 1;
        }
        Some(end)
    }
}

/// "It", "that one": refers to an earlier object; an article is not a pronoun.
fn is_pronoun<'a>(finder: &'a Finder<'_>) -> impl Fn(&super::Hit) -> bool + 'a {
    |hit| {
        let next = finder.sentence.tokens.get(hit.end);
        let is_noun = |token: &Token| token.kind == Kind::Word && token.word.stem.is_some();
        !is_any(finder.text(hit.at), "la le les l' lo die das den") || !next.is_some_and(is_noun)
    }
}

/// Whether a list item starts with a person and a colon: "- @bo: posters", "me: drinks".
pub(crate) fn begins_row(sentence: &super::Sentence, people: &super::People) -> bool {
    let first = (0..sentence.tokens.len()).find(|at| !sentence.is_mark(*at));
    let Some(at) = first.filter(|at| *at < 4) else {
        return false;
    };
    let text = sentence.tokens[at].word.text.as_str();
    let length = match people.named_at(sentence, at) {
        Some((Some(Owner::Person(_)), length)) => length,
        _ if is_any(text, "me i ich yo moi") => 1,
        _ => return false,
    };
    let mark = sentence.tokens.get(at + length);
    mark.is_some_and(|token| is_any(token.word.text.as_str(), ": - – — → ="))
}
