//! Check `sign_in`: addresses and keys that the identity providers publish.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{finding::Finding, subject::CheckedServer};
use crate::{
    auth::oidc::{
        ProviderClient, SignInFault,
        provider::{ListedProvider, list_for_operator},
    },
    db::{Db, DbError},
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
    let providers = match enabled(db).await {
        Ok(providers) => providers,
        Err(e) => {
            return Finding::failed(
                format!("the database does not respond ({e})"),
                "check the database",
            );
        }
    };
    if providers.is_empty() {
        return Finding::skipped("no identity provider is in use");
    }
    if let Err(finding) = s.require_outgoing() {
        return finding;
    }
    let client = ProviderClient::new(Rules {
        exempt: s.config.model_allow.clone(),
        own: OwnServer::new(s.address.unwrap_or(UNKNOWN), &s.public_url),
        ports: None,
    });
    let looks = providers.iter().map(|provider| look(&client, provider));
    let found = futures::future::join_all(looks).await;
    let names: Vec<&str> = providers
        .iter()
        .map(|provider| provider.name.as_str())
        .collect();
    Finding::of(
        found.into_iter().flatten().collect(),
        format!("{} can sign people in", names.join(", ")),
    )
}

async fn enabled(db: &Db) -> Result<Vec<ListedProvider>, DbError> {
    let all = list_for_operator(&mut db.read().await?).await?;
    Ok(all
        .into_iter()
        .filter(|provider| provider.enabled)
        .collect())
}

/// The problem of a provider, if it has one.
async fn look(client: &ProviderClient, provider: &ListedProvider) -> Option<Finding> {
    let ListedProvider { name, issuer, .. } = provider;
    let looked = tokio::time::timeout(ANSWER_WITHIN, client.look(issuer)).await;
    let fault = match looked {
        Ok(Ok(_)) => return None,
        Ok(Err(fault)) => fault,
        Err(_) => {
            SignInFault::Unreachable(format!("no answer within {} s", ANSWER_WITHIN.as_secs()))
        }
    };
    Some(match fault {
        SignInFault::Unreachable(cause) => Finding::failed(
            format!("{name} at {issuer} does not answer ({cause})"),
            "check that this machine can reach it; OPENVIBE_CA_FILE names private certificate authorities",
        ),
        SignInFault::Misconfigured(code) if code == "issuer_mismatch" => Finding::failed(
            format!("{name} publishes another issuer than {issuer}"),
            "enter the issuer exactly as it is published, in Settings › Server",
        ),
        SignInFault::Misconfigured(code) => Finding::failed(
            format!("{name} at {issuer} publishes no usable addresses or keys ({code})"),
            "correct the issuer in Settings › Server, or the provider",
        ),
        other => Finding::failed(
            format!("{name} at {issuer} cannot sign people in ({other})"),
            "see the log of the provider",
        ),
    })
}
