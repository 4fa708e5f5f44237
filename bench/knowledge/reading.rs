//! Reading PDFs of 1,200 pages: CPU time of the process that takes the text, and posts during that time, compared with posts before it.

use std::{fmt::Write, time::Instant};

use serde_json::json;

use super::{is_read, make_store, put};
use crate::{
    client::{Http, Team},
    process::{self, Server},
    report::{Table, ms, percentile, say, spread},
    sends::CONTENT,
    words::Words,
};

const PAGES: usize = 1_200;
const LINES: usize = 50;
const ROUNDS: usize = 5;
/// Number of posts in a round before the file is read, and between checks whether it was.
const POSTS: usize = 1_000;
const POSTS_PER_CHECK: usize = 50;

/// A PDF with `PAGES` pages of `LINES` lines.
fn pdf(words: &mut Words) -> Result<String, std::fmt::Error> {
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        String::new(),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    let mut kids = String::new();
    for _ in 0..PAGES {
        let mut content = "BT /F1 10 Tf 13 TL 40 760 Td\n".to_owned();
        for _ in 0..LINES {
            writeln!(content, "({}) '", words.message())?;
        }
        content.push_str("ET");
        let page = objects.len() + 1;
        write!(kids, "{page} 0 R ")?;
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents {} 0 R>>",
            page + 1
        ));
        objects.push(format!(
            "<</Length {}>>stream\n{content}\nendstream",
            content.len()
        ));
    }
    objects[1] = format!("<</Type/Pages/Kids[{kids}]/Count {PAGES}>>");
    let mut out = "%PDF-1.4\n".to_owned();
    let mut table = String::new();
    for (n, object) in objects.iter().enumerate() {
        writeln!(table, "{:010} 00000 n ", out.len())?;
        write!(out, "{} 0 obj\n{object}\nendobj\n", n + 1)?;
    }
    let (at, size) = (out.len(), objects.len() + 1);
    write!(
        out,
        "xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{at}\n%%EOF"
    )?;
    Ok(out)
}

/// Posts messages one after another; adds the times in ms.
async fn post(
    http: &mut Http,
    thread: &str,
    count: usize,
    times: &mut Vec<f64>,
) -> anyhow::Result<()> {
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": CONTENT}).to_string();
    for _ in 0..count {
        let started = Instant::now();
        http.send("POST", &path, &form).await?.json()?;
        times.push(ms(started.elapsed()));
    }
    Ok(())
}

pub(super) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let mut http = team.http(0).await?;
    let thread = team.thread().await?;
    let store = make_store(&mut http).await?;
    let mut words = Words::new();
    let (mut quiet, mut beside, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let file = pdf(&mut words)?;
        post(&mut http, &thread, POSTS, &mut quiet).await?;
        let before = server.process.cpu_of_ended_children();
        put(&mut http, &store, &format!("{round}.pdf"), &file).await?;
        while !is_read(&mut http, &store, round).await? {
            post(&mut http, &thread, POSTS_PER_CHECK, &mut beside).await?;
        }
        let after = server.process.cpu_of_ended_children();
        cpu.push(after.saturating_sub(before).as_secs_f64());
    }
    let mut table = Table::new(
        "Posts while a PDF of 1,200 pages is read, ms",
        &["", "p50", "p99", "p99, ratio"],
    );
    let baseline = percentile(&quiet, 0.99);
    for (name, times) in [
        ("posts before", &quiet),
        ("posts while it is read", &beside),
    ] {
        let cells = [0.5, 0.99].map(|p| format!("{:.2}", percentile(times, p)));
        let of = format!("{:.2}", percentile(times, 0.99) / baseline);
        table.row(std::iter::once(name.to_owned()).chain(cells).chain([of]));
    }
    table.print();
    say(&format!(
        "\n{}. CPU time of the process that takes the text: {} s (targets: 6 s, and posts 1.2 times in the p99). {} posts during that time, \
         which includes the index of passages.",
        process::engine(),
        spread(&cpu, 1),
        beside.len()
    ));
    Ok(())
}
