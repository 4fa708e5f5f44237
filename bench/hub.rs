//! The server with a control connection that publishes frames directly to the hub: fan-out without the cost of storing.
//!
//! The first line of the control connection is the workspace, a tab, and the frame; each further line is the number of
//! times to publish it.

use std::time::Duration;

use anyhow::Context;
use openvibe::{
    app::App,
    config::{Config, Flags},
    ids::{ChannelId, WorkspaceId},
    realtime::{Audience, Envelope},
    time::Timestamp,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
};

pub(crate) const COMMAND: &str = "hub-server";

pub(crate) fn main() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let mut config = Config::load(Flags::default())?;
            // This program reads no documents.
            config.program = env!("CARGO_BIN_EXE_openvibe").into();
            let app = App::build(config).await?;
            let hub = app.hub();
            let control = TcpListener::bind("127.0.0.1:0").await?;
            crate::report::say(&format!("control {}", control.local_addr()?));
            crate::report::say(&format!("listening on http://{}", app.address()));
            // As in the real server, frames come from a separate task.
            let (send, mut receive) = mpsc::channel::<Envelope>(64);
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                while let Some(event) = receive.recv().await {
                    hub.publish(&event);
                }
                Ok(())
            });
            tasks.spawn(async move {
                let (tcp, _) = control.accept().await?;
                let mut lines = BufReader::new(tcp).lines();
                let first = lines
                    .next_line()
                    .await?
                    .context("the control connection sent no line")?;
                let (workspace, frame) = first
                    .split_once('\t')
                    .context("the first line has no tab")?;
                let mut event = Envelope {
                    only: None,
                    is_of_agent: false,
                    is_traffic: true,
                    is_for_guests: false,
                    mentioned: Vec::new(),
                    ends_stream: None,
                    workspace: workspace.parse::<WorkspaceId>()?,
                    // Higher than any `seq` in the log.
                    seq: 1_000_000,
                    ts: Timestamp::EPOCH,
                    audience: Audience::Public(ChannelId::new()),
                    extra_recipient: None,
                    access: None,
                    frame: frame.into(),
                };
                while let Some(line) = lines.next_line().await? {
                    for _ in 0..line.parse::<u32>()? {
                        event.seq += 1;
                        send.send(event.clone()).await?;
                    }
                }
                std::future::pending::<anyhow::Result<()>>().await
            });
            tokio::select! {
                ran = app.run(tokio::time::sleep(Duration::MAX)) => ran,
                Some(ended) = tasks.join_next() => ended?,
            }
        })
}
