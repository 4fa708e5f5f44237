//! Input of a draft edit: checks lengths, counts, sources, and owners.

use std::collections::HashSet;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{
    ForkError,
    draft::{
        ACTION_ITEMS_MAX, CONCLUSION_UNITS_MAX, DEFERRED_ITEMS_MAX, HEADLINE_UNITS_MAX,
        KEY_POINTS_MAX, OPEN_QUESTIONS_MAX, OWNER_NAME_UNITS_MAX, SOURCES_MAX, TEXT_UNITS_MAX,
    },
    drafts::Content,
    resolution::{ResolutionItem, SourcedText},
};
use crate::{
    chat::forks::Fork,
    db::{Conn, DbError, is_visible_person},
    ids::{ActionItemId, MessageId, UserId, WorkspaceId},
    patch::present,
};

/// A day in the format `YYYY-MM-DD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day(pub String);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok();
        day.filter(|day| day.format("%Y-%m-%d").to_string() == text)
            .map(|_| Self(text.clone()))
            .ok_or_else(|| {
                serde::de::Error::custom(format!("`{text}` is not a date: use YYYY-MM-DD"))
            })
    }
}

impl utoipa::PartialSchema for Day {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("`YYYY-MM-DD`"))
            .pattern(Some("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))
            .into()
    }
}

impl utoipa::ToSchema for Day {}

#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PointForm {
    /// One line, at most 500 characters.
    text: String,
    /// Messages of the fork, or the forked message.
    #[serde(default)]
    sources: Vec<MessageId>,
}

#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemForm {
    /// ID of an existing item of the draft; omit it for a new item.
    id: Option<ActionItemId>,
    /// One line, at most 500 characters.
    text: String,
    /// ID of the owner, who must be a member.
    owner_id: Option<UserId>,
    /// Name of an owner who is not a member; ignored if `owner_id` is set.
    owner_name: Option<String>,
    due: Option<Day>,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    sources: Vec<MessageId>,
}

/// Changes to a draft; each list is replaced as a whole. Fields that only the server sets are
/// ignored, so a resolution from `GET` can be sent back.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolutionForm {
    /// One line, at most 120 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    headline: Option<String>,
    /// One or two sentences, at most 600 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    conclusion: Option<String>,
    /// At most 4 entries.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    key_points: Option<Vec<PointForm>>,
    /// At most 20 entries.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    action_items: Option<Vec<ItemForm>>,
    /// At most 10 entries.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    open_questions: Option<Vec<PointForm>>,
    /// At most 10 entries.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    deferred_items: Option<Vec<PointForm>>,
    #[serde(default, rename = "id")]
    #[schema(ignore)]
    _id: IgnoredAny,
    #[serde(default, rename = "workspace_id")]
    #[schema(ignore)]
    _workspace_id: IgnoredAny,
    #[serde(default, rename = "channel_id")]
    #[schema(ignore)]
    _channel_id: IgnoredAny,
    #[serde(default, rename = "thread_id")]
    #[schema(ignore)]
    _thread_id: IgnoredAny,
    #[serde(default, rename = "fork_id")]
    #[schema(ignore)]
    _fork_id: IgnoredAny,
    #[serde(default, rename = "fork_title")]
    #[schema(ignore)]
    _fork_title: IgnoredAny,
    #[serde(default, rename = "version")]
    #[schema(ignore)]
    _version: IgnoredAny,
    #[serde(default, rename = "status")]
    #[schema(ignore)]
    _status: IgnoredAny,
    #[serde(default, rename = "generated_by")]
    #[schema(ignore)]
    _generated_by: IgnoredAny,
    #[serde(default, rename = "fallback_reason")]
    #[schema(ignore)]
    _fallback_reason: IgnoredAny,
    #[serde(default, rename = "edited_by")]
    #[schema(ignore)]
    _edited_by: IgnoredAny,
    #[serde(default, rename = "covers_seq")]
    #[schema(ignore)]
    _covers_seq: IgnoredAny,
    #[serde(default, rename = "revision")]
    #[schema(ignore)]
    _revision: IgnoredAny,
    #[serde(default, rename = "message_id")]
    #[schema(ignore)]
    _message_id: IgnoredAny,
    #[serde(default, rename = "published_by")]
    #[schema(ignore)]
    _published_by: IgnoredAny,
    #[serde(default, rename = "created_at")]
    #[schema(ignore)]
    _created_at: IgnoredAny,
    #[serde(default, rename = "updated_at")]
    #[schema(ignore)]
    _updated_at: IgnoredAny,
    #[serde(default, rename = "published_at")]
    #[schema(ignore)]
    _published_at: IgnoredAny,
}

impl ResolutionForm {
    /// Checks everything that does not need database access: lengths and counts.
    ///
    /// # Errors
    /// `Invalid`.
    fn check(&self) -> Result<(), ForkError> {
        let lists = [
            ("key_points", self.key_points.as_deref(), KEY_POINTS_MAX),
            (
                "open_questions",
                self.open_questions.as_deref(),
                OPEN_QUESTIONS_MAX,
            ),
            (
                "deferred_items",
                self.deferred_items.as_deref(),
                DEFERRED_ITEMS_MAX,
            ),
        ];
        for (name, points, max) in lists {
            let points = points.unwrap_or_default();
            check_count(name, points.len(), max)?;
            for (n, point) in points.iter().enumerate() {
                check_text(&format!("{name}[{n}].text"), &point.text, TEXT_UNITS_MAX)?;
                check_count(
                    &format!("{name}[{n}].sources"),
                    point.sources.len(),
                    SOURCES_MAX,
                )?;
            }
        }
        let items = self.action_items.as_deref().unwrap_or_default();
        check_count("action_items", items.len(), ACTION_ITEMS_MAX)?;
        for (n, item) in items.iter().enumerate() {
            let at = |field: &str| format!("action_items[{n}].{field}");
            check_text(&at("text"), &item.text, TEXT_UNITS_MAX)?;
            check_count(&at("sources"), item.sources.len(), SOURCES_MAX)?;
            if let Some(name) = &item.owner_name {
                check_length(&at("owner_name"), name, OWNER_NAME_UNITS_MAX)?;
            }
        }
        let ids: HashSet<ActionItemId> = items.iter().filter_map(|item| item.id).collect();
        if ids.len() < items.iter().filter(|item| item.id.is_some()).count() {
            return Err(ForkError::Invalid(
                "two action items have the same id".to_owned(),
                "action_items".to_owned(),
            ));
        }
        if let Some(headline) = &self.headline {
            check_length("headline", headline, HEADLINE_UNITS_MAX)?;
        }
        if let Some(conclusion) = &self.conclusion {
            check_length("conclusion", conclusion, CONCLUSION_UNITS_MAX)?;
        }
        Ok(())
    }

    /// Applies the form of an editor to `base`.
    ///
    /// # Errors
    /// `Invalid`, `InvalidSource`, `NoSuchMember`, `NoSuchItem`.
    pub(super) async fn apply(
        &self,
        c: &mut Conn,
        fork: &Fork,
        base: &Content,
        editor: UserId,
    ) -> Result<Content, ForkError> {
        self.check()?;
        self.check_sources(c, fork, base).await?;
        let mut content = base.clone();
        if let Some(headline) = &self.headline {
            content.headline = one_line(headline);
        }
        if let Some(conclusion) = &self.conclusion {
            content.conclusion = one_line(conclusion);
        }
        for (given, place) in [
            (&self.key_points, &mut content.key_points),
            (&self.open_questions, &mut content.open_questions),
            (&self.deferred_items, &mut content.deferred_items),
        ] {
            if let Some(points) = given {
                *place = points.iter().map(PointForm::content).collect();
            }
        }
        if let Some(items) = &self.action_items {
            content.action_items = Vec::with_capacity(items.len());
            for (n, item) in items.iter().enumerate() {
                let known = base.action_items.iter().find(|old| Some(old.id) == item.id);
                if let Some(id) = item.id.filter(|_| known.is_none()) {
                    return Err(ForkError::NoSuchItem(
                        id.to_string(),
                        format!("action_items[{n}].id"),
                    ));
                }
                let owner_name =
                    match (item.owner_id, known) {
                        // An unchanged owner is not checked again, because the owner may have left the workspace since.
                        (Some(owner), Some(old)) if old.owner_id == Some(owner) => {
                            old.owner_name.clone()
                        }
                        (Some(owner), _) => {
                            let name = member_name(c, fork.workspace_id, owner, editor).await?;
                            let param = || format!("action_items[{n}].owner_id");
                            Some(name.ok_or_else(|| {
                                ForkError::NoSuchMember(owner.to_string(), param())
                            })?)
                        }
                        (None, _) => item
                            .owner_name
                            .as_deref()
                            .map(one_line)
                            .filter(|name| !name.is_empty()),
                    };
                content.action_items.push(ResolutionItem {
                    id: item.id.unwrap_or_default(),
                    text: one_line(&item.text),
                    owner_id: item.owner_id,
                    owner_name,
                    due: item.due.as_ref().map(|day| day.0.clone()),
                    done: item.done,
                    sources: distinct(&item.sources),
                });
            }
        }
        Ok(content)
    }

    /// Checks that every source is a message of the fork or the forked message. Sources in `base`
    /// were already checked.
    async fn check_sources(
        &self,
        c: &mut Conn,
        fork: &Fork,
        base: &Content,
    ) -> Result<(), ForkError> {
        let mut known: HashSet<MessageId> = base.sources().collect();
        known.insert(fork.message_id);
        let points = [
            ("key_points", &self.key_points),
            ("open_questions", &self.open_questions),
            ("deferred_items", &self.deferred_items),
        ]
        .into_iter()
        .flat_map(|(name, points)| {
            points
                .iter()
                .flatten()
                .enumerate()
                .map(move |(n, point)| (name, n, &point.sources))
        });
        let items = self.action_items.iter().flatten().enumerate();
        let items = items.map(|(n, item)| ("action_items", n, &item.sources));
        for (name, n, sources) in points.chain(items) {
            for (k, source) in sources.iter().enumerate() {
                if known.contains(source) {
                    continue;
                }
                let row: Option<(MessageId,)> = c
                    .q("select id from messages where id = $1 and conversation_id = $2 and kind <> 'notice'")
                    .bind(*source)
                    .bind(fork.id)
                    .opt()
                    .await?;
                if row.is_none() {
                    return Err(ForkError::InvalidSource(
                        source.to_string(),
                        format!("{name}[{n}].sources[{k}]"),
                    ));
                }
                known.insert(*source);
            }
        }
        Ok(())
    }
}

impl PointForm {
    fn content(&self) -> SourcedText {
        SourcedText {
            text: one_line(&self.text),
            sources: distinct(&self.sources),
        }
    }
}

fn distinct(sources: &[MessageId]) -> Vec<MessageId> {
    let mut seen = HashSet::new();
    sources
        .iter()
        .copied()
        .filter(|id| seen.insert(*id))
        .collect()
}

fn check_count(param: &str, count: usize, max: usize) -> Result<(), ForkError> {
    if count > max {
        return Err(ForkError::Invalid(
            format!("{param} has {count} entries; the limit is {max}: merge or remove some"),
            param.to_owned(),
        ));
    }
    Ok(())
}

fn check_length(param: &str, text: &str, max: usize) -> Result<(), ForkError> {
    let units = one_line(text).encode_utf16().count();
    if units > max {
        return Err(ForkError::Invalid(
            format!("{param} is {units} characters; the limit is {max}: shorten it"),
            param.to_owned(),
        ));
    }
    Ok(())
}

fn check_text(param: &str, text: &str, max: usize) -> Result<(), ForkError> {
    if one_line(text).is_empty() {
        return Err(ForkError::Invalid(
            format!("{param} is blank: enter text, or remove the entry"),
            param.to_owned(),
        ));
    }
    check_length(param, text, max)
}

/// Replaces runs of white space and control characters with single spaces.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Name of a member; `None` if the person is not in the workspace, or if `reader` does not see them.
pub(super) async fn member_name(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    reader: UserId,
) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q(concat!(
            "select u.name from members m join users u on u.id = m.user_id where m.workspace_id = $1 and m.user_id = $2 and ",
            is_visible_person!("$1", "$2", "$3")
        ))
        .bind(workspace)
        .bind(user)
        .bind(reader)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}
