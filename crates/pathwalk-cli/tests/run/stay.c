// On how many CPUs those may run who were made by a program that had just begun, or that runs one program after the other.
//
//     stay loads     begins, and loads more than it needs
//     stay begins    begins, makes a thread and a process at once, and asks after a while
//     stay leaves    begins, makes a process and ends, a while before that one asks
//     stay daemon    begins, and makes a process that makes one and ends
//     stay runs      runs short programs, asks, makes a process and ends, a while before that one asks
//     stay told      runs programs, and asks about each at once
//     stay binds     runs a program, says at once where that may run, and asks a while later
//     stay asks      has much memory, runs short programs, and makes a process that asks at once; three times
//     stay reaps P…  runs that as who is given its orphans
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { A_WHILE = 20000, PROGRAMS = 12, MUCH = 64 << 20 };

static void say_of(pid_t process, const char *who)
{
	cpu_set_t set;
	char line[64];
	CPU_ZERO(&set);
	sched_getaffinity(process, sizeof set, &set);
	int length = snprintf(line, sizeof line, "%s %d\n", who, CPU_COUNT(&set));
	write(1, line, length);
}

static void say(const char *who)
{
	say_of(0, who);
}

static void *thread(void *unused)
{
	usleep(A_WHILE);
	say("thread");
	return unused;
}

static void begins(void)
{
	pthread_t made;
	pthread_create(&made, NULL, thread, NULL);
	if (!fork()) {
		usleep(2 * A_WHILE);
		say("process");
		_exit(0);
	}
	usleep(3 * A_WHILE);
	say("program");
	pthread_join(made, NULL);
	wait(NULL);
}

static void leaves(void)
{
	if (!fork()) {
		usleep(A_WHILE);
		say("left");
	}
}

/* Whose parent is neither the program nor who it came of. */
static void daemon_(const char *who)
{
	if (!fork()) {
		if (!fork()) {
			usleep(A_WHILE);
			say(who);
		}
		_exit(0);
	}
	wait(NULL);
}

static void run_short(void)
{
	char *arguments[] = {"true", NULL};
	for (int count = 0; count < PROGRAMS; count++) {
		if (!vfork()) {
			execv("/bin/true", arguments);
			_exit(1);
		}
		wait(NULL);
	}
}

/* A program that waits until this end is closed, or this process ends. */
static pid_t run_cat(int *end)
{
	char *arguments[] = {"cat", NULL};
	int ends[2];
	pipe2(ends, 02000000); /* O_CLOEXEC */
	pid_t made = vfork();
	if (!made) {
		dup2(ends[0], 0);
		execv("/bin/cat", arguments);
		_exit(1);
	}
	close(ends[0]);
	*end = ends[1];
	return made;
}

static void told(void)
{
	for (int count = 0; count < PROGRAMS; count++) {
		int end;
		pid_t made = run_cat(&end);
		say_of(made, "cat");
		close(end);
		wait(NULL);
	}
}

static void binds(void)
{
	cpu_set_t set;
	int end, cpu = 0;
	sched_getaffinity(0, sizeof set, &set);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pid_t made = run_cat(&end);
	sched_setaffinity(made, sizeof set, &set);
	usleep(A_WHILE);
	say_of(made, "bound");
	close(end);
	wait(NULL);
}

static void asks(void)
{
	memset(mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, MUCH);
	for (int count = 0; count < 3; count++) {
		run_short();
		if (!fork()) {
			say("who was just made");
			_exit(0);
		}
		wait(NULL);
	}
}

static void reaps(char **arguments)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork()) {
		execvp(arguments[0], arguments);
		_exit(1);
	}
	while (wait(NULL) > 0)
		;
}

static void runs(void)
{
	char line[256];
	run_short();
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		if (!strncmp(line, "Cpus_allowed_list", 17))
			write(1, line, strlen(line));
	run_short();
	daemon_("daemon of who runs");
	if (!fork()) {
		usleep(A_WHILE);
		say("orphan");
	}
}

int main(int argc, char **argv)
{
	static const char *more[] = {"libm.so.6", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2"};
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "loads"))
		for (int index = 0; index < 5; index++)
			dlopen(more[index], RTLD_NOW);
	else if (!strcmp(argv[1], "begins"))
		begins();
	else if (!strcmp(argv[1], "leaves"))
		leaves();
	else if (!strcmp(argv[1], "daemon"))
		daemon_("daemon"), usleep(2 * A_WHILE);
	else if (!strcmp(argv[1], "told"))
		told();
	else if (!strcmp(argv[1], "binds"))
		binds();
	else if (!strcmp(argv[1], "asks"))
		asks();
	else if (!strcmp(argv[1], "reaps"))
		reaps(argv + 2);
	else
		runs();
	return 0;
}
