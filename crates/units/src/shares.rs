//! Places that sources share: who gives way when all are taken.
//!
//! The source with the largest number of places loses its oldest; among equal sources, the newcomer's own goes first. If each has one, the
//! oldest of all goes. So a source with no more than its fair share keeps its places however fast others come, a flood from one source
//! takes only from itself, and a newcomer is never refused.
//!
//! Every operation costs O(log n).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// The source of an address for limits: the address itself, for IPv6 its /64, since one host can have all addresses of that.
pub fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
    }
}

/// Who gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim<T> {
    /// The place.
    pub item: T,
    /// How many its source has, with the newcomer if that is of the same.
    pub of: usize,
}

/// Who has which place, and from when on, in the order of the calls.
#[derive(Debug, Clone)]
pub struct Shares<S, T> {
    next: u64,
    items: BTreeMap<T, (S, u64)>,
    /// Of each source, the oldest first.
    sources: BTreeMap<S, BTreeMap<u64, T>>,
    /// Number of places and the oldest of each source: the last entry gives way.
    sizes: BTreeSet<(usize, Reverse<u64>, S)>,
}

impl<S, T> Default for Shares<S, T> {
    fn default() -> Self {
        Shares { next: 0, items: BTreeMap::new(), sources: BTreeMap::new(), sizes: BTreeSet::new() }
    }
}

impl<S: Copy + Ord, T: Copy + Ord> Shares<S, T> {
    /// Places that are taken.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Places of a source.
    pub fn of(&self, source: S) -> usize {
        self.sources.get(&source).map_or(0, BTreeMap::len)
    }

    /// Gives a place to `item` of `source`. It is the newest, even if it had one.
    pub fn insert(&mut self, source: S, item: T) {
        self.remove(item);
        self.items.insert(item, (source, self.next));
        self.change(source, |places, number| {
            places.insert(number, item);
        });
        self.next += 1;
    }

    /// Takes the place of `item` back, if it has one.
    pub fn remove(&mut self, item: T) {
        if let Some((source, number)) = self.items.remove(&item) {
            self.change(source, |places, _| {
                places.remove(&number);
            });
        }
    }

    /// Who gives way to a newcomer of `source`, which has no place yet; `None` if no place is taken.
    pub fn victim(&self, source: S) -> Option<Victim<T>> {
        let (max, _, largest) = *self.sizes.last()?;
        let own = self.of(source);
        let (source, of) = if own > 0 && own + 1 >= max { (source, own + 1) } else { (largest, max) };
        let (_, item) = self.sources.get(&source)?.first_key_value()?;
        Some(Victim { item: *item, of })
    }

    fn change(&mut self, source: S, change: impl FnOnce(&mut BTreeMap<u64, T>, u64)) {
        let size = |places: &BTreeMap<u64, T>| Some((places.len(), Reverse(*places.keys().next()?), source));
        let places = self.sources.entry(source).or_default();
        if let Some(before) = size(places) {
            self.sizes.remove(&before);
        }
        change(places, self.next);
        match size(places) {
            Some(after) => {
                self.sizes.insert(after);
            }
            None => {
                self.sources.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn an_ipv6_network_is_one_source_and_a_mapped_address_is_the_ipv4_one() {
        let parse = |text: &str| source(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }

    #[test]
    fn the_source_with_most_places_loses_its_oldest() {
        let mut shares = Shares::default();
        shares.insert('a', 0);
        for item in 1..10 {
            shares.insert('b', item);
        }
        assert_eq!(shares.victim('c'), Some(Victim { item: 1, of: 9 }));
        assert_eq!(shares.victim('a'), Some(Victim { item: 1, of: 9 }));
        assert_eq!(shares.victim('b'), Some(Victim { item: 1, of: 10 }));
        shares.remove(1);
        assert_eq!((shares.victim('c').map(|victim| victim.item), shares.len()), (Some(2), 9));
    }

    #[test]
    fn among_equals_the_newcomers_own_goes_and_with_one_each_the_oldest_of_all() {
        let mut shares = Shares::default();
        for (source, item) in [('a', 0), ('b', 1), ('c', 2)] {
            shares.insert(source, item);
        }
        assert_eq!(shares.victim('d'), Some(Victim { item: 0, of: 1 }));
        assert_eq!(shares.victim('b'), Some(Victim { item: 1, of: 2 }), "it would have two");
        shares.insert('a', 3);
        shares.insert('b', 4);
        assert_eq!(shares.victim('b'), Some(Victim { item: 1, of: 3 }));
        assert_eq!(shares.victim('c'), Some(Victim { item: 2, of: 2 }), "it would have as many as they");
        shares.insert('c', 2);
        assert_eq!(shares.victim('d'), Some(Victim { item: 0, of: 2 }));
    }

    /// Beside any others, a source with fewer places than the largest never loses one.
    #[test]
    fn who_has_less_than_the_largest_keeps_what_it_has() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed, "shares");
            let mut shares: Shares<u64, u64> = Shares::default();
            for item in 0..500 {
                let sources = 1 + rng.below(8);
                let source = rng.below(sources);
                if shares.len() >= 20
                    && let Some(victim) = shares.victim(source)
                {
                    let max = shares.sources.values().map(BTreeMap::len).max().unwrap_or(0);
                    let own = shares.items[&victim.item].0 == source;
                    assert!(victim.of == max || own && victim.of >= max, "seed {seed}");
                    shares.remove(victim.item);
                }
                shares.insert(source, item);
                let sum: usize = shares.sources.values().map(BTreeMap::len).sum();
                assert!(shares.len() == sum && sum <= 20 && shares.sizes.len() == shares.sources.len());
            }
        }
    }
}
