//! Choices of the server's admins: rows of `meta`, which exist while the choice is made.

use crate::db::{Conn, DbError};

/// Choices that apply to the whole server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choices {
    /// True if the server looks for new versions once a day.
    pub look_for_updates: bool,
    /// True if an admin has confirmed that there is a copy of the secret key.
    pub key_copied: bool,
}

/// Changes to the choices; `None` keeps one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChoiceChanges {
    pub look_for_updates: Option<bool>,
    pub key_copied: Option<bool>,
}

const LOOK_FOR_UPDATES: &str = "look_for_updates";
const KEY_COPIED: &str = "key_copied";

impl Choices {
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Self, DbError> {
        let made: Vec<(String,)> = c
            .q("select key from meta where key in ('look_for_updates', 'key_copied') order by key limit 2")
            .all()
            .await?;
        let has = |key: &str| made.iter().any(|(made,)| made == key);
        Ok(Self {
            look_for_updates: has(LOOK_FOR_UPDATES),
            key_copied: has(KEY_COPIED),
        })
    }

    /// # Errors
    /// Only database errors.
    pub async fn change(c: &mut Conn, changes: ChoiceChanges) -> Result<(), DbError> {
        for (key, choice) in [
            (LOOK_FOR_UPDATES, changes.look_for_updates),
            (KEY_COPIED, changes.key_copied),
        ] {
            let sql = match choice {
                Some(true) => {
                    "insert into meta (key, value) values ($1, '1') on conflict (key) do nothing"
                }
                Some(false) => "delete from meta where key = $1",
                None => continue,
            };
            c.q(sql).bind(key.to_owned()).run().await?;
        }
        Ok(())
    }
}
