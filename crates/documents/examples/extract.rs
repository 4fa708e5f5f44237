//! `openvibe extract` alone, for tests, and attempts to leave its sandbox.

use std::{fs, net::TcpStream, process, thread};

fn main() -> process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let ending = arguments.next().unwrap_or_default();
    if ending != "--escape" {
        return openvibe_documents::run(&ending);
    }
    if openvibe_documents::enter().is_err() {
        return process::ExitCode::from(openvibe_documents::NO_SANDBOX);
    }
    let escaped = match arguments.next().unwrap_or_default().as_str() {
        "open" => fs::read("/etc/hostname").is_ok(),
        "write" => fs::write("/tmp/openvibe-escaped", "x").is_ok(),
        "connect" => TcpStream::connect("127.0.0.1:9").is_ok(),
        "fork" => process::Command::new("/bin/true").spawn().is_ok(),
        "thread" => thread::Builder::new().spawn(|| ()).is_ok(),
        "memory" => vec![1_u8; 2 << 30].iter().any(|byte| *byte == 1),
        _ => true,
    };
    // Not reached by an attempt that kills the process.
    process::ExitCode::from(u8::from(escaped) + 10)
}
