// On how many CPUs those may run who were made by a program that had just begun, or that runs one program after the other.
//
//     stay loads     begins, and loads more than it needs
//     stay begins    begins, makes a thread and a process at once, and asks after a while
//     stay leaves    begins, makes a process and ends, a while before that one asks
//     stay daemon    begins, and makes a process that makes one and ends
//     stay runs      runs short programs, asks, makes a process and ends, a while before that one asks
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { A_WHILE = 20000, PROGRAMS = 12 };

static void say(const char *who)
{
	cpu_set_t set;
	char line[64];
	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof set, &set);
	int length = snprintf(line, sizeof line, "%s %d\n", who, CPU_COUNT(&set));
	write(1, line, length);
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

static void runs(void)
{
	char *arguments[] = {"true", NULL}, line[256];
	for (int count = 0; count < PROGRAMS; count++) {
		if (!vfork()) {
			execv("/bin/true", arguments);
			_exit(1);
		}
		wait(NULL);
	}
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		if (!strncmp(line, "Cpus_allowed_list", 17))
			write(1, line, strlen(line));
	for (int count = 0; count < PROGRAMS; count++) {
		if (!vfork()) {
			execv("/bin/true", arguments);
			_exit(1);
		}
		wait(NULL);
	}
	daemon_("daemon of who runs");
	if (!fork()) {
		usleep(A_WHILE);
		say("orphan");
	}
}

int main(int argc, char **argv)
{
	static const char *more[] = {"libm.so.6", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2"};
	if (argc != 2)
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
	else
		runs();
	return 0;
}
