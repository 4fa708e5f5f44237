//! Web pages of a collection, whose bytes are kept as files and read again at intervals.
//!
//! ```text
//! add_url ─► due ─► claim (a lease, so that two nodes do not read a page at once) ─► web::download ─► sync::put_in
//!                                                       └► a failure: the file stays, and the row names the reason
//! ```

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CollectionError, event,
    paths::{PATH_CHARS_MAX, StorePath},
    stores::{StoreRef, find, find_to_change, lock_to_change},
    sync::{PutFile, put_in},
    versions,
};
use crate::{
    auth::{Actor, AuthError, Role, Scope},
    db::{Conn, Db, DbError, now},
    failpoint,
    files::{
        Blobs, FileError, Kind, NewFile, Published, UploadBytes, clean_name,
        documents::DocumentReader,
    },
    ids::{FileId, UserId, VectorStoreId, WorkspaceId},
    realtime::EventType,
    registry::Registry,
    share::PoolBounds,
    text_enum::constant,
    time::Timestamp,
    web::{PageVersion, URL_UNITS_MAX},
};

constant! { pub StoreUrlObject = "vector_store.url" }

/// Maximum number of web pages of a vector store.
const URLS_MAX: i64 = 100;
/// Shortest and longest time between two looks at a page, in seconds.
const EVERY_S_MIN: i64 = 3_600;
const EVERY_S_MAX: i64 = 2_592_000;
/// Interval between looks for due pages.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Number of pages that a node reads at a time.
const AT_ONCE: i64 = 4;
/// Time limit for a page.
const READ_WITHIN: Duration = Duration::from_mins(1);
/// Time after which a node that reads a page counts as lost; longer than `READ_WITHIN`, and the storing of the page.
const LEASE: Duration = Duration::from_mins(5);
/// Time until the next attempt if the workspace has read too many pages.
const PAUSE: Duration = Duration::from_mins(2);
/// Maximum length of a failure in characters.
const FAILURE_CHARS_MAX: usize = 200;

/// A web page of a vector store. Times are in seconds since 1970.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreUrl {
    #[schema(inline)]
    pub object: StoreUrlObject,
    pub vector_store_id: VectorStoreId,
    /// Path of the file with the page. Its removal also removes the page.
    pub path: String,
    pub url: String,
    /// Seconds between two looks at the page.
    pub every_s: i64,
    /// Time of the last look that succeeded.
    pub refreshed_at: Option<i64>,
    /// Time of the next look.
    pub next_at: i64,
    /// Reason why the last look failed, such as `404`; null if it succeeded. The text of the last success stays.
    pub failure: Option<String>,
    pub created_by: UserId,
    pub created_at: i64,
}

/// Form of a new web page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreUrlForm {
    /// Address with https, of a public server.
    pub url: String,
    /// Seconds between two looks at the page: 3,600 to 2,592,000.
    #[schema(minimum = 3_600, maximum = 2_592_000)]
    pub every_s: i64,
    /// Path of the file; by default, host and path of the URL.
    #[serde(default)]
    pub path: Option<String>,
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct UrlRow {
    store_id: VectorStoreId,
    path: String,
    url: String,
    every_s: i64,
    due_at: Timestamp,
    refreshed_at: Option<Timestamp>,
    failure: Option<String>,
    created_by: UserId,
    created_at: Timestamp,
}

impl From<UrlRow> for StoreUrl {
    fn from(row: UrlRow) -> Self {
        Self {
            object: StoreUrlObject,
            vector_store_id: row.store_id,
            path: row.path,
            url: row.url,
            every_s: row.every_s,
            refreshed_at: row.refreshed_at.map(Timestamp::unix_s),
            next_at: row.due_at.unix_s(),
            failure: row.failure,
            created_by: row.created_by,
            created_at: row.created_at.unix_s(),
        }
    }
}

macro_rules! url_sql {
    ($tail:literal) => {
        concat!(
            "select store_id, path, url, every_s, due_at, refreshed_at, failure, created_by, created_at from vector_store_urls ",
            $tail
        )
    };
}

fn invalid(text: impl Into<String>, param: &'static str) -> CollectionError {
    CollectionError::Invalid(text.into(), param)
}

/// Path of the file of a page: its host and path, such as `example.com/docs/start`.
fn path_of(url: &str) -> Result<StorePath, CollectionError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.trim_end_matches('/').replace("//", "/");
    if path.chars().count() > PATH_CHARS_MAX {
        return Err(invalid(
            "the URL is too long for a path: choose one",
            "path",
        ));
    }
    StorePath::parse(&path)
}

/// Adds a web page, or changes the one at the path. `url` was checked, and has its usual form.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Invalid`, `TooManyUrls`.
pub async fn add_url(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    form: &StoreUrlForm,
    url: &str,
) -> Result<StoreUrl, CollectionError> {
    // Otherwise, another node could set `trusted_reads` meanwhile.
    let store = lock_to_change(c, actor, named).await?;
    if store.has_trusted_reads() {
        let text = "a vector store with trusted_reads cannot have web pages";
        return Err(invalid(text, "url"));
    }
    if !(EVERY_S_MIN..=EVERY_S_MAX).contains(&form.every_s) {
        return Err(invalid("every_s must be from 3600 to 2592000", "every_s"));
    }
    if url.encode_utf16().count() > URL_UNITS_MAX {
        return Err(invalid("the URL is too long", "url"));
    }
    let path = match &form.path {
        Some(path) => StorePath::parse(path)?,
        None => path_of(url)?,
    };
    let others: i64 = c
        .q("select count(*) from vector_store_urls where store_id = $1 and path <> $2")
        .bind(store.id)
        .bind(path.as_str().to_owned())
        .value()
        .await?;
    if others >= URLS_MAX {
        return Err(CollectionError::TooManyUrls(URLS_MAX));
    }
    c.q("insert into vector_store_urls (id, store_id, path, url, every_s, etag, modified, due_at, claimed_until, refreshed_at, failure, \
         created_by, created_at) values ($7, $1, $2, $3, $4, null, null, $5, null, null, null, $6, $5) \
         on conflict (store_id, path) do update set url = excluded.url, every_s = excluded.every_s, etag = null, modified = null, \
         due_at = excluded.due_at, claimed_until = null, created_by = excluded.created_by")
        .bind(store.id)
        .bind(path.as_str().to_owned())
        .bind(url.to_owned())
        .bind(form.every_s)
        .bind(now())
        .bind(actor.user)
        .bind(Uuid::now_v7())
        .run()
        .await?;
    event::announce(c, store.id, EventType::VectorStoreUpdated).await?;
    let row: UrlRow = c
        .q(url_sql!("where store_id = $1 and path = $2"))
        .bind(store.id)
        .bind(path.as_str().to_owned())
        .one()
        .await?;
    Ok(row.into())
}

/// Web pages of a vector store, by path.
///
/// # Errors
/// `NotFound`.
pub async fn list_urls(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<Vec<StoreUrl>, CollectionError> {
    let store = find(c, actor, named).await?.id;
    let rows: Vec<UrlRow> = c
        .q(url_sql!("where store_id = $1 order by path limit $2"))
        .bind(store)
        .bind(URLS_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(StoreUrl::from).collect())
}

/// A page that this node reads.
#[derive(Debug, Clone, sqlx::FromRow)]
struct Claimed {
    store_id: VectorStoreId,
    workspace_id: WorkspaceId,
    path: String,
    url: String,
    every_s: i64,
    /// Null if the file was deleted, which must be read again.
    etag: Option<String>,
    modified: Option<String>,
    failure: Option<String>,
    created_by: UserId,
    claimed_until: Option<Timestamp>,
}

impl Claimed {
    fn known_version(&self) -> PageVersion {
        PageVersion {
            etag: self.etag.clone(),
            modified: self.modified.clone(),
        }
    }
}

/// Result of a look at a page.
enum Look {
    Unchanged,
    Read(Box<ReadPage>),
    Failed(String),
    /// The workspace has read too many pages: the page is read later.
    Postponed,
}

/// A page that was read, with its stored bytes.
struct ReadPage {
    published: Published,
    new: NewFile,
    version: PageVersion,
}

/// Reads the due web pages of all collections.
pub struct UrlRefresher {
    db: Db,
    blobs: Blobs,
    registry: Arc<Registry>,
    documents: DocumentReader,
    upload_bytes: UploadBytes,
    /// Maximum size of a page.
    bytes_max: u64,
    wake: Notify,
}

impl UrlRefresher {
    /// `bytes_max` is the maximum size of a page.
    pub fn new(
        db: &Db,
        blobs: &Blobs,
        registry: Arc<Registry>,
        documents: DocumentReader,
        bytes_max: u64,
    ) -> Self {
        let all = bytes_max.saturating_mul(AT_ONCE.unsigned_abs());
        let bounds = PoolBounds {
            total: all,
            share: all,
        };
        Self {
            db: db.clone(),
            blobs: blobs.clone(),
            registry,
            documents,
            upload_bytes: UploadBytes::new(bounds, bytes_max),
            bytes_max,
            wake: Notify::new(),
        }
    }

    /// Makes the job look for due pages now.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until pages may be due.
    pub async fn wait(&self) {
        let _ = tokio::time::timeout(LOOK_EVERY, self.wake.notified()).await;
    }

    /// Reads the next due pages. Returns false, without a write, if none is due.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn refresh_next(&self) -> Result<bool, DbError> {
        let due: Vec<Claimed> = self
            .db
            .read()
            .await?
            .q("select u.store_id, v.workspace_id, u.path, u.url, u.every_s, u.failure, u.created_by, u.claimed_until, \
                case when f.file_id is not null then u.etag end as etag, \
                case when f.file_id is not null then u.modified end as modified \
                from vector_store_urls u join vector_stores v on v.id = u.store_id \
                left join vector_store_files f on f.store_id = u.store_id and f.path = u.path \
                where u.due_at <= $1 and (u.claimed_until is null or u.claimed_until <= $1) and v.deleted_at is null \
                order by u.due_at limit $2")
            .bind(now())
            .bind(AT_ONCE)
            .all()
            .await?;
        let is_any_due = !due.is_empty();
        let all = due.into_iter().map(|page| self.refresh(page));
        for refreshed in futures::future::join_all(all).await {
            refreshed?;
        }
        Ok(is_any_due)
    }

    async fn refresh(&self, page: Claimed) -> Result<(), DbError> {
        let Some(page) = self.claim(page).await? else {
            return Ok(());
        };
        failpoint!("collection_url_claimed");
        let look = match tokio::time::timeout(READ_WITHIN, Box::pin(self.look(&page))).await {
            Ok(look) => look?,
            Err(_) => Look::Failed("the page did not arrive within 60 s".to_owned()),
        };
        match look {
            Look::Read(read) => {
                self.store(page, *read).await?;
                self.documents.wake();
                Ok(())
            }
            Look::Unchanged => self.end(page, None).await,
            Look::Failed(failure) => self.end(page, Some(failure)).await,
            Look::Postponed => self.postpone(page).await,
        }
    }

    /// Takes the lease of a page; `None` if another node was faster.
    async fn claim(&self, mut page: Claimed) -> Result<Option<Claimed>, DbError> {
        let until = now() + LEASE;
        page.claimed_until = Some(until);
        let of = page.clone();
        let claimed = self
            .db
            .write(page.workspace_id.0, async move |c: &mut Conn| {
                c.q("update vector_store_urls set claimed_until = $3 where store_id = $1 and path = $2 and due_at <= $4 \
                     and (claimed_until is null or claimed_until <= $4)")
                    .bind(of.store_id)
                    .bind(of.path.clone())
                    .bind(until)
                    .bind(now())
                    .run()
                    .await
            })
            .await?;
        Ok((claimed == 1).then_some(page))
    }

    async fn look(&self, page: &Claimed) -> Result<Look, DbError> {
        let outward = &self.registry.outward;
        if outward.count(page.workspace_id, Instant::now()).is_err() {
            return Ok(Look::Postponed);
        }
        let known = page.known_version();
        let download = self.registry.pages.download(&page.url, &known).await;
        let mut download = match download {
            Ok(Some(download)) => download,
            Ok(None) => return Ok(Look::Unchanged),
            Err(fault) => return Ok(Look::Failed(fault.message)),
        };
        let permit = self
            .upload_bytes
            .permit(&self.db, page.created_by, page.workspace_id);
        let failed = |e: FileError| match e {
            FileError::Db(e) => Err(e),
            e => Ok(Look::Failed(e.to_string())),
        };
        let mut incoming = match self.blobs.begin(Some(permit)).await {
            Ok(incoming) => incoming,
            Err(e) => return failed(e),
        };
        let mut size_bytes = 0_u64;
        loop {
            let bytes = match download.next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(fault) => return Ok(Look::Failed(fault.message)),
            };
            size_bytes += bytes.len() as u64;
            if size_bytes > self.bytes_max {
                return failed(FileError::TooLarge(self.bytes_max));
            }
            if let Err(e) = incoming.write(&bytes).await {
                return failed(e);
            }
        }
        let whole = match incoming.finish().await {
            Ok(whole) => whole,
            Err(e) => return failed(e),
        };
        let name = page.path.rsplit('/').next().unwrap_or_default();
        let name = clean_name(name);
        let kind = Kind::of(&whole.head, &name);
        let published = match self.blobs.publish(whole).await {
            Ok(published) => published,
            Err(e) => return failed(e),
        };
        let new = NewFile {
            id: FileId::new(),
            blob: published.reference(),
            name,
            kind,
            client_id: None,
            purpose: None,
        };
        Ok(Look::Read(Box::new(ReadPage {
            published,
            new,
            version: download.version,
        })))
    }

    /// Stores a page that was read, or the reason why it cannot be stored.
    async fn store(&self, page: Claimed, read: ReadPage) -> Result<(), DbError> {
        let ReadPage {
            published,
            new,
            version,
        } = read;
        let of = page.clone();
        let stored = self
            .db
            .write(page.workspace_id.0, async move |c: &mut Conn| {
                if !is_claimed(c, &of).await? {
                    return Ok(None);
                }
                let upload = put_page(c, &of, &new).await?;
                finish(c, &of, None, Some(&version)).await?;
                Ok::<_, CollectionError>(upload)
            })
            .await;
        match stored {
            Ok(upload) => {
                published.settle(upload);
                Ok(())
            }
            // It is unknown whether the transaction was committed. The lease ends, and the page is read again.
            Err(CollectionError::Db(e) | CollectionError::Auth(AuthError::Db(e))) => Err(e),
            Err(CollectionError::File(FileError::Db(e) | FileError::Auth(AuthError::Db(e)))) => {
                Err(e)
            }
            Err(e) => {
                published.settle(None);
                self.end(page, Some(e.to_string())).await
            }
        }
    }

    async fn end(&self, page: Claimed, failure: Option<String>) -> Result<(), DbError> {
        self.db
            .write(page.workspace_id.0, async move |c: &mut Conn| {
                if is_claimed(c, &page).await? {
                    finish(c, &page, failure.as_deref(), None).await?;
                }
                Ok::<_, DbError>(())
            })
            .await
    }

    async fn postpone(&self, page: Claimed) -> Result<(), DbError> {
        self.db
            .write(page.workspace_id.0, async move |c: &mut Conn| {
                c.q(
                    "update vector_store_urls set claimed_until = null, due_at = $4 \
                     where store_id = $1 and path = $2 and claimed_until = $3",
                )
                .bind(page.store_id)
                .bind(page.path.clone())
                .bind(page.claimed_until)
                .bind(now() + PAUSE)
                .run()
                .await?;
                Ok::<_, DbError>(())
            })
            .await
    }
}

/// Locks the vector store, and checks whether this node still holds the lease of the page.
async fn is_claimed(c: &mut Conn, page: &Claimed) -> Result<bool, DbError> {
    versions::lock(c, page.store_id).await?;
    let is_claimed: bool = c
        .q("select exists (select 1 from vector_store_urls u join vector_stores v on v.id = u.store_id \
            where u.store_id = $1 and u.path = $2 and u.claimed_until = $3 and v.deleted_at is null)")
        .bind(page.store_id)
        .bind(page.path.clone())
        .bind(page.claimed_until)
        .value()
        .await?;
    Ok(is_claimed)
}

/// Notes the result of a look, and when the next one is due.
async fn finish(
    c: &mut Conn,
    page: &Claimed,
    failure: Option<&str>,
    version: Option<&PageVersion>,
) -> Result<(), DbError> {
    let every = Duration::from_secs(page.every_s.unsigned_abs());
    let at = now();
    let failure: Option<String> =
        failure.map(|text| text.chars().take(FAILURE_CHARS_MAX).collect());
    let refreshed_at = failure.is_none().then_some(at);
    let known = page.known_version();
    let version = version.unwrap_or(&known);
    c.q("update vector_store_urls set claimed_until = null, due_at = $3, refreshed_at = coalesce($4, refreshed_at), failure = $5, \
         etag = $6, modified = $7 where store_id = $1 and path = $2")
        .bind(page.store_id)
        .bind(page.path.clone())
        .bind(at + every)
        .bind(refreshed_at)
        .bind(failure.clone())
        .bind(version.etag.clone())
        .bind(version.modified.clone())
        .run()
        .await?;
    if failure != page.failure {
        event::announce(c, page.store_id, EventType::VectorStoreUpdated).await?;
    }
    Ok(())
}

/// Puts a page at its path, with the rights of the person who added it. Returns the upload whose bytes are used.
async fn put_page(
    c: &mut Conn,
    page: &Claimed,
    new: &NewFile,
) -> Result<Option<Uuid>, CollectionError> {
    let role: Option<(Role,)> = c
        .q("select role from members where workspace_id = $1 and user_id = $2 and status = 'active'")
        .bind(page.workspace_id)
        .bind(page.created_by)
        .opt()
        .await?;
    let role = role
        .map(|(role,)| role)
        .filter(|role| *role != Role::Guest && role.scopes().has(Scope::ChatWrite));
    let Some(role) = role else {
        let text = "the person who added the page has left";
        return Err(invalid(text, "url"));
    };
    let actor = Actor {
        user: page.created_by,
        name: "",
        workspace: page.workspace_id,
        role,
        scopes: role.scopes(),
        key: None,
    };
    let store = find_to_change(c, &actor, &StoreRef::Id(page.store_id)).await?;
    let path = StorePath::parse(&page.path)?;
    Ok(match put_in(c, &actor, store.id, &path, new).await? {
        PutFile::Stored(_, upload) => Some(upload),
        PutFile::Equal(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_after_its_address() {
        for (url, path) in [
            ("https://example.com/", "example.com"),
            ("https://example.com/docs/start", "example.com/docs/start"),
            ("https://example.com//a//b/?q=1", "example.com/a/b/?q=1"),
        ] {
            assert_eq!(path_of(url).unwrap().as_str(), path, "{url}");
        }
        let long = format!("https://example.com/{}", "a".repeat(PATH_CHARS_MAX));
        assert!(path_of(&long).is_err());
    }
}
