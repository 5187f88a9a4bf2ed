//! Runs the system's resolver in threads.
//!
//! The resolver may block for any time, so each look-up has a thread; [`super::names`] bounds their number. One dispatching
//! thread starts them. The daemon starts that thread before it closes the file system for itself, since name resolution
//! must open files that are replaced or created long after the start. [`crate::privilege::confine_resolver`] describes the
//! restrictions of these threads.

use std::io;
use std::net::ToSocketAddrs as _;
use std::panic::catch_unwind;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::names::{Answer, LookUp, Target};
use crate::mailbox::Mailbox;
use crate::privilege::{PrivilegeError, confine_resolver};

/// A result, with the number of its look-up.
pub(super) struct Answered {
    pub(super) number: u64,
    pub(super) answer: Answer,
}

pub(super) struct Resolver {
    look_ups: Sender<LookUp>,
    pub(super) answers: Mailbox<Answered>,
}

/// Why there is no resolver.
#[derive(Debug)]
pub(super) enum ResolverError {
    System(io::Error),
    Privilege(PrivilegeError),
}

impl Resolver {
    /// Starts the dispatching thread, and waits until it is confined.
    pub(super) fn start() -> Result<Self, ResolverError> {
        let answers = Mailbox::new().map_err(ResolverError::System)?;
        let (look_ups, requests) = channel::<LookUp>();
        let (confined, outcome) = channel();
        let mailbox = answers.clone();
        let dispatch = move || {
            let result = confine_resolver();
            let failed = result.is_err();
            if confined.send(result).is_err() || failed {
                return;
            }
            while let Ok(LookUp { number, target }) = requests.recv() {
                let (answers, host) = (mailbox.clone(), target.host.clone());
                let look_up = move || {
                    let answer = catch_unwind(|| resolve(&target));
                    let answer = answer.unwrap_or_else(|panic| Err(super::panic_reason(&*panic)));
                    answers.post(Answered { number, answer });
                };
                if let Err(error) = thread::Builder::new().name("resolve".to_owned()).spawn(look_up) {
                    let answer = Err(format!("cannot start a thread to look up {host}: {error}"));
                    mailbox.post(Answered { number, answer });
                }
            }
        };
        thread::Builder::new().name("resolver".to_owned()).spawn(dispatch).map_err(ResolverError::System)?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(Resolver { look_ups, answers }),
            Ok(Err(error)) => Err(ResolverError::Privilege(error)),
            Err(_) => Err(ResolverError::System(io::Error::other("the resolver's thread ended"))),
        }
    }

    /// Starts a look-up.
    pub(super) fn look_up(&self, look_up: LookUp) {
        let number = look_up.number;
        if self.look_ups.send(look_up).is_err() {
            let answer = Err("the resolver's thread has ended".to_owned());
            self.answers.post(Answered { number, answer });
        }
    }
}

fn resolve(target: &Target) -> Answer {
    let addresses = (target.host.as_str(), 0).to_socket_addrs();
    addresses.map(Iterator::collect).map_err(|error| error.to_string())
}
