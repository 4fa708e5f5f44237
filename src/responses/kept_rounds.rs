//! Parts of rounds with calls of the client's functions that the next request needs, and that programs need not return: members that
//! the model's server wants back, and calls of the agent's functions with their results. They are kept under the caller and the ID of
//! the client's first call, and added to the conversation.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::marks::Handles;
use crate::{
    db::{Conn, Db, DbError, now},
    ids::{UserId, WorkspaceId},
    model::{ChatMessage, ToolCall, ToolResult, VendorMembers},
    time::Timestamp,
    tools::output::Handled,
};

/// Time for which rounds are kept.
const KEPT: Duration = Duration::from_hours(24);
/// Maximum number of messages with calls that are kept for a person in a workspace.
const MESSAGES_MAX: i64 = 200;
/// Maximum length of a call ID under which rounds are kept.
const CALL_ID_CHARS_MAX: usize = 256;
/// Maximum size of the kept calls and results of a response, in bytes of JSON.
const ROUNDS_BYTES_MAX: usize = 256 * 1024;
/// Replaces a result that is too large to be kept.
const RESULT_LEFT_OUT: &str = "(result left out)";

/// Rounds of a response whose functions ran on the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ServerRounds {
    /// Turns of the rounds before the client's. Their texts are in the response.
    pub before: Vec<ChatMessage>,
    /// All calls of the client's round, in the model's order.
    pub calls: Vec<ToolCall>,
    /// Results of those that ran on the server.
    pub results: Vec<ToolResult>,
    /// Objects with a handle.
    pub handled: Vec<Handled>,
}

impl ServerRounds {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.results.is_empty()
    }

    /// Leaves out the oldest rounds, and then results, until the rest fits. Returns the rest as JSON.
    fn limited(mut self) -> Option<String> {
        for turn in &mut self.before {
            turn.content.clear();
        }
        loop {
            let json = serde_json::to_string(&self).ok()?;
            if json.len() <= ROUNDS_BYTES_MAX {
                return Some(json);
            }
            if !self.before.is_empty() {
                self.before.drain(..self.before.len().min(2));
                continue;
            }
            let results = self.results.iter_mut();
            let largest = results.max_by_key(|result| result.content.len());
            match largest.filter(|largest| largest.content.len() > RESULT_LEFT_OUT.len()) {
                Some(largest) => RESULT_LEFT_OUT.clone_into(&mut largest.content),
                None => return None,
            }
        }
    }

    /// Adds the rounds to a conversation in which the client's round is the turn at this position, followed by its results. Returns the
    /// number of added turns. With `has_members`, the members of the earlier rounds are for the model that is called now.
    fn add_to(mut self, turns: &mut Vec<ChatMessage>, at: usize, has_members: bool) -> usize {
        let [said, returned] = &mut turns[at..at + 2] else {
            return 0;
        };
        let count = self.calls.len();
        let mut own = std::mem::take(&mut said.calls);
        for call in self.calls {
            let is_servers = self.results.iter().any(|result| result.call_id == call.id);
            if is_servers {
                said.calls.push(call);
            } else if let Some(at) = own.iter().position(|own| own.id == call.id) {
                said.calls.push(own.remove(at));
            }
        }
        if !own.is_empty() || said.calls.len() != count {
            // The members are in the order of the kept calls.
            said.vendor.calls.clear();
        }
        said.calls.append(&mut own);
        returned.results.splice(0..0, self.results);
        if !has_members {
            for turn in &mut self.before {
                turn.vendor = VendorMembers::default();
            }
        }
        let count = self.before.len();
        turns.splice(at..at, self.before);
        count
    }
}

/// Parts of a response that has just been received.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub workspace: WorkspaceId,
    pub user: UserId,
    /// ID of the client's first call.
    pub call_id: String,
    pub model: String,
    /// Members of the message, and of all of its calls.
    pub members: VendorMembers,
    pub rounds: ServerRounds,
}

/// Stores what the next request needs. The oldest messages of the person are removed if there are too many.
pub(super) async fn store(c: &mut Conn, received: &Received) -> Result<(), DbError> {
    let rounds = Some(received.rounds.clone()).filter(|rounds| !rounds.is_empty());
    let rounds = rounds.and_then(ServerRounds::limited);
    if received.call_id.chars().count() > CALL_ID_CHARS_MAX
        || (received.members.is_empty() && rounds.is_none())
    {
        return Ok(());
    }
    let Ok(members) = serde_json::to_string(&received.members) else {
        return Ok(());
    };
    c.q("insert into response_vendor_members (workspace_id, user_id, call_id, model, members, rounds, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7) on conflict (workspace_id, user_id, model, call_id) \
         do update set members = excluded.members, rounds = excluded.rounds, expires_at = excluded.expires_at")
        .bind(received.workspace)
        .bind(received.user)
        .bind(received.call_id.clone())
        .bind(received.model.clone())
        .bind(members)
        .bind(rounds)
        .bind(now() + KEPT)
        .run()
        .await?;
    let last_allowed: Option<(Timestamp,)> = c
        .q("select expires_at from response_vendor_members where workspace_id = $1 and user_id = $2 \
            order by expires_at desc limit 1 offset $3")
        .bind(received.workspace)
        .bind(received.user)
        .bind(MESSAGES_MAX)
        .opt()
        .await?;
    if let Some((before,)) = last_allowed {
        c.q("delete from response_vendor_members where workspace_id = $1 and user_id = $2 and expires_at <= $3")
            .bind(received.workspace)
            .bind(received.user)
            .bind(before)
            .run()
            .await?;
    }
    Ok(())
}

/// Caller whose rounds are restored, and the model that is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restoring<'a> {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub model: &'a str,
    /// True if the caller is allowed to see what the agent's functions return.
    pub has_rounds: bool,
}

#[derive(sqlx::FromRow)]
struct Kept {
    model: String,
    members: String,
    rounds: Option<String>,
}

/// Adds what was kept to the rounds of a conversation. Members are added only for the model that sent them. Returns the objects that
/// have a handle in the conversation.
pub(super) async fn restore(
    c: &mut Conn,
    of: Restoring<'_>,
    turns: &mut Vec<ChatMessage>,
) -> Result<Handles, DbError> {
    let mut handled = Vec::new();
    let mut at = 0;
    while at + 1 < turns.len() {
        let kept = match turns[at].calls.first() {
            Some(call) => find(c, of, call.id.clone()).await?,
            None => None,
        };
        if let Some(kept) = kept {
            let is_same_model = kept.model == of.model;
            if is_same_model && turns[at].vendor.is_empty() {
                turns[at].vendor = serde_json::from_str(&kept.members).unwrap_or_default();
            }
            let rounds = kept.rounds.as_ref().filter(|_| of.has_rounds);
            let rounds = rounds.and_then(|json| serde_json::from_str::<ServerRounds>(json).ok());
            if let Some(rounds) = rounds {
                // A later response continues the numbers of an earlier one.
                handled.clone_from(&rounds.handled);
                at += rounds.add_to(turns, at, is_same_model);
            } else if kept.rounds.is_some() {
                // The members are also those of calls that are not restored.
                turns[at].vendor.calls.clear();
            }
        }
        at += 1;
    }
    Ok(Handles::of(handled))
}

async fn find(c: &mut Conn, of: Restoring<'_>, call_id: String) -> Result<Option<Kept>, DbError> {
    c.q("select model, members, rounds from response_vendor_members where workspace_id = $1 and user_id = $2 \
         and call_id = $3 and expires_at > $5 order by case when model = $4 then 0 else 1 end, expires_at desc limit 1")
        .bind(of.workspace)
        .bind(of.user)
        .bind(call_id)
        .bind(of.model.to_owned())
        .bind(now())
        .opt()
        .await
}

/// Deletes what is kept for a person in a workspace.
pub(super) async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    c.q("delete from response_vendor_members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Deletes expired rounds.
pub(super) async fn delete_expired(db: &Db) -> Result<(), DbError> {
    let due: Option<(String,)> = db
        .read()
        .await?
        .q("select call_id from response_vendor_members where expires_at <= $1 order by expires_at limit 1")
        .bind(now())
        .opt()
        .await?;
    if due.is_none() {
        return Ok(());
    }
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("delete from response_vendor_members where expires_at <= $1")
            .bind(now())
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await?;
    // The write-ahead log still contains the deleted texts.
    db.scrub().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    fn result(id: &str) -> ToolResult {
        ToolResult {
            call_id: id.to_owned(),
            content: id.to_owned(),
        }
    }

    fn turns(calls: &[&str], results: &[&str]) -> [ChatMessage; 2] {
        [
            ChatMessage {
                calls: calls.iter().map(|id| call(id)).collect(),
                ..ChatMessage::new(Role::Assistant, "")
            },
            ChatMessage {
                results: results.iter().map(|id| result(id)).collect(),
                ..ChatMessage::new(Role::User, "")
            },
        ]
    }

    fn rounds() -> ServerRounds {
        ServerRounds {
            before: turns(&["s1"], &["s1"]).to_vec(),
            calls: ["c1", "s2", "c2"].map(call).to_vec(),
            results: vec![result("s2")],
            handled: Vec::new(),
        }
    }

    #[test]
    fn calls_keep_their_order_and_results_of_the_server_are_first() {
        let asked = ChatMessage::new(Role::User, "x");
        let mut conversation = vec![asked.clone()];
        conversation.extend(turns(&["c1", "c2"], &["c1", "c2"]));
        assert_eq!(rounds().add_to(&mut conversation, 1, true), 2);
        let mut expected = vec![asked.clone()];
        expected.extend(turns(&["s1"], &["s1"]));
        expected.extend(turns(&["c1", "s2", "c2"], &["s2", "c1", "c2"]));
        assert_eq!(conversation, expected);
        // A client can leave out a call together with its result, or make another one.
        let mut conversation = turns(&["c2", "new"], &["c2", "new"]).to_vec();
        rounds().add_to(&mut conversation, 0, true);
        let last = turns(&["s2", "c2", "new"], &["s2", "c2", "new"]);
        assert_eq!(conversation[2..], last);
    }

    #[test]
    fn the_oldest_rounds_are_left_out_first() {
        let mut large = rounds();
        large.before[1].results[0].content = "x".repeat(ROUNDS_BYTES_MAX);
        let kept: ServerRounds = serde_json::from_str(&large.limited().unwrap()).unwrap();
        assert!(kept.before.is_empty());
        assert_eq!(kept.results, [result("s2")]);
        let mut large = rounds();
        large.results[0].content = "x".repeat(ROUNDS_BYTES_MAX);
        let kept: ServerRounds = serde_json::from_str(&large.limited().unwrap()).unwrap();
        assert_eq!(kept.results[0].content, RESULT_LEFT_OUT);
    }
}
