//! Limits of the process: memory, time, no files, no network, no other processes.
//!
//! A document can exploit a bug of a parser, but the process that the parser runs in has no way to reach anything else: system calls
//! other than those for memory, its open streams, and its end kill it.

use std::collections::BTreeMap;

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
use rlimit::Resource;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Maximum additional address space.
const MEMORY_BYTES: u64 = 1 << 30;
const CPU_SECONDS: u64 = 60;

/// The limits cannot be set on this system.
#[derive(Debug)]
pub struct Unavailable;

/// System calls that are needed to read a document, each for any arguments.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Limits this process, all of its threads included.
pub fn enter() -> Result<(), Unavailable> {
    // Memory that the allocator has reserved at the start does not count.
    let memory = address_space().unwrap_or(0) + MEMORY_BYTES;
    for (resource, limit) in [
        (Resource::AS, memory),
        (Resource::CPU, CPU_SECONDS),
        (Resource::FSIZE, 0),
        (Resource::CORE, 0),
    ] {
        resource.set(limit, limit).map_err(|_| Unavailable)?;
    }
    // Only some kernels have Landlock; the filter below suffices without it.
    let _ = forbid_paths();
    let program = filter().map_err(|_| Unavailable)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|_| Unavailable)
}

/// Size of this process's address space in bytes.
fn address_space() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').next()?.parse().ok()?;
    Some(pages * 4096)
}

fn forbid_paths() -> Result<(), landlock::RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V4))?
        .create()?
        .restrict_self()?;
    Ok(())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().map(|call| (*call, Vec::new())).collect();
    // An abort is a signal to the process itself.
    let itself = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(std::process::id()),
    )?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![itself])?]);
    SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}
