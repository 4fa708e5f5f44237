//! Splits texts into words, and defines cue words in English, German, Spanish, and French in the
//! form that `tokens` returns.

use std::{collections::HashSet, sync::LazyLock};

use chrono::Weekday;
use unicode_normalization::UnicodeNormalization;

/// Someone accepts a task or is asked to do it.
pub(super) static COMMITMENTS: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    phrases(
        "i ll | i will | i can | i could | i do | i am going to | i m going to | i m on | \
     on it | let me | i take | i got | i ve got | mine | leave it to me | count on me | \
     we ll | we will | we need | we should | please | can you | could you | would you | \
     will you | can someone | can somebody | who can | need you | needs to | has to | \
     have to | must | should | will | takes | owns | to do | todo | assigned | \
     responsible | deal | sure | yes | ok | okay | happy to | i promise | ich | \
     mach ich | mache ich | übernehme | übernimmt | kümmere | kümmert | erledige | \
     erledigt | bitte | kannst du | könntest du | könnt ihr | muss | müssen | soll | \
     sollte | sollen | wird | ja | gerne | me encargo | yo | lo hago | puedes | \
     podrías | puede | por favor | hay que | debe | tiene que | sí | vale | claro | je | \
     m en | occupe | peux tu | pourrais tu | pouvez | s il te plaît | s il vous plaît | \
     il faut | doit | dois | oui | d accord | bien sûr",
    )
});

/// Someone refuses a request.
pub(super) static REFUSALS: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    phrases(
        "i can t | i cannot | i can not | can t do | i won t | i will not | not me | \
     no time | i m not able | i am not able | i m out | i refuse | i d rather not | \
     sorry no | no sorry | i don t have time | i do not have time | count me out | \
     ich kann nicht | kann ich nicht | kann leider nicht | keine zeit | \
     schaffe ich nicht | schaff ich nicht | ohne mich | mache ich nicht | \
     mach ich nicht | nein | no puedo | no tengo tiempo | no lo haré | je ne peux pas | \
     je peux pas | pas le temps | sans moi",
    )
});

/// A message that starts with one of these words is a refusal.
pub(super) static PLAIN_NOES: LazyLock<HashSet<&str>> =
    LazyLock::new(|| set("no nope nah nein nö non"));

/// Phrases that look like a refusal but are not.
pub(super) static NO_REFUSALS: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    phrases(
        "can t wait | no problem | no problemo | no worries | no prob | no issue | \
     no doubt | no question | no objection | kein problem | klar | sin problema | \
     no hay problema | pas de problème | pas de souci",
    )
});

/// Nothing was settled.
pub(super) static UNSETTLED: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    phrases(
        "no decision | not decided | nothing was decided | undecided | not settled | \
     nothing was settled | unsettled | no conclusion | no clear conclusion | \
     no agreement | no one agreed | nobody agreed | remains open | stays open | \
     left open | was not taken up | keine entscheidung | nicht entschieden | \
     nichts entschieden | offen | kein ergebnis | keine einigung | sin decisión | \
     no se decidió | sin acuerdo | abierto | aucune décision | pas de décision | \
     rien n a été décidé | pas d accord",
    )
});

/// Words that deny the value that they accompany.
pub(super) static NEGATIONS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "not no never instead t longer nicht kein keine nie statt sondern nunca ya pas ne \
     jamais lieu than was were war era était",
    )
});

/// If numbers above 31 are written as words, any number can occur in an answer.
pub(super) static NUMBER_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million \
     millions billion dozen dozens half third quarter double twice triple vierzig \
     fünfzig sechzig siebzig achtzig neunzig hundert tausend millionen dutzend hälfte \
     halb viertel doppelt cuarenta cincuenta sesenta setenta ochenta noventa cien ciento \
     mil millón millones docena mitad doble quarante cinquante soixante quatre cent \
     cents mille douzaine moitié demi",
    )
});

/// Words for times; digits count too.
pub(super) static TIME_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "today tonight tomorrow day days week weeks weekend month months year quarter eod \
     eow eom noon morning afternoon evening deadline soon asap now next before until by \
     end monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu \
     thurs fri sat sun january february march april may june july august september \
     october november december jan feb mar apr jun jul aug sep sept oct nov dec first \
     second third fifth tenth christmas easter heute morgen übermorgen tag tage tagen \
     woche wochen wochenende monat monats monate jahr mittag abend frist bis ende \
     nächste nächsten nächster bald sofort montag dienstag mittwoch donnerstag freitag \
     samstag sonnabend sonntag januar februar märz mai juni juli oktober dezember \
     weihnachten ostern hoy mañana día días semana semanas mes meses año mediodía tarde \
     noche plazo hasta antes próximo próxima pronto fin lunes martes miércoles jueves \
     viernes sábado domingo enero febrero marzo abril mayo junio julio agosto septiembre \
     octubre noviembre diciembre navidad aujourd demain jour jours semaine semaines mois \
     an année midi soir matin délai avant jusqu prochain prochaine bientôt lundi mardi \
     mercredi jeudi vendredi samedi dimanche janvier février mars avril juin juillet \
     août septembre octobre novembre décembre noël",
    )
});

/// Words that occur in nearly every message in one of the four languages.
pub(super) static FUNCTION_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "the a an and or is are was to of in on for it we i you that this with not be have \
     will can do at by but yes no let der die das und ist sind ein eine zu den dem mit \
     für nicht wir ich du es auf am im bis aber ja el la los las un una y de en que por \
     para con lo se sí del le les une et est des pour pas nous je tu ce au sur avec oui",
    )
});

const WEEKDAYS: [(Weekday, &[&str]); 7] = [
    (Weekday::Mon, &["monday", "montag", "lunes", "lundi"]),
    (Weekday::Tue, &["tuesday", "dienstag", "martes", "mardi"]),
    (
        Weekday::Wed,
        &["wednesday", "mittwoch", "miércoles", "mercredi"],
    ),
    (Weekday::Thu, &["thursday", "donnerstag", "jueves", "jeudi"]),
    (Weekday::Fri, &["friday", "freitag", "viernes", "vendredi"]),
    (
        Weekday::Sat,
        &["saturday", "samstag", "sonnabend", "sábado", "samedi"],
    ),
    (Weekday::Sun, &["sunday", "sonntag", "domingo", "dimanche"]),
];

/// The first weekday in a text.
pub(super) fn weekday_in(text: &str) -> Option<Weekday> {
    let of = |word: &String| {
        let day = WEEKDAYS
            .iter()
            .find(|(_, names)| names.contains(&word.as_str()));
        day.map(|(day, _)| *day)
    };
    tokens(text).iter().find_map(of)
}

fn set(words: &'static str) -> HashSet<&'static str> {
    words.split(' ').collect()
}

fn phrases(text: &'static str) -> Vec<Vec<&'static str>> {
    let phrases = text.split('|');
    phrases
        .map(|phrase| phrase.split_whitespace().collect())
        .collect()
}

/// Whether a text contains one of the phrases.
pub(super) fn has_phrase(text: &[String], phrases: &[Vec<&str>]) -> bool {
    phrases.iter().any(|phrase| {
        let mut windows = text.windows(phrase.len());
        windows.any(|window| window.iter().eq(phrase.iter()))
    })
}

/// The words of a text in lower case and compatibility form, without punctuation.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let plain: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let words = plain.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether `words` occur consecutively in `text`; false for no words.
pub(super) fn has(text: &[String], words: &[String]) -> bool {
    !words.is_empty() && text.windows(words.len()).any(|window| window == words)
}
