/*
 * A library with both entry shapes of a driver: `push` at once, and
 * `cmp; je; jmp` as older drivers have it. Every function returns its
 * argument plus a prime of its own, so a wrong return is seen.
 */
#define PUSH_SHAPE(name, plus)                                              \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n" \
		"	push %rbx\n"                                         \
		"	lea " #plus "(%rdi), %rbx\n"                         \
		"	mov %rbx, %rax\n"                                    \
		"	pop %rbx\n"                                          \
		"	ret\n"                                               \
		".size " #name ", .-" #name "\n")

#define JUMP_SHAPE(name, plus)                                              \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n" \
		"	cmpl $0x321cba00, guard(%rip)\n"                     \
		"	je 1f\n"                                             \
		"	jmp *slow(%rip)\n"                                   \
		"1:	lea " #plus "(%rdi), %rax\n"                         \
		"	ret\n"                                               \
		".size " #name ", .-" #name "\n")

int guard __attribute__((visibility("hidden"), used)) = 0x321cba00;
static long never(long value)
{
	return -value;
}
long (*slow)(long) __attribute__((visibility("hidden"), used)) = never;

PUSH_SHAPE(push_a, 101);
PUSH_SHAPE(push_b, 103);
PUSH_SHAPE(push_c, 107);
JUMP_SHAPE(jump_a, 109);
JUMP_SHAPE(jump_b, 113);

/* A call that takes as long as it is told, in ms; returns its argument plus 127. */
int usleep(unsigned int microseconds);

__attribute__((used)) static void nap(long milliseconds)
{
	usleep(1000 * milliseconds);
}

__asm__(".globl nap_a\n.type nap_a, @function\nnap_a:\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	call nap\n"
	"	lea 127(%rbx), %rax\n"
	"	pop %rbx\n"
	"	ret\n"
	".size nap_a, .-nap_a\n");

/* Calls through a pointer `count` times; returns how many answers were wrong. */
long many(long (*function)(long), long count, long plus)
{
	long wrong = 0;

	for (long i = 0; i < count; i++)
		wrong += function(i) != i + plus;
	return wrong;
}
