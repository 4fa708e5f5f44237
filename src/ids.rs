//! IDs, with a separate type for each kind: a `UUIDv7` internally, `prefix_` and 26 base-32 characters externally
//! (`TypeID`).
//!
//! The database stores the bare UUID. IDs of different kinds cannot be mixed up, and parsing fails for a wrong
//! prefix.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// Sequence number before those of all messages. Events have positive numbers; imported messages, which have no event, have negative ones.
pub const BEFORE_ALL_SEQS: i64 = -(1 << 40);

/// Sequence number below those of all imported messages of a second or later: imported messages are numbered by their time, from 512 a second
/// since 1995, and the next number that is free.
pub fn seq_before_imports_of(unix_s: i64) -> i64 {
    const YEAR_1995: i64 = 788_918_400;
    const SECONDS_MAX: i64 = (1 << 31) - 2;
    BEFORE_ALL_SEQS + 512 * (unix_s - YEAR_1995).clamp(0, SECONDS_MAX)
}

/// `BEFORE_ALL_SEQS` as a literal of SQL.
macro_rules! before_all_seqs {
    () => {
        "-1099511627776"
    };
}
pub(crate) use before_all_seqs;

/// Crockford's base-32 alphabet in lowercase, as required by the `TypeID` specification 0.3.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LEN: usize = 26;

/// Part of the message of `IdError::OtherKind`, by which `ApiError::malformed_field` recognizes this error.
pub const OTHER_KIND: &str = "is an ID of another kind";

/// Reason why a string is not an ID of the requested kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("`{text}` {OTHER_KIND} (`{found}`): expected a `{wanted}_…` ID")]
    OtherKind {
        text: String,
        wanted: &'static str,
        found: String,
    },
    #[error("`{text}` is not an ID: expected `{wanted}_` followed by 26 characters")]
    Malformed { text: String, wanted: &'static str },
}

fn encode(id: Uuid) -> String {
    let n = id.as_u128();
    (0..SUFFIX_LEN)
        .rev()
        .map(|i| ALPHABET[usize::try_from((n >> (5 * i)) & 31).unwrap_or(0)] as char)
        .collect()
}

fn decode(suffix: &str) -> Option<Uuid> {
    if suffix.len() != SUFFIX_LEN || suffix.as_bytes()[0] > b'7' {
        return None;
    }
    let mut n: u128 = 0;
    for byte in suffix.bytes() {
        let value = ALPHABET.iter().position(|c| *c == byte)?;
        n = (n << 5) | value as u128;
    }
    Some(Uuid::from_u128(n))
}

/// Prefixes of all kinds of IDs, to recognize a valid ID of another kind.
const PREFIXES: &[&str] = &[
    "user", "ws", "chan", "thread", "fork", "msg", "task", "agent", "res", "item", "inv", "key",
    "file", "mem", "comp", "persona", "flow", "sess", "audit", "authev", "sbx", "resp", "tool",
    "act", "grant", "sched", "run", "node", "inbox", "passkey", "bot", "hook", "request", "device",
    "idp", "identity", "scim", "group", "imp", "exp", "delivery", "vs", "vsfb", "skill", "runner",
    "repo", "code",
];

fn parse(text: &str, wanted: &'static str) -> Result<Uuid, IdError> {
    let short = || text.chars().take(64).collect::<String>();
    let malformed = || IdError::Malformed {
        text: short(),
        wanted,
    };
    let (prefix, suffix) = text.rsplit_once('_').ok_or_else(malformed)?;
    let id = decode(suffix).ok_or_else(malformed)?;
    if prefix == wanted {
        Ok(id)
    } else if PREFIXES.contains(&prefix) {
        Err(IdError::OtherKind {
            text: short(),
            wanted,
            found: prefix.to_owned(),
        })
    } else {
        Err(malformed())
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal, $noun:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, sqlx::Type)]
        #[sqlx(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// Creates a new ID. IDs that this process creates later sort after it.
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The smallest ID of a time in milliseconds, because IDs begin with the time of their creation.
            pub fn first_at(unix_ms: i64) -> Self {
                let ms = u64::try_from(unix_ms).unwrap_or(0);
                Self(uuid::Builder::from_unix_timestamp_millis(ms, &[0; 10]).into_uuid())
            }

            /// Parses an ID.
            ///
            /// # Errors
            /// `IdError::OtherKind` for an ID of another kind, otherwise `IdError::Malformed`.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                parse(text, $prefix).map(Self)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("ID of ", $noun, ": `", $prefix, "_` and 26 base-32 characters")))
                    .pattern(Some(concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$")))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )+};
}

ids! {
    UserId = "user", "a person";
    WorkspaceId = "ws", "a workspace";
    ChannelId = "chan", "a channel";
    ThreadId = "thread", "a thread";
    ForkId = "fork", "a deep dive";
    MessageId = "msg", "a message";
    TaskId = "task", "a task";
    AgentId = "agent", "an agent";
    ResolutionId = "res", "a resolution";
    ResponseId = "resp", "a response";
    ActionItemId = "item", "an action item";
    InviteId = "inv", "an invite";
    ApiKeyId = "key", "an API key";
    SessionId = "sess", "a session";
    AuditEntryId = "audit", "an audit entry";
    AuthEventId = "authev", "a sign-in event";
    SandboxPolicyId = "sbx", "a sandbox policy";
    FileId = "file", "a file";
    MemoryId = "mem", "a memory entry";
    CompactionId = "comp", "a record of compacted messages";
    PersonaId = "persona", "a persona";
    ToolId = "tool", "a tool of the registry";
    ActionId = "act", "an action of an agent";
    GrantId = "grant", "a permission for an hour";
    ScheduleId = "sched", "a schedule";
    WorkflowId = "flow", "a workflow";
    RunId = "run", "a run of a workflow";
    NodeId = "node", "a node";
    InboxItemId = "inbox", "an inbox item";
    PasskeyId = "passkey", "a passkey";
    IdentityProviderId = "idp", "an identity provider";
    IdentityId = "identity", "a person's identity at a provider";
    ScimTokenId = "scim", "a SCIM token of an identity provider";
    ScimGroupId = "group", "a group of an identity provider";
    BotId = "bot", "a bot";
    HookId = "hook", "an incoming webhook";
    HookRequestId = "request", "a request to a webhook";
    BotDeliveryId = "delivery", "an event that is sent to a bot";
    DeviceId = "device", "a browser that gets notifications";
    ImportId = "imp", "an import";
    ExportId = "exp", "an export";
    VectorStoreId = "vs", "a vector store";
    StoreBatchId = "vsfb", "a batch of files of a vector store";
    SkillId = "skill", "a skill";
    RunnerId = "runner", "a runner of coding agents";
    RepositoryId = "repo", "a repository of a runner";
    CodeSessionId = "code", "a session on a repository";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_round_trips_through_its_text() {
        let id = MessageId::new();
        assert_eq!(MessageId::parse(&id.to_string()), Ok(id));
    }

    #[test]
    fn the_encoding_follows_the_typeid_specification() {
        let id = UserId(Uuid::parse_str("0110c853-1d09-52d8-d73e-1194e95b5f19").unwrap());
        assert_eq!(id.to_string(), "user_0123456789abcdefghjkmnpqrs");
    }

    #[test]
    fn an_id_of_another_kind_is_distinguished_from_invalid_text() {
        let text = UserId::new().to_string();
        assert!(matches!(
            ChannelId::parse(&text),
            Err(IdError::OtherKind { .. })
        ));
        for bad in [
            "",
            "user",
            "user_",
            "chan_x",
            "chan_8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "CHAN_01h455vb4pex5vsknk084sn02q",
        ] {
            assert!(
                matches!(ChannelId::parse(bad), Err(IdError::Malformed { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn ids_of_a_time_begin_with_its_first_one() {
        let id = BotDeliveryId::new();
        let (seconds, nanos) = id.0.get_timestamp().unwrap().to_unix();
        let ms = i64::try_from(seconds * 1000 + u64::from(nanos / 1_000_000)).unwrap();
        assert!(BotDeliveryId::first_at(ms) <= id);
        assert!(id < BotDeliveryId::first_at(ms + 1));
    }

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let ids: Vec<_> = (0..1000).map(|_| TaskId::new()).collect();
        assert!(ids.is_sorted());
    }
}
