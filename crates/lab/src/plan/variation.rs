//! A link's values that change at random times, as the list of changes that a file has.
//!
//! Changes of one kind (rate, delay, loss) hold until the next one of that kind, or for a time of their own. At any moment the one that
//! began last, of those that have not ended, holds; without any, what the link has.

use std::time::Duration;

use toml::{Table, Value};
use trunkline_units::{Rng, random};

use crate::experiment::{LinkSpec, LossSpec, RandomChanges};
use crate::quantity::{Rate, Time};
use trunkline_schema::{At, Finding, KeyPath, put};

use super::finding;

/// The most changes of a link.
const MAX_CHANGES: u32 = 1000;

/// A change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Event {
    at: Duration,
    /// When it ends, if it does.
    until: Option<Duration>,
    what: What,
}

impl Event {
    /// When it begins.
    pub(super) const fn at(&self) -> Duration {
        self.at
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Rate(f64),
    Delay(f64),
    Loss(LossSpec),
}

/// Where the changes of a link are.
pub(super) fn path(link: &str) -> KeyPath {
    KeyPath::default().key("links").key(link).key("changes")
}

/// Whether changes can be drawn.
pub(super) fn check(at: &At<'_>, tree: &Table, changes: &RandomChanges) -> Option<()> {
    let before = at.mistakes();
    let link = KeyPath::default().key("links").key(&changes.link);
    let spec: Option<LinkSpec> = link.find(tree).and_then(|link| link.clone().try_into().ok());
    match spec {
        None => at.key("link").refuse("the name of a link"),
        Some(spec) if spec.rate.is_none() => {
            at.key("link").report("is a link without a rate of its own", "a link with a rate");
        }
        Some(spec) if spec.changes.is_some() => {
            at.key("link").report("is a link with changes of its own", "a link without changes");
        }
        Some(_) => {}
    }
    let [least, most] = changes.count;
    if least > most || most > MAX_CHANGES {
        at.key("count").refuse(format!("two numbers, the second not below the first, up to {MAX_CHANGES}"));
    }
    let times = [("at", Some(changes.at)), ("lasting", changes.lasting)];
    for (key, times) in times.into_iter().filter_map(|(key, times)| Some((key, times?))) {
        if times[0] > times[1] || (key == "lasting" && times[0].0.is_zero()) {
            at.key(key).refuse("two times above 0, the second not below the first");
        }
    }
    for (key, factors) in [("rate", changes.rate), ("delay", changes.delay)] {
        let Some([least, most]) = factors else { continue };
        let is_factor = least.is_finite() && most.is_finite() && least >= 0.0 && least <= most;
        if !is_factor || (least == 0.0 && most > 0.0) {
            at.key(key).refuse("two factors above 0, the second not below the first, or [0, 0]");
        }
    }
    let losses = changes.loss.as_ref();
    if losses.is_some_and(Vec::is_empty) {
        at.key("loss").refuse("at least one loss");
    }
    if changes.rate.is_none() && changes.delay.is_none() && losses.is_none() {
        at.report("changes nothing", "at least one of rate, delay and loss");
    }
    (at.mistakes() == before).then_some(())
}

/// So many changes.
pub(super) fn draw(changes: &RandomChanges, count: u32, rng: &mut Rng) -> Vec<Event> {
    let kinds = [changes.rate.is_some(), changes.delay.is_some(), changes.loss.is_some()];
    let kinds: Vec<usize> = (0..kinds.len()).filter(|kind| kinds[*kind]).collect();
    let mut events: Vec<Event> = (0..count).filter_map(|_| one(changes, &kinds, rng)).collect();
    events.sort_by_key(|event| event.at);
    events
}

fn one(changes: &RandomChanges, kinds: &[usize], rng: &mut Rng) -> Option<Event> {
    let [from, to] = changes.at.map(|Time(time)| time.as_secs_f64());
    let at = millis(from + (to - from) * rng.uniform());
    let lasting = changes.lasting.map(|times| {
        let times = times.map(|Time(time)| time.as_secs_f64());
        millis(between(times, rng.uniform())).max(Duration::from_millis(1))
    });
    let kind = kinds.get(rng.below(kinds.len() as u64) as usize)?;
    let what = match kind {
        0 => What::Rate(between(changes.rate?, rng.uniform())),
        1 => What::Delay(between(changes.delay?, rng.uniform())),
        _ => {
            let losses = changes.loss.as_ref()?;
            What::Loss(*losses.get(rng.below(losses.len() as u64) as usize)?)
        }
    };
    Some(Event { at, until: lasting.map(|lasting| at + lasting), what })
}

/// By ratio.
fn between([from, to]: [f64; 2], part: f64) -> f64 {
    if from > 0.0 { from * random::power(to / from, part) } else { from }
}

fn millis(seconds: f64) -> Duration {
    Duration::from_millis((seconds * 1e3).round() as u64)
}

/// One way's values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Values {
    rate: u64,
    delay: Duration,
    loss: Option<LossSpec>,
}

/// Writes the changes of a link into a document.
pub(super) fn write(tree: &mut Table, link: &str, events: &[Event]) -> Result<(), Vec<Finding>> {
    let place = KeyPath::default().key("links").key(link);
    let spec: LinkSpec = match place.find(tree).cloned().map(Value::try_into) {
        Some(Ok(spec)) => spec,
        // What is wrong with it is told by who plans it.
        _ => return Ok(()),
    };
    if events.is_empty() {
        return Ok(());
    }
    let there = spec.values(None);
    let back = spec.back.as_deref().map(|back| (place.key("back"), spec.values(Some(back))));
    for (place, base) in [Some((place.clone(), there)), back].into_iter().flatten() {
        let list = Value::Array(list(base, events));
        put(tree, &place.key("changes"), list)
            .map_err(|astray| vec![finding(place, astray.problem, astray.allowed)])?;
    }
    Ok(())
}

impl LinkSpec {
    fn values(&self, back: Option<&LinkSpec>) -> Values {
        let rate = back.and_then(|back| back.rate).or(self.rate);
        let delay = back.and_then(|back| back.delay).or(self.delay);
        Values {
            rate: rate.map_or(0, |Rate(rate)| rate.bits_per_second()),
            delay: delay.unwrap_or_default().0,
            loss: back.and_then(|back| back.loss).or(self.loss),
        }
    }
}

impl Values {
    /// At a moment.
    fn at(self, now: Duration, events: &[Event]) -> Self {
        let mut values = self;
        let holds = |event: &&Event| event.at <= now && event.until.is_none_or(|until| now < until);
        // In order of time: the last one holds.
        for event in events.iter().filter(holds) {
            match event.what {
                What::Rate(factor) => values.rate = (self.rate as f64 * factor).round() as u64,
                What::Delay(factor) => values.delay = micros(self.delay.as_secs_f64() * factor),
                What::Loss(loss) => values.loss = Some(loss),
            }
        }
        values
    }
}

fn micros(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).round() as u64)
}

/// The changes of one way.
fn list(base: Values, events: &[Event]) -> Vec<Value> {
    let mut moments: Vec<Duration> =
        events.iter().flat_map(|event| [Some(event.at), event.until]).flatten().collect();
    moments.sort_unstable();
    moments.dedup();
    let mut before = base;
    let mut list = Vec::new();
    for now in moments {
        let values = base.at(now, events);
        let mut change = Table::new();
        change.insert("at".to_owned(), Value::String(format!("{} ms", now.as_millis())));
        if values.rate != before.rate {
            change.insert("rate".to_owned(), Value::String(format!("{} bit/s", values.rate)));
        }
        if values.delay != before.delay {
            change.insert("delay".to_owned(), Value::String(format!("{} us", values.delay.as_micros())));
        }
        if values.loss != before.loss {
            let loss = values.loss.unwrap_or(LossSpec::Uniform(crate::quantity::Share(0.0)));
            change.extend(Value::try_from(loss).ok().map(|loss| ("loss".to_owned(), loss)));
        }
        if change.len() > 1 {
            list.push(Value::Table(change));
        }
        before = values;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Share;

    const SECOND: Duration = Duration::from_secs(1);

    fn event(at: u32, lasts: Option<u32>, what: What) -> Event {
        Event { at: SECOND * at, until: lasts.map(|lasts| SECOND * (at + lasts)), what }
    }

    fn written(events: &[Event], back: &str) -> [String; 2] {
        let text = format!(
            "[links.wan]\nends = [\"a\", \"b\"]\nrate = \"8 Mbit/s\"\ndelay = \"10 ms\"\nloss = 0.01\n{back}"
        );
        let mut tree: Table = text.parse().unwrap();
        write(&mut tree, "wan", events).unwrap();
        let place = KeyPath::default().key("links").key("wan");
        let at = |path: KeyPath| path.find(&tree).map(ToString::to_string).unwrap_or_default();
        [at(place.key("changes")), at(place.key("back").key("changes"))]
    }

    #[test]
    fn what_lasts_ends_in_what_began_before_it() {
        let events = [
            event(2, None, What::Rate(0.5)),
            event(3, Some(2), What::Rate(0.0)),
            event(4, Some(4), What::Loss(LossSpec::Uniform(Share(0.2)))),
            event(6, None, What::Delay(2.0)),
        ];
        let [there, back] = written(&events, "");
        let expected = [
            "{ at = \"2000 ms\", rate = \"4000000 bit/s\" }",
            "{ at = \"3000 ms\", rate = \"0 bit/s\" }",
            "{ at = \"4000 ms\", loss = 0.2 }",
            "{ at = \"5000 ms\", rate = \"4000000 bit/s\" }",
            "{ at = \"6000 ms\", delay = \"20000 us\" }",
            "{ at = \"8000 ms\", loss = 0.01 }",
        ];
        assert_eq!(there, format!("[{}]", expected.join(", ")));
        assert_eq!(back, "", "a way back without settings of its own has those of the way there");
    }

    #[test]
    fn the_way_back_changes_from_its_own_rate() {
        let events = [event(1, None, What::Rate(0.5))];
        let [there, back] = written(&events, "back = { rate = \"1 Mbit/s\" }");
        assert_eq!(there, "[{ at = \"1000 ms\", rate = \"4000000 bit/s\" }]");
        assert_eq!(back, "[{ at = \"1000 ms\", rate = \"500000 bit/s\" }]");
    }

    #[test]
    fn changes_are_within_what_is_said_of_them() {
        let changes: RandomChanges = toml::from_str(
            "link = \"wan\"\ncount = [0, 400]\nat = [\"2 s\", \"5 s\"]\nlasting = [\"100 ms\", \"1 s\"]\nrate = [0.25, 2]\nloss = [0, 0.1]",
        )
        .unwrap();
        let events = draw(&changes, 400, &mut Rng::new(1, "x"));
        assert_eq!(events.len(), 400);
        let mut low = 0;
        for Event { at, until, what } in events {
            assert!(at >= SECOND * 2 && at <= SECOND * 5);
            let lasts = until.unwrap().saturating_sub(at);
            assert!(lasts >= SECOND / 10 && lasts <= SECOND);
            match what {
                What::Rate(factor) => {
                    assert!((0.25..=2.0).contains(&factor), "{factor}");
                    low += usize::from(factor < 0.5_f64.sqrt());
                }
                What::Delay(_) => panic!("no delay was asked for"),
                What::Loss(loss) => {
                    assert!([0.0, 0.1].map(|share| LossSpec::Uniform(Share(share))).contains(&loss));
                }
            }
        }
        assert!((70..130).contains(&low), "half of about 200 are below the middle by ratio: {low}");
    }
}
