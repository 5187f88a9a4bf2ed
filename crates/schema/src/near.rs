//! What a name that nothing has may have been meant to be.

/// Names that are given, at most.
const MAX_NEAR: usize = 3;
/// Letters of a name from which on one that contains it is near.
const MIN_PART: usize = 3;

/// The nearest of these names, the nearest first, up to three: those that differ by a third of their letters or less, and those of
/// which the name is a part.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = name.chars().count() / 3 + 1;
    let is_part = |other: &str| name.len() >= MIN_PART && (other.contains(name) || name.contains(other));
    let distance = |other: &str| strsim::damerau_levenshtein(other, name);
    let mut near: Vec<(usize, &str)> = known.into_iter().map(|other| (distance(other), other)).collect();
    near.retain(|(distance, other)| *distance <= limit || is_part(other));
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MAX_NEAR).map(|(_, other)| other.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["bench-latency", "bench-drops", "kung-figure-3", "kung-figure-4", "office"];

    #[test]
    fn names_that_differ_little_are_near_and_so_are_those_that_it_is_a_part_of() {
        assert_eq!(near("bench-latncy", KNOWN), ["bench-latency"]);
        assert_eq!(near("kung-figure-5", KNOWN), ["kung-figure-3", "kung-figure-4"]);
        assert_eq!(near("latency", KNOWN), ["bench-latency"]);
        assert_eq!(near("office-dg", KNOWN), ["office"]);
        assert!(near("xyzzy", KNOWN).is_empty() && near("", KNOWN).is_empty());
    }
}
