//! Skills that a reply can use, and the authors of their texts.

use sha2::{Digest, Sha256};

use crate::{
    agents::{
        profiles::Resolved,
        skills::{SkillPlace, UsableSkill, find_usable_skills, skills_part},
    },
    chat::search::shared::{self, Readers},
    db::{Conn, DbError},
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
    let Some(list) = &agent.profile.skills else {
        return Ok(ReplySkills::default());
    };
    let Some(is_alone) = shared::is_alone(c, readers).await? else {
        return Ok(ReplySkills::default());
    };
    let place = SkillPlace {
        workspace: readers.workspace,
        requester: readers.requester,
        channel: readers.channel,
        shared_in: (!is_alone).then_some(readers.channel.0),
    };
    let skills = find_usable_skills(c, &place, list).await?;
    let authored = skills.iter().map(|skill| authored(agent, skill));
    Ok(ReplySkills {
        authored: authored.collect(),
        text: skills_part(&skills),
    })
}

fn authored(agent: &Resolved, skill: &UsableSkill) -> AuthoredText {
    let hash = Sha256::new()
        .chain_update(&skill.name)
        .chain_update("\n")
        .chain_update(&skill.description);
    AuthoredText {
        agent_id: Some(agent.agent),
        owner: agent.shown_name.clone(),
        part: SKILLS,
        author: Some(skill.written_by),
        text_hash: hash.finalize().into(),
    }
}
