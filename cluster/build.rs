//! Makes the peer protocol's types from `proto/`, without a protoc to install.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FILES: [&str; 4] = [
        "tessaridb/peer/v1/raft.proto",
        "tessaridb/peer/v1/membership.proto",
        "tessaridb/peer/v1/forward.proto",
        "tessaridb/peer/v1/members.proto",
    ];
    println!("cargo:rerun-if-changed=../proto");
    let files = protox::compile(FILES, ["../proto"])?;
    tonic_prost_build::configure()
        // Payloads stay slices of the buffer they came in.
        .bytes(".")
        .compile_fds(files)?;
    Ok(())
}
