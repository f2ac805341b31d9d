// Clusters as cards, and one cluster opened: its members, and each beside the original.

const REASONS = {
  title: ["other title", "a near-duplicate has another title than the original"],
  data: ["other data", "items of a copy were kept because their data differ"],
  "near-limit": ["near the limit", "a near-duplicate is at 90 % of the limit or more"],
  large: ["large", "20 near-duplicates or more"],
};
const ORDERS = {
  doubt: () => 0, // as the data comes
  size: (a, b) => b.near + b.exact - a.near - a.exact,
  limit: (a, b) => b.limit - a.limit,
};
const clusterView = { order: "doubt", only: null, shown: 12, open: null, member: 0 };

function shownClusters() {
  const { only, order } = clusterView;
  return data.clusters.filter((c) => !only || c.reasons.includes(only)).sort(ORDERS[order]);
}

function reasonTags(cluster) {
  const tags = cluster.reasons.map((r) => element("span", { class: "reason", title: REASONS[r][1] }, REASONS[r][0]));
  if (!tags.length) tags.push(element("span", { class: "reason calm" }, cluster.near ? "nothing unusual" : "exact copies only"));
  return element("div", { class: "reasons" }, ...tags);
}

function gauge(value, limit) {
  const part = limit ? Math.min(1, value / limit) : 0;
  return element("span", { class: "gauge" }, element("i", { width: `${Math.max(2, 100 * part)}%`, class: part >= 0.9 && "close" }));
}

function card(cluster, place) {
  const measure = cluster.limit // of what was not kept
    ? element("div", {}, element("div", { class: "gauge-label" }, element("span", {}, `least alike: ${percent(cluster.least_alike)}`),
      element("span", { class: "num" }, `${Math.round(100 * cluster.limit)} % of the limit`)),
    gauge(cluster.limit, 1)) : null;
  return element("button", { type: "button", class: "cluster", "data-original": cluster.original, on: { click: () => openCluster(place) } },
    reasonTags(cluster),
    element("span", { class: "url" }, cluster.original),
    element("div", { class: "facts" }, element("span", { class: "count num" }, count(cluster.near + cluster.exact), " ",
      element("small", {}, `${cluster.near + cluster.exact === 1 ? "page repeats" : "pages repeat"} this one`)),
    element("span", { class: "note num" }, [cluster.near && `${count(cluster.near)} near`, cluster.exact && `${count(cluster.exact)} exact`].filter(Boolean).join(" · "))),
    measure);
}

function drawClusters() {
  const clusters = shownClusters();
  const listed = data.n_clusters > data.clusters.length ? `; the ${count(data.clusters.length)} most doubtful are listed` : "";
  byId("clusters-note").textContent = data.clusters.length
    ? `${plural(data.n_clusters, "page")} with duplicates, ${plural(data.n_doubtful, "cluster")} worth a look${listed}. Open one to compare its pages.`
    : "No page repeated another.";
  const chips = Object.entries(REASONS).map(([reason, [name]]) => {
    const n = data.clusters.filter((c) => c.reasons.includes(reason)).length;
    return element("button", { type: "button", class: "chip", "aria-pressed": String(clusterView.only === reason), on: { click: () => {
      clusterView.only = clusterView.only === reason ? null : reason;
      drawClusters();
    } } }, name, " ", element("span", { class: "num" }, count(n)));
  });
  fill("cluster-filters", ...(data.clusters.length ? chips : []));
  fill("cluster-cards", ...(clusters.length ? clusters.slice(0, clusterView.shown).map(card)
    : [element("p", { class: "empty" }, data.clusters.length ? "No cluster like that." : "Nothing to judge.")]));
  byId("more-clusters").hidden = clusters.length <= clusterView.shown;
}

// URL patterns that lose most of their pages: a rule of the site, or pages that differ in too little.
function drawWholesale() {
  byId("wholesale").hidden = !data.wholesale.length;
  fill("wholesale", ...data.wholesale.map(({ name, near, pages }) => element("li", { class: "card" },
    element("span", {}, element("b", { class: "num" }, `${count(near)} of ${count(pages)}`), " pages are near-duplicates: dropped, tagged or counted: "),
    element("button", { type: "button", class: "url plain", title: "Show its decisions", on: { click: () => searchFor(name) } }, name))));
}

function membersOf(cluster) {
  const { rows } = data, target = rows.targets.indexOf(cluster.original), found = [];
  if (target < 0) return found;
  for (let i = 0; i < rows.url.length; i++) {
    const kind = data.kind_names[rows.kind[i]];
    if (rows.original[i] === target && (kind === "near" || kind === "exact")) found.push(i);
  }
  return found.sort((a, b) => (rows.sketch[b] ?? 0) - (rows.sketch[a] ?? 0) || a - b);
}

function openCluster(place, row = null) {
  const clusters = shownClusters();
  if (!clusters.length) return;
  const cluster = clusters[(place + clusters.length) % clusters.length];
  showCluster(cluster, (place + clusters.length) % clusters.length, row);
}

function openClusterOf(row) {
  const original = data.rows.targets[data.rows.original[row]];
  const place = shownClusters().findIndex((c) => c.original === original);
  const known = data.clusters.find((c) => c.original === original);
  showCluster(known ?? { original, near: 0, exact: 0, reasons: [], limit: 0 }, place, row);
}

function showCluster(cluster, place, row = null) {
  const members = membersOf(cluster);
  Object.assign(clusterView, { open: cluster, place, members, member: Math.max(0, members.indexOf(row)) });
  const dialog = byId("cluster-dialog");
  dialog.replaceChildren(clusterHead(cluster), element("div", { class: "split" },
    element("ul", { class: "members", "aria-label": "Members" }, ...members.slice(0, 500).map(memberItem),
      members.length < cluster.near + cluster.exact || members.length > 500
        ? element("li", { class: "note" }, `${count(cluster.near + cluster.exact - Math.min(500, members.length))} more are not in this report; the command explain lists them`) : ""),
    element("div", { class: "compare", id: "compare", tabindex: "0", "aria-live": "polite" })));
  if (!dialog.open) dialog.showModal();
  showMember(clusterView.member);
  byId("compare").focus();
}

function clusterHead(cluster) {
  const why = cluster.reasons.map((r) => REASONS[r][1]).join("; ");
  const button = (label, text, act) => element("button", { type: "button", class: "round", "aria-label": label, title: label, on: { click: act } }, text);
  return element("div", { class: "dialog-head" },
    element("div", { class: "what" }, element("h2", { id: "cluster-title" }, `${plural(Math.max(cluster.near + cluster.exact, clusterView.members.length), "duplicate")} of`), link(cluster.original),
      why ? element("p", { class: "note" }, `Why look: ${why}.`) : null),
    element("div", { class: "buttons" }, button("Previous cluster (p)", "‹", () => openCluster(clusterView.place - 1)),
      button("Next cluster (n)", "›", () => openCluster(clusterView.place + 1)),
      button("Close (Esc)", "✕", () => byId("cluster-dialog").close())));
}

function memberItem(row, place) {
  const { rows } = data, kind = data.kind_names[rows.kind[row]];
  return element("li", {}, element("button", { type: "button", class: "member", on: { click: () => showMember(place) } },
    urlDiff(rows.url[row], clusterView.open.original),
    element("span", { class: "line" }, element("span", { class: "tag" }, element("i", { class: `dot k-${kind}` }), NAMES[kind]),
      rows.similarity[row] != null ? element("span", { class: "num" }, `${percent(rows.similarity[row])} alike`) : null,
      rows.sketch[row] != null && kind === "near" ? element("span", { class: "num" }, `${rows.sketch[row]} bits`) : null,
      rows.data_differ[row] ? element("span", {}, `other ${rows.data_differ[row]}`) : null)));
}

function showMember(place) {
  const { members } = clusterView;
  if (!members.length) return fill("compare", element("p", { class: "hint" }, "Its members are older than the rows in this report."));
  clusterView.member = Math.min(Math.max(place, 0), members.length - 1);
  document.querySelectorAll(".member").forEach((item, i) => {
    item.setAttribute("aria-current", String(i === clusterView.member));
    if (i === clusterView.member) item.scrollIntoView({ block: "nearest" });
  });
  fill("compare", ...comparison(members[clusterView.member]));
}

function comparison(row) {
  const { rows, rules, texts, action_names: actions } = data, url = rows.url[row], kind = data.kind_names[rows.kind[row]];
  const alike = rules.NEARDUP_CONFIRM_DISTANCE == null ? null : rules.NEARDUP_SIMILARITY;
  const measure = (label, value, limit) => element("div", {}, element("div", { class: "gauge-label" }, element("span", {}, label), element("span", {}, limit == null ? "" : `limit ${limit}`)),
    element("strong", { class: "num" }, String(value)), limit == null ? null : gauge(parseFloat(value), limit));
  const limit = rules.NEARDUP_CONFIRM_DISTANCE, confirmed = limit == null || rows.sketch[row] <= limit;
  const sketch = confirmed ? ["sketch bits", rows.sketch[row], limit] : ["bits of whole pages", rows.sketch[row]]; // beyond the limit, what templates leave was near
  const fields = rows.data_differ[row];
  const facts = [
    rows.similarity[row] != null && element("div", {}, element("div", { class: "gauge-label" }, element("span", {}, "alike (about)"), element("span", {}, kind === "near" && alike ? `limit ${percent(alike).replace(".0", "")}` : "")),
      element("strong", { class: "num" }, percent(rows.similarity[row])), kind === "near" && alike ? gauge(1 - rows.similarity[row], 1 - alike) : null),
    kind === "near" && rows.sketch[row] != null && measure(...sketch),
    kind === "near" && rows.distance[row] != null && measure("fingerprint bits", rows.distance[row], rules.NEARDUP_DISTANCE),
    rows.words[row] != null && measure("words", count(rows.words[row])),
    fields != null && measure("items differ in", fields || "their data"),
    measure("this page was", actions[rows.action[row]]),
  ].filter(Boolean);
  const original = texts[clusterView.open.original], own = texts[url];
  const shown = kind === "exact"
    ? element("p", { class: "hint" }, fields != null ? "The texts of both pages are the same; their items are not." : "The texts of both pages are the same.")
    : original != null && own != null ? sideBySide(original, own)
      : element("p", { class: "hint" }, "The texts of this pair are not in the report. ", element("code", {}, "NEARDUP_KEEP_TEXT = True"), " keeps them; then pairs are shown side by side.");
  return [link(url), element("div", { class: "gauges" }, ...facts), shown, actions[rows.action[row]] === "kept" ? null : undoCommand(url)].filter(Boolean);
}

// What to type if the page should have been kept. Nothing that a shell would act on is offered.
function undoCommand(url) {
  if (/[\p{C}\u2028\u2029]/u.test(url)) return null;
  const command = `scrapy neardup undo '${url.replaceAll("'", "'\\''")}' --state ${data.state_argument}`;
  const button = element("button", { type: "button", class: "plain" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(command);
    button.textContent = "Copied";
  });
  return element("div", { class: "undo" }, "Wrong?", element("span", { class: "command" }, command), button);
}
