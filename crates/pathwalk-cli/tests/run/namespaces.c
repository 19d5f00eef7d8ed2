/* Mount namespaces of one's own, one row each. It is run in an empty directory by root, with and without the tree, and says the
 * same; it begins with a namespace in which nothing is shared. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[PATH_MAX];

static void row(const char *what, long answer)
{
	if (answer >= 0)
		printf("%s: %ld\n", what, answer);
	else
		printf("%s: %s\n", what, strerrorname_np(errno));
	fflush(stdout);
}

#define ROW(call) (errno = 0, row(#call, (long)(call)))

/* How many mounts a process sees at or below here. */
static long mounts(const char *process)
{
	char path[64], line[4096], at[PATH_MAX];
	long count = 0;
	sprintf(path, "/proc/%s/mountinfo", process);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		count += sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 && !strncmp(at, top, strlen(top)) && at[strlen(top)] == '/';
	if (!file)
		return -1;
	fclose(file);
	return count;
}

static long mounts_of(pid_t process)
{
	char name[32];
	sprintf(name, "%d", process);
	return mounts(name);
}

static long tmpfs(const char *at)
{
	return mount("none", at, "tmpfs", 0, NULL);
}

/* Where one stands, seen from here. */
static long stands(const char *where)
{
	char path[PATH_MAX], want[2 * PATH_MAX], link[PATH_MAX] = "";
	snprintf(want, sizeof want, "%s%s", top, where);
	if (!getcwd(path, sizeof path) || readlink("/proc/self/cwd", link, sizeof link - 1) < 0)
		return -1;
	return !strcmp(path, want) && !strcmp(link, want);
}

static long makes(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0644);
	return fd < 0 ? -1 : close(fd);
}

/* A child as clone makes it, with its parent's stack; it goes on when it is told to. */
static pid_t child(int flags)
{
	return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static long waited(pid_t child)
{
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

static int ends[2];

static void *in_thread(void *unused)
{
	(void)unused;
	ROW(unshare(CLONE_NEWNS | CLONE_THREAD));
	ROW(unshare(CLONE_NEWNS | CLONE_VM));
	ROW(unshare(CLONE_NEWNS));
	ROW(chdir("a"));
	ROW(stands("/a"));
	ROW(tmpfs("."));
	ROW(makes("../a/of-thread"));
	return NULL;
}

static void of_threads(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	ROW(stands(""));
	ROW(access("a/of-thread", F_OK));
	ROW(mounts("self"));
}

static void of_children(void)
{
	char byte;
	int back[2];
	ROW(child(CLONE_NEWNS | CLONE_FS));
	ROW(child(CLONE_NEWNS | CLONE_THREAD));
	ROW(child(CLONE_NEWNS | CLONE_SIGHAND));
	ROW(pipe(ends) | pipe(back));
	ROW(chdir("b"));
	pid_t made = child(CLONE_NEWNS);
	if (made == 0) {
		ROW(stands("/b"));
		ROW(chdir(".."));
		ROW(stands(""));
		ROW(tmpfs("b"));
		ROW(makes("b/of-child"));
		ROW(mounts("self"));
		ROW(chdir("b"));
		ROW(umount2(".", 0));
		ROW(access("of-child", F_OK));
		/* A child's child is in it, too. */
		pid_t below = fork();
		if (below == 0) {
			ROW(stands("/b"));
			ROW(access("of-child", F_OK));
			_exit(0);
		}
		ROW(waited(below));
		if (write(back[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1)
			_exit(1);
		execl("/bin/sh", "sh", "-c", "test -e of-child && exec test \"$(cd ..; echo b/*)\" = b/of-child", NULL);
		_exit(2);
	}
	ROW(read(back[0], &byte, 1));
	ROW(stands("/b"));
	ROW(access("of-child", F_OK));
	ROW(mounts("self"));
	ROW(mounts_of(made));
	ROW(write(ends[1], "x", 1));
	ROW(waited(made));
	ROW(chdir(".."));
	/* Its first call. */
	made = child(CLONE_NEWNS);
	if (made == 0) {
		execl("/bin/sh", "sh", "-c", "pwd | grep -c .", NULL);
		_exit(2);
	}
	ROW(waited(made));
	/* What it stands in is in use, in its namespace. */
	ROW(tmpfs("c"));
	ROW(chdir("c"));
	made = child(CLONE_NEWNS);
	if (made == 0) {
		int dir = open(".", O_RDONLY);
		ROW(umount2(".", 0));
		ROW(umount2(".", MNT_DETACH));
		ROW(makes("left"));
		ROW(fchdir(dir));
		ROW(makes("left2"));
		_exit(0);
	}
	ROW(waited(made));
	ROW(access("left", F_OK) | access("left2", F_OK));
	ROW(chdir(".."));
	ROW(umount("c"));
	close(ends[0]), close(ends[1]), close(back[0]), close(back[1]);
}

/* What was open before is what it was. */
static void of_descriptors(void)
{
	ROW(tmpfs("d"));
	ROW(makes("d/before"));
	int dir = open("d", O_RDONLY | O_DIRECTORY);
	pid_t made = fork();
	if (made == 0) {
		ROW(unshare(CLONE_NEWNS | CLONE_FILES | CLONE_FS | CLONE_SYSVSEM));
		ROW(umount("d"));
		ROW(access("d/before", F_OK));
		ROW(faccessat(dir, "before", F_OK, 0));
		ROW(fchdir(dir));
		ROW(access("before", F_OK));
		ROW(makes("after"));
		_exit(0);
	}
	ROW(waited(made));
	ROW(access("d/after", F_OK));
	close(dir);
	ROW(umount("d"));
}

static void errors(const char *who)
{
	printf("%s\n", who);
	ROW(unshare(CLONE_NEWNS | 1));
	ROW(unshare(CLONE_NEWNS | CLONE_VFORK));
	ROW(unshare(CLONE_NEWNS | CLONE_PARENT));
	ROW(syscall(SYS_unshare, 1ul << 32 | CLONE_NEWNS));
	ROW(unshare(CLONE_FS));
	ROW(unshare(0));
	ROW(unshare(1));
	ROW(unshare(CLONE_VFORK));
}

static void as_another(void)
{
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		puts("still root");
	ROW(unshare(CLONE_NEWNS));
	ROW(child(CLONE_NEWNS));
	ROW(child(CLONE_NEWNS | CLONE_FS));
	errors("another");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!getcwd(top, sizeof top))
		return 1;
	umask(022);
	for (const char *name = "abcde"; *name; name++)
		if (mkdir((char[2]){*name}, 0755))
			return 1;
	ROW(unshare(CLONE_NEWNS));
	ROW(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ROW(stands(""));
	ROW(mounts("self"));
	ROW(tmpfs("e"));
	ROW(mounts("self"));
	ROW(unshare(CLONE_NEWNS | CLONE_THREAD));
	ROW(mounts("self"));
	ROW(umount("e"));
	ROW(mounts("self"));
	of_threads();
	of_children();
	of_descriptors();
	errors("root");
	if (fork() == 0) {
		as_another();
		return 0;
	}
	wait(NULL);
	return 0;
}
