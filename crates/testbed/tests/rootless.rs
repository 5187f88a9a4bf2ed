//! An experiment without root: the program makes itself root of a user namespace before it starts any thread.

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use common::{any_port, pair};
use trunkline_link::LinkSettings;
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::privilege::{self, Means};
use trunkline_testbed::traffic::{EchoServer, PingSettings, Stop, ping};
use trunkline_units::Rate;

const NOBODY: u32 = 65_534;

fn main() -> ExitCode {
    let test = "an_experiment_runs_without_root";
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    if std::env::var_os("TRUNKLINE_TESTBED_ROOTLESS").is_none() && rustix::process::geteuid().is_root() {
        let program = std::env::current_exe().expect("this program");
        let mut again = Command::new(program);
        again.env("TRUNKLINE_TESTBED_ROOTLESS", "1").uid(NOBODY).gid(NOBODY).current_dir("/");
        let Ok(status) = again.status() else {
            println!(
                "SKIPPED {test}: lacks a way for an unprivileged user to run this program where it lies"
            );
            return ExitCode::SUCCESS;
        };
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match privilege::acquire() {
        Err(missing) => println!("SKIPPED {test}: {missing}"),
        Ok(Means::Capabilities) => println!("SKIPPED {test}: lacks an unprivileged user"),
        Ok(Means::UserNamespace) => {
            experiment();
            println!("test {test} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn experiment() {
    let direction = LinkSettings::new(Rate::MAX, Duration::from_millis(3));
    let pair = pair(&DuplexSettings::symmetric(direction));
    let echo = EchoServer::start(&pair.b, any_port(common::B), Scheduling::Shared).expect("echo");
    let settings = PingSettings::new(echo.address(), Duration::from_millis(5), 20);
    let report = pair.a.run(|| ping(&settings, &Stop::new())).expect("ping");
    assert_eq!(report.round_trips.len(), 20);
    assert!(report.round_trips.iter().all(|time| *time >= Duration::from_millis(6)));
    assert!(privilege::check().is_ok());
}
