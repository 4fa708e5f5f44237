//! Groups of a provider. Those that rules name decide roles.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    change::{Op, PatchForm},
    effects::MoveChannels,
    fault::{ScimFault, ScimType},
    filter::{Filter, Literal, Term},
    group::{GroupDoc, read_members},
    people::group_names,
    shown::{Location, Range, Selection, list_response},
    token::Sender,
    user::text_of,
};
use crate::{
    auth::oidc::{
        membership,
        provider::{ProviderWorkspace, StoredProvider},
    },
    db::{Conn, Db, dialect, now},
    ids::{IdentityProviderId, ScimGroupId, UserId},
    time::Timestamp,
};

/// Maximum number of groups of a provider.
const GROUPS_MAX: i64 = 2000;
/// Maximum number of groups that a filter looks through.
const FOUND_MAX: i64 = 1000;
/// Maximum number of members in a response.
const SHOWN_MAX: i64 = 50_000;
/// Attributes that filters can compare.
const FILTERS: &[&str] = &["id", "displayname", "externalid"];
const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";

#[derive(Debug, sqlx::FromRow)]
struct GroupRow {
    id: ScimGroupId,
    display_name: String,
    external_id: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

macro_rules! groups {
    ($tail:literal) => {
        concat!(
            "select id, display_name, external_id, created_at, updated_at from scim_groups where provider_id = $1 ",
            $tail
        )
    };
}

async fn find(
    c: &mut Conn,
    provider: IdentityProviderId,
    id: ScimGroupId,
) -> Result<GroupRow, ScimFault> {
    c.q(groups!("and id = $2"))
        .bind(provider)
        .bind(id)
        .opt()
        .await?
        .ok_or(ScimFault::NotFound("group"))
}

fn matches(row: &GroupRow, term: &Term) -> bool {
    let Literal::Text(wanted) = &term.value else {
        return false;
    };
    match term.attribute.as_str() {
        "id" => row.id.to_string() == *wanted,
        "displayname" => row.display_name.to_lowercase() == wanted.to_lowercase(),
        "externalid" => row.external_id.as_ref() == Some(wanted),
        _ => false,
    }
}

async fn search(
    c: &mut Conn,
    provider: IdentityProviderId,
    filter: &Filter,
) -> Result<Vec<GroupRow>, ScimFault> {
    let mut rows: Vec<GroupRow> = if let Some(id) = filter.text_of("id") {
        let Ok(id) = id.parse::<ScimGroupId>() else {
            return Ok(Vec::new());
        };
        c.q(groups!("and id = $2 order by id limit $3"))
            .bind(provider)
            .bind(id)
            .bind(FOUND_MAX)
            .all()
            .await?
    } else {
        let (sql, key) = if let Some(name) = filter.text_of("displayname") {
            (
                groups!("and display_key = $2 order by id limit $3"),
                name.to_lowercase(),
            )
        } else if let Some(id) = filter.text_of("externalid") {
            (
                groups!("and external_id = $2 order by id limit $3"),
                id.to_owned(),
            )
        } else {
            return Ok(Vec::new());
        };
        c.q(sql)
            .bind(provider)
            .bind(key)
            .bind(FOUND_MAX)
            .all()
            .await?
    };
    rows.retain(|row| filter.0.iter().all(|term| matches(row, term)));
    Ok(rows)
}

#[derive(sqlx::FromRow)]
struct MemberRow {
    group_id: ScimGroupId,
    user_id: UserId,
}

async fn members_of(c: &mut Conn, rows: &[GroupRow]) -> Result<Vec<MemberRow>, ScimFault> {
    let ids = dialect::hexadecimal_ids(rows.iter().map(|row| row.id.0));
    let members: Vec<MemberRow> = c
        .q(crate::sql_with_ids!(
            c,
            "select m.group_id, m.user_id from scim_group_members m where m.group_id in",
            2,
            "order by m.group_id, m.user_id limit $1"
        ))
        .bind(SHOWN_MAX + 1)
        .bind(ids)
        .all()
        .await?;
    if i64::try_from(members.len()).is_ok_and(|n| n > SHOWN_MAX) {
        let problem = format!(
            "the groups have more than {SHOWN_MAX} members: send excludedAttributes=members"
        );
        return Err(ScimFault::Bad(ScimType::TooMany, problem));
    }
    Ok(members)
}

fn shown(row: &GroupRow, members: &[MemberRow], at: &Location, selection: &Selection) -> Value {
    let id = row.id.to_string();
    let mut resource = serde_json::Map::new();
    resource.insert("schemas".to_owned(), json!([SCHEMA]));
    resource.insert("displayName".to_owned(), json!(row.display_name));
    if let Some(external) = &row.external_id {
        resource.insert("externalId".to_owned(), json!(external));
    }
    let first = members.partition_point(|member| member.group_id < row.id);
    let mine = members[first..].iter();
    let mine: Vec<Value> = mine
        .take_while(|member| member.group_id == row.id)
        .map(|member| {
            let id = member.user_id.to_string();
            json!({"value": id, "$ref": at.of("Users", &id), "type": "User"})
        })
        .collect();
    if !mine.is_empty() {
        resource.insert("members".to_owned(), Value::Array(mine));
    }
    resource.insert(
        "meta".to_owned(),
        json!({"resourceType": "Group", "created": row.created_at, "lastModified": row.updated_at, "location": at.of("Groups", &id)}),
    );
    resource.insert("id".to_owned(), json!(id));
    selection.apply(resource)
}

async fn all_shown(
    c: &mut Conn,
    rows: &[GroupRow],
    at: &Location,
    selection: &Selection,
) -> Result<Vec<Value>, ScimFault> {
    let members = if selection.wants("members") && !rows.is_empty() {
        members_of(c, rows).await?
    } else {
        Vec::new()
    };
    let all = rows.iter().map(|row| shown(row, &members, at, selection));
    Ok(all.collect())
}

/// # Errors
/// `NotFound`, `tooMany`, `NotAuthenticated`.
pub(crate) async fn get(
    c: &mut Conn,
    sender: &Sender,
    id: ScimGroupId,
    at: &Location,
    selection: &Selection,
) -> Result<Value, ScimFault> {
    sender.enter(c).await?;
    let row = find(c, sender.provider, id).await?;
    let mut all = all_shown(c, &[row], at, selection).await?;
    all.pop().ok_or(ScimFault::NotFound("group"))
}

/// Lists groups in the order of their IDs.
///
/// # Errors
/// `invalidFilter`, `tooMany`, `NotAuthenticated`.
pub(crate) async fn list(
    c: &mut Conn,
    sender: &Sender,
    filter: Option<&str>,
    range: Range,
    at: &Location,
    selection: &Selection,
) -> Result<Value, ScimFault> {
    sender.enter(c).await?;
    let provider = sender.provider;
    let (total, rows) = if let Some(filter) = filter {
        let found = search(c, provider, &Filter::parse(filter, FILTERS)?).await?;
        (found.len(), range.cut(found))
    } else {
        let total = count(c, provider).await?;
        let rows: Vec<GroupRow> = c
            .q(groups!("order by id limit $2 offset $3"))
            .bind(provider)
            .bind(range.count)
            .bind(range.offset())
            .all()
            .await?;
        (usize::try_from(total).unwrap_or(0), rows)
    };
    let resources = all_shown(c, &rows, at, selection).await?;
    Ok(list_response(total, range, &resources))
}

async fn count(c: &mut Conn, provider: IdentityProviderId) -> Result<i64, ScimFault> {
    Ok(
        c.q("select count(*) from scim_groups where provider_id = $1")
            .bind(provider)
            .value()
            .await?,
    )
}

/// Members of a group.
async fn member_ids(c: &mut Conn, id: ScimGroupId) -> Result<BTreeSet<UserId>, ScimFault> {
    let rows: Vec<(UserId,)> = c
        .q("select user_id from scim_group_members where group_id = $1")
        .bind(id)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(user,)| user).collect())
}

/// Checks that all members are users of the provider.
async fn check_users(
    c: &mut Conn,
    provider: IdentityProviderId,
    users: &BTreeSet<UserId>,
) -> Result<(), ScimFault> {
    let ids = dialect::hexadecimal_ids(users.iter().map(|user| user.0));
    let known: i64 = c
        .q(crate::sql_with_ids!(
            c,
            "select count(*) from scim_users where provider_id = $1 and user_id in",
            2,
            ""
        ))
        .bind(provider)
        .bind(ids)
        .value()
        .await?;
    if usize::try_from(known) == Ok(users.len()) {
        Ok(())
    } else {
        Err(ScimFault::value(
            "`members` names a user that does not exist",
        ))
    }
}

/// Brings the memberships of people up to date after a change to groups, in the workspaces whose rules name the groups.
async fn follow(
    c: &mut Conn,
    provider: &StoredProvider,
    names: &[&str],
    users: impl IntoIterator<Item = UserId>,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    let entries = provider.settings.0.workspaces.iter();
    let is_ruled = |entry: &&ProviderWorkspace| {
        let mut rules = entry.rules.iter();
        rules.any(|rule| names.contains(&rule.group.as_str()))
    };
    let mut entries: Vec<&ProviderWorkspace> = entries.filter(is_ruled).collect();
    if entries.is_empty() {
        return Ok(());
    }
    // The order prevents deadlocks.
    entries.sort_unstable_by_key(|entry| entry.workspace_id);
    for entry in &entries {
        dialect::lock_workspace(c, entry.workspace_id.0).await?;
    }
    for user in users {
        let groups = group_names(c, provider.id, user).await?;
        for entry in &entries {
            let change = membership::update(c, provider, entry, user, Some(&groups)).await?;
            move_channels(c, entry.workspace_id, user, change).await?;
        }
    }
    Ok(())
}

/// Adds and removes members.
async fn set_members(
    c: &mut Conn,
    provider: IdentityProviderId,
    id: ScimGroupId,
    before: &BTreeSet<UserId>,
    after: &BTreeSet<UserId>,
) -> Result<(), ScimFault> {
    let added: BTreeSet<UserId> = after.difference(before).copied().collect();
    check_users(c, provider, &added).await?;
    for user in added {
        c.q("insert into scim_group_members (group_id, provider_id, user_id) values ($1, $2, $3) on conflict do nothing")
            .bind(id)
            .bind(provider)
            .bind(user)
            .run()
            .await?;
    }
    for user in before.difference(after) {
        c.q("delete from scim_group_members where group_id = $1 and user_id = $2")
            .bind(id)
            .bind(*user)
            .run()
            .await?;
    }
    Ok(())
}

/// # Errors
/// `invalidValue`, `Refused`, `NotAuthenticated`.
pub(crate) async fn create(
    db: &Db,
    sender: Sender,
    doc: GroupDoc,
    move_channels: MoveChannels,
) -> Result<ScimGroupId, ScimFault> {
    let create = async move |c: &mut Conn| {
        let provider = sender.enter(c).await?;
        if count(c, provider.id).await? >= GROUPS_MAX {
            let problem = format!("a provider can have at most {GROUPS_MAX} groups");
            return Err(ScimFault::Refused(problem));
        }
        let id = ScimGroupId::new();
        c.q("insert into scim_groups (id, provider_id, display_name, display_key, external_id, created_at, updated_at) \
             values ($1, $2, $3, $4, $5, $6, $6)")
            .bind(id)
            .bind(provider.id)
            .bind(doc.display_name.clone())
            .bind(doc.display_name.to_lowercase())
            .bind(doc.external_id.clone())
            .bind(now())
            .run()
            .await?;
        set_members(c, provider.id, id, &BTreeSet::new(), &doc.members).await?;
        let members = doc.members.iter().copied();
        let names = [doc.display_name.as_str()];
        follow(c, &provider, &names, members, move_channels).await?;
        Ok(id)
    };
    db.write_in_turn(sender.provider.0, Uuid::nil(), create)
        .await
}

/// Change to a group.
#[derive(Debug, Clone)]
enum GroupChange {
    Replace(GroupDoc),
    Patch(PatchForm),
}

impl GroupChange {
    /// The group after the change.
    fn next(&self, before: &GroupDoc) -> Result<GroupDoc, ScimFault> {
        match self {
            Self::Replace(doc) => Ok(doc.clone()),
            Self::Patch(form) => apply(form, before),
        }
    }
}

fn apply(form: &PatchForm, before: &GroupDoc) -> Result<GroupDoc, ScimFault> {
    let mut group = before.clone();
    for operation in &form.0 {
        for (path, value) in operation.by_attribute()? {
            let value = value.filter(|value| !value.is_null());
            let is_removal = operation.op == Op::Remove;
            match path.attribute.as_str() {
                "displayname" => {
                    let value = value.filter(|_| !is_removal);
                    let value =
                        value.ok_or_else(|| ScimFault::value("`displayName` cannot be removed"))?;
                    group.display_name = text_of(&value, "displayName")?;
                    if group.display_name.is_empty() {
                        return Err(ScimFault::value("`displayName` is empty"));
                    }
                }
                "externalid" => {
                    let value = value.filter(|_| !is_removal);
                    let text = value.map(|value| text_of(&value, "externalId"));
                    group.external_id = text.transpose()?;
                }
                "members" => {
                    let named = value.as_ref().map(read_members).transpose()?;
                    let selected = path.filter.as_ref().map(selected).transpose()?;
                    match (operation.op, selected, named) {
                        // Entra names the members to remove in the value.
                        (Op::Remove, None, Some(gone)) => {
                            group.members.retain(|user| !gone.contains(user));
                        }
                        (Op::Remove, Some(gone), _) => {
                            group.members.retain(|user| Some(*user) != gone);
                        }
                        (Op::Add, _, Some(new)) => group.members.extend(new),
                        (Op::Replace, None, Some(new)) => group.members = new,
                        (Op::Remove | Op::Replace, None, None) => group.members.clear(),
                        (Op::Add | Op::Replace, _, _) => {
                            return Err(ScimFault::value("`members` needs a list of users"));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    Ok(group)
}

/// The user of `members[value eq "…"]`; `None` if there can be none with this ID.
fn selected(filter: &Filter) -> Result<Option<UserId>, ScimFault> {
    match filter.0.as_slice() {
        [_] if filter.text_of("value").is_some() => {
            Ok(filter.text_of("value").and_then(|id| id.parse().ok()))
        }
        _ => Err(ScimFault::Bad(
            ScimType::InvalidFilter,
            "members are selected with `value eq`".to_owned(),
        )),
    }
}

async fn read_doc(c: &mut Conn, row: &GroupRow) -> Result<GroupDoc, ScimFault> {
    Ok(GroupDoc {
        display_name: row.display_name.clone(),
        external_id: row.external_id.clone(),
        members: member_ids(c, row.id).await?,
    })
}

async fn change(
    db: &Db,
    sender: Sender,
    id: ScimGroupId,
    change: GroupChange,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    let mut c = db.read().await?;
    let row = find(&mut c, sender.provider, id).await?;
    let before = read_doc(&mut c, &row).await?;
    if change.next(&before)? == before {
        sender.enter(&mut c).await?;
        return Ok(());
    }
    drop(c);
    let write = async move |c: &mut Conn| {
        let provider = sender.enter(c).await?;
        let row = find(c, provider.id, id).await?;
        let before = read_doc(c, &row).await?;
        let after = change.next(&before)?;
        if after == before {
            return Ok(());
        }
        c.q("update scim_groups set display_name = $3, display_key = $4, external_id = $5, updated_at = $6 \
             where provider_id = $1 and id = $2")
            .bind(provider.id)
            .bind(id)
            .bind(after.display_name.clone())
            .bind(after.display_name.to_lowercase())
            .bind(after.external_id.clone())
            .bind(now())
            .run()
            .await?;
        set_members(c, provider.id, id, &before.members, &after.members).await?;
        let names = [before.display_name.as_str(), after.display_name.as_str()];
        let affected: BTreeSet<UserId> = if names[0] == names[1] {
            let changed = before.members.symmetric_difference(&after.members);
            changed.copied().collect()
        } else {
            before.members.union(&after.members).copied().collect()
        };
        follow(c, &provider, &names, affected, move_channels).await
    };
    db.write_in_turn(sender.provider.0, Uuid::nil(), write)
        .await
}

/// # Errors
/// `NotFound`, `invalidValue`, `NotAuthenticated`.
pub(crate) async fn replace(
    db: &Db,
    sender: Sender,
    id: ScimGroupId,
    doc: GroupDoc,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    change(db, sender, id, GroupChange::Replace(doc), move_channels).await
}

/// # Errors
/// `NotFound`, `NotAuthenticated`, or those of the operations.
pub(crate) async fn patch(
    db: &Db,
    sender: Sender,
    id: ScimGroupId,
    form: PatchForm,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    change(db, sender, id, GroupChange::Patch(form), move_channels).await
}

/// # Errors
/// `NotFound`, `NotAuthenticated`.
pub(crate) async fn delete(
    db: &Db,
    sender: Sender,
    id: ScimGroupId,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    let delete = async move |c: &mut Conn| {
        let provider = sender.enter(c).await?;
        let row = find(c, provider.id, id).await?;
        let members = member_ids(c, id).await?;
        c.q("delete from scim_groups where provider_id = $1 and id = $2")
            .bind(provider.id)
            .bind(id)
            .run()
            .await?;
        let names = [row.display_name.as_str()];
        follow(c, &provider, &names, members, move_channels).await
    };
    db.write_in_turn(sender.provider.0, Uuid::nil(), delete)
        .await
}
