//! Tables as Arrow files. Each column's metadata says what it is in, and that of the file does for all.

use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;

use crate::store::columns::Table;

pub(super) fn encode(table: &Table) -> Result<Vec<u8>, ArrowError> {
    let batches = table.batches()?;
    let mut writer = FileWriter::try_new(Vec::new(), &batches.schema)?;
    batches.groups.iter().try_for_each(|group| writer.write(group))?;
    writer.finish()?;
    writer.into_inner()
}
