/* Objects behind handles: memory that stays of its type, so that a stale handle reads a mark. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct object *unused;

void *object_new(u32 magic, size_t size)
{
	struct object **link, *object;

	process_lock();
	for (link = &unused; *link; link = &(*link)->next)
		if ((*link)->size == size)
			break;
	object = *link;
	if (object)
		*link = object->next;
	process_unlock();
	if (!object)
		object = malloc(size);
	if (!object)
		abort();
	memset(object, 0, size);
	object->magic = magic;
	object->size = (u32)size;
	return object;
}

void object_free(void *pointer)
{
	struct object *object = pointer;

	process_lock();
	object->magic = MAGIC_FREE;
	object->next = unused;
	unused = object;
	process_unlock();
}

/* Small integers (the default streams, ordinals) are never objects. */
bool object_is(const void *handle, u32 magic)
{
	return (u64)handle > 4096 && ((u64)handle & 7) == 0 &&
	       ((const struct object *)handle)->magic == magic;
}
