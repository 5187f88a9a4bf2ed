//! What is in flight: a record for each segment, and what the sender believes of it.
//!
//! `pipe = outstanding − delivered by SACK − lost + repeats in flight` (RFC 6675 §4), as running sums. Records lie in
//! the order of the stream; the first transmissions among them are also in the order of time, and repeats have a queue of
//! their own in that order. So both searches for losses go on from where they stopped: no acknowledgement walks
//! over the window. The blocks of the last SACK are remembered, and only what is new in the next one is looked at.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

use crate::acknowledgement::timestamp;
use crate::delivery::Stamp;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// A repeat is in flight.
const REPEATING: u8 = 4;
/// It was repeated at least once.
const REPEATED: u8 = 8;
const FIN: u8 = 16;

/// A segment in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    /// When it was sent last.
    pub(crate) at: Instant,
    stamp: Stamp,
    /// Octets of data.
    pub(crate) len: u16,
    marks: u8,
}

impl Sent {
    #[inline]
    fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    #[inline]
    pub(crate) fn is_fin(&self) -> bool {
        self.has(FIN)
    }

    #[inline]
    fn span(&self) -> u32 {
        u32::from(self.len) + u32::from(self.is_fin())
    }

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.span())
    }
}

/// What an acknowledgement brought.
#[derive(Debug)]
pub(crate) struct Progress {
    now: Instant,
    min_rtt: Duration,
    recover: u64,
    /// A time stamp echoed, and what the clock of time stamps goes by.
    echo: Option<(u32, Duration)>,
    /// Octets delivered that were not known to be before.
    pub(crate) delivered: u32,
    /// Of them, by SACK.
    pub(crate) sacked: u32,
    /// When the oldest and the newest segment acknowledged were sent, among those never repeated.
    pub(crate) oldest: Option<Instant>,
    pub(crate) newest_original: Option<Instant>,
    pub(crate) sacked_oldest: Option<Instant>,
    /// It acknowledges a segment that was repeated.
    pub(crate) repeated: bool,
    /// It acknowledges a segment that was never repeated and sent before the timeout.
    pub(crate) original: bool,
    /// A segment came after one that was sent later.
    pub(crate) reordered: bool,
    /// The segment sent last among those delivered: time, end and stamp.
    pub(crate) newest: Option<(Instant, u64, Stamp)>,
}

impl Progress {
    #[inline]
    pub(crate) fn new(now: Instant, min_rtt: Duration, recover: u64, echo: Option<(u32, Duration)>) -> Self {
        Progress {
            now,
            min_rtt,
            recover,
            echo,
            delivered: 0,
            sacked: 0,
            oldest: None,
            newest_original: None,
            sacked_oldest: None,
            repeated: false,
            original: false,
            reordered: false,
            newest: None,
        }
    }

    /// What is acknowledged is not the repeat of `repeated` but a transmission before it (RFC 8985 §6.2 step 2).
    fn answers_before(&self, repeated: Instant) -> bool {
        let Some((echo, granularity)) = self.echo else { return false };
        echo.wrapping_sub(timestamp(repeated, granularity)).cast_signed() < 0
    }

    #[inline]
    fn take(&mut self, sent: &Sent, highest_sacked: u64) {
        self.delivered += sent.span();
        let (repeated, end) = (sent.has(REPEATED), sent.end());
        if !repeated {
            self.original |= end <= self.recover;
            self.reordered |= end < highest_sacked;
        } else if self.now - sent.at < self.min_rtt || self.answers_before(sent.at) {
            return;
        }
        if self.newest.is_none_or(|(at, other, _)| (sent.at, end) > (at, other)) {
            self.newest = Some((sent.at, end, sent.stamp));
        }
    }
}

#[derive(Debug, Default)]
struct Extra {
    blocks: [(u64, u64); 4],
    /// Repeats in the order of time; entries that have been overtaken stay until they are met.
    repeats: VecDeque<(Instant, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    records: VecDeque<Sent>,
    extra: Option<Box<Extra>>,
    sacked: u32,
    lost: u32,
    repeating: u32,
    /// Lost, and not yet repeated.
    waiting: u32,
    /// Below it, every first transmission is delivered, lost or repeated.
    searched: u64,
    /// Below it, nothing lost waits for its repeat.
    repeated_up_to: u64,
    highest_sacked: u64,
}

impl Scoreboard {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
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

    /// Octets in flight, of `outstanding`.
    #[inline]
    pub(crate) fn pipe(&self, outstanding: u64) -> u32 {
        (outstanding as u32 + self.repeating).saturating_sub(self.sacked + self.lost)
    }

    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        self.lost
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

    /// Octets lost that wait for their repeat.
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
            progress.repeated |= sent.has(REPEATED);
            if sent.has(SACKED) {
                continue;
            }
            if !sent.has(REPEATED) {
                progress.oldest.get_or_insert(sent.at);
                progress.newest_original = Some(sent.at);
            }
            progress.take(&sent, self.highest_sacked);
        }
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
    fn forget(&mut self, sent: &Sent, octets: u32) {
        if sent.has(SACKED | LOST | REPEATING) {
            self.sacked -= if sent.has(SACKED) { octets } else { 0 };
            self.lost -= if sent.has(LOST) { octets } else { 0 };
            self.repeating -= if sent.has(REPEATING) { octets } else { 0 };
            self.waiting -= if sent.marks & (LOST | REPEATING) == LOST { octets } else { 0 };
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
            sent.marks = (sent.marks | SACKED) & !(LOST | REPEATING);
            let span = before.span();
            self.forget(&before, span);
            self.sacked += span;
            progress.sacked += span;
            if !before.has(REPEATED) {
                progress.sacked_oldest.get_or_insert(before.at);
            }
            progress.take(&before, self.highest_sacked);
            self.highest_sacked = self.highest_sacked.max(before.end());
        }
    }

    fn lose(&mut self, index: usize) {
        let sent = *self.get(index);
        if sent.marks & (LOST | REPEATING) == LOST {
            return;
        }
        let span = sent.span();
        self.forget(&sent, span);
        self.records[index].marks = (sent.marks | LOST) & !REPEATING;
        self.lost += span;
        self.waiting += span;
        self.repeated_up_to = self.repeated_up_to.min(sent.start);
    }

    /// The first segment is lost, unless it is delivered or its repeat is in flight.
    pub(crate) fn lose_front(&mut self) {
        if self.records.front().is_some_and(|sent| !sent.has(SACKED | REPEATING)) {
            self.lose(0);
        }
    }

    /// After a timeout: everything is lost that is not delivered, but what was sent after `spared`; the first in any case.
    pub(crate) fn lose_all(&mut self, spared: Instant) {
        for index in 0..self.records.len() {
            let sent = &self.records[index];
            if !sent.has(SACKED) && (index == 0 || sent.at <= spared) {
                self.lose(index);
            }
        }
        self.searched = 0;
    }

    /// A receiver that has the first segment but does not acknowledge it has thrown away what it reported
    /// (RFC 2018 §8).
    pub(crate) fn forget_broken_promises(&mut self) {
        if self.records.front().is_some_and(|sent| sent.has(SACKED)) {
            for sent in &mut self.records {
                sent.marks &= !SACKED;
            }
            self.sacked = 0;
            self.highest_sacked = 0;
            self.extra().blocks = [(0, 0); 4];
        }
    }

    /// Nothing was lost after all.
    pub(crate) fn absolve(&mut self) {
        for sent in &mut self.records {
            sent.marks &= !LOST;
        }
        (self.lost, self.waiting) = (0, 0);
        self.searched = 0;
    }

    /// Marks as lost what RFC 6675 §4 `IsLost` says: more than `threshold − 1` full segments above it are delivered.
    /// Whether anything was.
    pub(crate) fn lose_by_count(&mut self, threshold: u32, mss: u32) -> bool {
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
            if !self.records[below].has(SACKED | LOST | REPEATED) {
                self.lose(below);
                any = true;
            }
        }
        if index > first {
            self.searched = self.records[index].start;
        }
        any
    }

    /// Marks as lost what was sent at least `reordering` before the segment sent last among those delivered, at `at`
    /// and ending at `end`, whose round trip took `rtt` (RFC 8985 §6.2 step 5). Octets lost, and how long until the
    /// next might be.
    pub(crate) fn lose_by_time(
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
            if !sent.has(SACKED | LOST | REPEATED) {
                if (sent.at, sent.end()) >= (at, end) {
                    break;
                }
                let age = now - sent.at;
                if age < deadline {
                    soonest = Some(deadline.saturating_sub(age));
                    break;
                }
                self.lose(index);
            }
            index += 1;
        }
        self.searched = self.records.get(index).map_or_else(|| self.end(), |sent| sent.start);
        while let Some(&(sent_at, start)) = self.extra.as_ref().and_then(|extra| extra.repeats.front()) {
            let index = self.index(start);
            let stale = |sent: &Sent| sent.start != start || sent.at != sent_at || !sent.has(REPEATING);
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
                self.lose(index);
            }
            self.extra().repeats.pop_front();
        }
        (self.waiting - before, soonest)
    }

    /// The first that is lost and waits for its repeat.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let mut index = self.index(self.repeated_up_to);
        while let Some(sent) = self.records.get(index) {
            if sent.marks & (LOST | REPEATING) == LOST {
                self.repeated_up_to = sent.start;
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// The first at or after `place` that is neither delivered nor repeated, below the highest delivered (RFC 6675
    /// §4 `NextSeg` rule 3).
    pub(crate) fn next_unsure(&self) -> Option<usize> {
        let index = self.index(self.searched);
        let range = self.records.range(index..);
        let found = range.take_while(|sent| sent.end() < self.highest_sacked);
        found.into_iter().position(|sent| !sent.has(SACKED | LOST | REPEATED)).map(|at| index + at)
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
    pub(crate) fn repeat(&mut self, index: usize, now: Instant, stamp: Stamp) {
        let sent = &mut self.records[index];
        (sent.at, sent.stamp) = (now, stamp);
        let (marks, span, start) = (sent.marks, sent.span(), sent.start);
        sent.marks |= REPEATED;
        if marks & (REPEATING | SACKED) == 0 {
            sent.marks |= REPEATING;
            self.repeating += span;
            self.waiting -= if marks & LOST != 0 { span } else { 0 };
        }
        self.extra().repeats.push_back((now, start));
    }

    /// Forgets repeats of which nothing is outstanding.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(extra) = &mut self.extra
            && self.records.is_empty()
        {
            extra.repeats.clear();
            extra.blocks = [(0, 0); 4];
        }
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self, una: u64, next: u64) {
        let mut sums = [0; 4];
        let mut place = una;
        for sent in &self.records {
            assert_eq!(sent.start, place, "records lie in a row");
            place = sent.end();
            for (sum, mark) in sums.iter_mut().zip([SACKED, LOST, REPEATING]) {
                *sum += if sent.has(mark) { sent.span() } else { 0 };
            }
            sums[3] += if sent.marks & (LOST | REPEATING) == LOST { sent.span() } else { 0 };
            assert!(!(sent.has(SACKED) && sent.has(LOST | REPEATING)));
        }
        assert_eq!(place, next, "everything outstanding has a record");
        assert_eq!(
            sums,
            [self.sacked, self.lost, self.repeating, self.waiting],
            "sums are those of the records"
        );
    }
}
