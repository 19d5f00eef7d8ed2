/* A descriptor that comes from outside, and what can be done with it.
 *
 *   handed_in send PATH PROGRAM…     sends a descriptor of PATH into a socket, and runs the program with the other end
 *   handed_in inherit PATH PROGRAM…  runs the program with a descriptor of PATH, opened with O_PATH
 *   handed_in receive | inherited    what the program does
 *   handed_in races                  the same with the number of another directory, for a moment; and with one that the tree gave
 */
#include "attack.h"
#include <pthread.h>
#include <sys/resource.h>

enum { SOCKET = 8, INHERITED = 9 };

static int outside(const char *path)
{
	return open(path, O_PATH);
}

static void send_it(const char *path)
{
	int ends[2], fd = open(path, O_RDONLY);
	char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || sendmsg(ends[0], &message, 0) != 1)
		exit(3);
	dup2(ends[1], SOCKET);
	close(fd);
}

static int receive(void)
{
	int fd = -1;
	char byte, room[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	if (recvmsg(SOCKET, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == NULL)
		exit(4);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

/* Each try says what its errno was, or that it reached something. */
static void use_directory(int fd)
{
	char text[4096], self[64];
	struct stat stat;
	int again;
	said("openat", name(openat(fd, "secret", O_RDONLY)));
	said("openat dot", name(openat(fd, ".", O_RDONLY | O_DIRECTORY)));
	said("openat dotdot", name(openat(fd, "..", O_PATH)));
	said("openat create", name(openat(fd, "made", O_CREAT | O_WRONLY, 0600)));
	said("fstatat", name(fstatat(fd, "secret", &stat, 0)));
	said("faccessat", name(faccessat(fd, "secret", F_OK, 0)));
	said("readlinkat", name(readlinkat(fd, "link", text, sizeof text)));
	said("getdents64", name(syscall(SYS_getdents64, fd, text, sizeof text)));
	said("mkdirat", name(mkdirat(fd, "made.d", 0700)));
	said("symlinkat", name(symlinkat("/", fd, "made.l")));
	said("linkat from", name(linkat(fd, "secret", AT_FDCWD, "stolen", 0)));
	said("linkat to", name(linkat(AT_FDCWD, "attack", fd, "given", 0)));
	said("renameat", name(renameat(fd, "victim", AT_FDCWD, "stolen.v")));
	said("unlinkat", name(unlinkat(fd, "victim", 0)));
	said("fchmodat", name(fchmodat(fd, "victim2", 0600, 0)));
	said("fchmod", name(fchmod(fd, 0750)));
	said("fchown", name(fchown(fd, getuid(), getgid())));
	said("futimens", name(futimens(fd, NULL)));
	said("execveat", name(syscall(SYS_execveat, fd, "program", (char *[]){"program", NULL}, NULL, 0)));
	said("fchdir", name(fchdir(fd)));
	said("then", name(open("secret", O_RDONLY)));
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	said("proc open", name(open(self, O_RDONLY | O_DIRECTORY)));
	said("proc chdir", name(chdir(self)));
	snprintf(text, sizeof text, "%s/secret", self);
	said("proc below", name(open(text, O_RDONLY)));
	snprintf(text, sizeof text, "/dev/fd/%d/../secret", fd);
	said("dev below", name(open(text, O_RDONLY)));
	again = dup(fd);
	said("dup", name(openat(again, "secret", O_RDONLY)));
}

/* A file that is handed in is the program's to read, and no way to another. */
static void use_file(int fd)
{
	char self[64];
	said("read", is_secret(fd) ? "REACHED" : "nothing");
	said("openat", name(openat(fd, "secret", O_RDONLY)));
	said("fchdir", name(fchdir(fd)));
	said("linkat", name(linkat(fd, "", AT_FDCWD, "stolen", AT_EMPTY_PATH)));
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	said("linkat proc", name(linkat(AT_FDCWD, self, AT_FDCWD, "stolen", AT_SYMLINK_FOLLOW)));
	said("proc write", name(open(self, O_WRONLY)));
	said("execveat", name(syscall(SYS_execveat, fd, "", (char *[]){"program", NULL}, NULL, AT_EMPTY_PATH)));
	said("execve", name(execve(self, (char *[]){"program", NULL}, NULL)));
}

/* Whoever opened it may not have been one who reads it. */
static void use_place(int fd)
{
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	said("proc open", name(open(self, O_RDONLY)));
	said("execve", name(execve(self, (char *[]){"program", NULL}, NULL)));
}

/* The tree's own directory and the host's, under one number by turns. */
static int theirs, own, swapped;

static void *swaps(void *unused)
{
	for (;;) {
		dup2(theirs, swapped);
		dup2(own, swapped);
	}
	return unused;
}

static int stands_elsewhere(void)
{
	char text[4096];
	return !getcwd(text, sizeof text) && errno == EACCES;
}

static void races_fchdir(void)
{
	pthread_t thread;
	own = open("/usr", O_RDONLY | O_DIRECTORY);
	swapped = dup(own);
	pthread_create(&thread, NULL, swaps, NULL);
	for (int round = 0; round < 1000; round++)
		if (!fchdir(swapped) && stands_elsewhere())
			_exit(77);
}

/* Who shares the current directory with who makes the call, and its descriptors too. */
static volatile int begun;
static char stack[1 << 16];

static int changes(void *unused)
{
	(void)unused;
	while (!begun)
		;
	chdir("/usr");
	return 0;
}

static void races_chdir(void)
{
	int next = dup(0), status;
	close(next);
	for (int round = 0; round < 300; round++) {
		begun = 0;
		pid_t child = clone(changes, stack + sizeof stack, CLONE_FS | CLONE_FILES | CLONE_VM | SIGCHLD, NULL);
		begun = 1;
		while (fcntl(next, F_GETFD) < 0 && child > 0)
			if (waitpid(child, &status, WNOHANG) == child)
				child = 0;
		if (child > 0) {
			dup2(theirs, next);
			waitpid(child, &status, 0);
		}
		close(next);
		if (stands_elsewhere())
			_exit(77);
		chdir("/");
	}
}

/* Nobody leaves a core, wherever he stands: the limit is 0, and nobody raises it. */
static void cores(void)
{
	struct rlimit64 unlimited = {RLIM64_INFINITY, RLIM64_INFINITY}, none = {0, 0}, now = {1, 1};
	int status, dumped, failed[3], piped = 0;
	FILE *pattern = fopen("/proc/sys/kernel/core_pattern", "r");
	if (pattern) {
		int first = fgetc(pattern);
		piped = first == '|' || first == '@';
		fclose(pattern);
	}
	failed[0] = syscall(SYS_setrlimit, RLIMIT_CORE, &unlimited) ? errno : 0;
	failed[1] = syscall(SYS_prlimit64, 0, RLIMIT_CORE, &unlimited, NULL) ? errno : 0;
	failed[2] = syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &none, &now) ? errno : 0;
	printf("limit %d-%d-%d-%d-%d\n", failed[0], failed[1], failed[2], (int)now.rlim_cur, (int)now.rlim_max);
	pid_t child = fork();
	if (child == 0)
		abort();
	waitpid(child, &status, 0);
	/* What the host pipes to a program is written nowhere here. */
	dumped = WIFSIGNALED(status) && WCOREDUMP(status) && !piped;
	said("core", dumped ? "REACHED" : "never");
}

static void races(const char *what, void (*race)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		race();
		_exit(0);
	}
	waitpid(child, &status, 0);
	said(what, WIFEXITED(status) && WEXITSTATUS(status) == 77 ? "REACHED" : "never");
}

int main(int count, char **args)
{
	const char *what = count > 1 ? args[1] : "";
	if (!strcmp(what, "send")) {
		send_it(args[2]);
		execvp(args[3], args + 3);
	} else if (!strcmp(what, "inherit")) {
		dup2(outside(args[2]), INHERITED);
		execvp(args[3], args + 3);
	} else if (!strcmp(what, "receive")) {
		struct stat stat;
		int fd = receive();
		fstat(fd, &stat);
		if (S_ISDIR(stat.st_mode))
			use_directory(fd);
		else
			use_file(fd);
		return 0;
	} else if (!strcmp(what, "races")) {
		theirs = receive();
		races("fchdir", races_fchdir);
		cores();
		races("chdir", races_chdir);
		theirs = open("/usr/bin", O_RDONLY | O_DIRECTORY);
		races("fchdir given", races_fchdir);
		races("chdir given", races_chdir);
		return 0;
	} else if (!strcmp(what, "inherited")) {
		struct stat stat;
		if (!fstat(INHERITED, &stat) && S_ISREG(stat.st_mode))
			use_place(INHERITED);
		else
			use_directory(INHERITED);
		return 0;
	}
	return 2;
}
