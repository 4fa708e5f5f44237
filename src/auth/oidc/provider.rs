//! Identity providers: their settings, and changes by the server's admins.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{SignInFault, client::Connection, discovery::parse_address};
use crate::{
    auth::{Actor, AuditAction, AuthError, Role, Scope, audit, workspaces},
    db::{Conn, DbError, Json, dialect, is_visible_channel, now},
    ids::{ChannelId, IdentityProviderId, WorkspaceId},
    inbox::notice,
    patch::present,
    secrets::{self, Keyring, Sealed},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum number of providers of the server.
pub const PROVIDERS_MAX: i64 = 10;
const NAME_CHARS_MAX: usize = 40;
const DOMAINS_MAX: usize = 50;
const DOMAIN_CHARS_MAX: usize = 253;
const WORKSPACES_MAX: usize = 50;
const RULES_MAX: usize = 100;
/// Maximum number of channels of a rule.
const CHANNELS_MAX: usize = 50;
const GROUP_CHARS_MAX: usize = 255;
const ADDRESS_CHARS_MAX: usize = 2000;
const SECRET_CHARS_MAX: usize = 1000;

constant! { pub IdentityProviderObject = "identity_provider" }

text_enum! {
    /// Confirmation that an email address belongs to the person.
    pub enum EmailTrust {
        /// The claim `email_verified`.
        Claim = "claim",
        /// All addresses in the domains, because the provider assigns them.
        Issuer = "issuer",
    }
}

text_enum! {
    /// People who join a workspace when they sign in.
    pub enum ProviderJoin {
        Invited = "invited",
        Everyone = "everyone",
    }
}

text_enum! {
    /// State of a provider, as of the newest request to it.
    pub enum ProviderState {
        Ok = "ok",
        Unreachable = "unreachable",
        Misconfigured = "misconfigured",
    }
}

text_enum! {
    /// Sign-ins with a provider that count as a second factor.
    pub enum ProviderSecondFactor {
        /// Those whose claim `amr` names one.
        Claim = "claim",
        Always = "always",
        Never = "never",
    }
}

/// Role and channels of the members of a group. A rule has at least one of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// 1 to 255 characters.
    pub group: String,
    #[serde(default)]
    pub role: Option<Role>,
    /// Up to 50 channels that they join, and that others leave. Not direct ones, nor archived ones.
    #[serde(default)]
    pub channel_ids: Vec<ChannelId>,
}

/// A workspace that people join with the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderWorkspace {
    pub workspace_id: WorkspaceId,
    #[serde(default = "invited")]
    pub join: ProviderJoin,
    /// Role of people to whom no rule applies: `member`, `viewer`, or `guest`. Guests are only in the channels of their groups.
    #[serde(default = "member")]
    pub role: Role,
    /// Up to 100 rules; the strongest role and all channels apply.
    #[serde(default)]
    pub rules: Vec<GroupRule>,
}

fn invited() -> ProviderJoin {
    ProviderJoin::Invited
}

fn member() -> Role {
    Role::Member
}

/// Settings that decide who can sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProviderSettings {
    /// Domains whose addresses the provider vouches for; `*` stands for all.
    pub domains: Vec<String>,
    pub email_trust: EmailTrust,
    /// Claim with the person's groups.
    pub groups_claim: String,
    /// Sign-ins that count as a second factor.
    #[serde(default = "factor_by_claim")]
    pub second_factor: ProviderSecondFactor,
    pub workspaces: Vec<ProviderWorkspace>,
}

impl ProviderSettings {
    /// Checks whether an address is in one of the domains.
    pub(crate) fn covers(&self, email: &str) -> bool {
        self.domains.iter().any(|known| known == "*") || self.names_domain_of(email)
    }

    /// Checks whether the domain of an address is named.
    pub(crate) fn names_domain_of(&self, email: &str) -> bool {
        let domain = email.rsplit_once('@').map(|(_, domain)| domain);
        self.domains
            .iter()
            .any(|known| Some(known.as_str()) == domain)
    }
}

/// An identity provider as it is stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct StoredProvider {
    pub id: IdentityProviderId,
    pub name: String,
    pub issuer: String,
    pub client_id: String,
    pub settings: Json<ProviderSettings>,
    pub enabled: bool,
    pub tried_at: Option<Timestamp>,
    pub last_try: Option<Json<serde_json::Value>>,
    pub state: ProviderState,
    pub error: Option<String>,
    /// Time of the first failed request since the last success.
    pub failing_since: Option<Timestamp>,
    pub version: i64,
}

/// An identity provider, with which people sign in.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct IdentityProvider {
    pub id: IdentityProviderId,
    pub object: IdentityProviderObject,
    pub name: String,
    pub issuer: String,
    pub client_id: String,
    /// True if the client secret is stored. It is never shown.
    pub secret_set: bool,
    pub enabled: bool,
    /// Time of the newest successful try with the present issuer, client ID, and secret.
    pub tried_at: Option<Timestamp>,
    /// Result of the newest try: `at`, `claims`, `account`, and `roles`.
    #[schema(value_type = Option<Object>)]
    pub last_try: Option<serde_json::Value>,
    #[serde(flatten)]
    pub settings: ProviderSettings,
    /// Address to register at the provider for its answers.
    pub redirect_uri: String,
    /// Address to register at the provider for the end of its sessions (back-channel logout).
    pub logout_uri: String,
    /// Address for the accounts and groups that the provider sends (SCIM 2.0).
    pub scim_url: String,
    pub state: ProviderState,
    /// Cause of the newest failure, until a request succeeds.
    pub error: Option<String>,
    /// Number of people who could not sign in without the provider.
    pub only_way_of: i64,
    pub version: i64,
}

/// Settings of a new provider.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderForm {
    /// 1 to 40 characters, as in "Sign in with Corp".
    pub name: String,
    /// Address, exactly as the provider writes it.
    pub issuer: String,
    pub client_id: String,
    /// Up to 50 domains, or `*` for all, which `email_trust` `issuer` excludes.
    #[serde(default)]
    pub domains: Vec<String>,
    #[serde(default = "by_claim")]
    pub email_trust: EmailTrust,
    #[serde(default = "groups")]
    pub groups_claim: String,
    /// Sign-ins that count as a second factor.
    #[serde(default = "factor_by_claim")]
    pub second_factor: ProviderSecondFactor,
    /// Up to 50 workspaces.
    #[serde(default)]
    pub workspaces: Vec<ProviderWorkspace>,
}

fn by_claim() -> EmailTrust {
    EmailTrust::Claim
}

fn factor_by_claim() -> ProviderSecondFactor {
    ProviderSecondFactor::Claim
}

fn groups() -> String {
    "groups".to_owned()
}

/// Changes to a provider. Omitted fields are unchanged.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// A new issuer or client ID needs another try, and turns the provider off.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub issuer: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub client_id: Option<String>,
    /// Turning on needs a successful try.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub domains: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub email_trust: Option<EmailTrust>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub groups_claim: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub second_factor: Option<ProviderSecondFactor>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub workspaces: Option<Vec<ProviderWorkspace>>,
}

fn invalid(text: String, param: &'static str) -> AuthError {
    AuthError::Invalid(text, param)
}

/// Trims a text and checks its length.
fn line(text: &str, max: usize, param: &'static str) -> Result<String, AuthError> {
    let text = text.trim();
    let is_valid = (1..=max).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(invalid(
            format!("`{param}` must be 1 to {max} characters"),
            param,
        ))
    }
}

/// # Errors
/// `NotHttps`, `Invalid`.
fn parse_issuer(text: &str) -> Result<String, AuthError> {
    let issuer = line(text, ADDRESS_CHARS_MAX, "issuer")?;
    let url = parse_address(&issuer).ok_or(AuthError::IssuerNotHttps)?;
    if url.query().is_some() || url.fragment().is_some() {
        let problem = "an issuer has no query: enter it as the provider writes it";
        return Err(invalid(problem.to_owned(), "issuer"));
    }
    Ok(issuer)
}

/// Checks the form of an issuer, before anything is sent there.
///
/// # Errors
/// `IssuerNotHttps`, `Invalid`.
pub(crate) fn check_issuer_form(text: &str) -> Result<(), AuthError> {
    parse_issuer(text).map(|_| ())
}

fn parse_domain(text: &str) -> Result<String, AuthError> {
    let domain = text.trim().trim_start_matches('@').to_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let is_valid = domain == "*"
        || (1..=DOMAIN_CHARS_MAX).contains(&domain.len())
            && domain.chars().all(is_name)
            && !domain.starts_with('.')
            && !domain.ends_with('.');
    if is_valid {
        Ok(domain)
    } else {
        let problem = format!("`{text}` is not a domain such as example.org");
        Err(invalid(problem, "domains"))
    }
}

/// Checks that a channel of a workspace can be in a rule, and that the actor can read it.
async fn check_channel(
    c: &mut Conn,
    actor: &Actor<'_>,
    workspace: WorkspaceId,
    channel: ChannelId,
) -> Result<(), AuthError> {
    let is_usable: bool = c
        .q(concat!(
            "select exists (select 1 from channels ch where ch.id = $1 and ch.workspace_id = $2 and ch.kind <> 'direct' \
             and ch.archived_at is null and ",
            is_visible_channel!("ch", "$3"),
            ")"
        ))
        .bind(channel)
        .bind(workspace)
        .bind(actor.user)
        .value()
        .await?;
    if is_usable {
        return Ok(());
    }
    let problem = format!(
        "the channel {channel} does not exist, is archived or direct, or you are not in it"
    );
    Err(invalid(problem, "workspaces"))
}

impl ProviderSettings {
    /// Checks and normalizes the settings. The actor can read each channel of a rule, unless the same group had it `before`.
    async fn check(
        mut self,
        c: &mut Conn,
        actor: &Actor<'_>,
        before: Option<&Self>,
    ) -> Result<Self, AuthError> {
        if self.domains.len() > DOMAINS_MAX {
            let problem = format!("a provider can have at most {DOMAINS_MAX} domains");
            return Err(invalid(problem, "domains"));
        }
        self.domains = self
            .domains
            .iter()
            .map(|domain| parse_domain(domain))
            .collect::<Result<_, _>>()?;
        if self.email_trust == EmailTrust::Issuer && self.domains.iter().any(|d| d == "*") {
            let problem = "`issuer` needs named domains, because nobody assigns addresses in all of them: list them";
            return Err(invalid(problem.to_owned(), "email_trust"));
        }
        self.groups_claim = line(&self.groups_claim, GROUP_CHARS_MAX, "groups_claim")?;
        if self.workspaces.len() > WORKSPACES_MAX {
            let problem = format!("a provider can have at most {WORKSPACES_MAX} workspaces");
            return Err(invalid(problem, "workspaces"));
        }
        let mut seen = Vec::new();
        for entry in &self.workspaces {
            let id = entry.workspace_id;
            if seen.contains(&id) {
                let problem = format!("the workspace {id} is listed twice");
                return Err(invalid(problem, "workspaces"));
            }
            seen.push(id);
            if !workspaces::exists(c, id).await? {
                let problem = format!("the workspace {id} does not exist");
                return Err(invalid(problem, "workspaces"));
            }
            if entry.role == Role::Admin {
                let problem =
                    "nobody becomes an admin without a rule: choose `member`, `viewer`, or `guest`"
                        .to_owned();
                return Err(invalid(problem, "workspaces"));
            }
            let mut rules = entry.rules.iter();
            if rules.any(|rule| rule.role == Some(Role::Guest) && rule.channel_ids.is_empty()) {
                let problem = "a rule with the role `guest` needs channels".to_owned();
                return Err(invalid(problem, "workspaces"));
            }
            if entry.rules.len() > RULES_MAX {
                let problem = format!("a workspace can have at most {RULES_MAX} rules");
                return Err(invalid(problem, "workspaces"));
            }
            for rule in &entry.rules {
                line(&rule.group, GROUP_CHARS_MAX, "workspaces")?;
                let count = rule.channel_ids.len();
                if count > CHANNELS_MAX || (count == 0 && rule.role.is_none()) {
                    let problem =
                        format!("a rule needs a role or channels, at most {CHANNELS_MAX} of them");
                    return Err(invalid(problem, "workspaces"));
                }
            }
            let known = before.map(|before| before.channels_of(id));
            let known = known.unwrap_or_default();
            for (_, channel) in self.channels_of(id).difference(&known) {
                check_channel(c, actor, id, *channel).await?;
            }
        }
        Ok(self)
    }

    /// Groups of the rules of a workspace, each with a channel.
    fn channels_of(&self, workspace: WorkspaceId) -> BTreeSet<(&str, ChannelId)> {
        let entries = self.workspaces.iter();
        entries
            .filter(|entry| entry.workspace_id == workspace)
            .flat_map(|entry| &entry.rules)
            .flat_map(|rule| {
                let channels = rule.channel_ids.iter();
                channels.map(move |channel| (rule.group.as_str(), *channel))
            })
            .collect()
    }
}

impl StoredProvider {
    /// Addresses and secret for requests to the provider.
    pub(crate) async fn connection(
        &self,
        c: &mut Conn,
        keyring: &Keyring,
    ) -> Result<Connection, AuthError> {
        let owner = self.id.to_string();
        let sealed = secrets::find(c, &owner).await?;
        let secret = sealed.map(|sealed| keyring.open(&owner, &sealed));
        Ok(Connection {
            id: self.id,
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            secret: secret.transpose()?,
        })
    }

    /// The provider as the API shows it. `only_way_of` is the number of people who could not sign in without it.
    pub(crate) async fn shown(
        self,
        c: &mut Conn,
        public_url: &str,
        only_way_of: i64,
    ) -> Result<IdentityProvider, AuthError> {
        let secret_set = secrets::find(c, &self.id.to_string()).await?.is_some();
        Ok(IdentityProvider {
            id: self.id,
            object: IdentityProviderObject,
            secret_set,
            only_way_of,
            redirect_uri: redirect_uri(public_url, self.id),
            logout_uri: format!("{public_url}/v1/auth/oidc/{}/logout", self.id),
            scim_url: format!("{public_url}/scim/v2"),
            name: self.name,
            issuer: self.issuer,
            client_id: self.client_id,
            enabled: self.enabled,
            tried_at: self.tried_at,
            last_try: self.last_try.map(|last| last.0),
            settings: self.settings.0,
            state: self.state,
            error: self.error,
            version: self.version,
        })
    }
}

/// Address to which the provider sends its answers.
pub(crate) fn redirect_uri(public_url: &str, id: IdentityProviderId) -> String {
    format!("{public_url}/v1/auth/oidc/{id}/callback")
}

macro_rules! columns {
    ($tail:literal) => {
        concat!(
            "select id, name, issuer, client_id, settings, enabled, tried_at, last_try, state, error, failing_since, version from identity_providers ",
            $tail
        )
    };
}

/// All providers, oldest first.
///
/// # Errors
/// Only database errors.
pub(crate) async fn list(c: &mut Conn) -> Result<Vec<StoredProvider>, DbError> {
    c.q(columns!("order by id limit $1"))
        .bind(PROVIDERS_MAX)
        .all()
        .await
}

/// The providers with which people can sign in, oldest first.
///
/// # Errors
/// Only database errors.
pub(super) async fn list_enabled(c: &mut Conn) -> Result<Vec<StoredProvider>, DbError> {
    c.q(columns!("where enabled = TRUE order by id limit $1"))
        .bind(PROVIDERS_MAX)
        .all()
        .await
}

/// # Errors
/// `NotFound`.
pub(crate) async fn get(c: &mut Conn, id: IdentityProviderId) -> Result<StoredProvider, AuthError> {
    c.q(columns!("where id = $1"))
        .bind(id)
        .opt()
        .await?
        .ok_or(AuthError::NotFound("identity provider"))
}

/// Returns a provider with which people can sign in.
///
/// # Errors
/// `NotFound`.
pub(crate) async fn get_enabled(
    c: &mut Conn,
    id: IdentityProviderId,
) -> Result<StoredProvider, AuthError> {
    let provider = get(c, id).await?;
    if provider.enabled {
        Ok(provider)
    } else {
        Err(AuthError::NotFound("identity provider"))
    }
}

async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    provider: &StoredProvider,
) -> Result<(), AuthError> {
    let data = json!({"name": provider.name, "issuer": provider.issuer, "enabled": provider.enabled,
        "domains": provider.settings.0.domains});
    Ok(audit::record(c, actor, action, provider.id.to_string(), data).await?)
}

/// # Errors
/// `QuotaExceeded`, `IssuerNotHttps`, `Invalid`, or an error from `Actor::require`.
pub(crate) async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    form: &ProviderForm,
    state: ProviderState,
) -> Result<StoredProvider, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let settings = ProviderSettings {
        domains: form.domains.clone(),
        email_trust: form.email_trust,
        groups_claim: form.groups_claim.clone(),
        second_factor: form.second_factor,
        workspaces: form.workspaces.clone(),
    };
    let settings = settings.check(c, actor, None).await?;
    let count: i64 = c
        .q("select count(*) from identity_providers")
        .value()
        .await?;
    if count >= PROVIDERS_MAX {
        let problem = format!("a server can have at most {PROVIDERS_MAX} identity providers");
        return Err(AuthError::QuotaExceeded(problem));
    }
    c.q("insert into identity_providers (id, name, issuer, client_id, settings, enabled, state, created_at, version) \
         values ($1, $2, $3, $4, $5, FALSE, $6, $7, 1)")
        .bind(id)
        .bind(line(&form.name, NAME_CHARS_MAX, "name")?)
        .bind(parse_issuer(&form.issuer)?)
        .bind(line(&form.client_id, GROUP_CHARS_MAX, "client_id")?)
        .bind(Json(settings))
        .bind(state)
        .bind(now())
        .run()
        .await?;
    let created = get(c, id).await?;
    record(c, actor, AuditAction::ProviderCreated, &created).await?;
    Ok(created)
}

/// # Errors
/// `StaleProvider`.
fn check_version(provider: &StoredProvider, expected: Option<i64>) -> Result<(), AuthError> {
    if expected.is_some_and(|expected| expected != provider.version) {
        return Err(AuthError::StaleProvider);
    }
    Ok(())
}

/// # Errors
/// `NotFound`, `StaleProvider`, `NotTried`, `IssuerNotHttps`, `Invalid`, or an error from `Actor::require`.
pub(crate) async fn patch(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    patch: &ProviderPatch,
    expected: Option<i64>,
) -> Result<StoredProvider, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let before = get(c, id).await?;
    check_version(&before, expected)?;
    let settings = ProviderSettings {
        domains: patch
            .domains
            .clone()
            .unwrap_or_else(|| before.settings.domains.clone()),
        email_trust: patch.email_trust.unwrap_or(before.settings.email_trust),
        groups_claim: patch
            .groups_claim
            .clone()
            .unwrap_or_else(|| before.settings.groups_claim.clone()),
        second_factor: patch.second_factor.unwrap_or(before.settings.second_factor),
        workspaces: patch
            .workspaces
            .clone()
            .unwrap_or_else(|| before.settings.workspaces.clone()),
    };
    let settings = settings.check(c, actor, Some(&before.settings.0)).await?;
    let issuer = match &patch.issuer {
        Some(issuer) => parse_issuer(issuer)?,
        None => before.issuer.clone(),
    };
    let client_id = match &patch.client_id {
        Some(client_id) => line(client_id, GROUP_CHARS_MAX, "client_id")?,
        None => before.client_id.clone(),
    };
    let name = match &patch.name {
        Some(name) => line(name, NAME_CHARS_MAX, "name")?,
        None => before.name.clone(),
    };
    if issuer != before.issuer && has_identities(c, id).await? {
        let problem = "people are connected to this issuer, and their names mean others elsewhere: add a new provider";
        return Err(invalid(problem.to_owned(), "issuer"));
    }
    let is_same = issuer == before.issuer && client_id == before.client_id;
    let tried_at = before.tried_at.filter(|_| is_same);
    let enabled = patch.enabled.unwrap_or(before.enabled && is_same);
    if enabled && tried_at.is_none() && !(before.enabled && is_same) {
        return Err(AuthError::ProviderNotTried);
    }
    c.q("update identity_providers set name = $2, issuer = $3, client_id = $4, settings = $5, enabled = $6, tried_at = $7, \
         version = version + 1 where id = $1")
        .bind(id)
        .bind(name)
        .bind(issuer)
        .bind(client_id)
        .bind(Json(settings))
        .bind(enabled)
        .bind(tried_at)
        .run()
        .await?;
    let changed = get(c, id).await?;
    let action = match (before.enabled, changed.enabled) {
        (false, true) => AuditAction::ProviderEnabled,
        (true, false) => AuditAction::ProviderDisabled,
        _ => AuditAction::ProviderUpdated,
    };
    record(c, actor, action, &changed).await?;
    Ok(changed)
}

async fn has_identities(c: &mut Conn, id: IdentityProviderId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from identities where provider_id = $1)")
        .bind(id)
        .value()
        .await
}

/// Deletes a provider and its identities. Accounts, memberships, and sessions stay.
///
/// # Errors
/// `NotFound`, `StaleProvider`, or an error from `Actor::require`.
pub(crate) async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    expected: Option<i64>,
) -> Result<(), AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let provider = get(c, id).await?;
    check_version(&provider, expected)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    notice::close_notice(c, actor.workspace, id.0, None).await?;
    secrets::delete(c, &id.to_string()).await?;
    c.q("delete from identity_providers where id = $1")
        .bind(id)
        .run()
        .await?;
    record(c, actor, AuditAction::ProviderDeleted, &provider).await
}

/// Encrypts a client secret.
///
/// # Errors
/// `Invalid`, `Secret`.
pub(crate) fn seal_secret(
    keyring: &Keyring,
    id: IdentityProviderId,
    value: &str,
) -> Result<Sealed, AuthError> {
    let value = line(value, SECRET_CHARS_MAX, "value")?;
    Ok(keyring.seal(&id.to_string(), &value)?)
}

/// Stores a client secret. The provider needs another try, but stays on: a secret that expires is replaced while people use it.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub(crate) async fn set_secret(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: IdentityProviderId,
    sealed: &Sealed,
) -> Result<(), AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let provider = get(c, id).await?;
    secrets::put(c, &id.to_string(), sealed).await?;
    c.q("update identity_providers set tried_at = null, version = version + 1 where id = $1")
        .bind(id)
        .run()
        .await?;
    record(c, actor, AuditAction::ProviderSecretChanged, &provider).await
}

/// Turns a provider off, for the operator's command line. Returns its name.
///
/// # Errors
/// `NotFound`.
pub async fn disable(c: &mut Conn, id: IdentityProviderId) -> Result<String, AuthError> {
    let provider = get(c, id).await?;
    c.q("update identity_providers set enabled = FALSE, version = version + 1 where id = $1")
        .bind(id)
        .run()
        .await?;
    if let Some(oldest) = workspaces::find_oldest(c).await? {
        let data = json!({"name": provider.name, "issuer": provider.issuer});
        let action = AuditAction::ProviderDisabled;
        audit::record_operator(c, oldest, action, id.to_string(), data).await?;
    }
    Ok(provider.name)
}

/// A provider, for the operator's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedProvider {
    pub id: IdentityProviderId,
    pub name: String,
    pub issuer: String,
    pub enabled: bool,
    pub state: ProviderState,
}

/// # Errors
/// Only database errors.
pub async fn list_for_operator(c: &mut Conn) -> Result<Vec<ListedProvider>, DbError> {
    let all = list(c).await?.into_iter();
    Ok(all
        .map(|provider| ListedProvider {
            id: provider.id,
            name: provider.name,
            issuer: provider.issuer,
            enabled: provider.enabled,
            state: provider.state,
        })
        .collect())
}

/// State of a provider after a request.
#[derive(Debug, Clone)]
pub(crate) struct SeenState {
    state: ProviderState,
    error: Option<String>,
}

impl SeenState {
    pub(crate) const OK: Self = Self {
        state: ProviderState::Ok,
        error: None,
    };

    /// `None` for a fault that is not the provider's.
    pub(crate) fn of(fault: &SignInFault) -> Option<Self> {
        let state = match fault {
            SignInFault::Unreachable(_) => ProviderState::Unreachable,
            SignInFault::Misconfigured(_) | SignInFault::ClockSkew(_) => {
                ProviderState::Misconfigured
            }
            _ => return None,
        };
        Some(Self {
            state,
            error: Some(fault.to_string()),
        })
    }
}

/// Stores the state of a provider, if it has changed.
///
/// # Errors
/// Only database errors.
pub(crate) async fn set_state(
    c: &mut Conn,
    id: IdentityProviderId,
    seen: &SeenState,
) -> Result<(), DbError> {
    if seen.state == ProviderState::Ok {
        c.q("update identity_providers set state = $2, error = null, failing_since = null where id = $1 and state <> $2")
            .bind(id)
            .bind(seen.state)
            .run()
            .await?;
        return Ok(());
    }
    c.q("update identity_providers set state = $2, error = $3, failing_since = coalesce(failing_since, $4) \
         where id = $1 and (state <> $2 or coalesce(error, '') <> coalesce($3, ''))")
        .bind(id)
        .bind(seen.state)
        .bind(seen.error.clone())
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Stores the result of a successful try, unless the settings have changed since it began.
///
/// # Errors
/// Only database errors.
pub(crate) async fn record_try(
    c: &mut Conn,
    id: IdentityProviderId,
    version: i64,
    result: serde_json::Value,
) -> Result<bool, DbError> {
    let stored = c
        .q("update identity_providers set tried_at = $3, last_try = $4 where id = $1 and version = $2")
        .bind(id)
        .bind(version)
        .bind(now())
        .bind(Json(result))
        .run()
        .await?;
    Ok(stored > 0)
}
