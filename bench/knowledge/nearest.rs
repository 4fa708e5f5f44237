//! Nearest passages by the signs of their vectors and then by their bytes, compared with a scan of all bytes, and with the exact vectors.

use std::{collections::HashSet, time::Instant};

use openvibe::meaning::{Bits, Place, passage_bytes, similarity, to_bytes};
use rand::{Rng, SeedableRng, rngs::StdRng};
use uuid::Uuid;

use crate::report::{Table, float, ms, percentile, ratio, say};

const SEED: u64 = 1;
const PASSAGES: usize = 1_000_000;
const PASSAGES_IN_FILE: usize = 1_000;
const DIMENSIONS: usize = 768;
const TOPICS: usize = 2_000;
/// Weight of what a vector does not share with others of its topic.
const OWN: f32 = 0.7;
const QUESTIONS: usize = 20;
/// Number of exact nearest passages that should be found.
const BEST: usize = 20;

/// Unit vectors that are similar within a topic, as those of texts are.
struct Vectors {
    rng: StdRng,
    topics: Vec<Vec<f32>>,
}

impl Vectors {
    fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(SEED);
        let topics = (0..TOPICS).map(|_| random(&mut rng)).collect();
        Self { rng, topics }
    }

    fn vector(&mut self) -> Vec<f32> {
        let topic = self.rng.random_range(0..TOPICS);
        let own = random(&mut self.rng);
        let values = self.topics[topic].iter().zip(&own);
        let values: Vec<f32> = values.map(|(topic, own)| topic + OWN * own).collect();
        let length = product(&values, &values).sqrt();
        values.into_iter().map(|value| value / length).collect()
    }
}

fn random(rng: &mut StdRng) -> Vec<f32> {
    (0..DIMENSIONS)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect()
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn product_of_bytes(a: &[u8], b: &[u8]) -> i32 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| i32::from(a.cast_signed()) * i32::from(b.cast_signed()))
        .sum()
}

/// Adds a passage to the best ones, which are in order.
fn keep<T: PartialOrd>(best: &mut Vec<(T, usize)>, score: T, passage: usize) {
    let at = best.partition_point(|(other, _)| *other >= score);
    if at < BEST {
        best.insert(at, (score, passage));
        best.truncate(BEST);
    }
}

pub(super) fn run() {
    let mut vectors = Vectors::new();
    let questions: Vec<Vec<f32>> = (0..QUESTIONS).map(|_| vectors.vector()).collect();
    let mut exact: Vec<Vec<(f32, usize)>> = vec![Vec::new(); QUESTIONS];
    let mut bits = Bits::default();
    let mut bytes: Vec<u8> = Vec::with_capacity(PASSAGES * DIMENSIONS);
    let (mut files, mut file) = (HashSet::new(), Uuid::nil());
    for (no, passage) in (0_i64..).zip(0..PASSAGES) {
        if passage % PASSAGES_IN_FILE == 0 {
            file = Uuid::now_v7();
            files.insert(file);
        }
        let vector = vectors.vector();
        for (question, best) in questions.iter().zip(&mut exact) {
            keep(best, product(question, &vector), passage);
        }
        let packed = to_bytes(&vector);
        bits.add(Place { no, set: file }, &packed);
        bytes.extend(packed);
    }

    let (mut picks, mut scans, mut kept) = (Vec::new(), Vec::new(), 0);
    for (question, exact) in questions.iter().zip(&exact) {
        let started = Instant::now();
        let mut best: Vec<(f64, usize)> = Vec::new();
        for place in bits.pick(question, &files) {
            let passage = usize::try_from(place.no).unwrap_or_default();
            let vector = &bytes[passage * DIMENSIONS..][..DIMENSIONS];
            keep(&mut best, similarity(question, vector), passage);
        }
        picks.push(ms(started.elapsed()));
        let is_found = |passage: usize| best.iter().any(|(_, found)| *found == passage);
        kept += exact
            .iter()
            .filter(|(_, passage)| is_found(*passage))
            .count();

        let started = Instant::now();
        let packed = to_bytes(question);
        let mut best: Vec<(i32, usize)> = Vec::new();
        for (passage, vector) in bytes.chunks_exact(DIMENSIONS).enumerate() {
            keep(&mut best, product_of_bytes(&packed, vector), passage);
        }
        scans.push(ms(started.elapsed()));
        assert_eq!(best.len(), BEST);
    }

    let mut table = Table::new(
        "Nearest of 10⁶ passages, vectors of 768 values, one core, ms",
        &["", "p50", "p95"],
    );
    for (name, times) in [
        ("signs, then the bytes of 500", &picks),
        ("bytes of all", &scans),
    ] {
        let cells = [0.5, 0.95].map(|p| format!("{:.1}", percentile(times, p)));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table.print();
    say(&format!(
        "\n{QUESTIONS} questions; median of signs to all bytes {:.2}. Memory for the signs: {:.0} MB. Of the {BEST} nearest by exact vectors, \
         {:.3} are among the first {BEST} (targets: 100 ms, 150 MB, 0.97). The vectors are made, in {TOPICS} topics.",
        ratio(&picks, &scans),
        float(passage_bytes(DIMENSIONS) * PASSAGES) / 1e6,
        float(kept) / float(BEST * QUESTIONS)
    ));
}
