//! How far the far end has everything, of a lane whose packets are acknowledged in any order.
//!
//! A connection that repairs losses by sending the same bytes in other packets (QUIC, RFC 9002) tells of acknowledged packets and
//! not of bytes of its streams. So this counts by *batches*: what leaves at one time. All that the lane had taken when a batch
//! left is delivered once that batch and all before it are acknowledged. What is lost of a batch leaves again in the first
//! batch after the loss was found, as a rule, so it is waited for with that one.
//!
//! It may be ahead of the truth and never lags for long: bytes that the lane had taken and that did not leave with the batch, at
//! most its depth, count as delivered with it, and so do repairs that leave later than with the first batch. That is the safe
//! side: the retransmission filter drops only what is certainly in transit.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

/// The maximum of batches that are told apart; beyond it the last ones are one.
const MAX_BATCHES: usize = 8192;

#[derive(Debug, Clone, Copy)]
struct Batch {
    at: Instant,
    /// Bytes that the lane had taken when it left.
    position: u64,
    /// Bytes of packets that are neither acknowledged nor lost.
    outstanding: u64,
    /// When packets of it were found to be lost, the last time.
    lost_at: Option<Instant>,
}

/// The batches of a connection that are not wholly acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    batches: VecDeque<Batch>,
    /// When the latest packet left that has been acknowledged.
    newest: Option<Instant>,
    position: u64,
}

impl Acknowledged {
    /// Of a connection whose lane has taken so many bytes before.
    pub fn new(position: u64) -> Self {
        Acknowledged { position, ..Acknowledged::default() }
    }

    /// The far end has everything that the lane took before this, in bytes.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// What has waited for longer than `limit` while later ones were acknowledged is no packet that would be: pass a round-trip
    /// time more than that after which a lost one is found. The owner calls it before it sends something.
    pub fn forget_stale(&mut self, now: Instant, limit: Duration) {
        let newest = self.newest;
        let stale = |batch: &Batch| newest > Some(batch.at) && now.saturating_since(batch.at) > limit;
        for batch in self.batches.iter_mut().take_while(|batch| stale(batch)) {
            batch.outstanding = 0;
        }
        self.advance();
    }

    /// Nothing is in flight: all that has left is acknowledged, or leaves again at once.
    pub fn handle_nothing_in_flight(&mut self) {
        if let Some(last) = self.batches.back() {
            self.position = self.position.max(last.position);
            self.batches.clear();
        }
    }

    /// Packets of so many bytes leave, and the lane has taken everything before `position`.
    pub fn handle_sent(&mut self, now: Instant, bytes: u64, position: u64) {
        let is_full = self.batches.len() == MAX_BATCHES;
        match self.batches.back_mut() {
            Some(last) if last.at == now || is_full => {
                last.outstanding += bytes;
                last.position = position;
            }
            _ => self.batches.push_back(Batch { at: now, position, outstanding: bytes, lost_at: None }),
        }
    }

    /// So many bytes of packets that left at `sent` are acknowledged.
    pub fn handle_acknowledged(&mut self, sent: Instant, bytes: u64) {
        self.newest = self.newest.max(Some(sent));
        if let Some(batch) = self.batch_of(sent) {
            batch.outstanding = batch.outstanding.saturating_sub(bytes);
        }
    }

    /// So many bytes of packets are lost, the last of which left at `sent`: all that left before that and was not acknowledged.
    pub fn handle_lost(&mut self, now: Instant, sent: Instant, mut bytes: u64) {
        for batch in self.batches.iter_mut().take_while(|batch| batch.at <= sent) {
            let lost = if batch.at < sent { batch.outstanding } else { batch.outstanding.min(bytes) };
            if lost > 0 {
                batch.outstanding -= lost;
                batch.lost_at = Some(now);
                bytes = bytes.saturating_sub(lost);
            }
        }
    }

    /// Passes over the batches that are wholly acknowledged, their repairs included. The owner calls it after each group of
    /// acknowledgements and losses.
    pub fn advance(&mut self) {
        while let Some(first) = self.batches.front().copied() {
            if first.outstanding > 0 {
                break;
            }
            if let Some(lost_at) = first.lost_at {
                let repair = self.batches.partition_point(|batch| batch.at < lost_at);
                match self.batches.get(repair).copied() {
                    // The repair needs one itself.
                    Some(Batch { outstanding: 0, lost_at: Some(again), .. }) if again > lost_at => {
                        self.batches[0].lost_at = Some(again);
                        continue;
                    }
                    Some(Batch { outstanding: 0, .. }) => {}
                    _ => break,
                }
            }
            self.position = self.position.max(first.position);
            self.batches.pop_front();
        }
    }

    /// The batch of what left at this time, if it was one.
    fn batch_of(&mut self, sent: Instant) -> Option<&mut Batch> {
        let behind = self.batches.partition_point(|batch| batch.at <= sent);
        let is_last = behind == MAX_BATCHES;
        self.batches.get_mut(behind.checked_sub(1)?).filter(|batch| batch.at == sent || is_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Batches of 1000 bytes in two packets, one each millisecond.
    fn sent(batches: u64) -> Acknowledged {
        let mut it = Acknowledged::default();
        for n in 1..=batches {
            it.handle_sent(at(n), 400, n * 1000 - 600);
            it.handle_sent(at(n), 600, n * 1000);
        }
        it
    }

    fn acknowledge(it: &mut Acknowledged, batch: u64, bytes: u64) -> u64 {
        it.handle_acknowledged(at(batch), bytes);
        it.advance();
        it.position()
    }

    #[test]
    fn a_batch_counts_once_all_of_it_and_all_before_it_is_acknowledged() {
        let mut it = sent(4);
        assert_eq!(acknowledge(&mut it, 1, 400), 0);
        assert_eq!(acknowledge(&mut it, 2, 1000), 0);
        assert_eq!(acknowledge(&mut it, 1, 600), 2000);
        assert_eq!(acknowledge(&mut it, 4, 1000), 2000);
        assert_eq!(acknowledge(&mut it, 3, 1000), 4000);
        assert!(it.batches.is_empty());
    }

    #[test]
    fn what_is_lost_rests_until_the_batch_that_repairs_it_is_acknowledged() {
        let mut it = sent(4);
        acknowledge(&mut it, 1, 400);
        for batch in 2..=4 {
            assert_eq!(acknowledge(&mut it, batch, 1000), 0);
        }
        it.handle_lost(at(60), at(1), 600);
        it.advance();
        assert_eq!(it.position(), 0, "the repair has not left");
        it.handle_sent(at(60), 600, 4000);
        it.handle_sent(at(61), 1000, 5000);
        assert_eq!(acknowledge(&mut it, 61, 1000), 0);
        assert_eq!(acknowledge(&mut it, 60, 600), 5000);
    }

    #[test]
    fn a_repair_that_is_lost_is_waited_for_again() {
        let mut it = sent(1);
        it.handle_lost(at(60), at(1), 1000);
        it.handle_sent(at(60), 1000, 1000);
        it.handle_lost(at(120), at(60), 1000);
        it.advance();
        it.handle_sent(at(121), 1000, 1000);
        it.advance();
        assert_eq!(it.position(), 0);
        assert_eq!(acknowledge(&mut it, 121, 1000), 1000);
    }

    #[test]
    fn a_loss_takes_all_that_left_before_and_of_its_own_batch_what_is_said() {
        let mut it = sent(3);
        acknowledge(&mut it, 1, 400);
        it.handle_lost(at(60), at(2), 600 + 400);
        let left: Vec<u64> = it.batches.iter().map(|batch| batch.outstanding).collect();
        assert_eq!(left, [0, 600, 1000]);
    }

    #[test]
    fn what_will_never_be_acknowledged_holds_nothing_up() {
        let mut it = sent(2);
        // Of the first batch 50 bytes were no packet that is acknowledged.
        acknowledge(&mut it, 1, 950);
        assert_eq!(acknowledge(&mut it, 2, 1000), 0);
        it.forget_stale(at(90), LIMIT);
        it.handle_sent(at(90), 1000, 3000);
        assert_eq!(it.position(), 0);
        it.forget_stale(at(110), LIMIT);
        assert_eq!(it.position(), 2000);
        // Without a sign of anything later it waits, unless nothing is in flight.
        it.forget_stale(at(900), LIMIT);
        assert_eq!(it.position(), 2000);
        it.handle_nothing_in_flight();
        assert_eq!((it.position(), it.batches.len()), (3000, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut it = sent(3 * MAX_BATCHES as u64);
        assert_eq!(it.batches.len(), MAX_BATCHES);
        assert_eq!(acknowledge(&mut it, 1, 1000), 1000);
    }
}
