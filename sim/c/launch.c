/* Launches: every exported form comes down to one function, a grid, a block and a stream. */
#include <string.h>

#include "sim.h"

struct launch_config { /* CUlaunchConfig */
	u32 grid[3];
	u32 block[3];
	u32 shared_bytes;
	void *stream;
	void *attributes;
	u32 attribute_count;
};

struct launch_parameters { /* CUDA_LAUNCH_PARAMS */
	struct function *function;
	u32 grid[3];
	u32 block[3];
	u32 shared_bytes;
	void *stream;
	void **parameters;
};

static u64 duration_of(const struct function *function, void **parameters)
{
	if (function->from_argument && parameters && parameters[0])
		return *(const u64 *)parameters[0];
	return function->known ? function->duration_ns : sim->config.launch_ns;
}

static int launch(struct function *function, const u32 grid[3], const u32 block[3], void *handle,
		  void **parameters)
{
	u64 threads = (u64)block[0] * block[1] * block[2];
	u64 blocks = (u64)grid[0] * grid[1] * grid[2];
	struct stream *stream;
	struct sim_row *row;
	u64 duration;
	int result;

	if (!object_is(function, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || !threads || threads > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_resolve(handle, &stream);
	if (result)
		return result;
	duration = duration_of(function, parameters);
	if (capture_takes(stream, NODE_KERNEL, duration, &result))
		return result;
	if (!sim->config.instant) {
		issue_cost();
		result = queue_submit(stream, ITEM_LAUNCH, duration, NULL);
		if (result)
			return result;
	}
	row = process_row(stream->context->device);
	ADD(row->launches, 1);
	ADD(row->launch_threads, blocks * threads);
	return CUDA_SUCCESS;
}

int sim_cuLaunchKernel(void *function, u32 grid_x, u32 grid_y, u32 grid_z, u32 block_x, u32 block_y,
		       u32 block_z, u32 shared_bytes, void *stream, void **parameters, void **extra)
{
	u32 grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};

	(void)shared_bytes;
	(void)extra;
	return launch(function, grid, block, stream, parameters);
}

int sim_cuLaunchCooperativeKernel(void *function, u32 grid_x, u32 grid_y, u32 grid_z, u32 block_x,
				  u32 block_y, u32 block_z, u32 shared_bytes, void *stream,
				  void **parameters)
{
	return sim_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
				  shared_bytes, stream, parameters, NULL);
}

int sim_cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters,
			 void **extra)
{
	(void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, config->grid, config->block, config->stream, parameters);
}

int sim_cuLaunchCooperativeKernelMultiDevice(struct launch_parameters *list, u32 count, u32 flags)
{
	int result = CUDA_SUCCESS;
	u32 at;

	(void)flags;
	for (at = 0; at < count && !result; at++)
		result = launch(list[at].function, list[at].grid, list[at].block, list[at].stream,
				list[at].parameters);
	return result;
}

/* The forms of CUDA 3: the block belongs to the function, the stream is the legacy one. */
int sim_cuFuncSetBlockShape(struct function *function, int x, int y, int z)
{
	if (!object_is(function, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	function->block[0] = (u32)x;
	function->block[1] = (u32)y;
	function->block[2] = (u32)z;
	return CUDA_SUCCESS;
}

int sim_cuLaunchGridAsync(struct function *function, int width, int height, void *stream)
{
	u32 grid[3] = {(u32)width, (u32)height, 1}, block[3] = {1, 1, 1};

	if (object_is(function, MAGIC_FUNCTION) && function->block[0])
		memcpy(block, function->block, sizeof(block));
	return launch(function, grid, block, stream, NULL);
}

int sim_cuLaunchGrid(struct function *function, int width, int height)
{
	return sim_cuLaunchGridAsync(function, width, height, NULL);
}

int sim_cuLaunch(struct function *function)
{
	return sim_cuLaunchGridAsync(function, 1, 1, NULL);
}
