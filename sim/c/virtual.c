/* The virtual-memory API: memory lives as long as a handle or a mapping of it. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

enum { MAPPINGS = 4096 };

struct physical {
	struct object object;
	struct context *context;
	u64 bytes;
	u64 references;
	u64 mappings;
	bool imported; /* another process asked for it and holds it */
};

static struct {
	u64 start;
	u64 bytes;
	struct physical *physical;
} mapped[MAPPINGS];

static void settle(struct physical *physical)
{
	u64 bytes = physical->bytes;

	if (physical->references || physical->mappings)
		return;
	if (!physical->imported && physical->context->object.magic == MAGIC_CONTEXT) {
		memory_requested(physical->context->device, MEMORY_VIRTUAL, -(int64_t)bytes);
		memory_charge(physical->context, -bytes);
	}
	object_free(physical);
}

/* CUmemAllocationProp: type, handle types, location {type, id}. */
int sim_cuMemCreate(void **out, size_t bytes, const int *properties, u64 flags)
{
	struct context *context = NULL;
	struct physical *physical;
	int result;

	if (!out || !properties || flags || !bytes || bytes % sim->config.chunk_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_of_device(properties[3], &context))
		context = context_current();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = memory_charge(context, bytes);
	if (result)
		return result;
	physical = object_new(MAGIC_PHYSICAL, sizeof(*physical));
	physical->context = context;
	physical->bytes = bytes;
	physical->references = 1;
	memory_requested(context->device, MEMORY_VIRTUAL, (int64_t)bytes);
	*out = physical;
	return CUDA_SUCCESS;
}

int sim_cuMemRelease(struct physical *physical)
{
	if (!object_is(physical, MAGIC_PHYSICAL) || !physical->references)
		return CUDA_ERROR_INVALID_VALUE;
	process_lock();
	physical->references--;
	settle(physical);
	process_unlock();
	return CUDA_SUCCESS;
}

/* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR only: an empty file of that size stands for it. */
int sim_cuMemExportToShareableHandle(int *file, struct physical *physical, u32 type, u64 flags)
{
	if (!file || !object_is(physical, MAGIC_PHYSICAL) || type != 1 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*file = memfd_create("simulated-gpu-memory", MFD_CLOEXEC);
	if (*file < 0 || ftruncate(*file, (off_t)physical->bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

int sim_cuMemImportFromShareableHandle(void **out, u64 file, u32 type)
{
	struct physical *physical;
	struct stat status;

	if (!out || type != 1 || fstat((int)file, &status))
		return CUDA_ERROR_INVALID_VALUE;
	physical = object_new(MAGIC_PHYSICAL, sizeof(*physical));
	physical->bytes = (u64)status.st_size;
	physical->references = 1;
	physical->imported = true;
	*out = physical;
	return CUDA_SUCCESS;
}

int sim_cuMemAddressReserve(u64 *pointer, size_t bytes, size_t alignment, u64 wish, u64 flags)
{
	void *space;

	(void)alignment, (void)wish;
	if (!pointer || !bytes || flags)
		return CUDA_ERROR_INVALID_VALUE;
	space = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*pointer = (u64)space;
	return space == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

int sim_cuMemAddressFree(u64 pointer, size_t bytes)
{
	return munmap((void *)pointer, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int sim_cuMemMap(u64 pointer, size_t bytes, size_t offset, struct physical *physical, u64 flags)
{
	int result = CUDA_ERROR_OUT_OF_MEMORY;
	u32 at;

	if (!object_is(physical, MAGIC_PHYSICAL) || flags || bytes + offset > physical->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	process_lock();
	for (at = 0; at < MAPPINGS && result; at++) {
		if (mapped[at].physical)
			continue;
		mapped[at].start = pointer;
		mapped[at].bytes = bytes;
		mapped[at].physical = physical;
		physical->mappings++;
		result = CUDA_SUCCESS;
	}
	process_unlock();
	return result;
}

int sim_cuMemUnmap(u64 pointer, size_t bytes)
{
	bool found = false;
	u32 at;

	process_lock();
	for (at = 0; at < MAPPINGS; at++) {
		struct physical *physical = mapped[at].physical;

		if (!physical || mapped[at].start < pointer ||
		    mapped[at].start + mapped[at].bytes > pointer + bytes)
			continue;
		mapped[at].physical = NULL;
		physical->mappings--;
		settle(physical);
		found = true;
	}
	process_unlock();
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemRetainAllocationHandle(void **out, u64 pointer)
{
	int result = CUDA_ERROR_INVALID_VALUE;
	u32 at;

	process_lock();
	for (at = 0; at < MAPPINGS && result; at++) {
		if (!mapped[at].physical || pointer - mapped[at].start >= mapped[at].bytes)
			continue;
		mapped[at].physical->references++;
		*out = mapped[at].physical;
		result = CUDA_SUCCESS;
	}
	process_unlock();
	return result;
}

int sim_cuMemSetAccess(u64 pointer, size_t bytes, const void *access, size_t count)
{
	(void)access;
	return pointer && bytes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option)
{
	(void)properties, (void)option;
	*bytes = sim->config.chunk_bytes;
	return CUDA_SUCCESS;
}
