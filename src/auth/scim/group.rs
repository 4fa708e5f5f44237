//! Groups, as providers send them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    fault::ScimFault,
    user::{field, optional_text},
};
use crate::ids::UserId;

/// Maximum number of members in a request.
pub(super) const MEMBERS_MAX: usize = 2000;

/// A group, as a provider sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupDoc {
    pub display_name: String,
    pub external_id: Option<String>,
    pub members: BTreeSet<UserId>,
}

/// Reads the members of a request: objects with a `value`, or IDs.
///
/// # Errors
/// `invalidValue`.
pub(super) fn read_members(value: &Value) -> Result<BTreeSet<UserId>, ScimFault> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    if list.len() > MEMBERS_MAX {
        return Err(ScimFault::value(format!(
            "a request can name at most {MEMBERS_MAX} members"
        )));
    }
    let id = |member: &Value| {
        let value = match member {
            Value::Object(object) => field(object, "value"),
            other => Some(other),
        };
        let text = value.and_then(Value::as_str).unwrap_or_default();
        text.parse::<UserId>()
            .map_err(|_| ScimFault::value("`members` must name users by their `id`"))
    };
    list.iter().map(id).collect()
}

impl GroupDoc {
    /// # Errors
    /// `invalidSyntax`, `invalidValue`.
    pub(crate) fn read(value: &Value) -> Result<Self, ScimFault> {
        let Value::Object(object) = value else {
            return Err(ScimFault::syntax("send a group as an object"));
        };
        let display_name = optional_text(object, "displayName")?;
        let members = field(object, "members").map(read_members);
        Ok(Self {
            display_name: display_name
                .ok_or_else(|| ScimFault::value("`displayName` is missing"))?,
            external_id: optional_text(object, "externalId")?,
            members: members.transpose()?.unwrap_or_default(),
        })
    }
}
