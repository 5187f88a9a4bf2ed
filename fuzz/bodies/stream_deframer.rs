//! What holds for any bytes that a peer sends in a stream. Run by the fuzz target of this name and, over the committed corpus, by
//! the tests of `trunkline-trunk`.

use trunkline_trunk::frame::{Frame, FrameError, MAX_HEAD, MAX_PACKET};
use trunkline_trunk::streams::{Deframer, StreamError};

/// Frames of `stream`, which comes in pieces of `piece` bytes, and the error behind them.
fn deframe(stream: &[u8], piece: usize) -> (Vec<(Frame, Vec<u8>)>, Option<StreamError>) {
    let (mut deframer, mut frames, mut given, mut got) = (Deframer::default(), Vec::new(), 0, 0);
    for bytes in stream.chunks(piece) {
        given += bytes.len();
        let result = deframer.handle_bytes(bytes, |frame, content| {
            assert_eq!(content.len(), frame.content_len());
            assert!(
                matches!(frame, Frame::Packet { context: None, .. } | Frame::Report { .. }),
                "{frame:?} depends on others"
            );
            got += content.len();
            frames.push((*frame, content.to_vec()));
            Ok::<(), StreamError>(())
        });
        if let Err(error) = result {
            assert!(!matches!(error, StreamError::Ended | StreamError::Frame(FrameError::Truncated { .. })));
            return (frames, Some(error));
        }
        // Memory is that of one frame, and nothing is made of nothing.
        assert!(deframer.kept_bytes() < MAX_HEAD + MAX_PACKET);
        assert!(got + deframer.kept_bytes() <= given, "{got} of {given}");
    }
    (frames, None)
}

/// Reads `data` behind its first two bytes as a stream, whole and in pieces of as many bytes as these say.
pub(crate) fn run(data: &[u8]) {
    let Some((piece, stream)) = data.split_first_chunk() else { return };
    let piece = usize::from(u16::from_be_bytes(*piece)).max(1);
    assert_eq!(deframe(stream, piece), deframe(stream, stream.len().max(1)), "in pieces of {piece}");
}
