//! `search_files`.

use serde_json::{Map, Value};

use super::{files, options::Options, places, search::quoted};
use crate::{
    agents::derived::SourceId,
    chat::search::passages::{
        self, FoundBy,
        find::{FileReader, FoundText, PassageFilter, PassageQuestion},
    },
    collections::{self, StoreRef},
    db::Conn,
    ids::ChannelId,
    meaning::VectorAnswer,
    tasks::actions::{ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        output::{Handled, PassagePlace, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

/// Maximum length of a query in characters.
pub(super) const QUERY_CHARS_MAX: usize = 500;
/// Note for the model about a hit whose words are not those of the query.
pub const MEANING_ONLY: &str = " (found by meaning only)";
/// Maximum number of hits of which those in permitted channels are selected.
const FOUND_MAX: usize = 100;

/// # Errors
/// `bad_arguments`, `not_found` for an unknown channel or file.
pub(super) async fn search(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
    asked: &VectorAnswer,
) -> Result<ToolOutput, CallError> {
    let arguments = Arguments::of(
        arguments,
        &["query", "collection", "channel", "file", "limit"],
    )?;
    let query = arguments.required("query")?;
    if query.chars().count() > QUERY_CHARS_MAX {
        let text = format!("`query` has more than {QUERY_CHARS_MAX} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, text).into());
    }
    let limit = usize::try_from(options.limit(&arguments)?).unwrap_or(1);
    let channels = options.channels(c, of, rights, &arguments).await?;
    let file = match arguments.text("file")? {
        Some(named) => Some(files::find_id(c, of, named).await?),
        None => None,
    };
    let reader = FileReader {
        workspace: of.workspace,
        user: rights.requester,
        shared_in: rights.shared_in,
    };
    let searched = match arguments.text("collection")? {
        Some(named) => {
            let missing = || places::missing("no such collection, or it has expired");
            let named = StoreRef::parse(named).ok_or_else(missing)?;
            let found = collections::find_for(c, reader, &named).await?;
            found.ok_or_else(missing)?.filter()
        }
        None => PassageFilter::default(),
    };
    let only_channel = match channels.as_deref() {
        Some([channel]) => Some(*channel),
        _ => None,
    };
    let is_other = |channel: ChannelId| only_channel.is_some_and(|only| only != channel);
    if searched.channel.is_some_and(is_other) {
        return Ok(show(&[]));
    }
    let filter = PassageFilter {
        channel: searched.channel.or(only_channel),
        file,
        store: searched.store,
    };
    let count = if options.permits_all() {
        limit
    } else {
        FOUND_MAX
    };
    let question = PassageQuestion::of(query, asked);
    let mut found = passages::find::find_any(c, reader, filter, question, count).await?;
    found.retain(|passage| {
        let is_permitted = match passage.channel {
            Some(channel) => options.permit(channel),
            None => options.permits_all(),
        };
        is_permitted && passage.score >= options.score_share
    });
    Ok(show(&passages::find::shorten(found, limit)))
}

/// Formats hits, separated by blank lines:
///
/// ```text
/// [P1] Handbook.pdf, page 12 (part 12):
/// > The text of the passage.
/// ```
fn show(found: &[FoundText]) -> ToolOutput {
    let mut output = ToolOutput {
        count: Some(found.len()),
        ..ToolOutput::default()
    };
    if found.is_empty() {
        output.own("No passages found.");
    }
    for (n, passage) in found.iter().enumerate() {
        if n > 0 {
            output.own("\n\n");
        }
        output.own("[");
        output.handle(Handled::Passage(PassagePlace {
            file: passage.file,
            part: passage.part,
            from: passage.from,
            to: passage.to,
        }));
        output.own("] ");
        output.data(one_line(&passage.name));
        if passage.label != passage.name {
            output.own(", ");
            output.data(one_line(&passage.label));
        }
        let heading = passage.heading.as_deref().unwrap_or_default();
        if !heading.is_empty() && !passage.label.ends_with(heading) {
            output.own(", ");
            output.data(one_line(heading));
        }
        output.own(format!(" (part {})", passage.part));
        if passage.found_by == FoundBy::Meaning {
            output.own(MEANING_ONLY);
        }
        output.own(":\n");
        let header = passage.header.as_deref().unwrap_or_default();
        let text = format!("{header}\n{}", passage.text);
        output.data(quoted(text.trim_start()));
        output.messages.extend(passage.message);
        output.cites.extend([
            SourceId::User(passage.created_by),
            SourceId::File(passage.file),
        ]);
        let source = ActionSource::new(TaintKind::File, passage.file.0, passage.name.clone());
        if !passage.is_trusted && !output.taints.contains(&source) {
            output.taints.push(source);
        }
    }
    output
}
