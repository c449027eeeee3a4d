/*
 * Calls driver functions at full speed: for exactness of counts and for the
 * cost of a probe hit. Usage:
 *
 *   hammer LIBRARY FUNCTION[,FUNCTION...] CALLS [THREADS] [PROCESSES]
 *
 * Each of the threads of each of the processes makes CALLS calls, of the
 * functions in turn. FUNCTION may be cuLaunchKernel, cuStreamSynchronize,
 * cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuCtxSynchronize, cuStreamQuery,
 * cuMemAlloc_v2 (with its cuMemFree_v2), or any other name: called with zeros.
 * Prints one line of JSON per process. GPUGAUGE_SIM_INSTANT=1 when the state
 * file is made lets the simulated functions return at once.
 * GPUGAUGE_HAMMER_WAIT=1: each process waits for a line on standard input
 * after it made its context, so that probes can be put in place.
 * GPUGAUGE_HAMMER_LAUNCH=busy_20us: the function that is launched.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, MOST_THREADS = 256 };

typedef int (*function)(uint64_t, ...);

static struct {
	const char *name;
	function call;
	int kind;
} functions[MOST];
static int function_count;
static void *library, *launchable;
static void *context;
static uint64_t calls, device_memory;
static char *host_memory;

enum { OTHER, LAUNCH, COPY_TO_DEVICE, COPY_TO_HOST, ALLOCATE };

static function find(const char *name)
{
	function found = (function)dlsym(library, name);

	if (!found) {
		fprintf(stderr, "hammer: the library has no function %s\n", name);
		exit(2);
	}
	return found;
}

static int kind_of(const char *name)
{
	if (!strncmp(name, "cuLaunchKernel", 14) && strncmp(name, "cuLaunchKernelEx", 16))
		return LAUNCH;
	if (!strncmp(name, "cuMemcpyHtoDAsync_v2", 20))
		return COPY_TO_DEVICE;
	if (!strncmp(name, "cuMemcpyDtoHAsync_v2", 20))
		return COPY_TO_HOST;
	return strcmp(name, "cuMemAlloc_v2") ? OTHER : ALLOCATE;
}

static int one(int at)
{
	typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, void *, void **, void **);
	typedef int (*copy)(uint64_t, uint64_t, size_t, void *);
	uint64_t pointer = 0;
	int code;

	switch (functions[at].kind) {
	case LAUNCH:
		return ((launch)(void *)functions[at].call)(launchable, 1, 1, 1, 32, 1, 1, 0, NULL,
							    NULL, NULL);
	case COPY_TO_DEVICE:
		return ((copy)(void *)functions[at].call)(device_memory, (uint64_t)host_memory, 8,
							  NULL);
	case COPY_TO_HOST:
		return ((copy)(void *)functions[at].call)((uint64_t)host_memory, device_memory, 8,
							  NULL);
	case ALLOCATE:
		code = functions[at].call((uint64_t)&pointer, (uint64_t)8191);
		return code ? code : find("cuMemFree_v2")(pointer);
	default:
		return functions[at].call(0, 0, 0, 0, 0, 0);
	}
}

static void *run(void *failed)
{
	uint64_t at;

	find("cuCtxSetCurrent")((uint64_t)context);
	for (at = 0; at < calls; at++)
		*(uint64_t *)failed += one((int)(at % (uint64_t)function_count)) != 0;
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void must(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "hammer: %s answered %d\n", what, code);
	exit(3);
}

static void prepare(void)
{
	const char *name = getenv("GPUGAUGE_HAMMER_LAUNCH");
	void *module;

	must(find("cuInit")(0), "cuInit");
	must(find("cuDevicePrimaryCtxRetain")((uint64_t)&context, 0), "cuDevicePrimaryCtxRetain");
	must(find("cuCtxSetCurrent")((uint64_t)context), "cuCtxSetCurrent");
	must(find("cuModuleLoadData")((uint64_t)&module, ""), "cuModuleLoadData");
	must(find("cuModuleGetFunction")((uint64_t)&launchable, module, name ? name : "busy_1us"),
	     "cuModuleGetFunction");
	must(find("cuMemAlloc_v2")((uint64_t)&device_memory, (uint64_t)64), "cuMemAlloc_v2");
	must(find("cuMemAllocHost_v2")((uint64_t)&host_memory, (uint64_t)64), "cuMemAllocHost_v2");
}

static int process(int threads)
{
	pthread_t thread[MOST_THREADS];
	static uint64_t failed[MOST_THREADS * 8];
	uint64_t begin, took, sum = 0;
	char line[16];
	int at;

	prepare();
	if (getenv("GPUGAUGE_HAMMER_WAIT")) {
		printf("{\"pid\": %d, \"ready\": true}\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 4;
	}
	begin = now_ns();
	for (at = 0; at < threads; at++)
		if (pthread_create(&thread[at], NULL, run, &failed[at * 8]))
			return 5;
	for (at = 0; at < threads; at++) {
		pthread_join(thread[at], NULL);
		sum += failed[at * 8];
	}
	took = now_ns() - begin;
	printf("{\"pid\": %d, \"calls\": %llu, \"failed\": %llu, \"wall_ns\": %llu, "
	       "\"ns_per_call\": %.1f}\n",
	       getpid(), (unsigned long long)(calls * (uint64_t)threads), (unsigned long long)sum,
	       (unsigned long long)took, (double)took / (double)(calls ? calls : 1));
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	int threads = argc > 4 ? atoi(argv[4]) : 1, processes = argc > 5 ? atoi(argv[5]) : 1;
	int at, status, worst = 0;
	char *name;

	if (argc < 4 || threads < 1 || threads > MOST_THREADS || processes < 1) {
		fprintf(stderr,
			"usage: hammer LIBRARY FUNCTION[,...] CALLS [THREADS] [PROCESSES]\n");
		return 2;
	}
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "hammer: %s\n", dlerror());
		return 2;
	}
	calls = strtoull(argv[3], NULL, 0);
	for (name = strtok(argv[2], ","); name && function_count < MOST; name = strtok(NULL, ",")) {
		functions[function_count].name = name;
		functions[function_count].call = find(name);
		functions[function_count++].kind = kind_of(name);
	}
	if (processes == 1)
		return process(threads);
	for (at = 0; at < processes; at++) {
		pid_t child = fork();

		if (!child)
			_exit(process(threads));
		if (child < 0)
			return 5;
	}
	while (wait(&status) > 0)
		worst |= status;
	return worst != 0;
}
