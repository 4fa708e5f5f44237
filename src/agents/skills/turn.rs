//! Skills in replies: which ones an agent can use, and their texts.

use uuid::Uuid;

use super::files::{MAIN, SkillFileForm};
use crate::{
    agents::profiles::SkillList,
    db::{Conn, DbError, is_usable_skill},
    ids::{ChannelId, SkillId, UserId, WorkspaceId},
    model::estimate_tokens,
};

/// Name of the function with which agents read skills.
pub const READ_SKILL: &str = "read_skill";
/// Maximum size of the list in the system text, without the line about the function.
const PART_TOKENS_MAX: u64 = 1_950;

/// The place of a reply and its requester, who can read the conversation.
#[derive(Debug, Clone, Copy)]
pub struct SkillPlace {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    pub channel: ChannelId,
    /// The channel if other people can read the reply.
    pub shared_in: Option<Uuid>,
}

/// A skill that a reply can use.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct UsableSkill {
    pub id: SkillId,
    pub name: String,
    pub description: String,
    pub version: i64,
    pub written_by: UserId,
}

/// Lists the skills of an agent that a reply can use, by name.
///
/// # Errors
/// Only database errors.
pub async fn find_usable_skills(
    c: &mut Conn,
    place: &SkillPlace,
    list: &SkillList,
) -> Result<Vec<UsableSkill>, DbError> {
    let mut skills: Vec<UsableSkill> = c
        .q(concat!(
            "select s.id, s.name, s.description, s.version, s.written_by from skills s where s.workspace_id = $1 and ",
            is_usable_skill!("$2", "$3", "$4")
        ))
        .bind(place.workspace)
        .bind(place.requester)
        .bind(place.shared_in)
        .bind(place.channel)
        .all()
        .await?;
    skills.retain(|skill| list.has(&skill.name));
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(skills)
}

/// Returns the text of a file, `SKILL.md` by default, and the paths of all files. The text is `None` if the skill has no such file.
///
/// # Errors
/// Only database errors.
pub async fn read_skill_file(
    c: &mut Conn,
    skill: SkillId,
    path: Option<&str>,
) -> Result<(Option<String>, Vec<String>), DbError> {
    let content: Option<(String,)> = c
        .q("select content from skill_files where skill_id = $1 and path = $2")
        .bind(skill)
        .bind(path.unwrap_or(MAIN).to_owned())
        .opt()
        .await?;
    let paths: Vec<(String,)> = c
        .q("select path from skill_files where skill_id = $1")
        .bind(skill)
        .all()
        .await?;
    let mut paths: Vec<String> = paths.into_iter().map(|(path,)| path).collect();
    paths.sort_unstable();
    Ok((content.map(|(content,)| content), paths))
}

/// Lists the files of a skill with their texts, sorted by path.
///
/// # Errors
/// Only database errors.
pub async fn list_skill_files(c: &mut Conn, skill: SkillId) -> Result<Vec<SkillFileForm>, DbError> {
    let files: Vec<(String, String)> = c
        .q("select path, content from skill_files where skill_id = $1 order by path")
        .bind(skill)
        .all()
        .await?;
    let files = files.into_iter();
    Ok(files
        .map(|(path, content)| SkillFileForm { path, content })
        .collect())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Part of the system text: names and descriptions. Where there is no room for descriptions, only names are listed, and then a count.
pub fn skills_part(skills: &[UsableSkill]) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let mut text = String::from("## Skills\nInstructions for certain work:");
    let mut has_room = true;
    for (at, skill) in skills.iter().enumerate() {
        let name = format!("\n- {}", skill.name);
        let whole = format!("{name}: {}", one_line(&skill.description));
        let fits = |line: &str| estimate_tokens(&format!("{text}{line}")) <= PART_TOKENS_MAX;
        has_room = has_room && fits(&whole);
        if has_room {
            text.push_str(&whole);
        } else if fits(&name) {
            text.push_str(&name);
        } else {
            let more = skills.len() - at;
            text.push_str("\n- and ");
            text.push_str(&more.to_string());
            text.push_str(" more");
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(n: usize, description: &str) -> UsableSkill {
        UsableSkill {
            id: SkillId::new(),
            name: format!("skill-{n:03}"),
            description: description.to_owned(),
            version: 1,
            written_by: UserId::new(),
        }
    }

    #[test]
    fn the_part_lists_names_and_descriptions() {
        let text = skills_part(&[skill(1, "Reads\nthe  tides."), skill(2, "Writes.")]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            ["- skill-001: Reads the tides.", "- skill-002: Writes."]
        );
        assert_eq!(skills_part(&[]), "");
    }

    #[test]
    fn the_part_of_many_skills_keeps_its_limit() {
        for description in ["x ".repeat(512), "ü".repeat(1024)] {
            let skills: Vec<UsableSkill> = (0..100).map(|n| skill(n, &description)).collect();
            let text = skills_part(&skills);
            assert!(
                estimate_tokens(&text) <= 2_000,
                "{}",
                estimate_tokens(&text)
            );
            assert!(
                text.contains("\n- skill-099") || text.ends_with("more"),
                "{text}"
            );
            assert!(text.starts_with("## Skills\nInstructions for certain work:\n- skill-000: "));
        }
    }
}
