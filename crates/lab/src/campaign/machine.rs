//! The machine on which runs in real time are made.

use std::thread::available_parallelism;

use chrono::Utc;
use trunkline_engine::{Engine, kernel_release};

use crate::results::{Machine, Refusal};

/// This machine and this day, if the engine's results depend on them.
pub(super) fn this(engine: &Engine, refused: &[Refusal]) -> Option<Machine> {
    (*engine != Engine::Sim).then(|| Machine {
        engine: engine.name().to_owned(),
        kernel: kernel_release(),
        cpus: available_parallelism().map_or(1, usize::from),
        date: Utc::now().date_naive().to_string(),
        refused: refused.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_written_as_in_iso_8601_and_the_simulator_has_no_machine() {
        let machine = this(&Engine::TESTBED, &[]).expect("a machine");
        let parts: Vec<u32> = machine.date.split('-').map(|part| part.parse().expect("a number")).collect();
        let [year, month, day] = parts[..] else { panic!("{}", machine.date) };
        assert!(year > 2020 && (1..=12).contains(&month) && (1..=31).contains(&day), "{}", machine.date);
        assert_eq!(machine.date.len(), "2026-11-23".len(), "{}", machine.date);
        assert!(machine.kernel.contains('.'), "{}", machine.kernel);
        assert_eq!(this(&Engine::Sim, &[]), None);
    }
}
