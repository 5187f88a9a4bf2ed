//! Everything at once for a long time: bulk transfers, a flood, small packets, reloads, kills, cuts of the WAN, unauthenticated callers and
//! clients. Afterwards memory, descriptors and threads are as after the warm-up.
//!
//! The short run is an ordinary test. The long run takes half an hour, or the given time:
//!
//! ```text
//! TRUNKLINE_SOAK_SECONDS=1800 cargo test -p trunkline --test all soak:: -- --ignored --nocapture
//! ```

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::stream::{Outcome, stream};
use crate::common::{edit, setup, sites};
use trunkline_testbed::link::{DuplexSettings, LinkHandle};
use trunkline_testbed::namespace::{Host, Task};
use trunkline_testbed::procfs;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, Wan};
use trunkline_units::Rate;

/// How often usage is written down.
const SAMPLE: Duration = Duration::from_secs(5);
/// The gateway that runs from the beginning to the end, so that leaks add up. Unauthenticated callers connect to it.
const SURVIVOR: Gateway = Gateway::T2;
/// What its memory may grow by from the second third of the run to the last. Queues are as full as chance will have them.
const GROWTH: u64 = 24 << 20;
const DESCRIPTORS: u64 = 24;

/// Values that a reload goes through, as replacements in the file.
const RELOADS: &[(&str, &str)] = &[
    ("[tun]\n", "[tun]\nmtu = 1400\n"),
    ("[tun]\n", "[tun]\ntx_queue_len = 300\n"),
    ("[lanes]\n", "[lanes]\ncongestion_control = \"reno\"\n"),
    ("[lanes]\n", "[lanes]\nedge_pacing = false\n"),
    ("[lanes]\n", "[lanes]\nfwmark = 9\n"),
    ("weight = 2\n", "weight = 9\npriority = true\n"),
    ("weight = 2\n", "weight = 2\nceiling = \"20mbit\"\n"),
    ("weight = 2\n", "weight = 2\nguarantee = \"1mbit\"\n"),
    ("weight = 2\n", "weight = 2\ndscp = \"af11\"\n"),
    ("weight = 2\n", "weight = 2\nretransmission_filter = false\nheader_compression = false\n"),
    ("weight = 2\n", "weight = 2\nflows = { limit = 100, over = \"rest\" }\n"),
    ("weight = 2\n", "weight = 2\nqueue = { discipline = \"pie\" }\n"),
    ("weight = 2\n", "weight = 2\nqueue = { discipline = \"fq-codel\" }\n"),
    ("weight = 2\n", "weight = 2\nmatch = [{ protocol = \"tcp\", port = 5001 }]\n"),
    ("routes = [", "routes = [\"198.19.77.0/24\", "),
    // Of both sites at once: lanes come and go.
    ("weight = 2\n", "weight = 2\nlanes = 2\n"),
    (
        "[[classes]]\nname = \"rest\"",
        "[[classes]]\nname = \"more\"\nmatch = [{ dscp = 3 }]\n[[classes]]\nname = \"rest\"",
    ),
    ("encryption = \"tls\"", "encryption = \"none\""),
];

const CLASSES: &str = "[[classes]]\nname = \"voice\"\nmatch = [{ protocol = \"udp\", length = \"1-200\" }]\n\
    [[classes]]\nname = \"bulk\"\nmatch = [{ protocol = \"tcp\" }]\nweight = 2\n\
    [[classes]]\nname = \"rest\"\n";

/// What the gateway that is never killed holds at one time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    resident_bytes: u64,
    descriptors: u64,
    threads: u64,
}

fn sample(gateways: &Gateways, at: Duration) -> Option<Sample> {
    let pid = gateways.pid(SURVIVOR)?;
    Some(Sample {
        at,
        resident_bytes: procfs::memory(pid).ok()?.resident_bytes,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
        threads: procfs::threads(pid).ok()? as u64,
    })
}

/// The background load, until it is stopped.
struct Background {
    stop: Arc<AtomicBool>,
    streams: Arc<AtomicU64>,
    tasks: Vec<Task<Result<(), String>>>,
}

impl Background {
    fn start(scene: &Scene) -> Self {
        let (stop, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut background = Self { stop, streams, tasks: Vec::new() };
        background.bulk(Arc::clone(&scene.a), Arc::clone(&scene.x), Plan::IPV4.x);
        background.bulk(Arc::clone(&scene.x), Arc::clone(&scene.a), Plan::IPV4.a);
        background.datagrams(&scene.a, 1400, Duration::from_millis(1));
        background.datagrams(&scene.x, 20, Duration::from_micros(500));
        background.callers(&scene.t1);
        background
    }

    /// One stream after the other, each checked byte by byte.
    fn bulk(&mut self, from: Arc<Host>, to: Arc<Host>, ip: IpAddr) {
        let (stop, streams) = (Arc::clone(&self.stop), Arc::clone(&self.streams));
        let host = Arc::clone(&from);
        self.tasks.push(host.spawn("bulk", move || {
            while !stop.load(Ordering::Relaxed) {
                match stream(&from, (&to, ip), 5_000_000, Duration::from_secs(60)) {
                    Outcome::Whole => drop(streams.fetch_add(1, Ordering::Relaxed)),
                    Outcome::Wrong(what) => return Err(what),
                    // A killed gateway has no route, so a connection at that time fails.
                    Outcome::Broken(_) => std::thread::sleep(Duration::from_millis(200)),
                }
            }
            Ok(())
        }));
    }

    /// Datagrams of one size from a site to the other.
    fn datagrams(&mut self, host: &Arc<Host>, bytes: usize, gap: Duration) {
        let stop = Arc::clone(&self.stop);
        let to = if bytes > 100 { Plan::IPV4.x } else { Plan::IPV4.a };
        self.tasks.push(host.spawn("datagrams", move || {
            let socket = UdpSocket::bind("0.0.0.0:0").map_err(|error| error.to_string())?;
            let mut number = 0_u16;
            while !stop.load(Ordering::Relaxed) {
                number = number.wrapping_add(1);
                // Many flows to ports without a listener; the ICMP errors that come back are traffic too.
                let _ = socket.send_to(&vec![0; bytes], (to, 10_000 + number % 2000));
                std::thread::sleep(gap);
            }
            Ok(())
        }));
    }

    /// Unauthenticated callers at T2's listener.
    fn callers(&mut self, host: &Arc<Host>) {
        let stop = Arc::clone(&self.stop);
        self.tasks.push(host.spawn("callers", move || {
            let mut held = std::collections::VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                let address = (Plan::IPV4.t2_wan, 4600).into();
                if let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
                    let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
                    held.push_back(stream);
                }
                if held.len() > 20 {
                    held.pop_front();
                }
                std::thread::sleep(Duration::from_millis(30));
            }
            Ok(())
        }));
    }

    fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.join().expect("every stream is intact");
        }
        self.streams.load(Ordering::Relaxed)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Dropping a task waits for it.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One disturbance after the other, by number.
fn disturb(number: u64, gateways: &mut Gateways, link: &LinkHandle, files: &[String; 2]) {
    let (from, to) = RELOADS[(number % RELOADS.len() as u64) as usize];
    for (gateway, file) in Gateway::BOTH.into_iter().zip(files) {
        assert!(file.contains(from), "{from:?} is not in\n{file}");
        // Every other time it is as it was at first.
        edit(gateways, gateway, |_| {
            if number.is_multiple_of(2) { file.replacen(from, to, 1) } else { file.clone() }
        });
        gateways.reload(gateway).unwrap_or_else(|error| panic!("{from:?} to {to:?}: {error}"));
        let socket = gateways.control_socket(gateway).to_owned();
        let mut clients: Vec<UnixStream> =
            (0..8).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
        for client in clients.iter_mut().take(4) {
            let _ = client.write_all(b"{\"request\":\"flows\"}\n");
        }
        gateways.status(gateway).expect("it answers");
    }
    if number % 5 == 4 {
        link.cut();
        std::thread::sleep(Duration::from_secs(1));
        link.restore();
    }
    if number % 16 == 15 {
        let victim = SURVIVOR.other();
        gateways.kill9(victim);
        gateways.restart(victim).expect("it starts again");
        gateways.wait_until_up(Duration::from_secs(40)).expect("every lane is back");
    }
}

/// The largest sample of a part of the run.
fn peak(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    samples.iter().map(of).max().expect("it has samples")
}

fn soak(test: &str, time: Duration) {
    let rate = Rate::from_mbit(40.0);
    let wan =
        Wan::Emulated(DuplexSettings::wide_area(rate, Duration::from_millis(10), Duration::from_millis(30)));
    let setup = GatewaySetup {
        classes: Some(CLASSES.to_owned()),
        lanes: Some("\n".to_owned()),
        ..setup(Encryption::Tls)
    };
    let Some((scene, mut gateways)) = sites(test, wan, &setup) else { return };
    let link = scene.link().expect("an emulated link");
    let files = Gateway::BOTH
        .map(|gateway| fs::read_to_string(gateways.configuration_file(gateway)).expect("its file"));
    let begin = Instant::now();
    let background = Background::start(&scene);
    let mut samples = Vec::new();
    let (mut number, mut next) = (0, Duration::ZERO);
    while begin.elapsed() < time {
        for gateway in Gateway::BOTH {
            gateways.check_alive(gateway).expect("it runs");
        }
        disturb(number, &mut gateways, &link, &files);
        number += 1;
        std::thread::sleep(Duration::from_millis(700));
        if begin.elapsed() >= next {
            next = begin.elapsed() + SAMPLE.min(time / 30);
            samples.extend(sample(&gateways, begin.elapsed()));
        }
    }
    for gateway in Gateway::BOTH {
        edit(&gateways, gateway, |_| files[gateway as usize].clone());
        gateways.reload(gateway).expect("it reloads");
    }
    gateways.wait_until_up(Duration::from_secs(40)).expect("every lane is up");
    let streams = background.finish();
    assert!(streams > 0, "no stream in {time:?}");
    for sample in samples.iter().step_by((samples.len() / 20).max(1)) {
        let Sample { at, resident_bytes, descriptors, threads } = sample;
        println!("{at:6.0?}: {} MiB, {descriptors} descriptors, {threads} threads", resident_bytes >> 20);
    }
    println!("{streams} streams of 5 MB, {number} disturbances in {:.0?}", begin.elapsed());
    check_growth(&samples);
}

fn check_growth(samples: &[Sample]) {
    let third = samples.len() / 3;
    assert!(third > 0, "{} samples", samples.len());
    // The first third is the warm-up.
    let (middle, end) = (&samples[third..2 * third], &samples[2 * third..]);
    for (what, of, slack) in [
        ("memory", (|sample| sample.resident_bytes) as fn(&Sample) -> u64, GROWTH),
        ("descriptors", |sample| sample.descriptors, DESCRIPTORS),
        ("threads", |sample| sample.threads, 2),
    ] {
        let (before, after) = (peak(middle, of), peak(end, of));
        println!("{what}: at most {before} in the second third, {after} in the last");
        assert!(after <= before + slack, "{what} grows: {before}, then {after}");
    }
}

#[test]
fn a_short_soak_leaves_nothing_behind() {
    soak("a_short_soak_leaves_nothing_behind", Duration::from_secs(20));
}

#[test]
#[ignore = "takes half an hour"]
fn half_an_hour_of_everything_leaves_nothing_behind() {
    let seconds = std::env::var("TRUNKLINE_SOAK_SECONDS").map_or(1800, |text| text.parse().expect("seconds"));
    soak("half_an_hour_of_everything_leaves_nothing_behind", Duration::from_secs(seconds));
}

#[test]
fn growth_is_distinguished_from_noise() {
    let sample = |number: u64, resident_bytes| Sample {
        at: Duration::from_secs(number),
        resident_bytes,
        descriptors: 40 + number % 7,
        threads: 6,
    };
    check_growth(&(0..90).map(|n| sample(n, (100 << 20) + ((n % 5) << 20))).collect::<Vec<_>>());
    let leak: Vec<Sample> = (0..90).map(|n| sample(n, (100 << 20) + (n << 21))).collect();
    assert!(std::panic::catch_unwind(|| check_growth(&leak)).is_err(), "2 MiB more each time");
}
