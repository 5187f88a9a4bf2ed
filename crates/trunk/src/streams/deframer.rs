//! The receiving side of a stream: bytes into frames.

use super::StreamError;
use crate::frame::{Frame, MAX_HEAD};

/// Memory of a frame that was cut is kept for the next one up to this, bytes.
const KEPT: usize = 4 << 10;

/// Takes the bytes of a stream in order, and gives its frames. After an error it must not be used again.
///
/// It keeps the start of one frame at most: 65 546 bytes, of which it takes only so much memory as has come.
#[derive(Debug, Default)]
pub struct Deframer {
    /// The start of a frame that is not complete.
    cut: Vec<u8>,
}

impl Deframer {
    /// Bytes of a frame that is not complete.
    pub const fn kept_bytes(&self) -> usize {
        self.cut.len()
    }

    /// Takes the next bytes, and passes on each frame that is complete, with what follows its head.
    ///
    /// # Errors
    /// What is wrong with the stream, and the errors of `deliver`.
    pub fn handle_bytes<E: From<StreamError>>(
        &mut self,
        mut bytes: &[u8],
        mut deliver: impl FnMut(&Frame, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.cut.is_empty() {
                let decoded = decode(bytes)?;
                let whole = decoded.as_ref().and_then(|(frame, head_len)| {
                    Some((frame, bytes.get(*head_len..head_len + frame.content_len())?))
                });
                let Some((frame, content)) = whole else {
                    self.cut.extend_from_slice(bytes);
                    return Ok(());
                };
                deliver(frame, content)?;
                bytes = &bytes[decoded.map_or(0, |(_, head_len)| head_len) + content.len()..];
                continue;
            }
            // No frame is shorter than the longest head, so nothing of the next one gets in here.
            let Some((frame, head_len)) = decode(&self.cut)? else {
                self.take(&mut bytes, MAX_HEAD);
                // An error is told as soon as the bytes that show it have come, wherever they are cut.
                if decode(&self.cut)?.is_none() {
                    return Ok(());
                }
                continue;
            };
            self.take(&mut bytes, head_len + frame.content_len());
            if self.cut.len() < head_len + frame.content_len() {
                return Ok(());
            }
            deliver(&frame, &self.cut[head_len..])?;
            self.cut.clear();
            if self.cut.capacity() > KEPT {
                self.cut = Vec::new();
            }
        }
        Ok(())
    }

    /// Moves bytes to what is kept, until that has `len`.
    fn take(&mut self, bytes: &mut &[u8], len: usize) {
        let missing = len.saturating_sub(self.cut.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        self.cut.extend_from_slice(taken);
        *bytes = rest;
    }
}

/// The head of the frame that starts `bytes`, and its length; `None` if more bytes are needed.
fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, StreamError> {
    let decoded = Frame::decode(bytes)?;
    match decoded {
        Some((frame, _)) if !frame.stands_alone() => Err(StreamError::Dependent),
        decoded => Ok(decoded),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_packet::Offload;
    use trunkline_units::Rng;

    use super::*;
    use crate::frame::{FrameError, FrameHead, MAX_PACKET};

    fn framed(packet: &[u8]) -> Vec<u8> {
        let mut room = [0; MAX_HEAD];
        let head =
            FrameHead { packet_len: packet.len(), offload: Offload::Checksum { start: 20, offset: 6 } };
        let len = head.encode_before(&mut room);
        [&room[MAX_HEAD - len..], packet].concat()
    }

    /// The packets that come out of a stream that arrives in such pieces.
    fn deframe(stream: &[u8], mut piece: impl FnMut() -> usize) -> Result<Vec<Vec<u8>>, StreamError> {
        let (mut deframer, mut packets, mut rest) = (Deframer::default(), Vec::new(), stream);
        while !rest.is_empty() {
            let (bytes, next) = rest.split_at(piece().clamp(1, rest.len()));
            rest = next;
            deframer.handle_bytes(bytes, |frame, content| {
                assert_eq!(content.len(), frame.content_len());
                packets.push(content.to_vec());
                Ok::<(), StreamError>(())
            })?;
            assert!(deframer.kept_bytes() < MAX_HEAD + MAX_PACKET);
        }
        assert_eq!(deframer.kept_bytes(), 0, "the stream ends with a frame");
        Ok(packets)
    }

    #[test]
    fn frames_come_out_whole_however_the_stream_is_cut() {
        let mut rng = Rng::new(5, "deframer");
        let lengths = [20, 21, 60, 1500, 1499, 65_535, 20, 9000, 64_000];
        let packets: Vec<Vec<u8>> =
            lengths.iter().map(|len| (0..*len).map(|_| rng.below(256) as u8).collect()).collect();
        let stream: Vec<u8> = packets.iter().flat_map(|packet| framed(packet)).collect();
        for most in [1, 2, 7, 11, 40, 1400, 70_000, 1 << 20] {
            assert_eq!(deframe(&stream, || 1 + rng.below(most) as usize).as_ref(), Ok(&packets), "{most}");
        }
        assert_eq!(deframe(&stream, || usize::MAX).as_ref(), Ok(&packets));
    }

    #[test]
    fn memory_of_a_long_frame_is_given_back() {
        let mut deframer = Deframer::default();
        let long = framed(&vec![1; 60_000]);
        let mut got = 0;
        for bytes in long.chunks(1000) {
            let count = |_: &Frame, _: &[u8]| {
                got += 1;
                Ok::<(), StreamError>(())
            };
            deframer.handle_bytes(bytes, count).expect("a sound stream");
        }
        assert_eq!((got, deframer.kept_bytes(), deframer.cut.capacity()), (1, 0, 0));
    }

    #[test]
    fn what_is_no_frame_or_depends_on_others_is_an_error_wherever_it_is_cut() {
        let unknown = StreamError::Frame(FrameError::UnknownKind { kind: 0x7f });
        let dependent = [0x80, 0x03, 0x21, 0x22].map(|kind| (kind, StreamError::Dependent));
        for (kind, error) in dependent.into_iter().chain([(0x7f, unknown)]) {
            let mut stream = framed(&[9; 100]);
            stream.extend([0, 50, kind]);
            stream.extend([0; 50]);
            for most in [1, 3, 1000] {
                assert_eq!(deframe(&stream, || most), Err(error), "{kind:#x} in pieces of {most}");
            }
            // Nothing comes behind the longest head.
            let first = framed(&[9; 100]).len();
            stream.truncate(first + MAX_HEAD);
            let mut pieces = [first + 2, MAX_HEAD - 2].into_iter();
            let result = deframe(&stream, || pieces.next().expect("two pieces"));
            assert_eq!(result, Err(error), "{kind:#x} at the end");
        }
    }

    /// The vector of docs/wire-format.md.
    #[test]
    fn two_streams_are_the_bytes_of_the_specification() {
        let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let head = FrameHead { packet_len: packet.len(), offload: Offload::None };
        let mut room = [0; MAX_HEAD];
        let len = head.encode_before(&mut room);
        assert_eq!(room[MAX_HEAD - len..], [0, 20, 1]);
        let stream = [&room[MAX_HEAD - len..], &packet].concat();
        // Cut behind its tenth byte, as by two QUIC packets.
        assert_eq!(deframe(&stream, || 10), Ok(vec![packet.to_vec()]));
    }
}
