/* File handles, one row each: how they are asked for, and what is opened by them. It is run in an empty directory on a tmpfs, by root,
 * with and without the tree, and says the same; at the end as another user, who may open none.
 *
 *   handles            all that
 *   handles forged N   N handles that nobody was given, drawn and changed; how many of them opened something
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FID 0x200
#define UNIQUE 1
#define CONNECTABLE 2
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000
#endif

struct handle {
	unsigned bytes;
	int type;
	unsigned char byte[160];
};

static int here;

static void row(const char *what, long answer)
{
	if (answer >= 0)
		printf("%s: %ld\n", what, answer);
	else
		printf("%s: %s\n", what, strerrorname_np(errno));
}

#define ROW(call) (errno = 0, row(#call, (long)(call)))

static struct handle room(unsigned bytes)
{
	struct handle it = {.bytes = bytes, .type = 7};
	return it;
}

static long ask(int dir, const char *path, struct handle *it, int flags)
{
	unsigned long mount[2];
	return syscall(SYS_name_to_handle_at, dir, path, it, mount, flags);
}

/* What is told of a name, beside the bytes; and whether the mount is the one that statx and mountinfo tell. */
static long asks(int dir, const char *path, unsigned bytes, int flags)
{
	struct handle it = room(bytes);
	struct statx stat = {0};
	unsigned long mount[2] = {-1ul, -1ul};
	long answer = syscall(SYS_name_to_handle_at, dir, path, &it, mount, flags);
	if (answer == 0 || errno == EOVERFLOW) {
		int error = errno, unique = flags & UNIQUE;
		statx(dir, path, AT_NO_AUTOMOUNT | (flags & AT_EMPTY_PATH) | (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW),
		      unique ? STATX_MNT_ID_UNIQUE : STATX_MNT_ID, &stat);
		unsigned long told = unique ? mount[0] : mount[0] & 0xffffffff, rest = unique ? 0 : ~(mount[0] >> 32) & 0xffffffff;
		printf("  %u bytes, type %x, mount %s\n", it.bytes, it.type,
		       told == stat.stx_mnt_id && !rest && mount[1] == -1ul ? "right" : "wrong");
		errno = error;
	} else if (it.bytes != bytes || it.type != 7) {
		printf("  changed\n");
	}
	return answer;
}

static struct handle of(const char *path)
{
	struct handle it = room(128);
	if (ask(AT_FDCWD, path, &it, 0) < 0)
		printf("  %s has none: %s\n", path, strerrorname_np(errno));
	return it;
}

static long same(const char *one, const char *other)
{
	struct handle a = of(one), b = of(other);
	return a.bytes == b.bytes && a.type == b.type && !memcmp(a.byte, b.byte, a.bytes);
}

static int by(int mount, struct handle it, int flags)
{
	return syscall(SYS_open_by_handle_at, mount, &it, flags);
}

/* Which flags a file has that was opened, its path from here, and whether it closes itself; then it is closed. */
static long opened(int fd)
{
	char link[64], path[PATH_MAX] = "", top[PATH_MAX] = "";
	if (fd < 0)
		return -1;
	sprintf(link, "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof path - 1) < 0 || !getcwd(top, sizeof top))
		puts("  no path");
	struct stat stat;
	fstat(fd, &stat);
	printf("  .%s %o %d\n", strncmp(path, top, strlen(top)) ? path : path + strlen(top),
	       S_ISREG(stat.st_mode) ? fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK) : 0, fcntl(fd, F_GETFD));
	close(fd);
	return 0;
}

static long opens(const char *path, int flags)
{
	return opened(by(here, of(path), flags));
}

static struct handle shorter(struct handle it, unsigned bytes)
{
	it.bytes = bytes;
	return it;
}

static struct handle typed(struct handle it, int type)
{
	it.type = type;
	return it;
}

static int make(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	if (write(fd, text, strlen(text)) < 0)
		exit(1);
	return close(fd);
}

static void names(void)
{
	int fd = open("file", O_RDONLY), place = open("file", O_PATH), ends[2];
	for (unsigned bytes = 0; bytes < 14; bytes++)
		ROW(asks(AT_FDCWD, "file", bytes, 0));
	ROW(asks(AT_FDCWD, "file", 128, 0));
	ROW(asks(AT_FDCWD, "file", 129, 0));
	ROW(asks(AT_FDCWD, "file", -1, 0));
	for (int flag = 0; flag < 32; flag++)
		ROW(asks(AT_FDCWD, "file", 128, 1u << flag));
	ROW(asks(AT_FDCWD, "file", 128, FID | UNIQUE));
	ROW(asks(AT_FDCWD, "file", 128, FID | CONNECTABLE));
	ROW(asks(fd, "", 128, AT_EMPTY_PATH | CONNECTABLE));
	ROW(asks(AT_FDCWD, "file", 0, UNIQUE));
	ROW(asks(AT_FDCWD, "file", 0, FID));
	ROW(asks(AT_FDCWD, "dir", 128, CONNECTABLE));
	ROW(asks(AT_FDCWD, "link", 128, 0));
	ROW(asks(AT_FDCWD, "link", 128, AT_SYMLINK_FOLLOW));
	ROW(asks(AT_FDCWD, "fifo", 128, 0));
	ROW(asks(AT_FDCWD, "dangling", 128, AT_SYMLINK_FOLLOW));
	ROW(asks(AT_FDCWD, "loop", 128, AT_SYMLINK_FOLLOW));
	ROW(asks(AT_FDCWD, "", 128, 0));
	ROW(asks(AT_FDCWD, "", 128, AT_EMPTY_PATH));
	ROW(asks(fd, "", 128, AT_EMPTY_PATH));
	ROW(asks(place, "", 128, AT_EMPTY_PATH));
	ROW(asks(fd, NULL, 128, AT_EMPTY_PATH));
	ROW(asks(AT_FDCWD, NULL, 128, 0));
	ROW(asks(AT_FDCWD, (char *)8, 128, 0));
	ROW(asks(AT_FDCWD, (char *)8, 128, 1 << 20));
	ROW(asks(AT_FDCWD, "missing", 129, 0));
	ROW(asks(AT_FDCWD, "file/x", 128, 0));
	ROW(asks(AT_FDCWD, "file/", 128, 0));
	ROW(asks(fd, "x", 128, 0));
	ROW(asks(99, "file", 128, 0));
	ROW(asks(99, "", 128, AT_EMPTY_PATH));
	ROW(asks(99, "/proc", 128, 0));
	ROW(asks(AT_FDCWD, "/proc", 128, 0));
	ROW(asks(AT_FDCWD, "/proc", 0, 0));
	ROW(asks(AT_FDCWD, "/proc", 129, 0));
	ROW(asks(AT_FDCWD, "/proc", 128, CONNECTABLE));
	ROW(asks(AT_FDCWD, "/proc", 128, FID));
	ROW(asks(AT_FDCWD, "/proc", 0, FID));
	ROW(asks(AT_FDCWD, "/proc/self/fd/0", 128, 0));
	ROW(pipe(ends));
	ROW(asks(ends[0], "", 128, AT_EMPTY_PATH));
	struct handle it = room(128);
	unsigned long mount;
	ROW(syscall(SYS_name_to_handle_at, AT_FDCWD, "file", (void *)8, &mount, 0));
	ROW(syscall(SYS_name_to_handle_at, AT_FDCWD, "missing", (void *)8, &mount, 0));
	ROW(syscall(SYS_name_to_handle_at, AT_FDCWD, "/proc", (void *)8, &mount, 0));
	ROW(syscall(SYS_name_to_handle_at, AT_FDCWD, "file", &it, (void *)8, 0));
	ROW(it.type);
	it = room(129);
	ROW(syscall(SYS_name_to_handle_at, AT_FDCWD, "file", &it, (void *)8, 0));
	ROW(same("twice", "hard"));
	ROW(same("file", "file"));
	ROW(same("file", "dir"));
	close(ends[0]), close(ends[1]), close(fd), close(place);
}

static void openings(void)
{
	struct handle file = of("file"), dir = of("dir");
	int fd = open("file", O_RDONLY), place = open(".", O_PATH), ends[2], proc = open("/proc", O_RDONLY);
	ROW(opened(by(here, file, O_RDONLY)));
	ROW(opened(by(fd, file, O_RDONLY)));
	ROW(opened(by(AT_FDCWD, file, O_RDONLY)));
	ROW(by(place, file, O_RDONLY));
	ROW(by(99, file, O_RDONLY));
	ROW(by(-1, file, O_RDONLY));
	ROW(by(-10002, file, O_RDONLY));
	ROW(by(-10003, file, O_RDONLY));
	ROW(by(-10009, file, O_RDONLY));
	ROW(by(proc, file, O_RDONLY));
	ROW(pipe(ends));
	ROW(by(ends[0], file, O_RDONLY));
	ROW(syscall(SYS_open_by_handle_at, here, 8, O_RDONLY));
	ROW(syscall(SYS_open_by_handle_at, 99, 8, O_RDONLY));
	for (unsigned bytes = 0; bytes < 14; bytes++)
		ROW(opened(by(here, shorter(file, bytes), O_RDONLY)));
	ROW(opened(by(here, shorter(file, 128), O_RDONLY)));
	ROW(by(here, shorter(file, 129), O_RDONLY));
	ROW(by(99, shorter(file, 129), O_RDONLY));
	ROW(by(99, shorter(file, 0), O_RDONLY));
	ROW(by(proc, shorter(file, 0), O_RDONLY));
	ROW(opened(by(here, typed(file, 0), O_RDONLY)));
	ROW(opened(by(here, typed(file, 2), O_RDONLY)));
	ROW(opened(by(here, typed(file, 0xff), O_RDONLY)));
	ROW(opened(by(here, typed(file, 0x10000 | file.type), O_RDONLY)));
	ROW(by(here, typed(file, 0x20000 | file.type), O_RDONLY));
	ROW(opened(by(here, typed(dir, 0x20000 | dir.type), O_RDONLY)));
	ROW(by(here, typed(file, 0x40000 | file.type), O_RDONLY));
	ROW(by(99, typed(file, 0x40000 | file.type), O_RDONLY));
	ROW(by(here, typed(file, -1), O_RDONLY));
	ROW(opened(by(here, file, O_WRONLY)));
	ROW(opened(by(here, file, O_RDWR | O_APPEND)));
	ROW(opened(by(here, file, O_RDONLY | O_CREAT)));
	ROW(by(here, file, O_RDONLY | O_CREAT | O_EXCL));
	ROW(by(here, file, O_RDONLY | O_DIRECTORY));
	ROW(opened(by(here, file, O_RDONLY | O_NOFOLLOW)));
	ROW(by(here, file, O_PATH | O_DIRECTORY));
	ROW(by(here, file, O_RDWR | O_TMPFILE));
	ROW(opened(by(here, file, O_RDONLY | O_CLOEXEC)));
	ROW(opened(by(here, file, O_RDONLY | O_NONBLOCK)));
	ROW(opened(by(here, file, 3)));
	ROW(opened(by(here, file, 1 << 26)));
	struct stat stat;
	ROW(fstat(fd, &stat));
	ROW(stat.st_size);
	ROW(opened(by(here, file, O_RDONLY | O_TRUNC)));
	ROW(fstat(fd, &stat));
	ROW(stat.st_size);
	ROW(opens("dir", O_RDONLY));
	ROW(opens("dir", O_WRONLY));
	ROW(opens("dir", O_RDONLY | O_DIRECTORY));
	ROW(opens("dir", O_PATH));
	ROW(opens("dir", O_RDONLY | O_CREAT));
	ROW(opens(".", O_RDONLY));
	ROW(opens("link", O_RDONLY));
	ROW(opens("link", O_RDONLY | O_NOFOLLOW));
	ROW(opens("link", O_PATH));
	ROW(opens("fifo", O_RDWR));
	ROW(opens("fifo", O_RDONLY | O_NONBLOCK));
	ROW(opens("fifo", O_WRONLY | O_NONBLOCK));
	/* What is opened is the file, and the directory. */
	int again = by(here, dir, O_RDONLY);
	ROW(openat(again, "in", O_CREAT | O_WRONLY, 0600) >= 0);
	ROW(access("dir/in", F_OK));
	close(again);
	close(ends[0]), close(ends[1]), close(fd), close(place), close(proc);
}

static void lives(void)
{
	int fd, other;
	struct handle it;
	make("moves", "moves");
	it = of("moves");
	ROW(rename("moves", "dir/moved"));
	ROW(opened(by(here, it, O_RDONLY)));
	ROW(link("dir/moved", "second"));
	ROW(unlink("dir/moved"));
	ROW(fd = by(here, it, O_RDONLY));
	close(fd);
	ROW(unlink("second"));
	ROW(by(here, it, O_RDONLY));
	make("goes", "goes");
	it = of("goes");
	fd = open("goes", O_RDONLY);
	ROW(unlink("goes"));
	ROW(opened(by(here, it, O_RDWR)));
	ROW(asks(fd, "", 128, AT_EMPTY_PATH));
	close(fd);
	ROW(by(here, it, O_RDONLY));
	make("goes", "another");
	ROW(by(here, it, O_RDONLY));
	make("over", "over");
	it = of("over");
	ROW(rename("goes", "over"));
	ROW(by(here, it, O_RDONLY));
	ROW(mkdir("going", 0700));
	it = of("going");
	fd = open("going", O_RDONLY);
	ROW(rmdir("going"));
	ROW(opened(by(here, it, O_RDONLY)));
	close(fd);
	ROW(by(here, it, O_RDONLY));
	fd = open(".", O_TMPFILE | O_RDWR, 0600);
	it = room(128);
	ROW(ask(fd, "", &it, AT_EMPTY_PATH));
	ROW((other = by(here, it, O_RDONLY)) >= 0);
	close(other);
	ROW(linkat(fd, "", here, "named", AT_EMPTY_PATH));
	ROW((other = by(here, it, O_RDONLY)) >= 0);
	close(other);
	close(fd);
	ROW((other = by(here, it, O_RDONLY)) >= 0);
	close(other);
	ROW(unlink("named"));
	ROW(by(here, it, O_RDONLY));
}

static void as_another(void)
{
	struct handle file = of("file"), closed = of("closed/file");
	int proc = open("/proc", O_RDONLY);
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		puts("  still root");
	ROW(asks(AT_FDCWD, "file", 128, 0));
	ROW(asks(AT_FDCWD, "closed/file", 128, 0));
	ROW(asks(AT_FDCWD, "closed", 128, 0));
	ROW(by(here, file, O_RDONLY));
	ROW(by(here, closed, O_RDONLY));
	ROW(by(99, file, O_RDONLY));
	ROW(by(proc, file, O_RDONLY));
	ROW(syscall(SYS_open_by_handle_at, here, 8, O_RDONLY));
	ROW(syscall(SYS_open_by_handle_at, 99, 8, O_RDONLY));
	ROW(by(here, shorter(file, 0), O_RDONLY));
	ROW(by(here, shorter(file, 129), O_RDONLY));
	ROW(by(here, typed(file, 7), O_RDONLY));
	ROW(by(here, typed(file, 0x80000), O_RDONLY));
	ROW(by(99, typed(file, 0x80000), O_RDONLY));
	ROW(by(here, file, O_RDWR | O_TMPFILE));
}

static void forged(unsigned count)
{
	struct handle given = of("file"), it;
	unsigned opened = 0, other = 0;
	for (unsigned round = 0; round < count; round++) {
		it = given;
		if (round < 8 * given.bytes)
			it.byte[round / 8] ^= 1 << round % 8;
		else
			for (unsigned at = 0; at < given.bytes; at++)
				it.byte[at] = random() >> 8;
		int fd = by(here, it, O_RDONLY);
		opened += fd >= 0;
		other += fd < 0 && errno != ESTALE;
		if (fd >= 0)
			close(fd);
	}
	printf("%u opened, %u answered otherwise\n", opened, other);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022);
	make("file", "contents");
	mkdir("dir", 0755);
	here = open(".", O_RDONLY);
	if (argc > 2) {
		forged(atoi(argv[2]));
		return 0;
	}
	mkdir("closed", 0700);
	make("closed/file", "closed");
	make("twice", "");
	if (link("twice", "hard") || symlink("file", "link") || symlink("missing", "dangling") || symlink("loop", "loop") ||
	    mkfifo("fifo", 0600))
		return 1;
	names();
	openings();
	lives();
	if (fork() == 0) {
		as_another();
		return 0;
	}
	wait(NULL);
	return 0;
}
