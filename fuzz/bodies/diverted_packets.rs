//! What holds for any bytes that the kernel hands to a proxy as a diverted packet. Run by the fuzz target of this name and, over the
//! committed corpus, by the tests of `trunkline-proxy`.

use trunkline_proxy::{ErrorMessage, Syn};

/// Reads `data` as a SYN and as an error, of which it is at most one.
pub(crate) fn run(data: &[u8]) {
    let syn = Syn::parse(data).ok();
    let error = ErrorMessage::parse(data);
    assert!(syn.is_none() || error.is_none());
    if let Some(syn) = syn {
        assert_eq!(syn.connection.client.is_ipv4(), syn.connection.server.is_ipv4());
        assert!(syn.len >= 1 && syn.len as usize <= data.len());
    }
    if let Some(connection) = error.and_then(|error| error.connection) {
        assert_eq!(connection.client.is_ipv4(), connection.server.is_ipv4());
    }
}
