/// How much may wait in a queue. Both limits hold; zero of either refuses everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Segments.
    pub segments: u32,
    /// Bytes.
    pub bytes: u64,
}

impl Default for Limits {
    /// 1000 packets, as in lee2002 §2, and 4 MiB.
    fn default() -> Self {
        Limits { segments: 1000, bytes: 4 << 20 }
    }
}
