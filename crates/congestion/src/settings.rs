//! The settings in which one congestion controller differs from another, as plain values.

/// The congestion control algorithm: the growth of the window beyond slow start, and its reduction after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CongestionAlgorithm {
    /// A segment each round trip, half after a loss (RFC 5681 §3.1).
    Reno,
    /// Binary search (Xu, Harfoush and Rhee 2004).
    Bic(BicVersion),
    /// RFC 9438.
    Cubic,
    /// Reno's window and a delay-based one beside it (Tan et al. 2006, draft-sridharan-tcpm-ctcp).
    Compound,
    /// Delay-based (Brakmo and Peterson 1995).
    Vegas,
    /// Based on a model of the path, its bandwidth and its round-trip time (Cardwell et al. 2016; version 1). Its startup
    /// replaces slow start.
    Bbr,
    /// None: the window is what its owner sets ([`Congestion::hold`](crate::Congestion::hold)), such as an agent that learns. No
    /// file can ask for it.
    Held,
}

/// BIC differs from year to year. docs/models/bic.md has the source of each version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BicVersion {
    /// The authors' patch for Linux 2.4 ("BIC 1.0"), with the constants of the paper.
    Original,
    /// Linux 2.6.6 to 2.6.10: the same with a fault in fast convergence.
    Linux266,
    /// Linux since 2.6.15.
    Linux,
}

/// How the window grows until the first loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SlowStart {
    /// By the acknowledged bytes (RFC 5681 §3.1).
    Classic,
    /// At most half of `max_ssthresh` a round trip once the window is above it, in segments (RFC 3742).
    Limited {
        /// `max_ssthresh`.
        max_ssthresh: u32,
    },
    /// Grows more slowly once the round-trip time rises, and then ends (RFC 9406).
    HyStartPlusPlus,
    /// Ends at once when the round-trip time or the length of an acknowledgement train rises (Ha and Rhee 2008), as in
    /// Linux's CUBIC.
    HyStart,
}

/// How much an acknowledgement counts for the growth of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counting {
    /// One segment, however much it acknowledges.
    Acks,
    /// The bytes that it acknowledges (RFC 3465).
    Bytes {
        /// L: the largest number of segments in slow start.
        limit: Option<u8>,
    },
}

impl Counting {
    #[inline]
    pub(crate) fn of(self, acked: u32, mss: u32) -> u32 {
        match self {
            Counting::Acks => mss,
            Counting::Bytes { .. } => acked,
        }
    }

    #[inline]
    pub(crate) fn in_slow_start(self, counted: u32, mss: u32) -> u32 {
        match self {
            Counting::Bytes { limit: Some(limit) } => counted.min(u32::from(limit) * mss),
            Counting::Bytes { limit: None } | Counting::Acks => counted,
        }
    }
}

/// All settings of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settings {
    /// See [`CongestionAlgorithm`].
    pub algorithm: CongestionAlgorithm,
    /// See [`SlowStart`].
    pub slow_start: SlowStart,
    /// Segments that may be sent at first.
    pub initial_window: u32,
    /// Segments; slow start ends there the first time. `None`: no bound.
    pub initial_ssthresh: Option<u32>,
    /// See [`Counting`].
    pub counting: Counting,
    /// After an idle time of one RTO the window is the initial window again (RFC 5681 §4.1).
    pub restart_after_idle: bool,
    /// The window does not grow while the sender has too little to fill it (RFC 7661, RFC 9438 §5.8).
    pub cwnd_validation: bool,
}

impl Settings {
    /// What a current sender does: ten segments at first (RFC 6928), growth by acknowledged bytes (RFC 9002 §7.3), a window
    /// that is validated, and the slow start of RFC 5681.
    pub const fn new(algorithm: CongestionAlgorithm) -> Self {
        Settings {
            algorithm,
            slow_start: SlowStart::Classic,
            initial_window: 10,
            initial_ssthresh: None,
            counting: Counting::Bytes { limit: None },
            restart_after_idle: true,
            cwnd_validation: true,
        }
    }

    /// What the connections of lanes have whose packets the gateway numbers itself (QUIC).
    pub const fn of_lane(algorithm: CongestionAlgorithm) -> Self {
        Settings::new(algorithm).with_slow_start(SlowStart::HyStartPlusPlus)
    }

    /// These, with another algorithm.
    #[must_use]
    pub const fn with_congestion_control(self, algorithm: CongestionAlgorithm) -> Self {
        Settings { algorithm, ..self }
    }

    /// These, with another slow start.
    #[must_use]
    pub const fn with_slow_start(self, slow_start: SlowStart) -> Self {
        Settings { slow_start, ..self }
    }
}
