//! The version in every result. Its test has a process of its own: a child holds the file locks of its parent from fork to exec, which
//! the tests of the store would meet.

use std::process::Command;

#[test]
fn the_version_has_the_commit() {
    let rest = trunkline_lab::VERSION.strip_prefix(env!("CARGO_PKG_VERSION")).expect("the number first");
    let git = |arguments: &[&str]| {
        let here = env!("CARGO_MANIFEST_DIR");
        let output = Command::new("git").args(arguments).current_dir(here).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !git(&["rev-parse", "HEAD"]) {
        assert_eq!(rest, "", "no checkout");
        return;
    }
    let commit = rest.strip_prefix('+').expect("a commit");
    let commit = commit.strip_suffix("-dirty").unwrap_or(commit);
    assert!(commit.len() >= 7 && git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]), "{commit}");
}
