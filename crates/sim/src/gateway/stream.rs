//! What a lane's stream of bytes consists of. The modelled TCP carries bytes without contents; the frames are kept
//! here, by where they end, until the far end has everything up to there.

use std::collections::VecDeque;

use trunkline_packet::Offload;
use trunkline_trunk::bonding::Places;
use trunkline_trunk::compress::{
    CompressError, Compression, Compressor, CompressorStats, Decompressor, MAX_FIELDS, MAX_FRAMED,
    MAX_HEADER, Single,
};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_ORDER_BYTES, NUMBER_BYTES, REPORT_BYTES, encode_order};
use trunkline_trunk::{ArrivalReport, Label};

use crate::Packet;

/// Bytes of a TLS 1.3 record around its content (RFC 8446 §5.2), and the maximum of its content.
const RECORD: u64 = 22;
const RECORD_CONTENT: u64 = 16_384;

/// A frame on its way.
#[derive(Debug)]
pub(crate) enum Framed {
    Packet {
        packet: Packet,
        /// What stands for its head where headers are compressed: bytes, and how many of the packet's they replace.
        head: Option<Box<([u8; MAX_FRAMED], u8, u8)>>,
    },
    Report(ArrivalReport),
    Label(Label),
}

/// What a frame holds.
#[derive(Debug)]
pub(crate) enum Content {
    Packet(Packet),
    Report(ArrivalReport),
    Label(Label),
}

/// The sending end of a lane's stream.
pub(crate) struct Stream {
    frames: VecDeque<(u64, Framed)>,
    /// Where the last frame ends.
    position: u64,
    /// Where the last batch ends.
    sealed_to: u64,
    /// Up to where the far end has everything.
    arrived: u64,
    compressor: Compressor,
    places: Places,
    compresses: bool,
    sealed: bool,
    bytes: Vec<u8>,
    spare: Vec<Framed>,
}

impl Stream {
    pub(crate) fn new(compression: Compression, sealed: bool, seed: u64) -> Self {
        Stream {
            frames: VecDeque::new(),
            position: 0,
            sealed_to: 0,
            arrived: 0,
            compressor: Compressor::new(compression, seed),
            places: Places::default(),
            compresses: compression == Compression::On,
            sealed,
            bytes: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Where the last frame ends.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    pub(crate) const fn compression(&self) -> &CompressorStats {
        self.compressor.stats()
    }

    /// Adds a packet to the end.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        let len = u64::from(packet.length());
        if !self.compresses {
            let head = FrameHead { packet_len: packet.length() as usize, offload: Offload::None };
            self.position += head.encoded_len() as u64 + len;
            self.frames.push_back((self.position, Framed::Packet { packet, head: None }));
            return;
        }
        // Compression asks for the checksums that a real packet would have.
        packet.checksummed(&mut self.bytes);
        let mut out = [0; MAX_FRAMED];
        let single = Single { head: &self.bytes, len: packet.length() as usize, offload: Offload::None };
        let framed = self.compressor.frame(&single, &mut out);
        self.position += len + framed.len as u64 - framed.replaced as u64;
        let head = Some(Box::new((out, framed.len as u8, framed.replaced as u8)));
        self.frames.push_back((self.position, Framed::Packet { packet, head }));
    }

    /// Adds the label of the next packet.
    pub(crate) fn push_label(&mut self, label: Label) {
        let bytes = match label {
            Label::Number(_) => NUMBER_BYTES,
            Label::Order(order) => encode_order(&mut self.places, order, &mut [0; MAX_ORDER_BYTES]),
        };
        self.position += bytes as u64;
        self.frames.push_back((self.position, Framed::Label(label)));
    }

    /// Adds a report, in a record of its own.
    pub(crate) fn push_report(&mut self, report: ArrivalReport) {
        self.position += REPORT_BYTES as u64;
        self.frames.push_back((self.position, Framed::Report(report)));
        self.seal();
    }

    /// Ends a batch: what was pushed since the last one is sealed, if the lane is.
    #[inline]
    pub(crate) fn seal(&mut self) {
        if self.sealed && self.position > self.sealed_to {
            let records = (self.position - self.sealed_to).div_ceil(RECORD_CONTENT) * RECORD;
            self.position += records;
            // A frame can be opened with its record only.
            if let Some((end, _)) = self.frames.back_mut() {
                *end += records;
            }
        }
        self.sealed_to = self.position;
    }

    /// The frames that are complete now that so many more bytes have arrived.
    pub(crate) fn arrive(&mut self, bytes: u64) -> Vec<Framed> {
        self.arrived += bytes;
        let mut complete = std::mem::take(&mut self.spare);
        while let Some((end, _)) = self.frames.front()
            && *end <= self.arrived
        {
            complete.extend(self.frames.pop_front().map(|(_, framed)| framed));
        }
        complete
    }

    /// Takes the memory of [`Stream::arrive`] back.
    pub(crate) fn reuse(&mut self, spare: Vec<Framed>) {
        self.spare = spare;
    }
}

/// What a frame holds, as the receiving end puts it together.
pub(crate) fn restore(framed: Framed, decompressor: &mut Decompressor) -> Result<Content, CompressError> {
    match framed {
        Framed::Packet { packet, head: None } => Ok(Content::Packet(packet)),
        Framed::Packet { packet, head: Some(head) } => {
            restore_packet(packet, &head, decompressor).map(Content::Packet)
        }
        Framed::Report(report) => Ok(Content::Report(report)),
        Framed::Label(label) => Ok(Content::Label(label)),
    }
}

fn restore_packet(
    packet: Packet,
    head: &([u8; MAX_FRAMED], u8, u8),
    decompressor: &mut Decompressor,
) -> Result<Packet, CompressError> {
    let (bytes, len, replaced) = (&head.0, usize::from(head.1), usize::from(head.2));
    let Ok(Some((frame, head_len))) = Frame::decode(&bytes[..len]) else {
        unreachable!("the compressor writes a whole head: {:?}", &bytes[..len])
    };
    match frame {
        Frame::Packet { head, context } => {
            if let Some(context) = context {
                let mut header = Vec::new();
                packet.checksummed(&mut header);
                decompressor.establish(context, &head, &header)?;
            }
            Ok(packet)
        }
        Frame::Compressed { bits, len: content } => {
            let fields = &bytes[head_len..len];
            // What follows the fields is the packet's own data: zeros.
            let mut prefix = [0; MAX_FIELDS];
            let have = content.min(MAX_FIELDS);
            prefix[..fields.len()].copy_from_slice(fields);
            let mut header = [0; MAX_HEADER];
            let restored = decompressor.restore(bits, &prefix[..have], content, &mut header)?;
            debug_assert_eq!(restored.header_len, replaced, "what was left out is what is put back");
            Ok(packet.rebuilt(&header[..restored.header_len], restored.head.packet_len as u32))
        }
        Frame::Report { .. } | Frame::Number { .. } | Frame::Order { .. } => {
            unreachable!("a compressor makes packets")
        }
    }
}
