#!/usr/bin/env bash
# Installs what a build of tilewright lacks on this machine, and nothing else: LLVM 22 (the PTX backend).
# Safe to run twice; needs root (or sudo) only if something is missing.
#
#   ./setup.sh            for the default feature `jit`: LLVM's shared library
#   ./setup.sh --static   for `static-llvm` too: what LLVM's static libraries are linked with
#   ./setup.sh --browser  for `scripts/check-page.py` too: Chromium
set -euo pipefail

llvm=22

static='' browser=''
case "${1-}" in
    '') ;;
    --static) static=yes ;;
    --browser) browser=yes ;;
    *) printf 'setup: unknown argument %s: there are --static and --browser\n' "$1" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "'$*' needs root: run this script as root, or install sudo"; fi
}

llvm_config() {
    local c
    for c in "llvm-config-$llvm" "/usr/lib/llvm-$llvm/bin/llvm-config" "/opt/homebrew/opt/llvm@$llvm/bin/llvm-config" \
             "${LLVM_SYS_221_PREFIX:+$LLVM_SYS_221_PREFIX/bin/llvm-config}" llvm-config; do
        if [ -n "$c" ] && command -v "$c" >/dev/null && [[ $("$c" --version) == "$llvm".* ]]; then
            printf '%s' "$c"
            return
        fi
    done
    return 1
}

# Not through a pipe: `grep -q` leaves early, and under `pipefail` the writer's SIGPIPE would read as "not there".
apt_has() {
    local policy
    policy=$(apt-cache policy "$1" 2>/dev/null) || return 1
    [[ $policy == *'Candidate: '[^\(]* ]]
}

install_with_apt() {
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get update -qq
    if ! apt_has "llvm-$llvm-dev"; then
        # Not in this release of the distribution: LLVM's own packages.
        say "adding LLVM's own package archive (apt.llvm.org)"
        as_root apt-get install -y -qq ca-certificates curl gnupg >/dev/null
        local codename
        codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
        [ -n "$codename" ] || fail "this distribution has no codename: install LLVM $llvm with its headers by hand"
        curl -fsSL https://apt.llvm.org/llvm-snapshot.gpg.key | as_root gpg --dearmor --yes -o /usr/share/keyrings/llvm.gpg \
            || fail "apt.llvm.org cannot be reached, and this distribution has no llvm-$llvm-dev"
        printf 'deb [signed-by=/usr/share/keyrings/llvm.gpg] https://apt.llvm.org/%s/ llvm-toolchain-%s-%s main\n' \
            "$codename" "$codename" "$llvm" | as_root tee /etc/apt/sources.list.d/llvm-$llvm.list >/dev/null
        as_root apt-get update -qq
    fi
    say "installing $*"
    as_root apt-get install -y -qq "$@" >/dev/null
}

command -v cargo >/dev/null || fail "Rust is missing: install it with rustup (https://rustup.rs), then run this again"

missing=()
command -v cc >/dev/null || missing+=(build-essential)
llvm_config >/dev/null || missing+=("llvm-$llvm-dev")

# LLVM names Polly among its static libraries; they use zstd, zlib and libxml2.
if [ -n "$static" ]; then
    if command -v dpkg-query >/dev/null; then
        for package in "libpolly-$llvm-dev" libzstd-dev zlib1g-dev libxml2-dev; do
            [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == 'install ok installed' ]] || missing+=("$package")
        done
    else
        say "--static also needs the static library of Polly $llvm, and the headers of zstd, zlib and libxml2"
    fi
fi

if [ -n "$browser" ] && ! command -v chromium >/dev/null; then
    command -v apt-get >/dev/null || fail "please install Chromium, so that 'chromium' starts it"
    missing+=(chromium)
fi

if [ ${#missing[@]} -eq 0 ]; then
    say "nothing to do: $(command -v cc) and LLVM $("$(llvm_config)" --version) are here"
elif command -v apt-get >/dev/null; then
    install_with_apt "${missing[@]}"
    say "installed LLVM $("$(llvm_config)" --version)"
else
    fail "please install LLVM $llvm with its headers and a C linker, then run this again:
  Fedora   dnf install gcc llvm-devel          (release $llvm, or the llvm$llvm-devel package)
  Arch     pacman -S base-devel llvm           (release $llvm)
  macOS    brew install llvm@$llvm && export LLVM_SYS_221_PREFIX=\$(brew --prefix llvm@$llvm)
On macOS the simulator is the device. Without LLVM, 'cargo check --no-default-features' works."
fi
