//! The keys that docs/configuration.md lists, which tests compare with its man page.

/// A row of a table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key<'p> {
    pub(super) name: &'p str,
    /// `string`, `integer or string`, `list of strings` and so on.
    kind: &'p str,
    default: &'p str,
    allowed: &'p str,
}

/// The keys in the tables between a heading that starts with `heading` and the next of its rank or a higher one.
pub(super) fn keys<'p>(page: &'p str, heading: &str) -> Vec<Key<'p>> {
    let rank = heading.bytes().take_while(|byte| *byte == b'#').count();
    let mut lines = page.lines().skip_while(|line| !line.starts_with(heading));
    lines.next();
    let ends = |line: &str| {
        let found = line.bytes().take_while(|byte| *byte == b'#').count();
        (1..=rank).contains(&found) && line[found..].starts_with(' ')
    };
    let mut keys = Vec::new();
    let mut columns: Option<Vec<&str>> = None;
    for line in lines.take_while(|line| !ends(line)) {
        if line.starts_with('#') {
            // A part of a lower rank has keys of its own.
            break;
        }
        let Some(cells) = cells(line) else {
            columns = None;
            continue;
        };
        let Some(columns) = &columns else {
            columns = Some(cells);
            continue;
        };
        if columns.first() != Some(&"key") || cells.iter().all(|cell| cell.starts_with("---")) {
            continue;
        }
        let cell = |column| {
            let place = columns.iter().position(|name| *name == column);
            place.and_then(|place| cells.get(place)).copied().unwrap_or_default()
        };
        keys.push(Key {
            name: cell("key").trim_matches('`'),
            kind: cell("type"),
            default: cell("default"),
            allowed: cell("allowed"),
        });
    }
    keys
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_part_and_not_of_the_next() {
        let page = "## One\n\n| key | type | default | allowed | R |\n| --- | --- | --- | --- | --- |\n\
                    | `a` | string | none | `\"x\"` | |\n\ntext\n\n| word | take |\n| --- | --- |\n| `\"w\"` | all |\n\n\
                    ### Within\n\n| key | type | allowed |\n| --- | --- | --- |\n| `b` | integer | 1 to 2 |\n\n\
                    ## Two\n\n| key | type | default | allowed |\n| --- | --- | --- | --- |\n| `c` | table | – | – |\n";
        let names = |heading| keys(page, heading).iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(
            (names("## One"), names("### Within"), names("## Two")),
            (vec!["a"], vec!["b"], vec!["c"])
        );
        let within = keys(page, "### Within")[0];
        assert_eq!(within, Key { name: "b", kind: "integer", default: "", allowed: "1 to 2" });
    }
}
