//! Pictures of a request, which are added to the JSON of its messages, or replaced with text for models that cannot see.

use serde_json::{Value, json};

use super::super::{
    chat::{ChatMessage, Role},
    picture::TurnPicture,
};

/// Reason for repeating a request without its pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureRefusal {
    /// The server reported that the model cannot see pictures.
    Unsupported,
    /// The error is about a picture, or about nothing that the server named.
    Unclear,
    /// The request was too large, which may be true only of this one.
    TooLarge,
    /// The server failed without a reason, which may be gone the next time.
    Failed,
}

/// A picture, with positions that stay valid if text is put before the message.
struct Placed {
    picture: TurnPicture,
    from_end: usize,
    unsent_from_end: usize,
}

/// Pictures of the user's messages in a request.
pub(super) struct Pictures {
    /// For each message with the role `user`, in order.
    of_messages: Vec<Vec<Placed>>,
    /// False if they are replaced with text.
    pub(super) are_sent: bool,
}

impl Pictures {
    /// Collects the pictures of the turns.
    pub(super) fn of(turns: &[ChatMessage]) -> Self {
        let of_turn = |turn: &ChatMessage| {
            let length = turn.content.len();
            let placed = turn.pictures.iter().map(|picture| Placed {
                picture: picture.clone(),
                from_end: length.saturating_sub(picture.at),
                unsent_from_end: length.saturating_sub(picture.unsent_at),
            });
            placed.collect()
        };
        let said = turns.iter().filter(|turn| has_user_message(turn));
        Self {
            of_messages: said.map(of_turn).collect(),
            are_sent: true,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Placed> {
        self.of_messages.iter().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Estimated size of the pictures that are sent, in tokens.
    pub(super) fn tokens(&self) -> u64 {
        let all = self.all().filter(|_| self.are_sent);
        all.map(|placed| placed.picture.tokens).sum()
    }

    /// Adds the pictures, or the texts that replace them, to the messages of a request.
    pub(super) fn add_to(&self, body: &mut Value) {
        let messages = body["messages"].as_array_mut().into_iter().flatten();
        let users = messages.filter(|message| message["role"] == "user");
        for (message, pictures) in users.zip(&self.of_messages) {
            let Some(text) = message["content"].as_str() else {
                continue;
            };
            if !pictures.is_empty() {
                message["content"] = if self.are_sent {
                    shown(text, pictures)
                } else {
                    replaced(text, pictures).into()
                };
            }
        }
        // Some servers reject a message of the user after results of calls, so it must not remain without its pictures.
        if let Some(messages) = body["messages"].as_array_mut().filter(|_| !self.are_sent) {
            let mut pictures = self.of_messages.iter();
            messages.retain(|message| {
                let is_user = message["role"] == "user";
                let has_pictures =
                    is_user && pictures.next().is_some_and(|pictures| !pictures.is_empty());
                !has_pictures || message["content"] != ""
            });
        }
    }
}

/// Checks whether a turn becomes a message with the role `user`; if not, it has only results of calls.
pub(super) fn has_user_message(turn: &ChatMessage) -> bool {
    let has_content = !turn.content.is_empty() || !turn.pictures.is_empty();
    turn.role == Role::User && (has_content || turn.results.is_empty())
}

/// Parts of a message: each picture follows its text. Some servers reject parts without text.
fn shown(text: &str, pictures: &[Placed]) -> Value {
    let mut parts = Vec::new();
    let add_text = |parts: &mut Vec<Value>, text: &str| {
        let text = text.trim_matches('\n');
        if !text.trim().is_empty() {
            parts.push(json!({"type": "text", "text": text}));
        }
    };
    let mut rest = text;
    for Placed {
        picture, from_end, ..
    } in pictures
    {
        let at = rest.len().saturating_sub(*from_end);
        if let Some((before, after)) = rest.split_at_checked(at) {
            add_text(&mut parts, before);
            rest = after;
        }
        parts.push(json!({"type": "image_url", "image_url": {"url": &*picture.url}}));
    }
    add_text(&mut parts, rest);
    Value::Array(parts)
}

/// Text of a message without its pictures.
fn replaced(text: &str, pictures: &[Placed]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    for placed in pictures {
        let at = rest.len().saturating_sub(placed.unsent_from_end);
        if let Some((before, after)) = rest.split_at_checked(at) {
            replaced.push_str(before);
            rest = after;
        }
        replaced.push_str(&placed.picture.unsent);
    }
    replaced.push_str(rest);
    replaced
}
