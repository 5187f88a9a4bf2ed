//! The user's choices: focus, order and scrolling, and the keys that change them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::commands::view::Pane;

/// The user's choices. [`Pane`] indexes the arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ui {
    /// The panes that there are; the first has the focus at the start.
    pub(super) panes: Vec<Pane>,
    pub(super) focus: Pane,
    /// Indices into [`Pane::orders`].
    pub(super) order: [usize; Pane::ALL.len()],
    /// Rows scrolled past.
    pub(super) scroll: [usize; Pane::ALL.len()],
    pub(super) paused: bool,
    pub(super) help: bool,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

/// Rows that a page key moves by.
const PAGE: usize = 10;

impl Ui {
    pub(super) fn new() -> Self {
        Ui {
            panes: Pane::ALL.to_vec(),
            focus: Pane::Classes,
            order: [0; Pane::ALL.len()],
            scroll: [0; Pane::ALL.len()],
            paused: false,
            help: false,
        }
    }

    /// Says which panes there are. The focus leaves one that is not there.
    pub(super) fn show(&mut self, panes: Vec<Pane>) {
        if let Some(first) = panes.first()
            && !panes.contains(&self.focus)
        {
            self.focus = *first;
        }
        self.panes = panes;
    }

    /// The order of the rows of `pane`.
    pub(super) fn order_of(&self, pane: Pane) -> &'static str {
        pane.orders()[self.order[pane as usize]]
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('c') => self.focus(Pane::Classes),
            KeyCode::Char('l') => self.focus(Pane::Lanes),
            KeyCode::Char('f') => self.focus(Pane::Flows),
            KeyCode::Char('a') => self.focus(Pane::Paths),
            KeyCode::Char('x') => self.focus(Pane::Proxies),
            KeyCode::Tab => self.focus_next(),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_by(|row| row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_by(|row| row + 1),
            KeyCode::PageUp => self.scroll_by(|row| row.saturating_sub(PAGE)),
            KeyCode::PageDown => self.scroll_by(|row| row + PAGE),
            KeyCode::Home => self.scroll_by(|_| 0),
            KeyCode::End => self.scroll_by(|_| usize::MAX / 2),
            _ => {}
        }
        Next::Stay
    }

    /// Moves the focus to `pane`. If it has the focus already, selects its next order.
    fn focus(&mut self, pane: Pane) {
        if !self.panes.contains(&pane) {
            return;
        }
        if self.focus == pane {
            let order = &mut self.order[pane as usize];
            *order = (*order + 1) % pane.orders().len();
        }
        self.focus = pane;
    }

    fn focus_next(&mut self) {
        let at = self.panes.iter().position(|pane| *pane == self.focus).unwrap_or(0);
        if let Some(next) = self.panes.iter().cycle().nth(at + 1) {
            self.focus = *next;
        }
    }

    /// Drawing limits the result, since it knows the number of rows.
    fn scroll_by(&mut self, change: impl FnOnce(usize) -> usize) {
        let row = &mut self.scroll[self.focus as usize];
        *row = change(*row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(ui: &mut Ui, code: KeyCode) -> Next {
        ui.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_letter_moves_the_focus_and_pressed_again_sorts() {
        let mut ui = Ui::new();
        press(&mut ui, KeyCode::Char('f'));
        assert_eq!((ui.focus, ui.order_of(Pane::Flows)), (Pane::Flows, "rate"));
        press(&mut ui, KeyCode::Char('f'));
        assert_eq!((ui.focus, ui.order_of(Pane::Flows)), (Pane::Flows, "bytes"));
        for _ in 0..3 {
            press(&mut ui, KeyCode::Char('f'));
        }
        assert_eq!(ui.order_of(Pane::Flows), "rate");
        press(&mut ui, KeyCode::Char('l'));
        assert_eq!((ui.focus, ui.order_of(Pane::Lanes)), (Pane::Lanes, "file"));
    }

    #[test]
    fn the_focus_stays_among_the_panes_that_there_are() {
        let mut ui = Ui::new();
        ui.show(vec![Pane::Classes, Pane::Lanes]);
        press(&mut ui, KeyCode::Char('x'));
        assert_eq!(ui.focus, Pane::Classes);
        press(&mut ui, KeyCode::Tab);
        press(&mut ui, KeyCode::Tab);
        assert_eq!(ui.focus, Pane::Classes);
        ui.show(vec![Pane::Proxies]);
        press(&mut ui, KeyCode::Tab);
        assert_eq!(ui.focus, Pane::Proxies);
        press(&mut ui, KeyCode::Char('x'));
        assert_eq!(ui.order_of(Pane::Proxies), "rate");
    }

    #[test]
    fn q_escape_and_control_c_quit_and_c_alone_does_not() {
        let mut ui = Ui::new();
        assert_eq!(press(&mut ui, KeyCode::Char('c')), Next::Stay);
        assert_eq!(press(&mut ui, KeyCode::Char('q')), Next::Quit);
        assert_eq!(ui.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Quit);
        assert_eq!(press(&mut ui, KeyCode::Esc), Next::Quit);
    }

    #[test]
    fn escape_leaves_the_help_first() {
        let mut ui = Ui::new();
        press(&mut ui, KeyCode::Char('?'));
        assert!(ui.help);
        assert_eq!((press(&mut ui, KeyCode::Esc), ui.help), (Next::Stay, false));
    }

    #[test]
    fn arrows_scroll_the_pane_in_focus_alone() {
        let mut ui = Ui::new();
        press(&mut ui, KeyCode::Char('l'));
        press(&mut ui, KeyCode::Down);
        press(&mut ui, KeyCode::Down);
        press(&mut ui, KeyCode::Up);
        assert_eq!(ui.scroll, [0, 1, 0, 0, 0]);
        press(&mut ui, KeyCode::Home);
        press(&mut ui, KeyCode::Up);
        assert_eq!(ui.scroll, [0; Pane::ALL.len()]);
    }
}
