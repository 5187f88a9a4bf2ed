//! What routers say of segments that they could not pass on (ICMP), and the reaction.
//!
//! A segment that was too long for a link (RFC 1191 §4): the sender makes shorter ones from here on, and sends what was too long
//! again at once, without a congestion signal, since nothing of it came into the network behind that link. Window and threshold
//! stay as many segments (Linux's `tcp_simple_retransmit`).
//!
//! An unreachable destination, or a loop: an open connection goes on (a soft error, RFC 1122 §4.2.3.9; so do hard ones, RFC 5927
//! §5.2). A connection that is being opened ends if nobody is there to answer, or, in Linux, for any such message (RFC 5461 §4).
//!
//! Only messages about segments in flight count (RFC 5927 §4.1).

use trunkline_units::{Instant, Seq};

use crate::endpoint::Endpoint;
use crate::recovery::Phase;
use crate::send_half::SendHalf;
use crate::sender::{Context, Sender};
use crate::state::{ResetReason, State};

/// An error that a router or the other host reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathError {
    /// A link takes segments with no more than so many bytes of data and TCP options.
    TooLong {
        /// As of the MSS option.
        mss: u16,
    },
    /// No route leads there, or packets go in a circle.
    Unreachable,
    /// The other host has nobody who listens.
    Refused,
}

/// The shortest that segments become.
const MIN_MSS: u16 = 64;
/// Of each segment, where the ends have agreed on them.
const TIMESTAMPS: u16 = 12;

impl Endpoint {
    /// An error was reported about the segment that began with `seq`.
    pub fn handle_path_error(&mut self, now: Instant, seq: Seq, error: PathError) {
        let sending = &self.sending;
        let place = sending.origin().place(seq, sending.una());
        let opens = matches!(self.state, State::SynSent | State::SynReceived);
        let in_flight = place.is_some_and(|place| {
            if opens { place == 0 } else { (sending.una()..sending.next()).contains(&place) }
        });
        if !in_flight || matches!(self.state, State::Closed | State::Listen) {
            return;
        }
        match error {
            PathError::TooLong { mss } if self.settings.path_mtu_discovery => self.limit_mss(now, mss),
            PathError::Refused if opens => self.break_off(ResetReason::Refused),
            PathError::Unreachable if opens && self.settings.fails_on_soft_errors => {
                self.break_off(ResetReason::Unreachable);
            }
            _ => {}
        }
    }

    /// The path takes no longer segments, with TCP options, than this.
    pub fn limit_mss(&mut self, now: Instant, mss: u16) {
        let options = if self.timestamps { TIMESTAMPS } else { 0 };
        let mss = mss.saturating_sub(options).max(MIN_MSS);
        if let SendHalf::Idle(idle) = &mut self.sending {
            idle.mss = idle.mss.min(mss);
        } else if let Some((sender, mut context)) = self.sender(now)
            && mss < sender.mss
        {
            sender.shorten(&mut context, mss);
        }
    }
}

impl Sender {
    fn shorten(&mut self, cx: &mut Context<'_>, mss: u16) {
        self.mss = mss;
        self.congestion.rescale(mss.into());
        self.burst = 0;
        if !self.board.split(mss) {
            return;
        }
        self.forbid_undo();
        let repair = self.repair();
        (repair.frto, repair.probe_end) = (false, 0);
        (self.probe_due, self.new_first) = (false, false);
        if self.phase != Phase::Loss {
            self.phase = Phase::Loss;
            self.recover = self.next;
            self.duplicates = 0;
        }
        self.arm_retransmission(cx);
    }
}
