//! Failures of orders, in words.

use std::{net::IpAddr, time::Duration};

use instant_acme::{ChallengeType, Error, Problem};

use crate::{
    time::Timestamp,
    tls::store::{CertificateFault as Fault, Failure},
};

/// Delays after the first failures; the last one repeats.
const RETRY_AFTER: [Duration; 5] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(20),
    Duration::from_hours(1),
    Duration::from_hours(1),
];

/// Delay before the next attempt after this number of earlier failures.
pub(super) fn delay_after(failures: i64) -> Duration {
    let at = usize::try_from(failures).unwrap_or(usize::MAX);
    RETRY_AFTER[at.min(RETRY_AFTER.len() - 1)]
}

/// Where a challenge was tried.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Name of the certificate authority.
    pub authority: String,
    pub name: String,
    pub challenge: ChallengeType,
    /// First address of the name, as this server resolves it.
    pub address: Option<IpAddr>,
    pub retry_at: Option<Timestamp>,
}

impl Attempt {
    fn port(&self) -> u16 {
        match self.challenge {
            ChallengeType::Http01 => 80,
            _ => 443,
        }
    }

    fn place(&self) -> String {
        let (name, port) = (&self.name, self.port());
        match self.address {
            Some(address) => format!("{name}, port {port} ({address})"),
            None => format!("{name}, port {port}"),
        }
    }

    /// Describes a problem that the certificate authority reported.
    pub(super) fn problem(&self, problem: &Problem) -> Failure {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.rsplit(':').next().unwrap_or_default();
        // The problem of an order contains those of its names.
        let inner = problem.subproblems.iter().find_map(|p| p.r#type.as_deref());
        let kind = match (kind, inner) {
            ("compound", Some(inner)) => inner.rsplit(':').next().unwrap_or_default(),
            _ => kind,
        };
        let detail = problem.detail.as_deref().unwrap_or("no reason given");
        // Some authorities report a closed port as a wrong answer.
        let kind = match kind {
            "unauthorized" if detail.contains("connect") => "connection",
            kind => kind,
        };
        let (ca, name, place) = (&self.authority, &self.name, self.place());
        let (reason, text) = match kind {
            "dns" => (
                Fault::Dns,
                format!(
                    "{ca} could not find {name}: add a DNS record with the address of this server ({detail})."
                ),
            ),
            "connection" | "tls" => (
                Fault::Connect,
                format!(
                    "{ca} could not connect to {place}: open the port, or correct the DNS record."
                ),
            ),
            "unauthorized" | "incorrectResponse" => (
                Fault::WrongAnswer,
                format!(
                    "{ca} reached another server at {place}: point the name to this server, and let its port pass through."
                ),
            ),
            "rateLimited" => (
                Fault::RateLimited,
                match self.retry_at {
                    Some(at) => format!(
                        "{ca} accepts no more orders for {name} until {}: nothing needs to be done.",
                        at.to_minute_text(Timestamp::now())
                    ),
                    None => {
                        format!("{ca} accepts no more orders for {name} at the moment: {detail}.")
                    }
                },
            ),
            "caa" => (
                Fault::Caa,
                format!(
                    "the CAA record of {name} does not permit {ca}: add this authority, or remove the record."
                ),
            ),
            _ => (
                Fault::CaUnavailable,
                format!("{ca} refused the order: {detail}."),
            ),
        };
        Failure { reason, text }
    }

    pub(super) fn error(&self, error: &Error) -> Failure {
        match error {
            Error::Api(problem) => self.problem(problem),
            Error::Timeout(_) => self.unavailable("it did not complete the order in time"),
            other => {
                let mut cause: &dyn std::error::Error = other;
                while let Some(inner) = cause.source() {
                    cause = inner;
                }
                self.unavailable(&cause.to_string())
            }
        }
    }

    pub(super) fn unavailable(&self, cause: &str) -> Failure {
        Failure {
            reason: Fault::CaUnavailable,
            text: format!("{} is not available: {cause}.", self.authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str) -> Failure {
        let attempt = Attempt {
            authority: "Let's Encrypt".to_owned(),
            name: "chat.example.org".to_owned(),
            challenge: ChallengeType::TlsAlpn01,
            address: Some([203, 0, 113, 7].into()),
            retry_at: None,
        };
        let problem = serde_json::json!({
            "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "because",
        });
        attempt.problem(&serde_json::from_value(problem).unwrap())
    }

    #[test]
    fn each_problem_says_what_to_do() {
        for (kind, reason) in [
            ("dns", Fault::Dns),
            ("connection", Fault::Connect),
            ("tls", Fault::Connect),
            ("unauthorized", Fault::WrongAnswer),
            ("incorrectResponse", Fault::WrongAnswer),
            ("rateLimited", Fault::RateLimited),
            ("caa", Fault::Caa),
            ("serverInternal", Fault::CaUnavailable),
        ] {
            assert_eq!(told(kind).reason, reason, "{kind}");
        }
        assert_eq!(
            told("connection").text,
            "Let's Encrypt could not connect to chat.example.org, port 443 (203.0.113.7): open the port, or correct the DNS record."
        );
    }

    #[test]
    fn orders_are_repeated_ever_more_slowly() {
        let minutes: Vec<_> = (0..6).map(|n| delay_after(n).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 5, 20, 60, 60, 60]);
    }
}
