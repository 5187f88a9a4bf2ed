//! `genkey` and `pubkey`.

use std::io;

use trunkline_gateway::keys::{KEY_FILE_LIMIT_BYTES, KeyError, SecretKey};
use trunkline_schema::read_input;

use crate::failure::Failure;
use crate::output::print_line;

pub(crate) fn genkey() -> Result<(), Failure> {
    let key = SecretKey::generate().map_err(Failure::doing("cannot generate a key"))?;
    print_line(&key.to_base64())
}

pub(crate) fn pubkey() -> Result<(), Failure> {
    let wrong = |problem: String| Failure::Input(format!("standard input: {problem}"));
    let text = read_input(io::stdin(), KEY_FILE_LIMIT_BYTES).map_err(wrong)?;
    let key: SecretKey = text.parse().map_err(|error: KeyError| wrong(error.to_string()))?;
    print_line(&key.public().to_string())
}
