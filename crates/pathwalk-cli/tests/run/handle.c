/* The handle of a file, as text; and what is in a file by one, in a mount.
 *
 *   handle of FILE
 *   handle by HANDLE MOUNT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct handle {
	unsigned bytes;
	int type;
	unsigned char byte[128];
};

int main(int argc, char **argv)
{
	struct handle it = {.bytes = sizeof it.byte};
	unsigned char *text = (unsigned char *)&it;
	unsigned byte;
	int mount;
	char read_[256];
	if (argc == 3) {
		if (syscall(SYS_name_to_handle_at, AT_FDCWD, argv[2], &it, &mount, 0) < 0)
			return puts(strerrorname_np(errno)), 1;
		for (unsigned at = 0; at < 8 + it.bytes; at++)
			printf("%02x", text[at]);
		return puts(""), 0;
	}
	if (argc < 4 || strlen(argv[2]) < 18)
		return puts("no handle"), 1;
	for (unsigned at = 0; at < sizeof it && sscanf(argv[2] + 2 * at, "%2x", &byte) == 1; at++)
		text[at] = byte;
	int fd = syscall(SYS_open_by_handle_at, open(argv[3], O_RDONLY), &it, O_RDONLY);
	if (fd < 0)
		return puts(strerrorname_np(errno)), 1;
	long len = read(fd, read_, sizeof read_);
	return fwrite(read_, 1, len < 0 ? 0 : len, stdout), 0;
}
