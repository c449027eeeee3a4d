/* The simulated NVML: the library, its devices and what each one is. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nvml.h"

const u32 sim_name_count; /* NVML has no driver functions: state.c asks when it makes a file */
static bool initialized;
static u32 references;

int nvml_enter(void)
{
	const struct timespec millisecond = {0, 1000000};

	if (!initialized || sim->config.nvml_vanished)
		return NVML_ERROR_UNINITIALIZED;
	while (__atomic_load_n(&sim->config.nvml_hang, __ATOMIC_RELAXED))
		nanosleep(&millisecond, NULL);
	return (int)sim->config.nvml_code;
}

static u32 total_devices(void)
{
	u32 count = 0;

	while (count < SIM_DEVICES && sim->devices[count].total_bytes)
		count++;
	return count;
}

static u64 physical_of(void *handle)
{
	u64 value = (u64)handle;

	return value >= HANDLE_INSTANCE ? sim->devices[value - HANDLE_INSTANCE].parent
					: value - HANDLE_PHYSICAL;
}

int nvml_check(void *handle)
{
	u64 value = (u64)handle;

	if (value >= HANDLE_INSTANCE)
		return value - HANDLE_INSTANCE < total_devices() ? 0 : -1;
	return value >= HANDLE_PHYSICAL && value - HANDLE_PHYSICAL < sim->config.device_count ? 0
											      : -1;
}

/* Does what a handle names include this device of the state file? */
bool nvml_covers(void *handle, u32 device)
{
	u64 value = (u64)handle;

	if (value >= HANDLE_INSTANCE)
		return device == value - HANDLE_INSTANCE;
	return sim->devices[device].parent == value - HANDLE_PHYSICAL;
}

EXPORT int nvmlInit_v2(void)
{
	if (state_attach())
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (sim->config.nvml_code)
		return (int)sim->config.nvml_code;
	initialized = true;
	references++;
	return NVML_SUCCESS;
}

EXPORT int nvmlInitWithFlags(u32 flags)
{
	(void)flags;
	return nvmlInit_v2();
}

EXPORT int nvmlShutdown(void)
{
	if (!initialized)
		return NVML_ERROR_UNINITIALIZED;
	initialized = --references != 0;
	return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(int code)
{
	return code ? "Simulated NVML error" : "Success";
}

static int text(char *out, u32 length, const char *value)
{
	if (strlen(value) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, value, strlen(value) + 1);
	return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, u32 length)
{
	ENTER();
	return text(out, length, "580.0.0-simulated");
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, u32 length)
{
	ENTER();
	return text(out, length, "13.580.0-simulated");
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	ENTER();
	*version = (int)sim->config.driver_version;
	return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT int nvmlDeviceGetCount_v2(u32 *count)
{
	ENTER();
	*count = (u32)sim->config.device_count;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle)
{
	ENTER();
	if (index >= sim->config.device_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*handle = (void *)(u64)(HANDLE_PHYSICAL + index);
	return NVML_SUCCESS;
}

static void uuid_text(void *handle, char out[64])
{
	u64 value = (u64)handle, high, low;
	const struct sim_device *device;
	u32 at = 0;

	if (value >= HANDLE_INSTANCE) {
		device = &sim->devices[value - HANDLE_INSTANCE];
		high = device->uuid_high;
		low = device->uuid_low;
	} else {
		while (sim->devices[at].parent != value - HANDLE_PHYSICAL)
			at++;
		high = sim->devices[at].parent_high;
		low = sim->devices[at].parent_low;
	}
	snprintf(out, 64, "%s-%08x-%04x-%04x-%04x-%012llx",
		 value >= HANDLE_INSTANCE ? "MIG" : "GPU", (u32)(high >> 32),
		 (u32)(high >> 16) & 0xffff, (u32)high & 0xffff, (u32)(low >> 48),
		 (unsigned long long)(low & 0xffffffffffffull));
}

EXPORT int nvmlDeviceGetUUID(void *handle, char *out, u32 length)
{
	char uuid[64];

	ENTER_DEVICE(handle);
	uuid_text(handle, uuid);
	return text(out, length, uuid);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
	char found[64];
	u32 at;

	ENTER();
	for (at = 0; at < sim->config.device_count + total_devices(); at++) {
		void *one =
			(void *)(u64)(at < sim->config.device_count
					      ? HANDLE_PHYSICAL + at
					      : HANDLE_INSTANCE + at - sim->config.device_count);

		uuid_text(one, found);
		if (strcmp(found, uuid))
			continue;
		*handle = one;
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(void *handle, char *out, u32 length)
{
	ENTER_DEVICE(handle);
	return text(out, length,
		    (u64)handle >= HANDLE_INSTANCE ? "Simulated GPU MIG instance"
						   : "Simulated GPU");
}

EXPORT int nvmlDeviceGetIndex(void *handle, u32 *index)
{
	ENTER_DEVICE(handle);
	*index = (u32)physical_of(handle);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMinorNumber(void *handle, u32 *minor)
{
	ENTER_DEVICE(handle);
	*minor = (u32)physical_of(handle);
	return NVML_SUCCESS;
}

struct nvml_pci { /* nvmlPciInfo_t */
	char legacy[16];
	u32 domain, bus, device, identity, subsystem;
	char text[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *handle, struct nvml_pci *pci)
{
	ENTER_DEVICE(handle);
	memset(pci, 0, sizeof(*pci));
	pci->bus = 0x10 + (u32)physical_of(handle);
	snprintf(pci->legacy, sizeof(pci->legacy), "0000:%02X:00.0", pci->bus & 0xff);
	snprintf(pci->text, sizeof(pci->text), "00000000:%02X:00.0", pci->bus & 0xff);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(void *handle, u32 *mode)
{
	ENTER_DEVICE(handle);
	*mode = 0; /* NVML_COMPUTEMODE_DEFAULT */
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(void *handle, u32 *now, u32 *pending)
{
	ENTER_DEVICE(handle);
	*now = *pending = sim->config.mig_instances != 0;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(void *handle, u32 *answer)
{
	ENTER_DEVICE(handle);
	*answer = (u64)handle >= HANDLE_INSTANCE;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *handle, u32 *count)
{
	ENTER_DEVICE(handle);
	*count = sim->config.mig_instances ? 7 : 0;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, u32 index, void **out)
{
	ENTER_DEVICE(handle);
	if (index >= sim->config.mig_instances)
		return NVML_ERROR_NOT_FOUND;
	*out = (void *)(HANDLE_INSTANCE + physical_of(handle) * sim->config.mig_instances + index);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *handle, void **out)
{
	ENTER_DEVICE(handle);
	if ((u64)handle < HANDLE_INSTANCE)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = (void *)(HANDLE_PHYSICAL + physical_of(handle));
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *handle, u32 *id)
{
	ENTER_DEVICE(handle);
	if ((u64)handle < HANDLE_INSTANCE)
		return NVML_ERROR_NOT_SUPPORTED;
	*id = (u32)((u64)handle - HANDLE_INSTANCE) % (u32)sim->config.mig_instances + 1;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeInstanceId(void *handle, u32 *id)
{
	ENTER_DEVICE(handle);
	*id = 0;
	return (u64)handle < HANDLE_INSTANCE ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}
