//! Sites that come with an invitation.

use super::*;

fn join() -> Join {
    Join {
        key: SecretKey::generate().unwrap().public(),
        name: "b".to_owned(),
        prefixes: vec!["10.2.0.0/16".parse().unwrap()],
    }
}

/// What the dialer and the acceptor end with, where `decide` decides.
fn run(
    mut dialer: Handshake<UnixStream>,
    mut acceptor: Handshake<UnixStream>,
    mut decide: impl FnMut(&mut Handshake<UnixStream>, Join, PublicKey),
) -> [Result<Progress<UnixStream>, HandshakeError>; 2] {
    let mut ends = [None, None];
    for _ in 0..1000 {
        for (handshake, end) in [&mut dialer, &mut acceptor].into_iter().zip(&mut ends) {
            if end.is_some() {
                continue;
            }
            match handshake.advance() {
                Ok(Progress::WantRead | Progress::WantWrite) => {}
                Ok(Progress::JoinReceived { join, invitation }) => decide(handshake, join, invitation),
                other => *end = Some(other),
            }
        }
        if let [Some(_), Some(_)] = ends {
            return ends.map(Option::unwrap);
        }
    }
    panic!("no end");
}

fn ends(pair: &Pair, join: &Join) -> (Handshake<UnixStream>, Handshake<UnixStream>) {
    let (a, b) = streams();
    let dialer = Dialer::new(&pair.dialer, pair.acceptor.public()).unwrap();
    (dialer.join(a, join.clone()).unwrap(), pair.accept(b).filling(1400))
}

#[test]
fn a_site_says_what_it_is_and_is_told_that_it_is_a_peer() {
    let (pair, join) = (Pair::new(), join());
    let (dialer, acceptor) = ends(&pair, &join);
    let both = run(dialer, acceptor, |handshake, said, invitation| {
        assert_eq!((said, invitation), (join.clone(), pair.dialer.public()));
        assert!(matches!(handshake.welcome(1, Encryption::Tls), Err(HandshakeError::Over)), "no lane");
        handshake.joined().unwrap();
    });
    assert!(matches!(both, [Ok(Progress::Joined), Ok(Progress::Joined)]), "{both:?}");
}

#[test]
fn a_site_that_waits_for_the_decision_gets_nothing_before_it() {
    let (pair, join) = (Pair::new(), join());
    let (dialer, acceptor) = ends(&pair, &join);
    let mut asked = 0;
    let both = run(dialer, acceptor, |handshake, _, _| {
        asked += 1;
        if asked == 20 {
            handshake.joined().unwrap();
        }
    });
    assert!(matches!(both, [Ok(Progress::Joined), Ok(Progress::Joined)]), "{both:?}");
    assert_eq!(asked, 20);
}

#[test]
fn a_refusal_arrives_in_words() {
    let (pair, join) = (Pair::new(), join());
    let (dialer, acceptor) = ends(&pair, &join);
    let both = run(dialer, acceptor, |handshake, _, _| {
        handshake.refuse(RefusalReason::Invitation, "it has expired").unwrap();
        assert!(matches!(handshake.joined(), Err(HandshakeError::Over)), "decided already");
    });
    let [Err(HandshakeError::Refused(refusal)), Ok(Progress::Refused)] = &both else { panic!("{both:?}") };
    assert_eq!(refusal.to_string(), "invitation refused (it has expired)");
}

#[test]
fn who_asks_for_a_lane_is_not_told_that_it_has_joined() {
    let pair = Pair::new();
    let (a, b) = streams();
    let mut dialer = pair.dial(a, hello());
    let mut acceptor = pair.accept(b);
    let outcome = (0..1000).find_map(|_| {
        if let Ok(Progress::HelloReceived { .. }) = acceptor.advance() {
            assert!(matches!(acceptor.joined(), Err(HandshakeError::Over)));
            acceptor.refuse(RefusalReason::NotWanted, "").unwrap();
        }
        dialer.advance().err()
    });
    assert!(matches!(outcome, Some(HandshakeError::Refused(_))), "{outcome:?}");
}
