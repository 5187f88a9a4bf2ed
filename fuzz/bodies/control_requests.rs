//! What holds for any bytes that a client sends to the control socket. Run by the fuzz target of this name and, over
//! the committed corpus, by the tests of `trunkline-gateway`.

use trunkline_service::request::{self, MAX_REQUEST_BYTES, Parsed, Protocol};
use trunkline_status::Request;

/// Reads `data` as a client's words: whole, and cut at every place.
pub(crate) fn run(data: &[u8]) {
    let whole = request::parse(Protocol::Control, data);
    let end = data.iter().take(MAX_REQUEST_BYTES).position(|byte| *byte == b'\n');
    match (&whole, end) {
        (Parsed::Complete(line), Some(end)) => {
            assert_eq!(*line, String::from_utf8_lossy(&data[..end]));
            asked(line);
        }
        (Parsed::Incomplete, None) => assert!(data.len() < MAX_REQUEST_BYTES),
        (Parsed::Malformed, None) => assert!(data.len() >= MAX_REQUEST_BYTES),
        (parsed, end) => panic!("{parsed:?} with a line's end at {end:?}"),
    }
    // A client is read anew after each piece: the first piece that is enough decides, and decides the same.
    let first = (0..=data.len())
        .map(|len| request::parse(Protocol::Control, &data[..len]))
        .find(|parsed| *parsed != Parsed::Incomplete);
    assert_eq!(first.unwrap_or(Parsed::Incomplete), whole);
}

fn asked(line: &str) {
    match Request::parse(line, &Request::WORDS) {
        Ok(request) => {
            let again = serde_json::to_string(&request).expect("a request has no map and no number");
            assert_eq!(Request::parse(&again, &Request::WORDS), Ok(request));
        }
        Err(message) => {
            assert!(message.contains("allowed:"), "{message}");
            // The answer is one line whose length the client does not choose beyond its own.
            assert!(message.len() <= 6 * line.len() + 1000, "{} of {}", message.len(), line.len());
        }
    }
}
