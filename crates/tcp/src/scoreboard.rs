//! The scoreboard: one record for each segment in flight, with its state.
//!
//! `pipe = outstanding − delivered by SACK − lost + retransmissions in flight` (RFC 6675 §4), as running sums.
//! Records are in the order of the stream. First transmissions are also in the order of time, and retransmissions
//! have their own queue in that order. So both searches for losses continue where they stopped: no acknowledgement
//! walks over the window. The scoreboard keeps the blocks of the last SACK and processes only the new parts of the
//! next.

mod losses;
mod record;

use std::collections::VecDeque;

use trunkline_units::{Instant, Region};

use crate::delivery::Stamp;
use record::{EVER_RETRANSMITTED, FIN, LOST, RETRANSMITTED, SACKED};
pub(crate) use record::{Progress, Sent};

/// Room for so many records stays, however few there are.
const WORTH_KEEPING: usize = 16;
/// Records that an acknowledgement may need at once.
const PREFETCHED: usize = 16;

#[derive(Debug, Default)]
struct Extra {
    blocks: [(u64, u64); 4],
    /// Repeats in the order of time; entries that have been overtaken stay until they are met.
    retransmissions: VecDeque<(Instant, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    records: VecDeque<Sent>,
    extra: Option<Box<Extra>>,
    sacked: u32,
    lost: u32,
    retransmitting: u32,
    /// Lost, and not yet retransmitted.
    waiting: u32,
    /// Below it, every first transmission is delivered, lost or retransmitted.
    searched: u64,
    /// Below it, nothing lost waits for its retransmission.
    retransmitted_up_to: u64,
    highest_sacked: u64,
}

impl Scoreboard {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Has the first records loaded into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, load: impl Fn(Region)) {
        let (front, back) = self.records.as_slices();
        load(Region::of(&front[..front.len().min(PREFETCHED)]));
        load(Region::of(&back[..back.len().min(PREFETCHED / 2)]));
    }

    /// Segments outstanding.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.records.front()
    }

    /// Bytes in flight, of `outstanding`.
    #[inline]
    pub(crate) fn pipe(&self, outstanding: u64) -> u32 {
        (outstanding as u32 + self.retransmitting).saturating_sub(self.sacked + self.lost)
    }

    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// Bytes of retransmissions in flight.
    #[inline]
    pub(crate) fn retransmitting(&self) -> u32 {
        self.retransmitting
    }

    /// A retransmission is in flight, or was needed for what is first in flight (`tcp_any_retrans_done`).
    pub(crate) fn repeats(&self) -> bool {
        self.retransmitting > 0 || self.front().is_some_and(|sent| sent.has(EVER_RETRANSMITTED))
    }

    #[inline]
    pub(crate) fn push(&mut self, now: Instant, start: u64, len: u16, fin: bool, stamp: Stamp) {
        let marks = if fin { FIN } else { 0 };
        self.records.push_back(Sent { start, at: now, stamp, len, marks });
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    fn end(&self) -> u64 {
        self.records.back().map_or(0, Sent::end)
    }

    /// Bytes lost that wait for their retransmission.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The record that holds `place` or follows it.
    fn index(&self, place: u64) -> usize {
        self.records.partition_point(|sent| sent.end() <= place)
    }

    /// Everything before `place` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, place: u64, progress: &mut Progress) {
        while let Some(sent) = self.records.front_mut() {
            if sent.end() > place {
                if sent.start < place {
                    self.trim_front(place);
                }
                break;
            }
            let (sent, span) = (*sent, sent.span());
            self.records.pop_front();
            self.forget(&sent, span);
            progress.retransmitted |= sent.has(EVER_RETRANSMITTED);
            if sent.has(SACKED) {
                continue;
            }
            if !sent.has(EVER_RETRANSMITTED) {
                progress.oldest.get_or_insert(sent.at);
                progress.newest_original = Some(sent.at);
            }
            progress.take(&sent, self.highest_sacked);
        }
        if self.extra.is_some() && self.retransmitting == 0 {
            self.forget_repairs(place);
        }
        let (room, used) = (self.records.capacity(), self.records.len());
        if room > WORTH_KEEPING && room / 4 > used {
            self.give_back(used);
        }
    }

    /// Gives back what losses needed, if everything before `place` has arrived and no retransmission is in flight: once no block of
    /// the last SACK can meet one of the next.
    #[cold]
    fn forget_repairs(&mut self, place: u64) {
        if self.extra.as_ref().is_some_and(|extra| extra.blocks.iter().all(|(_, end)| *end <= place)) {
            self.extra = None;
        }
    }

    /// Gives back the room of a window that has become much smaller: of ten thousand flows, each once had its largest.
    #[cold]
    fn give_back(&mut self, used: usize) {
        self.records.shrink_to((2 * used).max(WORTH_KEEPING));
    }

    /// A segment was acknowledged in part.
    fn trim_front(&mut self, place: u64) {
        let Some(sent) = self.records.front_mut() else { return };
        let cut = (place - sent.start) as u16;
        sent.start = place;
        sent.len -= cut;
        let sent = *sent;
        self.forget(&sent, u32::from(cut));
    }

    #[inline]
    fn forget(&mut self, sent: &Sent, bytes: u32) {
        if sent.has(SACKED | LOST | RETRANSMITTED) {
            self.sacked -= if sent.has(SACKED) { bytes } else { 0 };
            self.lost -= if sent.has(LOST) { bytes } else { 0 };
            self.retransmitting -= if sent.has(RETRANSMITTED) { bytes } else { 0 };
            self.waiting -= if sent.marks & (LOST | RETRANSMITTED) == LOST { bytes } else { 0 };
        }
    }

    /// The receiver has `blocks`; they lie within what is outstanding.
    pub(crate) fn sack(&mut self, blocks: &[(u64, u64)], progress: &mut Progress) {
        let known = self.extra().blocks;
        let mut latest = [(0, 0); 4];
        for (place, &(start, end)) in latest.iter_mut().zip(blocks) {
            *place = (start, end);
            match known.iter().find(|known| known.0 < end && start < known.1) {
                None => self.deliver(start, end, progress),
                Some(&(from, to)) => {
                    if start < from {
                        self.deliver(start, from, progress);
                    }
                    if to < end {
                        self.deliver(to, end, progress);
                    }
                }
            }
        }
        self.extra().blocks = latest;
    }

    fn deliver(&mut self, start: u64, end: u64, progress: &mut Progress) {
        let mut index = self.records.partition_point(|sent| sent.start < start);
        while let Some(sent) = self.records.get_mut(index) {
            if sent.end() > end {
                break;
            }
            index += 1;
            if sent.has(SACKED) {
                continue;
            }
            let before = *sent;
            sent.marks = (sent.marks | SACKED) & !(LOST | RETRANSMITTED);
            let span = before.span();
            self.forget(&before, span);
            self.sacked += span;
            progress.sacked += span;
            if !before.has(EVER_RETRANSMITTED) {
                progress.sacked_oldest.get_or_insert(before.at);
            }
            progress.take(&before, self.highest_sacked);
            self.highest_sacked = self.highest_sacked.max(before.end());
        }
    }

    /// The last segment outstanding.
    pub(crate) fn last(&self) -> Option<usize> {
        self.records.len().checked_sub(1)
    }

    /// The last that is not delivered.
    pub(crate) fn last_undelivered(&self) -> Option<usize> {
        self.records.iter().rposition(|sent| !sent.has(SACKED))
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Sent {
        &self.records[index]
    }

    /// It is sent again.
    pub(crate) fn retransmit(&mut self, index: usize, now: Instant, stamp: Stamp) {
        let sent = &mut self.records[index];
        (sent.at, sent.stamp) = (now, stamp);
        let (marks, span, start) = (sent.marks, sent.span(), sent.start);
        sent.marks |= EVER_RETRANSMITTED;
        if marks & (RETRANSMITTED | SACKED) == 0 {
            sent.marks |= RETRANSMITTED;
            self.retransmitting += span;
            self.waiting -= if marks & LOST != 0 { span } else { 0 };
        }
        let first = self.records.front().map_or(0, |sent| sent.start);
        let retransmissions = &mut self.extra().retransmissions;
        while retransmissions.front().is_some_and(|&(_, start)| start < first) {
            retransmissions.pop_front();
        }
        retransmissions.push_back((now, start));
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, una: u64, next: u64) {
        let mut sums = [0; 4];
        let mut place = una;
        for sent in &self.records {
            assert_eq!(sent.start, place, "records lie in a row");
            place = sent.end();
            for (sum, mark) in sums.iter_mut().zip([SACKED, LOST, RETRANSMITTED]) {
                *sum += if sent.has(mark) { sent.span() } else { 0 };
            }
            sums[3] += if sent.marks & (LOST | RETRANSMITTED) == LOST { sent.span() } else { 0 };
            assert!(!(sent.has(SACKED) && sent.has(LOST | RETRANSMITTED)));
        }
        assert_eq!(place, next, "everything outstanding has a record");
        assert_eq!(
            sums,
            [self.sacked, self.lost, self.retransmitting, self.waiting],
            "sums are those of the records"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MSS: u32 = 1000;

    /// Twenty segments sent at once, from place 1.
    fn board() -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..20 {
            let start = 1 + number * u64::from(MSS);
            board.push(Instant::from_millis(1), start, MSS as u16, false, Stamp::default());
        }
        board
    }

    fn place(number: u64) -> u64 {
        1 + number * u64::from(MSS)
    }

    fn progress() -> Progress {
        Progress::new(Instant::from_millis(100), Duration::ZERO, 0, None)
    }

    fn sack(board: &mut Scoreboard, blocks: &[(u64, u64)]) -> u32 {
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (place(*start), place(*end))).collect();
        let mut progress = progress();
        board.sack(&blocks, &mut progress);
        board.check(1, place(20));
        progress.sacked / MSS
    }

    #[test]
    fn a_block_counts_for_what_is_new_in_it() {
        let mut board = board();
        assert_eq!(sack(&mut board, &[(5, 7)]), 2);
        assert_eq!(sack(&mut board, &[(5, 7)]), 0);
        assert_eq!(sack(&mut board, &[(3, 9), (11, 12)]), 5);
        assert_eq!(sack(&mut board, &[(2, 14)]), 5);
        assert_eq!(board.sacked(), 12 * MSS);
        assert_eq!(board.pipe(20 * u64::from(MSS)), 8 * MSS);
    }

    #[test]
    fn lost_is_what_has_more_than_two_segments_delivered_above() {
        let mut board = board();
        sack(&mut board, &[(5, 7)]);
        assert!(!board.mark_lost_by_count(3, MSS));
        sack(&mut board, &[(9, 10), (5, 7)]);
        // Above 5 there are three; above 7 and 8 only one.
        assert!(board.mark_lost_by_count(3, MSS));
        assert_eq!(board.lost(), 5 * MSS);
        let next = board.next_lost().map(|index| board.get(index).start);
        assert_eq!(next, Some(place(0)));
    }

    #[test]
    fn retransmissions_of_what_has_arrived_are_forgotten() {
        let mut board = board();
        for round in 0..1000_u64 {
            board.mark_front_lost();
            board.retransmit(0, Instant::from_millis(round), Stamp::default());
            board.acknowledge(place(round + 1), &mut progress());
            board.push(Instant::from_millis(round), place(round + 20), MSS as u16, false, Stamp::default());
        }
        let retransmissions = board.extra.as_ref().map_or(0, |extra| extra.retransmissions.len());
        assert!(retransmissions <= 2, "{retransmissions}");
        board.check(place(1000), place(1020));
    }

    #[test]
    fn memory_for_losses_is_given_back_once_all_are_repaired() {
        let mut board = board();
        sack(&mut board, &[(1, 3), (5, 7)]);
        board.mark_front_lost();
        board.retransmit(0, Instant::from_millis(2), Stamp::default());
        board.acknowledge(place(3), &mut progress());
        assert!(board.extra.is_some(), "a block is above what is acknowledged");
        board.retransmit(0, Instant::from_millis(3), Stamp::default());
        board.acknowledge(place(4), &mut progress());
        assert!(board.extra.is_some());
        board.acknowledge(place(7), &mut progress());
        assert!(board.extra.is_none());
        board.check(place(7), place(20));
    }
}
