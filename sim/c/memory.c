/*
 * Memory: what a process asked for, what it holds of the device, and the
 * table of its allocations. Device addresses are real, untouched pages of the
 * process, so that small copies can move their bytes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

enum { SMALL_BYTES = 1 << 20, SUBALLOCATION_BYTES = 512, PAGE_BYTES = 4096 };

struct allocation {
	u64 start;
	u64 bytes;
	u32 family;
	struct context *context;
	u32 device;
};

static struct allocation *table; /* sorted by address */
static size_t count, room;

static u64 round_up(u64 bytes, u64 unit)
{
	return unit ? (bytes + unit - 1) / unit * unit : bytes;
}

/* Index of the first allocation that begins after an address. */
static size_t after(u64 pointer)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle].start <= pointer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct allocation *find(u64 pointer)
{
	size_t at = after(pointer);

	if (!at || pointer - table[at - 1].start >= table[at - 1].bytes)
		return NULL;
	return &table[at - 1];
}

static void insert(struct allocation allocation)
{
	size_t at = after(allocation.start);

	if (count == room) {
		room = room ? room * 2 : 256;
		table = realloc(table, room * sizeof(*table));
		if (!table)
			abort();
	}
	memmove(&table[at + 1], &table[at], (count - at) * sizeof(*table));
	table[at] = allocation;
	count++;
}

static void erase(struct allocation *allocation)
{
	size_t at = (size_t)(allocation - table);

	memmove(&table[at], &table[at + 1], (count - at - 1) * sizeof(*table));
	count--;
}

/* A forked child has none of its parent's allocations, though their pages are there. */
void memory_forget(void)
{
	count = 0;
}

void memory_requested(u32 device, u32 family, int64_t bytes)
{
	struct sim_row *row = process_row(device);
	u64 *now = &row->requested_device + family, *peak = &row->peak_device + family;
	u64 value = __atomic_add_fetch(now, (u64)bytes, __ATOMIC_RELAXED);
	u64 before = __atomic_load_n(peak, __ATOMIC_RELAXED);

	while (bytes > 0 && before < value)
		if (__atomic_compare_exchange_n(peak, &before, value, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			break;
}

/* Change what a context holds: whole chunks, and small allocations that share some. */
static int hold(struct context *context, int64_t large, int64_t small)
{
	struct sim_channel *channel = &sim->channels[context->channel];
	struct sim_device *device = &sim->devices[context->device];
	u64 chunk = sim->config.chunk_bytes, space;
	int64_t change;

	state_lock();
	device_reap(now_ns());
	space = device->total_bytes - sim->config.reserved_bytes;
	change = large + (int64_t)round_up(channel->small_bytes + (u64)small, chunk) -
		 (int64_t)round_up(channel->small_bytes, chunk);
	if (change > 0 && device->used_bytes + (u64)change > space) {
		state_unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	channel->small_bytes += (u64)small;
	channel->held_bytes += (u64)change;
	device->used_bytes += (u64)change;
	sim->rows[channel->row].held_bytes += (u64)change;
	state_unlock();
	return CUDA_SUCCESS;
}

int memory_charge(struct context *context, u64 bytes)
{
	return hold(context, (int64_t)bytes, 0);
}

static int hold_allocation(struct context *context, u64 bytes, int sign)
{
	if (bytes < SMALL_BYTES)
		return hold(context, 0, sign * (int64_t)round_up(bytes, SUBALLOCATION_BYTES));
	return hold(context, sign * (int64_t)round_up(bytes, sim->config.chunk_bytes), 0);
}

static bool on_device(u32 family)
{
	return family != MEMORY_HOST && family != MEMORY_HOST_REGISTERED;
}

int memory_allocate(struct context *context, u32 family, u64 bytes, bool low, u64 *pointer)
{
	struct allocation allocation = {0, bytes, family, context, context ? context->device : 0};
	void *pages;
	int result;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!pointer || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (on_device(family)) {
		result = hold_allocation(context, bytes, 1);
		if (result)
			return result;
	}
	pages = mmap(NULL, round_up(bytes, PAGE_BYTES), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (low ? MAP_32BIT : 0), -1, 0);
	if (pages == MAP_FAILED) {
		if (on_device(family))
			hold_allocation(context, bytes, -1);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation.start = (u64)pages;
	process_lock();
	insert(allocation);
	process_unlock();
	memory_requested(allocation.device, family, (int64_t)bytes);
	*pointer = allocation.start;
	return CUDA_SUCCESS;
}

/* A family of MEMORY_DEVICE stands for all that cuMemFree takes. */
static bool frees(u32 asked, u32 found)
{
	return asked == found ||
	       (asked == MEMORY_DEVICE && (found == MEMORY_MANAGED || found == MEMORY_POOL)) ||
	       (asked == MEMORY_POOL && found == MEMORY_DEVICE);
}

int memory_free(u64 pointer, u32 family)
{
	struct allocation allocation, *found;

	if (!pointer)
		return CUDA_SUCCESS;
	process_lock();
	found = find(pointer);
	if (!found || found->start != pointer || !frees(family, found->family)) {
		process_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	allocation = *found;
	erase(found);
	memory_requested(allocation.device, allocation.family, -(int64_t)allocation.bytes);
	munmap((void *)pointer, round_up(allocation.bytes, PAGE_BYTES));
	process_unlock();
	if (on_device(allocation.family))
		hold_allocation(allocation.context, allocation.bytes, -1);
	return CUDA_SUCCESS;
}

/* A context ends: so does all it holds. The channel's figures go with the channel. */
void memory_drop(struct context *context)
{
	size_t at;

	process_lock();
	for (at = count; at-- > 0;) {
		struct allocation allocation = table[at];

		if (allocation.context != context)
			continue;
		erase(&table[at]);
		memory_requested(allocation.device, allocation.family, -(int64_t)allocation.bytes);
		if (allocation.family != MEMORY_HOST_REGISTERED)
			munmap((void *)allocation.start, round_up(allocation.bytes, PAGE_BYTES));
	}
	process_unlock();
}

u64 memory_size(u64 pointer, u64 *start)
{
	struct allocation *found;
	u64 bytes = 0;

	process_lock();
	found = find(pointer);
	if (found) {
		bytes = found->bytes;
		*start = found->start;
	}
	process_unlock();
	return bytes;
}

static int family_of(u64 pointer)
{
	struct allocation *found;
	int family;

	process_lock();
	found = find(pointer);
	family = found ? (int)found->family : -1;
	process_unlock();
	return family;
}

bool memory_is_pinned(const void *pointer)
{
	int family = family_of((u64)pointer);

	return family >= 0 && !on_device((u32)family);
}

bool memory_is_device(u64 pointer, u64 bytes)
{
	int family = family_of(pointer);
	u64 start = 0, size;

	if (family < 0 || !on_device((u32)family))
		return false;
	size = memory_size(pointer, &start);
	return bytes <= size && pointer - start <= size - bytes;
}

int memory_register(struct context *context, u64 pointer, u64 bytes)
{
	int result = CUDA_SUCCESS;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!pointer || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	process_lock();
	if (find(pointer))
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else
		insert((struct allocation){pointer, bytes, MEMORY_HOST_REGISTERED, context,
					   context->device});
	process_unlock();
	if (!result)
		memory_requested(context->device, MEMORY_HOST_REGISTERED, (int64_t)bytes);
	return result;
}

int memory_unregister(u64 pointer)
{
	struct allocation *found;
	int result = CUDA_SUCCESS;

	process_lock();
	found = find(pointer);
	if (!found || found->start != pointer || found->family != MEMORY_HOST_REGISTERED) {
		result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	} else {
		memory_requested(found->device, MEMORY_HOST_REGISTERED, -(int64_t)found->bytes);
		erase(found);
	}
	process_unlock();
	return result;
}
