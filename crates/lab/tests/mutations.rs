//! Files that are damaged at random are planned or refused, and never make it panic. What is planned can be built.

use std::sync::atomic::AtomicBool;

use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Engine, EngineError, run};
use trunkline_lab::document::Document;
use trunkline_units::Rng;

const FILES: [&str; 2] = [include_str!("good/everything.toml"), include_str!("good/base.toml")];
/// Words to put in place of others.
const WORDS: [&str; 20] = [
    "nan",
    "inf",
    "-1",
    "0",
    "4294967296",
    "1e300",
    "\"\"",
    "\"0 s\"",
    "\"1e9 GB\"",
    "[]",
    "{}",
    "true",
    "\"*\"",
    "=",
    "\"all\"",
    "\"999999999 s\"",
    "9223372036854775807",
    "\"0 bit/s\"",
    "[[",
    "\"a\"",
];

fn mutated(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=rng.below(2) {
        let at = rng.below(lines.len() as u64) as usize;
        let other = rng.below(lines.len() as u64) as usize;
        match rng.below(7) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 | 4 => {
                let word = WORDS[rng.below(WORDS.len() as u64) as usize];
                let parts: Vec<&str> = lines[at].split(' ').collect();
                let part = rng.below(parts.len() as u64) as usize;
                let line: Vec<&str> = parts
                    .iter()
                    .enumerate()
                    .map(|(number, text)| if number == part { word } else { text })
                    .collect();
                lines[at] = line.join(" ");
            }
            _ => {
                let mut bytes = std::mem::take(&mut lines[at]).into_bytes();
                if !bytes.is_empty() {
                    let place = rng.below(bytes.len() as u64) as usize;
                    bytes[place] ^= 1 << rng.below(7);
                }
                lines[at] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    lines.join("\n")
}

/// The simulator takes it: it is built, and stopped before anything happens.
fn can_be_built(scenario: &Scenario) {
    let built = run(&Engine::Sim, scenario, 1, &AtomicBool::new(true));
    assert!(matches!(built, Ok(_) | Err(EngineError::Stopped)), "{built:?}");
}

#[test]
fn damaged_files_never_panic_and_what_is_planned_can_be_built() {
    let mut rng = Rng::new(5, "mutations");
    let (mut planned, mut refused) = (0, 0);
    for number in 0..1200 {
        let text = mutated(FILES[number % 2], &mut rng);
        let Ok(mut document) = Document::parse("mutated.toml", &text) else {
            refused += 1;
            continue;
        };
        let quick = number % 3 == 0 && document.quicken().is_ok();
        match document.plan() {
            Ok(points) => {
                planned += 1;
                assert!(quick || points.len() <= 100_000);
                can_be_built(&points[points.len() / 2].scenario);
            }
            Err(mistakes) => {
                refused += 1;
                assert!(!mistakes.0.is_empty() && mistakes.to_string().contains("mutated.toml:"));
            }
        }
    }
    assert!(planned > 100 && refused > 400, "{planned} {refused}");
}
