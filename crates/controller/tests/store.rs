//! The store: revisions follow each other, are never changed, and are written whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use trunkline_controller::{Proposal, Store, StoreError, changes};

/// A directory that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trunkline-store-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Place(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("network.db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn network(trunks: &[(&str, u32)]) -> String {
    let site = |name: &str| {
        format!("[sites.{name}.uplinks.line]\nup = \"10 Mbit/s\"\ndown = \"10 Mbit/s\"\nreservable = 1\n")
    };
    let trunk = |(name, rate): &(&str, u32)| {
        format!("[trunks.{name}]\nsites = [\"a\", \"b\"]\nguarantee = \"{rate} Mbit/s\"\n")
    };
    [site("a"), site("b")].into_iter().chain(trunks.iter().map(trunk)).collect()
}

fn proposal(text: &str, from: u64) -> Proposal<'_> {
    Proposal { name: "n.toml", text, from, by: "anna", note: "why", at: 1_800_000_000, partly: false }
}

fn apply(path: &Path, text: &str, from: u64) -> Result<u64, StoreError> {
    Store::create(path)?.apply(&proposal(text, from)).map(|revision| revision.number)
}

#[test]
fn a_revision_is_read_as_it_was_applied() {
    let place = Place::new("read");
    let [first, second] = [network(&[("one", 6)]), network(&[("two", 4), ("one", 6)])];
    let applied = Store::create(&place.store()).unwrap().apply(&proposal(&first, 0)).unwrap();
    assert_eq!((applied.number, applied.by.as_str(), applied.note.as_str()), (1, "anna", "why"));
    assert_eq!(apply(&place.store(), &second, 1).unwrap(), 2);
    let store = Store::open(&place.store()).unwrap();
    assert_eq!(store.revision(1).unwrap(), applied);
    let latest = store.latest().unwrap().unwrap();
    assert_eq!((latest.number, latest.document.as_str()), (2, second.as_str()));
    // The trunk that was carried stays, though another stands before it.
    assert_eq!(latest.plan.trunks[1].change, trunkline_controller::Change::Kept);
    let error = store.revision(3).unwrap_err().to_string();
    assert!(error.contains("there is no revision 3; allowed: 1 to 2"), "{error}");
}

#[test]
fn who_has_not_seen_the_latest_is_told_what_has_changed() {
    let place = Place::new("conflict");
    apply(&place.store(), &network(&[("one", 6), ("old", 1)]), 0).unwrap();
    apply(&place.store(), &network(&[("one", 5), ("new", 1)]), 1).unwrap();
    let error = apply(&place.store(), &network(&[("one", 6), ("mine", 1)]), 1).unwrap_err();
    let StoreError::Conflict { from: 1, latest: 2, by, changed } = &error else { panic!("{error}") };
    assert_eq!(
        (by.as_str(), changed.as_slice()),
        ("anna", &["trunks.new: new", "trunks.old: removed", "trunks.one: changed"].map(str::to_owned)[..])
    );
    assert!(error.to_string().contains("then apply it from 2"), "{error}");
    // From one that there never was: all of the latest is different.
    for from in [0, 7, u64::MAX] {
        let error = apply(&place.store(), &network(&[]), from).unwrap_err();
        assert!(
            matches!(&error, StoreError::Conflict { latest: 2, changed, .. } if changed.len() == 4),
            "{from}: {error}"
        );
    }
    assert_eq!(Store::open(&place.store()).unwrap().latest().unwrap().unwrap().number, 2);
}

#[test]
fn what_is_refused_or_nothing_new_is_not_applied() {
    let place = Place::new("refused");
    let too_much = network(&[("one", 6), ("two", 6)]);
    assert!(
        matches!(apply(&place.store(), &too_much, 0), Err(StoreError::Refused(plan)) if plan.refused().count() == 1)
    );
    assert_eq!(Store::open(&place.store()).unwrap().latest().unwrap(), None);
    let partly = Proposal { partly: true, ..proposal(&too_much, 0) };
    assert_eq!(Store::open(&place.store()).unwrap().apply(&partly).unwrap().number, 1);
    assert!(matches!(apply(&place.store(), &too_much, 1), Err(StoreError::Same(1))));
    assert!(matches!(apply(&place.store(), "sites = 1", 1), Err(StoreError::Document(_))));
}

#[test]
fn files_that_are_no_store_are_left_as_they_are() {
    let place = Place::new("foreign");
    let path = place.store();
    assert!(matches!(Store::open(&path), Err(StoreError::Missing(_))));
    for content in [
        &b"not a database, but longer than a header of one would be ........................................"
            [..],
        b"x",
    ] {
        fs::write(&path, content).unwrap();
        for store in [Store::open(&path), Store::create(&path)] {
            assert!(matches!(store, Err(StoreError::Foreign(_))), "{store:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::write(&path, b"").unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Foreign(_))), "an empty file is no store yet");
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE others (x)").unwrap();
    assert!(matches!(Store::create(&path), Err(StoreError::Foreign(_))), "another program's");
    fs::remove_file(&path).unwrap();
    apply(&path, &network(&[]), 0).unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("has tables of version 2; this program knows 1"), "{error}");
}

#[test]
fn revisions_are_never_changed_removed_or_left_out() {
    let place = Place::new("triggers");
    apply(&place.store(), &network(&[]), 0).unwrap();
    let connection = Connection::open(place.store()).unwrap();
    for (change, why) in [
        ("UPDATE revisions SET note = 'other'", "never changed"),
        ("DELETE FROM revisions", "never removed"),
        ("INSERT INTO revisions VALUES (3, 0, '', '', '', '')", "follow each other"),
        ("INSERT OR REPLACE INTO revisions VALUES (1, 0, '', '', '', '')", "follow each other"),
    ] {
        let error = connection.execute_batch(change).unwrap_err().to_string();
        assert!(error.contains(why), "{change}: {error}");
    }
}

#[test]
fn a_plan_that_cannot_be_read_is_said_to_be_one() {
    let place = Place::new("plan");
    apply(&place.store(), &network(&[]), 0).unwrap();
    let connection = Connection::open(place.store()).unwrap();
    connection.execute_batch("INSERT INTO revisions VALUES (2, 0, '', '', '', '{}')").unwrap();
    let error = Store::open(&place.store()).unwrap().latest().unwrap_err().to_string();
    assert!(error.contains("the plan of revision 2 is no plan"), "{error}");
    assert_eq!(Store::open(&place.store()).unwrap().revision(1).unwrap().number, 1);
}

#[test]
fn changes_are_named_by_what_has_them() {
    let before = "round_trip = \"1 ms\"\n[sites.a]\nx = 1\n[links.l]\ny = 1\n";
    let after = "round_trip = \"2 ms\"\n[sites.a]\nx = 2\n[sites.b]\nx = 1\n";
    assert_eq!(
        changes(before, after),
        ["sites.a: changed", "sites.b: new", "links.l: removed", "round_trip: changed"]
    );
    assert_eq!(changes(before, before), [""; 0]);
    assert_eq!(changes("", before).len(), 3);
}
