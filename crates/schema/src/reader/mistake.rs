//! What is wrong with a file, and where.

use std::fmt;

/// One mistake.
///
/// ```text
/// lee-table-2.toml:41:8: links.core.rate: "10 Mbits" is no rate; allowed: a number with bit/s, kbit/s, …
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// Line and column, from 1; none of what cannot be read at all.
    pub place: Option<(usize, usize)>,
    /// The key with the tables it is in; empty where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right, if that can be said.
    pub allowed: Option<String>,
    /// What brings it about, if it is not in the file as it stands: `--set runs=0`, a point of the sweep.
    pub origin: Option<String>,
}

impl Mistake {
    /// A mistake of a whole file.
    pub const fn of_file(file: String, problem: String) -> Self {
        Mistake { file, place: None, key: String::new(), problem, allowed: None, origin: None }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.problem)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// All that is wrong, in the order of the file's lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}
