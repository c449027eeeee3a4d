/* One copy, whichever function asked for it. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "sim.h"

struct copy {
	u32 direction;
	u64 bytes;
	void *target;
	const void *source; /* either NULL: nothing is moved */
	void *stream;
	bool async;
	bool pinned; /* whatever the addresses say */
};

int copy_run(const struct copy *copy);

#endif
