//! The pathwalk command.

fn main() {}
