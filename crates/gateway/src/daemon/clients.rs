//! Clients of the control socket and of the metrics.

use std::io;
use std::os::fd::AsFd as _;

use rustix::event::epoll;

use trunkline_service::request::Protocol;
use trunkline_service::{Client, MAX_CLIENTS, NextStep, Response, Stream, evict};
use trunkline_status::{Answer, Request};

use super::{Daemon, Source};
use crate::clock::now;
use crate::metrics;

impl Daemon {
    pub(super) fn accept_clients(&mut self, accept: impl Fn() -> io::Result<Stream>, protocol: Protocol) {
        // Bounded, so that a flood of connections leaves time for other events.
        for _ in 0..MAX_CLIENTS {
            let Ok(stream) = accept() else { return };
            if stream.set_nonblocking().is_err() {
                continue;
            }
            let clients = self.sources.iter().filter_map(|(token, source)| match source {
                Source::Client(client) if client.protocol == protocol => Some((*token, client.is_idle())),
                _ => None,
            });
            if let Some(token) = evict(clients, MAX_CLIENTS) {
                self.sources.remove(&token);
            }
            let client = Client::new(stream, protocol, now());
            // An error drops the client, which closes its connection.
            let _ = self.add(Source::Client(Box::new(client)));
        }
    }

    pub(super) fn handle_client_event(&mut self, token: u64, mut client: Box<Client>) -> Option<Source> {
        let mut next = client.write();
        if next == NextStep::Close {
            next = client.read();
        }
        if let NextStep::Answer(request) = next {
            next = client.respond(match client.protocol {
                Protocol::Control => match self.answer(token, &request) {
                    Some(answer) => Response::Line(serde_json::to_string(&answer).unwrap_or_default()),
                    None => return Some(Source::Waiting(client)),
                },
                Protocol::Http => Response::metrics(&request, || self.status(false), metrics::prometheus),
            });
        }
        let flags = match next {
            NextStep::Read => epoll::EventFlags::IN,
            NextStep::Write => epoll::EventFlags::OUT,
            NextStep::Answer(_) | NextStep::Close => return None,
        };
        self.rearm(token, client.stream.as_fd(), flags);
        Some(Source::Client(client))
    }

    /// The answer to a line of the client `token`; `None` if it comes later.
    fn answer(&mut self, token: u64, request: &str) -> Option<Answer> {
        Some(match Request::parse(request, &Request::WORDS) {
            Ok(Request::Status) => Answer::Status(Box::new(self.status(false))),
            Ok(Request::Flows) => Answer::Status(Box::new(self.status(true))),
            Ok(Request::Reload) => match self.reload() {
                Ok(message) => {
                    tracing::info!("{message}");
                    Answer::Done { message }
                }
                Err(message) => {
                    tracing::error!("{}: not reloaded: {message}", self.site_label());
                    Answer::Refused { message }
                }
            },
            Ok(Request::Down) => {
                self.stopping = true;
                Answer::Done { message: format!("{} goes down", self.config.name) }
            }
            Ok(Request::Invite { key, seconds }) => match self.open_invitation(token, &key, seconds) {
                Ok(()) => return None,
                Err(message) => Answer::Refused { message },
            },
            Ok(Request::Decline { key, reason }) => self.decline_join(&key, &reason),
            Err(message) => Answer::Refused { message },
        })
    }
}
