//! What a process is told: the command line, each flag with its environment variable, and nothing else.
//!
//! One typed tree; every field says what it means, its unit, its default and its bounds.

mod limits;
mod tls;

pub use limits::Limits;
pub use tls::{Certs, Tls};

use crate::auth::MAX_PASSWORD;
use crate::ql::is_reserved;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// A durable, clustered message store that unchanged Kafka clients use as their broker.
///
/// With --serve, --kafka or --resp it is a node; otherwise it runs TessariQL on the store at PATH, or on a node with --at.
#[derive(Clone, Debug, Parser)]
#[command(name = "tessaridb", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Config {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub task: Option<Task>,

    /// Folder of the store; made when it is not there.
    #[arg(
        value_name = "PATH",
        env = "TESSARIDB_PATH",
        required_unless_present = "at",
        conflicts_with = "at"
    )]
    pub path: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub listen: Listen,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub kafka: Kafka,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub tls: Tls,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub limits: Limits,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub script: Script,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub storage: Storage,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub cluster: Cluster,

    /// The node's id, 32 hex digits, where it must be known ahead; only before the first open.
    #[arg(long, value_name = "ID", env = "TESSARIDB_NODE_ID")]
    pub node_id: Option<cluster::ids::NodeId>,

    /// How log lines look.
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        env = "TESSARIDB_LOG_FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or a filter such as info,tessaridb::kafka=debug.
    #[arg(
        long,
        value_name = "FILTER",
        env = "TESSARIDB_LOG",
        default_value = "info,openraft=error"
    )]
    pub log: String,
}

/// What is done instead of running or asking a store. A folder of such a name is written with ./ before it.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    #[allow(missing_docs)]
    Certs(Certs),
    #[allow(missing_docs)]
    Ready(Ready),
}

/// Ask a node whether it takes requests: status 0 if it does, 1 if it doesn't or can't be reached.
///
/// Needs no user. For health checks where there is nothing else that could ask over HTTP.
#[derive(Clone, Debug, Args)]
pub struct Ready {
    /// HTTP address of the node.
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:9080", value_parser = bare_address)]
    pub at: String,

    /// The node speaks TLS, and this authority (PEM) vouches for it.
    #[arg(long, value_name = "FILE")]
    pub tls_authority: Option<PathBuf>,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where the node listens.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Listening")]
pub struct Listen {
    /// Serve TessariQL over HTTP here.
    #[arg(long, value_name = "HOST:PORT", env = "TESSARIDB_SERVE", value_parser = address)]
    pub serve: Option<String>,

    /// Speak the Kafka protocol here.
    #[arg(long = "kafka", value_name = "HOST:PORT", env = "TESSARIDB_KAFKA", value_parser = address)]
    pub kafka: Option<String>,

    /// Speak the Redis protocol (RESP2 and RESP3) here: streams over topics.
    #[arg(long = "resp", value_name = "HOST:PORT", env = "TESSARIDB_RESP", value_parser = address)]
    pub resp: Option<String>,
}

/// How the Kafka port behaves.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kafka clients")]
pub struct Kafka {
    /// Read bare topic names in this database, as NAMESPACE.DATABASE.
    #[arg(long, value_name = "NS.DB", env = "TESSARIDB_KAFKA_DATABASE", value_parser = database)]
    pub kafka_database: Option<(String, String)>,

    /// Address that clients are told to connect to; by default the one they reached.
    #[arg(long, value_name = "HOST:PORT", env = "TESSARIDB_KAFKA_ADVERTISE", value_parser = advertised)]
    pub kafka_advertise: Option<(String, u16)>,

    /// How far a produced batch is checked: all its records, or its header and checksum only.
    #[arg(
        long,
        value_enum,
        value_name = "DEPTH",
        env = "TESSARIDB_KAFKA_VALIDATE",
        default_value = "records"
    )]
    pub kafka_validate: Validate,

    /// Largest batch accepted, in bytes as sent, where the topic says nothing (MAX BYTES, max.message.bytes).
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_MAX_MESSAGE_BYTES", default_value_t = 1_048_588,
          value_parser = clap::value_parser!(u32).range(1024..=104_857_600))]
    pub max_message_bytes: u32,

    /// Seconds after which a client must sign in again on its connection, or lose it; 0: never.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_KAFKA_SESSION_SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=31_536_000))]
    pub kafka_session_seconds: u32,

    /// Milliseconds a new group's first rebalance waits for more members.
    #[arg(long, value_name = "MS", env = "TESSARIDB_GROUP_INITIAL_DELAY_MS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub group_initial_delay_ms: u32,
}

/// How deep a produced batch is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Validate {
    /// Header, checksum, and a walk over the records.
    Records,
    /// Header and checksum; for those who trust their producers.
    Header,
}

/// How the node reaches the other members of its store, and they it: over TLS on both sides. All four or none.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Cluster {
    /// Listen for the other members here.
    #[arg(long, value_name = "HOST:PORT", env = "TESSARIDB_CLUSTER_ADDRESS", value_parser = address,
          requires_all = ["cluster_credential", "cluster_key", "cluster_authority"])]
    pub cluster_address: Option<String>,

    /// Certificate of this node (PEM), good for the host that the others dial.
    #[arg(
        long,
        value_name = "FILE",
        env = "TESSARIDB_CLUSTER_CREDENTIAL",
        requires = "cluster_address"
    )]
    pub cluster_credential: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(
        long,
        value_name = "FILE",
        env = "TESSARIDB_CLUSTER_KEY",
        requires = "cluster_address"
    )]
    pub cluster_key: Option<PathBuf>,

    /// Certificate of the store's own authority (PEM): whom it vouches for is let in.
    #[arg(
        long,
        value_name = "FILE",
        env = "TESSARIDB_CLUSTER_AUTHORITY",
        requires = "cluster_address"
    )]
    pub cluster_authority: Option<PathBuf>,
}

/// How data is kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Storage")]
pub struct Storage {
    /// Bytes after which a partition's segment file is closed.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_SEGMENT_BYTES", default_value_t = 536_870_912,
          value_parser = clap::value_parser!(u64).range(1_048_576..=2_147_483_648))]
    pub segment_bytes: u64,

    /// Bytes of write-ahead log after which a checkpoint is taken.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_CHECKPOINT_BYTES", default_value_t = 268_435_456,
          value_parser = clap::value_parser!(u64).range(1_048_576..=17_179_869_184))]
    pub checkpoint_bytes: u64,

    /// Seconds after which a checkpoint is taken where anything changed.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_CHECKPOINT_SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub checkpoint_seconds: u64,

    /// Seconds between two looks at what retention may remove.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_RETENTION_CHECK_SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub retention_check_seconds: u64,
}

impl Storage {
    /// Time between two looks at what retention may remove.
    pub fn retention_check(&self) -> Duration {
        Duration::from_secs(self.retention_check_seconds)
    }
}

/// TessariQL from the command line.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TessariQL")]
pub struct Script {
    /// Run on the node at this HTTP address instead of on a store of one's own.
    #[arg(long, value_name = "HOST:PORT", env = "TESSARIDB_AT", value_parser = bare_address)]
    pub at: Option<String>,

    /// With --at: the node speaks TLS, and this authority (PEM) vouches for it.
    #[arg(
        long,
        value_name = "FILE",
        env = "TESSARIDB_TLS_AUTHORITY",
        requires = "at",
        conflicts_with = "path"
    )]
    pub tls_authority: Option<PathBuf>,

    /// Run this script and print its outcome.
    #[arg(short = 'e', long = "execute", value_name = "SCRIPT", conflicts_with = "file")]
    pub execute: Option<String>,

    /// Run the script in this file; - is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Sign in as this user, with the password in TESSARIDB_PASSWORD.
    #[arg(long, value_name = "NAME", env = "TESSARIDB_USER", value_parser = user)]
    pub user: Option<String>,

    /// Bind a parameter: its value is written as TessariQL.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub name: String,
    /// Never on a command line, which others on the machine can read.
    pub password: Zeroizing<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A sentence about credentials that are not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCredentials(String);

/// What the process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Listens for clients.
    Node,
    /// Runs TessariQL and ends.
    Client,
}

impl Config {
    /// Whom `--user` signs in as, with the password of TESSARIDB_PASSWORD.
    pub fn credentials(&self) -> Result<Option<Credentials>, BadCredentials> {
        let Some(name) = self.script.user.clone() else {
            return Ok(None);
        };
        let password = variable("TESSARIDB_PASSWORD")?
            .ok_or_else(|| BadCredentials("--user needs its password in TESSARIDB_PASSWORD".to_owned()))?;
        Ok(Some(Credentials { name, password }))
    }

    /// The first owner to declare where a node's store has no users: TESSARIDB_INITIAL_USER and
    /// TESSARIDB_INITIAL_PASSWORD.
    pub fn initial_user() -> Result<Option<Credentials>, BadCredentials> {
        first_user(
            variable("TESSARIDB_INITIAL_USER")?,
            variable("TESSARIDB_INITIAL_PASSWORD")?,
        )
    }

    /// A client with --at, also where a node's variables are set; else a node when it listens anywhere.
    pub fn role(&self) -> Role {
        let ports = [
            &self.listen.serve,
            &self.listen.kafka,
            &self.listen.resp,
            &self.cluster.cluster_address,
        ];
        if self.script.at.is_none() && ports.into_iter().any(Option::is_some) {
            Role::Node
        } else {
            Role::Client
        }
    }
}

/// A variable of the environment; an empty one is none.
fn variable(name: &str) -> Result<Option<Zeroizing<String>>, BadCredentials> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(Zeroizing::new(value)).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(BadCredentials(format!("{name} is not UTF-8"))),
    }
}

fn first_user(
    name: Option<Zeroizing<String>>,
    password: Option<Zeroizing<String>>,
) -> Result<Option<Credentials>, BadCredentials> {
    match (name, password) {
        (None, None) => Ok(None),
        (Some(name), Some(password)) => {
            let name = user(&name).map_err(|e| BadCredentials(format!("TESSARIDB_INITIAL_USER: {e}")))?;
            if is_reserved(&name) {
                let why = "is a word of the language, which could not name the user";
                return Err(BadCredentials(format!("TESSARIDB_INITIAL_USER: {name} {why}")));
            }
            if password.len() > MAX_PASSWORD {
                let why = format!("a password may have {MAX_PASSWORD} bytes at most");
                return Err(BadCredentials(format!("TESSARIDB_INITIAL_PASSWORD: {why}")));
            }
            Ok(Some(Credentials { name, password }))
        }
        (Some(_), None) => Err(BadCredentials(
            "TESSARIDB_INITIAL_USER needs TESSARIDB_INITIAL_PASSWORD, too".to_owned(),
        )),
        (None, Some(_)) => Err(BadCredentials(
            "TESSARIDB_INITIAL_PASSWORD needs TESSARIDB_INITIAL_USER, too".to_owned(),
        )),
    }
}

fn user(text: &str) -> Result<String, String> {
    match cluster::catalog::is_identifier(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a user's name")),
    }
}

fn address(text: &str) -> Result<String, String> {
    host_port(text).map(|_| text.to_owned())
}

/// An address for --at, where people tend to write a URL.
fn bare_address(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("https", _)) => Err("give HOST:PORT alone; --tls-authority FILE makes it TLS".to_owned()),
        Some(_) => Err("give HOST:PORT alone".to_owned()),
        None => address(text),
    }
}

/// An address to hand to others: never a wildcard, never port 0.
fn advertised(text: &str) -> Result<(String, u16), String> {
    let (host, port) = host_port(text)?;
    let wildcard = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    if wildcard || port == 0 {
        return Err(format!("{text} is no address that a client could connect to"));
    }
    Ok((host, port))
}

fn host_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text:?} is not HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

fn database(text: &str) -> Result<(String, String), String> {
    match text.split_once('.') {
        Some((ns, db)) if cluster::catalog::is_identifier(ns) && cluster::catalog::is_identifier(db) => {
            Ok((ns.to_owned(), db.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE.DATABASE")),
    }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    if !cluster::catalog::is_identifier(name) {
        return Err(format!("{name:?} is not a parameter name"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(args: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(std::iter::once("tessaridb").chain(args.iter().copied()))
    }

    #[test]
    fn the_command_line_is_sound() {
        Config::command().debug_assert();
    }

    #[test]
    fn every_flag_of_a_node_has_its_variable() {
        for arg in Config::command().get_arguments() {
            let id = arg.get_id().as_str();
            if !["execute", "file", "parameters", "help", "version"].contains(&id) {
                let variable = arg.get_env().unwrap_or_else(|| panic!("--{id} has no variable"));
                assert!(variable.to_string_lossy().starts_with("TESSARIDB_"), "{variable:?}");
            }
        }
    }

    #[test]
    fn a_node_listens_and_a_client_does_not() {
        let node = parse(&["./data", "--serve", "127.0.0.1:9080", "--kafka", "127.0.0.1:9092"]).unwrap();
        assert_eq!(node.role(), Role::Node);
        let resp = parse(&["./data", "--resp", "127.0.0.1:6379"]).unwrap();
        assert_eq!(resp.role(), Role::Node);
        assert_eq!(parse(&["./data", "-e", "INFO FOR STORE"]).unwrap().role(), Role::Client);
        assert_eq!(
            parse(&["--at", "127.0.0.1:9080", "-e", "INFO FOR STORE"])
                .unwrap()
                .role(),
            Role::Client
        );
    }

    #[test]
    fn who_asks_a_node_is_no_node_where_a_nodes_variables_are_set() {
        // As in a container of a node: TESSARIDB_SERVE and the like reach every process there.
        let asked = parse(&[
            "--at",
            "127.0.0.1:9080",
            "--serve",
            "0.0.0.0:9080",
            "-e",
            "INFO FOR NODE",
        ]);
        assert_eq!(asked.unwrap().role(), Role::Client);
    }

    #[test]
    fn a_node_is_asked_whether_it_is_ready_at_its_usual_address_or_another() {
        let at = |args: &[&str]| match parse(args).unwrap().task {
            Some(Task::Ready(ready)) => ready.at,
            task => panic!("{task:?}"),
        };
        assert_eq!(at(&["ready"]), "127.0.0.1:9080");
        assert_eq!(at(&["ready", "[::1]:1"]), "[::1]:1");
        assert!(parse(&["ready", "http://h:1"]).is_err());
        assert!(parse(&["ready", "h:1", "--kafka", "h:2"]).is_err());
    }

    #[test]
    fn wrong_values_are_refused() {
        for bad in [
            &["./data", "--kafka", "9092"][..],
            &["./data", "--kafka", "h:70000"],
            &["./data", "--kafka-advertise", "0.0.0.0:9092"],
            &["./data", "--kafka-advertise", "[::]:9092"],
            &["./data", "--kafka-advertise", "h:0"],
            &["./data", "--kafka-database", "shop"],
            &["./data", "--kafka-database", "a.b.c"],
            &["./data", "--node-id", "12"],
            &["./data", "--segment-bytes", "5"],
            &["./data", "--nonsense"],
            &["./data", "--at", "h:1"],
            &["--at", "https://h:1"],
            &["--at", "http://h:1"],
            &["./data", "--tls-authority", "ca.pem"],
            &["./data", "--tls-cert", "n.pem"],
            &["./data", "--tls-key", "n.key"],
            &["./data", "--max-connections", "0"],
            &["./data", "--max-connections-per-address", "0"],
            &["./data", "--max-http-connections", "0"],
            &["./data", "--resp", "6379"],
            &["./data", "--max-resp-connections", "0"],
            &["./data", "--max-unauthenticated", "0"],
            &["./data", "--sign-in-seconds", "0"],
            &["./data", "--max-inflight-bytes", "0"],
            &["./data", "--max-inflight-bytes-per-connection", "0"],
            &["./data", "--max-queued-requests", "0"],
            &["./data", "--max-request-bytes", "0"],
            &["./data", "--idle-seconds", "0"],
            &["./data", "--idle-seconds", "18446744073709551615"],
            &["./data", "--stall-seconds", "0"],
            &["./data", "--send-buffer-bytes", "2147483648"],
            &["certs", "dir"],
            &["certs", "--node", "a"],
            &["certs", "dir", "--node", "a", "--kafka", "127.0.0.1:1"],
            &[],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_first_owner_has_a_name_and_a_password_or_there_is_none() {
        let text = |text: &str| Some(Zeroizing::new(text.to_owned()));
        assert_eq!(first_user(None, None), Ok(None));
        let ada = first_user(text("ada"), text("s3cret")).unwrap().unwrap();
        assert_eq!((ada.name.as_str(), ada.password.as_str()), ("ada", "s3cret"));
        assert!(!format!("{ada:?}").contains("s3cret"));
        let long = text(&"s3cret".repeat(MAX_PASSWORD));
        for (name, password) in [
            (text("ada"), None),
            (None, text("x")),
            (text("a b"), text("s3cret")),
            (text("User"), text("s3cret")),
            (text("ada"), long),
        ] {
            let refused = first_user(name, password).unwrap_err().to_string();
            assert!(
                refused.contains("TESSARIDB_INITIAL_") && !refused.contains("s3cret"),
                "{refused}"
            );
        }
        assert!(parse(&["./data", "--user", "a b"]).is_err());
    }

    #[test]
    fn certs_is_a_task_of_its_own_and_no_folder() {
        let task = parse(&["certs", "dir", "--node", "a", "b", "--node", "c"])
            .unwrap()
            .task;
        let Some(Task::Certs(certs)) = task else {
            panic!("{task:?}")
        };
        assert_eq!(certs.dir, PathBuf::from("dir"));
        assert_eq!(certs.nodes, ["a", "b", "c"]);
        let folder = parse(&["./certs", "--kafka", "127.0.0.1:1"]).unwrap();
        assert!(folder.task.is_none());
        assert_eq!(folder.path, Some(PathBuf::from("./certs")));
    }

    #[test]
    fn what_peers_need_comes_all_together() {
        let all = [
            ("--cluster-address", "127.0.0.1:9180"),
            ("--cluster-credential", "node.pem"),
            ("--cluster-key", "node.key"),
            ("--cluster-authority", "authority.pem"),
        ];
        let given = |left_out: Option<usize>| {
            let flags = all.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
            let mut args = vec!["./data", "--serve", "127.0.0.1:9080"];
            args.extend(flags.flat_map(|(_, (flag, value))| [*flag, *value]));
            parse(&args)
        };
        assert!(given(None).is_ok());
        assert!((0..all.len()).all(|one| given(Some(one)).is_err()));
    }

    #[test]
    fn an_advertised_address_may_be_ipv6() {
        let config = parse(&["./data", "--kafka-advertise", "[fd00::1]:9092"]).unwrap();
        assert_eq!(config.kafka.kafka_advertise, Some(("fd00::1".into(), 9092)));
    }
}
