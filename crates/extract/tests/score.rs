//! The extractor's score on the labeled dialogues must not fall.

mod support;

use std::path::Path;

/// Dialogues that the weights are trained on. The score on new dialogues is lower; see `examples/train.rs`.
const SETS: [&str; 5] = ["dev", "held", "held-2", "held-3", "held-4"];

/// Minimum scores, just below the measured values, in the order of `Score::parts`; the total comes last.
const FLOOR: [(&str, f64); 10] = [
    ("decisions", 0.84),
    ("actions", 0.83),
    ("owners", 0.93),
    ("dates", 0.88),
    ("open questions", 0.81),
    ("dissent", 0.91),
    ("superseded", 0.91),
    ("never", 0.79),
    ("result", 0.88),
    ("total", 0.88),
];

#[test]
fn the_score_on_labeled_dialogues_stays_above_the_floor() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogues");
    let all: Vec<_> = SETS.iter().flat_map(|set| support::load(&directory.join(set))).collect();
    let (total, rows) = support::score_all(&all);
    assert!(
        rows.iter()
            .all(|(_, _, outline)| !outline.headline.is_empty() && !outline.conclusion.is_empty())
    );
    let parts = total.parts().into_iter().chain([("total", total.total())]);
    for ((name, share), (same, floor)) in parts.zip(FLOOR) {
        assert_eq!(name, same);
        assert!(share >= floor, "{name}: {share:.3} is below {floor}");
    }
}
