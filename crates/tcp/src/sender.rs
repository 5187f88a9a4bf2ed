//! What leaves: data by the congestion window, the peer's window and the rules on small segments.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Seq};

use crate::congestion::{Cause, Congestion};
use crate::delivery::Delivery;
use crate::recovery::{Phase, Rack, Repair};
use crate::rtt::{Rtt, Variance};
use crate::scoreboard::Scoreboard;
use crate::silent::{Ceiling, Silent};
use crate::stats::Counters;
use crate::stream::Origin;
use crate::timers::{Slots, Wakeup, expiry, nanos};
use crate::{GrowthKind, Recovery, Settings};

const FALL_BACK: Duration = Duration::from_secs(3);

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
    pub(crate) repeat: bool,
    /// The last octet written goes with it.
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
    /// Behind the last octet written.
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
    small_end: u64,
    usage_end: u64,
    pub(crate) last_sent: Instant,
    pub(crate) rack: Rack,
    pub(crate) repair: Option<Box<Repair>>,
    pub(crate) ceiling: Ceiling,
    most_out: u32,
    pub(crate) largest_window: u32,
    /// `SND.WL1` and `SND.WL2`.
    pub(crate) window_from: (Seq, Seq),
    /// Octets of data in a full segment.
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
    /// New data goes before repeats (RFC 5682).
    pub(crate) new_first: bool,
    /// A tail loss probe is due.
    pub(crate) probe_due: bool,
    /// A small segment may leave: it has waited long enough.
    pub(crate) small_forced: bool,
    cwnd_limited: bool,
    pub(crate) ecn: bool,
    pub(crate) reduced: bool,
}

impl Sender {
    /// The sender of an open connection. A SYN that had to be repeated leaves a timeout of 3 s (RFC 6298 §5.7), and a
    /// window of one segment (RFC 5681 §3.1); as in Linux, one repetition alone leaves the window as it is.
    pub(crate) fn new(settings: &Settings, silent: &Silent) -> Self {
        let mut congestion = Congestion::new(settings, u32::from(silent.mss));
        let mut rtt = Rtt::new(&settings.timers);
        if silent.syn_rtt > 0 {
            let variance = if silent.kind == Recovery::RackTlp { Variance::Linux } else { Variance::Rfc6298 };
            let sample = Duration::from_nanos(silent.syn_rtt);
            rtt.sample(silent.syn_sent + sample, sample, (1, 1), (variance, &settings.timers));
        } else if silent.repeats > 0 {
            rtt.fall_back(FALL_BACK);
        }
        if silent.repeats > 1 {
            congestion.set_cwnd(u32::from(silent.mss));
        }
        Sender {
            origin: silent.origin,
            una: 1,
            next: 1,
            end: silent.end,
            edge: silent.edge,
            congestion,
            board: Scoreboard::default(),
            rtt,
            delivery: Delivery::new(),
            recover: 0,
            round_end: 1,
            small_end: 0,
            usage_end: 0,
            last_sent: Instant::ZERO,
            rack: Rack::new(),
            repair: None,
            ceiling: silent.ceiling,
            most_out: 0,
            largest_window: silent.largest_window,
            window_from: silent.window_from,
            mss: silent.mss,
            shift: silent.shift,
            kind: silent.kind,
            phase: Phase::Open,
            duplicates: 0,
            retries: 0,
            fin_written: silent.fin_written,
            fin_sent: false,
            forced: false,
            new_first: false,
            probe_due: false,
            small_forced: false,
            cwnd_limited: false,
            ecn: silent.ecn,
            reduced: false,
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

    /// Octets written and never sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    #[inline]
    pub(crate) fn repair(&mut self) -> &mut Repair {
        self.repair.get_or_insert_default()
    }

    #[inline]
    pub(crate) fn variance(&self) -> Variance {
        if self.kind == Recovery::RackTlp { Variance::Linux } else { Variance::Rfc6298 }
    }

    #[inline]
    pub(crate) fn uses_sack(&self) -> bool {
        matches!(self.kind, Recovery::Sack | Recovery::RackTlp)
    }

    /// The peer's window is closed.
    #[inline]
    pub(crate) fn shut(&self) -> bool {
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

    fn pacing_rate(&self, settings: &Settings) -> Option<Rate> {
        let own = match settings.growth {
            GrowthKind::Bbr => self.congestion.pacing_rate(self.rtt.srtt()),
            _ => None,
        };
        match (own, self.ceiling.rate()) {
            (Some(own), Some(ceiling)) => Some(own.min(ceiling)),
            (own, ceiling) => own.or(ceiling),
        }
    }

    /// The next segment to send.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Outgoing> {
        if self.probe_due {
            self.probe_due = false;
            return self.probe(cx);
        }
        if cx.slots.pacing != Instant::FAR_FUTURE {
            if cx.now < cx.slots.pacing {
                return None;
            }
            cx.slots.pacing = Instant::FAR_FUTURE;
        }
        if self.new_first {
            if let Some(new) = self.poll_new(cx, self.congestion.cwnd()) {
                return Some(new);
            }
            if self.next > self.recover {
                return None;
            }
            self.give_up_frto();
        }
        if self.board.waiting() > 0 && !self.shut() {
            let index = self.board.next_lost()?;
            let len = u32::from(self.board.get(index).len);
            if self.forced || self.pipe() + len <= self.congestion.cwnd() {
                self.forced = false;
                return Some(self.send_again(cx, index));
            }
            self.note_usage(true);
            return None;
        }
        if let Some(new) = self.poll_new(cx, self.congestion.cwnd()) {
            return Some(new);
        }
        if self.kind == Recovery::Sack && self.phase == Phase::Recovery { self.poll_unsure(cx) } else { None }
    }

    /// New data, if `window` octets in flight allow it.
    #[inline]
    pub(crate) fn poll_new(&mut self, cx: &mut Context<'_>, window: u32) -> Option<Outgoing> {
        let unsent = self.end.saturating_sub(self.next);
        let fin = self.fin_written && !self.fin_sent;
        if unsent == 0 && !fin {
            return None;
        }
        if unsent > 0 && self.board.is_empty() {
            self.restart(cx);
        }
        let room = self.edge.saturating_sub(self.next);
        let len = unsent.min(room).min(u64::from(self.mss)) as u32;
        if len == 0 && (unsent > 0 || self.shut()) {
            self.arm_if_idle(cx);
            return None;
        }
        if len < self.mss()
            && !self.small_forced
            && !self.small_may_leave(cx.settings, (u64::from(len), unsent), fin)
        {
            if u64::from(len) < unsent {
                self.arm_if_idle(cx);
            }
            return None;
        }
        let window = window.saturating_add(self.limited_transmit(cx.settings));
        let mut pipe = self.pipe();
        if self.uses_sack() && self.phase == Phase::Open && !cx.settings.limited_transmit {
            pipe += self.board.sacked();
        }
        if pipe.saturating_add(len.max(1)) > window && !self.board.is_empty() {
            self.note_usage(true);
            return None;
        }
        Some(self.send_new(cx, len, fin && u64::from(len) == unsent))
    }

    /// Nagle (RFC 1122 §4.2.3.4; Minshall's variant as in Linux) and the sender's silly-window rule (RFC 9293
    /// §3.8.6.2.1).
    fn small_may_leave(&self, settings: &Settings, (len, unsent): (u64, u64), fin: bool) -> bool {
        if len < unsent {
            return len >= u64::from(self.largest_window / 2);
        }
        let held =
            if self.kind == Recovery::RackTlp { self.small_end > self.una } else { !self.board.is_empty() };
        fin || !settings.nagle || !held
    }

    /// RFC 3042: what the first duplicates allow beyond the window.
    fn limited_transmit(&self, settings: &Settings) -> u32 {
        if self.duplicates > 0 && settings.limited_transmit && self.phase == Phase::Open && !self.uses_sack()
        {
            u32::from(self.duplicates.min(2)) * self.mss()
        } else {
            0
        }
    }

    fn restart(&mut self, cx: &Context<'_>) {
        let idle = cx.now - self.last_sent;
        if self.last_sent > Instant::ZERO && idle > self.rto(cx.settings) && self.phase == Phase::Open {
            let initial = cx.settings.initial_window * self.mss();
            let timeout = self.rto(cx.settings);
            self.congestion.handle_idle_of(cx.now, idle, timeout, initial);
            self.last_sent = cx.now;
        }
    }

    fn send_new(&mut self, cx: &mut Context<'_>, len: u32, fin: bool) -> Outgoing {
        self.small_forced = false;
        let start = self.next;
        let stamp = self.delivery.stamp(cx.now, self.board.is_empty());
        self.board.push(cx.now, start, len as u16, fin, stamp);
        let first = self.board.len() == 1;
        self.next += u64::from(len) + u64::from(fin);
        self.fin_sent |= fin;
        self.last_sent = cx.now;
        if len > 0 && len < self.mss() {
            self.small_end = self.next;
        }
        cx.counters.data_segments_sent += u32::from(len > 0);
        cx.counters.octets_sent += u64::from(len);
        self.count_prr(len);
        self.pace(cx, len);
        let full = self.pipe() + self.mss() > self.congestion.cwnd();
        self.note_usage(full);
        if self.shut() {
            self.arm_persist(cx);
        } else if !self.schedule_probe(cx, false) && (first || cx.slots.armed().is_none()) {
            self.arm_retransmission(cx);
        }
        let reduced = std::mem::take(&mut self.reduced);
        Outgoing { start, len: len as u16, fin, repeat: false, push: self.next >= self.end, reduced }
    }

    pub(crate) fn send_again(&mut self, cx: &mut Context<'_>, index: usize) -> Outgoing {
        let stamp = self.delivery.stamp(cx.now, false);
        self.board.repeat(index, cx.now, stamp);
        let sent = *self.board.get(index);
        let fin = sent.is_fin();
        self.last_sent = cx.now;
        cx.counters.retransmitted += 1;
        cx.counters.retransmitted_octets += u64::from(sent.len);
        cx.counters.data_segments_sent += u32::from(sent.len > 0);
        cx.counters.octets_sent += u64::from(sent.len);
        self.note_repeat(cx.now);
        self.count_prr(u32::from(sent.len));
        self.pace(cx, u32::from(sent.len));
        if cx.slots.armed().is_none() {
            self.arm_retransmission(cx);
        }
        Outgoing {
            start: sent.start,
            len: sent.len,
            fin,
            repeat: true,
            push: sent.end() >= self.end,
            reduced: false,
        }
    }

    #[inline]
    fn pace(&mut self, cx: &mut Context<'_>, len: u32) {
        if self.ceiling.rate().is_none() && cx.settings.growth != GrowthKind::Bbr {
            return;
        }
        if let Some(rate) = self.pacing_rate(cx.settings) {
            cx.slots.pacing = cx.now + rate.time_for(u64::from(len), &mut 0);
        }
    }

    /// Whether the congestion window is what limits the sender, for a round trip as in Linux (`tcp_cwnd_validate`).
    #[inline]
    fn note_usage(&mut self, limited: bool) {
        let out = self.outstanding() as u32;
        if self.una >= self.usage_end || limited || (!self.cwnd_limited && out > self.most_out) {
            (self.cwnd_limited, self.most_out, self.usage_end) = (limited, out, self.next);
        }
    }

    /// Whether the window may grow: it is used, or in slow start half of it is.
    #[inline]
    pub(crate) fn uses_window(&self, settings: &Settings) -> bool {
        !settings.validates_window
            || self.cwnd_limited
            || (self.congestion.in_slow_start() && self.congestion.cwnd() < self.most_out.saturating_mul(2))
    }

    /// Takes note, before something is written, of having had nothing to send (`tcp_rate_check_app_limited`).
    #[inline]
    pub(crate) fn note_starving(&mut self) {
        if self.unsent() < u64::from(self.mss) && self.board.waiting() == 0 {
            let pipe = self.pipe();
            if pipe + self.mss() <= self.congestion.cwnd() {
                self.delivery.starve(pipe);
            }
        }
    }

    pub(crate) fn arm_retransmission(&self, cx: &mut Context<'_>) {
        let at = expiry(cx.now, self.rto_nanos(cx.settings), cx.settings.timers.granularity);
        cx.slots.arm(at, Wakeup::Retransmission);
    }

    pub(crate) fn arm_persist(&self, cx: &mut Context<'_>) {
        let timers = &cx.settings.timers;
        let delay = self.rtt.rto_nanos(timers) << self.retries.min(16);
        let at = expiry(cx.now, delay.min(nanos(timers.max_rto)), timers.granularity);
        cx.slots.arm(at, Wakeup::Persist);
    }

    /// The window keeps back what there is to send, and no timer would ever ask again.
    fn arm_if_idle(&self, cx: &mut Context<'_>) {
        if self.board.is_empty() && cx.slots.armed().is_none() {
            self.arm_persist(cx);
        }
    }

    /// Sets the shared timer after something was acknowledged.
    #[inline]
    pub(crate) fn rearm(&self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            if cx.slots.armed().is_some_and(|(_, why)| why != Wakeup::Persist && why != Wakeup::TimeWait) {
                cx.slots.disarm();
            }
        } else if self.shut() {
            self.arm_persist(cx);
        } else if !self.schedule_probe(cx, true) {
            self.arm_retransmission(cx);
        }
    }

    /// The right edge of the peer's window may have moved.
    pub(crate) fn set_edge(&mut self, cx: &mut Context<'_>, edge: u64) {
        let was_shut = self.shut();
        self.edge = edge;
        let persisting = matches!(cx.slots.armed(), Some((_, Wakeup::Persist)));
        if self.shut() {
            if !self.board.is_empty() && !persisting {
                self.retries = 0;
                self.arm_persist(cx);
            }
        } else if persisting && (was_shut || edge > self.next) {
            cx.slots.disarm();
            self.retries = 0;
            if !self.board.is_empty() {
                self.arm_retransmission(cx);
            }
        }
    }

    /// A mark came back (RFC 3168 §6.1.2): one reduction for a window of data.
    pub(crate) fn handle_mark(&mut self, cx: &mut Context<'_>) {
        if self.phase != Phase::Open || self.una <= self.recover {
            return;
        }
        cx.counters.mark_reductions += 1;
        self.reduced = true;
        if self.kind == Recovery::RackTlp {
            self.begin_reduction(cx.now, Cause::Mark, Phase::Cwr);
        } else {
            let flight = self.pipe();
            self.congestion.reduce(cx.now, flight, Cause::Mark);
            self.recover = self.next;
        }
    }
}
