/* Modules, libraries and functions. A function's name tells how long its launches take. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/*
 * busy_250us, busy_5us_again, busy_1ms: that long. busy_argument: the first
 * parameter is a u64 of nanoseconds. Any other name: the configured launch_ns.
 */
static void read_duration(struct function *function)
{
	const char *at = strstr(function->name, "busy_");
	char *unit;
	u64 number;

	if (!at)
		return;
	at += strlen("busy_");
	if (!strncmp(at, "argument", 8)) {
		function->from_argument = true;
		return;
	}
	if (!isdigit((unsigned char)*at))
		return;
	number = strtoull(at, &unit, 10);
	if (!strncmp(unit, "us", 2))
		number *= 1000;
	else if (!strncmp(unit, "ms", 2))
		number *= 1000000;
	else if (!strncmp(unit, "ns", 2))
		number *= 1;
	else if (*unit == 's')
		number *= 1000000000;
	function->duration_ns = number;
	function->known = true;
}

static int module_new(void **out)
{
	struct module *module;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	module = object_new(MAGIC_MODULE, sizeof(*module));
	module->context = context_current();
	*out = module;
	return CUDA_SUCCESS;
}

static int function_find(void **out, struct module *module, const char *name)
{
	struct function *function;

	if (!object_is(module, MAGIC_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!strncmp(name, "missing", 7))
		return CUDA_ERROR_NOT_FOUND;
	process_lock();
	for (function = module->functions; function; function = function->next)
		if (!strncmp(function->name, name, sizeof(function->name) - 1))
			break;
	if (!function) {
		function = object_new(MAGIC_FUNCTION, sizeof(*function));
		strncpy(function->name, name, sizeof(function->name) - 1);
		read_duration(function);
		function->module = module;
		function->next = module->functions;
		module->functions = function;
	}
	process_unlock();
	*out = function;
	return CUDA_SUCCESS;
}

static int module_end(struct module *module)
{
	struct function *function, *next;

	if (!object_is(module, MAGIC_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	for (function = module->functions; function; function = next) {
		next = function->next;
		object_free(function);
	}
	object_free(module);
	return CUDA_SUCCESS;
}

int sim_cuModuleLoad(void **out, const char *path)
{
	(void)path;
	return context_current() ? module_new(out) : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuModuleLoadData(void **out, const void *image)
{
	(void)image;
	return context_current() ? module_new(out) : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuModuleLoadDataEx(void **out, const void *image, u32 count, int *options, void **values)
{
	(void)count;
	(void)options;
	(void)values;
	return sim_cuModuleLoadData(out, image);
}

int sim_cuModuleLoadFatBinary(void **out, const void *image)
{
	return sim_cuModuleLoadData(out, image);
}

int sim_cuModuleUnload(void *module)
{
	return module_end(module);
}

int sim_cuModuleGetFunction(void **out, void *module, const char *name)
{
	return function_find(out, module, name);
}

int sim_cuModuleGetLoadingMode(int *mode)
{
	*mode = 2; /* CU_MODULE_LAZY_LOADING */
	return CUDA_SUCCESS;
}

static int global_of(u64 *pointer, size_t *bytes)
{
	static u64 space[512];

	if (pointer)
		*pointer = (u64)space;
	if (bytes)
		*bytes = sizeof(space);
	return CUDA_SUCCESS;
}

int sim_cuModuleGetGlobal_v2(u64 *pointer, size_t *bytes, void *module, const char *name)
{
	(void)name;
	return object_is(module, MAGIC_MODULE) ? global_of(pointer, bytes)
					       : CUDA_ERROR_INVALID_HANDLE;
}

int sim_cuLibraryLoadData(void **out, const void *code, void *a, void *b, u32 c, void *d, void *e,
			  u32 f)
{
	(void)code, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
	return module_new(out);
}

int sim_cuLibraryLoadFromFile(void **out, const char *path, void *a, void *b, u32 c, void *d,
			      void *e, u32 f)
{
	return sim_cuLibraryLoadData(out, path, a, b, c, d, e, f);
}

int sim_cuLibraryUnload(void *library)
{
	return module_end(library);
}

int sim_cuLibraryGetKernel(void **out, void *library, const char *name)
{
	return function_find(out, library, name);
}

int sim_cuLibraryGetModule(void **out, void *library)
{
	*out = library;
	return object_is(library, MAGIC_MODULE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int sim_cuLibraryGetGlobal(u64 *pointer, size_t *bytes, void *library, const char *name)
{
	return sim_cuModuleGetGlobal_v2(pointer, bytes, library, name);
}

int sim_cuLibraryGetKernelCount(u32 *count, struct module *library)
{
	struct function *function;

	if (!object_is(library, MAGIC_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	*count = 0;
	for (function = library->functions; function; function = function->next)
		++*count;
	return CUDA_SUCCESS;
}

int sim_cuModuleGetFunctionCount(u32 *count, struct module *module)
{
	return sim_cuLibraryGetKernelCount(count, module);
}

int sim_cuKernelGetFunction(void **out, void *kernel)
{
	*out = kernel;
	return object_is(kernel, MAGIC_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int sim_cuKernelGetLibrary(void **out, struct function *kernel)
{
	if (!object_is(kernel, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = kernel->module;
	return CUDA_SUCCESS;
}

int sim_cuFuncGetModule(void **out, struct function *function)
{
	return sim_cuKernelGetLibrary(out, function);
}

int sim_cuFuncGetName(const char **out, struct function *function)
{
	if (!object_is(function, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = function->name;
	return CUDA_SUCCESS;
}

int sim_cuKernelGetName(const char **out, struct function *kernel)
{
	return sim_cuFuncGetName(out, kernel);
}

int sim_cuFuncIsLoaded(int *state, struct function *function)
{
	*state = 1;
	return object_is(function, MAGIC_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int sim_cuFuncGetAttribute(int *value, int attribute, struct function *function)
{
	static const int values[] = {1024, 0,  0, 0,
				     16,   90, 90}; /* threads ... registers, versions */

	if (!object_is(function, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*value = attribute >= 0 && attribute < 7 ? values[attribute] : 0;
	return CUDA_SUCCESS;
}

int sim_cuKernelGetAttribute(int *value, int attribute, struct function *kernel, int ordinal)
{
	(void)ordinal;
	return sim_cuFuncGetAttribute(value, attribute, kernel);
}
