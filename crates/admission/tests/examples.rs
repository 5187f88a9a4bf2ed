//! Small networks whose answers are plain.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline_admission::{
    Demand, Direction, Held, Lacking, Link, Network, NetworkError, Outcome, Placement, Priority, Rates,
    Shortage, admit, least_rate,
};
use trunkline_units::{Bytes, Rate};

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_second(mbit * 1_000_000)
}

fn link(ends: [usize; 2], rate: u64, cost: u32) -> Link {
    Link { ends, reservable: Rates::both(mbit(rate)), least: Rates::both(Rate::ZERO), cost }
}

fn demand(ends: [usize; 2], rate: u64) -> Demand {
    Demand {
        ends,
        rates: Rates::both(mbit(rate)),
        lanes: 1,
        priority: Priority::default(),
        backup: false,
        avoided: BTreeSet::new(),
    }
}

/// Sites 0 and 1, each at both nodes 2 and 3: by node 2 at a cost of 2 and 10 Mbit/s, by node 3 at a cost of 4 and 20 Mbit/s.
fn two_ways() -> Network {
    let links = vec![link([0, 2], 10, 1), link([2, 1], 10, 1), link([0, 3], 20, 2), link([3, 1], 20, 2)];
    Network::new(vec![false, false, true, true], links).expect("a network")
}

fn links(outcome: &Outcome) -> Vec<usize> {
    outcome.placement().map_or(Vec::new(), |there| there.way.links.iter().map(|(link, _)| *link).collect())
}

#[test]
fn the_cheap_way_is_taken_until_it_is_full() {
    let demands = [demand([0, 1], 6), demand([0, 1], 6), demand([1, 0], 4)];
    let outcomes = admit(&two_ways(), &demands, &[None, None, None]);
    assert_eq!(outcomes.iter().map(links).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3], vec![1, 0]]);
}

#[test]
fn a_refusal_names_the_links_and_what_would_fit() {
    let demands = [demand([0, 1], 8), demand([0, 1], 15), demand([0, 1], 6)];
    let outcomes = admit(&two_ways(), &demands, &[None, None, None]);
    let Outcome::Refused(refusal) = &outcomes[2] else { panic!("6 of 2 and 5 Mbit/s: {outcomes:?}") };
    assert_eq!(refusal.fits, Some(Rates::both(mbit(5))));
    let lacking = |direction| Lacking::Rate { direction, left: mbit(5), missing: mbit(1) };
    let both = |link| Direction::BOTH.map(|direction| Shortage { link, lacking: lacking(direction) });
    assert_eq!(refusal.shortages, [both(2), both(3)].concat());
}

#[test]
fn a_backup_shares_no_link_and_has_its_own_room() {
    let with_backup = Demand { backup: true, ..demand([0, 1], 10) };
    let outcomes = admit(&two_ways(), &[with_backup, demand([0, 1], 11)], &[None, None]);
    let Outcome::Admitted(Placement { way, backup: Some(backup) }) = &outcomes[0] else {
        panic!("{outcomes:?}")
    };
    let places = |way: &trunkline_admission::Way| way.links.iter().map(|(link, _)| *link).collect::<Vec<_>>();
    assert_eq!((places(way), places(backup)), (vec![0, 1], vec![2, 3]));
    assert!(matches!(&outcomes[1], Outcome::Refused(refusal) if refusal.fits == Some(Rates::both(mbit(10)))));
}

/// The cheapest way takes the link between 4 and 5; two ways that share no link need it in neither.
#[test]
fn the_cheapest_pair_may_have_none_of_the_cheapest_way() {
    let ends = [[0, 2], [2, 3], [3, 1], [0, 4], [4, 3], [2, 5], [5, 1]];
    let costs = [1, 1, 1, 2, 2, 2, 2];
    let links = ends.into_iter().zip(costs).map(|(ends, cost)| link(ends, 10, cost)).collect();
    let network = Network::new(vec![false, false, true, true, true, true], links).expect("a network");
    let one = admit(&network, &[demand([0, 1], 1)], &[None]);
    assert_eq!(one[0].placement().map(|there| there.way.links.len()), Some(3));
    let pair = admit(&network, &[Demand { backup: true, ..demand([0, 1], 1) }], &[None]);
    let there = pair[0].placement().expect("two ways");
    assert!(there.ways().all(|way| !way.links.contains(&(1, Direction::Forth))), "{there:?}");
}

#[test]
fn who_holds_worse_gives_way_and_takes_another_way() {
    let network = two_ways();
    let weak = Demand { priority: Priority { setup: 7, hold: 7 }, ..demand([0, 1], 10) };
    let held = admit(&network, std::slice::from_ref(&weak), &[None]);
    let before = Held { placement: held[0].placement().expect("room").clone(), rates: weak.rates };
    // 20 Mbit/s of the other way are taken as well: the strong one can only have the place of the weak one.
    let other = Demand { priority: Priority { setup: 0, hold: 0 }, ..demand([0, 1], 20) };
    let strong = Demand { priority: Priority { setup: 1, hold: 1 }, ..demand([0, 1], 10) };
    let outcomes =
        admit(&network, &[weak.clone(), other, strong.clone()], &[Some(before.clone()), None, None]);
    assert!(
        matches!(&outcomes[0], Outcome::Refused(refusal) if refusal.gave_way_to == Some(2)),
        "{outcomes:?}"
    );
    // With room elsewhere nobody gives way, though its way is dearer.
    let outcomes = admit(&network, &[weak, strong], &[Some(before), None]);
    assert_eq!([links(&outcomes[0]), links(&outcomes[1])], [vec![0, 1], vec![2, 3]]);
}

#[test]
fn a_trunk_needs_a_rate_at_which_its_lanes_have_windows_of_five_packets() {
    // Five packets in 60 ms, and in 60 ms and the 20 ms in which 10 Mbit/s empty 25 000 bytes.
    assert_eq!(least_rate(mbit(10), Duration::from_millis(60), Bytes(0)), mbit(1));
    assert_eq!(least_rate(mbit(10), Duration::from_millis(60), Bytes(25_000)), Rate::from_mbit(0.75));
    let short = Link { least: Rates { forth: mbit(2), back: mbit(1) }, ..link([0, 1], 10, 1) };
    let network = Network::new(vec![false, false], vec![short]).expect("a network");
    let three = |rate| Demand { lanes: 3, ..demand([0, 1], rate) };
    let outcomes = admit(&network, &[three(2), three(5), three(6), three(6)], &[None, None, None, None]);
    let refusals: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Admitted(_) => None,
        })
        .collect();
    let lacks = |direction, asked, missing| {
        let lacking = Lacking::Window { direction, asked: mbit(asked), missing: mbit(missing) };
        Shortage { link: 0, lacking }
    };
    assert_eq!(refusals[0].shortages, [lacks(Direction::Forth, 2, 4), lacks(Direction::Back, 2, 1)]);
    assert_eq!(refusals[1].shortages.last(), Some(&lacks(Direction::Forth, 5, 1)));
    assert!(outcomes[2].placement().is_some());
    // 4 Mbit/s are left, which are too few for windows.
    assert_eq!((refusals[2].fits, refusals[2].shortages.len()), (None, 2));
}

#[test]
fn sites_pass_nothing_on() {
    let links = vec![link([0, 1], 10, 1), link([1, 2], 10, 1)];
    let network = Network::new(vec![false, false, false], links.clone()).expect("a network");
    let outcomes = admit(&network, &[demand([0, 2], 1)], &[None]);
    assert!(
        matches!(&outcomes[0], Outcome::Refused(refusal) if refusal.shortages.is_empty()),
        "{outcomes:?}"
    );
    let network = Network::new(vec![false, true, false], links).expect("a network");
    assert!(admit(&network, &[demand([0, 2], 1)], &[None])[0].placement().is_some());
}

#[test]
fn what_is_no_network_is_refused() {
    let network = |link| Network::new(vec![true, true], vec![link]).map(|_| ());
    assert_eq!(network(link([0, 2], 1, 1)), Err(NetworkError::NoSuchNode { link: 0 }));
    assert_eq!(network(link([1, 1], 1, 1)), Err(NetworkError::Loop { link: 0 }));
    assert_eq!(network(link([0, 1], 1, 0)), Err(NetworkError::NoCost { link: 0 }));
}
