//! Flags of TLS, and the command that makes certificates.

use clap::Args;
use std::path::PathBuf;

/// Encryption of the client ports.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS")]
pub struct Tls {
    /// Certificate chain in PEM: the Kafka and HTTP ports then speak TLS 1.3. Read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "TESSARIDB_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's private key in PEM.
    #[arg(long, value_name = "FILE", env = "TESSARIDB_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Refuse to start a node whose ports would be in the clear.
    #[arg(long, env = "TESSARIDB_REQUIRE_CLIENT_TLS")]
    pub require_client_tls: bool,
}

/// Make a development authority in DIR, and certificates of nodes by it.
///
/// Writes ca.pem and ca.key where there are none, and NAME.pem and NAME.key for each node, good for its name, localhost,
/// 127.0.0.1 and ::1. What a node has already is replaced only with --renew. Clients and other nodes trust ca.pem. Keep ca.key away from nodes; for more than trying out, use the
/// authority you have.
#[derive(Clone, Debug, Args)]
pub struct Certs {
    /// Folder of the authority and the certificates; made when it is not there.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Names of nodes, as clients and other nodes reach them: host names or IP addresses.
    #[arg(long = "node", value_name = "NAME", num_args = 1.., required = true)]
    pub nodes: Vec<String>,

    /// Replace keys and certificates that nodes have already; the authority stays.
    #[arg(long)]
    pub renew: bool,
}
