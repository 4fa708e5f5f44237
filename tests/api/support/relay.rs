//! A relay in front of a server, which can cut or stall connections.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use memchr::memmem;
use sqlx::postgres::PgConnectOptions;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};

/// Address of the server that a relay forwards to.
#[derive(Clone)]
pub enum Target {
    Tcp(String),
    Unix(PathBuf),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Passes,
    /// All connections are closed; new ones are closed as soon as they are accepted.
    Cut,
    /// Data does not arrive in either direction until traffic is restored.
    Stalled,
    /// Only notifications from `PostgreSQL` do not arrive, until traffic is restored.
    NotificationsStalled,
}

pub struct Relay {
    pub address: SocketAddr,
    target: Arc<Mutex<Target>>,
    traffic: watch::Sender<Traffic>,
    _running: JoinSet<()>,
}

impl Relay {
    pub async fn to(target: Target) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let (traffic, state) = watch::channel(Traffic::Passes);
        let mut running = JoinSet::new();
        running.spawn(accept(listener, Arc::clone(&target), state));
        Self {
            address,
            target,
            traffic,
            _running: running,
        }
    }

    /// Starts a relay in front of a `PostgreSQL` database; returns it and the URL through it.
    pub async fn before(database: &str) -> (Self, String) {
        let options: PgConnectOptions = database.parse().unwrap();
        let target = match options.get_socket() {
            Some(dir) => Target::Unix(dir.join(format!(".s.PGSQL.{}", options.get_port()))),
            None => Target::Tcp(format!("{}:{}", options.get_host(), options.get_port())),
        };
        let relay = Self::to(target).await;
        let (user, name) = (options.get_username(), options.get_database().unwrap());
        let url = format!("postgres://{user}@{}/{name}", relay.address);
        (relay, url)
    }

    /// Forwards new connections to another server, like a proxy that follows the primary.
    pub fn point_to(&self, target: Target) {
        *self.target.lock().unwrap() = target;
    }

    pub fn cut(&self) {
        self.traffic.send_replace(Traffic::Cut);
    }

    pub fn stall(&self) {
        self.traffic.send_replace(Traffic::Stalled);
    }

    pub fn stall_notifications(&self) {
        self.traffic.send_replace(Traffic::NotificationsStalled);
    }

    /// Restores normal traffic.
    pub fn mend(&self) {
        self.traffic.send_replace(Traffic::Passes);
    }
}

async fn accept(
    listener: TcpListener,
    target: Arc<Mutex<Target>>,
    mut traffic: watch::Receiver<Traffic>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                while open.try_join_next().is_some() {}
                // If traffic is cut, `client` is dropped here, which closes the connection.
                if *traffic.borrow() != Traffic::Cut {
                    let target = target.lock().unwrap().clone();
                    open.spawn(forward(client, target, traffic.clone()));
                }
            }
            changed = traffic.changed() => {
                if changed.is_err() {
                    return;
                }
                if *traffic.borrow_and_update() == Traffic::Cut {
                    open.abort_all();
                }
            }
        }
    }
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

async fn connect(target: &Target) -> std::io::Result<(Reader, Writer)> {
    Ok(match target {
        Target::Tcp(address) => {
            let (read, write) = TcpStream::connect(address).await?.into_split();
            (Box::new(read), Box::new(write))
        }
        Target::Unix(path) => {
            let (read, write) = UnixStream::connect(path).await?.into_split();
            (Box::new(read), Box::new(write))
        }
    })
}

/// Forwards a connection until one side closes it.
async fn forward(client: TcpStream, target: Target, traffic: watch::Receiver<Traffic>) {
    // If the server is down, this closes the client's connection.
    let Ok((mut from_server, mut to_server)) = connect(&target).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let listens = AtomicBool::new(false);
    let up = async {
        let mut traffic = traffic.clone();
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = from_client.read(&mut bytes).await {
            if memmem::find(&bytes[..n], b"LISTEN ").is_some() {
                listens.store(true, Ordering::Relaxed);
            }
            let passes = |traffic: &Traffic| *traffic != Traffic::Stalled;
            let passed = traffic.wait_for(passes).await.map(drop);
            if passed.is_err() || to_server.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        let mut traffic = traffic.clone();
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
            let passes = |traffic: &Traffic| match traffic {
                Traffic::Passes | Traffic::Cut => true,
                Traffic::Stalled => false,
                Traffic::NotificationsStalled => !listens.load(Ordering::Relaxed),
            };
            let passed = traffic.wait_for(passes).await.map(drop);
            if passed.is_err() || to_client.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
