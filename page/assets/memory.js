// Panel 4: accesses of memory: the addresses of a request over sectors and banks, beside the simulator's counts.
let access = 0,
  warpOf = 0;
let chooseAccess = () => {};

// Sectors of 32 bytes that lanes touch.
function sectors(lanes, bytes) {
  const out = new Set();
  for (const at of lanes)
    if (at != null) for (let b = 0; b < bytes; b += Math.min(bytes, 32)) out.add(Math.floor((at + b) / 32));
  return out;
}
// Wavefronts: lanes are taken in phases by their width; in a phase a bank gives one word at a time.
// Each is { from, to, extra, cells: [{ bank, words, lanes }] }.
function wavefronts(lanes, bytes, load, matrices) {
  const words = Math.max(1, Math.ceil(bytes / 4)),
    on = (l) => lanes[l] != null;
  let size = matrices ? 8 : Math.min(32, 32 / words);
  if (!matrices && load && words > 1 && words <= 4) {
    const paired = (d) => lanes.every((at, l) => !on(l) || !on(l ^ d) || at === lanes[l ^ d]);
    if (paired(1) || paired(2)) size = Math.min(32, size * 2);
  }
  const out = [];
  for (let from = 0; from < 32; from += size) {
    const banks = new Map();
    for (let l = from; l < from + size; l++)
      if (on(l)) {
        const chunk = Math.floor(lanes[l] / (4 * words)),
          bank = chunk % (32 / words);
        if (!banks.has(bank)) banks.set(bank, new Map());
        const chunks = banks.get(bank);
        chunks.set(chunk, [...(chunks.get(chunk) || []), l]);
      }
    const n = Math.max(0, ...[...banks.values()].map((chunks) => chunks.size));
    for (let k = 0; k < n; k++)
      out.push({
        from,
        to: from + size - 1,
        extra: k > 0,
        cells: [...banks]
          .filter(([, c]) => c.size > k)
          .map(([bank, c]) => ({ bank: bank * words, words, lanes: [...c.values()][k] })),
      });
  }
  return out;
}
const drawnCost = (a, w) =>
  a.shared
    ? wavefronts(w.lanes, a.bytes, a.access === "load", a.matrices).length
    : sectors(w.lanes, a.bytes).size;
const unitOf = (a) => (a.shared ? "wavefront" : "sector");
const perRequest = (a, n) => n / Math.max(1, a.counted.requests);

function drawSectors(a, w) {
  const W = 30,
    X = 130,
    out = [],
    lines = new Map();
  w.lanes.forEach((at, lane) => {
    if (at != null)
      for (let b = 0; b < a.bytes; b += 4) {
        const line = Math.floor((at + b) / 128);
        if (!lines.has(line)) lines.set(line, []);
        lines.get(line).push([((at + b) % 128) / 4, lane, b]);
      }
  });
  const keys = [...lines.keys()].sort((x, y) => x - y);
  for (let s = 0; s < 4; s++)
    out.push(
      label(X + s * 8 * W + 4 * W, 13, `sector ${s} of the line`, { "text-anchor": "middle", class: "dim" }),
    );
  let y = 20,
    before = null;
  keys.forEach((key, n) => {
    if (keys.length > 12 && n >= 8 && n < keys.length - 2) {
      if (n === 8) {
        out.push(
          label(X - 8, y + 13, `⋮ ${keys.length - 10} lines more`, { "text-anchor": "end", class: "dim" }),
        );
        y += 20;
      }
      before = key;
      return;
    }
    if (before != null && key !== before + 1) {
      out.push(
        label(X - 8, y + 9, `⋮ ${number((key - before - 1) * 128)} bytes`, {
          "text-anchor": "end",
          class: "dim",
        }),
      );
      y += 14;
    }
    out.push(label(X - 8, y + 17, `byte ${number(key * 128)}`, { "text-anchor": "end", class: "mono" }));
    const cells = lines.get(key),
      touched = new Set(cells.map(([word]) => Math.floor(word / 8)));
    for (let s = 0; s < 4; s++)
      out.push(
        draw("rect", {
          x: X + s * 8 * W,
          y,
          width: 8 * W - 2,
          height: 26,
          fill: "none",
          stroke: touched.has(s) ? "var(--fg)" : "var(--line)",
          "stroke-width": touched.has(s) ? 1.5 : 1,
        }),
      );
    for (const [word, lane, b] of cells)
      if (b % 128 === 0)
        out.push(
          draw("rect", {
            x: X + word * W + 1,
            y: y + 3,
            width: Math.max((Math.min(a.bytes, 128) / 4) * W - 2, 3),
            height: 20,
            fill: shaded(lane),
          }),
        );
    const first = new Map();
    for (const [word, lane, b] of cells)
      if (b === 0) first.set(Math.floor(word), [...(first.get(Math.floor(word)) || []), lane]);
    for (const [word, own] of first) {
      const wide = Math.max(1, a.bytes / 4) * W,
        text = own.length > 2 ? `${own[0]}…${own[own.length - 1]}` : own.join(" ");
      out.push(
        draw(
          "text",
          {
            x: X + word * W + wide / 2,
            y: y + 17,
            "text-anchor": "middle",
            style: `fill:${onShade(own[0])};font-size:10px`,
          },
          (wide > 45 ? "lane " : "") + text,
        ),
      );
    }
    y += 30;
    before = key;
  });
  return picture(X + 32 * W + 2, y + 2, `${sectors(w.lanes, a.bytes).size} sectors of one request`, out);
}
function drawBanks(a, w) {
  const W = 30,
    X = 130,
    out = [label(X - 8, 13, "bank", { "text-anchor": "end", class: "dim" })];
  for (let b = 0; b < 32; b++)
    out.push(label(X + b * W + W / 2, 13, b, { "text-anchor": "middle", class: "dim" }));
  let y = 18;
  const all = wavefronts(w.lanes, a.bytes, a.access === "load", a.matrices);
  all.forEach((front, n) => {
    out.push(
      label(X - 8, y + 16, `wavefront ${n + 1}`, {
        "text-anchor": "end",
        style: front.extra ? "fill:var(--slow);font-weight:700" : null,
      }),
    );
    for (let b = 0; b < 32; b++)
      out.push(
        draw("rect", { x: X + b * W, y, width: W - 1, height: 24, fill: "none", stroke: "var(--line)" }),
      );
    for (const cell of front.cells) {
      const lane = cell.lanes[0],
        text =
          cell.lanes.length > 2
            ? `${cell.lanes[0]}…${cell.lanes[cell.lanes.length - 1]}`
            : cell.lanes.join(" ");
      out.push(
        draw(
          "g",
          {},
          draw("title", {}, `lanes ${cell.lanes.join(", ")}`),
          draw("rect", {
            x: X + cell.bank * W + 1,
            y: y + 1,
            width: cell.words * W - 3,
            height: 22,
            fill: shaded(lane),
            stroke: front.extra ? "var(--slow)" : "none",
            "stroke-width": 2,
          }),
          draw(
            "text",
            {
              x: X + (cell.bank + cell.words / 2) * W,
              y: y + 16,
              "text-anchor": "middle",
              style: `fill:${onShade(lane)};font-size:10px`,
            },
            (cell.words > 1 ? "lane " : "") + text,
          ),
        ),
      );
    }
    y += 27;
  });
  return picture(X + 32 * W + 2, y + 2, `${all.length} wavefronts of one request`, out);
}

function drawAccess(a, body) {
  const unit = unitOf(a),
    counted = perRequest(a, a.counted.units);
  body.append(
    el(
      "div",
      { class: "row" },
      el("code", {}, linked(a.text)),
      el(
        "span",
        { class: "dim" },
        `PTX line ${a.lines[0]}${a.lines.length > 1 ? ` and ${a.lines.length - 1} more of this pattern` : ""}`,
      ),
    ),
  );
  if (!a.warps.length) {
    body.append(
      el(
        "p",
        {},
        /cp\.async\.bulk/.test(a.instruction)
          ? `One thread asks for a box; the copy engine moves it, so there are no lanes to draw. Counted: ${plural(a.counted.units, unit)} in ${plural(a.counted.requests, "request")}.`
          : `The first CTA makes no such request, so there are no addresses to draw. Counted: ${plural(a.counted.units, unit)} in ${plural(a.counted.requests, "request")}.`,
      ),
    );
    return;
  }
  const w = a.warps[Math.min(warpOf, a.warps.length - 1)],
    drawn = drawnCost(a, w);
  if (a.warps.length > 1)
    body.append(
      el(
        "label",
        { class: "row" },
        "warp ",
        el(
          "select",
          {
            change: (e) => {
              warpOf = +e.target.value;
              chooseAccess(access);
            },
          },
          a.warps.map((x, n) =>
            el("option", { value: n, selected: n === Math.min(warpOf, a.warps.length - 1) }, String(x.warp)),
          ),
        ),
      ),
    );
  const lanes = w.lanes.filter((x) => x != null).length,
    least = Math.min(drawn, a.shared ? w.least : Math.max(1, Math.ceil((lanes * a.bytes) / 32)));
  body.append(
    el(
      "p",
      {},
      `${lanes} lanes ask for ${a.bytes} bytes each. Drawn from the addresses: `,
      el("b", { class: drawn > least ? "slow" : "good", id: "drawn" }, plural(drawn, unit)),
      drawn > least ? `; so many bytes need ${least}. ` : ", as few as so many bytes need. ",
      a.shared
        ? "A bank gives one word at a time: what does not fit in the first row waits for the next. "
        : "A sector of 32 bytes is fetched whole (thick frame), whatever part of it is asked for. ",
      el(
        "span",
        { class: drawn === w.cost ? "dim" : "wrong" },
        `The simulator counted ${w.cost} for this request${drawn === w.cost ? "" : ": this picture is wrong"}`,
      ),
      el(
        "span",
        { class: "dim" },
        `, and ${number(counted)} a request over all ${number(a.counted.requests)}${a.uneven ? ": other requests cost differently" : ""}.`,
      ),
    ),
  );
  body.append(el("div", { class: "scroll" }, a.shared ? drawBanks(a, w) : drawSectors(a, w)));
}

if (D.memory)
  panel(
    "memory",
    "Memory",
    "A warp's 32 lanes ask at once. Global memory answers in sectors of 32 bytes, shared memory in wavefronts over 32 banks. Addresses and counts are of the same run of the simulator.",
    (body) => {
      const all = D.memory.accesses,
        most = { true: 1, false: 1 };
      for (const a of all) most[a.shared] = Math.max(most[a.shared], a.counted.units);
      const inner = el("div", { id: "access" });
      const row = (a, n) => {
        const each = perRequest(a, a.counted.units),
          least = perRequest(a, a.counted.least),
          bad = a.counted.units > a.counted.least,
          scale = 140 / most[a.shared];
        const open = () => {
          warpOf = 0;
          chooseAccess(n);
        };
        return el(
          "tr",
          {
            tabindex: 0,
            "data-k": a.buffer.replaceAll(" or ", " "),
            click: open,
            keydown: (e) => {
              if (e.key === "Enter" || e.key === " ") {
                e.preventDefault();
                open();
              }
            },
          },
          el(
            "td",
            {},
            `${a.access} ${a.shared ? "shared" : "global"} `,
            el("b", { class: "mono" }, a.buffer),
          ),
          el("td", { class: "mono wrap" }, a.instruction),
          el("td", { class: "n" }, a.bytes || "box"),
          el("td", { class: "n" }, number(a.lines.length)),
          el("td", { class: "n" }, number(a.counted.requests)),
          el("td", { class: `n ${bad ? "slow" : "good"}` }, `${bad ? "▲" : "✓"} ${plural(each, unitOf(a))}`),
          el("td", { class: "n" }, number(least)),
          el(
            "td",
            {},
            picture(
              140,
              14,
              `${number(a.counted.units)} ${unitOf(a)}s in all`,
              draw("rect", { x: 0, y: 2, width: a.counted.least * scale, height: 10, fill: "var(--accent)" }),
              draw("rect", {
                x: a.counted.least * scale,
                y: 2,
                width: (a.counted.units - a.counted.least) * scale,
                height: 10,
                fill: "#d55e00",
              }),
            ),
          ),
        );
      };
      const rows = all.map(row);
      chooseAccess = (n) => {
        access = n;
        rows.forEach((r, k) => r.classList.toggle("chosen", k === n));
        inner.replaceChildren();
        drawAccess(all[n], inner);
      };
      const heads = [
        "access",
        "instruction",
        "bytes a lane",
        "PTX lines",
        "requests",
        "a request",
        "its bytes need",
        "in all",
      ];
      body.append(
        el(
          "div",
          { class: "scroll" },
          el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                heads.map((t, n) => el("th", { class: n > 1 && n < 7 ? "n" : null }, t)),
              ),
            ),
            el("tbody", {}, rows),
          ),
        ),
        el(
          "p",
          { class: "dim" },
          `Sums of the run: ${number(D.memory.totals.sectors)} sectors in ${number(D.memory.totals.global_requests)} requests to global memory; ${number(D.memory.totals.wavefronts)} wavefronts in ${number(D.memory.totals.shared_requests)} requests to shared memory, ${number(D.memory.totals.conflicts)} of them bank conflicts. Orange in a bar: more than the bytes need.`,
        ),
        all.some((a) => /cp\.async\.bulk/.test(a.instruction))
          ? el(
              "p",
              { class: "dim" },
              "Not counted, and so not drawn: what tensor maps write to shared memory, and what products of a warpgroup read there.",
            )
          : "",
        inner,
      );
      if (all.length) chooseAccess(Math.min(access || worst(all), all.length - 1));
    },
  );
// The access shown first: the one with most to gain, else the first whose lanes are known.
function worst(all) {
  const excess = all.map((a) => (a.warps.length ? a.counted.units - a.counted.least : -1));
  return excess.indexOf(Math.max(...excess));
}
