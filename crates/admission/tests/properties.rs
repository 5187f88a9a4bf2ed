//! What holds for every network, on thousands of small ones, against [`crate::brute`].

use trunkline_admission::{Demand, Held, Network, Outcome, Placement, Rates, admit};
use trunkline_units::{Rate, Rng};

use crate::brute::{Taken, all_ways, least_cost};
use crate::sampled::{Sampled, demand, rate, sample};

const SAMPLES: u64 = 4000;

fn taken(network: &Network, demands: &[Demand], outcomes: &[Outcome]) -> Taken {
    let placed = demands.iter().zip(outcomes);
    Taken::of(network, placed.filter_map(|(demand, outcome)| Some((demand, outcome.placement()?))))
}

fn held(demands: &[Demand], outcomes: &[Outcome]) -> Vec<Option<Held>> {
    let placement = |outcome: &Outcome| outcome.placement().cloned();
    let held = |(demand, outcome): (&Demand, &Outcome)| {
        placement(outcome).map(|placement| Held { placement, rates: demand.rates })
    };
    demands.iter().zip(outcomes).map(held).collect()
}

fn nothing(demands: &[Demand]) -> Vec<Option<Held>> {
    vec![None; demands.len()]
}

/// A placement is of ways that there are, all of them different, and no link is overbooked.
fn check(seed: u64, network: &Network, demands: &[Demand], outcomes: &[Outcome]) {
    for (demand, outcome) in demands.iter().zip(outcomes) {
        let Some(Placement { way, backup }) = outcome.placement() else { continue };
        let ways = all_ways(network, demand.ends[0], demand.ends[1]);
        assert!(ways.contains(way), "{seed}: {way:?} is no way for {demand:?}");
        assert_eq!(backup.is_some(), demand.backup, "{seed}");
        if let Some(backup) = backup {
            assert!(ways.contains(backup), "{seed}: {backup:?} is no way");
            let shared =
                backup.links.iter().any(|(link, _)| way.links.iter().any(|(other, _)| other == link));
            assert!(!shared, "{seed}: {way:?} and {backup:?} share a link");
        }
    }
    assert_eq!(taken(network, demands, outcomes).excess(network), [], "{seed}: links are overbooked");
}

/// A demand without a place has none even by the room of those who would give way to it, and what would fit does.
fn check_refusals(seed: u64, network: &Network, demands: &[Demand], outcomes: &[Outcome]) -> usize {
    let taken = taken(network, demands, outcomes);
    let mut refused = 0;
    for (demand, outcome) in demands.iter().zip(outcomes) {
        let Outcome::Refused(refusal) = outcome else { continue };
        refused += 1;
        let cost = |rates: Rates| {
            let demand = Demand { rates, ..demand.clone() };
            least_cost(network, &demand, |link, passed| {
                taken.fits(network, &demand, link, passed, demand.priority.setup)
            })
        };
        assert_eq!(cost(demand.rates), None, "{seed}: {demand:?} is refused for no reason");
        if let Some(fits) = refusal.fits {
            assert!(cost(fits).is_some(), "{seed}: {fits:?} is said to fit {demand:?} and does not");
        }
        // A little more, in the same proportion, does not fit: a unit more where anything is asked.
        let more = |now: Option<Rate>, asked: Rate| {
            rate(now.map_or(0, Rate::bits_per_second) + u64::from(asked.bits_per_second() > 0))
        };
        let (forth, back) = (refusal.fits.map(|fits| fits.forth), refusal.fits.map(|fits| fits.back));
        let rates = Rates { forth: more(forth, demand.rates.forth), back: more(back, demand.rates.back) };
        assert_eq!(cost(rates), None, "{seed}: more than {:?} fits {demand:?}", refusal.fits);
        let any = least_cost(network, demand, |link, _| !demand.avoided.contains(&link));
        assert_eq!(refusal.shortages.is_empty(), any.is_none(), "{seed}: {refusal:?} of {demand:?}");
    }
    refused
}

#[test]
fn each_is_admitted_where_a_search_of_all_ways_admits_it_and_at_the_same_cost() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..SAMPLES {
        let Sampled { network, demands } = sample(seed);
        let outcomes = admit(&network, &demands, &nothing(&demands));
        check(seed, &network, &demands, &outcomes);
        refused += check_refusals(seed, &network, &demands, &outcomes);
        // One after the other, as they are placed: nobody gives way where all are new.
        let mut order: Vec<usize> = (0..demands.len()).collect();
        order.sort_by_key(|place| demands[*place].priority.setup);
        let mut before: Vec<(&Demand, &Placement)> = Vec::new();
        for place in order {
            let demand = &demands[place];
            let taken = Taken::of(&network, before.iter().copied());
            let least =
                least_cost(&network, demand, |link, passed| taken.fits(&network, demand, link, passed, 7));
            let placement = outcomes[place].placement();
            let cost = placement.map(|placement| placement.ways().map(|way| way.cost(&network)).sum::<u64>());
            assert_eq!(cost, least, "{seed}: {demand:?}");
            before.extend(placement.map(|placement| (demand, placement)));
            admitted += usize::from(placement.is_some());
        }
    }
    // Neither side of the question is rare.
    assert!(admitted > 3000 && refused > 3000, "{admitted} admitted, {refused} refused");
}

#[test]
fn asked_again_everyone_stays() {
    for seed in 0..SAMPLES {
        let Sampled { network, demands } = sample(seed);
        let outcomes = admit(&network, &demands, &nothing(&demands));
        assert_eq!(admit(&network, &demands, &held(&demands, &outcomes)), outcomes, "{seed}");
    }
}

/// A demand more, or links that have less: who leaves its place leaves it to one whose setup priority is before its hold priority, or
/// for a link on its way that has less.
#[test]
fn nobody_leaves_its_place_without_a_reason() {
    let (mut gave_way, mut moved) = (0, 0);
    for seed in 0..SAMPLES {
        let Sampled { network, demands } = sample(seed);
        let before = admit(&network, &demands, &nothing(&demands));
        let mut rng = Rng::new(seed, "change");
        let sites = (0..network.nodes()).filter(|node| !network.passes(*node)).count();
        let mut links = network.links().to_vec();
        let less = if rng.chance(0.5) { Some(rng.below(links.len() as u64) as usize) } else { None };
        if let Some(less) = less {
            let link = &mut links[less];
            link.reservable = Rates {
                forth: rate(link.reservable.forth.bits_per_second() / 2),
                back: rate(link.reservable.back.bits_per_second() / 2),
            };
        }
        let passes = (0..network.nodes()).map(|node| network.passes(node)).collect();
        let changed = Network::new(passes, links).expect("a network");
        let mut all = demands.clone();
        let mut had = held(&demands, &before);
        for _ in 0..rng.below(3) {
            all.push(demand(&mut rng, sites, network.links().len()));
            had.push(None);
        }
        let after = admit(&changed, &all, &had);
        check(seed, &changed, &all, &after);
        check_refusals(seed, &changed, &all, &after);
        for (place, held) in had.iter().enumerate() {
            let Some(held) = held else { continue };
            if after[place].placement() == Some(&held.placement) {
                continue;
            }
            let links: Vec<usize> =
                held.placement.ways().flat_map(|way| way.links.iter().map(|(link, _)| *link)).collect();
            let for_less = less.is_some_and(|less| links.contains(&less));
            let takes = |other: &usize| {
                all[*other].priority.setup < all[place].priority.hold
                    && after[*other].placement().is_some_and(|theirs| {
                        theirs.ways().flat_map(|way| &way.links).any(|(link, _)| links.contains(link))
                    })
            };
            let taker = (0..all.len()).find(takes);
            assert!(for_less || taker.is_some(), "{seed}: demand {place} left its place without a reason");
            gave_way += usize::from(after[place].placement().is_none());
            moved += usize::from(after[place].placement().is_some());
        }
    }
    assert!(gave_way > 100 && moved > 20, "{gave_way} gave way, {moved} moved");
}
