target triple = "nvptx64-nvidia-cuda"
; y = (x*2+1) in f16 and bf16, vector loads, plus conversions
define ptx_kernel void @halves(ptr addrspace(1) %h, ptr addrspace(1) %b, ptr addrspace(1) %o) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  %ph = getelementptr <4 x half>, ptr addrspace(1) %h, i64 %t
  %vh = load <4 x half>, ptr addrspace(1) %ph, align 8
  %rh = call <4 x half> @llvm.fma.v4f16(<4 x half> %vh, <4 x half> splat (half 2.0), <4 x half> splat (half 1.0))
  store <4 x half> %rh, ptr addrspace(1) %ph, align 8
  %pb = getelementptr <2 x bfloat>, ptr addrspace(1) %b, i64 %t
  %vb = load <2 x bfloat>, ptr addrspace(1) %pb, align 4
  %rb = call <2 x bfloat> @llvm.fma.v2bf16(<2 x bfloat> %vb, <2 x bfloat> splat (bfloat 2.0), <2 x bfloat> splat (bfloat 1.0))
  store <2 x bfloat> %rb, ptr addrspace(1) %pb, align 4
  %h0 = extractelement <4 x half> %rh, i32 0
  %h3 = extractelement <4 x half> %rh, i32 3
  %b1 = extractelement <2 x bfloat> %rb, i32 1
  %f0 = fpext half %h0 to float
  %f3 = fpext half %h3 to float
  %g1 = fpext bfloat %b1 to float
  %s = fadd float %f0, %f3
  %s2 = fadd float %s, %g1
  %d = fpext float %s2 to double
  %d2 = fmul double %d, 0.5
  %f = fptrunc double %d2 to float
  %i = fptosi float %f to i32
  %fi = sitofp i32 %i to float
  %hf = fptrunc float %fi to half
  %bf = fptrunc float %f to bfloat
  %po = getelementptr {float, half, bfloat}, ptr addrspace(1) %o, i64 %t
  store float %fi, ptr addrspace(1) %po
  %p1 = getelementptr {float, half, bfloat}, ptr addrspace(1) %o, i64 %t, i32 1
  store half %hf, ptr addrspace(1) %p1
  %p2 = getelementptr {float, half, bfloat}, ptr addrspace(1) %o, i64 %t, i32 2
  store bfloat %bf, ptr addrspace(1) %p2
  ret void
}
