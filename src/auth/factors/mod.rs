//! Second factors: authenticator apps, recovery codes, and passkeys.
//!
//! An account with an app or a passkey has a second factor, so its password alone does not sign in. A passkey verifies its user and is
//! therefore two factors at once.

mod base32;
mod change;
pub(crate) mod passkeys;
pub(crate) mod recovery;
mod second;
pub(crate) mod sign_up;
mod state;
pub(crate) mod totp;
pub(crate) mod webauthn;

pub(crate) use second::SecondFactor;
pub use second::delete_secrets;
pub(super) use second::{delete_all, reset};
pub(super) use state::lock;
pub(crate) use state::{SecondFactorMethod, SecondFactors};
