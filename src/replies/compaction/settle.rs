//! Finds entries whose values later messages correct, without a model.

use std::collections::HashSet;

use openvibe_extract::{Reading, content_words, detect, plain_sentences};

use crate::{
    blocking::Interrupt,
    ids::{BEFORE_ALL_SEQS, CompactionId, MemoryId},
    memory::automatic::SegmentEntry,
    time::Timestamp,
};

use super::{
    check::states,
    item::{SegmentPerson, SourceLine},
    offline::{self, Claim, Subjects},
    render::entry_name,
};

/// Minimum number of words that an older entry and a newer one must have in common for the newer one to correct it.
pub(super) const COMMON_WORDS_MIN: usize = 2;

/// Maximum number of messages between a value and a correction that does not name the subject.
const EDITED_LINES_MAX: usize = 14;

/// Entries that are no longer current.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Entries that were superseded, each with the newer entry that replaces it.
    pub superseded: Vec<(MemoryId, MemoryId)>,
    /// Outdated entries that no newer entry replaces.
    pub outdated: Vec<MemoryId>,
    pub gists: Vec<ShortenedGist>,
}

/// Gist without the sentences that are no longer current.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShortenedGist {
    pub segment: CompactionId,
    pub before: String,
    pub after: String,
}

/// Gist of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gist {
    pub segment: CompactionId,
    /// Sequence number of the last message of the segment.
    pub to_seq: i64,
    pub text: String,
}

/// Finds older entries that these messages correct, each with the new entry that contains the corrected value.
pub(super) fn corrected(
    older: &[SegmentEntry],
    new: &[SegmentEntry],
    lines: Vec<SourceLine>,
    people: &[SegmentPerson],
    interrupt: &Interrupt,
) -> Settled {
    let Some(day) = lines.first().map(|line| line.day) else {
        return Settled::default();
    };
    let offset = older.len();
    let before = older.iter().map(|entry| SourceLine {
        person: (people.iter())
            .position(|person| Some(person.id.0) == entry.author_id)
            .or(Some(0)),
        name: entry_name(entry),
        text: entry.text.clone(),
        day: entry.said_at.map_or(day, Timestamp::day),
        is_resolution: false,
        asks: None,
    });
    let all: Vec<SourceLine> = before.chain(lines).collect();
    let reading = offline::read(&all, people, interrupt);
    let words =
        |text: &str| -> HashSet<String> { content_words(text, detect(text)).into_iter().collect() };
    let mut settled = Settled::default();
    let told =
        (reading.superseded().iter()).filter(|value| value.is_explicit && value.line >= offset);
    for value in told {
        for (at, old) in older.iter().enumerate() {
            let is_of_old = value.of == at || offline::is_about(&reading, &old.text, value);
            if !is_of_old || !states(&old.text, &value.old) || states(&old.text, &value.new) {
                continue;
            }
            let of_old = words(&old.text);
            let is_about = |entry: &&SegmentEntry| {
                states(&entry.text, &value.new)
                    && words(&entry.text).intersection(&of_old).count() >= COMMON_WORDS_MIN
            };
            if let Some(by) = new.iter().find(is_about) {
                settled.superseded.push((old.id, by.id));
            }
        }
    }
    settled
}

/// Finds entries and sentences of gists whose values a later entry or message about the same subject changes.
///
/// The messages must be sorted oldest first, and `seqs` contains their sequence numbers.
pub(super) fn changed(
    entries: &[SegmentEntry],
    gists: Vec<Gist>,
    lines: &[SourceLine],
    seqs: &[i64],
    people: &[SegmentPerson],
    interrupt: &Interrupt,
) -> Settled {
    let reading = offline::read(lines, people, interrupt);
    let claim = |entry: &SegmentEntry| {
        let day = entry.said_at.map(Timestamp::day);
        Claim::of(&entry.text, reading.language(), day.unwrap_or_default())
    };
    let stated: Vec<(i64, Claim)> = (entries.iter())
        .map(|entry| (entry.said_seq.unwrap_or(BEFORE_ALL_SEQS), claim(entry)))
        .collect();
    let claims = offline::claims(&reading, lines);
    let said: Vec<(i64, Claim)> = (seqs.iter().copied().zip(claims))
        .filter_map(|(seq, claim)| Some((seq, claim?)))
        .collect();
    let first = said.first().map_or(i64::MAX, |(seq, _)| *seq);
    let before = stated.iter().filter(|(seq, _)| *seq < first);
    let subjects = Subjects::of(before.chain(&said).map(|(_, claim)| claim));
    let mut settled = Settled::default();
    for (entry, (seq, old)) in entries.iter().zip(&stated) {
        let is_changed =
            |(later, new): &(i64, Claim)| later > seq && old.is_changed_by(new, &subjects);
        if let Some(by) = stated.iter().rposition(is_changed) {
            settled.superseded.push((entry.id, entries[by].id));
        } else if said.iter().any(is_changed) || is_edited(&reading, entry, seqs) {
            settled.outdated.push(entry.id);
        }
    }
    let day = lines.first().map(|line| line.day).unwrap_or_default();
    for gist in gists {
        let mut sentences = plain_sentences(&gist.text);
        let count = sentences.len();
        sentences.retain(|sentence| {
            let old = Claim::of(sentence, reading.language(), day);
            let mut later = said.iter().filter(|(seq, _)| *seq > gist.to_seq);
            !later.any(|(_, new)| old.is_changed_by(new, &subjects))
        });
        if sentences.len() < count {
            settled.gists.push(ShortenedGist {
                segment: gist.segment,
                before: gist.text,
                after: sentences.join(" "),
            });
        }
    }
    settled
}

/// Checks whether a message soon after an entry's source corrects the entry's value without naming its subject, such as "no, 14:30".
fn is_edited(reading: &Reading, entry: &SegmentEntry, seqs: &[i64]) -> bool {
    let source = (entry.said_seq).and_then(|said| seqs.iter().position(|seq| *seq == said));
    let edits = reading.superseded().iter();
    source.is_some_and(|source| {
        edits
            .filter(|edit| (source + 1..=source + EDITED_LINES_MAX).contains(&edit.line))
            .any(|edit| states(&entry.text, &edit.old) && !states(&entry.text, &edit.new))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::entry::MemoryKind;

    fn entry(seq: i64, text: &str) -> SegmentEntry {
        SegmentEntry {
            id: MemoryId::new(),
            compaction_id: CompactionId::new(),
            kind: MemoryKind::Fact,
            text: text.to_owned(),
            author_id: None,
            author_name: Some("Ada".to_owned()),
            said_at: None,
            said_seq: Some(seq),
        }
    }

    /// Makes entries from the messages at these positions, then settles them against all messages, which two people write
    /// alternately.
    fn settled(said: &[&str], remembered: &[usize]) -> (Vec<SegmentEntry>, Settled) {
        let lines: Vec<SourceLine> = (said.iter().enumerate())
            .map(|(at, text)| SourceLine {
                person: Some(at % 2),
                name: ["Ada", "Bo"][at % 2].to_owned(),
                text: (*text).to_owned(),
                day: chrono::NaiveDate::default(),
                is_resolution: false,
                asks: None,
            })
            .collect();
        let seqs: Vec<i64> = (0..).take(said.len()).map(|at| 100 + at).collect();
        let entries: Vec<SegmentEntry> = (remembered.iter())
            .map(|at| entry(seqs[*at], said[*at]))
            .collect();
        let gist = Gist {
            segment: CompactionId::new(),
            to_seq: seqs[0],
            text: format!("{}. Other talk.", said[0].trim_end_matches('.')),
        };
        let never = Interrupt::default();
        let found = changed(&entries, vec![gist], &lines, &seqs, &[], &never);
        (entries, found)
    }

    #[test]
    fn a_value_is_replaced_by_a_newer_entry_about_the_same_thing() {
        let said = [
            "The mixer repair costs $2,300 at the shop.",
            "The hall has seats for the choir.",
            "The mixer repair costs $1,900 now.",
            "The van rent costs $1,500.",
        ];
        let (entries, found) = settled(&said, &[0, 2, 3]);
        assert_eq!(found.superseded, [(entries[0].id, entries[1].id)]);
        assert_eq!(found.outdated, []);
    }

    #[test]
    fn a_value_that_only_a_message_changes_is_outdated() {
        for [old, new] in [
            [
                "The farm loaf costs $5.20.",
                "change the label, farm loaf is $4.99",
            ],
            [
                "Konzertbeginn ist 18:30 Uhr.",
                "mit dem Pfarrer geklärt: Konzert beginnt um 19:30 Uhr",
            ],
            [
                "Le plein tarif est à 7,50 €.",
                "vote du bureau : le plein tarif sera 6,90 €",
            ],
            [
                "El maratón es el 21 de marzo.",
                "coincide con las fiestas, el maratón pasa al 11 de abril",
            ],
        ] {
            let (entries, found) = settled(&[old, "ok", new], &[0]);
            assert_eq!(found.outdated, [entries[0].id], "{new}");
            assert_eq!(found.gists[0].after, "Other talk.", "{new}");
        }
    }

    #[test]
    fn a_short_correction_soon_after_a_value_outdates_it() {
        for [old, new] in [
            ["The rehearsal starts at 14:00.", "make it 14:30 instead"],
            ["The budget is 4,000 €.", "no, 4,200 €"],
            ["Die Probe beginnt um 14:00 Uhr.", "nein, lieber 14:30 Uhr"],
            ["La répétition commence à 14:00.", "non, plutôt 14:30"],
            ["El ensayo empieza a las 14:00.", "no, mejor a las 14:30"],
        ] {
            let (entries, found) = settled(&[old, new, "ok"], &[0]);
            assert_eq!(found.outdated, [entries[0].id], "{new}");
        }
    }

    #[test]
    fn numbered_things_do_not_replace_each_other() {
        for [one, other] in [
            ["Table 1 seats 4 guests.", "Table 2 seats 6 guests."],
            ["Ticket 11 is fixed.", "Ticket 12 is fixed."],
        ] {
            let (_, found) = settled(&[one, "ok", other], &[0, 2]);
            assert_eq!(found, Settled::default(), "{other}");
        }
    }

    #[test]
    fn only_a_correction_of_their_subject_replaces_older_entries() {
        let line = |text: &str| SourceLine {
            person: Some(0),
            name: "Ada".to_owned(),
            text: text.to_owned(),
            day: chrono::NaiveDate::default(),
            is_resolution: false,
            asks: None,
        };
        let older = [
            entry(1, "We deploy on web-2 first."),
            entry(2, "The van of the team has 2 seats."),
            entry(3, "Ticket 2 of the van is fixed."),
        ];
        let new = [
            entry(4, "The van of the team has 3 seats."),
            entry(5, "Ticket 3 of the van is fixed."),
        ];
        let said = [
            "Sorry, the van of the team has 3 seats.",
            "Ticket 3 of the van is fixed.",
        ];
        let never = Interrupt::default();
        let found = corrected(&older, &new, said.map(line).to_vec(), &[], &never);
        assert_eq!(found.superseded, [(older[1].id, new[0].id)]);
    }

    #[test]
    fn questions_guesses_and_other_subjects_change_nothing() {
        for other in [
            "does the inspection start on 3 May?",
            "maybe the inspection is on 3 May",
            "The invoice is due on 3 May.",
        ] {
            let (_, found) = settled(&["Inspection is on 25 November.", "ok", other], &[0]);
            assert_eq!(found, Settled::default(), "{other}");
        }
        // A unit alone does not identify a subject.
        let (_, found) = settled(
            &[
                "The grant has 13,900 euros left.",
                "ok",
                "A night costs 65 euros.",
            ],
            &[0],
        );
        assert_eq!(found, Settled::default());
    }
}
