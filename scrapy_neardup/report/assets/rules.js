// Rules that the crawl has learnt, and kinds of URLs that have run dry; hidden where there are none.

const STANDINGS = { trusted: "acts, or would", watched: "is watched", withdrawn: "was withdrawn", proposed: "was proposed" };

function ruleCard(rule) {
  const pair = rule.contradiction ?? rule.examples[0];
  return element("li", { class: "card" },
    element("div", {}, element("b", {}, rule.words), " on ", element("span", { class: "url" }, rule.shape)),
    element("div", { class: "note" }, `Rule ${rule.number} ${rule.pinned ? "is pinned" : STANDINGS[rule.standing]}: ${plural(rule.right, "prediction")} right${rule.contradiction ? ", one wrong" : ""}. ${rule.saved ? `It saved ${plural(rule.saved, "download")}, or would have (${bytes(rule.saved_bytes)}).` : ""}`),
    pair ? element("div", { class: "note" }, urlDiff(pair[0], pair[1]), rule.contradiction ? " ≠ " : " = ", urlDiff(pair[1], pair[0])) : null);
}

const dryCard = ({ kind, words }) => element("li", { class: "card" },
  element("span", { class: "url" }, kind), element("div", { class: "note" }, words));

function drawRules() {
  const { rules, dry, n_rules: nRules, n_dry: nDry } = data.learnt;
  byId("learnt").hidden = !rules.length && !dry.length;
  byId("learnt-link").hidden = byId("learnt").hidden;
  fill("learnt-note", `${plural(nRules, "rule")} learnt, ${plural(nDry, "kind")} of URLs dry. `
    + "scrapy neardup rules forgets and pins rules; undo --deferred fetches what waits.");
  fill("rule-cards", ...rules.map(ruleCard), ...dry.map(dryCard));
}
