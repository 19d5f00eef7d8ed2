//! Slots that are used again: a walk that holds nothing never takes one thing for another.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{
    Absent, Arena, Cell32, Cell64, Link, Linked, Lockref, Rank, Returned, Sample, Seq, Table, slot,
};
use std::{collections::BTreeSet, sync::Arc};

const DENTRY: Rank = Rank(1);
const BUCKET: Rank = Rank(2);

/// The parent of every name here; a free slot has none.
const PARENT: u32 = 1;
/// The two names. What `NAME` leads to is `10 * NAME`.
const OLD: u32 = 1;
const NEW: u32 = 2;

slot! {
    /// A name: what of a dentry a walk looks at, and what keeps it.
    struct Dentry: Words {
        link: Link,
        seq: Seq,
        lockref: Lockref,
        parent: Cell32,
        name: Cell32,
        inode: Cell32,
        key: Cell64,
    }
}

impl Linked for Dentry {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        self.key.get()
    }
}

impl Returned for Dentry {
    fn lockref(&self) -> &Lockref {
        &self.lockref
    }

    fn seqs(&self) -> impl Iterator<Item = &Seq> {
        std::iter::once(&self.seq)
    }
}

/// A name's hash: the names are in buckets of their own.
fn key(name: u32) -> u64 {
    u64::from(name) << 32
}

struct Cache {
    dentries: Arena<Dentry>,
    table: Table,
}

/// What a walk learned of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Walk {
    /// It is not there, perhaps.
    Miss,
    /// It was there, but is not any more, or was not all there yet.
    Changed,
    /// It led to this inode, and then to something else or nothing.
    Left(u32),
    /// It led to this inode, twice.
    Stayed(u32),
}

use Walk::{Changed, Left, Miss, Stayed};

impl Cache {
    /// A cache of one slot, which has the old name and a count.
    fn new() -> Arc<Self> {
        let dentries: Arena<Dentry> = Arena::returning(1).unwrap();
        dentries.get(0).link().lead_nowhere();
        let cache = Self { dentries, table: Table::new(2, BUCKET).unwrap() };
        cache.table.grow(&cache.dentries, 2);
        cache.create(OLD);
        Arc::new(cache)
    }

    /// Gives a free slot a name and a count.
    fn create(&self, name: u32) {
        let id = self.dentries.alloc().expect("one slot is enough for one name");
        let dentry = self.dentries.get(id);
        {
            let _change = dentry.seq.change();
            dentry.parent.set(PARENT);
            dentry.name.set(name);
            dentry.inode.set(10 * name);
            dentry.key.set(key(name));
        }
        dentry.lockref.revive();
        self.table.insert(id, dentry);
    }

    /// Takes the name out of its chain; the caller holds the dentry's lock.
    fn unhash(&self, id: u32) {
        let dentry = self.dentries.get(id);
        self.table.remove(&self.dentries, id, dentry);
        let _change = dentry.seq.change();
        dentry.parent.set(0);
    }

    /// Finds a name by walking, holding nothing.
    fn find(&self, name: u32) -> Option<(u32, Sample)> {
        let mut chain = self.table.view().chain(self.dentries.slots(), key(name));
        while let Some((id, dentry)) = chain.slot() {
            let sample = dentry.seq.sample();
            let same = dentry.name.get() == name && dentry.parent.get() == PARENT;
            if same && sample != Sample::NONE {
                return Some((id, sample));
            }
            chain.go_on(dentry);
        }
        None
    }

    /// Finds a name, believes it, and uses it once more by its id and the sample.
    fn walk(&self, name: u32) -> Walk {
        let Some((id, sample)) = self.find(name) else { return Miss };
        let dentry = self.dentries.get(id);
        let inode = dentry.inode.get();
        if !dentry.seq.unchanged(sample) {
            return Changed;
        }
        assert_eq!(inode, 10 * name, "a believed hit is another thing");
        let again = dentry.inode.get();
        if !dentry.seq.unchanged(sample) {
            return Left(inode);
        }
        assert_eq!(again, inode, "id and sample name another thing");
        Stayed(inode)
    }

    /// Gives a count back; the last one frees what no name leads to any more. Says whether it did.
    fn put(&self, id: u32) -> bool {
        let dentry = self.dentries.get(id);
        if dentry.lockref.put() != 0 || dentry.parent.get() != 0 {
            return false;
        }
        let guard = dentry.lockref.lock(DENTRY);
        if dentry.parent.get() != 0 || !guard.mark_dead() {
            return false;
        }
        drop(guard);
        self.dentries.free(id);
        true
    }
}

#[test]
fn a_believed_hit_is_the_thing_that_was_looked_for() {
    // Its memory may have gone back to the system in between.
    for memory_goes in [false, true] {
        let seen = explore(move || reuse(memory_goes));
        // Only what is complete is put into a chain, so the new name is there or not; and once it is there, the old
        // one is gone.
        let all = [
            (Miss, Miss),
            (Miss, Changed),
            (Miss, Left(10)),
            (Miss, Stayed(10)),
            (Stayed(20), Miss),
        ];
        assert_eq!(seen, BTreeSet::from(all), "{memory_goes}");
    }
}

/// What a reader finds of both names while the slot of one becomes that of the other.
fn reuse(memory_goes: bool) -> (Walk, Walk) {
    let cache = Cache::new();
    let writer = spawn(&cache, move |cache| {
        let (id, _) = cache.find(OLD).unwrap();
        {
            let _guard = cache.dentries.get(id).lockref.lock(DENTRY);
            cache.unhash(id);
        }
        assert!(cache.put(id));
        if memory_goes {
            cache.dentries.trim();
            assert_eq!(cache.dentries.get(id).seq.sample(), Sample::NONE);
        }
        cache.create(NEW);
    });
    let reader = spawn(&cache, |cache| (cache.walk(NEW), cache.walk(OLD)));
    writer.join().unwrap();
    assert_eq!((cache.walk(NEW), cache.walk(OLD)), (Stayed(20), Miss));
    reader.join().unwrap()
}

/// What became of a walk that wanted to hold what it had found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unlazy {
    Lost,
    /// The slot was dead.
    Dead,
    /// It had a count, but of a slot that had changed: given back, and whether that freed the slot.
    Changed {
        freed: bool,
    },
    /// It held what it had found, and then gave it back, and whether that freed the slot.
    Held {
        freed: bool,
    },
}

#[test]
fn what_a_walk_holds_is_not_used_again_until_it_lets_go() {
    let seen = explore(|| {
        let cache = Cache::new();
        let unlinker = spawn(&cache, |cache| {
            let (id, _) = cache.find(OLD).unwrap();
            {
                let _guard = cache.dentries.get(id).lockref.lock(DENTRY);
                cache.unhash(id);
            }
            let freed = cache.put(id);
            if freed {
                cache.create(NEW);
            }
            freed
        });
        let walker = spawn(&cache, |cache| {
            let Some((id, sample)) = cache.find(OLD) else { return Unlazy::Lost };
            let dentry = cache.dentries.get(id);
            if !dentry.lockref.get_not_dead() {
                return Unlazy::Dead;
            }
            if !dentry.seq.unchanged(sample) {
                return Unlazy::Changed { freed: cache.put(id) };
            }
            assert_eq!(dentry.inode.get(), 10, "what is held is another thing");
            assert_eq!(dentry.name.get(), OLD, "what is held is another thing");
            Unlazy::Held { freed: cache.put(id) }
        });
        let by_unlinker = unlinker.join().unwrap();
        let walked = walker.join().unwrap();
        let by_walker =
            matches!(walked, Unlazy::Changed { freed: true } | Unlazy::Held { freed: true });
        assert!(by_unlinker != by_walker, "{by_unlinker} {walked:?}");
        if by_walker {
            cache.create(NEW);
        }
        let found = cache.table.find_sure(&cache.dentries, key(NEW), |_, dentry| {
            (dentry.name.get() == NEW).then(|| dentry.lockref.count())
        });
        assert_eq!(found, Absent::Found(1));
        walked
    });
    let all = [
        Unlazy::Lost,
        Unlazy::Dead,
        Unlazy::Changed { freed: false },
        Unlazy::Changed { freed: true },
        Unlazy::Held { freed: false },
        Unlazy::Held { freed: true },
    ];
    assert_eq!(seen, BTreeSet::from(all));
}
