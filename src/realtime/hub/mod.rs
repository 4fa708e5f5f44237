//! The sockets of this process, and the frames sent to them.
//!
//! Each workspace has one state behind a lock that is held only briefly: its sockets, the channels that each socket receives, the
//! conversations that each socket watches, and the streaming replies. A frame is encoded once and cloned by reference. Nothing here
//! waits: a socket whose queue is full is closed and catches up from the log. If other nodes write to the same workspaces, `remote`
//! delivers their events and frames as well.

mod order;
mod remote;
mod room;
mod shared;
mod socket;
mod stream;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::extract::ws::Utf8Bytes;
use dashmap::DashMap;
use serde::Serialize;
use tokio::sync::mpsc;

pub use super::conversation::Conversation;
use super::{
    bus_message::BusMessage,
    catch_up::CatchUps,
    delivery::Delivery,
    frame::{LiveFrame, StreamStart, encode_frame},
    log::{AgentVisibility, Envelope, MembershipChange},
};
use crate::ids::{ChannelId, MessageId, TaskId, UserId, WorkspaceId};
pub use remote::PresenceChange;
use room::Room;
pub use room::SUBSCRIPTIONS_MAX;
use shared::lock;
pub use shared::{Behind, Shared};
pub use socket::{Close, Outgoing, Socket, SocketOwner};
pub use stream::TaskRun;
use stream::{Stream, StreamSource, TextPosition};

/// Interval between broadcasts of delayed presence changes.
pub const PRESENCE_EVERY: Duration = Duration::from_millis(100);
/// Interval at which scoped sockets are notified of activity in channels that they do not follow.
pub const ACTIVITY_EVERY: Duration = Duration::from_secs(1);

/// Number of people with input above which old entries are forgotten, and their age.
const ACTIVE_MAX: usize = 10_000;
const ACTIVE_KEPT: Duration = Duration::from_mins(2);

/// Input of a person.
#[derive(Debug, Clone, Copy)]
struct Active {
    at: Instant,
    /// False if other nodes have to learn of it.
    is_stored: bool,
}

#[derive(Default)]
pub struct Hub {
    rooms: DashMap<WorkspaceId, Arc<Mutex<Room>>>,
    next: AtomicU64,
    next_stream: AtomicU64,
    /// Workspaces in which presence frames were sent in this tick.
    paced: Mutex<HashSet<WorkspaceId>>,
    /// Times of the latest input of people with visible windows on this node.
    active: Mutex<HashMap<UserId, Active>>,
    /// Limits the number of sockets that catch up at the same time.
    pub catch_ups: CatchUps,
    /// `None` if no other node writes to the same workspaces.
    shared: Option<Shared>,
}

impl Hub {
    fn room(&self, workspace: WorkspaceId) -> Arc<Mutex<Room>> {
        Arc::clone(&self.rooms.entry(workspace).or_default())
    }

    /// Registers a socket. Until `admit`, it receives no events of private channels and, if it has a scope, no traffic of public
    /// channels.
    pub fn register(
        &self,
        owner: SocketOwner,
        visibility: AgentVisibility,
        delivery: Delivery,
    ) -> (Arc<Socket>, mpsc::Receiver<Outgoing>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let SocketOwner {
            workspace, user, ..
        } = owner;
        let (socket, receive) = Socket::new(id, owner, visibility, delivery);
        let room = self.room(workspace);
        let mut room = lock(&room);
        let opens = room.sockets.is_empty();
        let own = room.people.entry(user).or_default();
        let came = own.is_empty();
        own.insert(socket.id);
        room.sockets.insert(socket.id, Arc::clone(&socket));
        if socket.is_of_guest() {
            room.guests.insert(socket.id, HashSet::new());
        } else if !socket.is_scoped() {
            room.unscoped.insert(socket.id);
        }
        room.joining.insert(socket.id, Vec::new());
        if came {
            self.presence_changed(workspace, user, &mut room);
        }
        if let Some(shared) = self.shared.as_ref().filter(|_| opens) {
            shared.mark_unopened(workspace);
        }
        metrics::gauge!("openvibe_sockets").increment(1.0);
        (socket, receive)
    }

    /// Sends a guest's socket the presence of these people, who share a channel with the guest.
    pub fn show_people(&self, workspace: WorkspaceId, socket: &Socket, people: Vec<UserId>) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        if let Some(known) = room.guests.get_mut(&socket.id) {
            known.extend(people);
        }
    }

    /// Admits the socket to the channels that were read from the database, and applies changes since then. `joined` contains the
    /// person's private and direct channels and, if the socket has a scope or is a guest's, the joined public ones. `open` contains the
    /// channels that the client has open from the start.
    pub fn admit(
        &self,
        workspace: WorkspaceId,
        socket: &Socket,
        joined: Vec<ChannelId>,
        open: &[ChannelId],
    ) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        for channel in joined {
            room.members.entry(channel).or_default().insert(socket.id);
        }
        for change in room.joining.remove(&socket.id).unwrap_or_default() {
            match change {
                MembershipChange::Granted { channel, users } if users.contains(&socket.user) => {
                    room.members.entry(channel).or_default().insert(socket.id);
                }
                MembershipChange::Joined { channel, users }
                    if (socket.is_scoped() || socket.is_of_guest())
                        && users.contains(&socket.user) =>
                {
                    room.members.entry(channel).or_default().insert(socket.id);
                }
                MembershipChange::Revoked { channel, user }
                | MembershipChange::Left { channel, user }
                    if user == socket.user =>
                {
                    if let Some(sockets) = room.members.get_mut(&channel) {
                        sockets.remove(&socket.id);
                    }
                }
                _ => {}
            }
        }
        for channel in open {
            room.watch(socket, channel.0, *channel);
        }
    }

    pub fn remove(&self, workspace: WorkspaceId, socket: &Socket) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        if room.sockets.remove(&socket.id).is_none() {
            return;
        }
        room.joining.remove(&socket.id);
        room.unwatch_all(socket.id);
        room.unscoped.remove(&socket.id);
        room.guests.remove(&socket.id);
        room.members.retain(|_, sockets| {
            sockets.remove(&socket.id);
            !sockets.is_empty()
        });
        let mut left = false;
        if let Some(own) = room.people.get_mut(&socket.user) {
            own.remove(&socket.id);
            left = own.is_empty();
        }
        if left {
            room.people.remove(&socket.user);
            self.presence_changed(workspace, socket.user, &mut room);
        }
        if self.shared.is_some() && room.sockets.is_empty() {
            room.close();
        }
        metrics::gauge!("openvibe_sockets").decrement(1.0);
    }

    /// Announces that a person's first socket in this process was opened, or their last one closed.
    fn presence_changed(&self, workspace: WorkspaceId, user: UserId, room: &mut Room) {
        if let Some(shared) = &self.shared {
            let is_here = room.people.contains_key(&user);
            shared.note_presence(workspace, user, is_here);
        }
        if !room.elsewhere.contains_key(&user) {
            room.presence_changed(user);
            self.pace(workspace);
        }
    }

    fn pace(&self, workspace: WorkspaceId) {
        lock(&self.paced).insert(workspace);
    }

    /// Starts a new tick: sends delayed presence changes up to the limit.
    pub fn broadcast_presence(&self) {
        let paced = std::mem::take(&mut *lock(&self.paced));
        for workspace in paced {
            let Some(room) = self.rooms.get(&workspace).map(|r| Arc::clone(&r)) else {
                continue;
            };
            let mut room = lock(&room);
            room.presence_frames = 0;
            room.broadcast_presence();
            if room.presence_frames > 0 {
                self.pace(workspace);
            }
        }
    }

    /// Notifies scoped sockets of activity in public channels that they do not follow.
    pub fn broadcast_activity(&self) {
        for room in &self.rooms {
            lock(room.value()).broadcast_activity();
        }
    }

    fn next_stream(&self) -> u64 {
        self.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    /// Delivers a committed event to its recipients. Must be called in commit order.
    pub fn publish(&self, event: &Envelope) {
        let Some(room) = self.rooms.get(&event.workspace).map(|r| Arc::clone(&r)) else {
            return;
        };
        let mut room = lock(&room);
        let Some(shared) = &self.shared else {
            room.accept(event);
            return;
        };
        if !room.sockets.is_empty() && room.receive(event) {
            drop(room);
            shared.mark_gap(event.workspace, shared.patience());
        }
    }

    /// Queues a heartbeat after all delivered events; `at_least` is the sequence number that the
    /// socket already has.
    pub fn heartbeat(&self, workspace: WorkspaceId, socket: &Socket, at_least: i64) {
        let room = self.room(workspace);
        let room = lock(&room);
        let seq = room.last_seq.max(at_least);
        socket.ephemeral(&LiveFrame::Heartbeat { seq }.encode());
    }

    /// Closes every socket that matches `which`.
    pub fn close_where(&self, why: Close, which: impl Fn(&Socket) -> bool) {
        self.each_where(which, |socket| socket.close(why));
    }

    /// Makes every socket that matches `which` check its access.
    pub fn doubt_where(&self, which: impl Fn(&Socket) -> bool) {
        self.each_where(which, Socket::doubt);
    }

    /// All sockets of this process.
    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        let mut all = Vec::new();
        for room in &self.rooms {
            all.extend(lock(&room).sockets.values().cloned());
        }
        all
    }

    fn each_where(&self, which: impl Fn(&Socket) -> bool, act: impl Fn(&Socket)) {
        for room in &self.rooms {
            for socket in lock(&room).sockets.values().filter(|socket| which(socket)) {
                act(socket);
            }
        }
    }

    /// Recovers committed events that could not be delivered: either the room or reconnecting clients read them from the log.
    pub fn recover(&self, workspace: WorkspaceId) {
        match &self.shared {
            Some(shared) => shared.mark_stale(workspace, Duration::ZERO),
            None => self.make_resume(workspace),
        }
    }

    /// Closes a workspace's sockets, so that their clients reconnect and read undelivered events from the log.
    pub fn make_resume(&self, workspace: WorkspaceId) {
        if let Some(room) = self.rooms.get(&workspace) {
            for socket in lock(&room).sockets.values() {
                socket.close(Close::GoingAway);
            }
        }
    }

    pub fn online(&self, workspace: WorkspaceId) -> Vec<UserId> {
        self.rooms
            .get(&workspace)
            .map(|room| {
                let room = lock(&room);
                let here = room.people.keys();
                let elsewhere = room.elsewhere.keys();
                let elsewhere = elsewhere.filter(|user| !room.people.contains_key(user));
                here.chain(elsewhere).copied().collect()
            })
            .unwrap_or_default()
    }

    /// Subscribes a socket to a conversation, sends it the text written so far in the conversation's streaming replies, and returns
    /// these replies. Returns `None` if the socket has too many subscriptions.
    pub fn watch(
        &self,
        workspace: WorkspaceId,
        channel: ChannelId,
        socket: &Socket,
        conversation: Conversation,
    ) -> Option<Vec<StreamStart>> {
        let room = self.room(workspace);
        let mut room = lock(&room);
        if !room.watch(socket, conversation.id(), channel) {
            return None;
        }
        let streams = room.streams.iter();
        let streams = streams.filter(|(_, stream)| stream.conversation == conversation);
        let started = streams.map(|(task, stream)| {
            let so_far = stream.delta(*task, TextPosition::default());
            socket.ephemeral(so_far.for_socket(socket));
            stream.start(*task)
        });
        Some(started.collect())
    }

    pub fn unwatch(&self, workspace: WorkspaceId, socket: &Socket, conversation: Conversation) {
        lock(&self.room(workspace)).unwatch_one(socket.id, conversation.id());
    }

    /// Sends the traffic of a channel to a scoped socket. Returns false if the socket has too many subscriptions.
    pub fn open_channel(
        &self,
        workspace: WorkspaceId,
        channel: ChannelId,
        socket: &Socket,
    ) -> bool {
        lock(&self.room(workspace)).watch(socket, channel.0, channel)
    }

    pub fn close_channel(&self, workspace: WorkspaceId, channel: ChannelId, socket: &Socket) {
        lock(&self.room(workspace)).unwatch_one(socket.id, channel.0);
    }

    /// Checks whether the socket watches the conversation.
    pub fn is_watching(
        &self,
        workspace: WorkspaceId,
        socket: &Socket,
        conversation: Conversation,
    ) -> bool {
        let room = self.room(workspace);
        let room = lock(&room);
        room.watched
            .get(&socket.id)
            .is_some_and(|watched| watched.contains_key(&conversation.id()))
    }

    /// Sends a typing frame to the watchers of a conversation, except to `user`'s own sockets.
    pub fn typing(&self, workspace: WorkspaceId, conversation: Conversation, user: UserId) {
        self.relay(|| BusMessage::Typing {
            workspace,
            conversation,
            user,
        });
        self.typing_here(workspace, conversation, user);
    }

    fn typing_here(&self, workspace: WorkspaceId, conversation: Conversation, user: UserId) {
        let (thread_id, fork_id) = match conversation {
            Conversation::Thread(id) => (Some(id), None),
            Conversation::Fork(id) => (None, Some(id)),
        };
        let frame = LiveFrame::Typing {
            thread_id,
            fork_id,
            user_id: user,
        };
        if let Some(room) = self.rooms.get(&workspace) {
            lock(&room).to_watchers(conversation.id(), &frame.encode(), Some(user));
        }
    }

    /// Sends an ephemeral frame to the watchers of a conversation.
    pub fn live(&self, workspace: WorkspaceId, conversation: Conversation, frame: &LiveFrame<'_>) {
        let frame = frame.encode();
        self.relay(|| BusMessage::Live {
            workspace,
            conversation,
            frame: frame.to_string(),
        });
        self.live_here(workspace, conversation, &frame);
    }

    fn live_here(&self, workspace: WorkspaceId, conversation: Conversation, frame: &Utf8Bytes) {
        if let Some(room) = self.rooms.get(&workspace) {
            lock(&room).to_watchers(conversation.id(), frame, None);
        }
    }

    /// Notes that a person had input in a visible window. Keys count, too: a client acts for its person.
    pub fn note_active(&self, user: UserId) {
        let mut active = lock(&self.active);
        if active.len() >= ACTIVE_MAX && !active.contains_key(&user) {
            active.retain(|_, noted| noted.at.elapsed() < ACTIVE_KEPT);
        }
        let noted = Active {
            at: Instant::now(),
            is_stored: self.shared.is_none(),
        };
        active.insert(user, noted);
    }

    /// Checks whether a person had input on this node within a time.
    pub fn is_active(&self, user: UserId, within: Duration) -> bool {
        let active = lock(&self.active);
        active
            .get(&user)
            .is_some_and(|noted| noted.at.elapsed() < within)
    }

    /// Takes the people whose input other nodes do not know yet.
    pub fn take_active(&self) -> Vec<UserId> {
        let mut active = lock(&self.active);
        let new = active.iter_mut().filter(|(_, noted)| !noted.is_stored);
        new.map(|(user, noted)| {
            noted.is_stored = true;
            *user
        })
        .collect()
    }

    /// Sends an ephemeral frame to one person's own sockets.
    pub fn tell_user(&self, workspace: WorkspaceId, user: UserId, frame: &impl Serialize) {
        let frame = encode_frame(frame);
        self.relay(|| BusMessage::User {
            workspace,
            user,
            frame: frame.to_string(),
        });
        self.tell_user_here(workspace, user, &frame);
    }

    fn tell_user_here(&self, workspace: WorkspaceId, user: UserId, frame: &Utf8Bytes) {
        if let Some(room) = self.rooms.get(&workspace) {
            let room = lock(&room);
            for id in room.people.get(&user).into_iter().flatten() {
                if let Some(socket) = room.sockets.get(id) {
                    socket.ephemeral(frame);
                }
            }
        }
    }

    /// Starts a streamed reply, or a new attempt at it; deltas restart at offset 0.
    pub fn open_stream(
        &self,
        workspace: WorkspaceId,
        run: TaskRun,
        conversation: Conversation,
        message: MessageId,
        attempt: i64,
    ) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        let is_overtaken = room
            .streams
            .get(&run.task)
            .is_some_and(|stream| stream.attempt > attempt);
        if is_overtaken {
            return;
        }
        let stream = Stream {
            number: self.next_stream(),
            source: StreamSource::Here(run.token),
            conversation,
            message,
            attempt,
            text: String::new(),
            sent: TextPosition::default(),
        };
        room.streams.insert(run.task, stream);
    }

    pub fn push_stream(&self, workspace: WorkspaceId, run: TaskRun, piece: &str) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        if let Some(stream) = room.stream_of(run) {
            stream.text.push_str(piece);
        }
    }

    /// Sends the text that was pushed since the last flush as one frame. Returns false if there is no new text.
    pub fn flush_stream(&self, workspace: WorkspaceId, run: TaskRun) -> bool {
        let room = self.room(workspace);
        let mut room = lock(&room);
        let Some(stream) = room.stream_of(run) else {
            return false;
        };
        let from = stream.sent;
        if from.bytes == stream.text.len() {
            return false;
        }
        stream.mark_sent();
        self.relay(|| BusMessage::Delta(stream.remote_delta(workspace, run.task, from)));
        room.send_delta(run.task, from);
        true
    }

    /// Returns the text of a stream that this process has so far.
    pub fn stream_text(&self, workspace: WorkspaceId, task: TaskId) -> Option<String> {
        lock(&self.room(workspace))
            .streams
            .get(&task)
            .map(|stream| stream.text.clone())
    }

    /// Ends a stream if this run of the task writes it.
    pub fn close_stream(&self, workspace: WorkspaceId, run: TaskRun) {
        let room = self.room(workspace);
        let mut room = lock(&room);
        if room.stream_of(run).is_some() {
            room.streams.remove(&run.task);
        }
    }

    /// Ends the stream of a task, regardless of the run that writes it.
    pub fn drop_stream(&self, workspace: WorkspaceId, task: TaskId) {
        lock(&self.room(workspace)).streams.remove(&task);
    }
}

#[cfg(test)]
mod tests {
    use super::{room::PRESENCE_FRAMES_PER_TICK, socket::SOCKET_QUEUE_MAX, *};
    use crate::{
        ids::ThreadId,
        realtime::{Audience, EventScope, Reach},
    };
    use uuid::Uuid;

    const SEES_ALL: AgentVisibility = AgentVisibility {
        agents: true,
        all_agents: true,
        reach: Reach::Workspace,
    };
    const GUEST: AgentVisibility = AgentVisibility {
        agents: false,
        all_agents: false,
        reach: Reach::Joined,
    };

    fn owner(workspace: WorkspaceId, user: UserId) -> SocketOwner {
        SocketOwner {
            workspace,
            user,
            session: None,
            key: None,
        }
    }

    fn register(
        hub: &Hub,
        workspace: WorkspaceId,
        user: UserId,
    ) -> (Arc<Socket>, mpsc::Receiver<Outgoing>) {
        hub.register(owner(workspace, user), SEES_ALL, Delivery::default())
    }

    fn texts(receive: &mut mpsc::Receiver<Outgoing>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(Outgoing::Event(_, text) | Outgoing::Frame(text)) = receive.try_recv() {
            all.push(text.to_string());
        }
        all
    }

    fn event(workspace: WorkspaceId, seq: i64, audience: Audience) -> Envelope {
        Envelope {
            only: None,
            is_of_agent: false,
            is_traffic: true,
            is_for_guests: false,
            mentioned: Vec::new(),
            ends_stream: None,
            workspace,
            seq,
            ts: crate::time::Timestamp::EPOCH,
            audience,
            extra_recipient: None,
            access: None,
            frame: format!("event {seq}").into(),
        }
    }

    #[test]
    fn events_of_a_private_channel_reach_only_its_members() {
        let (hub, ws, channel) = (Hub::default(), WorkspaceId::new(), ChannelId::new());
        let (inside, mut inside_rx) = register(&hub, ws, UserId::new());
        let (outside, mut outside_rx) = register(&hub, ws, UserId::new());
        hub.admit(ws, &inside, vec![channel], &[]);
        hub.admit(ws, &outside, vec![], &[]);
        texts(&mut inside_rx);
        texts(&mut outside_rx);
        hub.publish(&event(ws, 1, Audience::Members(channel)));
        assert_eq!(texts(&mut inside_rx), ["event 1"]);
        assert!(texts(&mut outside_rx).is_empty());
    }

    #[test]
    fn guests_receive_only_their_channels_and_the_presence_of_people_there() {
        for scope in [EventScope::All, EventScope::Joined] {
            let (hub, ws) = (Hub::default(), WorkspaceId::new());
            let (own, other) = (ChannelId::new(), ChannelId::new());
            let (guest, colleague) = (UserId::new(), UserId::new());
            let delivery = Delivery {
                scope,
                ..Delivery::default()
            };
            let (socket, mut receive) = hub.register(owner(ws, guest), GUEST, delivery);
            hub.show_people(ws, &socket, vec![colleague]);
            hub.admit(ws, &socket, vec![own], &[]);
            texts(&mut receive);
            let mut mention = event(ws, 3, Audience::Public(other));
            mention.mentioned = vec![guest];
            let mut created = event(ws, 4, Audience::Public(other));
            created.is_traffic = false;
            let mut updated = event(ws, 7, Audience::Workspace);
            updated.is_for_guests = true;
            for event in [
                event(ws, 1, Audience::Public(own)),
                event(ws, 2, Audience::Public(other)),
                mention,
                created,
                event(ws, 5, Audience::Members(other)),
                event(ws, 6, Audience::Workspace),
                updated,
            ] {
                hub.publish(&event);
            }
            hub.broadcast_activity();
            assert_eq!(texts(&mut receive), ["event 1", "event 7"], "{scope}");
            let (_stranger, _one) = register(&hub, ws, UserId::new());
            assert!(texts(&mut receive).is_empty(), "{scope}");
            let (_colleague, _two) = register(&hub, ws, colleague);
            assert_eq!(texts(&mut receive).len(), 1, "{scope}");
        }
    }

    #[test]
    fn a_guest_who_leaves_a_public_channel_receives_nothing_of_it() {
        let (hub, ws, channel) = (Hub::default(), WorkspaceId::new(), ChannelId::new());
        let guest = UserId::new();
        let (socket, mut receive) = hub.register(owner(ws, guest), GUEST, Delivery::default());
        hub.admit(ws, &socket, vec![], &[]);
        let mut joined = event(ws, 1, Audience::Public(channel));
        joined.access = Some(MembershipChange::Joined {
            channel,
            users: vec![guest],
        });
        hub.publish(&joined);
        let thread = Conversation::Thread(ThreadId::new());
        assert!(hub.watch(ws, channel, &socket, thread).is_some());
        hub.publish(&event(ws, 2, Audience::Public(channel)));
        let mut left = event(ws, 3, Audience::Public(channel));
        left.access = Some(MembershipChange::Left {
            channel,
            user: guest,
        });
        hub.publish(&left);
        hub.publish(&event(ws, 4, Audience::Public(channel)));
        assert!(!hub.is_watching(ws, &socket, thread));
        let events: Vec<String> = texts(&mut receive)
            .into_iter()
            .filter(|text| text.starts_with("event"))
            .collect();
        assert_eq!(events, ["event 1", "event 2"]);
    }

    #[test]
    fn a_guest_who_leaves_while_the_socket_opens_receives_nothing_of_the_channel() {
        let (hub, ws, channel) = (Hub::default(), WorkspaceId::new(), ChannelId::new());
        let guest = UserId::new();
        let delivery = Delivery {
            scope: EventScope::Joined,
            ..Delivery::default()
        };
        let (socket, mut receive) = hub.register(owner(ws, guest), GUEST, delivery);
        let mut left = event(ws, 1, Audience::Public(channel));
        left.access = Some(MembershipChange::Left {
            channel,
            user: guest,
        });
        hub.publish(&left);
        // The channels were read before the guest left.
        hub.admit(ws, &socket, vec![channel], &[channel]);
        texts(&mut receive);
        hub.publish(&event(ws, 2, Audience::Public(channel)));
        assert!(texts(&mut receive).is_empty());
    }

    #[test]
    fn events_of_agents_in_a_private_channel_reach_only_members_who_see_agents() {
        let (hub, ws, channel) = (Hub::default(), WorkspaceId::new(), ChannelId::new());
        let blind = AgentVisibility {
            agents: false,
            all_agents: false,
            reach: Reach::Workspace,
        };
        let mut of_agent = event(ws, 1, Audience::Members(channel));
        of_agent.is_of_agent = true;
        let mut receivers = [
            (SEES_ALL, vec![channel]),
            (blind, vec![channel]),
            (SEES_ALL, vec![]),
        ]
        .map(|(visibility, channels)| {
            let delivery = Delivery::default();
            let (socket, receive) = hub.register(owner(ws, UserId::new()), visibility, delivery);
            hub.admit(ws, &socket, channels, &[]);
            receive
        });
        for receive in &mut receivers {
            texts(receive);
        }
        hub.publish(&of_agent);
        let received = receivers.each_mut().map(|receive| texts(receive).len());
        assert_eq!(received, [1, 0, 0]);
    }

    #[test]
    fn a_membership_change_while_a_socket_joins_is_not_lost() {
        let (hub, ws) = (Hub::default(), WorkspaceId::new());
        let (gained, lost, user) = (ChannelId::new(), ChannelId::new(), UserId::new());
        let (socket, mut receive) = register(&hub, ws, user);
        let mut grant = event(ws, 1, Audience::Members(gained));
        grant.access = Some(MembershipChange::Granted {
            channel: gained,
            users: vec![user],
        });
        hub.publish(&grant);
        let mut revoke = event(ws, 2, Audience::Members(lost));
        revoke.access = Some(MembershipChange::Revoked {
            channel: lost,
            user,
        });
        hub.publish(&revoke);
        hub.admit(ws, &socket, vec![lost], &[]);
        texts(&mut receive);
        hub.publish(&event(ws, 3, Audience::Members(gained)));
        hub.publish(&event(ws, 4, Audience::Members(lost)));
        assert_eq!(texts(&mut receive), ["event 3"]);
    }

    #[test]
    fn a_slow_reader_is_closed_and_uses_no_more_memory() {
        let (hub, ws) = (Hub::default(), WorkspaceId::new());
        let (socket, receive) = register(&hub, ws, UserId::new());
        for seq in 0..=i64::try_from(SOCKET_QUEUE_MAX).unwrap() {
            hub.publish(&event(ws, seq, Audience::Workspace));
        }
        assert_eq!(socket.close_code(), Close::TooSlow as u16);
        assert!(receive.len() <= SOCKET_QUEUE_MAX);
    }

    #[test]
    fn a_late_watcher_gets_the_text_so_far_and_then_the_deltas() {
        let (hub, ws, conversation, task) = (
            Hub::default(),
            WorkspaceId::new(),
            Conversation::Thread(ThreadId::new()),
            TaskId::new(),
        );
        let (socket, mut receive) = register(&hub, ws, UserId::new());
        let run = TaskRun {
            task,
            token: Uuid::now_v7(),
        };
        hub.open_stream(ws, run, conversation, MessageId::new(), 1);
        hub.push_stream(ws, run, "Grüße 👋");
        hub.flush_stream(ws, run);
        hub.push_stream(ws, run, " und");
        texts(&mut receive);
        let streams = hub.watch(ws, ChannelId::new(), &socket, conversation);
        assert_eq!(streams.unwrap().len(), 1);
        hub.flush_stream(ws, run);
        let frames: Vec<serde_json::Value> = texts(&mut receive)
            .iter()
            .map(|t| serde_json::from_str(t).unwrap())
            .collect();
        assert_eq!(frames[0]["text"], "Grüße 👋");
        assert_eq!(frames[0]["offset"], 0);
        assert_eq!(frames[1]["text"], " und");
        assert_eq!(frames[1]["offset"], "Grüße 👋".encode_utf16().count());
    }

    #[test]
    fn presence_of_mass_reconnects_is_paced_and_reaches_everyone() {
        let (hub, ws) = (Hub::default(), WorkspaceId::new());
        let crowd: Vec<_> = (0..300)
            .map(|_| register(&hub, ws, UserId::new()))
            .collect();
        let (first, mut receive) = register(&hub, ws, UserId::new());
        let at_once = lock(&hub.room(ws)).presence_frames;
        assert!(at_once >= PRESENCE_FRAMES_PER_TICK, "{at_once}");
        assert!(at_once < PRESENCE_FRAMES_PER_TICK + 301, "{at_once}");
        assert_eq!(receive.len(), 0, "its own arrival is delayed");
        // For someone who left before their arrival was sent, only one change is sent.
        let (brief, _) = register(&hub, ws, UserId::new());
        hub.remove(ws, &brief);
        hub.broadcast_presence();
        hub.broadcast_presence();
        let told = texts(&mut receive);
        let of = |socket: &Socket| {
            let id = socket.user.to_string();
            let about: Vec<&String> = told.iter().filter(|t| t.contains(&id)).collect();
            about
                .iter()
                .map(|t| t.contains("online"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&first), [true]);
        assert_eq!(of(&brief), [false]);
        assert!(told.len() < crowd.len());
        assert!(lock(&hub.room(ws)).pending_presence.is_empty());
        // A tick in which nothing is sent ends the pacing.
        hub.broadcast_presence();
        hub.broadcast_presence();
        assert!(lock(&hub.paced).is_empty());
    }

    #[test]
    fn activity_of_many_channels_is_paced_and_skips_none() {
        let (hub, ws) = (Hub::default(), WorkspaceId::new());
        let scoped = Delivery {
            scope: EventScope::Joined,
            ..Delivery::default()
        };
        let mut sockets: Vec<_> = (0..200)
            .map(|_| hub.register(owner(ws, UserId::new()), SEES_ALL, scoped))
            .collect();
        for (_, receive) in &mut sockets {
            texts(receive);
        }
        let channels: Vec<ChannelId> = (0..150).map(|_| ChannelId::new()).collect();
        let (_, receive) = &mut sockets[0];
        let mut announced = Vec::new();
        for first_seq in [1, 1000] {
            for (seq, channel) in (first_seq..).zip(&channels) {
                hub.publish(&event(ws, seq, Audience::Public(*channel)));
            }
            hub.broadcast_activity();
            let frames = texts(receive);
            assert_eq!(frames.len(), 100);
            announced.extend(frames);
        }
        for channel in channels {
            let id = channel.to_string();
            assert!(announced.iter().any(|frame| frame.contains(&id)), "{id}");
        }
    }

    #[test]
    fn a_superseded_run_does_not_change_the_stream() {
        let (hub, ws, task) = (Hub::default(), WorkspaceId::new(), TaskId::new());
        let conversation = Conversation::Thread(ThreadId::new());
        let [old, new] = [Uuid::now_v7(), Uuid::now_v7()].map(|token| TaskRun { task, token });
        hub.open_stream(ws, old, conversation, MessageId::new(), 1);
        hub.push_stream(ws, old, "Half");
        hub.open_stream(ws, new, conversation, MessageId::new(), 2);
        hub.push_stream(ws, new, "Whole");
        hub.open_stream(ws, old, conversation, MessageId::new(), 1);
        hub.push_stream(ws, old, " and more");
        assert!(!hub.flush_stream(ws, old));
        hub.close_stream(ws, old);
        assert_eq!(hub.stream_text(ws, task).as_deref(), Some("Whole"));
        hub.close_stream(ws, new);
        assert_eq!(hub.stream_text(ws, task), None);
    }
}
