/*
 * The device model. Nobody runs it: whoever holds the lock first brings every
 * device up to the present. One item runs at a time, to completion within a
 * slice; contexts that have work share the device in turn.
 */
#include "sim.h"

enum { BLOCKED_STREAMS = 32 };

struct sim_item *device_item(u32 channel, u64 seq)
{
	return &sim->rings[channel].items[seq % SIM_RING];
}

static struct sim_item *item_of(struct sim_channel *channel, u64 seq)
{
	return device_item((u32)(channel - sim->channels), seq);
}

static void complete(struct sim_channel *channel, struct sim_item *item, u64 when)
{
	struct sim_row *row = &sim->rows[channel->row];

	item->done_ns = when;
	if (item->kind == ITEM_LAUNCH && channel->launches)
		channel->launches--;
	if ((item->kind == ITEM_HOST || item->kind == ITEM_WAIT) && channel->blocked_items)
		channel->blocked_items--;
	while (channel->head < channel->tail && item_of(channel, channel->head)->done_ns)
		channel->head++;
	if (row->outstanding && --row->outstanding == 0)
		row->empty_since_ns = when;
}

static bool wait_over(const struct sim_item *item)
{
	const struct sim_channel *other = &sim->channels[item->wait_channel - 1];

	return !other->used || item->wait_seq + SIM_RING < other->tail ||
	       item->wait_seq < other->head ||
	       device_item((u32)item->wait_channel - 1, item->wait_seq)->done_ns;
}

/* Streams that stand still behind a host function, a wait or one another. */
struct still {
	u64 streams[BLOCKED_STREAMS];
	u32 count;
	bool blocking; /* one that is ordered with the legacy stream */
	bool legacy;
};

static bool stands(const struct still *still, const struct sim_item *item)
{
	u32 at;

	if ((item->scope == SCOPE_LEGACY && still->blocking) ||
	    (item->scope == SCOPE_BLOCKING && still->legacy))
		return true;
	for (at = 0; at < still->count; at++)
		if (still->streams[at] == item->stream)
			return true;
	return false;
}

static void stop(struct still *still, const struct sim_item *item)
{
	still->streams[still->count++] = item->stream;
	still->blocking |= item->scope != SCOPE_OWN;
	still->legacy |= item->scope == SCOPE_LEGACY;
}

/* The first item that may run: in its stream's turn, and the legacy stream's. */
static struct sim_item *runnable(struct sim_channel *channel, u64 when)
{
	struct still still = {.count = 0};
	u64 seq;

	if (channel->head == channel->tail)
		return NULL;
	if (!channel->blocked_items)
		return item_of(channel, channel->head);
	for (seq = channel->head; seq < channel->tail && still.count < BLOCKED_STREAMS; seq++) {
		struct sim_item *item = item_of(channel, seq);

		if (item->done_ns)
			continue;
		if (stands(&still, item)) {
			if (item->scope == SCOPE_LEGACY && !still.legacy)
				stop(&still, item);
			continue;
		}
		if (item->kind == ITEM_WAIT && wait_over(item)) {
			complete(channel, item, when);
			continue;
		}
		if (item->kind != ITEM_HOST && item->kind != ITEM_WAIT)
			return item;
		if (item->kind == ITEM_HOST && !item->ready)
			item->ready = when;
		stop(&still, item);
	}
	return NULL;
}

/* The channel to run next on a device, in turn after the present one. */
static struct sim_channel *choose(u32 index, struct sim_item **item, bool *shared)
{
	struct sim_device *device = &sim->devices[index];
	struct sim_channel *chosen = NULL;
	u32 top = (u32)sim->header.channel_top, first, step, found = 0, number;

	*shared = false;
	if (!top)
		return NULL;
	number = first = (u32)device->current % top;
	for (step = 0; step <= top; step++) {
		u32 at = (first + step) % top;
		struct sim_channel *channel = &sim->channels[at];
		struct sim_item *candidate;

		if (!channel->used || channel->device != index || (step == top && chosen))
			continue;
		candidate = runnable(channel, device->clock_ns);
		if (!candidate)
			continue;
		if (step < top)
			found++;
		if (step == 0 && !device->slice_left_ns)
			continue; /* its turn is over: others first */
		if (!chosen) {
			chosen = channel;
			*item = candidate;
			number = at;
		}
	}
	if (chosen && (number != first || !device->slice_left_ns)) {
		device->current = number;
		device->slice_left_ns = sim->config.slice_ns ? sim->config.slice_ns : 1;
	}
	*shared = found > 1;
	return chosen;
}

static void advance(u32 index, u64 now)
{
	struct sim_device *device = &sim->devices[index];

	while (device->clock_ns < now) {
		struct sim_item *item = NULL;
		bool shared;
		struct sim_channel *channel = choose(index, &item, &shared);
		u64 run;

		if (!channel)
			break;
		run = item->remaining_ns;
		if (run > now - device->clock_ns)
			run = now - device->clock_ns;
		if (shared && run > device->slice_left_ns)
			run = device->slice_left_ns;
		item->remaining_ns -= run;
		device->clock_ns += run;
		device->busy_ns += run;
		sim->rows[channel->row].busy_ns += run;
		device->slice_left_ns -= run < device->slice_left_ns ? run : device->slice_left_ns;
		if (!item->remaining_ns)
			complete(channel, item, device->clock_ns);
	}
	if (device->clock_ns < now)
		device->clock_ns = now;
}

void device_advance_all(u64 now)
{
	u32 index;

	device_reap(now);
	for (index = 0; index < SIM_DEVICES && sim->devices[index].total_bytes; index++)
		advance(index, now);
}

/* A guess of when an item will be done: exact when nobody else has work. */
u64 device_remaining_ns(u32 number, u64 seq)
{
	const struct sim_channel *channel = &sim->channels[number];
	u64 sum = 0, at;

	for (at = channel->head; at <= seq && at < channel->tail; at++)
		if (!device_item(number, at)->done_ns)
			sum += device_item(number, at)->remaining_ns;
	return sum;
}

/* Give back all that a channel holds; what it had queued never runs. */
void channel_drop(u32 number)
{
	struct sim_channel *channel = &sim->channels[number];
	struct sim_row *row = &sim->rows[channel->row];
	u64 seq, now = now_ns();

	for (seq = channel->head; seq < channel->tail; seq++)
		if (!item_of(channel, seq)->done_ns)
			complete(channel, item_of(channel, seq), now);
	sim->devices[channel->device].used_bytes -= channel->held_bytes;
	row->held_bytes -= channel->held_bytes;
	row->contexts--;
	channel->held_bytes = 0;
	channel->used = 0;
}

/* Channels of processes that ended, at most every 10 ms. */
void device_reap(u64 now)
{
	u32 number;
	int pid;

	if (now < sim->header.reaped_ns + 10000000)
		return;
	sim->header.reaped_ns = now;
	for (number = 0; number < sim->header.channel_top; number++)
		if (sim->channels[number].used && !state_channel_mine(number) &&
		    !state_channel_alive(number, &pid))
			channel_drop(number);
}
