//! The states of a connection, and the events that its owner polls.

/// RFC 9293 §3.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no connection, or no longer.
    Closed,
    /// Waits for a SYN.
    Listen,
    /// Has sent a SYN.
    SynSent,
    /// Has received a SYN and answered.
    SynReceived,
    /// Open.
    Established,
    /// Closed on this side first; FIN is not acknowledged.
    FinWait1,
    /// Closed on this side; the peer may go on.
    FinWait2,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both at once; FIN is not acknowledged.
    Closing,
    /// Closed by the peer, then here; FIN is not acknowledged.
    LastAck,
    /// Closed by both; late segments may still come.
    TimeWait,
}

impl State {
    /// The application may write.
    pub(crate) fn takes_writes(self) -> bool {
        matches!(
            self,
            State::Listen | State::SynSent | State::SynReceived | State::Established | State::CloseWait
        )
    }

    /// Data may come.
    pub(crate) fn takes_data(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Both ends know each other's sequence numbers, and segments of data may be in flight.
    pub(crate) fn sends_data(self) -> bool {
        matches!(
            self,
            State::Established | State::FinWait1 | State::CloseWait | State::Closing | State::LastAck
        )
    }
}

/// Why a connection was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// The peer answered a SYN with RST.
    Refused,
    /// A router knows no way to the peer (ICMP).
    Unreachable,
    /// The peer sent RST.
    Peer,
    /// This side aborted it.
    Aborted,
    /// The peer acknowledged no retransmission.
    TimedOut,
}

/// An event for the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The connection is open.
    Connected,
    /// There is new data to read.
    Readable,
    /// There is room again, after a write that did not fit.
    Writable,
    /// The peer will send nothing more; what came before can still be read.
    RemoteClosed,
    /// Both directions are closed and acknowledged. The endpoint may still have to answer for a while: until its state
    /// is [`State::Closed`].
    Closed,
    /// The connection was reset.
    Reset(ResetReason),
}

/// Events not yet heard.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Events {
    waiting: u8,
    reset: Option<ResetReason>,
}

const ORDER: [(u8, Event); 5] = [
    (1, Event::Connected),
    (2, Event::Readable),
    (4, Event::Writable),
    (8, Event::RemoteClosed),
    (16, Event::Closed),
];

impl Events {
    #[inline]
    pub(crate) fn raise(&mut self, event: Event) {
        match event {
            Event::Connected => self.waiting |= 1,
            Event::Readable => self.waiting |= 2,
            Event::Writable => self.waiting |= 4,
            Event::RemoteClosed => self.waiting |= 8,
            Event::Closed => self.waiting |= 16,
            Event::Reset(reason) => self.reset = Some(reason),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<Event> {
        if self.waiting == 0 {
            return self.reset.take().map(Event::Reset);
        }
        let bit = self.waiting & self.waiting.wrapping_neg();
        self.waiting &= !bit;
        ORDER.iter().find(|(other, _)| *other == bit).map(|(_, event)| *event)
    }
}
