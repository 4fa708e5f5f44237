//! Links of a chain in a message: their agents and texts.

use super::mentioned::ResolvedMentions;
use crate::{
    agents::profiles::InvocableAgent,
    chat::{
        arrows, mentions,
        rows::message::{Mention, MentionKind, Message},
        text::Text,
    },
    db::{Conn, DbError},
    tasks::{ChainStep, queue},
};

pub(super) fn span_of(mention: &Mention) -> mentions::Span {
    mentions::Span {
        start: mention.start,
        length: mention.length,
    }
}

/// The agents of a chain, each with its text; empty if the message is not a chain.
pub(super) fn links<'a>(
    text: &Text,
    found: &'a ResolvedMentions,
) -> Vec<(&'a InvocableAgent, String)> {
    let mentions = found.mentions.iter();
    let agents: Vec<&Mention> = mentions
        .filter(|mention| mention.kind == MentionKind::Agent)
        .collect();
    let spans: Vec<mentions::Span> = agents.iter().map(|mention| span_of(mention)).collect();
    let links = arrows::links(&text.content, &text.arrows, &spans);
    let agent_of = |link: &arrows::Link| {
        let id = agents.get(link.mention)?.id.as_ref()?;
        found
            .agents
            .iter()
            .find(|agent| agent.id.to_string() == *id)
    };
    links
        .into_iter()
        .filter_map(|link| Some((agent_of(&link)?, link.text)))
        .collect()
}

/// Replaces the texts of the links of an edited message. A link gets the whole text if another agent is now mentioned at its
/// position, or if the number of links has changed.
pub(in crate::chat) async fn edit_links(
    c: &mut Conn,
    message: &Message,
    text: &Text,
    found: &ResolvedMentions,
) -> Result<(), DbError> {
    if message.metadata.chain.is_empty() {
        return Ok(());
    }
    let parts = links(text, found);
    for task in queue::links_of_message(c, message.id).await? {
        let mut input = task.input.0;
        let Some(ChainStep { step, steps }) = input.chain else {
            continue;
        };
        let is_as_long = i64::try_from(parts.len()) == Ok(steps);
        let part = usize::try_from(step - 1).ok().and_then(|n| parts.get(n));
        let part = part.filter(|(agent, _)| is_as_long && task.agent_id == Some(agent.id));
        input.prompt = match part {
            Some((_, part)) => part.clone(),
            None => mentions::without(&text.content, &[]),
        };
        queue::set_input(c, task.id, input).await?;
    }
    Ok(())
}
