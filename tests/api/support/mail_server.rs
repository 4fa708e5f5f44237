//! A mail server that keeps what it receives and answers as a test says.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::within;

/// Answers of the mail server to the next commands, until another behavior is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailBehavior {
    Accept,
    RefuseLogin,
    RefuseRecipient,
    /// A temporary refusal of the recipient.
    Busy,
    /// Closes the connection in the middle of an email.
    HangUp,
}

/// A received email.
#[derive(Debug, Clone)]
pub struct ReceivedMail {
    pub to: String,
    /// Headers and body, with soft line breaks removed.
    pub text: String,
}

impl ReceivedMail {
    /// The link in the email that begins with this path.
    pub fn token(&self, path: &str) -> String {
        let start = self
            .text
            .find(path)
            .unwrap_or_else(|| panic!("no {path} in {}", self.text))
            + path.len();
        let rest = &self.text[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        rest[..end.unwrap_or(rest.len())].to_owned()
    }
}

struct Shared {
    behavior: Mutex<MailBehavior>,
    received: watch::Sender<Vec<ReceivedMail>>,
    attempts: AtomicUsize,
}

/// The mail server, until it is dropped.
pub struct MailServer {
    pub url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        // A connection that the client closed is no fault of the test.
        open.spawn(async move { drop(shared.converse(tcp).await) });
    }
}

impl MailServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://chat:hunter2@{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            behavior: Mutex::new(MailBehavior::Accept),
            received: watch::Sender::default(),
            attempts: AtomicUsize::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    pub fn behave(&self, behavior: MailBehavior) {
        *self.shared.behavior.lock().unwrap() = behavior;
    }

    /// Number of emails that a client began to send.
    pub fn attempts(&self) -> usize {
        self.shared.attempts.load(Ordering::SeqCst)
    }

    pub fn received(&self) -> Vec<ReceivedMail> {
        self.shared.received.borrow().clone()
    }

    /// Waits for the `n`th email, counted from 1.
    pub async fn nth(&self, n: usize) -> ReceivedMail {
        let mut received = self.shared.received.subscribe();
        let mails = within("an email", received.wait_for(|mails| mails.len() >= n))
            .await
            .unwrap();
        mails[n - 1].clone()
    }
}

impl Shared {
    fn behavior(&self) -> MailBehavior {
        *self.behavior.lock().unwrap()
    }

    async fn converse(&self, tcp: TcpStream) -> std::io::Result<()> {
        let (read, mut write) = tcp.into_split();
        let mut lines = BufReader::new(read).lines();
        let mut to = String::new();
        write.write_all(b"220 mail.example.org ready\r\n").await?;
        while let Some(line) = lines.next_line().await? {
            let command = line.to_uppercase();
            let answer = if command.starts_with("EHLO") {
                "250-mail.example.org\r\n250 AUTH PLAIN LOGIN"
            } else if command.starts_with("AUTH") {
                match self.behavior() {
                    MailBehavior::RefuseLogin => "535 5.7.8 wrong password",
                    _ => "235 2.7.0 signed in",
                }
            } else if command.starts_with("MAIL") {
                self.attempts.fetch_add(1, Ordering::SeqCst);
                "250 ok"
            } else if command.starts_with("RCPT") {
                to = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
                match self.behavior() {
                    MailBehavior::RefuseRecipient => "550 5.1.1 no such mailbox",
                    MailBehavior::Busy => "451 4.3.0 try again later",
                    _ => "250 ok",
                }
            } else if command == "DATA" {
                if self.behavior() == MailBehavior::HangUp {
                    return Ok(());
                }
                write.write_all(b"354 go on\r\n").await?;
                let mut text = String::new();
                while let Some(line) = lines.next_line().await? {
                    if line == "." {
                        break;
                    }
                    text.push_str(&line);
                    text.push('\n');
                }
                let text = text.replace("=\n", "").replace("=3D", "=");
                let mail = ReceivedMail {
                    to: to.clone(),
                    text,
                };
                self.received.send_modify(|mails| mails.push(mail));
                "250 2.0.0 queued as 1"
            } else if command == "QUIT" {
                write.write_all(b"221 bye\r\n").await?;
                return Ok(());
            } else {
                "250 ok"
            };
            write.write_all(format!("{answer}\r\n").as_bytes()).await?;
        }
        Ok(())
    }
}
