//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::model::{Counters, Drops};

const FIELDS: usize = 17;

/// The latest [`Counters`] of a direction. A reader may see some fields a batch newer than others.
#[derive(Debug, Default)]
pub(super) struct Shared {
    fields: [AtomicU64; FIELDS],
}

impl Shared {
    pub(super) fn publish(&self, counters: &Counters) {
        let drops = counters.dropped;
        let values: [u64; FIELDS] = [
            counters.packets_in,
            counters.bytes_in,
            counters.packets_out,
            counters.bytes_out,
            counters.corrupted,
            drops.queue,
            drops.loss,
            drops.too_big,
            drops.down,
            drops.wire_full,
            drops.refused,
            counters.backlog_packets,
            counters.backlog_bytes,
            counters.backlog_peak_bytes,
            counters.in_flight,
            counters.late_total.as_nanos() as u64,
            counters.late_peak.as_nanos() as u64,
        ];
        for (field, value) in self.fields.iter().zip(values) {
            field.store(value, Relaxed);
        }
    }

    pub(super) fn read(&self) -> Counters {
        let value = |index: usize| self.fields[index].load(Relaxed);
        Counters {
            packets_in: value(0),
            bytes_in: value(1),
            packets_out: value(2),
            bytes_out: value(3),
            corrupted: value(4),
            dropped: Drops {
                queue: value(5),
                loss: value(6),
                too_big: value(7),
                down: value(8),
                wire_full: value(9),
                refused: value(10),
            },
            backlog_packets: value(11),
            backlog_bytes: value(12),
            backlog_peak_bytes: value(13),
            in_flight: value(14),
            late_total: Duration::from_nanos(value(15)),
            late_peak: Duration::from_nanos(value(16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_published() {
        let counters = Counters {
            packets_in: 1,
            bytes_in: 2,
            packets_out: 3,
            bytes_out: 4,
            corrupted: 5,
            dropped: Drops { queue: 6, loss: 7, too_big: 8, down: 9, wire_full: 10, refused: 11 },
            backlog_packets: 12,
            backlog_bytes: 13,
            backlog_peak_bytes: 14,
            in_flight: 15,
            late_total: Duration::from_nanos(16),
            late_peak: Duration::from_nanos(17),
        };
        let shared = Shared::default();
        shared.publish(&counters);
        assert_eq!(shared.read(), counters);
    }
}
