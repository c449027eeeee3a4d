/* The devices as a process numbers them: CUDA_VISIBLE_DEVICES by index or UUID. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static int map[SIM_DEVICES];
static int count = -1;

void visible_reset(void)
{
	count = -1;
}

static void uuid_text(const struct sim_device *device, char text[48])
{
	u64 high = device->uuid_high, low = device->uuid_low;

	snprintf(text, 48, "%s-%08x-%04x-%04x-%04x-%012llx", device->mig ? "MIG" : "GPU",
		 (u32)(high >> 32), (u32)(high >> 16) & 0xffff, (u32)high & 0xffff,
		 (u32)(low >> 48), (unsigned long long)(low & 0xffffffffffffull));
}

static int by_name(const char *name, size_t length, int total)
{
	char text[48];
	int at;

	if (length && strspn(name, "0123456789") >= length)
		return atoi(name) < total ? atoi(name) : -1;
	for (at = 0; at < total; at++) {
		uuid_text(&sim->devices[at], text);
		if (length > 4 && !strncmp(text, name, length))
			return at;
	}
	return -1;
}

/* Under MIG a process sees one instance: the first, or the first it names. */
static void resolve(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	int total = 0, found = 0, at;

	while (total < SIM_DEVICES && sim->devices[total].total_bytes)
		total++;
	if (!list) {
		for (at = 0; at < total; at++)
			map[found++] = at;
	} else {
		while (*list && found < SIM_DEVICES) {
			size_t length = strcspn(list, ",");

			at = by_name(list, length, total);
			if (at < 0)
				break; /* as documented: the first wrong one ends the list */
			map[found++] = at;
			list += length + (list[length] == ',');
		}
	}
	count = found > 1 && sim->devices[0].mig ? 1 : found;
}

int visible_count(void)
{
	process_lock();
	if (count < 0)
		resolve();
	process_unlock();
	return count;
}

int visible_device(int ordinal)
{
	return ordinal < 0 || ordinal >= visible_count() ? -1 : map[ordinal];
}

int sim_cuInit(u32 flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!visible_count())
		return CUDA_ERROR_NO_DEVICE;
	process_initialized = true;
	return CUDA_SUCCESS;
}

int sim_cuDriverGetVersion(int *version)
{
	*version = (int)sim->config.driver_version;
	return CUDA_SUCCESS;
}

int sim_cuDeviceGetCount(int *out)
{
	*out = visible_count();
	return CUDA_SUCCESS;
}

int sim_cuDeviceGet(int *out, int ordinal)
{
	if (visible_device(ordinal) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*out = ordinal;
	return CUDA_SUCCESS;
}

int sim_cuDeviceGetName(char *name, int length, int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)length, "Simulated GPU%s",
		 sim->devices[device].mig ? " MIG instance" : "");
	return CUDA_SUCCESS;
}

static int uuid_of(unsigned char uuid[16], u64 high, u64 low)
{
	int at;

	for (at = 0; at < 8; at++) {
		uuid[at] = (unsigned char)(high >> (56 - 8 * at));
		uuid[8 + at] = (unsigned char)(low >> (56 - 8 * at));
	}
	return CUDA_SUCCESS;
}

/* The first form answers the physical device's, the second the instance's own. */
int sim_cuDeviceGetUuid(unsigned char *uuid, int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	return uuid_of(uuid, sim->devices[device].parent_high, sim->devices[device].parent_low);
}

int sim_cuDeviceGetUuid_v2(unsigned char *uuid, int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	return uuid_of(uuid, sim->devices[device].uuid_high, sim->devices[device].uuid_low);
}

int sim_cuDeviceTotalMem_v2(size_t *bytes, int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = sim->devices[device].total_bytes;
	return CUDA_SUCCESS;
}

int sim_cuDeviceTotalMem(u32 *bytes, int ordinal)
{
	size_t wide;
	int result = sim_cuDeviceTotalMem_v2(&wide, ordinal);

	if (!result)
		*bytes = wide > UINT32_MAX ? UINT32_MAX : (u32)wide;
	return result;
}

/* CUdevice_attribute: those that clients were seen to ask for; any other is 0. */
int sim_cuDeviceGetAttribute(int *value, int attribute, int ordinal)
{
	static const int table[][2] = {
		{1, 1024},	  {2, 1024},   {3, 1024},     {4, 64},	    {5, 2147483647},
		{6, 65535},	  {7, 65535},  {8, 49152},    {9, 65536},   {10, 32},
		{11, 2147483647}, {12, 65536}, {13, 1980000}, {15, 1},	    {16, 132},
		{19, 1},	  {31, 1},     {36, 2619000}, {37, 5120},   {38, 62914560},
		{39, 2048},	  {40, 2},     {41, 1},	      {75, 9},	    {76, 0},
		{78, 1},	  {79, 1},     {81, 233472},  {82, 65536},  {83, 1},
		{89, 1},	  {90, 1},     {95, 1},	      {97, 232448}, {102, 1},
		{106, 32},	  {111, 1024}, {115, 1},      {117, 1},	    {119, 1},
	};
	size_t at;

	if (visible_device(ordinal) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	for (at = 0; at < sizeof(table) / sizeof(table[0]); at++)
		if (table[at][0] == attribute)
			*value = table[at][1];
	if (attribute == 33) /* PCI bus */
		*value = 0x10 + visible_device(ordinal);
	return CUDA_SUCCESS;
}

int sim_cuDeviceComputeCapability(int *major, int *minor, int ordinal)
{
	*major = 9;
	*minor = 0;
	return visible_device(ordinal) < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

int sim_cuDeviceGetPCIBusId(char *text, int length, int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(text, (size_t)length, "0000:%02X:00.0", 0x10 + (u32)sim->devices[device].parent);
	return CUDA_SUCCESS;
}

int sim_cuDeviceCanAccessPeer(int *value, int one, int other)
{
	*value = one != other;
	return CUDA_SUCCESS;
}
