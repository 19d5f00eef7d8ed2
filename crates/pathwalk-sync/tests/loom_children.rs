//! A set of children and the chains they lie in: a name that is replaced is never surely absent, nor its chain surely empty.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Absent, Arena, Cell64, Link, Linked, Rank, Seq, Table, slot};
use std::{collections::BTreeSet, sync::Arc};

slot! {
    /// A child that is known by its name.
    struct Child {
        link: Link,
        name: Cell64,
    }
}

impl Linked for Child {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        hash(self.name.get())
    }
}

/// Even names are in one bucket, odd ones in another.
fn hash(name: u64) -> u64 {
    name << 32
}

/// A directory all of whose children are here. One writer at a time: no model is about its lock.
struct Directory {
    children: Arena<Child>,
    table: Table,
    children_seq: Seq,
}

/// What a reader says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Found,
    Absent,
    Unsure,
}

impl Directory {
    fn of(names: &[u64]) -> Arc<Self> {
        let directory = Self {
            children: Arena::new(3).unwrap(),
            table: Table::new(4, Rank(1)).unwrap(),
            children_seq: Seq::default(),
        };
        directory.table.grow(&directory.children, 2);
        for &name in names {
            let id = directory.children.alloc().unwrap();
            directory.children.get(id).name.set(name);
            directory.table.insert(id, directory.children.get(id));
        }
        Arc::new(directory)
    }

    /// Gives the child `from` the name `to` in place of the child that has it; as `d_move` does.
    fn replace(&self, from: u64, to: u64) {
        let id_of = |name| {
            let it = |id, child: &Child| (child.name.get() == name).then_some(id);
            self.table.find_locked(&self.children, hash(name), it).unwrap()
        };
        let (source, target) = (id_of(from), id_of(to));
        let _children = self.children_seq.change();
        self.remove(target);
        self.remove(source);
        self.children.get(source).name.set(to);
        self.table.insert(source, self.children.get(source));
    }

    fn remove(&self, id: u32) {
        self.table.remove(&self.children, id, self.children.get(id));
    }

    /// As `surely_absent` asks, once.
    fn look(&self, name: u64) -> Says {
        let before = self.children_seq.sample();
        // A hit counts as one: whether the child still has that name is what its own count is for.
        let found = self.table.find_sure(&self.children, hash(name), |_, child| {
            (child.name.get() == name).then_some(())
        });
        match found {
            Absent::Found(()) => Says::Found,
            Absent::Sure if self.children_seq.unchanged(before) => Says::Absent,
            Absent::Sure | Absent::Unsure => Says::Unsure,
        }
    }

    /// As `is_absent` asks: only whether the chain is empty.
    fn look_at_chain(&self, name: u64) -> Says {
        let before = self.children_seq.sample();
        let empty = self.table.is_surely_empty(hash(name));
        if empty && self.children_seq.unchanged(before) { Says::Absent } else { Says::Unsure }
    }
}

/// What a look at `name` may say while the child `from` takes the name 0.
fn seen_of(from: u64, name: u64, look: fn(&Directory, u64) -> Says) -> BTreeSet<Says> {
    explore(move || {
        let directory = Directory::of(&[0, from]);
        let writer = spawn(&directory, move |directory| directory.replace(from, 0));
        let reader = spawn(&directory, move |directory| look(directory, name));
        writer.join().unwrap();
        assert_eq!((directory.look(0), directory.look(from)), (Says::Found, Says::Absent));
        reader.join().unwrap()
    })
}

#[test]
fn a_name_that_is_replaced_is_never_absent() {
    // In buckets of their own, and in one.
    for from in [1, 2] {
        let seen = seen_of(from, 0, Directory::look);
        assert_eq!(seen, BTreeSet::from([Says::Found, Says::Unsure]));
        let seen = seen_of(from, 0, Directory::look_at_chain);
        assert_eq!(seen, BTreeSet::from([Says::Unsure]));
    }
}

#[test]
fn a_name_that_is_given_up_is_there_or_absent() {
    for from in [1, 2] {
        let all = [Says::Found, Says::Absent, Says::Unsure];
        assert_eq!(seen_of(from, from, Directory::look), BTreeSet::from(all));
    }
    // The one that stays is in the other's chain, where they share it.
    let seen = seen_of(1, 1, Directory::look_at_chain);
    assert_eq!(seen, BTreeSet::from([Says::Absent, Says::Unsure]));
}
