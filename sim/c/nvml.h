/* The simulated NVML: what its files share. Values are those that nvml.h documents. */
#ifndef SIM_NVML_H
#define SIM_NVML_H

#include "sim.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

#define NVML_NOT_AVAILABLE UINT64_MAX

/* A handle is a small number: a physical device, or an instance (an index of sim->devices). */
enum { HANDLE_PHYSICAL = 0x1000, HANDLE_INSTANCE = 0x2000 };

struct nvml_process {
	u32 pid;
	u64 used_bytes;
	u32 gpu_instance;
	u32 compute_instance;
};

int nvml_enter(void);
bool nvml_covers(void *handle, u32 device);
int nvml_check(void *handle);

/* First lines of every exported function. */
#define ENTER()                                                                                    \
	do {                                                                                       \
		int entered = nvml_enter();                                                        \
                                                                                                   \
		if (entered)                                                                       \
			return entered;                                                            \
	} while (0)

#define ENTER_DEVICE(handle)                                                                       \
	do {                                                                                       \
		ENTER();                                                                           \
		if (nvml_check(handle))                                                            \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
	} while (0)

#endif
