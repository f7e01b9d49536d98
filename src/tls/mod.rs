//! Encryption of the client ports: TLS 1.3 and nothing older.
//!
//! ```text
//!   files --(read again on change)--> Certificates --+
//!                                                     v
//!   accepted socket -> Door::open -> first byte? -> handshake -> Stream
//! ```
//!
//! Entrances: [`Tls::open`] for a node, [`Door`] for its front doors, [`issue::issue`] for `tessaridb certs`. A handshake
//! runs in its connection's own task and within [`HANDSHAKE_TIME`]; nobody is waited for while accepting.

mod certificates;
mod door;
pub mod issue;
mod stream;

#[cfg(test)]
mod tests;

pub use certificates::{CertificateError, MAX_FILE};
pub use door::{Door, Unwelcome, speaks_tls};
pub use stream::{Stream, say_goodbye};

use certificates::{Certificates, Files};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ServerConfig, version};

/// How long a client may take from the accepted connection to the end of the handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Time between two looks at the files.
const ROUND: Duration = Duration::from_secs(2);

/// The certificate of a node, kept up to date; one for all its ports. Dropping it ends the looking.
pub struct Tls {
    certificates: Arc<Certificates>,
    watching: JoinHandle<()>,
}

impl Tls {
    /// Reads a certificate chain and its key, both PEM, and goes on reading them: every two seconds, and on SIGHUP.
    ///
    /// A pair that can't be used is told once per change, and the former one stays. Connections that are open keep what
    /// they have.
    ///
    /// # Errors
    /// The pair can't be used now.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let certificates = Arc::new(Certificates::open(Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        })?);
        let watching = tokio::spawn(watch(certificates.clone()));
        Ok(Self { certificates, watching })
    }

    /// How a port opens its connections; `protocol` is its name in ALPN, where it has one.
    ///
    /// # Errors
    /// The TLS library can't be set up.
    pub fn door(&self, protocol: Option<&str>) -> Result<Door, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(self.certificates.clone());
        config.alpn_protocols = protocol.map(|name| name.as_bytes().to_vec()).into_iter().collect();
        // Clients that come back need no second signature; the tickets' keys are this process's own and change.
        config.ticketer = ring::Ticketer::new()?;
        Ok(Door::locked(TlsAcceptor::from(Arc::new(config)), HANDSHAKE_TIME))
    }

    /// Times the pair was replaced while running, and times that what was found could not be used.
    pub fn reloads(&self) -> (u64, u64) {
        self.certificates.reloads()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// The certificates in a file of PEM, at least one.
///
/// # Errors
/// There is none, or the file can't be read.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    certificates::chain(path, &certificates::read_file(path)?)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

async fn watch(certificates: Arc<Certificates>) {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())
        .inspect_err(
            |error| tracing::warn!(%error, "SIGHUP is not heard; certificates are read on change all the same"),
        )
        .ok();
    let mut round = tokio::time::interval(ROUND);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let asked = tokio::select! {
            _ = round.tick() => false,
            Some(()) = async { hangup.as_mut()?.recv().await } => true,
        };
        let certificates = certificates.clone();
        if tokio::task::spawn_blocking(move || certificates.look(asked))
            .await
            .is_err()
        {
            tracing::error!("looking at the certificate failed; the next look comes");
        }
    }
}
