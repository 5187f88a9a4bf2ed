//! Packet captures with several interfaces and comments: the pcapng file of draft-ietf-opsawg-pcapng, with nanoseconds and bare
//! IP packets (`LINKTYPE_RAW`), in little-endian byte order.
//!
//! A file is a section header block, an interface description block for each interface, and an enhanced packet block for each
//! packet. Only what is written here is there: no secrets, no name resolution, no statistics.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const VERSION: [u16; 2] = [1, 0];
const UNKNOWN_LENGTH: u64 = u64::MAX;
const LINKTYPE_RAW: u16 = 101;
/// `if_tsresol`: a power of ten.
const NANOSECONDS: u8 = 9;

/// The options that are written (§3.5, §4.1, §4.2).
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const USER_APPLICATION: u16 = 4;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const INTERFACE_DESCRIPTION: u16 = 3;
    pub(super) const INTERFACE_SPEED: u16 = 8;
    pub(super) const TIMESTAMP_RESOLUTION: u16 = 9;
}

/// An interface of a capture, by its place among those that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// What a capture says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub description: &'a str,
    /// Its rate, bit/s.
    pub speed: Option<u64>,
    /// Bytes kept of a packet.
    pub snap_len: u32,
}

/// Writes packets as a pcapng file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// For each interface.
    snap_lens: Vec<u32>,
    /// A block while it is put together.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the section header: the program that makes the capture, and comments about all of it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: W, application: &str, comments: &[String]) -> io::Result<Self> {
        let mut writer = Writer { out, snap_lens: Vec::new(), block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.block.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        writer.block.extend(VERSION.into_iter().flat_map(u16::to_le_bytes));
        writer.block.extend(UNKNOWN_LENGTH.to_le_bytes());
        for comment in comments {
            writer.option(option::COMMENT, comment.as_bytes());
        }
        writer.option(option::USER_APPLICATION, application.as_bytes());
        writer.end(true)?;
        Ok(writer)
    }

    /// Describes an interface. Packets can be of it from then on.
    ///
    /// # Errors
    /// Those of the output.
    pub fn add_interface(&mut self, interface: &Interface<'_>) -> io::Result<InterfaceId> {
        self.begin(INTERFACE_DESCRIPTION);
        // Two bytes are reserved.
        self.block.extend(LINKTYPE_RAW.to_le_bytes());
        self.block.extend([0; 2]);
        self.block.extend(interface.snap_len.to_le_bytes());
        self.option(option::INTERFACE_NAME, interface.name.as_bytes());
        self.option(option::INTERFACE_DESCRIPTION, interface.description.as_bytes());
        if let Some(speed) = interface.speed {
            self.option(option::INTERFACE_SPEED, &speed.to_le_bytes());
        }
        self.option(option::TIMESTAMP_RESOLUTION, &[NANOSECONDS]);
        self.end(true)?;
        self.snap_lens.push(interface.snap_len);
        Ok(InterfaceId(self.snap_lens.len() as u32 - 1))
    }

    /// Writes one packet of `packet_len` bytes, of which `bytes` is the first part or all, with a comment unless it is empty.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(
        &mut self,
        (interface, time_nanos): (InterfaceId, u64),
        (bytes, packet_len): (&[u8], u32),
        comment: &str,
    ) -> io::Result<()> {
        let snap_len = self.snap_lens.get(interface.0 as usize).copied().unwrap_or(u32::MAX);
        let kept = &bytes[..bytes.len().min(snap_len as usize)];
        self.begin(ENHANCED_PACKET);
        let fields = [
            interface.0,
            (time_nanos >> 32) as u32,
            time_nanos as u32,
            kept.len() as u32,
            packet_len.max(kept.len() as u32),
        ];
        self.block.extend(fields.into_iter().flat_map(u32::to_le_bytes));
        self.block.extend_from_slice(kept);
        self.pad();
        if !comment.is_empty() {
            self.option(option::COMMENT, comment.as_bytes());
        }
        self.end(!comment.is_empty())
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes what is buffered in the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        // The length, which is known at the end.
        self.block.extend([0; 4]);
    }

    /// An option of at most 65 535 bytes, of which the rest is left out.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    /// Fills up to 32 bits.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Ends the block; its options too, if it has any.
    fn end(&mut self, options: bool) -> io::Result<()> {
        if options {
            self.option(option::END, &[]);
        }
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend(length);
        self.out.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Two 16-bit fields as they lie in a 32-bit word.
    const fn pair(low: u16, high: u16) -> u32 {
        (high as u32) << 16 | low as u32
    }

    const CORE: Interface<'static> =
        Interface { name: "core", description: "a to b", speed: Some(5_000_000_000), snap_len: 6 };

    #[test]
    fn the_section_header_is_as_the_draft_has_it() {
        let writer = Writer::new(Vec::new(), "abcd", &["seed 7".to_owned()]).unwrap();
        let mut expected = words(&[0x0a0d_0d0a, 52, 0x1a2b_3c4d, pair(1, 0), u32::MAX, u32::MAX, pair(1, 6)]);
        expected.extend(b"seed 7\0\0");
        expected.extend(words(&[pair(4, 4)]));
        expected.extend(b"abcd");
        expected.extend(words(&[0, 52]));
        assert_eq!(writer.into_inner(), expected);
    }

    #[test]
    fn an_interface_has_its_name_speed_and_nanoseconds() {
        let mut writer = Writer::new(Vec::new(), "", &[]).unwrap();
        let start = writer.out.len();
        assert_eq!(writer.add_interface(&CORE).unwrap(), InterfaceId(0));
        let file = &writer.out[start..];
        let mut expected = words(&[1, 64, pair(101, 0), 6, pair(2, 4)]);
        expected.extend(b"core");
        expected.extend(words(&[pair(3, 6)]));
        expected.extend(b"a to b\0\0");
        expected.extend(words(&[pair(8, 8), 705_032_704, 1, pair(9, 1), 9, 0, 64]));
        assert_eq!(file, expected);
        assert_eq!(writer.add_interface(&CORE).unwrap(), InterfaceId(1));
    }

    #[test]
    fn a_packet_is_cut_padded_and_commented() {
        let mut writer = Writer::new(Vec::new(), "", &[]).unwrap();
        let core = writer.add_interface(&CORE).unwrap();
        for (comment, options) in [("", &[][..]), ("lost", &[pair(1, 4), u32::from_le_bytes(*b"lost"), 0])] {
            let start = writer.out.len();
            writer.write((core, 0x0102_0304_0506_0708), (b"abcdefgh", 60), comment).unwrap();
            let length = 40 + 4 * options.len() as u32;
            let mut expected = words(&[6, length, 0, 0x0102_0304, 0x0506_0708, 6, 60]);
            expected.extend(b"abcdef\0\0");
            expected.extend(words(options));
            expected.extend(words(&[length]));
            assert_eq!(&writer.out[start..], expected, "{comment:?}");
        }
    }

    #[test]
    fn a_comment_longer_than_an_option_is_cut_and_the_file_stays_whole() {
        let mut writer = Writer::new(Vec::new(), "", &[]).unwrap();
        let core = writer.add_interface(&CORE).unwrap();
        let start = writer.out.len();
        writer.write((core, 0), (b"abcd", 4), &"x".repeat(70_000)).unwrap();
        let block = &writer.out[start..];
        let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        assert_eq!(word(4) as usize, block.len());
        assert_eq!(word(block.len() - 4), word(4));
        assert_eq!(word(32), pair(1, u16::MAX));
    }
}
