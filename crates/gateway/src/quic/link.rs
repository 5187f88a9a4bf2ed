//! One connection: its handshake, its greetings, and the datagrams of its lane.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, ConnectionHandle, Datagram, Dir, ReadError, Side, StreamId, VarInt};
use rustls::pki_types::CertificateDer;
use trunkline_trunk::datagram::{MIN_DATAGRAM, Piece};
use trunkline_trunk::{Delivery, LaneWindow};
use trunkline_units::Instant;

use super::Options;
use super::control::Control;
use super::keepalive::{Bindings, Due, Keepalive, Role};
use super::port::Port;
use super::rx::Arrived;
use super::settings::SEND_BUFFER;
use super::signals::Signals;
use super::streams::Streams;
use super::watch::{Finding, Packets, Watch};
use crate::handshake::{
    FieldError, HandshakeError, Hello, Message, MessageError, Refusal, presented_key, quic_delivery,
};
use crate::keys::PublicKey;
use crate::lane::Circuit;
use crate::lane_rx::RxError;
use crate::sys::udp::Outgoing;
use crate::tcp_info::TcpInfo;

/// The code with which a lane is closed that is no longer wanted.
pub(super) const CLOSED: VarInt = VarInt::from_u32(0);
/// The code with which a connection is closed that did not become a lane.
pub(super) const FAILED: VarInt = VarInt::from_u32(1);
/// Another address of the other end is told at most so often.
const MOVES: Duration = Duration::from_secs(1);
/// A datagram without frames, as long as every path must carry: whether it is acknowledged says whether the path does.
const LENGTH_PROBE: [u8; MIN_DATAGRAM] = [0; MIN_DATAGRAM];
/// The longest greeting.
const MAX_GREETING: usize = 512;

/// What the connections of a worker share.
pub(super) struct Shared {
    pub(super) ports: RefCell<Vec<Port>>,
    /// Connections to look after: their timers may have changed, or they have something to say.
    pub(super) touched: RefCell<Vec<u64>>,
    /// Connections that have sent: their timers may have changed.
    pub(super) unsettled: RefCell<Vec<u64>>,
    /// What is known of NATs on the ways to other ends.
    pub(super) bindings: RefCell<Bindings>,
    clock: (StdInstant, Instant),
}

impl Shared {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Shared {
            ports: RefCell::default(),
            touched: RefCell::default(),
            unsettled: RefCell::default(),
            bindings: RefCell::default(),
            clock: (StdInstant::now(), crate::clock::now()),
        })
    }

    /// The library's clock is the standard library's, which counts as ours does.
    pub(super) fn to_std(&self, now: Instant) -> StdInstant {
        self.clock.0 + now.saturating_since(self.clock.1)
    }

    pub(super) fn to_units(&self, at: StdInstant) -> Instant {
        self.clock.1 + at.saturating_duration_since(self.clock.0)
    }
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// We dialled; the handshake is in progress, or our hello is not answered.
    Dialling { serial: u64, hello: Hello, asked: bool },
    /// A peer's or a stranger's; the handshake is in progress, or the hello has not come.
    Accepting,
    /// Welcomed or asked: the control thread decides.
    Deciding,
    /// It carries this lane.
    Lane { serial: u64 },
    /// Nothing more comes of it.
    Over,
}

pub(super) struct Link {
    pub(super) number: u64,
    pub(super) handle: ConnectionHandle,
    pub(super) inner: Connection,
    pub(super) stage: Stage,
    /// What its lane group asks of it, once that is known.
    pub(super) options: Options,
    pub(super) port: usize,
    /// Its number among the callers while its handshake is in progress.
    pub(super) caller: Option<u64>,
    /// The end of the time for the handshake and the greetings.
    pub(super) deadline: Option<StdInstant>,
    /// Its place in the order of timers.
    pub(super) timer: Option<StdInstant>,
    /// Looks whether the path still carries UDP, if the lane may ride on TCP instead.
    pub(super) watch: Option<Watch>,
    /// The other end dials its lane, and can over TCP.
    may_be_dialled_over_tcp: bool,
    /// When it says something though it is idle, and when the other end is gone; of a lane.
    pub(super) keepalive: Option<Keepalive>,
    /// The other end's address as it was told last, and when.
    told: (SocketAddr, StdInstant),
    /// It has been asked to send a PING.
    asks: bool,
    /// Frames received when it last looked.
    heard: u64,
    is_touched: bool,
    pub(super) is_unsettled: bool,
    /// It may have something to say, and has not been asked.
    has_news: bool,
    /// DSCP, in the bits that it has in the IP header.
    traffic_class: u8,
    pub(super) signals: Arc<Signals>,
    /// Of a lane that delivers everything.
    pub(super) streams: Option<Box<Streams>>,
    greeting: Vec<u8>,
    buffer: Vec<u8>,
    pub(super) bytes_received: u64,
    bytes_sent: u64,
    refused: u64,
    /// Probes for the path's MTU that were lost, when it was looked at last.
    lost_probes: u64,
    /// When it probed last whether packets pass that are as long as QUIC requires; its beginning at first.
    length_probed: StdInstant,
}

impl Link {
    pub(super) fn new(
        number: u64,
        (handle, inner): (ConnectionHandle, Connection),
        stage: Stage,
        port: usize,
        signals: Arc<Signals>,
    ) -> Self {
        let told = (inner.remote_address(), StdInstant::now());
        Link {
            number,
            handle,
            inner,
            stage,
            options: Options { dscp: 0, control: signals.control(), delivery: Delivery::Datagram, seed: 0 },
            port,
            caller: None,
            deadline: None,
            timer: None,
            watch: None,
            may_be_dialled_over_tcp: false,
            keepalive: None,
            told,
            asks: false,
            heard: 0,
            is_touched: false,
            is_unsettled: false,
            has_news: false,
            traffic_class: 0,
            signals,
            streams: None,
            greeting: Vec::new(),
            buffer: Vec::new(),
            bytes_received: 0,
            bytes_sent: 0,
            refused: 0,
            lost_probes: 0,
            length_probed: told.1,
        }
    }

    /// Has the owner look after it.
    pub(super) fn touch(&mut self, shared: &Shared) {
        if !self.is_touched {
            self.is_touched = true;
            shared.touched.borrow_mut().push(self.number);
        }
    }

    /// Has the owner look after its timers.
    pub(super) fn unsettle(&mut self, shared: &Shared) {
        if !self.is_unsettled {
            self.is_unsettled = true;
            shared.unsettled.borrow_mut().push(self.number);
        }
    }

    /// Something has come for its lane, which is served next: what the connection has to say leaves with the lane's data.
    pub(super) fn defer(&mut self, shared: &Shared) {
        self.has_news = true;
        self.unsettle(shared);
    }

    /// Sends what it has to say, if nothing has sent it meanwhile.
    pub(super) fn transmit_deferred(&mut self, shared: &Shared, now: StdInstant) {
        if self.has_news {
            self.transmit(shared, now);
        }
    }

    pub(super) const fn take_touched(&mut self) -> bool {
        std::mem::replace(&mut self.is_touched, false)
    }

    /// Takes what its lane group asks of it.
    pub(super) fn set_options(&mut self, options: Options) {
        self.options = options;
        self.set_dscp(options.dscp);
        self.set_control(options.control);
    }

    pub(super) const fn set_dscp(&mut self, dscp: u8) {
        self.traffic_class = dscp << 2;
    }

    pub(super) fn set_control(&self, control: Control) {
        self.signals.set_control(control);
    }

    /// The circuit breaker, of a lane without congestion control.
    pub(super) fn circuit(&self) -> Option<Circuit> {
        self.signals.circuit()
    }

    // ------------------------------------------------------------ greetings

    /// The key that the other end has proved.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        let shown = self.inner.crypto_session().peer_identity()?.downcast::<Vec<CertificateDer<'static>>>();
        presented_key(shown.ok()?.first()?)
    }

    /// How the lane is to deliver, as the protocol's name says that the dialer chose (RFC 7301).
    pub(super) fn delivery(&self) -> Option<Delivery> {
        let data = self.inner.crypto_session().handshake_data()?.downcast::<HandshakeData>().ok()?;
        quic_delivery(data.protocol.as_deref()?)
    }

    /// The stream of the greetings: the first that the dialer opens.
    fn stream() -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, 0)
    }

    /// Sends a greeting, which is all that this end sends in the stream.
    pub(super) fn send_greeting(&mut self, message: &Message) {
        if self.inner.side().is_client() {
            let _ = self.inner.streams().open(Dir::Bi);
        }
        let id = Self::stream();
        let mut stream = self.inner.send_stream(id);
        // A new stream has room for a greeting; one that the other end has stopped makes no difference any more.
        let _ = stream.write(&message.encode());
        let _ = stream.finish();
    }

    /// The other end's greeting, once all of it is there.
    pub(super) fn receive_greeting(&mut self) -> Result<Option<Message>, HandshakeError> {
        if self.inner.side().is_server() {
            let _ = self.inner.streams().accept(Dir::Bi);
        }
        let id = Self::stream();
        let mut stream = self.inner.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(None) };
        let finished = loop {
            match chunks.next(MAX_GREETING) {
                Ok(Some(chunk)) => self.greeting.extend_from_slice(&chunk.bytes),
                Ok(None) => break Ok(true),
                Err(ReadError::Blocked) => break Ok(false),
                Err(ReadError::Reset(_)) => break Err(HandshakeError::Disconnected),
            }
            if self.greeting.len() > MAX_GREETING {
                break Err(MessageError::from(FieldError::Trailing {
                    extra: self.greeting.len() - MAX_GREETING,
                })
                .into());
            }
        };
        let _ = chunks.finalize();
        if finished? { Ok(Some(Message::decode(&self.greeting)?)) } else { Ok(None) }
    }

    /// Refuses what the other end asks for. It closes the connection once it has read that.
    pub(super) fn refuse(&mut self, now: StdInstant, refusal: Refusal) {
        self.send_greeting(&Message::Refusal(refusal));
        self.stage = Stage::Over;
        self.deadline = Some(now + Duration::from_secs(2));
    }

    pub(super) fn close(&mut self, now: StdInstant, code: VarInt, reason: &str) {
        self.stage = Stage::Over;
        self.deadline = None;
        self.inner.close(now, code, Bytes::copy_from_slice(reason.as_bytes()));
    }

    // ------------------------------------------------------------ the path

    /// Whether its lane may ride on TCP instead. The end that dialled it watches the path then.
    pub(super) fn set_may_change(&mut self, now: StdInstant, may_change: bool) {
        let is_dialer = self.inner.side().is_client();
        let watched = may_change && is_dialer;
        self.may_be_dialled_over_tcp = may_change && !is_dialer;
        if watched != self.watch.is_some() {
            self.watch = watched.then(|| Watch::new(now));
        }
    }

    /// What this end sends does not arrive, which the other end, that dialled the lane, cannot see: the lane ends, and is dialled
    /// again. On such a path a handshake over QUIC does not pass either.
    pub(super) fn is_to_be_dialled_again(&self) -> bool {
        self.may_be_dialled_over_tcp && self.signals.is_only_short()
    }

    /// When a packet as long as QUIC requires is to be sent, to find out whether it passes. A lane that delivers everything sends what was lost
    /// again, and one that has no other transport would learn nothing that helps.
    fn next_length_probe(&self) -> Option<StdInstant> {
        let may_change = self.watch.is_some() || self.may_be_dialled_over_tcp;
        let interval = self.signals.length_probes().filter(|_| may_change && self.streams.is_none())?;
        Some(self.length_probed + interval)
    }

    fn probe_length(&mut self, now: StdInstant) {
        if self.next_length_probe().is_some_and(|at| at <= now) {
            self.length_probed = now;
            self.refused +=
                u64::from(self.inner.datagrams().send(Bytes::from_static(&LENGTH_PROBE), false).is_err());
        }
    }

    /// Sends a PING with its next packet.
    pub(super) fn ping(&mut self) {
        self.inner.ping();
        self.asks = true;
    }

    /// Shows the other end where this one is now (RFC 9000 §9).
    pub(super) fn show_address(&mut self, now: StdInstant) {
        self.inner.local_address_changed();
        self.asks = true;
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.handle_network_changed(now);
        }
    }

    /// The route to the other end takes packets of at most `longest` bytes now. If that is less than what is sent, the path is another
    /// one: what is known of it begins anew (RFC 9000 §9.4).
    pub(super) fn handle_route(&mut self, now: StdInstant, longest: u16) {
        if longest < self.inner.current_mtu() {
            self.inner.path_changed(now);
        }
    }

    /// Asks the other end whether it is still there: the lane ends unless it answers soon.
    pub(super) fn prove(&mut self, now: StdInstant) {
        self.ping();
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.expect_proof(now, self.inner.rtt());
        }
    }

    /// Begins to keep a lane alive, with the longest silence that is configured.
    pub(super) fn begin_keepalive(&mut self, now: StdInstant, max: Duration, bindings: &mut Bindings) {
        let role = if self.inner.side().is_client() { Role::Dialer } else { Role::Acceptor };
        let way = (self.port, self.inner.remote_address(), role);
        self.keepalive.get_or_insert_with(|| Keepalive::new(now, self.number, way, max, bindings));
    }

    /// Looks at the path after something may have come, or at its time. What the lane's owner is to hear.
    pub(super) fn look(
        &mut self,
        now: StdInstant,
        got_data: bool,
        bindings: &mut Bindings,
    ) -> Option<Finding> {
        let stats = self.inner.stats();
        let frames = &stats.frame_rx;
        let heard = frames.acks
            + frames.datagram
            + frames.ping
            + frames.stream
            + frames.path_challenge
            + frames.path_response;
        let has_heard = std::mem::replace(&mut self.heard, heard) != heard;
        let rtt = self.inner.rtt();
        if let Some(keepalive) = self.keepalive.as_mut().filter(|_| has_heard) {
            keepalive.handle_heard(now, self.inner.remote_address(), rtt, bindings);
        }
        self.probe_length(now);
        let watch = self.watch.as_mut()?;
        let mut finding = watch.handle_lengths(now, self.signals.is_only_short());
        if has_heard {
            let packets = Packets { sent: stats.path.sent_packets, lost: stats.path.lost_packets };
            finding = finding.or(watch.handle_received(now, || packets));
        }
        if got_data {
            watch.handle_data(now);
        }
        match finding.or_else(|| watch.poll(now, rtt)) {
            Some(Finding::Ask) => {
                self.ping();
                None
            }
            other => other,
        }
    }

    /// The other end's address, if it is not the one that was told last.
    pub(super) fn poll_moved(&mut self, now: StdInstant) -> Option<SocketAddr> {
        let remote = self.inner.remote_address();
        let (before, at) = self.told;
        if remote == before || now.saturating_duration_since(at) < MOVES {
            return None;
        }
        self.told = (remote, now);
        Some(remote)
    }

    /// What is due of an idle lane.
    pub(super) fn poll_keepalive(&mut self, now: StdInstant) -> Option<Due> {
        self.keepalive.as_mut()?.poll(now)
    }

    /// When to look after it at the latest.
    pub(super) fn next_timeout(&mut self) -> Option<StdInstant> {
        let watch = self.watch.as_ref().and_then(|watch| watch.next(self.inner.rtt()));
        let is_lane = matches!(self.stage, Stage::Lane { .. });
        let keepalive = self.keepalive.as_ref().filter(|_| is_lane).map(Keepalive::next);
        let probe = self.next_length_probe().filter(|_| is_lane);
        self.inner
            .poll_timeout()
            .into_iter()
            .chain(self.deadline)
            .chain(watch)
            .chain(keepalive)
            .chain(probe)
            .min()
    }

    // ------------------------------------------------------------ data

    /// Passes on what has arrived for its lane. Whether there was anything, and the mistake behind which nothing is read.
    pub(super) fn read(
        &mut self,
        now: Instant,
        mut deliver: impl FnMut(Arrived<'_>) -> Result<(), RxError>,
    ) -> (bool, Result<(), RxError>) {
        let mut any = false;
        while let Some(datagram) = self.inner.datagrams().recv() {
            any = true;
            if let Err(error) = deliver(Arrived::Datagram(&datagram)) {
                return (any, Err(error));
            }
        }
        let result = self.read_streams(now, |stream, bytes| {
            any = true;
            deliver(Arrived::Stream(stream, bytes))
        });
        (any, result)
    }

    /// Bytes that were handed over, and are in no packet yet.
    pub(super) fn unsent(&mut self) -> usize {
        if self.streams.is_some() {
            return self.unsent_in_streams();
        }
        SEND_BUFFER.saturating_sub(self.inner.datagrams().send_buffer_space() + size_of::<Datagram>())
    }

    /// Bytes of the largest datagram that it takes; `None` until the handshake is over.
    pub(super) fn max_datagram(&mut self) -> Option<usize> {
        self.inner.datagrams().max_size()
    }

    /// Hands datagrams over.
    pub(super) fn hand_over(&mut self, bytes: &Bytes, pieces: &[Piece]) {
        for piece in pieces {
            // It fails if the MTU has become smaller meanwhile: the next ones are made for it.
            let datagram = bytes.slice(piece.start..piece.end);
            self.refused += u64::from(self.inner.datagrams().send(datagram, false).is_err());
        }
    }

    /// Sends what it may send now. The owner looks after the connection then: its timers may have changed.
    pub(super) fn transmit(&mut self, shared: &Shared, now: StdInstant) {
        self.has_news = false;
        if self.signals.probe() > 0 {
            let lost = self.inner.stats().path.lost_plpmtud_probes;
            if std::mem::replace(&mut self.lost_probes, lost) != lost {
                self.signals.set_probe(0);
            }
        }
        let mut ports = shared.ports.borrow_mut();
        let Some(port) = ports.get_mut(self.port) else { return };
        let has_data = self.unsent() > 0;
        if let Some(watch) = self.watch.as_mut().filter(|_| has_data) {
            watch.handle_data(now);
        }
        let eliciting = has_data || self.inner.is_handshaking();
        self.signals.set_eliciting(eliciting);
        let ignores_marks = self.signals.ignores_marks();
        let mut sent = (0, 0);
        while !port.is_full() {
            self.buffer.clear();
            let mtu = self.inner.current_mtu();
            let batch = port.max_segments(mtu);
            let Some(transmit) = self.inner.poll_transmit(now, batch, &mut self.buffer) else { break };
            let headers = Outgoing {
                to: transmit.destination,
                from: transmit.src_ip,
                traffic_class: self.traffic_class
                    | transmit.ecn.filter(|_| !ignores_marks).map_or(0, |ecn| ecn as u8),
                segment: transmit.segment_size.map(|size| size as u16),
            };
            if transmit.segment_size.is_none() && transmit.size > usize::from(mtu) {
                self.signals.set_probe(transmit.size as u32);
            }
            self.bytes_sent += transmit.size as u64;
            let packets = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size));
            sent = (sent.0 + transmit.size as u64, sent.1 + packets as u64);
            port.send(headers, &self.buffer[..transmit.size]);
        }
        let is_full = port.is_full();
        drop(ports);
        if sent.1 > 0 {
            let asks = std::mem::take(&mut self.asks) || has_data || self.in_flight() > 0;
            if let Some(keepalive) = &mut self.keepalive {
                keepalive.handle_sent(now, asks, self.inner.rtt());
            }
        }
        self.handle_streams_sent(now, sent, is_full);
        if self.unsent() > 0 && !is_full {
            self.signals.handle_blocked();
        }
    }

    /// The window as it is now.
    pub(super) fn window(&self) -> LaneWindow {
        let packet = usize::from(self.inner.current_mtu());
        LaneWindow {
            bytes: self.signals.window() as u64,
            available: self.signals.available() / packet * packet,
            srtt: Some(self.inner.rtt()),
        }
    }

    /// Something waits for the pacing of the window.
    pub(super) fn handle_blocked(&self) {
        self.signals.handle_blocked();
    }

    /// Of a lane that delivers everything: the far end has all that was handed over before this, in bytes.
    pub(super) fn acknowledged(&self) -> Option<u64> {
        self.streams.as_ref().map(|_| self.signals.acknowledged())
    }

    /// Packets that the other end has acknowledged, modulo 2^32. Frames of acknowledgements say less: they come again.
    pub(super) fn acked_packets(&self) -> u32 {
        self.signals.acked_packets()
    }

    /// Bytes of packets that were lost.
    pub(super) fn bytes_lost(&self) -> u64 {
        self.inner.stats().path.lost_bytes
    }

    pub(super) const fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Bytes sent, and neither acknowledged nor lost.
    pub(super) fn in_flight(&self) -> usize {
        self.signals.in_flight()
    }

    /// What the kernel would say of a connection over TCP. Segments are packets; those that were lost count as
    /// retransmitted, though they are not.
    pub(super) fn info(&mut self) -> TcpInfo {
        let stats = self.inner.stats();
        let mtu = u32::from(self.inner.current_mtu());
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        TcpInfo {
            rtt_us: micros(self.inner.rtt()),
            min_rtt_us: micros(self.inner.min_rtt()),
            cwnd: self.signals.window() as u32 / mtu,
            ssthresh: 0,
            snd_mss: mtu,
            retransmits: stats.path.lost_packets as u32,
            segments_out: stats.path.sent_packets as u32,
            data_segments_out: stats.path.sent_packets as u32,
            delivery_rate: self.signals.delivery_rate().map_or(0, |rate| rate.bits_per_second() / 8),
            app_limited: false,
            pacing_rate: u64::MAX,
            notsent: self.unsent() as u32,
            unacked: self.in_flight() as u32 / mtu,
            sacked: 0,
            last_sent_ms: 0,
            delivered: self.acked_packets(),
        }
    }
}
