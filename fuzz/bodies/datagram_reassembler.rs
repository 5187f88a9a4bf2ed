//! What holds for any datagrams that a peer sends in a lane. Run by the fuzz target of this name and, over the committed
//! corpus, by the tests of `trunkline-trunk`.

use std::time::Duration;

use trunkline_trunk::datagram::{DatagramError, HEAD_BYTES, Reassembler};
use trunkline_trunk::frame::{Frame, MAX_HEAD, MAX_PACKET};
use trunkline_units::Instant;

/// The maximum of bytes that a reassembler may keep.
const MAX_KEPT: usize = 256 << 10;

/// Reads `data` as datagrams, each behind its length (two bytes) and the milliseconds since the one before (one byte).
pub(crate) fn run(data: &[u8]) {
    let mut reassembler = Reassembler::default();
    let mut now = Instant::ZERO;
    let (mut rest, mut given, mut got) = (data, 0, 0);
    while let [high, low, wait, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (datagram, next) = tail.split_at(length);
        rest = next;
        now += Duration::from_millis((*wait).into());
        given += length;
        let result = reassembler.handle_datagram(now, datagram, |frame, content| {
            assert_eq!(content.len(), frame.content_len());
            assert!(content.len() <= MAX_PACKET);
            assert!(
                matches!(frame, Frame::Packet { context: None, .. } | Frame::Report { .. }),
                "{frame:?} depends on others"
            );
            got += content.len();
            Ok::<(), DatagramError>(())
        });
        match result {
            Err(DatagramError::TooShort { length: short }) => {
                assert!(short == length && length < HEAD_BYTES);
            }
            Err(DatagramError::CutHead { have }) => assert!(have < MAX_HEAD),
            Err(DatagramError::Mismatch { need, have }) => assert_ne!(need, have),
            _ => {}
        }
        assert!(reassembler.kept_bytes() <= MAX_KEPT);
        // Nothing is made of nothing, and nothing is given twice.
        assert!(got + reassembler.kept_bytes() <= given, "{got} of {given}");
    }
}
