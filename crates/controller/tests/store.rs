//! The store: revisions follow each other, are never changed, and are written whole or not at all.

use std::fs;

use postgres::NoTls;
use rusqlite::Connection;
use trunkline_controller::{Author, Place, Proposal, Revision, Steps, Store, StoreError, changes};

use crate::homes::{Home, homes};
use crate::postgres::Server;

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
    Proposal {
        name: "n.toml",
        text,
        from,
        by: "anna",
        note: "why",
        at: 1_800_000_000,
        partly: false,
        steps: None,
    }
}

fn apply(place: &Place, text: &str, from: u64) -> Result<u64, StoreError> {
    Store::create(place)?.apply(&proposal(text, from)).map(|revision| revision.number)
}

#[test]
fn a_revision_is_read_as_it_was_applied() {
    for home in homes("read") {
        let [first, second] = [network(&[("one", 6)]), network(&[("two", 4), ("one", 6)])];
        let applied = Store::create(&home.place).unwrap().apply(&proposal(&first, 0)).unwrap();
        assert_eq!((applied.number, applied.by.as_str(), applied.note.as_str()), (1, "anna", "why"));
        assert_eq!(apply(&home.place, &second, 1).unwrap(), 2);
        let mut store = Store::open(&home.place).unwrap();
        assert_eq!(store.revision(1).unwrap(), applied);
        let latest = store.latest().unwrap().unwrap();
        assert_eq!((latest.number, latest.document.as_str()), (2, second.as_str()));
        // The trunk that was carried stays, though another stands before it.
        assert_eq!(latest.plan.trunks[1].change, trunkline_controller::Change::Kept);
        let error = store.revision(3).unwrap_err().to_string();
        assert!(error.contains("there is no revision 3; allowed: 1 to 2"), "{error}");
    }
}

#[test]
fn who_has_not_seen_the_latest_is_told_what_has_changed() {
    for home in homes("conflict") {
        apply(&home.place, &network(&[("one", 6), ("old", 1)]), 0).unwrap();
        apply(&home.place, &network(&[("one", 5), ("new", 1)]), 1).unwrap();
        let error = apply(&home.place, &network(&[("one", 6), ("mine", 1)]), 1).unwrap_err();
        let StoreError::Conflict { from: 1, latest: 2, by, changed } = &error else { panic!("{error}") };
        assert_eq!(
            (by.as_str(), changed.as_slice()),
            (
                "anna",
                &["trunks.new: new", "trunks.old: removed", "trunks.one: changed"].map(str::to_owned)[..]
            )
        );
        assert!(error.to_string().contains("then apply it from 2"), "{error}");
        // From one that there never was: all of the latest is different.
        for from in [0, 7, u64::MAX] {
            let error = apply(&home.place, &network(&[]), from).unwrap_err();
            assert!(
                matches!(&error, StoreError::Conflict { latest: 2, changed, .. } if changed.len() == 4),
                "{from}: {error}"
            );
        }
        assert_eq!(Store::open(&home.place).unwrap().latest().unwrap().unwrap().number, 2);
    }
}

#[test]
fn what_is_refused_or_nothing_new_is_not_applied() {
    for home in homes("refused") {
        let too_much = network(&[("one", 6), ("two", 6)]);
        assert!(
            matches!(apply(&home.place, &too_much, 0), Err(StoreError::Refused(plan)) if plan.refused().count() == 1)
        );
        assert_eq!(Store::open(&home.place).unwrap().latest().unwrap(), None);
        let partly = Proposal { partly: true, ..proposal(&too_much, 0) };
        assert_eq!(Store::open(&home.place).unwrap().apply(&partly).unwrap().number, 1);
        assert!(matches!(apply(&home.place, &too_much, 1), Err(StoreError::Same(1))));
        assert!(matches!(apply(&home.place, "sites = 1", 1), Err(StoreError::Document(_))));
    }
}

#[test]
fn files_that_are_no_store_are_left_as_they_are() {
    let home = Home::file("foreign");
    let (path, place) = (home.path(), &home.place);
    assert!(matches!(Store::open(place), Err(StoreError::Missing(_))));
    for content in [
        &b"not a database, but longer than a header of one would be ........................................"
            [..],
        b"x",
    ] {
        fs::write(&path, content).unwrap();
        for store in [Store::open(place), Store::create(place)] {
            assert!(matches!(store, Err(StoreError::Foreign(_))), "{store:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::write(&path, b"").unwrap();
    assert!(matches!(Store::open(place), Err(StoreError::Foreign(_))), "an empty file is no store yet");
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE others (x)").unwrap();
    assert!(matches!(Store::create(place), Err(StoreError::Foreign(_))), "another program's");
    fs::remove_file(&path).unwrap();
    apply(place, &network(&[]), 0).unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 3").unwrap();
    let error = Store::open(place).unwrap_err().to_string();
    assert!(error.contains("has tables of version 3; this program knows 2"), "{error}");
}

#[test]
fn revisions_are_never_changed_removed_or_left_out() {
    let home = Home::file("triggers");
    apply(&home.place, &network(&[]), 0).unwrap();
    let connection = Connection::open(home.path()).unwrap();
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
    let home = Home::file("plan");
    apply(&home.place, &network(&[]), 0).unwrap();
    let connection = Connection::open(home.path()).unwrap();
    connection.execute_batch("INSERT INTO revisions VALUES (2, 0, '', '', '', '{}')").unwrap();
    let error = Store::open(&home.place).unwrap().latest().unwrap_err().to_string();
    assert!(error.contains("the plan of revision 2 is no plan"), "{error}");
    assert_eq!(Store::open(&home.place).unwrap().revision(1).unwrap().number, 1);
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

/// A store of version 1, as the program of that version made it.
const VERSION_1: &str = include_str!("store-1.sql");

#[test]
fn a_store_of_the_version_before_is_upgraded_with_all_that_it_has() {
    let home = Home::file("upgrade");
    let old = Connection::open(home.path()).expect("a file");
    old.execute_batch(VERSION_1).expect("its tables and rows");
    let rows = |query: &str| old.query_row(query, [], |row| row.get::<_, String>(0)).expect("a row");
    let document = rows("SELECT document FROM revisions WHERE number = 2");
    // Eight processes at once: one does it.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| Store::open(&home.place).expect("it is upgraded"));
        }
    });
    let mut store = Store::open(&home.place).expect("a store");
    let latest = store.latest().expect("it is read").expect("a revision");
    assert_eq!((latest.number, latest.document, latest.by.as_str()), (2, document.clone(), "anna"));
    assert_eq!(store.members().expect("members")[0].public_key, "key");
    assert_eq!(store.events(0, 10).expect("events").len(), 4);
    let changed = document.replace("30 Mbit/s", "20 Mbit/s");
    assert_eq!(apply(&home.place, &changed, 2).expect("it goes on"), 3);
    // A process that ends in the middle leaves what was there.
    let other = Home::file("upgrade-fails");
    let old = Connection::open(other.path()).expect("a file");
    old.execute_batch(VERSION_1).expect("its tables and rows");
    old.execute_batch("CREATE TABLE rollouts (in_the_way)").expect("a table");
    assert!(matches!(Store::open(&other.place), Err(StoreError::Database { .. })));
    let version = old.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).expect("a number");
    assert_eq!(version, 1, "nothing is done by half");
    old.execute_batch("DROP TABLE rollouts").expect("nothing is in the way");
    assert_eq!(Store::open(&other.place).expect("it is upgraded").latest_number().expect("a number"), 2);
}

const AUTHOR: Author<'static> = Author { by: "anna", at: 1_800_000_000 };

fn in_steps<'p>(text: &'p str, from: u64, steps: &'p Steps) -> Proposal<'p> {
    Proposal { steps: Some(steps), ..proposal(text, from) }
}

#[test]
fn a_revision_that_is_rolled_out_goes_step_by_step_or_back() {
    for home in homes("rollout") {
        let mut store = home.store();
        let steps: Steps = "10,50".parse().expect("steps");
        let [first, second, third] = [1, 2, 3].map(|rate| network(&[("one", rate)]));
        store.apply(&in_steps(&first, 0, &steps)).expect("the first");
        assert_eq!(store.rollout().expect("its state"), None, "there is nothing to return to");
        store.apply(&in_steps(&second, 1, &steps)).expect("the second");
        let begun = store.rollout().expect("its state").expect("it runs");
        assert_eq!((begun.revision, begun.step, &begun.steps), (2, 1, &steps));
        assert!(matches!(store.apply(&proposal(&third, 2)), Err(StoreError::RollsOut(2))));
        store.advance(AUTHOR, &begun).expect("the next step");
        // Another controller, which has seen the first one.
        store.advance(AUTHOR, &begun).expect("nothing");
        let mut running = store.rollout().expect("its state").expect("it runs");
        assert_eq!(running.step, 2);
        for _ in 0..2 {
            store.advance(AUTHOR, &running).expect("the next step");
            running = store.rollout().expect("its state").unwrap_or(running);
        }
        assert_eq!(store.rollout().expect("its state"), None, "it is done");
        assert!(matches!(store.roll_back(AUTHOR, "late"), Err(StoreError::NoRollout)));
        assert!(matches!(store.finish(AUTHOR), Err(StoreError::NoRollout)));
        store.apply(&in_steps(&third, 2, &steps)).expect("the third");
        let back = store.roll_back(AUTHOR, "a is down").expect("it returns");
        assert_eq!((back.number, back.note.as_str()), (4, "back to revision 2: a is down"));
        let before = store.revision(2).expect("it is there");
        assert_eq!((back.document, back.plan), (before.document, before.plan));
        assert_eq!(store.rollout().expect("its state"), None);
        store.apply(&in_steps(&third, 4, &steps)).expect("once more");
        assert_eq!(store.finish(AUTHOR).expect("it ends"), 5);
        let what: Vec<String> =
            store.events(0, 100).expect("events").into_iter().map(|event| event.what).collect();
        let told = [
            "applied revision 2",
            "began step 2 of 3 of revision 2",
            "began step 3 of 3 of revision 2",
            "revision 2: rolled out to all",
            "revision 3: took back (a is down)",
        ];
        assert!(told.iter().all(|told| what.iter().any(|what| what == told)), "{what:#?}");
    }
}

#[test]
fn one_of_many_writers_at_once_applies_and_the_others_are_told() {
    for home in homes("race") {
        home.store().apply(&proposal(&network(&[("one", 1)]), 0)).expect("the first");
        let outcomes: Vec<Result<u64, StoreError>> = std::thread::scope(|scope| {
            let place = &home.place;
            let writers: Vec<_> = (2..10)
                .map(|rate| scope.spawn(move || apply(place, &network(&[("one", rate)]), 1)))
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("it ends")).collect()
        });
        let conflicts =
            outcomes.iter().filter(|it| matches!(it, Err(StoreError::Conflict { latest: 2, .. })));
        assert_eq!((outcomes.iter().flatten().count(), conflicts.count()), (1, 7), "{outcomes:?}");
    }
}

#[test]
fn one_process_leads_until_it_ends() {
    for home in homes("leads") {
        let (mut first, mut second) = (home.store(), home.store());
        assert!(first.leads().expect("a lock"));
        assert!(first.leads().expect("a lock"), "still");
        assert!(!second.leads().expect("a lock"));
        // Whoever only writes needs no lead.
        second.apply(&proposal(&network(&[]), 0)).expect("a revision");
        assert_eq!(first.latest_number().expect("a number"), 1);
        drop(first);
        let begin = std::time::Instant::now();
        while !second.leads().expect("a lock") {
            assert!(begin.elapsed().as_secs() < 30, "the lock is not given back");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn revisions_in_a_database_are_never_changed_either() {
    let Some(server) = Server::shared() else { return };
    let url = server.database();
    apply(&url.parse().expect("a place"), &network(&[]), 0).expect("a revision");
    let mut client = postgres::Client::connect(&url, NoTls).expect("a connection");
    for (change, why) in [
        ("UPDATE trunkline.revisions SET note = 'other'", "never changed"),
        ("DELETE FROM trunkline.revisions", "never changed"),
        ("TRUNCATE trunkline.events", "never changed"),
        ("INSERT INTO trunkline.revisions VALUES (3, 0, '', '', '', '')", "follow each other"),
    ] {
        let error = client.batch_execute(change).expect_err(change);
        let error = error.as_db_error().expect("the server says").message().to_owned();
        assert!(error.contains(why), "{change}: {error}");
    }
    client.batch_execute("UPDATE trunkline.version SET number = 3").expect("another version");
    let error = Store::open(&url.parse().expect("a place")).expect_err("it is newer").to_string();
    assert!(error.contains("has tables of version 3; this program knows 2"), "{error}");
    client.batch_execute("DROP TABLE trunkline.version").expect("it is none any more");
    assert!(matches!(Store::open(&url.parse().expect("a place")), Err(StoreError::Foreign(_))));
    let nowhere = url.replace("127.0.0.1", "database.invalid");
    let error = Store::open(&nowhere.parse().expect("a place")).expect_err("it is not there").to_string();
    assert!(error.contains("its certificate cannot be checked") && error.contains("allowed"), "{error}");
}

#[test]
fn a_database_that_is_killed_loses_nothing_and_is_used_again() {
    let Some(server) = Server::start() else { return };
    let place: Place = server.database().parse().expect("a place");
    let mut store = Store::create(&place).expect("a store");
    assert!(store.leads().expect("a lock"));
    let mut applied = 0;
    for round in 0..3 {
        // It is killed at some moment while revisions are applied, one after the other.
        let killed = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(70 + 37 * round));
                server.kill();
            });
            loop {
                let text = network(&[("one", 1 + u32::try_from(applied % 9).expect("small"))]);
                match store.apply(&proposal(&text, applied)) {
                    Ok(Revision { number, .. }) => applied = number,
                    Err(error) => break error,
                }
            }
        });
        assert!(matches!(killed, StoreError::Away { .. }), "{killed}");
        server.restart();
        let begin = std::time::Instant::now();
        let latest = loop {
            match store.latest_number() {
                Ok(latest) => break latest,
                Err(error) => assert!(begin.elapsed().as_secs() < 60, "{error}"),
            }
        };
        // What was said to be applied is there; of the one that was not answered nobody knows but the store.
        assert!(latest == applied || latest == applied + 1, "{latest}, {applied}");
        applied = latest;
        assert!(store.leads().expect("a lock"), "and it leads again");
    }
    assert!(applied > 3, "{applied}");
    let whole = (1..=applied).all(|number| store.revision(number).is_ok_and(|it| it.read().is_ok()));
    assert!(whole, "each is whole");
    assert_eq!(store.events(0, 10_000).expect("events").len() as u64, applied, "each with its event");
}

#[test]
fn a_database_is_known_by_its_certificate() {
    let Some(server) = Server::start() else { return };
    let url = server.database();
    let made = |name: &str| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    };
    let home = Home::file("certificate");
    let place = |certificate: &str, query: &str| -> Place {
        let file = home.path().with_extension(format!("{}.pem", certificate.len()));
        fs::write(&file, certificate).expect("a file");
        format!("{url}?{query}sslrootcert={}", file.display()).parse().expect("a place")
    };
    let (certificate, key) = made("127.0.0.1");
    let refused = |place: &Place| match Store::create(place) {
        Err(error @ (StoreError::Away { .. } | StoreError::Database { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    // It has none yet, and is not spoken to in the clear.
    refused(&place(&certificate, ""));
    server.certify(&certificate, &key);
    server.kill();
    server.restart();
    Store::create(&place(&certificate, "sslmode=require&")).expect("a store");
    let (other, _) = made("database.example");
    let error = refused(&place(&other, ""));
    assert!(error.contains("certificate"), "{error}");
    let error = refused(&place("no certificate", ""));
    assert!(error.contains("it has no certificate"), "{error}");
}
