// Names that are the same thing wherever they stand: hovering one lights all of them; a click keeps it, Escape lets go.
const isName = (word) => Object.hasOwn(D.names, word) || own.has(word);
// Buffers in shared memory and mbarriers have no entry of their own in `names`.
const own = new Set((D.budgets?.shared || []).map((b) => b.name));
const about = (word) => D.names[word]?.about;

const named = (word, text) => el("span", { "data-k": word, title: about(word) }, text ?? word);

// A text with its names as elements.
function linked(text) {
  const out = [];
  let last = 0;
  for (const found of text.matchAll(/[A-Za-z_]\w*(?:\.[A-Za-z0-9_]+)*/g)) {
    let word = found[0];
    while (word && !isName(word)) word = word.includes(".") ? word.slice(0, word.lastIndexOf(".")) : "";
    if (!word) continue;
    out.push(text.slice(last, found.index), named(word));
    last = found.index + word.length;
  }
  out.push(text.slice(last));
  return out;
}
// The same where names stand in backquotes.
const quoted = (text) => text.split("`").map((part, n) => (n % 2 ? el("code", {}, linked(part)) : part));

let lit = [];
function light(words) {
  for (const word of lit) each(word, (e) => e.classList.remove("lit"));
  lit = words;
  for (const word of lit) each(word, (e) => e.classList.add("lit"));
}
function each(word, f) {
  document.querySelectorAll(`[data-k~="${CSS.escape(word)}"]`).forEach(f);
}
const words = (e) => (e.closest?.("[data-k]")?.dataset.k || "").split(" ").filter(Boolean);
document.addEventListener("mouseover", (e) => light(words(e.target)));
document.addEventListener("focusin", (e) => light(words(e.target)));
document.addEventListener("click", (e) => {
  if (e.target.closest?.("button, [role=option], tr[tabindex]")) return;
  const [word] = words(e.target);
  if (!word) return;
  const on = !e.target.closest("[data-k]").classList.contains("pinned");
  each(word, (x) => x.classList.toggle("pinned", on));
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") document.querySelectorAll(".pinned").forEach((x) => x.classList.remove("pinned"));
});
