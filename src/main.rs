//! The program `openvibe`: reads the command, runs it.

fn main() -> std::process::ExitCode {
    openvibe::cli::main()
}
