//! What files contain: holes, ends, and readers and writers at once.

use crate::{Ends, Meeting, contents, machine, open};
use pathwalk_abi::{Errno, OpenFlags};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
};

#[test]
fn holes_read_as_zeros_and_take_no_room() {
    let (fs, task) = machine(None, None);
    let file = open(&task, "f");
    task.pwrite(&file, b"far", 1 << 40).expect("room");
    let stat = task.fstat(&file).expect("an open file");
    assert_eq!((stat.st_size, stat.st_blocks), ((1 << 40) + 3, 8));
    assert_eq!(fs.usage().bytes, 4096);
    let mut buf = [0xaa; 10];
    assert_eq!(task.pread(&file, &mut buf, (1 << 40) - 4), Ok(7));
    assert_eq!(&buf, b"\0\0\0\0far\xaa\xaa\xaa");
    assert_eq!(task.pread(&file, &mut buf, 12345), Ok(10));
    assert_eq!(buf, [0; 10]);
    assert_eq!(task.pread(&file, &mut buf, (1 << 40) + 3), Ok(0));
    assert_eq!(task.pread(&file, &mut buf, i64::MAX - 10), Ok(0));
    assert_eq!(task.pread(&file, &mut buf, i64::MAX), Err(Errno::EINVAL));
}

#[test]
fn what_was_cut_off_never_comes_back() {
    let (_fs, task) = machine(None, None);
    let file = open(&task, "f");
    task.pwrite(&file, &[1; 10000], 0).expect("room");
    task.ftruncate(&file, 5000).expect("an open file");
    task.ftruncate(&file, 10000).expect("an open file");
    let mut expected = vec![1; 5000];
    expected.resize(10000, 0);
    assert_eq!(contents(&task, &file), expected);
    drop(task.creat("f", 0).expect("emptied"));
    assert_eq!(contents(&task, &file), []);
    task.pwrite(&file, b"x", 9999).expect("room");
    assert_eq!(contents(&task, &file)[..9999], [0; 9999]);
}

#[test]
fn a_file_ends_at_the_largest_offset() {
    let (_fs, task) = machine(None, None);
    let file = open(&task, "f");
    task.ftruncate(&file, i64::MAX - 3).expect("as large as that");
    let append = task.open("f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).expect("a file");
    assert_eq!(task.write(&append, b"12345"), Ok(3));
    let append = task.open("f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).expect("a file");
    assert_eq!(task.write(&append, b"6"), Err(Errno::EFBIG));
    assert_eq!(task.write(&append, b""), Ok(0));
    assert_eq!(task.fstat(&file).expect("an open file").st_size, i64::MAX);
    let mut buf = [0; 5];
    assert_eq!(task.pread(&file, &mut buf, i64::MAX - 5), Ok(5));
    assert_eq!(&buf, b"\0\x00123");
}

/// A step of the comparison with a `Vec<u8>`.
#[derive(Clone, Debug)]
enum Step {
    Write { offset: usize, len: usize },
    Append { len: usize },
    Truncate { size: usize },
    Read { offset: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    // Near the ends of pages more often than chance has it.
    let place = || {
        prop_oneof![0usize..40000, (0usize..10, 0usize..5).prop_map(|(page, by)| page * 4096 + by)]
    };
    let len = || prop_oneof![0usize..9000, (1usize..3).prop_map(|pages| pages * 4096)];
    prop_oneof![
        (place(), len()).prop_map(|(offset, len)| Step::Write { offset, len }),
        len().prop_map(|len| Step::Append { len }),
        place().prop_map(|size| Step::Truncate { size }),
        (place(), len()).prop_map(|(offset, len)| Step::Read { offset, len }),
    ]
}

proptest! {
    #[test]
    fn a_file_is_a_vector_of_bytes(steps in prop::collection::vec(step(), 1..60)) {
        let (fs, task) = machine(None, None);
        let file = open(&task, "f");
        let append = task.open("f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).expect("a file");
        let (mut model, mut pages) = (Vec::<u8>::new(), BTreeSet::new());
        for (at, step) in steps.into_iter().enumerate() {
            let byte = at as u8 + 1;
            let mut write = |offset: usize, len: usize| {
                if len != 0 {
                    model.resize(model.len().max(offset + len), 0);
                    model[offset..offset + len].fill(byte);
                    pages.extend(offset / 4096..=(offset + len - 1) / 4096);
                }
            };
            match step {
                Step::Write { offset, len } => {
                    write(offset, len);
                    prop_assert_eq!(task.pwrite(&file, &vec![byte; len], offset as i64), Ok(len));
                }
                Step::Append { len } => {
                    write(task.fstat(&file).expect("an open file").st_size as usize, len);
                    prop_assert_eq!(task.write(&append, &vec![byte; len]), Ok(len));
                }
                Step::Truncate { size } => {
                    model.resize(size, 0);
                    pages.retain(|page| page * 4096 < size);
                    task.ftruncate(&file, size as i64).expect("an open file");
                }
                Step::Read { offset, len } => {
                    let expected = &model[offset.min(model.len())..(offset + len).min(model.len()).max(offset.min(model.len()))];
                    let mut buf = vec![0xaa; len];
                    let read = task.pread(&file, &mut buf, offset as i64).expect("an open file");
                    prop_assert!(buf[..read] == *expected, "{read} bytes at {offset}");
                }
            }
            let stat = task.fstat(&file).expect("an open file");
            prop_assert_eq!(stat.st_size as usize, model.len());
            prop_assert_eq!(stat.st_blocks as usize, pages.len() * 8);
            prop_assert_eq!(fs.usage().bytes as usize, pages.len() * 4096);
        }
        prop_assert!(contents(&task, &file) == model, "the contents at the end");
    }
}

#[test]
fn appends_do_not_mix() {
    const THREADS: u8 = 4;
    const RECORDS: u32 = 10_000;
    const LEN: usize = 37;
    let (_fs, task) = machine(None, None);
    let file = open(&task, "f");
    let start = Barrier::new(THREADS.into());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (task, start) = (task.fork(), &start);
            scope.spawn(move || {
                let file =
                    task.open("f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).expect("a file");
                start.wait();
                for record in 0..RECORDS {
                    let mut data = [thread; LEN];
                    data[..4].copy_from_slice(&record.to_le_bytes());
                    assert_eq!(task.write(&file, &data), Ok(LEN));
                }
            });
        }
    });
    let all = contents(&task, &file);
    assert_eq!(all.len(), usize::from(THREADS) * RECORDS as usize * LEN);
    let mut next = [0; THREADS as usize];
    for record in all.chunks(LEN) {
        let thread = record[4];
        assert_eq!(record[4..], [thread; LEN - 4]);
        let next = &mut next[usize::from(thread)];
        assert_eq!(record[..4], u32::to_le_bytes(*next));
        *next += 1;
    }
    assert_eq!(next, [RECORDS; THREADS as usize]);
}

#[test]
fn first_writes_meet_in_one_file() {
    const ROUNDS: u32 = 2000;
    let (fs, task) = machine(None, None);
    let start = Meeting::default();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (task, start) = (task.fork(), &start);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let file = open(&task, &format!("f{round}"));
                    start.meet();
                    let data = [thread + 1; 4096];
                    assert_eq!(task.pwrite(&file, &data, i64::from(thread) * 4096), Ok(4096));
                }
            });
        }
    });
    for round in 0..ROUNDS {
        let all = contents(&task, &open(&task, &format!("f{round}")));
        assert!(all == [[1; 4096], [2; 4096]].concat(), "round {round}");
        task.unlink(format!("f{round}")).expect("a file");
    }
    assert_eq!(fs.usage().bytes, 0);
    assert!(format!("{fs:?}").contains("files: 0"), "{fs:?}");
}

#[test]
fn a_reader_never_sees_a_size_beyond_the_data() {
    let (_fs, task) = machine(None, None);
    let file = open(&task, "f");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (task, _ends) = (task.fork(), Ends(&done));
            let file = task.open("f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).expect("a file");
            for _ in 0..2000 {
                assert_eq!(task.write(&file, &[1; 1000]), Ok(1000));
            }
        });
        scope.spawn(|| {
            let task = task.fork();
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let size = task.fstat(&file).expect("an open file").st_size;
                assert!(size >= last && size % 1000 == 0, "{size} after {last}");
                last = size;
                let mut buf = vec![0xaa; 5000];
                let from = (size - 2000).max(0);
                let read = task.pread(&file, &mut buf, from).expect("an open file");
                assert!(read as i64 >= size - from, "{read} bytes at {from} of {size}");
                assert!(buf[..read].iter().all(|&byte| byte == 1), "zeros at {from} of {size}");
            }
        });
    });
    assert_eq!(task.fstat(&file).expect("an open file").st_size, 2_000_000);
}
