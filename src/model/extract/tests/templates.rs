//! Every kind of statement with every kind of correction: the output contains the new value and never the old one.

use super::{Owner, Reading, has_words, material, texts, told_of};

/// An old and a new value of the same kind.
const VALUES: [(&str, &str); 7] = [
    ("Friday", "Monday"),
    ("14 March", "21 March"),
    ("10:00", "11:30"),
    ("12 chairs", "15 chairs"),
    ("500 euros", "650 euros"),
    ("version 4.1", "version 4.2"),
    ("the end of the month", "20 March"),
];

/// Agreements, by kind of value.
fn said(old: &str) -> Vec<String> {
    let phrase = match old {
        "Friday" | "14 March" => format!("ship the importer on {old}"),
        "10:00" => format!("start the workshop at {old}"),
        "12 chairs" => format!("order {old} for the hall"),
        "500 euros" => format!("spend {old} on the booth"),
        "version 4.1" => format!("upgrade to {old} of the driver"),
        _ => format!("close the survey by {old}"),
    };
    vec![
        format!("ada: We agreed to {phrase}.\nbo: ok"),
        format!("ada: Let's {phrase}.\nbo: Sounds good."),
        format!("ada: Shall we {phrase}?\nmia: Yes.\nbo: 👍"),
        format!("bo: Decision: we {phrase}."),
        format!("ada: I propose we {phrase}.\nmia: The room looks fine, by the way.\nbo: agreed"),
    ]
}

fn corrections(old: &str, new: &str) -> Vec<String> {
    vec![
        format!("ada: Actually {new}, not {old}."),
        format!("ada: Sorry, I meant {new}."),
        format!("bo: Correction: {new}."),
        format!("ada: Not {old} but {new}."),
        format!("mia: {new} instead of {old}, please.\nada: ok"),
        format!("ada: Change of plan: {new}."),
        format!("ada: make that {new}"),
        format!("ada: Wait, {new}, I misread the plan."),
        format!("ada: scratch that, {new}\nbo: ok"),
        format!("bo: {old} doesn't work for me.\nada: Then let's make it {new}.\nbo: great"),
        format!("bo: Could we make it {new} instead of {old}?\nada: Sure."),
        format!("bo: oops, that has to be {new}\nada: right"),
    ]
}

/// Counts leaked old values and lost new values over all rows.
fn check(rows: impl Iterator<Item = (&'static str, &'static str, String)>) {
    let mut faults = Vec::new();
    let mut all = 0;
    for (old, new, script) in rows {
        let outline = Reading::new(&material(&script)).outline();
        all += 1;
        let leak = texts(&outline)
            .into_iter()
            .find(|text| has_words(text, old));
        let told = texts(&outline).iter().any(|text| has_words(text, new));
        if leak.is_some() || !told {
            let conclusion = &outline.conclusion;
            faults.push(format!(
                "{script}\n  -> {leak:?}, new told: {told}; {conclusion}"
            ));
        }
    }
    let shown = faults
        .iter()
        .take(12)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(faults.is_empty(), "{} of {all}\n{shown}", faults.len());
}

#[test]
fn a_corrected_value_is_told_nowhere_and_the_new_one_is() {
    check(VALUES.into_iter().flat_map(|(old, new)| {
        said(old).into_iter().flat_map(move |said| {
            corrections(old, new).into_iter().map(move |correction| {
                let script = format!("{said}\nmia: The coffee machine works again.\n{correction}");
                (old, new, script)
            })
        })
    }));
}

/// Statements and corrections in the other languages; `OLD` and `NEW` are placeholders for the values.
const GERMAN: (&[&str], &[&str]) = (
    &[
        "ada: Wir haben beschlossen, das Fest am OLD zu feiern.\nbo: gut",
        "ada: Sollen wir das Fest am OLD feiern?\nbo: Einverstanden.",
        "ada: Ich schlage vor, das Fest am OLD zu feiern.\nmia: Klingt gut.",
        "ada: Lasst uns das Fest am OLD feiern.\nbo: ja, passt",
    ],
    &[
        "ada: Korrektur: am NEW.",
        "ada: Sorry, ich meinte NEW.",
        "ada: Doch lieber am NEW.\nbo: ok",
        "bo: Nicht am OLD, sondern am NEW.",
        "bo: Am OLD kann ich nicht.\nada: Dann nehmen wir NEW.\nbo: super",
        "ada: Das Fest wird auf NEW verschoben.",
        "mia: Am NEW statt am OLD wäre besser.\nada: Einverstanden, dann am NEW.",
        "ada: Moment, am OLD ist Feiertag. Also am NEW.",
    ],
);
const SPANISH: (&[&str], &[&str]) = (
    &[
        "ada: Decidimos hacer la fiesta el OLD.\nbo: vale",
        "ada: ¿Hacemos la fiesta el OLD?\nbo: Sí.",
        "ada: Propongo hacer la fiesta el OLD.\nmia: De acuerdo.",
    ],
    &[
        "ada: Corrección: el NEW.",
        "ada: Perdón, quise decir el NEW.",
        "ada: Mejor el NEW.\nbo: vale",
        "bo: No el OLD, sino el NEW.",
        "bo: El NEW en vez del OLD.\nada: ok",
        "bo: El OLD no puedo.\nada: Entonces el NEW.\nbo: perfecto",
        "ada: La fiesta se aplaza al NEW.",
    ],
);
const FRENCH: (&[&str], &[&str]) = (
    &[
        "ada: On a décidé de faire la fête OLD.\nbo: ok",
        "ada: On fait la fête OLD ?\nbo: Oui.",
        "ada: Je propose de faire la fête OLD.\nmia: D'accord.",
    ],
    &[
        "ada: Correction : NEW.",
        "ada: Pardon, je voulais dire NEW.",
        "ada: Plutôt NEW.\nbo: ça marche",
        "bo: Pas OLD mais NEW.",
        "bo: NEW au lieu de OLD.\nada: ok",
        "bo: OLD je ne peux pas.\nada: Alors NEW.\nbo: parfait",
        "ada: La fête est reportée à NEW.",
    ],
);

#[test]
fn so_it_is_in_the_other_languages() {
    let languages = [
        (GERMAN, [("Freitag", "Montag"), ("14. Mai", "21. Mai")]),
        (
            SPANISH,
            [("viernes", "lunes"), ("14 de mayo", "21 de mayo")],
        ),
        (FRENCH, [("vendredi", "lundi"), ("le 14 mai", "le 21 mai")]),
    ];
    check(
        languages
            .into_iter()
            .flat_map(|((said, corrections), values)| {
                values.into_iter().flat_map(move |(old, new)| {
                    said.iter().flat_map(move |said| {
                        corrections.iter().map(move |correction| {
                            let script = format!("{said}\n{correction}");
                            (old, new, script.replace("OLD", old).replace("NEW", new))
                        })
                    })
                })
            }),
    );
}

/// Commitments and their outcomes: dropped, or reassigned to another owner.
#[test]
fn a_commitment_goes_or_changes_hands() {
    const PROMISES: [&str; 5] = [
        "bo: I'll write the press release.",
        "ada: @bo can you write the press release?\nbo: ok, will do",
        "ada: Bo, could you write the press release?\nbo: Sure.",
        "bo: I can write the press release.\nada: thanks",
        "ada: Who can write the press release?\nbo: I can do it.",
    ];
    const ENDS: [(&str, Option<usize>); 10] = [
        ("bo: Sorry, I can't do it after all.", None),
        ("bo: I won't have time, sorry.", None),
        ("ada: We don't need the press release anymore.", None),
        ("bo: I can't write it after all.\nmia: I'll do it.", Some(2)),
        (
            "bo: I don't have time for the press release.\nmia: I can take it.",
            Some(2),
        ),
        ("mia: I'll take over the press release from Bo.", Some(2)),
        ("ada: Mia takes it instead of Bo.", Some(2)),
        (
            "bo: @mia can you take over the press release?\nmia: yes",
            Some(2),
        ),
        (
            "bo: Mia will write the press release instead of me.",
            Some(2),
        ),
        ("mia: Great, thanks Bo!", Some(1)),
    ];
    let mut faults = Vec::new();
    for promise in PROMISES {
        for (end, owner) in ENDS {
            let script = format!("{promise}\n{end}");
            let outline = Reading::new(&material(&script)).outline();
            let owners: Vec<_> = outline
                .action_items
                .iter()
                .map(|item| item.owner.clone())
                .collect();
            let wanted: Vec<_> = owner
                .into_iter()
                .map(|at| Some(Owner::Person(at)))
                .collect();
            if owners != wanted {
                faults.push(format!("{script}\n  -> {}", told_of(&outline)));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of 50\n{}",
        faults.len(),
        faults.join("\n\n")
    );
}

/// Small talk without commitments or decisions, between two people who agree with each sentence.
#[test]
fn idle_talk_leaves_no_task_and_no_decision() {
    const IDLE: [&str; 60] = [
        "I'll be there on Friday.",
        "I'll probably look at it tomorrow.",
        "If we had time, I'd write a guide.",
        "I would have sent it earlier.",
        "I'll think about it.",
        "I'll miss you all.",
        "I'll be on holiday next week.",
        "I could write it if nobody else wants to.",
        "I might call them tomorrow.",
        "I sent the draft yesterday.",
        "I was going to write the report.",
        "Maybe I'll join later.",
        "I'd love to help, but I'm away.",
        "I can see the problem.",
        "I can't believe it's Friday already.",
        "I will never understand time zones.",
        "I need coffee.",
        "I'll have the soup.",
        "I'll let you know.",
        "I'll see you on Monday.",
        "I'll keep my fingers crossed.",
        "You'll love the new office.",
        "It will rain tomorrow.",
        "The server will restart at noon.",
        "Postgres will handle the load.",
        "Friday will be busy.",
        "Mia is going to be late.",
        "Bo will be happy about that.",
        "Mia will love it.",
        "Cy can be a bit slow.",
        "Bo has to leave at five.",
        "Everyone will enjoy it.",
        "The team will grow next year.",
        "Sales will be up in May.",
        "They will call us, said the bank.",
        "She said she'll send it.",
        "Jonas says he will sign it on Friday.",
        "\"I'll pay for everything\", said the clown.",
        "Let me know what you think.",
        "Let me think.",
        "Can you believe it?",
        "Could you imagine that?",
        "Please don't worry.",
        "Please note that lunch is at noon.",
        "Would you believe it?",
        "Thanks for the reminder!",
        "We should celebrate some day.",
        "We could try that at some point, perhaps.",
        "Someone should write a book about this.",
        "Ich werde morgen im Urlaub sein.",
        "Ich denke darüber nach.",
        "Ich hätte das gestern geschickt.",
        "Bo wird sich freuen.",
        "Ich gehe jetzt in die Pause.",
        "Estaré de vacaciones.",
        "Lo pensaré.",
        "Habría enviado el informe ayer.",
        "Je serai absent demain.",
        "Je vais y réfléchir.",
        "J'aurais envoyé le devis hier.",
    ];
    let mut faults = Vec::new();
    for said in IDLE {
        let script = format!("ada: {said}\nbo: Ha, I see what you mean there.");
        let outline = Reading::new(&material(&script)).outline();
        let alone = Reading::new(&material(&format!("ada: {said}\nbo: thanks"))).outline();
        if !outline.action_items.is_empty() || !alone.action_items.is_empty() {
            faults.push(format!("{said}\n  -> {}", told_of(&outline)));
        }
        let settled = [
            "clear", "klar", "decision", "nichts", "nada", "Rien", "rien", "No se",
        ];
        for outline in [outline, alone] {
            if !settled.iter().any(|word| outline.conclusion.contains(word)) {
                faults.push(format!("{said}\n  -> {}", told_of(&outline)));
            }
        }
    }
    assert!(faults.is_empty(), "{}\n{}", faults.len(), faults.join("\n"));
}

/// Named options, with every way of choosing another one.
#[test]
fn another_option_takes_the_place_of_the_first() {
    const SAID: [&str; 5] = [
        "ada: Let's use Redwood for the client.\nbo: ok",
        "ada: We decided to use Redwood for the client.",
        "ada: I propose we use Redwood.\nmia: Sounds good.",
        "ada: Should we use Redwood for the client?\nbo: Yes.",
        "ada: Which library?\nbo: Redwood.\nada: ok, Redwood it is.",
    ];
    const CORRECTED: [&str; 7] = [
        "ada: Actually, let's use Maple instead of Redwood.\nbo: fine",
        "ada: Sorry, I meant Maple, not Redwood.",
        "bo: Maple instead of Redwood, please. The licence is better.\nada: ok",
        "ada: Not Redwood but Maple, as it turns out.",
        "ada: We'll use Maple rather than Redwood.",
        "bo: Let's switch from Redwood to Maple.\nada: agreed",
        "ada: Change of plan: Maple replaces Redwood.",
    ];
    check(SAID.into_iter().flat_map(|said| {
        CORRECTED
            .into_iter()
            .map(move |corrected| ("Redwood", "Maple", format!("{said}\n{corrected}")))
    }));
}

/// An agreement no longer holds after an objection or a retraction.
#[test]
fn what_was_agreed_falls_to_an_objection() {
    const AGREED: [&str; 4] = [
        "ada: Let's move the office to Leipzig.\nbo: ok",
        "ada: Shall we move the office to Leipzig?\nbo: Yes, let's.",
        "ada: I suggest we move the office to Leipzig.\nbo: agreed\nada: great",
        "ada: We decided to move the office to Leipzig.",
    ];
    const OBJECTED: [&str; 9] = [
        "mia: No, wait.",
        "mia: I disagree.",
        "mia: Let me think about it first.",
        "mia: I'm against that.",
        "ada: Let's not do that after all.",
        "ada: Forget it, the rent is too high.",
        "ada: On second thought, no.",
        "mia: Hold on, I'm not sure about Leipzig.",
        "ada: Scratch that.",
    ];
    let mut faults = Vec::new();
    for agreed in AGREED {
        for objected in OBJECTED {
            let outline = Reading::new(&material(&format!("{agreed}\n{objected}"))).outline();
            if !outline.conclusion.contains("No ") {
                faults.push(format!("{agreed}\n{objected}\n  -> {}", told_of(&outline)));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of 36\n{}",
        faults.len(),
        faults.join("\n")
    );
}
