//! Numbers of threads that are given again.

use crate::{
    attacks::{Attack, cc, ended},
    left_out::left_out,
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    iter,
    process::Stdio,
    time::{Duration, Instant},
};

#[test]
fn a_number_is_nobody_s_any_more_when_an_exec_has_failed_too_late() {
    let Some(attack) = Attack::new() else { return };
    // Behind the last page that a program may have.
    fs::write(attack.here("broken.c"), "void _start(void) { for (;;); }").unwrap();
    let linked = ["-nostdlib", "-static", "-Wl,-Ttext=0x7fffffffe000"];
    cc(attack.here.path(), &[&linked[..], &["-o", "broken", "broken.c"]].concat());
    let mut command = attack.command(&["stale"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut go = child.stdin.take().unwrap();
    let numbers = |line: String| -> Vec<u32> {
        line.split(' ').map(|number| number.parse().unwrap()).collect()
    };
    let [process, thread, 1] = numbers(told.next().unwrap())[..] else { panic!("it is killed") };
    // Whoever forks meanwhile gets the number behind: the higher one first.
    for number in [thread, process] {
        // Root says which number is next.
        if fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).is_err() {
            left_out("no number can be given again");
            break;
        }
        // As long as another process may well have it.
        let until = Instant::now() + Duration::from_secs(60);
        let again = iter::repeat(()).take_while(|()| Instant::now() < until).any(|()| {
            let _ = fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string());
            go.write_all(b"x").unwrap();
            let said = numbers(told.next().unwrap());
            said[0] == number && {
                assert_eq!(said[1], 0);
                true
            }
        });
        assert!(again, "another process always had the number first");
    }
    drop(go);
    assert_eq!(ended(&mut child), None);
}
