//! What holds for any bytes that an unauthenticated host sends to a listening gateway. Run by the fuzz target of this name
//! and, over the committed corpus, by the tests of `trunkline-gateway`.
//!
//! The same input is taken for a greeting (which stands behind TLS), for a record's header, and for all that a
//! caller ever sends.

use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};

use trunkline_gateway::handshake::{Acceptor, Identity, Message, Progress};
use trunkline_gateway::keys::SecretKey;
use trunkline_gateway::record::{MAX_BODY_BYTES, Opener, TRAILER_BYTES};

/// Runs all three over `data`.
pub(crate) fn run(data: &[u8]) {
    greeting(data);
    header(data);
    caller(data);
}

fn greeting(data: &[u8]) {
    let Ok(message) = Message::decode(data) else { return };
    let again = message.encode();
    if let Message::Refusal(_) = message {
        // A refusal is understood in every version and sent in ours.
        assert_eq!((again[0], &again[3..]), (data[0], &data[3..]));
    } else {
        assert_eq!(again, data);
    }
    assert_eq!(Message::decode(&again), Ok(message));
}

fn header(data: &[u8]) {
    if let Some(&header) = data.first_chunk()
        && let Ok(len) = Opener::body_len(header)
    {
        assert!((TRAILER_BYTES..=MAX_BODY_BYTES).contains(&len));
    }
}

/// A caller that says `said`, hears nothing, and waits.
#[derive(Debug)]
struct Caller<'a> {
    said: &'a [u8],
}

impl Read for Caller<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.said.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Caller<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn caller(data: &[u8]) {
    static ACCEPTOR: OnceLock<Acceptor> = OnceLock::new();
    let acceptor = ACCEPTOR.get_or_init(|| {
        let key: SecretKey = format!("{}=", "A".repeat(43)).parse().expect("a key of zeroes");
        let identity = Identity::new(&key).expect("an identity");
        Acceptor::new(&identity, Arc::new(|_| true)).expect("an acceptor")
    });
    let mut handshake = acceptor.accept(Caller { said: data }).expect("a handshake begins");
    match handshake.advance() {
        Ok(Progress::WantRead) | Err(_) => {}
        // It would have to prove a key, which takes an answer to what it was sent.
        Ok(progress) => panic!("{progress:?} from a caller that has heard nothing"),
    }
}
