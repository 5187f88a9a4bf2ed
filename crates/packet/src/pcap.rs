//! Packet captures: the classic pcap file with nanoseconds and bare IP packets (`LINKTYPE_RAW`), as in
//! draft-ietf-opsawg-pcap §4 and §5.

use std::io::{self, Write};

use thiserror::Error;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const LINKTYPE_RAW: u32 = 101;
const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// Writes packets as a pcap file, in little-endian byte order.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    snap_len: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the file header. Of each packet at most `snap_len` bytes will be kept.
    pub fn new(mut out: W, snap_len: u32) -> io::Result<Self> {
        let mut header = [0; FILE_HEADER_LEN];
        header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&snap_len.to_le_bytes());
        header[20..].copy_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.write_all(&header)?;
        Ok(Self { out, snap_len })
    }

    /// Writes one packet of `packet_len` bytes, of which `bytes` is the first part or all.
    pub fn write(&mut self, time_nanos: u64, bytes: &[u8], packet_len: u32) -> io::Result<()> {
        let kept = &bytes[..bytes.len().min(self.snap_len as usize)];
        let fields = [
            (time_nanos / 1_000_000_000) as u32,
            (time_nanos % 1_000_000_000) as u32,
            kept.len() as u32,
            packet_len.max(kept.len() as u32),
        ];
        let mut header = [0; RECORD_HEADER_LEN];
        for (to, field) in header.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        self.out.write_all(&header)?;
        self.out.write_all(kept)
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was captured.
    pub time_nanos: u64,
    /// Its length at that time, bytes.
    pub packet_len: u32,
    /// The captured bytes, from its start.
    pub bytes: &'a [u8],
}

/// A file is not a capture of IP packets, or ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PcapError {
    /// The file ends within a header or a packet.
    #[error("capture cut short: needs {need} bytes, has {have}")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// The first four bytes are not those of a pcap file.
    #[error("not a pcap file: magic number {have:#010x}")]
    Magic {
        /// What they are, read little-endian.
        have: u32,
    },
    /// The packets are not bare IP packets.
    #[error("link type {have} where only raw IP ({LINKTYPE_RAW}) is read")]
    LinkType {
        /// The link type.
        have: u32,
    },
}

/// Reads the packets of a pcap file in either byte order, with micro- or nanoseconds. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    big_endian: bool,
    fraction_nanos: u64,
}

impl<'a> Reader<'a> {
    /// Reads the file header.
    pub fn new(file: &'a [u8]) -> Result<Self, PcapError> {
        let Some((header, rest)) = file.split_first_chunk::<FILE_HEADER_LEN>() else {
            return Err(PcapError::Truncated { need: FILE_HEADER_LEN, have: file.len() });
        };
        let magic = field(header, 0, false);
        let (big_endian, fraction_nanos) = match (magic, magic.swap_bytes()) {
            (MAGIC_NANOSECONDS, _) => (false, 1),
            (MAGIC_MICROSECONDS, _) => (false, 1000),
            (_, MAGIC_NANOSECONDS) => (true, 1),
            (_, MAGIC_MICROSECONDS) => (true, 1000),
            (have, _) => return Err(PcapError::Magic { have }),
        };
        let link_type = field(header, 20, big_endian) & 0xffff;
        if link_type != LINKTYPE_RAW {
            return Err(PcapError::LinkType { have: link_type });
        }
        Ok(Self { rest, big_endian, fraction_nanos })
    }

    fn record(&mut self) -> Result<Record<'a>, PcapError> {
        let Some((header, rest)) = self.rest.split_first_chunk::<RECORD_HEADER_LEN>() else {
            return Err(PcapError::Truncated { need: RECORD_HEADER_LEN, have: self.rest.len() });
        };
        let word = |at| field(header, at, self.big_endian);
        let need = word(8) as usize;
        let (bytes, rest) =
            rest.split_at_checked(need).ok_or(PcapError::Truncated { need, have: rest.len() })?;
        let time_nanos = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.fraction_nanos;
        self.rest = rest;
        Ok(Record { time_nanos, packet_len: word(12), bytes })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

fn field(header: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 4).unwrap();
        writer.write(1_000_000_002, b"abc", 3).unwrap();
        writer.write(5, b"abcdef", 60).unwrap();
        writer.into_inner()
    }

    #[test]
    fn what_was_written_is_read() {
        let file = capture();
        let records: Vec<_> = Reader::new(&file).unwrap().map(Result::unwrap).collect();
        let expected = [
            Record { time_nanos: 1_000_000_002, packet_len: 3, bytes: b"abc" },
            Record { time_nanos: 5, packet_len: 60, bytes: b"abcd" },
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn the_file_header_is_that_of_raw_ip_with_nanoseconds() {
        let expected = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 101, 0, 0, 0];
        assert_eq!(capture()[..24], expected);
    }

    #[test]
    fn microseconds_and_the_other_byte_order_are_read() {
        let mut file = Vec::new();
        for word in [MAGIC_MICROSECONDS, 0x0002_0004, 0, 0, 100, LINKTYPE_RAW, 2, 3, 1, 9] {
            file.extend(word.to_be_bytes());
        }
        file.push(0x45);
        let records: Vec<_> = Reader::new(&file).unwrap().collect();
        assert_eq!(records, [Ok(Record { time_nanos: 2_000_003_000, packet_len: 9, bytes: &[0x45] })]);
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_and_then_the_end() {
        let file = capture();
        let ends = [24, 24 + 16 + 3, file.len()];
        for cut in 0..file.len() {
            let clean = Reader::new(&file[..cut]).is_ok_and(|mut reader| reader.all(|record| record.is_ok()));
            assert_eq!(clean, ends.contains(&cut), "{cut}");
        }
        let mut reader = Reader::new(&file[..30]).unwrap();
        assert_eq!(reader.next(), Some(Err(PcapError::Truncated { need: 16, have: 6 })));
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn other_files_are_refused() {
        let mut file = capture();
        file[20] = 1;
        assert_eq!(Reader::new(&file).err(), Some(PcapError::LinkType { have: 1 }));
        file[0] = 0;
        assert_eq!(Reader::new(&file).err(), Some(PcapError::Magic { have: 0xa1b2_3c00 }));
    }
}
