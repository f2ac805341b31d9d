// The table of decisions: searched, filtered, sorted; only the rows in view exist.

const COLUMNS = [["time", "time"], ["kind", "what"], ["url", "URL"], ["sketch", "sketch"], ["distance", "bits"], ["similarity", "alike"], ["words", "words"]];
const table = { by: "time", descending: true, kinds: new Set(), search: "", order: [], selected: -1, lower: null };

const rowHeight = () => (matchMedia("(max-width: 760px)").matches ? 68 : 52);

function lowered() {
  const { rows } = data;
  if (table.lower?.rows !== rows) {
    table.lower = { rows, url: rows.url.map((url) => url.toLowerCase()), target: rows.targets.map((url) => url.toLowerCase()) };
  }
  return table.lower;
}

// A search matches where every word of it is in the URL or the original; {n} of a pattern is any number.
function matcher(search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    if (!/\{(n|date|id|slug|text)\}/.test(word)) return (url) => url.includes(word);
    const parts = word.split(/\{(?:n|date|id|slug|text)\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const pattern = new RegExp(parts.join("[^?&#]*"));
    return (url) => pattern.test(url);
  });
  return (url) => words.every((holds) => holds(url));
}

function arrange() {
  const { rows } = data, { url, target } = lowered();
  const holds = matcher(table.search), all = !table.search, order = [];
  for (let i = 0; i < rows.url.length; i++) {
    if (table.kinds.size && !table.kinds.has(rows.kind[i])) continue;
    if (all || holds(url[i]) || (rows.original[i] >= 0 && holds(target[rows.original[i]]))) order.push(i);
  }
  const key = rows[table.by], sign = table.descending ? -1 : 1;
  const rank = (i) => key[i] ?? (table.descending ? -Infinity : Infinity);
  if (table.by === "time") { if (table.descending) order.reverse(); }
  else order.sort((a, b) => { const x = rank(a), y = rank(b); return x < y ? -sign : x > y ? sign : a - b; });
  table.order = order;
  table.selected = -1;
}

function drawTable() {
  arrange();
  const total = data.rows.url.length;
  byId("decisions-note").textContent = (table.order.length === total ? `${plural(total, "decision")}` : `${count(table.order.length)} of ${plural(total, "decision")}`)
    + (data.n_decisions > total ? `, the newest of ${count(data.n_decisions)}` : "");
  fill("table-head", ...COLUMNS.map(([key, title]) => element("span", { role: "columnheader", class: key === "url" && "what-url", "aria-sort": table.by === key && (table.descending ? "descending" : "ascending") },
    element("button", { type: "button", on: { click: () => sortBy(key) } }, title, table.by === key ? (table.descending ? " ↓" : " ↑") : ""))));
  fill("kind-filters", ...data.kind_names.map((kind, i) => [kind, i]).filter(([kind]) => data.total[kind]).map(([kind, i]) =>
    element("button", { type: "button", class: "chip", "aria-pressed": String(table.kinds.has(i)), on: { click: () => toggleKind(i) } }, element("i", { class: `dot k-${kind}` }), NAMES[kind])));
  byId("grid").setAttribute("aria-rowcount", table.order.length + 1);
  byId("table-space").style.height = `${table.order.length * rowHeight()}px`;
  drawRows();
}

function sortBy(key) {
  table.descending = table.by === key ? !table.descending : key !== "url" && key !== "kind";
  table.by = key;
  byId("table").scrollTop = 0;
  drawTable();
}

function toggleKind(kind) {
  if (!table.kinds.delete(kind)) table.kinds.add(kind);
  drawTable();
}

function searchFor(text) {
  byId("search").value = table.search = text;
  drawTable();
  byId("decisions").scrollIntoView();
}

function drawRows() {
  const view = byId("table"), height = rowHeight();
  const first = Math.max(0, Math.floor(view.scrollTop / height) - 4);
  const last = Math.min(table.order.length, first + Math.ceil(view.clientHeight / height) + 8);
  byId("table-rows").style.transform = `translateY(${first * height}px)`;
  fill("table-rows", ...table.order.slice(first, last).map((row, i) => decisionRow(row, first + i)));
  if (!table.order.length) fill("table-rows", element("div", { role: "row" }, element("div", { class: "empty", role: "gridcell" }, "No decision like that.")));
}

function decisionRow(row, place) {
  const { rows } = data, kind = data.kind_names[rows.kind[row]], original = data.rows.targets[rows.original[row]];
  const action = data.action_names[rows.action[row]];
  const number = (value, more) => element("span", { role: "gridcell", class: `num minor ${more ?? ""}` }, value == null ? "" : count(value));
  return element("div", { class: "row", role: "row", "aria-rowindex": place + 2, "aria-selected": String(place === table.selected), "data-place": place, on: { click: () => { table.selected = place; drawRows(); openRow(row); } } },
    element("span", { role: "gridcell", class: "when num" }, clock(rows.time[row]), element("br"), day(rows.time[row])),
    element("span", { role: "gridcell", class: "kind" }, element("span", { class: "tag" }, element("i", { class: `dot k-${kind}` }), NAMES[kind]),
      rows.differs[row] == null ? null : element("div", { class: "of" }, rows.differs[row]),
      kind !== "new" && kind !== "seen" && action !== "dropped" ? element("div", { class: "of" }, action) : null),
    element("span", { role: "gridcell", class: "what-url" }, original == null ? element("span", { class: "url" }, rows.url[row]) : urlDiff(rows.url[row], original),
      original == null ? null : element("span", { class: "url of" }, `of ${original}`)),
    number(kind === "near" ? rows.sketch[row] : null), number(kind === "near" ? rows.distance[row] : null),
    element("span", { role: "gridcell", class: "num likeness" }, rows.similarity[row] == null ? "" : percent(rows.similarity[row])),
    number(rows.words[row]));
}

function openRow(row) {
  if (data.rows.original[row] >= 0) openClusterOf(row);
}

function moveSelection(by) {
  const view = byId("table"), height = rowHeight();
  table.selected = Math.min(Math.max(table.selected + by, 0), table.order.length - 1);
  const top = table.selected * height;
  if (top < view.scrollTop) view.scrollTop = top;
  if (top + height > view.scrollTop + view.clientHeight) view.scrollTop = top + height - view.clientHeight;
  drawRows();
}
