//! Push services: which of them are left alone for a while, and the tokens for them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::vapid::Identity;
use crate::{db::now, time::Timestamp};

/// Number of failures in a row after which a push service is left alone for `ORIGIN_PAUSE`.
const FAILURES_MAX: u32 = 5;
const ORIGIN_PAUSE: Duration = Duration::from_mins(1);
/// Time for which a token is used; it is valid a little longer.
const TOKEN_FOR: Duration = Duration::from_hours(11);
/// Maximum number of push services whose state is kept.
const ORIGINS_MAX: usize = 1000;

/// State of a push service.
#[derive(Debug, Clone, Default)]
struct OriginState {
    failures: u32,
    paused_until: Option<Timestamp>,
    /// A token, and the end of its use.
    token: Option<(String, Timestamp)>,
}

/// States of push services, by origin.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<HashMap<String, OriginState>>);

impl Origins {
    fn with<T>(&self, origin: &str, act: impl FnOnce(&mut OriginState) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ORIGINS_MAX && !all.contains_key(origin) {
            all.clear();
        }
        act(all.entry(origin.to_owned()).or_default())
    }

    pub(super) fn is_paused(&self, origin: &str) -> bool {
        self.with(origin, |state| {
            state.paused_until.is_some_and(|until| until > now())
        })
    }

    pub(super) fn pause(&self, origin: &str, wait: Duration) {
        self.with(origin, |state| state.paused_until = Some(now() + wait));
    }

    pub(super) fn succeeded(&self, origin: &str) {
        self.with(origin, |state| state.failures = 0);
    }

    pub(super) fn failed(&self, origin: &str) {
        self.with(origin, |state| {
            state.failures += 1;
            if state.failures >= FAILURES_MAX {
                state.failures = 0;
                state.paused_until = Some(now() + ORIGIN_PAUSE);
            }
        });
    }

    /// Token with which the server identifies itself, from the cache if possible.
    pub(super) fn token(&self, identity: &Identity, origin: &str) -> Option<String> {
        self.with(origin, |state| {
            if let Some((token, until)) = &state.token
                && *until > now()
            {
                return Some(token.clone());
            }
            let token = identity.sign(origin).ok()?;
            state.token = Some((token.clone(), now() + TOKEN_FOR));
            Some(token)
        })
    }
}
