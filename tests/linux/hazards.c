/*
 * What programs do, and should not, around and inside traced calls.
 * Usage: hazards LIBRARY MODE TIMES. What it prints, and how it ends, must not
 * depend on whether it is traced.
 *
 * To be inside a call: the result of cuDeviceGetUuid goes to a page that may
 * not be written, so a signal comes there, each time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*function)(uint64_t, ...);

static function uuid, use, synchronize, allocate, release;
static uint64_t context;
static void *page;
static const char *path, *self;
static sigjmp_buf before;
static volatile long ticks;
static void (*inside)(void);

static void *need(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return found;
}

static void *load(void)
{
	void *library = dlopen(path, RTLD_NOW);

	uuid = (function)need(library, "cuDeviceGetUuid");
	use = (function)need(library, "cuCtxSetCurrent");
	synchronize = (function)need(library, "cuCtxSynchronize");
	allocate = (function)need(library, "cuMemAlloc_v2");
	release = (function)need(library, "cuMemFree_v2");
	((int (*)(int))need(library, "cuInit"))(0);
	return library;
}

static void begin(void)
{
	function retain = (function)need(load(), "cuDevicePrimaryCtxRetain");

	retain((uint64_t)&context, 0);
	use(context);
}

static void on_fault(int number)
{
	(void)number;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	inside();
}

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

/* Make a call, and do something in the middle of it. */
static int call_and(void (*action)(void))
{
	struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

	inside = action;
	sigaction(SIGSEGV, &fault, NULL);
	mprotect(page, 4096, PROT_NONE);
	return uuid((uint64_t)page, 0);
}

static void jump(void)
{
	siglongjmp(before, 1);
}

static void leave_thread(void)
{
	pthread_exit((void *)7);
}

static void leave_process(void)
{
	_exit(41);
}

static void nothing(void)
{
}

static int ended(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static pid_t forked;

static void fork_now(void)
{
	forked = fork();
}

static void vfork_now(void)
{
	forked = vfork();
	if (!forked) {
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
}

static void exec_now(void)
{
	execl(self, self, path, "plain", "13", NULL);
	_exit(9);
}

static void *thread_leaves(void *unused)
{
	(void)unused;
	use(context);
	call_and(leave_thread);
	return NULL;
}

static void plain(int times)
{
	uint64_t pointer;

	for (int at = 0; at < times; at++) {
		allocate((uint64_t)&pointer, (uint64_t)4096);
		synchronize(0);
		release(pointer);
	}
}

static int child_of_fork(void)
{
	/* It returns from a call that its parent made, then makes its own. */
	use(context);
	plain(3);
	return 5;
}

/* Nothing but read, write, exit and sigreturn is allowed from here on. */
static int strict(int times)
{
	int wrong = 0;

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	for (int at = 0; at < times; at++)
		wrong += use(context);
	write(1, wrong ? "wrong\n" : "right\n", 6);
	syscall(SYS_exit, 0);
	return 1;
}

/* The parent steps through each instruction of the child's calls. */
static int stepped(int times)
{
	long steps = 0;
	int status;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		int refused = 0; /* a context does not live on in a forked child */

		for (int at = 0; at < times; at++)
			refused += use(context) != 0;
		_exit(refused == times ? 11 : 3);
	}
	for (status = ended(child); WIFSTOPPED(status); status = ended(child), steps++)
		if (ptrace(steps < 20000 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, 0, 0))
			return 4;
	printf("child ended %d\n", WEXITSTATUS(status));
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc == 4 ? argv[2] : "";
	int times = argc == 4 ? atoi(argv[3]) : 0;
	struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 500}, {0, 500}};
	pthread_t thread;
	void *left;

	self = argv[0];
	path = argc == 4 ? argv[1] : "";
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(mode, "reload")) {
		for (int at = 0; at < times; at++) {
			void *library = load();

			use(0);
			dlclose(library);
		}
		puts("reloaded");
		return 0;
	}
	begin();
	if (!strcmp(mode, "plain")) {
		plain(times);
		printf("uid %d\n", geteuid());
		return 17;
	}
	if (!strcmp(mode, "signals")) {
		sigaction(SIGALRM, &tick, NULL);
		setitimer(ITIMER_REAL, &every, NULL);
		plain(times);
		printf("ticks %d\n", ticks > 0);
		return 0;
	}
	if (!strcmp(mode, "jump")) {
		volatile int jumps = 0;

		for (int at = 0; at < times; at++)
			if (sigsetjmp(before, 1))
				jumps++;
			else
				call_and(jump);
		plain(3);
		printf("jumps %d\n", jumps);
		return 0;
	}
	if (!strcmp(mode, "thread-exit")) {
		for (int at = 0; at < times; at++) {
			pthread_create(&thread, NULL, thread_leaves, NULL);
			pthread_join(thread, &left);
		}
		printf("left %ld\n", (long)left);
		return 0;
	}
	if (!strcmp(mode, "exit"))
		return call_and(leave_process);
	if (!strcmp(mode, "fork")) {
		for (int at = 0; at < times; at++) {
			int code = call_and(fork_now);

			if (!forked)
				_exit(child_of_fork());
			printf("%d %d\n", code, WEXITSTATUS(ended(forked)));
		}
		return 0;
	}
	if (!strcmp(mode, "vfork")) {
		for (int at = 0; at < times; at++) {
			int code = call_and(vfork_now);

			printf("%d %d\n", code, WEXITSTATUS(ended(forked)));
		}
		return 0;
	}
	if (!strcmp(mode, "exec"))
		return call_and(exec_now);
	if (!strcmp(mode, "seccomp"))
		return strict(times);
	if (!strcmp(mode, "ptrace"))
		return stepped(times);
	if (!strcmp(mode, "hold")) {
		char line[16];

		plain(times);
		printf("ready %d\n", call_and(nothing));
		fflush(stdout);
		return fgets(line, sizeof(line), stdin) ? 0 : 1;
	}
	return 2;
}
