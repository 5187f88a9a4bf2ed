//! The schema that editors use is the format's.

use std::fs;
use std::path::Path;

/// `TRUNKLINE_RENEW=1 cargo test -p trunkline-controller --test all schema::` writes it anew.
#[test]
fn the_committed_schema_is_that_of_the_format() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/network.schema.json");
    let text = trunkline_controller::json_schema_text();
    if std::env::var_os("TRUNKLINE_RENEW").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "the format has changed: TRUNKLINE_RENEW=1 cargo test -p trunkline-controller --test all schema::"
    );
}
