// Pages that changed since an earlier crawl, each opening into both texts; hidden where none did.

function changedPage(page) {
  const fields = (Array.isArray(page.fields) ? page.fields : []).filter(Boolean);
  const told = element("div", { class: "note" }, `${day(page.time)} ${clock(page.time).slice(0, 5)}`,
    fields.length ? ` · ${fields.length === 1 ? "field" : "fields"} ${fields.join(", ")}` : "");
  if (page.before == null) return element("li", { class: "card" }, link(page.url), told, newLines(page));
  const details = element("details", {}, element("summary", {}, "What changed"));
  details.addEventListener("toggle", () => details.append(sideBySide(page.before, page.now, ["before", "now"])), { once: true });
  return element("li", { class: "card" }, link(page.url), told, details);
}

// What is on record where the texts are not.
const newLines = (page) => (Array.isArray(page.added) && page.added.length
  ? element("div", { class: "pair" }, ...page.added.flatMap((line) => [element("div", {}), element("div", {}, element("ins", {}, String(line)))]))
  : null);

function drawChanged() {
  const { n, pages } = data.changed;
  byId("changed").hidden = byId("changed-link").hidden = !pages.length;
  const withText = pages.some((page) => page.before != null);
  fill("changed-note", `${plural(n, "change")} on record, the newest of ${plural(pages.length, "page")} here. `,
    withText ? "" : "NEARDUP_KEEP_TEXT = True keeps texts; then both are shown side by side.");
  fill("changed-pages", ...pages.map(changedPage));
}
