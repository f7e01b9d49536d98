//! A network of the run's own: a namespace a member, on a bridge to which clients are bound too.
//!
//! ```text
//!   clients --- bridge (10.83.x.254) --- veth --- member 0 (10.83.x.1)
//!                                    --- veth --- member 1 (10.83.x.2)
//! ```
//!
//! Names carry the process that made them, so that a later run removes what one that was killed has left.

use anyhow::{Context, bail};
use std::process::{Command, Stdio};

/// What namespaces begin with; the process and the member follow.
const PREFIX: &str = "tessaridb-chaos-";
/// What links of this machine begin with; a link's name has 15 characters at most.
const LINK: &str = "tdbc";

/// The network. Removed when it is dropped.
pub struct Net {
    process: u32,
    subnet: u8,
    members: usize,
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let out = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.to_owned())?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        bail!("{program} {}: {}", arguments.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn ip(arguments: &str) -> anyhow::Result<String> {
    run("ip", &arguments.split_whitespace().collect::<Vec<_>>())
}

/// Whether such networks can be made here: as root, where the kernel has what they need.
pub fn possible() -> bool {
    // SAFETY: asks a number of the kernel.
    let root = unsafe { libc::geteuid() } == 0;
    root && run("ip", &["-V"]).is_ok() && std::path::Path::new("/proc/self/ns/net").exists()
}

/// Removes what runs that are gone have left.
fn sweep() {
    let gone = |process: &str| {
        let number = process.parse::<u32>().ok();
        number.is_some_and(|number| !std::path::Path::new(&format!("/proc/{number}")).exists())
    };
    for line in ip("netns list").unwrap_or_default().lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(gone) {
            let _ = ip(&format!("netns del {name}"));
        }
    }
    for line in ip("-o link show type bridge").unwrap_or_default().lines() {
        let name = line.split(": ").nth(1).unwrap_or_default();
        if name.strip_prefix(LINK).is_some_and(gone) {
            let _ = ip(&format!("link del {name}"));
        }
    }
}

impl Net {
    /// A network for so many members.
    ///
    /// # Errors
    /// `ip` or the kernel refuses; what was made is removed.
    pub fn new(members: usize) -> anyhow::Result<Self> {
        sweep();
        let process = std::process::id();
        let net = Self {
            process,
            subnet: (process % 250) as u8,
            members,
        };
        let bridge = net.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add 10.83.{}.254/24 dev {bridge}", net.subnet))?;
        ip(&format!("link set {bridge} up"))?;
        for member in 0..members {
            let (namespace, outside) = (net.namespace(member), net.outside(member));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!(
                "link add {outside} type veth peer name eth0 netns {namespace}"
            ))?;
            ip(&format!("link set {outside} master {bridge}"))?;
            ip(&format!("link set {outside} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev eth0", net.address(member)))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(net)
    }

    fn bridge(&self) -> String {
        format!("{LINK}{}", self.process)
    }

    fn outside(&self, member: usize) -> String {
        format!("{LINK}{}m{member}", self.process)
    }

    /// The namespace of a member.
    pub fn namespace(&self, member: usize) -> String {
        format!("{PREFIX}{}-{member}", self.process)
    }

    /// The address of a member.
    pub fn address(&self, member: usize) -> String {
        format!("10.83.{}.{}", self.subnet, member + 1)
    }

    /// Cuts a member off from all others and from clients, or no longer.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn cut(&self, member: usize, cut: bool) -> anyhow::Result<()> {
        let state = if cut { "down" } else { "up" };
        ip(&format!("link set {} {state}", self.outside(member))).map(drop)
    }

    /// Lets nothing go from one member to another, or no longer; what goes the other way arrives.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn cut_way(&self, from: usize, to: usize, cut: bool) -> anyhow::Result<()> {
        let change = if cut { "add" } else { "del" };
        ip(&format!(
            "-n {} route {change} blackhole {}/32",
            self.namespace(from),
            self.address(to)
        ))
        .map(drop)
    }

    /// Lets so many kilobits a second to a member and from it; `None`: as fast as it goes. What does not fit waits for up to
    /// 400 ms, then it is lost.
    ///
    /// # Errors
    /// `tc` refuses.
    pub fn slow(&self, member: usize, kilobits: Option<u32>) -> anyhow::Result<()> {
        let (namespace, outside) = (self.namespace(member), self.outside(member));
        let tc = |namespace: Option<&str>, device: &str| {
            let mut arguments: Vec<String> = Vec::new();
            if let Some(namespace) = namespace {
                arguments.extend(["-n".to_owned(), namespace.to_owned()]);
            }
            arguments.extend(["qdisc", if kilobits.is_some() { "add" } else { "del" }, "dev"].map(str::to_owned));
            arguments.extend([device.to_owned(), "root".to_owned()]);
            if let Some(kilobits) = kilobits {
                let rate = format!("{kilobits}kbit");
                arguments.extend(["tbf", "rate", &rate, "burst", "64kb", "latency", "400ms"].map(str::to_owned));
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run("tc", &arguments).map(drop)
        };
        tc(None, &outside)?;
        tc(Some(&namespace), "eth0")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for member in 0..self.members {
            let _ = ip(&format!("link del {}", self.outside(member)));
            let _ = ip(&format!("netns del {}", self.namespace(member)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}
