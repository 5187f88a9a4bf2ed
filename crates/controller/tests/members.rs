//! Sites, tokens and the log of changes.

use std::fs;

use trunkline_controller::{Author, Holder, Role, Store, StoreError};

use crate::homes::{Home, homes};

const AUTHOR: Author<'static> = Author { by: "anna", at: 100 };

#[test]
fn a_site_enrols_once_by_its_invitation() {
    for home in homes("enrol") {
        let mut store = home.store();
        store.invite(AUTHOR, "a", "secret", 200).expect("an invitation");
        let refused = |store: &mut Store, at, secret| {
            store.enrol(at, secret, "key", "token").expect_err("it is no invitation").to_string()
        };
        assert!(refused(&mut store, 150, "another").contains("unknown, or was used"));
        assert!(refused(&mut store, 201, "secret").contains("has expired"));
        assert_eq!(store.enrol(150, "secret", "key", "token").expect("a site"), "a");
        assert!(refused(&mut store, 150, "secret").contains("unknown, or was used"));
        let members = store.members().expect("members");
        assert_eq!((members.len(), members[0].public_key.as_str()), (1, "key"));
        // Another site with the same key.
        store.invite(AUTHOR, "b", "second", 200).expect("an invitation");
        assert!(matches!(
            store.enrol(150, "second", "key", "other"),
            Err(StoreError::KnownKey(site)) if site == "a"
        ));
        // The invitation was not used up by that. And a site may get another key.
        assert_eq!(store.enrol(150, "second", "key of b", "other").expect("a site"), "b");
        store.invite(AUTHOR, "a", "third", 200).expect("an invitation");
        assert_eq!(store.enrol(150, "third", "new key", "new token").expect("a site"), "a");
        let holders = store.holders().expect("holders");
        assert_eq!(holders.len(), 2, "the former token of a is none any more: {holders:?}");
    }
}

#[test]
fn nothing_that_others_hold_is_in_the_file() {
    let place = Home::file("secrets");
    let mut store = place.store();
    store.add_token(AUTHOR, "anna", Role::Admin, "token-of-anna").expect("a token");
    store.invite(AUTHOR, "a", "secret-of-a", 200).expect("an invitation");
    store.invite(AUTHOR, "b", "secret-of-b", 200).expect("an invitation");
    store.enrol(150, "secret-of-a", "key", "token-of-a").expect("a site");
    drop(store);
    let bytes = fs::read(place.path()).expect("the file");
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("anna") && has("enrolled with key"));
    for secret in ["token-of-anna", "secret-of-a", "secret-of-b", "token-of-a"] {
        assert!(!has(secret), "{secret}");
    }
}

#[test]
fn each_change_is_recorded_and_counted() {
    for home in homes("events") {
        let mut store = home.store();
        assert_eq!(store.sequence().expect("a number"), 0);
        store.add_token(AUTHOR, "bob", Role::Viewer, "x").expect("a token");
        assert!(matches!(
            store.add_token(AUTHOR, "bob", Role::Admin, "y"),
            Err(StoreError::There { name, .. }) if name == "bob"
        ));
        let viewer = Holder::Person { name: "bob".to_owned(), role: Role::Viewer };
        assert_eq!(store.holders().expect("holders").into_values().collect::<Vec<_>>(), [viewer]);
        store.remove_token(AUTHOR, "bob").expect("it was there");
        assert!(matches!(store.remove_token(AUTHOR, "bob"), Err(StoreError::Unknown { .. })));
        assert!(matches!(store.expel(AUTHOR, "a"), Err(StoreError::Unknown { .. })));
        let events = store.events(0, 10).expect("events");
        let what: Vec<&str> = events.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(what, ["made token bob, viewer", "removed token bob"]);
        assert_eq!((store.sequence().expect("a number"), store.events(1, 10).expect("events").len()), (2, 1));
        drop(store);
        assert_eq!(home.store().sequence().expect("a number"), 2, "it never goes back");
    }
}
