//! `openvibe setup-link`.

use super::{addresses, database::open_existing, output::say};
use crate::{auth, config::Config, server::setup::setup_link};

/// Prints the setup link, once for each address of the server.
pub(super) async fn link(config: Config) -> anyhow::Result<()> {
    let db = open_existing(&config).await?;
    let is_used = auth::any_account(&mut db.read().await?).await?;
    anyhow::ensure!(
        !is_used,
        "this server has its first account, so its setup link is used up: ask an admin for an invite, or use `openvibe user create`"
    );
    let token = auth::setup_token(&db, config.setup_token.as_ref()).await?;
    db.close().await;
    let listen = addresses::listen_address(&config.listen).await?;
    let url = addresses::public_url(&config, listen);
    for base in addresses::bases(url.as_deref(), listen) {
        say(&setup_link(&base, &token));
    }
    Ok(())
}
