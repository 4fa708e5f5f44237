//! Values of the variables in a run's texts.

use std::{collections::HashMap, time::Duration};

use crate::{
    db::{Conn, DbError, is_in_visible_channel, is_visible_from, now},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    time::Timestamp,
    workflows::{
        definition::{Step, StepWork, flat},
        run::WorkflowRun,
        template::{Rendered, Variable, render, variables},
    },
};

/// Maximum number of listed decisions and action items.
const LISTED_MAX: i64 = 50;
/// Maximum age of decisions and action items that are listed.
const LISTED_FOR: Duration = Duration::from_hours(7 * 24);
/// Number of earlier runs that are searched for the last completed one.
const RUNS_READ_MAX: i64 = 100;
/// Text of an empty list.
const NOTHING: &str = "None.";

/// Values of a run, except for the outputs of its steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    input: String,
    message: String,
    author: String,
    date: String,
    decisions: String,
    action_items: String,
    /// Messages of the listed decisions and action items.
    listed: Vec<MessageId>,
}

impl Values {
    pub(super) async fn load(
        c: &mut Conn,
        run: &WorkflowRun,
        steps: &[Step],
    ) -> Result<Self, DbError> {
        let (message, author) = match run.message_id {
            Some(id) => message_of(c, id).await?,
            None => Default::default(),
        };
        let mut values = Self {
            input: run.input.clone(),
            message,
            author,
            date: run.local_date.clone(),
            ..Self::default()
        };
        if uses(steps, Variable::Decisions) {
            values.decisions = values.take(&decisions(c, run).await?);
        }
        if uses(steps, Variable::ActionItems) {
            values.action_items = values.take(&action_items(c, run).await?);
        }
        Ok(values)
    }

    /// Renders a list, and records the messages of its entries.
    fn take(&mut self, found: &[Listed]) -> String {
        self.listed
            .extend(found.iter().filter_map(|listed| listed.message_id));
        list(found)
    }

    /// Messages of the listed decisions and action items.
    pub(super) fn listed(&self) -> &[MessageId] {
        &self.listed
    }

    /// Replaces the variables in a text. The variable of a step without output becomes an empty string.
    pub(super) fn render(&self, text: &str, outputs: &HashMap<String, String>) -> Rendered {
        render(text, |variable| match variable {
            Variable::Input => &self.input,
            Variable::Message => &self.message,
            Variable::Author => &self.author,
            Variable::Date => &self.date,
            Variable::Decisions => &self.decisions,
            Variable::ActionItems => &self.action_items,
            Variable::Output(id) => outputs.get(id).map_or("", String::as_str),
        })
    }
}

/// Text of a step that can contain variables.
fn texts_of(step: &Step) -> Option<&str> {
    match &step.work {
        StepWork::Agent(step) => Some(&step.prompt),
        StepWork::Fork(step) => Some(&step.goal),
        StepWork::Approval(step) => Some(&step.text),
        StepWork::Condition(step) => Some(&step.value),
        StepWork::Output(step) => Some(&step.content),
        StepWork::Parallel(_) => None,
    }
}

fn uses(steps: &[Step], wanted: Variable<'_>) -> bool {
    flat(steps)
        .into_iter()
        .filter_map(texts_of)
        .any(|text| variables(text).is_ok_and(|found| found.contains(&wanted)))
}

/// Text of a message, and the name of its author if a person wrote it. Both are empty if the message was deleted.
async fn message_of(c: &mut Conn, id: MessageId) -> Result<(String, String), DbError> {
    let row: Option<(String, Option<String>)> = c
        .q("select m.content, u.name from messages m left join users u on m.author_type = 'human' and u.id = m.author_id \
            where m.id = $1 and m.deleted_at is null")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map_or_else(Default::default, |(content, author)| {
        (content, author.unwrap_or_default())
    }))
}

/// Completion time of the last completed run among the `RUNS_READ_MAX` runs of the workflow before this one, or the time a week ago
/// if that is later.
async fn since(c: &mut Conn, run: &WorkflowRun) -> Result<Timestamp, DbError> {
    let last: Option<Timestamp> = c
        .q(
            "select max(t.completed_at) from tasks t where t.status = 'completed' and t.id in \
            (select r.id from runs r where r.workflow_id = $1 and r.id < $2 order by r.created_at desc limit $3)",
        )
        .bind(run.workflow_id)
        .bind(run.id)
        .bind(RUNS_READ_MAX)
        .value()
        .await?;
    let oldest = now() - LISTED_FOR;
    Ok(last.map_or(oldest, |last| last.max(oldest)))
}

/// A listed decision or action item, and the message to which it links.
#[derive(sqlx::FromRow)]
struct Listed {
    text: String,
    detail: Option<String>,
    slug: String,
    channel_id: ChannelId,
    /// Name of the channel; direct channels have none.
    channel: Option<String>,
    thread_id: ThreadId,
    message_id: Option<MessageId>,
}

impl Listed {
    fn line(&self) -> String {
        let channel = self.channel.clone();
        let channel = channel.unwrap_or_else(|| self.channel_id.to_string());
        let anchor = self
            .message_id
            .map_or_else(String::new, |id| format!("#m-{id}"));
        let link = format!("/{}/c/{channel}/t/{}{anchor}", self.slug, self.thread_id);
        let detail =
            (self.detail.as_deref()).map_or_else(String::new, |detail| format!(" ({detail})"));
        // A bracket would end the text of the link.
        let text = self.text.replace(['[', ']', '\n'], " ");
        format!("- [{text}]({link}){detail}")
    }
}

fn list(found: &[Listed]) -> String {
    if found.is_empty() {
        return NOTHING.to_owned();
    }
    let lines: Vec<String> = found.iter().map(Listed::line).collect();
    lines.join("\n")
}

/// Condition for channels `ch` of the workspace `$1` whose decisions both the requester `$3` and everyone in the channel `$2` can
/// read.
macro_rules! is_listed {
    () => {
        concat!(
            "ch.workspace_id = $1 and ",
            is_visible_from!("ch", "$2"),
            " and ",
            is_in_visible_channel!("ch.id", "$3")
        )
    };
}

type Place = (WorkspaceId, Option<ChannelId>, UserId);

fn place_of(run: &WorkflowRun) -> Place {
    (run.workspace_id, run.channel_id, run.requested_by)
}

async fn decisions(c: &mut Conn, run: &WorkflowRun) -> Result<Vec<Listed>, DbError> {
    let since = since(c, run).await?;
    let (workspace, channel, user) = place_of(run);
    c.q(concat!(
            "select r.headline as text, nullif(r.conclusion, '') as detail, w.slug, ch.id as channel_id, ch.name as channel, r.thread_id, r.message_id \
             from resolutions r join channels ch on ch.id = r.channel_id join workspaces w on w.id = r.workspace_id \
             where r.status = 'published' and r.headline <> '' and r.published_at > $4 and ",
            is_listed!(),
            " order by r.published_at desc limit $5"
        ))
        .bind(workspace)
        .bind(channel)
        .bind(user)
        .bind(since)
        .bind(LISTED_MAX)
        .all()
        .await
}

async fn action_items(c: &mut Conn, run: &WorkflowRun) -> Result<Vec<Listed>, DbError> {
    let since = since(c, run).await?;
    let (workspace, channel, user) = place_of(run);
    c.q(concat!(
            "select i.text, i.owner_name as detail, w.slug, ch.id as channel_id, ch.name as channel, r.thread_id, r.message_id \
             from action_items i join resolutions r on r.id = i.resolution_id join channels ch on ch.id = r.channel_id \
             join workspaces w on w.id = r.workspace_id \
             where r.status = 'published' and not i.done and r.published_at > $4 and ",
            is_listed!(),
            " order by r.published_at desc, i.position limit $5"
        ))
        .bind(workspace)
        .bind(channel)
        .bind(user)
        .bind(since)
        .bind(LISTED_MAX)
        .all()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_text_links_to_its_message() {
        let (thread, message) = (ThreadId::new(), MessageId::new());
        let channel = ChannelId::new();
        let listed = Listed {
            text: "Ship [on] Monday".to_owned(),
            detail: Some("Ada".to_owned()),
            slug: "team".to_owned(),
            channel_id: channel,
            channel: Some("general".to_owned()),
            thread_id: thread,
            message_id: Some(message),
        };
        assert_eq!(
            listed.line(),
            format!("- [Ship  on  Monday](/team/c/general/t/{thread}#m-{message}) (Ada)")
        );
        let direct = Listed {
            channel: None,
            ..listed
        };
        assert_eq!(
            direct.line(),
            format!("- [Ship  on  Monday](/team/c/{channel}/t/{thread}#m-{message}) (Ada)")
        );
        assert_eq!(list(&[]), "None.");
    }
}
