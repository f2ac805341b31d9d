// The page as a whole: headline, theme, keys, and new data where a crawl is watched live.

let data = JSON.parse(byId("data").textContent);

function headline() {
  const { total, savings } = data, duplicates = (total.near ?? 0) + (total.exact ?? 0);
  const sentence = total.pages
    ? ["Of ", count(total.pages), " pages read, ", element("b", {}, count(duplicates)), " repeated another", ` (${share(duplicates, total.pages)})`, total.kept_by_data ? `; of ${count(total.kept_by_data)} the items were kept, because their data differ.` : "."]
    : duplicates ? [element("b", {}, plural(duplicates, "page")), " repeated another."] : ["No page has been judged yet."];
  if (savings.urls) sentence.push(` ${plural(savings.urls, "request")} ${savings.urls === 1 ? "was" : "were"} not made at all.`);
  fill("sentence", ...sentence);
  const whole = KINDS.reduce((sum, kind) => sum + (total[kind] ?? 0), 0);
  fill("proportions", whole ? stack(total, KINDS, whole) : "", legend(total, KINDS));
}

function doubts() {
  if (data.n_doubtful) return "look at these first";
  const patterns = data.wholesale.length;
  return patterns ? `but ${plural(patterns, "URL pattern")} ${patterns === 1 ? "loses" : "lose"} most pages` : "no title or item differs, none is large or near a limit";
}

function tiles() {
  const { total, savings } = data;
  const tile = (value, label, detail, href) => element(href ? "a" : "div", { class: "tile", href },
    element("div", { class: "value num" }, value), element("div", { class: "label" }, label), element("div", { class: "detail" }, detail));
  const estimate = savings.estimated_bytes == null ? "how much is unknown: no page's size is on record"
    : `about ${bytes(savings.estimated_bytes)}${savings.estimated_seconds == null ? "" : ` and ${duration(savings.estimated_seconds)} of downloads`}, at the mean of each site's pages`;
  fill("tiles",
    tile(count(data.n_doubtful), data.n_doubtful === 1 ? "doubtful cluster" : "doubtful clusters", doubts(), data.n_doubtful ? "#clusters" : null),
    tile(count(total.dropped), "pages not kept", `${bytes(savings.bytes)} downloaded, measured`),
    tile(count(savings.urls), "URLs not fetched again", savings.urls ? estimate : "no URL came twice"),
    tile(count(data.n_clusters), "pages with duplicates", data.n_clusters ? `${(((total.near ?? 0) + (total.exact ?? 0)) / data.n_clusters).toFixed(1)} duplicates each` : ""));
}

function period() {
  const { start, span_s: span, kinds } = data.timeline, n = (kinds.near ?? []).length;
  const rows = data.rows.time, end = rows.length ? Math.max(rows.at(-1), start) : start + n * span;
  return n ? `${day(start)} ${clock(start).slice(0, 5)} to ${day(end) === day(start) ? "" : `${day(end)} `}${clock(end).slice(0, 5)} UTC` : "no decision yet";
}

function drawAll() {
  byId("subtitle").textContent = `${data.state} · ${period()} · ${plural(data.n_decisions, "decision")}`;
  headline();
  tiles();
  drawWholesale();
  drawClusters();
  timeline(data);
  histograms(data);
  groupTable("sites", data.sites, data.n_sites, "site", searchFor);
  groupTable("patterns", data.patterns, data.n_patterns, "pattern", searchFor);
  drawTable();
  drawRules();
  drawChanged();
  byId("foot").textContent = `Made ${day(data.made)} ${clock(data.made)} UTC. Times are UTC.`;
  const rules = Object.entries(data.rules).map(([name, value]) => `${name}=${value}`);
  byId("rules").hidden = !rules.length;
  byId("rules-list").textContent = rules.join("  ");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea"), dialog = byId("cluster-dialog");
  const inTable = event.target === byId("table");
  const act = {
    "/": () => !dialog.open && byId("search").focus(),
    "?": () => byId("help-dialog").showModal(),
    t: toggleTheme,
    c: () => !dialog.open && openCluster(0),
    j: () => dialog.open && showMember(clusterView.member + 1),
    k: () => dialog.open && showMember(clusterView.member - 1),
    n: () => dialog.open && openCluster(clusterView.place + 1),
    p: () => dialog.open && openCluster(clusterView.place - 1),
    ArrowDown: inTable && (() => moveSelection(1)),
    ArrowUp: inTable && (() => moveSelection(-1)),
    PageDown: inTable && (() => moveSelection(10)),
    PageUp: inTable && (() => moveSelection(-10)),
    Enter: inTable && (() => table.selected >= 0 && openRow(table.order[table.selected])),
  }[event.key];
  if (typing || !act) return;
  event.preventDefault();
  act();
}

const toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

async function refresh() {
  try {
    const answer = await fetch("data.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const scroll = byId("table").scrollTop, selected = table.selected, live_s = data.live_s;
    data = { ...(await answer.json()), live_s };
    drawAll();
    byId("table").scrollTop = scroll;
    table.selected = selected;
    byId("live").classList.remove("stale");
    byId("live").lastChild.textContent = "live";
  } catch {
    byId("live").classList.add("stale");
    byId("live").lastChild.textContent = "the crawl no longer answers";
  }
}

setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (change) => setTheme(change.matches ? "dark" : "light"));
byId("theme-button").addEventListener("click", toggleTheme);
byId("help-button").addEventListener("click", () => byId("help-dialog").showModal());
byId("search").addEventListener("input", (event) => { table.search = event.target.value; byId("table").scrollTop = 0; drawTable(); });
byId("cluster-order").addEventListener("change", (event) => { clusterView.order = event.target.value; drawClusters(); });
byId("more-clusters").addEventListener("click", () => { clusterView.shown += 24; drawClusters(); });
byId("table").addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
addEventListener("resize", () => requestAnimationFrame(() => { timeline(data); drawTable(); }));
addEventListener("keydown", keys);
drawAll();
if (data.live_s) {
  byId("live").hidden = false;
  setInterval(refresh, data.live_s * 1000);
}
