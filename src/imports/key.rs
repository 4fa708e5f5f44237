//! IDs that are made from the keys of a source, so that a repeated import finds what it made before.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    db::{Conn, DbError},
    ids::{UserId, WorkspaceId},
    text_enum::text_enum,
};

text_enum! {
    /// Kind of a record of an archive.
    pub(super) enum RecordKind {
        People = "people",
        Channels = "channels",
        Messages = "messages",
        Files = "files",
        Agents = "agents",
        Emoji = "emoji",
        Hooks = "hooks",
        Workflows = "workflows",
        Memories = "memories",
        Forks = "forks",
        Resolutions = "resolutions",
        ActionItems = "action_items",
        Schedules = "schedules",
        /// A thread, which is not a record but has an ID.
        Threads = "threads",
        /// A channel that was created with the ID that it has in the archive.
        KeptChannels = "kept_channels",
    }
}

impl RecordKind {
    /// Query for those of two IDs that are taken, in any workspace, each with the object that it belongs to if an archive can have brought
    /// it: the channel of a message or thread, the message of a file or deep dive, and the deep dive of a result or action item.
    const fn taken(self) -> &'static str {
        match self {
            Self::Messages => {
                "select id, case when seq < 0 then channel_id end from messages where id in ($1, $2)"
            }
            Self::Threads => {
                "select t.id, case when m.seq < 0 then t.channel_id end from threads t \
                 left join messages m on m.id = t.root_message_id where t.id in ($1, $2)"
            }
            Self::Files => "select id, message_id from files where id in ($1, $2)",
            Self::Forks => "select id, message_id from forks where id in ($1, $2)",
            Self::Resolutions => "select id, fork_id from resolutions where id in ($1, $2)",
            Self::ActionItems => {
                "select i.id, r.fork_id from action_items i join resolutions r on r.id = i.resolution_id where i.id in ($1, $2)"
            }
            Self::People => {
                "select id, workspace_id from bots where id in ($1, $2) union all select id, id from users where id in ($1, $2)"
            }
            Self::Channels | Self::KeptChannels => {
                "select id, workspace_id from channels where id in ($1, $2)"
            }
            Self::Emoji => "select id, workspace_id from files where id in ($1, $2)",
            Self::Agents => "select id, workspace_id from agents where id in ($1, $2)",
            Self::Hooks => "select id, workspace_id from hooks where id in ($1, $2)",
            Self::Workflows => "select id, workspace_id from workflows where id in ($1, $2)",
            Self::Memories => "select id, workspace_id from memories where id in ($1, $2)",
            Self::Schedules => "select id, workspace_id from schedules where id in ($1, $2)",
        }
    }
}

/// A record, to find the ID of its object here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) kind: RecordKind,
    pub(super) at_ms: i64,
    pub(super) key: &'a str,
    /// The object's ID in the archive, if it is one of this program.
    pub(super) in_archive: Option<Uuid>,
    /// The object that it belongs to here, see `RecordKind::taken`; `None` for one that `imported` knows.
    pub(super) owner: Option<Uuid>,
}

/// Product of archives of this program, whose keys are IDs.
pub(super) const OPENVIBE: &str = "openvibe";

/// Bits of a `UUIDv7` with the time.
const MS_BITS: u32 = 48;

/// Maximum length of a stored key; the index of `PostgreSQL` rejects long ones.
const KEY_BYTES_MAX: usize = 200;

/// Number of records that are forgotten per statement.
const FORGOTTEN_AT_ONCE: i64 = 500;

/// The key as it is stored: the hash of one that is too long.
pub(super) fn bounded(key: &str) -> String {
    if key.len() <= KEY_BYTES_MAX {
        key.to_owned()
    } else {
        hex::encode(Sha256::digest(key))
    }
}

/// Makes the IDs of one source in one workspace.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) workspace: WorkspaceId,
    /// Such as `slack:T024BE7LD`.
    pub(super) source: String,
}

impl Keys {
    /// A `UUIDv7` of the original time, with 74 bits of the hash of the key.
    pub(super) fn id(&self, kind: RecordKind, at_ms: i64, key: &str) -> Uuid {
        let mut hash = Sha256::new();
        let key = bounded(key);
        for part in [
            self.workspace.0.as_bytes().as_slice(),
            self.source.as_bytes(),
            kind.as_str().as_bytes(),
            key.as_bytes(),
        ] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut bits = [0_u8; 10];
        bits.copy_from_slice(&digest[..10]);
        let ms = u64::try_from(at_ms).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(ms, &bits).into_uuid()
    }

    /// The ID of an object here: that of an archive of this program, if it can be kept, else one made from the key.
    pub(super) async fn id_here(&self, c: &mut Conn, of: Identity<'_>) -> Result<Uuid, DbError> {
        let kept = self.kept_id(c, of).await?;
        Ok(kept.unwrap_or_else(|| self.id(of.kind, of.at_ms, of.key)))
    }

    /// The ID of an object in an archive of this program, if it is free here or belongs to the object. An object that has an ID made from
    /// its key has no other one.
    pub(super) async fn kept_id(
        &self,
        c: &mut Conn,
        of: Identity<'_>,
    ) -> Result<Option<Uuid>, DbError> {
        let Some(kept) = of.in_archive.filter(|_| self.product() == OPENVIBE) else {
            return Ok(None);
        };
        let made = self.id(of.kind, of.at_ms, of.key);
        let taken: Vec<(Uuid, Option<Uuid>)> =
            c.q(of.kind.taken()).bind(made).bind(kept).all().await?;
        let is_kept = taken
            .iter()
            .all(|(id, owner)| *id == kept && *owner == of.owner);
        Ok(is_kept.then_some(kept))
    }

    /// Product of the source, such as `slack`.
    pub(super) fn product(&self) -> &str {
        let (product, _) = self.source.split_once(':').unwrap_or((&self.source, ""));
        product
    }

    /// Checks whether an ID was made from this key, at whatever time.
    pub(super) fn is_made(&self, kind: RecordKind, key: &str, id: Uuid) -> bool {
        self.id(kind, 0, key).as_u128() << MS_BITS == id.as_u128() << MS_BITS
    }

    /// All records of this kind, and what they became.
    pub(super) async fn list(
        &self,
        c: &mut Conn,
        kind: RecordKind,
    ) -> Result<Vec<(String, Uuid)>, DbError> {
        c.q("select key, id from imported where workspace_id = $1 and source = $2 and kind = $3 order by key")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .all()
            .await
    }

    /// Stored keys of the records of this kind that became this object.
    pub(super) async fn keys_of(
        &self,
        c: &mut Conn,
        kind: RecordKind,
        id: Uuid,
    ) -> Result<Vec<String>, DbError> {
        let rows: Vec<(String,)> = c
            .q("select key from imported where workspace_id = $1 and source = $2 and kind = $3 and id = $4")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .bind(id)
            .all()
            .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Forgets what a record became.
    pub(super) async fn forget(
        &self,
        c: &mut Conn,
        kind: RecordKind,
        key: &str,
    ) -> Result<(), DbError> {
        c.q("delete from imported where workspace_id = $1 and source = $2 and kind = $3 and key = $4")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .bind(bounded(key))
            .run()
            .await?;
        Ok(())
    }

    /// Forgets the objects of some records of this kind. Returns the number of records, which is 0 if none are left.
    pub(super) async fn forget_some(&self, c: &mut Conn, kind: RecordKind) -> Result<u64, DbError> {
        c.q("delete from imported where workspace_id = $1 and source = $2 and kind = $3 and key in \
             (select key from imported where workspace_id = $1 and source = $2 and kind = $3 order by key limit $4)")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .bind(FORGOTTEN_AT_ONCE)
            .run()
            .await
    }

    /// The object that this record became in an earlier import.
    pub(super) async fn find(
        &self,
        c: &mut Conn,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Uuid>, DbError> {
        let row: Option<(Uuid,)> = c
            .q("select id from imported where workspace_id = $1 and source = $2 and kind = $3 and key = $4")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .bind(bounded(key))
            .opt()
            .await?;
        Ok(row.map(|row| row.0))
    }

    /// Checks whether the data of this person was erased in the workspace.
    pub(super) async fn is_erased(&self, c: &mut Conn, user: UserId) -> Result<bool, DbError> {
        c.q("select exists (select 1 from erasures where workspace_id = $1 and (user_hash = $2 or alias_id = $3))")
            .bind(self.workspace)
            .bind(hex::encode(Sha256::digest(user.to_string())))
            .bind(user)
            .value()
            .await
    }

    /// Remembers what a record became.
    pub(super) async fn store(
        &self,
        c: &mut Conn,
        kind: RecordKind,
        key: &str,
        id: Uuid,
    ) -> Result<(), DbError> {
        c.q("insert into imported (workspace_id, source, kind, key, id) values ($1, $2, $3, $4, $5) \
             on conflict (workspace_id, source, kind, key) do update set id = excluded.id")
            .bind(self.workspace)
            .bind(self.source.clone())
            .bind(kind)
            .bind(bounded(key))
            .bind(id)
            .run()
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_each_part_of_its_key_and_has_its_time() {
        let keys = |source: &str| Keys {
            workspace: WorkspaceId(Uuid::nil()),
            source: source.to_owned(),
        };
        let id = keys("slack:T1").id(RecordKind::Messages, 1_620_000_000_123, "C1:1");
        assert_eq!(id.as_u128() >> 80, 1_620_000_000_123);
        assert_eq!(id.get_version_num(), 7);
        assert!(keys("slack:T1").is_made(RecordKind::Messages, "C1:1", id));
        assert!(!keys("slack:T1").is_made(RecordKind::Messages, "C1:2", id));
        let long = "U".repeat(5000);
        let long_id = keys("slack:T1").id(RecordKind::People, 0, &long);
        assert!(bounded(&long).len() <= KEY_BYTES_MAX);
        assert!(keys("slack:T1").is_made(RecordKind::People, &bounded(&long), long_id));
        for other in [
            keys("slack:T2").id(RecordKind::Messages, 1_620_000_000_123, "C1:1"),
            keys("slack:T1").id(RecordKind::Threads, 1_620_000_000_123, "C1:1"),
            keys("slack:T1").id(RecordKind::Messages, 1_620_000_000_123, "C1:2"),
        ] {
            assert_ne!(id, other);
        }
    }
}
