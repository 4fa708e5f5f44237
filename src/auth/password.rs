//! Password rules and hashing: argon2id with the default parameters of the library (19 MiB), on blocking threads, at most one hash
//! per core at a time.

use std::{
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use argon2::{
    Argon2, Block, Params,
    password_hash::phc::{Output, ParamsString, PasswordHash, Salt},
};
use tokio::sync::Semaphore;

use super::AuthError;
use crate::{blocking::blocking, db::Conn, ids::UserId};

pub(super) const PASSWORD_CHARS_MIN: usize = 8;
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

/// A hash that no password matches: that of accounts without a password. It is also verified for unknown email addresses, so that the
/// response takes the same time.
pub(super) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Maximum wait for a hashing slot. A sign-in waits behind other people's sign-ins, and occupies one of the server's request slots in
/// the meantime.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Maximum number of concurrent hashes. Their memory is kept, so that hashing never needs more than 57 MiB, and this number still
/// allows more than 100 sign-ins per second.
const HASHES_MAX: usize = 3;

#[derive(Clone)]
pub struct Hasher {
    argon2: Argon2<'static>,
    /// A place is occupied until its hash is complete, even if the client has hung up.
    places: Arc<Semaphore>,
    memory: Arc<Memory>,
    wait_max: Duration,
}

/// Buffers of hashes; there are at most as many as places.
struct Memory {
    /// Size of a buffer that is kept.
    blocks: usize,
    free: Mutex<Vec<Vec<Block>>>,
}

impl Memory {
    fn lend<T>(&self, work: impl FnOnce(&mut Vec<Block>) -> T) -> T {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = free().pop();
        let mut buffer = buffer.unwrap_or_default();
        let done = work(&mut buffer);
        // A password that was hashed with other parameters may have needed more memory.
        buffer.truncate(self.blocks);
        buffer.shrink_to(self.blocks);
        free().push(buffer);
        done
    }
}

/// Hashes a password. `None` if the parameters cannot be used.
fn compute(
    argon2: &Argon2<'_>,
    password: &str,
    salt: &[u8],
    buffer: &mut Vec<Block>,
) -> Option<Output> {
    let params = argon2.params();
    let blocks = params.block_count();
    if buffer.len() < blocks {
        buffer.resize(blocks, Block::new());
    }
    let mut out = vec![0; params.output_len().unwrap_or(Params::DEFAULT_OUTPUT_LEN)];
    let memory = &mut buffer[..blocks];
    argon2
        .hash_password_into_with_memory(password.as_bytes(), salt, &mut out, memory)
        .ok()?;
    Output::new(&out).ok()
}

/// Checks a password against a stored hash, with the parameters of the hash.
fn matches(password: &str, stored: &str, buffer: &mut Vec<Block>) -> Option<bool> {
    let stored = PasswordHash::new(stored).ok()?;
    let version = stored.version.map(argon2::Version::try_from);
    let argon2 = Argon2::new(
        argon2::Algorithm::new(stored.algorithm.as_str()).ok()?,
        version.transpose().ok()?.unwrap_or_default(),
        Params::try_from(&stored).ok()?,
    );
    // `Output` is compared in constant time.
    Some(compute(&argon2, password, stored.salt.as_ref()?, buffer)? == stored.hash?)
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
        let memory = Memory {
            blocks: cost.block_count(),
            free: Mutex::default(),
        };
        Self {
            argon2: Argon2::new(
                argon2::Algorithm::default(),
                argon2::Version::default(),
                cost,
            ),
            places: Arc::new(Semaphore::new(cores.min(HASHES_MAX))),
            memory: Arc::new(memory),
            wait_max: WAIT_MAX,
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Vec<Block>) -> T + Send + 'static,
    ) -> Result<T, AuthError> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = tokio::time::timeout(self.wait_max, place).await;
        let place = place.map_err(|_| AuthError::HasherBusy)?;
        let place = place.map_err(|_| AuthError::Hash)?;
        let memory = Arc::clone(&self.memory);
        let hashed = blocking(place, move || memory.lend(work)).await;
        hashed.map_err(|_| AuthError::Hash)
    }

    /// Returns the PHC string to store.
    pub async fn hash(&self, password: String) -> Result<String, AuthError> {
        let argon2 = self.argon2.clone();
        let hashed = self.run(move |buffer| {
            let salt = Salt::new(&rand::random::<[u8; Salt::RECOMMENDED_LENGTH]>()).ok()?;
            let hash = PasswordHash {
                algorithm: argon2::Algorithm::default().ident(),
                version: Some(argon2::Version::default().into()),
                params: ParamsString::try_from(argon2.params()).ok()?,
                salt: Some(salt),
                hash: Some(compute(&argon2, &password, &salt, buffer)?),
            };
            Some(hash.to_string())
        });
        hashed.await?.ok_or(AuthError::Hash)
    }

    /// Verifies a password against its stored hash; without a hash, returns false after the same amount of time.
    pub async fn verify(
        &self,
        password: String,
        stored: Option<StoredPassword>,
    ) -> Result<bool, AuthError> {
        self.run(move |buffer| {
            let known = stored.is_some();
            let text = stored.map_or_else(|| NOBODY.to_owned(), |stored| stored.hash);
            matches(&password, &text, buffer).unwrap_or(false) && known
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordVerifier;

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

    fn cheap() -> Hasher {
        Hasher::new(Params::new(8, 1, 1, None).unwrap())
    }

    fn stored(hash: &str) -> StoredPassword {
        StoredPassword {
            user_id: UserId::new(),
            hash: hash.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_password_matches_its_hash_with_the_parameters_of_the_hash() {
        let hasher = cheap();
        let made = hasher.hash("correct horse".to_owned()).await.unwrap();
        assert!(made.starts_with("$argon2id$v=19$m=8,t=1,p=1$"), "{made}");
        for (hash, is_right) in [
            (made.as_str(), true),
            (
                "$argon2i$v=19$m=64,t=3,p=1$c29tZXNhbHRzb21lc2FsdA$2HCs1GRDeIGzf5nIrZEdl8YFW8DcVKBrcQ3TW/VT0sI",
                false,
            ),
            ("$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ", false),
            ("not a hash", false),
        ] {
            let verify = |password: &str| hasher.verify(password.to_owned(), Some(stored(hash)));
            assert_eq!(verify("correct horse").await.unwrap(), is_right, "{hash}");
            assert!(!verify("correct mouse").await.unwrap(), "{hash}");
        }
        for (m, t, p) in [(8, 1, 1), (64, 3, 2), (200, 1, 4)] {
            let other = Hasher::new(Params::new(m, t, p, Some(24)).unwrap());
            let hash = other.hash("correct horse".to_owned()).await.unwrap();
            let right = hasher.verify("correct horse".to_owned(), Some(stored(&hash)));
            assert!(right.await.unwrap(), "{hash}");
            // The library agrees.
            let parsed = PasswordHash::new(&hash).unwrap();
            let verifier = Argon2::default();
            verifier.verify_password(b"correct horse", &parsed).unwrap();
        }
    }

    #[tokio::test]
    async fn hashes_of_clients_that_hung_up_keep_their_places_and_buffers() {
        // Slow enough that a hash is still running when its client has hung up.
        let hasher = Hasher::new(Params::new(19 * 1024, 4, 1, None).unwrap());
        let places = hasher.places.available_permits();
        for _ in 0..40 {
            let mut aborted = Box::pin(hasher.hash("correct horse".to_owned()));
            assert!(futures::poll!(aborted.as_mut()).is_pending());
            drop(aborted);
        }
        let running = places - hasher.places.available_permits();
        assert!(
            running >= 1,
            "the places are released before the hashes end"
        );
        // All that wait have left the queue, so this is the next hash.
        let hash = hasher.hash("correct horse".to_owned()).await.unwrap();
        assert!(
            hasher
                .verify("correct horse".to_owned(), Some(stored(&hash)))
                .await
                .unwrap()
        );
        let all = u32::try_from(places).unwrap();
        drop(hasher.places.acquire_many(all).await.unwrap());
        let kept = hasher.memory.free.lock().unwrap();
        assert!((1..=places).contains(&kept.len()), "{}", kept.len());
        assert!(kept.iter().all(|buffer| buffer.len() <= 19 * 1024));
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
