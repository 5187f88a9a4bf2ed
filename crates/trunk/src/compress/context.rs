//! What both ends remember of a flow, and how a header is said by its differences from it.

use trunkline_packet::{TcpFlags, Version};

use super::CompressError;
use super::header::{Chain, Checksum, Fields, Header, Sack};
use super::number::{Reader, Writer, fold16, fold32, unfold16, unfold32};

/// Bits of a compressed frame's kind, below 0x80, which all of them have.
pub(super) mod kind {
    /// The context's number follows; otherwise it is that of the compressed frame, or the one that made a context,
    /// before.
    pub(in super::super) const CONTEXT: u8 = 0x40;
    /// A byte of [`extension`](super::extension) bits follows.
    pub(in super::super) const EXTENSION: u8 = 0x20;
    /// TCP's PSH flag.
    pub(in super::super) const PUSH: u8 = 0x10;
    /// The sequence number is not where the data before it ended.
    pub(in super::super) const SEQ: u8 = 0x08;
    /// The acknowledgement moved.
    pub(in super::super) const ACK: u8 = 0x04;
    /// The window changed.
    pub(in super::super) const WINDOW: u8 = 0x02;
    /// A timestamp changed.
    pub(in super::super) const TIMESTAMPS: u8 = 0x01;
    /// Those that only TCP has.
    pub(in super::super) const TCP: u8 = PUSH | SEQ | ACK | WINDOW | TIMESTAMPS;
}

/// Bits of the extension: what changes seldom.
pub(super) mod extension {
    /// The IPv4 identification is not the expected one.
    pub(in super::super) const ID: u8 = 0x01;
    /// There are SACK blocks.
    pub(in super::super) const SACK: u8 = 0x02;
    /// TCP flags other than PSH changed.
    pub(in super::super) const FLAGS: u8 = 0x04;
    /// The time to live or hop limit changed.
    pub(in super::super) const HOP_LIMIT: u8 = 0x08;
    /// DSCP or ECN changed.
    pub(in super::super) const TRAFFIC_CLASS: u8 = 0x10;
    /// The urgent pointer changed.
    pub(in super::super) const URGENT: u8 = 0x20;
    /// What becomes of the checksum changed.
    pub(in super::super) const CHECKSUM: u8 = 0x40;
    /// Means nothing yet.
    pub(in super::super) const RESERVED: u8 = 0x80;
    /// Those that only TCP has.
    pub(in super::super) const TCP: u8 = SACK | FLAGS | URGENT;
}

/// The last header of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) chain: Chain,
    fields: Fields,
    /// Where the last packet's data ended.
    next_seq: u32,
    /// What the identification is expected to grow by: 1, or 0 after it stayed the same. Linux counts up for
    /// connected sockets and leaves 0 in other packets that must not be fragmented.
    id_step: u16,
}

impl Context {
    pub(super) fn new(header: &Header, payload_len: usize) -> Self {
        let fields = header.fields;
        let next_seq = fields.seq.wrapping_add(payload_len as u32);
        Context { chain: header.chain, fields, next_seq, id_step: 1 }
    }

    /// Takes note of a packet, after it was said or understood.
    #[inline]
    pub(super) fn advance(&mut self, fields: Fields, payload_len: usize) {
        self.next_seq = fields.seq.wrapping_add(payload_len as u32);
        self.id_step = u16::from(fields.id != self.fields.id);
        self.fields = fields;
    }

    fn expected_id(&self) -> u16 {
        match self.chain.version {
            Version::V4 => self.fields.id.wrapping_add(self.id_step),
            Version::V6 => 0,
        }
    }

    /// Writes the fields of a header whose chain is this context's; `number` is the context's, if it must be
    /// said. Returns the bits of the frame's kind.
    #[inline]
    pub(super) fn encode(&self, header: &Header, number: Option<u8>, out: &mut Writer) -> u8 {
        let (was, is, sack) = (&self.fields, &header.fields, &header.sack);
        let mut bits = 0;
        if let Some(number) = number {
            bits |= kind::CONTEXT;
            out.byte(number);
        }
        let seldom = self.seldom(header);
        if seldom != 0 {
            bits |= kind::EXTENSION;
            out.byte(seldom);
            self.encode_seldom(seldom, is, out);
        }
        if self.chain.tcp {
            if is.push {
                bits |= kind::PUSH;
            }
            if is.seq != self.next_seq {
                bits |= kind::SEQ;
                out.number(fold32(self.next_seq, is.seq));
            }
            if is.ack != was.ack {
                bits |= kind::ACK;
                out.number(is.ack.wrapping_sub(was.ack));
            }
            if is.window != was.window {
                bits |= kind::WINDOW;
                out.number(fold16(was.window, is.window));
            }
            if (is.ts_value, is.ts_echo) != (was.ts_value, was.ts_echo) {
                bits |= kind::TIMESTAMPS;
                out.number(is.ts_value.wrapping_sub(was.ts_value));
                out.number(is.ts_echo.wrapping_sub(was.ts_echo));
            }
            if sack.count > 0 {
                encode_sack(sack, is.ack, out);
            }
        }
        if is.checksum == Checksum::Complete {
            out.pair(is.sum);
        }
        bits
    }

    /// The bits of the extension.
    #[inline]
    fn seldom(&self, header: &Header) -> u8 {
        let (was, is) = (&self.fields, &header.fields);
        let bit = |changed: bool, bit: u8| if changed { bit } else { 0 };
        bit(is.id != self.expected_id(), extension::ID)
            | bit(header.sack.count > 0, extension::SACK)
            | bit(is.flags != was.flags, extension::FLAGS)
            | bit(is.hop_limit != was.hop_limit, extension::HOP_LIMIT)
            | bit(is.traffic_class != was.traffic_class, extension::TRAFFIC_CLASS)
            | bit(is.urgent != was.urgent, extension::URGENT)
            | bit(is.checksum != was.checksum, extension::CHECKSUM)
    }

    fn encode_seldom(&self, bits: u8, is: &Fields, out: &mut Writer) {
        if bits & extension::ID != 0 {
            out.number(fold16(self.expected_id(), is.id));
        }
        for (bit, value) in [
            (extension::FLAGS, is.flags),
            (extension::HOP_LIMIT, is.hop_limit),
            (extension::TRAFFIC_CLASS, is.traffic_class),
        ] {
            if bits & bit != 0 {
                out.byte(value);
            }
        }
        if bits & extension::URGENT != 0 {
            out.pair(is.urgent);
        }
        if bits & extension::CHECKSUM != 0 {
            out.byte(match is.checksum {
                Checksum::Complete => 0,
                Checksum::Open => 1,
                Checksum::Absent => 2,
            });
        }
    }

    /// Reads the fields of a frame whose kind has `bits`, from behind the context's number, which is `number`.
    #[inline]
    pub(super) fn decode(&self, bits: u8, number: u8, input: &mut Reader) -> Result<Header, CompressError> {
        let chain = self.chain;
        let mut is = self.fields;
        let field = |fields| Err(CompressError::Field { context: number, fields });
        let unknown = match (chain.tcp, chain.timestamps) {
            (false, _) => bits & kind::TCP,
            (true, false) => bits & kind::TIMESTAMPS,
            (true, true) => 0,
        };
        if unknown != 0 {
            return field(unknown);
        }
        is.id = self.expected_id();
        let mut seldom = 0;
        if bits & kind::EXTENSION != 0 {
            seldom = input.byte()?;
            if seldom & extension::RESERVED != 0 {
                return Err(CompressError::Value { value: seldom });
            }
            let mut unknown = if chain.tcp { 0 } else { seldom & extension::TCP };
            if chain.version == Version::V6 {
                unknown |= seldom & extension::ID;
            }
            if unknown != 0 {
                return field(unknown);
            }
            decode_seldom(seldom, chain.tcp, &mut is, input)?;
        }
        let mut sack = Sack::default();
        if chain.tcp {
            is.push = bits & kind::PUSH != 0;
            is.seq = self.next_seq;
            if bits & kind::SEQ != 0 {
                is.seq = unfold32(self.next_seq, input.number()?);
            }
            if bits & kind::ACK != 0 {
                is.ack = is.ack.wrapping_add(input.number()?);
            }
            if bits & kind::WINDOW != 0 {
                is.window = unfold16(is.window, input.short()?);
            }
            if bits & kind::TIMESTAMPS != 0 {
                is.ts_value = is.ts_value.wrapping_add(input.number()?);
                is.ts_echo = is.ts_echo.wrapping_add(input.number()?);
            }
            if seldom & extension::SACK != 0 {
                sack = decode_sack(is.ack, chain.sack_limit(), input)?;
            }
        }
        is.sum = if is.checksum == Checksum::Complete { input.pair()? } else { 0 };
        Ok(Header { chain, fields: is, sack })
    }
}

fn decode_seldom(bits: u8, tcp: bool, is: &mut Fields, input: &mut Reader) -> Result<(), CompressError> {
    if bits & extension::ID != 0 {
        is.id = unfold16(is.id, input.short()?);
    }
    if bits & extension::FLAGS != 0 {
        let value = input.byte()?;
        if value & TcpFlags::PSH.0 != 0 {
            return Err(CompressError::Value { value });
        }
        is.flags = value;
    }
    if bits & extension::HOP_LIMIT != 0 {
        is.hop_limit = input.byte()?;
    }
    if bits & extension::TRAFFIC_CLASS != 0 {
        is.traffic_class = input.byte()?;
    }
    if bits & extension::URGENT != 0 {
        is.urgent = input.pair()?;
    }
    if bits & extension::CHECKSUM != 0 {
        is.checksum = match input.byte()? {
            0 => Checksum::Complete,
            1 => Checksum::Open,
            2 if !tcp => Checksum::Absent,
            value => return Err(CompressError::Value { value }),
        };
    }
    Ok(())
}

/// The count, then for each block the way from the acknowledgement to its left edge, and its length.
fn encode_sack(sack: &Sack, ack: u32, out: &mut Writer) {
    out.byte(sack.count as u8);
    for (left, right) in &sack.blocks[..sack.count] {
        out.number(left.wrapping_sub(ack));
        out.number(right.wrapping_sub(*left));
    }
}

fn decode_sack(ack: u32, limit: usize, input: &mut Reader) -> Result<Sack, CompressError> {
    let value = input.byte()?;
    let mut sack = Sack { count: usize::from(value), ..Sack::default() };
    if sack.count == 0 || sack.count > limit {
        return Err(CompressError::Value { value });
    }
    for block in &mut sack.blocks[..sack.count] {
        let left = ack.wrapping_add(input.number()?);
        *block = (left, left.wrapping_add(input.number()?));
    }
    Ok(sack)
}
