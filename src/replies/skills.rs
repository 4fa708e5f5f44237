//! Skills that a reply can use, and the authors of their texts.

use sha2::{Digest, Sha256};

use crate::{
    agents::{
        profiles::{self, Resolved},
        skills::{SkillPlace, UsableSkill, find_usable_skills, skills_part},
    },
    chat::{
        messages,
        search::shared::{self, Readers},
    },
    db::{Conn, DbError},
    tasks::Task,
    tools::{builtin::skills::SKILLS, taint::AuthoredText},
};

/// Skills of an agent for one reply.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplySkills {
    /// Part of the system text; empty without skills.
    pub text: String,
    pub authored: Vec<AuthoredText>,
}

/// Finds the skills that everyone who reads the reply can read; none if the requester cannot read the conversation.
pub(super) async fn load(
    c: &mut Conn,
    readers: &Readers,
    agent: &Resolved,
) -> Result<ReplySkills, DbError> {
    let skills = usable(c, readers, agent).await?;
    let listed = |skill: &UsableSkill| {
        let hash = Sha256::new()
            .chain_update(&skill.name)
            .chain_update("\n")
            .chain_update(&skill.description);
        authored(agent, skill, hash)
    };
    Ok(ReplySkills {
        authored: skills.iter().map(listed).collect(),
        text: skills_part(&skills),
    })
}

async fn usable(
    c: &mut Conn,
    readers: &Readers,
    agent: &Resolved,
) -> Result<Vec<UsableSkill>, DbError> {
    let Some(list) = &agent.profile.skills else {
        return Ok(Vec::new());
    };
    let Some(is_alone) = shared::is_alone(c, readers).await? else {
        return Ok(Vec::new());
    };
    let place = SkillPlace {
        workspace: readers.workspace,
        requester: readers.requester,
        channel: readers.channel,
        shared_in: (!is_alone).then_some(readers.channel.0),
    };
    find_usable_skills(c, &place, list).await
}

fn authored(agent: &Resolved, skill: &UsableSkill, hash: Sha256) -> AuthoredText {
    AuthoredText {
        agent_id: Some(agent.agent),
        owner: agent.shown_name.clone(),
        part: SKILLS,
        author: Some(skill.written_by),
        text_hash: hash.finalize().into(),
    }
}

/// A skill whose folder an agent on a runner gets.
#[derive(Debug, Clone)]
pub struct TurnSkill {
    pub skill: UsableSkill,
    /// Its files in this version.
    pub authored: AuthoredText,
}

/// Finds the skills that a turn on a runner can use now, with the rights of `read_skill`: those that everyone who reads the reply can read.
///
/// # Errors
/// Only database errors.
pub async fn list_for_turn(c: &mut Conn, task: &Task) -> Result<Vec<TurnSkill>, DbError> {
    let Some((target, trigger)) = task.target().zip(task.trigger_message_id) else {
        return Ok(Vec::new());
    };
    let agent = profiles::find_resolved(c, target.agent, target.agent_version).await?;
    let Some(agent) = agent.filter(|agent| agent.profile.skills.is_some()) else {
        return Ok(Vec::new());
    };
    let message = messages::find_message(c, trigger).await?;
    let readers = Readers {
        workspace: task.workspace_id,
        requester: task.requested_by,
        api_key: message.and_then(|message| message.metadata.api_key_id),
        channel: target.channel,
        question: trigger,
    };
    let skills = usable(c, &readers, &agent).await?;
    let with_author = |skill: UsableSkill| {
        let hash = Sha256::new()
            .chain_update(skill.id.0)
            .chain_update(skill.version.to_be_bytes());
        TurnSkill {
            authored: authored(&agent, &skill, hash),
            skill,
        }
    };
    Ok(skills.into_iter().map(with_author).collect())
}
