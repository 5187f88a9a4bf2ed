use crate::{DropReason, Item, Stats};

/// Where a queue hands over what it drops.
pub trait Discard<T> {
    /// Takes an item that was dropped.
    fn discard(&mut self, item: T, reason: DropReason);

    /// Cuts off an item's last segments, which are dropped: keeps the first `keep`. An owner that remembers which segments
    /// wait does more here.
    fn trim(&mut self, item: &mut T, keep: u32)
    where
        T: Item,
    {
        item.trim(keep);
    }
}

/// A closure that takes what is dropped.
pub(crate) struct Call<'a, F>(pub(crate) &'a mut F);

impl<T, F: FnMut(T, DropReason)> Discard<T> for Call<'_, F> {
    fn discard(&mut self, item: T, reason: DropReason) {
        (self.0)(item, reason);
    }
}

/// Where a discipline hands over what it drops, cuts off or marks, so that it is counted in one place.
pub(crate) struct Ledger<'a, F> {
    pub(crate) stats: &'a mut Stats,
    pub(crate) on_drop: &'a mut F,
}

impl<F> Ledger<'_, F> {
    /// Drops the whole item.
    pub(crate) fn drop<T: Item>(&mut self, item: T, reason: DropReason)
    where
        F: Discard<T>,
    {
        self.stats.count_drop(reason, item.segments(), item.bytes());
        self.on_drop.discard(item, reason);
    }

    /// Drops all segments but the first `keep`, of which there is at least one.
    pub(crate) fn trim<T: Item>(&mut self, item: &mut T, keep: u32, reason: DropReason)
    where
        F: Discard<T>,
    {
        let (segments, bytes) = (item.segments(), item.bytes());
        self.on_drop.trim(item, keep);
        debug_assert_eq!(item.segments(), keep, "an item was trimmed to another length");
        self.stats.count_drop(reason, segments - keep, bytes - item.bytes());
    }

    /// Drops what is beyond the first `room` segments and gives back the rest, if any.
    pub(crate) fn fit<T: Item>(&mut self, mut item: T, room: u32, reason: DropReason) -> Option<T>
    where
        F: Discard<T>,
    {
        if room >= item.segments() {
            return Some(item);
        }
        if room == 0 {
            self.drop(item, reason);
            return None;
        }
        self.trim(&mut item, room, reason);
        Some(item)
    }

    /// Drops the last `lost` segments and gives back the rest, if any.
    pub(crate) fn lose<T: Item>(&mut self, item: T, lost: u32, reason: DropReason) -> Option<T>
    where
        F: Discard<T>,
    {
        let room = item.segments().saturating_sub(lost);
        self.fit(item, room, reason)
    }

    /// Tells the sender of the item that there is congestion: marks every segment of it if it can be marked and `ecn`
    /// allows, else drops the last `lost` segments.
    pub(crate) fn signal<T: Item>(
        &mut self,
        mut item: T,
        lost: u32,
        reason: DropReason,
        ecn: bool,
    ) -> Option<T>
    where
        F: Discard<T>,
    {
        if ecn && item.is_ecn_capable() {
            item.mark();
            self.stats.marked[reason as usize] += u64::from(item.segments());
            return Some(item);
        }
        self.lose(item, lost, reason)
    }
}
