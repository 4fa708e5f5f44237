//! Lists: `{"object":"list","data":[…],"has_more":…,"first_id":…,"last_id":…}`, paged by key.

use serde::{Deserialize, Serialize};

use super::ApiError;
use crate::ids::IdError;

pub const LIMIT_MAX: i64 = 100;

/// The query of a list in order of creation.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// 1 to 100; 20 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    pub limit: Option<String>,
    /// Only what was made after the object with this id.
    pub after: Option<String>,
    /// Only what was made before the object with this id.
    pub before: Option<String>,
}

/// A parsed `PageQuery`.
#[derive(Debug)]
pub struct Page<Id> {
    pub limit: i64,
    pub after: Option<Id>,
    pub before: Option<Id>,
}

/// # Errors
/// 400 when it is no number from 1 to 100; never clamped.
pub fn parse_limit(text: Option<&str>, default: i64) -> Result<i64, ApiError> {
    match text.filter(|t| !t.is_empty()) {
        None => Ok(default),
        Some(text) => match text.parse::<i64>() {
            Ok(n @ 1..=LIMIT_MAX) => Ok(n),
            _ => Err(ApiError::invalid(
                "invalid_limit",
                format!("limit is a number from 1 to {LIMIT_MAX}, not `{text}`"),
                "limit",
            )),
        },
    }
}

/// An optional id of a query; empty counts as absent.
///
/// # Errors
/// 400 when it does not parse.
pub fn parse_id<Id: std::str::FromStr<Err = IdError>>(
    text: Option<&str>,
    param: &'static str,
) -> Result<Option<Id>, ApiError> {
    text.filter(|t| !t.is_empty())
        .map(|t| {
            t.parse()
                .map_err(|e: IdError| ApiError::invalid("invalid_id", e.to_string(), param))
        })
        .transpose()
}

impl PageQuery {
    /// # Errors
    /// 400 for a bad limit or id, and for `after` together with `before`.
    pub fn parse<Id: std::str::FromStr<Err = IdError>>(
        &self,
        default_limit: i64,
    ) -> Result<Page<Id>, ApiError> {
        let page = Page {
            limit: parse_limit(self.limit.as_deref(), default_limit)?,
            after: parse_id(self.after.as_deref(), "after")?,
            before: parse_id(self.before.as_deref(), "before")?,
        };
        if page.after.is_some() && page.before.is_some() {
            return Err(ApiError::invalid(
                "invalid_cursor",
                "give `after` or `before`, not both".to_owned(),
                "before",
            ));
        }
        Ok(page)
    }
}

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct List<T> {
    /// Always `list`.
    pub object: &'static str,
    pub data: Vec<T>,
    /// Whether there is more in the direction that was asked for.
    pub has_more: bool,
    pub first_id: Option<String>,
    pub last_id: Option<String>,
    /// Of lists in another order: give it back as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// From up to `limit + 1` rows, oldest first; the surplus one only says that there is more. With `backwards` (the rows
    /// before something) it is the first, else the last.
    pub fn new(mut rows: Vec<T>, limit: i64, backwards: bool, id: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        if has_more && backwards {
            rows.remove(0);
        }
        rows.truncate(limit);
        let first_id = rows.first().map(&id);
        let last_id = rows.last().map(&id);
        Self {
            object: "list",
            data: rows,
            has_more,
            first_id,
            last_id,
            next_cursor: None,
        }
    }
}
