//! Bytes and numbers of a compressed header. A number is written seven bits to the byte, the least significant first, and
//! the high bit says that more follow; a difference that may be negative is folded to 0, −1, 1, −2, 2 … first.

use super::{CompressError, MAX_FIELDS};

/// Writes the fields of one header. They fit: [`MAX_FIELDS`] is the sum of the longest of each.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8; MAX_FIELDS],
    len: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8; MAX_FIELDS]) -> Self {
        Writer { bytes, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn byte(&mut self, value: u8) {
        self.bytes[self.len] = value;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pair(&mut self, value: u16) {
        let [high, low] = value.to_be_bytes();
        self.byte(high);
        self.byte(low);
    }

    /// One to five bytes.
    #[inline]
    pub(super) fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
}

/// Reads the fields of one header from bytes that may be anything.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Bytes read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, CompressError> {
        let byte = *self.bytes.get(self.at).ok_or(CompressError::Truncated { have: self.bytes.len() })?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn pair(&mut self) -> Result<u16, CompressError> {
        Ok(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u32, CompressError> {
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| CompressError::Number);
            }
        }
        Err(CompressError::Number)
    }

    /// A number of 16 bits.
    #[inline]
    pub(super) fn short(&mut self) -> Result<u16, CompressError> {
        u16::try_from(self.number()?).map_err(|_| CompressError::Number)
    }
}

/// The way from `was` to `is`, folded, so that a short way either direction is a small number.
#[inline]
pub(super) fn fold32(was: u32, is: u32) -> u32 {
    let way = is.wrapping_sub(was).cast_signed();
    (way << 1 ^ way >> 31).cast_unsigned()
}

/// Undoes [`fold32`].
#[inline]
pub(super) fn unfold32(was: u32, folded: u32) -> u32 {
    was.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg())
}

/// [`fold32`] for 16 bits.
#[inline]
pub(super) fn fold16(was: u16, is: u16) -> u32 {
    let way = is.wrapping_sub(was).cast_signed();
    u32::from((way << 1 ^ way >> 15).cast_unsigned())
}

/// Undoes [`fold16`].
#[inline]
pub(super) fn unfold16(was: u16, folded: u16) -> u16 {
    was.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: u32) -> Vec<u8> {
        let mut bytes = [0; MAX_FIELDS];
        let mut writer = Writer::new(&mut bytes);
        writer.number(value);
        let len = writer.len();
        bytes[..len].to_vec()
    }

    #[test]
    fn a_number_takes_a_byte_for_each_seven_bits() {
        for (value, bytes) in [
            (0, vec![0]),
            (127, vec![0x7f]),
            (128, vec![0x80, 1]),
            (2896, vec![0xd0, 0x16]),
            (u32::MAX, vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            assert_eq!(written(value), bytes);
            assert_eq!(Reader::new(&bytes).number(), Ok(value));
        }
    }

    #[test]
    fn a_number_beyond_its_bits_or_cut_short_is_an_error() {
        let number = |bytes: &[u8]| Reader::new(bytes).number();
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff, 0x10]), Err(CompressError::Number));
        assert_eq!(number(&[0x80, 0x80, 0x80, 0x80, 0x80, 0]), Err(CompressError::Number));
        assert_eq!(number(&[0x80]), Err(CompressError::Truncated { have: 1 }));
        assert_eq!(Reader::new(&[0xff, 0xff, 3]).short(), Ok(0xffff));
        assert_eq!(Reader::new(&[0x80, 0x80, 4]).short(), Err(CompressError::Number));
    }

    #[test]
    fn a_short_way_in_either_direction_is_a_small_number_across_the_wrap_too() {
        for (was, is, folded) in [(5, 5, 0), (5, 4, 1), (5, 6, 2), (0, u32::MAX, 1), (u32::MAX, 1, 4)] {
            assert_eq!(fold32(was, is), folded);
            assert_eq!(unfold32(was, folded), is);
        }
        for was in [0, 1, 0x7fff, 0x8000, 0xffff] {
            for is in (0..=u16::MAX).step_by(7) {
                assert_eq!(unfold16(was, fold16(was, is) as u16), is);
            }
        }
    }
}
