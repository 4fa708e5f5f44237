//! Agent profiles: the stored configuration of agents. An agent does not have any other state between calls.
//!
//! Every change creates a version: `agent_versions` stores each state, both as written and with its bases merged in,
//! and tasks record the version that they use. A change to a base creates a new version of each agent that
//! inherits from it, so the content of a version never changes.

/// Selects agents, with the aliases `a` for agents, `w` for workspaces, `p` for policies, and `ps` for personas; the argument
/// continues the query.
macro_rules! agent_sql {
    ($tail:literal) => {
        concat!(
            "select a.id, a.workspace_id, a.name, a.status, a.is_system, a.mentionable, a.version, a.profile, a.summary, a.access, \
             a.created_by, a.created_at, a.updated_at, w.default_agent_id, p.allowed_tools, ps.name as persona_name, \
             ps.pipeline_status as persona_status from agents a join workspaces w on w.id = a.workspace_id \
             left join workspace_policies p on p.workspace_id = a.workspace_id left join personas ps on ps.id = a.persona_id ",
            $tail
        )
    };
}

/// Selects `MergedColumns` of the version `v`; `profile_row_sql!` has to follow in the query.
macro_rules! merged_sql {
    () => {
        "v.resolved, case when v.is_split then coalesce(o.profile, v.profile) ->> 'instructions' end as own_text, \
         case when v.is_split then coalesce(o.profile, v.profile) -> 'files' end as own_files"
    };
}

/// Joins the row `o` that stores the profile of the version `v`, if that is the row of another version.
macro_rules! profile_row_sql {
    () => {
        " left join agent_versions o on o.agent_id = v.agent_id and o.version = v.profile_of "
    };
}

/// Selects agents like `agent_sql!`, plus the profile as written, the merged profile, and `bases` of the current version.
macro_rules! child_sql {
    ($tail:literal) => {
        concat!(
            "select a.id, a.workspace_id, a.name, a.status, a.is_system, a.mentionable, a.version, a.profile, a.summary, a.access, \
             a.created_by, a.created_at, a.updated_at, w.default_agent_id, p.allowed_tools, ps.name as persona_name, \
             ps.pipeline_status as persona_status, ", merged_sql!(), ", coalesce(o.profile, v.profile) as written, v.bases from agents a join workspaces w on w.id = a.workspace_id \
             left join workspace_policies p on p.workspace_id = a.workspace_id left join personas ps on ps.id = a.persona_id \
             join agent_versions v on v.agent_id = a.id and v.version = a.version", profile_row_sql!(),
            $tail
        )
    };
}

mod adaptation;
mod agent;
mod announce;
mod authored;
mod authors;
pub(super) mod batch;
mod change;
mod draft;
mod find;
mod follow;
mod form;
mod identity;
mod inherit;
mod list;
mod merged_columns;
mod part_versions;
mod parts;
mod preset;
mod refresh;
mod remove;
mod store;
mod stores;
pub mod tools;
mod trust;
mod version_rows;
mod versions;

pub use adaptation::{
    AdaptationEvent, Metaprompt, MetapromptTrigger, Reflection, SELF_TRAIT_ADJUSTMENT, Sentiment,
    SentimentMethod, SentimentPreset, SentimentSettings, TemplatePart, TemplateVariable,
    TriggerType, template_parts,
};
pub use agent::{Agent, AgentSummary, MAX_OUTPUT_TOKENS_DEFAULT, Profile, ShownTool};
pub(in crate::agents) use agent::{Brief, Row, shown_role};
pub use announce::AgentEvent;
pub(in crate::agents) use announce::recipients;
pub use authored::{
    AuthoredPart, PERSONA, PartsChanged, authored_parts, changes_since, kept_parts, levels,
    summary_author,
};
pub use authors::{AgentPart, Authors};
pub use change::{
    CopyForm, accept_agent, create_agent, duplicate_agent, is_editable, make_default, patch_agent,
    put_agent, rollback_agent,
};
pub(in crate::agents) use change::{get_editable, put_file, see_base};
pub use draft::{TrialProfile, resolve_trial};
pub(in crate::agents) use find::get_visible_profile;
pub use find::{
    HandleOwner, InvocableAgent, ListedAgent, Resolved, cannot_invoke, find_by_handle,
    find_default, find_invocable, find_resolved, find_turned_off, find_usable, get_agent,
    get_by_reference, get_resolved, get_visible, is_active, is_hidden, is_invocable_by, is_visible,
    list_hidden, list_invocable_by, newest_version, shown_name,
};
pub(in crate::agents) use follow::follow_persona;
pub use follow::{refresh_first, refresh_named, refresh_some};
pub use form::{AgentPatch, NewAgent, Parts, ServerFields};
pub(in crate::agents) use form::{check_avatar, check_names, parse_form};
pub use identity::{handle_from, name_in};
pub use inherit::Base;
pub(in crate::agents) use inherit::resolve_draft;
pub use list::{Filter, find_by_name, list_agents};
pub use part_versions::{PartChange, TextAuthor, part_changes};
pub use parts::{
    AccessControl, Agency, AgentRole, AgentStatus, ApprovalRule, Approver, Avatar, Coding,
    Compaction, Memory, MemoryScopes, Prompting, SkillList, Subject, Trust, can_invoke, may_see,
};
pub(in crate::agents) use preset::unset_presets;
pub use remove::{Archived, archive_agent, delete_agent, delete_history};
pub use store::{FirstVersion, insert_agent};
pub use stores::can_read_store;
pub use tools::{STORES_MAX, Tool, ToolKind, attached_stores};
pub use trust::ActionName;
pub(in crate::agents) use trust::check_new_rules;
pub use versions::{
    AgentDiff, AgentVersion, FieldChange, VersionSummary, diff, get_resolved_agent, get_version,
    list_versions,
};
