/* Tries to reach what it was not given. Each try is a word; what came of it is one line. */
#include "attack.h"
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>

static void open_it(char **args)
{
	puts(name(open(args[0], O_RDONLY)));
}

/* With each set of RESOLVE flags, from here, from the root, and by the links of /proc. */
static void openat2_it(char **args)
{
	const char *prefixes[] = {"", "/proc/self/root", "/proc/self/cwd/../../../../../../../.."};
	int reached = 0;
	for (unsigned bits = 0; bits < 64; bits++) {
		struct open_how how = {.flags = O_RDONLY, .resolve = bits};
		for (int from = 0; from < 6; from++) {
			char path[4096];
			int dir = from % 2 ? open("/", O_PATH) : AT_FDCWD;
			snprintf(path, sizeof path, "%s%s", prefixes[from / 2], args[0]);
			reached |= is_secret(syscall(SYS_openat2, dir, path + from % 2, &how, sizeof how));
			close(dir);
		}
	}
	puts(reached ? "REACHED" : "never");
}

/* By the links of /proc that lead to roots and directories, of this process and of others. */
static void links(char **args)
{
	char path[4096], prefix[64];
	int root = open("/", O_RDONLY), reached = 0;
	int processes[] = {getpid(), getppid(), gettid(), 1};
	const char *ends[] = {"root", "cwd/../../../../../../../..", "fd/%d", "task/%d/root", "task/%d/cwd/../../../../../../.."};
	for (int process = 0; process < 4; process++) {
		for (int end = 0; end < 5; end++) {
			snprintf(prefix, sizeof prefix, ends[end], end == 2 ? root : processes[process]);
			snprintf(path, sizeof path, "/proc/%d/%s%s", processes[process], prefix, args[0]);
			reached |= is_secret(open(path, O_RDONLY));
			if (chdir("/") == 0)
				reached |= is_secret(open(path + 1, O_RDONLY));
		}
	}
	snprintf(path, sizeof path, "/dev/fd/%d%s", root, args[0]);
	reached |= is_secret(open(path, O_RDONLY));
	snprintf(path, sizeof path, "/proc/thread-self/root%s", args[0]);
	reached |= is_secret(open(path, O_RDONLY));
	puts(reached ? "REACHED" : "never");
}

static char path[4096];
static struct sockaddr_un address;
static char *changed = path;
static const char *mine, *theirs;
static volatile int ends;

static void *rewrites(void *unused)
{
	(void)unused;
	while (!ends) {
		strcpy(changed, theirs);
		strcpy(changed, mine);
	}
	return NULL;
}

/* One call with what another thread changes all the time; whether it reached something. */
static int try_rewritten(const char *what, int round)
{
	char stolen[32];
	int fd, reached = 0;
	if (!strcmp(what, "open") || !strcmp(what, "openat2")) {
		struct open_how how = {.flags = O_RDONLY};
		fd = !strcmp(what, "open") ? open(path, O_RDONLY) : syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
		reached = is_secret(fd);
		close(fd);
	} else if (!strcmp(what, "chdir")) {
		/* The directory on the host has a file that the tree's has not. */
		reached = chdir(path) == 0 && access("secret", F_OK) == 0;
	} else if (!strcmp(what, "link")) {
		snprintf(stolen, sizeof stolen, "stolen.%d", round);
		if (link(path, stolen) == 0) {
			reached = is_secret(fd = open(stolen, O_RDONLY));
			close(fd);
			unlink(stolen);
		}
	} else if (!strcmp(what, "connect")) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		reached = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
		close(fd);
	} else if (!strcmp(what, "sendto") || !strcmp(what, "sendmsg") || !strcmp(what, "sendmmsg")) {
		struct iovec data = {"stolen", 6};
		struct mmsghdr messages[1] = {{.msg_hdr = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &data, .msg_iovlen = 1}}};
		fd = socket(AF_UNIX, SOCK_DGRAM, 0);
		errno = 0;
		if (!strcmp(what, "sendto"))
			reached = sendto(fd, "stolen", 6, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof address) > 0;
		else if (!strcmp(what, "sendmsg"))
			reached = sendmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT) > 0;
		else
			reached = sendmmsg(fd, messages, 1, MSG_DONTWAIT) > 0;
		int error = errno;
		close(fd);
		errno = error;
	} else if (round < 40) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			pthread_t again;
			pthread_create(&again, NULL, rewrites, NULL);
			close(1);
			execl(path, "program", NULL);
			_exit(0);
		}
		waitpid(child, &status, 0);
		reached = WIFEXITED(status) && WEXITSTATUS(status) == 77;
	}
	return reached;
}

static void rewritten(char **args)
{
	const char *what = args[0];
	pthread_t thread;
	int reached = 0;
	theirs = args[1];
	mine = !strcmp(what, "chdir") ? "/usr" : !strcmp(what, "exec") ? args[2] : "/proc/self/comm";
	if (strstr("connect sendto sendmsg sendmmsg", what)) {
		address.sun_family = AF_UNIX;
		changed = address.sun_path;
	}
	strcpy(changed, mine);
	pthread_create(&thread, NULL, rewrites, NULL);
	for (int round = 0; round < 300 && !reached; round++)
		reached |= try_rewritten(what, round);
	ends = 1;
	pthread_join(thread, NULL);
	puts(reached ? "REACHED" : "never");
}

/* A message to a socket, by each call that takes an address. */
static void sends(char **args)
{
	static const char *const calls[] = {"sendto", "sendmsg", "sendmmsg"};
	address.sun_family = AF_UNIX;
	strncpy(address.sun_path, args[0], sizeof address.sun_path - 1);
	for (unsigned call = 0; call < sizeof calls / sizeof *calls; call++) {
		errno = 0;
		said(calls[call], try_rewritten(calls[call], 0) ? "REACHED" : strerrorname_np(errno));
	}
}

static void often(char **args)
{
	/* So many times; and if that was not to be seen by then, until it is or half a minute went by. */
	int reached = 0, opened = 0, rounds = args[1] ? atoi(args[1]) : 20000;
	const char *wanted = args[1] && args[2] ? args[2] : "";
	const int *seen = !strcmp(wanted, "reached") ? &reached : !strcmp(wanted, "opened") ? &opened : &rounds;
	time_t ends = time(NULL) + 30;
	for (int round = 0; round < rounds || (!*seen && time(NULL) < ends); round++) {
		int fd = open(args[0], O_RDONLY);
		opened += fd >= 0;
		reached |= is_secret(fd);
		close(fd);
	}
	printf("%s %s\n", reached ? "REACHED" : "never", opened ? "opened" : "not opened");
}

/* Stands in a directory while somebody moves it elsewhere; a line on standard input says that it was. */
static void moved(char **args)
{
	char line[16];
	int dir = open(args[0], O_RDONLY), above, reached = 0;
	if (chdir(args[0]))
		exit(3);
	said("ready", "");
	if (!fgets(line, sizeof line, stdin))
		exit(4);
	reached |= is_secret(open("../secret", O_RDONLY));
	reached |= is_secret(open("../../secret", O_RDONLY));
	reached |= is_secret(openat(dir, "../secret", O_RDONLY));
	above = openat(dir, "..", O_PATH);
	reached |= is_secret(openat(above, "secret", O_RDONLY));
	reached |= is_secret(openat(above, "../secret", O_RDONLY));
	puts(reached ? "REACHED" : "never");
}

/* What is done by number or memory alone, around all paths. */
static void calls(char **args)
{
	char own[64], text[4096] = {0};
	printf("io_uring_setup %s\n", name(syscall(425, 8, text)));
	printf("io_uring_enter %s\n", name(syscall(426, 0, 0, 0, 0, 0, 0)));
	printf("io_uring_register %s\n", name(syscall(427, 0, 0, 0, 0)));
	printf("open_by_handle_at %s\n", name(syscall(SYS_open_by_handle_at, AT_FDCWD, text, 0)));
	printf("mount %s\n", name(mount("none", "/tmp", "tmpfs", 0, NULL)));
	printf("umount2 %s\n", name(umount2("/proc", MNT_DETACH)));
	printf("open_tree %s\n", name(syscall(428, AT_FDCWD, "/", 1)));
	printf("move_mount %s\n", name(syscall(429, AT_FDCWD, "/", AT_FDCWD, "/tmp", 0)));
	printf("fsopen %s\n", name(syscall(430, "tmpfs", 0)));
	printf("mount_setattr %s\n", name(syscall(442, AT_FDCWD, "/", 0, text, 32)));
	printf("pivot_root %s\n", name(syscall(SYS_pivot_root, "/", "/")));
	printf("chroot %s\n", name(chroot("/tmp")));
	printf("unshare %s\n", name(unshare(CLONE_NEWUSER | CLONE_NEWNS)));
	printf("clone %s\n", name(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0)));
	/* Its flags lie in memory. */
	unsigned long how[11] = {CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, 0, 0, 0, SIGCHLD};
	long child = syscall(435, how, sizeof how);
	if (child == 0)
		_exit(0);
	printf("clone3 %s\n", name(child));
	printf("fanotify_init %s\n", name(syscall(SYS_fanotify_init, 0, 0)));
	printf("userfaultfd %s\n", name(syscall(SYS_userfaultfd, O_CLOEXEC)));
	printf("userfaultfd of a device %s\n", name(ioctl(0, 0xaa00, 0)));
	struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .exclude_kernel = 1};
	printf("perf_event_open %s\n", name(syscall(SYS_perf_event_open, &event, getppid(), -1, -1, 0)));
	printf("unknown %s\n", name(syscall(470)));
	printf("x32 %s\n", name(syscall(0x40000000 | SYS_open, args[0], O_RDONLY)));
	snprintf(text, sizeof text, "/proc/self/root%s", args[0]);
	printf("own root %s\n", name(open(text, O_RDONLY)));
	snprintf(own, sizeof own, "/proc/%d/root%s", getppid(), args[0]);
	printf("root of the supervisor %s\n", name(open(own, O_RDONLY)));
	printf("machine %s\n", name(open("/proc/version", O_WRONLY)));
	printf("typed %s\n", name(ioctl(0, TIOCSTI, "x")));
	printf("lease %s\n", name(fcntl(open("/etc/passwd", O_RDONLY), F_SETLEASE, F_RDLCK)));
	printf("dumpable %s\n", prctl(PR_SET_DUMPABLE, 0) ? "refused" : name(access("/", F_OK)));
}

/* The memory, descriptors and namespaces of the process that answers. */
static void supervisor(char **args)
{
	static const char *const files[] = {"mem", "maps", "environ", "fd", "exe", "root", "cwd", "task", "ns/mnt"};
	char own[64], other[8] = "";
	struct iovec to = {other, sizeof other}, from = {(void *)0x400000, sizeof other};
	int pidfd = syscall(434, getppid(), 0);
	(void)args;
	for (unsigned file = 0; file < sizeof files / sizeof *files; file++) {
		snprintf(own, sizeof own, "/proc/%d/%s", getppid(), files[file]);
		printf("%s %s\n", files[file], name(open(own, O_RDONLY)));
	}
	snprintf(own, sizeof own, "/proc/%d/mem", getppid());
	printf("mem written %s\n", name(open(own, O_RDWR)));
	printf("seize %s\n", name(ptrace(PTRACE_SEIZE, getppid(), 0, 0)));
	printf("attach %s\n", name(ptrace(PTRACE_ATTACH, getppid(), 0, 0)));
	printf("process_vm_readv %s\n", name(process_vm_readv(getppid(), &to, 1, &from, 1, 0)));
	printf("process_vm_writev %s\n", name(process_vm_writev(getppid(), &to, 1, &from, 1, 0)));
	printf("pidfd_getfd %s\n", name(syscall(438, pidfd, 3, 0)));
	printf("setns %s\n", name(setns(pidfd, CLONE_NEWNS)));
	printf("process_madvise %s\n", name(syscall(440, pidfd, &from, 1, 4, 0)));
	printf("kcmp %s\n", name(syscall(SYS_kcmp, getpid(), getppid(), 2, 0, 0)));
}

/* A process that is none of the program's. */
static void foreign(char **args)
{
	char file[64], other[8];
	struct iovec to = {other, sizeof other}, from = {(void *)0x400000, sizeof other};
	pid_t pid = atoi(args[0]);
	snprintf(file, sizeof file, "/proc/%d/mem", pid);
	printf("mem %s\n", name(open(file, O_RDWR)));
	snprintf(file, sizeof file, "/proc/%d/status", pid);
	printf("status %s\n", name(open(file, O_RDONLY)));
	printf("attach %s\n", name(ptrace(PTRACE_ATTACH, pid, 0, 0)));
	printf("process_vm_readv %s\n", name(process_vm_readv(pid, &to, 1, &from, 1, 0)));
}

/* A child in namespaces of its own, made by clone3, whose flags no filter sees. */
static void namespaces(char **args)
{
	struct { unsigned long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } how = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
	pid_t child = syscall(435, &how, sizeof how);
	if (child == 0) {
		int reached = is_secret(open(args[0], O_RDONLY));
		mkdir("below", 0700);
		reached |= mount("/tmp", "below", NULL, MS_BIND, NULL) == 0;
		reached |= chroot("/tmp") == 0;
		reached |= syscall(428, AT_FDCWD, "/tmp", 1) >= 0;
		reached |= is_secret(open(args[0], O_RDONLY));
		puts(reached ? "REACHED" : "never");
		fflush(stdout);
		_exit(0);
	}
	if (child < 0)
		puts("never");
	waitpid(child, NULL, 0);
}

/* A child whose calls are changed into others before they are made. */
static void traced(char **args)
{
	struct user_regs_struct regs;
	int status, reached = 0;
	static char target[4096];
	strcpy(target, args[0]);
	pid_t child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (int round = 0; round < 20; round++) {
			char text[64] = {0};
			/* A call that nobody answers but the kernel; the tracer makes another one of it. */
			int fd = syscall(SYS_getppid, target, O_RDONLY, 0);
			if (fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strstr(text, "secret"))
				_exit(77);
		}
		_exit(0);
	}
	waitpid(child, &status, 0);
	said("suspended", ptrace(PTRACE_SETOPTIONS, child, 0, 1 << 21) ? "refused" : "done");
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD);
	while (ptrace(PTRACE_SYSCALL, child, 0, 0) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		ptrace(PTRACE_GETREGS, child, 0, &regs);
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && regs.orig_rax == SYS_getppid && regs.rax == (unsigned long)-ENOSYS) {
			regs.orig_rax = SYS_open;
			ptrace(PTRACE_SETREGS, child, 0, &regs);
		}
	}
	reached = WIFEXITED(status) && WEXITSTATUS(status) == 77;
	said("open", reached ? "REACHED" : WIFEXITED(status) ? "never" : "died");
}

/* Kills the process that answers, and calls on. */
static void killed(char **args)
{
	int reached = 0, refused = 0;
	signal(SIGPIPE, SIG_IGN);
	said("runs", "on");
	getchar();
	kill(getppid(), SIGKILL);
	for (int round = 0; round < 2000 && !refused; round++) {
		int fd = open(args[0], O_RDONLY);
		refused = fd < 0 && errno == ENOSYS;
		reached |= is_secret(fd);
		usleep(1000);
	}
	reached |= execl(args[0], "program", NULL) == 0 || chdir("/") == 0;
	printf("%s %s\n", reached ? "REACHED" : "never", refused ? "refused" : "answered");
}

/* What were written below a thread's stack while it changes its directory would be exchanged for another path. */
static volatile char *volatile low;

static void *exchanges(void *unused)
{
	(void)unused;
	while (!ends)
		for (volatile char *at = low - 512; at < low - 100; at += 8)
			if (!memcmp((void *)at, "/dev/shm", 8))
				memcpy((void *)at, theirs, strlen(theirs) + 1);
	return NULL;
}

static void led(char **args)
{
	int out = 0, in = 0;
	theirs = args[0];
	for (int child = 0; child < 20; child++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t thread;
			unsigned long sp;
			__asm__ volatile("mov %%rsp,%0" : "=r"(sp));
			low = (char *)sp;
			pthread_create(&thread, NULL, exchanges, NULL);
			for (int round = 0; round < 100; round++) {
				long answer;
				__asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_chdir), "D"("/usr") : "rcx", "r11", "memory");
				if (answer)
					_exit(-answer);
			}
			_exit(0);
		}
		waitpid(pid, &status, 0);
		/* Who came to stand elsewhere is killed. */
		in += status == 0;
		out += status != 0;
	}
	printf("in %d out %d\n", in, out);
}

/* Runs a program by a path that another thread makes longer, with arguments that are not there: whether the error tells that the
 * longer one is there. */
static volatile char longer[4096] = "/bin/true";

static void *lengthens(void *unused)
{
	(void)unused;
	for (;;) {
		longer[9] = '/';
		for (volatile int wait = 300; wait > 0; wait--)
			;
		longer[9] = 0;
		for (volatile int wait = 300; wait > 0; wait--)
			;
	}
	return NULL;
}

static void told(char **args)
{
	int killed = 0, other = 0;
	strcpy((char *)longer + 9, args[0]);
	for (int child = 0; child < 8; child++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t thread;
			pthread_create(&thread, NULL, lengthens, NULL);
			for (int round = 0; round < 60; round++) {
				syscall(SYS_execve, longer, 1, NULL);
				if (errno != EFAULT && errno != ENOTDIR && errno != ENOENT)
					_exit(errno);
			}
			_exit(0);
		}
		waitpid(pid, &status, 0);
		killed += WIFSIGNALED(status);
		other += WIFEXITED(status) && WEXITSTATUS(status) != 0;
	}
	printf("killed %d other %d\n", killed, other);
}

/* More arguments than there is room for, one that is too long, and such that are not there. */
static void too_much(char **args)
{
	static char text[(128 << 10) + 1];
	static char *many[1 << 20], *one[] = {"true", text, NULL}, *wrong[] = {"true", (char *)8, NULL};
	struct rlimit stack = {8 << 20, 8 << 20};
	(void)args;
	setrlimit(RLIMIT_STACK, &stack);
	memset(text, 'x', 128 << 10);
	execv("/bin/true", one);
	said("long", name(-1));
	text[1000] = 0;
	for (int count = 0; count < 2100; count++)
		many[count] = text;
	execv("/bin/true", many);
	said("many", name(-1));
	text[0] = 0;
	for (int count = 0; count < 800000; count++)
		many[count] = text;
	execv("/bin/true", many);
	said("pointers", name(-1));
	execv("/bin/true", wrong);
	said("wrong", name(-1));
	syscall(SYS_execve, "/bin/true", 8, NULL);
	said("argv", name(-1));
	syscall(SYS_execve, "/bin/true", NULL, 8);
	said("envp", name(-1));
	text[0] = 'x';
	for (int count = 0; count < 2000; count++)
		many[count] = text;
	many[2000] = NULL;
	pid_t child = fork();
	int status;
	if (child == 0) {
		execve("/bin/true", many, NULL);
		_exit(errno);
	}
	waitpid(child, &status, 0);
	printf("enough %d\n", status);
}

/* Whether calls are answered: a child says so, or is killed when it waited for so long. */
static int answered(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		alarm(5);
		_exit(access("/etc/passwd", F_OK));
	}
	waitpid(child, &status, 0);
	return status == 0;
}

/* A process that changes its directory is stopped at any moment, and goes on; and so is one that runs another program. */
static volatile long in_memory;

static void stopped(char **args)
{
	int status, held = 0, wrong = 0;
	(void)args;
	for (int round = 0; round < 25; round++) {
		pid_t child = fork();
		if (child == 0) {
			register long count __asm__("rbx") = 0;
			/* What ran twice, or was changed, is seen by this. */
			while (count == in_memory && !chdir(count & 1 ? "/tmp" : "/")) {
				count++, in_memory++;
				__asm__ volatile("" :: "r"(count));
			}
			_exit(1);
		}
		for (int stop = 0; stop < 3; stop++) {
			usleep(10000 + 37 * round);
			kill(child, SIGSTOP);
			waitpid(child, &status, WUNTRACED);
			wrong += !WIFSTOPPED(status);
			held += !answered();
			kill(child, SIGCONT);
		}
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		wrong += status != SIGKILL;
	}
	for (int round = 0; round < 60; round++) {
		int go[2];
		char one;
		if (pipe(go))
			exit(1);
		pid_t child = fork();
		if (child == 0) {
			if (read(go[0], &one, 1) == 1)
				execl("/bin/true", "true", NULL);
			_exit(errno);
		}
		write(go[1], "x", 1);
		usleep(20 * round);
		kill(child, SIGSTOP);
		usleep(1000);
		held += !answered();
		kill(child, SIGCONT);
		waitpid(child, &status, 0);
		wrong += status != 0;
		close(go[0]);
		close(go[1]);
	}
	printf("held %d wrong %d\n", held, wrong);
}

/* A second thread runs a program that the kernel finds to be none when the others are gone. */
static void *runs_bad(void *unused)
{
	(void)unused;
	execl("./bad", "bad", NULL);
	_exit(errno);
}

static void bad(char **args)
{
	int status, fd = open("bad", O_CREAT | O_WRONLY, 0755);
	/* One segment, at an address of the kernel's. */
	static const struct { char ident[16]; short type, machine; int version; long entry, phoff, shoff; int flags; short sizes[6];
		int kind, rights; long offset, at, physical, size, memory, align; } elf = {
		"\177ELF\2\1\1", 2, 62, 1, 0x400078, 64, 0, 0, {64, 56, 1, 0, 0, 0},
		1, 5, 0, (long)0xffff800000000000, 0, 120, 120, 4096};
	(void)args;
	if (write(fd, &elf, sizeof elf) != sizeof elf || close(fd))
		exit(1);
	for (int thread = 0; thread < 2; thread++) {
		pid_t child = fork();
		if (child == 0) {
			pthread_t other;
			if (!thread)
				runs_bad(NULL);
			pthread_create(&other, NULL, runs_bad, NULL);
			pthread_join(other, NULL);
			_exit(1);
		}
		waitpid(child, &status, 0);
		said(WIFSIGNALED(status) ? "killed" : "exited", answered() ? "on" : "held");
	}
}

/* Runs a program while another thread is traced by somebody who does not wait for it. */
static void *is_traced(void *unused)
{
	(void)unused;
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	for (;;)
		pause();
}

/* The memory of a child, read and written; and attaching to it. */
static void vm(const char *what, pid_t pid, char *local, size_t len, char *remote, size_t there, long flags, int write)
{
	struct iovec here[2] = {{local, len / 2}, {local + len / 2, len - len / 2}}, other[2] = {{remote, there / 3}, {remote + there / 3, there - there / 3}};
	errno = 0;
	long done = syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, pid, here, 2, other, 2, flags);
	printf("%s %ld %s\n", what, done, done < 0 ? strerrorname_np(errno) : "");
}

static void others(char **args)
{
	char *room = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), own[20000], back[20000];
	int status, go[2];
	char one;
	(void)args;
	memset(room, 'r', 8 * 4096);
	memset(own, 'o', sizeof own);
	mprotect(room + 5 * 4096, 4096, PROT_READ);
	munmap(room + 7 * 4096, 4096);
	if (pipe(go))
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		close(go[1]);
		_exit(read(go[0], &one, 1));
	}
	vm("read", child, own, sizeof own, room + 17, sizeof own, 0, 0);
	printf("%c%c%c\n", own[0], own[9999], own[19999]);
	memset(own, 'w', sizeof own);
	vm("written", child, own, 15000, room + 100, 15000, 0, 1);
	vm("read back", child, back, 15000, room + 100, 15000, 0, 0);
	printf("%d\n", memcmp(own, back, 15000));
	vm("shorter", child, own, 100, room, 50, 0, 0);
	vm("longer", child, own, 50, room, 100, 0, 1);
	vm("to its end", child, own, sizeof own, room + 4 * 4096, sizeof own, 0, 0);
	vm("where it may write", child, own, sizeof own, room + 4 * 4096, sizeof own, 0, 1);
	vm("where it may not", child, own, 10, room + 5 * 4096, 10, 0, 1);
	vm("nowhere", child, own, 10, (char *)8, 10, 0, 0);
	vm("nowhere", child, own, 10, (char *)8, 10, 0, 1);
	vm("to nowhere", child, (char *)8, 10, room, 10, 0, 0);
	vm("from nowhere", child, (char *)8, 10, room, 10, 0, 1);
	vm("nothing", child, own, 0, (char *)8, 10, 0, 0);
	vm("of nothing", child, own, 10, (char *)8, 0, 0, 1);
	vm("flags", child, own, 10, room, 10, 1, 0);
	vm("its own", getpid(), own, 10, room, 10, 0, 0);
	vm("nobody", 0x3fffffff, own, 10, room, 10, 0, 0);
	vm("nobody", 0x3fffffff, own, 10, room, 10, 0, 1);
	vm("negative", -5, own, 10, room, 10, 0, 1);
	printf("too many %s\n", name(syscall(SYS_process_vm_readv, child, NULL, 1025, NULL, 0, 0)));
	printf("pieces nowhere %s\n", name(syscall(SYS_process_vm_readv, child, 8, 1, NULL, 0, 0)));
	printf("attach nobody %s\n", name(ptrace(PTRACE_ATTACH, 0x3fffffff, 0, 0)));
	printf("attach %s\n", name(ptrace(PTRACE_ATTACH, child, 0, 0)));
	printf("waits %d\n", waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	printf("again %s\n", name(ptrace(PTRACE_SEIZE, child, 0, 0)));
	printf("detach %s\n", name(ptrace(PTRACE_DETACH, child, 0, 0)));
	printf("seize %s\n", name(ptrace(PTRACE_SEIZE, child, 0, 0)));
	printf("detach %s\n", name(ptrace(PTRACE_DETACH, child, 0, 0)));
	close(go[1]);
	waitpid(child, &status, 0);
	printf("ends %d\n", status);
}

/* A thread that comes to its turn late reaches into a process of its user's that runs a set-id program before. */
static volatile int word = 1, begun, hogged;
static pid_t target;

static void here_alone(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void *reaches(void *how)
{
	struct sched_param none = {0};
	int written = 2;
	struct iovec from = {&written, sizeof written}, to = {(void *)&word, sizeof word};
	/* The supervisor is asked about that, too. */
	sched_setscheduler(0, SCHED_IDLE, &none);
	while (!begun)
		usleep(500);
	if (!strcmp(how, "write"))
		process_vm_writev(target, &from, 1, &to, 1, 0);
	else
		ptrace(PTRACE_SEIZE, target, 0, 0);
	/* Who traces goes on for as long as it is there. */
	for (;;)
		pause();
}

static void *hogs(void *unused)
{
	while (!hogged)
		usleep(500);
	while (!ends)
		;
	return unused;
}

static void late(char **args)
{
	int go[2], status;
	char one;
	pthread_t thread;
	pid_t supervisor = getppid();
	if (system("cp attack /tmp/victim && chmod 4755 /tmp/victim") || pipe(go))
		exit(1);
	if (setresuid(33, 33, 33))
		exit(2);
	here_alone();
	target = fork();
	if (target == 0) {
		if (access("/", F_OK) || read(go[0], &one, 1) != 1)
			_exit(1);
		execl("/tmp/victim", "victim", "victim", NULL);
		said("not run", strerrorname_np(errno));
		_exit(0);
	}
	pthread_create(&thread, NULL, reaches, args[0]);
	for (int hog = 0; hog < 6; hog++)
		pthread_create(&(pthread_t){0}, NULL, hogs, NULL);
	usleep(50000);
	kill(supervisor, SIGSTOP);
	usleep(5000);
	begun = 1;
	usleep(20000);
	hogged = 1;
	usleep(5000);
	write(go[1], "x", 1);
	usleep(20000);
	kill(supervisor, SIGCONT);
	usleep(200000);
	ends = 1;
	waitpid(target, &status, __WALL);
}

static void victim(char **args)
{
	char line[128];
	int traced = 0, tracer;
	(void)args;
	usleep(500000);
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		traced |= sscanf(line, "TracerPid: %d", &tracer) == 1 && tracer;
	printf("victim %d %s\n", geteuid(), traced ? "TRACED" : word != 1 ? "WRITTEN" : "untouched");
}

/* A process of another user's gets the number of one that is gone and was the asker's: what it has is closed. */
static void reused(char **args)
{
	char file[64], line[16];
	int told[2], go[2], opened;
	pid_t number, user, child = 0;
	(void)args;
	if (pipe(told) || pipe(go))
		exit(1);
	user = fork();
	if (user == 0) {
		if (setresuid(33, 33, 33))
			_exit(1);
		pid_t own = fork();
		if (own == 0)
			_exit(access("/", F_OK));
		waitpid(own, NULL, 0);
		write(told[1], &own, sizeof own);
		read(go[0], line, 1);
		snprintf(file, sizeof file, "/proc/%d/mem", own);
		opened = open(file, O_RDONLY);
		write(told[1], &opened, sizeof opened);
		_exit(0);
	}
	read(told[0], &number, sizeof number);
	for (int round = 0; round < 5000 && child != number; round++) {
		printf("%d\n", number);
		fflush(stdout);
		if (!fgets(line, sizeof line, stdin))
			exit(1);
		child = fork();
		if (child == 0)
			for (;;)
				pause();
		if (child != number) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
	}
	write(go[1], "x", 1);
	read(told[0], &opened, sizeof opened);
	puts(child != number ? "another" : opened >= 0 ? "REACHED" : "never");
	fflush(stdout);
	kill(child, SIGKILL);
}

/* A place that is handed on from child to child, who live for a moment, while much else is opened. */
static void handed_on(char **args)
{
	char file[64];
	time_t end = time(NULL) + 4;
	int told[2], lost = 0;
	(void)args;
	mkdir("/tmp/place", 0755);
	close(open("/tmp/place/here", O_CREAT | O_WRONLY, 0644));
	mkdir("/tmp/many", 0755);
	for (int made = 0; made < 700; made++) {
		snprintf(file, sizeof file, "/tmp/many/%d", made);
		close(open(file, O_CREAT | O_WRONLY, 0644));
	}
	if (pipe(told))
		exit(1);
	if (fork() == 0) {
		chdir("/tmp/place");
		for (int child = 0; time(NULL) <= end; child++) {
			if (fork())
				_exit(0);
			if (child % 15 == 14 && access("here", F_OK)) {
				write(told[1], "x", 1);
				_exit(0);
			}
		}
		_exit(0);
	}
	close(told[1]);
	while (time(NULL) < end)
		for (int which = 0; which < 700; which++) {
			snprintf(file, sizeof file, "/tmp/many/%d", which);
			close(open(file, O_PATH));
		}
	lost = read(told[0], file, 1) == 1;
	puts(lost ? "lost" : "kept");
}

static void unheard(char **args)
{
	(void)args;
	if (fork() == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, is_traced, NULL);
		usleep(50000);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	usleep(300000);
	/* The other calls are answered. */
	write(1, access("/etc/passwd", F_OK) ? "refused\n" : "runs on\n", 8);
	for (;;)
		pause();
}

/* A tracer that asks for paths, and now and then whether who it traces did something, while another thread of that process runs a
 * program. */
static void *waits(void *to)
{
	pid_t own = gettid();
	write(*(int *)to, &own, sizeof own);
	for (;;)
		pause();
}

static void reaps(char **args)
{
	int to[2], answers = 0, status, thread;
	(void)args;
	if (pipe(to))
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		pthread_t other;
		pthread_create(&other, NULL, waits, &to[1]);
		usleep(500000);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	if (read(to[0], &thread, sizeof thread) != sizeof thread || ptrace(PTRACE_SEIZE, thread, 0, 0))
		exit(2);
	for (;;) {
		answers += access("/etc/passwd", F_OK) == 0;
		pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
		if (pid == child)
			break;
		usleep(20000);
	}
	printf("%d %s\n", status, answers > 3 ? "answered" : "held");
}

/* Looks into a process that runs a program of somebody else's, before, while and after; that it takes so long is its tracer's doing. */
static void look(const char *when, pid_t pid)
{
	char here[8] = "", path[64];
	struct iovec to = {here, sizeof here}, from = {here, sizeof here};
	printf("%s %s", when, name(process_vm_readv(pid, &to, 1, &from, 1, 0)));
	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	printf(" %s", name(open(path, O_RDONLY)));
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	printf(" %s", name(open(path, O_RDONLY)));
	if (strcmp(when, "before"))
		printf(" %s", name(ptrace(PTRACE_SEIZE, pid, 0, 0)));
	puts("");
}

static int thread_pipe[2];

static void *is_traced_and_says_so(void *unused)
{
	pid_t own = gettid();
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	write(thread_pipe[1], &own, sizeof own);
	return waits(unused);
}

static void into(char **args)
{
	int thread, status;
	fflush(stdout);
	if (pipe(thread_pipe) || syscall(SYS_setresgid, 33, 33, 33) || syscall(SYS_setresuid, 33, 33, 33))
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		pthread_t other;
		static int nobody[2];
		pipe(nobody);
		pthread_create(&other, NULL, is_traced_and_says_so, &nobody[1]);
		usleep(400000);
		execl(args[0], "program", "sleeps", NULL);
		_exit(1);
	}
	if (read(thread_pipe[0], &thread, sizeof thread) != sizeof thread)
		exit(2);
	look("before", child);
	usleep(700000);
	look("while", child);
	printf("heard %d\n", waitpid(thread, &status, __WALL) == thread);
	usleep(200000);
	look("after", child);
	kill(child, SIGKILL);
}

static void sleeps(char **args)
{
	(void)args;
	for (;;)
		pause();
}

/* A call of a thread's whose instruction another thread changes. */
static unsigned char *code;
static volatile int walks, walker;

static void *walks_on(void *unused)
{
	long (*call)(long, const char *) = (void *)code;
	walker = gettid();
	while (!walks)
		;
	while (walks == 1)
		call(SYS_chdir, "/usr");
	return unused;
}

static void write_code(void)
{
	/* mov %rdi,%rax; mov %rsi,%rdi; syscall; ret */
	static const unsigned char bytes[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x0f, 0x05, 0xc3};
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, bytes, sizeof bytes);
}

static void instruction(char **args)
{
	int held = 0, wrong = 0, status;
	(void)args;
	write_code();
	for (int round = 0; round < 12; round++) {
		int to[2], back[2];
		char one;
		if (pipe(to) || pipe(back))
			exit(1);
		pid_t child = fork();
		if (child == 0) {
			char path[64], text[64];
			pthread_t thread;
			volatile unsigned short *syscall_at = (void *)(code + 6);
			pthread_create(&thread, NULL, walks_on, NULL);
			while (!walker)
				;
			snprintf(path, sizeof path, "/proc/self/task/%d/syscall", walker);
			int fd = open(path, O_RDONLY);
			walks = 1;
			/* It is in fchdir, after which it is to do something else. */
			while (pread(fd, text, sizeof text, 0) < 3 || memcmp(text, "81 ", 3))
				;
			*syscall_at = 0xfeeb; /* for ever */
			write(to[1], "x", 1);
			read(back[0], &one, 1);
			walks = 2;
			*syscall_at = 0x050f;
			pthread_join(thread, NULL);
			_exit(0);
		}
		wrong += read(to[0], &one, 1) != 1;
		usleep(20000);
		held += !answered();
		if (round % 2)
			kill(child, SIGKILL);
		write(back[1], "x", 1);
		waitpid(child, &status, 0);
		wrong += status != (round % 2 ? SIGKILL : 0);
		close(to[0]), close(to[1]), close(back[0]), close(back[1]);
	}
	printf("held %d wrong %d\n", held, wrong);
}

/* A process's first thread is in the middle of chdir for ever when another one runs a program. */
static int next_fd;

static void *runs_meanwhile(void *unused)
{
	walks = 1;
	while (fcntl(next_fd, F_GETFD) < 0)
		;
	*(volatile unsigned short *)(code + 6) = 0xfeeb;
	usleep(50000);
	if (fcntl(next_fd, F_GETFD) < 0)
		_exit(3);
	execl("/bin/sh", "sh", "-c", "cd /usr && test -e /etc/passwd && exit 4", NULL);
	return unused;
}

static void meanwhile(char **args)
{
	int killed = 0, ran = 0, status;
	(void)args;
	write_code();
	for (int round = 0; round < 40 && ran + killed < 3; round++) {
		pid_t child = fork();
		if (child == 0) {
			long (*call)(long, const char *) = (void *)code;
			pthread_t thread;
			next_fd = dup(0);
			close(next_fd);
			pthread_create(&thread, NULL, runs_meanwhile, NULL);
			while (!walks)
				;
			usleep(1000);
			call(SYS_chdir, "/usr");
			_exit(3);
		}
		waitpid(child, &status, 0);
		killed += WIFSIGNALED(status);
		ran += WIFEXITED(status) && WEXITSTATUS(status) == 4;
	}
	printf("killed %d\n", killed);
}

/* A thread closes what it does not know while another one changes its directory, or runs a program. */
static void *closes(void *unused)
{
	(void)unused;
	while (!ends)
		for (int fd = 3; fd < 64; fd++)
			close(fd);
	return NULL;
}

static void closed(char **args)
{
	int killed = 0, other = 0;
	(void)args;
	for (int round = 0; round < 60; round++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			pthread_t thread;
			pthread_create(&thread, NULL, closes, NULL);
			usleep(300);
			for (int step = 0; round < 10 && step < 100; step++)
				if (chdir(step & 1 ? "/usr" : "/etc"))
					_exit(errno);
			execl("/bin/true", "true", NULL);
			_exit(errno);
		}
		waitpid(child, &status, 0);
		killed += WIFSIGNALED(status);
		other += WIFEXITED(status) && WEXITSTATUS(status) != 0;
	}
	printf("killed %d other %d\n", killed, other);
}

/* Copies more than one call copies, while another process asks for paths. */
static void copies(char **args)
{
	enum { PIECE = 64 << 20, PIECES = 64 };
	struct iovec here[PIECES], there[PIECES];
	volatile int *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *from = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)args;
	for (int piece = 0; piece < PIECES; piece++) {
		here[piece] = (struct iovec){to, PIECE};
		there[piece] = (struct iovec){from, PIECE};
	}
	memset(from, 'x', PIECE);
	pid_t child = fork();
	if (child == 0)
		for (;;)
			seen[0] += access("/etc/passwd", F_OK) == 0;
	while (!seen[0])
		;
	int before = seen[0];
	ssize_t copied = process_vm_readv(getpid(), here, PIECES, there, PIECES, 0);
	int answers = seen[0] - before;
	printf("%zd %d %s\n", copied, to[0] == 'x' && to[PIECE - 1] == 'x', answers >= 10 ? "answered" : "held");
	kill(child, SIGKILL);
}

/* An event of the program at a path: whether the error tells that it is there. */
static void watched(char **args)
{
	struct perf_event_attr event = {.type = 8, .size = sizeof event, .config1 = (unsigned long)args[0]};
	puts(name(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0)));
}

/* A call with a stack pointer that points nowhere. */
static void stackless(char **args)
{
	static const unsigned long nowhere[] = {0, 64, 0x7fffffffffff};
	(void)args;
	for (int which = 0; which < 3; which++) {
		long answer;
		__asm__ volatile("mov %%rsp, %%r15\n mov %2, %%rsp\n syscall\n mov %%r15, %%rsp"
			: "=a"(answer) : "0"((long)SYS_chdir), "r"(nowhere[which]), "D"("/usr") : "rcx", "r11", "r15", "memory");
		errno = -answer;
		puts(name(answer));
	}
	printf("%s\n", access("/etc/passwd", R_OK) == 0 ? "on" : "off");
}

/* A file that may only be read, and a memfd of one's own that may be written, swapped under one number by a thread all the time;
 * what is opened by that number for writing is written to. */
static int mine_fd, theirs_fd, swapped;

static void *swaps(void *unused)
{
	unsigned seed = 1;
	(void)unused;
	while (!ends) {
		dup2(mine_fd, swapped);
		for (volatile int wait = rand_r(&seed) % 20000; wait > 0; wait--)
			;
		dup2(theirs_fd, swapped);
		for (volatile int wait = rand_r(&seed) % 20000; wait > 0; wait--)
			;
	}
	return NULL;
}

static void reopened(char **args)
{
	char link[64], text[8] = "";
	pthread_t thread;
	int written = 0, opened = 0;
	mine_fd = memfd_create("mine", 0);
	theirs_fd = open(args[0], O_RDONLY);
	printf("for writing %s\n", name(open(args[0], O_RDWR)));
	swapped = dup(mine_fd);
	snprintf(link, sizeof link, "/proc/self/fd/%d", swapped);
	pthread_create(&thread, NULL, swaps, NULL);
	for (int round = 0; round < 10000 && !written; round++) {
		int fd = open(link, O_RDWR);
		if (fd < 0)
			continue;
		opened++;
		pwrite(fd, "reached", 7, 0);
		close(fd);
		written = pread(theirs_fd, text, 7, 0) == 7 && !memcmp(text, "reached", 7);
	}
	ends = 1;
	pthread_join(thread, NULL);
	printf("%s %s\n", opened ? "opened" : "closed", written ? "REACHED" : "never");
}

static void descriptors(char **args)
{
	int opened = 0;
	(void)args;
	while (open("/etc/passwd", O_RDONLY) >= 0)
		opened++;
	printf("%d %s\n", opened, strerrorname_np(errno));
}

/* Files in memory, each of which takes a descriptor of the supervisor's, as many as there can be. */
static void memory(char **args)
{
	char file[64];
	int made = 0, fd, error = 0, reached;
	for (; made < 3000 && !error; made++) {
		snprintf(file, sizeof file, "/tmp/%d", made);
		fd = open(file, O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0 || write(fd, "x", 1) != 1)
			error = errno;
		close(fd);
	}
	reached = is_secret(open(args[0], O_RDONLY));
	printf("%s %s\n", error ? strerrorname_np(error) : "all", reached ? "REACHED" : "never");
	while (made-- > 0) {
		snprintf(file, sizeof file, "/tmp/%d", made);
		unlink(file);
	}
	/* What was taken is free again. */
	printf("%s\n", open("/tmp/again", O_CREAT | O_WRONLY, 0600) >= 0 && access("/etc/passwd", R_OK) == 0 ? "on" : "stuck");
}

/* Children of children, until there can be no more, which all open what they should not; then one that works. */
static void bomb(char **args)
{
	int result[2], made = 0;
	struct rlimit few = {40, 40};
	char told[4096], sum[3] = {0};
	pid_t group = fork();
	if (group == 0) {
		setpgid(0, 0);
		setrlimit(RLIMIT_NPROC, &few);
		if (pipe(result))
			_exit(3);
		for (int round = 0; round < 12; round++) {
			pid_t child = fork();
			made += child > 0;
			if (child < 0)
				sum[0] |= errno == EAGAIN;
		}
		for (int round = 0; round < 20; round++)
			sum[1] |= is_secret(open(args[0], O_RDONLY));
		sum[2] = access("/etc/passwd", R_OK) == 0;
		if (write(result[1], sum, 3) != 3)
			_exit(4);
		while (wait(NULL) > 0)
			;
		if (getpgrp() == getpid()) {
			int len, refused = 0, reached = 0, works = 1;
			close(result[1]);
			while ((len = read(result[0], told, sizeof told / 3 * 3)) > 0)
				for (int at = 0; at + 2 < len; at += 3) {
					refused |= told[at];
					reached |= told[at + 1];
					works &= told[at + 2];
				}
			printf("%s %s %s\n", refused ? "refused" : "all", reached ? "REACHED" : "never", works ? "works" : "fails");
		}
		fflush(stdout);
		_exit(0);
	}
	waitpid(group, NULL, 0);
}

static void i386(char **args)
{
	long answer;
	/* open, by the number that it has there; the path lies below 4 GiB in a program of fixed addresses */
	static char low[256];
	strncpy(low, args[0], sizeof low - 1);
	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(5), "b"(low), "c"(0) : "memory");
	errno = -answer;
	puts(name(answer < 0 ? -1 : answer));
}

/* The handle of a file, as text; and a file by that. */
struct handle {
	struct file_handle head;
	unsigned char room[128];
};

static void handle(char **args)
{
	struct handle it = {.head = {.handle_bytes = sizeof it.room}};
	int mount;
	if (name_to_handle_at(AT_FDCWD, args[0], &it.head, &mount, 0)) {
		puts(strerrorname_np(errno));
		return;
	}
	for (unsigned at = 0; at < sizeof it.head + it.head.handle_bytes; at++)
		printf("%02x", ((unsigned char *)&it)[at]);
	puts("");
}

static void by_handle(char **args)
{
	struct handle it = {0};
	unsigned byte;
	for (unsigned at = 0; at < sizeof it && sscanf(args[0] + 2 * at, "%2x", &byte) == 1; at++)
		((unsigned char *)&it)[at] = byte;
	int from = open(".", O_RDONLY), fd = open_by_handle_at(from, &it.head, O_RDONLY);
	puts(fd < 0 ? name(fd) : is_secret(fd) ? "REACHED" : "other");
}

/* Runs a program again and again; whether it was ever another one, that ends with 77. */
static void executes(char **args)
{
	int reached = 0, ran = 0;
	for (int round = 0; round < 300; round++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			execl(args[0], "program", NULL);
			_exit(1);
		}
		waitpid(child, &status, 0);
		ran |= WIFEXITED(status) && WEXITSTATUS(status) == 0;
		reached |= WIFEXITED(status) && WEXITSTATUS(status) == 77;
	}
	printf("%s %s\n", reached ? "REACHED" : "never", ran ? "ran" : "never ran");
}

/* A thread whose exec fails when it has ended the others of its process; then processes that are given the numbers that it had. */
static void *runs_broken(void *number)
{
	*(int *)number = gettid();
	execl("./broken", "broken", NULL);
	return NULL;
}

static void stale(char **args)
{
	int *number = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), status;
	char byte;
	(void)args;
	pid_t process = fork();
	if (process == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, runs_broken, number);
		pthread_join(thread, NULL);
		_exit(9);
	}
	waitpid(process, &status, 0);
	printf("%d %d %d\n", process, *number, WIFSIGNALED(status));
	fflush(stdout);
	while (read(0, &byte, 1) == 1) {
		pid_t child = fork();
		if (child == 0) {
			alarm(5);
			_exit(chdir("/") ? 1 : 0);
		}
		waitpid(child, &status, 0);
		printf("%d %d\n", child, status);
		fflush(stdout);
	}
}

static const struct { const char *word; void (*does)(char **args); } attacks[] = {
	{"open", open_it}, {"openat2", openat2_it}, {"links", links}, {"rewritten", rewritten},
	{"sends", sends}, {"often", often}, {"moved", moved}, {"calls", calls}, {"supervisor", supervisor},
	{"namespaces", namespaces}, {"traced", traced}, {"killed", killed},
	{"descriptors", descriptors}, {"memory", memory}, {"bomb", bomb}, {"i386", i386},
	{"handle", handle}, {"by_handle", by_handle}, {"executes", executes},
	{"reopened", reopened},
	{"foreign", foreign}, {"led", led}, {"told", told}, {"too_much", too_much}, {"stackless", stackless},
	{"stopped", stopped}, {"bad", bad}, {"unheard", unheard}, {"others", others}, {"reused", reused},
	{"handed_on", handed_on}, {"late", late}, {"victim", victim}, {"reaps", reaps}, {"instruction", instruction},
	{"meanwhile", meanwhile}, {"closed", closed}, {"copies", copies}, {"watched", watched},
	{"into", into}, {"sleeps", sleeps},
	{"stale", stale},
};

int main(int count, char **args)
{
	for (unsigned which = 0; count > 1 && which < sizeof attacks / sizeof *attacks; which++)
		if (!strcmp(attacks[which].word, args[1])) {
			attacks[which].does(args + 2);
			return 0;
		}
	return 2;
}
