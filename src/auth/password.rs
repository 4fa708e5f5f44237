//! Password rules and hashing: argon2id with the default parameters of the library (19 MiB), on blocking threads, with
//! one hash at a time per core.

use std::sync::{Arc, LazyLock};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use tokio::sync::Semaphore;

use super::AuthError;

pub(super) const PASSWORD_CHARS_MIN: usize = 8;
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

/// Hash that matches no password: verified for unknown addresses, so that the response takes equally long.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[derive(Clone)]
pub struct Hasher {
    argon2: Argon2<'static>,
    places: Arc<Semaphore>,
}

/// Shorter parts of a name or address occur in good passwords by chance.
const PERSONAL_CHARS_MIN: usize = 3;

/// The 10,000 most common passwords of sufficient length, in lowercase and sorted; for the source see the file header.
static COMMON: LazyLock<Vec<&str>> = LazyLock::new(|| {
    include_str!("common_passwords.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
});

/// Checks for passwords that an attacker tries first: common ones, and those that contain the person's name or email.
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
/// `Invalid` if it is too short, too long, or easy to guess.
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
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AuthError> {
        let _permit = self.places.acquire().await.map_err(|_| AuthError::Hash)?;
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

    /// Verifies a password against its stored hash; without a hash, returns false after the same time.
    pub async fn verify(
        &self,
        password: String,
        stored: Option<String>,
    ) -> Result<bool, AuthError> {
        self.run(move || {
            let known = stored.is_some();
            let text = stored.unwrap_or_else(|| NOBODY.to_owned());
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
