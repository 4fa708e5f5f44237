//! Texts with the word frequencies of natural language, the same in each run.

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::report::float;

const SEED: u64 = 1;
/// Every other word of a text is one of these.
const FUNCTION_WORDS: [&str; 16] = [
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "with", "on", "was", "are",
    "we", "from",
];
/// Number of different content words.
const VOCABULARY: usize = 20_000;
/// A word's frequency is inversely proportional to its rank plus this offset: the most common content word is in 10 % of the
/// messages, the thousandth in 0.1 %.
const OFFSET: f64 = 10.0;
const CONSONANTS: &[u8; 15] = b"bdfgklmnprstvwz";
const VOWELS: &[u8; 5] = b"aeiou";
const SYLLABLES: usize = CONSONANTS.len() * VOWELS.len();
const SYLLABLES_IN_WORD: u32 = 3;
/// Has no common factor with the number of words that can be spelled, so that every rank has a different word.
const STEP: usize = 181_081;

pub(crate) struct Words {
    rng: StdRng,
}

impl Words {
    pub(crate) fn new() -> Self {
        Self {
            rng: StdRng::seed_from_u64(SEED),
        }
    }

    /// A message of 8 to 24 words.
    pub(crate) fn message(&mut self) -> String {
        let pairs = self.rng.random_range(4..=12);
        self.text(pairs)
    }

    /// A query with four content words.
    pub(crate) fn query(&mut self) -> String {
        self.text(4)
    }

    fn text(&mut self, pairs: usize) -> String {
        let pairs = (0..pairs).map(|_| {
            let function_word = FUNCTION_WORDS[self.rng.random_range(0..FUNCTION_WORDS.len())];
            format!("{function_word} {}", self.content_word())
        });
        pairs.collect::<Vec<String>>().join(" ")
    }

    fn content_word(&mut self) -> String {
        let share = self.rng.random::<f64>();
        let rank = OFFSET * ((float(VOCABULARY) + OFFSET) / OFFSET).powf(share) - OFFSET;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and `VOCABULARY`"
        )]
        let rank = rank as usize;
        spelled(rank)
    }
}

fn spelled(rank: usize) -> String {
    let mut number = rank * STEP % SYLLABLES.pow(SYLLABLES_IN_WORD);
    let letters = (0..SYLLABLES_IN_WORD).flat_map(|_| {
        let syllable = number % SYLLABLES;
        number /= SYLLABLES;
        [
            CONSONANTS[syllable / VOWELS.len()],
            VOWELS[syllable % VOWELS.len()],
        ]
    });
    letters.map(char::from).collect()
}
