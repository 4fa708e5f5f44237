//! A reverse proxy with a fault that the test chooses. It closes each connection after one request.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional, sink},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    LosesHost,
    /// Sends a response when it is complete.
    Buffers,
    RefusesUpgrades,
    /// Refuses bodies above 1 MiB.
    LimitsBodies,
    /// Answers itself, with these headers.
    Answers(&'static str),
}

struct Setup {
    fault: Fault,
    upstream: Option<SocketAddr>,
}

pub struct Proxy {
    pub port: u16,
    setup: Arc<Mutex<Setup>>,
    _running: JoinSet<()>,
}

impl Proxy {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let setup = Arc::new(Mutex::new(Setup {
            fault: Fault::None,
            upstream: None,
        }));
        let mut running = JoinSet::new();
        let shared = Arc::clone(&setup);
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let setup = Arc::clone(&shared);
                // The end of a connection is no failure of the test.
                connections.spawn(async move { drop(serve(client, &setup).await) });
            }
        });
        Self {
            port,
            setup,
            _running: running,
        }
    }

    /// Forwards requests to the server at this base URL.
    pub fn forward_to(&self, base: &str) {
        let address = base.strip_prefix("http://").unwrap().parse().unwrap();
        self.setup.lock().unwrap().upstream = Some(address);
    }

    pub fn fail(&self, fault: Fault) {
        self.setup.lock().unwrap().fault = fault;
    }
}

async fn serve(mut client: TcpStream, setup: &Mutex<Setup>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let (fault, upstream) = {
        let setup = setup.lock().unwrap();
        (setup.fault, setup.upstream)
    };
    let path = head.split(' ').nth(1).unwrap_or_default();
    let own = match fault {
        Fault::Answers(answer) => Some(answer),
        Fault::LimitsBodies if path.ends_with("/upload") => Some("413 Payload Too Large"),
        _ => None,
    };
    if let Some(answer) = own {
        let response =
            format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        client.write_all(response.as_bytes()).await?;
        // Reads the rest, as proxies do, so that the response is not lost.
        copy(&mut client, &mut sink()).await?;
        return Ok(());
    }
    let is_upgrade = head.to_lowercase().contains("\r\nupgrade: ");
    let keeps_upgrade = is_upgrade && fault != Fault::RefusesUpgrades;
    let mut lines: Vec<String> = head
        .trim_end()
        .split("\r\n")
        .filter(|line| {
            let name = line.split(':').next().unwrap_or_default().to_lowercase();
            let is_replaced = name == "host" && fault == Fault::LosesHost;
            let is_of_hop = matches!(name.as_str(), "connection" | "upgrade") && !keeps_upgrade;
            !is_replaced && !is_of_hop
        })
        .map(str::to_owned)
        .collect();
    if fault == Fault::LosesHost {
        lines.push("host: openvibe_backend".to_owned());
    }
    if !keeps_upgrade {
        lines.push("connection: close".to_owned());
    }
    lines.push("x-forwarded-for: 203.0.113.7".to_owned());
    let mut server = TcpStream::connect(upstream.unwrap()).await?;
    server
        .write_all(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes())
        .await?;
    if fault == Fault::Buffers && path.ends_with("/stream") {
        let mut response = Vec::new();
        server.read_to_end(&mut response).await?;
        return client.write_all(&response).await;
    }
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
