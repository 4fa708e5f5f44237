//! Rules for texts of model servers in errors.

use std::net::IpAddr;

/// Rules for texts of servers in errors. Errors of servers at public addresses always quote them, and errors of connection tests
/// never quote a server at a local address.
#[derive(Debug, Clone, Copy)]
pub struct ErrorTexts {
    /// Checks whether an address is public.
    pub is_public: fn(IpAddr) -> bool,
    /// True if errors of replies do not quote servers at local addresses either.
    pub are_local_hidden: bool,
}

impl Default for ErrorTexts {
    /// Treats all addresses as local.
    fn default() -> Self {
        Self {
            is_public: |_| false,
            are_local_hidden: false,
        }
    }
}
