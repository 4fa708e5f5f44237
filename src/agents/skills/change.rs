//! Creating, changing, and deleting skills.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{
    SkillFileForm, SkillText,
    announce::{SkillReaders, announce_change, announce_end},
    skill::{Skill, get_skill},
};
use crate::{
    agents::AgentError,
    auth::{self, Actor, AuditAction, Scope, quota},
    db::{Conn, DbError, dialect::lock_workspace, is_visible_channel, now},
    ids::{ChannelId, SkillId},
    patch::nullable,
    registry,
};

const SKILLS_MAX: i64 = 100;
const CHANNELS_MAX: usize = 50;

/// Fields of `POST` and `PUT` requests for skills. A skill in a zip file has only files.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillForm {
    /// At most 64 files with at most 1 MiB together, among them `SKILL.md` with the name and the description in its front matter.
    /// Required in `POST`; a `PUT` without them leaves them as they are.
    #[serde(default)]
    pub files: Option<Vec<SkillFileForm>>,
    /// 1 to 50 channels whose readers can read the skill and in which agents can use it; null for everyone in the workspace except for
    /// guests, which is the default in `POST`. A `PUT` without this field leaves them as they are. Channels that the caller cannot read
    /// stay in a list.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<ChannelId>>)]
    pub channel_ids: Option<Option<Vec<ChannelId>>>,
}

/// A change of a skill; `None` leaves a part as it is.
#[derive(Debug, Clone, Default)]
pub struct SkillChange {
    pub text: Option<SkillText>,
    pub channel_ids: Option<Option<Vec<ChannelId>>>,
}

impl SkillForm {
    /// # Errors
    /// `BadSkill`.
    pub fn into_change(self) -> Result<SkillChange, AgentError> {
        Ok(SkillChange {
            text: self.files.map(SkillText::of).transpose()?,
            channel_ids: self.channel_ids,
        })
    }
}

/// Checks the scope, locks the workspace, and returns the skill if it has the `expected` version.
async fn locked(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
    expected: Option<i64>,
) -> Result<Skill, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let skill = stored(c, actor, id).await?;
    if expected.is_some_and(|version| version != skill.version) {
        return Err(AgentError::SkillStale(Box::new(skill)));
    }
    Ok(skill)
}

async fn stored(c: &mut Conn, actor: &Actor<'_>, id: SkillId) -> Result<Skill, AgentError> {
    let found = get_skill(c, actor, id).await?;
    found.ok_or(AgentError::SkillNotFound)
}

/// # Errors
/// `BadSkill` without texts, `SkillNameTaken`, `TooManySkills`, `NoSuchChannel`, `Invalid`, `QuotaExceeded`, or an error from
/// `Actor::require`.
pub async fn create_skill(
    c: &mut Conn,
    actor: &Actor<'_>,
    change: SkillChange,
) -> Result<Skill, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let text = change
        .text
        .ok_or_else(|| AgentError::BadSkill("SKILL.md: the file is missing".to_owned()))?;
    let channels = change.channel_ids.flatten();
    check_channels(c, actor, channels.as_deref()).await?;
    let count: i64 = c
        .q("select count(*) from skills where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= SKILLS_MAX {
        return Err(AgentError::TooManySkills(SKILLS_MAX));
    }
    let id = SkillId::new();
    check_name(c, actor, id, &text.name).await?;
    let bytes = size_of(text.files.iter().map(|file| file.content.len()));
    quota::check_bytes(c, actor.workspace, bytes).await?;
    quota::count_agent_bytes(c, actor.workspace, bytes).await?;
    c.q("insert into skills (id, workspace_id, name, description, for_all, version, created_by, written_by, created_at, updated_at) \
         values ($1, $2, $3, $4, $5, 1, $6, $6, $7, $7)")
        .bind(id)
        .bind(actor.workspace)
        .bind(text.name.clone())
        .bind(text.description.clone())
        .bind(channels.is_none())
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    insert_files(c, id, &text.files).await?;
    insert_channels(c, id, channels.unwrap_or_default()).await?;
    announce_change(c, actor.workspace, id, 1, &SkillReaders::Some(Vec::new())).await?;
    let skill = stored(c, actor, id).await?;
    audit(c, actor, AuditAction::SkillCreated, &skill).await?;
    Ok(skill)
}

/// # Errors
/// `SkillNotFound`, `SkillStale`, or an error from `create_skill`.
pub async fn update_skill(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
    change: SkillChange,
    expected: Option<i64>,
) -> Result<Skill, AgentError> {
    let skill = locked(c, actor, id, expected).await?;
    let text = change.text.filter(|text| !has_text(&skill, text));
    let channels = match &change.channel_ids {
        Some(wanted) => {
            check_channels(c, actor, wanted.as_deref()).await?;
            let sorted = |list: &Vec<ChannelId>| list.iter().copied().collect::<BTreeSet<_>>();
            let before = skill.channel_ids.as_ref().map(sorted);
            Some(wanted.as_ref().map(sorted)).filter(|wanted| *wanted != before)
        }
        None => None,
    };
    if text.is_none() && channels.is_none() {
        return Ok(skill);
    }
    let readers = SkillReaders::find(c, id).await?;
    if let Some(text) = &text {
        check_name(c, actor, id, &text.name).await?;
        let old = stored_size(&skill);
        let new = size_of(text.files.iter().map(|file| file.content.len()));
        if new > old {
            quota::check_bytes(c, actor.workspace, new - old).await?;
        }
        quota::count_agent_bytes(c, actor.workspace, new - old).await?;
        c.q("update skills set name = $2, description = $3, written_by = $4 where id = $1")
            .bind(id)
            .bind(text.name.clone())
            .bind(text.description.clone())
            .bind(actor.user)
            .run()
            .await?;
        c.q("delete from skill_files where skill_id = $1")
            .bind(id)
            .run()
            .await?;
        insert_files(c, id, &text.files).await?;
    }
    if let Some(channels) = channels {
        set_channels(c, actor, id, channels).await?;
    }
    c.q("update skills set version = version + 1, updated_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    let changed = stored(c, actor, id).await?;
    announce_change(c, actor.workspace, id, changed.version, &readers).await?;
    audit(c, actor, AuditAction::SkillUpdated, &changed).await?;
    Ok(changed)
}

/// Deletes a skill. Agents that name it keep the name, and show that the skill is missing.
///
/// # Errors
/// `SkillNotFound`, `SkillStale`, or an error from `Actor::require`.
pub async fn delete_skill(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    let skill = locked(c, actor, id, expected).await?;
    let readers = SkillReaders::find(c, id).await?;
    let bytes = stored_size(&skill);
    quota::count_agent_bytes(c, actor.workspace, -bytes).await?;
    // Files and channels are deleted by a cascade.
    c.q("delete from skills where id = $1")
        .bind(id)
        .run()
        .await?;
    announce_end(c, actor.workspace, id, readers).await?;
    audit(c, actor, AuditAction::SkillDeleted, &skill).await
}

/// Counted size of a skill whose files have these sizes.
fn size_of(files: impl Iterator<Item = usize>) -> i64 {
    let add = |bytes: i64, file: usize| {
        let file = i64::try_from(file).unwrap_or(i64::MAX);
        bytes.saturating_add(quota::ROW_BYTES).saturating_add(file)
    };
    files.fold(quota::ROW_BYTES, add)
}

/// Counted size of a skill that was loaded with its texts.
fn stored_size(skill: &Skill) -> i64 {
    size_of(skill.files.iter().map(|file| {
        let bytes = file.content.as_ref().map(String::len);
        bytes.unwrap_or_default()
    }))
}

/// Checks whether a skill has exactly these texts.
fn has_text(skill: &Skill, text: &SkillText) -> bool {
    let stored = skill
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.content.as_deref()));
    let new = text
        .files
        .iter()
        .map(|file| (file.path.as_str(), Some(file.content.as_str())));
    stored.eq(new)
}

/// Checks the number of channels, and that the person can read all of them.
async fn check_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    channels: Option<&[ChannelId]>,
) -> Result<(), AgentError> {
    if channels.is_some_and(|list| !(1..=CHANNELS_MAX).contains(&list.len())) {
        let rule = format!(
            "channel_ids must have 1 to {CHANNELS_MAX} channels; null is for everyone in the workspace"
        );
        return Err(AgentError::Invalid(rule, "channel_ids"));
    }
    let hidden = registry::find_hidden_channel(c, actor, channels.unwrap_or_default()).await?;
    hidden.map_or(Ok(()), |id| {
        Err(AgentError::NoSuchChannel(id, "channel_ids"))
    })
}

/// Replaces the channels that the person can read; without a list, everyone in the workspace can read the skill.
async fn set_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
    channels: Option<BTreeSet<ChannelId>>,
) -> Result<(), DbError> {
    if channels.is_none() {
        c.q("delete from skill_channels where skill_id = $1")
            .bind(id)
            .run()
            .await?;
    } else {
        c.q(concat!(
            "delete from skill_channels where skill_id = $1 and channel_id in (select h.id from channels h where h.workspace_id = $2 and ",
            is_visible_channel!("h", "$3"),
            ")"
        ))
        .bind(id)
        .bind(actor.workspace)
        .bind(actor.user)
        .run()
        .await?;
    }
    c.q("update skills set for_all = $2 where id = $1")
        .bind(id)
        .bind(channels.is_none())
        .run()
        .await?;
    insert_channels(c, id, channels.unwrap_or_default()).await
}

async fn insert_channels(
    c: &mut Conn,
    id: SkillId,
    channels: impl IntoIterator<Item = ChannelId>,
) -> Result<(), DbError> {
    for channel in channels {
        c.q("insert into skill_channels (skill_id, channel_id) values ($1, $2) on conflict do nothing")
            .bind(id)
            .bind(channel)
            .run()
            .await?;
    }
    Ok(())
}

async fn insert_files(c: &mut Conn, id: SkillId, files: &[SkillFileForm]) -> Result<(), DbError> {
    for file in files {
        c.q("insert into skill_files (skill_id, path, content) values ($1, $2, $3)")
            .bind(id)
            .bind(file.path.clone())
            .bind(file.content.clone())
            .run()
            .await?;
    }
    Ok(())
}

async fn check_name(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
    name: &str,
) -> Result<(), AgentError> {
    let other: Option<(SkillId,)> = c
        .q("select id from skills where workspace_id = $1 and name = $2 and id <> $3")
        .bind(actor.workspace)
        .bind(name.to_owned())
        .bind(id)
        .opt()
        .await?;
    match other {
        Some(_) => Err(AgentError::SkillNameTaken(name.to_owned())),
        None => Ok(()),
    }
}

async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    skill: &Skill,
) -> Result<(), AgentError> {
    let data = serde_json::json!({"name": skill.name, "version": skill.version});
    Ok(auth::record_audit(c, actor, action, skill.id.to_string(), data).await?)
}
