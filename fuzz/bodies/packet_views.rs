//! What holds for any bytes that claim to be a packet with an offload. Run by the fuzz target of this name and,
//! over the committed corpus, by the tests of `trunkline-packet`.
//!
//! Input: a vnet header of 10 bytes, one byte that says how many segments to keep, the packet.

use trunkline_packet::{
    Fragment, Headers, IcmpView, Offload, SegmentHeaders, Segmenter, TcpRun, TcpView, UdpRun, UdpView,
    VNET_LEN, Version, complete_checksum, pcap, trim,
};

/// Runs the whole crate over `data` and asserts that the parts agree.
pub(crate) fn run(data: &[u8]) {
    capture(data);
    let Some((vnet, rest)) = data.split_first_chunk::<VNET_LEN>() else { return };
    let Some((keep, packet)) = rest.split_first() else { return };
    let Ok(headers) = Headers::parse(packet, packet.len()) else { return };
    views(packet, &headers);
    run_of_datagrams(packet, &headers, Offload::None);

    let Ok(offload) = Offload::from_vnet(vnet) else { return };
    assert_eq!(Offload::from_vnet(&offload.to_vnet()), Ok(offload));
    let _ = trim_if_super(&mut packet.to_vec(), &headers, offload, u32::from(*keep));
    let mut completed = packet.to_vec();
    let _ = complete_checksum(&mut completed, offload);
    run_of_datagrams(packet, &headers, offload);

    let Ok(offload) = offload.normalise(packet, &headers) else { return };
    assert_eq!(offload.check(&headers), Ok(()));
    assert_eq!(offload.normalise(packet, &headers), Ok(offload));
    let segments = split(packet, &headers, offload);
    assert_eq!(segments.len() as u32, offload.segments(packet.len()));
    assert_eq!(segments.iter().map(Vec::len).sum::<usize>(), offload.wire_len(packet.len()));
    for segment in &segments {
        let of_segment = Headers::parse(segment, segment.len()).expect("a segment is a packet");
        assert_eq!(of_segment.flow(), headers.flow());
        assert_eq!(of_segment.transport_offset, headers.transport_offset);
    }
    trimmed(packet, &headers, offload, &segments, u32::from(*keep));
    shorter(packet, &headers, offload, usize::from(*keep) * 8);
    run_of_segments(&segments, headers.transport_offset);
}

fn capture(data: &[u8]) {
    if let Ok(reader) = pcap::Reader::new(data) {
        let kept: usize = reader.map_while(Result::ok).map(|record| record.bytes.len()).sum();
        assert!(kept <= data.len());
    }
}

fn views(packet: &[u8], headers: &Headers) {
    assert_eq!(headers.packet_len, packet.len());
    assert!(headers.transport_offset >= if headers.version == Version::V4 { 20 } else { 40 });
    let transport = packet.get(headers.transport_offset..).expect("the transport header is in the packet");
    assert_eq!(transport.len(), headers.transport_len());
    assert!(headers.fragment != Fragment::Later || headers.ports.is_none());
    for cut in 0..packet.len().min(128) {
        // A prefix that is long enough says the same as the whole, and a shorter one nothing else.
        if let Ok(of_prefix) = Headers::parse(&packet[..cut], packet.len()) {
            let same = |a: &Headers| (a.version, a.source, a.destination, a.traffic_class, a.packet_len);
            assert_eq!(same(&of_prefix), same(headers));
            assert!(of_prefix.transport_offset <= headers.transport_offset);
            assert!(of_prefix.ports.is_none() || of_prefix == *headers);
        }
        assert!(Headers::parse(&packet[..cut], cut).is_err());
    }
    if let Ok(view) = TcpView::new(transport) {
        assert_eq!(view.options().len() + 20, view.header_len());
    }
    let _ = UdpView::new(transport).map(|view| (view.length(), view.checksum()));
    let _ = IcmpView::new(transport).map(|view| (view.kind(), view.rest()));
}

fn split(packet: &[u8], headers: &Headers, offload: Offload) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(packet, headers, offload).expect("the offload was checked");
    let mut out = vec![0; segmenter.longest()];
    let mut segments = Vec::new();
    while let Some(len) = segmenter.next_into(&mut out) {
        segments.push(out[..len].to_vec());
    }
    assert_eq!(segmenter.remaining(), 0);
    segments
}

fn trim_if_super(packet: &mut Vec<u8>, headers: &Headers, offload: Offload, keep: u32) -> Option<Offload> {
    let Offload::Segments(segmentation) = offload else { return None };
    let (head_len, tail) = (usize::from(segmentation.header_len).min(packet.len()), packet.clone());
    let trimmed = trim(packet, headers, segmentation, keep);
    assert_eq!(packet[head_len..], tail[head_len..], "only the head is touched");
    packet.truncate(trimmed.len);
    Some(trimmed.offload)
}

fn trimmed(packet: &[u8], headers: &Headers, offload: Offload, segments: &[Vec<u8>], keep: u32) {
    let keep = keep.max(1);
    let mut packet = packet.to_vec();
    let Some(left) = trim_if_super(&mut packet, headers, offload, keep) else { return };
    let headers = Headers::parse(&packet, packet.len()).expect("a trimmed packet is a packet");
    assert_eq!(left.check(&headers), Ok(()));
    if (keep as usize) < segments.len() {
        assert_eq!(split(&packet, &headers, left), segments[..keep as usize]);
    }
}

fn run_of_datagrams(packet: &[u8], headers: &Headers, offload: Offload) {
    let Some(mut run) = UdpRun::start([packet, &[]], headers, offload) else { return };
    let header_len = run.header_len();
    let cut = [&packet[..header_len], &packet[header_len..]];
    assert!(UdpRun::start(cut, headers, offload).is_some());
    assert_eq!(run.finish(), (&packet[..header_len], offload));
    let mut datagrams = 1;
    while run.push([packet, &[]], headers, offload) {
        datagrams += 1;
    }
    assert_eq!(run.count(), datagrams);
    let packet_len = run.packet_len();
    let (header, merged) = run.finish();
    let payload = &packet[header_len..];
    let whole = [header, &payload.repeat(datagrams as usize)].concat();
    assert_eq!(whole.len(), packet_len);
    let whole_headers = Headers::parse(&whole, whole.len()).expect("a merged run is a packet");
    let datagram = &split(packet, headers, offload)[0];
    for segment in split(&whole, &whole_headers, merged) {
        assert_eq!(segment[headers.transport_offset..], datagram[headers.transport_offset..]);
    }
}

/// Headers of shorter segments cover the data once and in order.
fn shorter(packet: &[u8], headers: &Headers, offload: Offload, max: usize) {
    let Offload::Segments(segmentation) = offload else { return };
    let segments = SegmentHeaders::new(packet, headers, segmentation).expect("the offload was checked");
    let mut segments = segments.within(max);
    let mut header = vec![0; usize::from(segmentation.header_len)];
    let mut at = header.len();
    while let Some(segment) = segments.next_into(&mut header) {
        assert!(segment.packet_len() <= segmentation.longest(packet.len()));
        assert_eq!((segment.header_len, segment.data.start), (header.len(), at));
        at = segment.data.end;
    }
    assert_eq!((segments.remaining(), at), (0, packet.len()));
}

fn run_of_segments(segments: &[Vec<u8>], transport_offset: usize) {
    let of = |segment: &[u8]| Headers::parse(segment, segment.len()).expect("a segment is a packet");
    let Some((first, others)) = segments.split_first() else { return };
    let Some(mut run) = TcpRun::start([first, &[]], &of(first), Offload::None) else { return };
    let (header_len, mut merged) = (run.header_len(), 1);
    let mut payload = first[header_len..].to_vec();
    for segment in others {
        if !run.push([segment, &[]], &of(segment), Offload::None) {
            break;
        }
        payload.extend_from_slice(&segment[header_len..]);
        merged += 1;
    }
    assert_eq!(run.count() as usize, merged);
    let (header, offload) = run.finish();
    let whole = [header, &payload].concat();
    let again = split(&whole, &of(&whole), offload);
    assert_eq!(again.len(), merged);
    for (again, segment) in again.iter().zip(segments) {
        assert_eq!(again[transport_offset..], segment[transport_offset..]);
    }
}
