/* Copies described by a structure, of arrays, and in batches. */
#include "copy.h"

/* CUmemorytype */
enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_ARRAY = 3, TYPE_UNIFIED = 4 };

struct side {
	u64 x, y;
	u32 type;
	u64 host, device, array, pitch;
};

struct copy_2d { /* CUDA_MEMCPY2D, 64-bit form */
	struct side source, target;
	u64 width, height;
};

struct side_3d {
	u64 x, y, z, level;
	u32 type;
	u64 host, device, array, context, pitch, height;
};

struct copy_3d { /* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, 64-bit form */
	struct side_3d source, target;
	u64 width, height, depth;
};

static u32 direction_of(u32 source, u32 target)
{
	if (source == TYPE_UNIFIED || target == TYPE_UNIFIED || (source == 1 && target == 1))
		return COPY_UNKNOWN;
	if (source == TYPE_HOST)
		return COPY_HTOD;
	return target == TYPE_HOST ? COPY_DTOH : COPY_DTOD;
}

static int run(u32 direction, u64 bytes, u64 host, void *stream, bool async)
{
	struct copy copy = {direction, bytes, NULL, NULL, stream, async, false};

	if (direction == COPY_HTOD)
		copy.source = (const void *)host;
	else if (direction == COPY_DTOH)
		copy.target = (void *)host;
	return copy_run(&copy);
}

static int run_2d(const struct copy_2d *given, void *stream, bool async)
{
	u32 direction;

	if (!given || !given->width || !given->height)
		return CUDA_ERROR_INVALID_VALUE;
	direction = direction_of(given->source.type, given->target.type);
	return run(direction, given->width * given->height,
		   direction == COPY_HTOD ? given->source.host : given->target.host, stream, async);
}

/* The 32-bit form lays its fields out differently: source at 0, target at 44, sizes at 84. */
static int run_2d_v1(const unsigned char *given, void *stream, bool async)
{
	u32 direction, width, height;
	u64 host;

	if (!given)
		return CUDA_ERROR_INVALID_VALUE;
	direction = direction_of(*(const u32 *)(given + 8), *(const u32 *)(given + 52));
	host = *(const u64 *)(given + (direction == COPY_HTOD ? 16 : 56));
	width = *(const u32 *)(given + 84);
	height = *(const u32 *)(given + 88);
	return width && height ? run(direction, (u64)width * height, host, stream, async)
			       : CUDA_ERROR_INVALID_VALUE;
}

static int run_3d(const struct copy_3d *given, void *stream, bool async, bool peer)
{
	u32 direction;
	u64 bytes;

	if (!given || !given->width || !given->height || !given->depth)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = given->width * given->height * given->depth;
	direction = peer ? COPY_PEER : direction_of(given->source.type, given->target.type);
	return run(direction, bytes,
		   direction == COPY_HTOD ? given->source.host : given->target.host, stream, async);
}

static int run_3d_v1(const unsigned char *given, void *stream, bool async)
{
	const u32 *sizes = (const u32 *)(given + 128);
	u32 direction;
	u64 bytes;

	if (!given)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = (u64)sizes[0] * sizes[1] * sizes[2];
	direction = direction_of(*(const u32 *)(given + 16), *(const u32 *)(given + 80));
	return bytes ? run(direction, bytes,
			   *(const u64 *)(given + (direction == COPY_HTOD ? 24 : 88)), stream,
			   async)
		     : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemcpy2D_v2(const void *given)
{
	return run_2d(given, NULL, false);
}

int sim_cuMemcpy2DUnaligned_v2(const void *given)
{
	return run_2d(given, NULL, false);
}

int sim_cuMemcpy2DAsync_v2(const void *given, void *stream)
{
	return run_2d(given, stream, true);
}

int sim_cuMemcpy2D(const void *given)
{
	return run_2d_v1(given, NULL, false);
}

int sim_cuMemcpy2DUnaligned(const void *given)
{
	return run_2d_v1(given, NULL, false);
}

int sim_cuMemcpy2DAsync(const void *given, void *stream)
{
	return run_2d_v1(given, stream, true);
}

int sim_cuMemcpy3D_v2(const void *given)
{
	return run_3d(given, NULL, false, false);
}

int sim_cuMemcpy3DAsync_v2(const void *given, void *stream)
{
	return run_3d(given, stream, true, false);
}

int sim_cuMemcpy3DPeer(const void *given)
{
	return run_3d(given, NULL, false, true);
}

int sim_cuMemcpy3DPeerAsync(const void *given, void *stream)
{
	return run_3d(given, stream, true, true);
}

int sim_cuMemcpy3D(const void *given)
{
	return run_3d_v1(given, NULL, false);
}

int sim_cuMemcpy3DAsync(const void *given, void *stream)
{
	return run_3d_v1(given, stream, true);
}

/* Arrays: sizes of the old and new forms differ only in the width of a register. */
#define ARRAY_FORMS(name, parameters, call)                                                        \
	int sim_##name##_v2 parameters                                                             \
	{                                                                                          \
		return call;                                                                       \
	}                                                                                          \
	int sim_##name parameters                                                                  \
	{                                                                                          \
		return call;                                                                       \
	}

ARRAY_FORMS(cuMemcpyHtoA, (void *array, size_t offset, u64 host, size_t bytes),
	    ((void)array, (void)offset, run(COPY_HTOD, bytes, host, NULL, false)))
ARRAY_FORMS(cuMemcpyHtoAAsync, (void *array, size_t offset, u64 host, size_t bytes, void *stream),
	    ((void)array, (void)offset, run(COPY_HTOD, bytes, host, stream, true)))
ARRAY_FORMS(cuMemcpyAtoH, (u64 host, void *array, size_t offset, size_t bytes),
	    ((void)array, (void)offset, run(COPY_DTOH, bytes, host, NULL, false)))
ARRAY_FORMS(cuMemcpyAtoHAsync, (u64 host, void *array, size_t offset, size_t bytes, void *stream),
	    ((void)array, (void)offset, run(COPY_DTOH, bytes, host, stream, true)))
ARRAY_FORMS(cuMemcpyAtoD, (u64 device, void *array, size_t offset, size_t bytes),
	    ((void)array, (void)offset, (void)device, run(COPY_DTOD, bytes, 0, NULL, false)))
ARRAY_FORMS(cuMemcpyDtoA, (void *array, size_t offset, u64 device, size_t bytes),
	    ((void)array, (void)offset, (void)device, run(COPY_DTOD, bytes, 0, NULL, false)))
ARRAY_FORMS(cuMemcpyAtoA, (void *array, size_t offset, void *other, size_t at, size_t bytes),
	    ((void)array, (void)offset, (void)other, (void)at,
	     run(COPY_DTOD, bytes, 0, NULL, false)))

/* A batch counts as one copy of all its bytes. Its directions are not in the call. */
int sim_cuMemcpyBatchAsync_v2(void *targets, void *sources, const size_t *sizes, size_t count,
			      void *attributes, size_t *indices, size_t attribute_count,
			      void *stream)
{
	struct copy copy = {COPY_UNKNOWN, 0, NULL, NULL, stream, true, true};
	size_t at;

	(void)targets, (void)sources, (void)attributes, (void)indices, (void)attribute_count;
	if (!sizes || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = 0; at < count; at++)
		copy.bytes += sizes[at];
	return copy_run(&copy);
}

int sim_cuMemcpyBatchAsync(void *targets, void *sources, const size_t *sizes, size_t count,
			   void *attributes, size_t *indices, size_t attribute_count,
			   size_t *failed, void *stream)
{
	(void)failed;
	return sim_cuMemcpyBatchAsync_v2(targets, sources, sizes, count, attributes, indices,
					 attribute_count, stream);
}

int sim_cuMemcpy3DBatchAsync_v2(size_t count, void *operations, u64 flags, void *stream)
{
	struct copy copy = {COPY_UNKNOWN, 0, NULL, NULL, stream, true, true};

	(void)flags;
	return count && operations ? copy_run(&copy) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemcpy3DBatchAsync(size_t count, void *operations, size_t *failed, u64 flags,
			     void *stream)
{
	(void)failed;
	return sim_cuMemcpy3DBatchAsync_v2(count, operations, flags, stream);
}
