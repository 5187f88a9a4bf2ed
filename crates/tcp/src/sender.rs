//! The state of one direction of a connection at its sender.

use std::time::Duration;

use trunkline_units::{Instant, Region, Seq};

use crate::delivery::Delivery;
use crate::recovery::{Phase, Rack, Repair};
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;
use crate::send_half::{IdleSender, MaxPacingRate};
use crate::stats::{AckClock, Counters};
use crate::stream::Origin;
use crate::timers::Slots;
use crate::{Recovery, Settings};
use trunkline_congestion::{Congestion, CongestionSignal};

const SYN_LOSS_RTO: Duration = Duration::from_secs(3);

/// What a call on the sender may touch beside it.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) slots: &'a mut Slots,
    pub(crate) counters: &'a mut Counters,
}

/// A stretch of the stream to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) start: u64,
    pub(crate) len: u16,
    pub(crate) fin: bool,
    pub(crate) retransmission: bool,
    /// The last byte written goes with it.
    pub(crate) push: bool,
    /// The window has been reduced (RFC 3168 §6.1.2).
    pub(crate) reduced: bool,
}

/// One direction of a connection, as its sender sees it.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) origin: Origin,
    /// Oldest place not acknowledged.
    pub(crate) una: u64,
    /// Next place to send.
    pub(crate) next: u64,
    /// Behind the last byte written.
    pub(crate) end: u64,
    /// Right edge of the peer's window.
    pub(crate) edge: u64,
    pub(crate) congestion: Congestion,
    pub(crate) board: Scoreboard,
    pub(crate) rtt: Rtt,
    pub(crate) delivery: Delivery,
    /// What was next when the window was reduced last (RFC 6582 `recover`, Linux `high_seq`).
    pub(crate) recover: u64,
    pub(crate) round_end: u64,
    /// Behind the last small segment (Minshall's rule).
    pub(crate) small_end: u64,
    pub(crate) validation_end: u64,
    pub(crate) last_sent: Instant,
    pub(crate) rack: Rack,
    pub(crate) ack_clock: AckClock,
    pub(crate) repair: Option<Box<Repair>>,
    pub(crate) max_pacing_rate: MaxPacingRate,
    pub(crate) max_outstanding: u32,
    pub(crate) largest_window: u32,
    /// `SND.WL1` and `SND.WL2`.
    pub(crate) window_from: (Seq, Seq),
    /// Bytes of data in a full segment.
    pub(crate) mss: u16,
    pub(crate) shift: u8,
    pub(crate) kind: Recovery,
    pub(crate) phase: Phase,
    pub(crate) duplicates: u8,
    /// Timeouts or window probes in a row.
    pub(crate) retries: u8,
    pub(crate) fin_written: bool,
    pub(crate) fin_sent: bool,
    /// One segment may leave whatever the congestion window says.
    pub(crate) forced: bool,
    /// New data goes before retransmissions (RFC 5682).
    pub(crate) new_first: bool,
    /// A tail loss probe is due.
    pub(crate) probe_due: bool,
    /// A small segment may leave: it has waited long enough.
    pub(crate) small_forced: bool,
    pub(crate) cwnd_limited: bool,
    pub(crate) ecn: bool,
    pub(crate) reduced: bool,
    /// Segments of the super-packet that is leaving.
    pub(crate) burst: u8,
}

impl Sender {
    /// The sender of an open connection. A SYN that had to be retransmitted leaves a timeout of 3 s (RFC 6298 §5.7), and a
    /// window of one segment (RFC 5681 §3.1); as in Linux, one repetition alone leaves the window as it is.
    pub(crate) fn new(settings: &Settings, idle: &IdleSender) -> Self {
        let mut congestion = Congestion::new(&settings.congestion(), u32::from(idle.mss));
        if let Some(custom) = &settings.custom_congestion {
            congestion.set_custom(custom);
        }
        let mut rtt = Rtt::new(&settings.timers);
        if idle.syn_rtt > 0 {
            let sample = Duration::from_nanos(idle.syn_rtt);
            rtt.sample(idle.syn_sent + sample, sample, (1, 1), &settings.timers);
        } else if idle.syn_retransmissions > 0 {
            rtt.set_rto_after_syn_loss(SYN_LOSS_RTO);
        }
        if idle.syn_retransmissions > 1 {
            congestion.set_cwnd(u32::from(idle.mss));
        }
        Sender {
            origin: idle.origin,
            una: 1,
            next: 1,
            end: idle.end,
            edge: idle.edge,
            congestion,
            board: Scoreboard::default(),
            rtt,
            delivery: Delivery::new(),
            recover: 0,
            round_end: 1,
            small_end: 0,
            validation_end: 0,
            last_sent: Instant::ZERO,
            rack: Rack::new(),
            ack_clock: AckClock::default(),
            repair: None,
            max_pacing_rate: idle.max_pacing_rate,
            max_outstanding: 0,
            largest_window: idle.largest_window,
            window_from: idle.window_from,
            mss: idle.mss,
            shift: idle.shift,
            kind: idle.kind,
            phase: Phase::Open,
            duplicates: 0,
            retries: 0,
            fin_written: idle.fin_written,
            fin_sent: false,
            forced: false,
            new_first: false,
            probe_due: false,
            small_forced: false,
            cwnd_limited: false,
            ecn: idle.ecn,
            reduced: false,
            burst: 0,
        }
    }

    /// Has what it refers to loaded into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, load: impl Fn(Region) + Copy) {
        self.congestion.prefetch(load);
        self.board.prefetch(load);
        if let Some(repair) = &self.repair {
            load(Region::of(&**repair));
        }
    }

    #[inline]
    pub(crate) fn mss(&self) -> u32 {
        u32::from(self.mss)
    }

    #[inline]
    pub(crate) fn outstanding(&self) -> u64 {
        self.next - self.una
    }

    #[inline]
    pub(crate) fn pipe(&self) -> u32 {
        self.board.pipe(self.outstanding())
    }

    /// Bytes written and never sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    #[inline]
    pub(crate) fn repair(&mut self) -> &mut Repair {
        self.repair.get_or_insert_default()
    }

    #[inline]
    pub(crate) fn uses_sack(&self) -> bool {
        matches!(self.kind, Recovery::Sack | Recovery::RackTlp)
    }

    /// The peer's window is closed.
    #[inline]
    pub(crate) fn window_closed(&self) -> bool {
        self.edge <= self.una
    }

    #[inline]
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        self.rtt.rto(&settings.timers)
    }

    #[inline]
    pub(crate) fn rto_nanos(&self, settings: &Settings) -> u64 {
        self.rtt.rto_nanos(&settings.timers)
    }

    /// A mark came back (RFC 3168 §6.1.2): one reduction for a window of data, and none while another is under way. It can
    /// never be taken back.
    pub(crate) fn handle_mark(&mut self, cx: &mut Context<'_>) {
        // Linux asks its state alone (`tcp_enter_cwr`).
        let once = self.kind == Recovery::RackTlp || self.una > self.recover;
        if self.phase != Phase::Open || !once {
            return;
        }
        self.reduced = true;
        if self.congestion.models_path() {
            // The peer hears of it, and the model does not.
            (self.phase, self.recover) = (Phase::Cwr, self.next);
            return;
        }
        cx.counters.ecn_reductions += 1;
        if self.kind == Recovery::RackTlp {
            self.begin_reduction(CongestionSignal::EcnMark, Phase::Cwr);
        } else {
            let flight = self.pipe();
            self.congestion.reduce(flight, CongestionSignal::EcnMark);
            self.recover = self.next;
        }
        self.forbid_undo();
    }
}
