//! A report as Markdown, for terminals and pull requests: claims and tables.

use std::fmt::Write as _;

use super::material::Material;
use super::table::{Grid, GridCell, GridRow, all};
use super::{QUICK_MEANING, page, paper, sign, told, verb, word};
use crate::experiment::ClaimKind;
use crate::verdict::Tally;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Text in a line of Markdown: no markup of its own, no end of a cell.
pub(super) fn plain(text: &str) -> String {
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

/// A table whose columns are as wide as what is in them. Cells are Markdown already but for what would end them.
pub(super) fn table<S: AsRef<str>>(heads: &[S], rows: &[Vec<String>], aligns: &[Align]) -> String {
    let cell = |text: &str| text.replace('\n', " ").replace("\\|", "|").replace('|', "\\|");
    let heads: Vec<String> = heads.iter().map(|head| cell(head.as_ref())).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(heads.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or(0).max(3)
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

fn cell(cell: &GridCell) -> String {
    let ours = match &cell.ours {
        Some((mean, Some(half))) => format!("{mean} ± {half}"),
        Some((mean, None)) => mean.clone(),
        None => "–".into(),
    };
    match &cell.paper {
        Some(paper) => {
            let ratio = paper.ratio.as_ref().map(|ratio| format!(", {ratio}")).unwrap_or_default();
            format!("{ours} (paper {}{ratio} {})", paper.value, sign(paper.verdict))
        }
        None => ours,
    }
}

fn grid(grid: &Grid) -> String {
    let heads: Vec<String> = grid
        .heads
        .iter()
        .cloned()
        .chain(grid.columns.iter().map(|column| match &grid.across {
            _ if column.is_empty() => "ours".into(),
            Some(axis) => format!("{axis}: {column}"),
            None => column.clone(),
        }))
        .map(|head| plain(&head))
        .collect();
    let labels = |(row, spans): (&GridRow, Vec<Option<usize>>)| -> Vec<String> {
        let label = |(label, span): (&String, Option<usize>)| span.map_or(String::new(), |_| plain(label));
        row.labels.iter().zip(spans).map(label).chain(row.cells.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = grid.rows.iter().zip(grid.spans()).map(labels).collect();
    let aligns: Vec<Align> = (0..heads.len())
        .map(|column| if column < grid.heads.len() { Align::Left } else { Align::Right })
        .collect();
    let mut text = format!("\n### {}\n\n{}", plain(&grid.title), table(&heads, &rows, &aligns));
    if grid.is_extract {
        text.push_str("\nWhat people ask first. Every metric is in results.jsonl.\n");
    }
    for (metrics, why) in &grid.reasons {
        let _ = writeln!(text, "\nWhy ours differs ({}): {}", plain(&metrics.join("; ")), plain(why));
    }
    text
}

/// `3 hold, 1 differs, 1 fails`.
pub(super) fn counted(count: Tally) -> String {
    let parts = told(count).map(|(verdict, number)| format!("{number} {}", verb(verdict, number)));
    parts.collect::<Vec<_>>().join(", ")
}

/// An experiment's report.
pub fn markdown(material: &Material) -> String {
    let experiment = material.experiment;
    let mut text = format!("# {}\n\n`{}`", plain(&experiment.title), experiment.id);
    if let Some(id) = &experiment.paper {
        let citation = paper::citation(id).unwrap_or_else(|| id.clone());
        let source = experiment.source.as_ref().map(|source| format!(", {source}")).unwrap_or_default();
        let _ = write!(text, " · {}", plain(&format!("{citation}{source}")));
    }
    text.push('\n');
    if experiment.is_quick() {
        let _ = write!(text, "\n**{}**\n", plain(QUICK_MEANING));
    }
    let counts = [
        ("the paper’s claims", material.paper_claims()),
        ("the paper’s values", material.judgement.cells()),
        ("claims of ours", material.our_claims()),
    ];
    for (what, count) in counts.into_iter().filter(|(_, count)| count.total() > 0) {
        let _ = write!(text, "\n- {what}: {}", counted(count));
    }
    text.push('\n');

    if !material.judgement.claims.is_empty() {
        let rows: Vec<Vec<String>> = experiment
            .claims
            .iter()
            .zip(&material.judgement.claims)
            .map(|(claim, outcome)| {
                let whose = if claim.kind == ClaimKind::Ours { " *(ours)*" } else { "" };
                vec![
                    format!("{} {}", sign(outcome.verdict), word(outcome.verdict)),
                    format!("{}{whose}", plain(&outcome.text)),
                    plain(&outcome.why),
                ]
            })
            .collect();
        let _ = write!(
            text,
            "\n## Claims\n\n{}",
            table(&["verdict", "claim", "because"], &rows, &[Align::Left; 3])
        );
    }
    let grids = all(material);
    if !grids.is_empty() {
        text.push_str("\n## Tables\n");
    }
    for table in &grids {
        text.push_str(&grid(table));
    }
    if !grids.is_empty() && material.repeats() {
        let _ = writeln!(text, "\n{}", page::REPEATS);
    }
    let _ = write!(text, "\n## To run it again\n\n```sh\n{}\n```\n", page::commands(material).join("\n"));
    let _ = writeln!(
        text,
        "\nTrunkline {}, engine `{}`, {}.",
        material.version(),
        material.engine(),
        page::runs(material)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
