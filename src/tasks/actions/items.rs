//! Inbox items of actions that wait for people: one for each person who can decide.

use std::collections::BTreeSet;

use super::state::{ActionState, NeededPerson};
use crate::{
    db::{Conn, DbError, is_reader},
    ids::{ActionId, AgentId, ChannelId, ForkId, ThreadId, UserId, WorkspaceId},
    inbox::{
        Existing, InboxReason, InboxSubject, InboxSubjectKind, NewItem, Place, close, notice,
        open::open_with,
    },
};

/// Maximum number of people who get an item for one action.
const DECIDERS_MAX: usize = 50;

/// State of an action that people may have to decide.
pub(super) struct OpenDecision {
    pub(super) action: ActionId,
    pub(super) workspace: WorkspaceId,
    pub(super) channel: Option<ChannelId>,
    pub(super) thread: Option<ThreadId>,
    pub(super) fork: Option<ForkId>,
    pub(super) agent: Option<AgentId>,
    pub(super) requester: UserId,
    pub(super) state: ActionState,
    /// Missing approvals.
    pub(super) missing: Vec<(NeededPerson, Option<UserId>)>,
    /// True if admins can decide, too.
    pub(super) is_extended: bool,
    /// False if the action never waits for people.
    pub(super) can_have_items: bool,
    /// Number of the event with this state.
    pub(super) seq: i64,
}

/// Opens and closes the items of an action: people whose approval is missing have one, and those who can settle an unknown result.
pub(super) async fn follow_state(c: &mut Conn, action: &OpenDecision) -> Result<(), DbError> {
    if !action.can_have_items {
        return Ok(());
    }
    let mut people = deciders(c, action).await?;
    let open: Vec<(UserId,)> = c
        .q("select recipient_id from inbox_items where subject_id = $1 and reason = 'approval' and workspace_id = $2 and state <> 'done' \
            order by recipient_id limit 1000")
        .bind(action.action)
        .bind(action.workspace)
        .all()
        .await?;
    for (user,) in open {
        if !people.remove(&user) {
            let id = action.action.0;
            close::close(c, action.workspace, InboxReason::Approval, id, Some(user)).await?;
        }
    }
    let place = action.channel.zip(action.thread);
    let item = NewItem {
        workspace: action.workspace,
        reason: InboxReason::Approval,
        subject: InboxSubject::new(InboxSubjectKind::Action, action.action.0),
        actor: action.agent.map(|agent| agent.0),
        place: place.map(|(channel, thread)| Place {
            channel,
            thread,
            fork: action.fork,
        }),
        channel: action.channel,
        message: None,
        seq: action.seq,
        changed_seq: action.seq,
        is_quiet: false,
    };
    for user in people {
        open_with(c, user, &item, Existing::ReopenDone).await?;
    }
    Ok(())
}

/// People who can decide on an action now, at most 50; the requester comes first.
async fn deciders(c: &mut Conn, action: &OpenDecision) -> Result<BTreeSet<UserId>, DbError> {
    let mut people: Vec<UserId> = Vec::new();
    let mut has_admins = false;
    match action.state {
        ActionState::Waiting => {
            let missing = &action.missing;
            let needs = |who| missing.iter().any(|(need, _)| *need == who);
            let anyone = needs(NeededPerson::AnyMember);
            if anyone || needs(NeededPerson::Requester) {
                people.push(action.requester);
            }
            people.extend(missing.iter().filter_map(|(_, user)| *user));
            has_admins = needs(NeededPerson::Admin) || (action.is_extended && !missing.is_empty());
            if anyone {
                people.extend(members(c, action).await?);
            }
        }
        ActionState::Unknown => {
            let can_settle: bool = c
                .q(concat!("select ", is_reader!("$1", "$2", "$3")))
                .bind(action.workspace)
                .bind(action.channel)
                .bind(action.requester)
                .value()
                .await?;
            has_admins = !can_settle;
            if can_settle {
                people.push(action.requester);
            }
        }
        _ => {}
    }
    if has_admins {
        people.extend(notice::admins(c, action.workspace).await?);
    }
    let mut deciders = BTreeSet::new();
    for user in people {
        if deciders.len() < DECIDERS_MAX {
            deciders.insert(user);
        }
    }
    Ok(deciders)
}

/// Members of the action's channel who can post, in the order in which they joined.
async fn members(c: &mut Conn, action: &OpenDecision) -> Result<Vec<UserId>, DbError> {
    let rows: Vec<(UserId,)> = c
        .q("select cm.user_id from channel_members cm join members m on m.workspace_id = $1 and m.user_id = cm.user_id \
            where cm.channel_id = $2 and m.role not in ('viewer', 'guest') and m.status <> 'placeholder' order by cm.joined_at, cm.user_id limit 50")
        .bind(action.workspace)
        .bind(action.channel)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(user,)| user).collect())
}
