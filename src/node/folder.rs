//! The folder of a store: claimed for one process, and where a node keeps who it is.

use crate::config::Config;
use anyhow::Context;
use cluster::fs::{self, Disk, FileSystem};
use cluster::ids::NodeId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a store, claimed for this process.
pub struct Folder {
    pub files: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub lock: fs::Lock,
}

impl Folder {
    /// Makes it where there is none. An error where another process has it.
    pub fn claim(config: &Config) -> anyhow::Result<Self> {
        let dir = config.path.clone().context("a store needs a folder")?;
        let files: Arc<dyn FileSystem> = Arc::new(Disk);
        files
            .create_dir(&dir)
            .with_context(|| format!("{} cannot be made", dir.display()))?;
        match files.lock(&dir.join("lock")) {
            Ok(lock) => Ok(Self { files, dir, lock }),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                anyhow::bail!("{} is in use by another process", dir.display())
            }
            Err(e) => Err(e).with_context(|| format!("{} cannot be locked", dir.display())),
        }
    }
}

/// The node's identity is one line of text: magic, version, id, and the CRC-32C of what stands before it.
const NODE_MAGIC: &str = "tessaridb-node 1";

fn node_line(id: NodeId) -> String {
    let text = format!("{NODE_MAGIC} {id}");
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes());
    format!("{text} {crc:08x}\n")
}

/// The id kept in the folder, or a new one; `wanted` must agree with it.
pub fn node_id(files: &dyn FileSystem, dir: &Path, wanted: Option<NodeId>) -> anyhow::Result<NodeId> {
    let path = dir.join("node");
    match fs::read(files, &path, 128) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let id = text
                .strip_prefix(NODE_MAGIC)
                .and_then(|rest| rest.get(1..33)?.parse().ok());
            match (id.filter(|id| node_line(*id) == text), wanted) {
                (None, _) => anyhow::bail!("{} is damaged, or of another version", path.display()),
                (Some(id), Some(wanted)) if wanted != id => {
                    anyhow::bail!("{} holds node {id}, not {wanted}", dir.display())
                }
                (Some(id), _) => Ok(id),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let id = wanted.unwrap_or_else(NodeId::random);
            fs::replace(files, &path, node_line(id).as_bytes())?;
            Ok(id)
        }
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id_and_notices_damage() {
        let dir = tempfile::tempdir().unwrap();
        let id = node_id(&Disk, dir.path(), None).unwrap();
        assert_eq!(node_id(&Disk, dir.path(), None).unwrap(), id);
        assert!(
            node_id(&Disk, dir.path(), Some(NodeId(7)))
                .unwrap_err()
                .to_string()
                .contains("holds node")
        );
        let path = dir.path().join("node");
        let line = std::fs::read(&path).unwrap();
        for at in 0..line.len() {
            let mut damaged = line.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(node_id(&Disk, dir.path(), None).is_err(), "byte {at}");
        }
    }
}
