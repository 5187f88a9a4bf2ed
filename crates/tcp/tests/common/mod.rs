//! Two endpoints on a link in virtual time: a delay, a rate if wanted, and impairments that a test chooses for single segments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_tcp::{
    CongestionAlgorithm, Counting, DelayedAck, Endpoint, Event, Recovery, RtoRule, Segment, Settings,
    SlowStart, SpuriousDetection, State, Timers,
};
use trunkline_units::{Instant, Rate, Seq};

pub(crate) const MSS: u32 = 1000;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings that tests start from: a plain TCP with segments of 1000 bytes.
pub(crate) fn plain() -> Settings {
    Settings {
        name: "test",
        recovery: Recovery::NewReno,
        congestion_control: CongestionAlgorithm::Reno,
        custom_congestion: None,
        slow_start: SlowStart::Classic,
        spurious: SpuriousDetection::None,
        timers: Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: ms(1000),
            min_rto: ms(200),
            max_rto: ms(60_000),
            granularity: Duration::from_micros(1),
            phase: Duration::ZERO,
            max_retransmissions: 15,
            max_syn_retransmissions: 6,
            max_syn_ack_retransmissions: 5,
            linear_syn_retransmissions: 0,
            time_wait: ms(60_000),
        },
        delayed_ack: None,
        mss: MSS as u16,
        initial_window: 10,
        initial_ssthresh: None,
        duplicate_threshold: 3,
        limited_transmit: false,
        counting: Counting::Bytes { limit: None },
        restart_after_idle: true,
        cwnd_validation: false,
        sack: false,
        timestamps: false,
        window_scaling: true,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: false,
        nagle: false,
        tso: false,
        gro: None,
        send_buffer: 1 << 20,
        receive_buffer: 65_535,
        initial_receive_window: None,
        initial_receive_buffer: None,
    }
}

pub(crate) fn delayed(timeout: u64, every: u8, quick: u8) -> DelayedAck {
    DelayedAck { timeout: ms(timeout), ticks: false, every, quick, pushed: false, adaptive: false }
}

/// What the link does with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathAction {
    Deliver,
    Drop,
    /// It arrives so much later than the link's delay.
    Delay(Duration),
    Duplicate,
    /// The link sets CE if the segment is ECN-capable.
    Mark,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Client,
    Server,
}

impl End {
    fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }
}

/// A segment that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace {
    pub(crate) at: Instant,
    pub(crate) from: End,
    pub(crate) segment: Segment,
    pub(crate) action: PathAction,
}

type Impairment = Box<dyn FnMut(&Trace) -> PathAction>;

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) delay: Duration,
    pub(crate) rate: Option<Rate>,
    pub(crate) trace: Vec<Trace>,
    pub(crate) events: Vec<(Instant, End, Event)>,
    /// Whether the application reads received data at once.
    pub(crate) reads: bool,
    pub(crate) keeps_trace: bool,
    impairment: Impairment,
    free: [Instant; 2],
    flying: BTreeMap<(Instant, u64), (End, Segment)>,
    count: u64,
}

pub(crate) const CLIENT_ISS: Seq = Seq(u32::MAX - 5000);
pub(crate) const SERVER_ISS: Seq = Seq(7_000_000);

impl Pair {
    pub(crate) fn new(client: Settings, server: Settings, delay: Duration) -> Self {
        Pair {
            now: Instant::from_millis(1),
            client: Endpoint::connect(&Arc::new(client), Instant::from_millis(1), CLIENT_ISS),
            server: Endpoint::accept(&Arc::new(server), SERVER_ISS),
            delay,
            rate: None,
            trace: Vec::new(),
            events: Vec::new(),
            reads: true,
            keeps_trace: true,
            impairment: Box::new(|_| PathAction::Deliver),
            free: [Instant::ZERO; 2],
            flying: BTreeMap::new(),
            count: 0,
        }
    }

    /// Two endpoints with the same settings, connected, with an empty trace.
    pub(crate) fn connected(settings: Settings, delay: Duration) -> Self {
        let mut pair = Pair::new(settings.clone(), settings, delay);
        pair.run_for(delay * 3 + ms(1));
        assert_eq!(pair.client.state(), State::Established);
        assert_eq!(pair.server.state(), State::Established);
        pair.trace.clear();
        pair.events.clear();
        pair
    }

    pub(crate) fn impair(&mut self, impairment: impl FnMut(&Trace) -> PathAction + 'static) {
        self.impairment = Box::new(impairment);
    }

    /// Delays the client's next data segment by so much more than the link does.
    pub(crate) fn delay_next(&mut self, late: Duration) {
        let mut first = true;
        self.impair(move |trace| {
            let data = trace.from == End::Client && trace.segment.payload > 0;
            if data && std::mem::take(&mut first) { PathAction::Delay(late) } else { PathAction::Deliver }
        });
    }

    /// Drops the first transmission of those of the client's data segments that have these numbers, from 0, among
    /// its first transmissions from now on.
    pub(crate) fn drop_data(&mut self, numbers: &[u64]) {
        let numbers = numbers.to_vec();
        let mut next = None;
        let mut count = 0;
        self.impair(move |trace| {
            if trace.from != End::Client || trace.segment.payload == 0 {
                return PathAction::Deliver;
            }
            let end = trace.segment.end();
            if next.is_some_and(|next| !Seq::before(next, end)) {
                return PathAction::Deliver;
            }
            next = Some(end);
            count += 1;
            if numbers.contains(&(count - 1)) { PathAction::Drop } else { PathAction::Deliver }
        });
    }

    pub(crate) fn end(&mut self, end: End) -> &mut Endpoint {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    /// Sends the segments of both endpoints and records their events.
    pub(crate) fn flush(&mut self) {
        for end in [End::Client, End::Server] {
            loop {
                let now = self.now;
                while let Some(segment) = self.end(end).poll_transmit(now) {
                    self.send(end, segment);
                }
                let mut more = false;
                while let Some(event) = self.end(end).poll_event() {
                    self.events.push((now, end, event));
                    if event == Event::Readable && self.reads {
                        self.end(end).read(u64::MAX);
                        more = true;
                    }
                }
                if !more {
                    break;
                }
            }
        }
    }

    fn send(&mut self, from: End, mut segment: Segment) {
        let mut trace = Trace { at: self.now, from, segment, action: PathAction::Deliver };
        trace.action = (self.impairment)(&trace);
        if self.keeps_trace {
            self.trace.push(trace);
        }
        let free = &mut self.free[from as usize];
        let mut start = self.now.max(*free);
        if let Some(rate) = self.rate {
            start += rate.time_for(40 + u64::from(segment.payload), &mut 0);
            *free = start;
        }
        let mut at = start + self.delay;
        let mut copies = 1;
        match trace.action {
            PathAction::Deliver => {}
            PathAction::Drop => return,
            PathAction::Delay(late) => at += late,
            PathAction::Duplicate => copies = 2,
            PathAction::Mark => segment.congestion_experienced = segment.ecn_capable,
        }
        for _ in 0..copies {
            self.count += 1;
            self.flying.insert((at, self.count), (from.other(), segment));
        }
    }

    /// Processes the next arrival or timer, if it is due by `until`.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timer = |endpoint: &Endpoint| endpoint.next_wakeup().map(|(at, _)| at);
        let next = [arrival, timer(&self.client), timer(&self.server)].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        let now = self.now;
        if arrival == Some(next) {
            let (_, (to, segment)) = self.flying.pop_first().expect("it was there");
            self.end(to).handle_segment(now, &segment);
        } else {
            self.client.handle_timeout(now);
            self.server.handle_timeout(now);
        }
        self.flush();
        true
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Data segments that the client has sent, by number from the first byte and in segments of `MSS`, with the times.
    pub(crate) fn data_sent(&self) -> Vec<(Instant, u32)> {
        let first = CLIENT_ISS + 1;
        self.sent_by(End::Client)
            .filter(|trace| trace.segment.payload > 0)
            .map(|trace| (trace.at, (trace.segment.seq - first) / MSS))
            .collect()
    }

    pub(crate) fn sent_by(&self, end: End) -> impl Iterator<Item = &Trace> {
        self.trace.iter().filter(move |trace| trace.from == end)
    }

    /// Pure acknowledgements sent by the server, as bytes acknowledged.
    pub(crate) fn acks(&self) -> Vec<(Instant, u32)> {
        let first = CLIENT_ISS + 1;
        self.sent_by(End::Server)
            .filter(|trace| trace.segment.flags.contains(TcpFlags::ACK) && trace.segment.payload == 0)
            .map(|trace| (trace.at, trace.segment.ack - first))
            .collect()
    }
}
