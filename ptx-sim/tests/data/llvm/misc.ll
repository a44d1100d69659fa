target triple = "nvptx64-nvidia-cuda"
; integers of every width, division, bit tricks, local arrays, switch
@table = internal addrspace(4) constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
define ptx_kernel void @misc(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %a = alloca [8 x i32], align 4
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  %pi = getelementptr i64, ptr addrspace(1) %in, i64 %t
  %x = load i64, ptr addrspace(1) %pi
  %xi = trunc i64 %x to i32
  %x16 = trunc i64 %x to i16
  %x8 = trunc i64 %x to i8
  %t1 = or i32 %tid, 1
  %q = udiv i32 %xi, %t1
  %r = srem i32 %xi, %t1
  %q64 = sdiv i64 %x, 7
  %q16 = sdiv i16 %x16, 3
  %s8 = ashr i8 %x8, 2
  %z8 = sext i8 %s8 to i32
  %z16 = sext i16 %q16 to i32
  %pop = call i32 @llvm.ctpop.i32(i32 %xi)
  %clz = call i64 @llvm.ctlz.i64(i64 %x, i1 false)
  %rev = call i32 @llvm.bitreverse.i32(i32 %xi)
  %fsh = call i32 @llvm.fshl.i32(i32 %xi, i32 %tid, i32 5)
  %bsw = call i32 @llvm.bswap.i32(i32 %xi)
  %mn = call i32 @llvm.smin.i32(i32 %xi, i32 %tid)
  %k = and i32 %tid, 3
  %kt = zext i32 %k to i64
  %pt = getelementptr i32, ptr addrspace(4) @table, i64 %kt
  %tv = load i32, ptr addrspace(4) %pt
  br label %fill
fill:
  %i = phi i32 [0, %0], [%i2, %fill]
  %ix = zext i32 %i to i64
  %pa = getelementptr i32, ptr %a, i64 %ix
  %v = mul i32 %i, %tv
  store i32 %v, ptr %pa
  %i2 = add i32 %i, 1
  %c = icmp ult i32 %i2, 8
  br i1 %c, label %fill, label %pick
pick:
  %k8 = and i32 %xi, 7
  %k8x = zext i32 %k8 to i64
  %pb = getelementptr i32, ptr %a, i64 %k8x
  %lv = load volatile i32, ptr %pb
  switch i32 %k, label %d [ i32 0, label %c0
                            i32 1, label %c1
                            i32 2, label %c2 ]
c0: br label %join
c1: br label %join
c2: br label %join
d: br label %join
join:
  %sel = phi i32 [%q, %c0], [%r, %c1], [%pop, %c2], [%rev, %d]
  %po = getelementptr [12 x i32], ptr addrspace(1) %out, i64 %t
  store i32 %sel, ptr addrspace(1) %po
  %p1 = getelementptr i32, ptr addrspace(1) %po, i64 1
  %q32 = trunc i64 %q64 to i32
  store i32 %q32, ptr addrspace(1) %p1
  %p2 = getelementptr i32, ptr addrspace(1) %po, i64 2
  store i32 %z16, ptr addrspace(1) %p2
  %p3 = getelementptr i32, ptr addrspace(1) %po, i64 3
  store i32 %z8, ptr addrspace(1) %p3
  %p4 = getelementptr i32, ptr addrspace(1) %po, i64 4
  %clz32 = trunc i64 %clz to i32
  store i32 %clz32, ptr addrspace(1) %p4
  %p5 = getelementptr i32, ptr addrspace(1) %po, i64 5
  store i32 %fsh, ptr addrspace(1) %p5
  %p6 = getelementptr i32, ptr addrspace(1) %po, i64 6
  store i32 %bsw, ptr addrspace(1) %p6
  %p7 = getelementptr i32, ptr addrspace(1) %po, i64 7
  store i32 %mn, ptr addrspace(1) %p7
  %p8 = getelementptr i32, ptr addrspace(1) %po, i64 8
  store i32 %lv, ptr addrspace(1) %p8
  ret void
}
