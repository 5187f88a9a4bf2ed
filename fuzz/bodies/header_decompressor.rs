//! What holds for any bytes that claim to be a lane's stream of frames with compressed headers. Run by the fuzz
//! target of this name and, over the committed corpus, by the tests of `trunkline-trunk`.

use trunkline_packet::{Headers, Offload};
use trunkline_trunk::compress::{
    CompressError, Compression, Compressor, Decompressor, MAX_FIELDS, MAX_FRAMED, MAX_HEADER, Single, Whole,
};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_PACKET};

/// Reads `data` as a receiver does, until it ends or errs; what was restored is compressed again and must come
/// back the same.
pub(crate) fn run(data: &[u8]) {
    let mut decompressor = Decompressor::new();
    let (mut compressor, mut second) = (Compressor::new(Compression::On, 1), Decompressor::new());
    let (mut restored, mut contexts) = (0, 0);
    let mut rest = data;
    while let Ok(Some((frame, len))) = Frame::decode(rest) {
        let Some(content) = rest[len..].get(..frame.content_len()) else { break };
        rest = &rest[len + content.len()..];
        match frame {
            Frame::Packet { head, context: Some(context) } => {
                match decompressor.establish(context, &head, content) {
                    Ok(()) => contexts += 1,
                    Err(CompressError::NoForm { context: named, reason }) => {
                        assert_eq!(named, context);
                        assert!(!matches!(reason, Whole::Pause | Whole::Context | Whole::SuperPacket));
                        break;
                    }
                    Err(other) => panic!("{other} of a packet that travelled whole"),
                }
                again(content, head.offload, &mut compressor, &mut second);
            }
            Frame::Packet { context: None, .. }
            | Frame::Report { .. }
            | Frame::Number { .. }
            | Frame::Order { .. } => {}
            Frame::Compressed { bits, len } => {
                let mut header = [0; MAX_HEADER];
                // No more of it than a receiver must have at hand.
                let prefix = &content[..len.min(MAX_FIELDS)];
                let Ok(made) = decompressor.restore(bits, prefix, len, &mut header) else { break };
                restored += 1;
                assert!(made.consumed <= prefix.len() && made.header_len <= MAX_HEADER);
                let packet = [&header[..made.header_len], &content[made.consumed..]].concat();
                well_formed(&packet, &made.head);
                again(&packet, made.head.offload, &mut compressor, &mut second);
            }
        }
    }
    let stats = decompressor.stats();
    assert_eq!((stats.restored, stats.contexts), (restored, contexts));
}

/// A restored header has the packet's length, and an offload that fits it.
fn well_formed(packet: &[u8], head: &FrameHead) {
    assert_eq!(packet.len(), head.packet_len);
    assert!(packet.len() <= MAX_PACKET);
    let headers = Headers::parse(packet, packet.len()).expect("its lengths are computed");
    assert_eq!(head.offload.check(&headers), Ok(()));
}

fn again(packet: &[u8], offload: Offload, compressor: &mut Compressor, decompressor: &mut Decompressor) {
    let mut out = [0; MAX_FRAMED];
    let framed = compressor.frame(&Single { head: packet, len: packet.len(), offload }, &mut out);
    let frame = [&out[..framed.len], &packet[framed.replaced..]].concat();
    let (head, len) = Frame::decode(&frame).expect("our own").expect("all of it");
    match head {
        Frame::Packet { head, context } => {
            assert_eq!((&frame[len..], head.offload), (packet, offload));
            if let Some(context) = context {
                decompressor.establish(context, &head, packet).expect("our own");
            }
        }
        Frame::Compressed { bits, len: content } => {
            let mut header = [0; MAX_HEADER];
            let made = decompressor.restore(bits, &frame[len..], content, &mut header).expect("our own");
            let restored = [&header[..made.header_len], &frame[len + made.consumed..]].concat();
            assert_eq!((&restored[..], made.head.offload), (packet, offload));
        }
        Frame::Report { .. } | Frame::Number { .. } | Frame::Order { .. } => {
            panic!("a compressor makes packets")
        }
    }
}
