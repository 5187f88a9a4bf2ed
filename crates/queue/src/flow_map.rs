use std::time::Duration;

use trunkline_units::Instant;

/// Entries that compete for one place.
const WAYS: usize = 8;
/// Sets of a new map.
const FIRST_SETS: usize = 8;

/// A bounded map of flows: constant time, and no search for what is old.
///
/// It is built like a processor's cache. A flow's hash picks a set of eight entries, and nothing else is looked
/// at. If the set is full, the map doubles as long as it may; at its limit the entry of the set that was longest
/// not seen makes room. So an entry is never lost while the map may grow, and at the limit the one lost is old in
/// all likelihood: a set's eight are a random sample of all.
///
/// Beyond key and value an entry costs 12 bytes: part of the hash, when it was last seen, and a generation.
///
/// A flow keeps its [`FlowIndex`] until the entry is lost; an index that no longer holds is recognised, never mistaken for
/// another flow. When the map doubles, an entry of set `s` of `n` goes to set `s` or `s + n`, and keeps its place in it: so an
/// index from before leads to a few places, one of which has the entry's generation.
#[derive(Debug, Clone)]
pub struct FlowMap<K, V> {
    sets: Vec<Set>,
    entries: Vec<Option<Entry<K, V>>>,
    len: usize,
    limit_sets: usize,
    next_generation: u32,
}

/// What one look at a set tells: 64 bytes, one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set {
    /// Lower half of each entry's hash; meaningless where `seen` is 0.
    tags: [u32; WAYS],
    /// When each entry was last seen, in units of 2^20 ns (about a millisecond); 0: free.
    seen: [u32; WAYS],
}

#[derive(Debug, Clone)]
struct Entry<K, V> {
    key: K,
    value: V,
    generation: u32,
}

/// Where a flow is in a [`FlowMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowIndex {
    slot: u32,
    generation: u32,
    /// Sets of the map when it was given out, as a power of two.
    sets: u8,
}

/// What [`FlowMap::touch`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// The flow was there.
    Known,
    /// It is new.
    New,
    /// It is new, and the map is at its limit: another flow was forgotten for it.
    Replaced,
}

fn clock(now: Instant) -> u32 {
    ((now.as_nanos() >> 20) as u32).max(1)
}

fn since(now: u32, seen: u32) -> Duration {
    Duration::from_nanos(u64::from(now.wrapping_sub(seen)) << 20)
}

impl<K: Copy + Eq, V> FlowMap<K, V> {
    /// An empty map of at most `limit` flows, rounded up to eight times a power of two.
    pub fn new(limit: usize) -> Self {
        FlowMap {
            sets: Vec::new(),
            entries: Vec::new(),
            len: 0,
            limit_sets: limit.div_ceil(WAYS).next_power_of_two().min(1 << 28),
            next_generation: 0,
        }
    }

    /// Flows in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Flows it has places for now, without growing.
    pub const fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    #[inline]
    fn slot_of(&self, hash: u64, key: &K) -> Option<usize> {
        if self.sets.is_empty() {
            return None;
        }
        let at = self.set_of(hash);
        let set = &self.sets[at];
        let tag = hash as u32;
        for way in 0..WAYS {
            if set.tags[way] == tag && set.seen[way] != 0 {
                let slot = at * WAYS + way;
                if self.entries[slot].as_ref().is_some_and(|entry| entry.key == *key) {
                    return Some(slot);
                }
            }
        }
        None
    }

    fn index(&self, slot: usize) -> FlowIndex {
        let generation = self.entries[slot].as_ref().map_or(0, |entry| entry.generation);
        self.index_of(slot, generation)
    }

    const fn index_of(&self, slot: usize, generation: u32) -> FlowIndex {
        FlowIndex { slot: slot as u32, generation, sets: self.sets.len().trailing_zeros() as u8 }
    }

    /// Where the entry of an index is now.
    #[inline]
    fn place(&self, index: FlowIndex) -> Option<usize> {
        let holds = |slot: &usize| {
            let entry = self.entries.get(*slot).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.generation == index.generation)
        };
        let slot = index.slot as usize;
        if holds(&slot) {
            return Some(slot);
        }
        let then = WAYS << index.sets;
        (slot + then..self.entries.len()).step_by(then).find(holds)
    }

    /// Where the flow `key` is, whose hash is `hash`. It does not count as seen.
    #[inline]
    pub fn find(&self, hash: u64, key: &K) -> Option<FlowIndex> {
        self.slot_of(hash, key).map(|slot| self.index(slot))
    }

    /// Finds a flow or makes room for it, with the value of `new`, and takes note that it was seen `now`.
    #[inline]
    pub fn touch(
        &mut self,
        hash: u64,
        key: &K,
        now: Instant,
        new: impl FnOnce() -> V,
    ) -> (FlowIndex, Touched) {
        let seen = clock(now);
        if let Some(slot) = self.slot_of(hash, key) {
            self.sets[slot / WAYS].seen[slot % WAYS] = seen;
            return (self.index(slot), Touched::Known);
        }
        let (slot, touched) = self.make_room(hash, seen);
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let set = &mut self.sets[slot / WAYS];
        set.tags[slot % WAYS] = hash as u32;
        set.seen[slot % WAYS] = seen;
        self.entries[slot] = Some(Entry { key: *key, value: new(), generation });
        if touched == Touched::New {
            self.len += 1;
        }
        (self.index_of(slot, generation), touched)
    }

    #[cold]
    fn make_room(&mut self, hash: u64, now: u32) -> (usize, Touched) {
        loop {
            if !self.sets.is_empty() {
                let at = self.set_of(hash);
                let set = &self.sets[at];
                if let Some(way) = set.seen.iter().position(|seen| *seen == 0) {
                    return (at * WAYS + way, Touched::New);
                }
                if self.sets.len() >= self.limit_sets {
                    // The clock's 32 bits wrap after 52 days: age, not time, is compared.
                    let way = (0..WAYS).max_by_key(|way| now.wrapping_sub(set.seen[*way])).unwrap_or(0);
                    return (at * WAYS + way, Touched::Replaced);
                }
            }
            self.grow();
        }
    }

    fn grow(&mut self) {
        let count = (self.sets.len() * 2).clamp(FIRST_SETS.min(self.limit_sets), self.limit_sets);
        let sets = vec![Set { tags: [0; WAYS], seen: [0; WAYS] }; count];
        let old_sets = std::mem::replace(&mut self.sets, sets);
        let old = std::mem::take(&mut self.entries);
        self.entries.resize_with(count * WAYS, || None);
        for (slot, entry) in old.into_iter().enumerate() {
            let Some(entry) = entry else { continue };
            let tag = old_sets[slot / WAYS].tags[slot % WAYS];
            let (at, way) = (self.set_of(tag.into()), slot % WAYS);
            let set = &mut self.sets[at];
            // A set's entries come from one set of half as many, so that its place is free.
            set.tags[way] = tag;
            set.seen[way] = old_sets[slot / WAYS].seen[way];
            self.entries[at * WAYS + way] = Some(entry);
        }
    }

    /// The value at `index`, if that flow is still there.
    #[inline]
    pub fn get(&self, index: FlowIndex) -> Option<&V> {
        self.entries[self.place(index)?].as_ref().map(|entry| &entry.value)
    }

    /// The value at `index`, if that flow is still there.
    #[inline]
    pub fn get_mut(&mut self, index: FlowIndex) -> Option<&mut V> {
        let slot = self.place(index)?;
        self.entries[slot].as_mut().map(|entry| &mut entry.value)
    }

    /// How long the flow at `index` has not been seen, to about a millisecond.
    pub fn idle(&self, index: FlowIndex, now: Instant) -> Option<Duration> {
        let slot = self.place(index)?;
        let seen = self.sets[slot / WAYS].seen[slot % WAYS];
        Some(since(clock(now), seen))
    }

    /// Forgets a flow.
    pub fn remove(&mut self, index: FlowIndex) -> Option<V> {
        let slot = self.place(index)?;
        self.sets[slot / WAYS].seen[slot % WAYS] = 0;
        self.len -= 1;
        self.entries[slot].take().map(|entry| entry.value)
    }

    /// Forgets every flow, gives back the memory, and remembers up to `limit` from now on. Indices from before hold no longer.
    pub fn reset(&mut self, limit: usize) {
        *self = FlowMap { next_generation: self.next_generation, ..FlowMap::new(limit) };
    }

    /// Remembers up to `limit` flows from now on, but no fewer than it has places for now.
    pub fn raise_limit(&mut self, limit: usize) {
        self.limit_sets = FlowMap::<K, V>::new(limit).limit_sets.max(self.sets.len());
    }

    /// Most flows it may have.
    pub const fn limit(&self) -> usize {
        self.limit_sets * WAYS
    }

    /// Every flow seen within `lately`, with how long ago that was, to about a millisecond, in an order that depends on nothing but what was
    /// done to the map.
    pub fn iter_seen(&self, now: Instant, lately: Duration) -> impl Iterator<Item = (&K, &V, Duration)> {
        let now = clock(now);
        self.entries.iter().enumerate().filter_map(move |(slot, entry)| {
            let entry = entry.as_ref()?;
            let idle = since(now, self.sets[slot / WAYS].seen[slot % WAYS]);
            (idle <= lately).then_some((&entry.key, &entry.value, idle))
        })
    }

    /// Every flow, in an order that depends on nothing but what was done to the map.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().flatten().map(|entry| (&entry.key, &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_units::Rng;

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn below_its_limit_the_map_grows_and_forgets_nobody() {
        let mut map = FlowMap::new(1 << 16);
        for key in 0..10_000_u64 {
            assert_eq!(map.touch(hash(key), &key, at(key), || key * 2).1, Touched::New);
        }
        assert_eq!(map.len(), 10_000);
        for key in 0..10_000_u64 {
            let index = map.find(hash(key), &key).expect("still there");
            assert_eq!(map.get(index), Some(&(key * 2)));
        }
        assert!(map.find(hash(10_000), &10_000).is_none());
    }

    #[test]
    fn at_its_limit_the_flow_longest_not_seen_makes_room() {
        let mut map = FlowMap::new(8);
        for key in 0..8_u64 {
            let _ = map.touch(hash(key), &key, at(10 * (key + 1)), || ());
        }
        // Flow 0 is seen again, so flow 1 is the oldest.
        assert_eq!(map.touch(hash(0), &0, at(200), || ()).1, Touched::Known);
        assert_eq!(map.touch(hash(99), &99, at(210), || ()).1, Touched::Replaced);
        assert_eq!((map.len(), map.capacity()), (8, 8));
        assert!(map.find(hash(1), &1).is_none());
        assert!(map.find(hash(0), &0).is_some());
        let newest = map.find(hash(99), &99).expect("just seen");
        let idle = map.idle(newest, at(1210)).expect("still there").as_millis();
        assert!((999..=1001).contains(&idle), "{idle}");
    }

    #[test]
    fn flows_with_the_same_hash_are_told_apart_by_their_keys() {
        let mut map = FlowMap::new(64);
        let one = map.touch(7, &'a', at(1), || 1).0;
        let two = map.touch(7, &'b', at(1), || 2).0;
        assert_eq!((map.get(one), map.get(two)), (Some(&1), Some(&2)));
    }

    #[test]
    fn an_index_of_a_forgotten_flow_is_recognised() {
        let mut map = FlowMap::new(64);
        let index = map.touch(7, &'a', at(1), || 1).0;
        assert_eq!(map.remove(index), Some(1));
        assert_eq!(map.get(index), None);
        let _ = map.touch(7, &'b', at(1), || 2);
        assert_eq!(map.get(index), None);
        assert_eq!(map.remove(index), None);
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn a_map_that_was_reset_knows_no_index_from_before() {
        let mut map = FlowMap::new(1 << 10);
        let old: Vec<FlowIndex> =
            (0..500_u64).map(|key| map.touch(hash(key), &key, at(1), || key).0).collect();
        map.reset(64);
        assert_eq!((map.len(), map.capacity(), map.limit()), (0, 0, 64));
        for key in 0..500_u64 {
            let _ = map.touch(hash(key), &key, at(2), || key);
        }
        assert!(map.capacity() <= 64);
        assert!(old.iter().all(|index| map.get(*index).is_none()));
        map.raise_limit(1 << 10);
        for key in 0..500_u64 {
            let _ = map.touch(hash(key), &key, at(3), || key);
        }
        assert!(map.len() == 500 && map.limit() == 1 << 10);
        map.raise_limit(64);
        assert_eq!(map.limit(), map.capacity(), "what it has stays");
    }

    #[test]
    fn an_index_holds_while_the_map_grows() {
        let mut map = FlowMap::new(1 << 12);
        let indices: Vec<FlowIndex> =
            (0..2000_u64).map(|key| map.touch(hash(key), &key, at(1), || key).0).collect();
        assert!(map.capacity() >= 2048, "it has grown");
        for (key, index) in indices.iter().enumerate() {
            assert_eq!(map.get(*index), Some(&(key as u64)));
            assert_eq!(
                map.idle(*index, at(1001)).map(|idle| idle.as_millis().abs_diff(1000) < 3),
                Some(true)
            );
        }
        assert_eq!(map.remove(indices[3]), Some(3));
        assert_eq!(map.get(indices[3]), None);
        let _ = map.touch(hash(3), &3, at(2), || 7);
        assert_eq!(map.get(indices[3]), None, "another generation");
    }

    /// Against a plain list: everything the map says it has is right, and it never has more than it may.
    #[test]
    fn random_operations_match_the_model() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed, "flow-map");
            let mut map = FlowMap::new(128);
            let mut model: Vec<(u64, u64)> = Vec::new();
            for step in 0..3000_u64 {
                let key = rng.below(300);
                if rng.chance(0.8) {
                    let (index, touched) = map.touch(hash(key), &key, at(step), || step);
                    let known = model.iter().find(|(k, _)| *k == key).copied();
                    match touched {
                        Touched::Known => assert_eq!(map.get(index).copied(), known.map(|(_, v)| v)),
                        Touched::New | Touched::Replaced => {
                            assert!(known.is_none());
                            model.push((key, step));
                        }
                    }
                    model.retain(|(k, _)| map.find(hash(*k), k).is_some());
                } else if let Some(index) = map.find(hash(key), &key) {
                    assert!(map.remove(index).is_some());
                    model.retain(|(k, _)| *k != key);
                }
                assert_eq!(map.len(), model.len());
                assert!(map.len() <= 128);
            }
            let mut listed: Vec<(u64, u64)> = map.iter().map(|(k, v)| (*k, *v)).collect();
            listed.sort_unstable();
            model.sort_unstable();
            assert_eq!(listed, model);
        }
    }
}
