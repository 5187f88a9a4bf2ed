//! A TCP segment as a trunk looks at it: what it says, not what it carries.

use trunkline_packet::{Fragment, Headers, TcpFlags, TcpView, protocol};
use trunkline_units::Seq;

/// TCP option kinds of selective acknowledgements (RFC 2018 §§2, 3).
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

/// The parts of a whole TCP segment, or super-segment, that matter on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) seq: Seq,
    /// Behind the last sequence number it takes up; SYN and FIN take one each (RFC 9293 §3.4).
    pub(crate) end: Seq,
    pub(crate) ack: Seq,
    pub(crate) window: u16,
    pub(crate) flags: TcpFlags,
    /// Bytes of data.
    pub(crate) payload: u32,
}

impl Segment {
    /// Reads the segment of a packet with these headers. `prefix` is the packet's start, with all of the TCP
    /// header. `None` for fragments, other protocols and what is malformed.
    #[inline]
    pub(crate) fn parse(headers: &Headers, prefix: &[u8]) -> Option<Self> {
        if headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
            return None;
        }
        let view = TcpView::new(prefix.get(headers.transport_offset..)?).ok()?;
        let payload = headers.transport_len().checked_sub(view.header_len())? as u32;
        let (seq, flags) = (Seq(view.seq()), view.flags());
        let controls = u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
        Some(Segment {
            seq,
            end: seq + (payload + controls),
            ack: Seq(view.ack()),
            window: view.window(),
            flags,
            payload,
        })
    }

    /// Whether it takes up sequence numbers, so that its receiver must acknowledge it.
    pub(crate) fn is_sequenced(&self) -> bool {
        self.seq != self.end
    }
}

/// What a TCP packet's options say of selective acknowledgements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sacks {
    /// Its sender knows them (a SYN's option).
    pub(crate) permitted: bool,
    /// The highest right edge among its blocks, if it has any.
    pub(crate) highest: Option<Seq>,
}

impl Sacks {
    /// Those of a packet with these headers, whose start is `prefix`.
    pub(crate) fn parse(headers: &Headers, prefix: &[u8]) -> Self {
        let mut sacks = Sacks::default();
        let view = prefix.get(headers.transport_offset..).and_then(|rest| TcpView::new(rest).ok());
        let mut rest = view.map(|view| view.options()).unwrap_or_default();
        // At most 40 bytes of options, each step takes one at least.
        while let [kind, tail @ ..] = rest {
            match (*kind, tail) {
                (END, _) => break,
                (NO_OPERATION, _) => rest = tail,
                (kind, [len, ..]) if *len >= 2 && usize::from(*len) <= rest.len() => {
                    let (option, next) = rest.split_at(usize::from(*len));
                    if kind == SACK {
                        for block in option[2..].as_chunks::<8>().0 {
                            let edge = Seq(u32::from_be_bytes([block[4], block[5], block[6], block[7]]));
                            sacks.highest = Some(sacks.highest.map_or(edge, |known| later(known, edge)));
                        }
                    }
                    sacks.permitted |= kind == SACK_PERMITTED;
                    rest = next;
                }
                _ => break,
            }
        }
        sacks
    }
}

/// The later of two sequence numbers.
pub(crate) fn later(a: Seq, b: Seq) -> Seq {
    if a.before(b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_packet::build::{self, Ip, Tcp};

    fn packet(flags: TcpFlags, options: &'static [u8], payload: &[u8]) -> Vec<u8> {
        let tcp = Tcp { ports: (1, 2), seq: u32::MAX - 1, ack: 77, flags, window: 9, options };
        build::tcp(&Ip::v6(), &tcp, payload)
    }

    fn headers(bytes: &[u8]) -> Headers {
        Headers::parse(bytes, bytes.len()).expect("a packet")
    }

    fn parse(bytes: &[u8]) -> Option<Segment> {
        Segment::parse(&headers(bytes), bytes)
    }

    #[test]
    fn syn_and_fin_take_a_sequence_number_and_the_end_wraps() {
        let data = packet(TcpFlags::ACK | TcpFlags::FIN, &[], b"abc");
        let segment = parse(&data).expect("a segment");
        assert_eq!((segment.end, segment.payload, segment.ack, segment.window), (Seq(2), 3, Seq(77), 9));
        let syn = packet(TcpFlags::SYN, &[], b"");
        assert!(parse(&syn).is_some_and(|s| s.is_sequenced() && s.end == Seq(u32::MAX)));
        let ack = packet(TcpFlags::ACK, &[], b"");
        assert!(parse(&ack).is_some_and(|s| !s.is_sequenced()));
    }

    #[test]
    fn the_highest_sack_edge_is_found_behind_other_options_and_across_the_wrap() {
        // NOP, NOP, SACK of two blocks: [0xfffffff0, 0xfffffff8) and [4, 9).
        const OPTIONS: &[u8] =
            &[1, 1, 5, 18, 0xff, 0xff, 0xff, 0xf0, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 4, 0, 0, 0, 9];
        let bytes = packet(TcpFlags::ACK, OPTIONS, b"");
        assert_eq!(Sacks::parse(&headers(&bytes), &bytes).highest, Some(Seq(9)));
        // A length that lies ends the search.
        for options in [&[5_u8, 40, 0, 0][..], &[5, 0, 0, 0], &[1, 1, 1, 5]] {
            let tcp = Tcp { ports: (1, 2), seq: 0, ack: 0, flags: TcpFlags::ACK, window: 9, options };
            let bytes = build::tcp(&Ip::v4(), &tcp, b"");
            assert_eq!(Sacks::parse(&headers(&bytes), &bytes).highest, None, "{options:?}");
        }
    }

    #[test]
    fn other_protocols_and_fragments_are_no_segments() {
        let udp = build::udp(&Ip::v4(), (1, 2), b"x");
        assert!(parse(&udp).is_none());
        let mut fragment = packet(TcpFlags::ACK, &[], b"x");
        fragment = build::tcp(
            &Ip::v4(),
            &Tcp { ports: (1, 2), seq: 0, ack: 0, flags: TcpFlags::ACK, window: 0, options: &[] },
            &fragment,
        );
        fragment[6] = 0x20;
        assert!(parse(&fragment).is_none());
    }
}
