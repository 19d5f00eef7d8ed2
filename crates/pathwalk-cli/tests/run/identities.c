/* Makes calls about credentials at random, and says what each answers and who one is then; and runs itself as set-id programs. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long state;

static unsigned below(unsigned most)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (state >> 33) % most;
}

/* Few of them, so that they meet. */
static int id(void)
{
	return (int[]){0, 0, 5, 6, 7, -1}[below(6)];
}

static unsigned caps(void)
{
	unsigned some = below(2) ? ~0U : 1U << CAP_SETPCAP | 1U << CAP_SETUID | 1U << CAP_CHOWN | 1U << CAP_SETGID;
	return some & ~(1U << CAP_SYS_RESOURCE) & ~(below(3) ? 0 : 1U << below(9));
}

static long get(unsigned version, int pid, struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = {version, pid};
	return syscall(SYS_capget, &header, data);
}

static void who(void)
{
	unsigned u[3], g[3], groups[16];
	struct __user_cap_data_struct data[2] = {0};
	syscall(SYS_getresuid, &u[0], &u[1], &u[2]);
	syscall(SYS_getresgid, &g[0], &g[1], &g[2]);
	long count = syscall(SYS_getgroups, 16, groups);
	printf(" | %d %d %d (%ld), %d %d %d (%ld),", u[0], u[1], u[2], syscall(SYS_setfsuid, -1), g[0], g[1], g[2],
	       syscall(SYS_setfsgid, -1));
	for (long i = 0; i < count; i++)
		printf(" %d", groups[i]);
	get(_LINUX_CAPABILITY_VERSION_3, 0, data);
	printf(" | e %x%08x p %x%08x i %x%08x bits %x nnp %d keep %d a", data[1].effective, data[0].effective, data[1].permitted,
	       data[0].permitted, data[1].inheritable, data[0].inheritable, prctl(PR_GET_SECUREBITS),
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_KEEPCAPS));
	for (int cap = 0; cap < 41; cap++)
		printf("%d", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) + 2 * prctl(PR_CAPBSET_READ, cap));
	printf("\n");
}

static void said(const char *what, long answer)
{
	printf("%s %s %ld", what, answer < 0 ? strerrorname_np(errno) : "yes", answer < 0 ? 0 : answer);
	who();
}

static long call(const char **what)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {0};
	unsigned groups[4];
	int count = below(5);
#define CALL(which) (*what = #which, which)
	switch (below(18)) {
	case 0: return CALL(syscall(SYS_setuid, id()));
	case 1: return CALL(syscall(SYS_setgid, id()));
	case 2: return CALL(syscall(SYS_setreuid, id(), id()));
	case 3: return CALL(syscall(SYS_setregid, id(), id()));
	case 4: return CALL(syscall(SYS_setresuid, id(), id(), id()));
	case 5: return CALL(syscall(SYS_setresgid, id(), id(), id()));
	case 6: return CALL(syscall(SYS_setfsuid, id()));
	case 7: return CALL(syscall(SYS_setfsgid, id()));
	case 8:
		for (int i = 0; i < count; i++)
			groups[i] = below(9) ? below(8) : -1;
		return CALL(syscall(SYS_setgroups, count, groups));
	case 9: return CALL(syscall(SYS_setgroups, 65537 - 2 * below(2), 8));
	case 10: return CALL(syscall(SYS_getgroups, (int)below(4) - 1, groups));
	case 11:
	case 12:
		for (int half = 0; half < 2; half++)
			data[half] = (struct __user_cap_data_struct){caps(), caps(), below(2) ? caps() : 0};
		if (below(2))
			data[0].permitted |= data[0].effective, data[1].permitted |= data[1].effective;
		return CALL(syscall(SYS_capset, &header, data));
	case 13: return CALL(prctl(PR_CAPBSET_DROP, below(4) ? 20 + below(23) : -1, 0, 0, 0));
	case 14: return CALL(prctl(PR_SET_SECUREBITS, below(3) ? 1 << below(14) | 1 << below(14) : 0, 0, 0, 0));
	case 15: return CALL(prctl(PR_SET_KEEPCAPS, below(3), 0, 0, 0));
	case 16: return CALL(prctl(PR_CAP_AMBIENT, 1 + below(5), below(3) ? below(9) : 0, 0, below(20) == 0));
	default: return CALL(below(5) ? get(0x19980330, 0, data) : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	}
}

/* DIRECTORY CALLS EXECS SEED: goes on for so many executions of one of the programs there. */
int main(int count, char **args)
{
	if (count < 5)
		return 2;
	state = strtoul(args[4], NULL, 10);
	int calls = atoi(args[2]), execs = atoi(args[3]);
	/* Who runs this may lack it. */
	prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
	if (args[0][0] != '/') {
		struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
		struct __user_cap_data_struct data[2] = {0}, none[2] = {0};
		get(_LINUX_CAPABILITY_VERSION_3, 0, data);
		data[0].effective &= ~(1U << CAP_SYS_RESOURCE), data[0].permitted &= ~(1U << CAP_SYS_RESOURCE);
		syscall(SYS_capset, &header, data);
		said("version", get(1, 0, none));
		said("version alone", get(1, 0, NULL));
		said("nobody", get(_LINUX_CAPABILITY_VERSION_3, -1, none));
		header.pid = 1;
		said("another", syscall(SYS_capset, &header, none));
	}
	printf("%s secure %lu as %lu %lu %lu %lu", args[0], getauxval(AT_SECURE), getauxval(AT_UID), getauxval(AT_EUID),
	       getauxval(AT_GID), getauxval(AT_EGID));
	who();
	for (int i = 0; i < calls; i++) {
		const char *what = "";
		long answer = call(&what);
		said(what, answer);
	}
	fflush(stdout);
	if (execs == 0)
		return 0;
	static const char *const programs[] = {"plain", "user", "group", "both", "own", "none"};
	char path[4096], left[16], seed[32];
	snprintf(path, sizeof path, "%s/%s", args[1], programs[below(6)]);
	snprintf(left, sizeof left, "%d", execs - 1);
	snprintf(seed, sizeof seed, "%lu", state);
	execl(path, path, args[1], args[2], left, seed, NULL);
	said("exec", -1);
	return 0;
}
