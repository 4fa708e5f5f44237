//! Choices of the server's admins: rows of `meta`, which exist while the choice is made.

use crate::{
    db::{Conn, DbError},
    text_enum::text_enum,
};

/// Choices that apply to the whole server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choices {
    /// True if the server looks for new versions once a day.
    pub look_for_updates: bool,
    /// True if an admin has confirmed that there is a copy of the secret key.
    pub key_copied: bool,
    pub password_sign_in: PasswordSignIn,
}

text_enum! {
    /// People who can sign in with a password.
    pub enum PasswordSignIn {
        Everyone = "everyone",
        ServerAdmins = "server_admins",
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "`text_enum!` marks no default variant"
)]
impl Default for PasswordSignIn {
    fn default() -> Self {
        Self::Everyone
    }
}

/// Changes to the choices; `None` keeps one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChoiceChanges {
    pub look_for_updates: Option<bool>,
    pub key_copied: Option<bool>,
    pub password_sign_in: Option<PasswordSignIn>,
}

const LOOK_FOR_UPDATES: &str = "look_for_updates";
const KEY_COPIED: &str = "key_copied";
/// Exists if only the server's admins sign in with a password.
const ADMIN_PASSWORDS_ONLY: &str = "admin_passwords_only";

impl Choices {
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Self, DbError> {
        let made: Vec<(String,)> = c
            .q("select key from meta where key in ('look_for_updates', 'key_copied', 'admin_passwords_only') order by key limit 3")
            .all()
            .await?;
        let has = |key: &str| made.iter().any(|(made,)| made == key);
        Ok(Self {
            look_for_updates: has(LOOK_FOR_UPDATES),
            key_copied: has(KEY_COPIED),
            password_sign_in: if has(ADMIN_PASSWORDS_ONLY) {
                PasswordSignIn::ServerAdmins
            } else {
                PasswordSignIn::Everyone
            },
        })
    }

    /// # Errors
    /// Only database errors.
    pub async fn change(c: &mut Conn, changes: ChoiceChanges) -> Result<(), DbError> {
        let admin_passwords_only = changes
            .password_sign_in
            .map(|people| people == PasswordSignIn::ServerAdmins);
        for (key, choice) in [
            (LOOK_FOR_UPDATES, changes.look_for_updates),
            (KEY_COPIED, changes.key_copied),
            (ADMIN_PASSWORDS_ONLY, admin_passwords_only),
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
