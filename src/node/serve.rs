//! A node and its front doors, from start to stop.

use super::adopted;
use super::folder::Folder;
use super::peering::Port;
use super::{Node, settings};
use crate::config::Config;
use crate::connections::Budget;
use crate::descriptors;
use crate::http;
use crate::kafka::KafkaServer;
use crate::resp::RespServer;
use crate::tls::{Door, Tls};
use anyhow::Context;
use cluster::catalog::Told;
use cluster::membership::is_occupied;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Descriptors that a node needs beside its connections'.
const FILES: usize = 512;

/// Serves until the node is stopped, also on behalf of the stores that it joins.
pub async fn serve(config: &Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    loop {
        match serve_once(config, &mut signals).await? {
            Served::Stopped => return Ok(()),
            Served::Occupied => tracing::warn!("another store wanted this node, which has been declared something"),
            Served::Wanted(store) => {
                tracing::info!(%store, "giving way to another store");
                let Folder {
                    files,
                    dir,
                    lock: _lock,
                } = Folder::claim(config)?;
                adopted::adopt(&*files, &dir, store)?;
            }
        }
    }
}

/// How serving ended.
enum Served {
    Stopped,
    /// Another store wants the node, which has nothing.
    Wanted(Uuid),
    /// Another store wanted it, but it has something now.
    Occupied,
}

/// Serves until the node is stopped, or wanted by the store that is answered.
async fn serve_once(config: &Config, signals: &mut Signals) -> anyhow::Result<Served> {
    let first = Config::initial_user()?;
    let tls = open_tls(config)?;
    make_room_for_connections(config);
    // Taken before anything is opened, so that a taken port leaves no trace in the folder.
    let http = bind(config.listen.serve.as_deref()).await?;
    let kafka = bind(config.listen.kafka.as_deref()).await?;
    let resp = bind(config.listen.resp.as_deref()).await?;
    let mut port = Port::bind(&config.cluster).await?;
    if let Some(port) = &mut port {
        port.tell(told(config, http.as_ref(), kafka.as_ref())?);
    }
    let addresses = (shown(http.as_ref())?, shown(kafka.as_ref())?, shown(resp.as_ref())?);
    let node = tokio::select! {
        node = Box::pin(Node::open_among(config, port)) => node?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was ready");
            return Ok(Served::Stopped);
        }
    };
    // The first owner is for the one who begins a store, not for those who join it.
    if let Some(first) = first
        && node.broker.catalog().view().members().nth(1).is_none()
    {
        // Before any front door opens: nobody else gets to be the first.
        let declared = node.auth.declare_first(&first.name, first.password.as_bytes()).await;
        declared.context("the first owner was not declared")?;
    }

    let budget = Budget::new(config.limits.max_inflight_bytes as usize);
    let mut collectors = node.collectors();
    let kafka = match kafka {
        Some(listener) => {
            let server = KafkaServer::start(
                listener,
                door(tls.as_ref(), None)?,
                settings::kafka(config, &node, budget.clone()),
                node.id,
                node.broker.clone(),
                node.groups.clone(),
                node.auth.clone(),
            )?;
            collectors.push(Box::new(server.collector()));
            Some(server)
        }
        None => None,
    };
    let resp = match resp {
        Some(listener) => {
            let (broker, engine, auth) = (node.broker.clone(), node.engine.clone(), node.auth.clone());
            let door = door(tls.as_ref(), None)?;
            let server = RespServer::start(
                listener,
                door,
                settings::resp(config, budget.clone()),
                broker,
                engine,
                auth,
            )?;
            collectors.push(Box::new(server.collector()));
            Some(server)
        }
        None => None,
    };
    let (ready, is_ready) = watch::channel(false);
    let stop = CancellationToken::new();
    let http = match http {
        Some(listener) => {
            let limits = http::Limits {
                connections: config.limits.max_http_connections,
                stall: Duration::from_secs(config.limits.stall_seconds),
                ..http::Limits::default()
            };
            let door = door(tls.as_ref(), Some("http/1.1"))?;
            let server = http::Server::new(node.engine.clone(), node.auth.clone(), is_ready, collectors, limits);
            let server = server.behind(door).within(&budget);
            Some(tokio::spawn(server.serve(listener, stop.clone())))
        }
        None => None,
    };
    tracing::info!(
        node = %node.id,
        broker = %node.broker_id,
        serve = addresses.0,
        kafka = addresses.1,
        resp = addresses.2,
        tls = tls.is_some(),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    ready.send_replace(true);

    let mut fatal = node.host.fatal();
    let (failure, wanted) = tokio::select! {
        signal = signals.next() => { tracing::info!(signal, "stopping"); (None, None) }
        reason = fatal.wait_for(Option::is_some) => (reason.ok().and_then(|r| r.clone()), None),
        store = node.wanted() => (None, Some(store)),
    };
    ready.send_replace(false);
    if let (None, None, Some(among)) = (&failure, wanted, &node.among) {
        among.hand_over().await;
    }
    stop.cancel();
    if let Some(kafka) = kafka {
        // First, as members that wait for a rebalance would hold up the stop.
        node.groups.close();
        kafka.stop().await;
    }
    if let Some(resp) = resp {
        resp.stop().await;
    }
    if let Some(http) = http {
        http.await.context("the HTTP front door")?;
    }
    let occupied = is_occupied(&node.broker.catalog().view(), node.id);
    node.close().await;
    match (failure, wanted) {
        (Some(why), _) => Err(anyhow::anyhow!("the node no longer writes: {why}")),
        (None, Some(_)) if occupied => Ok(Served::Occupied),
        (None, Some(store)) => Ok(Served::Wanted(store)),
        (None, None) => {
            tracing::info!("stopped");
            Ok(Served::Stopped)
        }
    }
}

/// What the node tells the others of itself: addresses that can be connected to.
fn told(config: &Config, http: Option<&TcpListener>, kafka: Option<&TcpListener>) -> io::Result<Told> {
    let listens = |listener: Option<&TcpListener>| {
        let address = listener.map(TcpListener::local_addr).transpose()?;
        Ok::<_, io::Error>(address.filter(|address| !address.ip().is_unspecified()))
    };
    let kafka = listens(kafka)?.map(|address| (address.ip().to_string(), address.port()));
    Ok(Told {
        kafka: config.kafka.kafka_advertise.clone().or(kafka),
        serve: listens(http)?.map(|address| address.to_string()),
    })
}

/// The certificate of the client ports, where one is given.
fn open_tls(config: &Config) -> anyhow::Result<Option<Tls>> {
    match (&config.tls.tls_cert, &config.tls.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::open(certificate, key)?)),
        _ if config.tls.require_client_tls => {
            anyhow::bail!("--require-client-tls: without --tls-cert and --tls-key the ports would be in the clear")
        }
        _ => Ok(None),
    }
}

fn door(tls: Option<&Tls>, protocol: Option<&str>) -> anyhow::Result<Door> {
    Ok(match tls {
        Some(tls) => tls.door(protocol)?,
        None => Door::plain(),
    })
}

/// Descriptors for every connection the limits allow, or a word about it.
fn make_room_for_connections(config: &Config) {
    let limits = &config.limits;
    let resp = config.listen.resp.as_ref().map_or(0, |_| limits.max_resp_connections);
    let wanted = limits.max_connections + limits.max_http_connections + resp;
    match descriptors::raise() {
        Ok(most) if (most as usize) < wanted + FILES => tracing::warn!(
            most,
            wanted,
            "this process may not open as many files as its limits allow connections; raise LimitNOFILE or ulimit -n"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}

fn shown(listener: Option<&TcpListener>) -> io::Result<String> {
    listener.map_or_else(|| Ok("none".to_owned()), |l| l.local_addr().map(|a| a.to_string()))
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn bind(address: Option<&str>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {address}"))
}
