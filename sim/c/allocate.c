/* The allocation functions: device, pitched, managed, host, registered. */
#include "sim.h"

int memory_register(struct context *context, u64 pointer, u64 bytes);
int memory_unregister(u64 pointer);

static int allocate_device(u64 *pointer, u64 bytes, bool low)
{
	struct context *context = context_current();
	int result;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = memory_allocate(context, MEMORY_DEVICE, bytes, low, pointer);
	if (!result && !sim->config.instant && bytes >= sim->config.chunk_bytes) {
		pause_ns(sim->config.allocate_ns);
		ADD(process_row(context->device)->blocked_allocation_ns, sim->config.allocate_ns);
	}
	return result;
}

int sim_cuMemAlloc_v2(u64 *pointer, size_t bytes)
{
	return allocate_device(pointer, bytes, false);
}

int sim_cuMemAlloc(u32 *pointer, u32 bytes)
{
	u64 wide;
	int result = allocate_device(&wide, bytes, true);

	if (!result)
		*pointer = (u32)wide;
	return result;
}

static u64 pitch_of(u64 width)
{
	return (width + 511) / 512 * 512;
}

int sim_cuMemAllocPitch_v2(u64 *pointer, size_t *pitch, size_t width, size_t height, u32 element)
{
	(void)element;
	*pitch = pitch_of(width);
	return allocate_device(pointer, *pitch * height, false);
}

int sim_cuMemAllocPitch(u32 *pointer, u32 *pitch, u32 width, u32 height, u32 element)
{
	u64 wide;
	int result;

	(void)element;
	*pitch = (u32)pitch_of(width);
	result = allocate_device(&wide, (u64)*pitch * height, true);
	if (!result)
		*pointer = (u32)wide;
	return result;
}

int sim_cuMemAllocManaged(u64 *pointer, size_t bytes, u32 flags)
{
	if (!flags || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_allocate(context_current(), MEMORY_MANAGED, bytes, false, pointer);
}

/* Freeing waits for the context's work, as on a device. */
int sim_cuMemFree_v2(u64 pointer)
{
	struct context *context = context_current();
	u64 begin = now_ns();

	if (context && pointer && !sim->config.instant) {
		queue_wait_scope(context->channel, context->last, SCOPE_LEGACY);
		pause_ns(sim->config.free_ns);
		ADD(process_row(context->device)->blocked_allocation_ns, now_ns() - begin);
	}
	return memory_free(pointer, MEMORY_DEVICE);
}

int sim_cuMemFree(u32 pointer)
{
	return sim_cuMemFree_v2(pointer);
}

int sim_cuMemHostAlloc(u64 *pointer, size_t bytes, u32 flags)
{
	(void)flags;
	return memory_allocate(context_current(), MEMORY_HOST, bytes, false, pointer);
}

int sim_cuMemAllocHost_v2(u64 *pointer, size_t bytes)
{
	return sim_cuMemHostAlloc(pointer, bytes, 0);
}

int sim_cuMemAllocHost(u64 *pointer, u32 bytes)
{
	return sim_cuMemHostAlloc(pointer, bytes, 0);
}

int sim_cuMemFreeHost(u64 pointer)
{
	return memory_free(pointer, MEMORY_HOST);
}

int sim_cuMemHostRegister_v2(u64 pointer, size_t bytes, u32 flags)
{
	(void)flags;
	return memory_register(context_current(), pointer, bytes);
}

int sim_cuMemHostRegister(u64 pointer, size_t bytes, u32 flags)
{
	return sim_cuMemHostRegister_v2(pointer, bytes, flags);
}

int sim_cuMemHostUnregister(u64 pointer)
{
	return memory_unregister(pointer);
}

int sim_cuMemHostGetDevicePointer_v2(u64 *out, u64 pointer, u32 flags)
{
	(void)flags;
	*out = pointer;
	return memory_is_pinned((void *)pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemHostGetFlags(u32 *flags, u64 pointer)
{
	*flags = 0;
	return memory_is_pinned((void *)pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct context *context = context_current();
	struct sim_device *device;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	state_lock();
	device_reap(now_ns());
	device = &sim->devices[context->device];
	*total_bytes = device->total_bytes;
	*free_bytes = device->total_bytes - sim->config.reserved_bytes - device->used_bytes;
	state_unlock();
	return CUDA_SUCCESS;
}

int sim_cuMemGetInfo(u32 *free_bytes, u32 *total_bytes)
{
	size_t wide[2];
	int result = sim_cuMemGetInfo_v2(&wide[0], &wide[1]);

	if (!result) {
		*free_bytes = wide[0] > UINT32_MAX ? UINT32_MAX : (u32)wide[0];
		*total_bytes = wide[1] > UINT32_MAX ? UINT32_MAX : (u32)wide[1];
	}
	return result;
}

int sim_cuMemGetAddressRange_v2(u64 *base, size_t *bytes, u64 pointer)
{
	u64 start = 0, size = memory_size(pointer, &start);

	if (base)
		*base = start;
	if (bytes)
		*bytes = size;
	return size ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
