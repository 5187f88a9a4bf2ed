//! Random sequences of events at three gateways, compared with a model of the lanes that must be up afterwards.
//!
//! ```text
//!  B ── WAN ──┐
//!             R ── WAN ── HUB        two shards everywhere; B and HUB dial each other, C only dials
//!  C ── WAN ──┘
//! ```
//!
//! A sequence starts, stops, kills and reloads gateways (every key that can be reloaded), cuts the WAN with and without
//! a carrier, takes devices, routes and addresses away, and connects clients and unauthenticated callers. Whenever it settles, the network is
//! made whole, and the model says what must hold within a bounded time: which lanes are up and which are not, which
//! routes are there, that the control socket answers, that a stream through the trunk arrives byte by byte. At all times
//! no gateway may end by itself, no counter may go back, and no datagram may arrive twice.
//!
//! A sequence is a function of its seed. One that fails is run again with steps left out, as long as it still fails, and
//! the shortest is printed. Longer runs:
//!
//! ```text
//! TRUNKLINE_MODEL_SEED=100 TRUNKLINE_MODEL_RUNS=50 TRUNKLINE_MODEL_STEPS=40 cargo test -p trunkline --test model -- --nocapture
//! ```
//!
//! `TRUNKLINE_MODEL_WITHOUT=BounceTun,Move` leaves steps of these names out, to look behind a defect that is known.

#[path = "../common/mod.rs"]
mod common;
mod counters;
mod hosts;
mod settings;
mod shrink;
mod step;
mod traffic;
mod world;

use std::str::FromStr;
use std::time::{Duration, Instant};

use step::Step;
use trunkline_testbed::privilege;
use trunkline_units::Rng;
use world::World;

/// Of an ordinary run: short enough for every build.
const SEED: u64 = 1;
const RUNS: u64 = 4;
const STEPS: usize = 16;
/// How long a failing sequence may be shrunk.
const SHRINK_LIMIT: Duration = Duration::from_secs(240);

fn variable<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")),
        Err(_) => default,
    }
}

/// Runs a sequence in a world of its own; the longest that lanes took to be up, or the failure with what the gateways logged.
fn run(steps: &[Step]) -> Result<Duration, String> {
    let mut world = World::new()?;
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
    for seed in first..first + variable("TRUNKLINE_MODEL_RUNS", RUNS) {
        let mut rng = Rng::new(seed, "model");
        let mut steps: Vec<Step> = (0..count).map(|_| Step::random(&mut rng)).collect();
        steps.retain(|step| !without.split(',').any(|name| name == step.name()));
        let begin = Instant::now();
        let failure = match run(&steps) {
            Ok(slowest) => {
                let took = begin.elapsed();
                println!("seed {seed}: {count} steps held in {took:.1?}, lanes were up within {slowest:.1?}");
                continue;
            }
            Err(failure) => failure,
        };
        println!("seed {seed} failed after {:.1?}: {failure}\nshrinking ...", begin.elapsed());
        let (shortest, failure) =
            shrink::shrink(steps, failure, Instant::now() + SHRINK_LIMIT, |steps| run(steps).map(drop));
        panic!("seed {seed}, {} of {count} steps are enough:\n{shortest:#?}\n{failure}", shortest.len());
    }
}

#[test]
fn every_value_of_every_key_is_a_valid_file() {
    settings::check_all();
}
