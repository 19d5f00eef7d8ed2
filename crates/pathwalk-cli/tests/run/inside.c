// What a program sees that finds answers by itself: the same as one that does not.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 2000

static void warm(const char *path)
{
	struct stat st;
	char body[64];
	for (int i = 0; i < 100; i++) {
		(void)!access(path, F_OK);
		(void)!stat(path, &st);
		(void)!lstat(path, &st);
		(void)!readlink(path, body, sizeof body);
		(void)!open("/absent", O_RDONLY);
	}
}

// All that a call may not change, in the order in which it is stored: rbx, rbp, rdi, rsi, rdx, r8, r9, r10, r12 to r15, rcx, flags, and
// what lies below the stack's end.
struct state {
	uint64_t word[16], below[16];
	uint8_t vector[16][16];
};

int64_t call_kept(struct state *before, struct state *after, const char *path);
extern const char behind_call[];

// access(path, F_OK) as a C library makes it, with a value in each register that the call knows nothing of.
__asm__(
	".text\n.globl call_kept\n.type call_kept, @function\ncall_kept:\n"
	"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"push %rsi\n"
	"mov %rdi, %rax\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovups 256+16*\\n(%rax), %xmm\\n\n.endr\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmov 128+8*\\n(%rax), %rbx\nmov %rbx, -128+8*\\n(%rsp)\n.endr\n"
	"mov %rdx, %rdi\nxor %esi, %esi\n"
	"mov 0(%rax), %rbx\nmov 8(%rax), %rbp\nmov 32(%rax), %rdx\nmov 40(%rax), %r8\nmov 48(%rax), %r9\n"
	"mov 56(%rax), %r10\nmov 64(%rax), %r12\nmov 72(%rax), %r13\nmov 80(%rax), %r14\nmov 88(%rax), %r15\n"
	"xor %ecx, %ecx\nstc\nstd\n"
	"mov $21, %eax\nsyscall\n"
	".globl behind_call\nbehind_call:\n"
	"xchg %rdi, (%rsp)\n"
	"mov %rbx, 0(%rdi)\nmov %rbp, 8(%rdi)\nmov %rsi, 24(%rdi)\nmov %rdx, 32(%rdi)\nmov %r8, 40(%rdi)\nmov %r9, 48(%rdi)\n"
	"mov %r10, 56(%rdi)\nmov %r12, 64(%rdi)\nmov %r13, 72(%rdi)\nmov %r14, 80(%rdi)\nmov %r15, 88(%rdi)\nmov %rcx, 96(%rdi)\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmov -128+8*\\n(%rsp), %rbx\nmov %rbx, 128+8*\\n(%rdi)\n.endr\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovups %xmm\\n, 256+16*\\n(%rdi)\n.endr\n"
	"pushf\npop 104(%rdi)\ncld\n"
	"pop %rbx\nmov %rbx, 16(%rdi)\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"
	".size call_kept, .-call_kept\n");

static void registers(void)
{
	static struct state before, after, first;
	const char *paths[] = {"/", "/absent", "here"};
	for (int i = 0; i < CALLS; i++) {
		const char *path = paths[i % 3];
		for (int w = 0; w < 16; w++) {
			before.word[w] = 0x1111111111111111u * (w + 1) + i;
			before.below[w] = 0x0101010101010101u * (w + 1) - i;
			for (int b = 0; b < 16; b++)
				before.vector[w][b] = w * 16 + b + i;
		}
		int64_t answer = call_kept(&before, &after, path);
		if (answer != (i % 3 == 0 ? 0 : -ENOENT))
			printf("answer %ld at %d\n", (long)answer, i);
		before.word[2] = (uint64_t)path;
		before.word[3] = 0;
		before.word[12] = (uint64_t)behind_call;
		// Carry and direction are set.
		if (i == 0)
			first = after;
		before.word[13] = first.word[13];
		before.word[14] = before.word[15] = after.word[14] = after.word[15] = 0;
		if (!(after.word[13] & 1) || !(after.word[13] & 0x400))
			printf("flags %lx\n", (long)after.word[13]);
		for (int w = 0; w < 16; w++)
			if (before.word[w] != after.word[w])
				printf("word %d: %lx, not %lx, at %d\n", w, (long)after.word[w], (long)before.word[w], i);
		if (memcmp(before.below, after.below, sizeof before.below))
			printf("below the stack at %d\n", i);
		if (memcmp(before.vector, after.vector, sizeof before.vector))
			printf("vectors at %d\n", i);
	}
	puts("all kept");
}

static const char *name(int answer)
{
	return answer < 0 ? strerrorname_np(errno) : "0";
}

// What is not there, or not to be written, is EFAULT.
static void pointers(void)
{
	warm("/");
	char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + 4096, 4096);
	mprotect(pages + 2 * 4096, 4096, PROT_READ);
	struct stat st, *bad[] = {(void *)8, (void *)-4096, (void *)(pages + 4096 - 8), (void *)(pages + 4096 - 143),
				  (void *)(pages + 2 * 4096), (void *)(pages + 2 * 4096 - 8)};
	char *end = pages + 4096, body[8];
	strcpy(end - 2, "/");
	for (int i = 0; i < 3; i++) {
		printf("at the end %s\n", name(access(end - 2, F_OK)));
		printf("%s %s\n", name(access((char *)8, F_OK)), name(stat((char *)-8, &st)));
		for (unsigned b = 0; b < sizeof bad / sizeof *bad; b++)
			printf("%s %s ", name(syscall(SYS_stat, "/", bad[b])), name(syscall(SYS_fstat, 0, bad[b])));
		printf("\nwhole %s\n", name(syscall(SYS_stat, "/", end - 144)));
		strcpy(end - 2, "/");
		memset(end - 100, 'a', 100);
		printf("no end %s\n", name(access(end - 100, F_OK)));
		strcpy(end - 2, "/");
		printf("link %s %s\n", name(syscall(SYS_readlink, "/proc/self/exe", 8, 100)), name(readlink("/", body, 0)));
		char *longer = malloc(5001);
		memset(longer, 'b', 5000);
		longer[5000] = 0;
		printf("long %s\n", name(access(longer, F_OK)));
		longer[255] = 0;
		printf("%s ", name(access(longer, F_OK)));
		longer[254] = 0;
		printf("%s\n", name(access(longer, F_OK)));
		free(longer);
		printf("numbers %s %s %s\n", name(fstat(-1, &st)), name(syscall(SYS_newfstatat, 77, "a", &st, 0)),
		       name(syscall(SYS_newfstatat, AT_FDCWD, "", &st, AT_EMPTY_PATH)));
	}
}

static void tell(const char *path)
{
	struct stat st, link;
	char body[64] = "";
	printf("%s: stat %s", path, name(stat(path, &st)));
	if (!stat(path, &st))
		printf(" %o %ld %ld", st.st_mode, (long)st.st_nlink, S_ISDIR(st.st_mode) ? 0 : (long)st.st_size);
	if (!stat(path, &st) && st.st_atime < 100000)
		printf(" read %ld", (long)st.st_atime);
	printf(" lstat %s", name(lstat(path, &link)));
	if (!lstat(path, &link))
		printf(" %o", link.st_mode);
	printf(" access %s %s", name(access(path, R_OK)), name(access(path, X_OK)));
	printf(" readlink %s", name(readlink(path, body, sizeof body)));
	printf(" %s", body);
	int fd = open(path, O_RDONLY);
	printf(" open %s\n", name(fd));
	if (fd >= 0) {
		struct stat open;
		if (fstat(fd, &open) || open.st_ino != st.st_ino || open.st_dev != st.st_dev || open.st_size != st.st_size)
			printf("another one is open\n");
		close(fd);
	}
}

// What the program changes itself, in a directory: each change is seen at once.
static void changes(const char *dir)
{
	char other[300];
	if (chdir(dir)) {
		puts("no such directory");
		return;
	}
	snprintf(other, sizeof other, "%s/name", dir);
	for (int i = 0; i < 60; i++) {
		unlink("name");
		tell("name");
		tell(other);
		int fd = open("name", O_CREAT | O_RDWR, 0644);
		tell("name");
		(void)!write(fd, "some", 4);
		tell(other);
		(void)!ftruncate(fd, i);
		tell("name");
		fchmod(fd, 0600 + i % 8);
		tell(other);
		close(fd);
		chmod("name", 0755);
		tell("name");
		link("name", "second");
		tell("name");
		struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_nsec = UTIME_OMIT}};
		utimensat(AT_FDCWD, "name", times, 0);
		tell(other);
		mkdir("elsewhere", 0700);
		link("third", "elsewhere/third");
		tell("third");
		rename("second", "third");
		link("third", "elsewhere/third");
		tell("third");
		unlink("elsewhere/third");
		rmdir("elsewhere");
		tell("third");
		tell("third");
		tell("second");
		unlink("third");
		tell(other);
		unlink("name");
		symlink("there", "name");
		tell("name");
		mkdir("there", 0700);
		tell(other);
		tell("name/below");
		close(open("there/below", O_CREAT | O_WRONLY, 0600));
		tell("name/below");
		tell("name/../there/below");
		unlink("there/below");
		tell("name/below");
		rmdir("there");
		tell("name/below");
	}
}

// What somebody else changes: after each line that is read.
static void told(const char *path)
{
	char line[64];
	tell(path);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		tell(path);
		fflush(stdout);
	}
}

static void *work(void *number)
{
	struct stat st;
	char path[64];
	long wrong = 0;
	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof path, "t%ld-%d", (long)number, i % 7);
		int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
		wrong += fd < 0 || write(fd, path, i % 9) != i % 9 || stat(path, &st) || st.st_size != i % 9;
		wrong += fstat(fd, &st) || st.st_size != i % 9 || access("/", X_OK) || !access("/absent", F_OK);
		close(fd);
		wrong += unlink(path) || !stat(path, &st) || errno != ENOENT;
	}
	return (void *)wrong;
}

// Threads, children, and descriptors that are closed without being known.
static void processes(void)
{
	pthread_t threads[4];
	warm("/");
	for (int round = 0; round < 4; round++) {
		pid_t child = round % 2 ? fork() : vfork();
		if (child == 0) {
			if (round % 2)
				close_range(3, ~0U, 0);
			struct stat st;
			int wrong = 0;
			for (int i = 0; i < 200; i++)
				wrong += stat("/", &st) || !access("/absent", F_OK);
			_exit(wrong);
		}
		int status;
		waitpid(child, &status, 0);
		printf("child %d\n", status);
	}
	close_range(3, ~0U, 0);
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (int i = 0; i < 4; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		printf("thread %ld\n", (long)wrong);
	}
	// As many descriptors as there may be.
	int last = 0, number;
	while ((number = open("/", O_RDONLY)) >= 0)
		last = number;
	printf("%d %s\n", last, name(number));
	printf("%s\n", name(access("/", F_OK)));
}

// Whether what a path leads to can be read, and is what is written in it: its own name.
static int wrong_file(int fd, const char *path)
{
	char body[64] = "";
	int wrong = fd < 0 || read(fd, body, sizeof body - 1) != (ssize_t)strlen(path) || strcmp(body, path);
	return wrong | (fd < 0 ? 0 : close(fd));
}

static int reads(const char *path)
{
	return wrong_file(open(path, O_RDONLY), path) + wrong_file(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC), path);
}

static volatile int heard, heard_wrong;

static void handler(int signal)
{
	(void)signal;
	int kept = errno;
	heard_wrong += reads("e1");
	heard++;
	errno = kept;
}

static void *reader(void *path)
{
	long wrong = 0;
	for (int i = 0; i < 500; i++)
		wrong += reads(path);
	return (void *)wrong;
}

// Files that are opened to be read, each the one that was named: beside handlers, children and threads that open others, and where
// descriptors go whose numbers nobody knew.
static void opens(void)
{
	static const char *const paths[] = {"e1", "e2", "e3", "e4"};
	int wrong = 0, status;
	for (int i = 0; i < 4; i++) {
		int fd = open(paths[i], O_CREAT | O_WRONLY, 0600);
		(void)!write(fd, paths[i], 2);
		close(fd);
	}
	for (int i = 0; i < 300; i++)
		wrong += reads(paths[i % 4]);
	int plain = open("e1", O_RDONLY), cloexec = open("e1", O_RDONLY | O_CLOEXEC);
	printf("%d %d %d %d\n", wrong, cloexec - plain, fcntl(plain, F_GETFD), fcntl(cloexec, F_GETFD));
	close(plain);
	close(cloexec);

	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0}};
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 100000 && heard < 200; i++)
		wrong += reads(paths[i % 4]);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("handler %d %d %s\n", wrong, heard_wrong, heard >= 200 ? "often" : "rarely");

	for (int round = 0; round < 4; round++) {
		pid_t child = fork();
		for (int i = 0; i < 300; i++)
			wrong += reads(paths[(i + !child) % 4]);
		if (child == 0)
			_exit(wrong != 0);
		waitpid(child, &status, 0);
		printf("child %d %d\n", wrong, status);
	}

	// What one process closes another one may have still: then nothing is there where something was put. A handler that opens files comes
	// between now and then.
	for (int round = 0; round < 8; round++) {
		pid_t tries = fork();
		if (tries == 0) {
			for (int i = 0; i < 20; i++)
				wrong += reads(paths[i % 4]);
			pid_t keeps = fork();
			if (keeps == 0) {
				pause();
				_exit(0);
			}
			close_range(1020, 1020, 0);
			struct itimerval once = {{0}, {0, 10 + 60 * round}};
			setitimer(ITIMER_REAL, &once, NULL);
			for (int i = 0; i < 200; i++)
				wrong += reads(paths[i % 4]);
			kill(keeps, SIGKILL);
			waitpid(keeps, &status, 0);
			_exit((wrong | heard_wrong) != 0);
		}
		waitpid(tries, &status, 0);
		printf("missed %d\n", status);
	}

	// Its number, and one close by, are somebody else's, in whose place nothing is read.
	int ends[2];
	char byte = 0;
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	(void)!write(ends[1], "x", 1);
	dup2(ends[0], 1020);
	for (int i = 0; i < 300; i++)
		wrong += reads(paths[i % 4]);
	printf("own %d %zd %c %zd\n", wrong, recv(1020, &byte, 1, MSG_DONTWAIT), byte, recv(1020, &byte, 1, MSG_DONTWAIT));
	pid_t keeps = fork();
	if (keeps == 0) {
		pause();
		_exit(0);
	}
	for (int i = 0; i < 20; i++) {
		close_range(1000, 1020, 0);
		for (int j = 0; j < 40; j++)
			wrong += reads(paths[j % 4]);
	}
	kill(keeps, SIGKILL);
	waitpid(keeps, &status, 0);
	printf("closed %d\n", wrong);

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, reader, (void *)paths[i]);
	for (int i = 0; i < 4; i++) {
		void *mistakes;
		pthread_join(threads[i], &mistakes);
		wrong += (long)mistakes;
	}
	printf("threads %d\n", wrong);

	int number, last = 0;
	while ((number = open("e2", O_RDONLY)) >= 0)
		last = number;
	printf("%s", name(number));
	close(last);
	printf(" %d %s\n", open("e2", O_RDONLY) == last, name(open("e2", O_RDONLY)));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "registers"))
		registers();
	else if (!strcmp(what, "pointers"))
		pointers();
	else if (!strcmp(what, "changes"))
		changes(argv[2]);
	else if (!strcmp(what, "told"))
		told(argv[2]);
	else if (!strcmp(what, "processes"))
		processes();
	else if (!strcmp(what, "opens"))
		opens();
	else
		return 2;
	return 0;
}
