//! Recovery codes: each replaces a second factor once.

use super::{
    base32::base32,
    state::{SecondFactors, lock},
};
use crate::{
    auth::{
        AuthError,
        events::{self, AuthEventKind, Device},
        hash_token,
    },
    db::Conn,
    ids::UserId,
};

const CODES: usize = 10;
/// Random bytes of a code: 80 bits, so that its hash cannot be reversed.
const CODE_BYTES: usize = 10;
const GROUP_CHARS: usize = 4;

/// A new code, in groups that are easy to copy.
fn new_code() -> String {
    let text = base32(&rand::random::<[u8; CODE_BYTES]>()).to_lowercase();
    let chars: Vec<char> = text.chars().collect();
    let groups: Vec<String> = chars.chunks(GROUP_CHARS).map(String::from_iter).collect();
    groups.join("-")
}

/// Hash of a code, regardless of its separators and case.
fn hash(code: &str) -> String {
    let plain = code.chars().filter(char::is_ascii_alphanumeric);
    hash_token(&plain.collect::<String>().to_lowercase())
}

/// Replaces the codes of an account. Returns the new ones, which are not stored.
pub(super) async fn replace(c: &mut Conn, user: UserId) -> Result<Vec<String>, AuthError> {
    delete(c, user).await?;
    let codes: Vec<String> = (0..CODES).map(|_| new_code()).collect();
    for code in &codes {
        c.q("insert into recovery_codes (user_id, code_hash) values ($1, $2)")
            .bind(user)
            .bind(hash(code))
            .run()
            .await?;
    }
    Ok(codes)
}

/// Replaces the codes at the request of the account's owner.
///
/// # Errors
/// `NoSecondFactor` if the account has no factor that a code could replace.
pub(crate) async fn renew(
    c: &mut Conn,
    user: UserId,
    device: &Device,
) -> Result<Vec<String>, AuthError> {
    lock(c, user).await?;
    if !SecondFactors::of(c, user).await?.exist() {
        return Err(AuthError::NoSecondFactor);
    }
    events::record(c, user, AuthEventKind::RecoveryCodesCreated, None, device).await?;
    replace(c, user).await
}

pub(super) async fn delete(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    c.q("delete from recovery_codes where user_id = $1")
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Uses up a code. Returns false if the account has no such code.
pub(super) async fn try_use(
    c: &mut Conn,
    user: UserId,
    code: &str,
    device: &Device,
) -> Result<bool, AuthError> {
    let used = c
        .q("delete from recovery_codes where user_id = $1 and code_hash = $2")
        .bind(user)
        .bind(hash(code))
        .run()
        .await?;
    if used == 0 {
        return Ok(false);
    }
    events::record(c, user, AuthEventKind::RecoveryCodeUsed, None, device).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_can_be_typed_without_its_separators() {
        let code = new_code();
        assert_eq!(code.len(), 19, "{code}");
        assert_eq!(hash(&code), hash(&code.replace('-', "").to_uppercase()));
        assert_eq!(hash(&code), hash(&format!(" {} ", code.replace('-', " "))));
        assert_ne!(hash(&code), hash(&new_code()));
    }
}
