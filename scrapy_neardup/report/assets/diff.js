// Two texts side by side: lines matched first, then words inside the lines that changed.

const MAX_LINES = 3000, MAX_EDITS = 800, FOLD_FROM = 5;

// Shortest edit script (Myers 1986, the greedy forward algorithm) as runs of [type, i, j, length].
// Gives up after MAX_EDITS edits and calls the rest changed: such texts have nothing in common.
function edits(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const steps = middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...same(head, 0, 0), ...steps.map(([type, i, j]) => [type, i + head, j + head]),
    ...same(tail, a.length - tail, b.length - tail)];
}

const same = (n, i, j) => Array.from({ length: n }, (_, step) => ["same", i + step, j + step]);

// For d edits, the furthest i on each diagonal k = i - j; a step down takes from b, one right from a.
const goesDown = (reached, d, k) => k === -d || (k !== d && reached.get(k - 1) < reached.get(k + 1));

function middle(a, b) {
  const trail = [], reached = new Map([[1, 0]]);
  for (let d = 0; d <= Math.min(a.length + b.length, MAX_EDITS); d++) {
    trail.push(new Map(reached));
    for (let k = -d; k <= d; k += 2) {
      let i = goesDown(reached, d, k) ? reached.get(k + 1) : reached.get(k - 1) + 1;
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) i++;
      reached.set(k, i);
      if (i >= a.length && i - k >= b.length) return backtrack(trail, a.length, b.length);
    }
  }
  return [...a.map((_, i) => ["gone", i, 0]), ...b.map((_, j) => ["come", a.length, j])];
}

function backtrack(trail, i, j) {
  const steps = [];
  for (let d = trail.length - 1; d >= 0; d--) {
    const reached = trail[d], k = i - j, down = goesDown(reached, d, k);
    const from = down ? k + 1 : k - 1, fromI = reached.get(from), fromJ = fromI - from;
    while (i > fromI && j > fromJ) steps.push(["same", --i, --j]);
    if (d > 0) steps.push(down ? ["come", i, fromJ] : ["gone", fromI, j]);
    [i, j] = [fromI, fromJ];
  }
  return steps.reverse();
}

// Lines of both texts in rows: {same}, or {gone, come} where one may be missing.
function alignedRows(left, right) {
  const a = left.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MAX_LINES);
  const b = right.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MAX_LINES);
  const rows = [];
  let gone = [], come = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, come.length); i++) rows.push({ gone: gone[i], come: come[i] });
    gone = []; come = [];
  };
  for (const [type, i, j] of edits(a, b)) {
    if (type === "gone") gone.push(a[i]);
    else if (type === "come") come.push(b[j]);
    else { flush(); rows.push({ same: a[i] }); }
  }
  flush();
  return rows;
}

function changedLine(gone, come) {
  const a = gone.split(/\s+/), b = come.split(/\s+/);
  const left = element("div"), right = element("div");
  const add = (side, word, tag) => {
    const last = side.lastChild;
    if (tag && last?.nodeName === tag.toUpperCase()) return last.append(` ${word}`);
    if (last) side.append(" ");
    side.append(tag ? element(tag, {}, word) : word);
  };
  for (const [type, i, j] of edits(a, b)) {
    if (type !== "come") add(left, a[i], type === "gone" && "del");
    if (type !== "gone") add(right, b[j], type === "come" && "ins");
  }
  return [left, right];
}

function cells(row) {
  if (row.same != null) return [element("div", { class: "same" }, row.same), element("div", { class: "same" }, row.same)];
  if (row.gone != null && row.come != null) return changedLine(row.gone, row.come);
  return [element("div", {}, row.gone != null ? element("del", {}, row.gone) : ""),
    element("div", {}, row.come != null ? element("ins", {}, row.come) : "")];
}

// The whole comparison; long runs of equal lines are folded and open at a click.
function sideBySide(left, right, heads = ["original", "page"]) {
  const rows = alignedRows(left, right);
  const pair = element("div", { class: "pair", role: "group", "aria-label": `${heads[0]} and ${heads[1]} side by side` },
    ...heads.map((head) => element("div", { class: "pair-head" }, head)));
  for (let i = 0; i < rows.length;) {
    let end = i;
    while (end < rows.length && rows[end].same != null) end++;
    if (end - i >= FOLD_FROM) {
      const folded = rows.slice(i + 1, end - 1);
      const button = element("button", { type: "button", class: "fold" }, `${count(folded.length)} equal lines`);
      button.addEventListener("click", () => button.replaceWith(...folded.flatMap(cells)));
      pair.append(...cells(rows[i]), button, ...cells(rows[end - 1]));
      i = end;
    } else pair.append(...cells(rows[i++]));
  }
  if (!rows.some((row) => row.same == null)) {
    pair.append(element("div", { class: "fold" }, "No word differs: only punctuation, symbols, case or spacing may"));
  }
  return pair;
}
