//! Settings of outgoing connections.

use crate::{config::Config, proxy, trust};

/// Lets outgoing connections trust the operator's authorities and use the operator's proxy.
///
/// # Errors
/// If the file with the authorities cannot be used.
pub(super) fn prepare(config: &Config) -> anyhow::Result<()> {
    if let Some(file) = &config.ca_file {
        trust::trust_file(file).map_err(|e| anyhow::anyhow!("OPENVIBE_CA_FILE: {e}"))?;
    }
    if let Some(proxy) = &config.proxy {
        proxy::set(proxy.clone());
    }
    Ok(())
}
