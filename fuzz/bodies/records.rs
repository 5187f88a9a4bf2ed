//! What holds for the records of a lane whatever a network does to them and whatever an authenticated peer puts into
//! them. Run by the fuzz target of this name and, over the committed corpus, by the tests of `trunkline-gateway`.
//!
//! The input is a list of steps, one byte each with what it needs behind it. Records are sealed at one end of a
//! connection and opened at the other, each as it was sealed and in order, until a step spoils one. From then on
//! nothing may open.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, OnceLock};

use trunkline_gateway::config::Encryption;
use trunkline_gateway::handshake::{Acceptor, Dialer, Handshake, Hello, Identity, Progress, VERSION};
use trunkline_gateway::keys::SecretKey;
use trunkline_gateway::record::{
    HEADER_BYTES, MAX_CONTENT_BYTES, Opened, Opener, RecordError, Sealer, SessionKeys, TRAILER_BYTES,
};

/// Steps of one input.
const MAX_STEPS: usize = 200;

/// Runs the steps in `data`.
pub(crate) fn run(data: &[u8]) {
    let (ours, theirs) = session();
    let mut way = Way {
        sealer: ours.sealer,
        opener: theirs.opener,
        sent: VecDeque::new(),
        next: Number::default(),
        due: Due::Number(Number::default()),
    };
    let mut input = data;
    for _ in 0..MAX_STEPS {
        let Some((&step, rest)) = input.split_first() else { break };
        input = rest;
        way.step(step, &mut input);
    }
    while !way.sent.is_empty() {
        way.deliver();
    }
    // The other direction shares nothing but the key schedule: it works whatever was done to this one.
    let (mut back, mut end) = (theirs.sealer, ours.opener);
    let mut content = *b"back";
    let (header, trailer) = back.seal(&mut content).expect("a fresh key");
    let mut body = [&content[..], &trailer].concat();
    assert_eq!(end.open(header, &mut body), Ok(Opened::Data(4)));
    assert_eq!(&body[..4], b"back");
}

/// What opening a record must give.
#[derive(Debug, Clone)]
enum Expected {
    Data(Vec<u8>),
    KeyUpdate,
    Closed,
    /// Anything but data other than this: the peer chose the record's inside.
    Inside(u8, Vec<u8>),
}

/// The key that a record is sealed with, counted from 0, and its number under that key.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Number {
    key: u32,
    record: u64,
}

impl Number {
    fn next_record(self) -> Self {
        Self { record: self.record + 1, ..self }
    }

    fn next_key(self) -> Self {
        Self { key: self.key + 1, record: 0 }
    }
}

/// Which record opens next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Due {
    /// The one with this number, if nobody has touched it.
    Number(Number),
    /// None: the opener has said that it is at its end.
    Ended,
}

/// A record on its way.
#[derive(Debug, Clone)]
struct Sent {
    number: Number,
    altered: bool,
    record: Vec<u8>,
    expected: Expected,
}

struct Way {
    sealer: Sealer,
    opener: Opener,
    sent: VecDeque<Sent>,
    next: Number,
    due: Due,
}

fn take(input: &mut &[u8], len: usize) -> Vec<u8> {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken.to_vec()
}

fn byte(input: &mut &[u8]) -> u8 {
    take(input, 1).first().copied().unwrap_or(0)
}

impl Way {
    fn step(&mut self, step: u8, input: &mut &[u8]) {
        match step % 10 {
            0 | 1 => {
                let content = if step.is_multiple_of(10) {
                    let len = usize::from(byte(input));
                    take(input, len)
                } else {
                    vec![step; usize::from(byte(input)) * 65 % (MAX_CONTENT_BYTES + 1)]
                };
                let mut body = content.clone();
                let (header, trailer) = self.sealer.seal(&mut body).expect("far below the limit");
                self.send([&header[..], &body, &trailer].concat(), Expected::Data(content));
            }
            2 => {
                let record = self.sealer.update().expect("a next key");
                self.send(record.to_vec(), Expected::KeyUpdate);
            }
            3 => {
                let record = self.sealer.close().expect("far below the limit");
                self.send(record.to_vec(), Expected::Closed);
            }
            4 => {
                let (kind, len) = (byte(input), usize::from(byte(input)));
                let content = take(input, len);
                let mut body = content.clone();
                let (header, trailer) = self.sealer.seal_as(kind, &mut body).expect("far below the limit");
                self.send([&header[..], &body, &trailer].concat(), Expected::Inside(kind, content));
            }
            5 => self.deliver(),
            6 => {
                if let Some(Sent { record, altered, .. }) = self.sent.front_mut() {
                    let at = (usize::from(byte(input)) << 8 | usize::from(byte(input))) % record.len();
                    // TLS 1.3 has the version ignored, but the tag covers it.
                    record[at] ^= byte(input).max(1);
                    *altered = true;
                    self.deliver();
                }
            }
            7 => drop(self.sent.pop_front()),
            8 => {
                let again = self.sent.front().cloned();
                self.deliver();
                if let Some(sent) = again {
                    self.sent.push_front(sent);
                }
            }
            _ => {
                let len = usize::from(byte(input));
                let raw = take(input, len);
                let Some((header, body)) = raw.split_first_chunk::<HEADER_BYTES>() else { return };
                let mut body = body.to_vec();
                let opened = self.opener.open(*header, &mut body);
                assert!(opened.is_err(), "{opened:?} from bytes nobody sealed");
                self.due = Due::Ended;
            }
        }
    }

    fn send(&mut self, record: Vec<u8>, expected: Expected) {
        assert!(record.len() >= HEADER_BYTES + TRAILER_BYTES);
        let (header, body) = record.split_first_chunk().expect("longer than a header");
        assert_eq!(Opener::body_len(*header), Ok(body.len()));
        let number = self.next;
        // A key update made by hand leaves the sealer's key as it is.
        self.next = match expected {
            Expected::KeyUpdate => number.next_key(),
            _ => number.next_record(),
        };
        self.sent.push_back(Sent { number, altered: false, record, expected });
    }

    fn deliver(&mut self) {
        let Some(sent) = self.sent.pop_front() else { return };
        let (header, body) = sent.record.split_first_chunk::<HEADER_BYTES>().expect("longer than a header");
        let mut body = body.to_vec();
        let opened = self.opener.open(*header, &mut body);
        match self.due {
            Due::Ended => assert_eq!(opened, Err(RecordError::Closed), "after its end"),
            Due::Number(number) if number == sent.number && !sent.altered => {
                let key_update = matches!(opened, Ok(Opened::KeyUpdate { .. }));
                self.due = Due::Number(if key_update { number.next_key() } else { number.next_record() });
                self.good(opened, &body, sent.expected);
            }
            Due::Number(_) => {
                assert!(matches!(&opened, Err(error) if *error != RecordError::Closed), "{opened:?}");
                self.due = Due::Ended;
            }
        }
    }

    fn good(&mut self, opened: Result<Opened, RecordError>, body: &[u8], expected: Expected) {
        match (opened, expected) {
            (Ok(Opened::Data(len)), Expected::Data(content)) => assert_eq!(&body[..len], content),
            (Ok(Opened::KeyUpdate { request: false }), Expected::KeyUpdate) => {}
            // Records without data are bounded, whoever made them.
            (Ok(Opened::Closed), Expected::Closed) | (Err(RecordError::EmptyFlood), _) => {
                self.due = Due::Ended;
            }
            (opened, Expected::Inside(kind, content)) => self.inside(opened, body, kind, &content),
            (opened, expected) => panic!("{opened:?} where {expected:?} was sealed"),
        }
    }

    fn inside(&mut self, opened: Result<Opened, RecordError>, body: &[u8], kind: u8, content: &[u8]) {
        // Padding is behind the type; with a type of 0 the last byte that is not 0 is the type (RFC 8446 §5.4).
        let inner = [content, &[kind]].concat();
        let last = inner.iter().rposition(|byte| *byte != 0);
        match (opened, last.map(|last| (inner[last], &inner[..last]))) {
            (Ok(Opened::Data(len)), Some((23, data))) => assert_eq!(&body[..len], data),
            (Ok(Opened::KeyUpdate { request }), Some((22, message))) => {
                assert_eq!(message, [24, 0, 0, 1, u8::from(request)]);
            }
            (Ok(Opened::Closed), Some((21, &[_, 0]))) | (Err(RecordError::NoType), None) => {
                self.due = Due::Ended;
            }
            (Err(_), Some((kind, _))) => {
                assert!(kind != 23, "data was refused");
                self.due = Due::Ended;
            }
            (opened, inner) => panic!("{opened:?} from {inner:?}"),
        }
    }
}

/// One end of a pipe in memory.
#[derive(Debug)]
struct Pipe {
    read: Arc<Mutex<VecDeque<u8>>>,
    write: Arc<Mutex<VecDeque<u8>>>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read.lock().expect("no panic").read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write.lock().expect("no panic").write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The keys of both ends of a connection.
fn session() -> (SessionKeys, SessionKeys) {
    static ENDS: OnceLock<(Dialer, Acceptor)> = OnceLock::new();
    let (dialer, acceptor) = ENDS.get_or_init(|| {
        let identity = |letter: &str| {
            let key: SecretKey = format!("{}=", letter.repeat(43)).parse().expect("a key");
            Identity::new(&key).expect("an identity")
        };
        let (near, far) = (identity("A"), identity("E"));
        let dialer = Dialer::new(&near, far.public()).expect("a dialer");
        (dialer, Acceptor::new(&far, Arc::new(|_| true)).expect("an acceptor"))
    });
    let (there, back) = (Arc::default(), Arc::default());
    let near = Pipe { read: Arc::clone(&back), write: Arc::clone(&there) };
    let far = Pipe { read: there, write: back };
    let hello = Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 0,
        instance: 7,
        lane_group: "tcp".to_owned(),
    };
    let mut ends = [
        dialer.dial(near, hello).expect("a handshake begins"),
        acceptor.accept(far).expect("a handshake begins"),
    ];
    let mut keys = [None, None];
    while keys.iter().any(Option::is_none) {
        for (end, keys) in ends.iter_mut().zip(&mut keys) {
            if keys.is_none() {
                *keys = advance(end);
            }
        }
    }
    let [near, far] = keys.map(|keys| keys.expect("both ends are done"));
    (near, far)
}

fn advance(handshake: &mut Handshake<Pipe>) -> Option<SessionKeys> {
    match handshake.advance().expect("two honest ends") {
        Progress::Done(established) => Some(established.keys.expect("encrypted")),
        Progress::HelloReceived { .. } => {
            handshake.welcome(9, Encryption::Tls).expect("it asked");
            None
        }
        _ => None,
    }
}
