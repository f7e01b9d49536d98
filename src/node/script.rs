//! TessariQL from the command line: on a running node, or on a folder that no node has.

use super::{Node, runtime};
use crate::auth::{Caller, Origin, Surface, Who};
use crate::config::Config;
use crate::shell::{Ending, Input, Remote, Shell, Store};

/// Runs TessariQL on the node at `--at`, or on the store at PATH; answers the exit status.
pub fn shell(config: &Config) -> anyhow::Result<Ending> {
    let input = match (&config.script.execute, &config.script.file) {
        (Some(script), _) => Input::Script(script.clone()),
        (None, Some(path)) => Input::File(path.clone()),
        (None, None) => Input::Standard,
    };
    let parameters = config.script.parameters.clone();
    let user = config.credentials()?;
    if let Some(at) = &config.script.at {
        let mut remote = Remote::new(at);
        if let Some(authority) = &config.script.tls_authority {
            remote = remote.trusting(authority)?;
        }
        if let Some(user) = &user {
            remote = remote.signed_in_as(&user.name, &user.password);
        }
        return Ok(Shell::new(Store::Remote(remote), parameters).run(input));
    }
    let runtime = runtime()?;
    let node = runtime.block_on(Node::open(config))?;
    let origin = Origin {
        surface: Surface::Shell,
        remote: None,
    };
    // Whoever can open the folder can read and write everything in it: no password stands before that. A user that is
    // named is taken at its word all the same, so that its rights can be tried.
    let who = match &user {
        None => Who::Folder,
        Some(user) => {
            let signing_in = node.auth.sign_in(&user.name, user.password.as_bytes(), &origin);
            match runtime.block_on(signing_in) {
                Ok(principal) => Who::User(principal),
                Err(refused) => {
                    runtime.block_on(node.close());
                    anyhow::bail!("{}: {refused}", user.name);
                }
            }
        }
    };
    let store = Store::Local {
        scripts: node.engine.clone(),
        caller: Caller { who, origin },
        runtime: runtime.handle().clone(),
    };
    let ending = Shell::new(store, parameters).run(input);
    runtime.block_on(node.close());
    Ok(ending)
}
