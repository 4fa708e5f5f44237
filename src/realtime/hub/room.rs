//! The sockets of one workspace, and the traffic that each of them receives.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    sync::Arc,
    time::Instant,
};

use axum::extract::ws::Utf8Bytes;
use uuid::Uuid;

use super::{
    order::{Order, Place},
    socket::{Close, Socket},
    stream::{Stream, StreamSource, TaskRun, TextPosition},
};
use crate::{
    ids::{ChannelId, MessageId, NodeId, TaskId, UserId},
    realtime::{
        frame::{LiveFrame, PresenceStatus},
        log::{Audience, Envelope, MembershipChange, Position},
    },
};

/// Maximum number of presence frames per workspace and tick. When everyone reconnects at once, as after a restart, the total number
/// is quadratic: 25 million frames for 5,000 people, at 1 to 2 µs of CPU time each.
pub(super) const PRESENCE_FRAMES_PER_TICK: usize = 20_000;
/// Maximum number of activity frames per workspace and tick. It can be exceeded by at most one frame per socket.
const ACTIVITY_FRAMES_PER_TICK: usize = 20_000;
/// Maximum number of conversations and channels to which a socket is subscribed.
pub const SUBSCRIPTIONS_MAX: usize = 100;

/// The state of one workspace.
#[derive(Default)]
pub(super) struct Room {
    pub(super) sockets: HashMap<u64, Arc<Socket>>,
    /// Sockets of each person; a person with a socket is online.
    pub(super) people: HashMap<UserId, HashSet<u64>>,
    /// Sockets of the members of a channel; for public channels, only those with a scope and those of guests.
    pub(super) members: HashMap<ChannelId, HashSet<u64>>,
    /// Sockets without a scope, which receive the traffic of all public channels; none of guests.
    pub(super) unscoped: HashSet<u64>,
    /// Sockets of guests, with the people whose presence they receive.
    pub(super) guests: HashMap<u64, HashSet<UserId>>,
    /// Sockets with a scope that have a channel open, with the number of their subscriptions in that channel; none of guests.
    open: HashMap<ChannelId, HashMap<u64, usize>>,
    /// Public channel traffic that has not been announced yet to scoped sockets that do not receive it.
    activity: HashMap<ChannelId, Activity>,
    /// Membership changes for sockets whose channels are still being read from the database.
    pub(super) joining: HashMap<u64, Vec<MembershipChange>>,
    /// Sockets that watch a conversation or a channel.
    pub(super) watchers: HashMap<Uuid, HashSet<u64>>,
    /// Conversations and channels that a socket watches, each with its channel.
    pub(super) watched: HashMap<u64, HashMap<Uuid, ChannelId>>,
    pub(super) streams: HashMap<TaskId, Stream>,
    /// The newest event delivered to sockets.
    pub(super) last_seq: i64,
    /// People whose presence change has not been sent yet, in the order in which the changes occurred.
    pub(super) pending_presence: VecDeque<UserId>,
    pub(super) is_pending: HashSet<UserId>,
    /// Presence frames sent since the last tick.
    pub(super) presence_frames: usize,
    /// People who have a socket on another node, with these nodes.
    pub(super) elsewhere: HashMap<UserId, HashSet<NodeId>>,
    /// Order of events, if other nodes write to the log as well.
    pub(super) order: Order,
    /// Replies whose text was requested from other nodes, with the time of the request.
    pub(super) wanted: HashMap<TaskId, Instant>,
    /// Messages whose streams from other nodes have just ended, with the time of the end.
    pub(super) ended: HashMap<MessageId, Instant>,
}

/// Numbers of the first and the newest event of a channel's traffic.
struct Activity {
    first: i64,
    newest: i64,
}

impl Room {
    /// The stream of a task if this run writes it.
    pub(super) fn stream_of(&mut self, run: TaskRun) -> Option<&mut Stream> {
        self.streams
            .get_mut(&run.task)
            .filter(|stream| stream.source == StreamSource::Here(run.token))
    }

    pub(super) fn apply(&mut self, access: &MembershipChange) {
        for changes in self.joining.values_mut() {
            changes.push(access.clone());
        }
        self.update_guests(access);
        match access {
            MembershipChange::Granted { channel, users } => {
                for user in users {
                    let own = self.people.get(user).cloned().unwrap_or_default();
                    self.members.entry(*channel).or_default().extend(own);
                }
            }
            MembershipChange::Revoked { channel, user } => {
                self.remove_member(*channel, *user);
                for socket in self.people.get(user).cloned().unwrap_or_default() {
                    self.unwatch(socket, |of| of == *channel);
                }
            }
            MembershipChange::Joined { channel, users } => {
                let own = users.iter().filter_map(|user| self.people.get(user));
                let own = own.flatten().filter(|id| !self.unscoped.contains(id));
                self.members.entry(*channel).or_default().extend(own);
            }
            MembershipChange::Left { channel, user } => {
                self.remove_member(*channel, *user);
                // Others can still read the channel.
                let own = self.people.get(user).into_iter().flatten();
                let guests: Vec<u64> = own
                    .filter(|id| self.guests.contains_key(*id))
                    .copied()
                    .collect();
                for socket in guests {
                    self.unwatch(socket, |of| of == *channel);
                }
            }
            MembershipChange::Expelled { user } => {
                for id in self.people.get(user).cloned().unwrap_or_default() {
                    for sockets in self.members.values_mut() {
                        sockets.remove(&id);
                    }
                    self.unwatch_all(id);
                }
            }
        }
    }

    /// Shows guests the people who join their channels, and hides those who leave one, even if they share another: the next connection
    /// shows them again.
    fn update_guests(&mut self, access: &MembershipChange) {
        if self.guests.is_empty() {
            return;
        }
        match access {
            MembershipChange::Granted { channel, users }
            | MembershipChange::Joined { channel, users } => {
                let members = self.members.get(channel);
                for (socket, people) in &mut self.guests {
                    if members.is_some_and(|members| members.contains(socket)) {
                        people.extend(users);
                    }
                }
            }
            MembershipChange::Revoked { channel, user }
            | MembershipChange::Left { channel, user } => {
                let members = self.members.get(channel);
                let own = self.people.get(user);
                for (socket, people) in &mut self.guests {
                    if own.is_some_and(|own| own.contains(socket)) {
                        people.clear();
                    } else if members.is_some_and(|members| members.contains(socket)) {
                        people.remove(user);
                    }
                }
            }
            MembershipChange::Expelled { user } => {
                for people in self.guests.values_mut() {
                    people.remove(user);
                }
            }
        }
    }

    fn remove_member(&mut self, channel: ChannelId, user: UserId) {
        if let Some(own) = self.people.get(&user)
            && let Some(sockets) = self.members.get_mut(&channel)
        {
            sockets.retain(|id| !own.contains(id));
        }
    }

    /// Subscribes a socket to `watched`, which is a conversation in the channel or the channel itself. Returns false if the socket
    /// has too many subscriptions.
    pub(super) fn watch(&mut self, socket: &Socket, watched: Uuid, channel: ChannelId) -> bool {
        let own = self.watched.entry(socket.id).or_default();
        if own.contains_key(&watched) {
            return true;
        }
        if own.len() >= SUBSCRIPTIONS_MAX {
            return false;
        }
        own.insert(watched, channel);
        self.watchers.entry(watched).or_default().insert(socket.id);
        // A guest receives the traffic of their own channels anyway, and of no other one, not even while they are leaving it.
        if socket.is_scoped() && !socket.is_of_guest() {
            let open = self.open.entry(channel).or_default();
            *open.entry(socket.id).or_default() += 1;
        }
        true
    }

    pub(super) fn unwatch_all(&mut self, socket: u64) {
        self.unwatch(socket, |_| true);
        self.watched.remove(&socket);
    }

    /// Ends a socket's subscriptions in the channels that match.
    fn unwatch(&mut self, socket: u64, is_meant: impl Fn(ChannelId) -> bool) {
        let Some(own) = self.watched.get_mut(&socket) else {
            return;
        };
        let ended: Vec<_> = own.extract_if(|_, channel| is_meant(*channel)).collect();
        for (watched, channel) in ended {
            self.remove_watcher(socket, watched, channel);
        }
    }

    /// Ends the subscription to a conversation or a channel.
    pub(super) fn unwatch_one(&mut self, socket: u64, watched: Uuid) {
        let own = self.watched.get_mut(&socket);
        if let Some(channel) = own.and_then(|own| own.remove(&watched)) {
            self.remove_watcher(socket, watched, channel);
        }
    }

    fn remove_watcher(&mut self, socket: u64, watched: Uuid, channel: ChannelId) {
        if let Entry::Occupied(mut sockets) = self.watchers.entry(watched) {
            sockets.get_mut().remove(&socket);
            if sockets.get().is_empty() {
                sockets.remove();
            }
        }
        if let Entry::Occupied(mut open) = self.open.entry(channel) {
            if let Entry::Occupied(mut subscriptions) = open.get_mut().entry(socket) {
                *subscriptions.get_mut() -= 1;
                if *subscriptions.get() == 0 {
                    subscriptions.remove();
                }
            }
            if open.get().is_empty() {
                open.remove();
            }
        }
    }

    pub(super) fn deliver(&mut self, event: &Envelope) {
        self.last_seq = self.last_seq.max(event.seq);
        let send = |socket: &Arc<Socket>| {
            if socket.visibility.permits(event, socket.user) {
                socket.durable(event.seq, &event.frame);
            }
        };
        match event.audience {
            Audience::Members(channel) if event.only.is_none() => {
                let members = self.members.get(&channel);
                self.with_ids(members.into_iter().flatten()).for_each(send);
                self.sockets_of(&event.extra_recipient)
                    .filter(|socket| members.is_none_or(|inside| !inside.contains(&socket.id)))
                    .for_each(send);
            }
            Audience::Public(channel) if event.only.is_none() && self.is_scoped(event) => {
                self.with_ids(&self.unscoped).for_each(send);
                self.followers(channel).for_each(send);
                let extra_recipient = event.extra_recipient.as_ref();
                let mentioned = event.mentioned.iter();
                let mentioned = mentioned.filter(|user| extra_recipient != Some(*user));
                self.sockets_of(mentioned.chain(extra_recipient))
                    .filter(|socket| socket.is_scoped() || socket.is_of_guest())
                    .filter(|socket| !self.follows(socket.id, channel))
                    .filter(|socket| self.is_within_reach(event, socket))
                    .for_each(send);
                let (first, newest) = (event.seq, event.seq);
                self.activity
                    .entry(channel)
                    .and_modify(|activity| activity.newest = newest)
                    .or_insert(Activity { first, newest });
            }
            _ => self
                .sockets
                .values()
                .filter(|socket| self.is_within_reach(event, socket))
                .for_each(send),
        }
    }

    /// Checks whether an event is in a channel of a guest, or was sent to them in particular.
    fn is_within_reach(&self, event: &Envelope, socket: &Socket) -> bool {
        if !socket.is_of_guest() || event.extra_recipient == Some(socket.user) {
            return true;
        }
        event.audience.channel().is_none_or(|channel| {
            let members = self.members.get(&channel);
            members.is_some_and(|members| members.contains(&socket.id))
        })
    }

    /// Returns true if the event is traffic that some sockets with a scope might not receive.
    fn is_scoped(&self, event: &Envelope) -> bool {
        event.is_traffic && self.unscoped.len() < self.sockets.len()
    }

    fn with_ids<'a>(
        &'a self,
        ids: impl IntoIterator<Item = &'a u64>,
    ) -> impl Iterator<Item = &'a Arc<Socket>> {
        ids.into_iter().filter_map(|id| self.sockets.get(id))
    }

    fn sockets_of<'a>(
        &'a self,
        users: impl IntoIterator<Item = &'a UserId>,
    ) -> impl Iterator<Item = &'a Arc<Socket>> {
        let own = users.into_iter().filter_map(|user| self.people.get(user));
        self.with_ids(own.flatten())
    }

    /// Sockets with a scope that receive the traffic of a public channel.
    fn followers(&self, channel: ChannelId) -> impl Iterator<Item = &Arc<Socket>> {
        let members = self.members.get(&channel);
        let open = self.open.get(&channel).into_iter().flat_map(HashMap::keys);
        let others = open.filter(move |id| members.is_none_or(|members| !members.contains(*id)));
        self.with_ids(members.into_iter().flatten().chain(others))
    }

    /// Checks whether a socket is one of the `followers`.
    fn follows(&self, socket: u64, channel: ChannelId) -> bool {
        let members = self.members.get(&channel);
        let open = self.open.get(&channel);
        members.is_some_and(|sockets| sockets.contains(&socket))
            || open.is_some_and(|sockets| sockets.contains_key(&socket))
    }

    /// Notifies sockets with a scope of traffic that they do not receive. Starts with the channels whose traffic has waited longest,
    /// and covers as many as one tick allows.
    pub(super) fn broadcast_activity(&mut self) {
        let mut activity: Vec<(ChannelId, Activity)> = self.activity.drain().collect();
        activity.sort_unstable_by_key(|(_, activity)| activity.first);
        let mut frames = 0;
        for (channel, activity) in activity {
            if frames >= ACTIVITY_FRAMES_PER_TICK {
                self.activity.insert(channel, activity);
                continue;
            }
            let frame = LiveFrame::ChannelActivity {
                channel_id: channel,
                seq: activity.newest,
            }
            .encode();
            for socket in self.sockets.values() {
                let receives = socket.is_scoped() && !socket.is_of_guest();
                if receives && !self.follows(socket.id, channel) {
                    socket.ephemeral(&frame);
                    frames += 1;
                }
            }
        }
    }

    pub(super) fn presence_changed(&mut self, user: UserId) {
        if self.is_pending.insert(user) {
            self.pending_presence.push_back(user);
        }
        self.broadcast_presence();
    }

    /// Sends as many presence changes as this tick allows; several changes of one person count
    /// once.
    pub(super) fn broadcast_presence(&mut self) {
        while self.presence_frames < PRESENCE_FRAMES_PER_TICK
            && let Some(user) = self.pending_presence.pop_front()
        {
            self.is_pending.remove(&user);
            let status = if self.is_online(user) {
                PresenceStatus::Online
            } else {
                PresenceStatus::Offline
            };
            let frame = LiveFrame::Presence {
                user_id: user,
                status,
            }
            .encode();
            for socket in self.sockets.values() {
                let people = self.guests.get(&socket.id);
                if people.is_none_or(|people| people.contains(&user)) {
                    socket.ephemeral(&frame);
                }
            }
            // Changes without recipients are counted too, so that the loop ends.
            self.presence_frames += self.sockets.len().max(1);
        }
    }

    pub(super) fn to_watchers(&self, conversation: Uuid, frame: &Utf8Bytes, but: Option<UserId>) {
        for id in self.watchers.get(&conversation).into_iter().flatten() {
            if let Some(socket) = self.sockets.get(id)
                && Some(socket.user) != but
            {
                socket.ephemeral(frame);
            }
        }
    }

    /// Sends a stream's text after `from` to the stream's watchers.
    pub(super) fn send_delta(&self, task: TaskId, from: TextPosition) {
        let Some(stream) = self.streams.get(&task) else {
            return;
        };
        let delta = stream.delta(task, from);
        let watchers = self.watchers.get(&stream.conversation.id());
        for socket in self.with_ids(watchers.into_iter().flatten()) {
            socket.ephemeral(delta.for_socket(socket));
        }
    }

    pub(super) fn is_online(&self, user: UserId) -> bool {
        self.people.contains_key(&user) || self.elsewhere.contains_key(&user)
    }

    /// Applies the membership change of an event, delivers the event, and closes the sockets of a person who was removed.
    pub(super) fn accept(&mut self, event: &Envelope) {
        if let Some(access) = &event.access {
            self.apply(access);
        }
        self.deliver(event);
        if let Some(MembershipChange::Expelled { user }) = &event.access {
            for id in self.people.get(user).into_iter().flatten() {
                if let Some(socket) = self.sockets.get(id) {
                    socket.close(Close::NotInWorkspace);
                }
            }
        }
    }

    /// Delivers an event and any later ones that arrived early, in the order of the log. If predecessors are missing, keeps the event
    /// instead. Returns true if the room then has a gap.
    pub(super) fn receive(&mut self, event: &Envelope) -> bool {
        match self.order.place_of(event.seq) {
            Place::Known => {}
            Place::Early => self.order.keep(event),
            Place::Next => {
                self.accept_next(event);
                while let Some(next) = self.order.take_next() {
                    self.accept_next(&next);
                }
            }
        }
        self.order.has_gap()
    }

    fn accept_next(&mut self, event: &Envelope) {
        self.order.advance_to(event);
        self.accept(event);
        // An event with the complete text ends a stream from another node.
        if let Some(message) = event.ends_stream {
            self.streams
                .retain(|_, stream| !(stream.is_elsewhere() && stream.message == message));
            self.ended.insert(message, Instant::now());
        }
    }

    /// Starts at a position of the log, unless the room already has one. Returns true if later events are missing.
    pub(super) fn open_at(&mut self, head: Position) -> bool {
        if !self.order.open_at(head) {
            return self.order.has_gap();
        }
        self.last_seq = self.last_seq.max(head.seq);
        while let Some(next) = self.order.take_next() {
            self.accept_next(&next);
        }
        self.order.has_gap()
    }

    /// Clears the state that is needed only while the room has sockets.
    pub(super) fn close(&mut self) {
        self.order = Order::default();
        self.elsewhere.clear();
        self.wanted.clear();
        self.ended.clear();
        self.streams.retain(|_, stream| !stream.is_elsewhere());
    }
}
