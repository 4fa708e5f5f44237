//! Connection to an agent: the Agent Client Protocol, version 1, as JSON lines over the streams of its process.
//!
//! The types are our own and tolerant: what is unknown is ignored.

use std::{io, pin::Pin, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    time::timeout,
};

use crate::{Owner, failure::Failure, frames::cut};

/// Maximum length of a line; longer ones are skipped.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Number of messages that wait: an agent that sends more has to wait.
const QUEUE_MAX: usize = 8;
const WRITE_MAX: Duration = Duration::from_secs(10);
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL_ERROR: i64 = -32603;

/// A message of the agent, or of the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: u64, result: Result<Value, String> },
}

impl Message {
    /// Parses a line; `None` if it is no message.
    fn parse(line: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut object)) = serde_json::from_slice(line) else { return None };
        let id = object.remove("id").filter(|id| !id.is_null());
        if let Some(Value::String(method)) = object.remove("method") {
            let params = object.remove("params").unwrap_or_default();
            return Some(match id {
                Some(id) => Self::Request { id, method, params },
                None => Self::Notification { method, params },
            });
        }
        let id = id?.as_u64()?;
        let result = match object.remove("error").filter(|error| !error.is_null()) {
            Some(error) => {
                Err(cut(error["message"].as_str().unwrap_or("an error without a message"), 500)
                    .to_owned())
            }
            None => Ok(object.remove("result").unwrap_or_default()),
        };
        Some(Self::Response { id, result })
    }
}

/// Reads messages from lines; other lines are skipped. The channel closes at the end of the stream.
pub(crate) fn messages(
    stream: impl AsyncRead + Unpin + Send + 'static,
    owner: &Owner,
) -> mpsc::Receiver<Message> {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    owner.spawn(async move {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(true) = next_line(&mut reader, &mut line).await {
            if let Some(message) = Message::parse(&line)
                && sender.send(message).await.is_err()
            {
                break;
            }
        }
    });
    receiver
}

/// Reads a line, which is empty if it is too long. Returns false at the end.
async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    let mut is_long = false;
    loop {
        let part = reader.fill_buf().await?;
        if part.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        is_long |= line.len() + length > LINE_BYTES_MAX;
        if is_long {
            line.clear();
        } else {
            line.extend_from_slice(&part[..length]);
        }
        reader.consume(length);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// One side of a connection.
pub(crate) struct Peer {
    out: Pin<Box<dyn AsyncWrite + Send>>,
    pub(crate) messages: mpsc::Receiver<Message>,
    last_id: u64,
}

impl Peer {
    pub(crate) fn new(
        from: impl AsyncRead + Unpin + Send + 'static,
        to: impl AsyncWrite + Send + 'static,
        owner: &Owner,
    ) -> Self {
        Self { out: Box::pin(to), messages: messages(from, owner), last_id: 0 }
    }

    async fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let mut text = message.to_string();
        text.push('\n');
        let writing = async {
            self.out.write_all(text.as_bytes()).await?;
            self.out.flush().await
        };
        match timeout(WRITE_MAX, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Failure::agent("the agent ended")),
            Err(_) => Err(Failure::agent("the agent does not read its messages")),
        }
    }

    /// Sends a request, and returns its number.
    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> Result<u64, Failure> {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&message).await?;
        Ok(id)
    }

    pub(crate) async fn notify(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    pub(crate) async fn respond(&mut self, id: &Value, result: &Value) -> Result<(), Failure> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await
    }

    pub(crate) async fn reject(&mut self, id: &Value, method: &str) -> Result<(), Failure> {
        let message = format!("{} is not offered", cut(method, 100));
        let error = json!({"code": METHOD_NOT_FOUND, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await
    }

    pub(crate) async fn fail(&mut self, id: &Value, message: &str) -> Result<(), Failure> {
        let error = json!({"code": INTERNAL_ERROR, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await
    }

    /// Ignores messages until there are none for a while, or the time is over.
    pub(crate) async fn settle(
        &mut self,
        quiet: Duration,
        duration_max: Duration,
    ) -> Result<(), Failure> {
        let settling = async {
            while let Ok(Some(message)) = timeout(quiet, self.messages.recv()).await {
                if let Message::Request { id, method, .. } = message {
                    self.reject(&id, &method).await?;
                }
            }
            Ok::<_, Failure>(())
        };
        timeout(duration_max, settling).await.unwrap_or(Ok(()))
    }

    /// Sends a request and waits for its response; notifications are ignored, requests are rejected.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: &Value,
        duration_max: Duration,
    ) -> Result<Value, Failure> {
        let calling = async {
            let own = self.request(method, params).await?;
            while let Some(message) = self.messages.recv().await {
                match message {
                    Message::Response { id, result } if id == own => {
                        return result
                            .map_err(|error| Failure::agent(format!("{method}: {error}")));
                    }
                    Message::Request { id, method, .. } => self.reject(&id, &method).await?,
                    _ => {}
                }
            }
            Err(Failure::agent("the agent ended before it was ready"))
        };
        let late = Failure::agent(format!("the agent did not respond to {method}"));
        timeout(duration_max, calling).await.unwrap_or(Err(late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_lines_and_long_lines_are_skipped() {
        let long = format!("{{\"method\":\"{}\"}}\n", "x".repeat(LINE_BYTES_MAX));
        let text = format!(
            "garbage\n[1]\n{long}{{\"method\":\"a\",\"params\":{{\"b\":1}}}}\n{{\"id\":\"x\",\"method\":\"c\"}}\n{{\"id\":7,\"error\":{{\"message\":\"no\"}}}}\n{{\"id\":8,\"result\":2}}"
        );
        let owner = Owner::new();
        let mut receiver = messages(io::Cursor::new(text.into_bytes()), &owner);
        let mut all = Vec::new();
        while let Some(message) = receiver.recv().await {
            all.push(message);
        }
        assert_eq!(
            all,
            [
                Message::Notification { method: "a".to_owned(), params: json!({"b": 1}) },
                Message::Request { id: json!("x"), method: "c".to_owned(), params: Value::Null },
                Message::Response { id: 7, result: Err("no".to_owned()) },
                Message::Response { id: 8, result: Ok(json!(2)) },
            ]
        );
    }
}
