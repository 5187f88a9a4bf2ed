//! The settings in which one TCP differs from another, as plain values.

use std::time::Duration;

use trunkline_congestion::{self as congestion, CongestionAlgorithm, Counting, CustomCongestion, SlowStart};

/// How the sender detects and repairs losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Fast retransmit, then slow start from one segment (Jacobson 1988).
    Tahoe,
    /// Fast recovery that ends with the first acknowledgement of new data (RFC 2581 §3.2).
    Reno,
    /// Fast recovery that goes on over partial acknowledgements (RFC 6582).
    NewReno,
    /// By the scoreboard of SACK blocks (RFC 6675).
    Sack,
    /// By the time since a segment was sent (RACK), with tail loss probes (RFC 8985) and proportional rate reduction
    /// (RFC 6937).
    RackTlp,
}

/// How the sender detects and undoes a spurious timeout or recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpuriousDetection {
    /// It does not.
    None,
    /// F-RTO: by the first acknowledgements after a timeout (RFC 5682).
    FRto,
    /// By timestamps (RFC 3522), and F-RTO where there are none.
    Eifel,
}

/// Delayed acknowledgements (RFC 1122 §4.2.3.2, RFC 5681 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DelayedAck {
    /// The longest delay; the shortest if it is `adaptive`.
    pub timeout: Duration,
    /// The timeout is the period of a clock of the whole host, and a segment waits for its next tick: 0 to `timeout` (4.4BSD's
    /// `tcp_fasttimo`; Wright and Stevens 1995).
    pub ticks: bool,
    /// The number of full segments after which an acknowledgement leaves.
    pub every: u8,
    /// Quick acknowledgements: so many segments at the start of a connection are acknowledged at once.
    pub quick: u8,
    /// What ends a write, by PSH or by being short, is acknowledged once all has been read, by a side that only receives
    /// (Linux's `tcp_cleanup_rbuf`; full segments with PSH since 6.6).
    pub pushed: bool,
    /// The delay follows the times between arrivals, from `timeout` to 200 ms, and a side that answers soon leaves its
    /// acknowledgements to its answers, quick ones too (Linux's `ato` and ping-pong mode, `tcp_event_data_recv`).
    pub adaptive: bool,
}

/// How the retransmission timeout follows from round-trip samples, and when its timer begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RtoRule {
    /// RFC 6298: `RTO = max(srtt + 4·rttvar, floor)`. In a recovery without SACK only the first partial acknowledgement
    /// restarts the timer (RFC 6582 §3.2 step 3, "Impatient").
    Rfc6298,
    /// Linux since 2.4: the variance is the largest mean deviation of the last round trip and the floor is one of the
    /// variance, so that `RTO = srtt + max(4·mdev, floor)`. Each acknowledgement that advances restarts the timer ("Slow but
    /// Steady", RFC 6582 §4).
    Linux,
}

impl RtoRule {
    /// The name that results print.
    pub const fn name(self) -> &'static str {
        match self {
            RtoRule::Rfc6298 => "rfc6298",
            RtoRule::Linux => "linux",
        }
    }
}

/// Timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timers {
    /// See [`RtoRule`].
    pub rto: RtoRule,
    /// Before the first sample (RFC 6298 §2.1; 3 s before it).
    pub initial_rto: Duration,
    /// Minimum (RFC 6298 §2.4).
    pub min_rto: Duration,
    /// Maximum of the back-off.
    pub max_rto: Duration,
    /// Of the clock that round trips are measured with and timers run out by.
    pub granularity: Duration,
    /// When that clock ticks first, less than `granularity`. Hosts differ in it: they were not all switched on with the same tick.
    pub phase: Duration,
    /// Timeouts of one segment after which the endpoint gives the connection up.
    pub max_retransmissions: u8,
    /// Retransmissions of a SYN after which the side that opens the connection gives it up.
    pub max_syn_retransmissions: u8,
    /// Retransmissions of a SYN-ACK after which the side that listens forgets the connection.
    pub max_syn_ack_retransmissions: u8,
    /// Retransmissions of a SYN that come `initial_rto` apart, before the timeout doubles with each (Linux's
    /// `tcp_syn_linear_timeouts`). RFC 6298 §5.5 has none.
    pub linear_syn_retransmissions: u8,
    /// How long the side that closed first stays in TIME-WAIT.
    pub time_wait: Duration,
}

/// All settings of a TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name of the preset that it began as.
    pub name: &'static str,
    /// See [`Recovery`].
    pub recovery: Recovery,
    /// See [`CongestionAlgorithm`].
    pub congestion_control: CongestionAlgorithm,
    /// An algorithm in its place, of an owner that brings its own. No file can ask for it.
    pub custom_congestion: Option<CustomCongestion>,
    /// See [`SlowStart`].
    pub slow_start: SlowStart,
    /// See [`SpuriousDetection`].
    pub spurious: SpuriousDetection,
    /// See [`Timers`].
    pub timers: Timers,
    /// `None`: every segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// The MSS option: the largest number of bytes of data and TCP options in a segment.
    pub mss: u16,
    /// Segments of `mss` that may be sent at first.
    pub initial_window: u32,
    /// Segments; slow start ends there the first time. `None`: no bound.
    pub initial_ssthresh: Option<u32>,
    /// Duplicate acknowledgements that signal a loss.
    pub duplicate_threshold: u8,
    /// New data for the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// See [`Counting`].
    pub counting: Counting,
    /// After an idle time of one RTO the window is the initial window again (RFC 5681 §4.1).
    pub restart_after_idle: bool,
    /// The window does not grow while the sender has too little to fill it (RFC 7661, RFC 9438 §5.8).
    pub cwnd_validation: bool,
    /// Offers and understands SACK (RFC 2018) and reports duplicates (RFC 2883).
    pub sack: bool,
    /// Offers timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offers windows of more than 64 KB (RFC 7323).
    pub window_scaling: bool,
    /// Offers ECN (RFC 3168).
    pub ecn: bool,
    /// Routers may not fragment its packets; where one says that they are too long for a link, they become shorter (RFC 1191).
    pub path_mtu_discovery: bool,
    /// A connection that is being opened ends when a router says that it knows no way (RFC 5461 §4).
    pub fails_on_soft_errors: bool,
    /// Small segments wait for acknowledgements (RFC 896).
    pub nagle: bool,
    /// New data leaves in super-packets, whose segments follow each other without a gap (`segmentation.rs`).
    pub tso: bool,
    /// So long the receiver gathers segments in order, and acknowledges them as one (`coalescing.rs`).
    pub gro: Option<Duration>,
    /// The largest number of bytes written and not acknowledged.
    pub send_buffer: u64,
    /// The largest number of bytes received and not read: the largest window that the receiver offers.
    pub receive_buffer: u64,
    /// Bytes that the window offers at first. It widens by two segments for each that comes, and while it does, every
    /// segment is acknowledged at once (Linux's `tcp_grow_window`). `None`: all of the buffer.
    pub initial_receive_window: Option<u64>,
    /// The window that the receive buffer allows at first, bytes, where it grows up to `receive_buffer` with the rate of what is
    /// read (dynamic right-sizing; Linux's `tcp_rmem`). `None`: all of the buffer.
    pub initial_receive_buffer: Option<u64>,
}

impl Settings {
    /// The part of them that the congestion controller has.
    pub const fn congestion(&self) -> congestion::Settings {
        congestion::Settings {
            algorithm: self.congestion_control,
            slow_start: self.slow_start,
            initial_window: self.initial_window,
            initial_ssthresh: self.initial_ssthresh,
            counting: self.counting,
            restart_after_idle: self.restart_after_idle,
            cwnd_validation: self.cwnd_validation,
        }
    }
}
