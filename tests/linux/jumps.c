/*
 * Leaves traced calls, or makes calls inside them, in ways that no program
 * should and some do. Usage: jumps LIBRARY nested|jump|stack|hang N
 *
 * The result of cuDeviceGetUuid goes to a page that may not be written, so a
 * signal comes inside the call, at the same place each time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*function)(uint64_t, ...);

static function uuid, use, synchronize;
static uint64_t context;
static void *page;
static sigjmp_buf before;
static volatile int inner, jumps;

static void on_signal(int number)
{
	(void)number;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	for (int at = 0; at < inner; at++)
		use(context);
	if (jumps)
		siglongjmp(before, 1);
}

static int say(const char *text)
{
	char line[16];

	printf("%s %d\n", text, getpid());
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
	void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*initialize)(int), (*retain)(uint64_t *, int);
	stack_t other = {.ss_size = 1 << 16};

	if (!library)
		return 2;
	initialize = (int (*)(int))dlsym(library, "cuInit");
	retain = (int (*)(uint64_t *, int))dlsym(library, "cuDevicePrimaryCtxRetain");
	uuid = (function)dlsym(library, "cuDeviceGetUuid");
	use = (function)dlsym(library, "cuCtxSetCurrent");
	synchronize = (function)dlsym(library, "cuCtxSynchronize_v2");
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	other.ss_sp = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
	if (initialize(0) || retain(&context, 0) || use(context) || say("ready"))
		return 3;
	inner = !strcmp(argv[2], "nested") || !strcmp(argv[2], "stack") ? 3 : 0;
	jumps = !strcmp(argv[2], "jump") || !strcmp(argv[2], "hang");
	if (!strcmp(argv[2], "stack")) {
		sigaltstack(&other, NULL);
		action.sa_flags |= SA_ONSTACK;
	}
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (volatile int at = 0; at < atoi(argv[3]); at++) {
		mprotect(page, 4096, PROT_NONE);
		if (sigsetjmp(before, 1))
			continue;
		if (!strcmp(argv[2], "hang"))
			synchronize(context);
		else
			uuid((uint64_t)page, (uint64_t)0);
	}
	if (say("jumped"))
		return 4;
	use(context);
	return say("done");
}
