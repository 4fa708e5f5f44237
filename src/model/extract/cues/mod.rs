//! Cue words and phrases that determine the function of a sentence, as data: one file per language.
//!
//! A phrase is a sequence of words as split by `tokens` (`d' accord`); `|` separates phrases, and `_` matches any one
//! word.

pub(crate) mod de;
pub(crate) mod en;
pub(crate) mod es;
pub(crate) mod fr;

use std::{collections::HashMap, sync::LazyLock};

/// Function of a phrase in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cue {
    /// States that a matter is settled.
    Decision,
    /// Negates a decision: "not decided yet".
    Undecided,
    /// Introduces a proposal; the proposal follows.
    Proposal,
    /// Introduces the speaker's preference; the preference follows.
    Favour,
    /// Agrees at the start of a message.
    Agree,
    /// Agrees anywhere in a short message: "Monday works for me".
    Works,
    /// Disagrees at the start of a message.
    Refuse,
    /// Retracts an agreement.
    Object,
    /// Introduces another value.
    Correct,
    /// Can introduce another value if the subject is clearly the same.
    Restate,
    /// Between a new and an old value: "Monday instead of Friday".
    InsteadOf,
    /// Between an old and a new value: "not Friday but Monday".
    ButNew,
    /// Before an old value.
    Not,
    /// Retracts the previous statement.
    Retract,
    /// Defers a topic.
    Defer,
    /// The speaker commits to a task; the task follows.
    Promise,
    /// As above, but only if an action verb follows.
    CanDo,
    /// The speaker commits to a task that was already mentioned.
    TakeOn,
    /// The speaker offers to do a task; the offer counts when someone accepts it.
    Offer,
    /// Asks the person addressed; the task follows.
    Request,
    /// Asks for a volunteer; the task follows.
    WhoAsks,
    /// Assigns the task to a named person; the task follows.
    WillDo,
    /// The speaker declines or is unavailable.
    Cannot,
    /// Reassigns a task.
    HandOver,
    /// States that a promised task is done.
    Done,
    /// Introduces a condition: "only if".
    If,
    /// Expresses uncertainty: "perhaps".
    Hedge,
    /// Attributes a statement to someone else.
    Reported,
    /// Addresses the machine that reads the text; not about the topic.
    Order,
    /// A question that does not need an answer.
    Rhetorical,
    /// A reply that does not answer the question.
    NoAnswer,
    /// States that a matter is open.
    Open,
    /// Starts a question, even without a question mark.
    Asks,
    /// Starts a reason or an aside, and so ends a quoted task or preference.
    Aside,
    /// Refers to something mentioned earlier: "it", "that".
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
    /// An unsupported language.
    Other,
}

pub(crate) const READ: [Language; 4] = [
    Language::English,
    Language::German,
    Language::Spanish,
    Language::French,
];

/// Lexical data for one language.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) cues: &'static [(Cue, &'static str)],
    /// Frequent words without a meaning of their own.
    pub(crate) stop: &'static str,
    /// Frequent words that identify the language, in addition to the stop words.
    pub(crate) common: &'static str,
    /// Action verbs: `infinitive`, or `infinitive:i do:she does`.
    pub(crate) work: &'static str,
    /// Verbs that do not make a commitment: "I'll miss you".
    pub(crate) idle: &'static str,
    /// Starts with Monday.
    pub(crate) days: [&'static str; 7],
    pub(crate) months: [&'static str; 12],
    /// Words removed from the ends of a task.
    pub(crate) fillers: &'static str,
    /// Words before a date that belong to it.
    pub(crate) before_date: &'static str,
    /// Number words, starting with two.
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

/// Frequent words of unsupported languages, so that they are not mistaken for supported ones.
pub(crate) const OTHER_STOP: &str = "\
    não uma com em os do da ao você é isso mais foi nós também amanhã obrigado vamos muito ele ela \
    il che non di sono della per una è gli anche domani noi questo abbiamo facciamo possiamo \
    het een van dat niet wij naar zijn voor met ook maar we ik je moet kunnen hebben graag dus \
    och att det är jag inte som på för og ikke jeg vi skal kan ska til af \
    ja on ei että mutta niin kun minä meidän voin tämä ovat olen siis joo en huomenna se kuka \
    pitäisi sitten vielä nyt meillä sinä hän jos tai mitä milloin voisiko \
    nie się na jest to że w z jak ale tak co czy mam możemy dla ve bir bu için ne değil mi var \
    a az egy nem és hogy meg van je na že se jsem ale de la și nu este un o pe";

/// One phrase: the words after the first.
#[derive(Debug)]
pub(crate) struct Phrase {
    pub(crate) cue: Cue,
    pub(crate) language: Language,
    pub(crate) rest: Vec<String>,
}

/// Lexical data for a word: phrases that start with it, and languages in which it is frequent.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) phrases: Vec<Phrase>,
    pub(crate) is_stop: bool,
    /// Indexed by position in `READ`; the last entry covers all other languages.
    pub(crate) languages: [bool; 5],
    /// Action verbs: language, infinitive, form.
    pub(crate) work: Vec<(Language, &'static str, Form)>,
    pub(crate) idle: Vec<Language>,
    pub(crate) day: Vec<(Language, u8)>,
    pub(crate) month: Vec<(Language, u8)>,
    pub(crate) fillers: Vec<Language>,
    pub(crate) before_date: Vec<Language>,
    /// The value of a number word.
    pub(crate) number: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Infinitive,
    First,
    Third,
}

/// Entries for all known words.
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

/// Removes accents, which people often omit when they type fast.
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
