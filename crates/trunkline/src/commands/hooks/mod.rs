//! `hooks`: runs programs when a gateway or a peer comes up or goes down, or a path changes.
//!
//! It is a process of its own that asks the control socket, so the gateway itself starts no program and needs no right to.

mod events;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use trunkline_gateway::config::RUN_DIRECTORY;
use trunkline_service::control::{ControlError, ask};
use trunkline_status::{Answer, Request};

use super::control::control_failure;
use super::site::load;
use crate::cli::HooksArguments;
use crate::failure::Failure;
use crate::output::remark;
use events::{Event, Seen, events};

/// How often the gateway is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn hooks(arguments: &HooksArguments) -> Result<(), Failure> {
    let socket = socket(&arguments.site)?;
    let name = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    programs(&arguments.directory)?;
    let mut before = None;
    loop {
        match state(&socket) {
            Ok(now) => {
                for event in events(before.as_ref(), now.as_ref()) {
                    tell(&event, &name, arguments);
                }
                before = now;
            }
            // A gateway that hangs has not ended: its service manager decides that.
            Err(ControlError::Silent { .. } | ControlError::Talk { .. }) => {}
            Err(error) => return Err(control_failure(&error)),
        }
        thread::sleep(INTERVAL);
    }
}

/// The control socket of a site whose gateway may not run yet.
fn socket(site: &Path) -> Result<PathBuf, Failure> {
    if site.extension().is_some_and(|extension| extension == "toml") {
        return Ok(load(site)?.control.socket);
    }
    if site.extension().is_some_and(|extension| extension == "sock") {
        return Ok(site.to_owned());
    }
    Ok(Path::new(RUN_DIRECTORY).join(format!("{}.sock", site.display())))
}

/// What the gateway is; `None` if none runs.
fn state(socket: &Path) -> Result<Option<Seen>, ControlError> {
    match ask(socket, &Request::Status) {
        Ok(Answer::Status(status)) => Ok(Some(Seen::of(&status))),
        Ok(_) | Err(ControlError::Connect { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs all programs for an event, one after the other.
fn tell(event: &Event, site: &str, arguments: &HooksArguments) {
    let words = event.arguments(site);
    remark(&words.join(" "));
    let programs = match programs(&arguments.directory) {
        Ok(programs) => programs,
        Err(failure) => return remark(&failure),
    };
    for program in programs {
        if let Err(problem) = run(&program, &words, arguments.limit) {
            remark(&format_args!("{}: {problem}", program.display()));
        }
    }
}

/// The programs of a directory, in the order of their names. What others may change is left out, and named.
fn programs(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::Input(format!("hooks in {}: {error}", directory.display()));
    let mut found = Vec::new();
    for file in fs::read_dir(directory).map_err(unreadable)? {
        let path = file.map_err(unreadable)?.path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !metadata.is_file() || metadata.mode() & 0o111 == 0 || is_hidden {
            continue;
        }
        let is_safe = [0, geteuid().as_raw()].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0;
        if is_safe {
            found.push(path);
        } else {
            remark(&format_args!(
                "{} is not run: others than its owner, or another owner, may change it",
                path.display()
            ));
        }
    }
    found.sort();
    Ok(found)
}

/// Runs a program to its end, or ends it when its time is up.
fn run(program: &Path, words: &[String], limit: Duration) -> Result<(), String> {
    let variables = ["EVENT", "SITE", "PEER", "PATH", "STATE"].map(|name| format!("TRUNKLINE_{name}"));
    let mut command = Command::new(program);
    command.args(words).envs(variables.iter().zip(words)).stdin(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    match wait(&mut child, limit).map_err(|error| error.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => {
            // With all that it has started.
            if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            Err(format!("not done after {} s, and ended", limit.as_secs_f64()))
        }
    }
}

/// Waits for the end of a program until its time is up.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if begin.elapsed() >= limit => return Ok(None),
            None => thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("trunkline-hooks-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn script(directory: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn programs_run_in_the_order_of_their_names_if_nobody_else_may_change_them() {
        let directory = directory("order");
        for (name, mode) in [
            ("20-b", 0o755),
            ("10-a", 0o700),
            ("README", 0o644),
            (".hidden", 0o755),
            ("30-c", 0o777),
            ("40-d", 0o775),
        ] {
            script(&directory, name, mode, "");
        }
        fs::create_dir(directory.join("50-directory")).unwrap();
        let names: Vec<String> = programs(&directory)
            .unwrap()
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        assert_eq!(names, ["10-a", "20-b"]);
        fs::remove_dir_all(&directory).unwrap();
        assert!(programs(&directory).is_err());
    }

    #[test]
    fn a_program_gets_the_event_and_a_bounded_time() {
        let directory = directory("run");
        let out = directory.join("out");
        let words = ["peer-up", "a", "b"].map(str::to_owned);
        let limit = Duration::from_secs(20);
        let text = format!(
            "echo \"$* $TRUNKLINE_EVENT $TRUNKLINE_PEER ${{TRUNKLINE_PATH-none}}\" > {}",
            out.display()
        );
        run(&script(&directory, "good", 0o755, &text), &words, limit).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "peer-up a b peer-up b none\n");
        let error = run(&script(&directory, "bad", 0o755, "exit 3"), &words, limit).unwrap_err();
        assert_eq!(error, "exit status: 3");
        // It is ended with what it has started, which would write otherwise.
        let late = directory.join("late");
        let text = format!("(sleep 1; echo late > {}) & sleep 60", late.display());
        let begin = Instant::now();
        let error =
            run(&script(&directory, "slow", 0o755, &text), &words, Duration::from_millis(300)).unwrap_err();
        assert!(error.contains("not done after 0.3 s"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(1500));
        assert!(!late.exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
