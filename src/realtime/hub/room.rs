//! The sockets of one workspace, and what each of them receives.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use axum::extract::ws::Utf8Bytes;
use uuid::Uuid;

use super::{
    order::{Order, Place},
    socket::{Close, Socket},
    stream::{Stream, StreamSource},
};
use crate::{
    ids::{ChannelId, MessageId, NodeId, TaskId, UserId},
    realtime::{
        frame::{LiveFrame, PresenceStatus},
        log::{Audience, Envelope, MembershipChange},
    },
};

/// Maximum presence frames per workspace and interval. When everyone reconnects at once, as after a
/// restart, the number of presence frames is quadratic: 25 million for 5,000 people, at 1 to 2 µs
/// of CPU time each.
pub(super) const PRESENCE_FRAMES_PER_TICK: usize = 20_000;

/// The state of one workspace.
#[derive(Default)]
pub(super) struct Room {
    pub(super) sockets: HashMap<u64, Arc<Socket>>,
    /// Sockets of each person; a person with a socket is online.
    pub(super) people: HashMap<UserId, HashSet<u64>>,
    /// Sockets that can see a private or direct channel.
    pub(super) private: HashMap<ChannelId, HashSet<u64>>,
    /// Membership changes for sockets whose channels are still being read from the database.
    pub(super) joining: HashMap<u64, Vec<MembershipChange>>,
    /// Sockets that watch a conversation.
    pub(super) watchers: HashMap<Uuid, HashSet<u64>>,
    /// Conversations that a socket watches, with their channels.
    pub(super) watched: HashMap<u64, HashMap<Uuid, ChannelId>>,
    pub(super) streams: HashMap<TaskId, Stream>,
    /// The newest event delivered to sockets.
    pub(super) last_seq: i64,
    /// People whose presence change was not sent yet, earliest change first.
    pub(super) pending_presence: VecDeque<UserId>,
    pub(super) is_pending: HashSet<UserId>,
    /// Presence frames sent since the last tick.
    pub(super) presence_frames: usize,
    /// People with a socket on other nodes.
    pub(super) elsewhere: HashMap<UserId, HashSet<NodeId>>,
    /// Position in the log, if other nodes write to it as well.
    pub(super) order: Order,
    /// Replies whose text was requested from other nodes, and when.
    pub(super) wanted: HashMap<TaskId, Instant>,
    /// Messages whose streams of other nodes have just ended, and when.
    pub(super) ended: HashMap<MessageId, Instant>,
}

impl Room {
    /// The stream of a task if this run writes it.
    pub(super) fn stream_of(&mut self, (task, token): (TaskId, Uuid)) -> Option<&mut Stream> {
        self.streams
            .get_mut(&task)
            .filter(|stream| stream.source == StreamSource::Here(token))
    }

    pub(super) fn apply(&mut self, access: &MembershipChange) {
        for changes in self.joining.values_mut() {
            changes.push(access.clone());
        }
        match access {
            MembershipChange::Granted { channel, users } => {
                for user in users {
                    let own = self.people.get(user).cloned().unwrap_or_default();
                    self.private.entry(*channel).or_default().extend(own);
                }
            }
            MembershipChange::Revoked { channel, user } => {
                let own = self.people.get(user).cloned().unwrap_or_default();
                if let Some(sockets) = self.private.get_mut(channel) {
                    sockets.retain(|id| !own.contains(id));
                }
                for socket in own {
                    self.unwatch(socket, |of| of == *channel);
                }
            }
            MembershipChange::Expelled { user } => {
                for id in self.people.get(user).cloned().unwrap_or_default() {
                    for sockets in self.private.values_mut() {
                        sockets.remove(&id);
                    }
                    self.unwatch_all(id);
                }
            }
        }
    }

    pub(super) fn unwatch_all(&mut self, socket: u64) {
        self.unwatch(socket, |_| true);
        self.watched.remove(&socket);
    }

    /// Stops watching the conversations whose channel matches.
    pub(super) fn unwatch(&mut self, socket: u64, is_meant: impl Fn(ChannelId) -> bool) {
        let Some(conversations) = self.watched.get_mut(&socket) else {
            return;
        };
        for (conversation, _) in conversations.extract_if(|_, channel| is_meant(*channel)) {
            if let Some(sockets) = self.watchers.get_mut(&conversation) {
                sockets.remove(&socket);
                if sockets.is_empty() {
                    self.watchers.remove(&conversation);
                }
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
        if event.only.is_none()
            && let Audience::Members(channel) = event.audience
        {
            let allowed = self.private.get(&channel);
            let inside = allowed.into_iter().flatten();
            inside.filter_map(|id| self.sockets.get(id)).for_each(send);
            let extra_recipient = event
                .extra_recipient
                .and_then(|user| self.people.get(&user));
            extra_recipient
                .into_iter()
                .flatten()
                .filter(|id| allowed.is_none_or(|inside| !inside.contains(*id)))
                .filter_map(|id| self.sockets.get(id))
                .for_each(send);
        } else {
            self.sockets.values().for_each(send);
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
                socket.ephemeral(&frame);
            }
            // Count a change without recipients too, so that the loop ends.
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

    pub(super) fn is_online(&self, user: UserId) -> bool {
        self.people.contains_key(&user) || self.elsewhere.contains_key(&user)
    }

    /// Delivers an event after its membership change, and closes the sockets of a person who was removed.
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

    /// Delivers an event in the order of the log, after events of other nodes that arrived too early. Returns whether events
    /// before it are missing.
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
        self.order.advance_to(event.seq);
        self.accept(event);
        // The complete text ends a stream of another node.
        if let Some(message) = event.ends_stream {
            self.streams
                .retain(|_, stream| !(stream.is_elsewhere() && stream.message == message));
            self.ended.insert(message, Instant::now());
        }
    }

    /// Starts at a position of the log, unless the room has one. Returns whether events after it are missing.
    pub(super) fn open_at(&mut self, head: i64) -> bool {
        if !self.order.open_at(head) {
            return self.order.has_gap();
        }
        self.last_seq = self.last_seq.max(head);
        while let Some(next) = self.order.take_next() {
            self.accept_next(&next);
        }
        self.order.has_gap()
    }

    /// Forgets what is only kept for sockets.
    pub(super) fn close(&mut self) {
        self.order = Order::default();
        self.elsewhere.clear();
        self.wanted.clear();
        self.ended.clear();
        self.streams.retain(|_, stream| !stream.is_elsewhere());
    }
}
