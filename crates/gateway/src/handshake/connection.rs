//! A TLS connection of either side, run step by step on the caller's buffers.

use std::fmt;

use rustls::CommonState;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};

use super::input::RecordReader;
use super::message::{Hello, Join};

/// What a dialer asks for.
#[derive(Debug)]
pub(super) enum Ask {
    /// A lane.
    Lane(Hello),
    /// To be a peer.
    Join(Join),
}

/// A TLS handshake of either side.
pub(super) enum Tls {
    Client(Box<UnbufferedClientConnection>, Ask),
    Server(Box<UnbufferedServerConnection>),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client(..) => "Client",
            Self::Server(_) => "Server",
        })
    }
}

/// The need of TLS after a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TlsStep {
    /// Another step.
    Again,
    /// Another record, if the handshake is not over.
    Blocked,
}

impl Tls {
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Self::Client(connection, _) => connection,
            Self::Server(connection) => connection,
        }
    }

    /// Runs the next step of TLS on the records that were read.
    pub(super) fn step(
        &mut self,
        input: &mut RecordReader,
        output: &mut Vec<u8>,
    ) -> Result<TlsStep, rustls::Error> {
        let (discard, step) = match self {
            Self::Client(connection, _) => handle(connection.process_tls_records(input.records()), output),
            Self::Server(connection) => handle(connection.process_tls_records(input.records()), output),
        };
        input.consume(discard);
        step
    }

    /// After an error, adds the alert of TLS to the output. The connection must not process more input then, so the loop ends
    /// as soon as TLS has nothing to send.
    pub(super) fn collect_alert(&mut self, input: &mut RecordReader, output: &mut Vec<u8>) {
        while self.common().wants_write() && self.step(input, output) == Ok(TlsStep::Again) {}
    }
}

/// Executes the request of a TLS connection. Returns the number of input bytes to discard, and the next step.
fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    output: &mut Vec<u8>,
) -> (usize, Result<TlsStep, rustls::Error>) {
    let step = match status.state {
        Ok(ConnectionState::EncodeTlsData(mut encode)) => {
            let filled = output.len();
            let mut outcome = encode.encode(&mut []);
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
                output.resize(filled + required_size, 0);
                outcome = encode.encode(&mut output[filled..]);
            }
            match outcome {
                Ok(_) => Ok(TlsStep::Again),
                Err(error) => Err(rustls::Error::General(error.to_string())),
            }
        }
        Ok(ConnectionState::TransmitTlsData(transmit)) => {
            // What was encoded is in our output now, which is sent in order.
            transmit.done();
            Ok(TlsStep::Again)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(TlsStep::Blocked),
        // No data has a place before the greetings, which are not TLS's to read.
        Ok(_) => Err(rustls::Error::General("data or an end before the greetings".to_owned())),
        Err(error) => Err(error),
    };
    (status.discard, step)
}
