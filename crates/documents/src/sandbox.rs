//! Limits of the process: memory, time, no files, no network, no other processes.
//!
//! A document can exploit a bug of a parser, but the process that the parser runs in has no way to reach anything else: system calls
//! other than those for memory, its open streams, and its end fail or kill it.

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

/// System calls that fail as if the kernel did not have them: libraries ask for processors and memory nodes, name memory, or start
/// threads, and work without them.
const REFUSED: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_clone,
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
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
    let programs = filters().map_err(|_| Unavailable)?;
    for program in &programs {
        seccompiler::apply_filter_all_threads(program).map_err(|_| Unavailable)?;
    }
    Ok(())
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

/// A filter that kills for calls that are not needed, and one that refuses those that libraries try: of the results of several
/// filters, the strictest counts. After the second one, no filter can be added.
fn filters() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let any = |calls: &[i64]| -> BTreeMap<i64, Vec<SeccompRule>> {
        calls.iter().map(|call| (*call, Vec::new())).collect()
    };
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let refused = SeccompFilter::new(any(REFUSED), SeccompAction::Allow, missing, architecture)?;
    let mut known = any(CALLS);
    known.extend(any(REFUSED));
    // An abort is a signal to the process itself.
    let itself = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(std::process::id()),
    )?;
    known.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![itself])?]);
    // Starting a thread is refused, but starting a process kills. A filter cannot read the flags of `clone3`, which the C library
    // tries first, so that call is always refused.
    let thread = libc::CLONE_THREAD.cast_unsigned().into();
    let starts_thread = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread),
        thread,
    )?;
    known.insert(
        libc::SYS_clone,
        vec![SeccompRule::new(vec![starts_thread])?],
    );
    let kills = SeccompAction::KillProcess;
    let others = SeccompFilter::new(known, kills, SeccompAction::Allow, architecture)?;
    Ok([others.try_into()?, refused.try_into()?])
}
