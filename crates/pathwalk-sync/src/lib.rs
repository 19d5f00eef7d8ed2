//! What a lock-free walk stands on: sequence counts, lockrefs, type-stable arenas, hash chains that
//! tell a lured reader, striped counters. Nothing here knows what a file is.
//!
//! ```text
//!   Arena ── slots, named by 32-bit ids, readable while it lives
//!     └ a slot's Seq      even = stable, odd = being changed, never reset
//!     └ a slot's Lockref  lock, count and dead in eight bytes
//!     └ a slot's Link ──► Table: chains whose end names their bucket
//! ```
//!
//! This is the only crate that names a memory ordering other than `Relaxed`. What the rest of the
//! project reads and writes in a slot are [`Cell32`] and [`Cell64`], which are relaxed; whatever
//! orders them is one of the types here.
//!
//! Reading order: [`seq`] (how a reader knows), [`lockref`] (how a holder holds), [`arena`] (where slots
//! live), [`vacant`] (where their memory goes), [`chain`] (how they are found), [`striped`], [`shelf`], [`spares`], [`numbers`], [`blob`], [`gate`], [`bytes`].

pub mod seq;

pub mod lockref;

pub mod arena;

pub mod vacant;

pub mod chain;

pub mod striped;

pub mod shelf;

pub mod spares;

pub mod numbers;

pub mod blob;

pub mod gate;

pub mod bytes;

pub mod cell;

pub mod spin;

pub mod lock_order;

#[cfg(not(loom))]
pub mod clock;

mod lock;
mod mapping;
mod shim;

pub use arena::{Arena, Slot};
pub use blob::{Blob, BlobArena};
pub use cell::{Cell32, Cell64};
pub use chain::{Absent, Chain, Link, Linked, Table, View};
pub use lock_order::Rank;
pub use lockref::{LockGuard, Lockref};
pub use mapping::{Slots, Words};
pub use numbers::Numbers;
pub use seq::{Change, Sample, Seq};
pub use shelf::{Lent, Shelf};
pub use spares::Spares;
pub use spin::Spin;
pub use striped::{Striped, Stripes};
pub use vacant::Returned;
