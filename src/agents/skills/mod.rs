//! Skills: folders of texts that agents read when they need them. The front matter of `SKILL.md` has the name and the description;
//! everything else in it, such as `allowed-tools`, has no effect.
//!
//! A skill is read by everyone in the workspace except for guests, or by the readers of its channels; `is_readable_skill!` is the
//! condition. Agents can use it only where everyone who reads the reply can read the skill, which is `is_usable_skill!`.

mod archive;
mod files;

pub use archive::unpack;
pub use files::{SkillText, TextFile};
