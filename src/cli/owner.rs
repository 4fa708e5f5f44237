//! Commands that root runs, which continue as the owner of the data directory: files that root creates there would be unreadable for
//! the server.

use std::{
    ffi::OsString,
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::Command,
};

use anyhow::Context;

use crate::{
    config::Config,
    environment::{Variables, read_env_file},
};

/// Option with the file of variables, which the owner may not be able to read.
const ENV_FILE: &str = "--env-file";

/// Starts this program again as the owner of the data directory, if this process runs as root and the directory belongs to somebody
/// else. Does not return in that case.
///
/// # Errors
/// If the program cannot be started.
pub(super) fn become_owner(
    config: &Config,
    env_file: Option<&std::path::Path>,
) -> anyhow::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let Some(found) = std::fs::metadata(&config.data_dir)
        .ok()
        .filter(|found| is_root && found.uid() != 0)
    else {
        return Ok(());
    };
    let mut variables = match env_file {
        Some(path) => read_env_file(path).map_err(anyhow::Error::msg)?,
        None => Variables::new(),
    };
    variables.retain(|name, _| std::env::var_os(name).is_none());
    let program = std::env::current_exe().context("this program's file cannot be found")?;
    let mut command = Command::new(&program);
    command
        .args(without_env_file(std::env::args_os().skip(1)))
        .envs(variables)
        .uid(found.uid())
        .gid(found.gid());
    // The owner may not find the same file, because the current directory can be closed to others.
    let mut sources = config.sources.iter();
    if let Some(file) = sources.rfind(|file| Some(file.as_path()) != env_file) {
        command.env("OPENVIBE_CONFIG", std::path::absolute(file)?);
    }
    Err(command.exec()).with_context(|| {
        format!(
            "cannot continue as the owner of {} (user {})",
            config.data_dir.display(),
            found.uid()
        )
    })
}

/// The arguments without the option, whose variables are passed in the environment.
fn without_env_file(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == ENV_FILE {
            arguments.next();
        } else if !argument.to_string_lossy().starts_with("--env-file=") {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_variables_is_not_passed_on() {
        for given in [
            &["--env-file", "/etc/openvibe.env", "backup", "-"][..],
            &["--env-file=/etc/openvibe.env", "backup", "-"],
            &["backup", "-", "--env-file", "/etc/openvibe.env"],
        ] {
            let given = given.iter().map(|argument| OsString::from(*argument));
            assert_eq!(without_env_file(given), ["backup", "-"]);
        }
    }
}
