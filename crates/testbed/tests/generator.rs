//! The generator on real kernels, over an emulated link. Each test asserts what noise cannot cause.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{B, Pair, ip, pair};
use trunkline_link::{LinkSettings, Loss};
use trunkline_testbed::clock::{self, Scheduling};
use trunkline_testbed::generator::{
    Generator, GeneratorError, Load, Reading, SocketOptions, Source, SourceReading, Transfer,
};
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::privilege;
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing, TransferState, stream};

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(15);

fn ready(test: &str) -> bool {
    privilege::available(test)
}

fn line(rate: f64) -> Pair {
    pair(&DuplexSettings::wide_area(Rate::from_mbit(rate), 10 * MS, 100 * MS))
}

fn source(pair: &Pair, port: u16, load: Load) -> Source<'_> {
    Source {
        client: &pair.a,
        server: &pair.b,
        address: SocketAddr::new(ip(B), port),
        dscp: 0,
        start: Duration::ZERO,
        stop: None,
        rng: stream(1, usize::from(port)),
        load,
    }
}

fn tcp(pattern: Pattern) -> Load {
    Load::Tcp { pattern, sockets: Box::new([SocketOptions::new("cubic"), SocketOptions::new("cubic")]) }
}

fn fixed(value: f64) -> Distribution {
    Distribution::Fixed(value)
}

fn bulk(flows: u32, bytes: Option<u64>) -> Pattern {
    Pattern::Bulk { flows, bytes, stagger: fixed(0.01) }
}

fn generator(sources: &[Source<'_>]) -> Generator {
    let generator = Generator::new(sources, Scheduling::Shared).expect("generator");
    generator.start(clock::now());
    generator
}

/// Runs sources of transfers until all are over.
fn until_over(sources: &[Source<'_>]) -> Reading {
    let generator = generator(sources);
    let all: Vec<usize> = (0..sources.len()).collect();
    assert!(generator.wait_until_over(&all, clock::now() + LIMIT), "{:?}", generator.reading().sources);
    generator.finish()
}

/// The first reading of which something holds.
fn until(generator: &Generator, holds: impl Fn(&Reading) -> bool) -> Reading {
    let end = clock::now() + LIMIT;
    loop {
        let reading = generator.reading();
        if holds(&reading) {
            return reading;
        }
        assert!(clock::now() < end, "{:?}", reading.sources);
        clock::sleep_until(clock::now() + 10 * MS);
    }
}

/// All flows of a source have delivered something.
fn has_begun(flows: usize) -> impl Fn(&Reading) -> bool {
    move |reading| {
        let transfers = reading.sources[0].transfers();
        transfers.len() == flows && transfers.iter().all(|transfer| transfer.bytes > 0)
    }
}

/// A time after the source of datagrams has stopped, and a while in which the last ones arrive.
fn stopped(seconds: u64) -> impl Fn(&Reading) -> bool {
    move |reading| reading.at > Instant::from_millis(seconds * 1000 + 300)
}

/// Threads of generators; the test harness has others.
fn threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == "generator").count()
}

fn assert_complete(transfer: &Transfer) {
    let Transfer { started, connected, ended, state, .. } = *transfer;
    assert_eq!(state, TransferState::Completed, "{transfer:?}");
    let (connected, ended) = (connected.expect("connected"), ended.expect("ended"));
    assert!(started <= connected && connected < ended, "{transfer:?}");
    let (sender, receiver) = (transfer.sender.expect("sender"), transfer.receiver.expect("receiver"));
    assert!(sender.data_segments_sent >= receiver.data_segments_received, "{transfer:?}");
    assert!(sender.bytes_sent.expect("bytes") >= transfer.bytes, "{transfer:?}");
    assert!(sender.rtt.max >= 10 * MS, "the link alone takes as long: {transfer:?}");
}

#[test]
fn bulk_flows_deliver_their_bytes_and_no_more() {
    if !ready("bulk_flows_deliver_their_bytes_and_no_more") {
        return;
    }
    let pair = line(50.0);
    let reading = until_over(&[source(&pair, 80, tcp(bulk(4, Some(300_000))))]);
    let transfers = reading.sources[0].transfers();
    assert_eq!(transfers.iter().map(|transfer| transfer.user).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for transfer in transfers {
        assert_complete(transfer);
        assert_eq!(transfer.bytes, 300_000);
    }
    assert_eq!(reading.lateness.count, 4);
}

#[test]
fn a_stop_ends_endless_flows_in_order_with_every_byte_delivered() {
    if !ready("a_stop_ends_endless_flows_in_order_with_every_byte_delivered") {
        return;
    }
    let pair = line(20.0);
    let endless = Source { stop: Some(1500 * MS), ..source(&pair, 80, tcp(bulk(3, None))) };
    let generator = generator(&[endless]);
    let middle = until(&generator, has_begun(3));
    let users = generator.users(0);
    assert!(generator.wait_until_over(&[0], clock::now() + LIMIT));
    let end = generator.finish();
    let flows = middle.sources[0].transfers().iter().zip(end.sources[0].transfers());
    for ((before, after), user) in flows.zip(&users) {
        assert!(before.state == TransferState::Running || before.ended >= Some(Instant::from_millis(1500)));
        assert!(user.received >= before.bytes && after.bytes >= user.received, "counts only grow");
        assert!(user.sender.is_none_or(|sender| sender.cwnd > 0));
        assert_complete(after);
        assert!(after.ended >= Some(Instant::from_millis(1500)));
        // What the sender's TCP sent for the first time is what the receiver's user got.
        let sender = after.sender.expect("sender");
        let sent = sender.bytes_sent.zip(sender.retransmitted_bytes).map(|(all, again)| all - again);
        assert_eq!(sent, Some(after.bytes));
    }
}

#[test]
fn web_users_fetch_objects_one_after_the_other() {
    if !ready("web_users_fetch_objects_one_after_the_other") {
        return;
    }
    let pair = line(50.0);
    let pattern = Pattern::Web {
        users: 5,
        request: 300,
        response: fixed(8000.0),
        objects: fixed(2.0),
        gap: fixed(0.02),
        think: fixed(0.1),
    };
    let web = Source { stop: Some(1500 * MS), ..source(&pair, 80, tcp(pattern)) };
    let reading = until_over(&[web]);
    let transfers = reading.sources[0].transfers();
    for user in 0..5 {
        let own: Vec<_> = transfers.iter().filter(|transfer| transfer.user == user).collect();
        assert!(own.len() >= 2, "{} objects", own.len());
        for transfer in &own {
            assert_complete(transfer);
            assert_eq!(transfer.bytes, 8000);
        }
        for (number, two) in own.windows(2).enumerate() {
            let pause = if number % 2 == 0 { 20 * MS } else { 100 * MS };
            assert!(two[1].started >= two[0].ended.expect("ended") + pause, "{two:?}");
        }
    }
}

#[test]
fn a_thousand_connections_ask_from_one_thread() {
    if !ready("a_thousand_connections_ask_from_one_thread") {
        return;
    }
    let pair = line(100.0);
    let pattern =
        Pattern::RequestResponse { connections: 1000, request: 100, response: 400, interval: fixed(0.5) };
    let requests = Source { stop: Some(2000 * MS), ..source(&pair, 80, tcp(pattern)) };
    let generator = generator(&[requests]);
    // The thread has its name once it answers.
    assert_eq!((generator.users(0).len(), threads()), (1000, 1));
    assert!(generator.wait_until_over(&[0], clock::now() + LIMIT));
    let users = generator.users(0);
    let reading = generator.finish();
    let transfers = reading.sources[0].transfers();
    let mut asked = [0_u64; 1000];
    for transfer in transfers {
        assert_eq!((transfer.state, transfer.bytes), (TransferState::Completed, 400), "{transfer:?}");
        asked[transfer.user as usize] += 1;
    }
    assert!(asked.iter().all(|asked| *asked >= 2), "each user asks more than once");
    assert!(users.iter().zip(asked).all(|(user, asked)| user.received == 400 * asked));
}

#[test]
fn a_server_that_is_gone_gives_failed_transfers() {
    if !ready("a_server_that_is_gone_gives_failed_transfers") {
        return;
    }
    let pair = line(10.0);
    let hasty = SocketOptions { user_timeout: Some(500 * MS), ..SocketOptions::new("reno") };
    let load = |pattern| Load::Tcp { pattern, sockets: Box::new([hasty.clone(), hasty.clone()]) };
    let early = generator(&[source(&pair, 80, load(bulk(2, None)))]);
    until(&early, has_begun(2));
    pair.link.handle().cut();
    let late = generator(&[source(&pair, 81, load(bulk(2, Some(1000))))]);
    let over = |generator: Generator| {
        assert!(generator.wait_until_over(&[0], clock::now() + LIMIT));
        generator.finish()
    };
    let (reading, late) = (over(early), over(late));
    for transfer in reading.sources[0].transfers() {
        assert_eq!(transfer.state, TransferState::Failed);
        assert!(transfer.connected.is_some() && transfer.bytes > 0 && transfer.ended.is_some());
    }
    for transfer in late.sources[0].transfers() {
        assert_eq!((transfer.state, transfer.connected, transfer.bytes), (TransferState::Failed, None, 0));
        assert_eq!(transfer.receiver, None, "there was no socket");
    }
}

#[test]
fn datagrams_leave_as_they_are_to_and_arrive_in_time() {
    if !ready("datagrams_leave_as_they_are_to_and_arrive_in_time") {
        return;
    }
    let pair = line(200.0);
    let udp = |port, timing| Source {
        stop: Some(1000 * MS),
        ..source(&pair, port, Load::Udp { data: 1222, timing })
    };
    let rate = Rate::from_mbit(1.0);
    let trace = Timing::Trace { datagrams: [(10 * MS, 100), (20 * MS, 200)].into(), repeat: Some(100 * MS) };
    let on_off = Timing::OnOff { rate, on: fixed(0.1), off: fixed(0.1) };
    let sources =
        [udp(9, Timing::Constant(rate)), udp(9, Timing::Poisson(rate)), udp(10, on_off), udp(11, trace)];
    let generator = generator(&sources);
    let reading = until(&generator, stopped(1));
    let flows: Vec<_> = reading.sources.iter().filter_map(SourceReading::datagrams).collect();
    // 1250 bytes at 1 Mbit/s are 10 ms.
    assert_eq!((flows[0].counts.sent, flows[3].counts.sent), (100, 20));
    assert_eq!(flows[3].counts.sent_bytes, 10 * (100 + 200 + 2 * 28));
    assert_eq!(flows[2].counts.sent, 50);
    for flow in &flows {
        assert_eq!((flow.counts.received, flow.missing, flow.refused), (flow.counts.sent, 0, 0), "{flow:?}");
        assert_eq!(flow.counts.received_bytes, flow.counts.sent_bytes);
        assert_eq!((flow.late, flow.counts.duplicated), (0, 0));
        assert!(flow.counts.delay_min >= Some(5 * MS), "the link alone takes as long: {flow:?}");
        assert!(flow.counts.delay_sum <= flow.counts.delay_max * flow.counts.received as u32);
    }
    let lateness = reading.lateness;
    assert_eq!(lateness.count, flows.iter().map(|flow| flow.counts.sent).sum::<u64>());
    assert!(lateness.worst <= lateness.total && lateness.above_1ms <= lateness.count, "{lateness:?}");
}

#[test]
fn a_hundred_megabits_a_second_are_sent_however_late_the_thread_is() {
    if !ready("a_hundred_megabits_a_second_are_sent_however_late_the_thread_is") {
        return;
    }
    let pair = line(200.0);
    let timing = Timing::Constant(Rate::from_mbit(100.0));
    let udp = Source { stop: Some(1000 * MS), ..source(&pair, 9, Load::Udp { data: 1222, timing }) };
    let generator = generator(&[udp]);
    // A busy machine may lose some in front of the link: what was sent, and that nothing counts twice, it cannot change.
    let reading = until(&generator, stopped(1));
    let flow = reading.sources[0].datagrams().expect("datagrams");
    assert_eq!(flow.counts.sent, 10_000);
    assert!(
        flow.counts.received + flow.missing <= flow.counts.sent && flow.counts.duplicated == 0,
        "{flow:?}"
    );
    assert!(flow.counts.received > 0);
}

#[test]
fn lost_datagrams_are_missing_by_number() {
    if !ready("lost_datagrams_are_missing_by_number") {
        return;
    }
    let clean = LinkSettings::new(Rate::MAX, Duration::ZERO);
    let lossy = clean.clone().loss(Loss::Uniform(0.2));
    let pair = pair(&DuplexSettings { backward: clean, ..DuplexSettings::symmetric(lossy) });
    let timing = Timing::Constant(Rate::from_mbit(1.0));
    let udp = Source { stop: Some(1000 * MS), ..source(&pair, 9, Load::Udp { data: 97, timing }) };
    let generator = generator(&[udp]);
    let reading = until(&generator, stopped(1));
    let flow = reading.sources[0].datagrams().expect("datagrams");
    let (sent, received) = (flow.counts.sent, flow.counts.received);
    assert_eq!(sent, 1000);
    // A fifth of 1000 within nine standard deviations.
    assert!((86..=314).contains(&(sent - received)), "{flow:?}");
    // The last ones that were lost leave no gap.
    assert!(flow.missing <= sent - received && flow.missing + 40 > sent - received, "{flow:?}");
    let forward = pair.link.counters(trunkline_testbed::link::Direction::Forward);
    assert!(forward.dropped.loss >= sent - received, "the link says the same: {forward:?}");
}

#[test]
fn options_reach_both_ends_and_what_is_wrong_is_named() {
    if !ready("options_reach_both_ends_and_what_is_wrong_is_named") {
        return;
    }
    let pair = line(50.0);
    let near = SocketOptions {
        send_buffer: Some(100_000),
        receive_buffer: Some(100_000),
        mss: Some(536),
        nagle: false,
        unsent_low_water: Some(16_384),
        window_clamp: Some(40_000),
        ..SocketOptions::new("reno")
    };
    let far = SocketOptions::new("cubic");
    let load = |near: &SocketOptions, far: &SocketOptions| Load::Tcp {
        pattern: bulk(1, Some(200_000)),
        sockets: Box::new([near.clone(), far.clone()]),
    };
    let reading = until_over(&[Source { dscp: 46, ..source(&pair, 80, load(&near, &far)) }]);
    let transfer = reading.sources[0].transfers()[0];
    assert_complete(&transfer);
    // Timestamps take 12 of the 536 bytes.
    assert!(transfer.sender.expect("sender").data_segments_sent >= 200_000 / 536, "{transfer:?}");
    let refused = |sources: &[Source<'_>]| {
        Generator::new(sources, Scheduling::Shared).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let unknown = SocketOptions::new("no-such-control");
    let error = refused(&[source(&pair, 80, load(&unknown, &far))]);
    assert!(error.contains("\"no-such-control\"") && error.contains("allowed: ") && error.contains("reno"));
    let other = SocketOptions { mss: Some(1000), ..far.clone() };
    let sources = [source(&pair, 80, load(&near, &far)), source(&pair, 80, load(&near, &other))];
    assert!(matches!(
        Generator::new(&sources, Scheduling::Shared),
        Err(GeneratorError::Port { source_number: 1, .. })
    ));
    let small = Load::Udp { data: 11, timing: Timing::Poisson(Rate::from_mbit(1.0)) };
    let error = refused(&[source(&pair, 9, small)]);
    assert!(error.starts_with("source 0: data is 11; allowed: 12 to 65507 bytes"), "{error}");
}

#[test]
fn a_generator_that_is_dropped_leaves_no_thread_and_no_descriptor() {
    if !ready("a_generator_that_is_dropped_leaves_no_thread_and_no_descriptor") {
        return;
    }
    // The buffer of this line holds the initial windows of all flows: none has to wait for a retransmission timeout.
    let pair = line(100.0);
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("read").count();
    let before = descriptors();
    let generator = generator(&[source(&pair, 80, tcp(bulk(50, None)))]);
    until(&generator, |_| descriptors() >= before + 100);
    assert_eq!(threads(), 1);
    drop(generator);
    assert_eq!((descriptors(), threads()), (before, 0));
}
