//! Baseline for fan-out: a program that only writes the same frame to every socket. It uses the server's WebSocket library, a read
//! buffer of 4 KiB, and one flush per wake-up of a socket task.
//!
//! The first connection is the control connection: one line with the frame, then lines with the number of times to send it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use futures::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::{
    accept_async_with_config,
    tungstenite::{Message, Utf8Bytes, protocol::WebSocketConfig},
};

pub(crate) const COMMAND: &str = "bare-broadcaster";
const BUFFER_BYTES: usize = 4 * 1024;
const QUEUE_MAX: usize = 1024;
const FRAMES_AT_ONCE: usize = 64;

type Queues = Arc<Mutex<Vec<mpsc::Sender<Utf8Bytes>>>>;

pub(crate) fn main() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            crate::report::say(&format!("listening on {}", listener.local_addr()?));
            let (control, _) = listener.accept().await?;
            let queues = Queues::default();
            let mut tasks = JoinSet::new();
            tasks.spawn(broadcast(control, Arc::clone(&queues)));
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (tcp, _) = accepted?;
                        let queues = Arc::clone(&queues);
                        tasks.spawn(async move { drop(serve(tcp, queues).await); Ok(()) });
                    }
                    Some(ended) = tasks.join_next() => ended??,
                }
            }
        })
}

async fn broadcast(control: TcpStream, queues: Queues) -> anyhow::Result<()> {
    let mut lines = BufReader::new(control).lines();
    let frame: Utf8Bytes = lines
        .next_line()
        .await?
        .context("the control connection sent no frame")?
        .into();
    while let Some(line) = lines.next_line().await? {
        for _ in 0..line.parse::<u32>()? {
            let queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
            for queue in queues.iter() {
                queue.try_send(frame.clone())?;
            }
        }
    }
    std::future::pending().await
}

async fn serve(tcp: TcpStream, queues: Queues) -> anyhow::Result<()> {
    tcp.set_nodelay(true)?;
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(4 * 1024 * 1024);
    let mut ws = accept_async_with_config(tcp, Some(config)).await?;
    let (send, mut queue) = mpsc::channel(QUEUE_MAX);
    queues
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(send);
    let mut batch = Vec::with_capacity(1);
    loop {
        tokio::select! {
            n = queue.recv_many(&mut batch, FRAMES_AT_ONCE) => {
                if n == 0 {
                    return Ok(());
                }
                for frame in batch.drain(..) {
                    ws.feed(Message::Text(frame)).await?;
                }
                ws.flush().await?;
            }
            frame = ws.next() => {
                frame.context("the peer closed the connection")??;
            }
        }
    }
}
