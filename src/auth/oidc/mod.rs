//! Sign-in with `OpenID` Connect: providers that vouch for people.
//!
//! `provider` stores providers, `client` sends requests to them (`discovery` and `keys` are what they publish), `token` verifies what they
//! sign, `answer` holds their claims about a person, `step` is the row of a sign-in that waits for its provider, `account` decides whose account it is, `membership` sets roles,
//! `identity` lists and removes connections, `notices` tells admins what a provider could not do, `outages` which one fails for long, and `dependents` who can
//! sign in only with one. An identity is a provider and its own name for a person, never an email address.

pub(crate) mod account;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod dependents;
mod discovery;
mod fault;
pub mod identity;
mod keys;
pub(crate) mod logout;
pub(crate) mod membership;
pub mod notices;
pub mod outages;
pub mod provider;
pub(crate) mod step;
mod token;

pub use client::ProviderClient;
pub(crate) use fault::SignInFault;
