/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How many bytes a call moves or asks for, and which way a described copy goes. */
#ifndef GPUGAUGE_SIZE_H
#define GPUGAUGE_SIZE_H

#include "args.bpf.h"
#include "maps.bpf.h"

/* cuda.h: CUmemorytype */
#define MEMORY_HOST 1
#define MEMORY_DEVICE 2
#define MEMORY_ARRAY 3

#define BATCH_MAX 128

/* cuda.h: CUDA_MEMCPY2D_v2; the parts read */
struct copy_2d {
	__u64 src_x, src_y;
	__u32 src_type, src_padding;
	__u64 src_host, src_device, src_array, src_pitch;
	__u64 dst_x, dst_y;
	__u32 dst_type, dst_padding;
	__u64 dst_host, dst_device, dst_array, dst_pitch;
	__u64 width_bytes, height;
};

/* cuda.h: CUDA_MEMCPY3D_v2 and CUDA_MEMCPY3D_PEER, which differ in reserved members */
struct copy_3d {
	__u64 src_x, src_y, src_z, src_lod;
	__u32 src_type, src_padding;
	__u64 src_host, src_device, src_array, src_reserved, src_pitch, src_height;
	__u64 dst_x, dst_y, dst_z, dst_lod;
	__u32 dst_type, dst_padding;
	__u64 dst_host, dst_device, dst_array, dst_reserved, dst_pitch, dst_height;
	__u64 width_bytes, height, depth;
};

/* cuda.h: CUDA_ARRAY3D_DESCRIPTOR_v2 */
struct array_3d {
	__u64 width, height, depth;
	__u32 format, channels;
};

/* cuda.h: CUDA_ARRAY_DESCRIPTOR_v2 */
struct array_2d {
	__u64 width, height;
	__u32 format, channels;
};

/* cuda.h: CUlaunchConfig up to the stream */
struct launch_config {
	__u32 grid_x, grid_y, grid_z, block_x, block_y, block_z;
	__u32 shared_bytes, padding;
	__u64 stream;
};

/* What is behind an argument of a cuLaunchKernel that lies on the stack. */
struct launch_stack {
#if !defined(__TARGET_ARCH_arm64)
	__u64 block_z, shared_bytes;
#endif
	__u64 stream;
};

INLINE bool on_device(__u32 memory_type)
{
	return memory_type == MEMORY_DEVICE || memory_type == MEMORY_ARRAY;
}

INLINE __u32 copy_direction(__u32 from, __u32 to)
{
	if (from == MEMORY_HOST && on_device(to))
		return SLOT_COPY_HTOD;
	if (on_device(from) && to == MEMORY_HOST)
		return SLOT_COPY_DTOH;
	if (on_device(from) && on_device(to))
		return SLOT_COPY_DTOD;
	return SLOT_COPY_UNKNOWN; /* unified addresses do not tell */
}

/* cuda.h: CUarray_format; 0 for formats whose size is not one number of bytes */
INLINE __u64 format_bytes(__u32 format)
{
	switch (format) {
	case 0x01: /* UNSIGNED_INT8 */
	case 0x08: /* SIGNED_INT8 */
		return 1;
	case 0x02: /* UNSIGNED_INT16 */
	case 0x09: /* SIGNED_INT16 */
	case 0x10: /* HALF */
		return 2;
	case 0x03: /* UNSIGNED_INT32 */
	case 0x0a: /* SIGNED_INT32 */
	case 0x20: /* FLOAT */
		return 4;
	default:
		return 0;
	}
}

INLINE bool read_user(void *to, __u32 size, __u64 from)
{
	return probe_read_user(to, size, (void *)from) == 0;
}

INLINE bool size_2d(__u64 at, __u64 *bytes, __u32 *direction)
{
	struct copy_2d copy;

	if (!read_user(&copy, sizeof(copy), at))
		return false;
	*bytes = copy.width_bytes * copy.height;
	*direction = copy_direction(copy.src_type, copy.dst_type);
	return true;
}

INLINE bool size_3d(__u64 at, bool peer, __u64 *bytes, __u32 *direction)
{
	struct copy_3d copy;

	if (!read_user(&copy, sizeof(copy), at))
		return false;
	*bytes = copy.width_bytes * copy.height * copy.depth;
	if (!peer)
		*direction = copy_direction(copy.src_type, copy.dst_type);
	return true;
}

INLINE bool size_array_3d(__u64 at, __u64 *bytes)
{
	struct array_3d array;

	if (!read_user(&array, sizeof(array), at))
		return false;
	*bytes = array.width * (array.height ? array.height : 1) * (array.depth ? array.depth : 1) *
		 array.channels * format_bytes(array.format);
	return *bytes != 0;
}

INLINE bool size_array_2d(__u64 at, __u64 *bytes)
{
	struct array_2d array;

	if (!read_user(&array, sizeof(array), at))
		return false;
	*bytes = array.width * (array.height ? array.height : 1) * array.channels *
		 format_bytes(array.format);
	return *bytes != 0;
}

#define BATCH_UNREADABLE (~0ull)

/* The sum of `count` sizes, or BATCH_UNREADABLE. */
ONCE __u64 size_batch(__u64 at, __u64 count)
{
	__u64 sum = 0, one;

	if (count > BATCH_MAX)
		return BATCH_UNREADABLE;
	for (__u32 i = 0; i < BATCH_MAX; i++) {
		if (i >= count)
			break;
		if (!read_user(&one, sizeof(one), at + 8 * (__u64)i))
			return BATCH_UNREADABLE;
		sum += one;
	}
	return sum;
}

/*
 * The size of a call that is more than one argument. Returns 0 where it could
 * not be read, and is unknown.
 */
ONCE int described_size(__u32 tid, __u64 cookie, __u64 first, __u64 second)
{
	struct thread *thread = map_lookup(&threads, &tid);
	__u32 direction = 0;
	__u64 bytes = 0;
	bool known = true;

	if (!thread)
		return 0;
	switch (COOKIE_FIELD(cookie, SIZE)) {
	case SIZE_ARG32:
		bytes = (__u64)(__u32)first << COOKIE_FIELD(cookie, SIZE_LOG2);
		break;
	case SIZE_TWO_ARGS:
		bytes = (first * second) << COOKIE_FIELD(cookie, SIZE_LOG2);
		break;
	case SIZE_MEMCPY_2D:
		known = size_2d(first, &bytes, &direction);
		break;
	case SIZE_MEMCPY_3D:
		known = size_3d(first, COOKIE_FIELD(cookie, SLOT) == SLOT_COPY_PEER, &bytes,
				&direction);
		break;
	case SIZE_PITCH:
		bytes = second; /* height; the pitch is known at return */
		break;
	case SIZE_ARRAY:
		known = size_array_2d(first, &bytes);
		break;
	case SIZE_ARRAY_3D:
		known = size_array_3d(first, &bytes);
		break;
	case SIZE_BATCH:
		bytes = size_batch(first, second);
		known = bytes != BATCH_UNREADABLE;
		break;
	default:
		known = false;
	}
	thread->open_bytes = known ? bytes : 0;
	thread->open_direction = direction;
	return known;
}

/* The size of a call, into its thread's row. */
INLINE void call_size(struct registers *ctx, struct thread *thread, __u32 tid, __u64 cookie)
{
	__u32 kind = COOKIE_FIELD(cookie, SIZE), number = COOKIE_FIELD(cookie, SIZE_ARG);
	__u64 first = 0, second = 0;

	if (!argument(ctx, number, &first)) {
		lost(LOSS_SIZE_UNREADABLE);
		return;
	}
	if (LIKELY(kind == SIZE_ARG)) {
		thread->open_bytes = first << COOKIE_FIELD(cookie, SIZE_LOG2);
		return;
	}
	if (kind == SIZE_PITCH)
		second = register_argument(ctx, 4);
	else if ((kind == SIZE_TWO_ARGS || kind == SIZE_BATCH) &&
		 !argument(ctx, number + 1, &second))
		kind = SIZE_NONE;
	if (kind == SIZE_NONE || !described_size(tid, cookie, first, second))
		lost(LOSS_SIZE_UNREADABLE);
}

/* Threads of a launch and its stream, in one read of the stack. */
INLINE bool launch_arguments(struct registers *ctx, __u64 *launch_threads, __u64 *stream)
{
	struct launch_stack stack;
	__u64 block_z;

#if defined(__TARGET_ARCH_arm64)
	if (!read_user(&stack, sizeof(stack), stack_pointer(ctx)))
		return false;
	block_z = register_argument(ctx, 7);
#else
	if (!read_user(&stack, sizeof(stack), stack_pointer(ctx) + STACK_FIRST))
		return false;
	block_z = stack.block_z;
#endif
	*stream = stack.stream;
	*launch_threads = (__u64)(__u32)register_argument(ctx, 2) *
			  (__u32)register_argument(ctx, 3) * (__u32)register_argument(ctx, 4) *
			  (__u32)register_argument(ctx, 5) * (__u32)register_argument(ctx, 6) *
			  (__u32)block_z;
	return true;
}

INLINE bool launch_configuration(struct registers *ctx, __u64 *launch_threads, __u64 *stream)
{
	struct launch_config config;

	if (!read_user(&config, sizeof(config), register_argument(ctx, 1)))
		return false;
	*stream = config.stream;
	*launch_threads = (__u64)config.grid_x * config.grid_y * config.grid_z * config.block_x *
			  config.block_y * config.block_z;
	return true;
}

#endif
