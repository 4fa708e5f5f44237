//! Offline draft of a resolution from 1,000 and from 10,000 messages: the time must grow linearly.

use std::time::Instant;

use chrono::NaiveDate;
use openvibe_extract::{Line, Material, Person, Reading, Speaker};

use crate::report::{Table, median, ms, ratio, say};

const SHORT: u32 = 1_000;
const LONG: u32 = 10_000;
const ROUNDS: usize = 10;
/// Messages that are repeated in this order, each padded to about eighty words.
const SAID: [&str; 12] = [
    "We agreed to ship the importer on Friday.",
    "Actually Monday, not Friday.",
    "I'll write the release notes by Thursday.",
    "@bo can you check the backups by tomorrow?",
    "ok, will do",
    "Who pays for the stand?",
    "Let's use the small hall for the fair.",
    "+1",
    "No, wait, I disagree.",
    "Should we park that?",
    "make that 12",
    "The budget is 500 euros this year.",
];
const BESIDE: &str = "The importer reads large files from the disk and writes rows into tables while people \
    wait for it to come to an end, which takes longer than all of us would like. ";

/// Measurements for one length in ms, with one value per round.
#[derive(Default)]
struct Found {
    read: Vec<f64>,
    outline: Vec<f64>,
    per_thousand: Vec<f64>,
}

pub(crate) fn run() {
    let sizes = [SHORT, LONG];
    let materials = sizes.map(material);
    let mut found: [Found; 2] = Default::default();
    for round in 0..=ROUNDS {
        for ((material, size), found) in materials.iter().zip(sizes).zip(&mut found) {
            let started = Instant::now();
            let reading = Reading::new(material);
            let read = ms(started.elapsed());
            let outline = reading.outline();
            let all = ms(started.elapsed());
            assert!(!outline.headline.is_empty());
            if round > 0 {
                found.read.push(read);
                found.outline.push(all - read);
                found.per_thousand.push(all / (f64::from(size) / 1e3));
            }
        }
    }
    let [short, long] = &found;
    let mut table = Table::new(
        "Offline draft of a result, messages of about 80 words, ms",
        &["", "10³", "10⁴", "ratio"],
    );
    let rows: [(&str, &[f64], &[f64]); 3] = [
        ("reading", &short.read, &long.read),
        ("outline", &short.outline, &long.outline),
        (
            "both, per 1,000 messages",
            &short.per_thousand,
            &long.per_thousand,
        ),
    ];
    for (name, short, long) in rows {
        table.row([
            name.to_owned(),
            format!("{:.2}", median(short)),
            format!("{:.2}", median(long)),
            format!("{:.2}", ratio(long, short)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} alternating rounds; a last ratio of 1 means linear."
    ));
}

fn material(messages: u32) -> Material {
    let people = ["Ada", "Bo", "Mia", "Cy"].map(|name| Person {
        name: name.to_owned(),
        handle: name.to_lowercase(),
    });
    let lines = (0..messages).zip((0..4).cycle()).zip(SAID.iter().cycle());
    let lines = lines.map(|((n, person), said)| Line {
        speaker: Speaker::Person(person),
        text: format!(
            "{said} Row {} of file {}. {}",
            n * 7 % 1_000,
            n * 31 % 977,
            BESIDE.repeat(2)
        ),
        files: Vec::new(),
        day: NaiveDate::default(),
    });
    Material {
        lines: lines.collect(),
        people: people.into(),
    }
}
