//! Codes of authenticator apps (RFC 6238): SHA-1, 6 digits, 30 seconds.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;

use super::{
    base32::base32,
    change::{FactorKind, added, removed},
    state::lock,
};
use crate::{
    auth::{AuthError, events::Device},
    db::{Conn, now},
    ids::UserId,
    secrets::{self, Keyring, Sealed},
    time::Timestamp,
};

const STEP_S: i64 = 30;
const DIGITS: usize = 6;
/// Steps by which the clock of an app can differ.
const STEPS_OFF: i64 = 1;
/// 160 bits, as RFC 4226 recommends.
const SECRET_BYTES: usize = 20;

/// Code of a time step (RFC 4226 §5.3).
fn code_at(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let from = usize::from(tag[tag.len() - 1] & 15);
    let word = tag[from..from + 4]
        .iter()
        .fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    format!("{:0DIGITS$}", (word & 0x7fff_ffff) % 1_000_000)
}

/// Time step whose code this is, if the app's clock is about right. Compares in constant time.
fn step_of(secret: &[u8], code: &str, at_s: i64) -> Option<i64> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let now = at_s.div_euclid(STEP_S);
    let mut found = None;
    for step in now - STEPS_OFF..=now + STEPS_OFF {
        let wanted = code_at(secret, step);
        let differs = wanted
            .bytes()
            .zip(code.bytes())
            .fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs == 0 && wanted.len() == code.len() {
            found = Some(step);
        }
    }
    found
}

/// Owner of the row in `secrets`.
pub(super) fn owner(user: UserId) -> String {
    format!("totp_{user}")
}

/// A new secret for an app.
pub(crate) struct NewSecret {
    /// The secret, as a person would type it.
    pub text: String,
    sealed: Sealed,
}

impl NewSecret {
    /// # Errors
    /// `Secret` if the server has no key for secrets.
    pub(crate) fn generate(keyring: &Keyring, user: UserId) -> Result<Self, AuthError> {
        let secret: [u8; SECRET_BYTES] = rand::random();
        Ok(Self {
            text: base32(&secret),
            sealed: keyring.seal(&owner(user), &hex::encode(secret))?,
        })
    }

    /// Address from which an app can read the secret, usually as a picture.
    pub(crate) fn url(&self, site: &str, email: &str) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (site, email, secret) = (encode(site), encode(email), &self.text);
        format!(
            "otpauth://totp/{site}:{email}?secret={secret}&issuer={site}&algorithm=SHA1&digits={DIGITS}&period={STEP_S}"
        )
    }

    /// Stores the secret, which replaces an earlier one that was not confirmed.
    ///
    /// # Errors
    /// `AppExists` if the account has an app.
    pub(crate) async fn store(&self, c: &mut Conn, user: UserId) -> Result<(), AuthError> {
        lock(c, user).await?;
        let stored = c
            .q(
                "insert into totp_apps (user_id) values ($1) on conflict (user_id) do update set last_step = 0 \
                where totp_apps.confirmed_at is null",
            )
            .bind(user)
            .run()
            .await?;
        if stored == 0 {
            return Err(AuthError::AppExists);
        }
        secrets::put(c, &owner(user), &self.sealed).await?;
        Ok(())
    }
}

/// Decrypts the secret of an account; `None` if there is none, or if this server's key does not open it.
async fn secret_of(
    c: &mut Conn,
    keyring: &Keyring,
    user: UserId,
) -> Result<Option<Vec<u8>>, AuthError> {
    let owner = owner(user);
    let Some(sealed) = secrets::find(c, &owner).await? else {
        return Ok(None);
    };
    let opened = keyring.open(&owner, &sealed).inspect_err(|e| {
        tracing::warn!(user.id = %user, error = %e, "a code cannot be checked: use a recovery code, or reset the second factor");
    });
    Ok(opened.ok().and_then(|text| hex::decode(text).ok()))
}

/// Turns an app on with its first code. Returns recovery codes if it is the account's first factor.
///
/// # Errors
/// `WrongCurrentCode`, or `NotFound` if no app waits for its first code.
pub(crate) async fn confirm(
    c: &mut Conn,
    keyring: &Keyring,
    user: UserId,
    code: &str,
    device: &Device,
) -> Result<Option<Vec<String>>, AuthError> {
    lock(c, user).await?;
    let waiting: Option<(UserId,)> = c
        .q("select user_id from totp_apps where user_id = $1 and confirmed_at is null")
        .bind(user)
        .opt()
        .await?;
    waiting.ok_or(AuthError::NotFound("new authenticator app"))?;
    let secret = secret_of(c, keyring, user).await?;
    let step = secret.and_then(|secret| step_of(&secret, code, now().unix_s()));
    let step = step.ok_or(AuthError::WrongCurrentCode)?;
    c.q("update totp_apps set confirmed_at = $2, last_step = $3 where user_id = $1")
        .bind(user)
        .bind(now())
        .bind(step)
        .run()
        .await?;
    added(c, user, FactorKind::App, None, device).await
}

/// Uses a code of the account's app. Returns false if it is wrong or was used before.
pub(super) async fn try_use(
    c: &mut Conn,
    keyring: &Keyring,
    user: UserId,
    code: &str,
) -> Result<bool, AuthError> {
    let secret = secret_of(c, keyring, user).await?;
    let Some(step) = secret.and_then(|secret| step_of(&secret, code, now().unix_s())) else {
        return Ok(false);
    };
    let used = c
        .q("update totp_apps set last_step = $2 where user_id = $1 and confirmed_at is not null and last_step < $2")
        .bind(user)
        .bind(step)
        .run()
        .await?;
    Ok(used > 0)
}

/// Removes the app, or one that was not confirmed.
///
/// # Errors
/// `NotFound`.
pub(crate) async fn remove(c: &mut Conn, user: UserId, device: &Device) -> Result<(), AuthError> {
    lock(c, user).await?;
    let row: Option<(Option<Timestamp>,)> = c
        .q("delete from totp_apps where user_id = $1 returning confirmed_at")
        .bind(user)
        .opt()
        .await?;
    let (confirmed_at,) = row.ok_or(AuthError::NotFound("authenticator app"))?;
    secrets::delete(c, &owner(user)).await?;
    if confirmed_at.is_some() {
        removed(c, user, FactorKind::App, None, device).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_match_the_examples_of_the_standard() {
        // RFC 6238, appendix B, with the last six of eight digits.
        let secret = b"12345678901234567890";
        for (at, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_234_567_890, "005924"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_at(secret, at / STEP_S), code);
            assert_eq!(step_of(secret, code, at), Some(at / STEP_S));
            assert_eq!(step_of(secret, code, at + STEP_S), Some(at / STEP_S));
            assert_eq!(step_of(secret, code, at - STEP_S), Some(at / STEP_S));
            assert_eq!(step_of(secret, code, at + 2 * STEP_S), None);
            assert_eq!(step_of(secret, code, at - 2 * STEP_S), None);
            let typed = format!(" {} {}", &code[..3], &code[3..]);
            assert_eq!(step_of(secret, &typed, at), Some(at / STEP_S));
            for wrong in ["", "0", &code[..5], &format!("{code}0"), "abcdef", "é00000"] {
                assert_eq!(step_of(secret, wrong, at), None, "{wrong}");
            }
        }
    }
}
