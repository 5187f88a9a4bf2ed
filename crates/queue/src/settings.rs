use std::time::Duration;

/// How much may wait in a queue. Both limits hold; zero of either refuses everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Segments.
    pub segments: u32,
    /// Bytes.
    pub bytes: u64,
}

impl Default for Limits {
    /// 1000 packets, as in lee2002 §2, and 4 MiB.
    fn default() -> Self {
        Limits { segments: 1000, bytes: 4 << 20 }
    }
}

/// What a discipline counts a queue in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Segments, each the same whatever its length.
    #[default]
    Segments,
    /// Bytes; where packets are dropped at random, long ones are dropped more often.
    Bytes,
}

/// Parameters of RED (Floyd and Jacobson 1993).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedSettings {
    /// Never more than this.
    pub limits: Limits,
    /// What thresholds and the average are in.
    pub unit: Unit,
    /// Average below which nothing is dropped, in `unit`.
    pub min: u64,
    /// Average from which everything is dropped, or, if gentle, more than `max_p` of it. In `unit`.
    pub max: u64,
    /// Probability of a drop as the average reaches `max`.
    pub max_p: f64,
    /// Weight of the newest sample in the average, `w_q`.
    pub weight: f64,
    /// From `max` to twice `max` the probability rises from `max_p` to 1, instead of at once.
    pub gentle: bool,
    /// ECN-capable packets are marked where the average asks for a drop below `max`.
    pub ecn: bool,
}

impl Default for RedSettings {
    /// lee2002 §3: 20 KB, 520 KB, 0.02, in bytes; `w_q` 0.002 as in the 1993 paper.
    fn default() -> Self {
        RedSettings {
            limits: Limits::default(),
            unit: Unit::Bytes,
            min: 20_000,
            max: 520_000,
            max_p: 0.02,
            weight: 0.002,
            gentle: false,
            ecn: true,
        }
    }
}

/// Parameters of FRED (Lin and Morris 1997), in segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FredSettings {
    /// Never more than this.
    pub limits: Limits,
    /// `min_th`.
    pub min: u32,
    /// `max_th`.
    pub max: u32,
    /// `max_p`.
    pub max_p: f64,
    /// `w_q`.
    pub weight: f64,
    /// `min_q`: segments any flow may hold without being dropped at random.
    pub min_flow: u32,
    /// ECN-capable packets are marked where a drop would have been at random.
    pub ecn: bool,
}

impl Default for FredSettings {
    fn default() -> Self {
        FredSettings {
            limits: Limits::default(),
            min: 25,
            max: 100,
            max_p: 0.02,
            weight: 0.002,
            min_flow: 4,
            ecn: true,
        }
    }
}

/// Parameters of `CoDel` (RFC 8289).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoDelSettings {
    /// Never more than this.
    pub limits: Limits,
    /// Acceptable standing sojourn time, `TARGET`.
    pub target: Duration,
    /// A worst-case round-trip time, `INTERVAL`.
    pub interval: Duration,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDelSettings {
    /// RFC 8289 §4.3, §4.4.
    fn default() -> Self {
        CoDelSettings {
            limits: Limits::default(),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: true,
        }
    }
}

/// Parameters of FQ-CoDel (RFC 8290).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FqCoDelSettings {
    /// Of each queue's `CoDel`, and the limits of all of them together.
    pub codel: CoDelSettings,
    /// Queues that flows are hashed into; rounded up to a power of two, 65536 at most.
    pub queues: u32,
    /// Bytes a queue may send in its turn.
    pub quantum: u32,
}

impl Default for FqCoDelSettings {
    /// RFC 8290 §5.2, with the limits of [`Limits::default`].
    fn default() -> Self {
        FqCoDelSettings { codel: CoDelSettings::default(), queues: 1024, quantum: 1514 }
    }
}

/// Parameters of PIE (RFC 8033).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieSettings {
    /// Never more than this.
    pub limits: Limits,
    /// `QDELAY_REF`.
    pub target: Duration,
    /// `T_UPDATE`.
    pub update: Duration,
    /// `MAX_BURST`.
    pub burst: Duration,
    /// ECN-capable packets are marked while the probability is below 10 %.
    pub ecn: bool,
}

impl Default for PieSettings {
    /// RFC 8033 §4.
    fn default() -> Self {
        PieSettings {
            limits: Limits::default(),
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            burst: Duration::from_millis(150),
            ecn: true,
        }
    }
}

/// Parameters of the trunk's own discipline (kung1998 §4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrunkSettings {
    /// Never more than this, whatever P1 says.
    pub limits: Limits,
    /// P1: the capacity follows `RTT_up` × bandwidth. Off: it is `limits`.
    pub sized: bool,
    /// P2: packets are dropped at random before the queue is full.
    pub early: bool,
    /// P3: a flow that lost a packet is spared for K packets.
    pub spares: bool,
    /// P2 begins at this share of the capacity.
    pub threshold: f64,
    /// P2's probability as the queue fills.
    pub max_p: f64,
    /// P3's K as a part of X, the packets that a flow sends until it is back at its old rate.
    pub spare: f64,
    /// ECN-capable packets are marked where P2 would drop.
    pub ecn: bool,
}

impl Default for TrunkSettings {
    fn default() -> Self {
        TrunkSettings {
            limits: Limits::default(),
            sized: true,
            early: true,
            spares: true,
            threshold: 0.5,
            max_p: 0.1,
            spare: 0.5,
            ecn: true,
        }
    }
}

/// Which discipline a queue follows, and its parameters: plain values, as a file gives them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Settings {
    /// First in, first out; what does not fit is dropped.
    TailDrop(Limits),
    /// The same, with a bound on each flow.
    FairTailDrop(Limits),
    /// Random early detection.
    Red(RedSettings),
    /// Flow random early drop.
    Fred(FredSettings),
    /// Controlled delay.
    CoDel(CoDelSettings),
    /// Flow queueing with controlled delay.
    FqCoDel(FqCoDelSettings),
    /// Proportional integral controller enhanced.
    Pie(PieSettings),
    /// P1, P2 and P3 of Kung and Wang.
    Trunk(TrunkSettings),
}

impl Default for Settings {
    fn default() -> Self {
        Settings::TailDrop(Limits::default())
    }
}

impl Settings {
    /// The limits, which every discipline has.
    pub const fn limits(&self) -> Limits {
        match self {
            Settings::TailDrop(limits) | Settings::FairTailDrop(limits) => *limits,
            Settings::Red(red) => red.limits,
            Settings::Fred(fred) => fred.limits,
            Settings::CoDel(codel) => codel.limits,
            Settings::FqCoDel(fq) => fq.codel.limits,
            Settings::Pie(pie) => pie.limits,
            Settings::Trunk(trunk) => trunk.limits,
        }
    }
}
