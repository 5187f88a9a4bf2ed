//! Which settings of its trunks a network is best served by: `cargo run --release -p trunkline-lab --example advise FILE`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use trunkline_lab::advise::{Options, advise};
use trunkline_lab::document::Document;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).map(PathBuf::from).ok_or("give the file of a network")?;
    let document = Document::read(&file)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { jobs, ..Options::default() };
    let advice = advise(&document, &options, &AtomicBool::new(false), |progress| {
        eprintln!("{} of {}: {}", progress.done + 1, progress.total, progress.variant);
    })?;
    print!("{}", advice.to_text());
    Ok(())
}
