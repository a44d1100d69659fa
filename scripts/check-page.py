#!/usr/bin/env python3
"""Opens pages that `--page` wrote in a headless Chromium and looks whether they work.

    scripts/check-page.py [--browser chromium] PAGE.html...

Of each page it asserts: no error of a script; no reference to another file; every panel has text; nothing is wider than 1200 pixels;
pictures have names; arrow keys move the derivation; a hovered name lights others; what is drawn of each request of memory costs what the
simulator counted; each register of each thread holds one element of a value; both themes draw. Needs Python's own library and a Chromium.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

MOST_BYTES = 1_500_000

# Runs behind the page's own script and leaves what it finds in an element.
PROBE = r"""
<pre id="probe"></pre>
<script>
(() => {
  const checks = {}, numbers = {};
  const fire = (e, type, init) => e.dispatchEvent(new (type.startsWith("key") ? KeyboardEvent : MouseEvent)(type, { bubbles: true, cancelable: true, ...init }));
  const text = (id) => (document.querySelector(`#${id} > .body`)?.innerText || "").trim();
  try {
    checks.ready = window.pageReady === true;
    checks.panels_have_text = panels.length >= 3 && panels.every((p) => text(p.id).length > 40);
    numbers.panels = Object.fromEntries(panels.map((p) => [p.id, text(p.id).length]));
    const html = document.documentElement.outerHTML.replaceAll("http://www.w3.org/2000/svg", "");
    checks.self_contained = !/https?:\/\//.test(html) && !document.querySelector("[src], link, iframe, [href]:not([href^='#'])");
    checks.no_overflow = document.documentElement.scrollWidth <= 1200;
    numbers.width = document.documentElement.scrollWidth;
    checks.pictures_named = [...document.querySelectorAll("svg, canvas")].every((e) => e.getAttribute("aria-label"));

    const list = document.querySelector("#derivation [role=listbox]"), detail = () => document.querySelector("#step").innerText;
    list.focus();
    const before = detail();
    fire(list, "keydown", { key: "ArrowUp" });
    const up = detail();
    fire(list, "keydown", { key: "ArrowDown" });
    checks.arrows_move_derivation = up !== before && detail() === before;
    let shown = 0;
    for (let n = 0; n < D.steps.length; n++) { chooseStep(n); shown += detail().length > 60; }
    checks.every_step_shows = shown === D.steps.length;

    const lights = (word) => {
      const e = document.querySelector(`[data-k~="${CSS.escape(word)}"]`);
      if (!e) return 0;
      fire(e, "mouseover");
      return new Set([...document.querySelectorAll(".lit")].map((x) => x.closest("section")?.id)).size;
    };
    numbers.lit_panels = Math.max(...Object.keys(D.names).map(lights));
    checks.hover_lights_panels = numbers.lit_panels >= (D.refusal ? 2 : 3);

    if (D.memory) {
      const requests = D.memory.accesses.flatMap((a) => a.warps.map((w) => [a, w]));
      numbers.requests_drawn = requests.length;
      checks.drawn_is_counted = requests.every(([a, w]) => drawnCost(a, w) === w.cost);
      checks.even_is_average = D.memory.accesses.filter((a) => a.warps.length && !a.uneven).every((a) => drawnCost(a, a.warps[0]) * a.counted.requests === a.counted.units);
      const sum = (shared, of) => D.memory.accesses.filter((a) => a.shared === shared).reduce((n, a) => n + of(a.counted), 0);
      const t = D.memory.totals;
      checks.sums_are_totals = sum(false, (c) => c.units) === t.sectors && sum(true, (c) => c.units) === t.wavefronts && sum(true, (c) => c.units - c.least) === t.conflicts;
      let texts = 0;
      D.memory.accesses.forEach((a, n) => {
        chooseAccess(n);
        const drawn = document.querySelector("#drawn")?.innerText;
        texts += !a.warps.length || drawn === `${number(a.warps[0].cost)} ${a.shared ? "wavefront" : "sector"}${a.warps[0].cost === 1 ? "" : "s"}`;
      });
      checks.text_is_counted = texts === D.memory.accesses.length;
    }
    // One element a register of a thread, over the tile of each value in registers.
    const registers = D.values.filter((v) => !v.shared && v.axes.length && v.digits.every((d) => d.steps != null));
    checks.one_element_a_register = registers.every((v) => {
      const seen = new Set(), axes = v.axes.map((a) => [a, points(v, a)]), all = axes.reduce((n, [, p]) => n * p, 1);
      if (all > 1 << 16) return true;
      for (let e = 0; e < all; e++) {
        let rest = e;
        const at = {};
        for (const [a, p] of axes) { at[a] = rest % p; rest = Math.floor(rest / p); }
        const h = holder(v, at);
        seen.add(h.thread * 4096 + h.register);
      }
      return seen.size === all;
    });
    for (const name of ["dark", "light"]) {
      chosenTheme = name;
      theme();
      checks[`theme_${name}`] = document.documentElement.dataset.theme === name && panels.every((p) => text(p.id).length > 40);
    }
    checks.no_overflow_later = document.documentElement.scrollWidth <= 1200;
  } catch (error) {
    checks.probe = false;
    numbers.error = String(error && error.stack || error);
  }
  checks.no_script_error = window.pageErrors.length === 0;
  document.querySelector("#probe").textContent = JSON.stringify({ checks, numbers, errors: window.pageErrors });
})();
</script>
"""


def dom(browser, path):
    """What the browser has of a page once its scripts have run."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,4000", "--virtual-time-budget=8000", "--dump-dom", f"file://{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        sys.exit(f"{browser}: {done.stderr.strip()[-500:]}")
    return done.stdout


def check(browser, page):
    """Whether a page works; prints what was looked at."""
    with open(page, encoding="utf-8") as file:
        html = file.read()
    size = len(html.encode())
    if html.count("</body>") != 1:
        print(f"BAD {page}: no page")
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(html.replace("</body>", PROBE + "</body>"))
        found = re.search(r'<pre id="probe">(.*?)</pre>', dom(browser, path), re.S)
    text = found and found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    if not text:
        print(f"BAD {page}: the probe left nothing")
        return False
    result = json.loads(text)
    wrong = [name for name, holds in result["checks"].items() if not holds]
    if size >= MOST_BYTES:
        wrong.append(f"{size} bytes")
    verdict = "BAD" if wrong else "ok "
    print(f"{verdict} {os.path.basename(page)}: {size} bytes, {len(result['checks'])} checks, {json.dumps(result['numbers'])}")
    for name in wrong:
        print(f"    failed: {name}")
    for error in result["errors"]:
        print(f"    script: {error}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="+", metavar="PAGE.html")
    parser.add_argument("--browser", default="chromium")
    options = parser.parse_args()
    good = [check(options.browser, page) for page in options.pages]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
