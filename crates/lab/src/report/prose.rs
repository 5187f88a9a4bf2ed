//! Markdown of files as HTML. Files are untrusted: HTML in them is text, links lead to pages only, and no picture is loaded.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// As HTML, with headings below those of the page.
pub(super) fn html(markdown: &str) -> Markup {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let mut page = String::new();
    html::push_html(&mut page, Parser::new_ext(markdown, options).map(tame));
    PreEscaped(page)
}

fn tame(event: Event) -> Event {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_in_a_file_is_text() {
        let page =
            html("a <script>alert(1)</script> b\n\n<img src=x onerror=alert(1)>\n\n<div>\nc\n</div>\n")
                .into_string();
        for tag in ["<script", "<img", "<div"] {
            assert!(!page.contains(tag), "{page}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }

    #[test]
    fn links_lead_to_pages_and_pictures_are_links() {
        let page = html("[a](javascript:alert(1)) [b](https://example.org/x) ![c](https://example.org/p.png) [d](data:text/html,x)")
            .into_string();
        assert!(!page.contains("javascript:") && !page.contains("data:") && !page.contains("<img"), "{page}");
        assert!(
            page.contains("href=\"https://example.org/x\"")
                && page.contains("href=\"https://example.org/p.png\"")
        );
    }

    #[test]
    fn headings_are_below_those_of_the_page_and_tables_are_tables() {
        let page = html("# One\n\n### Three\n\n| a | b |\n| - | - |\n| 1 | 2 |\n").into_string();
        assert!(
            page.contains("<h3>One</h3>") && page.contains("<h4>Three</h4>") && page.contains("<td>2</td>")
        );
    }
}
