//! Additional work of the hub if other nodes write to the same workspaces: relays ephemeral frames, and delivers events from other
//! nodes in the order of the log.
//!
//! ```text
//! commit here ─────► publish ─┐                          ┌─► sockets
//! `log` with events ─► publish ├─► next one? ── yes ──────┤
//! `log` without, poll ► reached┘        └── no ─► stale ─► read from the log (`nodes::follow`) ─► publish
//! ```

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Mutex, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    Hub,
    order::Order,
    room::Room,
    shared::{Behind, Shared, Stale, lock},
    socket::Close,
    stream::{Gap, Stream, StreamSource, TextPosition},
};
use crate::{
    ids::{NodeId, TaskId, UserId, WorkspaceId},
    realtime::{
        bus_message::{BusMessage, Received, RemoteDelta},
        frame::PresenceStatus,
        log::{Envelope, Position},
    },
};

/// Minimum interval between requests for the text of one reply.
const WANTED_AGAIN: Duration = Duration::from_secs(1);
/// Time after the end of a stream during which its deltas can still arrive.
const ENDED_FOR: Duration = Duration::from_secs(2);
/// Time without a delta after which a stream from another node is forgotten. If it continues, its text is requested again.
const STREAM_SILENCE_MAX: Duration = Duration::from_mins(3);

/// A person coming online or going offline on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceChange {
    pub workspace: WorkspaceId,
    pub user: UserId,
    /// `true` if the person has a socket on this node now.
    pub is_here: bool,
}

impl Hub {
    /// Creates a hub for workspaces to which other nodes also write.
    pub fn shared(shared: Shared) -> Self {
        Self {
            shared: Some(shared),
            ..Self::default()
        }
    }

    /// Passes an ephemeral message on to other nodes.
    pub(super) fn relay(&self, message: impl FnOnce() -> BusMessage) {
        if let Some(shared) = &self.shared
            && shared.relay.try_send(message()).is_err()
        {
            metrics::counter!("openvibe_bus_dropped_total").increment(1);
        }
    }

    /// Records whether the bus carries events.
    pub fn set_carries_events(&self, carries: bool) {
        if let Some(shared) = &self.shared {
            shared.carries_events.store(carries, Ordering::Relaxed);
        }
    }

    /// Waits until the room of a workspace has a position. If the caller then reads the log, every event committed after that read is
    /// delivered. The future can be dropped while it waits.
    pub async fn opened(&self, workspace: WorkspaceId) {
        let Some(shared) = &self.shared else { return };
        loop {
            let opened = shared.opened.notified();
            let mut opened = std::pin::pin!(opened);
            opened.as_mut().enable();
            if self.with_room(workspace, |room| room.order.delivered().is_some()) == Some(true) {
                return;
            }
            opened.await;
        }
    }

    /// Waits until a room has to read the log.
    pub async fn stale(&self) {
        let Some(shared) = &self.shared else {
            return std::future::pending().await;
        };
        loop {
            let due = lock(&shared.stale).values().map(|room| room.due).min();
            match due {
                Some(due) if due <= Instant::now() => return,
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(due.into()) => return,
                    () = shared.is_stale.notified() => {}
                },
                None => shared.is_stale.notified().await,
            }
        }
    }

    /// Takes the rooms that have to read the log now. Rooms that have closed or caught up in the meantime are omitted.
    pub fn take_behind(&self) -> Vec<Behind> {
        let Some(shared) = &self.shared else {
            return Vec::new();
        };
        let now = Instant::now();
        // The epoch is read before the positions, because `start_over` replaces the positions first.
        let epoch = lock(&shared.epoch).clone();
        let generation = shared.generation.load(Ordering::SeqCst);
        let due: Vec<(WorkspaceId, Stale)> = lock(&shared.stale)
            .extract_if(|_, room| room.due <= now)
            .collect();
        let behind = due.into_iter().filter_map(|(workspace, stale)| {
            let delivered = self.with_room(workspace, |room| {
                let is_meant = stale.is_forced || room.order.has_gap();
                room.order
                    .delivered()
                    .filter(|_| is_meant && !room.sockets.is_empty())
            });
            Some(Behind {
                workspace,
                delivered: delivered.flatten()?,
                generation,
                epoch: epoch.clone(),
            })
        });
        behind.collect()
    }

    /// Waits for rooms without a position, and takes them.
    pub async fn unopened(&self) -> Vec<WorkspaceId> {
        let Some(shared) = &self.shared else {
            return std::future::pending().await;
        };
        loop {
            let rooms = std::mem::take(&mut *lock(&shared.unopened));
            if !rooms.is_empty() {
                return rooms.into_iter().collect();
            }
            shared.has_unopened.notified().await;
        }
    }

    /// Causes the positions of these rooms to be read again after a failed read.
    pub fn mark_unopened(&self, rooms: &[WorkspaceId]) {
        if let Some(shared) = &self.shared {
            for workspace in rooms {
                shared.mark_unopened(*workspace);
            }
        }
    }

    /// Generation of the log that is currently followed.
    pub fn generation(&self) -> u64 {
        self.shared
            .as_ref()
            .map_or(0, |shared| shared.generation.load(Ordering::SeqCst))
    }

    /// Like `publish`, for an event from another node or from the log. Does nothing if the log was replaced after `generation`.
    pub fn publish_of(&self, generation: u64, event: &Envelope) {
        let Some(shared) = &self.shared else { return };
        let has_gap = self.with_room(event.workspace, |room| {
            // Compared under the lock of the room, which `start_over` takes after it has changed the generation.
            let is_current = shared.generation.load(Ordering::SeqCst) == generation;
            is_current && !room.sockets.is_empty() && room.receive(event)
        });
        if has_gap == Some(true) {
            shared.mark_gap(event.workspace, shared.patience());
        }
    }

    /// Closes the sockets of a room that cannot continue because undelivered events were deleted, and discards its position.
    pub fn restart_room(&self, workspace: WorkspaceId) {
        let Some(shared) = &self.shared else { return };
        self.with_room(workspace, |room| {
            for socket in room.sockets.values() {
                socket.close(Close::GoingAway);
            }
            room.order = Order::default();
        });
        shared.mark_unopened(workspace);
    }

    /// Checks whether a workspace has sockets on this node.
    pub fn is_open(&self, workspace: WorkspaceId) -> bool {
        self.with_room(workspace, |room| !room.sockets.is_empty()) == Some(true)
    }

    /// Rooms with sockets.
    pub fn open_rooms(&self) -> Vec<WorkspaceId> {
        let open = |room: &Mutex<Room>| !lock(room).sockets.is_empty();
        let rooms = self.rooms.iter().filter(|room| open(room));
        rooms.map(|room| *room.key()).collect()
    }

    /// Makes every room read the log.
    pub fn mark_all_stale(&self) {
        if let Some(shared) = &self.shared {
            for workspace in self.open_rooms() {
                shared.mark_stale(workspace, Duration::ZERO);
            }
        }
    }

    /// Makes a room read the log again after a delay, because the last page was not the end of the log, or because a read failed.
    pub fn mark_stale(&self, workspace: WorkspaceId, after: Duration) {
        if let Some(shared) = &self.shared {
            shared.mark_stale(workspace, after);
        }
    }

    /// Sets the first position of each room to the newest position of its workspace, as given in `heads`.
    pub fn open_at(&self, heads: impl IntoIterator<Item = (WorkspaceId, Position)>) {
        let Some(shared) = &self.shared else { return };
        for (workspace, head) in heads {
            let has_gap = self.with_room(workspace, |room| {
                !room.sockets.is_empty() && room.open_at(head)
            });
            if has_gap == Some(true) {
                shared.mark_gap(workspace, shared.patience());
            }
        }
        shared.opened.notify_waiters();
    }

    /// Records that an event exists. If the room has not delivered it yet, makes the room read the log after the given time and
    /// returns true.
    pub fn reached(&self, workspace: WorkspaceId, seq: i64, after: Duration) -> bool {
        let is_behind = self.with_room(workspace, |room| {
            !room.sockets.is_empty() && room.order.note(seq)
        });
        if is_behind == Some(true)
            && let Some(shared) = &self.shared
        {
            shared.mark_gap(workspace, after);
        }
        is_behind == Some(true)
    }

    /// Handles a message from another node; ignores messages that do not concern sockets. `generation` must have been read before the
    /// epoch of the message was compared.
    pub fn receive(&self, received: &Received, generation: u64) {
        let Some(shared) = &self.shared else { return };
        match &received.message {
            BusMessage::Log {
                workspace,
                last,
                events,
                ..
            } => {
                for event in events {
                    self.publish_of(generation, event);
                }
                let after = if events.is_empty() {
                    Duration::ZERO
                } else {
                    shared.patience()
                };
                self.reached(*workspace, *last, after);
            }
            BusMessage::Delta(delta) => self.receive_delta(delta),
            BusMessage::Want { workspace, task } => self.resend_streams(*workspace, *task),
            BusMessage::Typing {
                workspace,
                conversation,
                user,
            } => self.typing_here(*workspace, *conversation, *user),
            BusMessage::Live {
                workspace,
                conversation,
                frame,
            } => self.live_here(*workspace, *conversation, &frame.as_str().into()),
            BusMessage::User {
                workspace,
                user,
                frame,
            } => self.tell_user_here(*workspace, *user, &frame.as_str().into()),
            BusMessage::Presence {
                workspace,
                user,
                status,
            } => {
                let is_there = *status == PresenceStatus::Online;
                self.set_elsewhere(*workspace, *user, received.node, is_there);
            }
            BusMessage::Stop { workspace, task } => self.drop_stream(*workspace, *task),
            BusMessage::Steer { .. }
            | BusMessage::Command
            | BusMessage::Wake
            | BusMessage::Revoke
            | BusMessage::Node { .. } => {}
        }
    }

    /// Sends the watchers on this node a part of a reply that another node is writing. Requests the preceding text if it is missing.
    fn receive_delta(&self, delta: &RemoteDelta) {
        let Some(room) = self.rooms.get(&delta.workspace).map(|room| room.clone()) else {
            return;
        };
        let mut room = lock(&room);
        if room.sockets.is_empty() {
            return;
        }
        let known = room.streams.get(&delta.task);
        if known.is_some_and(|stream| stream.attempt > delta.attempt)
            || known.is_some_and(|stream| stream.attempt == delta.attempt && !stream.is_elsewhere())
        {
            return;
        }
        let begins = known.is_none_or(|stream| stream.attempt < delta.attempt);
        room.ended.retain(|_, at| at.elapsed() < ENDED_FOR);
        if begins && room.ended.contains_key(&delta.message) {
            // The delta was sent before the end of the stream, but arrived after it.
            return;
        }
        if begins && delta.offset == 0 {
            let stream = Stream::elsewhere(self.next_stream(), delta);
            room.streams.insert(delta.task, stream);
        }
        let appended = match room.streams.get_mut(&delta.task) {
            Some(stream) if stream.attempt == delta.attempt => stream.append(delta),
            _ => Err(Gap),
        };
        match appended {
            Ok(Some(from)) => room.send_delta(delta.task, from),
            Ok(None) => {}
            Err(Gap) => {
                let now = Instant::now();
                room.wanted
                    .retain(|_, at| now.duration_since(*at) < WANTED_AGAIN);
                if let Entry::Vacant(wanted) = room.wanted.entry(delta.task) {
                    wanted.insert(now);
                    self.relay(|| BusMessage::Want {
                        workspace: delta.workspace,
                        task: Some(delta.task),
                    });
                }
            }
        }
    }

    /// Sends the other nodes the text of a reply that this node is writing, or of all such replies of a workspace, from its beginning
    /// to the last delta.
    fn resend_streams(&self, workspace: WorkspaceId, wanted: Option<TaskId>) {
        // Under the lock of the room, so that the next delta follows the text.
        self.with_room(workspace, |room| {
            for (task, stream) in &room.streams {
                let is_wanted = wanted.is_none_or(|wanted| wanted == *task);
                if is_wanted && !stream.is_elsewhere() && stream.sent.bytes > 0 {
                    let whole = TextPosition::default();
                    self.relay(|| BusMessage::Delta(stream.remote_delta(workspace, *task, whole)));
                }
            }
        });
    }

    fn set_elsewhere(&self, workspace: WorkspaceId, user: UserId, node: NodeId, is_there: bool) {
        let Some(room) = self.rooms.get(&workspace).map(|room| room.clone()) else {
            return;
        };
        let mut room = lock(&room);
        if room.sockets.is_empty() {
            return;
        }
        let was_online = room.is_online(user);
        if is_there {
            room.elsewhere.entry(user).or_default().insert(node);
        } else if let Some(nodes) = room.elsewhere.get_mut(&user) {
            nodes.remove(&node);
            if nodes.is_empty() {
                room.elsewhere.remove(&user);
            }
        }
        if room.is_online(user) != was_online {
            room.presence_changed(user);
            self.pace(workspace);
        }
    }

    /// Replaces the record of people who have sockets on other nodes, for the given open rooms.
    pub fn replace_elsewhere(
        &self,
        mut people: HashMap<WorkspaceId, HashMap<UserId, HashSet<NodeId>>>,
        rooms: &[WorkspaceId],
    ) {
        for workspace in rooms {
            let Some(room) = self.rooms.get(workspace).map(|room| room.clone()) else {
                continue;
            };
            let mut room = lock(&room);
            if room.sockets.is_empty() {
                continue;
            }
            let now = people.remove(workspace).unwrap_or_default();
            let before = std::mem::replace(&mut room.elsewhere, now);
            let changed: Vec<UserId> = before
                .keys()
                .filter(|user| !room.elsewhere.contains_key(user))
                .chain(
                    room.elsewhere
                        .keys()
                        .filter(|user| !before.contains_key(user)),
                )
                .filter(|user| !room.people.contains_key(user))
                .copied()
                .collect();
            for user in changed {
                room.presence_changed(user);
                self.pace(*workspace);
            }
        }
    }

    /// Puts back presence changes that could not be stored, unless there are newer ones.
    pub fn return_presence(&self, changes: &[PresenceChange]) {
        let Some(shared) = &self.shared else { return };
        let mut waiting = lock(&shared.presence);
        for change in changes {
            let of = (change.workspace, change.user);
            waiting.entry(of).or_insert(change.is_here);
        }
    }

    /// Takes the presence changes on this node since the last call.
    pub fn take_presence(&self) -> Vec<PresenceChange> {
        let Some(shared) = &self.shared else {
            return Vec::new();
        };
        let changes = std::mem::take(&mut *lock(&shared.presence));
        let changes = changes.into_iter();
        changes
            .map(|((workspace, user), is_here)| PresenceChange {
                workspace,
                user,
                is_here,
            })
            .collect()
    }

    /// Records all people on this node as presence changes, because the node's presence rows may be incomplete.
    pub fn repeat_presence(&self) {
        let Some(shared) = &self.shared else { return };
        for room in &self.rooms {
            let workspace = *room.key();
            for user in lock(room.value()).people.keys() {
                shared.note_presence(workspace, *user, true);
            }
        }
    }

    /// Forgets streams from other nodes that have been silent for `STREAM_SILENCE_MAX`, because they ended without a final event.
    pub fn forget_silent_streams(&self) {
        for room in &self.rooms {
            lock(room.value())
                .streams
                .retain(|_, stream| match stream.source {
                    StreamSource::Elsewhere(heard) => heard.elapsed() < STREAM_SILENCE_MAX,
                    StreamSource::Here(_) => true,
                });
        }
    }

    /// Sets the epoch of the log when the server starts.
    pub fn set_epoch(&self, epoch: &str) {
        if let Some(shared) = &self.shared {
            epoch.clone_into(&mut lock(&shared.epoch));
        }
    }

    /// Stops sending to the current sockets, and makes the rooms start at the head of the log of a new epoch. `close_gradually`
    /// then closes these sockets.
    pub fn start_over(&self, epoch: &str) {
        let Some(shared) = &self.shared else { return };
        shared.generation.fetch_add(1, Ordering::SeqCst);
        for room in &self.rooms {
            let mut room = lock(room.value());
            for socket in room.sockets.values() {
                socket.mute();
            }
            room.order = Order::default();
            room.last_seq = 0;
            drop(room);
        }
        epoch.clone_into(&mut lock(&shared.epoch));
        self.mark_unopened(&self.open_rooms());
    }

    /// Closes all currently open sockets in random order over `time`, so that their clients do not reconnect all at once.
    pub async fn close_gradually(&self, why: Close, time: Duration) {
        use rand::seq::SliceRandom;

        let mut sockets: Vec<_> = self
            .rooms
            .iter()
            .flat_map(|room| {
                lock(room.value())
                    .sockets
                    .values()
                    .cloned()
                    .collect::<Vec<_>>()
            })
            .collect();
        sockets.shuffle(&mut rand::rng());
        let steps = u32::try_from(sockets.len().clamp(1, 100)).unwrap_or(1);
        let at_once = sockets.len().div_ceil(steps as usize).max(1);
        for some in sockets.chunks(at_once) {
            for socket in some {
                socket.close(why);
            }
            tokio::time::sleep(time / steps).await;
        }
    }

    /// Number of sockets in this process.
    pub fn socket_count(&self) -> usize {
        self.rooms
            .iter()
            .map(|room| lock(room.value()).sockets.len())
            .sum()
    }

    fn with_room<T>(&self, workspace: WorkspaceId, act: impl FnOnce(&mut Room) -> T) -> Option<T> {
        let room = self.rooms.get(&workspace)?.clone();
        let mut room = lock(&room);
        Some(act(&mut room))
    }
}
