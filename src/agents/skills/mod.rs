//! Skills: folders of texts that agents read when they need them. The front matter of `SKILL.md` has the name and the description;
//! everything else in it, such as `allowed-tools`, has no effect.
//!
//! A skill is read by everyone in the workspace except for guests, or by the readers of its channels; `is_readable_skill!` is the
//! condition. Agents can use it only where everyone who reads the reply can read the skill, which is `is_usable_skill!`.

mod announce;
mod archive;
mod change;
mod files;
mod skill;
mod turn;

pub use announce::SkillEvent;
pub use archive::unpack;
pub use change::{SkillChange, SkillForm, create_skill, delete_skill, update_skill};
pub use files::{SkillFileForm, SkillText, folder_path};
pub use skill::{
    Skill, SkillFile, SkillObject, find_missing, find_unreadable, get_skill, list_skills,
    workspace_of,
};
pub use turn::{
    READ_SKILL, SkillPlace, UsableSkill, find_usable_skills, list_skill_files, read_skill_file,
    skills_part,
};
