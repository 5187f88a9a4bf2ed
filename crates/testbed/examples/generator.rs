//! What the generator costs: the processor time of its thread and of the link's, per second of traffic.
//!
//! `cargo run -p trunkline-testbed --example generator`; it needs what `privilege` says.

use std::net::SocketAddr;
use std::time::Duration;

use trunkline_testbed::clock::{self, Scheduling};
use trunkline_testbed::generator::{Generator, Load, SocketOptions, Source};
use trunkline_testbed::link::{DuplexSettings, End, Link};
use trunkline_testbed::namespace::Host;
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, TransferState, stream};

const TIME: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bulk = Pattern::Bulk { flows: 20, bytes: None, stagger: Distribution::Fixed(0.01) };
    let interval = Distribution::Fixed(1.0);
    let requests = Pattern::RequestResponse { connections: 1000, request: 300, response: 1000, interval };
    measure("20 bulk flows over 50 Mbit/s", bulk)?;
    measure("1000 connections that each ask once a second", requests)
}

fn measure(name: &str, pattern: Pattern) -> Result<(), Box<dyn std::error::Error>> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let (near, far) = ("198.18.2.1".parse()?, "198.18.2.2".parse()?);
    let millis = Duration::from_millis;
    let settings = DuplexSettings::wide_area(Rate::from_mbit(50.0), millis(20), millis(50));
    let end = |host, address| End { host, device: "wan", addresses: address };
    let _link = Link::new(end(&a, &[near]), end(&b, &[far]), &settings)?;
    let options = SocketOptions::new("cubic");
    let source = Source {
        client: &a,
        server: &b,
        address: SocketAddr::new(far, 80),
        dscp: 0,
        start: Duration::ZERO,
        stop: None,
        rng: stream(1, 0),
        load: Load::Tcp { pattern, sockets: Box::new([options.clone(), options]) },
    };
    let generator = Generator::new(&[source], Scheduling::Shared)?;
    generator.start(clock::now());
    // Connections open and windows grow before it counts.
    clock::sleep_until(clock::now() + Duration::from_secs(2));
    let (before, cost) = (generator.users(0), [thread("generator"), thread("link")]);
    clock::sleep_until(clock::now() + TIME);
    let after = [thread("generator"), thread("link")];
    let users = generator.users(0);
    let reading = generator.finish();
    let bytes: u64 = users.iter().zip(&before).map(|(now, then)| now.received - then.received).sum();
    let share = |of: usize| after[of].saturating_sub(cost[of]).as_secs_f64() / TIME.as_secs_f64() * 100.0;
    let transfers = reading.sources[0].transfers();
    let failed = transfers.iter().filter(|transfer| transfer.state == TransferState::Failed).count();
    println!(
        "{name}: {:.1} Mbit/s received; generator {:.1} %, link {:.1} % of a processor; {} transfers, {failed} failed; \
         late on average {:?}, at worst {:?}, above 1 ms {} of {}",
        bytes as f64 * 8.0 / TIME.as_secs_f64() / 1e6,
        share(0),
        share(1),
        transfers.len(),
        reading.lateness.total / u32::try_from(reading.lateness.count.max(1))?,
        reading.lateness.worst,
        reading.lateness.above_1ms,
        reading.lateness.count,
    );
    Ok(())
}

/// Processor time of this process's threads of a name.
fn thread(name: &str) -> Duration {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let own = threads.filter(|thread| read(thread.path().join("comm")).trim() == name);
    let nanoseconds = own.filter_map(|thread| {
        read(thread.path().join("schedstat")).split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}
