use crate::{DropReason, Item, Stats};

/// Where a discipline hands over what it drops, cuts off or marks, so that it is counted in one place.
pub(crate) struct Ledger<'a, F> {
    pub(crate) stats: &'a mut Stats,
    pub(crate) on_drop: &'a mut F,
}

impl<F> Ledger<'_, F> {
    /// Drops the whole item.
    pub(crate) fn drop<T: Item>(&mut self, item: T, reason: DropReason)
    where
        F: FnMut(T, DropReason),
    {
        self.stats.count_drop(reason, item.segments(), item.bytes());
        (self.on_drop)(item, reason);
    }

    /// Drops all segments but the first `keep`, of which there is at least one.
    pub(crate) fn trim<T: Item>(&mut self, item: &mut T, keep: u32, reason: DropReason) {
        let (segments, bytes) = (item.segments(), item.bytes());
        item.trim(keep);
        debug_assert_eq!(item.segments(), keep, "an item was trimmed to another length");
        self.stats.count_drop(reason, segments - keep, bytes - item.bytes());
    }

    /// Drops what is beyond the first `room` segments and gives back the rest, if any.
    pub(crate) fn fit<T: Item>(&mut self, mut item: T, room: u32, reason: DropReason) -> Option<T>
    where
        F: FnMut(T, DropReason),
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
        F: FnMut(T, DropReason),
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
        F: FnMut(T, DropReason),
    {
        if ecn && item.is_ecn_capable() {
            item.mark();
            self.stats.marked[reason as usize] += u64::from(item.segments());
            return Some(item);
        }
        self.lose(item, lost, reason)
    }
}
