//! Queue of a writer, with a turn for each workspace.
//!
//! Commands of a turn run in order of arrival, and the turns are served one after the other. Therefore, a command waits for only one
//! command of each other workspace, no matter how many commands that workspace has queued. Commands for which a transaction has no
//! time left return to the front of the queue.
//!
//! If the queue, or the share of the turn, is full, further commands wait outside the queue (`OutsideQueue`). They can be withdrawn while
//! they wait, and the turns enter the queue one after the other. A barrier is served after the transaction that follows it, and
//! therefore after everything that was committed before it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::error::DbError;

/// Receives the result once the barrier has been served.
pub(super) type Barrier = oneshot::Sender<Result<(), DbError>>;

/// Bounds of a [`WriteQueue`].
#[derive(Clone, Copy)]
pub(super) struct QueueBounds {
    /// Maximum number of queued commands.
    pub total: usize,
    /// Maximum number of queued commands of one turn.
    pub share: usize,
    /// Maximum number of commands per transaction.
    pub batch: usize,
}

/// Commands that one transaction can contain.
#[derive(Clone, Copy)]
pub(super) enum Mix {
    /// One command of each turn, then further ones.
    Turns,
    /// Commands of one turn with the same key.
    OneKey,
}

/// Turn of a command, and the key that a writer locks for it.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Workspace or person; nil for all commands without one.
    pub turn: Uuid,
    pub key: Uuid,
}

impl Slot {
    /// Slot for a command of a workspace, or for a command without a workspace if the ID is nil.
    pub(super) fn of(workspace: Uuid) -> Self {
        Self {
            turn: workspace,
            key: workspace,
        }
    }
}

/// Commands of one transaction, and the barriers that are due after it.
pub(super) struct Round<J> {
    pub jobs: Vec<J>,
    pub origins: Vec<Origin>,
    pub barriers: Vec<Barrier>,
}

/// Position in the queue from which a command was taken.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    turn: Uuid,
    number: u64,
    key: Uuid,
}

impl<J> Default for Round<J> {
    fn default() -> Self {
        Self {
            jobs: Vec::new(),
            origins: Vec::new(),
            barriers: Vec::new(),
        }
    }
}

pub(super) struct WriteQueue<J> {
    bounds: QueueBounds,
    mix: Mix,
    waiting: Mutex<Waiting<J>>,
    /// Wakes the writer.
    arrived: Notify,
}

struct Entry<J> {
    /// Position in the order of arrival.
    number: u64,
    key: Uuid,
    job: J,
}

struct Turn<J> {
    entries: VecDeque<Entry<J>>,
    /// Number of entries that are in the queue. They precede the entries that wait outside the queue.
    queued: usize,
}

impl<J> Default for Turn<J> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            queued: 0,
        }
    }
}

struct Waiting<J> {
    /// Turns with at least one entry, inside or outside the queue.
    turns: HashMap<Uuid, Turn<J>>,
    /// Turns with an entry in the queue, the next one first.
    order: VecDeque<Uuid>,
    /// Turns with an entry that waits outside the queue, the next one first.
    outside: VecDeque<Uuid>,
    /// Number of entries in the queue.
    queued: usize,
    /// Number of entries that have arrived so far.
    arrived: u64,
    barriers: Vec<Barrier>,
    is_closed: bool,
}

impl<J> WriteQueue<J> {
    pub(super) fn new(bounds: QueueBounds, mix: Mix) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            mix,
            waiting: Mutex::new(Waiting {
                turns: HashMap::new(),
                order: VecDeque::new(),
                outside: VecDeque::new(),
                queued: 0,
                arrived: 0,
                barriers: Vec::new(),
                is_closed: false,
            }),
            arrived: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command. If it cannot enter the queue, it waits outside, and its place there is returned.
    ///
    /// # Errors
    /// `Closed`.
    pub(super) fn push(
        self: &Arc<Self>,
        slot: Slot,
        job: J,
    ) -> Result<Option<OutsideQueue<J>>, DbError> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(DbError::Closed);
        }
        waiting.arrived += 1;
        let number = waiting.arrived;
        let key = slot.key;
        let place = waiting.add(slot.turn, Entry { number, key, job }, self.bounds);
        let wakes = waiting.queued == 1;
        drop(waiting);
        if wakes {
            self.arrived.notify_one();
        }
        Ok((place == Place::Outside).then(|| OutsideQueue {
            queue: Arc::clone(self),
            turn: slot.turn,
            number,
        }))
    }

    /// Adds a barrier, which does not count toward the bounds.
    ///
    /// # Errors
    /// `Closed`.
    pub(super) fn push_barrier(&self, barrier: Barrier) -> Result<(), DbError> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(DbError::Closed);
        }
        waiting.barriers.push(barrier);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Number of commands in the queue.
    pub(super) fn queued(&self) -> usize {
        self.lock().queued
    }

    /// Rejects new commands and the commands that wait outside the queue. Commands in the queue still run.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.outside.clear();
        let mut left = Vec::new();
        for turn in waiting.turns.values_mut() {
            left.push(turn.entries.split_off(turn.queued));
        }
        waiting.turns.retain(|_, turn| turn.queued > 0);
        drop(waiting);
        self.arrived.notify_one();
        // The callers of these commands get an error. The commands are dropped after the lock has been released.
        drop(left);
    }
}

/// The writer's end of a queue. When it is dropped, all remaining commands are rejected.
pub(super) struct Served<J>(pub Arc<WriteQueue<J>>);

impl<J> Served<J> {
    /// Waits for commands or barriers. Returns `None` once the queue is closed and nothing is left.
    pub(super) async fn next(&self) -> Option<Round<J>> {
        loop {
            let (round, is_closed) = self.take();
            if !round.jobs.is_empty() || !round.barriers.is_empty() {
                return Some(round);
            }
            if is_closed {
                return None;
            }
            self.0.arrived.notified().await;
        }
    }

    /// Takes a round, which can be empty. Returns true if the queue is closed.
    fn take(&self) -> (Round<J>, bool) {
        let mut waiting = self.0.lock();
        let round = waiting.take(self.0.mix, self.0.bounds);
        (round, waiting.is_closed)
    }

    /// Puts commands that were not run back at the front of their turns. The last elements of `origins` belong to these commands.
    /// They can make the queue exceed its bounds.
    pub(super) fn put_back(&self, jobs: Vec<J>, mut origins: Vec<Origin>) {
        let mut waiting = self.0.lock();
        let first = origins.len() - jobs.len();
        for (job, origin) in jobs.into_iter().zip(origins.drain(first..)).rev() {
            waiting.put_back(job, origin, self.0.mix);
        }
    }
}

impl<J> Drop for Served<J> {
    fn drop(&mut self) {
        self.0.close();
        let mut waiting = self.0.lock();
        let left = (
            std::mem::take(&mut waiting.turns),
            std::mem::take(&mut waiting.barriers),
        );
        waiting.order.clear();
        waiting.queued = 0;
        drop(waiting);
        drop(left);
    }
}

#[derive(PartialEq)]
enum Place {
    Queue,
    Outside,
}

impl<J> Waiting<J> {
    fn add(&mut self, id: Uuid, entry: Entry<J>, bounds: QueueBounds) -> Place {
        let turn = self.turns.entry(id).or_default();
        let has_outside = turn.entries.len() > turn.queued;
        turn.entries.push_back(entry);
        if has_outside {
            return Place::Outside;
        }
        if self.queued >= bounds.total || turn.queued >= bounds.share {
            self.outside.push_back(id);
            return Place::Outside;
        }
        self.enter(id);
        Place::Queue
    }

    /// Moves the first entry of a turn that waits outside the queue into the queue.
    fn enter(&mut self, id: Uuid) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        turn.queued += 1;
        self.queued += 1;
        if turn.queued == 1 {
            self.order.push_back(id);
        }
    }

    /// Lets commands that wait outside enter the queue, one turn after the other, as long as there is room.
    fn admit(&mut self, bounds: QueueBounds) {
        let mut refused = 0;
        while self.queued < bounds.total
            && refused < self.outside.len()
            && let Some(id) = self.outside.pop_front()
        {
            let Some(turn) = self.turns.get(&id) else {
                continue;
            };
            let outside = turn.entries.len() - turn.queued;
            if turn.queued >= bounds.share {
                refused += 1;
                self.outside.push_back(id);
                continue;
            }
            refused = 0;
            if outside > 1 {
                self.outside.push_back(id);
            }
            self.enter(id);
        }
    }

    /// Takes the commands of the next transaction, and all barriers.
    fn take(&mut self, mix: Mix, bounds: QueueBounds) -> Round<J> {
        let mut round = Round {
            barriers: std::mem::take(&mut self.barriers),
            ..Round::default()
        };
        while round.jobs.len() < bounds.batch
            && let Some(id) = self.order.pop_front()
        {
            match mix {
                // A single turn needs no rotation.
                Mix::Turns if self.order.is_empty() => {
                    self.take_from(id, bounds.batch - round.jobs.len(), &mut round);
                }
                Mix::Turns => self.take_from(id, 1, &mut round),
                Mix::OneKey => {
                    self.take_from(id, bounds.batch, &mut round);
                    break;
                }
            }
        }
        self.admit(bounds);
        round
    }

    /// Takes up to `max` commands with the same key from a turn, and moves the turn to the end of the order.
    fn take_from(&mut self, id: Uuid, max: usize, round: &mut Round<J>) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        let key = turn.entries.front().map(|entry| entry.key);
        let queued = turn.entries.iter().take(turn.queued.min(max));
        let count = queued.take_while(|entry| Some(entry.key) == key).count();
        for Entry { number, key, job } in turn.entries.drain(..count) {
            round.jobs.push(job);
            let turn = id;
            round.origins.push(Origin { turn, number, key });
        }
        turn.queued -= count;
        self.queued -= count;
        if turn.queued > 0 {
            self.order.push_back(id);
        } else if turn.entries.is_empty() {
            self.turns.remove(&id);
        }
    }

    /// Returns a command to the front of its turn. A transaction of several turns had no time for them, so they are served next; the
    /// turn of any other transaction was just served.
    fn put_back(&mut self, job: J, origin: Origin, mix: Mix) {
        let Origin {
            turn: id,
            number,
            key,
        } = origin;
        let turn = self.turns.entry(id).or_default();
        turn.entries.push_front(Entry { number, key, job });
        turn.queued += 1;
        self.queued += 1;
        self.order.retain(|other| *other != id);
        match mix {
            Mix::Turns => self.order.push_front(id),
            Mix::OneKey => self.order.push_back(id),
        }
    }

    /// Removes an entry that waits outside the queue. Returns `None` if it does not wait there.
    fn remove(&mut self, id: Uuid, number: u64) -> Option<J> {
        let turn = self.turns.get_mut(&id)?;
        let at = turn
            .entries
            .binary_search_by_key(&number, |entry| entry.number);
        let at = at.ok().filter(|at| *at >= turn.queued)?;
        let entry = turn.entries.remove(at)?;
        if turn.entries.len() == turn.queued {
            self.outside.retain(|turn| *turn != id);
        }
        if turn.entries.is_empty() {
            self.turns.remove(&id);
        }
        Some(entry.job)
    }
}

/// Place of a command that waits outside the queue. If this value is dropped before the command has entered the queue, the command
/// never runs.
pub(super) struct OutsideQueue<J> {
    queue: Arc<WriteQueue<J>>,
    turn: Uuid,
    number: u64,
}

impl<J> OutsideQueue<J> {
    /// Withdraws the command. Returns false if the command has already entered the queue or been rejected.
    pub(super) fn leave(&self) -> bool {
        let removed = self.queue.lock().remove(self.turn, self.number);
        removed.is_some()
    }
}

impl<J> Drop for OutsideQueue<J> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: QueueBounds = QueueBounds {
        total: 40,
        share: 10,
        batch: 8,
    };
    const ADA: Uuid = Uuid::from_u128(1);
    const BO: Uuid = Uuid::from_u128(2);

    /// A queue of numbers, and the writer's end of it.
    fn queue(bounds: QueueBounds, mix: Mix) -> (Arc<WriteQueue<u32>>, Served<u32>) {
        let queue = WriteQueue::new(bounds, mix);
        let served = Served(Arc::clone(&queue));
        (queue, served)
    }

    fn push(queue: &Arc<WriteQueue<u32>>, workspace: Uuid, job: u32) -> Option<OutsideQueue<u32>> {
        queue.push(Slot::of(workspace), job).unwrap()
    }

    fn barrier(queue: &WriteQueue<u32>) -> oneshot::Receiver<Result<(), DbError>> {
        let (reply, answer) = oneshot::channel();
        queue.push_barrier(reply).unwrap();
        answer
    }

    /// The next round; `None` if nothing is waiting.
    fn next(served: &Served<u32>) -> Option<Round<u32>> {
        served.next().now_or_never().flatten()
    }

    fn next_jobs(served: &Served<u32>) -> Vec<u32> {
        next(served).map(|round| round.jobs).unwrap_or_default()
    }

    #[test]
    fn a_single_command_is_in_the_next_transaction_behind_a_thousand_of_another_workspace() {
        let bounds = QueueBounds {
            total: 2048,
            share: 512,
            batch: 64,
        };
        let (queue, served) = queue(bounds, Mix::Turns);
        let outside: Vec<_> = (0..1000).filter_map(|n| push(&queue, ADA, n)).collect();
        assert_eq!(outside.len(), 488);
        assert!(push(&queue, BO, 5000).is_none(), "the queue has room");
        let jobs = next_jobs(&served);
        assert_eq!(jobs[..3], [0, 5000, 1]);
        assert_eq!(jobs.len(), 64);
        let rest: Vec<u32> = std::iter::from_fn(|| next(&served))
            .flat_map(|round| round.jobs)
            .collect();
        assert_eq!(rest, (63..1000).collect::<Vec<_>>());
    }

    #[test]
    fn workspaces_take_turns_and_their_commands_keep_their_order() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        for n in 0..6 {
            push(&queue, ADA, n);
        }
        for n in 10..13 {
            push(&queue, BO, n);
        }
        push(&queue, Uuid::nil(), 20);
        assert_eq!(next_jobs(&served), [0, 10, 20, 1, 11, 2, 12, 3]);
        push(&queue, BO, 13);
        assert_eq!(next_jobs(&served), [4, 13, 5]);
        assert!(next(&served).is_none());
    }

    #[test]
    fn a_transaction_of_one_key_belongs_to_one_turn() {
        let (queue, served) = queue(BOUNDS, Mix::OneKey);
        for n in 0..10 {
            push(&queue, ADA, n);
        }
        push(&queue, BO, 20);
        for n in 30..32 {
            let slot = Slot {
                turn: Uuid::nil(),
                key: Uuid::now_v7(),
            };
            assert!(queue.push(slot, n).unwrap().is_none());
        }
        let rounds: Vec<_> = std::iter::from_fn(|| next(&served))
            .map(|round| round.jobs)
            .collect();
        let expected = [
            vec![0, 1, 2, 3, 4, 5, 6, 7],
            vec![20],
            vec![30],
            vec![8, 9],
            vec![31],
        ];
        assert_eq!(rounds, expected);
    }

    #[test]
    fn a_full_share_and_a_full_queue_make_others_wait_outside_in_turns() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        let mut outside = Vec::new();
        for workspace in 1..=4 {
            let base = u32::try_from(workspace).unwrap() * 100;
            let pushed = (base..base + 30).map(|n| push(&queue, Uuid::from_u128(workspace), n));
            outside.extend(pushed.flatten());
        }
        assert_eq!((queue.queued(), outside.len()), (40, 80));
        let late = Uuid::from_u128(5);
        outside.extend((500..502).filter_map(|n| push(&queue, late, n)));
        assert_eq!(outside.len(), 82, "the queue is full");
        assert_eq!(next_jobs(&served), [100, 200, 300, 400, 101, 201, 301, 401]);
        assert_eq!(queue.queued(), 40);
        // The first command of `late` entered the queue together with one command of each other workspace; the second one entered
        // after one more command of each.
        let jobs = next_jobs(&served);
        assert_eq!(jobs, [102, 202, 302, 402, 500, 103, 203, 303]);
        assert!(next_jobs(&served).contains(&501));
    }

    #[test]
    fn a_command_that_was_withdrawn_never_runs_and_no_other_is_lost() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        let mut outside: Vec<_> = (0..14).filter_map(|n| push(&queue, ADA, n)).collect();
        assert!(outside[1].leave());
        assert!(!outside[1].leave());
        // Its caller was canceled.
        drop(outside.remove(2));
        assert_eq!(next_jobs(&served), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(!outside[0].leave(), "it has entered the queue");
        drop(outside);
        assert_eq!(next_jobs(&served), [8, 9, 10, 13]);
        assert_eq!(queue.queued(), 0);
        let waiting = queue.lock();
        assert!(waiting.turns.is_empty() && waiting.outside.is_empty());
    }

    #[test]
    fn a_barrier_is_served_after_the_next_transaction() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        for n in 0..10 {
            push(&queue, ADA, n);
        }
        let _first = barrier(&queue);
        let round = next(&served).unwrap();
        assert_eq!((round.jobs.len(), round.barriers.len()), (8, 1));
        let rest = next(&served).unwrap();
        assert_eq!((rest.jobs.len(), rest.barriers.len()), (2, 0));
        let _second = barrier(&queue);
        let idle = next(&served).unwrap();
        assert_eq!((idle.jobs.len(), idle.barriers.len()), (0, 1));
    }

    #[test]
    fn commands_that_were_not_run_stay_first_of_their_workspace_and_let_others_take_their_turn() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        for n in 0..6 {
            push(&queue, ADA, n);
        }
        push(&queue, BO, 10);
        let mut round = next(&served).unwrap();
        assert_eq!(round.jobs, [0, 10, 1, 2, 3, 4, 5]);
        push(&queue, Uuid::nil(), 20);
        push(&queue, ADA, 6);
        served.put_back(round.jobs.split_off(1), round.origins);
        assert_eq!(queue.queued(), 8);
        assert_eq!(next_jobs(&served), [10, 1, 20, 2, 3, 4, 5, 6]);
        assert!(next(&served).is_none());
    }

    #[test]
    fn workspaces_whose_commands_take_long_alternate() {
        for mix in [Mix::Turns, Mix::OneKey] {
            let (queue, served) = queue(BOUNDS, mix);
            for n in 0..10 {
                push(&queue, ADA, n);
                push(&queue, BO, 100 + n);
            }
            let mut run = Vec::new();
            while let Some(mut round) = next(&served) {
                let rest = round.jobs.split_off(1);
                run.append(&mut round.jobs);
                served.put_back(rest, round.origins);
            }
            let expected: Vec<u32> = (0..10).flat_map(|n| [n, 100 + n]).collect();
            assert_eq!(run, expected);
        }
    }

    #[test]
    fn a_closed_queue_is_served_to_its_end_and_accepts_nothing() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        let outside: Vec<_> = (0..12).filter_map(|n| push(&queue, ADA, n)).collect();
        let _answer = barrier(&queue);
        queue.close();
        assert!(matches!(queue.push(Slot::of(BO), 20), Err(DbError::Closed)));
        assert!(!outside[0].leave(), "it was rejected");
        let first = next(&served).unwrap();
        assert_eq!((first.jobs.len(), first.barriers.len()), (8, 1));
        assert_eq!(next_jobs(&served), [8, 9]);
        assert!(served.next().now_or_never().is_some(), "the end");
    }

    #[tokio::test]
    async fn callers_get_an_error_if_the_writer_ends() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        push(&queue, ADA, 1);
        let answer = barrier(&queue);
        drop(served);
        assert!(answer.await.is_err());
        assert!(matches!(queue.push(Slot::of(BO), 2), Err(DbError::Closed)));
        assert_eq!(queue.queued(), 0);
    }

    #[tokio::test]
    async fn the_writer_wakes_for_the_first_command() {
        let (queue, served) = queue(BOUNDS, Mix::Turns);
        let pushing = async {
            for n in 0..3 {
                tokio::task::yield_now().await;
                push(&queue, ADA, n);
            }
        };
        let serving = async {
            let mut jobs = Vec::new();
            while jobs.len() < 3 {
                jobs.extend(served.next().await.unwrap().jobs);
            }
            jobs
        };
        let ((), jobs) = futures::join!(pushing, serving);
        assert_eq!(jobs, [0, 1, 2]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u128),
        Leave(prop::sample::Index),
        Take,
        /// Runs only some of the commands of a transaction.
        TakePart(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..4_u128).prop_map(Step::Push),
            1 => any::<prop::sample::Index>().prop_map(Step::Leave),
            1 => Just(Step::Take),
            1 => any::<prop::sample::Index>().prop_map(Step::TakePart),
        ]
    }

    proptest! {
        #[test]
        fn commands_run_once_in_the_order_of_their_workspace(steps in prop::collection::vec(step(), 0..300)) {
            let (queue, served) = queue(BOUNDS, Mix::Turns);
            let (mut expected, mut outside) = (vec![Vec::new(); 4], Vec::new());
            let (mut taken, mut number) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Push(workspace) => {
                        number += 1;
                        let at = usize::try_from(workspace).unwrap();
                        expected[at].push(number);
                        let place = push(&queue, Uuid::from_u128(workspace), number);
                        outside.extend(place.map(|place| (at, number, place)));
                    }
                    Step::Leave(index) if !outside.is_empty() => {
                        let (at, number, place) = outside.swap_remove(index.index(outside.len()));
                        if place.leave() {
                            expected[at].retain(|n| *n != number);
                        }
                    }
                    Step::Leave(_) => {}
                    Step::Take => taken.extend(next_jobs(&served)),
                    Step::TakePart(index) => {
                        if let Some(mut round) = next(&served) {
                            let rest = round.jobs.split_off(index.index(round.jobs.len()));
                            taken.extend(round.jobs);
                            served.put_back(rest, round.origins);
                        }
                    }
                }
                let waiting = queue.lock();
                let queued: Vec<usize> = waiting.turns.values().map(|turn| turn.queued).collect();
                prop_assert_eq!(queued.iter().sum::<usize>(), waiting.queued);
                prop_assert!(waiting.queued <= BOUNDS.total + BOUNDS.batch);
                prop_assert!(queued.iter().all(|queued| *queued <= BOUNDS.share + BOUNDS.batch));
            }
            taken.extend(std::iter::from_fn(|| next(&served)).flat_map(|round| round.jobs));
            for all in expected {
                let own: Vec<u32> = taken.iter().copied().filter(|n| all.contains(n)).collect();
                prop_assert_eq!(own, all);
            }
        }
    }
}
