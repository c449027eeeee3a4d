/* cuGetProcAddress: answers with this library's own exported stubs, the form by version and flags.
 */
#include <string.h>

#include "sim.h"

enum { FLAG_PER_THREAD = 2 };

static const struct sim_name *find(const char *name)
{
	u32 at;

	for (at = 0; at < sim_name_count; at++)
		if (!strcmp(sim_names[at].name, name))
			return &sim_names[at];
	return NULL;
}

/* The newest form of a base name that the asked CUDA version already had. */
static const struct sim_name *choose(const char *name, u32 version, bool per_thread)
{
	const struct sim_name *best = NULL;
	u32 at;

	for (at = 0; at < sim_name_count; at++) {
		const struct sim_name *row = &sim_names[at];

		if (strcmp(row->base, name) || row->since > version)
			continue;
		if (row->per_thread && !per_thread)
			continue;
		if (!best || row->since > best->since ||
		    (row->since == best->since && row->per_thread > best->per_thread))
			best = row;
	}
	return best ? best : find(name);
}

int sim_cuGetProcAddress_v2(const char *name, void **out, int version, u64 flags, int *status)
{
	const struct sim_name *row;

	if (!name || !out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!strcmp(name, "cuGraphInstantiate") && version >= 12000)
		name = "cuGraphInstantiateWithFlags"; /* as cuda.h renames it since CUDA 12 */
	row = choose(name, (u32)version, (flags & FLAG_PER_THREAD) != 0);
	*out = row ? row->stub : NULL;
	if (status)
		*status = row ? 0 : 1; /* SYMBOL_NOT_FOUND */
	return row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

int sim_cuGetProcAddress(const char *name, void **out, int version, u64 flags)
{
	return sim_cuGetProcAddress_v2(name, out, version, flags, NULL);
}
