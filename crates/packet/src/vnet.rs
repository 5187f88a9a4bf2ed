//! The header that Linux puts before every packet of a TUN with `IFF_VNET_HDR`.
//!
//! `struct virtio_net_hdr` of the virtio specification 1.2 §5.1.6, in native byte order as Linux has it unless
//! told otherwise by `TUNSETVNETLE`: flags, type, header length, segment size, checksum start and offset.

use crate::{Offload, OffloadError, SegmentKind, Segmentation};

/// Bytes in the header.
pub const VNET_LEN: usize = 10;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;

const TYPE_NONE: u8 = 0;
const TYPE_TCP4: u8 = 1;
const TYPE_TCP6: u8 = 4;
const TYPE_UDP: u8 = 5;
const TYPE_ECN: u8 = 0x80;

impl Offload {
    /// Reads the header. `DATA_VALID` is dropped: it says that a checksum is right, not that one is missing.
    #[inline]
    pub fn from_vnet(header: &[u8; VNET_LEN]) -> Result<Self, OffloadError> {
        let [flags, kind, fields @ ..] = header;
        let field = |at: usize| u16::from_ne_bytes([fields[at], fields[at + 1]]);
        if flags & !(FLAG_NEEDS_CHECKSUM | FLAG_DATA_VALID) != 0 {
            return Err(OffloadError::UnknownFlags { have: *flags });
        }
        let partial = flags & FLAG_NEEDS_CHECKSUM != 0;
        let (segment_kind, ecn) = match *kind {
            TYPE_NONE if partial => return Ok(Self::Checksum { start: field(4), offset: field(6) }),
            TYPE_NONE => return Ok(Self::None),
            TYPE_TCP4 => (SegmentKind::Tcp4, false),
            TYPE_TCP6 => (SegmentKind::Tcp6, false),
            TYPE_UDP => (SegmentKind::Udp, false),
            have if have == TYPE_TCP4 | TYPE_ECN => (SegmentKind::Tcp4, true),
            have if have == TYPE_TCP6 | TYPE_ECN => (SegmentKind::Tcp6, true),
            have => return Err(OffloadError::UnsupportedType { have }),
        };
        if !partial {
            return Err(OffloadError::ChecksumMissing);
        }
        Ok(Self::Segments(Segmentation {
            kind: segment_kind,
            ecn,
            size: field(2),
            header_len: field(0),
            checksum_start: field(4),
            checksum_offset: field(6),
        }))
    }

    /// Writes the header.
    #[inline]
    #[must_use]
    pub fn to_vnet(&self) -> [u8; VNET_LEN] {
        let (flags, kind, fields) = match *self {
            Self::None => (0, TYPE_NONE, [0; 4]),
            Self::Checksum { start, offset } => (FLAG_NEEDS_CHECKSUM, TYPE_NONE, [0, 0, start, offset]),
            Self::Segments(segmentation) => {
                let kind = match segmentation.kind {
                    SegmentKind::Tcp4 => TYPE_TCP4,
                    SegmentKind::Tcp6 => TYPE_TCP6,
                    SegmentKind::Udp => TYPE_UDP,
                };
                let ecn =
                    if segmentation.ecn && segmentation.kind != SegmentKind::Udp { TYPE_ECN } else { 0 };
                let Segmentation { size, header_len, checksum_start, checksum_offset, .. } = segmentation;
                (FLAG_NEEDS_CHECKSUM, kind | ecn, [header_len, size, checksum_start, checksum_offset])
            }
        };
        let [a, b, c, d] = fields.map(u16::to_ne_bytes);
        [flags, kind, a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(flags: u8, kind: u8, fields: [u16; 4]) -> [u8; VNET_LEN] {
        let fields = fields.iter().flat_map(|field| field.to_ne_bytes());
        [flags, kind].into_iter().chain(fields).collect::<Vec<_>>().try_into().unwrap()
    }

    fn segments(kind: SegmentKind, ecn: bool) -> Offload {
        Offload::Segments(Segmentation {
            kind,
            ecn,
            size: 1448,
            header_len: 52,
            checksum_start: 20,
            checksum_offset: 16,
        })
    }

    #[test]
    fn each_header_means_one_offload() {
        let fields = [52, 1448, 20, 16];
        for (flags, kind, expected) in [
            (0, 0, Ok(Offload::None)),
            (2, 0, Ok(Offload::None)),
            (1, 0, Ok(Offload::Checksum { start: 20, offset: 16 })),
            (3, 0, Ok(Offload::Checksum { start: 20, offset: 16 })),
            (1, 1, Ok(segments(SegmentKind::Tcp4, false))),
            (1, 4, Ok(segments(SegmentKind::Tcp6, false))),
            (1, 5, Ok(segments(SegmentKind::Udp, false))),
            (1, 0x81, Ok(segments(SegmentKind::Tcp4, true))),
            (1, 0x84, Ok(segments(SegmentKind::Tcp6, true))),
            (0, 1, Err(OffloadError::ChecksumMissing)),
            (2, 5, Err(OffloadError::ChecksumMissing)),
            (1, 3, Err(OffloadError::UnsupportedType { have: 3 })),
            (1, 2, Err(OffloadError::UnsupportedType { have: 2 })),
            (1, 0x80, Err(OffloadError::UnsupportedType { have: 0x80 })),
            (1, 0x85, Err(OffloadError::UnsupportedType { have: 0x85 })),
            (4, 1, Err(OffloadError::UnknownFlags { have: 4 })),
        ] {
            assert_eq!(Offload::from_vnet(&header(flags, kind, fields)), expected, "{flags} {kind:#x}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_again(bytes: [u8; VNET_LEN]) {
            if let Ok(offload) = Offload::from_vnet(&bytes) {
                prop_assert_eq!(Offload::from_vnet(&offload.to_vnet()), Ok(offload));
            }
        }
    }
}
