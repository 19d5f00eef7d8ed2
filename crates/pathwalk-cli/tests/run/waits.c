// Who waits in a call with a path in it, and is interrupted, stopped or traced meanwhile. What it says is the same natively.
//
//     waits DIR     DIR is empty
//
// Each scenario says what the call answered, how often the handler ran, and whether it was waited for the other end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A signal comes after the first, and the other end after the second. */
enum { SOON = 150000, LATER = 600000, EVENTS = 4 };

static int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void handle(int signal, void (*by)(int), int flags)
{
	struct sigaction action = {.sa_handler = by, .sa_flags = flags};
	sigaction(signal, &action, NULL);
}

static void block(int how, int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(how, &set, NULL);
}

static const char *said(long answer)
{
	return answer >= 0 ? "done" : errno == 512 ? "ERESTARTSYS" : strerrorname_np(errno);
}

/* Opens the end that who reads waits for, and closes it; whether there was somebody. */
static int is_read(void)
{
	int fd = open("fifo", O_WRONLY | O_NONBLOCK);
	return fd >= 0 ? close(fd), 1 : 0;
}

/* Reports how a child ended. */
static void ended(const char *name, pid_t child, int found)
{
	int status;
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s: killed by %d, %d\n", name, WTERMSIG(status), found);
	else
		printf("%s: ended with %d, %d\n", name, WEXITSTATUS(status), found);
	fflush(stdout);
}

/* What is done to a child that is about to open the fifo. */
enum { NO_RESTART, RESTART, BLOCKED, IGNORED, DEFAULT };

static void opens(const char *name, int access, int signal, int how, int times)
{
	int to_parent[2];
	char byte;
	pipe(to_parent);
	pid_t child = fork();
	if (child == 0) {
		struct stat stat_;
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		/* As who found answers before. */
		for (int time = 0; time < 200; time++)
			stat("fifo", &stat_);
		if (how == NO_RESTART || how == RESTART)
			handle(signal, handler, how == RESTART ? SA_RESTART : 0);
		if (how == BLOCKED) {
			handle(signal, handler, 0);
			block(SIG_BLOCK, signal);
		}
		if (how == IGNORED)
			handle(signal, SIG_IGN, 0);
		write(to_parent[1], "", 1);
		int fd = open("fifo", access);
		printf("%s: %s, handled %d\n", name, said(fd), handled);
		fflush(stdout);
		if (fd < 0) {
			/* Nobody waits there any more. */
			printf("%s: and then %d\n", name, access == O_RDONLY && is_read());
			fflush(stdout);
		}
		_exit(0);
	}
	read(to_parent[0], &byte, 1);
	for (int time = 0; time < times; time++) {
		usleep(SOON);
		kill(child, signal);
	}
	usleep(LATER);
	int state = 0;
	if (signal == SIGSTOP || signal == SIGTSTP) {
		pid_t stopped = waitpid(child, &state, WUNTRACED | WNOHANG);
		printf("%s: stopped %d\n", name, stopped == child && WIFSTOPPED(state));
		kill(child, SIGCONT);
		usleep(LATER);
	}
	/* For writing it is found by nobody who waited in vain: a reader may be there without a writer. */
	int found = access == O_RDONLY && is_read();
	if (access == O_WRONLY)
		close(open("fifo", O_RDONLY | O_NONBLOCK));
	ended(name, child, found);
	close(to_parent[0]);
	close(to_parent[1]);
}

static void *waits(void *name)
{
	block(SIG_UNBLOCK, SIGUSR1);
	int fd = open("fifo", O_RDONLY);
	printf("%s: %s, handled %d\n", (char *)name, said(fd), handled);
	fflush(stdout);
	return NULL;
}

static void *waits_for_one(void *name)
{
	int fd = open("fifo", O_RDONLY);
	printf("%s: %s\n", (char *)name, said(fd));
	fflush(stdout);
	return NULL;
}

/* The same of one of two threads: the first one takes the signal, or none but the other may. */
static void of_two(const char *name, int first_takes, int flags, int signal)
{
	pid_t child = fork();
	if (child == 0) {
		pthread_t thread;
		handle(SIGUSR1, handler, flags);
		block(SIG_BLOCK, SIGUSR1);
		pthread_create(&thread, NULL, waits, (void *)name);
		if (first_takes)
			block(SIG_UNBLOCK, SIGUSR1);
		pthread_join(thread, NULL);
		_exit(0);
	}
	usleep(LATER);
	kill(child, signal);
	usleep(LATER);
	if (signal == SIGSTOP) {
		int state = 0;
		pid_t stopped = waitpid(child, &state, WUNTRACED | WNOHANG);
		printf("%s: stopped %d\n", name, stopped == child && WIFSTOPPED(state));
		kill(child, SIGCONT);
		usleep(LATER);
	}
	ended(name, child, is_read());
}

/* Many signals, of which each is taken by one of some threads that wait. */
static void of_many(const char *name)
{
	enum { THREADS = 3, SIGNALS = 300 };
	pid_t child = fork();
	if (child == 0) {
		pthread_t thread[THREADS];
		handle(SIGUSR1, handler, SA_RESTART);
		for (int one = 0; one < THREADS; one++)
			pthread_create(&thread[one], NULL, waits_for_one, (void *)name);
		for (int one = 0; one < THREADS; one++)
			pthread_join(thread[one], NULL);
		printf("%s: handled %d\n", name, handled > 0);
		fflush(stdout);
		_exit(0);
	}
	usleep(SOON);
	for (int sent = 0; sent < SIGNALS; sent++, usleep(3000))
		kill(child, SIGUSR1);
	/* All of them find it at once or none. */
	usleep(LATER);
	int end = open("fifo", O_WRONLY);
	usleep(LATER);
	close(end);
	ended(name, child, 0);
}

/* The parent traces the one who waits: it hears of the signal, and hands it on or not. */
static void traced(const char *name, int signal, int hands_on)
{
	pid_t child = fork();
	int state, found = 0;
	if (child == 0) {
		handle(SIGUSR1, handler, 0);
		usleep(SOON);
		int fd = open("fifo", O_RDONLY);
		printf("%s: %s, handled %d\n", name, said(fd), handled);
		fflush(stdout);
		_exit(0);
	}
	ptrace(PTRACE_SEIZE, child, 0, 0);
	usleep(LATER);
	kill(child, signal);
	for (int turn = 0; turn < 20; turn++, usleep(SOON / 3)) {
		if (waitpid(child, &state, WNOHANG) == child && WIFSTOPPED(state)) {
			printf("%s: hears of %d\n", name, WSTOPSIG(state));
			ptrace(PTRACE_CONT, child, 0, hands_on ? signal : 0);
		}
	}
	if (!hands_on)
		found = is_read();
	ended(name, child, found);
}

static struct sockaddr_un socket_address = {.sun_family = AF_UNIX, .sun_path = "socket"};

static int bound(int kind)
{
	unlink("socket");
	int server = socket(AF_UNIX, kind, 0);
	bind(server, (struct sockaddr *)&socket_address, sizeof socket_address);
	return server;
}

static void limit(int socket, int milliseconds)
{
	struct timeval time = {milliseconds / 1000, milliseconds % 1000 * 1000};
	if (milliseconds)
		setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static void connects(const char *name, int how, int timeout)
{
	int server = bound(SOCK_STREAM), accepted = 0;
	listen(server, 0);
	int first = socket(AF_UNIX, SOCK_STREAM, 0);
	connect(first, (struct sockaddr *)&socket_address, sizeof socket_address);
	pid_t child = fork();
	if (child == 0) {
		int second = socket(AF_UNIX, SOCK_STREAM, 0);
		handle(SIGUSR1, handler, how == RESTART ? SA_RESTART : 0);
		if (how == BLOCKED)
			block(SIG_BLOCK, SIGUSR1);
		limit(second, timeout);
		int answer = connect(second, (struct sockaddr *)&socket_address, sizeof socket_address);
		printf("%s: %s, handled %d\n", name, said(answer), handled);
		fflush(stdout);
		_exit(0);
	}
	usleep(LATER);
	kill(child, SIGUSR1);
	usleep(LATER);
	fcntl(server, F_SETFL, O_NONBLOCK);
	for (int turn = 0; turn < EVENTS; turn++, usleep(SOON))
		accepted += accept(server, NULL, NULL) >= 0;
	ended(name, child, accepted);
	close(first);
	close(server);
}

/* Datagrams to a path whose queue is full; or bytes into a stream that nobody reads. */
static void sends(const char *name, int kind, int how, int timeout)
{
	char data[100000] = "";
	int server = -1, pair[2] = {-1, -1}, received = 0;
	if (kind == SOCK_DGRAM)
		server = bound(kind);
	else
		socketpair(AF_UNIX, kind, 0, pair);
	pid_t child = fork();
	if (child == 0) {
		int client = kind == SOCK_DGRAM ? socket(AF_UNIX, kind, 0) : pair[0];
		struct iovec piece = {data, kind == SOCK_DGRAM ? 1 : sizeof data};
		struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
		if (kind == SOCK_DGRAM) {
			message.msg_name = &socket_address;
			message.msg_namelen = sizeof socket_address;
		}
		handle(SIGUSR1, handler, how == RESTART ? SA_RESTART : 0);
		/* Full, but for what a signal finds in the middle. */
		while (sendmsg(client, &message, MSG_DONTWAIT) >= 0)
			;
		piece.iov_len = 1;
		while (sendmsg(client, &message, MSG_DONTWAIT) >= 0)
			;
		limit(client, timeout);
		long answer = sendmsg(client, &message, 0);
		printf("%s: %s, handled %d\n", name, said(answer), handled);
		fflush(stdout);
		_exit(0);
	}
	usleep(LATER);
	kill(child, SIGUSR1);
	usleep(LATER);
	/* What was sent is there, and what was interrupted is not. */
	int from = kind == SOCK_DGRAM ? server : pair[1];
	fcntl(from, F_SETFL, O_NONBLOCK);
	for (int turn = 0; turn < EVENTS; turn++, usleep(SOON)) {
		long got;
		while ((got = read(from, data, sizeof data)) > 0)
			received += kind == SOCK_DGRAM;
	}
	ended(name, child, received);
	close(server);
	close(pair[0]);
	close(pair[1]);
}

/* How many are begun at once. */
enum { AT_ONCE = 8 };

static char where[40];

/* Does one scenario in a directory of its own, by another process. */
static int begins(int number)
{
	snprintf(where, sizeof where, "%d", number);
	if (number % AT_ONCE == 0)
		while (wait(NULL) > 0)
			;
	if (fork() != 0)
		return 0;
	if (mkdir(where, 0700) != 0 || chdir(where) != 0 || mkfifo("fifo", 0600) != 0 || !freopen("said", "w", stdout))
		_exit(2);
	return 1;
}

#define SCENARIO(what)                   \
	if (begins(number++)) {          \
		what;                    \
		fflush(stdout), _exit(0); \
	}

int main(int argc, char **argv)
{
	int number = 0, got;
	if (argc != 2 || chdir(argv[1]) != 0)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	SCENARIO(opens("reading", O_RDONLY, SIGUSR1, NO_RESTART, 1))
	SCENARIO(opens("reading again", O_RDONLY, SIGUSR1, RESTART, 3))
	SCENARIO(opens("writing", O_WRONLY, SIGUSR1, NO_RESTART, 1))
	SCENARIO(opens("writing again", O_WRONLY, SIGUSR1, RESTART, 3))
	SCENARIO(opens("alarm", O_RDONLY, SIGALRM, NO_RESTART, 1))
	SCENARIO(opens("blocked", O_RDONLY, SIGUSR1, BLOCKED, 2))
	SCENARIO(opens("ignored", O_RDONLY, SIGUSR1, IGNORED, 2))
	SCENARIO(opens("child", O_RDONLY, SIGCHLD, DEFAULT, 2))
	SCENARIO(opens("urgent", O_WRONLY, SIGURG, DEFAULT, 2))
	SCENARIO(opens("window", O_RDONLY, SIGWINCH, DEFAULT, 2))
	SCENARIO(opens("continued", O_RDONLY, SIGCONT, DEFAULT, 2))
	SCENARIO(opens("continued and told", O_RDONLY, SIGCONT, NO_RESTART, 1))
	SCENARIO(opens("quits", O_RDONLY, SIGQUIT, DEFAULT, 1))
	SCENARIO(opens("terminated", O_RDONLY, SIGTERM, DEFAULT, 1))
	SCENARIO(opens("stopped", O_RDONLY, SIGSTOP, DEFAULT, 1))
	SCENARIO(opens("stopped by terminal", O_WRONLY, SIGTSTP, DEFAULT, 1))
	SCENARIO(of_two("first takes", 1, 0, SIGUSR1))
	SCENARIO(of_two("second takes", 0, 0, SIGUSR1))
	SCENARIO(of_two("second takes again", 0, SA_RESTART, SIGUSR1))
	SCENARIO(of_two("both stop", 1, 0, SIGSTOP))
	SCENARIO(of_many("many"))
	SCENARIO(traced("traced", SIGUSR1, 1))
	SCENARIO(traced("traced in vain", SIGUSR1, 0))
	SCENARIO(traced("traced child", SIGCHLD, 0))
	SCENARIO(connects("connects", NO_RESTART, 0))
	SCENARIO(connects("connects again", RESTART, 0))
	SCENARIO(connects("connects, blocked", BLOCKED, 0))
	SCENARIO(connects("connects for a time", RESTART, 60000))
	SCENARIO(sends("datagram", SOCK_DGRAM, NO_RESTART, 0))
	SCENARIO(sends("datagram again", SOCK_DGRAM, RESTART, 0))
	SCENARIO(sends("datagram for a time", SOCK_DGRAM, RESTART, 60000))
	SCENARIO(sends("stream", SOCK_STREAM, NO_RESTART, 0))
	SCENARIO(sends("stream again", SOCK_STREAM, RESTART, 0))
	while (wait(NULL) > 0)
		;
	for (int one = 0; one < number; one++) {
		char text[4096];
		snprintf(where, sizeof where, "%d/said", one);
		int fd = open(where, O_RDONLY);
		while ((got = read(fd, text, sizeof text)) > 0)
			write(1, text, got);
		close(fd);
	}
	return 0;
}
