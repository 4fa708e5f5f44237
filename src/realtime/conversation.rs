//! Conversations, which contain the messages.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{ForkId, ThreadId};

/// A thread or a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    Thread(ThreadId),
    Fork(ForkId),
}

impl Conversation {
    pub fn id(self) -> Uuid {
        match self {
            Self::Thread(id) => id.0,
            Self::Fork(id) => id.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_sent_with_its_kind() {
        let conversation = Conversation::Thread(ThreadId::new());
        let text = serde_json::to_string(&conversation).unwrap();
        assert!(text.starts_with("{\"thread\":"), "{text}");
        let parsed: Conversation = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed, conversation);
    }
}
