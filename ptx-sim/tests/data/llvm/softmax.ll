target triple = "nvptx64-nvidia-cuda"
; one warp a row, n columns, row-major
define ptx_kernel void @softmax(ptr addrspace(1) noalias readonly %X, ptr addrspace(1) %Y, i32 %n) {
entry:
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %row, %n
  br label %mx
mx:
  %i = phi i32 [%lane, %entry], [%i2, %mx.next]
  %m = phi float [0xFFF0000000000000, %entry], [%m2, %mx.next]
  %c = icmp slt i32 %i, %n
  br i1 %c, label %mx.next, label %mx.red
mx.next:
  %o = add i32 %base, %i
  %o64 = sext i32 %o to i64
  %p = getelementptr float, ptr addrspace(1) %X, i64 %o64
  %v = load float, ptr addrspace(1) %p
  %m2 = call float @llvm.maxnum.f32(float %m, float %v)
  %i2 = add i32 %i, 32
  br label %mx
mx.red:
  %s = phi i32 [16, %mx], [%s2, %mx.red]
  %r = phi float [%m, %mx], [%r2, %mx.red]
  %ri = bitcast float %r to i32
  %sh = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %ri, i32 %s, i32 31)
  %shf = bitcast i32 %sh to float
  %r2 = call float @llvm.maxnum.f32(float %r, float %shf)
  %s2 = lshr i32 %s, 1
  %sc = icmp ne i32 %s2, 0
  br i1 %sc, label %mx.red, label %sum
sum:
  %j = phi i32 [%lane, %mx.red], [%j2, %sum.next]
  %t = phi float [0.0, %mx.red], [%t2, %sum.next]
  %jc = icmp slt i32 %j, %n
  br i1 %jc, label %sum.next, label %sum.red
sum.next:
  %oj = add i32 %base, %j
  %oj64 = sext i32 %oj to i64
  %pj = getelementptr float, ptr addrspace(1) %X, i64 %oj64
  %vj = load float, ptr addrspace(1) %pj
  %d = fsub float %vj, %r2
  %d2 = fmul float %d, 0x3FF7154760000000
  %e = call float @llvm.nvvm.ex2.approx.ftz.f(float %d2)
  %py = getelementptr float, ptr addrspace(1) %Y, i64 %oj64
  store float %e, ptr addrspace(1) %py
  %t2 = fadd float %t, %e
  %j2 = add i32 %j, 32
  br label %sum
sum.red:
  %s3 = phi i32 [16, %sum], [%s4, %sum.red]
  %q = phi float [%t, %sum], [%q2, %sum.red]
  %qi = bitcast float %q to i32
  %sh2 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %qi, i32 %s3, i32 31)
  %sh2f = bitcast i32 %sh2 to float
  %q2 = fadd float %q, %sh2f
  %s4 = lshr i32 %s3, 1
  %sc2 = icmp ne i32 %s4, 0
  br i1 %sc2, label %sum.red, label %norm
norm:
  %k = phi i32 [%lane, %sum.red], [%k2, %norm.next]
  %kc = icmp slt i32 %k, %n
  br i1 %kc, label %norm.next, label %done
norm.next:
  %ok = add i32 %base, %k
  %ok64 = sext i32 %ok to i64
  %pk = getelementptr float, ptr addrspace(1) %Y, i64 %ok64
  %vk = load float, ptr addrspace(1) %pk
  %w = fdiv float %vk, %q2
  store float %w, ptr addrspace(1) %pk
  %k2 = add i32 %k, 32
  br label %norm
done:
  ret void
}
