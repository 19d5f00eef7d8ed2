//! Who writes through a mount, and who makes it read-only or gives it a map meanwhile.

use crate::{
    check_whole,
    circles::{is_one_of, meet},
    common::{sample::SampleFs, watched},
    machine,
};
use pathwalk::{
    At, AtFlags, Config, Cred, Errno, FileType, MemFs, MountAttr, MountAttrFlags, MountFlags,
    MountIdMap, MountIdRange, OpenFlags, OpenTreeFlags, Vfs, abi::StatfsFlags, fs::Features,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

const READ_ONLY: MountFlags = MountFlags::REMOUNT.union(MountFlags::RDONLY);

/// Remounting changes the file system and the mount: nobody comes between the two.
#[test]
fn a_mount_is_read_only_or_somebody_writes_but_not_both() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
        task.creat("/m/f", 0o644).unwrap();
        let opened = AtomicU64::new(0);
        meet(
            &task,
            &[
                &|task, _| is_one_of(task.mount_tree("", "/m", READ_ONLY), &[Errno::EBUSY]),
                &|task, _| is_one_of(task.mount_tree("", "/m", READ_ONLY), &[Errno::EBUSY]),
                &|task, _| task.mount_tree("", "/m", MountFlags::REMOUNT).unwrap(),
                &|task, _| task.mount_tree("", "/m", MountFlags::REMOUNT).unwrap(),
                &|task, _| task.mount_tree("", "/m", MountFlags::REMOUNT).unwrap(),
                &|task, _| {
                    let Ok(file) = task.open("/m/f", OpenFlags::WRONLY, 0) else { return };
                    for _ in 0..20 {
                        std::thread::yield_now();
                        let flags = task.fstatfs(&file).unwrap().f_flags;
                        assert_eq!(flags & StatfsFlags::RDONLY.bits() as i64, 0, "under a writer");
                    }
                    opened.fetch_add(1, Relaxed);
                },
            ],
        );
        assert!(opened.into_inner() > 0);
        task.umount2("/m", pathwalk::UmountFlags::empty()).unwrap();
        check_whole(&task);
    });
}

/// A tree that nobody could write can be written from the moment on in which it has its map.
#[test]
fn what_is_made_through_a_map_is_stored_by_it() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        let ids = [MountIdRange { stored: 1000, seen: 0, count: 2 }];
        let map = Arc::new(MountIdMap::new(&ids, &ids).unwrap());
        let own = |path: &str| task.chown(path, Some(1000), Some(1000)).unwrap();
        task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
        own("/m");
        let copy = |task: &pathwalk::Task| {
            let file = task.open_tree(At::Cwd, "/m", OpenTreeFlags::CLONE).unwrap();
            let (attr_set, empty) = (MountAttrFlags::RDONLY, OpenTreeFlags::EMPTY_PATH);
            let read_only = MountAttr { attr_set, ..MountAttr::default() };
            task.mount_setattr(&file, "", empty, &read_only).unwrap();
            Arc::new(file)
        };
        let shared = Mutex::new(copy(&task));
        let made = AtomicU64::new(0);
        meet(
            &task,
            &[
                &|task, _| {
                    let file = Arc::clone(&shared.lock().unwrap());
                    let (attr_set, attr_clr) = (MountAttrFlags::IDMAP, MountAttrFlags::RDONLY);
                    let idmap = Some(Arc::clone(&map));
                    let attr = MountAttr { attr_set, attr_clr, idmap, ..MountAttr::default() };
                    // Whoever is about to hear that the tree is read-only may be counted, as in Linux.
                    let empty = OpenTreeFlags::EMPTY_PATH;
                    while let Err(errno) = task.mount_setattr(&*file, "", empty, &attr) {
                        assert_eq!(errno, Errno::EBUSY);
                    }
                    for _ in 0..20 {
                        std::thread::yield_now();
                    }
                    *shared.lock().unwrap() = copy(task);
                },
                &|task, round| {
                    let file = Arc::clone(&shared.lock().unwrap());
                    let name = format!("{}", round % 8);
                    for _ in 0..20 {
                        match task.mknodat(&*file, &name, 0o100_644, Default::default()) {
                            Ok(()) => {
                                let path = format!("/m/{name}");
                                let stat = task.stat(&path).unwrap();
                                assert_eq!((stat.st_uid, stat.st_gid), (1000, 1000));
                                task.unlink(path).unwrap();
                                made.fetch_add(1, Relaxed);
                            }
                            Err(errno) => assert_eq!(errno, Errno::EROFS),
                        }
                    }
                },
            ],
        );
        println!("{made:?} made");
        drop(shared);
        task.umount2("/m", pathwalk::UmountFlags::empty()).unwrap();
        check_whole(&task);
    });
}

/// Noting that something was read is a write: the mount is not made read-only meanwhile.
#[test]
fn a_mount_is_not_made_read_only_while_a_read_is_noted() {
    watched(|| {
        let fs = SampleFs::new(Features::empty());
        fs.appear("file", FileType::Regular, 0o644, "x");
        fs.appear("link", FileType::Symlink, 0o777, "file");
        let task = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap().task(Cred::root());
        let (other, noted) = (Mutex::new(task.fork()), Arc::new(Mutex::new(Vec::new())));
        let answers = Arc::clone(&noted);
        fs.when_read(Some(Box::new(move || {
            let said = other.lock().unwrap().mount_tree("", "/", READ_ONLY);
            answers.lock().unwrap().push(said);
        })));
        let file = task.open("/file", OpenFlags::RDONLY, 0).unwrap();
        task.read(&file, &mut [0; 8]).unwrap();
        task.readlink("/link", &mut [0; 8]).unwrap();
        task.fstatat(At::Cwd, "/link", AtFlags::empty()).unwrap();
        fs.when_read(None);
        let noted = std::mem::take(&mut *noted.lock().unwrap());
        assert!(noted.len() >= 2, "{noted:?}");
        assert!(noted.iter().all(|said| *said == Err(Errno::EBUSY)), "{noted:?}");
        assert_eq!(task.mount_tree("", "/", READ_ONLY), Ok(()));
        drop(file);
    });
}
