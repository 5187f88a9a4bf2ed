//! Traces of mahimahi (Netravali et al., USENIX ATC 2015): a line for each moment at which the link could carry a packet of 1504 bytes, in
//! milliseconds. The trace begins anew at the last one.

use trunkline_link::Deliveries;

use super::{ImportError, Recording, error, is_blank};

/// Whether a line is a moment.
pub(super) fn is_moment(line: &str) -> bool {
    line.trim().parse::<u32>().is_ok()
}

pub(super) fn read(text: &str) -> Result<Recording, ImportError> {
    let mut moments: Vec<u32> = Vec::new();
    let mut last_line = 1;
    for (line, words) in (1..).zip(text.lines()).filter(|(_, words)| !is_blank(words)) {
        let moment = words.trim().parse().map_err(|_| {
            error(line, format!("{words:?} is no time; allowed: a whole number of milliseconds"))
        })?;
        if moments.last().is_some_and(|last| moment < *last) {
            return Err(error(line, format!("{moment} is before the line above; allowed: in order of time")));
        }
        moments.push(moment);
        last_line = line;
    }
    if moments.last().is_none_or(|last| *last == 0) {
        return Err(error(last_line, "no time is later than 0; allowed: at least one"));
    }
    let refused = |(_, allowed)| error(last_line, format!("too long; allowed: {allowed}"));
    Deliveries::new(moments).map(Recording::of_deliveries).map_err(refused)
}
