//! The receiving side: order, window and acknowledgements.
//!
//! The right edge of the window is the data that the application has read, plus the buffer. It never moves back,
//! and moves ahead by at least a segment or half the buffer (RFC 9293 §3.8.6.2.2). Bytes beyond a gap lie within
//! the offered window, so they need no accounting of their own.
//!
//! A receiver with an initial window offers only that at first, and widens it by two segments for each segment that
//! arrives, up to the buffer. It acknowledges each segment that widens the window at once, as in Linux
//! (`tcp_grow_window`): the sender then sees finely spaced acknowledgements in slow start, which `HyStart` needs.
//!
//! The receiver acknowledges at once (RFC 5681 §4.2, RFC 9293 §3.8.6.3): a segment that is out of order, fills a
//! gap or is a duplicate; FIN; every `every`-th full segment; and the first `quick` segments. Otherwise it
//! acknowledges within `timeout`. As in Linux, more than `every − 1` segments' worth of bytes count, by the longest
//! segment seen; and after a silence of more than an RTO the quick acknowledgements begin again.

use trunkline_units::Instant;

use crate::stats::Counters;
use crate::stream::Origin;
use crate::{SackBlocks, Settings};

/// A segment of less data does not widen the window.
const MIN_WIDENING_SEGMENT: u64 = 128;

/// What is held beyond a gap, and what to report.
#[derive(Debug, Default)]
struct OutOfOrder {
    /// In the order of the stream, apart from each other.
    ranges: Vec<(u64, u64)>,
    /// A place in each of the blocks reported last, the newest first.
    recent: [u64; 4],
    /// A duplicate to report (RFC 2883).
    duplicate: Option<(u64, u64)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) origin: Origin,
    /// The next place wanted.
    pub(crate) next: u64,
    /// The next place that the application reads.
    pub(crate) read: u64,
    /// The right edge that was offered.
    pub(crate) edge: u64,
    /// What was acknowledged last.
    pub(crate) acknowledged: u64,
    /// The place of FIN; 0 until it has come.
    fin_at: u64,
    out_of_order: Option<Box<OutOfOrder>>,
    /// When data came last.
    pub(crate) last_data: Instant,
    pub(crate) ts_recent: u32,
    largest: u16,
    /// Times that the window was widened.
    widened: u16,
    quick: u8,
    pub(crate) shift: u8,
    pub(crate) ack_now: bool,
    /// ECE goes out until CWR comes (RFC 3168 §6.1.3).
    pub(crate) echo_ce: bool,
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes or FIN that are new and in order.
    pub(crate) advanced: bool,
    /// FIN has been reached.
    pub(crate) finished: bool,
    /// The acknowledgement may wait.
    pub(crate) delay: bool,
}

impl Receiver {
    pub(crate) fn new(settings: &Settings) -> Self {
        Receiver {
            origin: Origin::default(),
            next: 1,
            read: 1,
            edge: 1,
            acknowledged: 1,
            fin_at: 0,
            out_of_order: None,
            last_data: Instant::ZERO,
            ts_recent: 0,
            largest: 0,
            widened: 0,
            quick: settings.delayed_ack.map_or(0, |delayed| delayed.quick),
            shift: 0,
            ack_now: false,
            echo_ce: false,
        }
    }

    /// Bytes that the application can read.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        self.next - u64::from(self.finished()) - self.read
    }

    /// Everything has come, FIN too.
    #[inline]
    pub(crate) fn finished(&self) -> bool {
        self.fin_at > 0 && self.next > self.fin_at
    }

    /// Bytes of data in order.
    #[inline]
    pub(crate) fn in_order(&self) -> u64 {
        self.next - 1 - u64::from(self.finished())
    }

    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        self.out_of_order.as_ref().is_some_and(|held| !held.ranges.is_empty())
    }

    fn out_of_order(&mut self) -> &mut OutOfOrder {
        self.out_of_order.get_or_insert_default()
    }

    /// Takes data from `start` to `end`, and FIN behind it if `fin`; the caller has tested that it touches the window.
    #[inline]
    pub(crate) fn take(
        &mut self,
        (start, end, fin): (u64, u64, bool),
        now: Instant,
        settings: &Settings,
        counters: &mut Counters,
    ) -> Taken {
        let len = end - start;
        let had_gaps = self.has_gaps();
        let taken = |advanced, finished, delay| Taken { advanced, finished, delay };
        if len > 0 {
            counters.data_segments_received += 1;
            self.largest = self.largest.max(len as u16);
            self.last_data = now;
        }
        let known_to = if start <= self.next { self.next } else { self.known_from(start) };
        if end + u64::from(fin) <= known_to {
            counters.duplicates += u32::from(len > 0);
            counters.duplicate_bytes += len;
            self.out_of_order().duplicate = Some((start, end + u64::from(fin)));
            self.ack_now = true;
            return taken(false, false, false);
        }
        if start < self.next {
            let next = self.next;
            self.out_of_order().duplicate = Some((start, next));
        }
        let data_end = end.min(self.edge.max(self.next));
        let fin = fin && data_end == end;
        if fin {
            self.fin_at = data_end;
        }
        let before = self.next;
        if len >= MIN_WIDENING_SEGMENT && self.window(settings) < settings.receive_buffer {
            self.widened = self.widened.saturating_add(1);
            self.quick |= 1;
        }
        if start > before {
            counters.out_of_order += u32::from(len > 0);
            self.insert(start, data_end + u64::from(fin));
            self.ack_now = true;
            return taken(false, false, false);
        }
        self.next = before.max(data_end + u64::from(fin));
        if had_gaps {
            self.join();
        }
        let advanced = self.next > before;
        let finished = advanced && self.finished();
        let delay = advanced && !finished && !had_gaps && self.may_wait(settings);
        self.ack_now |= !delay;
        taken(advanced, finished, delay)
    }

    /// The next segments are acknowledged at once each.
    pub(crate) fn enter_quickack_mode(&mut self, settings: &Settings) {
        self.quick = settings.delayed_ack.map_or(0, |delayed| delayed.quick);
    }

    /// Whether a segment of `len` bytes of data is shorter than others.
    pub(crate) fn is_short(&self, len: u32) -> bool {
        len < u32::from(self.largest)
    }

    /// What may be offered beyond `next`.
    #[inline]
    fn window(&self, settings: &Settings) -> u64 {
        settings.initial_receive_window.map_or(settings.receive_buffer, |first| {
            (first + 2 * u64::from(self.widened) * u64::from(self.largest)).min(settings.receive_buffer)
        })
    }

    fn may_wait(&mut self, settings: &Settings) -> bool {
        let Some(delayed) = settings.delayed_ack else { return false };
        if self.quick > 0 {
            self.quick -= 1;
            return false;
        }
        let limit = u64::from(delayed.every.max(1) - 1) * u64::from(self.largest);
        self.next - self.acknowledged <= limit
    }

    /// The end of what is held from `place` on, or `place`.
    fn known_from(&self, place: u64) -> u64 {
        let Some(out_of_order) = &self.out_of_order else { return place };
        let index = out_of_order.ranges.partition_point(|range| range.1 <= place);
        out_of_order.ranges.get(index).filter(|range| range.0 <= place).map_or(place, |range| range.1)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        let out_of_order = self.out_of_order();
        let ranges = &mut out_of_order.ranges;
        let first = ranges.partition_point(|range| range.1 < start);
        let last = ranges.partition_point(|range| range.0 <= end);
        if first < last {
            start = start.min(ranges[first].0);
            end = end.max(ranges[last - 1].1);
            ranges[first] = (start, end);
            ranges.drain(first + 1..last);
        } else {
            ranges.insert(first, (start, end));
        }
        let inside = |place: &u64| (start..end).contains(place);
        let held = out_of_order.recent.iter().position(inside).unwrap_or(3);
        out_of_order.recent[..=held].rotate_right(1);
        out_of_order.recent[0] = start;
    }

    /// What was beyond a gap may now be in order.
    fn join(&mut self) {
        let next = self.next;
        let ranges = &mut self.out_of_order().ranges;
        let joined = ranges.partition_point(|range| range.0 <= next);
        if joined > 0 {
            let end = ranges[joined - 1].1;
            ranges.drain(..joined);
            self.next = next.max(end);
        }
    }

    /// The blocks to report: a duplicate, then what is beyond gaps, the newest first.
    pub(crate) fn sack_blocks(&mut self, max_blocks: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let origin = self.origin;
        let Some(out_of_order) = &mut self.out_of_order else { return blocks };
        let mut room = max_blocks;
        let mut push = |(start, end)| {
            if room > 0 {
                room -= 1;
                blocks.push(origin.seq(start), origin.seq(end));
            }
        };
        if let Some(duplicate) = out_of_order.duplicate.take() {
            push(duplicate);
        }
        let mut reported = [(0, 0); 4];
        let mut count = 0;
        for place in out_of_order.recent {
            let index = out_of_order.ranges.partition_point(|range| range.1 <= place);
            if let Some(&range) = out_of_order.ranges.get(index)
                && range.0 <= place
                && !reported[..count].contains(&range)
            {
                reported[count] = range;
                count += 1;
                push(range);
            }
        }
        blocks
    }

    /// The window to offer: moves the right edge, and returns the field.
    #[inline]
    pub(crate) fn offer(&mut self, settings: &Settings, shift: u8) -> u16 {
        let goal = self.goal(settings, shift);
        let step = u64::from(settings.mss).min(settings.receive_buffer / 2);
        // RFC 5681 §2 counts a duplicate only if it offers the window of the one before: a little more can wait.
        let duplicate = self.next == self.acknowledged;
        let step = if duplicate { step.max(self.edge.saturating_sub(self.next) / 2) } else { step };
        let edge = if goal >= self.edge + step { goal } else { self.edge };
        let room = edge.saturating_sub(self.next);
        let mut field = (room >> shift).min(u64::from(u16::MAX));
        if self.next + (field << shift) < self.edge && field < u64::from(u16::MAX) {
            field = (self.edge - self.next).div_ceil(1 << shift).min(u64::from(u16::MAX));
        }
        self.edge = self.edge.max(self.next + (field << shift));
        self.acknowledged = self.next;
        self.ack_now = false;
        field as u16
    }

    fn goal(&self, settings: &Settings, shift: u8) -> u64 {
        let goal = (self.read + settings.receive_buffer).min(self.next + self.window(settings));
        goal.min(self.next + (u64::from(u16::MAX) << shift))
    }

    /// The application takes up to `bytes`; whether the window has opened so far that the peer should know: by half, as
    /// Linux has it, and a segment or half the buffer at least.
    #[inline]
    pub(crate) fn read(&mut self, bytes: u64, settings: &Settings) -> (u64, bool) {
        let taken = bytes.min(self.readable());
        self.read += taken;
        let room = self.edge.saturating_sub(self.next);
        let opens = 2 * room <= settings.receive_buffer && {
            let step = u64::from(settings.mss).min(settings.receive_buffer / 2);
            let goal = self.goal(settings, self.shift).saturating_sub(self.next);
            goal >= 2 * room && goal >= room + step
        };
        (taken, taken > 0 && opens && !self.finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use trunkline_units::{Rng, Seq};

    #[test]
    fn any_order_of_segments_comes_together() {
        let settings = Settings { receive_buffer: 10_000, ..Preset::Linux6.settings() };
        for seed in 0..300 {
            let mut rng = Rng::new(seed, "receiver");
            let mut receiver = Receiver::new(&settings);
            receiver.origin = Origin(Seq(u32::MAX - 500));
            receiver.offer(&settings, 0);
            let mut counters = Counters::default();
            // What has come, byte by byte.
            let mut held = vec![false; 4001];
            held[0] = true;
            while receiver.next < 4001 {
                let start = 1 + rng.below(4000);
                let end = (start + 1 + rng.below(300)).min(4001);
                let known = held[start as usize..end as usize].iter().all(|held| *held);
                let before = counters.duplicates;
                receiver.take((start, end, false), Instant::from_millis(1), &settings, &mut counters);
                held[start as usize..end as usize].fill(true);
                assert_eq!(counters.duplicates - before, u32::from(known), "seed {seed}: {start} to {end}");
                let next = held.iter().position(|held| !*held).unwrap_or(4001) as u64;
                assert_eq!(receiver.next, next);
                for (index, (from, to)) in receiver.sack_blocks(4).as_slice().iter().enumerate() {
                    let place = |seq| receiver.origin.place(seq, next).unwrap() as usize;
                    let (from, to) = (place(*from), place(*to));
                    assert!(held[from..to].iter().all(|held| *held), "seed {seed}: it has not got that");
                    if index == 0 && start > next && !known {
                        assert!(from <= start as usize && end as usize <= to, "the newest first");
                    }
                }
            }
            assert!(!receiver.has_gaps());
            assert_eq!(receiver.readable(), 4000);
        }
    }
}
