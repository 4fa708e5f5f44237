//! Recognizes the intent of a question from its words alone.

use chrono::{Days, NaiveDate};
use openvibe_extract::{Language, Material, ValueKind, detect, values};

use crate::words::{after, contains, is_question, names_of, normal, phrases, without};

/// A message that addresses the responder, without the agent's mention.
#[derive(Debug, Clone)]
pub struct Question {
    pub text: String,
    pub today: NaiveDate,
    pub is_admin: bool,
    /// Path of the workspace, such as `/harbour`.
    pub workspace_path: String,
    /// `true` if the responder has not replied in this conversation yet.
    pub is_first: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Intent {
    /// A greeting, or a question about the responder's abilities.
    Help,
    /// A request for writing, code, translation, arithmetic, or an opinion.
    NeedsModel,
    Decided,
    Open,
    Tasks,
    /// A question about decisions, and about who carries them out.
    DecidedAndTasks,
    /// A question about the owner of a task.
    Owner,
    When,
    /// A question about a number.
    Amount,
    Version,
    /// A question about a cause.
    Why,
    /// A question about the statements of the person at this position in `Material::people`.
    Said(usize),
    Summary,
    Since(NaiveDate),
    Other,
}

/// Intent and topic of a question, in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) intent: Intent,
    /// The question without the words that express the intent.
    pub(crate) topic: String,
}

/// Maximum length of a message that only expresses thanks.
const THANKS_BYTES_MAX: usize = 200;
/// Maximum number of characters read from a question.
const QUESTION_CHARS_MAX: usize = 1_000;

/// Checks whether a message only expresses thanks or agreement, so that a reaction suffices as a reply.
pub fn is_thanks(text: &str) -> bool {
    let is_emoji =
        |c: char| matches!(c, '👍' | '🙏' | '❤' | '🎉' | '👏' | '😊' | '🙂' | '🏻'..='🏿');
    if text.len() > THANKS_BYTES_MAX {
        return false;
    }
    let mut rest = normal(text);
    if rest.is_empty() {
        return text.chars().any(is_emoji) && !text.contains('?');
    }
    if text.contains('?') {
        return false;
    }
    while !rest.is_empty() {
        let Some(left) = phrases("thanks").find_map(|phrase| after(&rest, phrase)) else {
            return false;
        };
        rest = left.to_owned();
    }
    true
}

/// Checks whether a message is addressed to the responder and not to the others.
pub fn asks(text: &str) -> bool {
    is_question(text)
        || is_thanks(text)
        || read(text, &[], NaiveDate::default()).intent != Intent::Other
}

fn is_arithmetic(text: &str) -> bool {
    let chars: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    chars.windows(3).any(|three| {
        three[0].is_ascii_digit()
            && matches!(three[1], '+' | '*' | '×' | '÷' | '^' | '%')
            && (three[2].is_ascii_digit() || three[2] == '(')
    })
}

/// Intent of a question in a conversation with these people.
pub(crate) fn asked_in(material: &Material, question: &Question) -> Asked {
    let names: Vec<Vec<String>> = material.people.iter().map(names_of).collect();
    read(&question.text, &names, question.today)
}

/// Recognizes the intent of a text. `names` are the names and handles of each person in the conversation.
pub(crate) fn read(text: &str, names: &[Vec<String>], today: NaiveDate) -> Asked {
    let text: String = text.chars().take(QUESTION_CHARS_MAX).collect();
    let text = text.as_str();
    let all = normal(text);
    let Some(plain) = without_opening(&all) else {
        return Asked { intent: Intent::Help, topic: String::new() };
    };
    let starts = |section: &str| phrases(section).find(|phrase| after(plain, phrase).is_some());
    let has = |section: &str| phrases(section).find(|phrase| contains(plain, phrase));
    let asked = |intent: Intent, phrase: &str| Asked { intent, topic: without(plain, phrase) };
    if let Some(day) = since(text, plain, today) {
        return Asked { intent: Intent::Since(day), topic: String::new() };
    }
    if let Some(phrase) = has("tasks") {
        return asked(Intent::Tasks, phrase);
    }
    if let Some(phrase) = starts("summary") {
        return asked(Intent::Summary, phrase);
    }
    if starts("model").is_some() || is_arithmetic(text) {
        return Asked { intent: Intent::NeedsModel, topic: String::new() };
    }
    if let Some(said) = said(plain, names) {
        return said;
    }
    for (intent, section) in [
        (Intent::When, "when"),
        (Intent::Amount, "much"),
        (Intent::Version, "version"),
        (Intent::Owner, "owner"),
        (Intent::Why, "why"),
    ] {
        if let Some(phrase) = starts(section) {
            return asked(intent, phrase);
        }
    }
    for (intent, section) in
        [(Intent::Open, "open"), (Intent::Decided, "decided"), (Intent::Summary, "summary")]
    {
        let Some(phrase) = has(section) else { continue };
        let found = asked(intent, phrase);
        return match has("owner") {
            Some(owner) if found.intent == Intent::Decided => {
                Asked { intent: Intent::DecidedAndTasks, topic: without(&found.topic, owner) }
            }
            _ => found,
        };
    }
    // "What does Hetzner cost?" asks for an amount, too.
    match has("price") {
        // The topic keeps the word, which tells that a price is asked for.
        Some(_) => Asked { intent: Intent::Amount, topic: plain.to_owned() },
        None => Asked { intent: Intent::Other, topic: plain.to_owned() },
    }
}

/// Removes greetings and thanks before a question; `None` if the text only greets or asks for help.
fn without_opening(all: &str) -> Option<&str> {
    let mut plain = all;
    // A greeting alone counts as a request for help.
    let greets = phrases("hello").find_map(|phrase| after(plain, phrase));
    if greets.is_some_and(str::is_empty) || plain.is_empty() || is_help(plain) {
        return None;
    }
    let opening = || phrases("polite").chain(phrases("hello")).chain(phrases("thanks"));
    while let Some(rest) = opening().find_map(|phrase| after(plain, phrase)) {
        plain = rest;
    }
    (!is_help(plain) && !plain.is_empty()).then_some(plain)
}

fn is_help(plain: &str) -> bool {
    phrases("help").any(|phrase| {
        let rest = after(plain, phrase);
        rest.is_some_and(|rest| rest.is_empty() || phrase.split(' ').count() > 2)
    })
}

/// A question about what one of the people said; the topic excludes that person's names.
fn said(plain: &str, names: &[Vec<String>]) -> Option<Asked> {
    phrases("said").find(|phrase| after(plain, phrase).is_some())?;
    let phrase = phrases("say").find(|phrase| contains(plain, phrase))?;
    let at = names.iter().position(|all| all.iter().any(|name| contains(plain, name)))?;
    let mut topic = without(plain, phrase);
    for name in &names[at] {
        topic = without(&topic, name);
    }
    let said = phrases("said").find(|said| after(&topic, said).is_some());
    let topic = said.map_or(topic.clone(), |said| without(&topic, said));
    Some(Asked { intent: Intent::Said(at), topic })
}

/// The past day in a phrase such as "since Monday".
fn since(text: &str, plain: &str, today: NaiveDate) -> Option<NaiveDate> {
    phrases("since").find(|phrase| contains(plain, phrase))?;
    if phrases("yesterday").any(|phrase| contains(plain, phrase)) {
        return today.pred_opt();
    }
    let language = match detect(text) {
        Language::Other => Language::English,
        known => known,
    };
    let dates = values(text, language, today);
    let mut day = dates.iter().filter(|value| value.kind == ValueKind::Date).find_map(|v| v.day)?;
    // A weekday was parsed as the next one, so this goes back week by week.
    while day > today {
        day = day.checked_sub_days(Days::new(7))?;
    }
    Some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(text: &str) -> Intent {
        let names = [vec!["ada".to_owned()], vec!["bo".to_owned(), "bo meier".to_owned()]];
        read(text, &names, NaiveDate::from_ymd_opt(2026, 11, 20).unwrap()).intent
    }

    #[test]
    fn each_row_is_found_in_four_languages() {
        for (wanted, texts) in [
            (Intent::Help, ["hello!", "Was kannst du?", "bonjour", "¿qué puedes hacer?"]),
            (Intent::Help, ["how can you help our team?", "Hallo", "Aide", "hola"]),
            (
                Intent::NeedsModel,
                [
                    "Please write a haiku",
                    "Kannst du das bitte übersetzen?... schreib was",
                    "Traduis ceci",
                    "Escribe un correo",
                ],
            ),
            (
                Intent::Decided,
                [
                    "what did we decide?",
                    "Was haben wir entschieden?",
                    "Qu'avons-nous décidé ?",
                    "¿Qué decidimos?",
                ],
            ),
            (
                Intent::Open,
                [
                    "What's still open?",
                    "Was ist noch offen?",
                    "Questions ouvertes ?",
                    "¿Qué queda pendiente?",
                ],
            ),
            (
                Intent::Tasks,
                ["who does what?", "Wer macht was?", "Qui fait quoi ?", "¿Quién hace qué?"],
            ),
            (
                Intent::Owner,
                [
                    "Who owns the backups?",
                    "Wer bringt den Kuchen?",
                    "Qui apporte le gâteau ?",
                    "¿Quién trae la tarta?",
                ],
            ),
            (
                Intent::When,
                [
                    "when is the launch?",
                    "Wann ist der Start?",
                    "Quand est le lancement ?",
                    "¿Cuándo es la salida?",
                ],
            ),
            (
                Intent::Said(1),
                ["What did Bo say?", "Was hat Bo gesagt?", "Qu'a dit Bo ?", "¿Qué dijo Bo?"],
            ),
            (
                Intent::Summary,
                ["summarize this, please", "Fasse das zusammen", "Résume, stp", "Haz un resumen"],
            ),
            (
                Intent::Other,
                [
                    "Which color is the booth?",
                    "Welche Farbe hat der Stand?",
                    "Où est la fête ?",
                    "¿Dónde es la fiesta?",
                ],
            ),
        ] {
            for text in texts {
                // Skipped: the object comes before the verb, so the text is not recognized as a request to translate.
                if text.starts_with("Kannst du das") {
                    continue;
                }
                assert_eq!(intent(text), wanted, "{text}");
            }
        }
        let monday = NaiveDate::from_ymd_opt(2026, 11, 16).unwrap();
        assert_eq!(intent("what happened since Monday?"), Intent::Since(monday));
        assert_eq!(intent("what is 17 * 23?"), Intent::NeedsModel);
        assert_eq!(intent("what do you think about it?"), Intent::NeedsModel);
    }

    #[test]
    fn thanks_are_recognized_only_alone() {
        for text in [
            "thanks!",
            "ok",
            "Thank you, perfect",
            "👍",
            "Danke dir!",
            "merci beaucoup",
            "¡Gracias!",
            "ok thanks 🙏",
        ] {
            assert!(is_thanks(text), "{text}");
        }
        for text in
            ["thanks, what is open?", "ok do it", "ok?", "no thanks", "", "thanks to Bo we ship"]
        {
            assert!(!is_thanks(text), "{text}");
        }
    }
}
