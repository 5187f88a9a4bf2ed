//! What a man page has beside the definition of the command line.

/// The additional sections of a page.
pub(super) struct Extra {
    /// `trunkline`, `trunkline-up`, `trunkline-lab-run`.
    pub(super) page: &'static str,
    pub(super) files: &'static [File],
    /// A command line and its purpose.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) about: &'static str,
}
