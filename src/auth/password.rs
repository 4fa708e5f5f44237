//! Password rules and hashing: argon2id with the default parameters of the library (19 MiB), on blocking threads, one hash per
//! core at a time.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use tokio::sync::Semaphore;

use super::AuthError;
use crate::{db::Conn, ids::UserId};

pub(super) const PASSWORD_CHARS_MIN: usize = 8;
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

/// A hash that no password matches. It is verified for unknown email addresses, so that the response takes the same time.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Maximum wait for a hashing slot. A sign-in waits behind other people's sign-ins, and occupies one of the server's request slots in
/// the meantime.
const WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Hasher {
    argon2: Argon2<'static>,
    places: Arc<Semaphore>,
    wait_max: Duration,
}

/// Minimum length of a part of a name or address that a password must not contain; shorter parts occur in good passwords by
/// chance.
const PERSONAL_CHARS_MIN: usize = 3;

/// The 10,000 most common passwords of sufficient length, in lowercase and sorted. See the file header for the source.
static COMMON: LazyLock<Vec<&str>> = LazyLock::new(|| {
    include_str!("common_passwords.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
});

/// Checks whether an attacker would try the password first: it is common, or it contains the person's name or email address.
fn is_easy_to_guess(password: &str, name: &str, email: &str) -> bool {
    let password = password.to_lowercase();
    if COMMON.binary_search(&password.as_str()).is_ok() {
        return true;
    }
    let local = email.split_once('@').map_or(email, |(local, _)| local);
    let joined: String = name.split_whitespace().collect();
    [name, &joined, email, local]
        .iter()
        .map(|part| part.trim().to_lowercase())
        .any(|part| part.chars().count() >= PERSONAL_CHARS_MIN && password.contains(&part))
}

/// # Errors
/// `Invalid` if the password is too short, too long, or easy to guess.
pub(crate) fn check_password(password: &str, name: &str, email: &str) -> Result<(), AuthError> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        let text =
            format!("the password is too short: use at least {PASSWORD_CHARS_MIN} characters");
        return Err(AuthError::Invalid(text, "password"));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let text = format!("the password is too long: use at most {PASSWORD_BYTES_MAX} bytes");
        return Err(AuthError::Invalid(text, "password"));
    }
    if is_easy_to_guess(password, name, email) {
        let text = "the password is easy to guess: choose another one".to_owned();
        return Err(AuthError::Invalid(text, "password"));
    }
    Ok(())
}

/// The stored password of an account. Verification takes a long time, so the transaction that acts on the result checks that the
/// password has not been changed in the meantime.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct StoredPassword {
    pub user_id: UserId,
    hash: String,
}

impl StoredPassword {
    /// Finds the password of an account by email address.
    pub async fn find(c: &mut Conn, email: &str) -> Result<Option<Self>, AuthError> {
        Ok(
            c.q("select id as user_id, password_hash as hash from users where email = $1")
                .bind(email.to_owned())
                .opt()
                .await?,
        )
    }

    /// Checks in a write transaction whether the password is unchanged, and locks the account until the end of the
    /// transaction.
    pub async fn is_current(&self, c: &mut Conn) -> Result<bool, AuthError> {
        let same = c
            .q("update users set password_hash = password_hash where id = $1 and password_hash = $2")
            .bind(self.user_id)
            .bind(self.hash.clone())
            .run()
            .await?;
        Ok(same > 0)
    }
}

impl Hasher {
    pub fn new(cost: argon2::Params) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            argon2: Argon2::new(
                argon2::Algorithm::default(),
                argon2::Version::default(),
                cost,
            ),
            places: Arc::new(Semaphore::new(cores)),
            wait_max: WAIT_MAX,
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AuthError> {
        let permit = tokio::time::timeout(self.wait_max, self.places.acquire());
        let permit = permit.await.map_err(|_| AuthError::HasherBusy)?;
        let _permit = permit.map_err(|_| AuthError::Hash)?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| AuthError::Hash)
    }

    /// Returns the PHC string to store.
    pub async fn hash(&self, password: String) -> Result<String, AuthError> {
        let argon2 = self.argon2.clone();
        self.run(move || {
            argon2
                .hash_password(password.as_bytes())
                .map(|hash| hash.to_string())
                .map_err(|_| AuthError::Hash)
        })
        .await?
    }

    /// Verifies a password against its stored hash; without a hash, returns false after the same amount of time.
    pub async fn verify(
        &self,
        password: String,
        stored: Option<StoredPassword>,
    ) -> Result<bool, AuthError> {
        self.run(move || {
            let known = stored.is_some();
            let text = stored.map_or_else(|| NOBODY.to_owned(), |stored| stored.hash);
            let right = PasswordHash::new(&text).is_ok_and(|hash| {
                Argon2::default()
                    .verify_password(password.as_bytes(), &hash)
                    .is_ok()
            });
            right && known
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_that_waits_too_long_for_others_is_refused() {
        let cost = argon2::Params::new(8, 1, 1, None).unwrap();
        let hasher = Hasher {
            wait_max: Duration::from_millis(1),
            ..Hasher::new(cost)
        };
        let places = u32::try_from(hasher.places.available_permits()).unwrap();
        let held = hasher.places.acquire_many(places).await.unwrap();
        let refused = hasher.verify("correct horse".to_owned(), None).await;
        assert!(matches!(refused, Err(AuthError::HasherBusy)));
        drop(held);
        assert!(
            !hasher
                .verify("correct horse".to_owned(), None)
                .await
                .unwrap()
        );
    }

    #[test]
    fn the_common_password_list_is_sorted_lowercase_and_long_enough() {
        assert_eq!(COMMON.len(), 10_000);
        assert!(COMMON.is_sorted());
        for password in COMMON.iter() {
            assert!(password.chars().count() >= PASSWORD_CHARS_MIN, "{password}");
            assert_eq!(*password, password.to_lowercase());
        }
    }

    #[test]
    fn common_passwords_and_those_containing_the_name_or_email_are_rejected() {
        let check = |password| check_password(password, "Ada Lovelace", "countess@example.org");
        for password in [
            "password",
            "PassWord",
            "12345678",
            "my ada lovelace",
            "AdaLovelace1815",
            "countess-1815",
            "countess@example.org",
        ] {
            let refused = check(password).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the password is easy to guess: choose another one",
                "{password}"
            );
        }
        assert!(check("correct horse").is_ok());
        assert!(check_password("balcony-42", "Al", "al@example.org").is_ok());
    }
}
