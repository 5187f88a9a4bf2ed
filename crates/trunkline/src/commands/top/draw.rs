//! Draws a frame: two lines about the site, the panes that there are, one line of keys.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _};

use super::format::{age, mbit, number, or_dash};
use super::model::{DeviceView, ProxiesView, View};
use super::panes;
use super::table::{Look, Table, Tone};
use super::ui::{Pane, Ui};

/// The input of a frame.
pub(super) struct Screen<'a> {
    pub(super) view: &'a View,
    /// Why the state is not current, if so.
    pub(super) notice: Option<&'a str>,
    pub(super) interval: Duration,
    pub(super) colour: bool,
    /// Whether to show the line of keys.
    pub(super) keys: bool,
}

/// Lines above and below the panes.
const FRAME_LINES: u16 = 3;
/// Rows that a pane without the focus keeps, beside its titles.
const MIN_ROWS: u16 = 3;

const HELP: &str = "\
q     quit                         p     pause, go on
c l f x  classes, lanes, flows,    arrows, page keys, Home, End
      proxies; again: sort         Tab   the next pane

in, out   rate into the queue; rate to the lanes
waiting   packets in the queue now; mean: over the last interval
p50, p99  sojourn time over the last interval, upper bounds
drop/s    drops at the edge; mostly: their most frequent reason
mark/s    CE marks instead of drops; hold/s: drops P3 held off
filt/s    retransmissions dropped: the original is in transit
N, K      active flows; length of P3's drop holdoff, packets
P %       drop probability now; full: used share of the capacity
RTTup, W  estimate of the flows' round-trip time; lanes' window
core ms   queueing delay between the sites: rtt minus its min
headers   compressed to 1/x of their size

held, max received for hosts behind, not acknowledged by them
link      rate of the emulated link, * measured
ACK/s     acknowledgements that it delayed; drop/s: no room in it
";

/// The height of each pane; the pane in focus loses rows last.
fn heights(wanted: [u16; 4], focus: Pane, room: u16) -> [u16; 4] {
    let mut heights = wanted.map(|rows| rows.min(1 + MIN_ROWS));
    while heights.iter().sum::<u16>() > room {
        let tallest = (0..4).max_by_key(|pane| (heights[*pane], *pane != focus as usize)).unwrap_or(0);
        heights[tallest] -= 1;
    }
    for pane in [focus as usize, 0, 1, 2, 3] {
        let left = room.saturating_sub(heights.iter().sum());
        heights[pane] += left.min(wanted[pane] - heights[pane]);
    }
    heights
}

/// Draws a frame, and limits scrolling to the rows that exist.
pub(super) fn draw(screen: &Screen<'_>, ui: &mut Ui, area: Rect, buf: &mut Buffer) {
    ui.show(screen.view.panes());
    let line = |row: u16| Rect { y: area.y + row, height: u16::from(row < area.height), ..area };
    let view = screen.view;
    Paragraph::new(header(screen, view, ui)).style(Tone::Strong.style(false)).render(line(0), buf);
    match screen.notice {
        Some(notice) => Paragraph::new(notice).style(Tone::Bad.style(screen.colour)).render(line(1), buf),
        None => Paragraph::new(second_line(view)).render(line(1), buf),
    }
    let body = area.height.saturating_sub(FRAME_LINES);
    let classes = panes::classes(view, ui.order_of(Pane::Classes));
    let lanes = panes::lanes(view, ui.order_of(Pane::Lanes));
    let flows = panes::flows(view, ui.order_of(Pane::Flows));
    let proxies = panes::proxies(view, ui.order_of(Pane::Proxies));
    let wanted = [
        height(&classes, view, Pane::Classes),
        height(&lanes, view, Pane::Lanes),
        height(&flows, view, Pane::Flows),
        height(&proxies, view, Pane::Proxies),
    ];
    let heights = heights(wanted, ui.focus, body);
    let mut y = area.y + 2;
    for (pane, height) in Pane::ALL.into_iter().zip(heights) {
        let place = Rect { y, height, ..area };
        let scroll = ui.scroll[pane as usize];
        let look = Look { focused: screen.keys && ui.focus == pane, colour: screen.colour, scroll };
        ui.scroll[pane as usize] = match pane {
            Pane::Classes => classes.draw(&look, place, buf),
            Pane::Lanes => lanes.draw(&look, place, buf),
            Pane::Flows => flows.draw(&look, place, buf),
            Pane::Proxies => proxies.draw(&look, place, buf),
        };
        y += height;
    }
    if screen.keys && area.height >= FRAME_LINES {
        let text = format!("{}  by {}", keys(ui.panes), ui.order_of(ui.focus));
        Paragraph::new(text).style(Tone::Faint.style(screen.colour)).render(line(area.height - 1), buf);
    }
    if ui.help {
        help(area, buf);
    }
}

/// The height of a frame that shows all rows.
pub(super) fn full_height(view: &View) -> u16 {
    let panes = [
        height(&panes::classes(view, ""), view, Pane::Classes),
        height(&panes::lanes(view, ""), view, Pane::Lanes),
        height(&panes::flows(view, ""), view, Pane::Flows),
        height(&panes::proxies(view, ""), view, Pane::Proxies),
    ];
    panes.iter().fold(FRAME_LINES, |sum, rows| sum.saturating_add(*rows))
}

/// The height of a pane; nothing, if it is not there.
fn height<T>(table: &Table<'_, T>, view: &View, pane: Pane) -> u16 {
    if view.panes().contains(&pane) { table.height() } else { 0 }
}

fn keys(panes: &[Pane]) -> String {
    let key = |pane: &Pane| match pane {
        Pane::Classes => "c classes",
        Pane::Lanes => "l lanes",
        Pane::Flows => "f flows",
        Pane::Proxies => "x proxies",
    };
    let panes: Vec<&str> = panes.iter().map(key).collect();
    format!("q quit  p pause  {}  arrows scroll  ? help", panes.join("  "))
}

fn header(screen: &Screen<'_>, view: &View, ui: &Ui) -> String {
    let count = |count: usize, one: &str, several: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    };
    let what = if view.device.is_some() {
        let (up, all) = view.lanes_up();
        format!("{}   {up} of {all} lanes up", count(view.peers.len(), "peer", "peers"))
    } else {
        count(view.proxies.as_ref().map_or(0, |all| all.proxies.len()), "proxy", "proxies")
    };
    let paused = if ui.paused { "   PAUSED" } else { "" };
    let (site, uptime, every) = (&view.site, age(view.uptime), screen.interval.as_secs_f64());
    format!("trunkline {site}   up {uptime}   {what}   every {every} s{paused}")
}

/// What the device does or, where there is none, how much proxies move.
fn second_line(view: &View) -> String {
    match (&view.device, &view.proxies) {
        (Some(device), _) => device_line(device),
        (None, Some(proxies)) => moved(proxies),
        (None, None) => String::new(),
    }
}

fn moved(proxies: &ProxiesView) -> String {
    let [clients, servers] = [proxies.from_clients, proxies.from_servers].map(|rate| or_dash(rate, mbit));
    format!("{clients} Mbit/s from clients   {servers} Mbit/s from servers")
}

fn device_line(device: &DeviceView) -> String {
    let drops = or_dash(device.drops, number);
    let reason = device.main_reason.map_or(String::new(), |reason| format!(", mostly: {reason}"));
    let (read, pool) = (or_dash(device.read, mbit), number(device.pool_bytes as f64 / 1e6));
    format!(
        "device {}   {read} Mbit/s read   {drops} dropped/s{reason}   {pool} MB of packet memory",
        device.name
    )
}

fn help(area: Rect, buf: &mut Buffer) {
    let width = HELP.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 4;
    let height = HELP.lines().count() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buf);
    let block =
        Block::bordered().title(" keys and columns ").padding(ratatui::widgets::Padding::horizontal(1));
    Paragraph::new(HELP).block(block).style(Style::new().remove_modifier(Modifier::all())).render(place, buf);
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
