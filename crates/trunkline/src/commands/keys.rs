//! `genkey` and `pubkey`.

use std::io::{self, Read as _};

use trunkline_gateway::keys::SecretKey;

use crate::failure::Failure;
use crate::output::print_line;

pub(crate) fn genkey() -> Result<(), Failure> {
    let key = SecretKey::generate().map_err(Failure::doing("cannot generate a key"))?;
    print_line(&key.to_base64())
}

pub(crate) fn pubkey() -> Result<(), Failure> {
    let mut text = String::new();
    // A key has 44 characters; the bound keeps endless input out of memory.
    io::stdin().take(4096).read_to_string(&mut text).map_err(Failure::doing("cannot read standard input"))?;
    let key: SecretKey =
        text.trim().parse().map_err(|error| Failure::Input(format!("standard input: {error}")))?;
    print_line(&key.public().to_string())
}
