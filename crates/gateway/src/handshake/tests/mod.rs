//! Handshakes between two of our own ends, honest and not. `interop` has another implementation at one end.

mod interop;
mod joining;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::message::Message;
use super::*;
use crate::record::{Opened, RecordError};
use trunkline_schema::Encryption;

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A dialer and an acceptor that know each other.
pub(super) struct Pair {
    pub(super) dialer: Identity,
    pub(super) acceptor: Identity,
}

impl Pair {
    pub(super) fn new() -> Self {
        let identity = || Identity::new(&SecretKey::generate().unwrap()).unwrap();
        Self { dialer: identity(), acceptor: identity() }
    }

    pub(super) fn dial<S: Read + Write>(&self, stream: S, hello: Hello) -> Handshake<S> {
        Dialer::new(&self.dialer, self.acceptor.public()).unwrap().dial(stream, hello).unwrap()
    }

    pub(super) fn accept<S: Read + Write>(&self, stream: S) -> Handshake<S> {
        let expected = self.dialer.public();
        Acceptor::new(&self.acceptor, Arc::new(move |key| *key == expected)).unwrap().accept(stream).unwrap()
    }
}

pub(super) fn hello() -> Hello {
    Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 1,
        instance: 77,
        lane_group: "bulk".to_owned(),
    }
}

pub(super) fn streams() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, b)
}

/// How a handshake ended; `Ok(None)`: with a refusal sent.
type Outcome<S> = Result<Option<Established<S>>, HandshakeError>;

/// Runs both ends to their end; an end that has ended with an error closes its stream.
fn run<S: Read + Write>(
    dialer: Handshake<S>,
    acceptor: Handshake<S>,
    mut decide: impl FnMut(&mut Handshake<S>, Hello, PublicKey),
) -> (Outcome<S>, Outcome<S>) {
    let mut ends = [Some(dialer), Some(acceptor)];
    let mut outcomes = [None, None];
    for _ in 0..100_000 {
        for (end, outcome) in ends.iter_mut().zip(&mut outcomes) {
            let Some(handshake) = end else { continue };
            *outcome = match handshake.advance() {
                Ok(Progress::WantRead | Progress::WantWrite) => None,
                Ok(Progress::HelloReceived { hello, peer }) => {
                    decide(handshake, hello, peer);
                    None
                }
                Ok(Progress::Done(established)) => Some(Ok(Some(*established))),
                Ok(Progress::Refused) => Some(Ok(None)),
                Ok(Progress::JoinReceived { .. } | Progress::Joined) => panic!("nobody joins"),
                Err(error) => Some(Err(error)),
            };
            if outcome.is_some() {
                *end = None;
            }
        }
        if ends.iter().all(Option::is_none) {
            let [dialer, acceptor] = outcomes;
            return (dialer.unwrap(), acceptor.unwrap());
        }
    }
    panic!("no end");
}

fn welcome<S: Read + Write>(handshake: &mut Handshake<S>, _: Hello, _: PublicKey) {
    handshake.welcome(99, Encryption::Tls).unwrap();
}

/// The keys of both ends of a connection.
pub(crate) fn session() -> (SessionKeys, SessionKeys) {
    let pair = Pair::new();
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, hello()), pair.accept(b), welcome);
    let keys = |outcome: Outcome<UnixStream>| outcome.unwrap().unwrap().keys.unwrap();
    (keys(dialer), keys(acceptor))
}

/// Takes and gives at most so many bytes, and says `WouldBlock` every other time.
#[derive(Debug)]
struct Trickle {
    inner: UnixStream,
    step: usize,
    calls: usize,
}

impl Trickle {
    fn turn(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls.is_multiple_of(2) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.turn()?;
        let len = buffer.len().min(self.step);
        self.inner.read(&mut buffer[..len])
    }
}

impl Write for Trickle {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.turn()?;
        self.inner.write(&buffer[..buffer.len().min(self.step)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn both_ends_learn_who_is_there_and_what_for() {
    let pair = Pair::new();
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, hello()), pair.accept(b), |handshake, received, peer| {
        assert_eq!((received, peer), (hello(), pair.dialer.public()));
        handshake.welcome(99, Encryption::Tls).unwrap();
    });
    let (dialer, acceptor) = (dialer.unwrap().unwrap(), acceptor.unwrap().unwrap());
    assert_eq!(dialer.peer, pair.acceptor.public());
    assert_eq!(acceptor.peer, pair.dialer.public());
    assert_eq!(dialer.hello, Hello { instance: 99, ..hello() });
    assert_eq!(acceptor.hello, hello());
}

/// Notes the longest write.
struct Noted(UnixStream, Arc<AtomicUsize>);

impl Read for Noted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Noted {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.1.fetch_max(buffer.len(), Ordering::Relaxed);
        self.0.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_end_fills_a_segment_before_its_greeting() {
    for (bytes, filled) in [(8960, 8960), (65_483, 9216)] {
        let pair = Pair::new();
        let (a, b) = streams();
        let longest = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let noted = |stream, end: usize| Noted(stream, Arc::clone(&longest[end]));
        let dialer = pair.dial(noted(a, 0), hello()).filling(bytes);
        let acceptor = pair.accept(noted(b, 1)).filling(bytes);
        let (dialer, acceptor) = run(dialer, acceptor, welcome);
        assert_eq!(dialer.unwrap().unwrap().hello.instance, 99);
        assert_eq!(acceptor.unwrap().unwrap().hello, hello());
        for longest in &longest {
            let longest = longest.load(Ordering::Relaxed);
            // The dialer's last messages of TLS may leave with it.
            assert!((filled..filled + 600).contains(&longest), "{longest} bytes for {bytes}");
        }
    }
}

#[test]
fn nothing_behind_the_greetings_is_taken_from_the_stream() {
    for step in [1, 7, 100_000] {
        let pair = Pair::new();
        let (a, b) = streams();
        let trickle = |inner| Trickle { inner, step, calls: 0 };
        let mut data = b"first data".to_vec();
        let mut sent = Vec::new();
        let mut acceptor = pair.accept(trickle(b));
        let mut dialer = pair.dial(trickle(a), hello());
        // The acceptor sends data as soon as it can, before the dialer has read the welcome.
        let mut acceptor_done = loop {
            assert!(!matches!(dialer.advance().unwrap(), Progress::Done(_)));
            match acceptor.advance().unwrap() {
                Progress::HelloReceived { .. } => acceptor.welcome(1, Encryption::Tls).unwrap(),
                Progress::Done(established) => break established,
                _ => {}
            }
        };
        let (header, trailer) = acceptor_done.keys.as_mut().unwrap().sealer.seal(&mut data).unwrap();
        sent.extend(header);
        sent.extend(data);
        sent.extend(trailer);
        acceptor_done.stream.inner.write_all(&sent).unwrap();
        let mut dialer_done = loop {
            if let Progress::Done(established) = dialer.advance().unwrap() {
                break established;
            }
        };
        let mut left = vec![0; 1000];
        let read = dialer_done.stream.inner.read(&mut left).unwrap();
        assert_eq!(left[..read], sent);
        let (header, body) = left[..read].split_first_chunk_mut().unwrap();
        let opened = dialer_done.keys.as_mut().unwrap().opener.open(*header, body).unwrap();
        assert_eq!(opened, Opened::Data(10));
        assert_eq!(&body[..10], b"first data");
    }
}

#[test]
fn a_trickling_stream_only_takes_longer() {
    let pair = Pair::new();
    let (a, b) = streams();
    let trickle = |inner| Trickle { inner, step: 3, calls: 0 };
    let (dialer, acceptor) = run(pair.dial(trickle(a), hello()), pair.accept(trickle(b)), welcome);
    assert!(dialer.unwrap().is_some() && acceptor.unwrap().is_some());
}

#[test]
fn where_both_ends_want_clear_text_there_are_no_keys() {
    let pair = Pair::new();
    let (a, b) = streams();
    let clear = Hello { encryption: Encryption::None, ..hello() };
    let (dialer, acceptor) = run(pair.dial(a, clear), pair.accept(b), |handshake, _, _| {
        handshake.welcome(99, Encryption::None).unwrap();
    });
    let (mut dialer, mut acceptor) = (dialer.unwrap().unwrap(), acceptor.unwrap().unwrap());
    assert!(dialer.keys.is_none() && acceptor.keys.is_none());
    dialer.stream.write_all(b"clear").unwrap();
    let mut read = [0; 5];
    acceptor.stream.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"clear");
}

#[test]
fn different_encryption_ends_the_handshake_at_both_ends() {
    for (dialers, acceptors) in [(Encryption::Tls, Encryption::None), (Encryption::None, Encryption::Tls)] {
        let pair = Pair::new();
        let (a, b) = streams();
        let hello = Hello { encryption: dialers, ..hello() };
        let (dialer, acceptor) = run(pair.dial(a, hello), pair.accept(b), |handshake, _, _| {
            handshake.welcome(99, acceptors).unwrap();
        });
        let (dialer, acceptor) = (dialer.unwrap_err(), acceptor.unwrap_err());
        assert!(
            matches!(&dialer, HandshakeError::EncryptionMismatch { ours, theirs }
                if (*ours, *theirs) == (dialers, acceptors)),
            "{dialer}"
        );
        assert!(
            matches!(&acceptor, HandshakeError::EncryptionMismatch { ours, theirs }
                if (*ours, *theirs) == (acceptors, dialers)),
            "{acceptor}"
        );
        assert_eq!((dialer.fault(), acceptor.fault()), (Fault::Configuration, Fault::Configuration));
    }
}

#[test]
fn a_refusal_arrives_with_its_reason() {
    let pair = Pair::new();
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, hello()), pair.accept(b), |handshake, hello, _| {
        handshake
            .refuse(RefusalReason::UnknownLaneGroup, &format!("no lane group {}", hello.lane_group))
            .unwrap();
    });
    assert!(acceptor.unwrap().is_none());
    let error = dialer.unwrap_err();
    let HandshakeError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(
        (refusal.reason, refusal.text.as_str()),
        (RefusalReason::UnknownLaneGroup, "no lane group bulk")
    );
    assert_eq!(error.fault(), Fault::Configuration);
}

#[test]
fn another_version_is_declined_in_words() {
    let pair = Pair::new();
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, Hello { version: 1, ..hello() }), pair.accept(b), welcome);
    let acceptor = acceptor.unwrap_err();
    assert!(
        matches!(acceptor, HandshakeError::Message(MessageError::UnknownVersion { theirs: 1 })),
        "{acceptor}"
    );
    let dialer = dialer.unwrap_err();
    let HandshakeError::Refused(refusal) = &dialer else { panic!("{dialer}") };
    assert_eq!(refusal.reason, RefusalReason::UnsupportedVersion);
}

#[test]
fn two_ends_agree_on_the_highest_version_that_both_have() {
    for versions in [[1, 1], [1, 2], [2, 1], [2, 2]] {
        let Pair { dialer, acceptor } = Pair::new();
        let pair =
            Pair { dialer: dialer.with_version(versions[0]), acceptor: acceptor.with_version(versions[1]) };
        let (a, b) = streams();
        let (dialer, acceptor) = run(pair.dial(a, hello()), pair.accept(b), welcome);
        for end in [dialer, acceptor] {
            let established = end.unwrap().expect("no refusal");
            assert_eq!(established.hello.version, versions[0].min(versions[1]), "{versions:?}");
        }
    }
}

#[test]
fn callers_without_a_known_key_are_turned_away() {
    let pair = Pair::new();
    let unknown = Pair { acceptor: pair.acceptor.clone(), ..Pair::new() };
    let (a, b) = streams();
    let (dialer, acceptor) = run(unknown.dial(a, hello()), pair.accept(b), |_, _, _| panic!("let in"));
    let acceptor = acceptor.unwrap_err();
    assert!(
        matches!(&acceptor, HandshakeError::UnknownKey { key } if *key == unknown.dialer.public()),
        "{acceptor}"
    );
    assert_eq!(acceptor.fault(), Fault::Unauthenticated);
    let dialer = dialer.unwrap_err();
    assert!(matches!(dialer, HandshakeError::NotAdmitted), "{dialer}");
}

#[test]
fn nobody_but_the_dialled_peer_may_answer() {
    let pair = Pair::new();
    let other = Pair { dialer: pair.dialer.clone(), ..Pair::new() };
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, hello()), other.accept(b), |_, _, _| panic!("let in"));
    let dialer = dialer.unwrap_err();
    assert!(
        matches!(&dialer, HandshakeError::WrongKey { expected, found }
            if (*expected, *found) == (pair.acceptor.public(), other.acceptor.public())),
        "{dialer}"
    );
    assert_eq!(dialer.fault(), Fault::Unauthenticated);
    assert!(acceptor.is_err());
}

/// Shows `key`'s public half but signs with its own.
fn impostor(key: &Identity) -> Identity {
    let own = Identity::new(&SecretKey::generate().unwrap()).unwrap();
    let shown = key.key.cert.clone();
    let signer = Arc::clone(&own.key.key);
    Identity { key: Arc::new(CertifiedKey::new(shown, signer)), public: key.public, ..own }
}

#[test]
fn a_key_must_be_proven_by_the_dialer() {
    let pair = Pair::new();
    let forged = Pair { dialer: impostor(&pair.dialer), acceptor: pair.acceptor.clone() };
    let (a, b) = streams();
    let (dialer, acceptor) = run(forged.dial(a, hello()), pair.accept(b), |_, _, _| panic!("let in"));
    let acceptor = acceptor.unwrap_err();
    assert!(matches!(acceptor, HandshakeError::Tls(_)) && dialer.is_err(), "{acceptor}");
    assert_eq!(acceptor.fault(), Fault::Peer);
}

#[test]
fn a_key_must_be_proven_by_the_acceptor() {
    let pair = Pair::new();
    let forged = Pair { dialer: pair.dialer.clone(), acceptor: impostor(&pair.acceptor) };
    let (a, b) = streams();
    let (dialer, acceptor) = run(pair.dial(a, hello()), forged.accept(b), |_, _, _| panic!("let in"));
    let dialer = dialer.unwrap_err();
    assert!(matches!(dialer, HandshakeError::Tls(_)) && acceptor.is_err(), "{dialer}");
}

#[test]
fn a_stream_that_ends_is_a_disconnection() {
    let pair = Pair::new();
    let (a, b) = streams();
    let mut dialer = pair.dial(a, hello());
    assert!(matches!(dialer.advance(), Ok(Progress::WantRead)));
    drop(b);
    let error = dialer.advance().unwrap_err();
    assert_eq!(error.fault(), Fault::Network, "{error}");
    assert!(matches!(dialer.advance(), Err(HandshakeError::Over)));
}

#[test]
fn what_is_no_tls_is_an_error_and_not_awaited() {
    for (garbage, awaited) in [
        (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], false),
        (&[22, 3, 1, 0, 4, 1, 0, 0, 0], false),
        (&[22], true),
    ] {
        let pair = Pair::new();
        let (mut a, b) = streams();
        let mut acceptor = pair.accept(b);
        a.write_all(garbage).unwrap();
        match acceptor.advance() {
            Ok(Progress::WantRead) => assert!(awaited, "{garbage:?}"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(!awaited && error.fault() == Fault::Peer, "{error}"),
        }
    }
}

#[test]
fn a_decision_is_due_once_and_only_when_asked_for() {
    let pair = Pair::new();
    let (a, b) = streams();
    let mut acceptor = pair.accept(b);
    let mut dialer = pair.dial(a, hello());
    assert!(matches!(acceptor.welcome(1, Encryption::Tls), Err(HandshakeError::Over)));
    while !matches!(acceptor.advance().unwrap(), Progress::HelloReceived { .. }) {
        dialer.advance().unwrap();
    }
    // Asked again, it asks again.
    assert!(matches!(acceptor.advance().unwrap(), Progress::HelloReceived { .. }));
    acceptor.welcome(1, Encryption::Tls).unwrap();
    assert!(matches!(acceptor.refuse(RefusalReason::NotWanted, ""), Err(HandshakeError::Over)));
    assert!(acceptor.stream().is_some());
    assert!(matches!(acceptor.advance().unwrap(), Progress::Done(_)));
    assert!(acceptor.stream().is_none());
    assert!(matches!(acceptor.advance(), Err(HandshakeError::Over)));
    assert!(matches!(dialer.advance().unwrap(), Progress::Done(_)));
}

/// Alters one byte on its way.
#[derive(Debug)]
struct Altering {
    inner: UnixStream,
    at: usize,
    mask: u8,
    written: usize,
}

impl Read for Altering {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl Write for Altering {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut altered = buffer.to_vec();
        if let Some(byte) = self.at.checked_sub(self.written).and_then(|at| altered.get_mut(at)) {
            *byte ^= self.mask;
        }
        let written = self.inner.write(&altered)?;
        self.written += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_altered_byte_changes_what_is_agreed_or_panics() {
    let mut numbers = Numbers(3);
    let mut failed = 0;
    for round in 0..300 {
        let pair = Pair::new();
        let (a, b) = streams();
        // Either end's bytes are altered; both send about 1500.
        let altering = |inner, ours: bool, numbers: &mut Numbers| Altering {
            inner,
            at: if ours { numbers.below(1500) } else { usize::MAX },
            mask: 1 << numbers.below(8),
            written: 0,
        };
        let a = altering(a, round % 2 == 0, &mut numbers);
        let b = altering(b, round % 2 == 1, &mut numbers);
        let mut dialer = Some(pair.dial(a, hello()));
        let mut acceptor = Some(pair.accept(b));
        // An altered length leaves both ends waiting, which is the caller's clock to end.
        for _ in 0..50 {
            for (end, peer) in [(&mut dialer, &pair.acceptor), (&mut acceptor, &pair.dialer)] {
                let Some(handshake) = end else { continue };
                match handshake.advance() {
                    Ok(Progress::WantRead | Progress::WantWrite) => {}
                    Ok(Progress::HelloReceived { hello: asked, peer }) => {
                        assert_eq!((asked, peer), (hello(), pair.dialer.public()), "round {round}");
                        handshake.welcome(77, Encryption::Tls).unwrap();
                    }
                    // Altered where TLS does not look, or not at all.
                    Ok(Progress::Done(established)) => {
                        assert_eq!((established.hello, established.peer), (hello(), peer.public()));
                        assert!(established.keys.is_some(), "round {round}");
                        *end = None;
                    }
                    Ok(Progress::Refused | Progress::JoinReceived { .. } | Progress::Joined) => {
                        panic!("round {round}")
                    }
                    Err(_) => {
                        failed += 1;
                        *end = None;
                    }
                }
            }
        }
    }
    assert!(failed > 200, "{failed}");
}
