//! Text files that people write: how they are read, and the words for those that cannot be.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, absolute};

/// Reads a file of at most `limit` bytes that is text in UTF-8.
///
/// # Errors
/// What is wrong with it, in words that follow its name.
pub fn read_file(path: &Path, limit: u64) -> Result<String, String> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    read_at_most(file, size, limit, |error| unreadable(path, error)).and_then(read_utf8)
}

/// The same from what is no file.
///
/// # Errors
/// What is wrong with it, in words that follow its name.
pub fn read_input(input: impl Read, limit: u64) -> Result<String, String> {
    read_at_most(input, limit, limit, |error| format!("cannot be read: {error}")).and_then(read_utf8)
}

/// The bytes of an input that probably has `size` of them.
fn read_at_most(
    input: impl Read,
    size: u64,
    limit: u64,
    words: impl FnOnce(&io::Error) -> String,
) -> Result<Vec<u8>, String> {
    // With room for all of it, so that no copy of a key stays behind in memory; one byte more tells its end.
    let mut bytes = Vec::with_capacity(size.min(limit) as usize + 1);
    input.take(limit + 1).read_to_end(&mut bytes).map_err(|error| words(&error))?;
    if bytes.len() as u64 <= limit {
        return Ok(bytes);
    }
    let limit =
        if limit.is_multiple_of(1 << 20) { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    Err(format!("is too long; allowed: up to {limit}"))
}

/// The text in these bytes, without a byte order mark.
///
/// # Errors
/// What is wrong with their encoding, in words that follow their name.
fn read_utf8(bytes: Vec<u8>) -> Result<String, String> {
    const MARK: char = '\u{feff}';
    let is_utf16 = match bytes[..] {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        // ASCII without a byte order mark.
        [first, second, ..] => (first == 0) != (second == 0),
        _ => false,
    };
    if is_utf16 {
        return Err("is in UTF-16; allowed: UTF-8 (PowerShell: Out-File -Encoding utf8)".to_owned());
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + String::from_utf8_lossy(good).matches('\n').count();
        format!("is not in UTF-8 in line {line}; allowed: UTF-8")
    })?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    Ok(text)
}

/// Why a file cannot be opened or read, in words that follow its name.
fn unreadable(path: &Path, error: &io::Error) -> String {
    // Of a relative path it says where it was looked for.
    let whole = absolute(path).unwrap_or_else(|_| path.to_owned());
    let directory = whole.parent().unwrap_or(&whole);
    match error.kind() {
        io::ErrorKind::NotFound if fs::symlink_metadata(path).is_ok() => {
            let target = fs::read_link(path).unwrap_or_default();
            format!("is a symbolic link to {}, which does not exist", target.display())
        }
        io::ErrorKind::NotFound if directory.is_dir() => {
            format!("there is no such file in {}", directory.display())
        }
        io::ErrorKind::NotFound => format!("there is no directory {}", directory.display()),
        io::ErrorKind::IsADirectory => "is a directory, not a file".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("this user may not read it, or not enter {}", directory.display())
        }
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn a_byte_order_mark_is_left_out_and_other_encodings_are_named() {
        assert_eq!(read_utf8(b"\xef\xbb\xbfa = 1\r\n".to_vec()), Ok("a = 1\r\n".to_owned()));
        assert_eq!(read_utf8(Vec::new()), Ok(String::new()));
        let swapped = |bytes: Vec<u8>| bytes.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        for bytes in
            [utf16("\u{feff}a = 1"), utf16("a = 1"), swapped(utf16("\u{feff}a")), swapped(utf16("a"))]
        {
            let problem = read_utf8(bytes).unwrap_err();
            assert!(problem.starts_with("is in UTF-16; allowed: UTF-8"), "{problem}");
        }
        let latin = read_utf8(b"# one\n# caf\xe9\n".to_vec()).unwrap_err();
        assert_eq!(latin, "is not in UTF-8 in line 2; allowed: UTF-8");
    }

    #[test]
    fn a_file_that_cannot_be_read_says_why_and_where_it_was_looked_for() {
        let directory = std::env::temp_dir().join(format!("trunkline-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let problem = |path: &Path| read_file(path, 10).unwrap_err();
        let told = |path: &Path, words: String| assert_eq!(problem(path), words);
        let shown = directory.display();
        told(&directory.join("none"), format!("there is no such file in {shown}"));
        told(&directory.join("a/none"), format!("there is no directory {shown}/a"));
        told(&directory, "is a directory, not a file".to_owned());
        std::os::unix::fs::symlink("gone", directory.join("link")).unwrap();
        told(&directory.join("link"), "is a symbolic link to gone, which does not exist".to_owned());
        fs::write(directory.join("long"), "x".repeat(11)).unwrap();
        let long = "is too long; allowed: up to 10 bytes";
        told(&directory.join("long"), long.to_owned());
        told(Path::new("/dev/zero"), long.to_owned());
        assert_eq!(read_input(&b"x".repeat(11)[..], 10), Err(long.to_owned()));
        let here = std::env::current_dir().unwrap();
        told(Path::new("none.toml"), format!("there is no such file in {}", here.display()));
        fs::write(directory.join("right"), "x".repeat(10)).unwrap();
        assert_eq!(read_file(&directory.join("right"), 10).unwrap(), "x".repeat(10));
        fs::remove_dir_all(&directory).unwrap();
    }
}
