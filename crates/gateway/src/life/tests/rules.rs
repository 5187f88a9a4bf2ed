//! Single rules.

use std::time::Duration;

use trunkline_units::Instant;

use super::super::*;
use super::{SHARDS, key_of, wanted};
use trunkline_schema::Encryption;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn life(lanes: u8) -> Life {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    assert_eq!(life.reload(at(0), &wanted([key_of(1)], lanes, true)), []);
    life
}

fn candidate(life: &mut Life, dial: &Dial) -> Candidate {
    let serial = life.next_serial();
    let (key, attempt) = (dial.key.clone(), Some(dial.attempt));
    Candidate { key, serial, dialled: true, attempt, instance: 7, encryption: Encryption::Tls }
}

fn all_up(life: &mut Life, now: Instant) {
    while let Some(dial) = life.poll_dial(now) {
        life.handle_connected(now, dial.attempt);
        let candidate = candidate(life, &dial);
        assert_eq!(life.handle_up(now, candidate), Ok(Installed { replaced: None }));
    }
}

fn dials(life: &mut Life, now: Instant) -> Vec<Dial> {
    std::iter::from_fn(|| life.poll_dial(now)).collect()
}

#[test]
fn a_reload_of_the_count_leaves_the_lanes_that_stay_where_they_are() {
    let mut life = life(1);
    all_up(&mut life, at(0));
    let before: Vec<(Serial, LaneKey)> = life.up().map(|(serial, key)| (serial, key.clone())).collect();
    assert_eq!(life.reload(at(100), &wanted([key_of(1)], 3, true)), []);
    all_up(&mut life, at(100));
    assert_eq!(life.up().count(), 6);
    for (serial, key) in &before {
        assert_eq!(life.key_of(*serial), Some(key), "the same connection, worker and index");
    }
    let ended = life.reload(at(200), &wanted([key_of(1)], 1, true));
    assert_eq!(ended.len(), 4);
    let after: Vec<(Serial, LaneKey)> = life.up().map(|(serial, key)| (serial, key.clone())).collect();
    assert_eq!(before, after);
}

#[test]
fn sites_with_different_counts_agree_on_the_lanes_that_both_have() {
    let mut many = life(3);
    let mut few = Life::new(Site { key: key_of(1), shards: SHARDS, seed: 2 });
    few.reload(at(0), &wanted([key_of(0)], 1, false));
    for dial in dials(&mut many, at(0)) {
        let number = many.number(&dial.key);
        let request = Request { peer: key_of(0), lane_group: "tcp", number, instance: 7 };
        match few.find_lane(at(0), request) {
            Ok(key) => assert_eq!((key.shard, key.index), (dial.key.shard, dial.key.index)),
            Err(declined) => {
                assert_eq!(declined, Declined::UnknownNumber { lanes: 2 });
                assert!(dial.key.index > 0);
            }
        }
    }
}

#[test]
fn one_lane_probes_a_closed_path_and_all_lanes_are_dialled_when_it_opens() {
    let mut life = life(2);
    let first = dials(&mut life, at(0));
    assert_eq!(first.len(), 4);
    for dial in &first {
        life.handle_dial_failed(at(10), dial.attempt, Failure::Path, "unreachable");
    }
    let (next, why) = life.poll_timeout().expect("a probe");
    assert_eq!(why, Wake::Dial);
    let probes = dials(&mut life, next + Duration::from_millis(100));
    assert_eq!(probes.len(), 1);
    life.handle_connected(next, probes[0].attempt);
    assert_eq!(dials(&mut life, next).len(), 3, "the others follow at once");
}

#[test]
fn a_reason_is_reported_once_for_all_lanes_until_one_is_up() {
    let mut life = life(2);
    let fail = |life: &mut Life, dial: &Dial| {
        life.handle_dial_failed(at(10), dial.attempt, Failure::Path, "cannot connect")
            .expect("it retries")
            .first_report
    };
    let first = dials(&mut life, at(0));
    let reports: Vec<bool> = first.iter().map(|dial| fail(&mut life, dial)).collect();
    assert_eq!(reports, [true, false, false, false]);
    let probe = dials(&mut life, at(2000)).remove(0);
    let candidate = candidate(&mut life, &probe);
    assert!(life.handle_up(at(2000), candidate).is_ok());
    let next = dials(&mut life, at(2000)).remove(0);
    assert!(fail(&mut life, &next), "it was up in between");
}

#[test]
fn a_name_without_an_address_is_dialled_when_it_has_one_and_asked_for_each_second() {
    let mut life = life(1);
    for dial in dials(&mut life, at(0)) {
        life.handle_no_address(at(0), dial.attempt);
    }
    assert_eq!(dials(&mut life, at(900)), []);
    life.handle_resolved(at(950), key_of(1).into());
    let probes = dials(&mut life, at(950));
    assert_eq!(probes.len(), 1);
    life.handle_no_address(at(950), probes[0].attempt);
    assert_eq!(dials(&mut life, at(3000)).len(), 1, "it does not depend on an answer of the resolver");
}

#[test]
fn a_change_of_the_network_probes_closed_paths_at_once_and_at_most_once_a_second() {
    let mut life = life(1);
    for now in [0, 1000, 2000, 4000, 6000] {
        for dial in dials(&mut life, at(now)) {
            life.handle_dial_failed(at(now), dial.attempt, Failure::Path, "unreachable");
        }
    }
    assert_eq!(dials(&mut life, at(6001)), []);
    life.handle_network_changed(at(6001));
    let probes = dials(&mut life, at(6001));
    assert_eq!(probes.len(), 1);
    life.handle_dial_failed(at(6002), probes[0].attempt, Failure::Path, "unreachable");
    life.handle_network_changed(at(6003));
    assert_eq!(dials(&mut life, at(6003)), [], "the last probe was a moment ago");
}

#[test]
fn suspect_lanes_are_verified_once_at_a_time() {
    let mut life = life(1);
    all_up(&mut life, at(0));
    assert!(life.handle_suspect(at(10), key_of(1).into()));
    assert!(!life.handle_suspect(at(20), key_of(1).into()), "a verification is in progress");
    let (end, why) = life.poll_timeout().expect("an end of it");
    assert_eq!(why, Wake::Verified);
    assert_eq!(life.poll_verified(at(11)), None);
    assert_eq!(life.poll_verified(end), Some(key_of(1).into()));
    assert_eq!(life.poll_verified(end), None);
    assert!(life.handle_suspect(end, key_of(1).into()));
}

#[test]
fn attempts_under_way_have_a_bound_over_all_peers() {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    life.reload(at(0), &wanted((1..=1000).map(key_of), 4, true));
    let first = dials(&mut life, at(0));
    assert_eq!(first.len(), 1024);
    assert_eq!(life.poll_timeout(), None, "only the end of an attempt allows another");
    life.handle_dial_failed(at(10), first[0].attempt, Failure::Path, "unreachable");
    assert_eq!(dials(&mut life, at(10)).len(), 1);
}

#[test]
fn a_change_of_encryption_replaces_lanes() {
    let mut life = life(1);
    all_up(&mut life, at(0));
    let mut other = wanted([key_of(1)], 1, true);
    other.peers[0].encryption = Encryption::None;
    let ended = life.reload(at(100), &other);
    assert_eq!(ended.len(), 2);
    assert_eq!(life.up().count(), 0);
    let dial = dials(&mut life, at(1000)).remove(0);
    let mut candidate = candidate(&mut life, &dial);
    assert_eq!(life.handle_up(at(1000), candidate.clone()), Err(NotInstalled::Encryption), "the old one");
    let dial = dials(&mut life, at(2000)).remove(0);
    candidate =
        Candidate { encryption: Encryption::None, attempt: Some(dial.attempt), key: dial.key, ..candidate };
    assert!(life.handle_up(at(2000), candidate).is_ok());
}

#[test]
fn a_connection_that_replaces_another_names_the_one_to_end() {
    let mut life = life(1);
    all_up(&mut life, at(0));
    let (old, key) = life.up().map(|(serial, key)| (serial, key.clone())).next().expect("a lane");
    let serial = life.next_serial();
    let again = Candidate {
        key: key.clone(),
        serial,
        dialled: false,
        attempt: None,
        instance: 8,
        encryption: Encryption::Tls,
    };
    assert_eq!(life.handle_up(at(20_000), again), Ok(Installed { replaced: Some(old) }));
    assert_eq!(life.handle_ended(at(20_001), old, "closed"), None, "it is no longer a lane");
    assert_eq!(life.key_of(serial), Some(&key));
}

/// Two paths to the one peer.
fn two_paths(via: &str) -> Wanted {
    let mut all = wanted([key_of(1), key_of(1)], 1, true);
    all.peers[1].key.path = 1;
    all.peers[1].via = via.into();
    all
}

#[test]
fn each_path_has_lanes_dials_and_a_back_off_of_its_own() {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    life.reload(at(0), &two_paths("eth1"));
    let first = dials(&mut life, at(0));
    let paths: Vec<u8> = first.iter().map(|dial| dial.key.path).collect();
    assert_eq!(paths, [0, 0, 1, 1]);
    for dial in &first {
        if dial.key.path == 0 {
            life.handle_connected(at(10), dial.attempt);
            let candidate = candidate(&mut life, dial);
            assert!(life.handle_up(at(10), candidate).is_ok());
        } else {
            life.handle_dial_failed(at(10), dial.attempt, Failure::Path, "unreachable");
        }
    }
    assert_eq!(life.up().count(), 2);
    let probes = dials(&mut life, at(1_500));
    assert_eq!(probes.len(), 1, "one lane probes the second path, though the first is open");
    assert_eq!(probes[0].key.path, 1);
    let second = PathKey { peer: key_of(1), path: 1 };
    assert_eq!((life.lanes_of(key_of(1)).count(), life.lanes_on(second).count()), (4, 2));
    assert!(life.handle_suspect(at(1_500), second) && life.handle_suspect(at(1_500), key_of(1).into()));
}

#[test]
fn a_lane_group_may_have_fewer_lanes_on_each_of_several_paths() {
    let with = |mut wanted: Wanted| {
        (wanted.lane_groups[0].lanes, wanted.lane_groups[0].on_each) = (4, 1);
        wanted
    };
    let (one, two) = (with(wanted([key_of(1)], 4, true)), with(two_paths("eth1")));
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    life.reload(at(0), &two);
    all_up(&mut life, at(0));
    assert_eq!((life.up().count(), life.lane_count(key_of(1), "tcp")), (4, 2));
    assert!(life.up().all(|(_, key)| key.index == 0));
    assert_eq!(life.reload(at(10), &one).len(), 2, "those on the second path");
    all_up(&mut life, at(10));
    assert_eq!((life.up().count(), life.lane_count(key_of(1), "tcp")), (8, 8));
    assert_eq!(life.reload(at(20), &two).len(), 6, "all but the first of each shard");
    let request = |number| Request { peer: key_of(1), lane_group: "tcp", number, instance: 7 };
    assert!(life.find_lane(at(20_000), request(0)).is_ok());
    assert_eq!(life.find_lane(at(20_000), request(2)), Err(Declined::UnknownNumber { lanes: 2 }));
}

#[test]
fn a_path_that_costs_something_else_has_its_lanes_made_anew() {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    let mut two = two_paths("eth1");
    life.reload(at(0), &two);
    all_up(&mut life, at(0));
    two.peers[1].cost = 7;
    let ended = life.reload(at(10), &two);
    assert!(ended.len() == 2 && ended.iter().all(|lane| lane.key.path == 1), "{ended:?}");
    assert_eq!(life.reload(at(20), &two), []);
}

#[test]
fn a_lane_on_a_path_that_is_not_known_is_declined() {
    let mut dialler = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    dialler.reload(at(0), &two_paths("eth1"));
    let mut acceptor = Life::new(Site { key: key_of(1), shards: SHARDS, seed: 2 });
    acceptor.reload(at(0), &wanted([key_of(0)], 1, false));
    let all = dials(&mut dialler, at(0));
    let find = |acceptor: &Life, dial: &Dial| {
        let number = dialler.number(&dial.key);
        acceptor.find_lane(at(0), Request { peer: key_of(0), lane_group: "tcp", number, instance: 7 })
    };
    for dial in &all {
        let expected = if dial.key.path == 0 { None } else { Some(Declined::UnknownNumber { lanes: 2 }) };
        assert_eq!(find(&acceptor, dial).err(), expected);
    }
    let mut both = wanted([key_of(0), key_of(0)], 1, false);
    both.peers[1].key.path = 1;
    assert_eq!(acceptor.reload(at(10), &both), [], "nothing changes for the first");
    for dial in &all {
        let found = find(&acceptor, dial).expect("a lane");
        assert_eq!((found.path, found.shard, found.index), (dial.key.path, dial.key.shard, dial.key.index));
    }
}

#[test]
fn a_path_that_takes_another_way_has_its_lanes_made_anew_and_the_other_keeps_its_own() {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    life.reload(at(0), &two_paths("eth1"));
    all_up(&mut life, at(0));
    assert_eq!(life.reload(at(10), &two_paths("eth1")), []);
    let ended = life.reload(at(20), &two_paths("eth2"));
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|lane| lane.key.path == 1 && lane.reason.contains("path")), "{ended:?}");
    assert_eq!(life.reload(at(30), &wanted([key_of(1)], 1, true)), [], "they wait still");
    assert_eq!(life.up().count(), 2);
}
