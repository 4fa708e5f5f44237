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
    }
}

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
