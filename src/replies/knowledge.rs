//! Passages of the vector stores that are attached to an agent or its channel: found for each question with the rights of everyone who can read the
//! answer.

use super::prompt::KnowledgePassage;
use crate::{
    agents::profiles::Resolved,
    chat::{
        channels,
        search::{
            passages::{
                FoundBy,
                find::{FileReader, FoundText, PassageQuestion, find_any, shorten},
            },
            shared::{self, Readers},
        },
    },
    collections::{self, StoreRef},
    db::{Conn, DbError},
    ids::ChannelId,
    tools::output::PassagePlace,
};

/// Maximum number of passages in a prompt; together at most about 2,000 tokens.
const PASSAGES_MAX: usize = 6;
/// Minimum share of the score of the best passage of the same store.
const SCORE_SHARE_MIN: f64 = 0.5;

/// Stores that are attached to an agent or to a channel.
pub(super) async fn attached_stores(
    c: &mut Conn,
    agent: &Resolved,
    channel: ChannelId,
) -> Result<Vec<StoreRef>, DbError> {
    let names = agent.profile.vector_stores();
    let of_channel = channels::list_stores(c, channel).await?;
    let of_channel = of_channel.iter().map(String::as_str);
    let mut stores: Vec<StoreRef> = Vec::new();
    for named in names
        .into_iter()
        .chain(of_channel)
        .filter_map(StoreRef::parse)
    {
        if !stores.contains(&named) {
            stores.push(named);
        }
    }
    Ok(stores)
}

/// Finds the passages of the attached stores that match a question, best first, with numbers from 1; those that were found by meaning only
/// come last. Stores that not all readers of the answer can read are left out.
pub(super) async fn find(
    c: &mut Conn,
    agent: &Resolved,
    readers: &Readers,
    question: PassageQuestion<'_>,
) -> Result<Vec<KnowledgePassage>, DbError> {
    let stores = attached_stores(c, agent, readers.channel).await?;
    if stores.is_empty() || question.text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let Some(is_alone) = shared::is_alone(c, readers).await? else {
        return Ok(Vec::new());
    };
    let reader = FileReader {
        workspace: readers.workspace,
        user: readers.requester,
        shared_in: (!is_alone).then_some(readers.channel.0),
    };
    let mut best: Vec<FoundText> = Vec::new();
    for named in &stores {
        let Some(files) = collections::find_for(c, reader, named).await? else {
            continue;
        };
        let found = find_any(c, reader, files.filter(), question, PASSAGES_MAX).await?;
        for passage in found {
            let place = |of: &FoundText| (of.file, of.part, of.from);
            let is_known = best.iter().any(|known| place(known) == place(&passage));
            let is_good = passage.found_by == FoundBy::Meaning || passage.score >= SCORE_SHARE_MIN;
            if is_good && !is_known {
                best.push(passage);
            }
        }
    }
    best.sort_by(|a, b| b.score.total_cmp(&a.score));
    let numbered = (1..).zip(shorten(best, PASSAGES_MAX));
    Ok(numbered
        .map(|(number, found)| KnowledgePassage::of(number, found))
        .collect())
}

impl KnowledgePassage {
    fn of(number: i64, found: FoundText) -> Self {
        let text = match found.header {
            Some(header) => format!("{header}\n{}", found.text),
            None => found.text,
        };
        Self {
            number,
            file: found.file,
            place: PassagePlace {
                file: found.file,
                part: found.part,
                from: found.from,
                to: found.to,
            },
            uploader: found.created_by,
            name: found.name,
            label: found.label,
            text,
            by_meaning: found.found_by == FoundBy::Meaning,
            is_trusted: found.is_trusted,
        }
    }
}
