/* Does what its arguments say, one after the other, and says a line about each: what came of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char **word;

static void said(const char *what, long answer)
{
	printf("%s %s\n", what, answer >= 0 ? "yes" : strerrorname_np(errno));
}

/* A line is an empty word. */
static char *next(void)
{
	char *now = *word ? *word++ : "";
	return strcmp(now, "-") ? now : "";
}

static int number(void)
{
	return strtol(next(), NULL, 0);
}

static void ids(void)
{
	uid_t u[3];
	gid_t g[3], groups[16];
	getresuid(&u[0], &u[1], &u[2]);
	getresgid(&g[0], &g[1], &g[2]);
	int count = getgroups(16, groups);
	printf("%d %d %d, %d %d %d,", u[0], u[1], u[2], g[0], g[1], g[2]);
	for (int i = 0; i < count; i++)
		printf(" %d", groups[i]);
	printf("%s\n", u[0] == getuid() && u[1] == geteuid() && g[0] == getgid() && g[1] == getegid() ? "" : " WRONG");
}

static void capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	syscall(SYS_capget, &header, data);
	printf("effective %x%08x permitted %x%08x\n", data[1].effective, data[0].effective, data[1].permitted,
	       data[0].permitted);
}

static void about(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		said("stat", -1);
	else
		printf("%d:%d %o %u:%u\n", st.st_uid, st.st_gid, st.st_mode, major(st.st_rdev), minor(st.st_rdev));
}

static int inherited[2];

static void go(void);

/* Users of one program make orphans at once; says how many there were, and how many were somebody else or nobody. */
static void orphans(int users, int each, int killed)
{
	int done[2], start[2];
	char one;
	unsigned *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED || pipe(done) < 0 || pipe(start) < 0)
		exit(1);
	for (int user = 100; user < 100 + users; user++) {
		if (fork())
			continue;
		close(start[1]);
		if (syscall(SYS_setresuid, user, user, user) < 0 || read(start[0], &one, 1) < 0)
			exit(1);
		for (int i = 0; i < each; i++) {
			int gone[2];
			if (pipe(gone) < 0)
				exit(1);
			pid_t maker = fork();
			if (maker) {
				close(gone[0]);
				close(gone[1]);
				waitpid(maker, NULL, 0);
				continue;
			}
			if (fork()) {
				if (killed)
					kill(getpid(), SIGKILL);
				syscall(SYS_exit_group, 0);
			}
			close(gone[1]);
			uid_t u[3];
			if (read(gone[0], &one, 1) < 0)
				exit(1);
			int as = syscall(SYS_getresuid, &u[0], &u[1], &u[2]);
			int refused = as < 0 && errno == EPERM && open("/", O_RDONLY) < 0 && errno == EPERM;
			if (!refused && (as < 0 || u[0] != user || u[1] != user || u[2] != user))
				__sync_fetch_and_add(&seen[1], 1);
			__sync_fetch_and_add(&seen[2], refused);
			__sync_fetch_and_add(&seen[0], 1);
			syscall(SYS_exit_group, 0);
		}
		syscall(SYS_exit_group, 0);
	}
	close(start[1]);
	close(done[1]);
	if (read(done[0], &one, 1) < 0)
		exit(1);
	while (wait(NULL) > 0)
		;
	printf("%u orphans, %u as another, %u refused\n", seen[0], seen[1], seen[2]);
}

static void *in_thread(void *unused)
{
	(void)unused;
	go();
	return NULL;
}

static int told[2];
static volatile int made;

/* Makes a child that says who it is when it is told to, and waits. */
static void *makes(void *unused)
{
	char one;
	pid_t child = syscall(SYS_fork);
	if (child == 0) {
		uid_t u[3];
		close(told[1]);
		if (read(told[0], &one, 1) < 0 || syscall(SYS_getresuid, &u[0], &u[1], &u[2]) < 0)
			syscall(SYS_exit_group, 1);
		dprintf(1, "child %d %d %d\n", u[0], u[1], u[2]);
		syscall(SYS_exit_group, 0);
	}
	made = 1;
	for (;;)
		pause();
	return unused;
}

/* A filter that allows all. */
static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog filter = {1, all};

static void *filters_all(void *unused)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
	return unused;
}

/* Asks about a program that runs. */
static void into(char *program)
{
	struct rlimit limit = {1000, 1000}, old;
	void *head;
	size_t len;
	char line[64];
	int out[2];
	if (pipe(out) < 0)
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		execl(program, program, "ids", "wait", NULL);
		exit(1);
	}
	if (read(out[0], line, sizeof line) <= 0)
		exit(1);
	said("its limit", prlimit(child, RLIMIT_NOFILE, NULL, &old));
	said("limit", prlimit(child, RLIMIT_NOFILE, &limit, &old));
	said("own limit", prlimit(getpid(), RLIMIT_CORE, NULL, &old));
	said("robust", syscall(SYS_get_robust_list, child, &head, &len));
	said("nobody", prlimit(1, RLIMIT_NOFILE, NULL, &old));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* What a directory has that may be entered and not be listed, by the descriptor by which it is entered. */
static volatile int grabbed = -1, entered;

static void *grabs(void *number)
{
	while (!entered && grabbed < 0)
		grabbed = fcntl((int)(long)number, F_DUPFD, 100);
	return NULL;
}

static void lists(const char *dir)
{
	char text[1000];
	long number = dup(0);
	close(number);
	for (int round = 0; round < 2000 && grabbed < 0; round++) {
		pthread_t thread;
		entered = 0;
		pthread_create(&thread, NULL, grabs, (void *)number);
		usleep(1000);
		if (chdir(dir))
			exit(1);
		entered = 1;
		pthread_join(thread, NULL);
		if (chdir("/"))
			exit(1);
	}
	said(grabbed < 0 ? "not grabbed" : "lists", syscall(SYS_getdents64, grabbed, text, sizeof text));
}

/* Runs this program, copied to memory that is given set-id bits, by a link that has no place. */
static void memory(void)
{
	char link[64], bytes[4096];
	long read_;
	int own = open("/proc/self/exe", O_RDONLY), memory = memfd_create("memory", 0);
	while ((read_ = read(own, bytes, sizeof bytes)) > 0)
		if (write(memory, bytes, read_) != read_)
			exit(1);
	said("fchown", fchown(memory, 34, 0));
	said("fchmod", fchmod(memory, 06755));
	fflush(stdout);
	snprintf(link, sizeof link, "/proc/self/fd/%d", memory);
	int runs = open(link, O_RDONLY);
	close(memory);
	snprintf(link, sizeof link, "/proc/self/fd/%d", runs);
	execv(link, word);
	said("memory", -1);
}

/* A call of another thread's, of which the instruction is exchanged by one that waits until that is exchanged too. */
static unsigned char *code;
static volatile int calls;
static char *filtered[] = {"filtered", "filtered", NULL}, *none[] = {NULL};
static struct sock_filter refuses[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog refusing = {4, refuses};

static void *runs_late(void *path)
{
	long (*call)(long, const char *, char **, char **) = (void *)code;
	calls = 1;
	call(SYS_execve, path, filtered, none);
	exit(1);
}

/* Puts a filter on a thread that is about to run a program; whether that has the program's user and the filter. */
static void late(char *path)
{
	/* mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx; syscall; ret */
	static const unsigned char text[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89,
					     0xd6, 0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3};
	int reached = 0, status;
	for (int round = 0; round < 60; round++) {
		pid_t child = fork();
		if (child == 0) {
			pthread_t thread;
			struct timespec begin, now;
			code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			volatile unsigned short *instruction = (void *)(code + 12);
			memcpy(code, text, sizeof text);
			pthread_create(&thread, NULL, runs_late, path);
			while (!calls)
				;
			clock_gettime(CLOCK_MONOTONIC, &begin);
			do
				clock_gettime(CLOCK_MONOTONIC, &now);
			while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < round * round / 4);
			*instruction = 0xfeeb;
			usleep(20000);
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &refusing);
			*instruction = 0x050f;
			for (;;)
				pause();
		}
		waitpid(child, &status, 0);
		reached |= WIFEXITED(status) && WEXITSTATUS(status) == 77;
	}
	printf("%s\n", reached ? "REACHED" : "never");
}

static void go(void)
{
	char cwd[4096];
	while (*word) {
		const char *what = next();
		fflush(stdout);
		if (!strcmp(what, "ids"))
			ids();
		else if (!strcmp(what, "caps"))
			capabilities();
		else if (!strcmp(what, "setuid"))
			said(what, setuid(number()));
		else if (!strcmp(what, "seteuid"))
			said(what, seteuid(number()));
		else if (!strcmp(what, "setgid"))
			said(what, setgid(number()));
		else if (!strcmp(what, "setgroup")) {
			gid_t group = number();
			said(what, setgroups(1, &group));
		} else if (!strcmp(what, "setfsuid"))
			printf("%s %ld\n", what, syscall(SYS_setfsuid, number()));
		else if (!strcmp(what, "alone")) /* of this thread */
			said(what, syscall(SYS_setresuid, -1, number(), -1));
		else if (!strcmp(what, "open"))
			said(what, open(next(), O_RDONLY));
		else if (!strcmp(what, "make"))
			said(what, open(next(), O_CREAT | O_WRONLY, 0644));
		else if (!strcmp(what, "stat"))
			about(next());
		else if (!strcmp(what, "chown")) {
			char *path = next();
			int user = number();
			said(what, chown(path, user, number()));
		} else if (!strcmp(what, "chmod")) {
			char *path = next();
			said(what, chmod(path, number()));
		} else if (!strcmp(what, "mknod"))
			said(what, mknod(next(), S_IFCHR | 0600, makedev(1, 3)));
		else if (!strcmp(what, "mount")) {
			char *source = next(), *target = next(), *type = next();
			int flags = number();
			said(what, mount(source, target, *type ? type : NULL, flags, next()));
		} else if (!strcmp(what, "umount")) {
			char *path = next();
			said(what, umount2(path, number()));
		} else if (!strcmp(what, "pivot")) {
			char *root = next();
			said(what, syscall(SYS_pivot_root, root, next()));
		} else if (!strcmp(what, "chroot"))
			said(what, chroot(next()));
		else if (!strcmp(what, "chdir"))
			said(what, chdir(next()));
		else if (!strcmp(what, "cwd"))
			printf("%s\n", syscall(SYS_getcwd, cwd, sizeof cwd) > 0 ? cwd : strerrorname_np(errno));
		else if (!strcmp(what, "newprivs")) {
			printf("%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
			said(what, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		} else if (!strcmp(what, "filter")) {
			said(what, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
			said("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
		} else if (!strcmp(what, "tsync")) {
			pthread_t thread;
			pthread_create(&thread, NULL, filters_all, NULL);
			pthread_join(thread, NULL);
			printf("%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
		} else if (!strcmp(what, "into"))
			into(next());
		else if (!strcmp(what, "lists"))
			lists(next());
		else if (!strcmp(what, "wait"))
			pause();
		else if (!strcmp(what, "memory"))
			memory();
		else if (!strcmp(what, "late"))
			late(next());
		else if (!strcmp(what, "filtered"))
			exit(geteuid() == 0 && syscall(SYS_getppid) < 0 ? 77 : 0);
		else if (!strcmp(what, "secure"))
			printf("secure %lu as %lu %lu\n", getauxval(AT_SECURE), getauxval(AT_UID), getauxval(AT_EUID));
		else if (!strcmp(what, "fork")) { /* the rest is the child's */
			pid_t child = fork();
			if (child) {
				waitpid(child, NULL, 0);
				return;
			}
		} else if (!strcmp(what, "shares")) { /* the rest is a child's with the same current directory */
			pid_t child = syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
			if (child) {
				waitpid(child, NULL, 0);
				return;
			}
		} else if (!strcmp(what, "change")) { /* who the child's maker is does not stay who it was */
			int go[2];
			char one;
			if (pipe(go) < 0)
				exit(1);
			pid_t child = fork();
			if (child) {
				int user = number();
				if (syscall(SYS_setresuid, user, user, user) < 0)
					exit(1);
				close(go[1]);
				waitpid(child, NULL, 0);
				return;
			}
			close(go[1]);
			if (read(go[0], &one, 1) < 0)
				exit(1);
			next();
		} else if (!strcmp(what, "orphan")) { /* whose makers are gone before it calls */
			int gone[2];
			char one;
			if (pipe(inherited) < 0 || pipe(gone) < 0)
				exit(1);
			if (fork()) {
				close(inherited[1]);
				close(gone[1]);
				if (read(inherited[0], &one, 1) < 0)
					exit(1);
				return;
			}
			close(inherited[0]);
			if (fork())
				syscall(SYS_exit_group, 0);
			close(gone[1]);
			if (read(gone[0], &one, 1) < 0)
				exit(1);
		} else if (!strcmp(what, "orphans")) {
			int users = number();
			int each = number();
			orphans(users, each, !strcmp(next(), "killed"));
		} else if (!strcmp(what, "reaper"))
			said(what, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
		else if (!strcmp(what, "brother")) { /* a child of this one's parent */
			long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
			if (child == 0)
				syscall(SYS_exit_group, 0);
			said(what, child);
		} else if (!strcmp(what, "thread")) {
			pthread_t thread;
			pthread_create(&thread, NULL, in_thread, NULL);
			pthread_join(thread, NULL);
			return;
		} else if (!strcmp(what, "makes")) { /* a child of another thread's, and runs another program */
			pthread_t thread;
			if (pipe(told) < 0)
				exit(1);
			pthread_create(&thread, NULL, makes, NULL);
			while (!made)
				;
			execv(*word, word);
		} else if (!strcmp(what, "tell")) { /* the child of the program before */
			pid_t other = fork();
			if (other == 0)
				syscall(SYS_exit_group, 0);
			waitpid(other, NULL, 0);
			for (int fd = 3; fd < 30; fd++)
				close(fd);
			wait(NULL);
		} else if (!strcmp(what, "swapped")) { /* paths that are others by the time they are used again */
			char *source = next(), *mounted = next(), *secret = next();
			char shown[4096];
			int reached = 0;
			snprintf(shown, sizeof shown, "/srv%s", secret);
			for (int round = 0; round < 2000 && !reached; round++) {
				if (mount(source, "/srv", NULL, MS_BIND, NULL) == 0) {
					reached = open(shown, O_RDONLY) >= 0;
					umount2("/srv", MNT_DETACH);
				}
				mount("none", "/mnt", "tmpfs", 0, NULL);
				umount2(mounted, 0);
				reached |= open(secret, O_RDONLY) >= 0;
				umount2("/mnt", 0);
			}
			printf("%s\n", reached ? "REACHED" : "never");
		} else if (!strcmp(what, "exchange")) { /* two names, until somebody ends it */
			char *one = next(), *other = next();
			while (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0)
				;
			exit(1);
		} else if (!strcmp(what, "exec")) {
			execv(*word, word);
			said(what, -1);
			return;
		} else {
			printf("%s?\n", what);
			exit(1);
		}
	}
	fflush(stdout);
}

int main(int count, char **words)
{
	(void)count;
	word = words + 1;
	go();
	return 0;
}
