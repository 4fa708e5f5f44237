//! Bots, their channels, and the keys with which programs act as them.

use super::{
    commands::set_commands,
    error::HookError,
    missing::list_missing_methods,
    object::{Bot, BotForm, BotKey, BotPatch, BotStatus, BotWithKeys},
    pause::{remove_subscription, resume_subscription},
    row::{
        add_parts, check_channel, check_domains, check_scopes, get_bot, insert_bot, parse_about,
    },
};
use crate::{
    auth::{
        Actor, AuditAction, Caller, DisplayName, Scope, Scopes, handles, hash_token,
        look_alikes::Skeletons, mark_names_changed, new_token, record_audit, shown_names,
    },
    chat::{ChatError, access, bots::announce_bot, channels::ChannelKind},
    db::{Conn, DbError, Json, dialect, now},
    files::set_bot_picture,
    ids::{ApiKeyId, BotId, ChannelId, HookId},
    secrets,
};

/// Maximum number of keys of a bot.
const KEYS_MAX: i64 = 5;
/// Maximum number of channels that a bot is added to at once.
const CHANNELS_MAX: usize = 20;

async fn get_shown(c: &mut Conn, actor: &Actor<'_>, id: BotId) -> Result<Bot, HookError> {
    let mut bot = get_bot(c, actor.workspace, id).await?;
    add_parts(c, actor, std::slice::from_mut(&mut bot)).await?;
    Ok(bot)
}

/// A bot; with its keys for admins.
///
/// # Errors
/// `BotNotFound`, or an error from `Actor::require`.
pub async fn get_with_keys(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
) -> Result<BotWithKeys, HookError> {
    actor.require(Scope::ChatRead)?;
    let bot = get_shown(c, actor, id).await?;
    if !actor.scopes.has(Scope::WorkspaceAdmin) {
        return Ok(BotWithKeys {
            bot,
            keys: Vec::new(),
            missing_methods: Vec::new(),
        });
    }
    let keys = c
        .q("select id, name, created_by, created_at, last_used_at from bot_keys where bot_id = $1 order by id limit $2")
        .bind(id)
        .bind(KEYS_MAX)
        .all()
        .await?;
    let missing_methods = list_missing_methods(c, id).await?;
    Ok(BotWithKeys {
        bot,
        keys,
        missing_methods,
    })
}

/// Checks that a bot can be added to these channels.
async fn check_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    added: &[ChannelId],
) -> Result<(), HookError> {
    if added.len() > CHANNELS_MAX {
        let problem = format!("a bot can be added to at most {CHANNELS_MAX} channels at once");
        return Err(HookError::Invalid(problem, "channel_ids"));
    }
    for channel in added {
        check_channel(c, actor, *channel).await?;
    }
    Ok(())
}

/// Creates a bot without a webhook.
///
/// # Errors
/// `TooManyBots`, `ChannelNotFound`, `ChannelArchived`, `Invalid`, or an error from `Actor::require`.
pub async fn create_bot(c: &mut Conn, actor: &Actor<'_>, form: &BotForm) -> Result<Bot, HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    check_channels(c, actor, &form.channel_ids).await?;
    let about = form.about.as_deref().map_or(Ok(None), parse_about)?;
    let scopes = form.scopes.clone().unwrap_or_else(Scopes::of_bots);
    check_scopes(&scopes)?;
    check_domains(&form.link_domains)?;
    let id = insert_bot(c, actor, &form.name).await?;
    c.q("update bots set about = $2, scopes = $3, show_emails = $4, link_domains = $5 where id = $1")
        .bind(id)
        .bind(about)
        .bind(Json(scopes))
        .bind(form.show_emails)
        .bind(Json(form.link_domains.clone()))
        .run()
        .await?;
    for channel in &form.channel_ids {
        insert_channel(c, id, *channel).await?;
    }
    set_commands(c, actor.workspace, id, &form.commands).await?;
    if !form.commands.is_empty() {
        announce_bot(c, actor.workspace, id).await?;
    }
    let bot = get_shown(c, actor, id).await?;
    let data = serde_json::json!({
        "name": bot.name, "scopes": bot.scopes, "show_emails": bot.show_emails, "link_domains": bot.link_domains,
    });
    record_audit(c, actor, AuditAction::BotCreated, id.to_string(), data).await?;
    Ok(bot)
}

/// Changes a bot, if it still has the version `expected`.
///
/// # Errors
/// `BotNotFound`, `Stale`, `ChannelNotFound`, `ChannelArchived`, `CommandTaken`, `File` for the picture, `Invalid`, or an error from
/// `Actor::require`.
pub async fn patch_bot(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    patch: &BotPatch,
    expected: Option<i64>,
) -> Result<Bot, HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let bot = get_shown(c, actor, id).await?;
    if expected.is_some_and(|expected| expected != bot.version) {
        return Err(HookError::Stale(Box::new(bot)));
    }
    let about = match &patch.about {
        None => bot.about.clone(),
        Some(about) => parse_about(about)?,
    };
    patch.scopes.as_ref().map_or(Ok(()), check_scopes)?;
    if let Some(name) = patch.name.as_ref().filter(|name| name.trim() != bot.name) {
        let name = DisplayName::parse(name, "name")?.0;
        shown_names::check_bot(c, actor.workspace, &name).await?;
        let skeletons = Skeletons::of(&name);
        c.q("update users set name = $2, name_skeleton = $3, name_folded = $4 where id = $1 and kind = 'bot'")
            .bind(id)
            .bind(name)
            .bind(skeletons.exact)
            .bind(skeletons.folded)
            .run()
            .await?;
        mark_names_changed(c).await?;
    }
    if let Some(picture) = patch.avatar_file_id {
        set_bot_picture(c, actor, id, picture).await?;
    }
    patch
        .link_domains
        .as_deref()
        .map_or(Ok(()), check_domains)?;
    if let Some(wanted) = &patch.channel_ids {
        set_channels(c, actor, &bot, wanted).await?;
    }
    let domains = patch.link_domains.clone().map_or(bot.link_domains, Json);
    let scopes = patch.scopes.clone().map_or(bot.scopes, Json);
    // The status that is shown can be that of the subscription.
    c.q("update bots set about = $2, status = coalesce($3, status), scopes = $4, show_emails = $5, link_domains = $6, version = version + 1 where id = $1")
        .bind(id)
        .bind(about)
        .bind(patch.status)
        .bind(scopes)
        .bind(patch.show_emails.unwrap_or(bot.show_emails))
        .bind(domains)
        .run()
        .await?;
    if let Some(commands) = &patch.commands {
        set_commands(c, actor.workspace, id, commands).await?;
    }
    if patch.name.is_some() || patch.commands.is_some() || patch.avatar_file_id.is_some() {
        announce_bot(c, actor.workspace, id).await?;
    }
    if patch.status == Some(BotStatus::Active) {
        resume_subscription(c, actor.workspace, id).await?;
    }
    let changed = get_shown(c, actor, id).await?;
    let data = serde_json::json!({
        "name": changed.name, "status": changed.status, "scopes": changed.scopes, "show_emails": changed.show_emails,
        "link_domains": changed.link_domains,
    });
    record_audit(c, actor, AuditAction::BotUpdated, id.to_string(), data).await?;
    Ok(changed)
}

/// Deletes a bot with its webhooks and keys. Its messages and their author's name stay.
///
/// # Errors
/// `BotNotFound`, `Stale`, or an error from `Actor::require`.
pub async fn delete_bot(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    expected: Option<i64>,
) -> Result<(), HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let bot = get_shown(c, actor, id).await?;
    if expected.is_some_and(|expected| expected != bot.version) {
        return Err(HookError::Stale(Box::new(bot)));
    }
    let hooks: Vec<(HookId,)> = c
        .q("select id from hooks where bot_id = $1")
        .bind(id)
        .all()
        .await?;
    for (hook,) in hooks {
        secrets::delete(c, &hook.to_string()).await?;
    }
    remove_subscription(c, actor.workspace, id).await?;
    set_bot_picture(c, actor, id, None).await?;
    handles::release(c, actor.workspace, id.0).await?;
    c.q("delete from bots where id = $1").bind(id).run().await?;
    if bot.last_used_at.is_none() {
        c.q("delete from users where id = $1 and kind = 'bot'")
            .bind(id)
            .run()
            .await?;
    }
    let data = serde_json::json!({"name": bot.name});
    record_audit(c, actor, AuditAction::BotDeleted, id.to_string(), data).await?;
    Ok(())
}

async fn insert_channel(c: &mut Conn, bot: BotId, channel: ChannelId) -> Result<bool, DbError> {
    let n = c
        .q("insert into bot_channels (bot_id, channel_id, added_at) values ($1, $2, $3) on conflict (bot_id, channel_id) do nothing")
        .bind(bot)
        .bind(channel)
        .bind(now())
        .run()
        .await?;
    Ok(n == 1)
}

/// Removes a bot from a channel, except from a direct one, whose participants never change.
async fn delete_channel(c: &mut Conn, bot: BotId, channel: ChannelId) -> Result<bool, DbError> {
    let n = c
        .q(
            "delete from bot_channels where bot_id = $1 and channel_id = $2 \
            and not exists (select 1 from channels ch where ch.id = $2 and ch.kind = 'direct')",
        )
        .bind(bot)
        .bind(channel)
        .run()
        .await?;
    Ok(n == 1)
}

/// Records that a bot was added to a channel, or removed from it.
async fn record_channel(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    bot: BotId,
    channel: ChannelId,
) -> Result<(), HookError> {
    let data = serde_json::json!({"channel_id": channel});
    record_audit(c, actor, action, bot.to_string(), data).await?;
    Ok(())
}

/// Adds a bot to a channel. Allowed for everyone who can add people.
///
/// # Errors
/// `ChannelNotFound`, `BotNotFound`, `DirectIsFixed`, or an error from `writing`.
pub async fn add_to_channel(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
    id: BotId,
) -> Result<Bot, HookError> {
    let access = access::channel(c, caller, channel).await?.writing()?;
    if access.kind == ChannelKind::Direct {
        return Err(ChatError::DirectIsFixed.into());
    }
    get_bot(c, access.actor.workspace, id).await?;
    if insert_channel(c, id, channel).await? {
        record_channel(c, &access.actor, AuditAction::BotAdded, id, channel).await?;
    }
    get_shown(c, &access.actor, id).await
}

/// Removes a bot from a channel. Allowed for everyone who can add it.
///
/// # Errors
/// `ChannelNotFound`, `DirectIsFixed`, `BotNotFound` also for a bot that is not in the channel, or an error from `Actor::require`.
pub async fn remove_from_channel(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
    id: BotId,
) -> Result<(), HookError> {
    let access = access::channel(c, caller, channel).await?;
    access.actor.require(Scope::ChatWrite)?;
    if access.kind == ChannelKind::Direct {
        return Err(ChatError::DirectIsFixed.into());
    }
    get_bot(c, access.actor.workspace, id).await?;
    if !delete_channel(c, id, channel).await? {
        return Err(HookError::BotNotFound);
    }
    record_channel(c, &access.actor, AuditAction::BotRemoved, id, channel).await
}

/// Replaces those channels of a bot that the actor can read.
async fn set_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    bot: &Bot,
    wanted: &[ChannelId],
) -> Result<(), HookError> {
    let known = &bot.channel_ids;
    let added: Vec<ChannelId> = wanted
        .iter()
        .filter(|channel| !known.contains(channel))
        .copied()
        .collect();
    check_channels(c, actor, &added).await?;
    for channel in added {
        if insert_channel(c, bot.id, channel).await? {
            record_channel(c, actor, AuditAction::BotAdded, bot.id, channel).await?;
        }
    }
    for channel in known.iter().filter(|channel| !wanted.contains(channel)) {
        if delete_channel(c, bot.id, *channel).await? {
            record_channel(c, actor, AuditAction::BotRemoved, bot.id, *channel).await?;
        }
    }
    Ok(())
}

/// Creates a key of a bot; returns it with its secret, which is shown only once.
///
/// # Errors
/// `BotNotFound`, `TooManyKeys`, `Invalid`, or an error from `Actor::require`.
pub async fn create_key(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    name: &str,
) -> Result<(BotKey, String), HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    get_bot(c, actor.workspace, id).await?;
    let name = DisplayName::parse(name, "name")?.0;
    let count: i64 = c
        .q("select count(*) from bot_keys where bot_id = $1")
        .bind(id)
        .value()
        .await?;
    if count >= KEYS_MAX {
        return Err(HookError::TooManyKeys(KEYS_MAX));
    }
    let secret = format!("ov_{}", new_token());
    let key = BotKey {
        id: ApiKeyId::new(),
        name,
        created_by: actor.user,
        created_at: now(),
        last_used_at: None,
    };
    c.q("insert into bot_keys (id, bot_id, name, token_hash, created_by, created_at, last_used_at) values ($1, $2, $3, $4, $5, $6, null)")
        .bind(key.id)
        .bind(id)
        .bind(key.name.clone())
        .bind(hash_token(&secret))
        .bind(key.created_by)
        .bind(key.created_at)
        .run()
        .await?;
    let data = serde_json::json!({"name": key.name, "key_id": key.id});
    record_audit(c, actor, AuditAction::BotKeyCreated, id.to_string(), data).await?;
    Ok((key, secret))
}

/// Deletes a key of a bot, which stops working at once.
///
/// # Errors
/// `BotNotFound`, `KeyNotFound`, or an error from `Actor::require`.
pub async fn delete_key(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    key: ApiKeyId,
) -> Result<(), HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    get_bot(c, actor.workspace, id).await?;
    let n = c
        .q("delete from bot_keys where id = $1 and bot_id = $2")
        .bind(key)
        .bind(id)
        .run()
        .await?;
    if n == 0 {
        return Err(HookError::KeyNotFound);
    }
    let data = serde_json::json!({"key_id": key});
    record_audit(c, actor, AuditAction::BotKeyDeleted, id.to_string(), data).await?;
    Ok(())
}
