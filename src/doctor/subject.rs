//! The server that is checked.

use std::net::SocketAddr;

use super::finding::Finding;
use crate::{
    config::Config, db::Db, nodes::Links, outbound::Url, providers::ModelConnection, server::State,
    tls::store::Failure,
};

/// Process of the server that is checked.
pub enum Program {
    /// This process.
    This(Box<Links>),
    /// Another process on this machine, with its ID if it is known.
    Other(Option<u32>),
    /// The server is not running.
    Stopped,
}

/// The server that is checked.
pub struct CheckedServer {
    pub config: Config,
    /// Public URL without a trailing slash.
    pub public_url: String,
    /// Address on which the server listens, if it is known.
    pub address: Option<SocketAddr>,
    pub program: Program,
    /// The database, or the reason why it cannot be used.
    pub database: Result<Db, Finding>,
    /// Newest failure to obtain or read the certificate, if it is known.
    pub certificate_failure: Option<Failure>,
    /// The model server that an admin has connected.
    pub model: Option<ModelConnection>,
}

impl CheckedServer {
    /// The server of this process. `model` is the model server that an admin has connected.
    pub fn this(state: &State, model: Option<ModelConnection>) -> Self {
        Self {
            config: state.config.clone(),
            public_url: state.public_url.clone(),
            address: Some(state.address),
            program: Program::This(Box::new(state.nodes.clone())),
            database: Ok(state.db.clone()),
            certificate_failure: state.certificate.as_ref().and_then(|store| store.failure()),
            model,
        }
    }

    /// # Errors
    /// The result of a check that needs the running server.
    pub(super) fn require_running(&self) -> Result<(), Finding> {
        match self.program {
            Program::Stopped => Err(Finding::skipped("the server is not running")),
            Program::This(_) | Program::Other(_) => Ok(()),
        }
    }

    /// # Errors
    /// The result of a check that connects to others.
    pub(super) fn require_outgoing(&self) -> Result<(), Finding> {
        if self.config.is_quiet {
            return Err(Finding::skipped(
                "this is a quiet copy (OPENVIBE_QUIET=on), which connects to no other servers",
            ));
        }
        Ok(())
    }

    /// # Errors
    /// The result of a check that needs the database.
    pub(super) fn database(&self) -> Result<&Db, Finding> {
        self.require_running()?;
        self.database.as_ref().map_err(Clone::clone)
    }

    /// The public URL; `None` if it cannot be parsed.
    pub(super) fn url(&self) -> Option<Url> {
        Url::parse(&self.public_url).ok()
    }

    /// True if the server has HTTPS without a proxy.
    pub(super) fn has_tls(&self) -> bool {
        self.config.tls.is_some()
    }

    /// Address to which a proxy has to send requests.
    pub(super) fn target(&self) -> String {
        self.address
            .map_or_else(|| self.config.listen.clone(), |address| address.to_string())
    }
}
