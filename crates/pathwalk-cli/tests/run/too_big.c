// How a program is run whose path is long, and whose arguments just fit or do not.
//
//     too_big LENGTH STACK SPACE FROM TO STEP    by a path of so many bytes, with so large a stack and address space (0: as it is), for
//                                                each size of all arguments in between: how many ran, were too big, or were killed
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EACH = 100000, MOST = 64 };

static char path[8192];

static void runs(long size, long space)
{
	char *arguments[MOST] = {"true"}, *environment[] = {NULL};
	for (int count = 1; size > 0 && count < MOST - 1; count++) {
		long length = size > EACH ? EACH : size;
		arguments[count] = malloc(length);
		memset(arguments[count], 'x', length - 1);
		arguments[count][length - 1] = 0;
		size -= length;
	}
	if (space) {
		struct rlimit limit = {space, space};
		setrlimit(RLIMIT_AS, &limit);
	}
	execve(path, arguments, environment);
	_exit(errno == E2BIG ? 1 : 2);
}

int main(int argc, char **argv)
{
	long given[6], ended[3] = {0}, killed = 0;
	struct rlimit limit;
	if (argc != 7)
		return 2;
	for (int index = 0; index < 6; index++)
		given[index] = atol(argv[index + 1]);
	strcpy(path, "/usr");
	while ((long)strlen(path) < given[0] - 12)
		strcat(path, "/.");
	strcat(path, "/bin/true");
	if (given[1]) {
		getrlimit(RLIMIT_STACK, &limit);
		limit.rlim_cur = given[1];
		setrlimit(RLIMIT_STACK, &limit);
	}
	for (long size = given[3]; size <= given[4]; size += given[5]) {
		int status;
		pid_t child = fork();
		if (child == 0)
			runs(size, given[2]);
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			killed++;
		else
			ended[WEXITSTATUS(status) % 3]++;
	}
	printf("%ld ran, %ld too big, %ld failed, %ld killed\n", ended[0], ended[1], ended[2], killed);
	return 0;
}
