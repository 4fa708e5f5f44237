//! Words that tell what a sentence does, as data: one file per language.
//!
//! A phrase is a row of words as `tokens` cuts them (`d' accord`); `|` parts phrases, `_` stands for any one word.

pub(crate) mod de;
pub(crate) mod en;
pub(crate) mod es;
pub(crate) mod fr;

use std::{collections::HashMap, sync::LazyLock};

/// What a phrase does where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cue {
    /// Says that something is settled.
    Decision,
    /// Takes that back: "not decided yet".
    Undecided,
    /// Puts something forward; what follows is what is proposed.
    Proposal,
    /// A preference of the speaker; what follows is what they prefer.
    Favour,
    /// Agrees where a message begins with it.
    Agree,
    /// Agrees wherever it stands in a short message: "Monday works for me".
    Works,
    /// Says no where a message begins with it.
    Refuse,
    /// Takes an agreement back.
    Object,
    /// Announces another value.
    Correct,
    /// May announce another value, if it is plainly about the same.
    Restate,
    /// Between a new and an old value: "Monday instead of Friday".
    InsteadOf,
    /// Between an old and a new value: "not Friday but Monday".
    ButNew,
    /// Before an old value.
    Not,
    /// Takes back what was said last.
    Retract,
    /// Puts something off.
    Defer,
    /// The speaker takes something on; the task follows.
    Promise,
    /// The same, if a verb of work follows.
    CanDo,
    /// The speaker takes on what was spoken of.
    TakeOn,
    /// The speaker offers: counts once somebody accepts.
    Offer,
    /// Asks the one addressed; the task follows.
    Request,
    /// Asks anybody; the task follows.
    WhoAsks,
    /// Somebody who was named will; the task follows.
    WillDo,
    /// The speaker cannot or does not want to.
    Cannot,
    /// A task changes hands.
    HandOver,
    /// What was promised is done.
    Done,
    /// Only if.
    If,
    /// Perhaps.
    Hedge,
    /// Told of somebody else.
    Reported,
    /// Speaks to a machine that reads this: says nothing of the matter.
    Order,
    /// A question that nobody needs to answer.
    Rhetorical,
    /// An answer that is none.
    NoAnswer,
    /// Says that something is open.
    Open,
    /// Begins a question, also without a question mark.
    Asks,
    /// A reason or an aside begins: a quoted task or preference ends.
    Aside,
    /// Stands for what was spoken of: "it", "that".
    It,
    /// "we", "us".
    We,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Language {
    English,
    German,
    Spanish,
    French,
    /// One that this cannot read.
    Other,
}

pub(crate) const READ: [Language; 4] = [
    Language::English,
    Language::German,
    Language::Spanish,
    Language::French,
];

/// What is known of one language.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) cues: &'static [(Cue, &'static str)],
    /// Frequent words without a subject of their own.
    pub(crate) stop: &'static str,
    /// Frequent words that tell the language, beside the stop words.
    pub(crate) common: &'static str,
    /// Verbs of work: `infinitive`, or `infinitive:i do:she does`.
    pub(crate) work: &'static str,
    /// Verbs that promise nothing: "I'll miss you".
    pub(crate) idle: &'static str,
    /// Monday first.
    pub(crate) days: [&'static str; 7],
    pub(crate) months: [&'static str; 12],
    /// Words dropped at the ends of a task.
    pub(crate) fillers: &'static str,
    /// Words before a date that go with it.
    pub(crate) before_date: &'static str,
    /// From two on.
    pub(crate) numbers: &'static str,
}

pub(crate) fn words(language: Language) -> Option<&'static Words> {
    match language {
        Language::English => Some(&en::WORDS),
        Language::German => Some(&de::WORDS),
        Language::Spanish => Some(&es::WORDS),
        Language::French => Some(&fr::WORDS),
        Language::Other => None,
    }
}

/// Frequent words of languages that are not read, so that they are not taken for one that is.
pub(crate) const OTHER_STOP: &str = "\
    não uma com em os do da ao você é isso mais foi nós também amanhã obrigado vamos muito ele ela \
    il che non di sono della per una è gli anche domani noi questo abbiamo facciamo possiamo \
    het een van dat niet wij naar zijn voor met ook maar we ik je moet kunnen hebben graag dus \
    och att det är jag inte som på för og ikke jeg vi skal kan ska til af \
    ja on ei että mutta niin kun minä meidän voin tämä ovat olen siis joo en huomenna se kuka \
    pitäisi sitten vielä nyt meillä sinä hän jos tai mitä milloin voisiko \
    nie się na jest to że w z jak ale tak co czy mam możemy dla ve bir bu için ne değil mi var \
    a az egy nem és hogy meg van je na že se jsem ale de la și nu este un o pe";

/// One phrase: the words behind the first.
#[derive(Debug)]
pub(crate) struct Phrase {
    pub(crate) cue: Cue,
    pub(crate) language: Language,
    pub(crate) rest: Vec<String>,
}

/// What is known of a word: the phrases that begin with it, and the languages in which it is frequent.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) phrases: Vec<Phrase>,
    pub(crate) is_stop: bool,
    /// By position in `READ`; the last is for all others.
    pub(crate) languages: [bool; 5],
    /// Working verbs: language, infinitive, form.
    pub(crate) work: Vec<(Language, &'static str, Form)>,
    pub(crate) idle: Vec<Language>,
    pub(crate) day: Vec<(Language, u8)>,
    pub(crate) month: Vec<(Language, u8)>,
    pub(crate) fillers: Vec<Language>,
    pub(crate) before_date: Vec<Language>,
    /// What a number word counts.
    pub(crate) number: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Infinitive,
    First,
    Third,
}

/// Of every word that is known.
pub(crate) static LEXICON: LazyLock<HashMap<String, Entry>> = LazyLock::new(|| {
    let mut lexicon = HashMap::new();
    for (position, language) in READ.into_iter().enumerate() {
        if let Some(words) = words(language) {
            add_words(&mut lexicon, position, language, words);
        }
    }
    for word in OTHER_STOP.split_whitespace() {
        entry(&mut lexicon, word).languages[4] = true;
    }
    lexicon
});

fn entry<'a>(lexicon: &'a mut HashMap<String, Entry>, word: &str) -> &'a mut Entry {
    lexicon.entry(word.to_owned()).or_default()
}

fn add_words(
    lexicon: &mut HashMap<String, Entry>,
    position: usize,
    language: Language,
    words: &'static Words,
) {
    for word in words.stop.split_whitespace() {
        let entry = entry(lexicon, word);
        entry.is_stop = true;
        entry.languages[position] = true;
    }
    for word in words.common.split_whitespace() {
        entry(lexicon, word).languages[position] = true;
    }
    for (cue, phrases) in words.cues {
        for phrase in phrases.split('|') {
            add_phrase(lexicon, *cue, language, phrase);
            let folded = fold(phrase);
            if folded != phrase && folded.len() > 4 {
                add_phrase(lexicon, *cue, language, &folded);
            }
        }
    }
    for verb in words.work.split_whitespace() {
        let mut forms = verb.split(':');
        let infinitive = forms.next().unwrap_or_default();
        let kinds = [Form::Infinitive, Form::First, Form::Third];
        for (form, kind) in verb.split(':').zip(kinds) {
            let entry = entry(lexicon, form);
            entry.work.push((language, infinitive, kind));
            entry.languages[position] = true;
        }
    }
    for word in words.idle.split_whitespace() {
        entry(lexicon, word).idle.push(language);
    }
    for (number, names) in (0..).zip(words.days) {
        for word in names.split('|') {
            let entry = entry(lexicon, word);
            entry.day.push((language, number));
            entry.languages[position] = true;
        }
    }
    for (number, names) in (1..).zip(words.months) {
        for word in names.split('|') {
            let entry = entry(lexicon, word);
            entry.month.push((language, number));
            entry.languages[position] |= names.len() > 3;
        }
    }
    for word in words.fillers.split_whitespace() {
        entry(lexicon, word).fillers.push(language);
    }
    for word in words.before_date.split_whitespace() {
        entry(lexicon, word).before_date.push(language);
    }
    for (number, word) in (2..).zip(words.numbers.split_whitespace()) {
        entry(lexicon, word).number = Some(number);
    }
}

fn add_phrase(lexicon: &mut HashMap<String, Entry>, cue: Cue, language: Language, phrase: &str) {
    let mut row = phrase.split_whitespace().map(str::to_owned);
    let Some(first) = row.next() else {
        return;
    };
    entry(lexicon, &first).phrases.push(Phrase {
        cue,
        language,
        rest: row.collect(),
    });
}

/// Without accents, as people type in a hurry.
fn fold(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            'á' | 'à' | 'â' => 'a',
            'é' | 'è' | 'ê' | 'ë' => 'e',
            'í' | 'î' | 'ï' => 'i',
            'ó' | 'ô' => 'o',
            'ú' | 'ù' | 'û' => 'u',
            'ñ' => 'n',
            'ç' => 'c',
            c => c,
        })
        .collect()
}
