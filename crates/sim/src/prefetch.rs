//! A hint to the processor.

use trunkline_units::Region;

/// Begins to load memory into the processor's caches, for a caller who needs it soon and has other work until then. It reads
/// nothing and changes nothing. Where the processor has no such hint in stable Rust, it does nothing.
#[inline]
pub(crate) fn prefetch(region: Region) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        const LINE: usize = 64;
        let first = region.start().cast::<i8>();
        let skipped = first.addr() % LINE;
        for offset in (0..region.bytes() + skipped).step_by(LINE) {
            #[allow(unsafe_code, reason = "no safe function gives this hint")]
            // SAFETY: The instruction is a hint. It accesses no memory in the sense of the language, and has no effect with any
            // address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(first.wrapping_sub(skipped).wrapping_add(offset));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = region;
}
