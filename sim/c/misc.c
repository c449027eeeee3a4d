/* Small answers: error texts, limits, attributes, and setters that change nothing here. */
#include <string.h>

#include "sim.h"

int sim_cuGetErrorName(int code, const char **text)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
		{0, "CUDA_SUCCESS"},
		{1, "CUDA_ERROR_INVALID_VALUE"},
		{2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{3, "CUDA_ERROR_NOT_INITIALIZED"},
		{100, "CUDA_ERROR_NO_DEVICE"},
		{101, "CUDA_ERROR_INVALID_DEVICE"},
		{201, "CUDA_ERROR_INVALID_CONTEXT"},
		{400, "CUDA_ERROR_INVALID_HANDLE"},
		{500, "CUDA_ERROR_NOT_FOUND"},
		{600, "CUDA_ERROR_NOT_READY"},
		{700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{719, "CUDA_ERROR_LAUNCH_FAILED"},
		{801, "CUDA_ERROR_NOT_SUPPORTED"},
		{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
		{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
	};
	size_t at;

	*text = NULL;
	for (at = 0; at < sizeof(names) / sizeof(names[0]); at++)
		if (names[at].code == code)
			*text = names[at].name;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuGetErrorString(int code, const char **text)
{
	return sim_cuGetErrorName(code, text);
}

/* Private tables are NVIDIA's own affair: there are none here. */
int sim_cuGetExportTable(const void **table, const void *uuid)
{
	(void)uuid;
	if (table)
		*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

int sim_cuCtxGetLimit(size_t *value, int limit)
{
	*value = limit == 1 ? 1 << 20 : 8 << 20;
	return CUDA_SUCCESS;
}

int sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

int sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *function,
							     int threads, size_t bytes, u32 flags)
{
	(void)function, (void)bytes, (void)flags;
	*blocks = threads > 0 ? 2048 / threads : 0;
	return CUDA_SUCCESS;
}

int sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
						    size_t bytes)
{
	return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
									bytes, 0);
}

int sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, void *function,
						  void *bytes_of, size_t bytes, int limit,
						  u32 flags)
{
	(void)function, (void)bytes_of, (void)bytes, (void)flags;
	*grid = 264;
	*block = limit && limit < 1024 ? limit : 1024;
	return CUDA_SUCCESS;
}

int sim_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *function, void *bytes_of,
					 size_t bytes, int limit)
{
	return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, bytes_of, bytes,
							     limit, 0);
}

/* CU_POINTER_ATTRIBUTE_*: context 1, memory type 2, device pointer 3, host pointer 4, ... */
int sim_cuPointerGetAttribute(void *value, int attribute, u64 pointer)
{
	u64 start = 0, bytes = memory_size(pointer, &start);
	bool device = memory_is_device(pointer, 1);

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case 1:
		*(void **)value = context_current();
		break;
	case 2:
		*(u32 *)value = device ? 2 : 1;
		break;
	case 3:
	case 4:
	case 11:
		*(u64 *)value = attribute == 11 ? start : pointer;
		break;
	case 8:
	case 9:
	case 14:
		*(u32 *)value = attribute == 14;
		break;
	case 12:
		*(u64 *)value = bytes;
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

#define SETTER(name)                                                                               \
	int sim_##name(void)                                                                       \
	{                                                                                          \
		return CUDA_SUCCESS;                                                               \
	}

SETTER(cuCtxSetLimit)
SETTER(cuCtxSetFlags)
SETTER(cuCtxSetCacheConfig)
SETTER(cuCtxSetSharedMemConfig)
SETTER(cuCtxEnablePeerAccess)
SETTER(cuCtxDisablePeerAccess)
SETTER(cuCtxResetPersistingL2Cache)
SETTER(cuFuncSetAttribute)
SETTER(cuFuncSetCacheConfig)
SETTER(cuFuncSetSharedMemConfig)
SETTER(cuFuncSetSharedSize)
SETTER(cuFuncLoad)
SETTER(cuKernelSetAttribute)
SETTER(cuKernelSetCacheConfig)
SETTER(cuParamSetSize)
SETTER(cuParamSeti)
SETTER(cuParamSetf)
SETTER(cuParamSetv)
SETTER(cuProfilerInitialize)
SETTER(cuProfilerStart)
SETTER(cuProfilerStop)
SETTER(cuMemAdvise)
SETTER(cuMemAdvise_v2)
SETTER(cuStreamAttachMemAsync)
SETTER(cuStreamSetAttribute)
SETTER(cuStreamCopyAttributes)
SETTER(cuGraphAddDependencies)
SETTER(cuGraphAddDependencies_v2)
SETTER(cuGraphRemoveDependencies)
SETTER(cuGraphKernelNodeSetAttribute)
SETTER(cuGraphDebugDotPrint)
SETTER(cuPointerSetAttribute)
