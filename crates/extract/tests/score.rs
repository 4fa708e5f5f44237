//! The extractor's score on the labeled dialogues must not fall.

mod support;

use std::path::Path;

/// Just under the measured values, in the order of `Score::parts`; the total is the last one.
const FLOOR: [(&str, f64); 10] = [
    ("decisions", 0.68),
    ("actions", 0.73),
    ("owners", 0.94),
    ("dates", 0.83),
    ("open questions", 0.69),
    ("dissent", 0.85),
    ("superseded", 0.83),
    ("never", 0.83),
    ("result", 0.86),
    ("total", 0.80),
];

#[test]
fn the_score_on_labeled_dialogues_stays_above_the_floor() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogues/dev");
    let (total, rows) = support::score_all(&support::load(&directory));
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
