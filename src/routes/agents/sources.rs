//! Sources of a prompt as a reader sees them: what was sent, what was not, and why.

use std::borrow::Cow;

use serde::Serialize;

use crate::{
    agents::{
        files::{MEMORY, SHARED},
        profiles::{self, AgentPart, PERSONA, Resolved},
        system::SystemPartName,
    },
    auth::{Actor, Scope},
    db::{Conn, DbError},
    ids::{AgentId, UserId},
    realtime::hub::Conversation,
    replies::{
        authored::AuthoredTexts,
        manifest::{Block, Sent, SentPart, SentText},
        sources::{Because, SourceName},
    },
    text_enum::text_enum,
};

/// Maximum number of characters of a source's text.
const TEXT_CHARS_MAX: usize = 8_000;

text_enum! {
    enum SourceOwnerType {
        /// This server; `id` and `name` are null.
        Server = "server",
        Workspace = "workspace",
        Agent = "agent",
        /// The requester.
        Person = "person",
        /// The thread or fork; `id` is null for a new thread, and `name` is null without a title.
        Conversation = "conversation",
    }
}

text_enum! {
    enum SourceState {
        Sent = "sent",
        /// Sent in part, or left out because nothing of it fits.
        Cut = "cut",
        Empty = "empty",
        Off = "off",
        /// The caller may not see the text, or whether there is one.
        Hidden = "hidden",
    }
}

/// Owner of a source's text.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct SourceOwner {
    #[serde(rename = "type")]
    kind: SourceOwnerType,
    id: Option<String>,
    name: Option<String>,
}

impl SourceOwner {
    const SERVER: Self = Self {
        kind: SourceOwnerType::Server,
        id: None,
        name: None,
    };
}

/// A source of a prompt.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(super) struct SourceSeen {
    #[schema(inline)]
    name: SourceName,
    owner: SourceOwner,
    #[schema(inline)]
    state: SourceState,
    /// Reason for the state; null for `sent`, and if it is not known.
    #[schema(inline)]
    because: Option<Because>,
    /// Estimated number of tokens. Those of all sources add up to `budget.used`.
    tokens: u64,
    /// Text as sent, at most 8,000 characters; null if the caller may not read it.
    text: Option<String>,
    /// Person whose write last changed this part of the agent; null for the server's text, and if it is not known.
    author: Option<UserId>,
    /// True if the caller can change the text.
    can_edit: bool,
    /// True if the source is also sent in calls of `/v1/responses`.
    by_api: bool,
}

/// An agent that has texts in a prompt.
struct TextOwner {
    id: AgentId,
    /// False for a draft of a new agent.
    is_stored: bool,
    name: String,
    is_visible: bool,
    can_edit: bool,
}

impl TextOwner {
    async fn find(c: &mut Conn, actor: &Actor<'_>, id: AgentId) -> Result<Self, DbError> {
        Ok(Self {
            id,
            is_stored: true,
            name: profiles::shown_name(c, id).await?,
            is_visible: profiles::is_visible(c, actor, id).await?,
            can_edit: profiles::is_editable(c, actor, id).await?,
        })
    }

    /// A draft that its writer has not saved.
    fn of_draft(agent: &Resolved) -> Self {
        Self {
            id: agent.agent,
            is_stored: false,
            name: agent.shown_name.clone(),
            is_visible: true,
            can_edit: true,
        }
    }

    fn shown(&self) -> SourceOwner {
        let is_named = self.is_visible && self.is_stored;
        SourceOwner {
            kind: SourceOwnerType::Agent,
            id: is_named.then(|| self.id.to_string()),
            name: self.is_visible.then(|| self.name.clone()),
        }
    }
}

/// A part of an agent or base, with its author.
struct WrittenPart {
    agent: AgentId,
    noun: &'static str,
    author: Option<UserId>,
}

/// The agent of a prompt, with the authors of its texts.
struct AgentTexts {
    own: TextOwner,
    /// The nearest base.
    base: Option<TextOwner>,
    /// True if the agent has its own AGENTS.md, and its own TOOLS.md.
    has_own_files: [bool; 2],
    written: Vec<WrittenPart>,
}

/// Owners of a prompt's texts, and what a reader may change.
pub(super) struct Owners {
    reader: UserId,
    is_admin: bool,
    writes_agents: bool,
    /// True if the reader's credential may change their own texts.
    writes_own: bool,
    workspace: SourceOwner,
    conversation: SourceOwner,
    agent: Option<AgentTexts>,
}

impl Owners {
    /// `agent` is `None` for a prompt that does not contain an agent's texts; its instructions are the server's.
    pub(super) async fn load(
        c: &mut Conn,
        actor: &Actor<'_>,
        agent: Option<(&Resolved, &AuthoredTexts)>,
        conversation: Option<Conversation>,
    ) -> Result<Self, DbError> {
        let workspace: String = c
            .q("select name from workspaces where id = $1")
            .bind(actor.workspace)
            .value()
            .await?;
        let agent = match agent {
            Some((agent, authored)) => Some(AgentTexts::load(c, actor, agent, authored).await?),
            None => None,
        };
        Ok(Self {
            reader: actor.user,
            is_admin: actor.scopes.has(Scope::WorkspaceAdmin),
            writes_agents: actor.scopes.has(Scope::AgentsWrite),
            writes_own: actor.key.is_none() || actor.scopes.has(Scope::ChatWrite),
            workspace: SourceOwner {
                kind: SourceOwnerType::Workspace,
                id: Some(actor.workspace.to_string()),
                name: Some(workspace),
            },
            conversation: conversation_owner(c, conversation).await?,
            agent,
        })
    }

    fn owner(&self, name: SourceName, sent: &Sent) -> SourceOwner {
        use SourceName as N;
        match name {
            N::Preamble | N::Requester => SourceOwner::SERVER,
            N::Required
            | N::Workspace
            | N::Skills
            | N::Addons
            | N::Persona
            | N::Memories
            | N::Knowledge => self.workspace.clone(),
            N::Base
            | N::Instructions
            | N::Identity
            | N::Agency
            | N::AgentsMd
            | N::ToolsMd
            | N::Notes
            | N::Tools => match &self.agent {
                Some(agent) => agent
                    .owner(name)
                    .map_or_else(|| self.workspace.clone(), TextOwner::shown),
                None => SourceOwner::SERVER,
            },
            N::Adaptation | N::About | N::Files | N::Trigger => SourceOwner {
                kind: SourceOwnerType::Person,
                id: Some(sent.requested_by.id.to_string()),
                name: Some(sent.requested_by.name.clone()),
            },
            N::Conversation | N::ForkHeader | N::Summary | N::Messages => self.conversation.clone(),
        }
    }

    fn can_edit(&self, name: SourceName, sent: &Sent) -> bool {
        use SourceName as N;
        match name {
            N::Required | N::Workspace | N::Addons => self.is_admin,
            N::Persona | N::Skills => self.writes_agents,
            N::Base
            | N::Instructions
            | N::Identity
            | N::Agency
            | N::AgentsMd
            | N::ToolsMd
            | N::Notes
            | N::Tools => self.agent.as_ref().is_some_and(|agent| {
                let owner = agent.owner(name);
                owner.map_or(self.is_admin, |owner| owner.can_edit)
            }),
            N::About => self.writes_own && sent.requested_by.id == self.reader,
            _ => false,
        }
    }

    /// True if the reader can see the agent whose text the source is.
    fn is_readable(&self, name: SourceName) -> bool {
        let owner = self.agent.as_ref().and_then(|agent| agent.owner(name));
        owner.is_none_or(|owner| owner.is_visible)
    }
}

impl AgentTexts {
    async fn load(
        c: &mut Conn,
        actor: &Actor<'_>,
        agent: &Resolved,
        authored: &AuthoredTexts,
    ) -> Result<Self, DbError> {
        let base = match agent.profile.base_profile_id {
            Some(base) => Some(TextOwner::find(c, actor, base).await?),
            None => None,
        };
        let texts = authored.sent.iter().chain(&authored.notes);
        let written = texts.filter_map(|text| {
            Some(WrittenPart {
                agent: text.agent_id?,
                noun: text.part,
                author: text.author,
            })
        });
        let has_file = |path| agent.profile.files.contains_key(path);
        Ok(Self {
            own: if agent.version > 0 {
                TextOwner::find(c, actor, agent.agent).await?
            } else {
                TextOwner::of_draft(agent)
            },
            base,
            has_own_files: SHARED.map(has_file),
            written: written.collect(),
        })
    }

    /// The agent that has the text of a source; `None` for a file of the workspace.
    fn owner(&self, name: SourceName) -> Option<&TextOwner> {
        let base = self.base.as_ref();
        match name {
            SourceName::Base => base.or(Some(&self.own)),
            SourceName::AgentsMd => Some(&self.own).filter(|_| self.has_own_files[0]),
            SourceName::ToolsMd => Some(&self.own).filter(|_| self.has_own_files[1]),
            SourceName::Identity | SourceName::Agency => {
                // The texts of bases come first.
                let written = noun_of(name).and_then(|noun| {
                    let mut parts = self.written.iter().rev();
                    parts.find(|part| part.noun == noun)
                });
                let is_of = |base: &&TextOwner| written.is_some_and(|part| part.agent == base.id);
                base.filter(is_of).or(Some(&self.own))
            }
            SourceName::Instructions | SourceName::Notes | SourceName::Tools => Some(&self.own),
            _ => None,
        }
    }

    fn author(&self, name: SourceName) -> Option<UserId> {
        let noun = noun_of(name)?;
        let owner = match name {
            SourceName::Persona => &self.own,
            _ => self.owner(name)?,
        };
        let mut parts = self.written.iter().rev();
        let part = parts.find(|part| part.noun == noun && part.agent == owner.id)?;
        part.author
    }
}

/// Name of a source in `AuthoredText::part`.
fn noun_of(name: SourceName) -> Option<&'static str> {
    Some(match name {
        SourceName::Base | SourceName::Instructions => AgentPart::Instructions.noun(),
        SourceName::Identity => AgentPart::Identity.noun(),
        SourceName::Agency => AgentPart::Agency.noun(),
        SourceName::AgentsMd => AgentPart::AgentsMd.noun(),
        SourceName::ToolsMd => AgentPart::ToolsMd.noun(),
        SourceName::Tools => AgentPart::Tools.noun(),
        SourceName::Persona => PERSONA,
        SourceName::Notes => MEMORY,
        _ => return None,
    })
}

async fn conversation_owner(
    c: &mut Conn,
    conversation: Option<Conversation>,
) -> Result<SourceOwner, DbError> {
    let (id, title): (Option<String>, Option<Option<String>>) = match conversation {
        Some(Conversation::Thread(id)) => {
            let q = c.q("select title from threads where id = $1").bind(id);
            let row: Option<(Option<String>,)> = q.opt().await?;
            (Some(id.to_string()), row.map(|row| row.0))
        }
        Some(Conversation::Fork(id)) => {
            let q = c.q("select title from forks where id = $1").bind(id);
            let row: Option<(Option<String>,)> = q.opt().await?;
            (Some(id.to_string()), row.map(|row| row.0))
        }
        None => (None, None),
    };
    Ok(SourceOwner {
        kind: SourceOwnerType::Conversation,
        id,
        name: title.flatten(),
    })
}

/// Returns the source to which each part of a prompt belongs. The messages between the gap of a thread and the header of its fork are
/// the thread before the fork, which is part of `summary`.
fn names_of(parts: &[SentPart]) -> Vec<SourceName> {
    let header = parts
        .iter()
        .position(|part| part.block == Block::ForkHeader)
        .unwrap_or_default();
    let is_gap = |part: &SentPart| matches!(part.block, Block::Summary | Block::LeftOut);
    // Without a gap, the thread's first message is the first one before the fork.
    let start = parts[..header].iter().position(is_gap).unwrap_or_default();
    let name = |(at, part): (usize, &SentPart)| match part.block {
        Block::System(part) => SourceName::of_system(part),
        Block::Conversation => SourceName::Conversation,
        Block::ForkHeader => SourceName::ForkHeader,
        Block::Summary | Block::LeftOut => SourceName::Summary,
        Block::Workspace => SourceName::Workspace,
        Block::Notes => SourceName::Notes,
        Block::About => SourceName::About,
        Block::Memories => SourceName::Memories,
        Block::Knowledge => SourceName::Knowledge,
        Block::Messages if (start..header).contains(&at) => SourceName::Summary,
        Block::Messages => SourceName::Messages,
        Block::Files => SourceName::Files,
        Block::Requester => SourceName::Requester,
        Block::Trigger | Block::Brief => SourceName::Trigger,
        Block::Tools | Block::Round | Block::Call | Block::Result => SourceName::Tools,
    };
    parts.iter().enumerate().map(name).collect()
}

/// Returns the text of a part as a turn shows it.
pub(super) fn turn_text(part: &SentPart) -> Cow<'_, str> {
    let shown = part.text.shown();
    match &part.function {
        Some(function) if part.block == Block::Call => format!("{function} {shown}").into(),
        _ => shown.into(),
    }
}

/// Returns the texts of parts as sent, up to the maximum length.
fn text_of(parts: &[&SentPart]) -> String {
    let (mut text, mut room) = (String::new(), TEXT_CHARS_MAX);
    let mut add = |shown: &str| {
        let end = shown
            .char_indices()
            .nth(room)
            .map_or(shown.len(), |(at, _)| at);
        text.push_str(&shown[..end]);
        room -= shown[..end].chars().count();
    };
    let shown = parts.iter().map(|part| turn_text(part));
    for (at, shown) in shown.filter(|shown| !shown.is_empty()).enumerate() {
        if at > 0 {
            add("\n\n");
        }
        add(&shown);
    }
    text
}

/// Returns the state of a source, and the reason.
fn state_of(
    name: SourceName,
    parts: &[&SentPart],
    sent: &Sent,
    reader: UserId,
) -> (SourceState, Option<Because>) {
    let is_there = |part: &&&SentPart| part.tokens > 0 || !part.text.shown().is_empty();
    let is_sent = parts.iter().any(|part| is_there(&part));
    let is_hidden = |part: &&SentPart| matches!(part.text, SentText::Hidden(_));
    let reason = sent.reasons.get(&name).copied();
    // Other people's texts and switches are hidden, including whether they exist.
    let is_personal = sent.requested_by.id != reader
        && (matches!(name, SourceName::About | SourceName::Adaptation)
            || reason == Some(Because::OffPerson));
    if is_sent && parts.iter().all(is_hidden) {
        let is_about_person = matches!(
            name,
            SourceName::About | SourceName::Adaptation | SourceName::Memories
        );
        return (
            SourceState::Hidden,
            is_about_person.then_some(Because::Personal),
        );
    }
    match reason {
        Some(Because::NoRoom) => (SourceState::Cut, reason),
        _ if is_sent => (SourceState::Sent, None),
        _ if is_personal => (SourceState::Hidden, Some(Because::Personal)),
        None => (SourceState::Empty, Some(Because::NoText)),
        Some(Because::NoText | Because::NotApproved) => (SourceState::Empty, reason),
        Some(_) => (SourceState::Off, reason),
    }
}

/// Lists all sources of a prompt from which personal texts have been removed. `is_agent_hidden` leaves out everything that the agent
/// is told.
pub(super) fn list(sent: &Sent, owners: &Owners, is_agent_hidden: bool) -> Vec<SourceSeen> {
    let names = names_of(&sent.parts);
    let mut sources: Vec<SourceSeen> = SourceName::ALL
        .iter()
        .map(|name| source(*name, &names, sent, owners))
        .collect();
    if is_agent_hidden {
        hide_agent(&mut sources);
    }
    sources
}

fn source(name: SourceName, names: &[SourceName], sent: &Sent, owners: &Owners) -> SourceSeen {
    let parts = names.iter().zip(&sent.parts);
    let parts: Vec<&SentPart> = parts
        .filter(|(of, _)| **of == name)
        .map(|(_, part)| part)
        .collect();
    let (mut state, mut because) = state_of(name, &parts, sent, owners.reader);
    if !owners.is_readable(name) {
        (state, because) = (SourceState::Hidden, None);
    }
    let is_read = state != SourceState::Hidden;
    let author = owners.agent.as_ref().and_then(|agent| agent.author(name));
    SourceSeen {
        name,
        owner: owners.owner(name, sent),
        state,
        because,
        tokens: parts.iter().map(|part| part.tokens).sum(),
        text: is_read.then(|| text_of(&parts)),
        author: author.filter(|_| is_read),
        can_edit: is_read && owners.can_edit(name, sent),
        by_api: name.is_sent_by_api(),
    }
}

/// Hides everything that an agent is told. The sizes of single parts would reveal which of them the agent has, so `instructions` has
/// the size of the whole system text.
fn hide_agent(sources: &mut [SourceSeen]) {
    let mut system_tokens = 0;
    for source in sources.iter_mut() {
        let system_part = source.name.system_part();
        if system_part.is_none() && !matches!(source.name, SourceName::Notes | SourceName::Tools) {
            continue;
        }
        if system_part.is_some() {
            system_tokens += std::mem::take(&mut source.tokens);
        }
        if source.owner.kind == SourceOwnerType::Agent {
            (source.owner.id, source.owner.name) = (None, None);
        }
        source.state = SourceState::Hidden;
        (source.because, source.text, source.author) = (None, None, None);
        source.can_edit = false;
    }
    let is_whole =
        |source: &&mut SourceSeen| source.name.system_part() == Some(SystemPartName::Instructions);
    if let Some(whole) = sources.iter_mut().find(is_whole) {
        whole.tokens = system_tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::MessageId, model::Role};

    fn part(block: Block) -> SentPart {
        SentPart {
            block,
            message: (block == Block::Messages).then(|| {
                let author = crate::replies::prompt::Author::Human {
                    id: UserId::new(),
                    name: "Ada".to_owned(),
                };
                (MessageId::new(), author)
            }),
            memory: None,
            old_message: None,
            action: None,
            function: None,
            only_user: None,
            role: Role::User,
            tokens: 1,
            text: SentText::Kept("text".to_owned()),
        }
    }

    fn names(blocks: &[Block]) -> Vec<&'static str> {
        let parts: Vec<SentPart> = blocks.iter().map(|block| part(*block)).collect();
        names_of(&parts)
            .into_iter()
            .map(SourceName::as_str)
            .collect()
    }

    #[test]
    fn the_thread_before_a_fork_belongs_to_the_summary_but_its_first_message_does_not() {
        use Block::{ForkHeader, LeftOut, Messages, Workspace};
        assert_eq!(
            names(&[Messages, Workspace, LeftOut, Messages, ForkHeader, Messages]),
            [
                "messages",
                "workspace",
                "summary",
                "summary",
                "fork_header",
                "messages"
            ]
        );
        assert_eq!(
            names(&[Messages, Messages, ForkHeader, LeftOut, Messages]),
            ["summary", "summary", "fork_header", "summary", "messages"]
        );
        assert_eq!(names(&[LeftOut, Messages]), ["summary", "messages"]);
    }

    #[test]
    fn a_text_ends_at_the_limit() {
        let long = SentPart {
            text: SentText::Kept("é".repeat(TEXT_CHARS_MAX - 3)),
            ..part(Block::Notes)
        };
        let text = text_of(&[&long, &part(Block::Notes)]);
        assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
        assert!(text.ends_with("é\n\nt"), "{}", text.len());
    }
}
