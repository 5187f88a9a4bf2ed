//! Draws a frame: two lines about the site, the panes that there are, one line of keys.

use std::iter;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _};

use super::table::{self, Look};
use super::ui::Ui;
use crate::commands::view::table::{Table, Tone};
use crate::commands::view::{COLUMNS, Pane, View, activity, summary, table_of};

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

const KEYS: &str = "\
q     quit                         p     pause, go on
c l a    classes, lanes, paths,    arrows, page keys, Home, End
f x   flows, proxies; again: sort  Tab   the next pane
";

/// A number of rows for each pane.
type Heights = [u16; Pane::ALL.len()];

/// The height of each pane; the pane in focus loses rows last.
fn heights(wanted: Heights, focus: Pane, room: u16) -> Heights {
    let mut heights = wanted.map(|rows| rows.min(1 + MIN_ROWS));
    while heights.iter().sum::<u16>() > room {
        let tallest =
            (0..wanted.len()).max_by_key(|pane| (heights[*pane], *pane != focus as usize)).unwrap_or(0);
        heights[tallest] -= 1;
    }
    for pane in iter::once(focus as usize).chain(0..wanted.len()) {
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
    Paragraph::new(header(screen, view, ui)).style(table::look_of(Tone::Strong, false)).render(line(0), buf);
    match screen.notice {
        Some(notice) => {
            Paragraph::new(notice).style(table::look_of(Tone::Bad, screen.colour)).render(line(1), buf);
        }
        None => Paragraph::new(activity(view)).render(line(1), buf),
    }
    let body = area.height.saturating_sub(FRAME_LINES);
    let tables = Pane::ALL.map(|pane| table(view, pane, ui.order_of(pane)));
    let heights = heights(tables.each_ref().map(|table| height(table.as_ref())), ui.focus, body);
    let mut y = area.y + 2;
    for ((pane, shown), height) in Pane::ALL.into_iter().zip(&tables).zip(heights) {
        let place = Rect { y, height, ..area };
        let scroll = &mut ui.scroll[pane as usize];
        let look = Look { focused: screen.keys && ui.focus == pane, colour: screen.colour, scroll: *scroll };
        if let Some(shown) = shown {
            *scroll = table::draw(shown, &look, place, buf);
        }
        y += height;
    }
    if screen.keys && area.height >= FRAME_LINES {
        let text = format!("{}  by {}", keys(&ui.panes), ui.order_of(ui.focus));
        Paragraph::new(text)
            .style(table::look_of(Tone::Faint, screen.colour))
            .render(line(area.height - 1), buf);
    }
    if ui.help {
        help(area, buf);
    }
}

/// The height of a frame that shows all rows.
pub(super) fn full_height(view: &View) -> u16 {
    let rows = Pane::ALL.map(|pane| height(table(view, pane, "").as_ref()));
    rows.iter().fold(FRAME_LINES, |sum, rows| sum.saturating_add(*rows))
}

/// The table of a pane, if the pane is there.
fn table(view: &View, pane: Pane, order: &str) -> Option<Table> {
    view.panes().contains(&pane).then(|| table_of(view, pane, order))
}

fn height(table: Option<&Table>) -> u16 {
    table.map_or(0, table::height)
}

fn keys(panes: &[Pane]) -> String {
    let key = |pane: &Pane| match pane {
        Pane::Classes => "c classes",
        Pane::Lanes => "l lanes",
        Pane::Paths => "a paths",
        Pane::Flows => "f flows",
        Pane::Proxies => "x proxies",
    };
    let panes: Vec<&str> = panes.iter().map(key).collect();
    format!("q quit  p pause  {}  arrows scroll  ? help", panes.join("  "))
}

fn header(screen: &Screen<'_>, view: &View, ui: &Ui) -> String {
    let paused = if ui.paused { "   PAUSED" } else { "" };
    format!("trunkline {}   every {} s{paused}", summary(view), screen.interval.as_secs_f64())
}

fn help(area: Rect, buf: &mut Buffer) {
    let text = format!("{KEYS}\n{COLUMNS}");
    let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 4;
    let height = text.lines().count() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buf);
    let block =
        Block::bordered().title(" keys and columns ").padding(ratatui::widgets::Padding::horizontal(1));
    Paragraph::new(text).block(block).style(Style::new().remove_modifier(Modifier::all())).render(place, buf);
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
