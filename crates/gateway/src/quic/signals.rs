//! What a connection's owner and its controller tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use trunkline_units::Rate;

use super::control::Control;
use crate::lane::Circuit;

/// What the owner of a connection and its controller, which belongs to the library, tell each other. Both run in one
/// thread.
#[derive(Debug)]
pub(super) struct Signals {
    /// [`Control::place`] of what is wanted.
    control: AtomicU8,
    /// Data waits that the window or the pacing keeps back.
    blocked: AtomicBool,
    /// What is sent next is to be acknowledged: more than acknowledgements.
    eliciting: AtomicBool,
    window: AtomicU32,
    in_flight: AtomicU32,
    /// Bit/s; 0 before the first acknowledgement.
    delivery_rate: AtomicU64,
    /// What the library lets be in flight: more than the window while a reduction drains.
    send_window: AtomicU64,
    /// The last time that it was asked to send, it had nothing more.
    drained: AtomicBool,
    /// Bytes that the lane has handed over, and how many of them the far end has, if it is a lane of streams.
    handed_over: AtomicU64,
    acknowledged: AtomicU64,
    circuit_open: AtomicBool,
    circuit_trips: AtomicU32,
    /// Bytes of the probe for the path's MTU that is in flight; 0 without one.
    probe: AtomicU32,
    /// Packets that the other end has acknowledged, modulo 2^32.
    acked_packets: AtomicU32,
    /// Only packets pass that are shorter than QUIC requires.
    only_short: AtomicBool,
    /// Milliseconds between probes of the length that QUIC requires; 0 if there is no doubt that they pass.
    length_probes: AtomicU32,
}

impl Signals {
    pub(super) fn new(control: Control) -> Arc<Self> {
        Arc::new(Signals {
            control: AtomicU8::new(control.place()),
            blocked: AtomicBool::new(false),
            eliciting: AtomicBool::new(true),
            window: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            delivery_rate: AtomicU64::new(0),
            send_window: AtomicU64::new(0),
            drained: AtomicBool::new(false),
            handed_over: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            circuit_open: AtomicBool::new(false),
            circuit_trips: AtomicU32::new(0),
            probe: AtomicU32::new(0),
            acked_packets: AtomicU32::new(0),
            only_short: AtomicBool::new(false),
            length_probes: AtomicU32::new(0),
        })
    }

    /// Changes what bounds the connection, from the next acknowledgement on.
    pub(super) fn set_control(&self, control: Control) {
        self.control.store(control.place(), Relaxed);
    }

    pub(super) fn control(&self) -> Control {
        Control::at(self.control.load(Relaxed))
    }

    /// Whether nothing of the connection answers to marks: its packets are not to ask for them (RFC 3168 §6.1).
    pub(super) fn ignores_marks(&self) -> bool {
        self.control() == Control::Breaker && !self.circuit_open.load(Relaxed)
    }

    /// The circuit breaker; `None` of a connection that has a window at any time.
    pub(super) fn circuit(&self) -> Option<Circuit> {
        let (is_open, trips) = (self.circuit_open.load(Relaxed), self.circuit_trips.load(Relaxed));
        (self.control() == Control::Breaker).then_some(Circuit { is_open, trips })
    }

    /// Data waits although the connection was asked to send: the window is in use.
    pub(super) fn handle_blocked(&self) {
        self.blocked.store(true, Relaxed);
    }

    /// Whether what is sent from now on is more than acknowledgements, which are not congestion-controlled.
    pub(super) fn set_eliciting(&self, eliciting: bool) {
        self.eliciting.store(eliciting, Relaxed);
    }

    /// Congestion window, bytes.
    pub(super) fn window(&self) -> usize {
        self.window.load(Relaxed) as usize
    }

    /// Bytes sent, and neither acknowledged nor lost.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed) as usize
    }

    pub(super) fn delivery_rate(&self) -> Option<Rate> {
        let rate = self.delivery_rate.load(Relaxed);
        (rate > 0).then(|| Rate::from_bits_per_second(rate))
    }

    /// Bytes that fit into the window beside what is in flight. The library is told of one more, and of a probe's.
    pub(super) fn available(&self) -> usize {
        let window = self.send_window.load(Relaxed).saturating_sub(1 + u64::from(self.probe()));
        usize::try_from(window).unwrap_or(usize::MAX).saturating_sub(self.in_flight())
    }

    /// Whether the library refused to send for want of window when so many bytes more were to leave.
    pub(super) fn is_window_full(&self, bytes: usize) -> bool {
        (self.in_flight() + bytes) as u64 >= self.send_window.load(Relaxed)
    }

    /// Whether the library had nothing more to send when it was asked last, as an acknowledgement has told since.
    pub(super) fn take_drained(&self) -> bool {
        self.drained.swap(false, Relaxed)
    }

    /// A probe for the path's MTU of so many bytes is in flight; 0: none is any more.
    pub(super) fn set_probe(&self, bytes: u32) {
        self.probe.store(bytes, Relaxed);
    }

    pub(super) fn probe(&self) -> u32 {
        self.probe.load(Relaxed)
    }

    /// Whether only packets pass that are shorter than QUIC requires.
    pub(super) fn set_only_short(&self, only_short: bool) {
        self.only_short.store(only_short, Relaxed);
    }

    pub(super) fn set_length_probes(&self, interval: Option<Duration>) {
        self.length_probes.store(interval.map_or(0, |interval| interval.as_millis() as u32), Relaxed);
    }

    /// The time between probes of the length that QUIC requires, if it is open whether packets of that length pass.
    pub(super) fn length_probes(&self) -> Option<Duration> {
        let interval = self.length_probes.load(Relaxed);
        (interval > 0).then(|| Duration::from_millis(interval.into()))
    }

    pub(super) fn is_only_short(&self) -> bool {
        self.only_short.load(Relaxed)
    }

    /// The other end has acknowledged one packet more.
    pub(super) fn handle_acked_packet(&self) {
        self.acked_packets.fetch_add(1, Relaxed);
    }

    pub(super) fn acked_packets(&self) -> u32 {
        self.acked_packets.load(Relaxed)
    }

    /// The lane has handed over so many bytes in all.
    pub(super) fn set_handed_over(&self, bytes: u64) {
        self.handed_over.store(bytes, Relaxed);
    }

    /// The far end has everything that the lane handed over before this, in bytes.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }

    /// Takes what the controller knows of the congestion window and what is in flight.
    pub(super) fn publish(&self, window: u32, send_window: u64, in_flight: u32, rate: Option<Rate>) {
        self.window.store(window, Relaxed);
        self.send_window.store(send_window, Relaxed);
        self.in_flight.store(in_flight, Relaxed);
        self.delivery_rate.store(rate.map_or(0, Rate::bits_per_second), Relaxed);
    }

    pub(super) fn set_drained(&self) {
        self.drained.store(true, Relaxed);
    }

    pub(super) fn handed_over(&self) -> u64 {
        self.handed_over.load(Relaxed)
    }

    pub(super) fn set_acknowledged(&self, bytes: u64) {
        self.acknowledged.store(bytes, Relaxed);
    }

    pub(super) fn set_circuit(&self, is_open: bool, trips: u32) {
        self.circuit_open.store(is_open, Relaxed);
        self.circuit_trips.store(trips, Relaxed);
    }

    pub(super) fn is_circuit_open(&self) -> bool {
        self.circuit_open.load(Relaxed)
    }

    pub(super) fn is_eliciting(&self) -> bool {
        self.eliciting.load(Relaxed)
    }

    pub(super) fn take_blocked(&self) -> bool {
        self.blocked.swap(false, Relaxed)
    }
}
