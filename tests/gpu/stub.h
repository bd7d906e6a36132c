/* The stub driver's own functions, beside those of cuda.h. */
#ifndef TESTS_GPU_STUB_H
#define TESTS_GPU_STUB_H

#include <cuda.h>

CUresult stub_alloc_virtual(CUdeviceptr *address, size_t bytes);
CUresult stub_alloc_managed(CUdeviceptr *address, size_t bytes);
int stub_imports(void);
int stub_ranges(void);
void stub_event_hold(CUevent event);
void stub_event_fire(CUevent event);

#endif
