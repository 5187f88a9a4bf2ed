//! Marks losses by the rule of each recovery, and selects the next retransmission.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

use super::Scoreboard;
use super::record::{EVER_RETRANSMITTED, FIN, LOST, RETRANSMITTED, SACKED, Sent};

impl Scoreboard {
    fn mark_lost(&mut self, index: usize) {
        let sent = *self.get(index);
        if sent.marks & (LOST | RETRANSMITTED) == LOST {
            return;
        }
        let span = sent.span();
        self.forget(&sent, span);
        self.records[index].marks = (sent.marks | LOST) & !RETRANSMITTED;
        self.lost += span;
        self.waiting += span;
        self.retransmitted_up_to = self.retransmitted_up_to.min(sent.start);
    }

    /// The first segment is lost, unless it is delivered or its retransmission is in flight.
    pub(crate) fn mark_front_lost(&mut self) {
        if self.records.front().is_some_and(|sent| !sent.has(SACKED | RETRANSMITTED)) {
            self.mark_lost(0);
        }
    }

    /// After a timeout: marks every segment as lost that is not delivered and was sent by `sent_by`, and the first in any
    /// case.
    pub(crate) fn mark_all_lost(&mut self, sent_by: Instant) {
        for index in 0..self.records.len() {
            let sent = &self.records[index];
            if !sent.has(SACKED) && (index == 0 || sent.at <= sent_by) {
                self.mark_lost(index);
            }
        }
        self.searched = 0;
    }

    /// Splits segments of more than `mss` bytes of data, which do not get through and are lost. Whether there are any.
    pub(crate) fn split(&mut self, mss: u16) -> bool {
        let too_long = |sent: &Sent| sent.len > mss && !sent.has(SACKED);
        if !self.records.iter().any(too_long) {
            return false;
        }
        for index in 0..self.records.len() {
            if too_long(&self.records[index]) {
                self.mark_lost(index);
            }
        }
        let mut records = VecDeque::with_capacity(2 * self.records.len());
        for mut sent in std::mem::take(&mut self.records) {
            while too_long(&sent) {
                records.push_back(Sent { len: mss, marks: sent.marks & !FIN, ..sent });
                sent.start += u64::from(mss);
                sent.len -= mss;
            }
            records.push_back(sent);
        }
        self.records = records;
        true
    }

    /// A receiver that reported the first segment but does not acknowledge it has discarded reported data
    /// (SACK reneging, RFC 2018 §8).
    pub(crate) fn handle_sack_reneging(&mut self) {
        if self.records.front().is_some_and(|sent| sent.has(SACKED)) {
            for sent in &mut self.records {
                sent.marks &= !SACKED;
            }
            self.sacked = 0;
            self.highest_sacked = 0;
            self.extra().blocks = [(0, 0); 4];
        }
    }

    /// Clears all loss marks: the losses were spurious.
    pub(crate) fn clear_losses(&mut self) {
        for sent in &mut self.records {
            sent.marks &= !LOST;
        }
        (self.lost, self.waiting) = (0, 0);
        self.searched = 0;
    }

    /// Marks as lost what RFC 6675 §4 `IsLost` says: more than `threshold − 1` full segments above it are delivered.
    /// Whether anything was.
    pub(crate) fn mark_lost_by_count(&mut self, threshold: u32, mss: u32) -> bool {
        if self.sacked <= (threshold - 1) * mss {
            return false;
        }
        let mut above = 0;
        let mut index = self.index(self.highest_sacked);
        while index > 0 && above <= (threshold - 1) * mss {
            index -= 1;
            let sent = &self.records[index];
            above += if sent.has(SACKED) { sent.span() } else { 0 };
        }
        let first = self.index(self.searched);
        let mut any = false;
        for below in first..index {
            if !self.records[below].has(SACKED | LOST | EVER_RETRANSMITTED) {
                self.mark_lost(below);
                any = true;
            }
        }
        if index > first {
            self.searched = self.records[index].start;
        }
        any
    }

    /// Marks as lost what was sent at least `reordering` before the segment sent last among those delivered, at `at`
    /// and ending at `end`, whose round trip took `rtt` (RFC 8985 §6.2 step 5). Bytes lost, and how long until the
    /// next might be.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        now: Instant,
        (at, end, rtt): (Instant, u64, Duration),
        reordering: Duration,
    ) -> (u32, Option<Duration>) {
        let before = self.waiting;
        let deadline = rtt + reordering;
        let mut soonest: Option<Duration> = None;
        let mut index = self.index(self.searched);
        while let Some(sent) = self.records.get(index) {
            if !sent.has(SACKED | LOST | EVER_RETRANSMITTED) {
                if (sent.at, sent.end()) >= (at, end) {
                    break;
                }
                let age = now - sent.at;
                if age < deadline {
                    soonest = Some(deadline.saturating_sub(age));
                    break;
                }
                self.mark_lost(index);
            }
            index += 1;
        }
        self.searched = self.records.get(index).map_or_else(|| self.end(), |sent| sent.start);
        while let Some(&(sent_at, start)) =
            self.extra.as_ref().and_then(|extra| extra.retransmissions.front())
        {
            let index = self.index(start);
            let stale = |sent: &Sent| sent.start != start || sent.at != sent_at || !sent.has(RETRANSMITTED);
            if !self.records.get(index).is_none_or(stale) {
                let sent = &self.records[index];
                if (sent.at, sent.end()) >= (at, end) {
                    break;
                }
                let age = now - sent_at;
                if age < deadline {
                    let left = deadline.saturating_sub(age);
                    soonest = Some(soonest.map_or(left, |other| other.max(left)));
                    break;
                }
                self.mark_lost(index);
            }
            self.extra().retransmissions.pop_front();
        }
        (self.waiting - before, soonest)
    }

    /// The first that is lost and waits for its retransmission.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let mut index = self.index(self.retransmitted_up_to);
        while let Some(sent) = self.records.get(index) {
            if sent.marks & (LOST | RETRANSMITTED) == LOST {
                self.retransmitted_up_to = sent.start;
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// The first at or after `place` that is neither delivered nor retransmitted, below the highest delivered (RFC 6675
    /// §4 `NextSeg` rule 3).
    pub(crate) fn next_unmarked(&self) -> Option<usize> {
        let index = self.index(self.searched);
        let range = self.records.range(index..);
        let found = range.take_while(|sent| sent.end() < self.highest_sacked);
        found.into_iter().position(|sent| !sent.has(SACKED | LOST | EVER_RETRANSMITTED)).map(|at| index + at)
    }
}
