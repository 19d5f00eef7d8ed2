/* Tries to reach what it was not given. Each try is a word; what came of it is one line. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name(long answer)
{
	return answer >= 0 ? "REACHED" : strerrorname_np(errno);
}

/* Whether an open file is the secret. */
static int is_secret(int fd)
{
	char text[64] = {0};
	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return 0;
	return strstr(text, "secret") != NULL;
}

static char path[4096];
static const char *mine, *theirs;
static volatile int ends;

static void *rewrites(void *unused)
{
	(void)unused;
	while (!ends) {
		strcpy(path, theirs);
		strcpy(path, mine);
	}
	return NULL;
}

/* Calls with a path that another thread changes all the time. */
static void rewritten(const char *what, const char *outside)
{
	pthread_t thread;
	int reached = 0;
	theirs = outside;
	mine = strcmp(what, "open") ? "/usr" : "/proc/self/comm";
	if (!strcmp(what, "exec"))
		mine = "/bin/true";
	strcpy(path, mine);
	pthread_create(&thread, NULL, rewrites, NULL);
	for (int round = 0; round < 300; round++) {
		if (!strcmp(what, "open")) {
			int fd = open(path, O_RDONLY);
			reached |= is_secret(fd);
			close(fd);
		} else if (!strcmp(what, "chdir")) {
			/* The directory on the host has a file that the tree's has not. */
			if (chdir(path) == 0)
				reached |= access("secret", F_OK) == 0;
		} else if (round < 40) {
			int status;
			pid_t child = fork();
			if (child == 0) {
				pthread_t again;
				pthread_create(&again, NULL, rewrites, NULL);
				execl(path, "program", NULL);
				_exit(0);
			}
			waitpid(child, &status, 0);
			reached |= WIFEXITED(status) && WEXITSTATUS(status) == 77;
		}
	}
	ends = 1;
	pthread_join(thread, NULL);
	printf("%s\n", reached ? "REACHED" : "never");
}

int main(int count, char **args)
{
	const char *what = count > 1 ? args[1] : "";
	const char *given = count > 2 ? args[2] : "";
	char text[4096];
	if (!strcmp(what, "rewritten")) {
		rewritten(given, args[3]);
	} else if (!strcmp(what, "open")) {
		puts(name(open(given, O_RDONLY)));
	} else if (!strcmp(what, "openat2")) {
		for (unsigned bits = 0; bits < 64; bits++) {
			struct open_how how = {.flags = O_RDONLY, .resolve = bits};
			for (int from = 0; from < 2; from++) {
				int dir = from ? open("/", O_PATH) : AT_FDCWD;
				int fd = syscall(SYS_openat2, dir, given + from, &how, sizeof how);
				if (is_secret(fd))
					puts("REACHED");
			}
		}
		puts("never");
	} else if (!strcmp(what, "often")) {
		int reached = 0, opened = 0;
		for (int round = 0; round < 20000; round++) {
			int fd = open(given, O_RDONLY);
			opened += fd >= 0;
			reached |= is_secret(fd);
			close(fd);
		}
		printf("%s %s\n", reached ? "REACHED" : "never", opened ? "opened" : "not opened");
	} else if (!strcmp(what, "directory")) {
		puts(name(openat(atoi(given), args[3], O_RDONLY)));
	} else if (!strcmp(what, "calls")) {
		char own[64], other[8] = "";
		struct iovec to = {other, sizeof other}, from = {(void *)0x400000, sizeof other};
		printf("io_uring_setup %s\n", name(syscall(425, 8, text)));
		printf("open_by_handle_at %s\n", name(syscall(SYS_open_by_handle_at, AT_FDCWD, text, 0)));
		printf("mount %s\n", name(mount("none", "/tmp", "tmpfs", 0, NULL)));
		printf("umount2 %s\n", name(umount2("/proc", MNT_DETACH)));
		printf("open_tree %s\n", name(syscall(428, AT_FDCWD, "/", 1)));
		printf("fsopen %s\n", name(syscall(430, "tmpfs", 0)));
		printf("pivot_root %s\n", name(syscall(SYS_pivot_root, "/", "/")));
		printf("chroot %s\n", name(chroot("/tmp")));
		printf("unshare %s\n", name(unshare(CLONE_NEWUSER | CLONE_NEWNS)));
		printf("unknown %s\n", name(syscall(470)));
		printf("x32 %s\n", name(syscall(0x40000000 | SYS_open, given, O_RDONLY)));
		printf("ptrace %s\n", name(ptrace(PTRACE_SEIZE, getppid(), 0, 0)));
		printf("process_vm_readv %s\n", name(process_vm_readv(getppid(), &to, 1, &from, 1, 0)));
		printf("pidfd_getfd %s\n", name(syscall(438, syscall(434, getppid(), 0), 3, 0)));
		snprintf(own, sizeof own, "/proc/%d/mem", getppid());
		printf("mem %s\n", name(open(own, O_RDWR)));
		snprintf(own, sizeof own, "/proc/%d/root%s", getppid(), given);
		printf("root of the supervisor %s\n", name(open(own, O_RDONLY)));
		snprintf(text, sizeof text, "/proc/self/root%s", given);
		printf("own root %s\n", name(open(text, O_RDONLY)));
		snprintf(text, sizeof text, "/proc/self/cwd/../../../../../../../..%s", given);
		printf("own cwd %s\n", name(open(text, O_RDONLY)));
		printf("machine %s\n", name(open("/proc/version", O_WRONLY)));
		printf("dumpable %s\n", prctl(PR_SET_DUMPABLE, 0) ? "refused" : name(access("/", F_OK)));
	} else if (!strcmp(what, "i386")) {
		long answer;
		/* open, by the number that it has there; the path lies below 4 GiB in a program of fixed addresses */
		static char low[256];
		strncpy(low, given, sizeof low - 1);
		__asm__ volatile("int $0x80" : "=a"(answer) : "a"(5), "b"(low), "c"(0) : "memory");
		errno = -answer;
		puts(name(answer < 0 ? -1 : answer));
	} else if (!strcmp(what, "descriptors")) {
		int opened = 0;
		while (open("/etc/passwd", O_RDONLY) >= 0)
			opened++;
		printf("%d %s\n", opened, strerrorname_np(errno));
	}
	return 0;
}
