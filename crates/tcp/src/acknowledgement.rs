//! The sender's reaction to an acknowledgement, in this order: scoreboard, RTT sample, loss recovery, timers,
//! congestion window.

use std::time::Duration;

use trunkline_units::Seq;

use crate::scoreboard::Progress;
use crate::sender::{Context, Sender};
use crate::timers::{Clock, Wakeup};
use crate::{Recovery, SackBlocks};
use trunkline_congestion::Ack;

/// The acknowledgement in a segment.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// The next place wanted.
    pub(crate) place: u64,
    /// The segment's own sequence number.
    pub(crate) seq: Seq,
    /// Bytes.
    pub(crate) window: u32,
    /// The segment takes sequence space.
    pub(crate) carries: bool,
    pub(crate) sack: &'a SackBlocks,
    /// `TSecr` that may be believed.
    pub(crate) echo: Option<u32>,
    /// ECE.
    pub(crate) marked: bool,
}

/// What the recovery needs to know of an acknowledgement.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) progress: Progress,
    pub(crate) advanced: u32,
    pub(crate) prior_pipe: u32,
    pub(crate) duplicate: bool,
    pub(crate) dsack: bool,
    /// The peer says that something was marked.
    pub(crate) marked: bool,
    pub(crate) echo: Option<u32>,
}

impl Sender {
    /// An acknowledgement that is not beyond what was sent.
    #[inline]
    pub(crate) fn handle_ack(&mut self, cx: &mut Context<'_>, incoming: &Incoming<'_>) {
        if incoming.place < self.una {
            return;
        }
        let prior_una = self.una;
        let prior_pipe = self.pipe();
        let outstanding = !self.board.is_empty();
        let min_rtt = self.rtt.min().unwrap_or_default();
        let echo = incoming.echo.map(|echo| (echo, Clock::of(&cx.settings.timers)));
        let mut progress = Progress::new(cx.now, min_rtt, self.recover, echo);
        let mut dsack = false;
        if self.uses_sack() && !incoming.sack.as_slice().is_empty() {
            dsack = self.take_blocks(incoming, &mut progress);
        }
        let advanced = (incoming.place - prior_una) as u32;
        if advanced > 0 {
            self.board.acknowledge(incoming.place, &mut progress);
            self.una = incoming.place;
            self.retries = 0;
            self.ack_clock.count(cx.now);
        }
        let window_moved = self.update_window(cx, incoming);
        let duplicate =
            advanced == 0 && outstanding && !incoming.carries && !window_moved && !self.window_closed();
        if progress.delivered > 0 {
            let newest = progress.newest.map(|(at, _, stamp)| (at, stamp));
            self.delivery.deliver(cx.now, progress.delivered, newest, min_rtt);
        }
        let rtt = self.sample(cx, &progress, advanced > 0, incoming.echo);
        let marked = incoming.marked && self.ecn;
        if marked {
            self.congestion.confirm_reduction();
        }
        let arrival =
            Arrival { progress, advanced, prior_pipe, duplicate, dsack, marked, echo: incoming.echo };
        let outcome = self.handle_recovery(cx, &arrival);
        if outcome.rearms {
            self.rearm_after(cx);
        }
        if marked && self.kind != Recovery::RackTlp {
            self.handle_mark(cx);
        } else if outcome.grows && advanced > 0 {
            let ack = self.ack(cx, &arrival, rtt);
            self.congestion.handle_ack(&ack);
        } else if self.congestion.models_path() && arrival.progress.delivered > 0 {
            let ack = self.ack(cx, &arrival, rtt);
            self.congestion.handle_recovery_ack(&ack, self.pipe(), outcome.lost);
        }
        #[cfg(debug_assertions)]
        self.board.check(self.una, self.next);
    }

    /// SACK blocks, clipped to what is outstanding; whether the first reports a duplicate (RFC 2883 §4).
    fn take_blocks(&mut self, incoming: &Incoming<'_>, progress: &mut Progress) -> bool {
        let blocks = incoming.sack.as_slice();
        let mut dsack = false;
        let mut clipped = [(0, 0); SackBlocks::MAX];
        let mut count = 0;
        for (index, &(start, end)) in blocks.iter().enumerate() {
            let place = |seq| self.origin.place(seq, incoming.place);
            let (Some(start), Some(end)) = (place(start), place(end)) else { continue };
            let inside = |other: &(Seq, Seq)| {
                let (Some(from), Some(to)) = (place(other.0), place(other.1)) else { return false };
                from <= start && end <= to
            };
            if index == 0 && (end <= incoming.place || blocks.get(1).is_some_and(inside)) {
                dsack = true;
                self.note_dsack(end);
                continue;
            }
            let (start, end) = (start.max(self.una), end.min(self.next));
            if start < end {
                clipped[count] = (start, end);
                count += 1;
            }
        }
        if count > 0 {
            self.board.sack(&clipped[..count], progress);
        }
        dsack
    }

    /// RFC 9293 §3.10.7.4, the window of the newest segment; whether the right edge was moved by a segment that
    /// acknowledges nothing new.
    #[inline]
    fn update_window(&mut self, cx: &mut Context<'_>, incoming: &Incoming<'_>) -> bool {
        let (seq, ack) = self.window_from;
        let this = self.origin.seq(incoming.place);
        if incoming.seq.before(seq) || (incoming.seq == seq && this.before(ack)) {
            return false;
        }
        self.window_from = (incoming.seq, this);
        let edge = incoming.place + u64::from(incoming.window);
        self.largest_window = self.largest_window.max(incoming.window);
        let moved = edge != self.edge;
        if moved {
            self.set_edge(cx, edge);
        }
        moved
    }

    /// A round trip, by Karn's rule: from what was never retransmitted; else from a time stamp (RFC 7323 §4.1).
    #[inline]
    fn sample(
        &mut self,
        cx: &mut Context<'_>,
        progress: &Progress,
        advanced: bool,
        echo: Option<u32>,
    ) -> Option<Duration> {
        let sent = if progress.retransmitted { None } else { progress.oldest };
        let by_echo = || {
            let echo = echo.filter(|_| advanced)?;
            let tick = cx.settings.timers.granularity.max(Duration::from_millis(1));
            let ticks = Clock::of(&cx.settings.timers).timestamp(cx.now).wrapping_sub(echo);
            (ticks < 1 << 24).then(|| tick * ticks.max(1))
        };
        let rtt = sent.or(progress.sacked_oldest).map(|at| cx.now - at).or_else(by_echo)?;
        self.take_sample(cx, rtt);
        Some(progress.newest_original.map_or(rtt, |at| cx.now - at))
    }

    pub(crate) fn take_sample(&mut self, cx: &mut Context<'_>, rtt: Duration) {
        cx.counters.sample(rtt);
        self.rtt.sample(cx.now, rtt, (self.una, self.next), &cx.settings.timers);
    }

    #[inline]
    fn ack(&mut self, cx: &Context<'_>, arrival: &Arrival, rtt: Option<Duration>) -> Ack {
        let models_path = self.congestion.models_path();
        // A model counts rounds by what was delivered, which goes on while a repair holds the cumulative acknowledgement.
        let (at, next) = if models_path {
            (self.delivery.prior(), self.delivery.delivered)
        } else {
            (self.una, self.next)
        };
        let round_ended = at > self.round_end;
        if round_ended {
            self.round_end = next;
        }
        let delivered = if self.congestion.asks_delivery_rate() { self.delivery.rate() } else { None };
        let srtt = self.rtt.srtt().unwrap_or_default();
        Ack {
            now: cx.now,
            acked: arrival.progress.delivered,
            rtt,
            srtt,
            min_rtt: self.rtt.min().unwrap_or(srtt),
            in_flight: arrival.prior_pipe,
            round_ended,
            window_limited: self.is_cwnd_validated(cx.settings),
            delivered,
        }
    }

    /// Sets the shared timer anew, unless it asks a closed window.
    #[inline]
    fn rearm_after(&mut self, cx: &mut Context<'_>) {
        let persisting = matches!(cx.slots.armed(), Some((_, Wakeup::Persist)));
        if !(persisting && self.window_closed() && !self.board.is_empty()) {
            self.rearm(cx);
        }
    }
}
