//! `openvibe user`.

use clap::Subcommand;

use super::{addresses, database::open_existing, output::say};
use crate::{
    agents::seeds,
    auth::{
        self, Hasher, KeysAfterReset,
        operator::{self, ListedAccount},
    },
    config::Config,
    db::Db,
    server::setup::sign_in_link,
};

/// Number of accounts that are read at a time.
const ACCOUNTS_AT_ONCE: i64 = 500;

#[derive(Subcommand)]
pub(super) enum UserCommand {
    /// List the accounts with their workspaces and roles
    List,
    /// Create an account, regardless of the sign-up setting
    Create {
        #[arg(long)]
        email: String,
        #[arg(long)]
        name: String,
        /// Generated and printed if omitted
        #[arg(long)]
        password: Option<String>,
    },
    /// Make an account an admin of a workspace, which it joins if necessary
    MakeAdmin {
        #[arg(long)]
        email: String,
        /// Short name of the workspace, as in its address
        #[arg(long)]
        workspace: String,
    },
    /// Print a link that signs in to an account once, within ten minutes, without its password
    SignInLink {
        #[arg(long)]
        email: String,
    },
    /// Remove the authenticator app, the passkeys, and the recovery codes of an account, so that its password is enough
    ResetSecondFactor {
        #[arg(long)]
        email: String,
    },
    /// Set a new password; ends all sessions of the account and revokes its API keys
    ResetPassword {
        #[arg(long)]
        email: String,
        /// Generated and printed if omitted
        #[arg(long)]
        password: Option<String>,
        /// Keep the account's API keys
        #[arg(long)]
        keep_keys: bool,
    },
    /// End all sessions of an account, revoke its API keys, and replace its password by one that nobody knows
    ///
    /// `openvibe user reset-password` enables the account again.
    Disable {
        #[arg(long)]
        email: String,
    },
}

pub(super) async fn run(config: Config, command: UserCommand) -> anyhow::Result<()> {
    let db = open_existing(&config).await?;
    let hasher = Hasher::new(config.password_cost.clone());
    match command {
        UserCommand::List => list(&db).await?,
        UserCommand::Create {
            email,
            name,
            password,
        } => {
            let (password, is_new) = given(password);
            seeds::check_person(&mut db.read().await?, &name).await?;
            let user = auth::create_account(&db, &hasher, &email, &name, password.clone()).await?;
            say(&format!("created the account of {}", user.email));
            if is_new {
                say(&format!("password: {password}"));
            }
        }
        UserCommand::MakeAdmin { email, workspace } => {
            operator::make_admin(&db, &email, &workspace).await?;
            say(&format!("{email} is an admin of {workspace}"));
        }
        UserCommand::SignInLink { email } => {
            let listen = addresses::listen_address(&config.listen).await?;
            let token = operator::create_sign_in_link(&db, &email).await?;
            let url = addresses::public_url(&config, listen);
            for base in addresses::bases(url.as_deref(), listen) {
                say(&sign_in_link(&base, &token));
            }
        }
        UserCommand::ResetSecondFactor { email } => {
            operator::reset_second_factor(&db, &email).await?;
            say(&format!(
                "{email} signs in with the password alone, until a second factor is set up again"
            ));
        }
        UserCommand::ResetPassword {
            email,
            password,
            keep_keys,
        } => {
            let (password, is_new) = given(password);
            let (keys, note) = if keep_keys {
                (KeysAfterReset::Kept, "its API keys still work")
            } else {
                (KeysAfterReset::Revoked, "its API keys have been revoked")
            };
            auth::reset_password(&db, &hasher, &email, password.clone(), keys).await?;
            say(&format!(
                "the password has been set; all sessions of the account have ended, and {note}"
            ));
            if is_new {
                say(&format!("password: {password}"));
            }
        }
        UserCommand::Disable { email } => {
            let (password, keys) = (auth::new_token(), KeysAfterReset::Revoked);
            auth::reset_password(&db, &hasher, &email, password, keys).await?;
            say(&format!(
                "{email} cannot sign in anymore; all sessions of the account have ended, and its API keys have been revoked"
            ));
        }
    }
    db.close().await;
    Ok(())
}

/// The password to set, and whether it was generated.
fn given(password: Option<String>) -> (String, bool) {
    let is_new = password.is_none();
    (password.unwrap_or_else(auth::new_token), is_new)
}

async fn list(db: &Db) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let mut c = db.read().await?;
        let page = operator::list_accounts(&mut c, after, ACCOUNTS_AT_ONCE).await?;
        drop(c);
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.id);
        for account in page.chunk_by(|a, b| a.id == b.id) {
            say(&line(account));
        }
    }
}

/// Line of an account: email address, name, and workspaces, separated by tabs.
fn line(account: &[ListedAccount]) -> String {
    let places: Vec<String> = account
        .iter()
        .filter_map(|at| Some(format!("{} ({})", at.workspace.as_deref()?, at.role?)))
        .collect();
    let person = account
        .first()
        .map(|at| format!("{}\t{}", at.email, at.name));
    format!("{}\t{}", person.unwrap_or_default(), places.join(", "))
        .trim_end()
        .to_owned()
}
