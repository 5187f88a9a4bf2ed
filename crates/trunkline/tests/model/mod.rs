//! Random sequences of events at three gateways, compared with a model of the lanes that must be up afterwards, and of the rate that they
//! must have.
//!
//! ```text
//!  B ── line ──┐
//!              R ── line ── HUB ── proxy ── LAN      two shards everywhere; B and HUB dial each other, C only dials
//!  C ── line ──┘
//! ```
//!
//! A sequence starts, stops, freezes, kills and reloads gateways (every key that can be reloaded); lines fail in one direction or both,
//! lose their carrier, let packets overtake each other, take shorter packets only; devices, routes, addresses, and what leads to
//! the proxy are taken away; clients, unauthenticated callers and hosts do what they should not. After each event, wherever a path is
//! left, a transfer must get a part of what the path carries within a bounded time (`rate.rs`). Whenever it settles, the network is
//! made whole, and the model says what must hold within a bounded time: which lanes are up and which are not, which
//! routes are there, that the control socket answers, that a stream through the trunk arrives byte by byte at a rate. At all times
//! no gateway may end by itself, no counter may go back, and no datagram may arrive twice.
//!
//! A sequence is a function of its seed. One that fails is run again with steps left out, as long as it still fails, and
//! the shortest is printed. Longer runs, of so many sequences or for so long:
//!
//! ```text
//! TRUNKLINE_MODEL_SEED=100 TRUNKLINE_MODEL_RUNS=50 TRUNKLINE_MODEL_STEPS=40 cargo test -p trunkline --test all model:: -- --nocapture
//! TRUNKLINE_MODEL_SEED=100 TRUNKLINE_MODEL_MINUTES=60 cargo test -p trunkline --test all model:: -- --nocapture
//! ```
//!
//! `TRUNKLINE_MODEL_WITHOUT=BounceTun,Move` leaves steps of these names out, to look behind a defect that is known.

mod counters;
mod hosts;
mod misuse;
mod rate;
mod settings;
mod shrink;
mod step;
mod traffic;
mod world;

use std::str::FromStr;
use std::time::{Duration, Instant};

use rate::Slowest;
use settings::Proxy;
use step::Step;
use trunkline_testbed::privilege;
use trunkline_units::Rng;
use world::World;

/// Of an ordinary run: short enough for every build.
const SEED: u64 = 1;
const RUNS: u64 = 2;
const STEPS: usize = 16;
/// How long a failing sequence may be shrunk.
const SHRINK_LIMIT: Duration = Duration::from_secs(240);

fn variable<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")),
        Err(_) => default,
    }
}

/// Runs a sequence in a world of its own; the longest that lanes and rates took, or the failure with what the gateways logged.
fn run(proxy: Proxy, steps: &[Step]) -> Result<Slowest, String> {
    let mut world = World::new(proxy)?;
    let mut outcome = world.settle();
    for (number, step) in steps.iter().enumerate() {
        outcome = outcome.and_then(|()| {
            world.take(*step).map_err(|error| format!("step {} ({step:?}): {error}", number + 1))
        });
    }
    match outcome.and_then(|()| world.finish()) {
        Ok(()) => Ok(world.slowest),
        Err(error) => Err(format!("{error}\n{}", world.logs())),
    }
}

#[test]
fn the_network_recovers_after_any_sequence_of_events() {
    if !privilege::available("the_network_recovers_after_any_sequence_of_events") {
        return;
    }
    let first = variable("TRUNKLINE_MODEL_SEED", SEED);
    let count = variable("TRUNKLINE_MODEL_STEPS", STEPS);
    let without: String = variable("TRUNKLINE_MODEL_WITHOUT", String::new());
    let (start, minutes) = (Instant::now(), variable("TRUNKLINE_MODEL_MINUTES", 0));
    let runs = if minutes > 0 { u64::MAX - first } else { variable("TRUNKLINE_MODEL_RUNS", RUNS) };
    for seed in first..first + runs {
        if minutes > 0 && start.elapsed() > Duration::from_secs(60 * minutes) {
            break;
        }
        let mut rng = Rng::new(seed, "model");
        let proxy = Proxy::random(&mut rng);
        let mut steps: Vec<Step> = (0..count).map(|_| Step::random(&mut rng)).collect();
        steps.retain(|step| !without.split(',').any(|name| name == step.name()));
        let begin = Instant::now();
        let failure = match run(proxy, &steps) {
            Ok(slowest) => {
                println!("seed {seed}: {count} steps held in {:.1?}, {slowest}", begin.elapsed());
                continue;
            }
            Err(failure) => failure,
        };
        println!("seed {seed} failed after {:.1?}: {failure}\n{steps:?}\nshrinking ...", begin.elapsed());
        let (shortest, failure) = shrink::shrink(steps, failure, Instant::now() + SHRINK_LIMIT, |steps| {
            run(proxy, steps).map(drop)
        });
        panic!(
            "seed {seed}, {proxy:?}, {} of {count} steps are enough:\n{shortest:#?}\n{failure}",
            shortest.len()
        );
    }
}

#[test]
fn every_value_of_every_key_is_a_valid_file() {
    settings::check_all();
}
