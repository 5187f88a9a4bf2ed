//! Reading what is right of a file in which something is wrong, so that its other mistakes are found in the same go.

use toml::{Table, Value};

use super::findings::Finding;
use super::key::{KeyPath, index_of};
use super::read::{Format, read};
use super::walk::Form;

/// Reads a tree without the values that have mistakes of form, and returns these mistakes.
///
/// An unknown key is ignored, wherever it is. A wrong value in a table is left out, and the rest of the table is read. If the table needs
/// the key, or if the value is in a list of tables, the whole entry at the top of the file is left out: a default in place of one
/// element's value would be the cause of further mistakes between the elements.
///
/// Nothing is read if there is no mistake and still nothing can be read, or if a key at the top is missing.
pub fn read_partly<T: Format>(tree: &Table) -> (Option<T>, Vec<Finding>) {
    let Form { mut found, unknown, .. } = Form::of::<T>(tree);
    if found.is_empty() {
        match read::<T>(tree) {
            Ok(all) => return (Some(all), found),
            Err(more) => found = more,
        }
    }
    let rest = |keep_tables: bool| {
        let mut rest = tree.clone();
        for Finding { path, .. } in &found {
            if unknown.contains(path) || keep_tables && is_in_tables(tree, path) {
                remove(&mut rest, path);
            } else if let Some(top) = path.keys().next() {
                rest.remove(top);
            }
        }
        T::deserialize(Value::Table(rest)).ok()
    };
    (rest(true).or_else(|| rest(false)), found)
}

/// Whether only tables are above a value.
fn is_in_tables(tree: &Table, path: &KeyPath) -> bool {
    let keys: Vec<&str> = path.keys().collect();
    let Some((_, way)) = keys.split_last() else { return false };
    way.iter().try_fold(tree, |at, key| at.get(*key)?.as_table()).is_some()
}

/// Removes a key of a table.
fn remove(tree: &mut Table, path: &KeyPath) {
    let keys: Vec<&str> = path.keys().collect();
    let Some((last, way)) = keys.split_last() else { return };
    let Some((first, way)) = way.split_first() else {
        tree.remove(*last);
        return;
    };
    let found = way.iter().try_fold(tree.get_mut(*first), |at, key| {
        Some(match at? {
            Value::Table(table) => table.get_mut(*key),
            Value::Array(list) => index_of(key).and_then(|index| list.get_mut(index)),
            _ => None,
        })
    });
    if let Some(Some(Value::Table(table))) = found {
        table.remove(*last);
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Site {
        name: String,
        tun: Tun,
        peers: Vec<Tun>,
        metrics: Option<Metrics>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Metrics {
        listen: String,
        remote: bool,
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Tun {
        #[schemars(range(min = 68, max = 9000))]
        mtu: u32,
        queues: u16,
    }

    impl Format for Site {}

    fn partly(text: &str) -> (Option<Site>, Vec<String>) {
        let (site, found) = read_partly::<Site>(&toml::from_str(text).unwrap());
        (site, found.iter().map(|one| one.path.to_string()).collect())
    }

    #[test]
    fn what_is_right_is_read_beside_what_is_wrong() {
        let tun = |mtu| Tun { mtu, queues: 2 };
        let text =
            "nmae = 1\nname = \"a\"\n[tun]\nmtu = 100\nqueues = 2\nmut = 3\n[[peers]]\nx = 1\nmtu = 70\n";
        let (site, found) = partly(text);
        let peers = vec![Tun { mtu: 70, queues: 0 }];
        assert_eq!(site, Some(Site { name: "a".to_owned(), tun: tun(100), peers, ..Site::default() }));
        assert_eq!(found, ["nmae", "tun.mut", "peers[0].x"]);
    }

    #[test]
    fn a_value_out_of_range_or_of_another_type_is_left_out_and_the_rest_of_its_table_is_read() {
        for mtu in ["67", "9001", "\"100\"", "100.0"] {
            let (site, found) = partly(&format!(
                "name = \"a\"\n[tun]\nqueues = 2\nmtu = {mtu}\n[[peers]]\nmtu = 70\nqueues = 2\n"
            ));
            let peers = vec![Tun { mtu: 70, queues: 2 }];
            let tun = Tun { mtu: 0, queues: 2 };
            assert_eq!(site, Some(Site { name: "a".to_owned(), tun, peers, ..Site::default() }), "{mtu}");
            assert_eq!(found, ["tun.mtu"]);
        }
    }

    #[test]
    fn a_list_with_a_wrong_value_and_a_table_without_a_key_that_it_needs_are_left_out() {
        let (site, found) =
            partly("name = \"a\"\n[[peers]]\nmtu = 70\n[[peers]]\nmtu = 1\n[tun]\nqueues = 2\n");
        let tun = Tun { mtu: 0, queues: 2 };
        assert_eq!(site, Some(Site { name: "a".to_owned(), tun, ..Site::default() }));
        assert_eq!(found, ["peers[1].mtu"]);
        let (site, found) =
            partly("name = \"a\"\n[metrics]\nlisten = 5\nremote = true\n[tun]\nmtu = 67\nqueues = 2\n");
        assert_eq!(site, Some(Site { name: "a".to_owned(), ..Site::default() }), "without both tables");
        assert_eq!(found, ["metrics.listen", "tun.mtu"]);
    }
}
