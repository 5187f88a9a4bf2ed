use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;

use super::columns::Table;
use super::*;
use crate::results::{Outcome, Point, SeriesOutcome};

const IDENTITY: Identity<'static> =
    Identity { document: "id = \"x\"\nruns = 5\n", engine: "sim", version: "0.1.0" };

/// A directory that is gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trunkline-store-{}-{number}", std::process::id()));
        Temporary(path.join("x"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().expect("its parent"));
    }
}

fn run(seed: u64) -> Run {
    let mut metrics = indexmap::IndexMap::from([("tcp.goodput".to_owned(), seed as f64 / 3.0)]);
    if seed == 2 {
        metrics.insert("tcp.delay.mean".to_owned(), 0.25);
    }
    let series = SeriesOutcome {
        times: vec![0.0, 0.5],
        columns: [("core.queue.packets".to_owned(), vec![Some(1.0), None])].into(),
    };
    Run {
        experiment: "x".to_owned(),
        engine: IDENTITY.engine.to_owned(),
        point: Point::from([("delay".to_owned(), "5 ms".to_owned())]),
        seed,
        outcome: Outcome {
            metrics,
            series: Some(series),
            digest: format!("{seed:016x}"),
            ..Outcome::default()
        },
        version: IDENTITY.version.to_owned(),
    }
}

fn begin(path: &Path, how: Begin) -> Result<(Journal, Vec<Run>), StoreError> {
    Journal::begin(Hold::take(path)?, &IDENTITY, how)
}

#[test]
fn what_was_appended_is_there_and_is_gone_on_with() {
    let temporary = Temporary::new();
    let (mut journal, before) = begin(&temporary.0, Begin::Fresh).unwrap();
    assert!(before.is_empty());
    journal.append(&run(1)).unwrap();
    drop(journal);
    let (mut journal, before) = begin(&temporary.0, Begin::Resume).unwrap();
    assert_eq!(before, [run(1)]);
    journal.append(&run(2)).unwrap();
    let directory = journal.finish(&[run(1), run(2)], &[]).unwrap();
    assert_eq!(directory.runs().unwrap(), [run(1), run(2)]);
    assert_eq!(Directory::all_in(temporary.0.parent().unwrap()).unwrap(), [directory]);
    assert!(
        fs::read_dir(&temporary.0).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.'))
    );
}

#[test]
fn results_that_are_there_are_not_overwritten_unless_that_is_asked_for() {
    let temporary = Temporary::new();
    let (mut journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    journal.append(&run(1)).unwrap();
    drop(journal);
    let error = begin(&temporary.0, Begin::Fresh).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("--resume"), "{error}");
    assert_eq!(Directory::open(&temporary.0).unwrap().runs().unwrap().len(), 1);
    let (_, before) = begin(&temporary.0, Begin::Force).unwrap();
    assert!(before.is_empty());
    assert!(Directory::open(&temporary.0).unwrap().runs().unwrap().is_empty());
}

#[test]
fn a_half_written_line_is_cut_off_and_one_in_the_middle_is_an_error() {
    let temporary = Temporary::new();
    let (mut journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    journal.append(&run(1)).unwrap();
    drop(journal);
    let file = temporary.0.join(RUNS);
    let whole = fs::read(&file).unwrap();
    for half in 0..whole.len() {
        fs::write(&file, [&whole, &whole[..half]].concat()).unwrap();
        let (mut journal, before) = begin(&temporary.0, Begin::Resume).unwrap();
        assert_eq!(before, [run(1)], "{half}");
        journal.append(&run(2)).unwrap();
        drop(journal);
        assert_eq!(Directory::open(&temporary.0).unwrap().runs().unwrap(), [run(1), run(2)], "{half}");
    }
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{}\n").unwrap();
    let error = begin(&temporary.0, Begin::Resume).unwrap_err();
    assert!(error.to_string().contains("runs.jsonl:3:"), "{error}");
}

#[test]
fn only_the_same_experiment_engine_and_version_are_gone_on_with() {
    let temporary = Temporary::new();
    let (mut journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    journal.append(&run(1)).unwrap();
    drop(journal);
    for (identity, what) in [
        (
            Identity { document: "id = \"x\"\nruns = 6\n", ..IDENTITY },
            "experiment.toml:2: \"runs = 5\", now \"runs = 6\"",
        ),
        (Identity { engine: "testbed", ..IDENTITY }, "the engine sim, not testbed"),
        (Identity { version: "0.2.0", ..IDENTITY }, "version 0.1.0, and this is 0.2.0"),
    ] {
        let hold = Hold::take(&temporary.0).unwrap();
        let error = Journal::begin(hold, &identity, Begin::Resume).unwrap_err();
        assert!(error.is_input() && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn nobody_else_writes_meanwhile() {
    let temporary = Temporary::new();
    let (journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    for how in [Begin::Resume, Begin::Force] {
        assert!(matches!(begin(&temporary.0, how), Err(StoreError::Busy(_))));
    }
    drop(journal);
    assert!(begin(&temporary.0, Begin::Resume).is_ok());
}

#[test]
fn what_cannot_be_written_says_what_and_why() {
    let temporary = Temporary::new();
    fs::create_dir_all(temporary.0.parent().unwrap()).unwrap();
    fs::write(&temporary.0, b"a file").unwrap();
    let error = begin(&temporary.0, Begin::Fresh).unwrap_err();
    assert!(error.is_input() && error.to_string().starts_with("cannot make "), "{error}");
    // Every write to it fails for want of space.
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    fs::remove_file(&temporary.0).unwrap();
    let (mut journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    journal.append(&run(1)).unwrap();
    journal.runs = full;
    let error = journal.append(&run(2)).unwrap_err();
    assert!(!error.is_input(), "a full disk is nobody's request");
    assert!(error.to_string().contains("runs.jsonl: No space left on device"), "{error}");
    drop(journal);
    assert_eq!(Directory::open(&temporary.0).unwrap().runs().unwrap(), [run(1)]);
}

#[test]
fn a_path_that_can_be_no_directory_is_the_fault_of_who_named_it() {
    let error = |kind: io::ErrorKind| StoreError::io("make", Path::new("out"), io::Error::from(kind));
    for kind in [
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
    ] {
        assert!(error(kind).is_input(), "{kind}");
    }
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::Other] {
        assert!(!error(kind).is_input(), "{kind}");
    }
    let read = StoreError::io("read", Path::new("out"), io::Error::from(io::ErrorKind::NotADirectory));
    assert!(!read.is_input());
}

fn table(table: &Table) -> SerializedFileReader<bytes::Bytes> {
    SerializedFileReader::new(bytes::Bytes::from(Format::Parquet.encode(table).unwrap())).unwrap()
}

fn names(reader: &SerializedFileReader<bytes::Bytes>) -> Vec<String> {
    let schema = reader.metadata().file_metadata().schema_descr();
    schema.columns().iter().map(|column| column.name().to_owned()).collect()
}

/// What the file's metadata says of its columns' units.
fn units(reader: &SerializedFileReader<bytes::Bytes>) -> Vec<(String, String)> {
    let entries = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(entry.key, "units");
    let units: indexmap::IndexMap<String, String> =
        serde_json::from_str(entry.value.as_ref().unwrap()).unwrap();
    units.into_iter().collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned())).collect()
}

#[test]
fn tables_have_a_row_for_each_run_and_each_value_with_null_for_what_is_not_there() {
    let runs = [run(1), run(2)];
    let reader = table(&columns::runs(&runs));
    assert_eq!(
        names(&reader),
        [
            "experiment",
            "engine",
            "point.delay",
            "label.delay",
            "seed",
            "version",
            "digest",
            "tcp.goodput",
            "tcp.delay.mean"
        ]
    );
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[0].get_string(3).unwrap().as_str()), (2, "5 ms"));
    assert_eq!((rows[1].get_ulong(4).unwrap(), rows[0].get_double(7).unwrap()), (2, 1.0 / 3.0));
    assert!(rows[0].get_double(8).is_err(), "null");
    assert!((rows[1].get_double(8).unwrap() - 0.25).abs() < 1e-12);
    let reader = table(&columns::series(&runs).unwrap());
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(
        (rows[3].get_double(5).unwrap(), rows[3].get_string(6).unwrap().as_str()),
        (0.5, "core.queue.packets")
    );
    assert!(rows[2].get_double(7).is_ok() && rows[3].get_double(7).is_err());
    assert_eq!(units(&reader), owned(&[("point.delay", "s"), ("time", "s")]));
    let plain = Run { outcome: Outcome { series: None, ..run(1).outcome }, ..run(1) };
    assert!(columns::series(&[plain]).is_none());
}

#[test]
fn swept_values_are_numbers_and_the_metadata_says_what_every_column_is_in() {
    let at = |seed, values: &[(&str, &str)]| Run { point: owned(values).into_iter().collect(), ..run(seed) };
    let runs = [
        at(1, &[("rate", "2 Mbit/s"), ("flows", "10"), ("loss", "0 %"), ("trunk", "with"), ("mixed", "1")]),
        at(
            2,
            &[
                ("rate", "500 kbit/s"),
                ("flows", "60"),
                ("loss", "2.5 %"),
                ("trunk", "none"),
                ("mixed", "1 ms"),
            ],
        ),
    ];
    let reader = table(&columns::runs(&runs));
    let names = names(&reader);
    let column = |name: &str| names.iter().position(|known| known == name).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    for (name, values) in
        [("point.rate", [2e6, 500e3]), ("point.flows", [10.0, 60.0]), ("point.loss", [0.0, 0.025])]
    {
        let read = [0, 1].map(|row| rows[row].get_double(column(name)).unwrap());
        assert!(
            read.iter().zip(values).all(|(read, value)| read.to_bits() == f64::to_bits(value)),
            "{name}: {read:?}"
        );
    }
    assert_eq!(rows[1].get_string(column("label.rate")).unwrap(), "500 kbit/s");
    // What is no number everywhere is text, and has no label beside it.
    assert_eq!(rows[0].get_string(column("point.trunk")).unwrap(), "with");
    assert_eq!(rows[1].get_string(column("point.mixed")).unwrap(), "1 ms");
    assert!(!names.iter().any(|name| name == "label.trunk" || name == "label.mixed"));
    assert_eq!(
        units(&reader),
        owned(&[
            ("point.rate", "bit/s"),
            ("point.flows", "1"),
            ("point.loss", "1"),
            ("tcp.goodput", "bit/s"),
            ("tcp.delay.mean", "s")
        ])
    );
}

#[test]
fn the_long_form_has_a_row_for_each_metric_of_each_run() {
    let runs = [run(1), run(2)];
    let reader = table(&columns::metrics(&runs));
    assert_eq!(
        names(&reader),
        ["experiment", "engine", "point.delay", "label.delay", "seed", "metric", "value", "unit"]
    );
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let read: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |column| row.get_string(column).unwrap().clone();
            (
                row.get_double(2).unwrap(),
                row.get_ulong(4).unwrap(),
                text(5),
                row.get_double(6).unwrap(),
                text(7),
            )
        })
        .collect();
    let goodput = |seed: u64| (0.005, seed, "tcp.goodput".to_owned(), seed as f64 / 3.0, "bit/s".to_owned());
    let delay = (0.005, 2, "tcp.delay.mean".to_owned(), 0.25, "s".to_owned());
    assert_eq!(read, [goodput(1), goodput(2), delay]);
    assert_eq!(units(&reader), owned(&[("point.delay", "s")]));
    // Without any run there are the columns all the same.
    assert_eq!(table(&columns::metrics(&[])).get_row_iter(None).unwrap().count(), 0);
}

/// A directory with two finished runs.
fn finished(temporary: &Temporary) -> Directory {
    let (mut journal, _) = begin(&temporary.0, Begin::Fresh).unwrap();
    let runs = [run(1), run(2)];
    for run in &runs {
        journal.append(run).unwrap();
    }
    journal.finish(&runs, &[]).unwrap()
}

#[test]
fn exported_csv_has_the_rows_of_the_other_tables_and_says_what_columns_are_in() {
    let temporary = Temporary::new();
    let directory = finished(&temporary);
    let files = directory.export(Format::Csv, &temporary.0).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["runs.csv", "metrics.csv", "series.csv", "columns.csv"]);
    let text = |name: &str| fs::read_to_string(temporary.0.join(name)).unwrap();
    assert_eq!(
        text("runs.csv"),
        "experiment,engine,point.delay,label.delay,seed,version,digest,tcp.goodput,tcp.delay.mean\n\
         x,sim,0.005,5 ms,1,0.1.0,0000000000000001,0.3333333333333333,\n\
         x,sim,0.005,5 ms,2,0.1.0,0000000000000002,0.6666666666666666,0.25\n"
    );
    assert_eq!(
        text("metrics.csv"),
        "experiment,engine,point.delay,label.delay,seed,metric,value,unit\n\
         x,sim,0.005,5 ms,1,tcp.goodput,0.3333333333333333,bit/s\n\
         x,sim,0.005,5 ms,2,tcp.goodput,0.6666666666666666,bit/s\n\
         x,sim,0.005,5 ms,2,tcp.delay.mean,0.25,s\n"
    );
    assert_eq!(text("series.csv").lines().nth(2), Some("x,sim,0.005,5 ms,1,0.5,core.queue.packets,,1"));
    let columns = text("columns.csv");
    for line in ["table,column,unit", "runs,tcp.goodput,bit/s", "runs,digest,", "series,time,s"] {
        assert!(columns.lines().any(|known| known == line), "{line}: {columns}");
    }
}

#[test]
fn a_text_with_a_comma_or_a_quote_stays_one_value() {
    let named = Run { point: owned(&[("trunk", "with \"a\", b")]).into_iter().collect(), ..run(1) };
    let encoded = Format::Csv.encode(&columns::runs(&[named])).unwrap();
    let mut reader = csv::Reader::from_reader(encoded.as_slice());
    let place = reader.headers().unwrap().iter().position(|name| name == "point.trunk").unwrap();
    assert_eq!(&reader.records().next().unwrap().unwrap()[place], "with \"a\", b");
}

#[test]
fn an_exported_arrow_file_has_types_nulls_and_units() {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, UInt64Type};

    let temporary = Temporary::new();
    finished(&temporary).export(Format::Arrow, &temporary.0).unwrap();
    let file = fs::File::open(temporary.0.join("runs.arrow")).unwrap();
    let mut reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let schema = reader.schema();
    assert_eq!(
        schema.metadata()["units"],
        r#"{"point.delay":"s","tcp.goodput":"bit/s","tcp.delay.mean":"s"}"#
    );
    assert_eq!(schema.field_with_name("tcp.goodput").unwrap().metadata()["unit"], "bit/s");
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert_eq!(column("label.delay").as_string::<i32>().iter().collect::<Vec<_>>(), [Some("5 ms"); 2]);
    assert_eq!(column("seed").as_primitive::<UInt64Type>().values().as_ref(), [1, 2]);
    let delay: Vec<_> = column("tcp.delay.mean").as_primitive::<Float64Type>().iter().collect();
    assert_eq!(delay, [None, Some(0.25)]);
}

#[test]
fn what_an_export_of_other_results_left_is_removed() {
    let temporary = Temporary::new();
    let directory = finished(&temporary);
    let into = temporary.0.join("tables");
    assert_eq!(directory.export(Format::Csv, &into).unwrap().len(), 4);
    let plain: Vec<Run> =
        [run(1), run(2)].map(|run| Run { outcome: Outcome { series: None, ..run.outcome }, ..run }).into();
    let (journal, _) = begin(&temporary.0, Begin::Force).unwrap();
    let directory = journal.finish(&plain, &[]).unwrap();
    assert_eq!(directory.export(Format::Csv, &into).unwrap().len(), 3);
    assert!(!into.join("series.csv").exists());
}
