//! The files under experiments/ can be run, in full and quickly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use trunkline_engine::Engine;
use trunkline_lab::document::Document;
use trunkline_lab::experiment::ClaimKind;

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let files =
        folders.filter(|folder| folder.path().is_dir()).flat_map(|folder| fs::read_dir(folder.path()));
    let mut files: Vec<_> = files.flatten().flatten().map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn every_experiment_can_be_planned() {
    let files = files();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in &files {
        let planned = Document::read(file).and_then(|mut document| {
            document.use_recordings(None)?;
            let points = document.plan()?.len();
            document.clone().quicken_for(&Engine::TESTBED)?;
            document.quicken()?;
            Ok((points, document.plan()?.len()))
        });
        match planned {
            Ok((full, quick)) => assert!(full >= quick && quick > 0, "{}: {full} {quick}", file.display()),
            Err(mistakes) => wrong.push(mistakes.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The numbers of a row of a table in Markdown: claims of the paper, published values, claims of ours; of each, how many hold, differ,
/// fail.
type Row = [Vec<usize>; 3];

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect(path)
}

/// `72 ✓ 21 ≈ 9 ✗`, or `–`.
fn marked(cell: &str) -> Vec<usize> {
    let words: Vec<&str> = cell.split_whitespace().collect();
    let of = |mark: &str| {
        words.iter().position(|word| *word == mark).and_then(|at| words[at - 1].parse().ok()).unwrap_or(0)
    };
    ["✓", "≈", "✗"].map(of).into()
}

/// `72, 21, 9`, or `–`.
fn listed(cell: &str) -> Vec<usize> {
    let numbers: Vec<usize> = cell.split(',').filter_map(|number| number.trim().parse().ok()).collect();
    if numbers.is_empty() { vec![0; 3] } else { numbers }
}

fn row(page: &str, begins: &str, skip: usize, read: fn(&str) -> Vec<usize>) -> Row {
    let line =
        page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("no row {begins}"));
    let cells: Vec<&str> = line.trim_matches('|').split('|').skip(skip).map(str::trim).collect();
    [0, 1, 2].map(|column| read(cells[column]))
}

/// The pages that say how the claims came out are of these claims: neither more nor fewer, and both the same.
#[test]
fn the_verdicts_of_both_pages_are_of_the_claims_in_the_files() {
    let (papers, verdicts) = (page("docs/papers/README.md"), page("docs/verdicts.md"));
    let documents: Vec<Document> =
        files().iter().map(|file| Document::read(file).expect("a sound file")).collect();
    let mut all: Row = [vec![0; 3], vec![0; 3], vec![0; 3]];
    for (name, paper) in [
        ("| Lee et al.", "lee2002"),
        ("| Kung and Wang", "kung1998"),
        ("| Honda et al.", "honda2005"),
        ("| Damjanovic et al.", "damjanovic2007"),
        ("| Bosau", "bosau2004"),
        ("| Cangialosi et al.", "bundler2021"),
        ("| RFC 9743", "rfc9743"),
    ] {
        let said = row(&papers, name, 1, listed);
        assert_eq!(said, row(&verdicts, &format!("| {paper} "), 2, marked), "{paper}");
        let all_experiments = documents.iter().map(Document::experiment);
        let experiments: Vec<_> =
            all_experiments.filter(|experiment| experiment.paper.as_deref() == Some(paper)).collect();
        let count = |kind| {
            let claims = experiments.iter().flat_map(|experiment| &experiment.claims);
            claims.filter(|claim| claim.kind == kind).count()
        };
        let published = experiments.iter().flat_map(|experiment| &experiment.published);
        let values =
            published.flat_map(|published| &published.values).filter(|cell| !cell.calibrated).count();
        let sums: Vec<usize> = said.iter().map(|numbers| numbers.iter().sum()).collect();
        assert_eq!(sums, [count(ClaimKind::Paper), values, count(ClaimKind::Ours)], "{paper}");
        for (sum, numbers) in all.iter_mut().zip(&said) {
            sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
    }
    assert_eq!(row(&papers, "| all ", 1, listed), all);
}

/// `17 hold, 48 for some set-up, 8 for none`, `17, 48, 8`, or `–`.
fn set_ups(cell: &str) -> Vec<usize> {
    let numbers = cell.split(',').filter_map(|part| part.split_whitespace().next()?.parse().ok());
    let numbers: Vec<usize> = numbers.collect();
    if numbers.is_empty() { vec![0; 3] } else { numbers }
}

/// "- `lee2002-table1`, 64 settings of 7 unknowns."
fn is_explanation(line: &str, id: &str) -> bool {
    line.starts_with(&format!("- `{id}`, ")) && line.contains(" of ")
}

/// The page of the papers says of the settings of unknowns what the verdicts say, and these count what the experiments ask that they explain.
#[test]
fn the_set_ups_on_the_papers_page_are_those_of_the_verdicts_and_of_experiments_with_unknowns() {
    let (papers, verdicts) = (page("docs/papers/README.md"), page("docs/verdicts.md"));
    let after = |page: &str, head: &str| -> String {
        page[page.find(head).unwrap_or_else(|| panic!("no {head}"))..].to_owned()
    };
    let papers = after(&papers, "for some set-up, for none |");
    let table = after(&verdicts, "over all set-ups");
    let documents: Vec<Document> =
        files().iter().map(|file| Document::read(file).expect("a sound file")).collect();
    let cells = |page: &str, begins: &str, skip: usize| -> [Vec<usize>; 2] {
        let line =
            page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("no row {begins}"));
        let cells: Vec<&str> = line.trim_matches('|').split('|').skip(skip).map(str::trim).collect();
        [set_ups(cells[0]), set_ups(cells[1])]
    };
    for (name, paper) in [
        ("| Lee et al.", "lee2002"),
        ("| Kung and Wang", "kung1998"),
        ("| Honda et al.", "honda2005"),
        ("| Damjanovic et al.", "damjanovic2007"),
        ("| Bosau", "bosau2004"),
    ] {
        let [claims, values] = cells(&table, &format!("| {paper} "), 2);
        assert_eq!(cells(&papers, name, 1), [claims.clone(), values.clone()], "{paper}");
        let explained: Vec<_> = documents
            .iter()
            .map(Document::experiment)
            .filter(|experiment| experiment.paper.as_deref() == Some(paper))
            .filter(|experiment| verdicts.lines().any(|line| is_explanation(line, &experiment.id)))
            .collect();
        assert!(explained.iter().all(|experiment| !experiment.unknown.is_empty()), "{paper}");
        let all = explained.iter().flat_map(|experiment| &experiment.claims);
        let own = all.filter(|claim| claim.kind == ClaimKind::Paper).count();
        let published = explained.iter().flat_map(|experiment| &experiment.published);
        let cells = published.flat_map(|published| &published.values).filter(|cell| !cell.calibrated).count();
        assert_eq!([claims.iter().sum::<usize>(), values.iter().sum()], [own, cells], "{paper}");
    }
}

/// Two experiments can share a value only if both write it in the same way.
#[test]
fn shared_unknowns_of_a_paper_have_the_same_choices_or_some_of_them() {
    type Choices = Vec<(String, BTreeSet<String>)>;
    let mut seen: BTreeMap<(String, String), Choices> = BTreeMap::new();
    for file in files() {
        let document = Document::read(&file).expect("it can be read");
        let experiment = document.experiment();
        for (name, unknown) in experiment.unknown.iter().filter(|(_, unknown)| unknown.shared) {
            let values = unknown.values.iter().map(ToString::to_string);
            let choices: BTreeSet<String> = values.chain(unknown.variants.keys().cloned()).collect();
            let paper = experiment.paper.clone().expect("a shared unknown is of a paper");
            let others = seen.entry((paper, name.clone())).or_default();
            for (other, theirs) in &*others {
                let id = &experiment.id;
                assert!(choices.is_subset(theirs) || theirs.is_subset(&choices), "{id} and {other}: {name}");
            }
            others.push((experiment.id.clone(), choices));
        }
    }
    assert!(seen.values().all(|experiments| experiments.len() > 1), "one alone shares nothing: {seen:?}");
    assert!(seen.len() > 10, "{seen:?}");
}
