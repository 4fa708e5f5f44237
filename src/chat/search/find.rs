//! Runs a search: parameters, access, and a page of hits.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use super::{
    any,
    forks::{self, FoundFork},
    highlight, index,
    query::{self, Filter, Has, Question},
    rank::{self, Candidate},
    rebuild::{self, SearchIndex},
};
use crate::{
    auth::{self, Actor, Caller},
    chat::{
        ChatError, access,
        forks::ForkStatus,
        rows::{
            message::{Message, MessageKind, Row, message_sql},
            variant::find_base,
        },
    },
    cursor,
    db::{
        Conn, DbError, Json,
        dialect::search::{self as store, ConversationPart, Match, Order, Phrase, Scope, Texts},
        is_visible_channel, now,
    },
    http::page::ListObject,
    ids::{
        AgentId, BEFORE_ALL_SEQS, ChannelId, IdError, MessageId, ThreadId, UserId,
        seq_before_imports_of,
    },
    realtime::hub::Conversation,
    sql_with_seqs,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum number of hits, newest first, that `order=relevance` ranks.
const RANKED_MAX: i64 = 1000;
/// Number of leading characters of a message that are used for ranking.
const RANKED_CHARS: i64 = 4000;
/// Maximum clock difference between nodes; messages this close to a time limit are checked
/// individually.
const CLOCKS_APART: std::time::Duration = std::time::Duration::from_mins(10);

constant! { pub SearchHitObject = "search_hit" }

/// A matching message, or a deep dive with a matching title: the message from which it starts, with the ID of the deep dive.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SearchHit {
    #[schema(inline)]
    pub object: SearchHitObject,
    #[serde(flatten)]
    pub message: Message,
    /// About 240 characters of `content_plain` around the first match, escaped for HTML, with
    /// matches in `<mark>`.
    pub highlight: String,
    pub thread_title: Option<String>,
    /// The title with matches in `<mark>`, escaped for HTML; null if the title does not match.
    pub thread_title_highlight: Option<String>,
    /// Title of the deep dive; null in the main line of a thread.
    pub fork_title: Option<String>,
    /// The title with matches in `<mark>`, escaped for HTML; null if the title does not match.
    pub fork_title_highlight: Option<String>,
    /// Status of the deep dive; null in the main line of a thread.
    pub fork_status: Option<ForkStatus>,
    /// Null for a direct channel.
    pub channel_name: Option<String>,
    /// Number of replies in the hit's thread.
    pub reply_count: i64,
}

impl SearchHit {
    /// The hit for a deep dive that starts from this message.
    fn of_fork(&self, fork: FoundFork, phrases: &[Phrase]) -> Self {
        let mut hit = self.clone();
        hit.message.fork_id = Some(fork.id);
        hit.fork_title_highlight = highlight::whole(&fork.title, phrases);
        hit.fork_title = Some(fork.title);
        hit.fork_status = Some(fork.status);
        hit
    }
}

/// A page of hits.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SearchPage {
    #[schema(inline)]
    pub object: ListObject,
    pub data: Vec<SearchHit>,
    pub has_more: bool,
    /// Pass it as `cursor` to get the next page.
    #[schema(required)]
    pub next_cursor: Option<String>,
    /// Present while the index is being rebuilt after an upgrade or a restore: older messages may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub index: Option<SearchIndex>,
}

text_enum! {
    /// Kind of a hit.
    pub enum Kind {
        Text = "text",
        Resolution = "resolution",
        /// First messages of threads.
        Thread = "thread",
        /// Deep dives, by their titles.
        Fork = "fork",
        /// Passages of files, instead of messages.
        File = "file",
    }
}

text_enum! {
    /// Order of the hits.
    pub enum SearchOrder {
        Newest = "newest",
        Oldest = "oldest",
        Relevance = "relevance",
    }
}

text_enum! {
    /// Words of a search that a message must contain: all of them, or any of them.
    pub enum MatchMode {
        All = "all",
        Any = "any",
    }
}

text_enum! {
    /// Grouping of hits: a search returns at most one hit per group.
    pub enum Group {
        Thread = "thread",
    }
}

/// Upper limit of a search: a time or a message.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    Moment(Timestamp),
    Message(MessageId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    User(UserId),
    Agent(AgentId),
}

/// Order of the hits, and start of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Newest first, with sequence numbers less than `below`.
    Newest { below: i64 },
    /// Oldest first, with sequence numbers greater than `above`.
    Oldest { above: i64 },
    /// Best first, among the hits with sequence numbers below `below`, after the first `skip`.
    Ranked { below: i64, skip: i64 },
}

/// Parameters of a search.
#[derive(Debug, Clone, Default)]
pub struct Search {
    pub question: Question,
    /// True if a message needs to contain only one of the words.
    pub is_any: bool,
    /// True if each thread has only one hit.
    pub is_grouped: bool,
    pub channel: Option<ChannelId>,
    pub thread: Option<ThreadId>,
    pub author: Option<Author>,
    /// Empty for messages of any kind.
    pub kinds: Vec<Kind>,
    pub has: Vec<Has>,
    pub before: Option<Until>,
    pub after: Option<Timestamp>,
}

impl Search {
    pub fn is_empty(&self) -> bool {
        self.question.is_empty()
            && self.channel.is_none()
            && self.thread.is_none()
            && self.author.is_none()
            && self.kinds.is_empty()
            && self.has.is_empty()
            && self.before.is_none()
            && self.after.is_none()
    }
}

fn invalid(message: String, param: &'static str) -> ChatError {
    ChatError::InvalidQuery(message, param)
}

/// # Errors
/// `InvalidQuery` if the query is too long.
pub fn parse_question(text: Option<&str>) -> Result<Question, ChatError> {
    let text = text.unwrap_or_default();
    let units = text.encode_utf16().count();
    if units > query::QUESTION_UNITS_MAX {
        let limit = query::QUESTION_UNITS_MAX;
        return Err(invalid(
            format!("the search is {units} characters; the limit is {limit}: shorten it"),
            "q",
        ));
    }
    Ok(query::parse(text))
}

/// Parses a comma-separated list.
///
/// # Errors
/// `InvalidQuery` for an unknown property.
pub fn parse_has(text: Option<&str>) -> Result<Vec<Has>, ChatError> {
    let parts = text
        .filter(|text| !text.is_empty())
        .map(|text| text.split(','));
    parts
        .into_iter()
        .flatten()
        .map(|part| {
            Has::parse(part.trim()).ok_or_else(|| {
                let text =
                    format!("has must be file, link, code, reaction, or result, not `{part}`");
                invalid(text, "has")
            })
        })
        .collect()
}

/// # Errors
/// `InvalidId`.
pub fn parse_author(text: Option<&str>) -> Result<Option<Author>, IdError> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) if text.starts_with("agent_") => Ok(Some(Author::Agent(AgentId::parse(text)?))),
        Some(text) => Ok(Some(Author::User(UserId::parse(text)?))),
    }
}

/// The order of a search; `match=any` and `group=thread` restrict the choice.
///
/// # Errors
/// `InvalidQuery`.
pub fn order_of(
    order: Option<SearchOrder>,
    is_any: bool,
    group: Option<Group>,
) -> Result<Option<SearchOrder>, ChatError> {
    match order {
        None | Some(SearchOrder::Relevance) if is_any => Ok(Some(SearchOrder::Relevance)),
        Some(_) if is_any => {
            let rule = "with match=any, hits are ordered by relevance: leave out order";
            Err(invalid(rule.to_owned(), "order"))
        }
        None | Some(SearchOrder::Newest | SearchOrder::Oldest) if group.is_some() => {
            let rule = "group=thread needs match=any or order=relevance: add one of them";
            Err(invalid(rule.to_owned(), "group"))
        }
        order => Ok(order),
    }
}

/// Start of a day in UTC.
fn beginning(day: NaiveDate) -> Option<Timestamp> {
    let moment = day.and_hms_opt(0, 0, 0)?.and_utc();
    Timestamp::within_years(moment)
}

/// # Errors
/// `InvalidQuery` if the text is neither a day nor a time.
pub fn parse_moment(
    text: Option<&str>,
    param: &'static str,
) -> Result<Option<Timestamp>, ChatError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let day = query::parse_day(text).and_then(beginning);
    // An unescaped plus sign in a URL is decoded as a space.
    let moment = || {
        let text = text.replace(' ', "+");
        let moment = DateTime::parse_from_rfc3339(&text).ok()?;
        Timestamp::within_years(moment.with_timezone(&Utc))
    };
    day.or_else(moment).map(Some).ok_or_else(|| {
        let text = format!("{param} must be a date such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z, not `{text}`");
        invalid(text, param)
    })
}

/// # Errors
/// `InvalidQuery`.
pub fn parse_before(text: Option<&str>) -> Result<Option<Until>, ChatError> {
    if let Some(id) = text.and_then(|text| MessageId::parse(text).ok()) {
        return Ok(Some(Until::Message(id)));
    }
    Ok(parse_moment(text, "before")?.map(Until::Moment))
}

/// Cursor kinds in this module.
const NEWEST: &str = "search";
const OLDEST: &str = "oldest";
const RANKED: &str = "ranked";

impl Start {
    /// # Errors
    /// `Invalid` for a cursor of another list or order.
    pub fn parse(order: Option<SearchOrder>, cursor: Option<&str>) -> Result<Self, ChatError> {
        let below = i64::MAX;
        let first = match order.unwrap_or(SearchOrder::Newest) {
            SearchOrder::Newest => Self::Newest { below },
            SearchOrder::Oldest => Self::Oldest {
                above: BEFORE_ALL_SEQS,
            },
            SearchOrder::Relevance => Self::Ranked { below, skip: 0 },
        };
        let Some(cursor) = cursor else {
            return Ok(first);
        };
        Self::of_cursor(cursor)
            .filter(|from| std::mem::discriminant(from) == std::mem::discriminant(&first))
            .ok_or_else(|| {
                ChatError::Invalid(
                    "the cursor does not belong to a search in this order: use `next_cursor` of the previous page".to_owned(),
                    "cursor",
                )
            })
    }

    fn of_cursor(cursor: &str) -> Option<Self> {
        if let Some([below]) = cursor::read(NEWEST, cursor) {
            return Some(Self::Newest { below });
        }
        if let Some([above]) = cursor::read(OLDEST, cursor) {
            return Some(Self::Oldest { above });
        }
        let [below, skip] = cursor::read(RANKED, cursor)?;
        (0..=RANKED_MAX)
            .contains(&skip)
            .then_some(Self::Ranked { below, skip })
    }

    fn cursor(self) -> String {
        match self {
            Self::Newest { below } => cursor::write(NEWEST, &[below]),
            Self::Oldest { above } => cursor::write(OLDEST, &[above]),
            Self::Ranked { below, skip } => cursor::write(RANKED, &[below, skip]),
        }
    }
}

/// A search, translated into index terms and limits.
struct Plan {
    what: Match,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    below: i64,
    part: Option<ConversationPart>,
}

fn term(word: impl Into<String>) -> Phrase {
    Phrase::word(word)
}

/// The index term of the author with this handle.
async fn author_named(
    c: &mut Conn,
    actor: &Actor<'_>,
    handle: &str,
) -> Result<Option<Phrase>, DbError> {
    if handle == "me" {
        return Ok(Some(term(index::author_term(&actor.user.to_string()))));
    }
    let row: Option<(uuid::Uuid,)> = c
        .q("select owner_id from handles where workspace_id = $1 and handle = $2")
        .bind(actor.workspace)
        .bind(handle.to_owned())
        .opt()
        .await?;
    // User IDs and agent IDs never collide, so both use the same kind of term.
    Ok(row.map(|(id,)| term(index::author_term(&UserId(id).to_string()))))
}

/// The index term of the channel with this name or ID, if the person can see it.
async fn channel_named(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
) -> Result<Option<Phrase>, DbError> {
    let row: Option<(ChannelId,)> = c
        .q(concat!(
            "select ch.id from channels ch where ch.workspace_id = $1 and (ch.name = $2 or ch.id = $3) and ",
            is_visible_channel!("ch", "$4"),
            " order by ch.id limit 1"
        ))
        .bind(actor.workspace)
        .bind(name.to_owned())
        .bind(ChannelId::parse(name).ok())
        .bind(actor.user)
        .opt()
        .await?;
    Ok(row.map(|(id,)| term(index::channel_term(&id.to_string()))))
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Checks that the person can know about the author: as a member or agent of the workspace, or from a message that the person can
/// see.
async fn check_author(c: &mut Conn, actor: &Actor<'_>, author: Author) -> Result<(), ChatError> {
    let q = match author {
        Author::User(_) => {
            c.q("select user_id from members where workspace_id = $1 and user_id = $2")
        }
        Author::Agent(_) => c.q("select id from agents where workspace_id = $1 and id = $2"),
    };
    let (id, text) = match author {
        Author::User(id) => (id.0, id.to_string()),
        Author::Agent(id) => (id.0, id.to_string()),
    };
    let known: Option<(uuid::Uuid,)> = q.bind(actor.workspace).bind(id).opt().await?;
    // People and agents that are hidden from the person are known only from messages that they can see.
    let is_hidden = match author {
        Author::Agent(agent) => crate::agents::profiles::is_hidden(c, actor, agent).await?,
        Author::User(user) => !auth::sees_person(c, actor, user).await?,
    };
    if known.is_some() && !is_hidden {
        return Ok(());
    }
    let what = Match {
        all: vec![vec![term(index::author_term(&text))]],
        ..Match::default()
    };
    if store::find_documents(c, &everywhere(actor), &what, 1)
        .await?
        .is_empty()
    {
        return Err(match author {
            Author::User(_) => ChatError::NoSuchMember(text),
            Author::Agent(_) => ChatError::NoSuchAuthor(text),
        });
    }
    Ok(())
}

fn everywhere(actor: &Actor<'_>) -> Scope {
    Scope {
        workspace: actor.workspace.0,
        user: actor.user.0,
        shared_in: None,
        texts: Texts::All,
        except: None,
        part: None,
        above: BEFORE_ALL_SEQS,
        below: i64::MAX,
        since: None,
        until: None,
        order: Order::Newest,
    }
}

/// Translates a search into index terms and limits.
///
/// # Errors
/// `ChannelNotFound`, `ThreadNotFound`, `MessageNotFound`, `NoSuchMember`, or `NoSuchAuthor` for
/// parameters that name an object hidden from the person.
async fn plan(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    search: &Search,
) -> Result<Option<Plan>, ChatError> {
    let mut plan = Plan {
        what: Match::default(),
        since: search.after,
        until: None,
        below: i64::MAX,
        part: None,
    };
    apply_parameters(c, caller, actor, search, &mut plan).await?;
    let can_match = apply_filters(c, actor, search, &mut plan).await?;
    Ok(can_match.then_some(plan))
}

/// Applies the parameters of the request.
async fn apply_parameters(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    search: &Search,
    plan: &mut Plan,
) -> Result<(), ChatError> {
    let what = &mut plan.what;
    if let Some(channel) = search.channel {
        let access = access::channel(c, caller, channel).await?;
        if access.actor.workspace != actor.workspace {
            return Err(ChatError::ChannelNotFound);
        }
        what.all
            .push(vec![term(index::channel_term(&channel.to_string()))]);
    }
    if let Some(thread) = search.thread {
        let access = access::thread(c, caller, thread).await?;
        if access.channel_access.actor.workspace != actor.workspace {
            return Err(ChatError::ThreadNotFound);
        }
        let mut parts = vec![term(index::conversation_term(&thread.to_string()))];
        // A search in a variant also finds the messages of the first chat with which it begins.
        if let Some(base) = find_base(c, Conversation::Thread(thread)).await? {
            parts.push(term(index::conversation_term(&base.thread.to_string())));
            plan.part = Some(ConversationPart {
                conversation: base.thread.0,
                below: base.seq,
            });
        }
        what.all.push(parts);
    }
    if let Some(author) = search.author {
        check_author(c, actor, author).await?;
        let text = match author {
            Author::User(id) => id.to_string(),
            Author::Agent(id) => id.to_string(),
        };
        what.all.push(vec![term(index::author_term(&text))]);
    }
    match search.before {
        Some(Until::Moment(moment)) => plan.until = Some(moment),
        Some(Until::Message(id)) => {
            let access = access::message(c, caller, id).await?;
            if access.channel_access.actor.workspace != actor.workspace {
                return Err(ChatError::MessageNotFound);
            }
            plan.below = c
                .q("select seq from messages where id = $1")
                .bind(id)
                .value()
                .await?;
        }
        None => {}
    }
    let kinds = search.kinds.iter().filter_map(|kind| match kind {
        Kind::Text => Some(term(index::TEXT_TERM)),
        Kind::Resolution => Some(term(index::RESULT_TERM)),
        Kind::Thread => Some(term(index::ROOT_TERM)),
        // `forks` and `passages` find these.
        Kind::Fork | Kind::File => None,
    });
    let kinds: Vec<Phrase> = kinds.collect();
    if !kinds.is_empty() {
        what.all.push(kinds);
    }
    for has in &search.has {
        what.all.push(vec![term(index::has_term(*has))]);
    }
    Ok(())
}

/// Applies the filters and words of the query; returns false if nothing can match.
async fn apply_filters(
    c: &mut Conn,
    actor: &Actor<'_>,
    search: &Search,
    plan: &mut Plan,
) -> Result<bool, ChatError> {
    let question = &search.question;
    let what = &mut plan.what;
    let (mut authors, mut channels) = (None, None);
    for filter in &question.filters {
        match filter {
            Filter::From(handle) => authors
                .get_or_insert_with(Vec::new)
                .extend(author_named(c, actor, handle).await?),
            Filter::In(name) => channels
                .get_or_insert_with(Vec::new)
                .extend(channel_named(c, actor, name).await?),
            Filter::Has(has) => what.all.push(vec![term(index::has_term(*has))]),
            Filter::Before(day) => plan.until = earlier(plan.until, beginning(*day)),
            Filter::After(day) => plan.since = plan.since.max(beginning(*day)),
        }
    }
    for filter in &question.excluded {
        match filter {
            Filter::From(handle) => what.none.extend(author_named(c, actor, handle).await?),
            Filter::In(name) => what.none.extend(channel_named(c, actor, name).await?),
            Filter::Has(has) => what.none.push(term(index::has_term(*has))),
            Filter::Before(_) | Filter::After(_) => {}
        }
    }
    for named in [authors, channels].into_iter().flatten() {
        if named.is_empty() {
            return Ok(false);
        }
        what.all.push(named);
    }
    if !search.is_any {
        what.all.extend(question.with.iter().cloned());
    }
    what.none.extend(question.without.iter().cloned());
    Ok(true)
}

/// A sequence number up to which every imported message is older than `moment`; `None` if all of them are.
async fn imported_before(
    c: &mut Conn,
    actor: &Actor<'_>,
    moment: Timestamp,
) -> Result<Option<i64>, DbError> {
    let newest: Option<i64> = c
        .q("select max(seq) from messages where workspace_id = $1 and seq < 0")
        .bind(actor.workspace)
        .value()
        .await?;
    let before = seq_before_imports_of(moment.unix_s());
    Ok(newest
        .is_some_and(|newest| newest > before)
        .then_some(before))
}

/// A sequence number up to which every message with a positive number is older than `moment`.
async fn number_before(c: &mut Conn, actor: &Actor<'_>, moment: Timestamp) -> Result<i64, DbError> {
    let newest: Option<i64> = c
        .q("select max(seq) from messages where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    let (mut low, mut high) = (0, newest.unwrap_or(0) + 1);
    // Messages up to `low` are older than `moment`; those from `high` on are not.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let row: Option<(i64, Timestamp)> = c
            .q("select seq, created_at from messages where workspace_id = $1 and seq <= $2 and seq > $3 order by seq desc limit 1")
            .bind(actor.workspace)
            .bind(middle)
            .bind(low)
            .opt()
            .await?;
        match row {
            Some((_, at)) if at < moment => low = middle,
            Some((seq, _)) => high = seq,
            None => low = middle,
        }
    }
    Ok(low)
}

/// Returns a page of the matching messages that `actor` can see.
///
/// # Errors
/// Any error from `plan`.
pub async fn find(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    search: &Search,
    from: Start,
    limit: i64,
) -> Result<SearchPage, ChatError> {
    let mut page = SearchPage {
        object: ListObject,
        data: Vec::new(),
        has_more: false,
        next_cursor: None,
        index: rebuild::find_state(c).await?,
    };
    let Some(plan) = plan(c, caller, actor, search).await? else {
        return Ok(page);
    };
    let (above, below, order) = match from {
        Start::Newest { below } | Start::Ranked { below, .. } => {
            (BEFORE_ALL_SEQS, below, Order::Newest)
        }
        Start::Oldest { above } => (above, i64::MAX, Order::Oldest),
    };
    let mut scope = Scope {
        since: plan.since,
        until: plan.until,
        part: plan.part,
        above,
        below: below.min(plan.below),
        order,
        ..everywhere(actor)
    };
    // A binary search finds an old time limit faster than paging back to it.
    if let Some(until) = plan.until {
        let bound = number_before(c, actor, until + CLOCKS_APART).await?;
        scope.below = scope.below.min(bound + 1);
    }
    if let Some(since) = plan.since {
        let bound = number_before(c, actor, since - CLOCKS_APART).await?;
        // Imported messages precede all others, whatever their time.
        let imported = imported_before(c, actor, since).await?;
        let bound = imported.unwrap_or(bound);
        scope.above = scope.above.max(bound);
    }
    if search.kinds.contains(&Kind::Fork) {
        return find_with_forks(c, actor, search, (&scope, &plan.what), limit, page).await;
    }
    let phrases = if search.is_any {
        any::shown_phrases(&search.question.text)
    } else {
        search.question.with.concat()
    };
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let seqs = match from {
        Start::Newest { .. } | Start::Oldest { .. } => {
            let found = store::find_documents(c, &scope, &plan.what, limit + 1).await?;
            let mut seqs: Vec<i64> = found.into_iter().map(|found| found.seq).collect();
            page.has_more = seqs.len() > shown;
            seqs.truncate(shown);
            if let (true, Some(last)) = (page.has_more, seqs.last()) {
                let next = match order {
                    Order::Newest => Start::Newest { below: *last },
                    Order::Oldest => Start::Oldest { above: *last },
                };
                page.next_cursor = Some(next.cursor());
            }
            seqs
        }
        Start::Ranked { skip, .. } => {
            // Later pages rank the same hits below `head`, even if messages are posted in the meantime.
            let (ranked, head) = ranked(c, actor, search, (&scope, &plan.what)).await?;
            let first = usize::try_from(skip).unwrap_or(usize::MAX);
            page.has_more = ranked.len() > first.saturating_add(shown);
            if page.has_more {
                let skip = skip + limit;
                page.next_cursor = Some(Start::Ranked { below: head, skip }.cursor());
            }
            ranked.into_iter().skip(first).take(shown).collect()
        }
    };
    page.data = hits(c, actor, &seqs, &phrases).await?;
    Ok(page)
}

/// Adds the newest hits below a number to a page, with deep dives after the messages from which they start. A message and all its deep
/// dives are on one page.
async fn find_with_forks(
    c: &mut Conn,
    actor: &Actor<'_>,
    search: &Search,
    (scope, what): (&Scope, &Match),
    limit: i64,
    mut page: SearchPage,
) -> Result<SearchPage, ChatError> {
    let mut messages = BTreeSet::new();
    if search.kinds != [Kind::Fork] {
        let found = store::find_documents(c, scope, what, limit + 1).await?;
        messages.extend(found.into_iter().map(|found| found.seq));
    }
    let mut starts: BTreeMap<i64, Vec<FoundFork>> = BTreeMap::new();
    for fork in forks::find(c, actor, &search.question, search.channel, search.thread).await? {
        if fork.seq < scope.below {
            starts.entry(fork.seq).or_default().push(fork);
        }
    }
    let all: BTreeSet<i64> = messages.iter().chain(starts.keys()).copied().collect();
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let seqs: Vec<i64> = all.iter().rev().take(shown).copied().collect();
    page.has_more = all.len() > shown;
    if let (true, Some(below)) = (page.has_more, seqs.last().copied()) {
        page.next_cursor = Some(Start::Newest { below }.cursor());
    }
    let phrases = search.question.with.concat();
    for hit in hits(c, actor, &seqs, &phrases).await? {
        let seq = hit.message.seq;
        let of_forks: Vec<SearchHit> = starts
            .remove(&seq)
            .into_iter()
            .flatten()
            .map(|fork| hit.of_fork(fork, &phrases))
            .collect();
        page.data.extend(messages.contains(&seq).then_some(hit));
        page.data.extend(of_forks);
    }
    Ok(page)
}

/// Input for the ranking of a message.
#[derive(sqlx::FromRow)]
struct Text {
    seq: i64,
    plain: String,
    kind: MessageKind,
    title: Option<String>,
}

/// Ranked hits, best first, and the upper bound of their sequence numbers.
async fn ranked(
    c: &mut Conn,
    actor: &Actor<'_>,
    search: &Search,
    (scope, what): (&Scope, &Match),
) -> Result<(Vec<i64>, i64), DbError> {
    if search.is_any {
        let ranking = any::rank(c, scope, what, &search.question.text, now()).await?;
        let best = if search.is_grouped {
            any::by_thread(ranking.best)
        } else {
            ranking.best
        };
        let seqs = best.into_iter().map(|ranked| ranked.found.seq);
        return Ok((seqs.collect(), ranking.below));
    }
    let found = store::find_documents(c, scope, what, RANKED_MAX).await?;
    let head = found.first().map_or(0, |found| found.seq + 1);
    let threads: HashMap<i64, ThreadId> = found
        .iter()
        .map(|found| (found.seq, found.thread_id))
        .collect();
    let seqs = found.into_iter().map(|found| found.seq).collect();
    let mut best = by_relevance(c, actor, seqs, &search.question.with).await?;
    if search.is_grouped {
        let mut known = HashSet::new();
        best.retain(|seq| known.insert(threads.get(seq)));
    }
    Ok((best, head))
}

async fn by_relevance(
    c: &mut Conn,
    actor: &Actor<'_>,
    seqs: Vec<i64>,
    groups: &[Vec<Phrase>],
) -> Result<Vec<i64>, DbError> {
    if groups.is_empty() {
        return Ok(seqs);
    }
    let sql = sql_with_seqs!(
        c,
        "select m.seq, substr(m.content_plain, 1, cast($3 as int)) as plain, m.kind, t.title from messages m \
         left join threads t on t.root_message_id = m.id and t.id = m.thread_id where",
        "workspace_id" = 1,
        2,
        "order by m.seq desc"
    );
    let texts: Vec<Text> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(Json(seqs))
        .bind(RANKED_CHARS)
        .all()
        .await?;
    let mut scored: Vec<(f64, i64)> = texts
        .iter()
        .map(|text| {
            let candidate = Candidate {
                text: &text.plain,
                title: text.title.as_deref(),
                is_result: text.kind == MessageKind::Resolution,
            };
            (rank::score(&candidate, groups), text.seq)
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    Ok(scored.into_iter().map(|(_, seq)| seq).collect())
}

/// Data of the conversation and channel of a hit.
#[derive(sqlx::FromRow)]
struct HitContext {
    seq: i64,
    title: Option<String>,
    fork_title: Option<String>,
    fork_status: Option<ForkStatus>,
    reply_count: i64,
    channel_name: Option<String>,
}

/// The messages with these sequence numbers, in this order.
async fn hits(
    c: &mut Conn,
    actor: &Actor<'_>,
    seqs: &[i64],
    phrases: &[Phrase],
) -> Result<Vec<SearchHit>, DbError> {
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    let sql = sql_with_seqs!(c, message_sql!("where"), "workspace_id" = 1, 2, "");
    let rows: Vec<Row> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(Json(seqs.to_vec()))
        .all()
        .await?;
    let sql = sql_with_seqs!(
        c,
        "select m.seq, t.title, f.title as fork_title, f.status as fork_status, t.reply_count, ch.name as channel_name from messages m \
         join threads t on t.id = m.thread_id join channels ch on ch.id = m.channel_id left join forks f on f.id = m.conversation_id where",
        "workspace_id" = 1,
        2,
        ""
    );
    let contexts: Vec<HitContext> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(Json(seqs.to_vec()))
        .all()
        .await?;
    let mut messages: HashMap<i64, Message> = rows
        .into_iter()
        .map(|row| (row.seq, Message::from(row)))
        .collect();
    let mut contexts: HashMap<i64, HitContext> =
        contexts.into_iter().map(|hit| (hit.seq, hit)).collect();
    let hits = seqs.iter().filter_map(|seq| {
        let (message, hit) = (messages.remove(seq)?, contexts.remove(seq)?);
        let marked = |title: Option<&str>| highlight::whole(title?, phrases);
        Some(SearchHit {
            object: SearchHitObject,
            highlight: highlight::excerpt(index::beginning(&message.content_plain), phrases),
            thread_title_highlight: marked(hit.title.as_deref()),
            thread_title: hit.title,
            fork_title_highlight: marked(hit.fork_title.as_deref()),
            fork_title: hit.fork_title,
            fork_status: hit.fork_status,
            channel_name: hit.channel_name,
            reply_count: hit.reply_count,
            message,
        })
    });
    Ok(hits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_cursor_or_one_for_another_order_is_rejected() {
        let newest = Start::Newest { below: 7 };
        let oldest = Start::Oldest { above: 7 };
        let ranked = Start::Ranked { below: 7, skip: 20 };
        assert_eq!(
            Start::parse(Some(SearchOrder::Oldest), Some(&oldest.cursor())).unwrap(),
            oldest
        );
        assert!(Start::parse(None, Some(&oldest.cursor())).is_err());
        assert!(Start::parse(Some(SearchOrder::Oldest), Some(&newest.cursor())).is_err());
        assert_eq!(Start::parse(None, Some(&newest.cursor())).unwrap(), newest);
        assert_eq!(
            Start::parse(Some(SearchOrder::Relevance), Some(&ranked.cursor())).unwrap(),
            ranked
        );
        assert!(Start::parse(None, Some(&ranked.cursor())).is_err());
        assert!(Start::parse(Some(SearchOrder::Relevance), Some(&newest.cursor())).is_err());
        for bad in [
            "7",
            "!!",
            "c2VhcmNoOi0w",
            "c2VhcmNoOng",
            "cmFua2VkOjE6OTk5OQ",
        ] {
            assert!(Start::parse(None, Some(bad)).is_err(), "{bad}");
            assert!(
                Start::parse(Some(SearchOrder::Relevance), Some(bad)).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_search_time_is_a_date_or_a_timestamp() {
        let at = |text| parse_moment(Some(text), "after").map(|at| at.map(Timestamp::to_text));
        let new_year = "2026-01-01T00:00:00.000Z";
        for text in [
            "2026-01-01",
            "2026-01-01T01:00:00+01:00",
            "2026-01-01T01:00:00 01:00",
        ] {
            assert_eq!(at(text).unwrap().as_deref(), Some(new_year), "{text}");
        }
        for bad in [
            "yesterday",
            "2026-13-01",
            "9999-12-31T23:59:59-23:00",
            "0000-01-01",
            "1",
        ] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}
