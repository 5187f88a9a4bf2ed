//! Checked byte views of transport headers. Sources: RFC 9293 §3.1, RFC 768, RFC 792, RFC 4443 §2.1.

use crate::{Layer, PacketError};

/// The flags of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all of `flags` are set.
    #[inline]
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }
}

impl std::ops::BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A TCP header, with all its options.
#[derive(Debug, Clone, Copy)]
pub struct TcpView<'a> {
    fixed: &'a [u8; 20],
    options: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Views the header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let layer = Layer::Transport;
        let (fixed, rest) = bytes.split_first_chunk::<20>().ok_or(PacketError::Truncated {
            layer,
            need: 20,
            have: bytes.len(),
        })?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        if header_len < 20 {
            return Err(PacketError::HeaderLength { layer, need: 20, have: header_len });
        }
        let options = rest.get(..header_len - 20).ok_or(PacketError::Truncated {
            layer,
            need: header_len,
            have: bytes.len(),
        })?;
        Ok(Self { fixed, options })
    }

    /// Source port.
    pub fn source(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port.
    pub fn destination(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Sequence number.
    pub fn seq(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Acknowledgement number.
    pub fn ack(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// Header length in bytes, 20 to 60.
    pub fn header_len(&self) -> usize {
        20 + self.options.len()
    }

    /// The flags.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.fixed[13])
    }

    /// Window field, not scaled.
    pub fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// Checksum field.
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[16], self.fixed[17]])
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        u16::from_be_bytes([self.fixed[18], self.fixed[19]])
    }

    /// The options with their padding.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }
}

/// A UDP header.
#[derive(Debug, Clone, Copy)]
pub struct UdpView<'a> {
    fixed: &'a [u8; 8],
}

impl<'a> UdpView<'a> {
    /// Views the header at the start of `bytes`. Its length field is not compared with anything.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let need = 8;
        let fixed = bytes.first_chunk().ok_or(PacketError::Truncated {
            layer: Layer::Transport,
            need,
            have: bytes.len(),
        })?;
        Ok(Self { fixed })
    }

    /// Source port.
    pub fn source(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port.
    pub fn destination(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Length field: header and data, in bytes.
    pub fn length(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// Checksum field, 0 for none.
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }
}

/// The common start of ICMP and `ICMPv6` messages.
#[derive(Debug, Clone, Copy)]
pub struct IcmpView<'a> {
    fixed: &'a [u8; 8],
}

impl<'a> IcmpView<'a> {
    /// Views the message at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let need = 8;
        let fixed = bytes.first_chunk().ok_or(PacketError::Truncated {
            layer: Layer::Transport,
            need,
            have: bytes.len(),
        })?;
        Ok(Self { fixed })
    }

    /// Message type.
    pub fn kind(&self) -> u8 {
        self.fixed[0]
    }

    /// Message code.
    pub fn code(&self) -> u8 {
        self.fixed[1]
    }

    /// Checksum field.
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// The four bytes whose meaning depends on the type: identifier and sequence number, or an MTU.
    pub fn rest(&self) -> [u8; 4] {
        [self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Ip, Tcp};
    use crate::{Headers, build};

    #[test]
    fn a_tcp_view_reads_what_the_builder_wrote() {
        let tcp = Tcp {
            ports: (1, 2),
            seq: 3,
            ack: 4,
            flags: TcpFlags::ACK | TcpFlags::PSH,
            window: 5,
            options: &[1, 1, 1, 0],
        };
        let packet = build::tcp(&Ip::v4(), &tcp, b"data");
        let view = TcpView::new(&packet[20..]).unwrap();
        assert_eq!((view.source(), view.destination(), view.seq(), view.ack()), (1, 2, 3, 4));
        assert_eq!((view.window(), view.header_len(), view.options()), (5, 24, &[1, 1, 1, 0][..]));
        assert!(view.flags().contains(TcpFlags::ACK) && !view.flags().intersects(TcpFlags::SYN));
    }

    #[test]
    fn a_tcp_header_ends_where_its_data_offset_says() {
        let mut bytes = [0; 24];
        for (offset, expected) in [
            (4, Err(PacketError::HeaderLength { layer: Layer::Transport, need: 20, have: 16 })),
            (5, Ok(20)),
            (6, Ok(24)),
            (7, Err(PacketError::Truncated { layer: Layer::Transport, need: 28, have: 24 })),
        ] {
            bytes[12] = offset << 4;
            assert_eq!(TcpView::new(&bytes).map(|view| view.header_len()), expected);
        }
        assert!(TcpView::new(&bytes[..19]).is_err());
    }

    #[test]
    fn udp_and_icmp_views_read_what_the_builder_wrote() {
        let packet = build::udp(&Ip::v6(), (7, 8), b"data");
        let view = UdpView::new(&packet[40..]).unwrap();
        assert_eq!((view.source(), view.destination(), view.length()), (7, 8, 12));
        assert_ne!(view.checksum(), 0);
        let packet = build::icmp_echo(&Ip::v4(), 0x1234, 9, b"ping");
        let view = IcmpView::new(&packet[20..]).unwrap();
        assert_eq!((view.kind(), view.code(), view.rest()), (8, 0, [0x12, 0x34, 0, 9]));
        assert_eq!(Headers::parse(&packet, packet.len()).unwrap().icmp, Some((8, 0)));
        assert!(UdpView::new(&packet[..7]).is_err() && IcmpView::new(&packet[..7]).is_err());
    }
}
