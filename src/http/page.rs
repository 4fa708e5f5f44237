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
    match text {
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

/// An optional id of a query.
///
/// # Errors
/// 400 when it does not parse.
pub fn parse_id<Id: std::str::FromStr<Err = IdError>>(
    text: Option<&str>,
    param: &'static str,
) -> Result<Option<Id>, ApiError> {
    text.map(|t| {
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

impl<Id: PartialEq + Copy> Page<Id> {
    /// The page of a list that is short enough to be read whole; `rows` stand in order of creation.
    ///
    /// # Errors
    /// 404 when `after` or `before` is not among them.
    pub fn cut<T: Serialize>(
        &self,
        rows: Vec<T>,
        id: impl Fn(&T) -> Id,
    ) -> Result<List<T>, ApiError>
    where
        Id: std::fmt::Display,
    {
        let place = |wanted: Id| {
            rows.iter()
                .position(|row| id(row) == wanted)
                .ok_or_else(|| {
                    ApiError::not_found("cursor_not_found", format!("{wanted} is not in this list"))
                })
        };
        let from = self.after.map(place).transpose()?.map_or(0, |i| i + 1);
        let to = self.before.map(place).transpose()?.unwrap_or(rows.len());
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        // One more than the limit, on the side that is asked for.
        let (from, to) = if self.before.is_some() {
            (to.saturating_sub(limit + 1), to)
        } else {
            (from, rows.len().min(from + limit + 1))
        };
        let rows = rows.into_iter().skip(from).take(to - from).collect();
        Ok(List::new(rows, self.limit, self.before.is_some(), |row| {
            id(row).to_string()
        }))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: i64, after: Option<u32>, before: Option<u32>) -> Result<List<u32>, ApiError> {
        Page {
            limit,
            after,
            before,
        }
        .cut(vec![10, 20, 30, 40], |row| *row)
    }

    #[test]
    fn a_short_list_is_paged_in_both_directions() {
        let first = page(2, None, None).unwrap();
        assert_eq!((first.data, first.has_more), (vec![10, 20], true));
        let next = page(2, Some(20), None).unwrap();
        assert_eq!((next.data, next.has_more), (vec![30, 40], false));
        let back = page(2, None, Some(40)).unwrap();
        assert_eq!((back.data, back.has_more), (vec![20, 30], true));
        assert!(page(2, Some(25), None).is_err());
    }
}
