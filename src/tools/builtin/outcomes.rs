//! `search_decisions` and `list_action_items`, which search published resolutions of forks.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{options::Options, places};
use crate::{
    agents::derived::SourceId,
    chat::search::folded,
    db::{Conn, Json, dialect::hexadecimal_ids, is_shared_channel},
    ids::{ChannelId, MessageId, UserId},
    sql_with_ids,
    time::Timestamp,
    tools::{
        arguments::Arguments,
        output::{Handled, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

/// Maximum number of resolutions that are searched, starting with the most recent one.
const SEARCHED_MAX: i64 = 500;

fn ids_of(channels: Option<Vec<ChannelId>>) -> Json<Vec<String>> {
    hexadecimal_ids(channels.into_iter().flatten().map(|channel| channel.0))
}

#[derive(sqlx::FromRow)]
struct Decision {
    message_id: MessageId,
    headline: String,
    conclusion: String,
    search_text: String,
    publisher_type: Option<String>,
    publisher_id: Option<Uuid>,
    channel_name: Option<String>,
    published_at: Timestamp,
}

/// # Errors
/// `bad_arguments`, `not_found` for an unknown channel.
pub(super) async fn decisions(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, CallError> {
    let arguments = Arguments::of(arguments, &["query", "channel", "limit"])?;
    let limit = options.limit(&arguments)?;
    let channels = options.channels(c, of, rights, &arguments).await?;
    let sql = sql_with_ids!(
        c,
        concat!(
            "select r.message_id, r.headline, r.conclusion, r.search_text, r.publisher_type, r.publisher_id, \
             case when ch.kind = 'direct' then null else ch.name end as channel_name, r.published_at from resolutions r \
             join messages m on m.id = r.message_id join channels ch on ch.id = r.channel_id \
             where r.workspace_id = $1 and r.status = 'published' and m.deleted_at is null and r.published_at is not null and ",
            is_shared_channel!("r.channel_id", "$2", "$3"),
            " and ($4 = FALSE or r.channel_id in"
        ),
        5,
        ") order by r.published_seq desc limit $6"
    );
    let rows: Vec<Decision> = c
        .q(sql)
        .bind(of.workspace)
        .bind(rights.requester)
        .bind(rights.shared_in)
        .bind(channels.is_some())
        .bind(ids_of(channels))
        .bind(SEARCHED_MAX)
        .all()
        .await?;
    let words = folded(arguments.text("query")?.unwrap_or_default());
    let words: Vec<&str> = words.split_whitespace().collect();
    let matches = |decision: &&Decision| {
        let text = folded(&decision.search_text);
        words.iter().all(|word| text.contains(word))
    };
    let limit = usize::try_from(limit).unwrap_or(1);
    let found: Vec<&Decision> = rows.iter().filter(matches).take(limit).collect();
    let mut output = ToolOutput {
        count: Some(found.len()),
        ..ToolOutput::default()
    };
    if found.is_empty() {
        output.own("No decisions found.");
    }
    for (n, decision) in found.into_iter().enumerate() {
        if n > 0 {
            output.own("\n\n");
        }
        output.messages.push(decision.message_id);
        if decision.publisher_type.as_deref() != Some("agent") {
            let publisher = decision.publisher_id.map(UserId);
            output.cites.extend(publisher.map(SourceId::User));
        }
        output.own("[");
        output.handle(Handled::Message(decision.message_id));
        output.own(format!(
            "] {}, {}: ",
            places::place(decision.channel_name.as_deref()),
            places::day(decision.published_at)
        ));
        output.data(one_line(&decision.headline));
        output.own("\n");
        output.data(one_line(&decision.conclusion));
    }
    Ok(output)
}

#[derive(sqlx::FromRow)]
struct Item {
    text: String,
    owner_id: Option<UserId>,
    owner_name: Option<String>,
    due: Option<String>,
    done: bool,
    message_id: MessageId,
}

/// # Errors
/// `bad_arguments`, `not_found` for an unknown owner.
pub(super) async fn items(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, CallError> {
    let arguments = Arguments::of(arguments, &["owner", "done", "limit"])?;
    let limit = options.limit(&arguments)?;
    let channels = options.channels(c, of, rights, &arguments).await?;
    let owner = match arguments.text("owner")? {
        Some(named) => Some(places::author(c, of.workspace, rights, named).await?),
        None => None,
    };
    let sql = sql_with_ids!(
        c,
        concat!(
            "select i.text, i.owner_id, coalesce(u.name, i.owner_name) as owner_name, i.due, i.done, r.message_id from resolutions r \
             join messages m on m.id = r.message_id join action_items i on i.resolution_id = r.id left join users u on u.id = i.owner_id \
             where r.workspace_id = $1 and r.status = 'published' and m.deleted_at is null and (i.owner_id = $4 or $4 is null) \
             and (i.done = $5 or $5 is null) and ",
            is_shared_channel!("r.channel_id", "$2", "$3"),
            " and ($6 = FALSE or r.channel_id in"
        ),
        7,
        ") order by r.published_seq desc, i.position limit $8"
    );
    let rows: Vec<Item> = c
        .q(sql)
        .bind(of.workspace)
        .bind(rights.requester)
        .bind(rights.shared_in)
        .bind(owner)
        .bind(arguments.flag("done")?)
        .bind(channels.is_some())
        .bind(ids_of(channels))
        .bind(limit)
        .all()
        .await?;
    let mut output = ToolOutput {
        count: Some(rows.len()),
        ..ToolOutput::default()
    };
    if rows.is_empty() {
        output.own("No action items found.");
    }
    for (n, item) in rows.iter().enumerate() {
        if n > 0 {
            output.own("\n");
        }
        output.messages.push(item.message_id);
        output.cites.extend(item.owner_id.map(SourceId::User));
        output.own("[");
        output.handle(Handled::Message(item.message_id));
        output.own(if item.done { "] done: " } else { "] open: " });
        output.data(one_line(&item.text));
        if let Some(name) = &item.owner_name {
            output.own("; owner ");
            output.data(one_line(name));
        }
        if let Some(due) = &item.due {
            output.own("; due ");
            output.data(one_line(due));
        }
    }
    Ok(output)
}
