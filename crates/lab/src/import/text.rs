//! Text of the bytes of a file, whatever program wrote it.

use super::{ImportError, of_all};

/// How files begin that are no text, and what to do with them.
const OTHERS: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "the file is compressed (gzip); unpack it first"),
    (b"\xfd7zXZ", "the file is compressed (xz); unpack it first"),
    (b"\x28\xb5\x2f\xfd", "the file is compressed (zstd); unpack it first"),
    (b"PK\x03\x04", "the file is an archive or a spreadsheet; unpack it, or save its table as CSV"),
    (b"PAR1", "the file is Parquet; write its table as CSV"),
    (b"\xd4\xc3\xb2\xa1", "the file is a capture of packets; allowed: a recording of rates over time"),
    (b"\x0a\x0d\x0d\x0a", "the file is a capture of packets; allowed: a recording of rates over time"),
];

/// With `\n` at the end of each line, and without a byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<String, ImportError> {
    if let Some((_, what)) = OTHERS.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return Err(of_all(*what));
    }
    let wide = |of: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
        char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    let text: String = match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        // What is not ASCII stands in names of columns that are not read.
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    if text.contains('\0') {
        return Err(of_all("the file is no text; allowed: a table, a trace of mahimahi, a log of iperf3"));
    }
    Ok(text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_other_systems_is_read_with_the_same_lines() {
        let wide =
            |of: fn(u16) -> [u8; 2]| -> Vec<u8> { "\u{feff}a\r\nb".encode_utf16().flat_map(of).collect() };
        for bytes in [
            b"a\nb".to_vec(),
            b"a\rb".to_vec(),
            b"\xef\xbb\xbfa\r\nb".to_vec(),
            wide(u16::to_le_bytes),
            wide(u16::to_be_bytes),
        ] {
            assert_eq!(decode(&bytes).as_deref(), Ok("a\nb"), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_told_with_what_to_do() {
        for (bytes, told) in [(&b"\x1f\x8b\x08"[..], "unpack"), (b"PK\x03\x04", "CSV"), (b"a\0b", "no text")]
        {
            let said = decode(bytes).expect_err(told).to_string();
            assert!(said.contains(told), "{said}");
        }
    }
}
