//! Benchmarks of `OpenVibe`, always compared with a baseline in the same run: `make bench`.
//!
//! ```text
//! make bench                         everything; docs/performance.md has the time
//! cargo bench --bench speed -- send  only benchmarks with `send` in their name
//! ```
//!
//! The server runs in its own process; this process runs the clients and, for agents, the model server. Rounds of the server and the
//! baseline alternate, and medians and ratios are printed. Nothing is asserted: the results depend on the load of the machine, so
//! people interpret them (`docs/performance.md`).

mod agents;
mod approvals;
mod ask;
mod attacks;
mod bare;
mod client;
mod coder;
mod context;
mod crowd;
mod engine;
mod extract;
mod fanout;
mod hub;
mod imports;
mod inbox;
mod knowledge;
mod model;
mod names;
mod nodes;
mod process;
mod push;
mod readers;
mod reads;
mod report;
mod resume;
mod sends;
mod sign_in;
mod steering;
mod streams;
mod together;
mod tone;
mod tools;
mod triggers;
mod words;

use std::process::ExitCode;

/// Names of all benchmarks.
const BENCHES: &[&str] = &[
    "fanout",
    "memory",
    "sends",
    "ask",
    "streams",
    "reads",
    "resume",
    "extract",
    "agents",
    "crowd",
    "readers",
    "attacks",
    "tone",
    "steering",
    "tools",
    "together",
    "context",
    "nodes",
    "inbox",
    "push",
    "names",
    "sign_in",
    "coder",
    "knowledge",
    "imports",
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some(bare::COMMAND) => bare::main(),
        Some(hub::COMMAND) => hub::main(),
        filter => run(
            filter.unwrap_or_default(),
            arguments.get(1).map_or("", String::as_str),
        ),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            report::say(&format!("the benchmark failed: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmarks with `filter` in their names. Of benchmarks with named parts, it runs only the parts with `part` in their
/// names.
fn run(filter: &str, part: &str) -> anyhow::Result<()> {
    let chosen: Vec<&str> = BENCHES
        .iter()
        .copied()
        .filter(|name| name.contains(filter))
        .collect();
    anyhow::ensure!(
        !chosen.is_empty(),
        "no benchmark has `{filter}` in its name: use one of {}",
        BENCHES.join(", ")
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        for name in chosen {
            match name {
                "fanout" => fanout::run().await?,
                "memory" => fanout::memory().await?,
                "sends" => sends::run().await?,
                "ask" => ask::run().await?,
                "streams" => streams::run().await?,
                "reads" => reads::run().await?,
                "extract" => extract::run(),
                "agents" => agents::run().await?,
                "crowd" => crowd::run().await?,
                "readers" => readers::run().await?,
                "attacks" => attacks::run().await?,
                "tone" => tone::run(),
                "steering" => steering::run().await?,
                "tools" => {
                    tools::run().await?;
                    approvals::run().await?;
                }
                "together" => {
                    together::run().await?;
                    triggers::run().await?;
                }
                "context" => context::run(part).await?,
                "nodes" => nodes::run(part).await?,
                "inbox" => inbox::run().await?,
                "push" => push::run().await?,
                "names" => names::run().await?,
                "sign_in" => sign_in::run().await?,
                "coder" => coder::run().await?,
                "knowledge" => knowledge::run(part).await?,
                "imports" => imports::run().await?,
                _ => resume::run().await?,
            }
        }
        Ok(())
    })
}
