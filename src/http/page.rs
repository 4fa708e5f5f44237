//! Lists: `{"object":"list","data":[…],"has_more":…,"first_id":…,"last_id":…}`, with keyset pagination.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{Array, Ref};

use super::error::{ApiError, ErrorCode};
use crate::{cursor::PageRange, text_enum::constant};

pub const LIMIT_MAX: i64 = 100;

/// Page size of a list, from 1 to 100. Other values are rejected, not clamped.
#[derive(Debug, Clone, Copy)]
pub struct Limit(i64);

impl Limit {
    /// Returns `None` unless the limit is between 1 and 100.
    pub fn new(limit: i64) -> Option<Self> {
        (1..=LIMIT_MAX).contains(&limit).then_some(Self(limit))
    }

    pub fn or(limit: Option<Self>, default: i64) -> i64 {
        limit.map_or(default, |limit| limit.0)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        match text.parse() {
            Ok(n @ 1..=LIMIT_MAX) => Ok(Self(n)),
            _ => Err(serde::de::Error::custom(format!(
                "limit must be a number from 1 to {LIMIT_MAX}, not `{text}`"
            ))),
        }
    }
}

impl utoipa::PartialSchema for Limit {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Integer)
            .minimum(Some(1))
            .maximum(Some(LIMIT_MAX))
            .examples([20])
            .into()
    }
}

impl utoipa::ToSchema for Limit {}

/// Query of a list that is sorted by creation time.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery<Id: utoipa::ToSchema> {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    pub limit: Option<Limit>,
    /// Only objects created after the one with this ID.
    pub after: Option<Id>,
    /// Only objects created before the one with this ID.
    pub before: Option<Id>,
}

/// Range of a list.
#[derive(Debug)]
pub struct Page<Id> {
    pub limit: i64,
    pub after: Option<Id>,
    pub before: Option<Id>,
}

impl<Id: utoipa::ToSchema> PageQuery<Id> {
    /// Checks the query, and applies the default limit.
    ///
    /// # Errors
    /// 400 for `after` together with `before`.
    pub fn page(self, default_limit: i64) -> Result<Page<Id>, ApiError> {
        if self.after.is_some() && self.before.is_some() {
            return Err(ApiError::invalid(
                ErrorCode::InvalidCursor,
                "send either `after` or `before`, not both".to_owned(),
                "before",
            ));
        }
        Ok(Page {
            limit: Limit::or(self.limit, default_limit),
            after: self.after,
            before: self.before,
        })
    }
}

impl<Id: Copy> Page<Id> {
    pub fn range(&self) -> PageRange<Id> {
        PageRange {
            after: self.after,
            before: self.before,
        }
    }
}

impl<Id: PartialEq + Display> Page<Id> {
    /// Cuts the page out of a list that is short enough to be loaded completely. `rows` must be in the order of the list.
    ///
    /// # Errors
    /// 404 if the `after` or `before` object is not in the list.
    pub fn cut<T: Serialize>(
        &self,
        rows: Vec<T>,
        id: impl Fn(&T) -> Id,
    ) -> Result<List<T>, ApiError> {
        let place = |wanted: &Id| {
            rows.iter()
                .position(|row| id(row) == *wanted)
                .ok_or_else(|| {
                    ApiError::not_found(
                        ErrorCode::CursorNotFound,
                        format!("{wanted} is not in this list"),
                    )
                })
        };
        let after = self.after.as_ref().map(place).transpose()?;
        let from = after.map_or(0, |i| i + 1);
        let before = self.before.as_ref().map(place).transpose()?;
        let to = before.unwrap_or(rows.len());
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        // Selects one row more than the limit, in the requested direction.
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

constant! { pub ListObject = "list" }

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct List<T> {
    #[schema(inline)]
    pub object: ListObject,
    #[schema(schema_with = items::<T>)]
    pub data: Vec<T>,
    /// True if more objects follow in the requested direction.
    pub has_more: bool,
    pub first_id: Option<String>,
    pub last_id: Option<String>,
    /// Value to send as `cursor` to get the next page; null on the last page. Present only in lists that are not sorted by creation
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    next_cursor: Option<Option<String>>,
}

/// Schema of `List::data`: an array whose items reference the schema of `T`.
fn items<T: utoipa::ToSchema>() -> Array {
    Array::new(Ref::from_schema_name(T::name()))
}

impl<T> List<T> {
    /// Builds a page from up to `limit + 1` rows, oldest first. An extra row is removed and only sets `has_more`; it is the last row,
    /// or the first one if `backwards` is set (for `before`).
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
            object: ListObject,
            data: rows,
            has_more,
            first_id,
            last_id,
            next_cursor: None,
        }
    }

    /// Adds the cursor of the next page, for a list that is not sorted by creation time; `next` is `None` on the last page.
    #[must_use]
    pub fn continued_at(mut self, next: Option<String>) -> Self {
        self.has_more = next.is_some();
        self.next_cursor = Some(next);
        self
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
