//! States of an action, and the transitions between them.

use crate::text_enum::text_enum;

text_enum! {
    /// State of an action.
    pub enum ActionState {
        /// The action waits for people to approve or deny it.
        Waiting = "waiting",
        /// The action can start.
        Approved = "approved",
        Denied = "denied",
        /// Nobody decided in time, or the action did not start in time.
        Expired = "expired",
        /// The task was stopped or has ended, or a condition of its approval no longer holds.
        Cancelled = "cancelled",
        Running = "running",
        Done = "done",
        Failed = "failed",
        /// The action started, but its result is unknown; a person settles it.
        Unknown = "unknown",
    }
}

impl ActionState {
    /// Checks whether an action can change from this state to another one.
    pub fn may_become(self, next: Self) -> bool {
        use ActionState::{
            Approved, Cancelled, Denied, Done, Expired, Failed, Running, Unknown, Waiting,
        };
        matches!(
            (self, next),
            (Waiting, Approved | Denied | Expired | Cancelled)
                | (Approved, Running | Expired | Cancelled)
                | (Running, Done | Failed | Unknown)
                | (Unknown, Done | Failed)
        )
    }

    /// Checks whether the task has to wait for a person's decision.
    pub fn needs_person(self) -> bool {
        matches!(self, Self::Waiting | Self::Unknown)
    }
}

text_enum! {
    /// Kind of an action.
    pub enum ActionKind {
        /// A call of a tool.
        Call = "call",
        /// A step that only asks for approval.
        Approval = "approval",
        /// A question of an agent, which the requester answers.
        Question = "question",
    }
}

text_enum! {
    /// Basis on which an action is allowed.
    pub enum GrantedBy {
        /// No approval was needed.
        Policy = "policy",
        Person = "person",
        /// A permission that lasts an hour.
        Grant = "grant",
    }
}

text_enum! {
    /// Person whose approval an action needs.
    pub enum NeededPerson {
        Requester = "requester",
        Admin = "admin",
        /// The person in `user_id`.
        User = "user",
        /// Anyone who can post in the conversation.
        AnyMember = "any_member",
    }
}

text_enum! {
    /// Kind of text that a task has seen.
    pub enum TaintKind {
        /// A person's message, or a text with a person's words.
        Message = "message",
        /// A message that a program posted through a bot.
        Bot = "bot",
        /// A reply whose sources were not recorded.
        Reply = "reply",
        /// A title or a description, which anyone with write access can change.
        Title = "title",
        /// A message that the requester posted with an API key.
        Key = "key",
        Memory = "memory",
        File = "file",
        Page = "page",
        Mcp = "mcp",
        Code = "code",
        Import = "import",
        /// A repository on which the agent works.
        Repository = "repository",
        /// A text that shapes an agent, such as its instructions.
        Author = "author",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_enters_only_the_states_of_its_diagram() {
        use ActionState as S;
        let allowed = [
            (S::Waiting, S::Approved),
            (S::Waiting, S::Denied),
            (S::Waiting, S::Expired),
            (S::Waiting, S::Cancelled),
            (S::Approved, S::Running),
            (S::Approved, S::Expired),
            (S::Approved, S::Cancelled),
            (S::Running, S::Done),
            (S::Running, S::Failed),
            (S::Running, S::Unknown),
            (S::Unknown, S::Done),
            (S::Unknown, S::Failed),
        ];
        for from in S::ALL {
            for to in S::ALL {
                let is_allowed = allowed.contains(&(*from, *to));
                assert_eq!(from.may_become(*to), is_allowed, "{from} to {to}");
            }
        }
    }

    #[test]
    fn nothing_starts_twice() {
        let mut before = ActionState::ALL
            .iter()
            .filter(|state| state.may_become(ActionState::Running));
        assert_eq!(before.next(), Some(&ActionState::Approved));
        assert_eq!(before.next(), None);
        assert!(ActionState::ALL.iter().all(
            |state| *state == ActionState::Waiting || !state.may_become(ActionState::Approved)
        ));
    }
}
