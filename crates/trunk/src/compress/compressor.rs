use trunkline_packet::{FlowHasher, Offload};

use super::context::Context;
use super::header::{Chain, Header};
use super::number::Writer;
use super::trial::Trial;
use super::{CONTEXTS, MAX_FIELDS, MAX_FRAMED, Whole};
use crate::flow;
use crate::frame::{self, FrameHead, MAX_HEAD};

/// Contexts that compete for one place.
const WAYS: usize = 8;
const SETS: usize = CONTEXTS / WAYS;

/// Whether a lane compresses what it sends. It understands what it receives either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Wherever it pays.
    #[default]
    On,
    /// Never.
    Off,
}

/// A packet about to be framed.
#[derive(Debug, Clone, Copy)]
pub struct Single<'a> {
    /// Its first bytes: its headers, or all there is of it.
    pub head: &'a [u8],
    /// Bytes in the whole packet, at most 65 535.
    pub len: usize,
    /// What is left to do on it.
    pub offload: Offload,
}

/// What goes before a packet, and how much of the packet it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramedHead {
    /// Bytes written.
    pub len: usize,
    /// Bytes at the start of the packet that are left out; 0 if it travels whole. `len` is at most [`MAX_HEAD`] more.
    pub replaced: usize,
}

/// What a compressor has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompressorStats {
    /// Packets compressed.
    pub compressed: u64,
    /// Packets sent whole, by [`Whole`].
    pub whole: [u64; Whole::ALL.len()],
    /// Contexts taken from one flow for another.
    pub replaced: u64,
    /// Pauses begun, because it did not pay.
    pub pauses: u64,
    /// Bytes of IP and transport headers of the packets that were compressed or made a context.
    pub header_bytes_before: u64,
    /// Bytes of theirs that were sent instead: all that precedes the payload but for the two of the length.
    pub header_bytes_after: u64,
}

impl CompressorStats {
    /// Packets sent whole for `reason`.
    pub const fn whole(&self, reason: Whole) -> u64 {
        self.whole[reason as usize]
    }

    /// Packets that travelled singly and were sent whole, for any reason.
    pub fn uncompressed(&self) -> u64 {
        self.whole.iter().sum::<u64>() - self.whole(Whole::SuperPacket)
    }
}

/// Contexts whose flows' hashes agree in their low bits; one of them is a context's number, together with the set's.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set {
    /// Upper half of each flow's hash.
    tags: [u32; WAYS],
    /// The packet that used it last; 0 if it was never made.
    used: [u32; WAYS],
}

/// The sending end of a lane's header compression.
///
/// Contexts are found and replaced as in a processor's cache: the flow's hash picks a set of eight, and the one of
/// them that was longest not used makes room. There is no search and no list, and the place is the number.
pub struct Compressor {
    compression: Compression,
    hasher: FlowHasher,
    sets: Box<[Set]>,
    /// One for each place; meaningless where its set says it was never made.
    contexts: Vec<Option<Context>>,
    /// The context of the last compressed frame, or of the last that made one.
    last: Option<u8>,
    /// Counts packets, for the age of contexts. It may wrap: ages are compared, not counts.
    clock: u32,
    trial: Trial,
    stats: CompressorStats,
}

impl Compressor {
    /// A compressor for a lane that has carried nothing yet. With [`Compression::Off`] it frames packets whole, and
    /// takes no memory. The key of the hash by which flows find their contexts follows from `seed`.
    pub fn new(compression: Compression, seed: u64) -> Self {
        let mut compressor = Compressor {
            compression: Compression::Off,
            hasher: flow::hasher(seed),
            sets: Box::default(),
            contexts: Vec::new(),
            last: None,
            clock: 0,
            trial: Trial::new(),
            stats: CompressorStats::default(),
        };
        compressor.set(compression);
        compressor
    }

    /// Compresses from now on, or does not. The receiving end need not know.
    pub fn set(&mut self, compression: Compression) {
        self.compression = compression;
        if compression == Compression::On && self.sets.is_empty() {
            self.sets = vec![Set { tags: [0; WAYS], used: [0; WAYS] }; SETS].into();
            self.contexts = vec![None; CONTEXTS];
        }
    }

    /// What it has done so far.
    pub const fn stats(&self) -> &CompressorStats {
        &self.stats
    }

    /// Writes what goes before the packet in the lane, frame head included, to the start of `out`. Every packet
    /// given here must be sent, in the same order.
    #[inline]
    pub fn frame(&mut self, packet: &Single, out: &mut [u8; MAX_FRAMED]) -> FramedHead {
        let hasher = self.hasher;
        self.frame_by(|chain| hasher.hash(&chain.flow()), packet, out)
    }

    /// The hash finds a context and is not believed: the chains are compared.
    #[inline]
    pub(super) fn frame_by(
        &mut self,
        hash: impl FnOnce(&Chain) -> u64,
        packet: &Single,
        out: &mut [u8; MAX_FRAMED],
    ) -> FramedHead {
        let plain = FrameHead { packet_len: packet.len, offload: packet.offload };
        if self.compression == Compression::Off {
            return whole(&plain, None, out);
        }
        if matches!(packet.offload, Offload::Segments(_)) {
            self.stats.whole[Whole::SuperPacket as usize] += 1;
            return whole(&plain, None, out);
        }
        if self.trial.pauses() {
            self.stats.whole[Whole::Pause as usize] += 1;
            return whole(&plain, None, out);
        }
        let framed = match Header::parse(packet.head, packet.len, packet.offload) {
            Ok(header) => self.compress(hash(&header.chain), &plain, &header, out),
            Err(reason) => {
                self.stats.whole[reason as usize] += 1;
                whole(&plain, None, out)
            }
        };
        let without = plain.encoded_len() + packet.len;
        if self.trial.note(without, framed.len + packet.len - framed.replaced) {
            self.stats.pauses += 1;
        }
        framed
    }

    fn compress(
        &mut self,
        flow: u64,
        plain: &FrameHead,
        header: &Header,
        out: &mut [u8; MAX_FRAMED],
    ) -> FramedHead {
        let header_len = header.len();
        let payload_len = plain.packet_len - header_len;
        let (number, known) = self.place(flow);
        self.stats.header_bytes_before += header_len as u64;
        if known
            && let Some(context) = &mut self.contexts[usize::from(number)]
            && context.chain == header.chain
        {
            let mut fields = [0; MAX_FIELDS];
            let mut writer = Writer::new(&mut fields);
            let said = (self.last != Some(number)).then_some(number);
            let bits = context.encode(header, said, &mut writer);
            let len = writer.len();
            debug_assert!(len < header_len, "each field is shorter than what it stands for, all together");
            context.advance(header.fields, payload_len);
            self.last = Some(number);
            self.stats.compressed += 1;
            self.stats.header_bytes_after += len as u64 + 1;
            let head = frame::compressed_head(bits, len + payload_len);
            out[..head.len()].copy_from_slice(&head);
            out[head.len()..head.len() + len].copy_from_slice(&fields[..len]);
            return FramedHead { len: head.len() + len, replaced: header_len };
        }
        self.contexts[usize::from(number)] = Some(Context::new(header, payload_len));
        self.last = Some(number);
        self.stats.whole[Whole::Context as usize] += 1;
        let framed = whole(plain, Some(number), out);
        self.stats.header_bytes_after += (header_len + framed.len) as u64 - 2;
        framed
    }

    /// The place of a flow's context, and whether it is there already; if not, the place is its from now on.
    #[inline]
    fn place(&mut self, flow: u64) -> (u8, bool) {
        let at = flow as usize % SETS;
        let tag = (flow >> 32) as u32;
        self.clock = self.clock.wrapping_add(1).max(1);
        let set = &mut self.sets[at];
        let known = (0..WAYS).find(|way| set.tags[*way] == tag && set.used[*way] != 0);
        let way = known.unwrap_or_else(|| {
            let age = |way: &usize| match set.used[*way] {
                0 => u32::MAX,
                used => self.clock.wrapping_sub(used),
            };
            (0..WAYS).rev().max_by_key(age).unwrap_or(0)
        });
        if known.is_none() && set.used[way] != 0 {
            self.stats.replaced += 1;
        }
        set.tags[way] = tag;
        set.used[way] = self.clock;
        ((at * WAYS + way) as u8, known.is_some())
    }
}

/// Writes the head of a packet that travels whole.
fn whole(plain: &FrameHead, context: Option<u8>, out: &mut [u8; MAX_FRAMED]) -> FramedHead {
    let mut room = [0; MAX_HEAD];
    let len = match context {
        None => plain.encode_before(&mut room),
        Some(context) => plain.encode_context_before(context, &mut room),
    };
    out[..len].copy_from_slice(&room[MAX_HEAD - len..]);
    FramedHead { len, replaced: 0 }
}
