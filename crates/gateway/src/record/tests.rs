//! The rules of RFC 8446 §5 and §4.6.3 as this module keeps them. That another implementation agrees is shown
//! in `handshake::tests::interop`.

use super::*;
use crate::handshake::tests::{Numbers, session};

fn sealed(sealer: &mut Sealer, content: &[u8]) -> Vec<u8> {
    sealed_as(sealer, APPLICATION_DATA, content)
}

fn sealed_as(sealer: &mut Sealer, content_type: u8, content: &[u8]) -> Vec<u8> {
    let mut body = content.to_vec();
    let (header, trailer) = sealer.seal_as(content_type, &mut body).unwrap();
    [&header[..], &body, &trailer].concat()
}

fn open(opener: &mut Opener, record: &[u8]) -> Result<(Opened, Vec<u8>), RecordError> {
    let (header, body) = record.split_first_chunk().unwrap();
    let mut body = body.to_vec();
    let opened = opener.open(*header, &mut body)?;
    if let Opened::Data(len) = opened {
        body.truncate(len);
    }
    Ok((opened, body))
}

/// A sealer at one end and the opener at the other.
fn one_way() -> (Sealer, Opener) {
    let (ours, theirs) = session();
    (ours.sealer, theirs.opener)
}

#[test]
fn records_open_to_what_was_sealed() {
    let (mut sealer, mut opener) = one_way();
    for len in [0, 1, 2, 100, 1400, MAX_CONTENT_BYTES - 1, MAX_CONTENT_BYTES] {
        let content: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let record = sealed(&mut sealer, &content);
        assert_eq!(record.len(), HEADER_BYTES + len + TRAILER_BYTES);
        assert_eq!(record[..3], [23, 3, 3]);
        assert_eq!(open(&mut opener, &record), Ok((Opened::Data(len), content)));
    }
}

#[test]
fn what_a_record_cannot_hold_is_not_sealed() {
    let (mut sealer, _) = one_way();
    let mut content = vec![0; MAX_CONTENT_BYTES + 1];
    let len = content.len();
    assert_eq!(sealer.seal(&mut content), Err(RecordError::TooLong { len }));
}

#[test]
fn headers_are_checked_before_anything_is_read() {
    let len = |header| Opener::body_len(header);
    assert_eq!(len([23, 3, 3, 0, 17]), Ok(17));
    assert_eq!(len([23, 3, 3, 0, 16]), Err(RecordError::TooShort { len: 16 }));
    assert_eq!(len([23, 3, 3, 0x41, 0]), Ok(MAX_BODY_BYTES));
    assert_eq!(len([23, 3, 3, 0x41, 1]), Err(RecordError::TooLong { len: MAX_BODY_BYTES + 1 }));
    for content_type in [0, 20, 21, 22, 24, 255] {
        assert_eq!(len([content_type, 3, 3, 0, 50]), Err(RecordError::UnexpectedType(content_type)));
    }
}

#[test]
fn a_body_of_another_length_is_the_callers_mistake() {
    let (mut sealer, mut opener) = one_way();
    let record = sealed(&mut sealer, b"abc");
    let error = open(&mut opener, &record[..record.len() - 1]).unwrap_err();
    assert_eq!(error, RecordError::LengthMismatch { header: 20, body: 19 });
    assert!(!error.is_peers_fault());
}

#[test]
fn every_altered_byte_is_found() {
    let (mut sealer, mut opener) = one_way();
    let record = sealed(&mut sealer, b"some data");
    for at in [1, 2].into_iter().chain(HEADER_BYTES..record.len()) {
        for bit in 0..8 {
            let mut altered = record.clone();
            altered[at] ^= 1 << bit;
            assert_eq!(open(&mut opener, &altered), Err(RecordError::BadTag), "byte {at} bit {bit}");
            opener.state = State::Open;
        }
    }
    assert_eq!(open(&mut opener, &record), Ok((Opened::Data(9), b"some data".to_vec())));
}

#[test]
fn repeated_lost_swapped_and_reflected_records_do_not_open() {
    let records = |sealer: &mut Sealer| [b"a", b"b"].map(|content| sealed(sealer, content));
    let (mut sealer, mut opener) = one_way();
    let [first, _] = records(&mut sealer);
    assert!(open(&mut opener, &first).is_ok());
    assert_eq!(open(&mut opener, &first), Err(RecordError::BadTag));

    let (mut sealer, mut opener) = one_way();
    let [_, second] = records(&mut sealer);
    assert_eq!(open(&mut opener, &second), Err(RecordError::BadTag));

    let (mut ours, _) = session();
    let [first, _] = records(&mut ours.sealer);
    assert_eq!(open(&mut ours.opener, &first), Err(RecordError::BadTag));
}

#[test]
fn nothing_opens_after_an_error() {
    let (mut sealer, mut opener) = one_way();
    let record = sealed(&mut sealer, b"a");
    let mut altered = record.clone();
    altered[7] ^= 1;
    assert_eq!(open(&mut opener, &altered), Err(RecordError::BadTag));
    assert_eq!(open(&mut opener, &record), Err(RecordError::Closed));
}

#[test]
fn padding_is_taken_off() {
    let (mut sealer, mut opener) = one_way();
    // The last inner byte stands where the content type does when there is no padding.
    let record = sealed_as(&mut sealer, 0, &[b'x', 0, b'y', APPLICATION_DATA, 0, 0]);
    assert_eq!(open(&mut opener, &record), Ok((Opened::Data(3), vec![b'x', 0, b'y'])));
    let record = sealed_as(&mut sealer, 0, &[0, 0, 0]);
    assert_eq!(open(&mut opener, &record), Err(RecordError::NoType));
}

#[test]
fn padding_cannot_stretch_a_record() {
    let (mut sealer, mut opener) = one_way();
    // Two bytes of padding around the most content there may be: sealed by hand, since a sealer would not.
    let mut body = vec![b'x'; MAX_CONTENT_BYTES];
    body.extend([APPLICATION_DATA, 0]);
    let header_len = (body.len() + TAG_BYTES) as u16;
    let [high, low] = header_len.to_be_bytes();
    let header = [23, 3, 3, high, low];
    let nonce = sealer.keys.nonce();
    sealer.keys.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut body).unwrap();
    assert_eq!(
        open(&mut opener, &[&header[..], &body].concat()),
        Err(RecordError::TooLong { len: MAX_CONTENT_BYTES + 2 })
    );
    let _ = sealer.close();
}

#[test]
fn empty_records_are_bounded_in_a_row() {
    let (mut sealer, mut opener) = one_way();
    for _ in 0..3 {
        for _ in 0..MAX_EMPTY_RUN {
            assert_eq!(open(&mut opener, &sealed(&mut sealer, b"")), Ok((Opened::Data(0), vec![])));
        }
        assert!(open(&mut opener, &sealed(&mut sealer, b"x")).is_ok());
    }
    for _ in 0..MAX_EMPTY_RUN {
        assert!(open(&mut opener, &sealer.update().unwrap()).is_ok());
    }
    assert_eq!(open(&mut opener, &sealed(&mut sealer, b"")), Err(RecordError::EmptyFlood));
}

#[test]
fn keys_change_in_either_direction_at_any_time() {
    let (ours, theirs) = session();
    let mut numbers = Numbers(1);
    let mut ends = [(ours.sealer, theirs.opener), (theirs.sealer, ours.opener)];
    let mut updates = 0;
    for round in 0..4000usize {
        let (sealer, opener) = &mut ends[numbers.below(2)];
        if numbers.below(50) == 0 {
            let update = sealer.update().unwrap();
            assert_eq!(open(opener, &update).unwrap().0, Opened::KeyUpdate { request: false });
            assert_eq!((sealer.records(), opener.records()), (0, 0));
            updates += 1;
        }
        let content = vec![round as u8; 1 + numbers.below(600)];
        assert_eq!(open(opener, &sealed(sealer, &content)).unwrap().1, content);
    }
    assert!(updates > 40, "{updates}");
}

#[test]
fn the_old_key_is_gone_after_an_update() {
    let (mut sealer, mut opener) = one_way();
    let update = sealer.update().unwrap();
    assert_eq!(update.len(), UPDATE_BYTES);
    let after = sealed(&mut sealer, b"a");
    assert_eq!(open(&mut opener, &after), Err(RecordError::BadTag));
    opener.state = State::Open;
    assert!(open(&mut opener, &update).is_ok() && open(&mut opener, &after).is_ok());
}

#[test]
fn an_update_is_due_after_so_many_records() {
    let (sealer, _) = one_way();
    let mut sealer = sealer.with_update_after(3);
    sealer.update().unwrap();
    for _ in 0..3 {
        assert!(!sealer.needs_update());
        sealed(&mut sealer, b"x");
    }
    assert!(sealer.needs_update());
    sealer.update().unwrap();
    assert!(!sealer.needs_update());
}

#[test]
fn a_requested_update_reaches_the_sealer() {
    let (mut ours, mut theirs) = session();
    let request = sealed_as(&mut theirs.sealer, HANDSHAKE, &[24, 0, 0, 1, 1]);
    theirs.sealer.keys = Keys::new(theirs.sealer.shared.next_tx().unwrap()).unwrap();
    assert!(!ours.sealer.needs_update());
    assert_eq!(open(&mut ours.opener, &request).unwrap().0, Opened::KeyUpdate { request: true });
    assert!(ours.sealer.needs_update());
    let answer = ours.sealer.update().unwrap();
    assert!(!ours.sealer.needs_update());
    assert_eq!(open(&mut theirs.opener, &answer).unwrap().0, Opened::KeyUpdate { request: false });
    assert!(open(&mut ours.opener, &sealed(&mut theirs.sealer, b"x")).is_ok());
    assert!(open(&mut theirs.opener, &sealed(&mut ours.sealer, b"x")).is_ok());
}

#[test]
fn a_key_is_not_used_beyond_its_limit() {
    let (mut sealer, mut opener) = one_way();
    sealer.keys.sequence = KEY_LIMIT_RECORDS;
    opener.keys.sequence = KEY_LIMIT_RECORDS;
    assert_eq!(sealer.seal(&mut [1]), Err(RecordError::KeyExhausted));
    assert!(open(&mut opener, &sealer.update().unwrap()).is_ok());
    assert!(open(&mut opener, &sealed(&mut sealer, b"x")).is_ok());
}

#[test]
fn close_notify_is_an_end_and_not_an_error() {
    let (mut sealer, mut opener) = one_way();
    let record = sealer.close().unwrap();
    assert_eq!(record.len(), CLOSE_BYTES);
    assert_eq!(open(&mut opener, &record).unwrap().0, Opened::Closed);
    assert_eq!(open(&mut opener, &sealed(&mut sealer, b"x")), Err(RecordError::Closed));
}

#[test]
fn what_has_no_place_after_a_handshake_has_a_name() {
    for (content_type, content, error) in [
        (ALERT, &[2, 80][..], RecordError::PeerAlert { code: 80 }),
        (ALERT, &[2], RecordError::MalformedAlert),
        (ALERT, &[2, 80, 0], RecordError::MalformedAlert),
        (HANDSHAKE, &[4, 0, 0, 1, 0], RecordError::UnexpectedHandshake(4)),
        (HANDSHAKE, &[24, 0, 0, 1, 2], RecordError::UnexpectedHandshake(24)),
        (HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], RecordError::UnexpectedHandshake(24)),
        (HANDSHAKE, &[24, 0], RecordError::UnexpectedHandshake(24)),
        (HANDSHAKE, &[], RecordError::UnexpectedHandshake(0)),
        (20, &[1], RecordError::UnexpectedType(20)),
        (99, b"x", RecordError::UnexpectedType(99)),
    ] {
        let (mut sealer, mut opener) = one_way();
        let record = sealed_as(&mut sealer, content_type, content);
        assert_eq!(open(&mut opener, &record), Err(error), "{content_type} {content:?}");
    }
    assert!(RecordError::PeerAlert { code: 80 }.to_string().contains("80 (internal_error)"));
}

#[test]
fn the_two_directions_live_on_two_threads() {
    let (ours, theirs) = session();
    let (mut sealer, mut opener) = (ours.sealer.with_update_after(64), theirs.opener);
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(16);
    let receiver = std::thread::spawn(move || {
        let mut data = 0u32;
        for record in receive {
            if let (Opened::Data(_), content) = open(&mut opener, &record).unwrap() {
                assert_eq!(content, data.to_be_bytes());
                data += 1;
            }
        }
        data
    });
    for number in 0..1000u32 {
        if sealer.needs_update() {
            send.send(sealer.update().unwrap().to_vec()).unwrap();
        }
        send.send(sealed(&mut sealer, &number.to_be_bytes())).unwrap();
    }
    drop(send);
    assert_eq!(receiver.join().unwrap(), 1000);
}

#[test]
fn debug_shows_no_key() {
    let (ours, _) = session();
    let iv = format!("{:?}", ours.sealer.keys.iv);
    let shown = format!("{ours:?}");
    assert!(shown.contains("records") && !shown.contains(&iv), "{shown}");
}
