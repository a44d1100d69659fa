// The head, the panels in their order, the theme.
function head() {
  const h = D.head,
    dims = Object.entries(h.dims)
      .map(([d, n]) => `${d} = ${number(n)}`)
      .join(", ");
  const box = find("#head");
  box.append(
    el("h1", {}, `${h.kernel} · ${h.schedule}`),
    el(
      "div",
      { class: "sub" },
      [h.dtype, h.target, h.variant && `variant ${h.variant}`, dims, D.refusal && "refused"]
        .filter(Boolean)
        .join(" · "),
    ),
  );
  if (h.about) box.append(el("p", {}, h.about));
  const facts = [];
  if (h.ctas) facts.push([number(h.ctas), "CTAs in this run"], [number(h.threads), "threads a CTA"]);
  if (D.budgets)
    facts.push([
      D.budgets.shared_bytes ? `${number(D.budgets.shared_bytes / 1024, 1)} KiB` : "none",
      "shared memory a CTA",
    ]);
  if (D.budgets?.limits.length)
    facts.push([`≤ ${Math.min(...D.budgets.limits.map((l) => l.ctas))}`, "CTAs a multiprocessor"]);
  const largest = D.values
    .filter((v) => !v.shared && v.registers > 1)
    .sort((a, b) => b.registers - a.registers)[0];
  if (largest) facts.push([number(largest.registers), `elements of ${largest.name} a thread`]);
  if (D.memory) {
    const { sectors: s, global_requests: r, wavefronts: w, shared_requests: q } = D.memory.totals;
    if (r) facts.push([number(s / r, 1), "sectors a global request"]);
    if (q) facts.push([number(w / q), "wavefronts a shared request"]);
  }
  if (facts.length > 1)
    box.append(
      el(
        "div",
        { class: "facts" },
        facts.map(([n, text]) => el("div", {}, el("b", {}, n), el("span", {}, text))),
      ),
    );
}
const root = document.documentElement,
  dark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
function theme() {
  root.dataset.theme = chosenTheme ?? (dark.matches ? "dark" : "light");
  fill();
}
// Pictures on canvas take their colours when they are drawn: a new theme draws them anew.
function fill() {
  for (const { id, draws } of panels) {
    const body = find(`#${id} > .body`);
    body.replaceChildren();
    draws(body);
  }
}
head();
panels.forEach(({ id, title, question }, n) => {
  find("#nav").append(el("a", { href: `#${id}` }, n ? `${n} ${title}` : title));
  find("#panels").append(
    el(
      "section",
      { id, "aria-label": title },
      el("h2", {}, n ? `${n} · ${title}` : title),
      el("p", { class: "question" }, question),
      el("div", { class: "body" }),
    ),
  );
});
find("#nav").append(
  el("span", { class: "gap" }),
  el(
    "button",
    {
      id: "theme",
      click: () => {
        chosenTheme = root.dataset.theme === "dark" ? "light" : "dark";
        theme();
      },
    },
    "dark / light",
  ),
);
dark.addEventListener("change", () => {
  if (!chosenTheme) theme();
});
chosenTheme = new URLSearchParams(location.search).get("theme");
theme();
window.pageReady = true;
