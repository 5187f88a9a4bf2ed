use super::*;
use crate::commands::view::sample;

fn ten_seconds() -> View {
    View::new(Some(&sample::status(0)), &sample::status(1))
}

fn about(value: Option<f64>, expected: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() <= expected.abs() * 1e-9, "{value} is not {expected}");
}

#[test]
fn counters_become_rates_by_the_daemons_own_clock() {
    let view = ten_seconds();
    let tcp = &view.peers[0].classes[1];
    about(tcp.offered, 48e6);
    about(tcp.sent, 46.8e6);
    about(tcp.drops, 6.5);
    about(tcp.marked, 1.2);
    about(tcp.held_off, 10.0);
    about(tcp.filtered, 0.3);
    about(tcp.mean_backlog, 125.0);
    about(view.peers[0].received, 1e6);
    about(view.device.as_ref().expect("it").read, 48.4e6);
    let lane = view.peers[0].lanes[1].numbers.expect("it is up");
    about(lane.sent, 47.2e6);
    about(lane.retransmits, 0.5);
    about(lane.compression, 6.5);
}

#[test]
fn sojourn_quantiles_are_those_of_the_interval_alone() {
    let tcp = &ten_seconds().peers[0].classes[1];
    // Over its whole life half of the packets took 1 ms; in these ten seconds none did.
    assert_eq!((tcp.p50_us, tcp.p99_us), (Some(1 << 14), Some(1 << 14)));
    let at_once = sample::status(1);
    let still = View::new(Some(&sample::status(1)), &Status { uptime_s: at_once.uptime_s + 1.0, ..at_once });
    assert_eq!(still.peers[0].classes[1].p99_us, None);
}

#[test]
fn the_main_reason_is_that_of_most_drops_in_the_interval() {
    let (before, mut now) = (sample::status(0), sample::status(1));
    assert_eq!(ten_seconds().peers[0].classes[1].reasons[0].0, "early");
    // `early` has still dropped more in all.
    now.peers[0].classes[1].drops.insert("byte_limit".to_owned(), 400);
    let view = View::new(Some(&before), &now);
    assert_eq!(view.peers[0].classes[1].reasons[0].0, "byte_limit");
    assert_eq!(view.peers[0].classes[0].reasons, []);
}

#[test]
fn fullness_is_that_of_bytes_or_packets_whichever_is_more() {
    let mut status = sample::status(0);
    about(View::new(None, &status).peers[0].classes[1].fill, 0.75);
    status.peers[0].classes[1].capacity_packets = 130;
    about(View::new(None, &status).peers[0].classes[1].fill, 1.0);
    (status.peers[0].classes[1].capacity_packets, status.peers[0].classes[1].capacity_bytes) = (0, 0);
    assert_eq!(View::new(None, &status).peers[0].classes[1].fill, None);
}

#[test]
fn without_an_earlier_state_nothing_has_a_rate() {
    let view = View::new(None, &sample::status(1));
    let (tcp, lane) = (&view.peers[0].classes[1], view.peers[0].lanes[1].numbers.expect("up"));
    assert_eq!((tcp.sent, tcp.drops, tcp.mean_backlog, tcp.p99_us), (None, None, None, None));
    assert_eq!((lane.sent, lane.compression), (None, None));
    assert_eq!((tcp.backlog, tcp.flows, tcp.k_packets), (130, 12, Some(27)));
}

#[test]
fn a_daemon_that_was_restarted_has_no_earlier_state() {
    let (before, now) = (sample::status(1), sample::status(1));
    let other = Status { pid: 1, uptime_s: now.uptime_s + 5.0, ..now.clone() };
    let again = Status { uptime_s: 0.5, ..now };
    for now in [other, again] {
        assert_eq!(View::new(Some(&before), &now).peers[0].classes[1].sent, None);
    }
}

#[test]
fn a_counter_that_fell_counts_from_nothing() {
    let (before, mut now) = (sample::status(0), sample::status(1));
    now.peers[0].classes[1].packets_sent = 20;
    now.peers[0].classes[1].bytes_sent = 10_000;
    about(View::new(Some(&before), &now).peers[0].classes[1].sent, 8_000.0);
}

#[test]
fn a_lane_that_came_up_again_has_no_rates_yet() {
    let (before, mut now) = (sample::status(0), sample::status(1));
    now.peers[0].lanes[1].established += 1;
    assert_eq!(View::new(Some(&before), &now).peers[0].lanes[1].numbers.expect("up").sent, None);
}

#[test]
fn a_lane_that_is_down_has_a_reason_and_no_numbers() {
    let view = ten_seconds();
    let lane = &view.peers[0].lanes[2];
    assert_eq!((lane.state, lane.numbers), (LaneState::Waiting, None));
    assert_eq!(lane.remark, "the peer declines: unknown lane group (other)");
    assert_eq!(view.lanes_up(), (2, 3));
}

#[test]
fn lanes_are_told_apart_by_shard_and_number_where_there_are_several() {
    let mut status = sample::status(0);
    let names = |status: &Status| -> Vec<String> {
        View::new(None, status).peers[0].lanes.iter().map(|lane| lane.name.clone()).collect()
    };
    assert_eq!(names(&status), ["interactive", "tcp", "other"]);
    status.peers[0].lanes[1].shard = 1;
    assert_eq!(names(&status), ["interactive/0", "tcp/1", "other/0"]);
    status.peers[0].lanes[2].index = 1;
    assert_eq!(names(&status), ["interactive/0.0", "tcp/1.0", "other/0.1"]);
}

#[test]
fn a_flow_has_the_rate_of_the_interval_and_none_at_first_or_when_it_starts_anew() {
    let (before, now) = (sample::status(0), sample::status(1));
    let rate = |view: &View, flow: usize| view.peers[0].flows[flow].rate;
    let view = View::new(Some(&before), &now);
    about(rate(&view, 0), 2.4e6);
    about(rate(&view, 1), 9.6e6);
    assert_eq!(rate(&View::new(None, &now), 1), None);
    let mut back = now.clone();
    back.peers[0].flows[1].bytes = 1;
    assert_eq!(rate(&View::new(Some(&before), &back), 1), None);
}

#[test]
fn proxies_have_rates_of_the_interval_and_the_failure_that_most_connections_met() {
    let (before, now) = (sample::proxies(0), sample::proxies(1));
    let view = View::of_proxies(Some(&before), &now);
    let all = view.proxies.expect("they");
    about(all.opened, 2.3);
    about(all.failed, 0.3);
    about(all.from_servers, 11.36e6);
    assert_eq!((all.open, all.opening, all.main_failure), (41, 2, Some("refused")));
    let cell = &all.proxies[1];
    about(cell.delivered, 11.3e6);
    about(cell.delayed, 1025.0);
    about(cell.dropped, 2.0);
    assert_eq!((cell.link.as_str(), cell.held, all.proxies[0].link.as_str()), ("11.90*", 212_000, "-"));
}

#[test]
fn proxies_of_another_process_or_a_gateway_before_have_no_rates() {
    let (before, now) = (sample::proxies(0), sample::proxies(1));
    let other = trunkline_status::ProxiesStatus { pid: 1, ..before };
    let view = View::of_proxies(Some(&other), &now).proxies.expect("they");
    assert_eq!((view.opened, view.failed, view.proxies[1].delivered), (None, None, None));
    let gateway = State::Gateway(Box::new(sample::status(0)));
    let view = View::of(Some(&gateway), &State::Proxies(Box::new(now))).proxies.expect("they");
    assert_eq!(view.proxies[1].delivered, None);
}
