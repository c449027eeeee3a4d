/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Where arguments, return value and stack pointer are, by architecture, and
 * how the cookie comes apart. Arguments beyond those in registers lie on the
 * stack of the caller: for cuLaunchKernel block z at [sp+8], stream at [sp+24]
 * on entry (System V ABI, section 3.2.3).
 */
#ifndef GPUGAUGE_ARGS_H
#define GPUGAUGE_ARGS_H

#include "helpers.h"

#if defined(__TARGET_ARCH_arm64)
struct registers {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#define REGISTER_ARGS 8
#define STACK_FIRST 0 /* no return address on the stack */
#define RETURN_POPS 0
#else
struct registers {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	__u64 ax, cx, dx, si, di;
	__u64 orig_ax, ip, cs, flags, sp, ss;
};
#define REGISTER_ARGS 6
#define STACK_FIRST 8 /* [sp] is the return address */
#define RETURN_POPS 8 /* `ret` took it off the stack */
#endif

/*
 * The empty asm pins each load into its own branch: clang otherwise merges
 * them into one load from a computed context pointer, which is refused.
 */
#define READ_REGISTER(field)                                                                       \
	({                                                                                         \
		__u64 value_ = ctx->field;                                                         \
		asm volatile("" : "+r"(value_));                                                   \
		value_;                                                                            \
	})

INLINE __u64 stack_pointer(struct registers *ctx)
{
	return ctx->sp;
}

INLINE __u32 return_code(struct registers *ctx)
{
#if defined(__TARGET_ARCH_arm64)
	return (__u32)ctx->regs[0];
#else
	return (__u32)ctx->ax;
#endif
}

INLINE __u64 register_argument(struct registers *ctx, __u32 number)
{
	switch (number) {
#if defined(__TARGET_ARCH_arm64)
	case 1:
		return READ_REGISTER(regs[0]);
	case 2:
		return READ_REGISTER(regs[1]);
	case 3:
		return READ_REGISTER(regs[2]);
	case 4:
		return READ_REGISTER(regs[3]);
	case 5:
		return READ_REGISTER(regs[4]);
	case 6:
		return READ_REGISTER(regs[5]);
	case 7:
		return READ_REGISTER(regs[6]);
	case 8:
		return READ_REGISTER(regs[7]);
#else
	case 1:
		return READ_REGISTER(di);
	case 2:
		return READ_REGISTER(si);
	case 3:
		return READ_REGISTER(dx);
	case 4:
		return READ_REGISTER(cx);
	case 5:
		return READ_REGISTER(r8);
	case 6:
		return READ_REGISTER(r9);
#endif
	default:
		return 0;
	}
}

/* Argument `number`, from 1. False when it lies on a stack that can't be read. */
INLINE bool argument(struct registers *ctx, __u32 number, __u64 *value)
{
	if (number <= REGISTER_ARGS) {
		*value = register_argument(ctx, number);
		return true;
	}
	__u64 at = ctx->sp + STACK_FIRST + 8 * (__u64)(number - REGISTER_ARGS - 1);

	return probe_read_user(value, sizeof(*value), (void *)at) == 0;
}

#define COOKIE_FIELD(cookie, name)                                                                 \
	((__u32)((cookie) >> COOKIE_##name##_SHIFT) & ((1u << COOKIE_##name##_BITS) - 1))

#endif
