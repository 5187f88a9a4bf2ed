use std::time::Duration;

use trunkline_units::Instant;

/// What one end of a lane tells the other of the bytes that it got: docs/wire-format.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalReport {
    /// When, by the clock of the reporting end, microseconds since any origin that stays the same while the lane lives.
    pub at: u64,
    /// Bytes of the lane's connection that had arrived by then, all since the greetings.
    pub bytes: u64,
}

impl ArrivalReport {
    /// Bytes of its fields.
    pub const BYTES: usize = 16;

    /// Its fields as they stand on the wire.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        (u128::from(self.at) << 64 | u128::from(self.bytes)).to_be_bytes()
    }

    /// Reads them.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let both = u128::from_be_bytes(*bytes);
        ArrivalReport { at: (both >> 64) as u64, bytes: both as u64 }
    }
}

/// When the receiving half of a lane reports what has arrived.
#[derive(Debug, Clone, Default)]
pub struct Reporting {
    /// When the last report was made, and the bytes and packets that had arrived by then.
    last: Option<(Instant, u64, u64)>,
}

impl Reporting {
    /// The shortest time between two reports.
    pub const INTERVAL: Duration = Duration::from_millis(10);
    /// A report comes after so many bytes: it costs about 90 on the way back, which may be ten times slower.
    pub const BYTES: u64 = 9000;
    /// Or after this time, if so many bytes have come.
    pub const MAX_INTERVAL: Duration = Duration::from_millis(250);
    const FEW: u64 = 3000;
    /// Or after this time, if a packet has come. It is shorter than what counts as silence.
    const LONGEST: Duration = Duration::from_millis(750);

    /// The connection has got so many bytes and packets so far. A report, if one is due.
    ///
    /// Two ends that carry nothing but reports are silent: a report is no packet.
    #[inline]
    pub fn handle_received(&mut self, now: Instant, bytes: u64, packets: u64) -> Option<ArrivalReport> {
        if let Some((at, reported, counted)) = self.last {
            let elapsed = now.saturating_since(at);
            let new = bytes - reported;
            let enough = new >= Self::BYTES
                || (new >= Self::FEW && elapsed >= Self::MAX_INTERVAL)
                || elapsed >= Self::LONGEST;
            if elapsed < Self::INTERVAL || packets == counted || !enough {
                return None;
            }
        } else if packets == 0 {
            return None;
        }
        self.last = Some((now, bytes, packets));
        Some(ArrivalReport { at: now.as_nanos() / 1000, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_report_stands_on_the_wire_as_specified() {
        let report = ArrivalReport { at: 0x0102_0304_0506_0708, bytes: 0xfedc };
        let bytes = report.encode();
        assert_eq!(bytes, *b"\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\xfe\xdc");
        assert_eq!(ArrivalReport::decode(&bytes), report);
    }

    #[test]
    fn reports_come_every_few_packets_and_never_for_reports_alone() {
        let mut reporting = Reporting::default();
        let mut due =
            |ms, bytes, packets| reporting.handle_received(at(ms), bytes, packets).map(|r| (r.at, r.bytes));
        assert_eq!(due(5, 19, 0), None, "a report");
        assert_eq!(due(6, 1500, 1), Some((6000, 1500)));
        assert_eq!(due(15, 12_000, 8), None, "too early");
        assert_eq!(due(16, 12_000, 8), Some((16_000, 12_000)));
        assert_eq!(due(40, 20_000, 13), None, "too few");
        assert_eq!(due(266, 20_000, 13), Some((266_000, 20_000)));
        assert_eq!(due(600, 22_000, 23), None, "next to nothing");
        assert_eq!(due(1016, 22_000, 23), Some((1_016_000, 22_000)));
        assert_eq!(due(60_000, 112_000, 23), None, "reports only");
        assert_eq!(due(60_001, 112_060, 24), Some((60_001_000, 112_060)));
    }
}
