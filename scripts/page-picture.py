#!/usr/bin/env python3
"""Draws panels of a page that `--page` wrote, as a picture: `scripts/page-picture.py PAGE.html OUT.png findings memory`.

The panels are named by their ids in the page. Needs Python's own library and a Chromium.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

WIDTH = 1200
# What is not asked for is hidden, and the height of the rest is left where `--dump-dom` shows it.
ONLY = """
<style>
  header, nav, section:not({panels}) {{ display: none }}
  body {{ margin: 0; padding: 8px 16px }}
</style>
<pre id="height" hidden></pre>
<script>
  document.querySelector("#height").textContent = Math.ceil(document.body.getBoundingClientRect().height) + 16;
</script>
"""


def browse(browser, path, height, *options):
    """What a headless browser prints of a page."""
    size = f"--window-size={WIDTH},{height}"
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, "--virtual-time-budget=8000"]
    done = subprocess.run([browser, *common, *options, f"file://{path}?theme=light"], capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        sys.exit(f"{browser}: {done.stderr.strip()[-500:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", metavar="PAGE.html")
    parser.add_argument("out", metavar="OUT.png")
    parser.add_argument("panels", nargs="+", metavar="PANEL")
    parser.add_argument("--browser", default="chromium")
    options = parser.parse_args()
    with open(options.page, encoding="utf-8") as file:
        html = file.read()
    only = ONLY.format(panels=", ".join(f"#{panel}" for panel in options.panels))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(html.replace("</body>", only + "</body>"))
        found = re.search(r'<pre id="height"[^>]*>(\d+)</pre>', browse(options.browser, path, 800, "--dump-dom"))
        if not found or int(found[1]) < 100:
            sys.exit(f"{options.page}: no panel {' '.join(options.panels)}")
        browse(options.browser, path, int(found[1]), f"--screenshot={os.path.abspath(options.out)}")


if __name__ == "__main__":
    main()
