//! The file that says which store a folder belongs to among others, and emptying the folder for it.
//!
//! A node of several must know its store before its catalog has come: peers of no store are not answered, and it is by
//! them that the catalog comes after a crash.
//!
//! The file `cluster` is one line of text: magic, version, how far it has come (`joining` until the folder is empty, then
//! `joined`), the store's id, and the CRC-32C of what stands before it.

use anyhow::Context;
use cluster::catalog::Catalog;
use cluster::fs::{self, FileSystem};
use cluster::ids::NodeId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

const MAGIC: &str = "tessaridb-cluster 1";
const FILE: &str = "cluster";
const JOINING: &str = "joining";
const JOINED: &str = "joined";

fn line(step: &str, store: Uuid) -> String {
    let text = format!("{MAGIC} {step} {}", store.simple());
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes());
    format!("{text} {crc:08x}\n")
}

/// The store that a folder was taken into, or that took in others; `None` for one that began by itself and is alone. Ends what a crash interrupted.
pub(super) fn adopted(files: &dyn FileSystem, dir: &Path) -> anyhow::Result<Option<Uuid>> {
    let path = dir.join(FILE);
    let text = match fs::read(files, &path, 256) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let mut words = text.strip_prefix(MAGIC).unwrap_or_default().split_whitespace();
    let (step, store) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match Uuid::try_parse(store) {
        Ok(store) if line(JOINED, store) == text => Ok(Some(store)),
        Ok(store) if line(JOINING, store) == text => {
            adopt(files, dir, store)?;
            Ok(Some(store))
        }
        _ => anyhow::bail!("{} is damaged, or of another version ({step})", path.display()),
    }
}

/// Empties a folder, which nobody has open, so that its node can be taken into `store`.
pub(super) fn adopt(files: &dyn FileSystem, dir: &Path, store: Uuid) -> anyhow::Result<()> {
    let path = dir.join(FILE);
    fs::replace(files, &path, line(JOINING, store).as_bytes())?;
    files.remove_dir(&dir.join("wal"))?;
    files.remove_dir(&dir.join("topics"))?;
    match files.remove(&dir.join("meta.redb")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
        Ok(()) | Err(_) => {}
    }
    files.sync_dir(dir)?;
    fs::replace(files, &path, line(JOINED, store).as_bytes())?;
    Ok(())
}

/// Notes the store of a node that began it, as soon as others are declared; for a task of its own.
pub(super) async fn note_others(files: Arc<dyn FileSystem>, dir: PathBuf, catalog: Catalog, node: NodeId) {
    let mut changed = catalog.changed();
    let store = loop {
        let view = catalog.view();
        match view.store() {
            Some(store) if view.members().any(|member| member.node != Some(node)) => break store,
            _ => {}
        }
        if changed.changed().await.is_err() {
            return;
        }
    };
    let noted = cluster::threads::blocking(move || {
        let path = dir.join(FILE);
        fs::replace(&*files, &path, line(JOINED, store).as_bytes())
    });
    match noted.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the store of this node is not noted in its folder"),
        Err(error) => tracing::error!(%error, "the store of this node is not noted in its folder"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::fs::MemoryFs;

    const STORE: Uuid = Uuid::from_u128(7);

    fn folder() -> MemoryFs {
        let files = MemoryFs::new(1);
        let dyn_files: &dyn FileSystem = &files;
        for dir in ["/d", "/d/wal", "/d/topics"] {
            dyn_files.create_dir(Path::new(dir)).unwrap();
        }
        for name in ["/d/wal/1", "/d/meta.redb", "/d/node"] {
            fs::replace(dyn_files, Path::new(name), b"x").unwrap();
        }
        files
    }

    fn names(files: &MemoryFs) -> Vec<String> {
        let mut names: Vec<String> = FileSystem::list(files, Path::new("/d"))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_that_was_taken_in_holds_its_node_id_and_nothing_else() {
        let files = folder();
        assert_eq!(adopted(&files, Path::new("/d")).unwrap(), None);
        adopt(&files, Path::new("/d"), STORE).unwrap();
        assert_eq!(names(&files), ["cluster", "node"]);
        assert_eq!(adopted(&files, Path::new("/d")).unwrap(), Some(STORE));
    }

    #[test]
    fn an_emptying_that_was_interrupted_is_ended_at_the_next_open() {
        let files = folder();
        fs::replace(&files, Path::new("/d/cluster"), line(JOINING, STORE).as_bytes()).unwrap();
        assert_eq!(adopted(&files, Path::new("/d")).unwrap(), Some(STORE));
        assert_eq!(names(&files), ["cluster", "node"]);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let files = folder();
        let mut bad = line(JOINED, STORE);
        bad.replace_range(30..31, "z");
        fs::replace(&files, Path::new("/d/cluster"), bad.as_bytes()).unwrap();
        assert!(adopted(&files, Path::new("/d")).is_err());
        assert_eq!(names(&files).len(), 5, "nothing is removed");
    }
}
