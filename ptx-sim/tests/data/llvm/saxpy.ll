target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @saxpy(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, float %a, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %cta = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %m = mul i32 %cta, %nt
  %i = add i32 %m, %tid
  %in = icmp slt i32 %i, %n
  br i1 %in, label %go, label %done
go:
  %ix = sext i32 %i to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %ix
  %py = getelementptr float, ptr addrspace(1) %y, i64 %ix
  %vx = load float, ptr addrspace(1) %px
  %vy = load float, ptr addrspace(1) %py
  %r = call float @llvm.fma.f32(float %a, float %vx, float %vy)
  store float %r, ptr addrspace(1) %py
  br label %done
done:
  ret void
}
