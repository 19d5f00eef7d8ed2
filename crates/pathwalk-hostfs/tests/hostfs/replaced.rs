//! What is asked anew as others replaced a file.

use crate::coherence::{ground, often};
use pathwalk_abi::{Errno, OpenFlags, Result, Timespec};
use pathwalk_core::{
    Config, Cred, InodeRef, Subject, Vfs,
    fs::{Features, FileSystem, Found, OpenHandle},
};
use pathwalk_hostfs::{Coherence, HostFs};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Opens nothing the first time, as if others had replaced it meanwhile; and counts how often the host is asked more then than by who believes it.
struct Replaced {
    inner: Arc<HostFs>,
    stale: AtomicUsize,
    anew: AtomicUsize,
    calls: AtomicUsize,
}

impl FileSystem for Replaced {
    fn kind(&self) -> &str {
        "replaced"
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn root(&self, who: &Subject<'_>, now: Timespec) -> Result<Found> {
        self.inner.root(who, now)
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.inner.lookup(dir, name)
    }

    fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.inner.revalidate(dir, name, cached)
    }

    fn revalidate_anew(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        let start = self.inner.host_calls();
        let _ = self.inner.revalidate(dir, name, cached);
        let told = self.inner.host_calls();
        let holds = self.inner.revalidate_anew(dir, name, cached);
        if self.inner.host_calls() - told > told - start {
            self.calls.fetch_add(1, Relaxed);
        }
        self.anew.fetch_add(1, Relaxed);
        holds
    }

    fn open(&self, inode: InodeRef<'_>, flags: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        let stale = self.stale.try_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if stale.is_ok() { Err(Errno::ESTALE) } else { self.inner.open(inode, flags) }
    }

    fn evict(&self, node: u64, unlinked: bool) {
        self.inner.evict(node, unlinked);
    }
}

/// What others did is told some time after it was done: who met it before must not be kept by what was told before that.
#[test]
fn after_a_stale_answer_the_host_is_asked() {
    let ground = ground(Coherence::Watched);
    let counter = AtomicUsize::default;
    let fs = Replaced {
        inner: Arc::clone(&ground.fs),
        stale: counter(),
        anew: counter(),
        calls: counter(),
    };
    let fs = Arc::new(fs);
    let task = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap().task(Cred::root());
    let open = || task.open("/a/b/c/file", OpenFlags::RDONLY, 0).map(drop);
    assert_eq!(often(open), Ok(()));
    assert_eq!(fs.anew.load(Relaxed), 0);
    fs.stale.store(1, Relaxed);
    assert_eq!(open(), Ok(()));
    let (anew, calls) = (fs.anew.load(Relaxed), fs.calls.load(Relaxed));
    assert!(anew >= 4 && calls == anew, "{calls} of {anew}");
}
