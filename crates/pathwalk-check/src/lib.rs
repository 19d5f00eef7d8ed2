//! The oracle: the same calls to pathwalk and to the running kernel, and after each one the same answer.
//!
//! ```text
//!   scenarios   tables of calls with the answers that Linux 6.18 gave      ─┐
//!   random      calls drawn at random; a finding is shrunk and printed     ─┴─► Pair ─► Kernel, Ours
//! ```
//!
//! The kernel is asked in a mount namespace of its own, which takes root; without it the tables are held against pathwalk
//! alone and nothing is drawn.

mod run;

mod scenario;

mod scenarios;

mod random;

mod shrink;

mod generate;
mod idmaps;

mod worlds;

mod races;

mod linux_md;

mod coverage;

mod pair;

mod listing;
mod look;

mod call;

mod field;

mod value;

mod answer;

mod normal;

mod subject;

mod ours;
mod ours_listmount;

mod ours_xattr;

mod host_dir;

mod process;

mod kernel;

mod error;

#[cfg(test)]
#[path = "../../left_out.rs"]
mod left_out;

pub use error::Error;
pub use host_dir::OnHost;
pub use process::{SUBJECT, subject};
pub use run::{Args, Report, check, run, tables};
pub use subject::Engine;
