//! Check `sign_in`: what the identity providers publish, and whether people can sign in with them.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{finding::Finding, subject::CheckedServer};
use crate::{
    auth::oidc::{
        ProviderClient, SignInFault,
        outages::{self, CheckedProvider, NOTICED_AFTER},
    },
    outbound::{OwnServer, Rules},
};

/// Time limit of the requests to one provider, which is shorter than that of a check.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// Placeholder for an unknown address of the server.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let db = match s.database() {
        Ok(db) => db,
        Err(finding) => return finding,
    };
    if let Err(finding) = s.require_outgoing() {
        return finding;
    }
    let client = ProviderClient::new(Rules {
        exempt: s.config.model_allow.clone(),
        own: OwnServer::new(s.address.unwrap_or(UNKNOWN), &s.public_url),
        ports: None,
    });
    match outages::check(db, &client, ANSWER_WITHIN).await {
        Ok(providers) if providers.is_empty() => Finding::skipped("no identity provider is in use"),
        Ok(providers) => found(&providers),
        Err(e) => Finding::failed(
            format!("the database does not respond ({e})"),
            "check the database",
        ),
    }
}

fn found(providers: &[CheckedProvider]) -> Finding {
    let names: Vec<&str> = providers.iter().map(|p| p.name.as_str()).collect();
    let problems = providers.iter().filter_map(problem).collect();
    Finding::of(problems, format!("{} can sign people in", names.join(", ")))
}

/// The problem of a provider, if it has one: what it publishes now, or else the newest sign-ins.
fn problem(provider: &CheckedProvider) -> Option<Finding> {
    let CheckedProvider {
        name,
        issuer,
        failure,
        fault,
    } = provider;
    let Some(fault) = fault else {
        let (cause, lasting) = failure.as_ref()?;
        let text = format!(
            "{name}: sign-ins have failed for {} minutes ({cause})",
            lasting.as_secs() / 60
        );
        let hint = "press Try it in Settings › Providers, and enter the client secret again if it is rejected";
        return Some(if *lasting >= NOTICED_AFTER {
            Finding::failed(text, hint)
        } else {
            Finding::warning(text, hint)
        });
    };
    Some(match fault {
        SignInFault::Unreachable(cause) => Finding::failed(
            format!("{name} at {issuer} does not answer ({cause})"),
            "check that this machine can reach it; OPENVIBE_CA_FILE names private certificate authorities",
        ),
        SignInFault::Misconfigured(code) if code == "issuer_mismatch" => Finding::failed(
            format!("{name} publishes another issuer than {issuer}"),
            "enter the issuer exactly as it is published, in Settings › Providers",
        ),
        SignInFault::Misconfigured(code) => Finding::failed(
            format!("{name} at {issuer} publishes no usable addresses or keys ({code})"),
            "correct the issuer in Settings › Providers, or the provider",
        ),
        other => Finding::failed(
            format!("{name} at {issuer} cannot sign people in ({other})"),
            "see the log of the provider",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckState;

    #[test]
    fn a_failure_is_a_warning_for_an_hour() {
        let provider = |minutes: Option<u64>, fault: Option<SignInFault>| CheckedProvider {
            name: "Corp".to_owned(),
            issuer: "https://corp.example".to_owned(),
            failure: minutes.map(|n| ("invalid_client".to_owned(), Duration::from_mins(n))),
            fault,
        };
        for (one, state, text) in [
            (
                provider(None, None),
                CheckState::Ok,
                "Corp can sign people in",
            ),
            (
                provider(Some(59), None),
                CheckState::Warning,
                "Corp: sign-ins have failed for 59 minutes (invalid_client)",
            ),
            (
                provider(Some(60), None),
                CheckState::Failed,
                "Corp: sign-ins have failed for 60 minutes (invalid_client)",
            ),
            (
                provider(Some(5), Some(SignInFault::Unreachable("404".to_owned()))),
                CheckState::Failed,
                "Corp at https://corp.example does not answer (404)",
            ),
        ] {
            let finding = found(&[one]);
            assert_eq!((finding.state, finding.text.as_str()), (state, text));
        }
    }
}
