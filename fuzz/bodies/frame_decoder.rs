//! What holds for any bytes that claim to be a lane's stream of frames. Run by the fuzz target of this name and,
//! over the committed corpus, by the tests of `trunkline-trunk`.

use std::sync::Arc;

use trunkline_packet::Segmenter;
use trunkline_trunk::bonding::{Order, Places, Resequencer, Turn};
use trunkline_trunk::frame::{Frame, FrameError, FrameHead, MAX_HEAD, MAX_PACKET, MIN_PACKET};
use trunkline_trunk::{ArrivalReport, PeerId, Receiver, SequenceNumber};
use trunkline_units::Instant;

/// The part of a packet that a receiver is shown.
const PREFIX: usize = 256;

/// Reads `data` as a receiver does: frame by frame until it ends or errs.
pub(crate) fn run(data: &[u8]) {
    let everywhere = ["0.0.0.0/0", "2000::/3"].map(|prefix| (prefix.parse().expect("a prefix"), PeerId(0)));
    let mut receiver = Receiver::new(PeerId(0), Arc::new(everywhere.into_iter().collect()));
    let (mut ordered, mut places) = (Ordered::default(), Places::default());
    let mut frames = 0;
    let mut rest = data;
    loop {
        let (frame, len) = match Frame::decode(rest) {
            Ok(Some(decoded)) => decoded,
            Ok(None) => {
                assert!(rest.len() < MAX_HEAD, "a head of {MAX_HEAD} bytes is the longest");
                break;
            }
            Err(FrameError::UnknownKind { kind }) => {
                assert_eq!(kind, rest[2]);
                break;
            }
            Err(FrameError::TooShort { length }) => {
                assert!(length < MIN_PACKET);
                break;
            }
            Err(FrameError::ShortReport { length }) => {
                assert!(length < ArrivalReport::BYTES);
                break;
            }
            Err(FrameError::ShortNumber { length }) => {
                assert!(length < SequenceNumber::BYTES);
                break;
            }
            Err(FrameError::ShortOrder { length }) => {
                assert!(length < Order::BYTES && length != Places::SHORT);
                break;
            }
            Err(FrameError::Truncated { .. }) => unreachable!("a decoder cannot know that the stream ended"),
        };
        if let (Frame::Number { .. }, Some(number)) = (frame, rest[len..].first_chunk()) {
            let number = SequenceNumber::decode(number);
            let _ = receiver.handle_number(number);
            assert!(!receiver.handle_number(number), "no number passes twice");
        }
        if let Frame::Order { len: content } = frame
            && let Some(order) = rest[len..].get(..content).and_then(|content| places.decode(content))
        {
            place(order, data.len() - rest.len(), &mut ordered);
        }
        // What is in compressed frames is for the target `header_decompressor`.
        let Frame::Packet { head, context } = frame else {
            rest = rest[len..].get(frame.content_len()..).unwrap_or_default();
            continue;
        };
        assert!((MIN_PACKET..=MAX_PACKET).contains(&head.packet_len));
        one_form(head, context, &rest[..len]);
        let Some(packet) = rest[len..].get(..head.packet_len) else { break };
        packet_behind(head, packet, &mut receiver);
        frames += 1;
        rest = &rest[len + head.packet_len..];
    }
    ordered.out += std::iter::from_fn(|| ordered.resequencer.poll()).count();
    ordered.resequencer.handle_timeout(Instant::from_millis(u64::MAX / 1_000_000_000));
    ordered.out += std::iter::from_fn(|| ordered.resequencer.poll()).count();
    assert_eq!(
        (ordered.out, ordered.resequencer.held_bytes()),
        (ordered.taken, 0),
        "nothing is lost, or comes twice"
    );
    let stats = receiver.stats();
    let refused = stats.malformed + stats.bad_offload + stats.forged_source;
    assert_eq!(stats.frames + refused, frames, "every frame is passed on or refused");
    assert!(stats.segments >= stats.frames && stats.bytes as usize <= data.len());
}

/// Packets with places in an order.
#[derive(Default)]
struct Ordered {
    resequencer: Resequencer<usize>,
    taken: usize,
    out: usize,
}

/// Takes the packet at `at` with this place; each byte of the stream is a millisecond.
fn place(order: Order, at: usize, ordered: &mut Ordered) {
    let now = Instant::from_millis(at as u64);
    ordered.taken += 1;
    match ordered.resequencer.handle(now, order) {
        Turn::Now => ordered.out += 1,
        Turn::Early => ordered.resequencer.hold(now, order, at, 60_000),
        Turn::Again => ordered.taken -= 1,
    }
    assert!(ordered.resequencer.held_bytes() <= Resequencer::<usize>::MAX_BYTES);
    ordered.resequencer.handle_timeout(now);
    assert!(ordered.resequencer.poll_timeout().is_none_or(|timeout| timeout > now));
}

/// A head is written in one way only, and no part of it is taken for a whole.
fn one_form(head: FrameHead, context: Option<u8>, bytes: &[u8]) {
    let mut room = [0; MAX_HEAD];
    let written = match context {
        None => head.encode_before(&mut room),
        Some(context) => head.encode_context_before(context, &mut room),
    };
    assert_eq!(&room[MAX_HEAD - written..], bytes);
    for short in 0..bytes.len() {
        assert_eq!(Frame::decode(&bytes[..short]), Ok(None));
    }
}

/// What a receiver passes on, the device can be given: its offload fits, so it can be segmented.
fn packet_behind(head: FrameHead, packet: &[u8], receiver: &mut Receiver) {
    let prefix = &packet[..packet.len().min(PREFIX)];
    let Ok((headers, offload)) = receiver.handle_frame(&head, prefix) else { return };
    assert_eq!(headers.packet_len, packet.len());
    assert_eq!(offload.check(&headers), Ok(()));
    let mut segmenter = Segmenter::new(packet, &headers, offload).expect("the offload was checked");
    let mut out = vec![0; segmenter.longest()];
    let mut segments = 0;
    while segmenter.next_into(&mut out).is_some() {
        segments += 1;
    }
    assert_eq!(segments, offload.segments(packet.len()));
}
