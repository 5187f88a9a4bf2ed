//! trunkline.toml(5): the page docs/configuration.md as a man page.

use std::borrow::Cow;
use std::fmt::Write as _;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::CONFIGURATION;

/// The man page.
pub(in crate::commands) fn page() -> String {
    let head = concat!(
        ".TH trunkline.toml 5 \"\" \"trunkline ",
        env!("CARGO_PKG_VERSION"),
        "\" \"Trunkline\"\n.SH NAME\ntrunkline.toml \\- configuration of a Trunkline site\n"
    );
    let mut page = format!("{head}{}{FILES}.SH EXAMPLES\n", roff(CONFIGURATION));
    for (about, text) in EXAMPLES {
        let _ = write!(page, ".PP\n{about}\n.PP\n.nf\n{}\n.fi\n", escaped(text.trim_end()));
    }
    page + ENDING
}

/// The examples that come with the program.
const EXAMPLES: [(&str, &str); 2] = [
    ("The site that is dialled:", include_str!("../../../../../examples/two-sites/a.toml")),
    ("The site that dials it:", include_str!("../../../../../examples/two-sites/b.toml")),
];

const FILES: &str = r".SH FILES
.TP
\fI/etc/trunkline/NAME.toml\fR
the file of the site that the unit \fBtrunkline@NAME\fR runs
.TP
\fI/run/trunkline/NAME.sock\fR
its control socket, unless \fBcontrol.socket\fR says otherwise
";

const ENDING: &str = r".PP
\fBtrunkline check FILE\fR says what a file means, or what is wrong with it and where.
\fBtrunkline schema\fR prints the JSON Schema of such files, for editors.
.SH SEE ALSO
.BR trunkline (1),
.BR trunkline\-up (1),
.BR trunkline\-check (1)
";

/// A text of roff: its own marks in it mean nothing.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A dot or a quote in front of a line would be a request.
    text.lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Markdown as roff. A table is a list: the first cell of a row, and below it the others with their columns' names.
fn roff(markdown: &str) -> String {
    let mut page = String::new();
    let mut columns: Vec<String> = Vec::new();
    let mut row: Vec<String> = Vec::new();
    let mut cell = String::new();
    let (mut in_table, mut in_title, mut in_code) = (false, false, false);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        let text: Cow<'_, str> = match event {
            // The page's own title is its name; its first text describes it.
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => {
                in_title = true;
                "".into()
            }
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => {
                in_title = false;
                ".SH DESCRIPTION\n".into()
            }
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => ".SH ".into(),
            Event::Start(Tag::Heading { .. }) => ".SS ".into(),
            Event::Start(Tag::Paragraph) => ".PP\n".into(),
            Event::Start(Tag::Item) => ".IP \\(bu 2\n".into(),
            Event::Start(Tag::CodeBlock(_)) => {
                in_code = true;
                ".PP\n.nf\n.RS 4\n".into()
            }
            Event::End(TagEnd::CodeBlock) => {
                in_code = false;
                ".RE\n.fi\n".into()
            }
            Event::End(TagEnd::Heading(_) | TagEnd::Paragraph | TagEnd::Item)
            | Event::SoftBreak
            | Event::HardBreak => "\n".into(),
            Event::Start(Tag::Emphasis) => "\\fI".into(),
            Event::Start(Tag::Strong) => "\\fB".into(),
            Event::End(TagEnd::Emphasis | TagEnd::Strong) => "\\fR".into(),
            Event::Text(text) if in_code => (escaped(&text) + "\n").into(),
            Event::Text(text) if !in_title => escaped(&text).into(),
            Event::Code(text) => format!("\\fB{}\\fR", escaped(&text)).into(),
            Event::Start(Tag::Table(_)) => {
                in_table = true;
                "".into()
            }
            Event::End(TagEnd::Table) => {
                in_table = false;
                columns.clear();
                "".into()
            }
            Event::End(TagEnd::TableCell) => {
                row.push(std::mem::take(&mut cell));
                "".into()
            }
            Event::End(TagEnd::TableHead) => {
                columns = std::mem::take(&mut row);
                "".into()
            }
            Event::End(TagEnd::TableRow) => {
                list(&mut page, &columns, &std::mem::take(&mut row));
                "".into()
            }
            _ => "".into(),
        };
        if in_table { &mut cell } else { &mut page }.push_str(&text);
    }
    // Blank lines are paragraphs of their own in roff.
    page.lines().filter(|line| !line.is_empty()).fold(String::new(), |page, line| page + line + "\n")
}

/// A row of a table.
fn list(page: &mut String, columns: &[String], row: &[String]) {
    let Some((first, others)) = row.split_first() else { return };
    let named = columns.iter().skip(1).zip(others).filter(|(_, cell)| !cell.is_empty() && *cell != "–");
    let parts: Vec<String> = named
        .map(|(column, cell)| match column.as_str() {
            "" => cell.clone(),
            "R" => "\\fItaken on by a reload\\fR".to_owned(),
            column => format!("{column}: {cell}"),
        })
        .collect();
    let first = if first.is_empty() { "\\ " } else { first };
    let _ = write!(
        page,
        ".TP\n{first}\n{}\n",
        if parts.is_empty() { "\\ ".to_owned() } else { parts.join("; ") }
    );
}

#[cfg(test)]
mod tests {
    use super::super::keys::keys;
    use super::*;

    #[test]
    fn markdown_becomes_roff() {
        let markdown = "# Title\n\nOne `key` of *two*,\n**R**.\n\n## Part\n\n| key | type | R |\n| --- | --- | --- |\n\
                        | `a-b` | string | **R** |\n| `c` | – | |\n\n```toml\n.x = \"\\\\\"\n```\n\n- item\n";
        let expected = ".SH DESCRIPTION\n.PP\nOne \\fBkey\\fR of \\fItwo\\fR,\n\\fBR\\fR\\&.\n.SH Part\n\
                        .TP\n\\fBa\\-b\\fR\ntype: string; \\fItaken on by a reload\\fR\n.TP\n\\fBc\\fR\n\\ \n\
                        .PP\n.nf\n.RS 4\n\\&.x = \"\\e\\e\"\n.RE\n.fi\n.IP \\(bu 2\nitem\n";
        assert_eq!(roff(markdown), expected);
    }

    #[test]
    fn the_page_has_every_key_and_its_sections() {
        let page = page();
        for section in ["NAME", "DESCRIPTION", "FILES", "EXAMPLES", "SEE ALSO"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section}");
        }
        for heading in
            ["## The site", "## `[tun]`", "## `[lanes]`", "## `[[classes]]`", "### `queue`", "## `[[peers]]`"]
        {
            let keys = keys(CONFIGURATION, heading);
            assert!(keys.len() > 2, "{heading}");
            for key in keys {
                assert!(
                    page.contains(&format!(".TP\n\\fB{}\\fR\n", escaped(key.name))),
                    "{heading} {}",
                    key.name
                );
            }
        }
    }
}
