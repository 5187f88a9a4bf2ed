//! TCP packets that are read and changed in place, and plain acknowledgements.

use trunkline_packet::{Fragment, Headers, PacketError, TcpFlags, TcpView, checksum, protocol};
use trunkline_trunk::path_tail::Acknowledgement;
use trunkline_units::Seq;

use super::Path;
use crate::tcp_packet::tcp_packet;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// Offsets in the TCP header.
const ACK: usize = 8;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;

/// A whole TCP packet.
#[derive(Debug)]
pub struct TcpPacket<'a> {
    bytes: &'a mut [u8],
    headers: Headers,
    header_len: usize,
}

impl<'a> TcpPacket<'a> {
    /// Reads a packet. `None` if it is no TCP, or a fragment.
    ///
    /// # Errors
    /// Its headers are broken.
    pub fn parse(bytes: &'a mut [u8]) -> Result<Option<Self>, PacketError> {
        let headers = Headers::parse(bytes, bytes.len())?;
        if headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
            return Ok(None);
        }
        let header_len = TcpView::new(&bytes[headers.transport_offset..])?.header_len();
        Ok(Some(TcpPacket { bytes, headers, header_len }))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none; no packet is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its headers.
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Its flags.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.tcp()[13])
    }

    /// Its sequence number.
    pub fn seq(&self) -> Seq {
        Seq(self.number(4))
    }

    /// Its acknowledgement number.
    pub fn ack(&self) -> Seq {
        Seq(self.number(ACK))
    }

    /// Its window, as it is written.
    pub fn window(&self) -> u16 {
        let tcp = self.tcp();
        u16::from_be_bytes([tcp[WINDOW], tcp[WINDOW + 1]])
    }

    /// Its bytes of data.
    pub fn payload_len(&self) -> u32 {
        self.headers.transport_len().saturating_sub(self.header_len) as u32
    }

    /// The shift that it offers, of a SYN.
    pub fn window_scale(&self) -> Option<u8> {
        let options = &self.tcp()[20..self.header_len];
        self.options()
            .find(|(kind, at, len)| *kind == WINDOW_SCALE && *len == 3 && at + 2 < options.len())
            .map(|(_, at, _)| options[at + 2].min(14))
    }

    /// Acknowledges this, with this window.
    pub fn set_ack(&mut self, ack: Seq, window: u16) {
        let ack = ack.0.to_be_bytes();
        self.set_word(ACK, [ack[0], ack[1]]);
        self.set_word(ACK + 2, [ack[2], ack[3]]);
        self.set_word(WINDOW, window.to_be_bytes());
    }

    /// Removes what would tell of more than acknowledgements do: SACK and time stamps.
    pub fn remove_options(&mut self) {
        let found: Vec<(usize, usize)> = self
            .options()
            .filter(|(kind, _, _)| matches!(*kind, SACK_PERMITTED | SACK | TIMESTAMPS))
            .map(|(_, at, len)| (20 + at, len))
            .collect();
        for (at, len) in found {
            for byte in at..at + len {
                let even = byte & !1;
                let tcp = self.tcp();
                let mut word = [tcp[even], tcp[even + 1]];
                word[byte & 1] = NO_OPERATION;
                self.set_word(even, word);
            }
        }
    }

    fn tcp(&self) -> &[u8] {
        &self.bytes[self.headers.transport_offset..]
    }

    fn number(&self, at: usize) -> u32 {
        let tcp = self.tcp();
        u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]])
    }

    /// Kind, offset and length of each option, up to the first malformed one.
    fn options(&self) -> impl Iterator<Item = (u8, usize, usize)> {
        let options = &self.tcp()[20..self.header_len];
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                match *options.get(at)? {
                    END_OF_OPTIONS => return None,
                    NO_OPERATION => at += 1,
                    kind => {
                        let len = usize::from(*options.get(at + 1)?);
                        if len < 2 || at + len > options.len() {
                            return None;
                        }
                        at += len;
                        return Some((kind, at - len, len));
                    }
                }
            }
        })
    }

    /// Changes a word of the TCP header at an even offset, and the checksum with it.
    fn set_word(&mut self, at: usize, new: [u8; 2]) {
        let tcp = &mut self.bytes[self.headers.transport_offset..];
        let old = u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let sum = u16::from_be_bytes([tcp[CHECKSUM], tcp[CHECKSUM + 1]]);
        let sum = checksum::update(sum, old, u16::from_be_bytes(new));
        tcp[at..at + 2].copy_from_slice(&new);
        tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A plain acknowledgement from the end behind the proxy.
pub(super) fn acknowledgement(path: Path, Acknowledgement { seq, ack, window }: Acknowledgement) -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[0..2].copy_from_slice(&path.behind.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&path.network.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&seq.0.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.0.to_be_bytes());
    (tcp[12], tcp[13]) = (5 << 4, TcpFlags::ACK.0);
    tcp[WINDOW..WINDOW + 2].copy_from_slice(&window.to_be_bytes());
    tcp_packet(path.behind.ip(), path.network.ip(), &mut tcp)
}
