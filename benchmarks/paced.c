/*
 * A GPU process that works now and then, for benchmarks/kubernetes.py:
 *
 *   paced LIBRARY LAUNCHES PAUSE_US
 *
 * Until it is killed: so many launches, a copy, a synchronization, a pause.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*function)(uint64_t, ...);
typedef int (*launcher)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			unsigned, void *, void **, void **);

static void *library;

static void *find(const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		exit(2);
	return found;
}

int main(int argc, char **argv)
{
	static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				   ".visible .entry busy_1us()\n{\nret;\n}\n";
	uint64_t context, memory = 0;
	void *module, *busy;
	char host[64] = "";

	if (argc != 4 || !(library = dlopen(argv[1], RTLD_NOW)))
		return 2;
	int (*initialize)(int) = (int (*)(int))find("cuInit");
	int (*retain)(uint64_t *, int) = (int (*)(uint64_t *, int))find("cuDevicePrimaryCtxRetain");
	function use = (function)find("cuCtxSetCurrent");
	int (*load)(void **, const void *) =
		(int (*)(void **, const void *))find("cuModuleLoadData");
	int (*get)(void **, void *, const char *) =
		(int (*)(void **, void *, const char *))find("cuModuleGetFunction");
	int (*allocate)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))find("cuMemAlloc_v2");
	launcher launch = (launcher)find("cuLaunchKernel");
	int (*copy)(uint64_t, const void *, size_t, void *) =
		(int (*)(uint64_t, const void *, size_t, void *))find("cuMemcpyHtoDAsync_v2");
	function synchronize = (function)find("cuStreamSynchronize");

	if (initialize(0) || retain(&context, 0) || use(context) || load(&module, text) ||
	    get(&busy, module, "busy_1us") || allocate(&memory, 1 << 20))
		return 3;
	for (;;) {
		for (int at = 0; at < atoi(argv[2]); at++)
			launch(busy, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
		copy(memory, host, sizeof(host), NULL);
		synchronize(0);
		usleep((unsigned)atoi(argv[3]));
	}
}
