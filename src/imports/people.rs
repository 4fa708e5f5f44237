//! People and programs of an archive: members who are here, placeholders, and bots.

use std::collections::HashSet;

use uuid::Uuid;

use super::{
    error::ImportError,
    key::{Identity, Keys, RecordKind, bounded},
    options::ImportOptions,
    preview::ImportPreview,
    record::{SourceAuthor, SourcePerson},
    report::RecordOutcome,
};
use crate::{
    auth::placeholders::{NewPlaceholder, insert_placeholder, store_address},
    db::{Conn, DbError, Json},
    hooks,
    ids::{AgentId, BotId, ImportId, UserId, WorkspaceId},
};

const UNKNOWN_KEY: &str = "unknown";
/// Name of erased people in previews.
const DELETED_NAME: &str = "Deleted account";

/// Identity of an author here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    Person {
        id: UserId,
        handle: String,
    },
    Bot {
        id: BotId,
    },
    /// The agent that a person's chats are with.
    Agent {
        id: AgentId,
    },
    /// The person's data was erased.
    Erased,
}

/// Checks whether a person is a member now: people can leave after they were chosen.
pub(super) async fn is_active_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from members where workspace_id = $1 and user_id = $2 and status = 'active')")
        .bind(workspace)
        .bind(user)
        .value()
        .await
}

/// Finds a person or program of an earlier import.
pub(super) async fn find_known(
    c: &mut Conn,
    keys: &Keys,
    key: &str,
) -> Result<Option<Known>, DbError> {
    let Some(id) = keys.find(c, RecordKind::People, key).await? else {
        return Ok(None);
    };
    if keys.is_erased(c, UserId(id)).await? {
        return Ok(Some(Known::Erased));
    }
    let is_bot: bool = c
        .q("select exists (select 1 from bots where id = $1)")
        .bind(id)
        .value()
        .await?;
    if is_bot {
        return Ok(Some(Known::Bot { id: BotId(id) }));
    }
    let handle: Option<(String,)> = c
        .q("select handle from members where workspace_id = $1 and user_id = $2")
        .bind(keys.workspace)
        .bind(id)
        .opt()
        .await?;
    let handle = handle.map(|row| row.0).unwrap_or_default();
    Ok(Some(Known::Person {
        id: UserId(id),
        handle,
    }))
}

/// Removes a person whose data is being erased from the previews and choices of imports that have not ended: by the address, by an earlier
/// import, and by choice. The person's records are left out then, because their keys belong to `alias`, unless the address is not confirmed.
///
/// # Errors
/// Only database errors.
pub async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    alias: UserId,
) -> Result<(), DbError> {
    let (email, is_confirmed): (String, bool) = c
        .q("select email, email_confirmed_at is not null from users where id = $1")
        .bind(user)
        .one()
        .await?;
    let email = email.to_lowercase();
    let imports: Vec<(ImportId,)> = c
        .q("select id from imports where workspace_id = $1 and state in ('receiving', 'reading', 'ready', 'running', 'paused') \
            and (lower(CAST(preview AS TEXT)) like $2 or lower(CAST(options AS TEXT)) like $2 or CAST(options AS TEXT) like $3 or exists (select 1 from imported i \
              where i.workspace_id = $1 and i.source = imports.source and i.kind = $5 and i.id = $4))")
        .bind(workspace)
        .bind(format!("%{email}%"))
        .bind(format!("%{user}%"))
        .bind(user)
        .bind(RecordKind::People)
        .all()
        .await?;
    for (id,) in imports {
        let (source, Json(mut options), preview): (
            Option<String>,
            Json<ImportOptions>,
            Option<Json<ImportPreview>>,
        ) = c
            .q("select source, options, preview from imports where id = $1")
            .bind(id)
            .one()
            .await?;
        let mut chosen: HashSet<String> = HashSet::new();
        options.people.retain(|key, member| {
            if *member == user {
                chosen.insert(key.clone());
            }
            *member != user
        });
        let mut addressed: HashSet<String> = HashSet::new();
        options.addresses.retain(|key, address| {
            if *address == email {
                addressed.insert(key.clone());
            }
            *address != email
        });
        c.q("update imports set options = $2 where id = $1")
            .bind(id)
            .bind(Json(options))
            .run()
            .await?;
        let (Some(source), Some(Json(mut preview))) = (source, preview) else {
            continue;
        };
        let keys = Keys { workspace, source };
        let known = keys.keys_of(c, RecordKind::People, user.0).await?;
        for person in &mut preview.people {
            let address = person.email.as_ref().filter(|_| !person.is_bot);
            let has_address = address.is_some_and(|address| address.to_lowercase() == email)
                || addressed.contains(&person.key);
            let is_chosen = chosen.contains(&person.key);
            let is_known = known.contains(&bounded(&person.key));
            if !has_address && !is_chosen && !is_known {
                continue;
            }
            DELETED_NAME.clone_into(&mut person.name);
            person.email = None;
            if is_chosen || (has_address && is_confirmed) {
                keys.store(c, RecordKind::People, &person.key, alias.0)
                    .await?;
            }
        }
        c.q("update imports set preview = $2 where id = $1")
            .bind(id)
            .bind(Json(preview))
            .run()
            .await?;
    }
    Ok(())
}

/// The ID that a person or program has in an archive of this program.
pub(super) fn id_in_archive(key: &str) -> Option<Uuid> {
    let id = UserId::parse(key).map(|id| id.0);
    id.or_else(|_| BotId::parse(key).map(|id| id.0)).ok()
}

/// Stores a person as the given member, as what they became in an earlier import, or as a placeholder or bot.
pub(super) async fn store_person(
    c: &mut Conn,
    keys: &Keys,
    person: &SourcePerson,
    same: Option<UserId>,
    creator: UserId,
) -> Result<RecordOutcome, ImportError> {
    if let Some(member) = same {
        keys.store(c, RecordKind::People, &person.key, member.0)
            .await?;
        return Ok(RecordOutcome::Existing);
    }
    match find_known(c, keys, &person.key).await? {
        Some(Known::Erased) => return Ok(RecordOutcome::LeftOut("erased")),
        Some(Known::Person { id, .. }) => {
            store_address_of(c, keys.workspace, id, person).await?;
            return Ok(RecordOutcome::Existing);
        }
        Some(Known::Bot { .. } | Known::Agent { .. }) => return Ok(RecordOutcome::Existing),
        None => {}
    }
    let identity = Identity {
        kind: RecordKind::People,
        at_ms: 0,
        key: &person.key,
        in_archive: id_in_archive(&person.key),
        owner: None,
    };
    let id = keys.id_here(c, identity).await?;
    // An erased person had either ID, and somebody else on this server can have the other one.
    let made = keys.id(RecordKind::People, 0, &person.key);
    for had in identity.in_archive.into_iter().chain([made]) {
        if keys.is_erased(c, UserId(had)).await? {
            keys.store(c, RecordKind::People, &person.key, had).await?;
            return Ok(RecordOutcome::LeftOut("erased"));
        }
    }
    keys.store(c, RecordKind::People, &person.key, id).await?;
    if person.is_bot {
        hooks::insert_imported_bot(c, keys.workspace, BotId(id), &person.name, creator).await?;
    } else {
        let new = NewPlaceholder {
            user: UserId(id),
            name: &person.name,
        };
        insert_placeholder(c, keys.workspace, new).await?;
        store_address_of(c, keys.workspace, UserId(id), person).await?;
    }
    Ok(RecordOutcome::Imported)
}

/// Stores the address of a person who is a placeholder.
async fn store_address_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    person: &SourcePerson,
) -> Result<(), ImportError> {
    if let Some(email) = &person.email {
        store_address(c, workspace, user, email).await?;
    }
    Ok(())
}

/// Finds or creates the author of a message who is in no list; without a key, the unknown author.
pub(super) async fn store_author(
    c: &mut Conn,
    keys: &Keys,
    author: Option<&SourceAuthor>,
    creator: UserId,
) -> Result<(String, Option<Known>), ImportError> {
    let person = match author {
        Some(author) => SourcePerson {
            key: author.key.clone(),
            name: author.name.clone().unwrap_or_else(|| author.key.clone()),
            email: None,
            is_bot: author.is_bot,
        },
        None => SourcePerson {
            key: UNKNOWN_KEY.to_owned(),
            name: format!("Unknown ({})", keys.product()),
            email: None,
            is_bot: false,
        },
    };
    store_person(c, keys, &person, None, creator).await?;
    let known = find_known(c, keys, &person.key).await?;
    Ok((person.key, known))
}
