//! TOML files read strictly: every mistake with its place, what is wrong, and what is allowed.

mod file;
mod findings;
mod format;
mod key;
mod leaf;
mod mistake;
mod partly;
mod paths;
mod places;
mod read;
mod source;
mod twice;
mod walk;

pub use file::{read_file, read_input};
pub use findings::{At, Finding, Findings};
pub use format::Format;
pub use key::KeyPath;
pub use leaf::Leaf;
pub use mistake::{Mistake, Mistakes};
pub use partly::{Partly, read_partly};
pub use paths::{Astray, expand, put};
pub use read::read;
pub use source::{MAX_FILE, Source};
