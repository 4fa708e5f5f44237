//! The program `openvibe`: runs the command line.

fn main() -> std::process::ExitCode {
    openvibe::cli::main()
}
