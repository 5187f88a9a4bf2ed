use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::commands::top::plain;
use crate::commands::view::sample;

const INTERVAL: Duration = Duration::from_secs(10);

fn view() -> View {
    View::new(Some(&sample::status(0)), &sample::status(1))
}

fn proxies() -> View {
    View::of_proxies(Some(&sample::proxies(0)), &sample::proxies(1))
}

fn frame(width: u16, height: u16, view: &View, ui: &mut Ui, notice: Option<&str>) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let screen = Screen { view, notice, interval: INTERVAL, colour: true, keys: true };
    terminal.draw(|frame| draw(&screen, ui, frame.area(), frame.buffer_mut())).expect("drawn");
    terminal
}

fn lines(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn text(width: u16, height: u16, ui: &mut Ui) -> String {
    lines(&frame(width, height, &view(), ui, None))
}

/// Compares a frame with the committed one.
#[track_caller]
fn same(frame: &str, expected: &str) {
    assert!(frame == expected, "the frame is now\n{frame}\nand was\n{expected}");
}

#[test]
fn a_frame_of_80_by_24_is_this() {
    same(&text(80, 24, &mut Ui::new()), include_str!("frames/80x24.txt"));
}

#[test]
fn a_frame_of_140_by_40_is_this() {
    same(&text(140, 40, &mut Ui::new()), include_str!("frames/140x40.txt"));
}

#[test]
fn a_frame_of_proxies_alone_is_this() {
    let frame = |width, height| lines(&frame(width, height, &proxies(), &mut Ui::new(), None));
    same(&frame(80, 8), include_str!("frames/proxies-80x8.txt"));
    same(&frame(120, 8), include_str!("frames/proxies-120x8.txt"));
}

#[test]
fn a_gateway_with_proxies_has_a_fourth_pane() {
    let with = |step| {
        let proxies = Some(sample::proxies(step));
        trunkline_status::Status { proxies, ..sample::status(step) }
    };
    let view = View::new(Some(&with(0)), &with(1));
    let text = plain(&view, INTERVAL, 100);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing in {text}"));
    assert!(place("\nflows ") < place("\nproxies ") && place("\nproxies ") < place("\ncell "), "{text}");
    assert!(text.contains("1 peer   2 of 3 lanes up") && text.contains("device trunk0"), "{text}");
    let keys = lines(&frame(100, 40, &view, &mut Ui::new(), None));
    assert!(keys.contains("f flows  x proxies"), "{keys}");
}

#[test]
fn proxies_are_sorted_by_what_they_hold() {
    let mut ui = Ui { focus: Pane::Proxies, order: [0, 0, 0, 0, 2], ..Ui::new() };
    let text = lines(&frame(80, 24, &proxies(), &mut ui, None));
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing in {text}"));
    assert!(place("\ncell ") < place("\nssh "), "{text}");
}

#[test]
fn the_help_is_this() {
    let mut ui = Ui { help: true, ..Ui::new() };
    same(&text(80, 24, &mut ui), include_str!("frames/help.txt"));
}

#[test]
fn once_shows_every_row_in_plain_text() {
    let mut status = sample::status(1);
    let many = (0..40_u64).map(|n| {
        let mut flow = status.peers[0].flows[0].clone();
        (flow.source, flow.bytes) = (format!("10.1.0.2:{n}"), n);
        flow
    });
    status.peers[0].flows = many.collect();
    let text = plain(&View::new(Some(&sample::status(0)), &status), INTERVAL, 100);
    assert_eq!(text.matches("10.1.0.2:").count(), 40);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("q quit"), "{text}");
}

#[test]
fn the_pane_in_focus_is_cut_last() {
    assert_eq!(heights([5, 4, 0, 4, 0], Pane::Classes, 21), [5, 4, 0, 4, 0]);
    assert_eq!(heights([9, 9, 0, 33, 0], Pane::Flows, 21), [4, 4, 0, 13, 0]);
    assert_eq!(heights([9, 9, 0, 33, 0], Pane::Classes, 21), [9, 8, 0, 4, 0]);
    assert_eq!(heights([9, 9, 0, 33, 0], Pane::Lanes, 7), [2, 3, 0, 2, 0]);
    assert_eq!(heights([9, 9, 0, 33, 6], Pane::Proxies, 21), [7, 4, 0, 4, 6]);
    assert_eq!(heights([0, 0, 0, 0, 30], Pane::Proxies, 21), [0, 0, 0, 0, 21]);
    for room in 0..70 {
        for focus in Pane::ALL {
            let heights = heights([9, 9, 3, 33, 6], focus, room);
            assert_eq!(heights.iter().sum::<u16>(), room.min(60), "{focus:?} {room}");
        }
    }
}

#[test]
fn any_size_is_drawn() {
    for width in [0, 1, 7, 33, 79, 300] {
        for height in [0, 1, 2, 3, 4, 9, 100] {
            for help in [false, true] {
                let mut ui = Ui { help, scroll: [50; 5], ..Ui::new() };
                text(width, height, &mut ui);
                frame(width, height, &proxies(), &mut ui, None);
            }
        }
    }
}

#[test]
fn a_notice_takes_the_place_of_the_device() {
    let text = lines(&frame(80, 24, &view(), &mut Ui::new(), Some("daemon gone, retrying: no daemon")));
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("daemon gone, retrying")), "{text}");
    assert!(text.contains("interactive"), "what was last known stays: {text}");
}

#[test]
fn sorting_puts_the_most_first() {
    let mut ui = Ui { focus: Pane::Classes, order: [1, 0, 0, 3, 0], ..Ui::new() };
    let text = text(140, 40, &mut ui);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing in {text}"));
    assert!(place("\ntcp ") < place("\ninteractive "), "by rate: {text}");
    assert!(place("10.1.0.77:51022") < place("10.1.0.2:40112"), "by retransmissions filtered: {text}");
}

#[test]
fn several_peers_are_named_with_their_lanes_and_flows() {
    let (mut before, mut now) = (sample::status(0), sample::status(1));
    for status in [&mut before, &mut now] {
        let mut second = status.peers[0].clone();
        (second.name, second.public_key) = ("c".to_owned(), "key of c".to_owned());
        status.peers.push(second);
    }
    let text = plain(&View::new(Some(&before), &now), INTERVAL, 140);
    for expected in
        ["2 peers", "peer b: 1.00 Mbit/s", "peer c: 1.00 Mbit/s", "\nb: interactive ", "\nc: interactive "]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.matches("c: tcp 10.1.0.77:51022").count(), 1, "{text}");
}

#[test]
fn without_colour_nothing_is_coloured_and_what_matters_is_bold() {
    use ratatui::style::Color;
    let colours = |colour: bool| {
        let area = Rect::new(0, 0, 140, 40);
        let mut buffer = Buffer::empty(area);
        let view = view();
        let screen = Screen { view: &view, notice: Some("gone"), interval: INTERVAL, colour, keys: true };
        draw(&screen, &mut Ui::new(), area, &mut buffer);
        let coloured = buffer.content().iter().filter(|cell| cell.fg != Color::Reset).count();
        (coloured > 0, buffer[(0, 1)].modifier.contains(Modifier::BOLD))
    };
    assert_eq!((colours(true), colours(false)), ((true, true), (false, true)));
}

#[test]
fn paths_have_a_pane_where_something_is_known_of_them() {
    let path = trunkline_status::Path {
        mode: trunkline_status::EdgePacing::Held,
        capacity: Some(98_000_000),
        queue_us: Some(7_300),
        target_us: 2_000,
        reported: true,
        loss: Some(0.004),
        lane_groups: vec![trunkline_status::PathShare { delivered: 46_000_000, ..Default::default() }],
        ..Default::default()
    };
    let lte = trunkline_status::Uplink {
        name: "lte".to_owned(),
        state: trunkline_status::UplinkState::Silent,
        lanes: 2,
        ..Default::default()
    };
    let mut status = sample::status(1);
    (status.peers[0].paths, status.peers[0].uplinks) = (vec![path], vec![lte]);
    let text = plain(&View::new(Some(&sample::status(0)), &status), INTERVAL, 140);
    let line = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let words = |name: &str| line(name).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words("paths ").starts_with("paths state mode Mbit/s may Mbit/s has Mbit/s core ms of"),
        "{text}"
    );
    assert!(words("path ").starts_with("path - held 46.0 - 98.0 7.30 there 2.00 0.40"), "{text}");
    assert!(words("lte ").starts_with("lte silent - - - -"), "{text}");
}
