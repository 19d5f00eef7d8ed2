//! Directories beside and in each other lie ready, and are what they are by then.

use crate::{
    common::{Running, can_run, python, text},
    inside::{Teller, in_the_tree, said},
    ready::ready,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// So many directories lie in each of so many.
const ABOVE: usize = 6;
const BELOW: usize = 14;

fn directories() -> Option<TempDir> {
    if !can_run(&["python3"]) {
        return None;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    for above in 0..ABOVE {
        for below in 0..BELOW {
            let dir = here.path().join(format!("data/{above}/{below}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("file{above}.{below}")), "").unwrap();
        }
    }
    // What lies deeper is come to first.
    fs::create_dir(here.path().join("data/2/7/deeper")).unwrap();
    symlink("3", here.path().join("data/3/link")).unwrap();
    Some(here)
}

/// A program that goes through directories, by what each line says.
const GOES: &str = r#"
import errno, fcntl, os, random, stat, sys, time
top = sys.argv[1]
# It takes descriptors by itself from some openings on.
for number in range(12): os.close(os.open('/etc/passwd', os.O_RDONLY))
# What a directory that stands for another one does not show.
OTHERS = os.O_NOATIME | os.O_NOFOLLOW | os.O_PATH | os.O_DIRECTORY | 0o100000
PLAIN = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
def told(path, flags=PLAIN):
    try: fd = os.open(path, flags)
    except OSError as error: return (path, error.errno)
    what = os.fstat(fd)
    try: names = sorted(os.listdir(fd))
    except OSError as error: names = error.errno
    said = (path, names, os.get_inheritable(fd), fcntl.fcntl(fd, fcntl.F_GETFL) & ~OTHERS, what.st_nlink, what.st_ino, oct(what.st_mode),
        os.readlink(f'/proc/self/fd/{fd}'))
    os.close(fd)
    return said
def names(path): return [name for name in os.listdir(path) if not os.path.islink(f'{path}/{name}')]
"#;

/// What the program says, natively and in the tree, where it may write what it goes through or not, and what `--stats` says of it there.
fn both(here: &Path, script: &str, writable: bool) -> [String; 3] {
    let script = format!("{GOES}{script}");
    let data = here.join("data").display().to_string();
    let native = said(Command::new(python()).args(["-c", &script, &data]));
    let bind = format!("{data}:{data}{}", if writable { "" } else { ":ro" });
    let mut command = in_the_tree(here, &["--inside", "1", "--stats", "--bind", &bind]);
    let output =
        command.args([python(), "-c", &script, &data]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    [native, text(&output.stdout), text(&output.stderr)]
}

fn same(native: &str, tree: &str, when: &str) {
    for (native, tree) in native.lines().zip(tree.lines()) {
        assert_eq!(native, tree, "{when}");
    }
    assert_eq!(native.lines().count(), tree.lines().count(), "{when}");
}

/// Who goes through them as they are listed takes most of them without asking.
#[test]
fn who_goes_in_order_takes_most_of_them() {
    let Some(here) = directories() else { return };
    let script = "
for above in names(top):
    for below in names(f'{top}/{above}'): print(told(f'{top}/{above}/{below}/'))
print(*os.walk(top), sep='\\n')
";
    for writable in [false, true] {
        let [native, tree, stats] = both(here.path(), script, writable);
        same(&native, &tree, "");
        let [_, taken] = ready(&stats);
        assert!(taken as usize > ABOVE * BELOW, "{stats}");
    }
}

/// Who goes deep, by descriptors and back up by `..`, takes most of what is in each of them, too; and who goes there in another way
/// finds the same.
#[test]
fn who_goes_deep_takes_what_is_in_them() {
    let Some(here) = directories() else { return };
    for above in 0..ABOVE {
        for below in (0..BELOW).step_by(3) {
            for deep in ["1/2/3", "1/4", "5/6"] {
                fs::create_dir_all(here.path().join(format!("data/{above}/{below}/{deep}")))
                    .unwrap();
            }
        }
    }
    let walk = "
def dirs(fd):
    with os.scandir(fd) as all: all = [one.name for one in all]
    return [name for name in all if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)]
def enter(fd, name, path):
    into = os.open(name, PLAIN | os.O_NOFOLLOW, dir_fd=fd)
    what = os.fstat(into)
    print(path, name, what.st_ino, what.st_nlink, sorted(os.listdir(into)), os.readlink(f'/proc/self/fd/{into}'))
    return into
def down(fd, path, passes=0):
    for name in dirs(fd):
        into = enter(fd, name, path)
        if draws.random() >= passes: down(into, f'{path}/{name}', passes)
        up = os.open('..', PLAIN, dir_fd=into)
        print(os.fstat(up).st_ino == os.fstat(fd).st_ino)
        os.close(up)
        os.close(into)
draws = random.Random(1)
fd = os.open(top, PLAIN)
";
    for writable in [false, true] {
        let deep = format!("{walk}down(fd, '')\n");
        let [native, tree, stats] = both(here.path(), &deep, writable);
        same(&native, &tree, "deep");
        let [_, taken] = ready(&stats);
        assert!(taken as usize > native.lines().count() / 4, "{stats}");
        let other = format!(
            "{walk}
for passes in [.5, .1, .9]: down(fd, '', passes)
all = [(fd, '')]
while all:
    fd, path = all.pop(0)
    for name in dirs(fd): all.append((enter(fd, name, path), f'{{path}}/{{name}}'))
"
        );
        let [native, tree, stats] = both(here.path(), &other, writable);
        same(&native, &tree, "otherwise");
        let [ready, taken] = ready(&stats);
        assert!(0 < taken && taken < ready, "{stats}");
    }
}

/// Who went deep, and then opens what is beside each other, is not expected to go deep for long.
#[test]
fn who_goes_deep_no_more_is_not_expected_to() {
    let Some(here) = directories() else { return };
    for (below, deep) in (0..60).flat_map(|below| (0..12).map(move |deep| (below, deep))) {
        fs::create_dir_all(here.path().join(format!("data/wide/{below}/{deep}"))).unwrap();
    }
    let script = "
fd = os.open(f'{top}/wide', PLAIN)
all = os.listdir(fd)
# It goes through a tree, and is looked ahead for.
for name in all: os.stat(name, dir_fd=fd, follow_symlinks=False)
def enter(fd, name):
    time.sleep(.002)
    into = os.open(name, PLAIN | os.O_NOFOLLOW, dir_fd=fd)
    print(name, os.fstat(into).st_ino, sorted(os.listdir(into)))
    return into
for number, name in enumerate(all):
    into = enter(fd, name)
    if number < 8:
        for deep in os.listdir(into): os.close(enter(into, deep))
    os.close(into)
";
    for writable in [false, true] {
        let [native, tree, stats] = both(here.path(), script, writable);
        same(&native, &tree, "");
        let [ready, taken] = ready(&stats);
        // What is in one lay ready and is not taken; but not what is in another one, too.
        assert!(taken > 50 && ready - taken < 2 * 12, "{stats}");
    }
}

/// What others do elsewhere leaves what lies ready there.
#[test]
fn what_others_do_elsewhere_takes_nothing_away() {
    let Some(here) = directories() else { return };
    let stirs = "while mkdir new && rmdir new; do sleep .002; done";
    let stirs = Command::new("sh").args(["-c", stirs]).current_dir(&here).spawn();
    let _stirs = Running(stirs.unwrap());
    let script = "
for above in names(top):
    fd = os.open(f'{top}/{above}', PLAIN)
    for below in os.listdir(fd):
        if below == 'link': continue
        time.sleep(.02)
        into = os.open(below, PLAIN, dir_fd=fd)
        print(below, os.fstat(into).st_ino, sorted(os.listdir(into)))
        os.close(into)
    os.close(fd)
";
    for writable in [false, true] {
        let [native, tree, stats] = both(here.path(), script, writable);
        same(&native, &tree, "");
        let [ready, taken] = ready(&stats);
        assert!(taken as usize > ABOVE * BELOW / 2 && ready - taken < 8, "{stats}");
    }
}

/// Who goes deep by paths through a link that leads elsewhere then is led there.
#[test]
fn who_goes_through_a_link_is_led_where_it_leads_by_then() {
    let Some(here) = directories() else { return };
    for above in 0..ABOVE {
        for below in 0..BELOW {
            for deep in ["1/2", "3"] {
                fs::create_dir_all(here.path().join(format!("data/{above}/{below}/{deep}")))
                    .unwrap();
            }
        }
    }
    let script = "
def leads(where):
    if os.path.islink('link'): os.remove('link')
    os.symlink(where, 'link')
os.chdir(os.path.dirname(top))
# It goes through a tree, and asks what is in it.
fd = os.open(f'{top}/5', PLAIN)
for name in os.listdir(fd): os.stat(name, dir_fd=fd, follow_symlinks=False)
def deep(way):
    with os.scandir(way) as all: dirs = [one.name for one in all if one.is_dir(follow_symlinks=False)]
    for name in dirs:
        yield f'{way}/{name}/'
        yield from deep(f'{way}/{name}')
ways = [way[len(top) + 2:] for way in deep(f'{top}/5')]
for link in ['link', f'{os.getcwd()}/link']:
    for before, by_then, cut in [(0, 1, 9), (2, 3, 14), (4, 1, 22)]:
        leads(f'{top}/{before}')
        for way in ways[:cut]:
            time.sleep(.01)
            told(link + way)
        leads(f'{top}/{by_then}')
        for way in ways[cut:cut + 8]: print(cut, told(link + way))
";
    let [native, tree, stats] = both(here.path(), script, false);
    same(&native, &tree, "");
    assert!(ready(&stats)[1] > 20, "{stats}");
}

/// Who goes in other orders, with other flags, by other names, and to what is not there, gets what he named.
#[test]
fn who_goes_in_another_order_gets_what_he_named() {
    let Some(here) = directories() else { return };
    let script = "
flags = [PLAIN, PLAIN | os.O_CLOEXEC, os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, os.O_PATH | os.O_DIRECTORY]
draws = random.Random(1)
os.chdir(top)
for turn in range(60):
    above = draws.choice(os.listdir('.'))
    all = names(above)
    while all:
        way = draws.choice([f'{above}/', f'{top}/{above}/', f'../data/{above}/', f'{above}/../{above}/'])
        first, count = draws.randrange(len(all)), draws.randrange(1, 9)
        for name in all[first:first + count]: print(told(way + name + draws.choice(['', '/', '/', '/'])))
        if draws.random() < .5: break
        print(told(way + draws.choice(['absent/', 'link/', 'link', 'link/file3.3', '.', '..', all[0] + '//']), draws.choice(flags)))
";
    for writable in [false, true] {
        let [native, tree, stats] = both(here.path(), script, writable);
        same(&native, &tree, "");
        assert!(ready(&stats)[1] > 50, "{stats}");
    }
}

/// What the program or others change after it was laid ready is what it is by then.
#[test]
fn what_is_changed_is_opened_as_it_is() {
    let Some(here) = directories() else { return };
    let data = here.path().join("data");
    let script = format!(
        "{GOES}
os.chdir(top)
for above in names('.'):
    all = names(above)
    for below in all[:4]: told(f'{{above}}/{{below}}/')
    print(above, *all, flush=True)
    own = sys.stdin.readline().strip()
    if own: os.rename(f'{{above}}/{{all[6]}}', f'{{above}}/{{all[7]}}/moved')
    print(*[told(f'{{above}}/{{below}}/') for below in all[4:]], flush=True)
"
    );
    let bind = format!("{0}:{0}", data.display());
    let mut command = in_the_tree(here.path(), &["--inside", "1", "--bind", &bind]);
    command.args([python(), "-c", &script]).arg(&data);
    let mut tree = Teller::of(command);
    let changes = [
        ("mv $5 away; mv $6 $5", ""),
        ("rm -r $5 $7; mkdir $7", ""),
        ("touch $6/more; ln -s $6 new; rm -r $5; mv new $5; chmod 700 $9", ""),
        ("true", "it changes it itself"),
        ("rm -r $5; echo > $5", "so too"),
        ("true", ""),
    ];
    for (change, own) in changes {
        let ready = tree.tells();
        let all: Vec<_> = ready.split(' ').collect();
        let mut other = Command::new("sh");
        other.args(["-c", change, "sh"]).args(&all[1..]).current_dir(data.join(all[0]));
        assert!(other.status().unwrap().success(), "{change}");
        let told = tree.tells_after(own);
        let native = format!(
            "{GOES}
os.chdir(top)
print(*[told(f'{{sys.argv[2]}}/{{below}}/') for below in sys.argv[3:]])
"
        );
        let mut command = Command::new(python());
        command.args(["-c", &native]).arg(&data).arg(all[0]).args(&all[5..]);
        assert_eq!(said(&mut command).trim_end(), told, "{change}");
    }
}
