//! `openvibe identity-provider`.

use clap::Subcommand;

use super::{database::open_existing, output::say};
use crate::{
    auth::oidc::provider::{self, ListedProvider},
    config::Config,
    db::Conn,
    ids::IdentityProviderId,
};

#[derive(Subcommand)]
pub(super) enum ProviderCommand {
    /// List the identity providers
    List,
    /// Turn off an identity provider
    Disable {
        /// `idp_…`, as in the list
        #[arg(long)]
        id: IdentityProviderId,
    },
}

pub(super) async fn run(config: Config, command: ProviderCommand) -> anyhow::Result<()> {
    let db = open_existing(&config).await?;
    match command {
        ProviderCommand::List => {
            let listed = provider::list_for_operator(&mut db.read().await?).await?;
            for provider in &listed {
                say(&line(provider));
            }
            if listed.is_empty() {
                say("there are no identity providers");
            }
        }
        ProviderCommand::Disable { id } => {
            let name = db
                .write(uuid::Uuid::nil(), async move |c: &mut Conn| {
                    provider::disable(c, id).await
                })
                .await?;
            say(&format!(
                "nobody signs in with {name} anymore; sessions go on, and `openvibe user sign-in-link` lets people in"
            ));
        }
    }
    db.close().await;
    Ok(())
}

/// Line of a provider: ID, name, issuer, and state, separated by tabs.
fn line(provider: &ListedProvider) -> String {
    let state = if provider.enabled {
        provider.state.as_str()
    } else {
        "off"
    };
    format!(
        "{}\t{}\t{}\t{state}",
        provider.id, provider.name, provider.issuer
    )
}
