// Panel 5: the order of events: what the kernel says, and the order in which the simulator ran the first CTA.
let firstEvent = 0;
const SHOWN = 150;
const EVENT = {
  load: ["#009e73", "load"],
  store: ["#009e73", "store"],
  copy: ["#0072b2", "copy begins"],
  landed: ["#56b4e9", "bytes have come"],
  product: ["#cc79a7", "product"],
  exchange: ["#f0e442", "lanes exchange"],
  barrier: ["#d55e00", "barrier"],
  wait: ["#d55e00", "wait is over"],
  arrive: ["#e69f00", "arrival"],
  commit: ["#999999", "group"],
  init: ["#999999", "mbarrier begins"],
};
const STATE = {
  filling: ["#56b4e9", "being filled"],
  full: ["#009e73", "full, read"],
  free: ["none", "free"],
};

function acts(list) {
  return el(
    "ul",
    { class: "acts" },
    list.map((act) =>
      el(
        "li",
        { class: act.kind, "data-k": act.names?.join(" ") || null },
        act.count > 1 ? el("span", { class: "count" }, `${number(act.count)} × `) : "",
        act.kind === "loop"
          ? el("b", {}, "repeat ")
          : act.kind === "if" || act.kind === "one"
            ? el("b", {}, "")
            : "",
        linked(act.text),
        act.inside ? acts(act.inside) : "",
      ),
    ),
  );
}
function timeline(run, body) {
  const warps = [...new Set(run.events.map((e) => e.warp))].sort((a, b) => (a ?? -1) - (b ?? -1));
  const H = 20,
    X = 118,
    W = 1150,
    read = el("div", { class: "readout", "aria-live": "polite" });
  const height = 18 + H * (run.stages.length + warps.length);
  const canvas = el("canvas", {
    width: W,
    height,
    tabindex: 0,
    role: "img",
    "aria-label": "Events of the first CTA in order; arrow keys move",
  });
  let cursor = firstEvent;
  const wide = () => (W - X) / Math.min(SHOWN, run.events.length);
  const tell = (n) => {
    const e = run.events[n];
    if (!e) return;
    read.replaceChildren(
      `event ${n + 1} of ${run.events.length}: ${e.warp == null ? "copy engine" : `warp ${e.warp}`}: `,
      e.count > 1 ? `${e.count} × ` : "",
      ...linked(e.text),
      ` (PTX line ${e.line})`,
    );
  };
  const paint = () => {
    const cx = canvas.getContext("2d"),
      w = wide(),
      end = Math.min(run.events.length, firstEvent + SHOWN),
      x = (n) => X + (n - firstEvent) * w;
    cx.clearRect(0, 0, W, height);
    cx.font = "11px system-ui, sans-serif";
    cx.fillStyle = color("--dim");
    cx.fillText("event", 4, 12);
    for (let n = Math.ceil(firstEvent / 10) * 10; n < end; n += 10) cx.fillText(String(n), x(n), 12);
    run.stages.forEach((stage, k) => {
      const y = 18 + k * H;
      cx.fillStyle = color("--fg");
      cx.fillText(stage.name, 4, y + 14);
      stage.changes.forEach(([from, state], c) => {
        const to = stage.changes[c + 1]?.[0] ?? run.events.length,
          [a, b] = [Math.max(from, firstEvent), Math.min(to, end)];
        if (state === "free" || b <= a) return;
        cx.fillStyle = STATE[state][0];
        cx.fillRect(x(a), y + 3, (b - a) * w - 1, H - 6);
        if (state === "filling") {
          cx.fillStyle = color("--bg");
          for (let q = x(a) + 3; q < x(b) - 2; q += 6) cx.fillRect(q, y + 3, 1.5, H - 6);
        }
      });
    });
    warps.forEach((warp, k) => {
      const y = 18 + (run.stages.length + k) * H;
      cx.fillStyle = color("--fg");
      cx.fillText(warp == null ? "copy engine" : `warp ${warp}`, 4, y + 14);
      cx.fillStyle = color("--line");
      cx.fillRect(X, y + H / 2, W - X, 1);
      for (let n = firstEvent; n < end; n++) {
        const e = run.events[n];
        if (e.warp !== warp) continue;
        cx.fillStyle = EVENT[e.kind]?.[0] || "#999999";
        if (e.kind === "barrier" || e.kind === "wait") cx.fillRect(x(n), y + 1, Math.max(2, w * 0.35), H - 2);
        else if (e.kind === "arrive") {
          cx.beginPath();
          cx.moveTo(x(n), y + H - 4);
          cx.lineTo(x(n) + w - 1, y + H - 4);
          cx.lineTo(x(n) + w / 2, y + 4);
          cx.fill();
        } else if (e.kind === "store") {
          cx.strokeStyle = cx.fillStyle;
          cx.strokeRect(x(n) + 0.5, y + 5, Math.max(2, w - 2), H - 10);
        } else cx.fillRect(x(n), y + 4, Math.max(2, w - 1), H - 8);
      }
    });
    cx.strokeStyle = color("--fg");
    cx.strokeRect(x(cursor), 16, w, height - 17);
  };
  const go = (n) => {
    cursor = Math.max(0, Math.min(run.events.length - 1, n));
    if (cursor < firstEvent || cursor >= firstEvent + SHOWN)
      firstEvent = Math.max(0, Math.min(run.events.length - SHOWN, (cursor - SHOWN / 2) | 0));
    slider.value = firstEvent;
    paint();
    tell(cursor);
  };
  canvas.addEventListener(
    "keydown",
    arrows((dx, dy) => go(cursor + dx + 10 * dy)),
  );
  canvas.addEventListener("mousemove", (e) => {
    const b = canvas.getBoundingClientRect(),
      n = firstEvent + Math.floor((((e.clientX - b.left) / b.width) * W - X) / wide());
    if (n >= firstEvent && n < run.events.length && n !== cursor) {
      cursor = n;
      paint();
      tell(n);
    }
  });
  const slider = el("input", {
    type: "range",
    min: 0,
    max: Math.max(0, run.events.length - SHOWN),
    value: firstEvent,
    "aria-label": "first event shown",
    style: "width:320px",
    input: (e) => {
      firstEvent = +e.target.value;
      cursor = firstEvent;
      paint();
      tell(cursor);
    },
  });
  const kinds = [...new Set(run.events.map((e) => e.kind))].filter((k) => EVENT[k]);
  body.append(
    el("h3", {}, "the order in which the simulator ran the first CTA"),
    el(
      "p",
      { class: "dim" },
      `An event a column: ${number(run.events.length)} events${run.left_out ? `, and ${number(run.left_out)} behind them that are left out` : ""}. It is one of the orders that the program allows, and says nothing about time: the simulator lets one warp run until it waits, and copies by tensor maps come when nothing else can go on.`,
    ),
    el(
      "div",
      { class: "legend" },
      kinds.map((k) => el("span", {}, el("i", { style: `background:${EVENT[k][0]}` }), EVENT[k][1])),
      run.stages.length
        ? Object.values(STATE).map(([c, t]) =>
            el("span", {}, el("i", { style: `background:${c}` }), `stage ${t}`),
          )
        : "",
    ),
    run.events.length > SHOWN ? el("div", { class: "row" }, "from the start", slider, "to the end") : "",
    el("div", { class: "scroll" }, canvas),
    read,
  );
  go(Math.min(firstEvent, run.events.length - 1));
}

if (D.events)
  panel(
    "events",
    "Order of events",
    "What the threads of a CTA do, one after the other: copies, barriers, products. Between two lines that order threads, statements alike are counted together.",
    (body) => {
      const e = D.events,
        threads = (r) =>
          `threads ${r.first} to ${r.first + r.threads - 1}: ${plural(r.threads / 32, "warp")}${r.registers ? `, ${r.registers} registers each` : ""}`;
      const all = e.before.length || !e.roles.length;
      if (all)
        body.append(
          el("h3", {}, e.roles.length ? "all threads, first" : `all ${D.head.threads} threads`),
          el("div", { class: "card" }, acts(e.before)),
        );
      if (e.roles.length)
        body.append(
          el(
            "div",
            {
              class: "roles",
              style: `grid-template-columns:repeat(${Math.min(3, e.roles.length)},1fr);margin-top:10px`,
            },
            e.roles.map((r) => el("div", { class: "card" }, el("h3", {}, threads(r)), acts(r.does))),
          ),
        );
      if (e.after.length)
        body.append(el("h3", {}, "all threads, then"), el("div", { class: "card" }, acts(e.after)));
      body.append(
        el("h3", {}, "the compiler's plan of it"),
        el(
          "div",
          { class: "card mono" },
          e.plan.map((line) => el("div", {}, linked(line))),
        ),
      );
      if (e.run?.events.length) timeline(e.run, body);
    },
  );
