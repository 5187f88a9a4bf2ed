//! TCP trunks between sites.
fn main() {}
