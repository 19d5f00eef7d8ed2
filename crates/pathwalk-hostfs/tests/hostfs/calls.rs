//! Exclusive: what is cached is true, so nobody is asked.

use crate::common::{Ground, both_ways};
use pathwalk_abi::{AccessMode, Errno};
use std::fs;

#[test]
fn cached_names_ask_nobody() {
    both_ways(|options| {
        let ground = Ground::with(options);
        fs::create_dir_all(ground.host("a/b/c")).unwrap();
        fs::write(ground.host("a/b/c/file"), "12345").unwrap();
        std::os::unix::fs::symlink("b/c", ground.host("a/link")).unwrap();
        let look = || {
            assert_eq!(ground.task.stat("/a/b/c/file").unwrap().st_size, 5);
            assert_eq!(ground.task.stat("/a/link/file").unwrap().st_size, 5);
            assert_eq!(ground.task.lstat("/a/link/../d"), Err(Errno::ENOENT));
            assert_eq!(ground.task.stat("/a/b/c/none"), Err(Errno::ENOENT));
            assert_eq!(ground.task.access("/a/b/x/y", AccessMode::empty()), Err(Errno::ENOENT));
            let mut body = [0; 10];
            assert_eq!(ground.task.readlink("/a/link", &mut body), Ok(3));
        };
        assert_ne!(ground.calls(look), 0, "nothing was cached");
        for _ in 0..1000 {
            assert_eq!(ground.calls(look), 0, "all is cached, also what is not there");
        }
    });
}

#[test]
fn a_name_costs_one_call_where_its_directory_is_held() {
    let ground = Ground::new();
    for file in 0..100 {
        fs::write(ground.host(&format!("{file}")), "").unwrap();
    }
    ground.task.stat("/0").unwrap();
    let calls = ground.calls(|| {
        for file in 1..100 {
            ground.task.stat(format!("/{file}")).unwrap();
        }
    });
    assert_eq!(calls, 99);
}
