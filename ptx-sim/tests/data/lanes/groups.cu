// Groups of lanes of a warp, as cooperative groups make them: by label, and of the lanes that are here.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

// out[0..n]: the sum over the lanes with one label; then its running sum; then, of the lanes whose value has bit 2, the
// value of the second of them and how many there are; then what the neighbour in the group left in shared memory.
extern "C" __global__ void groups(const unsigned* in, unsigned* out) {
  __shared__ unsigned left[128];
  const unsigned t = threadIdx.x, n = blockDim.x, v = in[t];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto part = cg::labeled_partition(warp, v & 3);
  out[t] = cg::reduce(part, v, cg::plus<unsigned>());
  out[n + t] = cg::inclusive_scan(part, v, cg::plus<unsigned>());
  out[2 * n + t] = 0;
  if (v & 4) {
    cg::coalesced_group some = cg::coalesced_threads();
    out[2 * n + t] = some.shfl(v, 1) * 100 + some.num_threads();
  }
  left[t] = v;
  part.sync();
  const unsigned next = part.shfl(t, (part.thread_rank() + 1) % part.num_threads());
  out[3 * n + t] = left[next];
}
