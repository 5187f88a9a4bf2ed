//! The other end is rustls with its own record layer.

use std::os::unix::net::UnixStream;

use rustls::{ClientConnection, Connection, NamedGroup, ServerConnection};

use super::*;
use crate::record::{HEADER_BYTES, MAX_CONTENT_BYTES, Opener};

/// rustls on a stream, with the data that it has read.
struct Other {
    tls: Connection,
    stream: UnixStream,
    received: Vec<u8>,
    ended: bool,
}

impl Other {
    fn new(tls: Connection, stream: UnixStream) -> Self {
        Self { tls, stream, received: Vec::new(), ended: false }
    }

    /// Moves what can be moved.
    fn turn(&mut self) -> Result<(), rustls::Error> {
        let blocked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if blocked(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
        while self.tls.wants_read() {
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if blocked(&error) => break,
                Err(error) => panic!("{error}"),
            }
            let state = self.tls.process_new_packets()?;
            let filled = self.received.len();
            self.received.resize(filled + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut self.received[filled..]).unwrap();
            self.ended |= state.peer_has_closed();
        }
        Ok(())
    }

    fn send(&mut self, message: &Message) {
        self.tls.writer().write_all(&message.encode()).unwrap();
    }
}

/// Our dialer or acceptor with rustls at the other end, up to the end of the handshake.
fn connect(pair: &Pair, we_dial: bool) -> (Established<UnixStream>, Other) {
    let (a, b) = streams();
    let mut ours;
    let mut other;
    if we_dial {
        ours = pair.dial(a, hello());
        let dialer = pair.dialer.public();
        let acceptor = Acceptor::new(&pair.acceptor, Arc::new(move |key| *key == dialer)).unwrap();
        other = Other::new(ServerConnection::new(acceptor.config).unwrap().into(), b);
    } else {
        ours = pair.accept(a);
        let dialer = Dialer::new(&pair.dialer, pair.acceptor.public()).unwrap();
        let tls = ClientConnection::new(dialer.config, tls::server_name()).unwrap();
        other = Other::new(tls.into(), b);
        other.send(&Message::Hello(hello()));
    }
    for _ in 0..100 {
        match ours.advance().unwrap() {
            Progress::HelloReceived { .. } => ours.welcome(99, Encryption::Tls).unwrap(),
            Progress::Done(established) => {
                other.turn().unwrap();
                if !we_dial {
                    let welcome = Message::decode(&std::mem::take(&mut other.received)).unwrap();
                    assert_eq!(welcome, Message::Welcome(Hello { instance: 99, ..hello() }));
                }
                return (*established, other);
            }
            _ => {}
        }
        other.turn().unwrap();
        if we_dial && !other.received.is_empty() {
            let received = Message::decode(&std::mem::take(&mut other.received)).unwrap();
            assert_eq!(received, Message::Hello(hello()));
            other.send(&Message::Welcome(Hello { instance: 99, ..hello() }));
        }
    }
    panic!("no end");
}

fn pair_with(cipher: Cipher) -> Pair {
    let Pair { dialer, acceptor } = Pair::new();
    Pair { dialer: dialer.with_only(cipher), acceptor }
}

/// What our end has read off the stream and opened.
#[derive(Default)]
struct Incoming {
    raw: Vec<u8>,
    data: Vec<u8>,
    updates: usize,
    requests: usize,
    closed: bool,
}

impl Incoming {
    fn turn(&mut self, ours: &mut Established<UnixStream>) -> Result<(), RecordError> {
        let mut chunk = vec![0; 20_000];
        while let Ok(read @ 1..) = ours.stream.read(&mut chunk) {
            self.raw.extend(&chunk[..read]);
        }
        let opener = &mut ours.keys.as_mut().unwrap().opener;
        while let Some(&header) = self.raw.first_chunk::<HEADER_BYTES>() {
            let end = HEADER_BYTES + Opener::body_len(header)?;
            if self.raw.len() < end {
                break;
            }
            let body = &mut self.raw[HEADER_BYTES..end];
            match opener.open(header, body)? {
                Opened::Data(len) => self.data.extend(&body[..len]),
                Opened::KeyUpdate { request } => {
                    self.updates += 1;
                    self.requests += usize::from(request);
                }
                Opened::Closed => self.closed = true,
            }
            self.raw.drain(..end);
        }
        Ok(())
    }
}

/// Sends a record of ours.
fn send(ours: &mut Established<UnixStream>, other: &mut Other, record: &[u8]) {
    let mut rest = record;
    while !rest.is_empty() {
        match ours.stream.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        other.turn().unwrap();
    }
}

fn send_data(ours: &mut Established<UnixStream>, other: &mut Other, mut content: Vec<u8>) {
    let sealer = &mut ours.keys.as_mut().unwrap().sealer;
    let update = sealer.needs_update().then(|| sealer.update().unwrap());
    let (header, trailer) = sealer.seal(&mut content).unwrap();
    let record = [update.as_ref().map_or(&[][..], |update| update), &header, &content, &trailer].concat();
    send(ours, other, &record);
}

#[test]
fn thousands_of_records_and_many_key_updates_both_ways() {
    let ciphers = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
    for (seed, cipher) in ciphers.into_iter().enumerate() {
        for we_dial in [true, false] {
            let (mut ours, mut other) = connect(&pair_with(cipher), we_dial);
            assert_eq!(other.tls.negotiated_cipher_suite(), Some(tls::suite(cipher)));
            assert_eq!(ours.keys.as_ref().unwrap().cipher, cipher);
            let mut incoming = Incoming::default();
            let mut numbers = Numbers(seed as u64);
            let (mut to_other, mut to_us) = (Vec::<u8>::new(), Vec::<u8>::new());
            let (mut our_updates, mut their_updates) = (0, 0);
            for _ in 0..2000 {
                let len = match numbers.below(10) {
                    0 => MAX_CONTENT_BYTES,
                    1 => 1,
                    _ => 1 + numbers.below(3000),
                };
                let content: Vec<u8> = (0..len).map(|_| numbers.below(256) as u8).collect();
                match numbers.below(40) {
                    0 => {
                        let update = ours.keys.as_mut().unwrap().sealer.update().unwrap();
                        send(&mut ours, &mut other, &update);
                        our_updates += 1;
                    }
                    1 => {
                        other.tls.refresh_traffic_keys().unwrap();
                        their_updates += 1;
                    }
                    n if n % 2 == 0 => {
                        to_other.extend(&content);
                        send_data(&mut ours, &mut other, content);
                    }
                    _ => {
                        to_us.extend(&content);
                        other.tls.writer().write_all(&content).unwrap();
                        while other.tls.wants_write() {
                            other.turn().unwrap();
                            incoming.turn(&mut ours).unwrap();
                        }
                    }
                }
            }
            for _ in 0..10 {
                other.turn().unwrap();
                incoming.turn(&mut ours).unwrap();
            }
            assert!(other.received == to_other && incoming.data == to_us, "{cipher} {we_dial}");
            assert!(our_updates > 10 && incoming.updates >= their_updates && their_updates > 10);
            assert!(incoming.requests >= 1, "rustls asks for our update when it changes its key");

            let close = ours.keys.as_mut().unwrap().sealer.close().unwrap();
            send(&mut ours, &mut other, &close);
            assert!(other.ended);
            other.tls.send_close_notify();
            other.turn().unwrap();
            incoming.turn(&mut ours).unwrap();
            assert!(incoming.closed);
        }
    }
}

#[test]
fn an_altered_record_is_an_error_to_both() {
    let (mut ours, mut other) = connect(&Pair::new(), true);
    let mut content = b"data".to_vec();
    let (header, trailer) = ours.keys.as_mut().unwrap().sealer.seal(&mut content).unwrap();
    content[0] ^= 1;
    ours.stream.write_all(&[&header[..], &content, &trailer].concat()).unwrap();
    assert_eq!(other.turn().unwrap_err(), rustls::Error::DecryptError);
    // It tells us so.
    let _ = other.turn();
    assert_eq!(Incoming::default().turn(&mut ours), Err(RecordError::PeerAlert { code: 20 }));
}

#[test]
fn the_key_exchange_is_the_hybrid_one() {
    for we_dial in [true, false] {
        let (_, other) = connect(&Pair::new(), we_dial);
        let group = other.tls.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, NamedGroup::X25519MLKEM768);
        assert_eq!(other.tls.alpn_protocol(), Some(&b"trunkline/2"[..]));
        assert_eq!(other.tls.peer_certificates().unwrap().len(), 1);
        assert_eq!(other.tls.negotiated_cipher_suite(), tls::provider().cipher_suites.first().copied());
    }
}

/// Our acceptor with a rustls client whose configuration is off.
fn accept_from(change: impl FnOnce(&mut ClientConfig)) -> HandshakeError {
    let pair = Pair::new();
    let mut config = Dialer::new(&pair.dialer, pair.acceptor.public()).unwrap().config;
    change(Arc::make_mut(&mut config));
    let (a, b) = streams();
    let mut ours = pair.accept(a);
    let mut other = Other::new(ClientConnection::new(config, tls::server_name()).unwrap().into(), b);
    for _ in 0..20 {
        let _ = other.turn();
        match ours.advance() {
            Ok(Progress::WantRead) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => return error,
        }
    }
    panic!("no end");
}

#[test]
fn tls_without_our_protocol_is_not_enough() {
    let error = accept_from(|config| config.alpn_protocols.clear());
    assert!(matches!(error, HandshakeError::NoProtocol), "{error}");
    let error = accept_from(|config| config.alpn_protocols = vec![b"h2".to_vec()]);
    assert!(matches!(error, HandshakeError::NoProtocol), "{error}");
}

#[test]
fn a_caller_must_show_a_key() {
    #[derive(Debug)]
    struct Nothing;
    impl rustls::client::ResolvesClientCert for Nothing {
        fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            None
        }
        fn only_raw_public_keys(&self) -> bool {
            true
        }
        fn has_certs(&self) -> bool {
            true
        }
    }
    let error = accept_from(|config| config.client_auth_cert_resolver = Arc::new(Nothing));
    assert!(matches!(error, HandshakeError::Tls(rustls::Error::NoCertificatesPresented)), "{error}");
}

/// Our dialer with an acceptor that answers with `answer`.
fn answered_with(answer: &Message) -> HandshakeError {
    let pair = Pair::new();
    let acceptor = Acceptor::new(&pair.acceptor, Arc::new(|_| true)).unwrap();
    let (a, b) = streams();
    let mut ours = pair.dial(a, hello());
    let mut other = Other::new(ServerConnection::new(acceptor.config).unwrap().into(), b);
    other.send(answer);
    for _ in 0..20 {
        match ours.advance() {
            Ok(Progress::WantRead) => other.turn().unwrap(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return error,
        }
    }
    panic!("no end");
}

#[test]
fn an_answer_must_be_to_the_question() {
    let answer = |hello| answered_with(&Message::Welcome(hello));
    let error = answer(Hello { lane_group: "tcp".to_owned(), ..hello() });
    assert!(
        matches!(&error, HandshakeError::WrongAnswer { lane_group, lane: 1 } if lane_group == "tcp"),
        "{error}"
    );
    let error = answer(Hello { lane: 2, ..hello() });
    assert!(matches!(error, HandshakeError::WrongAnswer { lane: 2, .. }), "{error}");
    // An acceptor that welcomes us to clear text we did not ask for.
    let error = answer(Hello { encryption: Encryption::None, ..hello() });
    assert!(matches!(error, HandshakeError::EncryptionMismatch { .. }), "{error}");
    let error = answered_with(&Message::Hello(hello()));
    assert!(matches!(error, HandshakeError::Message(MessageError::UnexpectedKind(1))), "{error}");
}
