//! Scores the extractor on labeled dialogues: `cargo run -p openvibe-extract --release --example score -- DIR [NAME]`.
//!
//! Prints the total and the score of every part. With `NAME`, also prints the missing and wrong items of dialogues whose names begin
//! with it (`all` for every dialogue). The score is defined in `tests/support/mod.rs`.

#[path = "../tests/support/mod.rs"]
mod support;

#[expect(clippy::print_stdout, reason = "the purpose of the program")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory =
        arguments.next().unwrap_or_else(|| "crates/extract/tests/dialogues/dev".to_owned());
    let shown = arguments.next();
    let dialogues = support::load(directory.as_ref());
    let (total, rows) = support::score_all(&dialogues);
    for (name, score, outline) in &rows {
        let is_shown = shown
            .as_ref()
            .is_some_and(|prefix| prefix == "all" || name.starts_with(prefix.as_str()));
        if is_shown {
            println!("## {name}\n  HEAD {}\n  CONC {}", outline.headline, outline.conclusion);
            for point in &outline.key_points {
                println!("  KEY  {:?} {}", point.sources, point.text);
            }
            for item in &outline.action_items {
                println!("  ITEM {:?} {}", item.sources, item.text);
            }
            for fault in &score.faults {
                println!("  {fault}");
            }
        }
    }
    println!("{} dialogues, total {:.3}", rows.len(), total.total());
    for (name, share) in total.parts() {
        println!("{name:16}{share:.3}");
    }
}
