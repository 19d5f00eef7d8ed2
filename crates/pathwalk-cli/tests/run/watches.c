/* What is told of a directory that is empty at first: each call, and the events that are there when it is over. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define QUEUES 3
static int queues[QUEUES];
static uint32_t cookies[4096];
static int ncookies;

static const char *errno_name(void) { return strerrorname_np(errno); }

static int cookie(uint32_t value)
{
	for (int at = 0; at < ncookies; at++)
		if (cookies[at] == value)
			return at + 1;
	cookies[ncookies++] = value;
	return ncookies;
}

static void mask_name(uint32_t mask)
{
	static const char *names[32] = {
		"ACCESS", "MODIFY", "ATTRIB", "CLOSE_WRITE", "CLOSE_NOWRITE", "OPEN", "MOVED_FROM", "MOVED_TO",
		"CREATE", "DELETE", "DELETE_SELF", "MOVE_SELF", [13] = "UNMOUNT", "Q_OVERFLOW", "IGNORED", [30] = "ISDIR",
	};
	for (int bit = 0; bit < 32; bit++)
		if (mask >> bit & 1)
			printf("%s%s", names[bit] ? names[bit] : "?", mask >> bit >> 1 ? "|" : "");
}

/* That something itself moved, or is watched no more, is printed behind all else that was told. */
static int moves_last;
/* So is that something is gone, and watched no more: what is watched is the host's. */
static int on_host;

/* Where that is told a moment later. */
static int close_and_wait(int fd)
{
	int answer = close(fd);
	if (on_host)
		usleep(400000);
	return answer;
}

/* Prints what is queued. A call with a path in it goes before: what was done by descriptors is told by then. */
static void show(void)
{
	char buf[8192] __attribute__((aligned(8)));
	struct moved { int queue, watch; uint32_t mask; } moved[64];
	int nmoved = 0;
	uint32_t last = moves_last ? IN_MOVE_SELF | IN_IGNORED : on_host ? IN_DELETE_SELF | IN_IGNORED : 0;
	if (on_host)
		close(open("/", O_PATH));
	else
		access("/", F_OK);
	for (int queue = 0; queue < QUEUES; queue++) {
		ssize_t len;
		while (queues[queue] > 0 && (len = read(queues[queue], buf, sizeof buf)) > 0)
			for (char *at = buf; at < buf + len;) {
				struct inotify_event *event = (void *)at;
				if (event->mask & last) {
					moved[nmoved++] = (struct moved){queue, event->wd, event->mask};
					at += sizeof *event + event->len;
					continue;
				}
				printf("  queue %d, watch %d: ", queue, event->wd);
				mask_name(event->mask);
				if (event->len)
					printf(" %s", event->name);
				if (event->cookie)
					printf(" (%d)", cookie(event->cookie));
				printf("\n");
				at += sizeof *event + event->len;
			}
	}
	for (int at = 0; at < nmoved; at++)
		printf("  queue %d, watch %d: ", moved[at].queue, moved[at].watch), mask_name(moved[at].mask), printf("\n");
}

/* A call that answers no number that matters. */
#define DO(call) \
	do { \
		long answer = (long)(call); \
		printf("%s%s%s\n", #call, answer == -1 ? ": " : "", answer == -1 ? errno_name() : ""); \
		show(); \
	} while (0)
/* One whose answer does. */
#define SAY(call) \
	do { \
		long answer = (long)(call); \
		printf("%s = %ld%s%s\n", #call, answer, answer == -1 ? " " : "", answer == -1 ? errno_name() : ""); \
		show(); \
	} while (0)
#define WATCH(queue, path, mask) SAY(inotify_add_watch(queues[queue], path, mask))

static void begin(const char *what)
{
	printf("-- %s\n", what);
	for (int queue = 0; queue < QUEUES; queue++) {
		if (queues[queue] > 0)
			close(queues[queue]);
		queues[queue] = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	}
}

static void make(const char *path)
{
	close(open(path, O_CREAT | O_WRONLY, 0644));
}

static void names_in_a_directory(void)
{
	int fd, dir;
	char buf[64];
	begin("names in a directory");
	mkdir("d", 0755), mkdir("d/old", 0755), mkdir("other", 0755);
	make("d/file"), make("other/file"), make("other/in");
	WATCH(0, "d", IN_ALL_EVENTS);
	DO(fd = open("d/new", O_CREAT | O_RDWR | O_EXCL, 0600));
	DO(write(fd, "some", 4));
	DO(write(fd, "more", 4));
	DO(pread(fd, buf, 8, 0));
	DO(ftruncate(fd, 1));
	DO(fchmod(fd, 0640));
	DO(fchown(fd, -1, -1));
	DO(close(fd));
	DO(fd = open("d/new", O_RDONLY));
	DO(read(fd, buf, 8));
	DO(read(fd, buf, 8));
	DO(close(fd));
	DO(fd = open("d/new", O_WRONLY | O_TRUNC));
	DO(close(fd));
	DO(fd = open("d/new", O_PATH));
	DO(close(fd));
	DO(open("d/none", O_RDONLY));
	DO(truncate("d/new", 100));
	DO(chmod("d/new", 0600));
	DO(utimensat(AT_FDCWD, "d/new", NULL, 0));
	struct timespec access_alone[2] = {{5, 0}, {0, UTIME_OMIT}}, change_alone[2] = {{0, UTIME_OMIT}, {5, 0}};
	DO(utimensat(AT_FDCWD, "d/new", access_alone, 0));
	DO(utimensat(AT_FDCWD, "d/new", change_alone, 0));
	DO(setxattr("d/new", "user.name", "value", 5, 0));
	DO(removexattr("d/new", "user.name"));
	DO(stat("d/new", &(struct stat){0}));
	DO(link("d/new", "d/second"));
	DO(link("d/new", "other/third"));
	DO(rename("d/new", "d/renamed"));
	DO(rename("d/renamed", "d/second"));
	DO(unlink("d/renamed"));
	DO(rename("d/second", "d/file"));
	DO(rename("other/in", "d/in"));
	DO(rename("d/in", "other/out"));
	DO(rename("other/out", "d/file"));
	DO(rename("d/file", "other/out"));
	DO(mkdir("d/sub", 0755));
	DO(mkdir("d/sub", 0755));
	DO(dir = open("d/sub", O_RDONLY | O_DIRECTORY));
	char listed[1024];
	DO(getdents64(dir, listed, sizeof listed));
	DO(getdents64(dir, listed, sizeof listed));
	DO(close(dir));
	DO(chmod("d/sub", 0700));
	DO(rename("d/sub", "d/moved"));
	DO(rename("d/moved", "d/old"));
	DO(rmdir("d/old"));
	DO(symlink("nowhere", "d/link"));
	DO(readlink("d/link", buf, sizeof buf));
	DO(lchown("d/link", -1, -1));
	make("d/plain"), show();
	DO(renameat2(AT_FDCWD, "d/plain", AT_FDCWD, "d/link", RENAME_EXCHANGE));
	DO(mkdir("d/sub", 0755));
	DO(renameat2(AT_FDCWD, "d/sub", AT_FDCWD, "d/link", RENAME_EXCHANGE));
	DO(renameat2(AT_FDCWD, "d/link", AT_FDCWD, "other/out", RENAME_EXCHANGE));
	DO(renameat2(AT_FDCWD, "d/link", AT_FDCWD, "d/sub", RENAME_NOREPLACE));
	DO(mknod("d/socket", S_IFSOCK | 0600, 0));
	DO(mkfifo("d/fifo", 0600));
	DO(fd = open("d/fifo", O_RDWR));
	DO(write(fd, "some", 4));
	DO(read(fd, buf, 4));
	DO(close(fd));
	WATCH(1, "d/fifo", IN_ALL_EVENTS);
	DO(fd = open("d/fifo", O_RDWR | O_NONBLOCK));
	DO(write(fd, "some", 4));
	DO(read(fd, buf, 4));
	DO(close(fd));
	DO(dir = open("d", O_RDONLY | O_DIRECTORY));
	DO(getdents64(dir, listed, sizeof listed));
	DO(close(dir));
	DO(chmod("d", 0700));
	DO(rename("d", "e"));
	DO(unlink("e/fifo"));
	DO(rename("other", "e/other"));
	DO(rename("e/other", "other"));
	DO(chdir("e"));
	DO(fd = open("unlinked", O_CREAT | O_RDWR, 0600));
	DO(unlink("unlinked"));
	DO(write(fd, "some", 4));
	DO(close(fd));
	DO(fd = open("replaced", O_CREAT | O_WRONLY, 0600));
	DO(rename("plain", "replaced"));
	DO(write(fd, "some", 4));
	DO(close(fd));
	DO(chdir(".."));
}

static void a_file(void)
{
	int fd, other;
	char buf[64];
	begin("a file");
	make("f");
	WATCH(0, "f", IN_ALL_EVENTS);
	DO(fd = open("f", O_RDWR));
	DO(write(fd, "some", 4));
	DO(pread(fd, buf, 4, 0));
	DO(other = open("f", O_RDONLY));
	DO(close(other));
	DO(link("f", "g"));
	DO(rename("f", "h"));
	DO(chmod("g", 0600));
	DO(unlink("h"));
	DO(truncate("g", 0));
	DO(close(fd));
	DO(fd = open("g", O_RDWR));
	DO(unlink("g"));
	DO(write(fd, "some", 4));
	DO(fchmod(fd, 0600));
	DO(close_and_wait(fd));
	make("f");
	WATCH(0, "f", IN_ALL_EVENTS);
	DO(unlink("f"));
	make("f"), make("g");
	WATCH(0, "f", IN_ALL_EVENTS);
	DO(rename("g", "f"));
	WATCH(0, "f", IN_DELETE_SELF | IN_MOVE_SELF);
	DO(rename("f", "g"));
	DO(chmod("g", 0600));
	DO(unlink("g"));
}

static void both(void)
{
	int fd;
	begin("a directory and what is in it");
	mkdir("b", 0755), mkdir("b/sub", 0755), make("b/f");
	WATCH(0, "b", IN_ALL_EVENTS);
	WATCH(0, "b/f", IN_ALL_EVENTS);
	WATCH(0, "b/sub", IN_ALL_EVENTS);
	WATCH(1, "b/f", IN_CLOSE | IN_ATTRIB);
	WATCH(2, "b", IN_CREATE | IN_DELETE | IN_MOVE);
	WATCH(0, "b/./f", IN_ALL_EVENTS);
	DO(fd = open("b/f", O_RDWR));
	DO(write(fd, "some", 4));
	DO(close(fd));
	DO(link("b/f", "b/sub/g"));
	DO(rename("b/sub/g", "b/g"));
	DO(rename("b/g", "b/sub/g"));
	DO(rename("b/f", "b/g"));
	DO(unlink("b/sub/g"));
	DO(mkdir("b/sub/deep", 0755));
	DO(rmdir("b/sub/deep"));
	DO(rename("b/sub", "b/moved"));
	DO(unlink("b/g"));
	DO(rmdir("b/moved"));
	DO(rmdir("b"));
}

static void flags(void)
{
	int fd;
	begin("flags");
	mkdir("o", 0755), make("o/f"), symlink("o", "link");
	WATCH(0, "o", IN_CREATE | IN_ONESHOT);
	DO(open("o/f", O_RDONLY));
	DO(mkdir("o/a", 0755));
	DO(mkdir("o/b", 0755));
	WATCH(0, "o", IN_CREATE);
	WATCH(0, "o", IN_DELETE);
	DO(mkdir("o/c", 0755));
	DO(rmdir("o/c"));
	WATCH(0, "o", IN_CREATE | IN_MASK_ADD);
	DO(mkdir("o/c", 0755));
	DO(rmdir("o/c"));
	WATCH(0, "o", IN_CREATE | IN_MASK_CREATE);
	WATCH(0, "o", IN_CREATE | IN_MASK_CREATE | IN_MASK_ADD);
	WATCH(1, "o", IN_CREATE | IN_MASK_CREATE);
	WATCH(0, "o/f", IN_OPEN | IN_ONLYDIR);
	WATCH(0, "link", IN_OPEN | IN_ONLYDIR | IN_DONT_FOLLOW);
	WATCH(0, "link", IN_ATTRIB | IN_DONT_FOLLOW);
	WATCH(0, "link", IN_DELETE | IN_CREATE);
	DO(lchown("link", -1, -1));
	WATCH(0, "o/none", IN_OPEN);
	WATCH(0, "", IN_OPEN);
	WATCH(0, "o", 0);
	WATCH(0, "o", IN_DONT_FOLLOW);
	WATCH(0, "o", 0x1000);
	WATCH(0, NULL, IN_OPEN);
	SAY(inotify_add_watch(-1, "o", IN_OPEN));
	SAY(inotify_add_watch(0, "none", IN_OPEN));
	SAY(inotify_add_watch(-1, "o", 0));
	SAY(inotify_rm_watch(queues[0], 77));
	begin("without a name");
	WATCH(0, "o", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	WATCH(1, "o/f", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	WATCH(2, "o", IN_ALL_EVENTS);
	DO(fd = open("o/f", O_RDWR));
	DO(write(fd, "some", 4));
	DO(unlink("o/f"));
	DO(close(fd));
	begin("no watch any more");
	WATCH(0, "o", IN_ALL_EVENTS);
	WATCH(0, "o/a", IN_ALL_EVENTS);
	WATCH(1, "o", IN_CREATE);
	SAY(inotify_rm_watch(queues[0], 1));
	SAY(inotify_rm_watch(queues[0], 1));
	DO(mkdir("o/c", 0755));
	DO(rmdir("o/a"));
	WATCH(0, "o", IN_CREATE);
	DO(mkdir("o/d", 0755));
	SAY(inotify_rm_watch(queues[0], 3));
	if (geteuid()) {
		mkdir("closed", 0300);
		WATCH(0, "closed", IN_OPEN);
	}
}

static void open_before(void)
{
	int fd, again, directory;
	char buf[8], listed[1024];
	begin("open before");
	mkdir("p", 0755), mkdir("p/sub", 0755), mkdir("q", 0755);
	fd = open("p/f", O_CREAT | O_RDWR, 0600);
	again = open("p/f", O_RDONLY);
	directory = open("p/sub", O_RDONLY | O_DIRECTORY);
	int twice = dup(fd);
	WATCH(0, "p", IN_ALL_EVENTS);
	DO(write(fd, "some", 4));
	DO(read(again, buf, 4));
	DO(close(twice));
	DO(close(again));
	DO(getdents64(directory, listed, sizeof listed));
	DO(close(directory));
	DO(write(fd, "some", 4));
	DO(close(fd));
	fd = open("q/f", O_CREAT | O_RDWR, 0600);
	DO(rename("q/f", "p/g"));
	DO(write(fd, "some", 4));
	DO(rename("p/g", "q/g"));
	DO(write(fd, "some", 4));
	DO(close(fd));
	WATCH(1, "q/g", IN_MODIFY | IN_CLOSE_WRITE);
	DO(fd = open("q/g", O_WRONLY | O_APPEND));
	DO(write(fd, "some", 4));
	DO(close(fd));
}

static void deleted(void)
{
	int fd;
	begin("directories that go");
	mkdir("x", 0755), mkdir("x/y", 0755), mkdir("x/z", 0755);
	WATCH(0, "x", IN_ALL_EVENTS);
	WATCH(0, "x/y", IN_ALL_EVENTS);
	WATCH(1, "x/z", IN_ONLYDIR | IN_DELETE_SELF);
	DO(fd = open("x/y", O_RDONLY | O_DIRECTORY));
	DO(rmdir("x/y"));
	DO(close_and_wait(fd));
	DO(mkdir("x/y", 0755));
	DO(rename("x/y", "x/z"));
	DO(rmdir("x/z"));
	DO(rmdir("x"));
	WATCH(0, "x", IN_OPEN);
}

static void queue(void)
{
	char buf[8192];
	int bytes;
	begin("reading");
	mkdir("r", 0755);
	inotify_add_watch(queues[0], "r", IN_CREATE | IN_DELETE | IN_MODIFY);
	SAY(read(queues[0], buf, sizeof buf));
	mkdir("r/name", 0755), mkdir("r/longer name", 0755);
	ioctl(queues[0], FIONREAD, &bytes);
	ssize_t len = read(queues[0], buf, 16);
	printf("%d, %zd %s\n", bytes, len, errno_name());
	printf("%zd\n", read(queues[0], buf, 48));
	printf("%d\n", poll(&(struct pollfd){queues[0], POLLIN, 0}, 1, 0));
	printf("%zd\n", read(queues[0], buf, sizeof buf));
	printf("%d\n", poll(&(struct pollfd){queues[0], POLLIN, 0}, 1, 0));
	/* Equal ones that follow each other are one. */
	truncate("r/name", 0), make("r/f"), truncate("r/f", 1), truncate("r/f", 2), truncate("r/f", 3);
	show();
	/* Of what others write it is heard without a call. */
	pid_t child = fork();
	if (!child) {
		int fd = open("r/f", O_WRONLY);
		write(fd, "some", 4);
		pause();
	}
	printf("%d\n", poll(&(struct pollfd){queues[0], POLLIN, 0}, 1, 10000));
	show();
	kill(child, SIGKILL), waitpid(child, NULL, 0);
	/* More than the queue holds. */
	int most = 0;
	FILE *limit = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
	if (limit && fscanf(limit, "%d", &most) == 1 && most <= 20000)
		for (int at = 0; at <= most; at++)
			at % 2 ? rmdir("r/more") : mkdir("r/more", 0755);
	int seen = 0, lost = 0;
	while ((len = read(queues[0], buf, sizeof buf)) > 0)
		for (char *at = buf; at < buf + len; seen++) {
			struct inotify_event *event = (void *)at;
			lost += event->mask == IN_Q_OVERFLOW && event->wd == -1;
			at += sizeof *event + event->len;
		}
	printf("%d, lost %d\n", seen, lost);
}

static void *write_a_line(void *unused)
{
	int fd = open("t/f", O_WRONLY);
	write(fd, "some", 4);
	close(fd);
	return unused;
}

static void others(void)
{
	begin("others");
	mkdir("t", 0755), make("t/f");
	WATCH(0, "t", IN_ALL_EVENTS);
	pthread_t thread;
	pthread_create(&thread, NULL, write_a_line, NULL);
	pthread_join(thread, NULL);
	show();
	pid_t child = fork();
	if (!child) {
		int fd = open("t/g", O_CREAT | O_WRONLY, 0600);
		write(fd, "some", 4);
		_exit(fd < 0);
	}
	waitpid(child, NULL, 0);
	show();
	int script = open("t/s", O_CREAT | O_WRONLY, 0755);
	write(script, "#!/bin/true\n", 12), close(script), show();
	child = fork();
	if (!child) {
		execl("t/s", "s", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	show();
	/* What is inherited is the same. */
	child = fork();
	if (!child) {
		inotify_add_watch(queues[0], "t/f", IN_ATTRIB);
		chmod("t/f", 0600);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	show();
}

static void whiteouts(void)
{
	begin("whiteouts");
	mkdir("w", 0755), mkdir("w/sub", 0755), mkdir("v", 0755), make("w/a"), make("w/e"), make("v/d");
	WATCH(0, "w", IN_ALL_EVENTS);
	DO(renameat2(AT_FDCWD, "w/a", AT_FDCWD, "w/b", RENAME_WHITEOUT));
	DO(chmod("w/a", 0600));
	DO(rename("w/a", "w/c"));
	DO(unlink("w/c"));
	DO(renameat2(AT_FDCWD, "w/b", AT_FDCWD, "v/b", RENAME_WHITEOUT));
	DO(rename("w/e", "w/b"));
	DO(renameat2(AT_FDCWD, "v/d", AT_FDCWD, "w/d", RENAME_WHITEOUT));
	DO(renameat2(AT_FDCWD, "w/d", AT_FDCWD, "w/b", RENAME_WHITEOUT));
	WATCH(1, "w/d", IN_ALL_EVENTS);
	DO(rename("w/d", "v/e"));
	DO(unlink("v/e"));
	DO(renameat2(AT_FDCWD, "w/sub", AT_FDCWD, "w/moved", RENAME_WHITEOUT));
	DO(rmdir("w/moved"));
	DO(unlink("w/sub"));
	DO(renameat2(AT_FDCWD, "w/b", AT_FDCWD, "w/d", RENAME_WHITEOUT));
	DO(unlink("w/d"));
	DO(unlink("w/b"));
	DO(rmdir("w"));
}

static pthread_t first;

static void *alone(void *unused)
{
	char buf[8];
	pthread_join(first, NULL);
	begin("open before, and the first thread has ended");
	mkdir("z", 0755);
	int fd = open("z/f", O_CREAT | O_RDWR, 0600), other = open("z/g", O_CREAT | O_RDWR, 0600);
	WATCH(0, "z", IN_ALL_EVENTS);
	DO(write(fd, "some", 4));
	DO(pread(fd, buf, 4, 0));
	DO(rename("z/f", "z/h"));
	DO(write(fd, "some", 4));
	DO(close(fd));
	/* Much is opened meanwhile: what this one has stays known. */
	for (int at = 0; at < 3000; at++) {
		char name[16];
		sprintf(name, "y%d", at), make(name), unlink(name);
	}
	show();
	DO(write(other, "some", 4));
	DO(fchmod(other, 0640));
	DO(close(other));
	fflush(stdout);
	_exit(0);
	return unused;
}

static void without_the_first_thread(void)
{
	pid_t child = fork();
	if (!child) {
		pthread_t thread;
		first = pthread_self();
		if (pthread_create(&thread, NULL, alone, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	int status;
	waitpid(child, &status, 0);
	printf("%d\n", status);
}

static void unmounted(void)
{
	begin("unmounted");
	mkdir("m", 0755);
	DO(mount("none", "m", "tmpfs", 0, NULL));
	mkdir("m/d", 0755), make("m/d/f");
	WATCH(0, "m", IN_CREATE);
	WATCH(0, "m/d", IN_ALL_EVENTS);
	WATCH(1, "m/d/f", IN_ALL_EVENTS);
	DO(mkdir("m/e", 0755));
	DO(umount("m"));
	WATCH(0, "m", IN_CREATE);
	DO(mkdir("m/e", 0755));
}

static uint64_t state;
static unsigned below(unsigned limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % limit;
}

/* Calls drawn at random, from few names, so that they meet. */
static void drawn(unsigned seed)
{
	static const char *names[] = {"a", "b", "a/c", "f", "a/f", "b/f", "a/g", "a/c/g", "b/h", "."};
	static const unsigned masks[] = {
		IN_ALL_EVENTS, IN_ALL_EVENTS, IN_ALL_EVENTS | IN_EXCL_UNLINK, IN_CREATE | IN_DELETE | IN_MOVE,
		IN_CLOSE_WRITE | IN_MODIFY, IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB, IN_OPEN | IN_CLOSE | IN_MASK_ADD,
		IN_ALL_EVENTS | IN_ONESHOT, IN_ACCESS | IN_CREATE | IN_ONLYDIR, IN_ALL_EVENTS | IN_MASK_CREATE,
	};
	static const int flags[] = {O_RDONLY, O_RDWR | O_CREAT, O_WRONLY | O_TRUNC, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW};
	static const unsigned modes[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	int open_files[6] = {-1, -1, -1, -1, -1, -1};
	char buf[1024];
	struct stat stat;
	/* What has no name any more and was opened before it was to be told of is not told of: in every other one nothing is open that loses
	 * its name, in the others all is to be told from the beginning. */
	int all = seed % 2;
	state = seed;
	begin("drawn");
	mkdir("a", 0755), mkdir("b", 0755), mkdir("a/c", 0755), make("a/f"), make("b/f"), make("a/c/g");
	for (int at = 0; all && at < 10; at++)
		for (int queue = 0; queue < QUEUES; queue++)
			if (below(2))
				inotify_add_watch(queues[queue], names[at], masks[below(3)]);
	for (int at = 0; at < 400; at++) {
		const char *name = names[below(10)], *other = names[below(9)];
		unsigned slot = below(6), which = below(20), more = below(10);
		int *file = &open_files[slot], queue = queues[below(QUEUES)];
		long answer = 0;
		int exchanges = (which == 13 || which == 14) && modes[more % 5] == RENAME_EXCHANGE;
		for (int slot = 0; (exchanges || (!all && which >= 10 && which <= 14)) && slot < 6; slot++)
			if (open_files[slot] >= 0)
				close(open_files[slot]), open_files[slot] = -1, show();
		if (all && which < 3)
			which = 3;
		switch (which) {
		case 0: case 1: answer = inotify_add_watch(queue, name, masks[more]); break;
		case 2: answer = inotify_rm_watch(queue, 1 + more); break;
		case 3: case 4: case 5:
			if (*file >= 0)
				close(*file);
			answer = (*file = open(name, flags[more % 5], 0644)) < 0 ? -1 : 0;
			break;
		case 6: answer = write(*file, "some", 4); break;
		case 7: answer = pread(*file, buf, 4, 0); break;
		case 8: answer = getdents64(*file, buf, sizeof buf) < 0 ? -1 : 0; break;
		case 9: answer = close(*file), *file = -1; break;
		case 10: answer = unlink(name); break;
		case 11: answer = mkdir(name, 0755); break;
		case 12: answer = rmdir(name); break;
		case 13: case 14: answer = renameat2(AT_FDCWD, name, AT_FDCWD, other, modes[more % 5]); break;
		case 15: answer = symlink("f", other); break;
		case 16: answer = chmod(name, 0755); break;
		case 17: answer = truncate(name, more); break;
		case 18: answer = !fstat(*file, &stat) && stat.st_nlink ? ftruncate(*file, more) : 0; break;
		case 19: answer = mknod(other, S_IFREG | 0644, 0); break;
		}
		printf("%d: %u %u %u %s %s = %ld%s%s\n", at, which, slot, more, name, other, answer,
			answer < 0 ? " " : "", answer < 0 ? errno_name() : "");
		moves_last = exchanges;
		show();
		moves_last = 0;
	}
	for (int slot = 0; slot < 6; slot++)
		if (open_files[slot] >= 0)
			close(open_files[slot]), show();
}

#define MANY 100
/* Opens and closes many files in a directory that is watched. */
static void opens_many(void)
{
	char path[64];
	mkdir("full", 0755);
	inotify_add_watch(inotify_init1(0), "full", IN_CLOSE_WRITE);
	for (int at = 0; at < 20 * MANY; at++)
		sprintf(path, "full/%d", at), make(path);
	printf("runs on\n");
	getchar();
}

/* Watches many directories, in another process that is gone then, or in this one. */
static void many(int stays)
{
	char name[32], path[64];
	for (int at = 0; at < MANY; at++) {
		sprintf(name, "many%d", at), sprintf(path, "%s/file", name);
		mkdir(name, 0755), make(path);
	}
	pid_t child = stays ? 0 : fork();
	if (!child) {
		int queue = inotify_init1(0);
		for (int at = 0; at < MANY; at++) {
			sprintf(name, "many%d", at);
			if (inotify_add_watch(queue, name, IN_ALL_EVENTS) < 0)
				_exit(1);
		}
		if (!stays)
			_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	for (int at = 0; at < 20000; at++)
		access("many0/file", F_OK);
	printf("runs on\n");
	getchar();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || chdir(argv[1]))
		return 2;
	umask(022);
	if (argc > 2 && !strcmp(argv[argc - 1], "host"))
		on_host = 1, argc--;
	if (argc > 2) {
		if (!strcmp(argv[2], "unmounted"))
			unmounted();
		else if (!strcmp(argv[2], "opens"))
			opens_many();
		else if (atoi(argv[2]))
			drawn(atoi(argv[2]));
		else
			many(!strcmp(argv[2], "stays"));
		return 0;
	}
	names_in_a_directory();
	a_file();
	both();
	flags();
	open_before();
	deleted();
	others();
	whiteouts();
	without_the_first_thread();
	queue();
	return 0;
}
