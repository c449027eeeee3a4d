/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Known idle: time in which a process had nothing outstanding on a device.
 *
 * One word holds {ticket, stream} and changes only by compare-and-swap; the
 * ticket counts submissions. A synchronization may set the stream to idle only
 * if nothing was open when it began, nothing was submitted since, and all that
 * is outstanding belongs to what it waited for. tests/model explores every
 * interleaving of these functions, compiled from this file.
 */
#ifndef GPUGAUGE_IDLE_H
#define GPUGAUGE_IDLE_H

#include "helpers.h"

/*
 * One device of a process. The index is masked, and the compiler kept from
 * knowing that it need not be: what the verifier is to believe has to stand in
 * the code, whichever compiler made it.
 */
INLINE struct device_state *device_at(struct process *process, __u32 place)
{
	BOUNDED(place);
	return &process->places[place & (PLACE_COUNT - 1)];
}

#define STATE_TRIES 8
#define STATE_STREAM(state) ((__u32)(state))
#define STATE_TICKET(state) ((__u32)((state) >> 32))
#define STATE(ticket, stream) (((__u64)(ticket) << 32) | (__u32)(stream))

/* Raise a time that is only ever raised. */
INLINE bool raise_time(__u64 *at, __u64 to)
{
	for (int i = 0; i < STATE_TRIES; i++) {
		__u64 old = READ_ONCE(*at);

		if (old >= to || CAS(*at, old, to) == old)
			return true;
	}
	return false;
}

/*
 * A submission begins on `stream`. Returns the number of submissions since the
 * last known drain, this one included; *contended is set when the word could
 * not be changed in time, and the stream became MIXED.
 */
INLINE __u32 idle_submit(struct device_state *dev, __u32 stream, __u64 now_ns, bool *contended)
{
	for (int i = 0; i < STATE_TRIES; i++) {
		__u64 old = READ_ONCE(dev->state);
		__u32 had = STATE_STREAM(old);
		__u32 next = had == STREAM_IDLE || had == stream ? stream : STREAM_MIXED;
		__u32 ticket = STATE_TICKET(old) + 1;

		if (CAS(dev->state, old, STATE(ticket, next)) != old)
			continue;
		if (had == STREAM_IDLE) {
			__u64 since_ns = READ_ONCE(dev->drained_ns);

			if (since_ns && now_ns > since_ns)
				ADD(dev->idle_ns, now_ns - since_ns);
		}
		return ticket - READ_ONCE(dev->drained_ticket);
	}
	OR(dev->state, (__u64)STREAM_MIXED);
	ADD(dev->state, 1ull << 32);
	*contended = true;
	return 0;
}

/* A submission returned. */
INLINE void idle_submitted(struct device_state *dev)
{
	ADD(dev->ended, 1);
}

/* A synchronization begins: `ended` first, then the word. */
INLINE void idle_look(struct device_state *dev, __u64 *ended, __u64 *state)
{
	*ended = READ_ONCE(dev->ended);
	*state = READ_ONCE(dev->state);
}

/* Nothing was open when `ended` and `state` were read. */
INLINE bool idle_settled(__u64 ended, __u64 state)
{
	return (__u32)ended == STATE_TICKET(state);
}

/*
 * A synchronization returned, successfully, that waited for `stream`, or for
 * everything (STREAM_MIXED). True when it drained the device.
 */
INLINE bool idle_drain(struct device_state *dev, __u64 ended, __u64 state, __u32 stream,
		       __u64 now_ns)
{
	__u32 has = STATE_STREAM(state);

	if (!idle_settled(ended, state) || READ_ONCE(dev->state) != state)
		return false;
	if (has == STREAM_IDLE || (has != stream && stream != STREAM_MIXED))
		return false;
	if (!raise_time(&dev->drained_ns, now_ns))
		return false;
	if (CAS(dev->state, state, STATE(STATE_TICKET(state), STREAM_IDLE)) != state)
		return false;
	WRITE_ONCE(dev->drained_ticket, STATE_TICKET(state));
	return true;
}

#endif
