//! The epoch of a database. A new epoch starts when events that clients have received may have been lost, so that clients
//! load everything again instead of resuming.
//!
//! A restore and `openvibe epoch new` start a new epoch. So does a failover of `PostgreSQL`, because the promoted standby may
//! lack commits; new connections detect it (see `identity`). `Db::epoch` notifies subscribers of each new epoch.

use uuid::Uuid;

pub use super::identity::{Epoch, ServerIdentity};
use super::{Conn, Db, DbError, Engine, identity::next_id};

async fn read_id(c: &mut Conn) -> Result<String, DbError> {
    c.q("select value from meta where key = 'epoch'")
        .value()
        .await
}

/// Reads the current epoch from the database, and notifies the subscribers of `Db::epoch` if another process has started a new one.
///
/// # Errors
/// Only database errors.
pub async fn read(db: &Db) -> Result<Epoch, DbError> {
    let id = read_id(&mut db.read().await?).await?;
    let Epoch { server, .. } = db.epochs.current();
    db.epochs.observe(Epoch { id, server });
    Ok(db.epochs.current())
}

/// Starts a new epoch, unless another process has already replaced the epoch with the ID `old`. Returns the current epoch.
///
/// # Errors
/// Only database errors.
pub async fn renew(db: &Db, old: &str) -> Result<Epoch, DbError> {
    let (new, replaced) = (next_id(Some(old)), old.to_owned());
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("update meta set value = $1 where key = 'epoch' and value = $2")
            .bind(new.clone())
            .bind(replaced.clone())
            .run()
            .await
    })
    .await?;
    read(db).await
}

/// Records whether commits wait for synchronous standbys. Called with each renewal of a node's lease; after a failover, this
/// record shows whether the promoted server has every acknowledged commit.
///
/// # Errors
/// Only database errors.
pub async fn record_synchronous(c: &mut Conn) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        c.q("insert into meta (key, value) values ('synchronous_standbys', current_setting('synchronous_standby_names')) \
             on conflict (key) do update set value = excluded.value where meta.value <> excluded.value")
            .run()
            .await?;
    }
    Ok(())
}
