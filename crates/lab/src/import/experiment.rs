//! The experiment around a recording.

use std::fmt::Write as _;
use std::time::Duration;

use trunkline_link::Deliveries;
use trunkline_units::Rate;

use super::{Recording, Step};
use crate::experiment::Moments;

/// An experiment runs no longer, unless it is told to.
const MAX_DURATION: Duration = Duration::from_secs(60);
/// Numbers of rates.
const DIGITS: usize = 4;

/// What is around a recording in its experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings<'t> {
    /// The experiment's id and the recording's name.
    pub id: &'t str,
    /// Of the recording's file, for its reader.
    pub source: &'t str,
    /// One way, where the recording has none.
    pub delay: Duration,
    /// The link's rate, where the recording has none.
    pub rate: Rate,
    /// How long the link's queue is at its mean rate.
    pub queue: Duration,
}

/// An experiment with the link in the middle of two sites: transfers and small requests, directly and through a trunk.
pub fn experiment(there: &Recording, back: Option<&Recording>, around: &Surroundings<'_>) -> String {
    let mean = there.mean_rate().unwrap_or(around.rate);
    let duration = there.length.min(MAX_DURATION).max(Duration::from_secs(10));
    let queue = mean.bytes_in(around.queue).max(10 * u64::from(Deliveries::BYTES));
    let mut text = format!(
        "id = {id:?}\n\
         title = {title:?}\n\
         description = \"Eight transfers and 20 users with small requests between two sites, over the recorded link: directly, and through a trunk.\"\n\
         notes = {notes:?}\n\
         duration = \"{seconds} s\"\nwarm_up = \"2 s\"\nruns = 3\n\n\
         [nodes]\na = \"host\"\nt1 = \"gateway\"\nt2 = \"gateway\"\nx = \"host\"\n\n\
         [links.lan-a]\nends = [\"a\", \"t1\"]\nrate = \"1 Gbit/s\"\nqueue = {{ discipline = \"tail-drop\", packets = 5000 }}\n\
         [links.lan-x]\nends = [\"t2\", \"x\"]\nlike = \"lan-a\"\n\
         [links.wan]\nends = [\"t1\", \"t2\"]\n",
        id = around.id,
        title = format!("The link of {}", around.source),
        notes = format!(
            "**The link** is that of {}: {} on average, over {} s. Its queue holds {} ms at this rate. What the recording does not say is ours.",
            around.source,
            mean,
            there.length.as_secs_f64(),
            around.queue.as_millis()
        ),
        seconds = duration.as_secs(),
    );
    let _ = writeln!(text, "queue = {{ discipline = \"tail-drop\", bytes = \"{queue} B\" }}");
    text += &way(there, around);
    if let Some(back) = back {
        let _ = writeln!(text, "[links.wan.back]");
        text += &way(back, around);
    }
    text += "\n[traffic.bulk]\nkind = \"bulk\"\nfrom = \"a\"\nto = \"x\"\nport = 5001\nflows = 8\nstagger = { shape = \"uniform\", from = \"0 ms\", to = \"20 ms\" }\n\
             [traffic.requests]\nkind = \"requests\"\nfrom = \"a\"\nto = \"x\"\nport = 7000\nflows = 20\nrequest = \"64 B\"\nresponse = \"64 B\"\nthink = { shape = \"exponential\", mean = \"400 ms\" }\n\n\
             [trunks.site]\ngateways = [\"t1\", \"t2\"]\n\n\
             [sweep.trunk]\nlabel = \"way between the sites\"\n[sweep.trunk.variants]\ndirect = { \"trunks.site.enabled\" = false }\ntrunk = {}\n\n\
             [[claims]]\ntext = \"The trunk carries nine tenths of what direct routing does, and more\"\nkind = \"ours\"\n\
             holds = \"bulk.goodput[trunk=trunk] >= 0.9 * bulk.goodput[trunk=direct]\"\n\
             [[claims]]\ntext = \"In the trunk the slowest requests in a hundred take no longer than without it\"\nkind = \"ours\"\n\
             holds = \"requests.delay.p99[trunk=trunk] <= requests.delay.p99[trunk=direct]\"\n\n\
             [series]\nevery = \"500 ms\"\nof = [\"bulk.goodput\", \"wan.queue.packets\"]\n\n\
             [[tables]]\ntitle = \"Transfers and requests\"\ncolumns = \"trunk\"\nmetrics = [\n\
             \x20   { metric = \"bulk.goodput\", label = \"goodput of the transfers\", unit = \"Mbit/s\" },\n\
             \x20   { metric = \"requests.delay.p50\", label = \"request, median\", unit = \"ms\" },\n\
             \x20   { metric = \"requests.delay.p99\", label = \"request, 99th percentile\", unit = \"ms\" },\n\
             \x20   { metric = \"wan.sojourn.mean\", label = \"delay in the link's queue\", unit = \"ms\" },\n]\n";
    text
}

/// The keys of one direction.
fn way(recording: &Recording, around: &Surroundings<'_>) -> String {
    if let Some(deliveries) = &recording.deliveries {
        let (delay, moments) = (around.delay.as_micros(), Moments(deliveries.clone()));
        return format!("delay = \"{delay} us\"\ndeliveries = \"\"\"\n{moments}\"\"\"\n");
    }
    let mut now = beginning(recording, around);
    let begins = settings(&now);
    let mut changes = String::new();
    for step in &recording.steps[1..] {
        let changed = Step {
            at: step.at,
            rate: step.rate.filter(|rate| now.rate != Some(*rate)),
            delay: step.delay.filter(|delay| now.delay != Some(*delay)),
            loss: step.loss.filter(|loss| now.loss != Some(*loss)),
        };
        let keys = settings(&changed);
        if keys.is_empty() {
            continue;
        }
        let _ = writeln!(changes, "    {{ at = \"{}\", {} }},", seconds(step.at), keys.join(", "));
        now = Step {
            at: step.at,
            rate: changed.rate.or(now.rate),
            delay: changed.delay.or(now.delay),
            loss: changed.loss.or(now.loss),
        };
    }
    // After its end it is as it was in the beginning.
    let (initial, again) = (begins.join("\n"), begins.join(", "));
    let end = seconds(recording.length);
    format!("{initial}\nchanges = [\n{changes}    {{ at = \"{end}\", {again} }},\n]\nrepeat = \"{end}\"\n")
}

/// What holds at the beginning, with what the recording lacks.
fn beginning(recording: &Recording, around: &Surroundings<'_>) -> Step {
    let first = recording.steps[0];
    Step {
        at: Duration::ZERO,
        rate: Some(first.rate.unwrap_or(around.rate)),
        delay: Some(first.delay.unwrap_or(around.delay)),
        loss: Some(first.loss.unwrap_or(0.0)),
    }
}

/// What a step sets, as keys of a link.
fn settings(step: &Step) -> Vec<String> {
    let rate = step.rate.map(|rate| format!("rate = \"{} bit/s\"", rounded(rate.bits_per_second())));
    let delay = step.delay.map(|delay| format!("delay = \"{} us\"", delay.as_micros()));
    let loss = step.loss.map(|loss| format!("loss = {loss}"));
    [rate, delay, loss].into_iter().flatten().collect()
}

/// With as many digits as a recording is worth.
fn rounded(value: u64) -> u64 {
    let places = value.checked_ilog10().map_or(0, |last| (last as usize + 1).saturating_sub(DIGITS)) as u32;
    let unit = 10_u64.pow(places);
    (value + unit / 2) / unit * unit
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_four_digits() {
        assert_eq!([0, 7, 1234, 12_345, 98_765_432].map(rounded), [0, 7, 1234, 12_350, 98_770_000]);
    }
}
