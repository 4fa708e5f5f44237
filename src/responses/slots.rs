//! Permits for concurrent calls, with limits per workspace and per user. Calls wait in turn for a permit.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::error::ResponseError;
use crate::{
    ids::{UserId, WorkspaceId},
    share::Share,
    tasks::queue::Tenancy,
};

/// Maximum wait for a permit.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Maximum number of waiting calls of one user.
const WAITING_MAX: usize = 64;

/// Running and waiting calls of this process.
pub struct CallSlots {
    bounds: Bounds,
    calls: Mutex<Calls>,
}

/// Maximum numbers of concurrent calls.
struct Bounds {
    all: usize,
    workspace: usize,
    user: usize,
}

/// A call that needs a permit.
#[derive(Debug, Clone, Copy)]
struct Claim {
    workspace: WorkspaceId,
    user: UserId,
    tenancy: Tenancy,
}

#[derive(Default)]
struct Calls {
    all: usize,
    workspaces: HashMap<WorkspaceId, usize>,
    users: HashMap<UserId, usize>,
    waiting: HashMap<UserId, VecDeque<Waiter>>,
    /// Users with waiting calls. The user who has waited longest since their last permit is first.
    turns: VecDeque<UserId>,
    last_number: u64,
}

struct Waiter {
    number: u64,
    claim: Claim,
    permit: oneshot::Sender<CallPermit>,
}

impl Calls {
    /// Checks whether a permit is available.
    fn check(&self, bounds: &Bounds, claim: &Claim) -> Result<(), ResponseError> {
        let of_user = self.users.get(&claim.user).copied().unwrap_or_default();
        if of_user >= bounds.user {
            return Err(ResponseError::PersonShareUsed(of_user));
        }
        let of_workspace = self.workspaces.get(&claim.workspace).copied();
        let of_workspace = of_workspace.unwrap_or_default();
        if claim.tenancy == Tenancy::Shared && of_workspace >= bounds.workspace {
            return Err(ResponseError::WorkspaceShareUsed(of_workspace));
        }
        if self.all >= bounds.all {
            return Err(ResponseError::Busy);
        }
        Ok(())
    }

    fn count(&mut self, claim: &Claim) {
        self.all += 1;
        *self.users.entry(claim.user).or_default() += 1;
        *self.workspaces.entry(claim.workspace).or_default() += 1;
    }

    /// Removes the next waiting call for which a permit is available. The users take turns.
    fn next_waiter(&mut self, bounds: &Bounds) -> Option<Waiter> {
        let can_start = |waiter: &Waiter| self.check(bounds, &waiter.claim).is_ok();
        let (turn, at) = self.turns.iter().enumerate().find_map(|(turn, user)| {
            let at = self.waiting.get(user)?.iter().position(can_start)?;
            Some((turn, at))
        })?;
        let user = self.turns.remove(turn)?;
        let waiting = self.waiting.get_mut(&user)?;
        let waiter = waiting.remove(at);
        if waiting.is_empty() {
            self.waiting.remove(&user);
        } else {
            self.turns.push_back(user);
        }
        waiter
    }

    fn remove_waiter(&mut self, user: UserId, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&user) else {
            return;
        };
        waiting.retain(|waiter| waiter.number != number);
        if waiting.is_empty() {
            self.waiting.remove(&user);
            self.turns.retain(|other| *other != user);
        }
    }
}

/// Permit of a running call. When it is dropped, the next waiting call receives one.
pub struct CallPermit {
    slots: Arc<CallSlots>,
    claim: Claim,
}

/// A place in the queue, which is left when dropped.
struct Waiting<'s> {
    slots: &'s CallSlots,
    user: UserId,
    number: u64,
    permit: oneshot::Receiver<CallPermit>,
}

impl CallSlots {
    /// `share` is the part of the permits that one user can hold. One workspace can hold at most three quarters, unless it is the only
    /// workspace on this server.
    pub fn new(max: usize, share: Share) -> Arc<Self> {
        Arc::new(Self {
            bounds: Bounds {
                all: max,
                workspace: (max * 3 / 4).max(1),
                user: share.of(max),
            },
            calls: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a permit, for which it waits up to `WAIT_MAX`.
    ///
    /// # Errors
    /// `PersonShareUsed`, `WorkspaceShareUsed`, or `Busy` after the wait, or at once if the user has `WAITING_MAX` waiting calls.
    pub async fn take(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        user: UserId,
        tenancy: Tenancy,
    ) -> Result<CallPermit, ResponseError> {
        let claim = Claim {
            workspace,
            user,
            tenancy,
        };
        self.take_within(claim, WAIT_MAX).await
    }

    async fn take_within(
        self: &Arc<Self>,
        claim: Claim,
        wait: Duration,
    ) -> Result<CallPermit, ResponseError> {
        let mut waiting = {
            let mut calls = self.lock();
            let Err(refusal) = calls.check(&self.bounds, &claim) else {
                calls.count(&claim);
                return Ok(self.permit(claim));
            };
            self.queue(&mut calls, claim).ok_or(refusal)?
        };
        if let Ok(Ok(permit)) = tokio::time::timeout(wait, &mut waiting.permit).await {
            return Ok(permit);
        }
        let refusal = self.lock().check(&self.bounds, &claim).err();
        Err(refusal.unwrap_or(ResponseError::Busy))
    }

    fn permit(self: &Arc<Self>, claim: Claim) -> CallPermit {
        CallPermit {
            slots: Arc::clone(self),
            claim,
        }
    }

    /// Adds a call to the queue. Returns `None` if the user has too many waiting calls.
    fn queue(&self, calls: &mut Calls, claim: Claim) -> Option<Waiting<'_>> {
        calls.last_number += 1;
        let number = calls.last_number;
        let (sender, permit) = oneshot::channel();
        let waiting = calls.waiting.entry(claim.user).or_default();
        if waiting.len() >= WAITING_MAX {
            return None;
        }
        if waiting.is_empty() {
            calls.turns.push_back(claim.user);
        }
        waiting.push_back(Waiter {
            number,
            claim,
            permit: sender,
        });
        Some(Waiting {
            slots: self,
            user: claim.user,
            number,
            permit,
        })
    }

    /// Hands out all available permits to waiting calls.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let waiter = {
                let mut calls = self.lock();
                let Some(waiter) = calls.next_waiter(&self.bounds) else {
                    return;
                };
                calls.count(&waiter.claim);
                waiter
            };
            // A call that no longer waits returns its permit.
            drop(waiter.permit.send(self.permit(waiter.claim)));
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.lock().remove_waiter(self.user, self.number);
    }
}

fn release<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut calls = self.slots.lock();
        calls.all -= 1;
        release(&mut calls.workspaces, &self.claim.workspace);
        release(&mut calls.users, &self.claim.user);
        drop(calls);
        self.slots.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Acquires permits until none is available. Returns the number of acquired permits and the reason.
    fn fill(
        slots: &Arc<CallSlots>,
        claim: Claim,
        into: &mut Vec<CallPermit>,
    ) -> (usize, ResponseError) {
        for n in 0.. {
            if let Err(refusal) = slots.lock().check(&slots.bounds, &claim) {
                return (n, refusal);
            }
            let permit = take(slots, claim).now_or_never();
            into.push(permit.unwrap().unwrap());
        }
        unreachable!()
    }

    async fn take(slots: &Arc<CallSlots>, claim: Claim) -> Result<CallPermit, ResponseError> {
        slots.take(claim.workspace, claim.user, claim.tenancy).await
    }

    fn claim(workspace: WorkspaceId, user: UserId, tenancy: Tenancy) -> Claim {
        Claim {
            workspace,
            user,
            tenancy,
        }
    }

    #[test]
    fn a_user_gets_a_quarter_and_a_workspace_three_quarters_of_the_slots() {
        let (slots, mut held) = (CallSlots::new(16, Share::QUARTER), Vec::new());
        let (loud, quiet) = (WorkspaceId::new(), WorkspaceId::new());
        let people: Vec<UserId> = (0..4).map(|_| UserId::new()).collect();
        let shared = |workspace, user| claim(workspace, user, Tenancy::Shared);
        for user in &people[..3] {
            let (n, refusal) = fill(&slots, shared(loud, *user), &mut held);
            assert_eq!(n, 4);
            assert!(matches!(refusal, ResponseError::PersonShareUsed(4)));
        }
        let (n, refusal) = fill(&slots, shared(loud, people[3]), &mut held);
        assert_eq!(n, 0);
        assert!(matches!(refusal, ResponseError::WorkspaceShareUsed(12)));
        let (n, _) = fill(&slots, shared(quiet, people[3]), &mut held);
        assert_eq!(n, 4, "the rest is left for others");
        let (_, refusal) = fill(&slots, shared(quiet, UserId::new()), &mut held);
        assert!(matches!(refusal, ResponseError::Busy));
        held.clear();
        let calls = slots.lock();
        assert!(calls.all == 0 && calls.users.is_empty() && calls.workspaces.is_empty());
    }

    #[test]
    fn the_only_workspace_can_use_every_slot_and_everyone_gets_at_least_one() {
        let (slots, mut held) = (CallSlots::new(2, Share::QUARTER), Vec::new());
        let workspace = WorkspaceId::new();
        let someone = || claim(workspace, UserId::new(), Tenancy::Single);
        for _ in 0..2 {
            assert_eq!(fill(&slots, someone(), &mut held).0, 1);
        }
        let (_, refusal) = fill(&slots, someone(), &mut held);
        assert!(matches!(refusal, ResponseError::Busy));
    }

    #[tokio::test]
    async fn waiting_people_alternate() {
        let slots = CallSlots::new(1, Share::QUARTER);
        let workspace = WorkspaceId::new();
        let [ada, bo] =
            [UserId::new(), UserId::new()].map(|user| claim(workspace, user, Tenancy::Single));
        let first = take(&slots, ada).await.unwrap();
        let mut waiting: Vec<_> = [ada, ada, bo, bo]
            .iter()
            .map(|claim| Some(Box::pin(take(&slots, *claim))))
            .collect();
        for call in waiting.iter_mut().flatten() {
            assert!(call.now_or_never().is_none());
        }
        drop(first);
        let mut order = Vec::new();
        for _ in 0..4 {
            let started = waiting.iter_mut().enumerate().find_map(|(n, call)| {
                let permit = call.as_mut()?.now_or_never()?;
                Some((n, permit.unwrap()))
            });
            let (n, permit) = started.expect("a waiting call has a permit");
            waiting[n] = None;
            order.push(n);
            drop(permit);
        }
        assert_eq!(order, [0, 2, 1, 3]);
        let calls = slots.lock();
        assert!(calls.turns.is_empty() && calls.all == 0);
    }

    #[tokio::test]
    async fn a_call_waits_in_a_bounded_queue_for_a_bounded_time() {
        let slots = CallSlots::new(1, Share::QUARTER);
        let one = claim(WorkspaceId::new(), UserId::new(), Tenancy::Single);
        let held = take(&slots, one).await.unwrap();
        let mut queue: Vec<_> = (0..WAITING_MAX)
            .map(|_| Box::pin(take(&slots, one)))
            .collect();
        for call in &mut queue {
            assert!(call.now_or_never().is_none());
        }
        let refused = take(&slots, one).now_or_never().expect("the queue is full");
        assert!(matches!(refused, Err(ResponseError::PersonShareUsed(1))));
        drop(queue.pop());
        let last = slots.take_within(one, Duration::ZERO).await;
        assert!(matches!(last, Err(ResponseError::PersonShareUsed(1))));
        drop(queue);
        {
            let calls = slots.lock();
            assert!(calls.waiting.is_empty() && calls.turns.is_empty());
        }
        drop(held);
        assert!(take(&slots, one).now_or_never().is_some());
    }
}
