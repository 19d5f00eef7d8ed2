/* What all attackers share: the words in which they say what came of a try. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static inline const char *name(long answer)
{
	return answer >= 0 ? "REACHED" : strerrorname_np(errno);
}

/* Whether an open file is the secret. */
static inline int is_secret(int fd)
{
	char text[64] = {0};
	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return 0;
	return strstr(text, "secret") != NULL;
}

static inline void said(const char *what, const char *answer)
{
	printf("%s %s\n", what, answer);
	fflush(stdout);
}
