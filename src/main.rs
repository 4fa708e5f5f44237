//! The program `openvibe`: runs the command line.

/// Returns freed memory to the system within milliseconds. The allocator of the C library keeps it, up to the maximum that was ever in
/// use by each thread (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    openvibe::cli::main()
}
