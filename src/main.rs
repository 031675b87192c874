//! The `terret-ws` binary.

fn main() {}
