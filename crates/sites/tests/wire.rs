//! Configurations that were not made by the controller, or are not for this site, or not the newest.

use trunkline_sites::{CONFIGURATION_VERSION, Configuration, ConfiguredPeer, fingerprint};
use trunkline_sites::{ControllerInvitation, Expected, Signed, Signer, WireError, secret};

fn configuration(sequence: u64) -> Configuration {
    Configuration {
        version: CONFIGURATION_VERSION,
        network: "net".to_owned(),
        site: "a".to_owned(),
        sequence,
        revision: 1,
        peers: vec![ConfiguredPeer {
            name: "b".to_owned(),
            public_key: "k".to_owned(),
            endpoint: Some("b.example:4600".to_owned()),
            uplink: None,
            interface: None,
            routes: vec!["10.2.0.0/16".parse().expect("a network")],
            reserved: 1_000_000,
        }],
    }
}

fn signer() -> Signer {
    Signer::new(&secret().expect("randomness")).expect("a key")
}

#[test]
fn a_configuration_is_taken_from_its_controller_alone_and_never_an_older_one() {
    let signer = signer();
    let key = signer.public();
    let expected = |sequence| Expected { key: &key, network: "net", site: "a", sequence };
    let signed = signer.sign(&configuration(7));
    assert_eq!(expected(7).check(&signed), Ok(configuration(7)));
    // Replayed, after a newer one.
    assert_eq!(expected(8).check(&signed), Err(WireError::Older { sequence: 7, had: 8 }));
    // Of another site, or network.
    for (network, site) in [("net", "b"), ("other", "a")] {
        let expected = Expected { key: &key, network, site, sequence: 0 };
        assert_eq!(expected.check(&signed), Err(WireError::Foreign));
    }
    // By another key.
    let other = self::signer().sign(&configuration(9));
    assert_eq!(expected(7).check(&other), Err(WireError::Forged));
}

#[test]
fn a_text_that_was_changed_anywhere_is_forged() {
    let signer = signer();
    let key = signer.public();
    let expected = Expected { key: &key, network: "net", site: "a", sequence: 0 };
    let signed = signer.sign(&configuration(1));
    for place in 0..signed.configuration.len() {
        let mut bytes = signed.configuration.clone().into_bytes();
        bytes[place] ^= 1;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let changed = Signed { configuration: text, signature: signed.signature.clone() };
        assert_eq!(expected.check(&changed), Err(WireError::Forged), "byte {place}");
    }
    for signature in ["", "AAAA", "no base64"] {
        let changed = Signed { signature: signature.to_owned(), ..signed.clone() };
        assert_eq!(expected.check(&changed), Err(WireError::Forged));
    }
}

#[test]
fn a_later_version_and_unknown_fields_are_not_taken() {
    let signer = signer();
    let key = signer.public();
    let expected = Expected { key: &key, network: "net", site: "a", sequence: 0 };
    let later = Configuration { version: CONFIGURATION_VERSION + 1, ..configuration(1) };
    let error = expected.check(&signer.sign(&later)).expect_err("a later version").to_string();
    assert!(error.contains("of version 2; allowed: 1"), "{error}");
}

#[test]
fn the_fingerprint_tells_peers_apart() {
    let one = configuration(1).peers;
    let mut other = one.clone();
    assert_eq!(fingerprint(&one), fingerprint(&other));
    other[0].reserved = 1_000_001;
    assert_ne!(fingerprint(&one), fingerprint(&other));
}

#[test]
fn an_invitation_is_one_line_that_is_read_back_or_refused() {
    let invitation = ControllerInvitation {
        url: "https://[2001:db8::1]:4680".to_owned(),
        certificate: "MIIB".to_owned(),
        key: "k".to_owned(),
        site: "a".to_owned(),
        secret: secret().expect("randomness"),
        expires_at: 1,
    };
    let text = invitation.to_text();
    assert_eq!(text.parse(), Ok(invitation.clone()));
    let (one, other) = text.split_at(40);
    assert_eq!(format!("{one}\n  {other}\n").parse(), Ok(invitation.clone()), "a mail program broke it");
    assert_eq!("tl1_abc".parse::<ControllerInvitation>(), Err(WireError::NoInvitation));
    assert_eq!(text[..text.len() - 5].parse::<ControllerInvitation>(), Err(WireError::Damaged));
    assert!(!format!("{invitation:?}").contains(&invitation.secret), "a secret is not printed");
}
