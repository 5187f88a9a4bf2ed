//! Delta debugging (Zeller and Hildebrandt 2002): removes steps of a failing sequence as long as it fails.

use std::time::Instant;

/// The shortest failing sequence found until `deadline`, with its failure.
pub(crate) fn shrink<T: Clone>(
    mut steps: Vec<T>,
    mut failure: String,
    deadline: Instant,
    run: impl Fn(&[T]) -> Result<(), String>,
) -> (Vec<T>, String) {
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 {
        let mut from = 0;
        let mut removed = false;
        while from < steps.len() {
            if Instant::now() >= deadline {
                return (steps, failure);
            }
            let mut fewer = steps.clone();
            fewer.drain(from..(from + chunk).min(steps.len()));
            match run(&fewer) {
                Ok(()) => from += chunk,
                Err(other) => {
                    (steps, failure) = (fewer, other);
                    removed = true;
                }
            }
        }
        if chunk == 1 && !removed {
            break;
        }
        chunk = if chunk == 1 { 1 } else { chunk / 2 };
    }
    (steps, failure)
}

#[test]
fn a_shrunk_sequence_has_only_the_steps_that_cause_the_failure() {
    use std::time::Duration;
    let fails = |steps: &[u32]| {
        let both = steps.contains(&3) && steps.contains(&17);
        if both { Err(format!("{} steps", steps.len())) } else { Ok(()) }
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let shrunk = shrink((0..20).collect(), "at first".to_owned(), deadline, fails);
    assert_eq!(shrunk, (vec![3, 17], "2 steps".to_owned()));
    let late = shrink((0..20).collect(), "at first".to_owned(), Instant::now(), fails);
    assert_eq!((late.0.len(), late.1.as_str()), (20, "at first"), "out of time: as it was");
}
