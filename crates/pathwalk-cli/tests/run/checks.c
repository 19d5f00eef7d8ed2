/* Calls of each family with what the kernel answers to an ordinary user: one row each.
 *
 *   checks relative | descriptor | passed | thread
 *
 * says how the directory is named that they are made in: as the current one, by a descriptor, by one that came through a
 * socket, or as the current one by another thread than the first. It is run with and without the tree, and says the same.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The directory that all is done in, and the program itself. */
static int at = AT_FDCWD;
static char self[PATH_MAX];

static void row(const char *what, long answer)
{
	if (answer >= 0)
		printf("%s: %ld\n", what, answer);
	else
		printf("%s: %s\n", what, strerrorname_np(errno));
	fflush(stdout);
}

#define ROW(call) (errno = 0, row(#call, (long)(call)))

/* A descriptor's number is compared too; then it is closed. */
static long closed(long fd)
{
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return fd;
}

static long seen(long answer, const struct stat *stat)
{
	if (answer == 0)
		printf("  mode %o links %ld size %ld owner %d %d\n", stat->st_mode, (long)stat->st_nlink,
			S_ISDIR(stat->st_mode) ? 0 : (long)stat->st_size, stat->st_uid, stat->st_gid);
	return answer;
}

static long stat_of(const char *path, int flags)
{
	struct stat stat;
	return seen(fstatat(at, path, &stat, flags), &stat);
}

static long statx_of(const char *path, int flags, unsigned mask)
{
	struct statx it = {0};
	long answer = syscall(SYS_statx, at, path, flags, mask, &it);
	if (answer == 0)
		printf("  mode %o links %u size %ld owner %u %u\n", it.stx_mode, it.stx_nlink,
			S_ISDIR(it.stx_mode) ? 0 : (long)it.stx_size, it.stx_uid, it.stx_gid);
	return answer;
}

static long made(const char *path, const char *text, int mode)
{
	int fd = openat(at, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
	long answer = fd < 0 ? -1 : write(fd, text, strlen(text));
	closed(fd);
	return answer;
}

static long contents(int fd)
{
	char text[256] = {0};
	long answer = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (answer >= 0)
		printf("  \"%s\"\n", text);
	closed(fd);
	return answer;
}

static long link_of(const char *path, size_t room)
{
	char text[PATH_MAX] = {0};
	long answer = readlinkat(at, path, text, room);
	if (answer >= 0)
		printf("  -> %s\n", text);
	return answer;
}

static long open2(const char *path, unsigned long flags, unsigned long mode, unsigned long resolve)
{
	struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
	return closed(syscall(SYS_openat2, at, path, &how, sizeof how));
}

static void opens(void)
{
	static char longest[PATH_MAX + 2];
	struct { struct open_how how; unsigned long more; } larger = {{.flags = O_RDONLY}, 1};
	memset(longest, 'a', sizeof longest - 1);
	ROW(made("file", "contents", 0644));
	ROW(closed(openat(at, "file", O_CREAT | O_EXCL | O_WRONLY, 0644)));
	ROW(contents(openat(at, "file", O_RDONLY)));
	ROW(closed(openat(at, "missing", O_RDONLY)));
	ROW(closed(openat(at, "missing/file", O_CREAT | O_WRONLY, 0644)));
	ROW(closed(openat(at, "file", O_RDONLY | O_DIRECTORY)));
	ROW(closed(openat(at, "file/", O_RDONLY)));
	ROW(closed(openat(at, "file/..", O_RDONLY)));
	ROW(closed(openat(at, "new/", O_CREAT | O_WRONLY, 0644)));
	ROW(closed(openat(at, "", O_RDONLY)));
	ROW(closed(openat(at, (char *)8, O_RDONLY)));
	ROW(closed(openat(at, longest, O_RDONLY)));
	ROW(closed(openat(at, longest + sizeof longest - 300, O_RDONLY)));
	ROW(symlinkat("file", at, "link"));
	ROW(symlinkat("loop", at, "loop"));
	ROW(symlinkat("missing", at, "dangling"));
	ROW(contents(openat(at, "link", O_RDONLY)));
	ROW(closed(openat(at, "link", O_RDONLY | O_NOFOLLOW)));
	ROW(closed(openat(at, "loop", O_RDONLY)));
	ROW(closed(openat(at, "dangling", O_RDONLY)));
	ROW(closed(openat(at, "dangling", O_CREAT | O_EXCL | O_WRONLY, 0600)));
	ROW(closed(openat(at, "link", O_PATH | O_NOFOLLOW)));
	ROW(closed(openat(at, ".", O_RDWR)));
	ROW(closed(openat(at, ".", O_CREAT | O_RDONLY, 0600)));
	ROW(contents(openat(at, ".", O_RDONLY)));
	ROW(closed(openat(at, ".", O_TMPFILE | O_RDWR, 0600)));
	ROW(closed(openat(at, "file", O_TMPFILE | O_RDWR, 0600)));
	ROW(closed(openat(at, "/", O_CREAT | O_EXCL | O_WRONLY, 0600)));
	ROW(closed(openat(at, "/etc/passwd", O_WRONLY)));
	ROW(closed(openat(at, "/etc/shadow", O_RDONLY)));
	ROW(made("mine", "", 0400));
	ROW(closed(openat(at, "mine", O_WRONLY)));
	ROW(closed(openat(at, "file", O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
	ROW(closed(openat(-1, "file", O_RDONLY)));
	ROW(closed(openat(0, "file", O_RDONLY)));
	ROW(closed(openat(99, "/etc/passwd", O_RDONLY)));
	ROW(open2("file", O_RDONLY, 0, 0));
	ROW(open2("../file", O_RDONLY, 0, RESOLVE_BENEATH));
	ROW(open2("/etc/passwd", O_RDONLY, 0, RESOLVE_BENEATH));
	ROW(open2("link", O_RDONLY, 0, RESOLVE_BENEATH));
	ROW(open2("/file", O_RDONLY, 0, RESOLVE_IN_ROOT));
	ROW(open2("../../file", O_RDONLY, 0, RESOLVE_IN_ROOT));
	ROW(open2("link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
	ROW(open2("/proc/self/exe", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS));
	ROW(open2("/proc/self/stat", O_RDONLY, 0, RESOLVE_NO_XDEV));
	ROW(open2("file", O_RDONLY, 0644, 0));
	ROW(open2("file", O_RDONLY | 1ul << 40, 0, 0));
	ROW(open2("file", O_RDONLY, 0, 1ul << 20));
	ROW(open2("file", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
	ROW(open2("by2", O_CREAT | O_WRONLY, 0640, RESOLVE_BENEATH));
	ROW(closed(syscall(SYS_openat2, at, "file", &larger, 8)));
	ROW(closed(syscall(SYS_openat2, at, "file", &larger, sizeof larger)));
	ROW(closed(syscall(SYS_openat2, at, "file", (void *)8, sizeof larger)));
}

static void stats(void)
{
	struct statfs fs;
	struct stat stat;
	int ends[2], fd = openat(at, "file", O_RDONLY), place = openat(at, "link", O_PATH | O_NOFOLLOW);
	ROW(stat_of("file", 0));
	ROW(stat_of("link", 0));
	ROW(stat_of("link", AT_SYMLINK_NOFOLLOW));
	ROW(stat_of("dangling", 0));
	ROW(stat_of("", 0));
	ROW(stat_of("", AT_EMPTY_PATH));
	ROW(stat_of(".", 0));
	ROW(stat_of("file/", 0));
	ROW(stat_of("file", 1 << 30));
	ROW(stat_of("/", AT_SYMLINK_NOFOLLOW));
	ROW(seen(fstat(fd, &stat), &stat));
	ROW(seen(fstat(place, &stat), &stat));
	ROW(seen(fstatat(place, "", &stat, AT_EMPTY_PATH), &stat));
	ROW(fstat(99, &stat));
	ROW(pipe(ends));
	ROW(fstat(ends[0], &stat));
	ROW(S_ISFIFO(stat.st_mode));
	closed(ends[0]), closed(ends[1]);
	ROW(statx_of("file", 0, STATX_BASIC_STATS));
	ROW(statx_of("link", AT_SYMLINK_NOFOLLOW, STATX_MODE));
	ROW(statx_of("", AT_EMPTY_PATH, STATX_BASIC_STATS));
	ROW(statx_of("file", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, STATX_MODE));
	ROW(statx_of("file", 0, 1u << 31));
	ROW(statx_of("missing", 0, STATX_MODE));
	ROW(statx_of(NULL, 0, STATX_MODE));
	ROW(statx_of(NULL, 1, STATX_MODE));
	ROW(statx_of(NULL, 0, 1u << 31));
	ROW(statx_of((void *)8, AT_EMPTY_PATH, STATX_MODE));
	ROW(statx_of((void *)8, AT_EMPTY_PATH | 1, STATX_MODE));
	ROW(syscall(SYS_newfstatat, at, NULL, &stat, 0));
	ROW(syscall(SYS_newfstatat, at, NULL, &stat, 1));
	ROW(syscall(SYS_newfstatat, at, (void *)8, &stat, AT_EMPTY_PATH | 1));
	ROW(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, (void *)8));
	ROW(faccessat(at, "file", F_OK, 0));
	ROW(faccessat(at, "file", R_OK | W_OK, 0));
	ROW(faccessat(at, "file", X_OK, 0));
	ROW(faccessat(at, "mine", W_OK, 0));
	ROW(faccessat(at, "/etc/passwd", W_OK, 0));
	ROW(faccessat(at, "missing", F_OK, 0));
	ROW(faccessat(at, "file", 8, 0));
	ROW(syscall(439, at, "dangling", F_OK, AT_SYMLINK_NOFOLLOW));
	ROW(syscall(439, at, "file", W_OK, AT_EACCESS));
	ROW(link_of("link", 64));
	ROW(link_of("link", 2));
	ROW(link_of("link", 0));
	ROW(link_of("file", 64));
	ROW(readlinkat(place, "", (char[64]){0}, 64));
	ROW(readlinkat(fd, "", (char[64]){0}, 64));
	ROW(fstatfs(fd, &fs));
	ROW(fs.f_namelen);
	ROW(statfs("/proc", &fs));
	ROW(fs.f_type);
	ROW(statfs("missing/missing", &fs));
	closed(place), closed(fd);
}

static void names(void)
{
	int fd;
	ROW(mkdirat(at, "dir", 0777));
	ROW(stat_of("dir", 0));
	ROW(mkdirat(at, "dir", 0777));
	ROW(mkdirat(at, "file/dir", 0777));
	ROW(mkdirat(at, "slash/", 0700));
	ROW(mkdirat(at, "dangling", 0700));
	ROW(mkdirat(at, "dir/.", 0700));
	ROW(mknodat(at, "fifo", S_IFIFO | 0640, 0));
	ROW(mknodat(at, "plain", S_IFREG | 0604, 0));
	ROW(mknodat(at, "device", S_IFCHR | 0600, 0x103));
	ROW(mknodat(at, "directory", S_IFDIR | 0600, 0));
	ROW(linkat(at, "file", at, "hard", 0));
	ROW(stat_of("hard", 0));
	ROW(linkat(at, "file", at, "hard", 0));
	ROW(linkat(at, "dir", at, "hard2", 0));
	ROW(linkat(at, "link", at, "hardlink", 0));
	ROW(stat_of("hardlink", AT_SYMLINK_NOFOLLOW));
	ROW(linkat(at, "link", at, "hardfile", AT_SYMLINK_FOLLOW));
	ROW(linkat(at, "missing", at, "hard3", 0));
	ROW(linkat(at, "file", at, "/proc/hard", 0));
	ROW(linkat(at, "file", at, "hard3", 1 << 20));
	ROW(symlinkat("", at, "none"));
	ROW(symlinkat("x", at, "file"));
	ROW(symlinkat("x", at, "slash2/"));
	ROW(renameat(at, "hard", at, "renamed"));
	ROW(renameat(at, "missing", at, "renamed2"));
	ROW(renameat(at, "file", at, "dir"));
	ROW(renameat(at, "dir", at, "file"));
	ROW(renameat(at, "dir", at, "dir/below"));
	ROW(renameat(at, "dir/.", at, "other"));
	ROW(renameat(at, "file", at, "other/"));
	ROW(made("dir/in", "in", 0600));
	ROW(mkdirat(at, "empty", 0755));
	ROW(renameat(at, "empty", at, "dir"));
	ROW(renameat(at, "dir", at, "empty"));
	ROW(renameat2(at, "renamed", at, "file", RENAME_NOREPLACE));
	ROW(renameat2(at, "renamed", at, "empty", RENAME_EXCHANGE));
	ROW(renameat2(at, "renamed", at, "missing", RENAME_EXCHANGE));
	ROW(renameat2(at, "renamed", at, "x", RENAME_EXCHANGE | RENAME_NOREPLACE));
	ROW(renameat2(at, "renamed", at, "x", 1 << 10));
	ROW(renameat(at, "file", at, "hardfile"));
	ROW(unlinkat(at, "renamed", 0));
	ROW(unlinkat(at, "file", AT_REMOVEDIR));
	ROW(unlinkat(at, "renamed", AT_REMOVEDIR));
	ROW(unlinkat(at, "missing", 0));
	ROW(unlinkat(at, "hardfile/", 0));
	ROW(unlinkat(at, ".", AT_REMOVEDIR));
	ROW(unlinkat(at, "slash/..", AT_REMOVEDIR));
	ROW(unlinkat(at, "/etc/passwd", 0));
	ROW(unlinkat(at, "slash", AT_REMOVEDIR));
	fd = openat(at, "hardlink", O_PATH | O_NOFOLLOW);
	ROW(unlinkat(at, "hardlink", 0));
	ROW(linkat(fd, "", at, "back", AT_EMPTY_PATH));
	closed(fd);
	/* Open after its name is gone. */
	ROW(made("gone", "still", 0600));
	fd = openat(at, "gone", O_RDWR);
	ROW(unlinkat(at, "gone", 0));
	struct stat stat;
	ROW(seen(fstat(fd, &stat), &stat));
	ROW(contents(dup(fd)));
	closed(fd);
	ROW(mkdirat(at, "going", 0700));
	fd = openat(at, "going", O_RDONLY);
	ROW(unlinkat(at, "going", AT_REMOVEDIR));
	ROW(closed(openat(fd, "in", O_CREAT | O_WRONLY, 0600)));
	ROW(mkdirat(fd, "in", 0700));
	ROW(closed(openat(fd, ".", O_RDONLY)));
	closed(fd);
}

static long times_of(const char *path)
{
	struct stat stat;
	long answer = fstatat(at, path, &stat, AT_SYMLINK_NOFOLLOW);
	printf("  %ld.%ld %ld.%ld\n", stat.st_atime, stat.st_atim.tv_nsec, stat.st_mtime, stat.st_mtim.tv_nsec);
	return answer;
}

static void attributes(void)
{
	struct timespec five[2] = {{5, 6}, {7, 8}}, some[2] = {{9, UTIME_OMIT}, {10, 11}}, wrong[2] = {{0, -5}, {0, 0}};
	int fd;
	ROW(made("attr", "attributes", 0666));
	ROW(symlinkat("attr", at, "attrlink"));
	fd = openat(at, "attr", O_RDWR);
	ROW(fchmodat(at, "attr", 0640, 0));
	ROW(stat_of("attr", 0));
	ROW(fchmodat(at, "attrlink", 04755, 0));
	ROW(stat_of("attr", 0));
	ROW(fchmod(fd, 02610));
	ROW(stat_of("attr", 0));
	ROW(syscall(452, at, "attrlink", 0600, AT_SYMLINK_NOFOLLOW));
	ROW(syscall(452, fd, "", 0604, AT_EMPTY_PATH));
	ROW(fchmodat(at, "/etc/passwd", 0666, 0));
	ROW(fchmodat(at, "missing", 0666, 0));
	ROW(fchownat(at, "attr", -1, -1, 0));
	ROW(fchownat(at, "attr", -1, getgid(), 0));
	ROW(fchownat(at, "attr", 0, -1, 0));
	ROW(fchownat(at, "attrlink", -1, 0, AT_SYMLINK_NOFOLLOW));
	ROW(fchown(fd, 0, 0));
	ROW(utimensat(at, "attr", five, 0));
	ROW(times_of("attr"));
	ROW(utimensat(at, "attr", some, 0));
	ROW(times_of("attr"));
	ROW(utimensat(at, "attrlink", five, AT_SYMLINK_NOFOLLOW));
	ROW(times_of("attrlink"));
	ROW(utimensat(at, "attr", wrong, 0));
	ROW(utimensat(at, "/etc/passwd", NULL, 0));
	ROW(utimensat(at, "/etc/passwd", five, 0));
	ROW(futimens(fd, five));
	ROW(times_of("attr"));
	ROW(syscall(SYS_futimesat, at, "attr", NULL));
	ROW(ftruncate(fd, 4));
	ROW(stat_of("attr", 0));
	ROW(ftruncate(fd, -1));
	ROW(lseek(fd, 0, SEEK_END));
	ROW(write(fd, "more", 4));
	ROW(contents(openat(at, "attr", O_RDONLY)));
	closed(fd);
	fd = openat(at, "attr", O_RDONLY);
	ROW(ftruncate(fd, 1));
	ROW(fsetxattr(fd, "user.a", "one", 3, 0));
	ROW(fsetxattr(fd, "user.a", "two", 3, XATTR_CREATE));
	ROW(fsetxattr(fd, "user.b", "two", 3, XATTR_REPLACE));
	ROW(fsetxattr(fd, "user.b", "two!", 4, XATTR_CREATE));
	ROW(fgetxattr(fd, "user.a", (char[8]){0}, 8));
	ROW(fgetxattr(fd, "user.b", (char[8]){0}, 2));
	ROW(fgetxattr(fd, "user.b", NULL, 0));
	ROW(fgetxattr(fd, "user.c", (char[8]){0}, 8));
	ROW(fgetxattr(fd, "plain", (char[8]){0}, 8));
	ROW(fsetxattr(fd, "trusted.a", "one", 3, 0));
	ROW(flistxattr(fd, NULL, 0));
	ROW(fremovexattr(fd, "user.a"));
	ROW(fremovexattr(fd, "user.a"));
	ROW(flistxattr(fd, (char[64]){0}, 64));
	struct { unsigned long value; unsigned size, flags; } given = {(unsigned long)"three", 5, 0};
	ROW(syscall(463, at, "attr", 0, "user.c", &given, sizeof given));
	ROW(syscall(464, at, "attrlink", 0, "user.c", &given, sizeof given));
	ROW(syscall(465, at, "attr", 0, NULL, 0));
	ROW(syscall(466, at, "attr", 0, "user.c"));
	ROW(syscall(466, at, "attrlink", AT_SYMLINK_NOFOLLOW, "user.c"));
	closed(fd);
	ROW(made("secret", "", 0000));
	ROW(closed(openat(at, "secret", O_RDONLY)));
	ROW(mkdirat(at, "locked", 0000));
	ROW(closed(openat(at, "locked/file", O_RDONLY)));
	ROW(closed(openat(at, "locked", O_RDONLY)));
	ROW(closed(openat(at, "locked", O_PATH)));
	ROW(mkdirat(at, "locked/dir", 0700));
	ROW(fchmodat(at, "locked", 0500, 0));
	ROW(mkdirat(at, "locked/dir", 0700));
	ROW(closed(openat(at, "locked/file", O_CREAT | O_WRONLY, 0600)));
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
	return strcmp((*one)->d_name, (*other)->d_name);
}

static long listed(const char *path)
{
	struct dirent **entries;
	long count = scandirat(at, path, &entries, NULL, by_name);
	for (long entry = 0; entry < count; entry++)
		printf("  %s %d\n", entries[entry]->d_name, entries[entry]->d_type);
	return count;
}

struct old_dirent {
	unsigned long ino, off;
	unsigned short len;
	char name[];
};

/* By getdents, so many bytes at once: what each entry has; whether its file is the one of that name, and one can go on from it. */
static long old_listed(const char *path, size_t room)
{
	static char lines[4096][300];
	char bytes[4096];
	long count = 0, read, wrong = 0;
	unsigned long last = 0;
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY);
	while ((read = syscall(SYS_getdents, fd, bytes, room)) > 0) {
		for (long from = 0; from < read;) {
			struct old_dirent *it = (void *)(bytes + from);
			struct stat stat = {0};
			fstatat(fd, it->name, &stat, AT_SYMLINK_NOFOLLOW);
			wrong += strcmp(it->name, "..") && stat.st_ino != it->ino;
			wrong += it->len % 8 || it->len < strlen(it->name) + 20 || it->len > strlen(it->name) + 28;
			snprintf(lines[count++], sizeof *lines, "  %s %d", it->name, bytes[from + it->len - 1]);
			from += it->len;
			last = it->off;
		}
		wrong += lseek(fd, 0, SEEK_CUR) != (long)last;
	}
	closed(fd);
	qsort(lines, count, sizeof *lines, (void *)strcmp);
	/* Which of them came before an error is the file system's to say. */
	for (long line = 0; line < count && read == 0; line++)
		puts(lines[line]);
	if (wrong)
		printf("  %ld wrong\n", wrong);
	return read < 0 ? read : count;
}

static void directories(void)
{
	char path[PATH_MAX], where[PATH_MAX] = "", link[PATH_MAX] = "";
	int fd, here = open(".", O_RDONLY);
	DIR *dir;
	ROW(listed("."));
	ROW(listed("file"));
	ROW(listed("missing"));
	ROW(listed("locked"));
	ROW(old_listed(".", 4096));
	ROW(old_listed(".", 300));
	ROW(old_listed(".", 24));
	fd = openat(at, ".", O_RDONLY);
	ROW(syscall(SYS_getdents, fd, path, 8));
	ROW(syscall(SYS_getdents, fd, path, 0));
	ROW(syscall(SYS_getdents, fd, (void *)8, 4096));
	ROW(syscall(SYS_getdents, 99, path, sizeof path));
	ROW(syscall(SYS_getdents64, fd, path, 8));
	ROW(syscall(SYS_getdents64, fd, (void *)8, 4096));
	dir = fdopendir(fd);
	long count = 0, again = 0;
	while (readdir(dir))
		count++;
	rewinddir(dir);
	readdir(dir);
	long second = telldir(dir);
	char *name = strdup(readdir(dir)->d_name);
	seekdir(dir, second);
	ROW(strcmp(readdir(dir)->d_name, name));
	rewinddir(dir);
	while (readdir(dir))
		again++;
	ROW(again - count);
	closedir(dir);
	fd = openat(at, "file", O_RDONLY);
	ROW(syscall(SYS_getdents64, fd, path, sizeof path));
	ROW(syscall(SYS_getdents, fd, path, sizeof path));
	ROW(fchdir(fd));
	closed(fd);
	ROW(mkdirat(at, "stands", 0755));
	ROW(made("stands/in", "in", 0600));
	fd = openat(at, "stands", O_PATH);
	ROW(syscall(SYS_getdents64, fd, path, sizeof path));
	ROW(syscall(SYS_getdents, fd, path, sizeof path));
	ROW(fchdir(fd));
	closed(fd);
	ROW(strcmp(strrchr(getcwd(where, sizeof where), '/'), "/stands"));
	ROW(contents(open("in", O_RDONLY)));
	ROW(contents(open("../attr", O_RDONLY)));
	ROW(readlink("/proc/self/cwd", link, sizeof link) == (long)strlen(where) && !strcmp(link, where));
	ROW(syscall(SYS_getcwd, path, 3));
	ROW(chdir("in"));
	ROW(chdir("missing"));
	ROW(chdir(""));
	ROW(chdir("../locked"));
	ROW(chdir("/usr"));
	ROW(strcmp(getcwd(path, sizeof path), "/usr"));
	ROW(mkdir("made", 0700) < 0);
	ROW(chdir(where));
	ROW(mkdir("below", 0700));
	ROW(chdir("below"));
	ROW(rmdir("../below"));
	ROW(syscall(SYS_getcwd, path, sizeof path));
	ROW(closed(open("x", O_CREAT | O_WRONLY, 0600)));
	ROW(chdir(".."));
	ROW(fchdir(here));
	ROW(umask(077) == 022);
	ROW(made("masked", "", 0666));
	ROW(stat_of("masked", 0));
	ROW(umask(022));
	closed(here);
}

static char *const child[] = {"called", "child", "argument", NULL};
static char *const environment[] = {"GIVEN=yes", NULL};

/* How a program that is run by a descriptor and a path ends; it says what it was given. */
static long runs(int dir, const char *path, int flags)
{
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		syscall(SYS_execveat, dir, path, child, environment, flags);
		printf("  %s\n", strerrorname_np(errno));
		fflush(stdout);
		_exit(99);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* A child that shares the memory runs a script on a small stack, as Go's do; below that lies something of the parent's. */
static char *arguments[300];

static int on_a_small_stack(void *script)
{
	syscall(SYS_execveat, at, script, arguments, environment, 0);
	_exit(99);
}

static void from_a_small_stack(char *script)
{
	const int below = 32768, room = 2048;
	int status = -1, changed = 0;
	char *memory = mmap(NULL, below + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(memory, 0x5a, below);
	for (int index = 0; index < 299; index++)
		arguments[index] = "argument";
	pid_t pid = clone(on_a_small_stack, memory + below + room, CLONE_VM | CLONE_VFORK | SIGCHLD, script);
	waitpid(pid, &status, 0);
	for (int index = 0; index < below; index++)
		changed += memory[index] != 0x5a;
	row("from a small stack", status);
	row("bytes changed below it", changed);
	munmap(memory, below + room);
}

/* A program that is not run for what it is given leaves nothing behind. */
static void with_too_much(const char *program)
{
	static char much[200000];
	char *given[] = {"called", much, NULL};
	int left = 0;
	memset(much, 'a', sizeof much - 1);
	for (int fd = 0; fd < 256; fd++)
		left -= fcntl(fd, F_GETFD) >= 0;
	for (int round = 0; round < 3; round++)
		ROW(syscall(SYS_execveat, at, program, given, environment, 0));
	for (int fd = 0; fd < 256; fd++)
		left += fcntl(fd, F_GETFD) >= 0;
	row("descriptors left", left);
}

static void programs(void)
{
	char text[PATH_MAX + 16], path[64];
	int fd = open(self, O_RDONLY), to;
	struct stat stat;
	ROW(runs(AT_FDCWD, self, 0));
	ROW(runs(fd, "", AT_EMPTY_PATH));
	ROW(fstat(fd, &stat));
	to = openat(at, "program", O_CREAT | O_WRONLY, 0755);
	ROW(sendfile(to, fd, NULL, stat.st_size) == stat.st_size);
	closed(to), closed(fd);
	ROW(runs(at, "program", 0));
	ROW(symlinkat("program", at, "programlink"));
	ROW(runs(at, "programlink", 0));
	ROW(runs(at, "programlink", AT_SYMLINK_NOFOLLOW));
	fd = openat(at, "program", O_PATH);
	ROW(runs(fd, "", AT_EMPTY_PATH));
	ROW(runs(fd, "", 0));
	closed(fd);
	to = openat(at, "program", O_WRONLY);
	ROW(runs(at, "program", 0));
	closed(to);
	ROW(fchmodat(at, "program", 0644, 0));
	ROW(runs(at, "program", 0));
	ROW(runs(at, "missing", 0));
	ROW(runs(at, "dir", 0));
	ROW(made("text", "not a program", 0755));
	ROW(runs(at, "text", 0));
	ROW(made("empty.d", "", 0755));
	ROW(runs(at, "empty.d", 0));
	ROW(made("bad", "#!/no/such/interpreter\n", 0755));
	ROW(runs(at, "bad", 0));
	ROW(made("script", "#!./checks child\n", 0755));
	/* The name of a script by a descriptor has the descriptor's number in it. */
	ROW(runs(at, "script", 0));
	to = fchmodat(at, "program", 0755, 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd = openat(at, "program", O_RDONLY));
	ROW(runs(AT_FDCWD, path, 0));
	closed(fd);
	with_too_much("program");
	ROW(made("counts", "#!/bin/sh\ntest $# = 298 && test $1$2 = argumentargument && exit 5\n", 0755));
	from_a_small_stack("counts");
	/* A file of its own that has no name. */
	fd = memfd_create("own", MFD_CLOEXEC), to = open(self, O_RDONLY);
	ROW(sendfile(fd, to, NULL, stat.st_size) == stat.st_size);
	ROW(runs(fd, "", AT_EMPTY_PATH));
	ROW(runs(fd, "x", AT_EMPTY_PATH));
	ROW(fchmod(fd, 0600));
	ROW(runs(fd, "", AT_EMPTY_PATH));
	closed(fd), closed(to);
	fd = memfd_create("empty", MFD_CLOEXEC);
	ROW(runs(fd, "", AT_EMPTY_PATH));
	closed(fd);
	ROW(runs(99, "", AT_EMPTY_PATH));
	ROW(readlink("/proc/self/exe", text, sizeof text) == (long)strlen(self) && !strncmp(text, self, strlen(self)));
}

/* Paths that are nowhere: what is wrong with the flags is said before, and no pointer is no empty path but for some. */
static void nowhere(void)
{
	const char *nowhere[] = {(char *)8, NULL};
	struct timespec times[2] = {{1, 2}, {3, 4}};
	char buffer[512];
	for (int i = 0; i < 2; i++) {
		const char *path = nowhere[i];
		for (int flags = 0; flags <= AT_EMPTY_PATH; flags += AT_EMPTY_PATH) {
			ROW(syscall(SYS_faccessat2, at, path, R_OK, flags));
			ROW(syscall(452 /* fchmodat2 */, at, path, 0755, flags));
			ROW(fchownat(at, path, -1, -1, flags));
			ROW(syscall(SYS_linkat, at, path, at, "new", flags));
			ROW(syscall(SYS_utimensat, AT_FDCWD, path, times, flags));
			ROW(syscall(SYS_execveat, at, path, NULL, NULL, flags));
			ROW(syscall(SYS_newfstatat, at, path, buffer, flags));
			ROW(syscall(SYS_statx, at, path, flags, STATX_ALL, buffer));
		}
		ROW(syscall(SYS_faccessat2, at, path, 8, 0));
		ROW(syscall(SYS_faccessat2, at, path, R_OK, 0x4000));
		ROW(syscall(452, at, path, 0755, AT_SYMLINK_FOLLOW));
		ROW(fchownat(at, path, -1, -1, 1));
		ROW(syscall(SYS_linkat, at, path, at, "new", 8));
		ROW(syscall(SYS_linkat, at, "attr", at, path, 8));
		ROW(syscall(SYS_unlinkat, at, path, 1));
		ROW(syscall(SYS_utimensat, AT_FDCWD, path, times, 0x10));
		ROW(syscall(SYS_mknodat, at, path, S_IFDIR | 0755, 0));
		ROW(syscall(SYS_mknodat, at, path, S_IFLNK | 0755, 0));
		ROW(syscall(SYS_openat, at, path, O_CREAT | O_DIRECTORY, 0644));
		ROW(syscall(SYS_openat2, at, path, &(struct open_how){.resolve = 0x40}, sizeof(struct open_how)));
		ROW(syscall(SYS_renameat2, at, path, at, "new", 8));
		ROW(syscall(SYS_renameat2, at, "none/none", at, path, 0));
		ROW(syscall(SYS_renameat2, at, path, at, "none/none", 0));
		ROW(syscall(SYS_symlinkat, path, at, "new"));
		ROW(syscall(SYS_symlinkat, "target", at, path));
	}
	ROW(syscall(SYS_utimensat, at == AT_FDCWD ? 99 : at, NULL, times, AT_EMPTY_PATH));
	ROW(syscall(SYS_futimesat, AT_FDCWD, NULL, NULL));
}

/* Paths that begin in no directory: what is wrong with the flags is said before, and what with the first of two paths. */
static void no_directory(void)
{
	const char *paths[] = {"attr", "none/none", "", "/", (char *)8, NULL};
	static char name[400], component[400];
	struct open_how how = {.flags = O_PATH};
	struct timespec times[2] = {{1, 2}, {3, 4}};
	char buffer[512];
	memset(name, 'n', sizeof name - 1);
	snprintf(component, sizeof component, "%.300s/x", name);
	for (int i = 0; i < 6; i++) {
		const char *path = paths[i];
		for (int dir = 99; dir >= -1; dir -= 100) {
			for (int flags = 0; flags <= AT_EMPTY_PATH; flags += AT_EMPTY_PATH) {
				ROW(syscall(SYS_faccessat2, dir, path, 8, flags));
				ROW(syscall(SYS_faccessat2, dir, path, R_OK, flags | 0x4000));
				ROW(syscall(SYS_newfstatat, dir, path, buffer, flags | 0x10));
				ROW(syscall(SYS_statx, dir, path, flags, 1u << 31, buffer));
				ROW(syscall(SYS_statx, dir, path, flags | AT_STATX_SYNC_TYPE, STATX_ALL, buffer));
				ROW(syscall(SYS_execveat, dir, path, NULL, NULL, flags | 1));
				if (i == 3)
					continue;
				ROW(syscall(452 /* fchmodat2 */, dir, path, 0755, flags | 1));
				ROW(fchownat(dir, path, -1, -1, flags | 1));
				ROW(syscall(SYS_utimensat, dir, path, times, flags | 1));
				ROW(syscall(SYS_linkat, dir, path, at, "new", flags | 1));
			}
			ROW(syscall(SYS_unlinkat, dir, path, 1));
			ROW(syscall(SYS_mknodat, dir, path, S_IFDIR | 0755, 0));
			ROW(syscall(SYS_mknodat, dir, path, S_IFLNK | 0755, 0));
			ROW(closed(syscall(SYS_openat, dir, path, O_CREAT | O_DIRECTORY, 0644)));
			/* All but RESOLVE_CACHED: what is cached is each one's own. */
			for (how.resolve = 0; how.resolve <= 0x18; how.resolve += 4)
				ROW(closed(syscall(SYS_openat2, dir, path, &how, sizeof how)));
			ROW(syscall(SYS_renameat2, dir, path, at, "new", 8));
		}
		ROW(syscall(SYS_renameat2, at, path, 99, "new", 0));
		ROW(syscall(SYS_linkat, at, path, 99, "new", 0));
		ROW(syscall(SYS_symlinkat, path, 99, "new"));
		ROW(syscall(SYS_renameat2, at, component, at, path, 0));
		ROW(syscall(SYS_linkat, at, component, at, path, 0));
		ROW(syscall(SYS_linkat, at, name, at, path, 0));
	}
}

/* What has no name, named by its descriptor alone. */
static void nameless(void)
{
	struct timespec times[2] = {{1, 2}, {3, 4}};
	struct stat stat;
	int ends[2], fds[5], count = sizeof fds / sizeof *fds;
	char body[8];
	ROW(pipe(ends));
	fds[0] = ends[1], fds[1] = socket(AF_UNIX, SOCK_STREAM, 0), fds[2] = memfd_create("memory", 0);
	/* These belong to nobody in particular, who may change them is not asked here. */
	fds[3] = epoll_create1(0), fds[4] = eventfd(0, 0);
	for (int i = 0; i < count; i++) {
		for (int mode = 0; mode <= 8; mode++) {
			for (int flags = 0; flags <= 1; flags++) {
				ROW(syscall(SYS_faccessat2, fds[i], "", mode, AT_EMPTY_PATH | flags));
				ROW(syscall(SYS_faccessat2, fds[i], "", mode, AT_EMPTY_PATH | AT_EACCESS | flags));
			}
			ROW(syscall(SYS_faccessat2, fds[i], "", mode, 0));
			ROW(syscall(SYS_faccessat2, fds[i], "x", mode, AT_EMPTY_PATH));
		}
		ROW(syscall(SYS_readlinkat, fds[i], "", body, sizeof body));
		ROW(syscall(SYS_readlinkat, fds[i], "", body, 0));
		ROW(syscall(SYS_readlinkat, fds[i], "x", body, sizeof body));
		ROW(syscall(SYS_readlinkat, fds[i], NULL, body, sizeof body));
		for (int flags = 0; flags <= 1; flags++) {
			const char *names[] = {"new", "none/new", ".", "/", "attr", "attr/x", "", NULL};
			for (int name = 0; name < 8; name++) {
				ROW(syscall(SYS_linkat, fds[i], "", at, names[name], AT_EMPTY_PATH | flags));
				ROW(syscall(SYS_linkat, fds[i], "", AT_FDCWD, names[name], AT_EMPTY_PATH | AT_SYMLINK_FOLLOW));
			}
			ROW(syscall(SYS_linkat, fds[i], "", 99, "new", AT_EMPTY_PATH | flags));
			ROW(syscall(SYS_linkat, fds[i], "", fds[i], "new", AT_EMPTY_PATH | flags));
			ROW(syscall(SYS_linkat, fds[i], "", at, "new", flags));
			ROW(syscall(SYS_linkat, fds[i], "x", at, "new", AT_EMPTY_PATH));
		}
		if (i >= 3) {
			closed(fds[i]);
			continue;
		}
		for (int flags = 0; flags <= 1; flags++) {
			ROW(syscall(452 /* fchmodat2 */, fds[i], "", 0620, AT_EMPTY_PATH | flags));
			ROW(fchownat(fds[i], "", getuid(), getgid(), AT_EMPTY_PATH | flags));
			ROW(fchownat(fds[i], "", getuid() + 1, -1, AT_EMPTY_PATH | flags));
			ROW(syscall(SYS_utimensat, fds[i], "", times, AT_EMPTY_PATH | flags));
			ROW(syscall(SYS_execveat, fds[i], "", NULL, NULL, AT_EMPTY_PATH | flags));
		}
		ROW(syscall(452, fds[i], "", 0, 0));
		ROW(syscall(452, fds[i], "x", 0, AT_EMPTY_PATH));
		fstat(fds[i], &stat);
		ROW(stat.st_mode & 07777);
		ROW(stat.st_mtime == 3);
		closed(fds[i]);
	}
	closed(ends[0]);
}

static void descriptors(void)
{
	char path[64], text[PATH_MAX] = "";
	int fd = openat(at, "attr", O_RDWR | O_APPEND), other = openat(at, "attr", O_RDONLY), ends[2], queue;
	struct flock lock = {.l_type = F_WRLCK};
	struct stat stat;
	char *map;
	ROW(flock(fd, LOCK_EX));
	ROW(flock(other, LOCK_SH | LOCK_NB));
	ROW(flock(fd, LOCK_UN));
	ROW(flock(other, LOCK_SH | LOCK_NB));
	ROW(fcntl(fd, F_OFD_SETLK, &lock));
	lock.l_type = F_RDLCK;
	ROW(fcntl(other, F_OFD_SETLK, &lock));
	ROW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
	ROW(fcntl(fd, F_GETFD));
	ROW(pwrite(fd, "end", 3, 0));
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ROW(map == MAP_FAILED);
	memcpy(map, "MAP", 3);
	munmap(map, 4096);
	ROW(contents(other));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ROW(contents(open(path, O_RDONLY)));
	ROW(readlink(path, text, sizeof text) > 0 && !strcmp(strrchr(text, '/'), "/attr"));
	ROW(stat_of(path, 0));
	closed(fd);
	ROW(closed(open(path, O_RDONLY)) < 0);
	ROW(pipe(ends));
	ROW(write(ends[1], "piped", 5));
	snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
	ROW(contents(open(path, O_RDONLY)));
	closed(ends[0]), closed(ends[1]);
	fd = openat(at, "copy", O_CREAT | O_RDWR, 0600), other = openat(at, "attr", O_RDONLY);
	ROW(copy_file_range(other, NULL, fd, NULL, 100, 0));
	ROW(fallocate(fd, 0, 0, 100));
	ROW(seen(fstat(fd, &stat), &stat));
	ROW(fsync(fd));
	closed(fd), closed(other);
	ROW(closed(openat(at, "fifo", O_WRONLY | O_NONBLOCK)));
	fflush(stdout);
	if (fork() == 0) {
		fd = openat(at, "fifo", O_WRONLY);
		_exit(write(fd, "through", 7) != 7);
	}
	ROW(contents(openat(at, "fifo", O_RDONLY)));
	wait(NULL);
	/* A path for a call that takes no descriptor of a directory. */
	fd = openat(at, ".", O_RDONLY);
	snprintf(path, sizeof path, "/proc/self/fd/%d/copy", fd);
	queue = inotify_init1(IN_NONBLOCK);
	ROW(inotify_add_watch(queue, path, IN_CLOSE_WRITE | IN_DELETE_SELF));
	ROW(inotify_add_watch(queue, "missing", IN_OPEN));
	closed(openat(at, "copy", O_WRONLY));
	ROW(poll(&(struct pollfd){queue, POLLIN, 0}, 1, 10000));
	ROW(read(queue, text, sizeof text));
	ROW(((struct inotify_event *)text)->mask);
	closed(queue), closed(fd);
	ROW(closed(open("/dev/null", O_RDWR)));
	ROW(closed(open("/dev/tty", O_RDWR)) < 0);
}

static long message(int fd, struct sockaddr_un *to, const char *text, int carried)
{
	char room[CMSG_SPACE(sizeof carried)] = {0};
	struct iovec data[2] = {{(char *)text, 1}, {(char *)text + 1, strlen(text) - 1}};
	struct msghdr head = {.msg_name = to, .msg_namelen = to ? sizeof *to : 0, .msg_iov = data, .msg_iovlen = 2};
	if (carried >= 0) {
		head.msg_control = room, head.msg_controllen = sizeof room;
		struct cmsghdr *control = CMSG_FIRSTHDR(&head);
		control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(sizeof carried);
		memcpy(CMSG_DATA(control), &carried, sizeof carried);
	}
	return sendmsg(fd, &head, MSG_NOSIGNAL);
}

static long received(int fd, int *carried)
{
	char text[64] = {0}, room[CMSG_SPACE(sizeof *carried)] = {0};
	struct iovec data = {text, sizeof text - 1};
	struct msghdr head = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	long answer = recvmsg(fd, &head, MSG_DONTWAIT);
	if (answer >= 0)
		printf("  \"%s\"\n", text);
	if (answer >= 0 && CMSG_FIRSTHDR(&head))
		memcpy(carried, CMSG_DATA(CMSG_FIRSTHDR(&head)), sizeof *carried);
	return answer;
}

/* Two messages of a stream, of which the first does not fit: how many of its bytes are in front of the second. */
static long in_front(void)
{
	enum { LEN = 8 << 20 };
	static char first[LEN], text[1 << 16];
	int ends[2];
	long len, before = 0, sent = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return -1;
	pid_t sender = fork();
	if (sender == 0) {
		while (sent < LEN) {
			poll(&(struct pollfd){ends[0], POLLOUT, 0}, 1, -1);
			struct iovec pieces[] = {{first, LEN - sent}, {"x", 1}};
			struct mmsghdr both[] = {{.msg_hdr = {.msg_iov = pieces, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = pieces + 1, .msg_iovlen = 1}}};
			int count = sendmmsg(ends[0], both, 2, MSG_DONTWAIT);
			if (count < 0 && errno != EAGAIN)
				_exit(1);
			sent += count > 0 ? both[0].msg_len : 0;
		}
		_exit(0);
	}
	close(ends[0]);
	while ((len = read(ends[1], text, sizeof text)) > 0) {
		char *second = memchr(text, 'x', len);
		before += second ? second - text : len;
		if (second)
			break;
	}
	while (read(ends[1], text, sizeof text) > 0)
		;
	close(ends[1]);
	waitpid(sender, NULL, 0);
	return before;
}

static struct sockaddr_un *called(const char *path)
{
	static struct sockaddr_un address;
	address = (struct sockaddr_un){.sun_family = AF_UNIX};
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	return &address;
}

#define BY(path) (struct sockaddr *)called(path), sizeof(struct sockaddr_un)

/* Addresses that are none, and descriptors that have none. */
static void addresses(void)
{
	struct sockaddr_storage longest = {.ss_family = AF_UNIX};
	struct sockaddr *any = (struct sockaddr *)&longest;
	int stream = socket(AF_UNIX, SOCK_STREAM, 0), datagrams = socket(AF_UNIX, SOCK_DGRAM, 0);
	int internet = socket(AF_INET, SOCK_DGRAM, 0), file = openat(at, "attr", O_RDONLY);
	memset((char *)any + 2, 'a', sizeof longest - 2);
	for (int len = 109; len <= 129; len += 1 + 17 * (len == 111)) {
		ROW(connect(stream, any, len));
		ROW(bind(stream, any, len));
		ROW(sendto(datagrams, "x", 1, 0, any, len));
		ROW(unlinkat(AT_FDCWD, any->sa_data, 0));
		closed(stream);
		stream = socket(AF_UNIX, SOCK_STREAM, 0);
	}
	for (int len = 0; len <= 3; len++) {
		ROW(connect(stream, any, len));
		ROW(sendto(datagrams, "x", 1, 0, any, len));
	}
	strcpy(any->sa_data, "of no socket");
	ROW(bind(internet, any, 20));
	ROW(connect(internet, any, 20));
	ROW(sendto(internet, "x", 1, 0, any, 20));
	ROW(bind(file, any, 20));
	ROW(connect(file, any, 20));
	ROW(sendto(file, "x", 1, 0, any, 20));
	ROW(faccessat(AT_FDCWD, "of no socket", F_OK, 0));
	for (int which = 0; which < 3; which++) {
		int fd = (int[]){-1, file, stream}[which];
		ROW(connect(fd, (void *)8, 20));
		ROW(bind(fd, (void *)8, 20));
		ROW(sendto(fd, "x", 1, 0, (void *)8, 20));
		ROW(connect(fd, any, -1));
		ROW(bind(fd, any, -1));
		ROW(sendto(fd, "x", 1, 0, any, -1));
		ROW(getsockname(fd, any, (void *)8));
		ROW(sendmmsg(fd, (void *)8, 0, 0));
		ROW(sendmmsg(fd, (void *)8, 1, 0));
	}
	/* What only the privileged may, and something after it that is not well formed. */
	union { struct cmsghdr head; char room[64]; } control = {.head = {CMSG_LEN(4), SOL_SOCKET, SO_MARK}};
	struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof port;
	struct msghdr marked = {.msg_control = &control, .msg_controllen = sizeof control};
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	ROW(bind(server, (struct sockaddr *)&port, sizeof port));
	ROW(listen(server, 1));
	ROW(getsockname(server, (struct sockaddr *)&port, &size));
	ROW(connect(client, (struct sockaddr *)&port, sizeof port));
	for (long length = 0; length >= -48; length -= 8) {
		*(long *)(control.room + CMSG_SPACE(4)) = length;
		ROW(sendmsg(client, &marked, 0));
	}
	closed(client), closed(server);
	closed(stream), closed(datagrams), closed(internet), closed(file);
}

static void sockets(void)
{
	struct sockaddr_un own;
	struct mmsghdr many[3];
	struct iovec pieces[3] = {{"one", 3}, {"second", 6}, {"3", 1}};
	socklen_t len = sizeof own;
	int here = open(".", O_RDONLY), server, client, got, carried = -1, pair[2], file;
	if (at != AT_FDCWD)
		ROW(fchdir(at));
	server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	ROW(bind(server, BY("socket")));
	ROW(bind(client, BY("socket")));
	ROW(bind(client, BY("missing/socket")));
	ROW(connect(client, BY("socket")));
	ROW(listen(server, 1));
	ROW(connect(client, BY("missing")));
	ROW(connect(client, BY("attr")));
	ROW(connect(client, BY("socket")));
	ROW(connect(client, BY("socket")));
	ROW(getsockname(server, (struct sockaddr *)&own, &len));
	ROW(strcmp(own.sun_path, "socket"));
	ROW(got = accept(server, NULL, NULL));
	ROW(message(client, NULL, "hello", -1));
	ROW(received(got, &carried));
	ROW(message(client, called("socket"), "named", -1));
	file = openat(at, "attr", O_RDONLY);
	ROW(message(client, NULL, "file", file));
	ROW(message(client, NULL, "none", 99));
	ROW(received(got, &carried));
	ROW(carried >= 0);
	ROW(contents(carried));
	closed(file);
	ROW(message(file, NULL, "closed", -1));
	ROW(message(here, NULL, "directory", -1));
	closed(got);
	ROW(message(client, NULL, "unread", -1));
	closed(client), closed(server);
	ROW(stat_of("socket", 0) == 0);
	server = socket(AF_UNIX, SOCK_DGRAM, 0), client = socket(AF_UNIX, SOCK_DGRAM, 0);
	ROW(bind(server, BY("datagrams")));
	ROW(sendto(client, "to", 2, 0, BY("datagrams")));
	ROW(received(server, &carried));
	ROW(message(client, called("datagrams"), "message", -1));
	ROW(received(server, &carried));
	ROW(message(client, called("missing"), "message", -1));
	ROW(message(client, called("attr"), "message", -1));
	ROW(message(client, called("socket"), "message", -1));
	ROW(message(client, NULL, "message", -1));
	ROW(message(client, called("datagrams"), "with", here));
	carried = -1;
	ROW(received(server, &carried));
	ROW(faccessat(carried, "attr", R_OK, 0));
	closed(carried);
	for (int which = 0; which < 3; which++)
		many[which] = (struct mmsghdr){.msg_hdr = {.msg_name = called("datagrams"), .msg_namelen = sizeof own, .msg_iov = pieces + which, .msg_iovlen = 1}};
	ROW(sendmmsg(client, many, 3, 0));
	ROW(many[0].msg_len + many[1].msg_len + many[2].msg_len);
	ROW(in_front());
	ROW(received(server, &carried));
	ROW(received(server, &carried));
	ROW(received(server, &carried));
	ROW(connect(client, BY("datagrams")));
	ROW(message(client, NULL, "connected", -1));
	ROW(received(server, &carried));
	closed(server);
	ROW(message(client, NULL, "unread", -1));
	ROW(unlinkat(at, "datagrams", 0));
	ROW(message(client, called("datagrams"), "gone", -1));
	closed(client);
	ROW(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	ROW(message(pair[0], called("ignored"), "packet", -1));
	ROW(received(pair[1], &carried));
	ROW(sendmsg(pair[0], (void *)8, 0));
	closed(pair[0]), closed(pair[1]);
	addresses();
	if (at != AT_FDCWD)
		ROW(fchdir(here));
	closed(here);
}

/* What is for the privileged. */
static void privileged(void)
{
	ROW(setuid(0));
	ROW(setgid(0));
	ROW(setresuid(-1, -1, 0));
	ROW(setuid(getuid()));
	ROW(chroot("."));
	ROW(mount("none", ".", "tmpfs", 0, NULL));
	ROW(umount2("/proc", MNT_DETACH));
	ROW(syscall(SYS_pivot_root, ".", "."));
	ROW(acct("attr"));
	ROW(syscall(SYS_swapon, "attr", 0));
	ROW(syscall(470));
}

static void all(void)
{
	opens();
	stats();
	names();
	attributes();
	directories();
	programs();
	nowhere();
	no_directory();
	nameless();
	descriptors();
	sockets();
	privileged();
}

static void *in_thread(void *unused)
{
	all();
	return unused;
}

/* Sends a descriptor through a socket to this process itself, and closes it meanwhile. */
static int passed(int fd)
{
	int pair[2], carried = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || message(pair[0], NULL, "directory", fd) < 0)
		exit(3);
	close(fd);
	if (received(pair[1], &carried) < 0)
		exit(4);
	close(pair[0]), close(pair[1]);
	return carried;
}

int main(int count, char **args)
{
	const char *way = count > 1 ? args[1] : "";
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	if (!strcmp(way, "child")) {
		/* By a script's path, which has a descriptor's number in it, it is told by its last part. */
		printf("  %s", args[0][0] == '/' ? "by path" : args[0]);
		for (int arg = 1; arg < count; arg++)
			printf(" %s", strrchr(args[arg], '/') ? strrchr(args[arg], '/') : args[arg]);
		printf(" %s\n", getenv("GIVEN"));
		return 7;
	}
	if (len < 0)
		return 5;
	umask(022);
	if (strcmp(way, "relative") && strcmp(way, "thread")) {
		if (mkdir("directory", 0755))
			return 6;
		at = open("directory", O_RDONLY | O_DIRECTORY);
	}
	if (!strcmp(way, "passed"))
		at = passed(at);
	if (!strcmp(way, "thread")) {
		pthread_t thread;
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	} else {
		all();
	}
	return 0;
}
