// Charts as plain SVG, and groups as tables with small bars.

const DROPS = ["near", "exact", "soft-404", "claimed", "seen"];
const KINDS = [...DROPS, "undecided", "too-short", "near-but-differs", "contains", "changed", "minor",
  "unchanged", "gone", "moved", "deferred", "new"];

function stack(counts, kinds, whole) {
  const parts = kinds.filter((kind) => counts[kind]);
  const bar = element("div", { class: "stack", role: "img",
    "aria-label": parts.map((kind) => `${NAMES[kind]} ${count(counts[kind])}`).join(", ") });
  for (const kind of parts) {
    bar.append(element("i", { class: `k-${kind}`, width: `${(100 * counts[kind]) / whole}%`,
      title: `${NAMES[kind]}: ${count(counts[kind])}` }));
  }
  return bar;
}

function legend(counts, kinds) {
  return element("div", { class: "legend" }, ...kinds.filter((kind) => counts[kind]).map((kind) =>
    element("span", {}, element("i", { class: `dot k-${kind}` }), NAMES[kind], " ", element("b", { class: "num" }, count(counts[kind])))));
}

function niceStep(top, steps = 4) {
  const raw = Math.max(1, top / steps), power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
}

function frame(width, height, top, label) {
  const chart = drawn("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const box = { left: 44, right: width - 8, bottom: height - 24, top: 18 };
  const step = niceStep(top), ceiling = Math.max(step, Math.ceil(top / step) * step);
  const y = (value) => box.bottom - ((box.bottom - box.top) * value) / ceiling;
  for (let value = 0; value <= ceiling; value += step) {
    chart.append(drawn("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      drawn("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end" }, count(value)));
  }
  return { chart, box, y };
}

const MIN_PITCH = 7;

// As wide as its place, so that its letters keep their size; narrow, it has fewer columns.
function timeline(data) {
  const { start, kinds } = data.timeline;
  const spans = (kinds.near ?? []).length, width = Math.max(280, byId("timeline").clientWidth || 1160);
  const merged = Math.max(1, Math.ceil((spans * MIN_PITCH) / (width - 52))), span = data.timeline.span_s * merged;
  const n = Math.ceil(spans / merged);
  const columns = (kind) => Array.from({ length: n }, (_, i) => kinds[kind].slice(i * merged, (i + 1) * merged).reduce((sum, number) => sum + number, 0));
  const counts = Object.fromEntries(DROPS.map((kind) => [kind, n ? columns(kind) : []]));
  const sums = Array.from({ length: n }, (_, i) => DROPS.reduce((sum, kind) => sum + counts[kind][i], 0));
  const { chart, box, y } = frame(width, 230, Math.max(1, ...sums), "Duplicates and dropped URLs over time");
  const pitch = (box.right - box.left) / Math.max(n, 12);
  for (let i = 0; i < n; i++) {
    let base = 0;
    for (const kind of DROPS) {
      const number = counts[kind][i];
      if (!number) continue;
      chart.append(drawn("rect", { class: `k-${kind}`, x: box.left + i * pitch + 1, width: Math.max(1, pitch - 2),
        y: y(base + number), height: y(base) - y(base + number), rx: 1.5 },
        drawn("title", {}, `${day(start + i * span)} ${clock(start + i * span).slice(0, 5)} UTC · ${NAMES[kind]}: ${count(number)}`)));
      base += number;
    }
  }
  const labels = Math.min(n, Math.max(2, Math.floor(width / 180)));
  for (let l = 0; l < labels; l++) {
    const i = Math.round((l * (n - 1)) / Math.max(1, labels - 1));
    const at = start + i * span, long = n * span > 86400;
    const anchor = l === 0 ? "start" : l === labels - 1 && n > 12 ? "end" : "middle";
    chart.append(drawn("text", { x: box.left + (i + (anchor === "end" ? 1 : 0.5)) * pitch, y: box.bottom + 18, "text-anchor": anchor },
      long ? `${day(at).slice(5)} ${clock(at).slice(0, 5)}` : clock(at).slice(0, 5)));
  }
  byId("span").textContent = duration(span);
  fill("timeline", chart, legend(data.total, DROPS));
}

// Bars of [value, number]; `limit` is inclusive, and values beyond it lie to the side `beyond`.
function histogram(pairs, { first, last, limit, zone, beyond = "right", unit }, label) {
  const shown = new Map(pairs);
  const { chart, box, y } = frame(420, 230, Math.max(1, ...shown.values()), label);
  const pitch = (box.right - box.left) / (last - first + 1), x = (value) => box.left + (value - first) * pitch;
  if (limit != null) {
    const [from, to] = beyond === "right" ? [zone, limit + 1] : [limit, zone];
    chart.prepend(drawn("rect", { class: "zone", x: x(from), width: Math.max(0, x(to) - x(from)), y: box.top, height: box.bottom - box.top }));
  }
  for (const [value, number] of shown) {
    chart.append(drawn("rect", { class: "k-near", x: x(value) + pitch * 0.1, width: pitch * 0.8, y: y(number),
      height: Math.max(1, box.bottom - y(number)), rx: 1.5 }, drawn("title", {}, `${value} ${unit}: ${plural(number, "page")}`)));
  }
  for (let value = first; value <= last; value += niceStep(last - first, 8)) {
    chart.append(drawn("text", { x: x(value + 0.5), y: box.bottom + 18, "text-anchor": "middle" }, String(value)));
  }
  if (limit != null) {
    const at = x(beyond === "right" ? limit + 1 : limit);
    chart.append(drawn("line", { class: "limit", x1: at, x2: at, y1: box.top - 4, y2: box.bottom }),
      drawn("text", { class: "limit-label", x: at + (beyond === "right" ? -5 : 5), y: box.top - 6, "text-anchor": beyond === "right" ? "end" : "start" }, `limit ${limit}`));
  }
  return chart;
}

function histograms(data) {
  const { NEARDUP_CONFIRM_DISTANCE: confirm, NEARDUP_SIMILARITY: alike, NEARDUP_DISTANCE: distance } = data.rules;
  const bits = (pairs, limit) => ({ first: 0, last: Math.max(limit ?? 0, 3, ...pairs.map(([bit]) => bit)) + 1, limit, zone: Math.ceil((limit ?? 0) * 0.9), unit: "bits" });
  const least = confirm == null ? null : Math.round(100 * (alike ?? 0)) || null;
  const first = Math.max(0, Math.min(least ?? 100, 90, ...data.similarities.map(([p]) => p)) - 2);
  fill("similarities", histogram(data.similarities, { first, last: 100, limit: least, zone: 100 - 0.9 * (100 - least), beyond: "left", unit: "% alike" }, "Estimated similarities of near-duplicates"));
  fill("sketches", histogram(data.sketch_distances, bits(data.sketch_distances, confirm), "Sketch distances of near-duplicates"));
  fill("fingerprints", histogram(data.distances, bits(data.distances, distance), "Fingerprint distances of near-duplicates"));
}

const GROUP_COLUMNS = [["name", ""], ["mix", ""], ["pages", "pages"], ["near", "near"], ["exact", "exact"], ["seen", "not fetched"]];
const FIRST_GROUPS = 12;

function groupTable(id, groups, total, label, search) {
  const state = { by: null, all: false };
  const draw = () => {
    const sorted = state.by
      ? [...groups].sort((a, b) => (state.by === "name" ? (a.name < b.name ? -1 : 1) : (b[state.by] ?? 0) - (a[state.by] ?? 0)))
      : groups;
    const whole = Math.max(1, ...groups.map((g) => g.pages + (g.seen ?? 0)));
    const head = element("tr", {}, ...GROUP_COLUMNS.map(([key, title]) => element("th",
      { scope: "col", class: key === "seen" && "minor", "aria-sort": state.by === key && (key === "name" ? "ascending" : "descending") },
      key === "mix" ? element("span", { class: "unseen" }, "Bar of all kinds") : element("button", { type: "button", on: { click: () => { state.by = key; draw(); } } }, key === "name" ? label : title))));
    const rows = sorted.slice(0, state.all ? undefined : FIRST_GROUPS).map((group) => element("tr", {},
      element("td", {}, element("button", { type: "button", class: "url", title: "Show its decisions", on: { click: () => search(group.name) } }, group.name)),
      element("td", {}, stack(group, KINDS, whole)),
      element("td", { class: "num" }, count(group.pages)),
      ...["near", "exact"].map((kind) => element("td", { class: "num" }, count(group[kind]))),
      element("td", { class: "num minor" }, count(group.seen))));
    const hidden = sorted.length - rows.length;
    fill(id, element("table", { class: "groups" }, element("thead", {}, head), element("tbody", {}, ...rows)),
      element("div", { class: "more" }, hidden > 0
        ? element("button", { type: "button", class: "plain", on: { click: () => { state.all = true; draw(); } } }, `Show ${count(hidden)} more`) : "",
      total > groups.length ? element("p", { class: "note" }, `${count(total - groups.length)} more with fewer duplicates are not listed`) : ""));
  };
  draw();
}
