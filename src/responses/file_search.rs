//! `file_search` of a request and of its agent: a function that finds passages in vector stores, with the rights of the caller.

use std::{collections::HashMap, sync::Arc};

use async_openai::types::responses::FileSearchToolCallResult;
use serde_json::{Map, Value, json};

use super::{ResponseError, ignored::Ignored};
use crate::{
    chat::search::passages::{
        FoundBy,
        find::{FileReader, PassageQuestion},
    },
    collections::{self, CollectionError, StoreHit, StoreRef, StoreSearch},
    db::Conn,
    meaning::{Meaning, VectorAnswer},
    model::FunctionTool,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        builtin::MEANING_ONLY,
        output::{Handled, PassagePlace, ToolOutput, one_line},
        runner::CallError,
    },
};

/// Type of the tool, and name of its function.
pub(super) const FILE_SEARCH: &str = "file_search";
const STORES_MAX: usize = 10;
const QUERIES_MAX: usize = 5;
const QUERY_CHARS_MAX: usize = 500;
const LIMIT_DEFAULT: usize = 8;
const LIMIT_MAX: u64 = 50;

/// The tool `file_search` of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SearchTool {
    /// Names of vector stores.
    pub stores: Vec<String>,
    /// Path of the tool in the request.
    pub path: String,
    limit: usize,
    /// Minimum share of the score of the best hit.
    score_min: f64,
    filters: Option<Value>,
    /// The tool as in the request.
    shown: Value,
}

/// Vector stores that a call can search.
#[derive(Debug, Clone)]
pub(super) struct FileSearch {
    reader: FileReader,
    stores: Vec<StoreRef>,
    limit: usize,
    score_min: f64,
    filters: Option<Value>,
    /// The tool of the request.
    shown: Option<Value>,
    includes: Includes,
    meaning: Arc<Meaning>,
}

/// Parts of a search that the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Includes {
    Queries,
    Results,
}

/// A search that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Searched {
    pub queries: Vec<String>,
    /// `None` if the client did not ask for them.
    pub results: Option<Vec<FileSearchToolCallResult>>,
}

/// Parses the tool `file_search` of a request; `None` if there is none.
///
/// # Errors
/// `Invalid` with the path, such as `tools[0].vector_store_ids`.
pub(super) fn read_search(
    list: &[Value],
    ignored: &Ignored,
) -> Result<Option<SearchTool>, ResponseError> {
    let mut found: Option<SearchTool> = None;
    for (n, value) in list.iter().enumerate() {
        let Some(object) = value.as_object() else {
            continue;
        };
        if object.get("type").is_none_or(|kind| kind != FILE_SEARCH) {
            continue;
        }
        let fields = ignored.fields(object, format!("tools[{n}]"));
        fields.get("type");
        let wrong = |field: &str, rule: &str| {
            Err(ResponseError::invalid(
                fields.path_of(field),
                rule.to_owned(),
            ))
        };
        if found.is_some() {
            return wrong(
                "type",
                "a request can have one tool of the type file_search",
            );
        }
        let names = fields.get("vector_store_ids").and_then(Value::as_array);
        let names = names.map(Vec::as_slice).unwrap_or_default().iter();
        let stores: Option<Vec<String>> =
            names.map(|name| name.as_str().map(str::to_owned)).collect();
        let Some(stores) = stores.filter(|stores| (1..=STORES_MAX).contains(&stores.len())) else {
            return wrong(
                "vector_store_ids",
                "vector_store_ids must be a list of 1 to 10 vector stores",
            );
        };
        let limit = match fields.get("max_num_results") {
            None => LIMIT_DEFAULT,
            Some(number) => match number.as_u64().filter(|n| (1..=LIMIT_MAX).contains(n)) {
                Some(number) => usize::try_from(number).unwrap_or(LIMIT_DEFAULT),
                None => return wrong("max_num_results", "max_num_results must be from 1 to 50"),
            },
        };
        let filters = fields.get("filters").cloned();
        if let Some(filters) = &filters
            && let Err(e) = collections::check_filters(filters)
        {
            return wrong("filters", &e.to_string());
        }
        let ranking = fields.get("ranking_options").and_then(Value::as_object);
        let ranking = ranking.map(|of| ignored.fields(of, fields.path_of("ranking_options")));
        let score = ranking.as_ref().and_then(|of| of.get("score_threshold"));
        let score_min = match score {
            None => 0.0,
            Some(score) => match score.as_f64().filter(|score| (0.0..=1.0).contains(score)) {
                Some(score) => score,
                None => return wrong("ranking_options", "score_threshold must be from 0 to 1"),
            },
        };
        if let Some(ranking) = &ranking {
            ranking.get("ranker");
        }
        found = Some(SearchTool {
            path: fields.path.clone(),
            stores,
            limit,
            score_min,
            filters,
            shown: value.clone(),
        });
    }
    Ok(found)
}

impl SearchTool {
    /// Finds the vector stores that the request names.
    ///
    /// # Errors
    /// `NoSuchStore` for one that does not exist, has expired, or cannot be read by the caller.
    pub(super) async fn find_stores(
        &self,
        c: &mut Conn,
        reader: FileReader,
    ) -> Result<Vec<StoreRef>, ResponseError> {
        let mut stores = Vec::with_capacity(self.stores.len());
        for name in &self.stores {
            let absent = || ResponseError::NoSuchStore {
                name: name.chars().take(80).collect(),
                param: format!("{}.vector_store_ids", self.path),
            };
            let named = StoreRef::parse(name).ok_or_else(absent)?;
            if collections::find_for(c, reader, &named).await?.is_none() {
                return Err(absent());
            }
            if !stores.contains(&named) {
                stores.push(named);
            }
        }
        Ok(stores)
    }
}

impl FileSearch {
    /// The search of a call in the vector stores of its request.
    pub(super) fn of(
        reader: FileReader,
        tool: Option<&SearchTool>,
        stores: Vec<StoreRef>,
        includes: Includes,
        meaning: &Arc<Meaning>,
    ) -> Self {
        Self {
            reader,
            stores,
            limit: tool.map_or(LIMIT_DEFAULT, |tool| tool.limit),
            score_min: tool.map_or(0.0, |tool| tool.score_min),
            filters: tool.and_then(|tool| tool.filters.clone()),
            shown: tool.map(|tool| tool.shown.clone()),
            includes,
            meaning: Arc::clone(meaning),
        }
    }

    /// Adds the vector stores of the agent.
    pub(super) fn add_stores(&mut self, names: &[&str]) {
        for named in names.iter().filter_map(|name| StoreRef::parse(name)) {
            if !self.stores.contains(&named) {
                self.stores.push(named);
            }
        }
    }

    /// Checks whether there is nothing to search.
    pub(super) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// The tool of the request, as the response shows it.
    pub(super) fn shown(&self) -> Option<&Value> {
        self.shown.as_ref()
    }

    pub(super) fn definition() -> FunctionTool {
        FunctionTool {
            name: FILE_SEARCH.to_owned(),
            description: Some(
                "Search the files of the attached collections. Each hit has a handle such as [P1]: cite it after a sentence that uses it."
                    .to_owned(),
            ),
            parameters: Some(json!({
                "type": "object",
                "properties": {"queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": QUERIES_MAX,
                    "description": "Words to search for.",
                }},
                "required": ["queries"],
                "additionalProperties": false,
            })),
            strict: None,
        }
    }

    /// Requests the vectors of the queries, before a connection to the database is held.
    ///
    /// # Errors
    /// `bad_arguments`.
    pub(super) async fn ask(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<Vec<VectorAnswer>, CallError> {
        let FileReader {
            workspace, user, ..
        } = self.reader;
        let mut asking = Vec::new();
        for query in queries(arguments)? {
            asking.push(self.meaning.ask(workspace, user, query));
        }
        Ok(futures::future::join_all(asking).await)
    }

    /// Searches all vector stores that the caller can read now; `asked` has the vectors of the queries. Returns the result for the model,
    /// best hits first, and that for the caller.
    ///
    /// # Errors
    /// `bad_arguments`.
    pub(super) async fn run(
        &self,
        c: &mut Conn,
        arguments: &Map<String, Value>,
        asked: &[VectorAnswer],
    ) -> Result<(ToolOutput, Searched), CallError> {
        let queries = queries(arguments)?;
        let mut best: Vec<StoreHit> = Vec::new();
        for (&text, asked) in queries.iter().zip(asked) {
            for named in &self.stores {
                let search = StoreSearch {
                    question: PassageQuestion::of(text, asked),
                    filters: self.filters.as_ref(),
                    limit: self.limit,
                    score_min: self.score_min,
                };
                let found = match collections::search_for(c, self.reader, named, &search).await {
                    Ok(found) => found,
                    // Deleted, expired, or hidden since the call began.
                    Err(CollectionError::NotFound | CollectionError::Expired(_)) => continue,
                    Err(CollectionError::Db(e)) => return Err(e.into()),
                    Err(e) => {
                        return Err(
                            ToolFault::new(ToolErrorCode::BadArguments, e.to_string()).into()
                        );
                    }
                };
                add_hits(&mut best, found);
            }
        }
        best.sort_by(|a, b| b.passage.score.total_cmp(&a.passage.score));
        best.truncate(self.limit);
        let searched = Searched {
            queries: queries.into_iter().map(str::to_owned).collect(),
            results: (self.includes == Includes::Results)
                .then(|| best.iter().map(result).collect()),
        };
        Ok((show(&best), searched))
    }
}

/// Queries of a call.
fn queries(arguments: &Map<String, Value>) -> Result<Vec<&str>, CallError> {
    let arguments = Arguments::of(arguments, &["queries"])?;
    let queries = arguments.texts("queries", QUERIES_MAX)?;
    let is_wrong =
        |query: &&str| query.trim().is_empty() || query.chars().count() > QUERY_CHARS_MAX;
    if queries.is_empty() || queries.iter().any(is_wrong) {
        let text = format!("`queries` must have texts of 1 to {QUERY_CHARS_MAX} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, text).into());
    }
    Ok(queries)
}

/// Adds hits, of which each passage is kept once, with its best score.
fn add_hits(best: &mut Vec<StoreHit>, found: Vec<StoreHit>) {
    for hit in found {
        let known = best.iter_mut().find(|known| place(known) == place(&hit));
        match known {
            Some(known) if known.passage.score < hit.passage.score => *known = hit,
            Some(_) => {}
            None => best.push(hit),
        }
    }
}

fn place(hit: &StoreHit) -> PassagePlace {
    PassagePlace {
        file: hit.passage.file,
        part: hit.passage.part,
        from: hit.passage.from,
        to: hit.passage.to,
    }
}

fn text_of(hit: &StoreHit) -> String {
    match &hit.passage.header {
        Some(header) => format!("{header}\n{}", hit.passage.text),
        None => hit.passage.text.clone(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the field of the API's type has single precision"
)]
fn result(hit: &StoreHit) -> FileSearchToolCallResult {
    let attributes: HashMap<String, Value> = hit.attributes.clone().into_iter().collect();
    FileSearchToolCallResult {
        attributes,
        file_id: hit.passage.file.to_string(),
        filename: hit.passage.name.clone(),
        score: hit.passage.score as f32,
        text: text_of(hit),
    }
}

/// Formats hits like `search_files`.
fn show(hits: &[StoreHit]) -> ToolOutput {
    let mut output = ToolOutput {
        count: Some(hits.len()),
        ..ToolOutput::default()
    };
    if hits.is_empty() {
        output.own("No passages found.");
    }
    for (n, hit) in hits.iter().enumerate() {
        if n > 0 {
            output.own("\n\n");
        }
        output.own("[");
        output.handle(Handled::Passage(place(hit)));
        output.own("] ");
        output.data(one_line(&hit.passage.name));
        if hit.passage.label != hit.passage.name {
            output.own(", ");
            output.data(one_line(&hit.passage.label));
        }
        if hit.passage.found_by == FoundBy::Meaning {
            output.own(MEANING_ONLY);
        }
        output.own(":\n> ");
        output.data(text_of(hit).replace('\n', "\n> "));
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_names_one_to_ten_stores() {
        let read = |tool: Value| read_search(&[tool], &Ignored::default());
        let tool = json!({"type": "file_search", "vector_store_ids": ["vs_a"], "max_num_results": 3,
            "ranking_options": {"ranker": "auto", "score_threshold": 0.5}});
        let found = read(tool.clone()).unwrap().unwrap();
        assert_eq!((found.limit, found.stores.len()), (3, 1));
        assert_eq!(found.shown, tool);
        assert!(
            read(json!({"type": "function", "name": "f"}))
                .unwrap()
                .is_none()
        );
        let many: Vec<String> = (0..11).map(|n| format!("vs_{n}")).collect();
        for (wrong, param) in [
            (json!({}), "tools[0].vector_store_ids"),
            (json!({"vector_store_ids": []}), "tools[0].vector_store_ids"),
            (
                json!({"vector_store_ids": [1]}),
                "tools[0].vector_store_ids",
            ),
            (
                json!({"vector_store_ids": many}),
                "tools[0].vector_store_ids",
            ),
            (
                json!({"vector_store_ids": ["vs_a"], "max_num_results": 0}),
                "tools[0].max_num_results",
            ),
            (
                json!({"vector_store_ids": ["vs_a"], "filters": {"type": "like"}}),
                "tools[0].filters",
            ),
            (
                json!({"vector_store_ids": ["vs_a"], "ranking_options": {"score_threshold": 2}}),
                "tools[0].ranking_options",
            ),
        ] {
            let mut tool = wrong.clone();
            tool["type"] = json!("file_search");
            match read(tool) {
                Err(ResponseError::Invalid(_, at)) => assert_eq!(at, param, "{wrong}"),
                other => panic!("{wrong}: {other:?}"),
            }
        }
    }
}
