//! Bots and webhooks as they are stored and managed.

use std::collections::HashMap;

use super::{
    commands::add_commands,
    error::HookError,
    object::{Bot, BotStatus, Hook, HookForm, HookObject, HookPatch},
    pause::add_subscriptions,
    template::HookTemplate,
};
use crate::{
    agents::policy::{self, HookCreators},
    auth::{
        Actor, AuditAction, AuthError, DisplayName, Scope, Scopes, UserKind, handles, hash_token,
        insert_without_sign_in, mark_names_changed, new_token, readable_channels, record_audit,
        shown_names,
    },
    chat::{ChatError, bots::announce_bot, channels::ChannelKind, post::MentionLimit},
    db::{Conn, DbError, Json, dialect, is_in_visible_channel, is_visible_channel, now},
    ids::{BotId, ChannelId, HookId, UserId, WorkspaceId},
    secrets::{self, Sealed},
    time::Timestamp,
};

/// Maximum number of webhooks of a workspace.
const HOOKS_MAX: i64 = 200;
/// Maximum number of bots of a workspace. A bot that has posted stays when its webhooks are deleted.
const BOTS_MAX: i64 = 1000;
/// Maximum number of other channels of a webhook.
const OTHERS_MAX: usize = 20;
/// Maximum number of domains for whose links a bot adds previews.
const DOMAINS_MAX: usize = 20;
const DOMAIN_BYTES_MAX: usize = 253;
const ABOUT_UNITS_MAX: usize = 500;

macro_rules! bot_sql {
    ($tail:literal) => {
        concat!(
            "select b.id, b.handle, u.name, u.avatar_url, b.about, b.scopes, b.show_emails, b.link_domains, b.created_by, b.created_at, b.last_used_at, \
             b.version, case when s.status = 'paused' then s.status else b.status end as status, \
             case when b.status = 'active' then s.paused_reason end as paused_reason \
             from bots b join users u on u.id = b.id left join bot_subscriptions s on s.bot_id = b.id ",
            $tail
        )
    };
}

macro_rules! hook_sql {
    ($tail:expr) => {
        concat!(
            "select h.id, h.bot_id, h.channel_id, h.other_channel_ids, h.may_notify, h.template, h.secret_set, h.created_by, h.created_at, h.last_used_at \
             from hooks h ",
            $tail
        )
    };
}

/// Workspace of a webhook.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_hook(c: &mut Conn, id: HookId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from hooks where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Workspace of a bot.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_bot(c: &mut Conn, id: BotId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from bots where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Sets the channels of bots that the actor can read, the commands of the bots, and, for an admin, their subscriptions.
///
/// # Errors
/// Only database errors.
pub(super) async fn add_parts(
    c: &mut Conn,
    actor: &Actor<'_>,
    bots: &mut [Bot],
) -> Result<(), DbError> {
    let rows: Vec<(BotId, ChannelId)> = c
        .q(concat!(
            "select bc.bot_id, bc.channel_id from bot_channels bc join bots b on b.id = bc.bot_id where b.workspace_id = $1 and ",
            is_in_visible_channel!("bc.channel_id", "$2"),
            " order by bc.bot_id, bc.channel_id"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .all()
        .await?;
    let mut by_bot: HashMap<BotId, Vec<ChannelId>> = HashMap::new();
    for (bot, channel) in rows {
        by_bot.entry(bot).or_default().push(channel);
    }
    for bot in &mut *bots {
        bot.channel_ids = by_bot.remove(&bot.id).unwrap_or_default();
    }
    add_subscriptions(c, actor, bots).await?;
    add_commands(c, actor.workspace, bots).await
}

/// All bots of the workspace, oldest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_bots(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<Bot>, HookError> {
    actor.require(Scope::ChatRead)?;
    let mut found: Vec<Bot> = c
        .q(bot_sql!("where b.workspace_id = $1 order by b.id limit $2"))
        .bind(actor.workspace)
        .bind(BOTS_MAX)
        .all()
        .await?;
    add_parts(c, actor, &mut found).await?;
    Ok(found)
}

/// Webhooks of channels that the actor can read: those that the actor created, or all of them for an admin. Oldest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_hooks(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<Hook>, HookError> {
    actor.require(Scope::ChatWrite)?;
    let mut found: Vec<Hook> = c
        .q(hook_sql!(concat!(
            "where h.workspace_id = $1 and (h.created_by = $2 or $3) and ",
            is_in_visible_channel!("h.channel_id", "$2"),
            " order by h.id limit $4"
        )))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .bind(HOOKS_MAX)
        .all()
        .await?;
    hide_others(c, actor, &mut found).await?;
    Ok(found)
}

/// Removes the other channels of webhooks that the actor cannot read.
async fn hide_others(c: &mut Conn, actor: &Actor<'_>, hooks: &mut [Hook]) -> Result<(), DbError> {
    let named = hooks.iter().flat_map(|hook| &hook.other_channel_ids.0);
    let named: Vec<ChannelId> = named.copied().collect();
    let readable = readable_channels(c, actor.user, &named).await?;
    for hook in hooks {
        let others = &mut hook.other_channel_ids.0;
        others.retain(|channel| readable.contains(channel));
    }
    Ok(())
}

pub(super) async fn get_bot(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
) -> Result<Bot, HookError> {
    let bot: Option<Bot> = c
        .q(bot_sql!("where b.id = $1 and b.workspace_id = $2"))
        .bind(id)
        .bind(workspace)
        .opt()
        .await?;
    bot.ok_or(HookError::BotNotFound)
}

/// A webhook that the actor manages, with those of its other channels that the actor can read.
///
/// # Errors
/// `HookNotFound` unless the actor can read the channel, and created the webhook or is an admin.
pub async fn get_own(c: &mut Conn, actor: &Actor<'_>, id: HookId) -> Result<Hook, HookError> {
    let mut hook = get_whole(c, actor, id).await?;
    hide_others(c, actor, std::slice::from_mut(&mut hook)).await?;
    Ok(hook)
}

/// Like `get_own`, with all other channels of the webhook.
async fn get_whole(c: &mut Conn, actor: &Actor<'_>, id: HookId) -> Result<Hook, HookError> {
    actor.require(Scope::ChatWrite)?;
    let hook: Option<Hook> = c
        .q(hook_sql!(concat!(
            "where h.id = $1 and h.workspace_id = $2 and (h.created_by = $3 or $4) and ",
            is_in_visible_channel!("h.channel_id", "$3")
        )))
        .bind(id)
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::WorkspaceAdmin))
        .opt()
        .await?;
    hook.ok_or(HookError::HookNotFound)
}

/// Checks that the actor, and therefore a webhook, can post in a channel.
///
/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, `Invalid`.
pub(super) async fn check_channel(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ChannelId,
) -> Result<(), HookError> {
    let row: Option<(ChannelKind, Option<Timestamp>)> = c
        .q(concat!(
            "select ch.kind, ch.archived_at from channels ch where ch.id = $1 and ch.workspace_id = $2 and ",
            is_visible_channel!("ch", "$3")
        ))
        .bind(id)
        .bind(actor.workspace)
        .bind(actor.user)
        .opt()
        .await?;
    let (kind, archived_at) = row.ok_or(ChatError::ChannelNotFound)?;
    if archived_at.is_some() {
        return Err(ChatError::ChannelArchived.into());
    }
    if kind == ChannelKind::Direct {
        let problem = "a webhook cannot post in a direct conversation: choose a channel";
        return Err(HookError::Invalid(problem.to_owned(), "channel_id"));
    }
    Ok(())
}

/// Adds those of the `known` channels that the actor cannot read, and therefore cannot remove, to the wanted ones.
pub(super) async fn with_hidden(
    c: &mut Conn,
    actor: &Actor<'_>,
    wanted: &[ChannelId],
    known: &[ChannelId],
) -> Result<Vec<ChannelId>, DbError> {
    let readable = readable_channels(c, actor.user, known).await?;
    let hidden = known.iter().filter(|channel| !readable.contains(*channel));
    Ok(wanted.iter().chain(hidden).copied().collect())
}

/// Checks other channels of a webhook, and adds the hidden ones of the `known` channels.
async fn check_others(
    c: &mut Conn,
    actor: &Actor<'_>,
    wanted: &[ChannelId],
    known: &[ChannelId],
) -> Result<Vec<ChannelId>, HookError> {
    let all = with_hidden(c, actor, wanted, known).await?;
    if all.len() > OTHERS_MAX {
        let problem = format!("a webhook can have at most {OTHERS_MAX} other channels");
        return Err(HookError::Invalid(problem, "other_channel_ids"));
    }
    for channel in wanted {
        check_channel(c, actor, *channel).await?;
    }
    Ok(all)
}

fn check_template(template: Option<&HookTemplate>) -> Result<(), HookError> {
    let checked = template.map_or(Ok(()), HookTemplate::check);
    checked.map_err(|problem| HookError::Invalid(problem, "template"))
}

/// Inserts a bot and the account that its messages refer to, which nobody can sign in to. Appends `bot.updated`.
pub(super) async fn insert_bot(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
) -> Result<BotId, HookError> {
    let name = DisplayName::parse(name, "name")?.0;
    shown_names::check_bot(c, actor.workspace, &name).await?;
    let count: i64 = c
        .q("select count(*) from bots where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= BOTS_MAX {
        return Err(HookError::TooManyBots(BOTS_MAX));
    }
    let id = BotId::new();
    insert_named_bot(c, actor.workspace, id, &name, actor.user).await?;
    Ok(id)
}

/// Inserts a bot of an archive, without webhooks, unless it is there. If its name looks like that of somebody else, it gets a number.
///
/// # Errors
/// Only database errors.
pub async fn insert_imported_bot(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
    name: &str,
    creator: UserId,
) -> Result<(), HookError> {
    if workspace_of_bot(c, id).await?.is_some() {
        return Ok(());
    }
    let kept: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    let base = match DisplayName::parse(kept.trim(), "name") {
        Ok(name) => name.0,
        Err(_) => "Bot".to_owned(),
    };
    let (mut accepted, mut n) = (base.clone(), 1);
    loop {
        match shown_names::check_bot(c, workspace, &accepted).await {
            Ok(()) => break,
            Err(AuthError::Invalid(..)) => {
                n += 1;
                accepted = format!("{base} {n}");
            }
            Err(e) => return Err(e.into()),
        }
    }
    insert_named_bot(c, workspace, id, &accepted, creator).await
}

/// Deletes a bot of an archive that has neither webhooks, keys, nor channels. Returns false if it has, or does not exist. The caller checks
/// that it wrote no message.
///
/// # Errors
/// Only database errors.
pub async fn remove_imported_bot(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
) -> Result<bool, DbError> {
    let is_unused: bool = c
        .q(
            "select exists (select 1 from bots b where b.id = $1 and b.workspace_id = $2 \
            and not exists (select 1 from hooks h where h.bot_id = b.id) \
            and not exists (select 1 from bot_keys k where k.bot_id = b.id) \
            and not exists (select 1 from bot_channels ch where ch.bot_id = b.id))",
        )
        .bind(id)
        .bind(workspace)
        .value()
        .await?;
    if !is_unused {
        return Ok(false);
    }
    handles::release(c, workspace, id.0).await?;
    c.q("delete from users where id = $1 and kind = 'bot'")
        .bind(id)
        .run()
        .await?;
    mark_names_changed(c).await?;
    Ok(true)
}

async fn insert_named_bot(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
    name: &str,
    creator: UserId,
) -> Result<(), HookError> {
    insert_without_sign_in(c, UserId(id.0), name, UserKind::Bot).await?;
    let handle = handles::find_free(c, workspace, name, "bot").await?;
    handles::claim(c, workspace, &handle, handles::OwnerType::Bot, id.0).await?;
    c.q("insert into bots (id, workspace_id, handle, about, status, created_by, created_at, last_used_at, version) \
         values ($1, $2, $3, null, $4, $5, $6, null, 1)")
        .bind(id)
        .bind(workspace)
        .bind(handle)
        .bind(BotStatus::Active)
        .bind(creator)
        .bind(now())
        .run()
        .await?;
    announce_bot(c, workspace, id).await?;
    Ok(())
}

/// Creates a webhook for a channel in which the actor can post, if the policy lets them. Returns it with its secret.
///
/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, `BotNotFound`, `TooMany`, `Invalid`, or an error from `Actor::require`.
pub async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: HookId,
    form: &HookForm,
) -> Result<(Hook, String), HookError> {
    actor.require(Scope::ChatWrite)?;
    let workspace = actor.workspace;
    dialect::lock_workspace(c, workspace.0).await?;
    if policy::find_hook_creators(c, workspace).await? == HookCreators::Admins {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    check_channel(c, actor, form.channel_id).await?;
    let count: i64 = c
        .q("select count(*) from hooks where workspace_id = $1")
        .bind(workspace)
        .value()
        .await?;
    if count >= HOOKS_MAX {
        return Err(HookError::TooMany(HOOKS_MAX));
    }
    let known = match form.bot_id {
        Some(id) => Some(get_bot(c, workspace, id).await?),
        None => None,
    };
    let bot = match (known, &form.name) {
        (Some(bot), _) => {
            if bot.created_by != actor.user {
                actor.require(Scope::WorkspaceAdmin)?;
            }
            bot.id
        }
        (None, Some(name)) => insert_bot(c, actor, name).await?,
        (None, None) => {
            let problem = "send `name`, for a new bot, or `bot_id`";
            return Err(HookError::Invalid(problem.to_owned(), "name"));
        }
    };
    let others = check_others(c, actor, &form.other_channel_ids, &[]).await?;
    check_template(form.template.as_ref())?;
    let secret = new_token();
    let hook = Hook {
        id,
        object: HookObject::Hook,
        bot_id: bot,
        channel_id: form.channel_id,
        other_channel_ids: Json(others),
        may_notify: form.may_notify.unwrap_or(MentionLimit::People),
        template: form.template.clone().map(Json),
        secret_set: false,
        created_by: actor.user,
        created_at: now(),
        last_used_at: None,
    };
    c.q("insert into hooks (id, workspace_id, bot_id, channel_id, other_channel_ids, may_notify, template, secret_hash, created_by, created_at, last_used_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, null)")
        .bind(hook.id)
        .bind(workspace)
        .bind(bot)
        .bind(hook.channel_id)
        .bind(hook.other_channel_ids.clone())
        .bind(hook.may_notify)
        .bind(hook.template.clone())
        .bind(hash_token(&secret))
        .bind(actor.user)
        .bind(hook.created_at)
        .run()
        .await?;
    let data = serde_json::json!({"bot_id": bot, "channel_id": hook.channel_id});
    record_audit(
        c,
        actor,
        AuditAction::HookCreated,
        hook.id.to_string(),
        data,
    )
    .await?;
    Ok((hook, secret))
}

/// Changes a webhook.
///
/// # Errors
/// `HookNotFound`, `ChannelNotFound`, `ChannelArchived`, `Invalid`, or an error from `Actor::require`.
pub async fn patch(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: HookId,
    patch: &HookPatch,
) -> Result<Hook, HookError> {
    actor.require(Scope::ChatWrite)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let mut hook = get_whole(c, actor, id).await?;
    if let Some(channel) = patch.channel_id {
        check_channel(c, actor, channel).await?;
        hook.channel_id = channel;
    }
    if let Some(others) = &patch.other_channel_ids {
        let all = check_others(c, actor, others, &hook.other_channel_ids.0).await?;
        hook.other_channel_ids = Json(all);
    }
    hook.may_notify = patch.may_notify.unwrap_or(hook.may_notify);
    if let Some(template) = &patch.template {
        check_template(template.as_ref())?;
        hook.template = template.clone().map(Json);
    }
    c.q("update hooks set channel_id = $2, may_notify = $3, template = $4, other_channel_ids = $5 where id = $1")
        .bind(id)
        .bind(hook.channel_id)
        .bind(hook.may_notify)
        .bind(hook.template.clone())
        .bind(hook.other_channel_ids.clone())
        .run()
        .await?;
    let data = serde_json::json!({"bot_id": hook.bot_id, "channel_id": hook.channel_id});
    record_audit(c, actor, AuditAction::HookUpdated, id.to_string(), data).await?;
    hide_others(c, actor, std::slice::from_mut(&mut hook)).await?;
    Ok(hook)
}

/// Gives a webhook a new address; the old one stops working. Returns the new secret.
///
/// # Errors
/// `HookNotFound`, or an error from `Actor::require`.
pub async fn rotate(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: HookId,
) -> Result<(Hook, String), HookError> {
    let hook = get_own(c, actor, id).await?;
    let secret = new_token();
    c.q("update hooks set secret_hash = $2 where id = $1")
        .bind(id)
        .bind(hash_token(&secret))
        .run()
        .await?;
    let data = serde_json::json!({"bot_id": hook.bot_id});
    record_audit(c, actor, AuditAction::HookRotated, id.to_string(), data).await?;
    Ok((hook, secret))
}

/// Stores the secret with which programs sign their requests, or removes it.
///
/// # Errors
/// `HookNotFound`, or an error from `Actor::require`.
pub async fn set_secret(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: HookId,
    sealed: Option<&Sealed>,
) -> Result<(), HookError> {
    let hook = get_own(c, actor, id).await?;
    match sealed {
        Some(sealed) => secrets::put(c, &id.to_string(), sealed).await?,
        None => secrets::delete(c, &id.to_string()).await?,
    }
    c.q("update hooks set secret_set = $2 where id = $1")
        .bind(id)
        .bind(sealed.is_some())
        .run()
        .await?;
    let data = serde_json::json!({"bot_id": hook.bot_id, "secret_set": sealed.is_some()});
    record_audit(c, actor, AuditAction::HookUpdated, id.to_string(), data).await?;
    Ok(())
}

/// Deletes a webhook. Its messages stay, and so does its bot if it has posted any or has other webhooks.
///
/// # Errors
/// `HookNotFound`, or an error from `Actor::require`.
pub async fn delete(c: &mut Conn, actor: &Actor<'_>, id: HookId) -> Result<(), HookError> {
    let hook = get_own(c, actor, id).await?;
    secrets::delete(c, &id.to_string()).await?;
    c.q("delete from hooks where id = $1")
        .bind(id)
        .run()
        .await?;
    let is_unused: bool = c
        .q(
            "select exists (select 1 from bots b where b.id = $1 and b.last_used_at is null \
            and not exists (select 1 from hooks h where h.bot_id = b.id) and not exists (select 1 from imported i where i.id = b.id) \
            and not exists (select 1 from bot_subscriptions s where s.bot_id = b.id))",
        )
        .bind(hook.bot_id)
        .value()
        .await?;
    if is_unused {
        handles::release(c, actor.workspace, hook.bot_id.0).await?;
        c.q("delete from users where id = $1 and kind = 'bot'")
            .bind(hook.bot_id)
            .run()
            .await?;
    }
    let data = serde_json::json!({"bot_id": hook.bot_id, "channel_id": hook.channel_id});
    record_audit(c, actor, AuditAction::HookDeleted, id.to_string(), data).await?;
    Ok(())
}

/// # Errors
/// `Invalid` for a text that is too long.
pub(super) fn parse_about(about: &str) -> Result<Option<String>, HookError> {
    if about.encode_utf16().count() > ABOUT_UNITS_MAX || about.contains('\0') {
        let problem = format!("`about` can have at most {ABOUT_UNITS_MAX} characters");
        return Err(HookError::Invalid(problem, "about"));
    }
    Ok(Some(about.trim().to_owned()).filter(|about| !about.is_empty()))
}

/// # Errors
/// `Invalid` for no scope, and for one that bots cannot have.
pub(super) fn check_scopes(scopes: &Scopes) -> Result<(), HookError> {
    let allowed = Scopes::of_bots();
    if scopes.0.is_empty() || scopes.0.iter().any(|scope| !allowed.has(*scope)) {
        let problem = "a bot has the scope `chat:read`, `chat:write`, or both".to_owned();
        return Err(HookError::Invalid(problem, "scopes"));
    }
    Ok(())
}

/// # Errors
/// `Invalid`.
pub(super) fn check_domains(domains: &[String]) -> Result<(), HookError> {
    let is_label = |label: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(is_part)
    };
    let fits =
        |domain: &String| domain.len() <= DOMAIN_BYTES_MAX && domain.split('.').all(is_label);
    if domains.len() <= DOMAINS_MAX && domains.iter().all(fits) {
        return Ok(());
    }
    let problem =
        format!("at most {DOMAINS_MAX} domains are allowed, in lowercase, such as git.example.com");
    Err(HookError::Invalid(problem, "link_domains"))
}
