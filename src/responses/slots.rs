//! Permits for concurrent calls, with limits per workspace and per user.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::error::ResponseError;
use crate::{
    ids::{UserId, WorkspaceId},
    tasks::queue::Tenancy,
};

/// Running calls of this process.
pub struct CallSlots {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    workspaces: HashMap<WorkspaceId, usize>,
    users: HashMap<UserId, usize>,
}

/// Permit of a running call, which is released when dropped.
pub struct CallPermit {
    slots: Arc<CallSlots>,
    workspace: WorkspaceId,
    user: UserId,
}

impl CallSlots {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            taken: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a permit. One user can hold at most a quarter of all permits. One workspace can hold at most three quarters, unless
    /// it is the only workspace on this server.
    ///
    /// # Errors
    /// `PersonShareUsed` or `WorkspaceShareUsed`; `Busy` if all permits are taken.
    pub fn take(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        user: UserId,
        tenancy: Tenancy,
    ) -> Result<CallPermit, ResponseError> {
        let share = |part: usize| part.max(1);
        let mut taken = self.lock();
        let of_user = taken.users.get(&user).copied().unwrap_or_default();
        if of_user >= share(self.max / 4) {
            return Err(ResponseError::PersonShareUsed(of_user));
        }
        let of_workspace = taken
            .workspaces
            .get(&workspace)
            .copied()
            .unwrap_or_default();
        if tenancy == Tenancy::Shared && of_workspace >= share(self.max * 3 / 4) {
            return Err(ResponseError::WorkspaceShareUsed(of_workspace));
        }
        if taken.all >= self.max {
            return Err(ResponseError::Busy);
        }
        taken.all += 1;
        *taken.users.entry(user).or_default() += 1;
        *taken.workspaces.entry(workspace).or_default() += 1;
        drop(taken);
        Ok(CallPermit {
            slots: Arc::clone(self),
            workspace,
            user,
        })
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
        let mut taken = self.slots.lock();
        taken.all -= 1;
        release(&mut taken.workspaces, &self.workspace);
        release(&mut taken.users, &self.user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acquires permits until one is refused. Returns the number of acquired permits and the error.
    fn fill(
        slots: &Arc<CallSlots>,
        workspace: WorkspaceId,
        user: UserId,
        tenancy: Tenancy,
        into: &mut Vec<CallPermit>,
    ) -> (usize, ResponseError) {
        for n in 0.. {
            match slots.take(workspace, user, tenancy) {
                Ok(permit) => into.push(permit),
                Err(e) => return (n, e),
            }
        }
        unreachable!()
    }

    #[test]
    fn a_user_gets_a_quarter_and_a_workspace_three_quarters_of_the_slots() {
        let (slots, mut held) = (CallSlots::new(16), Vec::new());
        let (loud, quiet) = (WorkspaceId::new(), WorkspaceId::new());
        let people: Vec<UserId> = (0..4).map(|_| UserId::new()).collect();
        for user in &people[..3] {
            let (n, refusal) = fill(&slots, loud, *user, Tenancy::Shared, &mut held);
            assert_eq!(n, 4);
            assert!(matches!(refusal, ResponseError::PersonShareUsed(4)));
        }
        let (n, refusal) = fill(&slots, loud, people[3], Tenancy::Shared, &mut held);
        assert_eq!(n, 0);
        assert!(matches!(refusal, ResponseError::WorkspaceShareUsed(12)));
        let (n, _) = fill(&slots, quiet, people[3], Tenancy::Shared, &mut held);
        assert_eq!(n, 4, "the rest is left for others");
        let (_, refusal) = fill(&slots, quiet, UserId::new(), Tenancy::Shared, &mut held);
        assert!(matches!(refusal, ResponseError::Busy));
        held.clear();
        let taken = slots.lock();
        assert!(taken.all == 0 && taken.users.is_empty() && taken.workspaces.is_empty());
    }

    #[test]
    fn the_only_workspace_can_use_every_slot_and_everyone_gets_at_least_one() {
        let (slots, mut held) = (CallSlots::new(2), Vec::new());
        let workspace = WorkspaceId::new();
        for _ in 0..2 {
            let (n, _) = fill(&slots, workspace, UserId::new(), Tenancy::Single, &mut held);
            assert_eq!(n, 1);
        }
        let (_, refusal) = fill(&slots, workspace, UserId::new(), Tenancy::Single, &mut held);
        assert!(matches!(refusal, ResponseError::Busy));
    }
}
