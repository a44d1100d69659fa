// One warp fills a buffer for another, four times: the lanes of each say that it is full or free by one lane's arrival.
#include <cuda/barrier>
#include <cuda/std/utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void elected(const unsigned* in, unsigned* out) {
  __shared__ unsigned buffer[32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier full, empty;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 1);
  }
  __syncthreads();
  for (int step = 0; step < 4; step++) {
    if (warp == 0) {
      if (step > 0) empty.wait_parity((step - 1) & 1);
      buffer[lane] = in[32 * step + lane];
      __syncwarp();
      if (lane == 0) (void)full.arrive();
    } else {
      full.wait_parity(step & 1);
      out[32 * step + lane] = 3 * buffer[lane ^ 1];
      __syncwarp();
      if (lane == 0) (void)empty.arrive();
    }
  }
}
