//! Traces of mahimahi (Netravali et al., USENIX ATC 2015): a line for each moment at which the link could carry a packet of 1504 bytes, in
//! milliseconds. The trace begins anew at the last one.

use trunkline_link::Deliveries;

use super::{ImportError, Recording, Step, error, is_blank};

/// Whether a line is a moment.
pub(super) fn is_moment(line: &str) -> bool {
    line.trim().parse::<u32>().is_ok()
}

pub(super) fn read(text: &str) -> Result<Recording, ImportError> {
    let mut moments: Vec<u32> = Vec::new();
    let mut places: Vec<u64> = Vec::new();
    for (line, words) in (1..).zip(text.lines()).filter(|(_, words)| !is_blank(words)) {
        let moment = words.trim().parse().map_err(|_| {
            error(line, format!("{words:?} is no time; allowed: a whole number of milliseconds"))
        })?;
        moments.push(moment);
        places.push(line);
    }
    let deliveries = Deliveries::new(moments).map_err(|(place, allowed)| {
        error(places.get(place).copied().unwrap_or(1), format!("is no trace of a link; allowed: {allowed}"))
    })?;
    let length = deliveries.length();
    let steps = vec![Step { at: std::time::Duration::ZERO, rate: None, delay: None, loss: None }];
    Ok(Recording { steps, deliveries: Some(deliveries), length })
}
