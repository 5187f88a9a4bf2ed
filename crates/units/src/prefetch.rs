//! A hint to the processor.

use std::collections::VecDeque;

/// The places of a queue with at most so many items stay in the caches.
const LONG: usize = 512;
/// Of a longer one, the place behind so many others is loaded.
const LATER: usize = 32;

/// Begins to load `value` into the processor's caches, for a caller who needs it soon and has other work until then. It
/// reads nothing and changes nothing. Where the processor has no such hint in stable Rust, it does nothing.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        const LINE: usize = 64;
        let first = std::ptr::from_ref(value).cast::<i8>();
        let skipped = first.addr() % LINE;
        for offset in (0..size_of_val(value) + skipped).step_by(LINE) {
            #[allow(unsafe_code, reason = "no safe function gives this hint")]
            // SAFETY: The instruction is a hint. It accesses no memory in the sense of the language, and has no effect with any
            // address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(first.wrapping_sub(skipped).wrapping_add(offset));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Begins to load a later place of a queue, for a caller who takes an item from its front, if the queue is so long that its places do
/// not stay in the caches. Whether it is.
#[inline]
pub fn prefetch_later<T>(queue: &VecDeque<T>) -> bool {
    let is_long = queue.len() > LONG;
    if is_long {
        prefetch(&queue[LATER]);
    }
    is_long
}
