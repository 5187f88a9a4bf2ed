//! Keys that belong to some kinds of a thing only.

use trunkline_schema::At;

/// Reports the keys that are given and that a thing of this kind does not have.
pub(super) fn only(at: &At<'_>, kind: &str, has: &[&str], given: &[(&str, bool)]) {
    for (key, is_given) in given {
        if *is_given && !has.contains(key) {
            at.key(key).misplaced(format!("is no key of {kind}"), format!("{kind} has {}", has.join(", ")));
        }
    }
}

/// The names in a list for a message.
pub(super) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.into_iter().take(50).collect();
    if names.is_empty() { "there is none".to_owned() } else { names.join(", ") }
}
