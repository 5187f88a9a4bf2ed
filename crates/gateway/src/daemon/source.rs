//! The sources of events of the control thread: what its epoll descriptor watches.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::event::epoll;
use trunkline_service::request::Protocol;
use trunkline_service::{Client, Stream};
use trunkline_units::Instant;

use super::Daemon;
use super::connection::Connection;
use crate::sys;

pub(super) enum Source {
    Signals(OwnedFd),
    WorkerEvents,
    Resolved,
    Network,
    Listener(TcpListener),
    Control(UnixListener),
    MetricsTcp(TcpListener),
    MetricsUnix(UnixListener),
    Connection(Box<Connection>),
    Client(Box<Client>),
    /// Has opened an invitation, and waits for its use.
    Waiting(Box<Client>),
    /// Tells of the end of the proxies.
    Proxies,
    /// Has the thread look whether the machine has slept.
    WakeTimer(OwnedFd),
}

impl Source {
    /// The end of its time limit, if it has one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Source::Connection(connection) => Some(connection.deadline),
            Source::Client(client) => Some(client.deadline),
            _ => None,
        }
    }
}

impl Daemon {
    fn fd_of<'a>(&'a self, source: &'a Source) -> Option<BorrowedFd<'a>> {
        Some(match source {
            Source::Signals(fd) | Source::WakeTimer(fd) => fd.as_fd(),
            Source::WorkerEvents => self.workers.events.as_fd(),
            Source::Resolved => self.resolver.answers.as_fd(),
            Source::Network => self.network.as_fd(),
            Source::Listener(listener) | Source::MetricsTcp(listener) => listener.as_fd(),
            Source::Control(listener) | Source::MetricsUnix(listener) => listener.as_fd(),
            Source::Connection(connection) => return connection.fd(),
            Source::Client(client) | Source::Waiting(client) => client.stream.as_fd(),
            Source::Proxies => return self.proxies.as_ref().map(AsFd::as_fd),
        })
    }

    pub(super) fn add(&mut self, source: Source) -> io::Result<u64> {
        let token = self.next_token;
        self.next_token += 1;
        let flags = match &source {
            Source::Connection(connection) if connection.dialled.is_some() => epoll::EventFlags::OUT,
            _ => epoll::EventFlags::IN,
        };
        if let Some(fd) = self.fd_of(&source) {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags)?;
        }
        self.deadlines.extend(source.deadline().map(|at| (at, token)));
        self.sources.insert(token, source);
        Ok(token)
    }

    pub(super) fn rearm(&self, token: u64, fd: BorrowedFd<'_>, flags: epoll::EventFlags) {
        let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags);
    }

    pub(super) fn handle_event(&mut self, token: u64) {
        // Removed while it is handled, so that the handler may change the table.
        let Some(source) = self.sources.remove(&token) else { return };
        let keep = match source {
            Source::Signals(fd) => {
                while let Some(signal) = sys::next_signal(fd.as_fd()) {
                    self.handle_signal(signal);
                }
                Some(Source::Signals(fd))
            }
            Source::WorkerEvents => {
                self.handle_worker_events();
                Some(Source::WorkerEvents)
            }
            Source::Resolved => {
                self.handle_resolved_names();
                Some(Source::Resolved)
            }
            Source::Network => {
                self.handle_network_events();
                Some(Source::Network)
            }
            Source::Listener(listener) => {
                self.accept(&listener);
                Some(Source::Listener(listener))
            }
            Source::Control(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Unix(s)), Protocol::Control);
                Some(Source::Control(listener))
            }
            Source::MetricsUnix(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Unix(s)), Protocol::Http);
                Some(Source::MetricsUnix(listener))
            }
            Source::MetricsTcp(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Tcp(s)), Protocol::Http);
                Some(Source::MetricsTcp(listener))
            }
            Source::Connection(connection) => {
                self.handle_connection_event(token, connection);
                None
            }
            Source::Client(client) => self.handle_client_event(token, client),
            Source::Waiting(client) => self.handle_waiting_event(token, client),
            Source::WakeTimer(fd) => {
                let _ = rustix::io::read(&fd, &mut [0; 8]);
                self.look_for_sleep();
                Some(Source::WakeTimer(fd))
            }
            Source::Proxies => {
                self.handle_end_of_proxies();
                None
            }
        };
        if let Some(source) = keep {
            self.sources.insert(token, source);
        }
    }

    /// The proxies have ended by themselves. Trunks go on; new connections of hosts behind pass, or are refused, as configured.
    fn handle_end_of_proxies(&mut self) {
        if let Some(proxies) = &mut self.proxies {
            let reason = proxies.handle_end();
            tracing::error!("site {}: {reason}; a restart of the gateway brings them back", self.config.name);
        }
    }

    fn handle_signal(&mut self, signal: i32) {
        if signal == libc::SIGHUP {
            match self.reload() {
                Ok(message) => tracing::info!("{message}"),
                Err(message) => tracing::error!("{}: not reloaded: {message}", self.site_label()),
            }
        } else {
            self.stopping = true;
        }
    }
}
