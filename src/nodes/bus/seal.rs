//! Authenticated encryption of the packets that nodes send over NATS. NOTIFY needs none: its packets come from the database.
//!
//! ```text
//! version (1 byte), node (16), incarnation (16), counter (8), ciphertext with tag
//! ```
//!
//! The cipher is `ChaCha20-Poly1305`. The fields before the ciphertext and the subject are associated data, so a packet is valid only
//! on the subject for which it was sealed. Each start of a node has a key of its own, which HKDF-SHA256 derives from
//! `OPENVIBE_SECRET_KEY`, the ID of the cluster, and the incarnation, and its counter is the nonce, so no nonce is used twice with a key.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::Prk,
};
use uuid::Uuid;

use crate::{
    ids::{NodeId, WorkspaceId},
    nodes::row::LiveNode,
    secrets::SecretKey,
};

const VERSION: u8 = 2;
const INFO: &[u8] = b"openvibe bus 1";
const HEADER_BYTES: usize = 1 + 16 + 16 + 8;
const TAG_BYTES: usize = 16;
/// Difference between the sizes of a sealed packet and its text.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// Time within which a packet arrives. Older packets are rejected without a record of the counters on their subject.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of unknown senders that are looked up at once, instead of by the next poll.
const LOOKUPS_MAX: usize = 256;

/// Receivers of a packet: the nodes with a room of this workspace open, or all nodes.
type Topic = Option<WorkspaceId>;

/// A subject in NATS.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    topic: Topic,
    pub(super) name: String,
}

impl Subject {
    /// Returns the subject of a workspace, or the one of all nodes.
    pub(super) fn new(cluster: &str, topic: Topic) -> Self {
        let name = match topic {
            Some(workspace) => format!("ov1.{cluster}.w.{}", workspace.0.simple()),
            None => format!("ov1.{cluster}.all"),
        };
        Self { topic, name }
    }
}

/// Reason why a packet is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Not a sealed packet: an older version of this program, or another program.
    Unsigned,
    /// Sealed with another key, for another subject, or changed.
    Forged,
    /// The counter is not above the last one.
    Replayed,
    /// Sealed by a node that is not known, or no longer.
    UnknownNode {
        /// True for the first packet since the sender's start.
        is_first: bool,
    },
}

impl Rejection {
    /// Label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::UnknownNode { .. } => "unknown_node",
        }
    }
}

/// Keys of a cluster: the first one seals, and all of them open.
pub(super) struct BusKeys(Vec<Prk>);

impl BusKeys {
    pub(super) fn new(keys: &[SecretKey], cluster: &str) -> Self {
        Self(keys.iter().map(|key| key.derive(cluster)).collect())
    }

    /// Keys of one start of a node.
    fn of(&self, incarnation: Uuid) -> impl Iterator<Item = LessSafeKey> {
        self.0.iter().filter_map(move |key| {
            let info = [INFO, incarnation.as_bytes()];
            let key = key.expand(&info, &CHACHA20_POLY1305).ok()?;
            Some(LessSafeKey::new(UnboundKey::from(key)))
        })
    }
}

struct Header {
    node: NodeId,
    incarnation: Uuid,
    counter: u64,
}

impl Header {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.node.0.as_bytes());
        bytes.extend(self.incarnation.as_bytes());
        bytes.extend(self.counter.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (node, rest) = rest.split_first_chunk()?;
        let (incarnation, rest) = rest.split_first_chunk()?;
        let (counter, _) = rest.split_first_chunk()?;
        (*version == VERSION).then(|| Self {
            node: NodeId(Uuid::from_bytes(*node)),
            incarnation: Uuid::from_bytes(*incarnation),
            counter: u64::from_be_bytes(*counter),
        })
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.counter.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

fn associated(header: &[u8], subject: &Subject) -> Aad<Vec<u8>> {
    Aad::from([header, subject.name.as_bytes()].concat())
}

/// Seals the packets of this node.
pub(super) struct Sealer {
    node: NodeId,
    incarnation: Uuid,
    key: LessSafeKey,
}

impl Sealer {
    /// `None` if there is no key.
    pub(super) fn new(keys: &BusKeys, node: NodeId, incarnation: Uuid) -> Option<Self> {
        Some(Self {
            node,
            incarnation,
            key: keys.of(incarnation).next()?,
        })
    }

    /// Seals a packet for a subject; `None` if it is longer than the cipher allows. `sent` is the number of packets that this process
    /// has sealed so far.
    pub(super) fn seal(&self, sent: &AtomicU64, subject: &Subject, text: &str) -> Option<Vec<u8>> {
        let header = Header {
            node: self.node,
            incarnation: self.incarnation,
            counter: sent.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let mut packet = header.bytes();
        packet.reserve_exact(text.len() + TAG_BYTES);
        packet.extend(text.as_bytes());
        let (head, body) = packet.split_at_mut(HEADER_BYTES);
        let associated = associated(head, subject);
        let tag = self
            .key
            .seal_in_place_separate_tag(header.nonce(), associated, body)
            .ok()?;
        packet.extend(tag.as_ref());
        Some(packet)
    }
}

/// Counters of the packets from one start of a node.
struct Sender {
    incarnation: Uuid,
    keys: Option<Arc<[LessSafeKey]>>,
    /// Packets up to this counter are rejected on every subject.
    floor: u64,
    /// The next floor, and the time at which it was read.
    next_floor: (u64, Instant),
    /// Last counter on each subject, if it is above the floor.
    last: HashMap<Topic, u64>,
}

impl Sender {
    /// `sent` is the stored number of packets that the node has sent.
    fn new(incarnation: Uuid, sent: u64) -> Self {
        Self {
            incarnation,
            keys: None,
            floor: sent,
            next_floor: (sent, Instant::now()),
            last: HashMap::new(),
        }
    }

    /// Raises the floor to a number of packets that have all arrived by now.
    fn raise_floor(&mut self, sent: u64) {
        let (floor, read_at) = self.next_floor;
        if read_at.elapsed() < ARRIVES_WITHIN {
            return;
        }
        self.floor = self.floor.max(floor);
        self.next_floor = (sent, Instant::now());
        self.last.retain(|_, last| *last > self.floor);
    }

    fn is_new(&self, topic: Topic, counter: u64) -> bool {
        let last = self.last.get(&topic).copied().unwrap_or_default();
        counter > last.max(self.floor)
    }
}

/// The other live nodes, according to the database, and the counters of their packets.
#[derive(Default)]
pub(super) struct Senders {
    by_node: Mutex<HashMap<NodeId, Sender>>,
    /// Incarnations of senders that were looked up because they were unknown.
    looked_up: Mutex<HashSet<Uuid>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Senders {
    /// Replaces the list of live nodes. Nodes that have not restarted keep their counters.
    pub(super) fn set(&self, live: &[LiveNode]) {
        let mut senders = lock(&self.by_node);
        let mut before = std::mem::take(&mut *senders);
        for node in live {
            let sent = node.figures.0.bus_sent;
            let known = before.remove(&node.id);
            let sender = match known.filter(|sender| sender.incarnation == node.incarnation) {
                Some(mut sender) => {
                    sender.raise_floor(sent);
                    sender
                }
                None => Sender::new(node.incarnation, sent),
            };
            senders.insert(node.id, sender);
        }
    }

    /// Opens a packet that was received on a subject. Counters change only if the packet is authentic.
    pub(super) fn open(
        &self,
        keys: &BusKeys,
        subject: &Subject,
        packet: &[u8],
    ) -> Result<String, Rejection> {
        let header = Header::parse(packet).ok_or(Rejection::Unsigned)?;
        let opening = self.opening(keys, subject.topic, &header)?;
        let (head, body) = packet.split_at(HEADER_BYTES);
        let text = opening.iter().find_map(|key| {
            let mut body = body.to_vec();
            let associated = associated(head, subject);
            let text = key.open_in_place(header.nonce(), associated, &mut body);
            let bytes = text.ok()?.len();
            body.truncate(bytes);
            String::from_utf8(body).ok()
        });
        let text = text.ok_or(Rejection::Forged)?;
        let mut senders = lock(&self.by_node);
        let sender = senders.get_mut(&header.node);
        let Some(sender) = sender.filter(|sender| sender.incarnation == header.incarnation) else {
            drop(senders);
            return Err(Rejection::UnknownNode {
                is_first: self.look_up(header.incarnation),
            });
        };
        if !sender.is_new(subject.topic, header.counter) {
            return Err(Rejection::Replayed);
        }
        sender.last.insert(subject.topic, header.counter);
        Ok(text)
    }

    /// Keys that can open packets of the sender.
    fn opening(
        &self,
        keys: &BusKeys,
        topic: Topic,
        header: &Header,
    ) -> Result<Arc<[LessSafeKey]>, Rejection> {
        let derived = || keys.of(header.incarnation).collect();
        let mut senders = lock(&self.by_node);
        match senders.get_mut(&header.node) {
            Some(sender) if sender.incarnation == header.incarnation => {
                if !sender.is_new(topic, header.counter) {
                    return Err(Rejection::Replayed);
                }
                Ok(Arc::clone(sender.keys.get_or_insert_with(derived)))
            }
            _ => Ok(derived()),
        }
    }

    /// Returns true if the sender is to be looked up now. Later packets wait for the poll, so that packets of a node that has ended
    /// cannot cause reads.
    fn look_up(&self, incarnation: Uuid) -> bool {
        let mut looked_up = lock(&self.looked_up);
        looked_up.len() < LOOKUPS_MAX && looked_up.insert(incarnation)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        db::{Json, now},
        nodes::{figures::Figures, mode::Mode},
        realtime::NodeState,
    };

    fn all() -> Subject {
        Subject::new("c", None)
    }

    fn key(letter: char) -> SecretKey {
        let text = format!("{}A=", letter.to_string().repeat(42));
        SecretKey::parse_list(&text).unwrap().remove(0)
    }

    fn live(node: NodeId, incarnation: Uuid, sent: u64) -> LiveNode {
        LiveNode {
            id: node,
            name: "two".to_owned(),
            mode: Mode::Nats,
            state: NodeState::Ready,
            incarnation,
            started_at: now(),
            settings: Json(BTreeMap::new()),
            figures: Json(Figures {
                bus_sent: sent,
                ..Figures::default()
            }),
        }
    }

    /// A sender, and a receiver that knows it.
    struct Pair {
        keys: BusKeys,
        sealer: Sealer,
        sent: AtomicU64,
        senders: Senders,
    }

    impl Pair {
        fn new() -> Self {
            let keys = BusKeys::new(&[key('A')], "c");
            let (node, incarnation) = (NodeId::new(), Uuid::now_v7());
            let senders = Senders::default();
            senders.set(&[live(node, incarnation, 0)]);
            Self {
                sealer: Sealer::new(&keys, node, incarnation).unwrap(),
                keys,
                sent: AtomicU64::new(0),
                senders,
            }
        }

        fn seal(&self, text: &str) -> Vec<u8> {
            self.sealer.seal(&self.sent, &all(), text).unwrap()
        }

        fn open(&self, packet: &[u8]) -> Result<String, Rejection> {
            self.senders.open(&self.keys, &all(), packet)
        }
    }

    #[test]
    fn a_sealed_packet_opens_once_and_hides_its_text() {
        let p = Pair::new();
        let packet = p.seal("a secret text");
        assert_eq!(packet.len(), "a secret text".len() + OVERHEAD_BYTES);
        assert!(!packet.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(p.open(&packet).unwrap(), "a secret text");
        assert_eq!(p.open(&packet), Err(Rejection::Replayed));
        let (earlier, later) = (p.seal("earlier"), p.seal("later"));
        assert!(p.open(&later).is_ok());
        assert_eq!(p.open(&earlier), Err(Rejection::Replayed));
    }

    #[test]
    fn changed_cut_and_moved_packets_are_rejected_and_stop_no_later_one() {
        let p = Pair::new();
        let packet = p.seal("text");
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 0x80;
            assert!(p.open(&changed).is_err(), "byte {at}");
            assert!(p.open(&packet[..at]).is_err(), "cut after {at}");
        }
        let room = Subject::new("c", Some(WorkspaceId::new()));
        let moved = p.senders.open(&p.keys, &room, &packet);
        assert_eq!(moved, Err(Rejection::Forged));
        let json = p.open(br#"{"v":1,"node":"node_1","epoch":"e","messages":[]}"#);
        assert_eq!(json, Err(Rejection::Unsigned));
        assert_eq!(p.open(&packet).unwrap(), "text");
    }

    #[test]
    fn both_keys_of_a_change_open_and_other_keys_and_clusters_do_not() {
        let opens = |keys: &[SecretKey], cluster: &str| {
            // The key of a start is derived once, so each case has a start of its own.
            let p = Pair::new();
            let keys = BusKeys::new(keys, cluster);
            p.senders.open(&keys, &all(), &p.seal("text"))
        };
        assert!(opens(&[key('B'), key('A')], "c").is_ok());
        assert!(opens(&[key('A'), key('B')], "c").is_ok());
        assert_eq!(opens(&[key('B')], "c"), Err(Rejection::Forged));
        assert_eq!(opens(&[key('A')], "d"), Err(Rejection::Forged));
        assert!(opens(&[key('A')], "c").is_ok());
    }

    #[test]
    fn packets_of_an_earlier_start_are_rejected_and_looked_up_once() {
        let p = Pair::new();
        let (old, recorded) = (p.seal("old"), p.seal("recorded"));
        p.senders.set(&[live(p.sealer.node, Uuid::now_v7(), 0)]);
        let unknown = |is_first| Err(Rejection::UnknownNode { is_first });
        assert_eq!(p.open(&old), unknown(true));
        assert_eq!(p.open(&old), unknown(false));
        assert_eq!(p.open(&recorded), unknown(false));
    }

    #[test]
    fn a_receiver_that_starts_late_rejects_what_was_sent_before() {
        let p = Pair::new();
        let old = p.seal("old");
        let late = Senders::default();
        let sent = p.sent.load(Ordering::Relaxed);
        late.set(&[live(p.sealer.node, p.sealer.incarnation, sent)]);
        let opened = late.open(&p.keys, &all(), &old);
        assert_eq!(opened, Err(Rejection::Replayed));
        assert!(late.open(&p.keys, &all(), &p.seal("new")).is_ok());
    }
}
