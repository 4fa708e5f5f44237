//! The event log, used without a server.

use std::sync::{Arc, Mutex};

use openvibe::{
    db::{CommitSignal, Conn, Db, DbError, Json, now},
    ids::{ChannelId, MessageId, UserId, WorkspaceId},
    realtime::{
        Audience, Envelope, EventType, MembershipChange, NewEvent,
        log::{self, PageMax, Recipients},
    },
};
use serde_json::{json, value::to_raw_value};
use uuid::Uuid;

use crate::support::TestDatabase;

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

async fn insert_workspace(db: &Db) -> WorkspaceId {
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

    /// Appends an event in a transaction of its own.
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

fn event(seq: i64, kind: EventType, audience: Audience) -> NewEvent {
    NewEvent {
        seq,
        kind,
        audience,
        extra_recipient: None,
        only: None,
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

    // One event even if it is too large, and no more events than the limit.
    let one = PageMax {
        events: 100,
        bytes: 1,
    };
    assert_eq!(log.after(2, one).await.unwrap(), sent[2..3]);
    let three = PageMax { events: 3, ..PAGE };
    assert_eq!(log.after(4, three).await.unwrap(), sent[4..7]);
    log.db.close().await;
}
