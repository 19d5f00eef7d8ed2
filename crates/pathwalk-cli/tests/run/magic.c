/* Opens what links in /proc lead to with each flag of openat2(2), and says what came of it. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *paths[] = {
	"self", "self/root", "self/root/etc/passwd", "self/root/proc/self/stat", "thread-self/root",
	"self/cwd", "self/exe", "self/ns/mnt", "self/fd/70", "self/fd/71", "mounts",
};

static const struct {
	const char *name;
	unsigned long flags;
} resolves[] = {
	{"-", 0},
	{"no magic links", RESOLVE_NO_MAGICLINKS},
	{"no symlinks", RESOLVE_NO_SYMLINKS},
	{"beneath", RESOLVE_BENEATH},
	{"in root", RESOLVE_IN_ROOT},
	{"no xdev", RESOLVE_NO_XDEV},
	{"beneath, no magic links", RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS},
	{"no xdev, no magic links", RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS},
};

static const struct {
	const char *name;
	unsigned long flags;
} opens[] = {
	{"read", O_RDONLY | O_NONBLOCK}, {"path", O_PATH}, {"link", O_PATH | O_NOFOLLOW},
};

#define EACH(i, array) (unsigned i = 0; i < sizeof array / sizeof *array; i++)

int main(void)
{
	int ends[2], memory = memfd_create("memory", 0), proc = open("/proc", O_PATH);
	if (pipe(ends) || dup2(ends[0], 70) != 70 || dup2(memory, 71) != 71 || proc < 0)
		return 1;
	for EACH (p, paths)
		for EACH (r, resolves)
			for EACH (o, opens) {
				struct open_how how = {.flags = opens[o].flags, .resolve = resolves[r].flags};
				int fd = syscall(SYS_openat2, proc, paths[p], &how, sizeof how);
				printf("%s, %s, %s: %s\n", paths[p], resolves[r].name, opens[o].name,
				       fd < 0 ? strerror(errno) : "opened");
				close(fd);
			}
	return 0;
}
