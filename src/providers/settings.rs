//! Reading and changing the model settings of a workspace.

use reqwest::Url;

use super::{
    clients::Providers,
    connection::{ModelConnection, ModelForm, ModelSource, ModelStatus, ProviderKind},
    error::ProviderError,
    fields::{KeyChange, MODEL_CHARS_MAX, parse_base_url, parse_text},
    stored::Stored,
};
use crate::{
    auth::{self, Scope, WorkspaceCaller},
    db::{Conn, DbError, now},
    ids::WorkspaceId,
    model::{Connection, ErrorTexts},
    outbound::{Denied, LocalAddresses},
    secrets::{self, Sealed},
};

/// Validated values of a form.
#[derive(Clone)]
struct Wanted {
    provider: ProviderKind,
    base_url: Url,
    model: Option<String>,
    utility_model: Option<String>,
    key: KeyChange,
    force: bool,
}

impl Providers {
    /// The settings of a workspace, for its admins.
    ///
    /// # Errors
    /// An error from `Actor::require`, or if the database fails.
    pub async fn get(&self, member: &WorkspaceCaller) -> Result<ModelConnection, ProviderError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        let Some(environment) = &self.environment else {
            return Ok(self.shown(&mut c, member.workspace).await?);
        };
        drop(c);
        let checked = self.checked_environment(environment, member).await?;
        let connection = &environment.connection;
        let mut shown = connection.base_url.clone();
        // These calls fail only for URLs without a host.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        Ok(ModelConnection {
            provider: Some(self.kind_of(&connection.base_url)),
            base_url: Some(shown.to_string()),
            model: connection.model.clone(),
            utility_model: connection.utility_model.clone(),
            key_set: connection.api_key.is_some(),
            source: ModelSource::Environment,
            status: checked.status,
            checked_at: Some(checked.at),
            version: 0,
        })
    }

    fn kind_of(&self, url: &Url) -> ProviderKind {
        match self.connector.table().vendor_at(url) {
            Some(("anthropic", _)) => ProviderKind::Anthropic,
            Some(("openai", _)) => ProviderKind::OpenAi,
            _ => ProviderKind::Other,
        }
    }

    /// Returns the settings that are stored for a workspace.
    async fn shown(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<ModelConnection, DbError> {
        let stored = Stored::find(c, workspace).await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        let Some((stored, base_url)) = stored.and_then(Stored::connected) else {
            return Ok(ModelConnection {
                provider: None,
                base_url: None,
                model: None,
                utility_model: None,
                key_set: false,
                source: ModelSource::None,
                status: ModelStatus::NoModel,
                checked_at: None,
                version,
            });
        };
        let owner = workspace.to_string();
        let sealed = secrets::find(c, &owner).await?;
        let is_unreadable = sealed
            .as_ref()
            .is_some_and(|sealed| self.keyring.open(&owner, sealed).is_err());
        Ok(ModelConnection {
            provider: stored.provider,
            base_url: Some(base_url.to_string()),
            model: stored.model,
            utility_model: stored.utility_model,
            key_set: sealed.is_some(),
            source: ModelSource::Settings,
            status: if is_unreadable {
                ModelStatus::AuthFailed
            } else {
                stored.status
            },
            checked_at: Some(stored.checked_at),
            version,
        })
    }

    fn parse(&self, form: ModelForm) -> Result<Wanted, ProviderError> {
        let given = parse_base_url(form.base_url)?;
        let vendor = match form.provider {
            ProviderKind::Other => None,
            vendor => self.connector.table().vendor(vendor.as_str()),
        };
        let invalid = |problem: &str, param| ProviderError::Invalid(problem.to_owned(), param);
        let base_url = match (vendor, given) {
            (Some(vendor), None) => vendor.base_url.clone(),
            (Some(vendor), Some(given)) if given.origin() == vendor.base_url.origin() => given,
            (Some(_), Some(_)) => {
                let problem = "the address is not the vendor's: choose the provider `other`";
                return Err(invalid(problem, "base_url"));
            }
            (None, Some(given)) => given,
            (None, None) => return Err(invalid("the address is missing", "base_url")),
        };
        let key = KeyChange::parse(form.api_key)?;
        Ok(Wanted {
            provider: form.provider,
            base_url,
            model: parse_text(form.model, "model", MODEL_CHARS_MAX)?,
            utility_model: parse_text(form.utility_model, "utility_model", MODEL_CHARS_MAX)?,
            key,
            force: form.force,
        })
    }

    /// Tests the settings and stores them. `expected` is the version from `If-Match`.
    ///
    /// # Errors
    /// `SetByEnvironment`, `Stale`, `Invalid`, `TestRunning`, `Denied`, or an error from `Actor::require`. `Unusable` if the test
    /// fails, or if no model is chosen and several are listed, unless the form forces it. `Secret` if there is no key to seal with.
    pub async fn change(
        &self,
        member: WorkspaceCaller,
        expected: Option<i64>,
        form: ModelForm,
    ) -> Result<ModelConnection, ProviderError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        if self.environment.is_some() {
            return Err(ProviderError::SetByEnvironment);
        }
        let mut wanted = self.parse(form)?;
        let current = self.shown(&mut c, member.workspace).await?;
        let local = Stored::local_for(&mut c, member.workspace).await?;
        let owner = member.workspace.to_string();
        let sealed = secrets::find(&mut c, &owner).await?;
        drop(c);
        let version = current.version;
        check_version(&current, expected)?;
        // The stored key must not be sent to a different server.
        let is_same_server = current
            .base_url
            .as_deref()
            .and_then(|url| Url::parse(url).ok())
            .is_some_and(|url| url.origin() == wanted.base_url.origin());
        if matches!(wanted.key, KeyChange::Keep) && (sealed.is_none() || !is_same_server) {
            wanted.key = KeyChange::Remove;
        }
        let (api_key, to_store) = match &wanted.key {
            KeyChange::Keep => match &sealed {
                Some(sealed) => (Some(self.keyring.open(&owner, sealed)?), None),
                None => (None, None),
            },
            KeyChange::Remove => (None, None),
            KeyChange::Replace(key) => (Some(key.clone()), Some(self.keyring.seal(&owner, key)?)),
        };
        let running = self.begin_test(&member)?;
        self.check_address(&wanted, local).await?;
        let connection = Connection {
            base_url: wanted.base_url.clone(),
            api_key,
            model: wanted.model.clone(),
            utility_model: wanted.utility_model.clone(),
            resolver: None,
            errors: ErrorTexts::default(),
        };
        let provider = self
            .connect(connection, local)
            .map_err(|e| ProviderError::Invalid(e.to_string(), "api_key"))?;
        if !wanted.force
            && let Some(count) = provider.undecided().await
        {
            let text = format!("Choose a model: {count} are listed.");
            return Err(ProviderError::Unusable(ModelStatus::NoModel, text));
        }
        let checked = self.check(&provider, &member).await?;
        drop(running);
        if checked.status != ModelStatus::Ok && !wanted.force {
            return Err(ProviderError::Unusable(checked.status, checked.cause));
        }
        let row = Stored {
            provider: Some(wanted.provider),
            base_url: Some(wanted.base_url.to_string()),
            model: wanted.model.clone(),
            utility_model: wanted.utility_model.clone(),
            status: checked.status,
            checked_at: checked.at,
            version: version + 1,
            has_older: false,
        };
        self.store(member, row, wanted.key, to_store).await
    }

    /// Checks whether `OpenVibe` may connect to the model server's address.
    async fn check_address(
        &self,
        wanted: &Wanted,
        local: LocalAddresses,
    ) -> Result<(), ProviderError> {
        match self.check_url(&wanted.base_url, local).await {
            // A host that cannot be found counts as a failed test, not as a forbidden address.
            Err(ProviderError::Denied(Denied::NotFound(_))) if wanted.force => Ok(()),
            checked => checked,
        }
    }

    /// Checks whether `OpenVibe` may connect to an address for a workspace.
    ///
    /// # Errors
    /// `Denied`.
    pub async fn check_url(&self, url: &Url, local: LocalAddresses) -> Result<(), ProviderError> {
        match self.gate(url, local) {
            Some(gate) => gate.check().await.map_err(ProviderError::Denied),
            None => Ok(()),
        }
    }

    async fn store(
        &self,
        member: WorkspaceCaller,
        row: Stored,
        key: KeyChange,
        sealed: Option<Sealed>,
    ) -> Result<ModelConnection, ProviderError> {
        let reader = member.clone();
        let is_stored = member
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                let owner = actor.workspace.to_string();
                if !row.replace(c, actor.workspace).await? {
                    return Ok(false);
                }
                match (&key, &sealed) {
                    (KeyChange::Keep, _) => {}
                    (_, Some(sealed)) => secrets::put(c, &owner, sealed).await?,
                    (_, None) => secrets::delete(c, &owner).await?,
                }
                let data = serde_json::json!({
                    "provider": row.provider, "base_url": row.base_url, "model": row.model,
                    "utility_model": row.utility_model, "status": row.status, "api_key": key.as_str(),
                });
                auth::record_audit(c, actor, auth::AuditAction::ModelChanged, owner, data).await?;
                Ok::<_, ProviderError>(true)
            })
            .await?;
        self.forget(reader.workspace);
        let now = self.get(&reader).await?;
        if is_stored {
            Ok(now)
        } else {
            Err(ProviderError::Stale(Box::new(now)))
        }
    }

    /// Disconnects the model server of a workspace and deletes its key. `expected` is the version from `If-Match`.
    ///
    /// # Errors
    /// `SetByEnvironment`, `Stale`, or an error from `Actor::require`.
    pub async fn disconnect(
        &self,
        member: WorkspaceCaller,
        expected: Option<i64>,
    ) -> Result<(), ProviderError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        if self.environment.is_some() {
            return Err(ProviderError::SetByEnvironment);
        }
        let current = self.shown(&mut c, member.workspace).await?;
        drop(c);
        check_version(&current, expected)?;
        if current.source == ModelSource::None {
            return Ok(());
        }
        let (reader, version) = (member.clone(), current.version + 1);
        let is_stored = member
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                let row = Stored {
                    provider: None,
                    base_url: None,
                    model: None,
                    utility_model: None,
                    status: ModelStatus::NoModel,
                    checked_at: now(),
                    version,
                    has_older: false,
                };
                if !row.replace(c, actor.workspace).await? {
                    return Ok(false);
                }
                let owner = actor.workspace.to_string();
                secrets::delete(c, &owner).await?;
                let data = serde_json::json!({"base_url": current.base_url});
                auth::record_audit(c, actor, auth::AuditAction::ModelRemoved, owner, data).await?;
                Ok::<_, ProviderError>(true)
            })
            .await?;
        self.forget(reader.workspace);
        if is_stored {
            Ok(())
        } else {
            Err(ProviderError::Stale(Box::new(self.get(&reader).await?)))
        }
    }
}

fn check_version(current: &ModelConnection, expected: Option<i64>) -> Result<(), ProviderError> {
    if expected.is_some_and(|expected| expected != current.version) {
        return Err(ProviderError::Stale(Box::new(current.clone())));
    }
    Ok(())
}
