//! The receiving side: order, window and acknowledgements.
//!
//! The right edge of the window is the data that the application has read, plus the buffer. It never moves back,
//! and moves ahead by at least a segment or half the buffer (RFC 9293 §3.8.6.2.2). Bytes beyond a gap lie within
//! the offered window, so they need no accounting of their own.
//!
//! A receiver with an initial window offers only that at first, and widens it by two segments for each segment that
//! arrives, up to the buffer. It acknowledges each segment that widens the window at once, as in Linux
//! (`tcp_grow_window`): the sender then sees finely spaced acknowledgements in slow start, which `HyStart` needs. The buffer
//! itself may begin small and grow with the rate ([`Autotuning`]).
//!
//! The receiver acknowledges at once (RFC 5681 §4.2, RFC 9293 §3.8.6.3): a segment that is out of order, fills a
//! gap or is a duplicate; FIN; every `every`-th full segment; and the first `quick` segments. Otherwise it
//! may wait (`delayed_ack.rs`). As in Linux, more than `every − 1` segments' worth of bytes count, by the longest segment seen.

use trunkline_units::{Instant, Region};

use crate::autotuning::{Autotuning, Held};
use crate::delayed_ack::Quick;
use crate::stats::Counters;
use crate::stream::Origin;
use crate::{SackBlocks, Settings};

/// A segment of less data does not widen the window.
const MIN_WIDENING_SEGMENT: u64 = 128;

/// What a receiver needs beside the next place once its buffer grows or something is held beyond a gap.
#[derive(Debug, Default)]
struct Buffer {
    /// Where the buffer grows, from the first data on.
    autotuning: Option<Autotuning>,
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
    buffer: Option<Box<Buffer>>,
    /// When data came last.
    pub(crate) last_data: Instant,
    pub(crate) ts_recent: u32,
    largest: u16,
    /// Times that the window was widened.
    widened: u16,
    pub(crate) quick: Quick,
    pub(crate) shift: u8,
    pub(crate) ack_now: bool,
    pub(crate) marking: Marking,
}

/// What the peer's segments told of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking {
    /// None could have been marked.
    Unable,
    /// None is marked since CWR.
    Unmarked,
    /// ECE goes out until CWR comes (RFC 3168 §6.1.3).
    Echoed,
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    /// Nothing of it is new.
    pub(crate) duplicate: bool,
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
            buffer: None,
            last_data: Instant::ZERO,
            ts_recent: 0,
            largest: 0,
            widened: 0,
            quick: Quick::new(settings),
            shift: 0,
            ack_now: false,
            marking: Marking::Unable,
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
        self.buffer.as_ref().is_some_and(|held| !held.ranges.is_empty())
    }

    /// Has what it refers to loaded into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, load: impl Fn(Region)) {
        if let Some(buffer) = &self.buffer {
            load(Region::of(&**buffer));
        }
    }

    fn buffer_mut(&mut self) -> &mut Buffer {
        self.buffer.get_or_insert_default()
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
        if len > 0 {
            counters.data_segments_received += 1;
            self.largest = self.largest.max(len as u16);
            self.last_data = now;
        }
        let known_to = if start <= self.next { self.next } else { self.known_from(start) };
        if end + u64::from(fin) <= known_to {
            counters.duplicates += u32::from(len > 0);
            counters.duplicate_bytes += len;
            self.buffer_mut().duplicate = Some((start, end + u64::from(fin)));
            self.ack_now = true;
            return Taken { duplicate: true, ..Taken::default() };
        }
        if start < self.next {
            let next = self.next;
            self.buffer_mut().duplicate = Some((start, next));
        }
        let data_end = end.min(self.edge.max(self.next));
        let fin = fin && data_end == end;
        if fin {
            self.fin_at = data_end;
        }
        let before = self.next;
        if len >= MIN_WIDENING_SEGMENT && self.window(settings) < self.limit(settings) {
            self.widened = self.widened.saturating_add(1);
            self.quick.at_least(1);
        }
        if start > before {
            counters.out_of_order += u32::from(len > 0);
            self.insert(start, data_end + u64::from(fin));
            self.ack_now = true;
            return Taken::default();
        }
        self.next = before.max(data_end + u64::from(fin));
        if had_gaps {
            self.join();
        }
        let advanced = self.next > before;
        let finished = advanced && self.finished();
        let delay = advanced && !finished && !had_gaps && self.may_wait(settings);
        self.ack_now |= !delay;
        Taken { duplicate: false, advanced, finished, delay }
    }

    /// Takes what a data segment tells of the round trip, where the buffer grows with the rate: `echo` is the timestamp that it
    /// echoes, `age` gives the age of that in ns.
    #[inline]
    pub(crate) fn measure(
        &mut self,
        now: Instant,
        echo: Option<u32>,
        len: u32,
        settings: &Settings,
        age: impl Fn(u32) -> u64,
    ) {
        let Some(first) =
            settings.initial_receive_buffer.filter(|_| self.limit(settings) < settings.receive_buffer)
        else {
            return;
        };
        let (waits, full) = (self.readable() > 0, len >= u32::from(self.largest));
        let (read, next, edge) = (self.read, self.next, self.edge);
        let tuning = self.buffer_mut().autotuning.get_or_insert_with(|| {
            let flight = 10 * u64::from(settings.mss);
            let flight = settings.initial_receive_window.map_or(flight, |window| window.min(flight));
            Autotuning::new(now, read, first, flight)
        });
        match echo {
            Some(echo) if full => tuning.sample_echo(echo, || age(echo), waits),
            Some(_) => {}
            None => tuning.sample_window(now, next, edge),
        }
    }

    /// Whether a segment of `len` bytes of data is shorter than others.
    pub(crate) fn is_short(&self, len: u32) -> bool {
        len < u32::from(self.largest)
    }

    /// The window that the buffer allows.
    #[inline]
    fn limit(&self, settings: &Settings) -> u64 {
        let Some(first) = settings.initial_receive_buffer else { return settings.receive_buffer };
        let tuned = self.buffer.as_ref().and_then(|buffer| buffer.autotuning.as_ref());
        tuned.map_or(first.min(settings.receive_buffer), Autotuning::limit)
    }

    /// What may be offered beyond `next`.
    #[inline]
    fn window(&self, settings: &Settings) -> u64 {
        let limit = self.limit(settings);
        settings
            .initial_receive_window
            .map_or(limit, |first| (first + 2 * u64::from(self.widened) * u64::from(self.largest)).min(limit))
    }

    fn may_wait(&mut self, settings: &Settings) -> bool {
        let Some(delayed) = settings.delayed_ack else { return false };
        if self.quick.is_due() {
            if !delayed.adaptive {
                self.quick.take();
            }
            return false;
        }
        let limit = u64::from(delayed.every.max(1) - 1) * u64::from(self.largest);
        self.next - self.acknowledged <= limit
    }

    /// The end of what is held from `place` on, or `place`.
    fn known_from(&self, place: u64) -> u64 {
        let Some(out_of_order) = &self.buffer else { return place };
        let index = out_of_order.ranges.partition_point(|range| range.1 <= place);
        out_of_order.ranges.get(index).filter(|range| range.0 <= place).map_or(place, |range| range.1)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        let out_of_order = self.buffer_mut();
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
        let ranges = &mut self.buffer_mut().ranges;
        let joined = ranges.partition_point(|range| range.0 <= next);
        if joined > 0 {
            let end = ranges[joined - 1].1;
            ranges.drain(..joined);
            if ranges.is_empty() {
                // Most flows have no gap most of the time, and each once had its most.
                *ranges = Vec::new();
            }
            self.next = next.max(end);
        }
    }

    /// The blocks to report: a duplicate, then what is beyond gaps, the newest first.
    pub(crate) fn sack_blocks(&mut self, max_blocks: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let origin = self.origin;
        let Some(out_of_order) = &mut self.buffer else { return blocks };
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
        let step = u64::from(settings.mss).min(self.limit(settings) / 2);
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
        let goal = (self.read + self.limit(settings)).min(self.next + self.window(settings));
        goal.min(self.next + (u64::from(u16::MAX) << shift))
    }

    /// The application takes up to `bytes`; whether the window has opened so far that the peer should know: by half, as
    /// Linux has it, and a segment or half the buffer at least.
    #[inline]
    pub(crate) fn read(&mut self, bytes: u64, settings: &Settings) -> (u64, bool) {
        let taken = bytes.min(self.readable());
        self.read += taken;
        if let Some(Buffer { autotuning: Some(tuning), ranges, .. }) = self.buffer.as_deref_mut() {
            let end = ranges.last().map_or(self.next, |last| last.1);
            let held = Held { read: self.read, next: self.next, end };
            tuning.adjust(self.last_data, held, settings.receive_buffer);
        }
        let room = self.edge.saturating_sub(self.next);
        let limit = self.limit(settings);
        let opens = 2 * room <= limit && {
            let step = u64::from(settings.mss).min(limit / 2);
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
