use std::collections::VecDeque;
use std::ptr;

/// The places of a queue with at most so many items stay in the caches.
const LONG: usize = 512;
/// Of a longer one, the place behind so many others is needed next.
const LATER: usize = 32;

/// The memory of a value, for who can load it into the processor's caches before it is needed. It gives no access.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    start: *const u8,
    bytes: usize,
}

impl Region {
    /// The memory of a value, without what it refers to.
    #[inline]
    pub const fn of<T: ?Sized>(value: &T) -> Self {
        Region { start: ptr::from_ref(value).cast(), bytes: size_of_val(value) }
    }

    /// A later place of a queue whose front is taken, if the queue is so long that its places do not stay in the caches.
    #[inline]
    pub fn later<T>(queue: &VecDeque<T>) -> Option<Self> {
        (queue.len() > LONG).then(|| Region::of(&queue[LATER]))
    }

    /// Where it begins.
    pub const fn start(self) -> *const u8 {
        self.start
    }

    /// Its length.
    pub const fn bytes(self) -> usize {
        self.bytes
    }
}
