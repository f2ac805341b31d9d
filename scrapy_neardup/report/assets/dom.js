// Elements, numbers and times. Text is only ever set as text: what pages said stays inert.

const NAMES = {
  seen: "repeated URL", new: "new", exact: "exact copy", near: "near-duplicate",
  "too-short": "too short", undecided: "undecided", "near-but-differs": "near, but a fact differs", contains: "contains another",
  unchanged: "unchanged", minor: "varies at every visit", changed: "changed", gone: "gone", moved: "moved",
  deferred: "deferred", "soft-404": "soft 404", claimed: "copy by its own claim",
};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "width") made.style.width = value;
    else if (name === "grow") made.style.flexGrow = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);
const fill = (id, ...children) => byId(id).replaceChildren(...children);
const count = (number) => (number ?? 0).toLocaleString("en");
const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");
const percent = (part) => `${(100 * part).toFixed(1)} %`;
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function bytes(number) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (number < 1000) return `${number < 10 ? number.toFixed(1).replace(".0", "") : Math.round(number)} ${unit}`;
    number /= 1000;
  }
  return `${number.toFixed(1)} TB`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

const utc = (seconds) => new Date(seconds * 1000).toISOString();
const day = (seconds) => utc(seconds).slice(0, 10);
const clock = (seconds) => utc(seconds).slice(11, 19);

// A URL with what differs from another one marked.
function urlDiff(url, other) {
  const shown = element("span", { class: "url" });
  if (other == null) return (shown.append(url), shown);
  let start = 0;
  while (start < url.length && url[start] === other[start]) start++;
  let end = 0;
  while (end < url.length - start && end < other.length - start
    && url[url.length - 1 - end] === other[other.length - 1 - end]) end++;
  shown.append(url.slice(0, start), element("b", {}, url.slice(start, url.length - end)), url.slice(url.length - end));
  return shown;
}

// Only web pages become links: a crawled "javascript:" must stay text.
function link(url) {
  const safe = /^https?:\/\//i.test(url);
  return safe
    ? element("a", { class: "url", href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, url)
    : element("span", { class: "url" }, url);
}
