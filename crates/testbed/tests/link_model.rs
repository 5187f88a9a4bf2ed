//! What the emulated link does to real packets: bursts of losses, jitter, duplicates, scheduled changes; and many links with one
//! thread. No packet may be faster than the model. How much slower one may be follows from how late this machine is.

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use common::{any_port, ip, pair};
use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_testbed::clock;
use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::link::{Direction, DuplexSettings, End, Network, Scheduling};
use trunkline_testbed::namespace::Host;
use trunkline_testbed::privilege;
use trunkline_units::{Instant, Rate};

/// Links of the network that one thread serves.
const LINKS: u8 = 20;
const MILLISECOND: Duration = Duration::from_millis(1);

/// A datagram that arrived.
struct Arrived {
    number: u32,
    sent: Instant,
    took: Duration,
}

/// Sends `count` datagrams of `bytes` bytes, one each `interval`, and receives until none comes for `patience`.
fn send(
    (from, to, address): (&Host, &Host, &str),
    (count, bytes): (u32, usize),
    interval: Duration,
    patience: Duration,
) -> Vec<Arrived> {
    let sink = to.run(|| UdpSocket::bind(any_port(address))).expect("a socket");
    sink.set_read_timeout(Some(patience)).expect("a time-out");
    // For all of them: a receiver that waits for a CPU is not to lose any.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&sink, 64 << 20).expect("a buffer");
    let target = sink.local_addr().expect("its address");
    let receiver = std::thread::spawn(move || {
        let (mut buffer, mut all) = ([0; 2048], Vec::new());
        while let Ok(length) = sink.recv(&mut buffer) {
            let now = clock::now();
            let number = u32::from_be_bytes(buffer[..4].try_into().expect("four bytes"));
            let nanos = u64::from_be_bytes(buffer[4..12].try_into().expect("eight bytes"));
            let sent = Instant::from_nanos(nanos);
            assert_eq!(length, bytes);
            all.push(Arrived { number, sent, took: now - sent });
        }
        all
    });
    from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let (mut data, begin) = (vec![0; bytes], clock::now());
        for number in 0..count {
            clock::sleep_until(begin + interval * number);
            data[..4].copy_from_slice(&number.to_be_bytes());
            data[4..12].copy_from_slice(&clock::now().as_nanos().to_be_bytes());
            socket.send_to(&data, target).expect("it is sent");
        }
    });
    receiver.join().expect("it ends")
}

fn clean(delay: Duration) -> LinkSettings {
    LinkSettings::new(Rate::MAX, delay)
}

/// What arrives at the far end of a link whose way there is like this.
fn through(way: LinkSettings, count: u32, interval: Duration) -> (Vec<Arrived>, common::Pair) {
    let settings = DuplexSettings { forward: way, ..DuplexSettings::symmetric(clean(Duration::ZERO)) };
    let pair = pair(&settings);
    let arrived = send((&pair.a, &pair.b, common::B), (count, 200), interval, 300 * MILLISECOND);
    (arrived, pair)
}

#[test]
fn losses_come_in_bursts_of_the_length_that_is_set() {
    if !privilege::available("losses_come_in_bursts_of_the_length_that_is_set") {
        return;
    }
    let loss = Loss::Bursts { to_bad: 0.02, to_good: 0.2, good: 0.0, bad: 1.0 };
    let (arrived, pair) = through(clean(Duration::ZERO).loss(loss), 20_000, Duration::from_micros(50));
    let counters = pair.link.counters(Direction::Forward);
    let mut there = vec![false; 20_000];
    for arrived in &arrived {
        there[arrived.number as usize] = true;
    }
    let missing = there.iter().filter(|there| !**there).count() as u64;
    let lost = missing as f64;
    let bursts = there.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
    println!("{lost} lost in {bursts} bursts; {counters:?}");
    // A mean of 1/11 in bursts of 5; the standard deviations are 0.0063 and 0.25.
    assert!((lost / 20_000.0 - 1.0 / 11.0).abs() < 0.03, "{lost}");
    assert!((4.0..6.0).contains(&(lost / bursts)), "{}", lost / bursts);
    // Each was lost by the model: the host sends a few other packets.
    assert!((missing..missing + 20).contains(&counters.dropped.loss), "{counters:?}");
    assert_eq!(counters.dropped.total(), counters.dropped.loss);
}

#[test]
fn jitter_reorders_if_it_may_and_only_then() {
    if !privilege::available("jitter_reorders_if_it_may_and_only_then") {
        return;
    }
    for reorders in [false, true] {
        let lateness = Lateness::watch();
        let jitter = Jitter::Uniform { max: 20 * MILLISECOND, reorders };
        let impairments = Impairments { jitter, ..Impairments::default() };
        let way = LinkSettings { impairments, ..clean(10 * MILLISECOND) };
        let (arrived, _pair) = through(way, 1000, MILLISECOND);
        assert_eq!(arrived.len(), 1000);
        assert_eq!(arrived.is_sorted_by_key(|arrived| arrived.number), !reorders);
        let least = arrived.iter().map(|arrived| arrived.took).min().expect("samples");
        let mean = arrived.iter().map(|arrived| arrived.took.as_secs_f64()).sum::<f64>() / 1000.0;
        println!("reorders {reorders}: least {least:?}, mean {:.2} ms", mean * 1e3);
        assert!(least >= 10 * MILLISECOND, "{least:?}");
        // In order each waits for the latest of about twenty before it.
        let (low, high) = if reorders { (0.019, 0.022) } else { (0.023, 0.031) };
        // The link's thread and the receiver.
        let high = high + lateness.tolerance(2).as_secs_f64();
        assert!((low..high).contains(&mean), "{mean}, up to {high}");
    }
}

#[test]
fn duplicates_are_copies_and_are_counted() {
    if !privilege::available("duplicates_are_copies_and_are_counted") {
        return;
    }
    let impairments = Impairments { duplication: 0.1, ..Impairments::default() };
    let way = LinkSettings { impairments, ..clean(Duration::ZERO) };
    let (arrived, pair) = through(way, 5000, Duration::from_micros(100));
    let mut copies = vec![0_u32; 5000];
    for arrived in &arrived {
        copies[arrived.number as usize] += 1;
    }
    let twice = copies.iter().filter(|copies| **copies == 2).count() as u64;
    let counters = pair.link.counters(Direction::Forward);
    println!("{twice} twice; {counters:?}");
    assert!(copies.iter().all(|copies| (1..=2).contains(copies)));
    // Five standard deviations: √(5000 × 0.1 × 0.9) is 21.
    assert!((395..=605).contains(&twice), "{twice}");
    assert!((twice..twice + 20).contains(&counters.duplicated), "{counters:?}");
    assert_eq!(counters.packets_out, counters.packets_in + counters.duplicated);
}

#[test]
fn a_scheduled_rate_holds_from_its_time_on_and_again_in_each_round() {
    if !privilege::available("a_scheduled_rate_holds_from_its_time_on_and_again_in_each_round") {
        return;
    }
    // 228 bytes on the link: 18.24 ms at 100 kbit/s. Slow in the second half of each second, unlimited in the first.
    let slow = Rate::from_bits_per_second(100_000);
    let way = LinkSettings {
        changes: vec![
            (Duration::ZERO, LinkChange::Rate(Rate::MAX)),
            (500 * MILLISECOND, LinkChange::Rate(slow)),
        ],
        repeat: Some(1000 * MILLISECOND),
        ..clean(Duration::ZERO)
    };
    let settings = DuplexSettings { forward: way, ..DuplexSettings::symmetric(clean(Duration::ZERO)) };
    let pair = pair(&settings);
    let lateness = Lateness::watch();
    let start = clock::now() + 10 * MILLISECOND;
    pair.link.handle().restart_changes(start);
    clock::sleep_until(start);
    // One each 25 ms for 2 s.
    let arrived = send((&pair.a, &pair.b, common::B), (80, 200), 25 * MILLISECOND, 300 * MILLISECOND);
    assert_eq!(arrived.len(), 80);
    let transmission = Duration::from_micros(18_240);
    // By when each was really sent; those sent near a change may be on either side of it.
    let sent_within = |phase: std::ops::Range<u128>| -> Vec<Duration> {
        let within = |arrived: &&Arrived| phase.contains(&((arrived.sent - start).as_millis() % 1000));
        arrived.iter().filter(within).map(|arrived| arrived.took).collect()
    };
    let (fast, slow) = (sent_within(20..440), sent_within(520..940));
    let least = |times: &[Duration]| *times.iter().min().expect("datagrams");
    println!("fast {:?}, slow {:?}, at least", least(&fast), least(&slow));
    assert!(slow.iter().all(|took| *took >= transmission), "{slow:?}");
    // Without a rate nothing takes any time but what the machine takes: the link's thread and the receiver.
    let tolerance = lateness.tolerance(2);
    assert!(
        least(&fast) < tolerance && least(&slow) < transmission + tolerance,
        "{fast:?} {slow:?}, {tolerance:?}"
    );
    // Each that was surely slow occupied the link, and none that was surely fast.
    let reading = pair.link.handle().reading(Direction::Forward);
    let (least, most) = (slow.len() as u32, (arrived.len() - fast.len()) as u32);
    assert!(
        reading.busy >= transmission * least && reading.busy <= transmission * (most + 1),
        "{:?}",
        reading.busy
    );
}

#[test]
fn one_thread_serves_many_links_and_each_counts_for_itself() {
    if !privilege::available("one_thread_serves_many_links_and_each_counts_for_itself") {
        return;
    }
    let (a, b) = (Host::new("a").expect("host"), Host::new("b").expect("host"));
    let mut network = Network::new(Scheduling::Shared).expect("a network");
    let threads = || std::fs::read_dir("/proc/self/task").expect("tasks").count();
    let before = threads();
    let addresses: Vec<[String; 2]> =
        (0..LINKS).map(|link| [format!("198.18.{link}.1"), format!("198.18.{link}.2")]).collect();
    for (link, [near, far]) in addresses.iter().enumerate() {
        let device = format!("wan{link}");
        let delay = MILLISECOND * (5 + link as u32);
        let settings = DuplexSettings::symmetric(LinkSettings::new(Rate::from_mbit(10.0), delay));
        let (near, far) = ([ip(near)], [ip(far)]);
        let near = End { host: &a, device: &device, addresses: &near };
        let far = End { host: &b, device: &device, addresses: &far };
        network.connect(near, far, &settings).expect("a link");
    }
    assert_eq!(threads(), before);
    let lateness = Lateness::watch();
    let links = network.links();
    std::thread::scope(|scope| {
        let tests: Vec<_> = addresses
            .iter()
            .map(|[_, far]| {
                let (a, b) = (&a, &b);
                scope.spawn(move || send((a, b, far), (200, 200), 5 * MILLISECOND, 500 * MILLISECOND))
            })
            .collect();
        for (link, test) in tests.into_iter().enumerate() {
            let arrived = test.join().expect("it ends");
            // 228 bytes at 10 Mbit/s, and the delay of this link and no other.
            let exact = MILLISECOND * (5 + link as u32) + Duration::from_nanos(182_400);
            let least = arrived.iter().map(|arrived| arrived.took).min().expect("datagrams");
            assert_eq!(arrived.len(), 200);
            // The thread of the link counts its own lateness; the receiver has a thread too.
            let late = links[link].reading(Direction::Forward).counters.late_peak + lateness.tolerance(1);
            assert!(
                least >= exact && least <= exact + late,
                "link {link}: {least:?} of {exact:?}, late by {late:?}"
            );
        }
    });
    for (number, link) in links.iter().enumerate() {
        let reading = link.reading(Direction::Forward);
        let counters = reading.counters;
        let late = counters.late_total / u32::try_from(counters.packets_out).expect("few");
        println!(
            "link {number}: late by {late:?} on average, {:?} at most, {} packets by more than 1 ms",
            counters.late_peak, counters.late_packets
        );
        assert!((200..220).contains(&counters.packets_out), "{counters:?}");
        assert_eq!(
            (reading.link.delivered, reading.queue.segments_out),
            (counters.packets_out, counters.packets_out)
        );
        assert_eq!(reading.queue.backlog_segments, 0);
        assert!(counters.late_packets <= counters.packets_out && counters.late_total >= counters.late_peak);
    }
}
