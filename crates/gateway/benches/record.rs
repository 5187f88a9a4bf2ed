//! How fast records are sealed and opened: one thread, full records, bytes of content per second.
//!
//! `cargo bench -p trunkline-gateway --bench record`. Each number is the best of several runs, since what
//! disturbs a run only makes it slower.

use std::hint::black_box;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline_gateway::config::Encryption;
use trunkline_gateway::handshake::{Acceptor, Dialer, Handshake, Hello, Identity, Progress, VERSION};
use trunkline_gateway::keys::SecretKey;
use trunkline_gateway::record::{Cipher, HEADER_BYTES, MAX_CONTENT_BYTES, SessionKeys, TRAILER_BYTES};

const RUNS: usize = 5;
const RUN_TIME: Duration = Duration::from_millis(300);

fn main() {
    println!("{:<30} {:>9} {:>9}", "cipher, bytes per record", "seal GB/s", "open GB/s");
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        for len in [1400, MAX_CONTENT_BYTES] {
            let (ours, theirs) = session(cipher);
            let [seal, open] = rates(ours, theirs, len);
            println!("{:<30} {seal:>9.2} {open:>9.2}", format!("{cipher}, {len}"));
        }
    }
}

/// The keys of both ends of a connection.
fn session(cipher: Cipher) -> (SessionKeys, SessionKeys) {
    let identity = || {
        let secret = SecretKey::generate().expect("randomness");
        Identity::new(&secret).expect("a fresh key is good").with_only(cipher)
    };
    let (dialer, acceptor) = (identity(), identity());
    let (a, b) = UnixStream::pair().expect("a pair of sockets");
    for stream in [&a, &b] {
        stream.set_nonblocking(true).expect("a socket can be non-blocking");
    }
    let hello = Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 0,
        instance: 1,
        lane_group: "bench".to_owned(),
    };
    let dial = Dialer::new(&dialer, acceptor.public()).and_then(|dialer| dialer.dial(a, hello));
    let accept = Acceptor::new(&acceptor, Arc::new(|_| true)).and_then(|acceptor| acceptor.accept(b));
    let (mut dial, mut accept) = (dial.expect("TLS is set up"), accept.expect("TLS is set up"));
    let (mut ours, mut theirs) = (None, None);
    while ours.is_none() || theirs.is_none() {
        advance(&mut dial, &mut ours);
        advance(&mut accept, &mut theirs);
    }
    (ours.expect("just looked"), theirs.expect("just looked"))
}

fn advance(handshake: &mut Handshake<UnixStream>, keys: &mut Option<SessionKeys>) {
    if keys.is_some() {
        return;
    }
    match handshake.advance().expect("the two ends fit") {
        Progress::HelloReceived { .. } => {
            handshake.welcome(2, Encryption::Tls).expect("the acceptor has just been asked");
        }
        Progress::Done(established) => *keys = established.keys,
        Progress::WantRead
        | Progress::WantWrite
        | Progress::Refused
        | Progress::JoinReceived { .. }
        | Progress::Joined => {}
    }
}

/// The best rates of sealing and of opening, in 10^9 bytes of content per second.
fn rates(ours: SessionKeys, theirs: SessionKeys, len: usize) -> [f64; 2] {
    const BATCH: usize = 64;
    let (mut sealer, mut opener) = (ours.sealer, theirs.opener);
    let mut records = vec![vec![0u8; len + TRAILER_BYTES]; BATCH];
    let mut headers = [[0; HEADER_BYTES]; BATCH];
    let mut best = [0.0f64; 2];
    for _ in 0..RUNS {
        let mut spent = [Duration::ZERO; 2];
        let mut bytes = 0;
        while spent[0] < RUN_TIME {
            let start = Instant::now();
            for (record, header) in records.iter_mut().zip(&mut headers) {
                let (content, trailer) = record.split_at_mut(len);
                let sealed = sealer.seal(content).expect("the key lasts for the benchmark");
                *header = sealed.0;
                trailer.copy_from_slice(&sealed.1);
            }
            let sealed = Instant::now();
            for (record, header) in records.iter_mut().zip(headers) {
                black_box(opener.open(header, record).expect("what was sealed opens"));
            }
            spent[0] += sealed - start;
            spent[1] += sealed.elapsed();
            bytes += BATCH * len;
        }
        for (best, spent) in best.iter_mut().zip(spent) {
            *best = best.max(bytes as f64 / spent.as_secs_f64() / 1e9);
        }
    }
    best
}
