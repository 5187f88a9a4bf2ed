//! Places of connections, whose keys epoll carries: a key of one that has gone is not that of the next in its place.
//!
//! Events come in batches. By the time that one is handled, the handler of another may have closed its descriptor, and given the place
//! to a new connection.

/// A place, and which of its owners is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    generation: u32,
    slot: u32,
}

/// So many bits that two are left of epoll's data.
const GENERATIONS: u32 = u32::MAX >> 2;

impl Key {
    /// Less than 2⁶².
    pub(crate) const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    pub(crate) const fn from_u64(number: u64) -> Self {
        Key { generation: (number >> 32) as u32, slot: number as u32 }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The places.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Slots { slots: Vec::new(), vacant: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.value = Some(value);
        Key { generation: place.generation, slot }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key.slot as usize).filter(|slot| slot.generation == key.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key.slot as usize).filter(|slot| slot.generation == key.generation)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize).filter(|slot| slot.generation == key.generation)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.vacant.push(key.slot);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let key = |(slot, place): (usize, &Slot<T>)| Key { generation: place.generation, slot: slot as u32 };
        self.slots.iter().enumerate().filter_map(move |at| Some((key(at), at.1.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_connection_that_has_gone_is_not_its_successors() {
        let mut slots = Slots::new();
        let [first, other] = ["first", "other"].map(|name| slots.insert(name));
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(second.slot, first.slot, "the place is used again");
        for stale in [first, Key::from_u64(first.to_u64())] {
            assert_eq!(slots.get(stale), None);
            assert_eq!(slots.get_mut(stale), None);
            assert_eq!(slots.remove(stale), None);
        }
        assert_eq!(slots.get(Key::from_u64(second.to_u64())), Some(&"second"));
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(second, &"second"), (other, &"other")]);
    }

    #[test]
    fn keys_leave_two_bits_of_epolls_data_and_generations_begin_again() {
        let mut slots = Slots::new();
        let key = slots.insert(());
        slots.slots[0].generation = GENERATIONS;
        let last = Key { generation: GENERATIONS, ..key };
        assert!(last.to_u64() < 1 << 62);
        assert_eq!((slots.remove(last), slots.insert(())), (Some(()), key));
    }
}
