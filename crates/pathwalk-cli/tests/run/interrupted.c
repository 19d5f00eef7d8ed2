// Who is interrupted, or interrupts others, where descriptors are taken and answers are found.
//
//     interrupted forks DIR     its handler forks: do both get what they named?
//     interrupted jumps DIR     its handler jumps away, some times; then it opens all files ten times
//     interrupted filters DIR   all its threads have a filter that kills who makes a call that none of them makes
//     interrupted opens DIR     its handler, which interrupted it, sets one that knows nothing of openat: how many calls were none of its own
//     interrupted handler DIR   so has one whose handler, that interrupted it, waits for that, or sets the filter itself
//     interrupted steps DIR     its handler, which interrupts it in front of each call that it does not make, sets one that kills for that
//
// In DIR there are `main/0` to `main/499`, and in each file its own path.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { FILES = 500, JUMPS = 20, AGAIN = 10, THREADS = 8 };

static char path[FILES][300], name[FILES][40];
static volatile int is_child, stop;
static sigjmp_buf away;

static int is_right(int number)
{
	char got[100] = "";
	int fd = open(path[number], O_RDONLY);
	int right = fd >= 0 && pread(fd, got, sizeof got - 1, 0) >= 0 && strcmp(got, name[number]) == 0;
	if (!right)
		dprintf(1, "%s is %s\n", name[number], got);
	close(fd);
	return right;
}

/* Some processes open all in order first, so that it is known what is opened next. */
static void in_order(void)
{
	for (int turn = 0; turn < 3; turn++) {
		if (fork() == 0) {
			for (int number = 0; number < FILES; number++)
				is_right(number);
			_exit(0);
		}
		wait(NULL);
	}
}

/* How many interruptions are over, and how many of the children that they made. */
static struct {
	int interruptions, children;
} *over;

static void count(int *one_more)
{
	__atomic_add_fetch(one_more, 1, __ATOMIC_SEQ_CST);
}

static void forks(int signal)
{
	(void)signal;
	pid_t child = fork();
	if (child == 0) {
		is_child = 1;
		return;
	}
	if (child < 0)
		count(&over->children);
	count(&over->interruptions);
}

/* Whether there were so many and nobody is left of them. */
static int are_over(int interruptions)
{
	return __atomic_load_n(&over->interruptions, __ATOMIC_SEQ_CST) == interruptions &&
	       __atomic_load_n(&over->children, __ATOMIC_SEQ_CST) == interruptions;
}

static int who_forks(void)
{
	in_order();
	over = mmap(NULL, sizeof *over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t one = fork();
	if (one == 0) {
		struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
		sigaction(SIGUSR1, &action, NULL);
		signal(SIGCHLD, SIG_IGN);
		long wrong = 0;
		time_t end = time(NULL) + 5;
		for (int number = 0; time(NULL) < end; number = (number + 1) % FILES) {
			wrong += !is_right(number);
			if (is_child) {
				count(&over->children);
				_exit(0);
			}
		}
		/* Who comes of the last interruption says nothing. */
		signal(SIGUSR1, SIG_IGN);
		if (!is_child)
			dprintf(1, "%ld wrong\n", wrong);
		_exit(0);
	}
	usleep(100000);
	/* One after the other: where a fork takes longer than it is until the next signal it would do nothing else, and children would pile up. */
	for (int sent = 0; waitpid(one, NULL, WNOHANG) == 0; usleep(700 + rand() % 600)) {
		if (are_over(sent)) {
			kill(one, SIGUSR1);
			sent++;
		}
	}
	return 0;
}

static void jumps(int signal)
{
	(void)signal;
	siglongjmp(away, 1);
}

static int who_jumps(void)
{
	in_order();
	if (fork() == 0) {
		struct sigaction action = {.sa_handler = jumps};
		sigaction(SIGALRM, &action, NULL);
		for (int jump = 0; jump < JUMPS; jump++) {
			if (sigsetjmp(away, 1))
				continue;
			ualarm(300 + rand() % 500, 0);
			for (int number = 0;; number = (number + 1) % FILES)
				close(open(path[number], O_RDONLY));
		}
		/* What was open when it jumped stays so. */
		long wrong = 0;
		for (int number = 0; number < AGAIN * FILES; number++)
			wrong += !is_right(number % FILES);
		dprintf(1, "%ld wrong\n", wrong);
		_exit(0);
	}
	wait(NULL);
	return 0;
}

static volatile int in_handler, done, sets_itself;

/* A filter that does this with one call. */
static long filters(int call, unsigned does, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, does),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {4, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

static long sets_filter(unsigned flags)
{
	return filters(SYS_epoll_wait, SECCOMP_RET_KILL_PROCESS, flags);
}

static void in_between(int signal)
{
	struct timespec moment = {0, 1000000};
	(void)signal;
	in_handler = 1;
	if (sets_itself) {
		sets_filter(0);
		done = 1;
	}
	while (!done)
		nanosleep(&moment, NULL);
}

static void *looks(void *nothing)
{
	struct stat stat_;
	while (!stop)
		stat(path[0], &stat_);
	return nothing;
}

static int who_filters(void)
{
	pthread_t threads[THREADS];
	struct stat stat_;
	for (int time = 0; time < 200; time++)
		stat(path[0], &stat_);
	for (int thread = 0; thread < THREADS; thread++)
		pthread_create(&threads[thread], NULL, looks, NULL);
	usleep(50000);
	long answer = sets_filter(SECCOMP_FILTER_FLAG_TSYNC);
	usleep(50000);
	stop = 1;
	for (int thread = 0; thread < THREADS; thread++)
		pthread_join(threads[thread], NULL);
	printf("%ld\n", answer);
	return 0;
}

static int who_is_interrupted(void)
{
	int killed = 0;
	for (int turn = 0; turn < 40; turn++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			struct sigaction action = {.sa_handler = in_between, .sa_flags = SA_RESTART};
			struct stat stat_;
			pthread_t thread;
			sets_itself = turn % 2;
			sigaction(SIGUSR1, &action, NULL);
			for (int time = 0; time < 300; time++)
				stat(path[0], &stat_);
			pthread_create(&thread, NULL, looks, NULL);
			usleep(20000 + turn * 137 % 1000);
			pthread_kill(thread, SIGUSR1);
			while (!in_handler || (sets_itself && !done))
				usleep(100);
			long answer = sets_itself ? 0 : sets_filter(SECCOMP_FILTER_FLAG_TSYNC);
			done = 1;
			usleep(5000);
			stop = 1;
			pthread_join(thread, NULL);
			_exit(answer != 0);
		}
		waitpid(child, &status, 0);
		killed += status != 0;
	}
	printf("%d\n", killed);
	return 0;
}

static int before, until, met;

/* After each instruction: what comes next is a call that only the image makes. */
static void at_step(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *next = (const unsigned char *)registers[REG_RIP];
	(void)signal, (void)info;
	if (next[0] != 0x0f || next[1] != 0x05 || registers[REG_RIP] >> 40 != 0x55 || registers[REG_RAX] == SYS_newfstatat)
		return;
	met++;
	if (before++ == until)
		filters(registers[REG_RAX], SECCOMP_RET_KILL_PROCESS, 0);
}

static int who_steps(void)
{
	int killed = 0, status = 0, calls = 0;
	for (until = 0; until == calls; until++) {
		pid_t child = fork();
		if (child == 0) {
			struct sigaction action = {.sa_sigaction = at_step, .sa_flags = SA_SIGINFO};
			struct stat stat_;
			sigaction(SIGTRAP, &action, NULL);
			for (int time = 0; time < 300; time++)
				stat(path[0], &stat_);
			__asm__ volatile("sub $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq; add $128, %%rsp" ::: "cc", "memory");
			int answer = stat(path[0], &stat_);
			__asm__ volatile("sub $128, %%rsp; pushfq; andl $~0x100, (%%rsp); popfq; add $128, %%rsp" ::: "cc", "memory");
			_exit(answer || stat_.st_size != 6 ? 2 : met > until);
		}
		waitpid(child, &status, 0);
		int has_met = WIFEXITED(status) && WEXITSTATUS(status) == 1;
		calls += has_met || WIFSIGNALED(status);
		killed += !has_met && status != 0;
	}
	printf("%d of %s\n", killed, calls > 1 ? "some" : "none");
	return 0;
}

static int forks_first;

static void sets_for_opening(int signal)
{
	(void)signal;
	/* Who comes of it has what is open, and no other number for it. */
	if (forks_first && fork() == 0) {
		is_child = done = 1;
		return;
	}
	done = filters(SYS_openat, SECCOMP_RET_TRAP, 0) == 0;
}

/* What it was about to open it may not open then. */
static void is_trapped(int signal, siginfo_t *info, void *context)
{
	ucontext_t *registers = context;
	(void)signal, (void)info;
	_exit(registers->uc_mcontext.gregs[REG_RDI] == AT_FDCWD && !registers->uc_mcontext.gregs[REG_RSI] ? 9 : 0);
}

static int who_opens(void)
{
	int others = 0;
	in_order();
	for (int turn = 0; turn < 60; turn++) {
		int status, fd = -1;
		pid_t child = fork();
		if (child == 0) {
			struct sigaction sets = {.sa_handler = sets_for_opening, .sa_flags = SA_RESTART};
			struct sigaction traps = {.sa_sigaction = is_trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
			sigaction(SIGALRM, &sets, NULL);
			sigaction(SIGSYS, &traps, NULL);
			forks_first = turn % 2;
			ualarm(3000 + turn * 37 % 2000, 0);
			for (int number = 0; !done; number = (number + 1) % FILES) {
				fd = open(path[number], O_RDONLY);
				if (done)
					break;
				close(fd);
				fd = -1;
			}
			char byte;
			if (is_child && fd >= 0 && read(fd, &byte, 1) != 1)
				printf("nothing is open by %d\n", fd), fflush(stdout);
			_exit(0);
		}
		waitpid(child, &status, 0);
		/* Of two that were about to take one, one asks again. */
		others += status != 0 && turn % 2 == 0;
	}
	printf("%d\n", others);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int number = 0; number < FILES; number++) {
		snprintf(name[number], sizeof name[number], "main/%d", number);
		snprintf(path[number], sizeof path[number], "%s/%s", argv[2], name[number]);
	}
	switch (argv[1][0]) {
	case 'f':
		return argv[1][1] == 'o' ? who_forks() : who_filters();
	case 'o':
		return who_opens();
	case 'h':
		return who_is_interrupted();
	case 's':
		return who_steps();
	default:
		return who_jumps();
	}
}
