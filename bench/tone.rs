//! Scoring the tone of the longest message with the word list, compared with building its search document: at most twice the time.

use std::{hint::black_box, time::Instant};

use openvibe::{chat::search::index::SearchDocument, replies::adaptation::lexicon::tone};

use crate::report::{Table, median, ms, ratio, say};

const BYTES: usize = 32 * 1024;
const ROUNDS: usize = 30;
const SAID: [(&str, &str); 5] = [
    (
        "English",
        "This is not very good, and I am slightly annoyed. ",
    ),
    (
        "German",
        "Das ist nicht besonders gut, und ich bin etwas genervt. ",
    ),
    (
        "French",
        "Ce n'est pas très bon, et je suis un peu énervé. ",
    ),
    ("Spanish", "Esto no es muy bueno, y estoy un poco molesto. "),
    (
        "without words of the list",
        "The importer reads files and writes rows into tables. ",
    ),
];

pub(crate) fn run() {
    let mut table = Table::new(
        "Tone of a message of 32 KiB, ms",
        &["", "tone", "search document", "ratio"],
    );
    for (name, said) in SAID {
        let text = said.repeat(BYTES / said.len());
        let (mut tones, mut documents) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let started = Instant::now();
            black_box(tone(black_box(&text)));
            let read = ms(started.elapsed());
            let started = Instant::now();
            black_box(SearchDocument::of(black_box(&text), &text));
            let indexed = ms(started.elapsed());
            if round > 0 {
                tones.push(read);
                documents.push(indexed);
            }
        }
        table.row([
            name.to_owned(),
            format!("{:.2}", median(&tones)),
            format!("{:.2}", median(&documents)),
            format!("{:.2}", ratio(&tones, &documents)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} alternating rounds (target 2)."
    ));
}
