/* The simulated NVML: memory, utilisation and the processes that hold a context. */
#include <unistd.h>

#include "nvml.h"

struct nvml_memory { /* nvmlMemory_v2_t */
	u32 version;
	u64 total, reserved, free, used;
};

enum { MEMORY_V2 = 0x02000028, MOST_PROCESSES = 4096 };

struct sums {
	u64 total, used, busy_ns, devices;
};

static struct sums sum_devices(void *handle)
{
	struct sums sums = {0, 0, 0, 0};
	u32 at;

	state_lock();
	device_advance_all(now_ns());
	for (at = 0; at < SIM_DEVICES && sim->devices[at].total_bytes; at++) {
		if (!nvml_covers(handle, at))
			continue;
		sums.total += sim->devices[at].total_bytes;
		sums.used += sim->devices[at].used_bytes;
		sums.busy_ns += sim->devices[at].busy_ns;
		sums.devices++;
	}
	state_unlock();
	return sums;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *handle, struct nvml_memory *memory)
{
	struct sums sums;

	ENTER_DEVICE(handle);
	if (memory->version != MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	sums = sum_devices(handle);
	memory->total = sums.total;
	memory->reserved = sim->config.reserved_bytes;
	memory->used = sums.used;
	memory->free = sums.total - sums.used - memory->reserved;
	return NVML_SUCCESS;
}

/* The first form counts what is reserved as used. */
EXPORT int nvmlDeviceGetMemoryInfo(void *handle, u64 memory[3])
{
	struct nvml_memory wide = {.version = MEMORY_V2};
	int result = nvmlDeviceGetMemoryInfo_v2(handle, &wide);

	if (result)
		return result;
	memory[0] = wide.total;
	memory[1] = wide.free;
	memory[2] = wide.used + wide.reserved;
	return NVML_SUCCESS;
}

/* Percent of the time since this process asked last, and since its first call before that. */
EXPORT int nvmlDeviceGetUtilizationRates(void *handle, u32 percent[2])
{
	static struct {
		u64 busy_ns, time_ns;
	} last[SIM_DEVICES];
	struct sums sums;
	u64 at, now, span;

	ENTER_DEVICE(handle);
	if ((u64)handle >= HANDLE_INSTANCE)
		return NVML_ERROR_NOT_SUPPORTED;
	at = (u64)handle - HANDLE_PHYSICAL;
	sums = sum_devices(handle);
	now = now_ns();
	span = (now - last[at].time_ns) * sums.devices;
	percent[0] = 0;
	if (last[at].time_ns && span)
		percent[0] = (u32)((sums.busy_ns - last[at].busy_ns) * 100 / span);
	if (percent[0] > 100)
		percent[0] = 100;
	percent[1] = percent[0] / 2;
	last[at].busy_ns = sums.busy_ns;
	last[at].time_ns = now;
	return NVML_SUCCESS;
}

static u32 instance_of(u32 device)
{
	if (!sim->config.mig_instances)
		return UINT32_MAX;
	return device % (u32)sim->config.mig_instances + 1;
}

/* Gather the processes of a device; each once, whatever it has of contexts. */
static u32 gather(void *handle, struct nvml_process *list, u32 room)
{
	u32 number, at, count = 0;

	for (number = 0; number < sim->header.channel_top; number++) {
		const struct sim_channel *channel = &sim->channels[number];
		u32 instance = instance_of((u32)channel->device);
		int pid;

		if (!channel->used || !nvml_covers(handle, (u32)channel->device))
			continue;
		if (!state_channel_alive(number, &pid)) {
			/* A process does not see its own locks. */
			pid = getpid();
			if (sim->rows[channel->row].pid != (u64)pid)
				continue;
		}
		for (at = 0; at < count; at++)
			if (list[at].pid == (u32)pid && list[at].gpu_instance == instance)
				break;
		if (at == room)
			return count + 1;
		if (at == count) {
			list[count++] = (struct nvml_process){
				.pid = (u32)pid,
				.gpu_instance = instance,
				.compute_instance = sim->config.mig_instances ? 0 : UINT32_MAX,
			};
		}
		list[at].used_bytes += channel->held_bytes;
	}
	return count;
}

static int answer(void *handle, u32 *count, struct nvml_process *out)
{
	static struct nvml_process list[MOST_PROCESSES];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	u32 found, at;
	int result = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	state_lock();
	for (at = 0; at < MOST_PROCESSES; at++)
		list[at] = (struct nvml_process){0, 0, 0, 0};
	found = gather(handle, list, MOST_PROCESSES);
	state_unlock();
	if (sim->config.nvml_process_count)
		found = (u32)sim->config.nvml_process_count; /* a lie, told to the caller */
	if (!out || *count < found) {
		result = found ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
	} else {
		for (at = 0; at < found; at++) {
			out[at] = list[at < MOST_PROCESSES ? at : MOST_PROCESSES - 1];
			if (sim->config.nvml_no_memory)
				out[at].used_bytes = NVML_NOT_AVAILABLE;
		}
	}
	*count = found;
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, u32 *count,
						   struct nvml_process *out)
{
	ENTER_DEVICE(handle);
	return answer(handle, count, out);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, u32 *count,
						   struct nvml_process *out)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, out);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, u32 *count, void *out)
{
	ENTER_DEVICE(handle);
	(void)out;
	*count = 0;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(void *handle, u32 *count, void *out)
{
	return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, count, out);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, u32 *count, void *out)
{
	return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, count, out);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v2(void *handle, u32 *count, void *out)
{
	return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, count, out);
}
