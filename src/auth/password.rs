//! argon2id with the library's parameters (19 MiB), off the async threads, as many at once as there are cores.

use std::sync::Arc;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use tokio::sync::Semaphore;

use super::AuthError;

pub(super) const PASSWORD_CHARS_MIN: usize = 8;
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

/// The hash of no one's password: checked when an address is unknown, so that the answer takes as long.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[derive(Clone)]
pub struct Hasher(Arc<Semaphore>);

impl Default for Hasher {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(cores)))
    }
}

/// # Errors
/// `Invalid` when it is too short or too long.
pub(super) fn check_password(password: &str) -> Result<(), AuthError> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        let text =
            format!("the password is too short: use at least {PASSWORD_CHARS_MIN} characters");
        return Err(AuthError::Invalid(text, "password"));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let text = format!("the password is too long: use at most {PASSWORD_BYTES_MAX} bytes");
        return Err(AuthError::Invalid(text, "password"));
    }
    Ok(())
}

impl Hasher {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AuthError> {
        let _place = self.0.acquire().await.map_err(|_| AuthError::Hash)?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| AuthError::Hash)
    }

    /// The PHC string to store.
    pub async fn hash(&self, password: String) -> Result<String, AuthError> {
        self.run(move || {
            Argon2::default()
                .hash_password(password.as_bytes())
                .map(|hash| hash.to_string())
                .map_err(|_| AuthError::Hash)
        })
        .await?
    }

    /// Whether `password` is the one whose hash is stored; without a hash, false after the same time.
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
