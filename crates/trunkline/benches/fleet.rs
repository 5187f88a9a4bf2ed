//! A controller with many sites: how long a change takes to reach all of them, what that costs, and what a restart does.
//!
//! ```text
//! cargo bench -p trunkline --bench fleet [-- SITES]
//! ```
//!
//! The controller is a process of its own. The sites are tasks in this one that speak its protocol over TLS on the loopback: each polls as
//! `trunkline controller follow` does, and checks the signature of what it gets.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use trunkline_controller::{Author, Place as At, Store};
use trunkline_sites::{ControllerInvitation, Expected, Poll, Report, Signed, fingerprint};
use trunkline_units::Rng;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");
const SITES: usize = 10_000;
/// Each of the others has a trunk to one of them.
const HUBS: usize = 100;
/// As `follow` waits after a poll that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

fn document(sites: usize, guarantee: &str) -> String {
    let site = |number: usize| {
        let (high, low) = (number / 256, number % 256);
        format!(
            "[sites.s{number}]\nnetworks = [\"10.{high}.{low}.0/24\"]\n[sites.s{number}.uplinks]\n\
             l = {{ up = \"1 Gbit/s\", down = \"1 Gbit/s\", endpoint = \"s{number}.example:4600\" }}\n"
        )
    };
    let trunk = |number: usize| {
        format!(
            "[trunks.t{number}]\nsites = [\"s{}\", \"s{number}\"]\nguarantee = \"{guarantee}\"\n",
            number % HUBS
        )
    };
    (0..sites).map(site).chain((HUBS..sites).map(trunk)).collect()
}

/// The directory of a run.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn store(&self) -> PathBuf {
        self.0.join("n.db")
    }

    fn place(&self) -> At {
        At::from(self.store().as_path())
    }

    fn apply(&self, text: &str, from: u64) {
        let file = self.0.join("n.toml");
        fs::write(&file, text).expect("the document");
        let mut command = Command::new(PROGRAM);
        command.args(["controller", "apply"]).arg(&file).arg("--store").arg(self.store());
        command.args(["--from", &from.to_string()]).stdout(Stdio::null());
        assert!(command.status().expect("it runs").success(), "it is applied");
    }

    fn serve(&self, address: SocketAddr) -> Controller {
        let mut command = Command::new(PROGRAM);
        command.args(["controller", "serve"]).arg(self.store());
        command.args(["--listen", &address.to_string(), "--url", &format!("https://{address}")]);
        let process = command.stderr(Stdio::null()).spawn().expect("it starts");
        let begin = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the controller listens");
            std::thread::sleep(Duration::from_millis(20));
        }
        Controller(process)
    }
}

struct Controller(Child);

impl Controller {
    fn read(&self, file: &str) -> String {
        fs::read_to_string(Path::new("/proc").join(self.0.id().to_string()).join(file)).expect("it runs")
    }

    /// Seconds of a processor so far.
    fn processor(&self) -> f64 {
        let stat = self.read("stat");
        let fields = stat.rsplit(')').next().unwrap_or_default();
        // utime and stime, in hundredths of a second.
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
            / 100.0
    }

    /// The most memory that it had, MB.
    fn memory(&self) -> f64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or_default() / 1000.0
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What all sites share.
struct Fleet {
    address: SocketAddr,
    tls: TlsConnector,
    key: String,
    network: String,
    /// The largest sequence that each has.
    newest: Vec<AtomicU64>,
    polling: AtomicUsize,
}

/// A site that polls for ever.
async fn follow(fleet: Arc<Fleet>, number: usize) {
    let (mut have, mut wait) = (None, BACKOFF.0);
    let mut rng = Rng::new(number as u64, "site");
    loop {
        if poll(&fleet, number, &mut have, &mut wait).await.is_err() {
            sleep(wait.mul_f64(0.5 + rng.uniform() / 2.0)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }
}

/// Polls over one connection until it ends.
async fn poll(
    fleet: &Fleet,
    number: usize,
    have: &mut Option<String>,
    wait: &mut Duration,
) -> std::io::Result<()> {
    let socket = TcpStream::connect(fleet.address).await?;
    let name = ServerName::from(fleet.address.ip());
    let mut stream = fleet.tls.connect(name, socket).await?;
    let token = format!("token-{number}");
    loop {
        let poll = Poll { have: have.clone(), wait_s: 50, report: Report::default() };
        let body = serde_json::to_string(&poll)?;
        let head = format!(
            "POST /v1/poll HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        fleet.polling.fetch_add(1, Ordering::Relaxed);
        let answer = answer(&mut stream).await;
        fleet.polling.fetch_sub(1, Ordering::Relaxed);
        *wait = BACKOFF.0;
        let Some(body) = answer? else { continue };
        let signed: Signed = serde_json::from_slice(&body)?;
        let newest = fleet.newest[number].load(Ordering::Relaxed);
        let site = format!("s{number}");
        let expected = Expected { key: &fleet.key, network: &fleet.network, site: &site, sequence: newest };
        let said = expected.check(&signed).map_err(std::io::Error::other)?;
        fleet.newest[number].store(said.sequence, Ordering::Relaxed);
        *have = Some(fingerprint(&said.peers));
    }
}

/// The content of an answer; nothing, if it has none.
async fn answer(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if text.starts_with("http/1.1 204") {
        return Ok(None);
    }
    assert!(text.starts_with("http/1.1 200"), "{text}");
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(bytes.split_off(head)))
}

/// Waits until it is so for all sites: how long that took.
async fn until(what: &str, begin: Instant, mut done: impl FnMut() -> bool) -> f64 {
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(240), "not within four minutes: {what}");
        sleep(Duration::from_millis(20)).await;
    }
    begin.elapsed().as_secs_f64()
}

fn main() {
    let sites = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(SITES);
    assert!(sites > HUBS, "more than {HUBS} sites");
    let place = Place(std::env::temp_dir().join(format!("trunkline-fleet-{}", std::process::id())));
    fs::create_dir_all(&place.0).expect("a directory");
    place.apply(&document(sites, "2 Mbit/s"), 0);
    let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    drop(place.serve(port));
    let invite = Command::new(PROGRAM).args(["controller", "invite"]).arg(place.store()).arg("s0").output();
    let invitation: ControllerInvitation =
        String::from_utf8_lossy(&invite.expect("it runs").stdout).parse().expect("an invitation");
    enrol(&place, sites);
    let network = Store::open(&place.place()).and_then(|mut store| store.setting("network"));
    let network = network.expect("a store").expect("a network");
    let mut roots = RootCertStore::empty();
    let certificate = STANDARD.decode(&invitation.certificate).expect("base64");
    roots.add(CertificateDer::from(certificate)).expect("a certificate");
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let fleet = Arc::new(Fleet {
        address: port,
        tls: TlsConnector::from(Arc::new(tls)),
        key: invitation.key,
        network,
        newest: (0..sites).map(|_| AtomicU64::new(0)).collect(),
        polling: AtomicUsize::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(measure(&place, &fleet, sites));
}

/// All sites enrol, as the controller would have it; a request for each would measure the disk.
fn enrol(place: &Place, sites: usize) {
    let mut store = Store::open(&place.place()).expect("a store");
    let author = Author { by: "bench", at: 1 };
    for number in 0..sites {
        let (site, secret, token) =
            (format!("s{number}"), format!("secret-{number}"), format!("token-{number}"));
        store.invite(author, &site, &secret, 2).expect("an invitation");
        store.enrol(1, &secret, &format!("{number:043}="), &token).expect("a site");
    }
}

async fn measure(place: &Place, fleet: &Arc<Fleet>, sites: usize) {
    let mut controller = place.serve(fleet.address);
    let begin = Instant::now();
    for number in 0..sites {
        tokio::spawn(follow(Arc::clone(fleet), number));
    }
    let polling = || fleet.polling.load(Ordering::Relaxed) == sites;
    let all_have = |sequence: u64| {
        polling() && fleet.newest.iter().all(|newest| newest.load(Ordering::Relaxed) >= sequence)
    };
    let time = until("all sites poll", begin, || all_have(1)).await;
    println!("{sites} sites at once: {time:.1} s, {:.1} s of a processor", controller.processor());
    let sequence = || Store::open(&place.place()).and_then(|mut store| store.sequence()).expect("a number");
    for (revision, rate) in [(1, "3 Mbit/s"), (2, "4 Mbit/s"), (3, "5 Mbit/s")] {
        let text = document(sites, rate);
        let (begin, before) = (Instant::now(), controller.processor());
        place.apply(&text, revision);
        let applied = begin.elapsed().as_secs_f64();
        let newest = sequence();
        let time = until("all have the change", begin, || all_have(newest)).await;
        println!(
            "a change of all trunks: planned and kept in {applied:.1} s, at all sites after {time:.1} s; \
             {:.1} s of the controller's processor",
            controller.processor() - before
        );
    }
    let (begin, before) = (Instant::now(), controller.processor());
    sleep(Duration::from_secs(20)).await;
    let used = (controller.processor() - before) / begin.elapsed().as_secs_f64();
    println!(
        "while nothing changes: {:.1} % of a processor, {:.0} MB at most",
        used * 100.0,
        controller.memory()
    );
    drop(controller);
    let begin = Instant::now();
    controller = place.serve(fleet.address);
    let time = until("all sites poll again", begin, polling).await;
    println!(
        "killed and started: all sites poll after {time:.1} s, {:.1} s of a processor",
        controller.processor()
    );
}
