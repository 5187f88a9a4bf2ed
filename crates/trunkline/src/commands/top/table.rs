//! Draws a table so that it fits the screen: it omits columns by rank, and scrolls rows.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::commands::view::table::{Align, Column, Row, Table, Tone};

/// Without colour, important cells are bold.
pub(super) fn look_of(tone: Tone, colour: bool) -> Style {
    let (hue, modifier) = match tone {
        Tone::Plain => (None, Modifier::empty()),
        Tone::Strong => (None, Modifier::BOLD),
        Tone::Faint => (None, Modifier::DIM),
        Tone::Good => (Some(Color::Green), Modifier::empty()),
        Tone::Warn => (Some(Color::Yellow), Modifier::BOLD),
        Tone::Bad => (Some(Color::Red), Modifier::BOLD),
    };
    let style = Style::new().add_modifier(modifier);
    hue.filter(|_| colour).map_or(style, |hue| style.fg(hue))
}
/// The columns that fit into `width` beside names of `name_width`, in their order, with their places.
fn fit(columns: &[Column], name_width: u16, width: u16) -> Vec<(usize, &Column)> {
    let mut kept: Vec<(usize, &Column)> = columns.iter().enumerate().collect();
    let taken =
        |kept: &[(usize, &Column)]| name_width + kept.iter().map(|(_, column)| column.width + 1).sum::<u16>();
    while taken(&kept) > width {
        let Some(worst) = (0..kept.len()).max_by_key(|at| kept[*at].1.rank) else { break };
        kept.remove(worst);
    }
    kept
}

/// How a pane is shown.
pub(super) struct Look {
    pub(super) focused: bool,
    pub(super) colour: bool,
    /// Rows scrolled past.
    pub(super) scroll: usize,
}

/// Rows that a table needs, titles included.
pub(super) fn height(table: &Table) -> u16 {
    u16::try_from(table.rows.len() + 1).unwrap_or(u16::MAX)
}

/// Draws the rows that fit. Returns the actual scroll position.
pub(super) fn draw(table: &Table, look: &Look, area: Rect, buf: &mut Buffer) -> usize {
    if area.height == 0 {
        return look.scroll;
    }
    let visible = usize::from(area.height - 1);
    let scroll = look.scroll.min(table.rows.len().saturating_sub(visible.max(1)));
    let shown = &table.rows[scroll..table.rows.len().min(scroll + visible)];
    let columns = fit(&table.columns, table.name_width, area.width);
    let mut title = table.title.to_owned();
    if shown.len() < table.rows.len() {
        title = format!("{title} {}-{}/{}", scroll + 1, scroll + shown.len(), table.rows.len());
    }
    let name_width = name_width(table, &title, &columns, area.width);
    let style = Style::new().add_modifier(Modifier::BOLD);
    let style = if look.focused { style.add_modifier(Modifier::REVERSED) } else { style };
    buf.set_style(Rect { height: 1, ..area }, style);
    let mut line = Line { buf, x: area.x, y: area.y, end: area.right() };
    line.put(&title, name_width, Align::Left, style);
    for (_, column) in &columns {
        line.skip();
        line.put(&column.title, column.width, column.align, style);
    }
    for (row, y) in shown.iter().zip(area.y + 1..) {
        let mut line = Line { buf, x: area.x, y, end: area.right() };
        let style = |tone: Tone| look_of(tone, look.colour);
        match row {
            Row::Heading(cell) => {
                line.put(&cell.text, area.width, Align::Left, style(cell.tone));
            }
            Row::Values { name, cells } => {
                line.put(name, name_width, Align::Left, style(Tone::Plain));
                for (place, column) in &columns {
                    let cell = &cells[*place];
                    line.skip();
                    line.put(&cell.text, column.width, column.align, style(cell.tone));
                }
            }
            Row::Words { name, words } => {
                line.put(name, name_width, Align::Left, style(Tone::Plain));
                line.skip();
                line.put(&words.text, area.width, Align::Left, style(words.tone));
            }
        }
    }
    scroll
}

/// The width of the longest name or the title, if there is room.
fn name_width(table: &Table, title: &str, columns: &[(usize, &Column)], width: u16) -> u16 {
    let names = table.rows.iter().filter_map(|row| match row {
        Row::Heading(_) => None,
        Row::Values { name, .. } | Row::Words { name, .. } => Some(name.as_str()),
    });
    let longest = names.chain([title]).map(|name| name.chars().count() as u16).max().unwrap_or(0);
    let others: u16 = columns.iter().map(|(_, column)| column.width + 1).sum();
    let room = width.saturating_sub(others);
    longest.clamp(table.name_width.min(room), room)
}

/// The position of the next text in a line.
struct Line<'a> {
    buf: &'a mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl Line<'_> {
    fn skip(&mut self) {
        self.x = self.x.saturating_add(1);
    }

    /// Puts `text` into the next `width` columns; a longer text ends in `…`.
    fn put(&mut self, text: &str, width: u16, align: Align, style: Style) {
        let width = width.min(self.end.saturating_sub(self.x));
        let len = text.chars().count();
        let room = usize::from(width);
        let (text, len) = if len > room && room > 0 {
            (text.chars().take(room - 1).chain(['…']).collect(), room)
        } else {
            (text.to_owned(), len)
        };
        let pad = if align == Align::Right { room.saturating_sub(len) as u16 } else { 0 };
        self.buf.set_stringn(self.x + pad, self.y, text, room, style);
        self.x += width;
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::commands::view::table::Cell;

    const COLUMNS: [Column; 3] = [
        Column { title: Cow::Borrowed("a"), width: 4, rank: 1, align: Align::Right },
        Column { title: Cow::Borrowed("b"), width: 6, rank: 3, align: Align::Right },
        Column { title: Cow::Borrowed("c"), width: 4, rank: 2, align: Align::Left },
    ];

    fn values(name: &str) -> Row {
        let cells = vec!["7".to_owned().into(), Cell::new("b", Tone::Bad), "toolong".to_owned().into()];
        Row::Values { name: name.to_owned(), cells }
    }

    fn drawn(rows: Vec<Row>, scroll: usize, width: u16, height: u16) -> (Vec<String>, usize) {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        let table = Table { title: "T", columns: COLUMNS.to_vec(), name_width: 5, rows };
        let scroll = draw(&table, &Look { focused: false, colour: false, scroll }, area, &mut buf);
        let line = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        ((0..height).map(line).collect(), scroll)
    }

    #[test]
    fn columns_go_by_rank_and_stay_in_order() {
        let titles =
            |width| fit(&COLUMNS, 5, width).iter().map(|(_, column)| &*column.title).collect::<String>();
        assert_eq!([titles(22), titles(21), titles(15), titles(14), titles(9)], ["abc", "ac", "ac", "a", ""]);
    }

    #[test]
    fn names_take_the_room_there_is_and_what_is_too_long_is_cut_with_a_sign() {
        let rows = |name: &str| vec![values(name)];
        assert_eq!(drawn(rows("longish"), 0, 24, 2).0, ["T          a      b c", "longish    7      b too…"]);
        assert_eq!(drawn(rows("longish"), 0, 15, 2).0, ["T        a c", "long…    7 too…"]);
    }

    #[test]
    fn scrolling_ends_at_the_last_row_and_says_where_it_is() {
        let rows = || (0..9).map(|n| Row::Words { name: n.to_string(), words: Cell::new("w", Tone::Plain) });
        let (lines, scroll) = drawn(rows().collect(), 99, 24, 4);
        assert_eq!((scroll, &lines[0][..7], &lines[3][..1]), (6, "T 7-9/9", "8"));
        assert_eq!(drawn(rows().take(3).collect(), 99, 22, 4).1, 0);
    }

    #[test]
    fn no_room_at_all_draws_nothing_and_does_not_panic() {
        for (width, height) in [(0, 0), (1, 1), (3, 2), (0, 5)] {
            drawn(vec![values("name")], 3, width, height);
        }
    }
}
