/* What others do to a process in the middle of exec. Says what it saw, natively and in the tree the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int up[2], go[2];
static char bytes[64];

static void say_number(void)
{
    pid_t tid = syscall(SYS_gettid);
    write(up[1], &tid, sizeof tid);
}

static void *waits(void *unused)
{
    say_number();
    for (;;)
        pause();
    return unused;
}

static void *execs(void *unused)
{
    char byte;
    say_number();
    read(go[0], &byte, 1);
    execl("/bin/true", "true", NULL);
    _exit(9);
    return unused;
}

static pid_t thread(void *(*body)(void *))
{
    pthread_t made;
    pid_t tid;
    pthread_create(&made, NULL, body, NULL);
    read(up[0], &tid, sizeof tid);
    return tid;
}

/* Counts what is told of openings and closings. */
static void counts(int inotify, int *opened, int *closed)
{
    char told[4096];
    ssize_t len;
    usleep(100000);
    while ((len = read(inotify, told, sizeof told)) > 0)
        for (char *at = told; at < told + len;) {
            struct inotify_event *event = (void *)at;
            *opened += !!(event->mask & IN_OPEN);
            *closed += !!(event->mask & IN_CLOSE);
            at += sizeof *event + event->len;
        }
}

/* A thread is traced by us, another one of its process execs: that waits until we know that the first is gone. */
static void traced(void)
{
    int tids[2];
    alarm(20);
    pipe(up), pipe(go), pipe(tids);
    pid_t process = fork();
    if (!process) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t both[] = {thread(waits), thread(execs)};
        write(tids[1], both, sizeof both);
        for (;;)
            pause();
    }
    pid_t both[2];
    read(tids[0], both, sizeof both);
    if (ptrace(PTRACE_SEIZE, both[0], 0, 0)) {
        perror("seize");
        kill(process, SIGKILL);
        _exit(1);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", both[1]);
    write(go[1], "x", 1);
    siginfo_t gone;
    waitid(P_PID, both[0], &gone, WEXITED | WNOWAIT | __WALL);
    struct iovec piece = {bytes, 8};
    printf("written %zd\n", process_vm_writev(both[1], &piece, 1, &piece, 1, 0));
    int inotify = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(inotify, path, IN_OPEN | IN_CLOSE);
    pid_t opens = fork();
    if (!opens)
        _exit(open(path, O_RDWR) < 0);
    for (int i = 0; i < 20; i++) {
        struct stat stat_of;
        char name[32];
        snprintf(name, sizeof name, "/tmp/nothing%d", i);
        stat(name, &stat_of);
        usleep(5000);
    }
    int status, opened = 0, closed = 0;
    waitpid(opens, &status, 0);
    counts(inotify, &opened, &closed);
    printf("not opened %d, told of %d openings and %d closings\n", WEXITSTATUS(status), opened, closed);
    waitpid(both[0], &status, __WALL);
    waitpid(process, &status, 0);
    printf("ended %x\n", status);
}

/* A process runs itself, so many times; all the time we write over the name by which each is run, which it does not look at: by its
 * number, and by its memory, of which we open some ahead. */
static void again(char *self)
{
    alarm(60);
    pid_t process = fork();
    if (!process) {
        personality(ADDR_NO_RANDOMIZE);
        execl(self, self, "runs", "200", NULL);
        _exit(9);
    }
    char path[64], *name = (char *)0x7fffffffeff8 - strlen(self) - 1;
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    int status, opened = 0, by_memory = 0, by_number = 0;
    while (!waitpid(process, &status, WNOHANG)) {
        int fd = open(path, O_RDWR);
        opened += fd >= 0;
        by_memory += pwrite(fd, "X", 1, (off_t)name) == 1;
        close(fd);
        by_number += process_vm_writev(process, &(struct iovec){"Y", 1}, 1, &(struct iovec){name, 1}, 1, 0) == 1;
    }
    printf("opened %d, written %d and %d, ended %x\n", opened > 20, by_memory > 5, by_number > 5, status);
}

int main(int count, char **args)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 2) {
        int left = atoi(args[2]);
        char text[16];
        snprintf(text, sizeof text, "%d", left - 1);
        if (left)
            execl(args[0], args[0], "runs", text, NULL);
        return 7;
    }
    if (!strcmp(args[1], "traced"))
        traced();
    else
        again(args[0]);
}
