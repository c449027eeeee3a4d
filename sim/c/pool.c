/* Stream-ordered memory. A pool here keeps nothing: what is freed goes back at once. */
#include <string.h>

#include "sim.h"

struct pool {
	struct object object;
	int ordinal;
};

static struct pool *standard[SIM_DEVICES];
static struct pool *chosen[SIM_DEVICES];

static struct pool *pool_of(int ordinal)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return NULL;
	process_lock();
	if (!standard[device]) {
		standard[device] = object_new(MAGIC_POOL, sizeof(struct pool));
		standard[device]->ordinal = ordinal;
	}
	process_unlock();
	return chosen[device] ? chosen[device] : standard[device];
}

static int allocate(u64 *pointer, size_t bytes, void *handle)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	result = memory_allocate(stream->context, MEMORY_POOL, bytes, false, pointer);
	if (result || capture_takes(stream, NODE_MEM_ALLOC, 0, &result) || sim->config.instant)
		return result;
	return queue_submit(stream, ITEM_MARK, 0, NULL);
}

int sim_cuMemAllocAsync(u64 *pointer, size_t bytes, void *stream)
{
	return allocate(pointer, bytes, stream);
}

int sim_cuMemAllocFromPoolAsync(u64 *pointer, size_t bytes, void *pool, void *stream)
{
	return object_is(pool, MAGIC_POOL) ? allocate(pointer, bytes, stream)
					   : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemFreeAsync(u64 pointer, void *handle)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	result = memory_free(pointer, MEMORY_POOL);
	if (result || capture_takes(stream, NODE_MEM_FREE, 0, &result) || sim->config.instant)
		return result;
	return queue_submit(stream, ITEM_MARK, 0, NULL);
}

/* CUmemPoolProps: type, handle types, then location {type, id}. */
int sim_cuMemPoolCreate(void **out, const int *properties)
{
	struct pool *pool;

	if (!out || !properties || visible_device(properties[3]) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	pool = object_new(MAGIC_POOL, sizeof(*pool));
	pool->ordinal = properties[3];
	*out = pool;
	return CUDA_SUCCESS;
}

int sim_cuMemPoolDestroy(void *pool)
{
	if (!object_is(pool, MAGIC_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	object_free(pool);
	return CUDA_SUCCESS;
}

int sim_cuDeviceGetDefaultMemPool(void **out, int ordinal)
{
	int device = visible_device(ordinal);

	if (!pool_of(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*out = standard[device];
	return CUDA_SUCCESS;
}

int sim_cuDeviceGetMemPool(void **out, int ordinal)
{
	*out = pool_of(ordinal);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int sim_cuDeviceSetMemPool(int ordinal, void *pool)
{
	int device = visible_device(ordinal);

	if (device < 0 || !object_is(pool, MAGIC_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	chosen[device] = pool;
	return CUDA_SUCCESS;
}

int sim_cuMemPoolSetAttribute(void *pool, int attribute, void *value)
{
	(void)attribute, (void)value;
	return object_is(pool, MAGIC_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Attributes up to 3 are int, the others u64. */
int sim_cuMemPoolGetAttribute(void *pool, int attribute, void *value)
{
	memset(value, 0, attribute <= 3 ? sizeof(int) : sizeof(u64));
	return object_is(pool, MAGIC_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemPoolTrimTo(void *pool, size_t bytes)
{
	(void)bytes;
	return object_is(pool, MAGIC_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemPoolSetAccess(void *pool, const void *access, size_t count)
{
	(void)access, (void)count;
	return object_is(pool, MAGIC_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Moves nothing here, but takes its turn on the device. */
static int prefetch(void *handle, u64 bytes)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result || sim->config.instant)
		return result;
	return queue_submit(
		stream, ITEM_COPY,
		sim->config.copy_latency_ns + bytes * 1000 / sim->config.pinned_mb_per_s, NULL);
}

int sim_cuMemPrefetchAsync(u64 pointer, size_t bytes, int ordinal, void *stream)
{
	(void)pointer, (void)ordinal;
	return prefetch(stream, bytes);
}

int sim_cuMemPrefetchAsync_v2(u64 pointer, size_t bytes, u64 location, u32 flags, void *stream)
{
	(void)pointer, (void)location, (void)flags;
	return prefetch(stream, bytes);
}
