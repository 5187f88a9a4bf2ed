//! A report, as Markdown and as a page: the page is made of the Markdown.
//!
//! Texts of experiments are not trusted. In our Markdown they are [escaped](plain); HTML that is left in it all the same becomes text. Their own
//! Markdown has neither HTML nor pictures, and links to pages only. What Markdown has no words for, such as a plot, is HTML with every text
//! escaped by maud, and stands on the page alone.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

use super::chart::{self, Chart};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const CHARTS: &str = include_str!("../../assets/charts/echarts.min.js");

/// Nothing is loaded from anywhere, whatever is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left: text.
    Left,
    /// To the right: numbers.
    Right,
}

/// Where a part of a report stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Everywhere,
    File,
    Page,
}

#[derive(Debug)]
enum Part {
    /// Markdown of ours.
    Ours(String),
    /// Markdown of others.
    Foreign(String),
    Html(Markup),
}

/// A report that is being written.
#[derive(Debug)]
pub struct Document {
    title: String,
    parts: Vec<(Place, Part)>,
    charts: Vec<Chart>,
    /// Every metric, for the list that the script fills.
    metrics: Option<Value>,
    /// Code that is the name of something on a page, and its address.
    links: Vec<(String, String)>,
}

impl Document {
    /// An empty one. The title is a text.
    pub fn new(title: &str) -> Self {
        let mut document = Document {
            title: title.to_owned(),
            parts: Vec::new(),
            charts: Vec::new(),
            metrics: None,
            links: Vec::new(),
        };
        document.add(&format!("# {}", plain(title)));
        document
    }

    /// Adds Markdown.
    pub fn add(&mut self, markdown: &str) {
        self.parts.push((Place::Everywhere, Part::Ours(markdown.to_owned())));
    }

    /// Adds a remark: a text of ours in small print.
    pub fn remark(&mut self, text: &str) {
        self.add(&format!("*{}*", plain(text)));
    }

    /// Adds a section that is there only if it is written; see [`heading`](Self::heading).
    pub fn heading(&mut self, title: &str) {
        self.add(&format!("## {}", plain(title)));
    }

    /// Adds a plot. It stands on the page alone, with its numbers as a table.
    pub fn chart(&mut self, chart: Chart) {
        let (number, wide) = (self.charts.len(), &chart.text.heads);
        let aligns: Vec<Align> =
            (0..wide.len()).map(|column| if column == 0 { Align::Left } else { Align::Right }).collect();
        let heads: Vec<String> = wide.iter().map(|head| plain(head)).collect();
        let row = |row: &Vec<String>| row.iter().map(|cell| plain(cell)).collect();
        let rows: Vec<Vec<String>> = chart.text.rows.iter().map(row).collect();
        let numbers = table(&heads, &rows, &aligns);
        self.html(chart::figure(number, &chart));
        if !rows.is_empty() {
            self.folded("In numbers", &numbers);
        }
        self.charts.push(chart);
    }

    pub(super) fn file(&mut self, markdown: &str) {
        self.parts.push((Place::File, Part::Ours(markdown.to_owned())));
    }

    pub(super) fn page(&mut self, markdown: &str) {
        self.parts.push((Place::Page, Part::Ours(markdown.to_owned())));
    }

    pub(super) fn foreign(&mut self, markdown: &str) {
        self.parts.push((Place::Page, Part::Foreign(markdown.to_owned())));
    }

    pub(super) fn html(&mut self, html: Markup) {
        self.parts.push((Place::Page, Part::Html(html)));
    }

    /// Markdown that a reader of the page unfolds.
    pub(super) fn folded(&mut self, summary: &str, markdown: &str) {
        self.html(html! { (PreEscaped("<details>")) summary { (summary) } });
        self.page(markdown);
        self.html(PreEscaped("</details>".to_owned()));
    }

    pub(super) fn metrics(&mut self, metrics: Value) {
        self.metrics = Some(metrics);
    }

    /// Where code with this text leads on a page.
    pub(super) fn link(&mut self, code: &str, address: String) {
        self.links.push((code.to_owned(), address));
    }

    /// As Markdown, for terminals and pull requests.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (place, part) in &self.parts {
            if let (Place::Everywhere | Place::File, Part::Ours(markdown)) = (place, part) {
                let between = if text.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{between}{}", markdown.trim_end());
            }
        }
        text
    }

    /// As a page that needs nothing but itself. Only one that has data has scripts.
    pub fn page_html(&self) -> String {
        let mut body = String::new();
        let mut writer = Writer { links: &self.links, heading: String::new(), in_section: false };
        for (_, part) in self.parts.iter().filter(|(place, _)| *place != Place::File) {
            match part {
                Part::Ours(markdown) => body.push_str(&writer.ours(markdown)),
                Part::Foreign(markdown) => body.push_str(&foreign(markdown)),
                Part::Html(html) => body.push_str(&html.0),
            }
        }
        if writer.in_section {
            body.push_str("</section>");
        }
        let data = (self.metrics.is_some() || !self.charts.is_empty())
            .then(|| json!({ "charts": self.charts, "metrics": self.metrics }));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main { (PreEscaped(body)) }
                    @if let Some(data) = data {
                        script type="application/json" id="data" { (embedded(&data)) }
                        @if !self.charts.is_empty() { script { (PreEscaped(CHARTS)) } }
                        script { (PreEscaped(SCRIPT)) }
                    }
                }
            }
        };
        page.into_string()
    }
}

/// JSON inside a script element: nothing in it ends the element.
fn embedded(data: &Value) -> PreEscaped<String> {
    let json = data.to_string();
    PreEscaped(json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

/// Makes HTML of our Markdown: a section for each heading, tables that scroll, links of code.
struct Writer<'a> {
    links: &'a [(String, String)],
    /// The last heading: what a table is of.
    heading: String,
    in_section: bool,
}

impl Writer<'_> {
    fn ours(&mut self, markdown: &str) -> String {
        let mut in_heading = false;
        let mut events = Vec::new();
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    if level == HeadingLevel::H2 {
                        let end = if self.in_section { "</section>" } else { "" };
                        events.push(Event::Html(format!("{end}<section>").into()));
                        self.in_section = true;
                    }
                    self.heading.clear();
                    in_heading = true;
                }
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Text(ref text) if in_heading => self.heading.push_str(text),
                Event::Start(Tag::Table(_)) => {
                    let label = &self.heading;
                    let scroll = html! { (PreEscaped("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"")) (label) (PreEscaped("\">")) };
                    events.push(Event::Html(scroll.0.into()));
                }
                _ => {}
            }
            // Our lines break where the text of a list item goes on to its reasons.
            let event = if event == Event::SoftBreak { Event::HardBreak } else { event };
            let ends_table = event == Event::End(TagEnd::Table);
            let address = match &event {
                Event::Code(code) => self.links.iter().find(|(name, _)| **name == **code),
                _ => None,
            };
            if let Some((_, address)) = address {
                let (dest_url, title, id) = (address.clone().into(), CowStr::from(""), CowStr::from(""));
                events.push(Event::Start(Tag::Link { link_type: LinkType::Inline, dest_url, title, id }));
                events.extend([event, Event::End(TagEnd::Link)]);
            } else {
                events.push(without_html(event));
            }
            if ends_table {
                events.push(Event::Html("</div>".into()));
            }
        }
        let mut html = rendered(events.into_iter());
        for (word, class) in [
            ("holds", "holds"),
            ("differs", "differs"),
            ("fails", "fails"),
            ("undecided", "undecided"),
            ("for some set-up", "differs"),
            ("for none", "fails"),
        ] {
            html = html.replace(
                &format!("<strong>{word}</strong>"),
                &format!("<strong class=\"{class}\">{word}</strong>"),
            );
        }
        html
    }
}

fn rendered<'a>(events: impl Iterator<Item = Event<'a>>) -> String {
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    // In text, quotes are escaped.
    html.replace(" style=\"text-align: right\"", " class=\"number\"")
        .replace(" style=\"text-align: left\"", "")
        .replace(" style=\"text-align: center\"", "")
}

fn without_html(event: Event) -> Event {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        other => other,
    }
}

/// Markdown of others: headings below ours.
fn foreign(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let html = rendered(Parser::new_ext(markdown, options).map(tame));
    // HTML of the text is escaped, so these are tables.
    let scroll = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Table\"><table>";
    html.replace("<table>", scroll).replace("</table>", "</table></div>")
}

fn tame(event: Event) -> Event {
    match without_html(event) {
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: below(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
        Event::Start(
            Tag::Image { dest_url, title, link_type, id } | Tag::Link { dest_url, title, link_type, id },
        ) => Event::Start(Tag::Link { dest_url: safe(dest_url), title, link_type, id }),
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        Event::Start(Tag::CodeBlock(_)) => Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)),
        other => other,
    }
}

fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// A link to a page or a file beside this one; any other leads nowhere.
fn safe(url: CowStr) -> CowStr {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https" | "mailto") => url,
        None if !url.starts_with("//") => url,
        _ => "#".into(),
    }
}

/// Text in a line of Markdown: no markup of its own, no end of a cell.
pub fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            // Before a space it begins nothing, and is read in a terminal.
            '<' if characters.peek().is_none_or(|next| *next != ' ') => escaped.push_str("&lt;"),
            '|' | '*' | '[' | ']' | '`' | '\\' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The same of a sentence in which code stands between backticks.
pub(super) fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let set = |(place, part): (usize, &&str)| {
        if place.is_multiple_of(2) { plain(part) } else { format!("`{}`", part.replace('\n', " ")) }
    };
    parts.iter().enumerate().map(set).collect()
}

/// A text as it is, in a fence that is longer than any in it.
pub fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// A column of a table is no wider in the file than so many characters; longer cells end where they end.
const MAX_WIDTH: usize = 60;

/// A table whose columns are as wide as what is in them. Cells are Markdown already but for what would end them.
pub fn table<S: AsRef<str>>(heads: &[S], rows: &[Vec<String>], aligns: &[Align]) -> String {
    let cell = |text: &str| text.replace('\n', " ").replace("\\|", "|").replace('|', "\\|");
    let heads: Vec<String> = heads.iter().map(|head| cell(head.as_ref())).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(heads.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or(0).clamp(3, MAX_WIDTH)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).zip(aligns).map(|((text, width), align)| match align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().zip(aligns).map(|(width, align)| match align {
        Align::Left => "-".repeat(*width),
        Align::Right => "-".repeat(width - 1) + ":",
    });
    let rule = format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
    line(&heads) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(markdown: &str) -> String {
        Writer { links: &[], heading: String::new(), in_section: false }.ours(markdown)
    }

    #[test]
    fn html_in_a_file_is_text() {
        let markdown = "a <script>alert(1)</script> b\n\n<img src=x onerror=alert(1)>\n\n<div>\nc\n</div>\n";
        for page in [foreign(markdown), ours(markdown), ours(&plain(markdown)), ours(&inline(markdown))] {
            for tag in ["<script", "<img", "<div"] {
                assert!(!page.contains(tag), "{page}");
            }
            assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
        }
    }

    #[test]
    fn links_lead_to_pages_and_pictures_are_links() {
        let page = foreign(
            "[a](javascript:alert(1)) [b](https://example.org/x) ![c](https://example.org/p.png) [d](data:text/html,x)",
        );
        assert!(!page.contains("javascript:") && !page.contains("data:") && !page.contains("<img"), "{page}");
        assert!(
            page.contains("href=\"https://example.org/x\"")
                && page.contains("href=\"https://example.org/p.png\"")
        );
        let page = ours(&plain("[a](javascript:alert(1)) ![c](https://example.org/p.png)"));
        assert!(!page.contains("href") && !page.contains("<img"), "{page}");
    }

    #[test]
    fn headings_are_below_those_of_the_page_and_tables_are_tables() {
        let page = foreign("# One\n\n### Three\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n");
        assert!(
            page.contains("<h3>One</h3>")
                && page.contains("<h4>Three</h4>")
                && page.contains("<td class=\"number\">2</td>")
                && page.contains("class=\"scroll\"")
        );
    }

    #[test]
    fn a_table_is_aligned_and_its_cells_cannot_end_it() {
        let rows = vec![vec!["a|b".into(), "1".into()], vec!["c\nd".into(), "1000".into()]];
        let text = table(&["x", "y"], &rows, &[Align::Left, Align::Right]);
        assert_eq!(text, "| x    |    y |\n| ---- | ---: |\n| a\\|b |    1 |\n| c d  | 1000 |\n");
    }

    #[test]
    fn texts_of_files_have_no_markup() {
        assert_eq!(plain("<script> *a* [b](c)|d\ne"), "&lt;script> \\*a\\* \\[b\\](c)\\|d e");
        assert_eq!(plain("1 s < 2 s"), "1 s < 2 s");
    }

    #[test]
    fn code_in_a_reason_is_set_as_code_and_nothing_else_is() {
        let set = |text: &str| ours(&inline(text));
        assert_eq!(set("see `a = <b>` there"), "<p>see <code>a = &lt;b&gt;</code> there</p>\n");
        assert_eq!(set("a ` alone"), "<p>a ` alone</p>\n");
    }

    #[test]
    fn a_text_cannot_end_its_fence() {
        let page = ours(&fenced("toml", "a = 1\n```\n# <b>\n````\n"));
        assert_eq!(page.matches("<code").count(), 1, "{page}");
        assert!(page.contains("```\n# &lt;b&gt;\n````"), "{page}");
    }
}
