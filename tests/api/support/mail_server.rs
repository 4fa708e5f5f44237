//! A mail server that keeps what it receives and answers as a test says.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{authority::certified, within};

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
    /// Certificate for STARTTLS, without which it accepts no emails.
    tls: Option<TlsAcceptor>,
    behavior: Mutex<MailBehavior>,
    received: watch::Sender<Vec<ReceivedMail>>,
    attempts: AtomicUsize,
}

/// The mail server, until it is dropped.
pub struct MailServer {
    pub url: String,
    /// Directory with the certificates.
    dir: Option<PathBuf>,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

/// The next line without its end; `None` once the client has closed the connection.
async fn next_line(
    stream: &mut BufReader<impl AsyncRead + Unpin>,
) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await?;
    Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
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
        Self::with(None).await
    }

    /// Starts a server that requires STARTTLS, with a certificate of its own authority.
    pub async fn encrypted() -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-mail-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        Self::with(Some(dir)).await
    }

    async fn with(dir: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The certificate is for this name.
        let host = if dir.is_some() {
            "localhost"
        } else {
            "127.0.0.1"
        };
        let shared = Arc::new(Shared {
            tls: dir.as_deref().map(certified),
            behavior: Mutex::new(MailBehavior::Accept),
            received: watch::Sender::default(),
            attempts: AtomicUsize::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            url: format!("smtp://chat:hunter2@{host}:{port}"),
            dir,
            shared,
            _serving: serving,
        }
    }

    /// File with the authority of the certificate.
    pub fn authority(&self) -> String {
        let dir = self.dir.as_ref().unwrap();
        dir.join("ca.pem").display().to_string()
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

impl Drop for MailServer {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            drop(std::fs::remove_dir_all(dir));
        }
    }
}

/// End of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talk {
    Ended,
    /// It goes on with encryption.
    Encrypted,
}

impl Shared {
    fn behavior(&self) -> MailBehavior {
        *self.behavior.lock().unwrap()
    }

    async fn converse(&self, tcp: TcpStream) -> std::io::Result<()> {
        let mut tcp = BufReader::new(tcp);
        tcp.write_all(b"220 mail.example.org ready\r\n").await?;
        let talk = self.talk(&mut tcp, self.tls.is_some()).await?;
        if let (Talk::Encrypted, Some(tls)) = (talk, &self.tls) {
            let mut encrypted = BufReader::new(tls.accept(tcp.into_inner()).await?);
            self.talk(&mut encrypted, false).await?;
        }
        Ok(())
    }

    /// Answers commands. If `must_encrypt` is true, STARTTLS has to come first.
    async fn talk(
        &self,
        stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>,
        must_encrypt: bool,
    ) -> std::io::Result<Talk> {
        let mut to = String::new();
        while let Some(line) = next_line(stream).await? {
            let command = line.to_uppercase();
            let answer = if command.starts_with("EHLO") && must_encrypt {
                "250-mail.example.org\r\n250 STARTTLS"
            } else if command.starts_with("EHLO") {
                "250-mail.example.org\r\n250 AUTH PLAIN LOGIN"
            } else if must_encrypt && command == "STARTTLS" {
                stream.write_all(b"220 go on\r\n").await?;
                return Ok(Talk::Encrypted);
            } else if must_encrypt && command != "QUIT" {
                "530 5.7.0 use STARTTLS"
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
                    return Ok(Talk::Ended);
                }
                stream.write_all(b"354 go on\r\n").await?;
                stream.flush().await?;
                let mut text = String::new();
                while let Some(line) = next_line(stream).await? {
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
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(Talk::Ended);
            } else {
                "250 ok"
            };
            let answer = format!("{answer}\r\n");
            stream.write_all(answer.as_bytes()).await?;
            stream.flush().await?;
        }
        Ok(Talk::Ended)
    }
}
