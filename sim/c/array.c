/* Arrays: requested bytes are those of the descriptor, of a mipmapped one its base level. */
#include "sim.h"

struct array {
	struct object object;
	u64 address;
	struct array *level; /* of a mipmapped one */
};

struct descriptor { /* CUDA_ARRAY3D_DESCRIPTOR; the flat one ends before depth */
	u64 width, height, depth;
	u32 format, channels;
};

static u64 format_bytes(u32 format)
{
	switch (format) {
	case 0x02: /* CU_AD_FORMAT_UNSIGNED_INT16 */
	case 0x09:
	case 0x10: /* HALF */
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20: /* FLOAT */
		return 4;
	default:
		return 1;
	}
}

static int array_new(void **out, struct descriptor given)
{
	struct array *array;
	u64 bytes, address;
	int result;

	if (!out || !given.width)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = given.width * (given.height ? given.height : 1) * (given.depth ? given.depth : 1) *
		format_bytes(given.format) * (given.channels ? given.channels : 1);
	result = memory_allocate(context_current(), MEMORY_ARRAY, bytes, false, &address);
	if (result)
		return result;
	array = object_new(MAGIC_ARRAY, sizeof(*array));
	array->address = address;
	*out = array;
	return CUDA_SUCCESS;
}

int sim_cuArrayCreate_v2(void **out, const u64 *given)
{
	const u32 *tail = (const u32 *)(given + 2);

	return array_new(out, (struct descriptor){given[0], given[1], 0, tail[0], tail[1]});
}

int sim_cuArrayCreate(void **out, const u32 *given)
{
	return array_new(out, (struct descriptor){given[0], given[1], 0, given[2], given[3]});
}

int sim_cuArray3DCreate_v2(void **out, const struct descriptor *given)
{
	return array_new(out, *given);
}

int sim_cuArray3DCreate(void **out, const u32 *given)
{
	return array_new(out,
			 (struct descriptor){given[0], given[1], given[2], given[3], given[4]});
}

int sim_cuMipmappedArrayCreate(void **out, const struct descriptor *given, u32 levels)
{
	return levels ? array_new(out, *given) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMipmappedArrayGetLevel(void **out, struct array *array, u32 level)
{
	(void)level;
	if (!object_is(array, MAGIC_ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!array->level)
		array->level = object_new(MAGIC_ARRAY, sizeof(*array));
	*out = array->level;
	return CUDA_SUCCESS;
}

int sim_cuArrayDestroy(struct array *array)
{
	int result;

	if (!object_is(array, MAGIC_ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	result = memory_free(array->address, MEMORY_ARRAY);
	if (array->level)
		object_free(array->level);
	object_free(array);
	return result;
}

int sim_cuMipmappedArrayDestroy(struct array *array)
{
	return sim_cuArrayDestroy(array);
}
