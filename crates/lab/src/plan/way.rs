//! One way of a link: what is said of it in several places, in order.

use std::path::Path;
use std::time::Duration;

use trunkline_link::mobile::{BlockErrors, Mobile as Radio, Pareto, Rlp};
use trunkline_link::{Brownian, Deliveries, Impairments, Jitter as Wobble, LinkChange, LinkSettings, Loss};

use super::check::Check;
use crate::experiment::{Change, DeliveriesOf, DeliveriesSpec, Jitter, LinkSpec, LossSpec, Mobile};
use crate::import::deliveries_of;
use trunkline_queue::{Limits, Settings};
use trunkline_schema::At;
use trunkline_units::{Rate, SettingsError};

/// One way of a link: what holds is what the first says that says anything.
pub(super) struct Layers<'l, 'f>(pub(super) &'l [(At<'f>, &'l LinkSpec)]);

impl<'f> Layers<'_, 'f> {
    /// What is said of a key.
    fn pick<T: Copy>(&self, of: impl Fn(&LinkSpec) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|(_, spec)| of(spec))
    }

    /// Where something is said of a key, or could be.
    fn place(&self, key: &str) -> At<'f> {
        self.0.iter().find(|(_, spec)| says(spec, key)).map_or(&self.0[0].0, |(at, _)| at).key(key)
    }

    /// Tail drop of 1000 packets where nothing is said.
    fn queue(&self) -> Option<Settings> {
        let default = || Settings::default().with_limits(Limits { bytes: u64::MAX, ..Limits::default() });
        let said = self.0.iter().find_map(|(_, spec)| spec.queue.as_ref());
        said.map_or_else(|| Some(default()), |spec| spec.resolve(&self.place("queue")))
    }

    /// A kernel's discipline in its place, with its options.
    pub(super) fn kernel_queue(&self) -> Option<String> {
        self.0.iter().find_map(|(_, spec)| spec.queue.as_ref())?.kernel.clone()
    }

    pub(super) fn settings(&self) -> Option<LinkSettings> {
        let (rate, deliveries) = self.rate()?;
        let impairments = Impairments {
            loss: self.pick(|spec| spec.loss).map_or(Loss::None, loss_of),
            corruption: self.pick(|spec| spec.corruption).map_or(0.0, |share| share.0),
            duplication: self.pick(|spec| spec.duplication).map_or(0.0, |share| share.0),
            jitter: self
                .pick(|spec| spec.jitter)
                .map_or(Wobble::None, |said| wobble(&self.place("jitter"), said)),
        };
        let said = self.0.iter().find_map(|(_, spec)| spec.changes.as_deref()).unwrap_or_default();
        if deliveries.is_some() {
            if self.pick(|spec| spec.mobile).is_some() {
                self.place("mobile").report_plain("is given beside deliveries; allowed: one of the two");
                return None;
            }
            if let Some(number) = said.iter().position(|change| change.rate.is_some()) {
                let change = self.place("changes").index(number).key("rate");
                change
                    .report("is given for a link with deliveries, which say when it sends", "delay and loss");
                return None;
            }
        }
        let (changes, numbers) = changes(&self.place("changes"), said, impairments);
        let queue = self.queue();
        let settings = LinkSettings {
            rate,
            deliveries,
            delay: self.pick(|spec| spec.delay).unwrap_or_default().0,
            queue: queue?,
            mtu: self.pick(|spec| spec.mtu).map_or(1500, |mtu| u32::try_from(mtu.0).unwrap_or(u32::MAX)),
            impairments,
            mobile: self.pick(|spec| spec.mobile).map(|said| radio(&self.place("mobile"), said)),
            changes,
            repeat: self.pick(|spec| spec.repeat).map(|time| time.0),
        };
        if settings.repeat.is_some() && said.is_empty() {
            self.place("repeat").report_plain("there are no changes to repeat");
        }
        if self.kernel_queue().is_some() && !self.suits_a_shaper(&settings) {
            return None;
        }
        match settings.check() {
            Ok(()) => Some(settings),
            Err(error) => {
                let (SettingsError::Value { place, .. } | SettingsError::Order { place, .. }) = &error;
                let (key, below) = key_of(place, &numbers);
                self.place(key).check(Err(error), |_| below.clone());
                None
            }
        }
    }
}

impl Layers<'_, '_> {
    /// The rate, or when it sends: whichever is said first.
    fn rate(&self) -> Option<(Rate, Option<Deliveries>)> {
        let said = self.0.iter().find(|(_, spec)| spec.rate.is_some() || spec.deliveries.is_some());
        match said.map(|(at, spec)| (at, spec.rate, &spec.deliveries)) {
            Some((_, Some(rate), None)) => Some((rate.0, None)),
            Some((at, None, Some(said))) => {
                let deliveries = deliveries(&at.key("deliveries"), said)?;
                Some((deliveries.mean_rate(), Some(deliveries)))
            }
            Some((at, ..)) => {
                at.key("deliveries").report_plain("is given beside a rate; allowed: one of the two");
                None
            }
            None => {
                self.0[0].0.key("rate").report("is missing", "a rate, such as \"10 Mbit/s\", or deliveries");
                None
            }
        }
    }

    /// Whether a shaper of a kernel can have the link's rate: it is given, and it stays.
    fn suits_a_shaper(&self, settings: &LinkSettings) -> bool {
        let place = self.place("queue").key("kernel");
        if settings.rate == Rate::MAX {
            place.report("is given for a link without a limit of its rate", "links with a rate");
            return false;
        }
        if settings.deliveries.is_some() {
            place.report("is given for a link with deliveries", "links with a rate");
            return false;
        }
        if settings.mobile.is_some() {
            place.report("is given for a radio link, which makes its own times", "links without mobile");
            return false;
        }
        if settings.changes.iter().any(|(_, change)| matches!(change, LinkChange::Rate(_))) {
            place.report(
                "is given for a link whose rate changes",
                "links whose changes leave the rate as it is",
            );
            return false;
        }
        true
    }
}

fn deliveries(at: &At<'_>, said: &DeliveriesSpec) -> Option<Deliveries> {
    match said {
        DeliveriesSpec::Moments(moments) => Some(moments.0.clone()),
        DeliveriesSpec::Of(DeliveriesOf::Recording(name)) => {
            let path = Path::new(name);
            if path.is_relative() {
                let allowed = "--recordings with the directory that has it, such as traces of mahimahi";
                at.key("recording").report(format!("there is no recording {name:?}"), allowed);
                return None;
            }
            deliveries_of(path).map_err(|problem| at.key("recording").report_plain(problem)).ok()
        }
        DeliveriesSpec::Of(DeliveriesOf::Brownian { top, change, outage, length, seed }) => {
            let link = Brownian {
                top: top.map_or(Rate::from_mbit(12.0), |rate| rate.0),
                change: change.map_or(Rate::from_mbit(2.4), |rate| rate.0),
                outage: outage.map_or(Duration::from_millis(100), |time| time.0),
                length: length.map_or(Duration::from_secs(120), |time| time.0),
            };
            let checked = link.check();
            let deliveries = checked.is_ok().then(|| link.deliveries(seed.unwrap_or(1).into()));
            at.key("brownian").check(checked, str::to_owned);
            deliveries
        }
    }
}

/// Whether anything is said of a key.
fn says(spec: &LinkSpec, key: &str) -> bool {
    match key {
        "rate" => spec.rate.is_some(),
        "deliveries" => spec.deliveries.is_some(),
        "delay" => spec.delay.is_some(),
        "queue" => spec.queue.is_some(),
        "mtu" => spec.mtu.is_some(),
        "loss" => spec.loss.is_some(),
        "corruption" => spec.corruption.is_some(),
        "duplication" => spec.duplication.is_some(),
        "jitter" => spec.jitter.is_some(),
        "mobile" => spec.mobile.is_some(),
        "changes" => spec.changes.is_some(),
        "repeat" => spec.repeat.is_some(),
        _ => false,
    }
}

/// The link's key for a place in its settings, and the key below that. Each of the settings' changes has the number of the file's.
fn key_of<'p>(place: &'p str, numbers: &[usize]) -> (&'p str, String) {
    let (first, rest) = place.split_once('.').unwrap_or((place, ""));
    match first {
        "queue" => ("queue", queue_key(rest).to_owned()),
        "mobile" => ("mobile", radio_key(rest)),
        "impairments" => {
            rest.split_once('.').map_or((rest, String::new()), |(key, below)| (key, below.to_owned()))
        }
        _ if first.starts_with("changes") => ("changes", change_key(first, rest, numbers)),
        _ => (first, String::new()),
    }
}

fn loss_of(loss: LossSpec) -> Loss {
    match loss {
        LossSpec::Uniform(share) => Loss::Uniform(share.0),
        LossSpec::Bursts(bursts) => Loss::Bursts {
            to_bad: bursts.to_bad.0,
            to_good: bursts.to_good.0,
            good: bursts.good.0,
            bad: bursts.bad.0,
        },
    }
}

fn wobble(at: &At<'_>, jitter: Jitter) -> Wobble {
    let reorders = jitter.reorders;
    match (jitter.max, jitter.mean) {
        (Some(max), None) => Wobble::Uniform { max: max.0, reorders },
        (None, Some(mean)) => Wobble::Exponential { mean: mean.0, reorders },
        _ => {
            at.report("has neither max nor mean, or both", "one of max and mean");
            Wobble::None
        }
    }
}

fn radio(at: &At<'_>, mobile: Mobile) -> Radio {
    match mobile {
        Mobile::Pareto { mean, shape, share } => {
            Radio::Pareto(Pareto { mean: mean.0, shape, share: share.0 })
        }
        Mobile::Rlp { block, interval, feedback, errors, burst } => Radio::Rlp(Rlp {
            block: u32::try_from(block.0).unwrap_or(u32::MAX),
            interval: interval.0,
            feedback,
            errors: block_errors(&at.key("rlp"), errors.0, burst),
        }),
    }
}

/// Errors with this mean, in bad times of so many blocks on average in which all are lost.
fn block_errors(at: &At<'_>, errors: f64, burst: Option<f64>) -> BlockErrors {
    let Some(burst) = burst else { return BlockErrors::Independent(errors) };
    if !(burst.is_finite() && burst >= 1.0) {
        at.key("burst").refuse("a number of blocks, 1 or more");
        return BlockErrors::Independent(errors);
    }
    let to_good = 1.0 / burst;
    let to_bad = to_good * errors / (1.0 - errors);
    if to_bad > 1.0 {
        at.key("burst")
            .refuse("longer bad times: with these, good ones would have to be shorter than a block");
    }
    BlockErrors::Fading { to_bad: to_bad.min(1.0), to_good, good: 0.0, bad: 1.0 }
}

fn radio_key(place: &str) -> String {
    let kind = if matches!(place, "mean" | "shape" | "share") { "pareto" } else { "rlp" };
    let place = if place.starts_with("errors") { "errors" } else { place };
    format!("{kind}.{place}")
}

/// Changes one value at a time, and of each which of the file's it is from.
fn changes(
    at: &At<'_>,
    said: &[Change],
    mut impairments: Impairments,
) -> (Vec<(Duration, LinkChange)>, Vec<usize>) {
    let mut changes = Vec::new();
    let mut numbers = Vec::new();
    for (number, change) in said.iter().enumerate() {
        let before = changes.len();
        let when = change.at.0;
        changes.extend(change.rate.map(|rate| (when, LinkChange::Rate(rate.0))));
        changes.extend(change.delay.map(|delay| (when, LinkChange::Delay(delay.0))));
        if let Some(loss) = change.loss {
            impairments.loss = loss_of(loss);
            changes.push((when, LinkChange::Impairments(impairments)));
        }
        if changes.len() == before {
            at.index(number).report("changes nothing", "at least one of rate, delay and loss");
        }
        numbers.resize(changes.len(), number);
    }
    (changes, numbers)
}

fn change_key(change: &str, rest: &str, numbers: &[usize]) -> String {
    let number = change.trim_start_matches("changes[").trim_end_matches(']').parse().ok();
    let number = number.and_then(|number: usize| numbers.get(number)).copied().unwrap_or_default();
    match rest.strip_prefix("impairments.").unwrap_or(rest) {
        "" => format!("[{number}].at"),
        key => format!("[{number}].{key}"),
    }
}

/// The key that a place in a queue's settings has.
pub(super) fn queue_key(place: &str) -> &str {
    match place {
        "limits.segments" => "packets",
        "limits.bytes" => "bytes",
        other => other,
    }
}
