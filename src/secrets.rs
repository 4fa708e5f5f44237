//! Secrets that workspaces store, such as keys of model servers. They are encrypted with a key that is not in the database.
//!
//! The cipher is `ChaCha20-Poly1305`, with the ID of the owner as associated data, so that a row is useless under another ID. The key
//! is `OPENVIBE_SECRET_KEY`. If that is not set and the database is `SQLite`, the key is read from the file `secret.key` in the data
//! directory, which is created when the first secret is stored. Backups contain sealed secrets, but not the key.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf, hmac,
    rand::{SecureRandom, SystemRandom},
};
use sha2::{Digest, Sha256};

use crate::{
    db::{Conn, Db, DbError, Json},
    sql_with_texts,
};

const KEY_BYTES: usize = 32;
const FILE: &str = "secret.key";
/// Advice for a server whose key is not the one with which secrets were stored.
pub const WRONG_KEY: &str = "secret.key does not open the stored keys of model and tool servers: copy the old file into the data \
                             directory, or set OPENVIBE_SECRET_KEY to its content";
/// Maximum number of secrets that are resealed per transaction.
const ROWS_AT_ONCE: i64 = 100;

/// A 32-byte key.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; KEY_BYTES]);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

impl SecretKey {
    /// Parses `OPENVIBE_SECRET_KEY`: one key in base64, or two separated by a comma. The second key is used only for decryption.
    ///
    /// # Errors
    /// A description that does not contain the value.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let keys: Option<Vec<Self>> = text.split(',').map(Self::parse).collect();
        keys.filter(|keys| keys.len() <= 2).ok_or_else(|| {
            format!(
                "the value must be {KEY_BYTES} bytes in base64, or two such keys separated by a comma: generate one \
                 with `openssl rand -base64 {KEY_BYTES}`"
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// ID derived from the key; it does not reveal the key.
    pub fn id(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"openvibe secret key")
            .chain_update(self.0)
            .finalize();
        hex::encode(&digest[..8])
    }

    /// Key material for purposes other than stored secrets, in a context that the salt names.
    pub fn derive(&self, salt: &str) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, salt.as_bytes()).extract(&self.0)
    }

    fn cipher(&self) -> Result<LessSafeKey, SecretError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.0);
        Ok(LessSafeKey::new(key.map_err(|_| SecretError::Unreadable)?))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(
        "this server cannot store secrets: an operator has to set OPENVIBE_SECRET_KEY (32 bytes in base64)"
    )]
    KeyMissing,
    #[error("the stored secret cannot be decrypted with this server's key: enter it again")]
    Unreadable,
    #[error("the key file {path} could not be used: {source}")]
    File { path: String, source: io::Error },
    #[error(transparent)]
    Db(#[from] DbError),
}

/// An encrypted secret.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Sealed {
    pub key_id: String,
    pub nonce: String,
    pub ciphertext: String,
}

/// The keys of this server.
#[derive(Debug)]
pub struct Keyring {
    /// Keys from `OPENVIBE_SECRET_KEY`; the first one encrypts.
    set: Vec<SecretKey>,
    /// Path of the key file; set only with `SQLite`.
    file: Option<PathBuf>,
    /// Key from the file.
    from_file: Mutex<Option<SecretKey>>,
}

impl Keyring {
    /// `data_dir` is the directory in which a key file may be stored.
    pub fn new(set: Vec<SecretKey>, data_dir: Option<&Path>) -> Self {
        Self {
            set,
            file: data_dir.map(|dir| dir.join(FILE)),
            from_file: Mutex::default(),
        }
    }

    /// Returns the key that encrypts; creates the key file if necessary.
    fn sealing(&self) -> Result<SecretKey, SecretError> {
        if let Some(key) = self.set.first() {
            return Ok(key.clone());
        }
        let path = self.file.as_ref().ok_or(SecretError::KeyMissing)?;
        let failed = |source| SecretError::File {
            path: path.display().to_string(),
            source,
        };
        let mut known = self
            .from_file
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.as_ref() {
            return Ok(key.clone());
        }
        let key = match read_key(path).map_err(failed)? {
            Some(key) => key,
            None => create_key(path).map_err(failed)?,
        };
        *known = Some(key.clone());
        Ok(key)
    }

    /// The keys that decrypt.
    fn opening(&self) -> Vec<SecretKey> {
        let mut keys = self.set.clone();
        let mut known = self
            .from_file
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.is_none()
            && let Some(path) = &self.file
        {
            *known = read_key(path)
                .inspect_err(|e| tracing::error!(error = %e, "the key file {} could not be read", path.display()))
                .unwrap_or_default();
        }
        keys.extend(known.clone());
        keys
    }

    /// Keyed hashes of a text, one for each key, starting with the encrypting key. Someone who has only the database cannot use them
    /// to confirm a guess. The list is empty if the server has no key.
    pub fn hashes(&self, text: &str) -> Vec<String> {
        let first = self
            .sealing()
            .inspect_err(|e| tracing::debug!(error = %e, "texts are not hashed"));
        let others = self.set.iter().skip(1).cloned();
        let keys = first.into_iter().chain(others);
        keys.map(|key| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
            let own = hmac::sign(&key, b"openvibe hash of a text");
            let own = hmac::Key::new(hmac::HMAC_SHA256, own.as_ref());
            hex::encode(hmac::sign(&own, text.as_bytes()))
        })
        .collect()
    }

    /// Encrypts a secret for its owner.
    ///
    /// # Errors
    /// `KeyMissing`; `File` if the key file cannot be read or created.
    pub fn seal(&self, owner: &str, secret: &str) -> Result<Sealed, SecretError> {
        let key = self.sealing()?;
        let mut nonce = [0; NONCE_LEN];
        let mut bytes = secret.as_bytes().to_vec();
        SystemRandom::new()
            .fill(&mut nonce)
            .and_then(|()| {
                key.cipher()
                    .map_err(|_| ring::error::Unspecified)?
                    .seal_in_place_append_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::from(owner.as_bytes()),
                        &mut bytes,
                    )
            })
            .map_err(|_| SecretError::KeyMissing)?;
        Ok(Sealed {
            key_id: key.id(),
            nonce: STANDARD.encode(nonce),
            ciphertext: STANDARD.encode(bytes),
        })
    }

    /// Decrypts the secret of an owner.
    ///
    /// # Errors
    /// `Unreadable` if the key is missing, or the secret was changed or belongs to another owner.
    pub fn open(&self, owner: &str, sealed: &Sealed) -> Result<String, SecretError> {
        let opened = || {
            let keys = self.opening();
            let key = keys.iter().find(|key| key.id() == sealed.key_id)?;
            let nonce: [u8; NONCE_LEN] = STANDARD.decode(&sealed.nonce).ok()?.try_into().ok()?;
            let mut bytes = STANDARD.decode(&sealed.ciphertext).ok()?;
            let cipher = key.cipher().ok()?;
            let nonce = Nonce::assume_unique_for_key(nonce);
            let plain = cipher.open_in_place(nonce, Aad::from(owner.as_bytes()), &mut bytes);
            String::from_utf8(plain.ok()?.to_vec()).ok()
        };
        opened().ok_or(SecretError::Unreadable)
    }
}

fn read_key(path: &Path) -> io::Result<Option<SecretKey>> {
    match fs::read_to_string(path) {
        Ok(text) => SecretKey::parse(&text)
            .map(Some)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it does not contain a key")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Creates the file under another name first, so that a crash cannot leave a file with an incomplete key.
fn create_key(path: &Path) -> io::Result<SecretKey> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("no random numbers are available"))?;
    let key = SecretKey(bytes);
    let unfinished = path.with_extension("key.new");
    match fs::remove_file(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    writeln!(file, "{}", STANDARD.encode(key.0))?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(key)
}

/// Stores the secret of an owner, replacing an earlier one.
pub async fn put(c: &mut Conn, owner: &str, sealed: &Sealed) -> Result<(), DbError> {
    c.q("insert into secrets (owner_id, key_id, nonce, ciphertext) values ($1, $2, $3, $4) \
         on conflict (owner_id) do update set key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext")
        .bind(owner.to_owned())
        .bind(sealed.key_id.clone())
        .bind(sealed.nonce.clone())
        .bind(sealed.ciphertext.clone())
        .run()
        .await?;
    Ok(())
}

pub async fn find(c: &mut Conn, owner: &str) -> Result<Option<Sealed>, DbError> {
    c.q("select key_id, nonce, ciphertext from secrets where owner_id = $1")
        .bind(owner.to_owned())
        .opt()
        .await
}

/// The secrets of several owners, by owner.
pub async fn find_all(
    c: &mut Conn,
    owners: Vec<String>,
) -> Result<HashMap<String, Sealed>, DbError> {
    let sql = sql_with_texts!(
        c,
        "select owner_id, key_id, nonce, ciphertext from secrets where owner_id in",
        1,
        "order by owner_id"
    );
    let rows: Vec<Owned> = c.q(sql).bind(Json(owners)).all().await?;
    let by_owner = rows.into_iter().map(|row| (row.owner_id, row.sealed));
    Ok(by_owner.collect())
}

pub async fn delete(c: &mut Conn, owner: &str) -> Result<(), DbError> {
    c.q("delete from secrets where owner_id = $1")
        .bind(owner.to_owned())
        .run()
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Owned {
    owner_id: String,
    #[sqlx(flatten)]
    sealed: Sealed,
}

/// Checks whether this server's key opens the stored secrets, by opening one of them.
///
/// # Errors
/// Only database errors.
pub async fn can_open(c: &mut Conn, keyring: &Keyring) -> Result<bool, DbError> {
    let newest = c
        .q("select owner_id, key_id, nonce, ciphertext from secrets order by owner_id desc limit 1")
        .opt::<Owned>()
        .await?;
    Ok(newest.is_none_or(|row| keyring.open(&row.owner_id, &row.sealed).is_ok()))
}

/// Re-encrypts secrets that were not encrypted with the first key of `OPENVIBE_SECRET_KEY`, so that the second key can be removed
/// from the setting.
///
/// # Errors
/// Only database errors.
pub async fn reseal(db: &Db, keyring: &Keyring) -> Result<(), SecretError> {
    let Some(first) = keyring.set.first() else {
        return Ok(());
    };
    let mut after = String::new();
    loop {
        let rows: Vec<Owned> = db
            .read()
            .await?
            .q("select owner_id, key_id, nonce, ciphertext from secrets where owner_id > $1 and key_id <> $2 order by owner_id limit $3")
            .bind(after.clone())
            .bind(first.id())
            .bind(ROWS_AT_ONCE)
            .all()
            .await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after.clone_from(&last.owner_id);
        let mut sealed = Vec::new();
        for row in rows {
            match keyring.open(&row.owner_id, &row.sealed) {
                Ok(secret) => sealed.push((keyring.seal(&row.owner_id, &secret)?, row.owner_id)),
                Err(_) => {
                    tracing::warn!(
                        owner.id = row.owner_id,
                        "a stored secret cannot be decrypted with this server's key"
                    );
                }
            }
        }
        db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
            for (sealed, owner) in &sealed {
                put(c, owner, sealed).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key(byte: u8) -> SecretKey {
        SecretKey([byte; KEY_BYTES])
    }

    #[test]
    fn a_secret_opens_only_for_its_owner_and_with_its_key() {
        let ring = Keyring::new(vec![key(1)], None);
        let sealed = ring.seal("workspace_a", "sk-secret").unwrap();
        assert!(!format!("{sealed:?}").contains("sk-secret"));
        assert_eq!(ring.open("workspace_a", &sealed).unwrap(), "sk-secret");
        assert!(ring.open("workspace_b", &sealed).is_err());
        let other = Keyring::new(vec![key(2)], None);
        assert!(other.open("workspace_a", &sealed).is_err());
        let rotated = Keyring::new(vec![key(2), key(1)], None);
        assert_eq!(rotated.open("workspace_a", &sealed).unwrap(), "sk-secret");
        let again = rotated.seal("workspace_a", "sk-secret").unwrap();
        assert!(other.open("workspace_a", &again).is_ok());
        let mut changed = sealed.clone();
        changed.ciphertext = again.ciphertext;
        assert!(ring.open("workspace_a", &changed).is_err());
    }

    #[test]
    fn a_key_file_is_created_when_needed_and_private() {
        let name = format!("openvibe-secrets-{}", uuid::Uuid::now_v7().simple());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        let ring = Keyring::new(Vec::new(), Some(&dir));
        assert!(ring.opening().is_empty() && !dir.join(FILE).exists());
        let sealed = ring.seal("a", "sk-secret").unwrap();
        let mode = fs::metadata(dir.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let later = Keyring::new(Vec::new(), Some(&dir));
        assert_eq!(later.open("a", &sealed).unwrap(), "sk-secret");
        fs::write(dir.join(FILE), "half a k").unwrap();
        let damaged = Keyring::new(Vec::new(), Some(&dir));
        assert!(damaged.seal("a", "x").is_err(), "the file is not replaced");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn without_a_key_nothing_is_sealed() {
        let ring = Keyring::new(Vec::new(), None);
        assert!(matches!(ring.seal("a", "x"), Err(SecretError::KeyMissing)));
    }

    #[test]
    fn a_key_is_32_bytes_in_base64() {
        let text = STANDARD.encode([7; 32]);
        assert_eq!(SecretKey::parse_list(&text).unwrap().len(), 1);
        assert_eq!(
            SecretKey::parse_list(&format!("{text}, {text}"))
                .unwrap()
                .len(),
            2
        );
        for invalid in [
            "",
            "short",
            &format!("{text},{text},{text}"),
            &STANDARD.encode([7; 31]),
        ] {
            let error = SecretKey::parse_list(invalid).unwrap_err();
            assert!(invalid.is_empty() || !error.contains(invalid), "{error}");
        }
    }
}
