// Who is interrupted before he takes what he opened, while what lies ready for others is taken back: does each get what he named?
//
//     ready DIR        in DIR there are `warm/0` to `warm/7`, `below/0` to `below/39`, `main/0` to `main/499` and `handler/0` to
//                      `handler/499`, and in each file its own path
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 500, HOLDERS = 40, KEPT = 40, TIMES = 200 };

static const char *top;
static int go[2], came[2];
static int wrong, handled;

static void check(const char *dir, int number)
{
	char path[300], name[100], got[100] = "";
	snprintf(name, sizeof name, "%s/%d", dir, number);
	snprintf(path, sizeof path, "%s/%s", top, name);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, got, sizeof got - 1) < 0 || strcmp(got, name) != 0) {
		wrong++;
		dprintf(1, "%s is %s\n", name, got);
	}
	close(fd);
}

static void in_order(int count)
{
	for (int number = 0; number < 8; number++)
		check("warm", number);
	for (int number = 0; number < count; number++)
		check("below", number);
}

/* Somebody else has descriptors laid ready meanwhile, for which room is made. */
static void handler(int signal)
{
	char byte;
	(void)signal;
	if (write(go[1], "x", 1) == 1 && read(came[0], &byte, 1) == 1)
		check("handler", handled++ % FILES);
}

/* Has a child open some files in order each time, of which the last ones stay. */
static void others(void)
{
	pid_t kept[KEPT] = {0};
	char byte;
	for (int turn = 0; read(go[0], &byte, 1) == 1; turn++) {
		pid_t *child = &kept[turn % KEPT];
		if (*child) {
			kill(*child, SIGKILL);
			waitpid(*child, NULL, 0);
		}
		*child = fork();
		if (*child == 0) {
			in_order(9 + turn % 25);
			if (write(came[1], "y", 1) == 1)
				pause();
			_exit(0);
		}
	}
	for (int turn = 0; turn < KEPT; turn++)
		if (kept[turn])
			kill(kept[turn], SIGKILL);
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t holders[HOLDERS];
	top = argv[argc - 1];
	for (int turn = 0; turn < 4; turn++) {
		if (fork() == 0) {
			in_order(40);
			_exit(0);
		}
		wait(NULL);
	}
	for (int holder = 0; holder < HOLDERS; holder++) {
		holders[holder] = fork();
		if (holders[holder] == 0) {
			in_order(3 + holder * 7 % 30);
			pause();
		}
		usleep(5000);
	}
	if (pipe(go) || pipe(came))
		return 1;
	pid_t other = fork();
	if (other == 0) {
		close(go[1]);
		others();
	}
	/* Before there is anybody to be interrupted: who has no handler yet is killed. */
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	pid_t one = fork();
	if (one == 0) {
		for (int turn = 0; handled < TIMES; turn++)
			check("main", turn % FILES);
		printf("%s, %d wrong\n", handled ? "interrupted" : "never interrupted", wrong);
		fflush(stdout);
		_exit(0);
	}
	usleep(20000);
	while (waitpid(one, NULL, WNOHANG) == 0) {
		kill(one, SIGUSR1);
		usleep(3000 + rand() % 1000);
	}
	close(go[1]);
	waitpid(other, NULL, 0);
	for (int holder = 0; holder < HOLDERS; holder++)
		kill(holders[holder], SIGKILL);
	return 0;
}
