//! Event log without a server.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use openvibe::{
    db::{CommitSignal, Conn, Db, DbError, Json, now},
    ids::{ChannelId, MessageId, UserId, WorkspaceId},
    realtime::{
        Audience, Envelope, EventType, MembershipChange, NewEvent,
        log::{self, PageMax, Recipients},
    },
};
use serde_json::{json, value::to_raw_value};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::support::{TestDatabase, within};

const PAGE: PageMax = PageMax {
    events: 100,
    bytes: 1 << 20,
};

/// A database with one workspace, and the envelopes that its commits sent.
struct Log {
    db: Db,
    workspace: WorkspaceId,
    sent: Arc<Mutex<Vec<Envelope>>>,
    _place: TestDatabase,
}

pub async fn insert_workspace(db: &Db) -> WorkspaceId {
    let workspace = WorkspaceId::new();
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("insert into workspaces (id, name, slug, seq, pruned_seq, last_claim, settings, created_at) \
             values ($1, 'Acme', $2, 0, 0, 0, $3, $4)")
            .bind(workspace)
            .bind(workspace.0.simple().to_string())
            .bind(Json(json!({})))
            .bind(now())
            .run()
            .await
    })
    .await
    .unwrap();
    workspace
}

impl Log {
    async fn open() -> Self {
        let place = TestDatabase::migrated().await;
        let sent: Arc<Mutex<Vec<Envelope>>> = Arc::default();
        let received = Arc::clone(&sent);
        let listener = Arc::new(move |signals: Vec<CommitSignal>| {
            let envelopes = signals
                .into_iter()
                .filter_map(|signal| signal.downcast::<Envelope>().ok());
            received.lock().unwrap().extend(envelopes.map(|e| *e));
        });
        let db = Db::open(&place.url(), listener).await.unwrap();
        Self {
            workspace: insert_workspace(&db).await,
            db,
            sent,
            _place: place,
        }
    }

    async fn channel(&self, kind: &'static str) -> ChannelId {
        let (workspace, channel) = (self.workspace, ChannelId::new());
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                c.q("insert into channels (id, workspace_id, kind, name, joined_by_all, created_at) values ($1, $2, $3, $3, false, $4)")
                    .bind(channel)
                    .bind(workspace)
                    .bind(kind)
                    .bind(now())
                    .run()
                    .await
            })
            .await
            .unwrap();
        channel
    }

    /// Appends an event in its own transaction.
    async fn append(
        &self,
        kind: EventType,
        audience: Audience,
        change: impl Fn(NewEvent) -> NewEvent + Send + 'static,
    ) {
        let workspace = self.workspace;
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                let seq = log::reserve(c, workspace, 1).await?;
                log::append(c, workspace, change(event(seq, kind, audience))).await
            })
            .await
            .unwrap();
    }

    async fn after(&self, seq: i64, max: PageMax) -> Result<Vec<Envelope>, DbError> {
        let mut c = self.db.snapshot().await?;
        log::envelopes_after(&mut c, self.workspace, seq, max).await
    }
}

pub fn event(seq: i64, kind: EventType, audience: Audience) -> NewEvent {
    NewEvent {
        seq,
        kind,
        audience,
        extra_recipient: None,
        only: None,
        mentioned: Vec::new(),
        thread: None,
        fork: None,
        message: None,
        access: None,
        data: to_raw_value(&json!({"text": "Grüße 👋"})).unwrap(),
    }
}

#[tokio::test]
async fn envelopes_rebuilt_from_the_log_equal_those_of_the_commits() {
    let log = Log::open().await;
    let (public, private) = (log.channel("public").await, log.channel("private").await);
    let direct = log.channel("direct").await;
    let [ada, bo, cy] = [UserId::new(), UserId::new(), UserId::new()];
    let in_private = Audience::Members(private);
    log.append(EventType::WorkspaceUpdated, Audience::Workspace, |e| e)
        .await;
    log.append(EventType::MessageCreated, Audience::Public(public), |e| {
        e.about(Some(MessageId::new()))
    })
    .await;
    log.append(EventType::ChannelMemberAdded, in_private, move |e| {
        e.also_to(ada).changing(MembershipChange::Granted {
            channel: private,
            users: vec![bo, ada],
        })
    })
    .await;
    log.append(EventType::ChannelMemberRemoved, in_private, move |e| {
        e.also_to(bo).changing(MembershipChange::Revoked {
            channel: private,
            user: bo,
        })
    })
    .await;
    log.append(EventType::MessageCreated, Audience::Members(direct), |e| e)
        .await;
    let only = |users: Vec<UserId>, managers| {
        move |e: NewEvent| {
            e.only_to(Some(Recipients {
                users: users.clone(),
                managers,
            }))
        }
    };
    let (agent, task) = (EventType::AgentUpdated, EventType::TaskStatusChanged);
    log.append(agent, Audience::Workspace, only(vec![cy, ada, bo], true))
        .await;
    log.append(task, Audience::Workspace, only(vec![bo], false))
        .await;
    log.append(agent, Audience::Workspace, only(Vec::new(), true))
        .await;
    log.append(EventType::MemberRemoved, Audience::Workspace, move |e| {
        e.changing(MembershipChange::Expelled { user: cy })
    })
    .await;

    let sent = log.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 9);
    assert_eq!(log.after(0, PAGE).await.unwrap(), sent);
    assert_eq!(log.after(7, PAGE).await.unwrap(), sent[7..]);
    assert_eq!(log.after(9, PAGE).await.unwrap(), []);

    // A page contains at least one event, even if it exceeds the size limit, and no more events than the maximum.
    let one = PageMax {
        events: 100,
        bytes: 1,
    };
    assert_eq!(log.after(2, one).await.unwrap(), sent[2..3]);
    let three = PageMax { events: 3, ..PAGE };
    assert_eq!(log.after(4, three).await.unwrap(), sent[4..7]);
    log.db.close().await;
}

/// Command that appends this many events.
async fn append_some(c: &mut Conn, workspace: WorkspaceId, count: usize) -> Result<(), DbError> {
    let first = log::reserve(c, workspace, count).await?;
    for seq in (first..).take(count) {
        let only = (seq % 3 == 0).then(|| Recipients {
            users: vec![UserId::new(), UserId::new()],
            managers: false,
        });
        let event = event(seq, EventType::AgentUpdated, Audience::Workspace).only_to(only);
        log::append(c, workspace, event).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_reads_the_events_that_it_has_appended() {
    let log = Log::open().await;
    let workspace = log.workspace;
    let read = log.db.write(workspace.0, async move |c: &mut Conn| {
        append_some(c, workspace, 2).await?;
        let (head, _) = log::head(c, workspace).await?;
        append_some(c, workspace, 4).await?;
        let events: i64 = c
            .q("select count(*) from events where workspace_id = $1")
            .bind(workspace)
            .value()
            .await?;
        append_some(c, workspace, 1).await?;
        let recipients: i64 = c
            .q("select count(*) from event_recipients where workspace_id = $1")
            .bind(workspace)
            .value()
            .await?;
        append_some(c, workspace, 1).await?;
        Ok::<_, DbError>((head, events, recipients))
    });
    assert_eq!(read.await.unwrap(), (2, 6, 4));
    let (head, pruned) = log::head(&mut log.db.read().await.unwrap(), workspace)
        .await
        .unwrap();
    assert_eq!((head, pruned), (8, 0));
    log.db.close().await;
}

#[tokio::test]
async fn a_large_batch_stores_every_event_once() {
    let log = Log::open().await;
    let (workspace, other) = (log.workspace, insert_workspace(&log.db).await);
    log.db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            append_some(c, workspace, 90).await?;
            append_some(c, other, 3).await?;
            append_some(c, workspace, 37).await
        })
        .await
        .unwrap();
    let mut sent = log.sent.lock().unwrap().clone();
    sent.retain(|envelope| envelope.workspace == workspace);
    let max = PageMax {
        events: 1000,
        ..PAGE
    };
    let stored = log.after(0, max).await.unwrap();
    assert_eq!(stored.len(), 127);
    assert_eq!(stored, sent);
    let (head, _) = log::head(&mut log.db.read().await.unwrap(), other)
        .await
        .unwrap();
    assert_eq!(head, 3);
    log.db.close().await;
}

#[tokio::test]
async fn a_failed_command_leaves_no_numbers_in_its_batch() {
    let log = Log::open().await;
    let workspace = log.workspace;
    // While the writer waits in this command, the following ones form a batch.
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, held) = (Arc::clone(&started), Arc::clone(&go_on));
    let first = log.db.write(workspace.0, async move |_: &mut Conn| {
        begun.notify_one();
        held.notified().await;
        Ok::<_, DbError>(())
    });
    let commands = (0..12).map(|n| {
        let write = log.db.write(workspace.0, async move |c: &mut Conn| {
            match n % 4 {
                // Fails before it has changed anything.
                1 => return Err(DbError::Busy),
                2 => {
                    log::reserve(c, workspace, 2).await?;
                    return Err(DbError::Busy);
                }
                _ => {}
            }
            append_some(c, workspace, 2).await?;
            if n % 4 == 3 && n < 8 {
                return Err(DbError::Busy);
            }
            Ok(())
        });
        async move { (n, write.await.is_ok()) }
    });
    let commands = async {
        started.notified().await;
        join_all(commands).await
    };
    let release = async {
        while log.db.queued_writes() < 12 {
            crate::support::pause().await;
        }
        go_on.notify_one();
    };
    let batch = async { tokio::join!(first, commands, release) };
    let (first, done, ()) = within("the batch", batch).await;
    first.unwrap();
    let succeeded: Vec<i32> = done.iter().filter(|(_, ok)| *ok).map(|(n, _)| *n).collect();
    assert_eq!(succeeded, [0, 4, 8, 11]);
    let stored = log.after(0, PAGE).await.unwrap();
    let seqs: Vec<i64> = stored.iter().map(|envelope| envelope.seq).collect();
    assert_eq!(seqs, (1..=8).collect::<Vec<_>>());
    assert_eq!(stored, *log.sent.lock().unwrap());
    log.db.close().await;
}
