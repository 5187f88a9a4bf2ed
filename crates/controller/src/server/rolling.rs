//! A revision that its sites get in steps: which trunks have changed after each, and whether that went well.
//!
//! A step changes both ends of its trunks together. Those that need less go before those that need more, so that what is given is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use trunkline_sites::{ConfiguredPeer, Report};

use crate::store::Rollout;

/// The peers of each site, in the order of their names.
pub(super) type Peers = BTreeMap<String, Vec<ConfiguredPeer>>;
/// The two sites of a trunk, in the order of their names.
type Pair = [String; 2];

/// Whether a step is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is not, because of these.
    Waits(Vec<String>),
    /// It is.
    Goes,
    /// What was there before has to return.
    Failed(String),
}

/// How a site is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed<'f> {
    /// Whether it has what it is to have.
    pub(super) has: bool,
    /// What it said last.
    pub(super) report: &'f Report,
}

/// A roll-out.
#[derive(Debug)]
pub(super) struct Rolling {
    pub(super) rollout: Rollout,
    /// When the step was seen to begin.
    began: Instant,
    base: Peers,
    target: Peers,
    changed: Vec<Pair>,
    /// Sites that asked when the step began.
    asked: BTreeSet<String>,
    /// Trunks that were down then.
    down: BTreeSet<Pair>,
}

impl Rolling {
    /// One between two configurations of a network, of which what sites say is known.
    pub(super) fn new<'f>(
        rollout: Rollout,
        base: Peers,
        target: Peers,
        report: impl Fn(&str) -> Option<&'f Report>,
    ) -> Self {
        let changed = changed(&base, &target);
        let asked = target.keys().filter(|site| report(site).is_some()).cloned().collect();
        let is_down = |[one, other]: &&Pair| {
            let up = |site: &str, peer: &str| report(site).is_some_and(|report| is_up(report, peer));
            find(&base, one, other).is_some() && !(up(one, other) || up(other, one))
        };
        let down = changed.iter().filter(is_down).cloned().collect();
        Rolling { rollout, began: Instant::now(), base, target, changed, asked, down }
    }

    /// The same, if it is the step that was known before: that began when it began, whoever has enrolled since.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        match before {
            Some(Rolling { rollout, began, asked, down, .. }) if rollout == self.rollout => {
                Rolling { began, asked, down, ..self }
            }
            _ => self,
        }
    }

    /// How many trunks have changed, and how many change.
    pub(super) fn progress(&self) -> (usize, usize) {
        let all = self.changed.len();
        (self.rollout.steps.changed(self.rollout.step, all), all)
    }

    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    fn reached(&self) -> &[Pair] {
        &self.changed[..self.progress().0]
    }

    /// What sites are to have in this step.
    pub(super) fn peers(&self) -> Peers {
        let reached: BTreeSet<&Pair> = self.reached().iter().collect();
        let site = |site: &String| {
            let of = |peers: &Peers| -> BTreeSet<String> {
                peers.get(site).into_iter().flatten().map(|peer| peer.name.clone()).collect()
            };
            let names = &of(&self.base) | &of(&self.target);
            let has = |name: &String| {
                let peers = if reached.contains(&pair(site, name)) { &self.target } else { &self.base };
                find(peers, site, name).cloned()
            };
            (site.clone(), names.iter().filter_map(has).collect())
        };
        self.base.keys().chain(self.target.keys()).map(site).collect()
    }

    /// Whether the step is over, as sites say that have enrolled.
    pub(super) fn verdict<'f>(
        &self,
        age: Duration,
        is_enrolled: impl Fn(&str) -> bool,
        followed: impl Fn(&str) -> Option<Followed<'f>>,
    ) -> Verdict {
        let is_over = age >= self.rollout.steps.wait();
        let mut waits = Vec::new();
        for trunk @ [one, other] in self.reached() {
            let mut answers = 0;
            for site in trunk {
                let waited = match followed(site) {
                    Some(Followed { has: true, report: Report { error: Some(error), .. } }) => {
                        return Verdict::Failed(format!("{site}: {error}"));
                    }
                    Some(Followed { has: true, .. }) => {
                        answers += 1;
                        continue;
                    }
                    // Who is away, or has not enrolled, gets it when it asks.
                    None if !is_enrolled(site) || (is_over && !self.asked.contains(site)) => continue,
                    Some(_) => format!("{site} has not taken its configuration"),
                    None => format!("{site} does not ask"),
                };
                waits.push(waited);
            }
            let is_new = find(&self.target, one, other).is_some() && !self.down.contains(trunk);
            let up = |site: &str, peer: &str| followed(site).is_some_and(|site| is_up(site.report, peer));
            if answers == 2 && is_new && !(up(one, other) && up(other, one)) {
                waits.push(format!("the trunk between {one} and {other} is down"));
            }
        }
        waits.dedup();
        match waits.first() {
            None => Verdict::Goes,
            Some(first) if is_over => {
                Verdict::Failed(format!("{first}, {} s after the step began", age.as_secs()))
            }
            Some(_) => Verdict::Waits(waits),
        }
    }
}

fn pair(one: &str, other: &str) -> Pair {
    let mut pair = [one, other];
    pair.sort_unstable();
    pair.map(str::to_owned)
}

fn find<'p>(peers: &'p Peers, site: &str, name: &str) -> Option<&'p ConfiguredPeer> {
    let peers = peers.get(site)?;
    peers.binary_search_by(|peer| peer.name.as_str().cmp(name)).ok().map(|place| &peers[place])
}

fn is_up(report: &Report, peer: &str) -> bool {
    report.peers.iter().any(|known| known.name == peer && known.up)
}

/// The trunks that are different, those that need less first.
fn changed(base: &Peers, target: &Peers) -> Vec<Pair> {
    let mut sides: BTreeMap<Pair, i128> = BTreeMap::new();
    let mut see = |peers: &Peers, others: &Peers, sign: i128| {
        for (site, peers) in peers {
            for peer in peers {
                if find(others, site, &peer.name) != Some(peer) {
                    *sides.entry(pair(site, &peer.name)).or_default() += sign * i128::from(peer.reserved);
                }
            }
        }
    };
    see(target, base, 1);
    see(base, target, -1);
    let mut changed: Vec<(i128, Pair)> = sides.into_iter().map(|(trunk, more)| (more, trunk)).collect();
    changed.sort();
    changed.into_iter().map(|(_, trunk)| trunk).collect()
}

#[cfg(test)]
mod tests {
    use trunkline_sites::PeerReport;

    use super::*;

    fn peers(trunks: &[(&str, &str, u64)]) -> Peers {
        let mut all = Peers::new();
        for (one, other, reserved) in trunks {
            for (site, name) in [(one, other), (other, one)] {
                let peer = ConfiguredPeer {
                    name: (*name).to_owned(),
                    public_key: String::new(),
                    endpoint: None,
                    uplink: None,
                    interface: None,
                    routes: Vec::new(),
                    reserved: *reserved,
                };
                all.entry((*site).to_owned()).or_default().push(peer);
            }
        }
        all
    }

    fn report(up: &[&str], error: Option<&str>) -> Report {
        let peer = |name: &&str| PeerReport { name: (*name).to_owned(), up: true, capacity: None };
        Report {
            sequence: 1,
            error: error.map(str::to_owned),
            running: true,
            peers: up.iter().map(peer).collect(),
        }
    }

    fn rollout(step: usize) -> Rollout {
        Rollout { revision: 7, steps: "1,50".parse().expect("steps"), step }
    }

    #[test]
    fn both_ends_of_a_trunk_change_in_one_step_and_those_that_need_less_are_first() {
        let base = peers(&[("a", "b", 5), ("a", "c", 5), ("a", "d", 5), ("a", "e", 5)]);
        // b gets more, c less, d stays, e goes, f is new.
        let target = peers(&[("a", "b", 9), ("a", "c", 2), ("a", "d", 5), ("a", "f", 1)]);
        let of = |step| Rolling::new(rollout(step), base.clone(), target.clone(), |_| None).peers();
        let rates = |peers: &Peers| -> BTreeMap<String, u64> {
            let mut rates = BTreeMap::new();
            for (site, peers) in peers {
                for peer in peers {
                    let other = rates.insert(pair(site, &peer.name).concat(), peer.reserved);
                    assert!(other.is_none_or(|other| other == peer.reserved), "{site} and {}", peer.name);
                }
            }
            rates
        };
        let expected = |rates: &[(&str, u64)]| -> BTreeMap<String, u64> {
            rates.iter().map(|(trunk, rate)| ((*trunk).to_owned(), *rate)).collect()
        };
        assert_eq!(rates(&of(1)), expected(&[("ab", 5), ("ac", 5), ("ad", 5)]), "e is gone");
        assert_eq!(rates(&of(2)), expected(&[("ab", 5), ("ac", 2), ("ad", 5)]), "and c has less");
        assert_eq!(rates(&of(3)), rates(&target));
    }

    #[test]
    fn a_step_is_over_when_both_ends_have_it_and_the_trunk_is_up() {
        let (base, target) = (peers(&[("a", "b", 5)]), peers(&[("a", "b", 9)]));
        let (up, down, refuses) = (report(&["a", "b"], None), report(&[], None), report(&[], Some("no")));
        let judge = |before: &Report, sites: [Option<(bool, &Report)>; 2], age: u64| {
            let rolling = Rolling::new(rollout(3), base.clone(), target.clone(), |_| Some(before));
            rolling.verdict(
                Duration::from_secs(age),
                |_| true,
                |site| sites[usize::from(site == "b")].map(|(has, report)| Followed { has, report }),
            )
        };
        let has = |report| Some((true, report));
        assert_eq!(judge(&up, [has(&up), has(&up)], 0), Verdict::Goes);
        assert!(matches!(judge(&up, [has(&up), Some((false, &up))], 0), Verdict::Waits(_)));
        assert!(matches!(judge(&up, [has(&up), Some((false, &up))], 60), Verdict::Failed(_)));
        assert!(matches!(judge(&up, [has(&up), has(&down)], 0), Verdict::Waits(_)));
        assert!(matches!(judge(&up, [has(&up), has(&down)], 60), Verdict::Failed(_)));
        assert!(matches!(judge(&up, [has(&up), has(&refuses)], 0), Verdict::Failed(why) if why == "b: no"));
        assert!(matches!(judge(&up, [has(&up), None], 60), Verdict::Failed(_)), "b asked, and went");
        // What was down before is nobody's fault.
        assert_eq!(judge(&down, [has(&down), has(&down)], 0), Verdict::Goes);
    }

    #[test]
    fn a_site_that_was_away_holds_nobody_up_for_longer_than_a_step() {
        let (base, target) = (peers(&[("a", "b", 5)]), peers(&[("a", "b", 9)]));
        let down = report(&[], None);
        let rolling = Rolling::new(rollout(3), base, target, |_| None);
        let judge = |age, is_enrolled: bool| {
            rolling.verdict(
                Duration::from_secs(age),
                |site| site == "a" || is_enrolled,
                |site| (site == "a").then_some(Followed { has: true, report: &down }),
            )
        };
        assert!(matches!(judge(0, true), Verdict::Waits(_)));
        assert_eq!(judge(60, true), Verdict::Goes);
        assert_eq!(judge(0, false), Verdict::Goes);
    }

    #[test]
    fn any_steps_end_with_all_trunks() {
        for text in ["1", "1,2,99", "10,50"] {
            let steps: crate::store::Steps = text.parse().expect("steps");
            for trunks in 0..200 {
                let changed: Vec<usize> =
                    (1..=steps.count()).map(|step| steps.changed(step, trunks)).collect();
                assert!(changed.is_sorted(), "{text}, {trunks}: {changed:?}");
                assert_eq!(changed.last(), Some(&trunks));
                assert!(trunks == 0 || changed[0] > 0);
            }
        }
        for text in ["", "0", "100", "5,5", "9,3", "1,x", "1,,2", "300"] {
            let error = text.parse::<crate::store::Steps>().expect_err(text);
            assert!(error.contains("allowed"), "{error}");
        }
    }
}
