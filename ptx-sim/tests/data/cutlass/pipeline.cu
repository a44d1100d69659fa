// CUTLASS's PipelineTmaAsync in a small kernel: a cluster of two CTAs, each multicasts one half of every stage.
#include <cutlass/pipeline/sm90_pipeline.hpp>
#include <cute/arch/cluster_sm90.hpp>
using namespace cute;
using Pipeline = cutlass::PipelineTmaAsync<3>;
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160)
k(const char* src, float* out) {
  __shared__ alignas(1024) char buf[3][3072];
  __shared__ alignas(8) char raw[sizeof(Pipeline::SharedStorage)];
  auto& storage = *reinterpret_cast<Pipeline::SharedStorage*>(raw);
  constexpr int half = 1152, steps = 7;
  int warp = threadIdx.x / 32;
  Pipeline::Params params;
  params.transaction_bytes = 2 * half;
  params.role = warp == 4 ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  params.is_leader = threadIdx.x == 128;
  params.num_consumers = 128;
  Pipeline pipeline(storage, params, Shape<_2, _1, _1>{});
  cluster_arrive_relaxed();
  cluster_wait();
  uint32_t rank = block_rank_in_cluster();
  if (warp == 4) {
    if (threadIdx.x == 128) {
      auto state = cutlass::make_producer_start_state<Pipeline>();
      #pragma unroll 1
      for (int i = 0; i < steps; i++) {
        pipeline.producer_acquire(state);
        uint32_t to = cast_smem_ptr_to_uint(buf[state.index()]) + rank * half;
        uint32_t bar = cast_smem_ptr_to_uint(pipeline.producer_get_barrier(state));
        const char* from = src + (2 * i + rank) * half;
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
            :: "r"(to), "l"(from), "r"(half), "r"(bar), "h"((uint16_t)3) : "memory");
        ++state;
      }
      pipeline.producer_tail(state);
    }
  } else {
    cutlass::PipelineState<3> state;
    float d[4] = {0, 0, 0, 0};
    #pragma unroll 1
    for (int i = 0; i < steps; i++) {
      pipeline.consumer_wait(state);
      uint64_t a = ((cast_smem_ptr_to_uint(buf[state.index()]) & 0x3ffff) >> 4) | (8ull << 16) | (16ull << 32);
      asm volatile(
          "wgmma.fence.sync.aligned;\n"
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
          "wgmma.commit_group.sync.aligned;\n"
          "wgmma.wait_group.sync.aligned 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a + 128) : "memory");
      pipeline.consumer_release(state);
      ++state;
    }
    for (int i = 0; i < 4; i++) out[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = d[i];
  }
}
