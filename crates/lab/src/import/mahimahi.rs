//! Traces of mahimahi (Netravali et al., USENIX ATC 2015): a line for each moment at which the link could carry a packet of 1504 bytes, in
//! milliseconds. The trace begins anew at the last one.

use std::time::Duration;

use trunkline_units::Rate;

use super::{ImportError, MAX_STEPS, Recording, Step, error, is_blank};

/// What passes at each moment.
pub(super) const PACKET_BYTES: u64 = 1504;

/// Whether a line is a moment.
pub(super) fn is_moment(line: &str) -> bool {
    line.trim().parse::<u64>().is_ok()
}

/// Moments in the same `interval` become one rate.
pub(super) fn read(text: &str, interval: Duration) -> Result<Recording, ImportError> {
    let mut moments: Vec<u64> = Vec::new();
    let mut lines = 1;
    for (line, words) in (1..).zip(text.lines()) {
        lines = line;
        if is_blank(words) {
            continue;
        }
        let moment = words.trim().parse().map_err(|_| {
            error(line, format!("{words:?} is no time; allowed: a whole number of milliseconds"))
        })?;
        if moments.last().is_some_and(|last| moment < *last) {
            return Err(error(line, format!("{moment} is before the line above; allowed: in order of time")));
        }
        moments.push(moment);
    }
    let Some(last) = moments.last().copied().filter(|last| *last > 0) else {
        return Err(error(lines, "no time is later than 0; allowed: at least one"));
    };
    let (length, width) = (Duration::from_millis(last), interval.as_millis().max(1) as u64);
    let intervals = last.div_ceil(width);
    if intervals > MAX_STEPS as u64 {
        return Err(error(
            lines,
            format!("{intervals} intervals; allowed: {MAX_STEPS}, so a longer interval"),
        ));
    }
    let mut packets = vec![0_u64; intervals as usize];
    for moment in moments {
        // What passes at the end passes before the beginning.
        packets[(moment.min(last - 1) / width) as usize] += 1;
    }
    let steps = (0..).zip(packets).map(|(number, packets): (u64, u64)| {
        let from = number * width;
        let millis = width.min(last - from);
        let rate = Rate::from_bits_per_second(packets * PACKET_BYTES * 8 * 1000 / millis);
        Step { at: Duration::from_millis(from), rate: Some(rate), delay: None, loss: None }
    });
    Ok(Recording { steps: steps.collect(), length })
}
