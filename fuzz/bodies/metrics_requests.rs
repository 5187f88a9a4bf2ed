//! What holds for any bytes that a client sends to the metrics listener. Run by the fuzz target of this name and, over
//! the committed corpus, by the tests of `trunkline-gateway`.

use trunkline_service::request::{self, MAX_REQUEST_BYTES, Parsed, Protocol};

/// Reads `data` as a client's words: whole, and cut at every place.
pub(crate) fn run(data: &[u8]) {
    let whole = request::parse(Protocol::Http, data);
    match &whole {
        Parsed::Complete(path) | Parsed::Head(path) => {
            assert!(path.len() < data.len().min(MAX_REQUEST_BYTES));
            assert!(path.bytes().all(|byte| byte > b' ' && byte != 0x7f && byte != b'?'), "{path:?}");
            let start = data.iter().position(|byte| !b"\r\n".contains(byte)).expect("it is not empty");
            let method: &[u8] = if matches!(whole, Parsed::Head(_)) { b"HEAD " } else { b"GET " };
            assert!(data[start..].starts_with(method), "{data:?}");
        }
        Parsed::OtherMethod => assert!(!data.starts_with(b"GET ") && !data.starts_with(b"HEAD ")),
        Parsed::Incomplete => assert!(data.len() < MAX_REQUEST_BYTES),
        Parsed::Malformed => assert!(!data.is_empty()),
    }
    // A client is read anew after each piece: the first piece that is enough decides, and decides the same.
    let first = (0..=data.len())
        .map(|len| request::parse(Protocol::Http, &data[..len]))
        .find(|parsed| *parsed != Parsed::Incomplete);
    assert_eq!(first.unwrap_or(Parsed::Incomplete), whole);
}
