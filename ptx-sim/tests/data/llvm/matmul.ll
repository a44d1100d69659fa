target triple = "nvptx64-nvidia-cuda"
@As = internal addrspace(3) global [256 x float] poison, align 16
@Bs = internal addrspace(3) global [256 x float] poison, align 16
; C[m,n] = A[m,k] B[k,n], 16x16 tiles, sizes multiples of 16
define ptx_kernel void @matmul(ptr addrspace(1) noalias readonly %A, ptr addrspace(1) noalias readonly %B, ptr addrspace(1) %C, i32 %N, i32 %K) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %r0 = mul i32 %by, 16
  %row = add i32 %r0, %ty
  %c0 = mul i32 %bx, 16
  %col = add i32 %c0, %tx
  %s0 = mul i32 %ty, 16
  %s = add i32 %s0, %tx
  %pas = getelementptr float, ptr addrspace(3) @As, i32 %s
  %pbs = getelementptr float, ptr addrspace(3) @Bs, i32 %s
  br label %kt
kt:
  %k0 = phi i32 [0, %entry], [%k1, %ktend]
  %acc0 = phi float [0.0, %entry], [%acc2, %ktend]
  %ra = mul i32 %row, %K
  %ka = add i32 %k0, %tx
  %ia = add i32 %ra, %ka
  %ia64 = sext i32 %ia to i64
  %pa = getelementptr float, ptr addrspace(1) %A, i64 %ia64
  %va = load float, ptr addrspace(1) %pa
  store float %va, ptr addrspace(3) %pas
  %kb = add i32 %k0, %ty
  %rb = mul i32 %kb, %N
  %ib = add i32 %rb, %col
  %ib64 = sext i32 %ib to i64
  %pb = getelementptr float, ptr addrspace(1) %B, i64 %ib64
  %vb = load float, ptr addrspace(1) %pb
  store float %vb, ptr addrspace(3) %pbs
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %kk
kk:
  %k = phi i32 [0, %kt], [%kn, %kk]
  %acc1 = phi float [%acc0, %kt], [%acc2, %kk]
  %xa = add i32 %s0, %k
  %qa = getelementptr float, ptr addrspace(3) @As, i32 %xa
  %a = load float, ptr addrspace(3) %qa
  %yb0 = mul i32 %k, 16
  %yb = add i32 %yb0, %tx
  %qb = getelementptr float, ptr addrspace(3) @Bs, i32 %yb
  %b = load float, ptr addrspace(3) %qb
  %acc2 = call float @llvm.fma.f32(float %a, float %b, float %acc1)
  %kn = add i32 %k, 1
  %kc = icmp slt i32 %kn, 16
  br i1 %kc, label %kk, label %ktend
ktend:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %k1 = add i32 %k0, 16
  %ktc = icmp slt i32 %k1, %K
  br i1 %ktc, label %kt, label %out
out:
  %rc = mul i32 %row, %N
  %ic = add i32 %rc, %col
  %ic64 = sext i32 %ic to i64
  %pc = getelementptr float, ptr addrspace(1) %C, i64 %ic64
  store float %acc2, ptr addrspace(1) %pc
  ret void
}
