//! Selects the data to send: by the congestion window, the peer's window and the rules on small segments.

use trunkline_units::{Instant, Rate};

use crate::recovery::Phase;
use crate::sender::{Context, Outgoing, Sender};
use crate::timers::Wakeup;
use crate::{Recovery, Settings};

/// Segments at the start of a connection after which none is waited for (Linux's `tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u32 = 10;

impl Sender {
    /// The rate that segments leave at: the congestion controller's or, with a maximum pacing rate, the window's, and no
    /// more than that maximum. `None`: segments are not paced.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        let max = self.max_pacing_rate.rate();
        // A maximum makes Linux space segments by the window too (`tcp_update_pacing_rate`).
        let rate =
            self.congestion.pacing_rate(self.rtt.srtt()).or_else(|| max.and_then(|_| self.window_rate()));
        match (rate, max) {
            (Some(rate), Some(max)) => Some(rate.min(max)),
            (rate, max) => rate.or(max),
        }
    }

    /// The window in half a round trip while it is below half the slow-start threshold, in five sixths of one after.
    pub(crate) fn window_rate(&self) -> Option<Rate> {
        let rtt = self.rtt.srtt()?.as_nanos().max(1);
        let window = self.congestion.cwnd().max(self.outstanding() as u32);
        let percent = if self.congestion.cwnd() < self.congestion.ssthresh() / 2 { 200 } else { 120 };
        let bits = u128::from(window) * 8 * 10_000_000 * percent / rtt;
        Some(Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX)))
    }

    /// The next segment to send.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Outgoing> {
        if self.probe_due {
            self.probe_due = false;
            return self.probe(cx);
        }
        if self.burst > 0
            && let Some(next) = self.poll_super_packet(cx)
        {
            return Some(next);
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
            self.abandon_frto();
        }
        if self.board.waiting() > 0 && !self.window_closed() {
            let index = self.board.next_lost()?;
            let len = u32::from(self.board.get(index).len);
            if self.forced || self.pipe() + len <= self.congestion.cwnd() {
                self.forced = false;
                return Some(self.retransmit(cx, index));
            }
            self.validate_cwnd(true);
            return None;
        }
        let new = if cx.settings.tso {
            self.poll_super_packet(cx)
        } else {
            self.poll_new(cx, self.congestion.cwnd())
        };
        if new.is_some() {
            return new;
        }
        if self.kind == Recovery::Sack && self.phase == Phase::Recovery {
            self.poll_next_seg(cx)
        } else {
            None
        }
    }

    /// New data, if `window` bytes in flight allow it.
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
        if len == 0 && (unsent > 0 || self.window_closed()) {
            self.arm_if_idle(cx);
            return None;
        }
        if len < self.mss()
            && !self.small_forced
            && !self.nagle_allows(cx.settings, (u64::from(len), unsent), fin)
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
            self.validate_cwnd(true);
            return None;
        }
        Some(self.send_new(cx, len, fin && u64::from(len) == unsent))
    }

    /// Nagle (RFC 1122 §4.2.3.4; Minshall's variant as in Linux) and the sender's silly-window rule (RFC 9293
    /// §3.8.6.2.1).
    fn nagle_allows(&self, settings: &Settings, (len, unsent): (u64, u64), fin: bool) -> bool {
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

    pub(crate) fn restart(&mut self, cx: &Context<'_>) {
        let idle = cx.now - self.last_sent;
        if self.last_sent > Instant::ZERO && idle > self.rto(cx.settings) && self.phase == Phase::Open {
            let initial = cx.settings.initial_window * self.mss();
            let timeout = self.rto(cx.settings);
            self.congestion.handle_idle(cx.now, idle, timeout, initial);
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
        cx.counters.bytes_sent += u64::from(len);
        self.note_prr_sent(len);
        self.pace(cx, len);
        let full = self.pipe() + self.mss() > self.congestion.cwnd();
        self.validate_cwnd(full);
        if self.window_closed() {
            self.arm_persist(cx);
        } else if !self.schedule_probe(cx, false) && (first || cx.slots.armed().is_none()) {
            self.arm_retransmission(cx);
        }
        let reduced = len > 0 && std::mem::take(&mut self.reduced);
        Outgoing { start, len: len as u16, fin, retransmission: false, push: self.pushes(start), reduced }
    }

    /// What is sent from `start` on ends all that was written, or a stretch of half of the peer's largest window, which
    /// Linux pushes without being asked (`forced_push`).
    fn pushes(&self, start: u64) -> bool {
        let stretch = u64::from(self.largest_window / 2).max(1);
        self.next >= self.end || (start - 1) / stretch != (self.next - 1) / stretch
    }

    pub(crate) fn retransmit(&mut self, cx: &mut Context<'_>, index: usize) -> Outgoing {
        let stamp = self.delivery.stamp(cx.now, false);
        self.board.retransmit(index, cx.now, stamp);
        let sent = *self.board.get(index);
        let fin = sent.is_fin();
        self.last_sent = cx.now;
        cx.counters.retransmitted += 1;
        cx.counters.retransmitted_bytes += u64::from(sent.len);
        cx.counters.data_segments_sent += u32::from(sent.len > 0);
        cx.counters.bytes_sent += u64::from(sent.len);
        self.note_retransmission(cx.now);
        self.note_prr_sent(u32::from(sent.len));
        self.pace(cx, u32::from(sent.len));
        // Linux begins the timer anew when it retransmissions what is first in flight (`tcp_xmit_retransmit_queue`).
        let first = index == 0 && self.kind == Recovery::RackTlp;
        let reordering = matches!(cx.slots.armed(), Some((_, Wakeup::Reordering)));
        if cx.slots.armed().is_none() || (first && !reordering) {
            self.arm_retransmission(cx);
        }
        Outgoing {
            start: sent.start,
            len: sent.len,
            fin,
            retransmission: true,
            push: sent.end() >= self.end,
            reduced: false,
        }
    }

    #[inline]
    fn pace(&mut self, cx: &mut Context<'_>, len: u32) {
        if cx.counters.data_segments_sent < UNPACED_SEGMENTS {
            return;
        }
        if let Some(rate) = self.pacing_rate() {
            // The segments of a super-packet wait together, behind it.
            let waits = cx.settings.tso && cx.slots.pacing != Instant::FAR_FUTURE;
            let from = if waits { cx.slots.pacing.max(cx.now) } else { cx.now };
            cx.slots.pacing = from + rate.time_for(u64::from(len), &mut 0);
        }
    }

    /// Whether the congestion window is what limits the sender, for a round trip as in Linux (`tcp_cwnd_validate`).
    #[inline]
    pub(crate) fn validate_cwnd(&mut self, limited: bool) {
        let out = self.outstanding() as u32;
        if self.una >= self.validation_end || limited || (!self.cwnd_limited && out > self.max_outstanding) {
            (self.cwnd_limited, self.max_outstanding, self.validation_end) = (limited, out, self.next);
        }
    }

    /// Whether the window may grow: it is used, or in slow start half of it is.
    #[inline]
    pub(crate) fn is_cwnd_validated(&self, settings: &Settings) -> bool {
        !settings.cwnd_validation
            || self.cwnd_limited
            || (self.congestion.in_slow_start()
                && self.congestion.cwnd() < self.max_outstanding.saturating_mul(2))
    }

    /// Takes note, before something is written, of having had nothing to send (`tcp_rate_check_app_limited`).
    #[inline]
    pub(crate) fn check_app_limited(&mut self) {
        if self.unsent() < u64::from(self.mss) && self.board.waiting() == 0 {
            let pipe = self.pipe();
            if pipe + self.mss() <= self.congestion.cwnd() {
                self.delivery.set_app_limited(pipe);
            }
        }
    }
}
