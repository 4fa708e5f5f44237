//! Reading and changing the model for search by meaning.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    clients::{Meaning, connection_to},
    connection::{EmbeddingConnection, EmbeddingForm, EmbeddingStatus},
    error::MeaningError,
    rows::{self, ModelRow, secret_owner},
};
use crate::{
    auth::{self, Scope, WorkspaceCaller},
    db::{Conn, DbError},
    model::{CollectError, EmbedRequest, Embedded, Provider},
    outbound::Url,
    providers::{
        KeyChange, MODEL_CHARS_MAX, ModelSource, ProviderError, Providers, parse_base_url,
        parse_text, status_of,
    },
    secrets::{self, Sealed},
    tasks::calls::{NewCall, Purpose},
};

/// Time limit of a test.
const TEST_WITHIN: Duration = Duration::from_secs(30);
/// Text whose vector a test requests.
pub(super) const TEST_TEXT: &str = "This is a connection test.";

/// Validated values of a form.
struct Wanted {
    base_url: Option<Url>,
    model: String,
    key: KeyChange,
}

impl Wanted {
    fn parse(form: EmbeddingForm) -> Result<Self, ProviderError> {
        let base_url = parse_base_url(form.base_url)?;
        let invalid = |problem: &str, param| ProviderError::Invalid(problem.to_owned(), param);
        let model = parse_text(Some(form.model), "model", MODEL_CHARS_MAX)?;
        let model = model.ok_or_else(|| invalid("the model is missing", "model"))?;
        let key = KeyChange::parse(form.api_key)?;
        if base_url.is_none() && matches!(key, KeyChange::Replace(_)) {
            let problem =
                "the key of the model server is used: leave the key out, or enter an address";
            return Err(invalid(problem, "api_key"));
        }
        Ok(Self {
            base_url,
            model,
            key,
        })
    }

    /// Checks whether a row is of this server and model, with vectors of this size.
    fn is_of(&self, row: &ModelRow, dimensions: i64) -> bool {
        row.base_url.as_deref() == self.base_url.as_ref().map(Url::as_str)
            && row.model == self.model
            && row.dimensions.is_none_or(|known| known == dimensions)
    }
}

impl Meaning {
    /// The settings of a workspace, for its admins.
    ///
    /// # Errors
    /// An error from `Actor::require`, or if the database fails.
    pub async fn get(&self, member: &WorkspaceCaller) -> Result<EmbeddingConnection, MeaningError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        Ok(self.shown(&mut c, member).await?)
    }

    async fn shown(
        &self,
        c: &mut Conn,
        member: &WorkspaceCaller,
    ) -> Result<EmbeddingConnection, DbError> {
        let version = rows::version_of(c, member.workspace).await?;
        let row = self.find_current(c, member.workspace).await?;
        let (source, key_set) = match (&self.environment, &row) {
            (Some(environment), _) => (ModelSource::Environment, environment.has_key),
            (None, Some(row)) => {
                let sealed = secrets::find(c, &row.owner()).await?;
                (ModelSource::Settings, sealed.is_some())
            }
            (None, None) => (ModelSource::None, false),
        };
        let (base_url, model) = match (&self.environment, &row) {
            (Some(environment), _) => (environment.shown_url(), Some(environment.model.clone())),
            (None, Some(row)) => (row.base_url.clone(), Some(row.model.clone())),
            (None, None) => (None, None),
        };
        let all = ModelRow::count_all(c, member.workspace).await?;
        let pending = match &row {
            Some(row) => row.count_pending(c).await?,
            None => all,
        };
        let status = match &row {
            _ if source == ModelSource::None => EmbeddingStatus::Off,
            Some(row) if row.retry_at.is_some() => EmbeddingStatus::Waiting,
            Some(row) if row.is_serving && pending == 0 => {
                if self.memory.fits(row, all) {
                    EmbeddingStatus::Ready
                } else {
                    EmbeddingStatus::NoMemory
                }
            }
            None if pending == 0 => EmbeddingStatus::Ready,
            _ => EmbeddingStatus::Filling,
        };
        Ok(EmbeddingConnection {
            base_url,
            model,
            key_set,
            source,
            status,
            error: row.as_ref().and_then(|row| row.error.clone()),
            retry_at: row.as_ref().and_then(|row| row.retry_at),
            dimensions: row.as_ref().and_then(|row| row.dimensions),
            pending,
            done: all.saturating_sub(pending),
            version,
        })
    }

    /// Requests the vector of a text to test the settings, and stores them. `expected` is the version from `If-Match`.
    ///
    /// # Errors
    /// `Stale`, `SetByEnvironment`, `Invalid`, `TestRunning`, `Denied`, `Unusable` if the test fails, or an error from `Actor::require`.
    /// `Secret` if there is no key to seal with.
    pub async fn change(
        &self,
        member: WorkspaceCaller,
        expected: Option<i64>,
        form: EmbeddingForm,
    ) -> Result<EmbeddingConnection, MeaningError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        if self.environment.is_some() {
            return Err(ProviderError::SetByEnvironment.into());
        }
        let wanted = Wanted::parse(form)?;
        let shown = self.shown(&mut c, &member).await?;
        let version = shown.version;
        check_version(shown, expected)?;
        let known = ModelRow::list(&mut c, member.workspace).await?;
        let local = Providers::local_for(&mut c, member.workspace).await?;
        let current = known
            .iter()
            .find(|row| row.is_current && !row.is_environment);
        // The stored key must not be sent to a different server.
        let same_server = current.filter(|row| {
            let url = row.url();
            url.is_some()
                && url.map(|url| url.origin()) == wanted.base_url.as_ref().map(Url::origin)
        });
        let api_key = match (&wanted.key, same_server) {
            (KeyChange::Replace(key), _) => Some(key.clone()),
            (KeyChange::Keep, Some(row)) => match secrets::find(&mut c, &row.owner()).await? {
                Some(sealed) => Some(self.keyring.open(&row.owner(), &sealed)?),
                None => None,
            },
            (KeyChange::Keep, None) | (KeyChange::Remove, _) => None,
        };
        drop(c);
        let running = self.providers.begin_test(&member)?;
        let provider = match &wanted.base_url {
            Some(base_url) => {
                self.providers.check_url(base_url, local).await?;
                let connection = connection_to(base_url.clone(), api_key.clone());
                let connected = self.providers.connect(connection, local);
                connected.map_err(|e| ProviderError::Invalid(e.to_string(), "api_key"))?
            }
            None => self.providers.of(member.workspace).await?,
        };
        let tested = self.test(&provider, &member, &wanted.model).await?;
        drop(running);
        let dimensions = i64::try_from(tested.dimensions()).unwrap_or(i64::MAX);
        let same = known
            .iter()
            .find(|row| !row.is_environment && wanted.is_of(row, dimensions));
        let id = same.map_or_else(Uuid::now_v7, |row| row.id);
        let sealed = match &api_key {
            Some(key) => Some(self.keyring.seal(&secret_owner(id), key)?),
            None => None,
        };
        let row = ModelRow {
            id,
            workspace_id: member.workspace,
            base_url: wanted.base_url.as_ref().map(Url::to_string),
            model: wanted.model,
            dimensions: Some(dimensions),
            is_environment: false,
            is_current: true,
            is_serving: false,
            version: version + 1,
            done_no: 0,
            rewinds: 0,
            failures: 0,
            retry_at: None,
            error: None,
        };
        let key = match (&wanted.key, &api_key) {
            (KeyChange::Keep, None) => KeyChange::Remove.as_str(),
            (key, _) => key.as_str(),
        };
        self.save(member, row, key, sealed).await
    }

    /// Requests one vector.
    async fn test(
        &self,
        provider: &Arc<dyn Provider>,
        member: &WorkspaceCaller,
        model: &str,
    ) -> Result<Embedded, MeaningError> {
        let request = EmbedRequest {
            model: model.to_owned(),
            texts: vec![TEST_TEXT.to_owned()],
        };
        let call = NewCall {
            workspace: member.workspace,
            task: None,
            purpose: Purpose::Test,
            user: member.caller.user,
            agent: None,
            model: model.to_owned(),
            prompt_tokens: request.tokens(),
            output_tokens_max: 0,
        };
        let call = self.calls.prepare(provider, call);
        let row = call.row();
        let stored = member
            .clone()
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                Ok::<_, ProviderError>(row.insert(c).await?)
            })
            .await?;
        debug_assert!(stored.is_ok(), "a test is never over budget");
        let tested = tokio::time::timeout(TEST_WITHIN, call.embed(request)).await;
        if tested.is_err() {
            call.fail();
        }
        call.end().await?;
        let tested = tested.map_or(Err(CollectError::Timeout), |tested| {
            tested.map_err(CollectError::Model)
        });
        tested.map_err(|e| ProviderError::Unusable(status_of(&e), e.to_string()).into())
    }

    async fn save(
        &self,
        member: WorkspaceCaller,
        row: ModelRow,
        key: &'static str,
        sealed: Option<Sealed>,
    ) -> Result<EmbeddingConnection, MeaningError> {
        let reader = member.clone();
        let is_stored = member
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                if !rows::next_version(c, actor.workspace, row.version - 1).await? {
                    return Ok(false);
                }
                row.make_current(c).await?;
                rows::clear_failures(c, row.id).await?;
                match &sealed {
                    Some(sealed) => secrets::put(c, &row.owner(), sealed).await?,
                    None => secrets::delete(c, &row.owner()).await?,
                }
                let target = actor.workspace.to_string();
                let data = serde_json::json!({
                    "base_url": row.base_url, "model": row.model, "dimensions": row.dimensions, "api_key": key,
                });
                auth::record_audit(c, actor, auth::AuditAction::EmbeddingsChanged, target, data)
                    .await?;
                Ok::<_, ProviderError>(true)
            })
            .await?;
        let now = self.get(&reader).await?;
        if is_stored {
            Ok(now)
        } else {
            Err(MeaningError::Stale(Box::new(now)))
        }
    }

    /// Removes the model of a workspace and deletes its key. `expected` is the version from `If-Match`.
    ///
    /// # Errors
    /// `SetByEnvironment`, `Stale`, or an error from `Actor::require`.
    pub async fn disconnect(
        &self,
        member: WorkspaceCaller,
        expected: Option<i64>,
    ) -> Result<(), MeaningError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
        if self.environment.is_some() {
            return Err(ProviderError::SetByEnvironment.into());
        }
        let shown = self.shown(&mut c, &member).await?;
        drop(c);
        let (version, model) = (shown.version, shown.model.clone());
        check_version(shown, expected)?;
        if model.is_none() {
            return Ok(());
        }
        let reader = member.clone();
        let is_stored = member
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                if !rows::next_version(c, actor.workspace, version).await? {
                    return Ok(false);
                }
                rows::remove_settings(c, actor.workspace).await?;
                let target = actor.workspace.to_string();
                let data = serde_json::json!({"model": model});
                auth::record_audit(c, actor, auth::AuditAction::EmbeddingsRemoved, target, data)
                    .await?;
                Ok::<_, ProviderError>(true)
            })
            .await?;
        if is_stored {
            Ok(())
        } else {
            Err(MeaningError::Stale(Box::new(self.get(&reader).await?)))
        }
    }
}

fn check_version(current: EmbeddingConnection, expected: Option<i64>) -> Result<(), MeaningError> {
    if expected.is_some_and(|expected| expected != current.version) {
        return Err(MeaningError::Stale(Box::new(current)));
    }
    Ok(())
}
