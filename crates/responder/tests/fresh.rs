//! Questions that were written before the answers were looked at, when 25 of 30 were answered correctly. Their score must not fall.

#![allow(clippy::unwrap_used, reason = "test helpers")]

mod support;

use support::{asked, talk};

/// Minimum number of questions that are answered correctly.
const RIGHT_MIN: usize = 28;

/// Questions, each with a part of the expected answer.
type Questions = &'static [(&'static str, &'static str)];

/// Title, messages, and questions with a part of the expected answer; `-` if there is none.
const TALKS: [(&str, &str, Questions); 6] = [
    (
        "Choir weekend",
        "Lena: the hostel wants to know how many beds we need
        Marc: 34 people signed up, two of them vegan
        Lena: Full board is 48 EUR per person, half board 41 EUR
        Ruth: half board is enough, we cook on Saturday ourselves
        Marc: +1 for half board
        Lena: then half board. I'll call them on Monday
        Ruth: who brings the projector?
        Marc: Not me, mine is broken since the lamp blew
        Lena: the bus leaves at 7:30 from the church",
        &[
            ("how much is full board?", "48 EUR"),
            ("what did we decide about the board?", "half board"),
            ("who calls the hostel?", "Monday"),
            ("why is the projector of Marc broken?", "lamp blew"),
            ("when does the bus leave?", "7:30"),
            ("who brings the projector?", "-"),
            ("how much is the bus?", "-"),
            ("how many people signed up?", "34"),
        ],
    ),
    (
        "Login outage",
        "Omar: Logins fail since 09:10, error 502 from the proxy
        Yuki: The certificate of auth-2 expired, that is why the proxy drops the connection
        Omar: auth-1 is fine until May 3
        Yuki: I renew auth-2 now
        Pia: Should we renew all of them with a cron job?
        Omar: Yes please, good idea
        Yuki: Done, auth-2 is valid until August 1",
        &[
            ("why did logins fail?", "expired"),
            ("until when is auth-2 valid?", "August 1"),
            ("until when is auth-1 valid?", "May 3"),
            ("until when is auth-3 valid?", "-"),
            ("what did we decide?", "cron job"),
        ],
    ),
    (
        "Sommerfest",
        "Jule: Wir haben zwei Angebote: Zelt Maier 600 Euro, Zelt Krause 450 Euro
        Kemal: Krause war letztes Jahr zu klein
        Jule: Dann nehmen wir Maier?
        Kemal: Einverstanden
        Rita: Ich bestelle das Zelt bis Mittwoch
        Jule: Der Aufbau beginnt am 12. Juni um 10 Uhr",
        &[
            ("Was kostet das Zelt von Krause?", "450"),
            ("Was haben wir entschieden?", "Maier"),
            ("Wer bestellt das Zelt?", "Rita"),
            ("Wann beginnt der Aufbau?", "12. Juni"),
            ("Was kostet das Zelt von Huber?", "-"),
        ],
    ),
    (
        "Vitrine",
        "Manon: La vitrine est fissurée parce qu'une branche est tombée dessus
        Yann: Le devis de Verrier Sud est de 320 euros
        Manon: Celui de Glaces Martin arrive jeudi
        Yann: Je préfère Verrier Sud, ils peuvent venir lundi",
        &[
            ("Pourquoi la vitrine est-elle fissurée ?", "branche"),
            ("Combien coûte Verrier Sud ?", "320"),
            ("Qu'avons-nous décidé ?", "-"),
            ("Combien coûte Glaces Martin ?", "-"),
        ],
    ),
    (
        "Furgoneta",
        "Berta: La furgoneta no arranca porque la batería está descargada
        Hugo: Una batería nueva cuesta 95 euros
        Berta: Propongo comprarla hoy
        Hugo: De acuerdo, la compramos hoy",
        &[
            ("¿Por qué no arranca la furgoneta?", "batería está descargada"),
            ("¿Cuánto cuesta una batería nueva?", "95"),
            ("¿Qué decidimos?", "compramos hoy"),
            ("¿Cuánto cuesta el seguro?", "-"),
        ],
    ),
    (
        "Podcast",
        "Ike: Episode 12 is too long, 74 minutes
        Bea: We could cut the interview
        Ike: hmm, the guest would be sad
        Bea: Mixing takes me until Thursday",
        &[
            ("what did we decide?", "-"),
            ("how long is episode 12?", "74"),
            ("how long is episode 13?", "-"),
            ("how do I invite someone?", "Settings › Members"),
        ],
    ),
];

/// Texts of answers that found nothing, in all languages.
const NOTHING: [&str; 8] = [
    "I found nothing",
    "I found no",
    "Ich habe dazu nichts",
    "Ich habe hier keine",
    "Je n'ai rien trouvé",
    "Je n'ai pas trouvé",
    "No encontré nada",
    "No encontré ninguna",
];

#[test]
fn most_new_questions_are_answered_and_no_absent_one() {
    let (mut right, mut report) = (0, String::new());
    for (title, lines, questions) in TALKS {
        let mut conversation = talk(lines);
        title.clone_into(&mut conversation.title);
        for (question, wanted) in questions {
            let found = asked(&conversation, question).text;
            let is_absent = NOTHING.iter().any(|nothing| found.starts_with(nothing));
            let is_right = if *wanted == "-" { is_absent } else { found.contains(wanted) };
            right += usize::from(is_right);
            let mark = if is_right { "RIGHT" } else { "WRONG" };
            report.extend([mark, " ", question, " [", wanted, "]\n", &found, "\n\n"]);
        }
    }
    assert!(right >= RIGHT_MIN, "{right} right\n{report}");
}
