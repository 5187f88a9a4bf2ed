//! Makes a generator: checks its sources, prepares the hosts and opens the servers' sockets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_units::Instant;
use trunkline_workload::{Pattern, Schedule, Timing, Users};

use super::Generator;
use super::engine::{Engine, Part, timer};
use super::flows::{Flow, Flows, Receiver};
use super::poll::{Poll, Token};
use super::reading::Lateness;
use super::settings::{GeneratorError, Load, SocketOptions, Source};
use super::socket::{self, Connect, Places, failed};
use super::transfers::{TcpSource, Transfers};
use crate::clock::Scheduling;
use crate::namespace::Host;

/// Descriptors of the process beside those of connections.
const OTHER_DESCRIPTORS: u64 = 512;

const CLIENT_SETTINGS: [(&str, &str); 2] =
    [("net.ipv4.ip_local_port_range", "10240 65535"), ("net.ipv4.tcp_tw_reuse", "1")];
const SERVER_SETTINGS: [(&str, &str); 3] = [
    ("net.core.somaxconn", "65535"),
    ("net.ipv4.tcp_max_syn_backlog", "65535"),
    ("net.ipv4.tcp_reflect_tos", "1"),
];

pub(super) fn build(sources: &[Source<'_>], scheduling: Scheduling) -> Result<Generator, GeneratorError> {
    for (source_number, source) in sources.iter().enumerate() {
        source.check().map_err(|error| GeneratorError::Settings { source_number, error })?;
    }
    make_room(sources)?;
    let poll = Poll::new().map_err(GeneratorError::Start)?;
    let mut all = Build::new(poll);
    for (number, source) in sources.iter().enumerate() {
        all.add(number, source)?;
    }
    all.start(scheduling)
}

/// Lets the process have as many descriptors as the sources may need.
fn make_room(sources: &[Source<'_>]) -> Result<(), GeneratorError> {
    let ends = |source: &Source<'_>| match &source.load {
        // A web user's last connection may still be closing while the next is open.
        Load::Tcp { pattern: pattern @ Pattern::Web { .. }, .. } => 4 * u64::from(pattern.users()),
        Load::Tcp { pattern, .. } => 2 * u64::from(pattern.users()),
        Load::Udp { .. } => 1,
    };
    let needed = OTHER_DESCRIPTORS + sources.iter().map(ends).sum::<u64>();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Some(limit) = maximum.filter(|maximum| *maximum < needed) {
        return Err(GeneratorError::Descriptors { needed, limit });
    }
    if current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
            .map_err(|error| GeneratorError::Start(error.into()))?;
    }
    Ok(())
}

struct Listener {
    place: (usize, SocketAddr),
    options: SocketOptions,
    socket: OwnedFd,
}

struct Build {
    poll: Poll,
    places: Places,
    clients: Vec<usize>,
    servers: Vec<usize>,
    listeners: Vec<Listener>,
    receivers: Vec<((usize, SocketAddr), Receiver)>,
    tcp: Vec<TcpSource>,
    flows: Vec<Flow>,
    parts: Vec<Part>,
}

impl Build {
    fn new(poll: Poll) -> Self {
        Build {
            poll,
            places: Places::default(),
            clients: Vec::new(),
            servers: Vec::new(),
            listeners: Vec::new(),
            receivers: Vec::new(),
            tcp: Vec::new(),
            flows: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn add(&mut self, number: usize, source: &Source<'_>) -> Result<(), GeneratorError> {
        let client = self.places.number(source.client);
        let server = self.places.number(source.server);
        prepare(&mut self.clients, (client, source.client), &CLIENT_SETTINGS)?;
        prepare(&mut self.servers, (server, source.server), &SERVER_SETTINGS)?;
        let Source { address, dscp, .. } = *source;
        let times = (Instant::ZERO + source.start, source.stop.map(|stop| Instant::ZERO + stop));
        match &source.load {
            Load::Tcp { pattern, sockets } => {
                let [near, far] = &**sockets;
                near.check(source.client, address, dscp)?;
                let listener = self.listener(number, source, far)?;
                let users = Users::new(pattern.clone(), times, source.rng.clone());
                let connect = Connect { address, dscp, options: near.clone() };
                self.parts.push(Part::Transfers(self.tcp.len()));
                self.tcp.push(TcpSource::new(users, (client, listener), connect, far.clone()));
            }
            Load::Udp { data, timing } => {
                let receiver = self.receiver(server, source)?;
                let opened = source.client.run(|| socket::sender(address, dscp));
                let action = format!("make a socket for datagrams to {address}");
                let (socket, own) = opened.map_err(failed(source.client, action))?;
                self.receivers[receiver].1.flows.insert(own, self.flows.len());
                self.parts.push(Part::Flow(self.flows.len()));
                let headers = if address.is_ipv4() { Timing::HEADERS } else { Timing::HEADERS_IPV6 };
                let schedule = Schedule::new(timing.clone(), (*data, headers), times, source.rng.clone());
                self.flows.push(Flow::new(schedule, socket, headers));
            }
        }
        Ok(())
    }

    /// The listener of a source's server, which sources share.
    fn listener(
        &mut self,
        source_number: usize,
        source: &Source<'_>,
        options: &SocketOptions,
    ) -> Result<usize, GeneratorError> {
        let Source { server: host, address, dscp, .. } = *source;
        let place = (self.places.number(host), address);
        if let Some(number) = self.listeners.iter().position(|listener| listener.place == place) {
            if self.listeners[number].options.of_handshake() != options.of_handshake() {
                return Err(GeneratorError::Port { source_number, address });
            }
            return options.check(host, address, dscp).map(|()| number);
        }
        options.check(host, address, dscp)?;
        let number = self.listeners.len();
        let poll = &self.poll;
        let opened = host.run(|| {
            let socket = socket::listen(address, options, dscp)?;
            poll.add_input(&socket, Token::Listener(number as u32))?;
            Ok(socket)
        });
        let socket = opened.map_err(failed(host, format!("listen at {address}")))?;
        self.listeners.push(Listener { place, options: options.clone(), socket });
        Ok(number)
    }

    /// The socket that receives a source's datagrams, which sources share.
    fn receiver(&mut self, server: usize, source: &Source<'_>) -> Result<usize, GeneratorError> {
        let place = (server, source.address);
        if let Some(number) = self.receivers.iter().position(|(known, _)| *known == place) {
            return Ok(number);
        }
        let number = self.receivers.len();
        let poll = &self.poll;
        let opened = source.server.run(|| {
            let socket = socket::receiver(source.address)?;
            poll.add_input(&socket, Token::Receiver(number as u32))?;
            Ok(socket)
        });
        let action = format!("receive datagrams at {}", source.address);
        let socket = opened.map_err(failed(source.server, action))?;
        self.receivers.push((place, Receiver { socket, flows: HashMap::new() }));
        Ok(number)
    }

    fn start(mut self, scheduling: Scheduling) -> Result<Generator, GeneratorError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags).map_err(|error| GeneratorError::Start(error.into()))?);
        let timer = timer().map_err(GeneratorError::Start)?;
        for wake in [&timer, &*bell] {
            // Each expiry and each ring is an event of its own, so neither needs to be read.
            epoll::add(self.poll.descriptor(), wake, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)
                .map_err(|error| GeneratorError::Start(error.into()))?;
        }
        self.places.change_thread();
        let (commands, queue) = channel();
        let listeners = self.listeners.into_iter().map(|listener| listener.socket).collect();
        let engine = Engine {
            transfers: Transfers::new(self.poll.clone(), listeners, self.tcp),
            poll: self.poll,
            timer,
            commands: queue,
            places: self.places,
            flows: Flows::new(self.flows, self.receivers.into_iter().map(|(_, receiver)| receiver).collect()),
            parts: self.parts,
            awaited: Vec::new(),
            zero: None,
            alarm: None,
            lateness: Lateness::default(),
        };
        let thread = std::thread::Builder::new().name("generator".to_owned()).spawn(move || {
            scheduling.apply();
            engine.run();
        });
        let thread = Some(thread.map_err(GeneratorError::Start)?);
        Ok(Generator { commands, bell, thread })
    }
}

/// Makes settings of a host, once.
fn prepare(
    done: &mut Vec<usize>,
    (number, host): (usize, &Host),
    settings: &[(&str, &str)],
) -> Result<(), GeneratorError> {
    if !done.contains(&number) {
        settings.iter().try_for_each(|(path, value)| host.sysctl(path, value))?;
        done.push(number);
    }
    Ok(())
}
