"use strict";
// Shows what /events tells. All text is set as text, so that no name in the figures can become markup.

const KEPT = 600;
const SVG = "http://www.w3.org/2000/svg";
const WIDE = 400, HIGH = 104, TOP = 16, FOOT = 16;
const at = (id) => document.getElementById(id);
let points = [];
let last = null;
let skew = 0; // how far this browser's clock lies behind the server's
let connected = false;

function make(tag, about = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name === "class") made.className = value; else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function draw(tag, about, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// --- numbers -----------------------------------------------------------------------------------------------------

function short(value, units = ["", " k", " M", " G"], step = 1000) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; unit += 1; }
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits) + units[unit];
}
const bytes = (value) => short(value, [" B", " kB", " MB", " GB", " TB"]);
const rate = (value) => (value === null || value === undefined ? "–" : `${short(value)}/s`);
function duration(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${short(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${short(value / 3600)} h` : `${short(value / 86400)} d`;
}
const clock = (moment) => new Date(moment * 1000).toLocaleTimeString([], { hour12: false });
const percent = (part) => `${(part * 100).toFixed(part > 0 && part < 0.095 ? 1 : 0)} %`;

// --- charts ------------------------------------------------------------------------------------------------------

class Chart {
  constructor(title, valueOf, show, kind = "") {
    this.valueOf = valueOf;
    this.show = show;
    this.title = title;
    this.value = make("output");
    this.svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" });
    this.node = make("div", { class: `card chart ${kind}` }, make("h3", {}, make("span", {}, title), this.value), this.svg);
    this.pointed = null;
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      this.pointed = (event.clientX - box.left) / box.width;
      this.update();
    });
    this.svg.addEventListener("pointerleave", () => { this.pointed = null; this.update(); });
  }

  update() {
    const wide = this.svg.clientWidth || WIDE;
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
    const known = points.map((point) => ({ at: point.at, value: this.valueOf(point) }));
    const values = known.map((one) => one.value).filter((value) => value !== null && value !== undefined);
    const [top, peak] = scale(values);
    const begin = points.length ? points[0].at : 0, span = points.length ? points[points.length - 1].at - begin || 1 : 1;
    const x = (moment) => ((moment - begin) / span) * wide;
    const y = (value) => HIGH - FOOT - (Math.min(Math.max(value, 0), 1.1 * top) / top) * (HIGH - FOOT - TOP);
    const parts = [
      draw("line", { class: "grid", x1: 0, x2: wide, y1: y(0), y2: y(0) }),
      draw("line", { class: "grid", x1: 0, x2: wide, y1: y(top), y2: y(top) }),
    ];
    for (const run of runs(known)) {
      const line = run.map((one) => `${x(one.at).toFixed(1)},${y(one.value).toFixed(1)}`);
      const ends = [`${x(run[run.length - 1].at).toFixed(1)},${y(0)}`, `${x(run[0].at).toFixed(1)},${y(0)}`];
      parts.push(draw("polygon", { class: "under", points: [...line, ...ends].join(" ") }));
      parts.push(draw("polyline", { class: "curve", points: line.join(" ") }));
    }
    parts.push(draw("text", { x: 0, y: y(top) - 4 }, this.show(values.length ? top : null) + (peak > top ? `, peak ${this.show(peak)}` : "")));
    if (points.length > 1) {
      parts.push(draw("text", { x: 0, y: HIGH - 3 }, clock(begin)));
      parts.push(draw("text", { x: wide, y: HIGH - 3, "text-anchor": "end" }, clock(begin + span)));
    }
    let shown = known.findLast((one) => one.value !== null && one.value !== undefined);
    if (this.pointed !== null && known.length) {
      const moment = begin + this.pointed * span;
      shown = known.reduce((best, one) => (Math.abs(one.at - moment) < Math.abs(best.at - moment) ? one : best));
      parts.push(draw("line", { class: "cursor", x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: HIGH - FOOT }));
    }
    this.value.textContent = shown === undefined ? "–" : this.show(shown.value) + (this.pointed === null ? "" : ` at ${clock(shown.at)}`);
    this.svg.setAttribute("aria-label", `${this.title}: ${this.value.textContent}`);
    this.svg.replaceChildren(...parts);
  }
}

// The first micro-batch starts workers: a few values far above all others do not set the scale.
function scale(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const peak = sorted.at(-1) || 1, most = sorted[Math.floor(sorted.length * 0.95) - 1] || peak;
  return [sorted.length >= 20 && peak > 4 * most ? most * 1.5 : peak, peak];
}

function runs(known) {
  const found = [[]];
  for (const one of known) {
    if (one.value === null || one.value === undefined) found.push([]); else found[found.length - 1].push(one);
  }
  return found.filter((run) => run.length);
}

// --- the query ---------------------------------------------------------------------------------------------------

const WORDS = { failed: "Failed", ended: "Ended", waits: "Stalled", stands: "Watermark", quiet: "Quiet", hot: "Hot key", uneven: "Skew", late: "Late rows" };
const charts = [
  new Chart("Rows in", (point) => point.rate, rate),
  new Chart("Time of a micro-batch", (point) => point.seconds, duration),
  new Chart("Watermark lag, in event time", (point) => point.lag, duration),
];
const told = [ // what not every query tells
  new Chart("Latency from event time, p95", (point) => point.event_latency?.p95, duration),
  new Chart("Latency from arrival, p95", (point) => point.arrival_latency?.p95, duration),
  new Chart("Unread rows", (point) => point.unread, short),
];
for (const chart of told) chart.node.hidden = true;
at("charts").append(...[...charts, ...told].map((chart) => chart.node));

function tile(title, value, kind = "", more = null) {
  return make("div", { class: `tile ${kind}` }, make("p", {}, title), make("strong", {}, value), more === null ? null : make("p", {}, more));
}

function latency(title, of) {
  const known = points.findLast((point) => of(point) !== null);
  return known === undefined ? [] : [tile(title, duration(of(known).p50), "", `p95 ${duration(of(known).p95)}`)];
}

function total(of) {
  const known = Object.values(last.joins).map(of).filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

function showQuery() {
  const point = points[points.length - 1];
  at("query").textContent = last.query === null ? "Waiting for the first micro-batch" : last.query.name || `Query ${last.query.id.slice(0, 8)}`;
  document.title = `${last.notices.some((notice) => notice.level === "bad") ? "⚠ " : ""}${last.query?.name || "watersmeet"}`;
  at("notices").replaceChildren(...last.notices.map((notice) => make("p", { class: `notice ${notice.level}` },
    make("b", {}, WORDS[notice.kind]), notice.join === null || Object.keys(last.joins).length < 2 ? notice.text : `${notice.join}: ${notice.text}`)));
  if (!point) return;
  const late = total((join) => join.sums.late_rows);
  at("tiles").replaceChildren(
    tile("Rows in", rate(point.rate)),
    tile("Pairs", rate(Object.values(point.joins).reduce((sum, join) => sum + join.pairs, 0))),
    ...(point.results === null ? [] : [tile("Results", rate(point.results))]),
    tile("Micro-batch", duration(point.seconds)),
    ...latency("Latency from event time", (one) => one.event_latency),
    ...latency("Latency from arrival", (one) => one.arrival_latency),
    ...(point.unread === null ? [] : [tile("Unread rows", short(point.unread))]),
    tile("Watermark lag", duration(points.findLast((one) => one.lag !== null)?.lag)),
    tile("Rows in windows", short(total((join) => join.window_rows))),
    tile("State", bytes(total((join) => join.state_bytes))),
    tile("Late rows", short(late), late ? "warn" : ""),
  );
  for (const chart of told) chart.node.hidden = !points.some((one) => (chart.valueOf(one) ?? null) !== null);
  for (const chart of [...charts, ...told]) chart.update();
}

function showState() {
  const worst = last === null ? null : last.notices.find((notice) => notice.level !== "info");
  let kind = "good", word = "running";
  if (last !== null && last.ended) [kind, word] = worst?.kind === "failed" ? ["bad", "failed"] : ["", "ended"];
  else if (!connected) [kind, word] = ["bad", "no connection"];
  else if (worst) [kind, word] = worst.level === "bad" ? ["bad", "needs attention"] : ["warn", "warnings"];
  at("state").className = `pill ${kind}`;
  at("state").textContent = word;
  if (last === null || !points.length) return;
  const silent = Math.max(0, Date.now() / 1000 + skew - last.heard);
  at("ago").textContent = `micro-batch ${points[points.length - 1].number}` + (last.ended ? "" : `, ${silent < 1 ? "now" : `${duration(Math.round(silent))} ago`}`);
}

// --- a join ------------------------------------------------------------------------------------------------------

const joins = new Map();

class Join {
  constructor(name) {
    this.name = name;
    const of = (field) => (point) => point.joins[name]?.[field];
    this.charts = [
      new Chart("Pairs", of("pairs"), rate),
      new Chart("Rows in the window", of("window"), short),
      new Chart("Late rows in a micro-batch", of("late"), short, "late"),
    ];
    this.streams = make("div", { class: "card" });
    this.cores = make("div", { class: "card" });
    this.groups = make("div", { class: "card" });
    this.decided = make("div", { class: "card" });
    this.sums = make("p", { class: "sums" });
    this.node = make("section", { "aria-label": `Join ${name}` },
      make("h2", {}, `Join ${name}`),
      make("div", { class: "charts" }, ...this.charts.map((chart) => chart.node)),
      make("div", { class: "pair" }, this.streams, this.cores),
      make("div", { class: "pair" }, this.groups, this.decided), this.sums);
  }

  update(join) {
    for (const chart of this.charts) chart.update();
    this.streams.replaceChildren(make("h3", {}, "Streams and their windows"), ...this.sides(join), ...sources());
    this.cores.replaceChildren(...coresOf(join));
    this.groups.replaceChildren(...groupsOf(join));
    this.decided.replaceChildren(...decidedOf(this.name, join));
    const counts = [["rows joined", "rows_in"], ["pairs", "pairs"], ["late", "late_rows"], ["with nulls", "null_rows"], ["met nobody", "unmatched_rows"]];
    this.sums.replaceChildren(make("span", {}, `Since the page was switched on (${last.micro_batches} micro-batches):`),
      ...counts.map(([word, field]) => make("span", {}, make("b", {}, join.sums[field].toLocaleString("en")), ` ${word}`)));
  }

  sides(join) {
    const most = Math.max(1, ...join.sides.map((side) => side.state_bytes));
    const shown = join.sides.map((side) => lane(side.name, side.state_bytes / most,
      `${side.is_all ? "" : "at least "}${bytes(side.state_bytes)} in the window` + (side.rows === null ? "" : `, ${short(side.rows)} new rows`), join.waiting_for === side.name));
    if (join.waiting_for !== null && !join.sides.some((side) => side.name === join.waiting_for)) {
      shown.push(lane(join.waiting_for, 0, "", true));
    }
    return shown;
  }
}

function bar(part, mark = null) {
  const inner = make("i");
  inner.style.width = `${Math.min(100, Math.max(0, part * 100))}%`;
  const node = make("div", { class: "bar" }, inner);
  if (mark !== null) {
    const line = make("u", {});
    line.style.left = `${Math.min(100, mark * 100)}%`;
    node.append(line);
  }
  return node;
}

function lane(name, part, text, stalled) {
  return make("div", { class: `stream ${name} ${stalled ? "stalled" : ""}` },
    make("header", {}, make("strong", {}, stalled ? `${name} has stalled` : name), make("span", { class: "small" }, text)), bar(part));
}

function sources() {
  return last.sources.map((source) => make("p", { class: `small ${source.quiet > 2 ? "warn" : ""}` },
    source.quiet > 2 ? `no rows for ${source.quiet} micro-batches from ${source.name}` : `${rate(source.rate)} from ${source.name}`));
}

function line(name, part, text, kind = "", mark = null) {
  return make("div", { class: `row ${kind}` }, make("span", { class: "name", title: name }, name), bar(part, mark), make("span", { class: "says" }, text));
}

function coresOf(join) {
  const most = Math.max(1e-9, ...join.cores.map((core) => core.work_seconds));
  const mean = join.cores.reduce((sum, core) => sum + core.work_seconds, 0) / (join.cores.length || 1);
  const about = join.skew === null ? "" : `, the busiest ${join.skew.toFixed(1)} times the mean`;
  return [make("h3", {}, `Cores: work and state${about}`),
    ...join.cores.map((core) => line(`core ${core.core}`, core.work_seconds / most,
      `${duration(core.work_seconds)}, ${short(core.window_rows)} rows, ${bytes(core.state_bytes)}`,
      join.cores.length > 1 && core.work_seconds > 2 * mean ? "hot" : "", mean / most))];
}

function groupsOf(join) {
  if (!join.groups.length) return [make("h3", {}, "Hot keys"), make("p", { class: "small" }, "No groups were counted. A join counts them where balance is on, which needs a folder for its routing tables.")];
  const fair = join.cores.length > 1 ? 1 / join.cores.length : null;
  return [make("h3", {}, `Heaviest groups of keys, by their part of the work${fair === null ? "" : "; the line is one core's fair share"}`),
    ...join.groups.map((group) => line(`group ${group.group}`, group.share,
      `${percent(group.share)} on ${group.cores} ${group.cores === 1 ? "core" : "cores"}`, group.is_hot ? "hot" : "", fair))];
}

function decidedOf(name, join) {
  const own = last.decided.filter((one) => one.join === name).reverse();
  const title = make("h3", {}, `Balance${join.generation === null ? "" : `: routing table ${join.generation}`}`);
  if (!own.length) return [title, make("p", { class: "small" }, "No load has been moved since the page was switched on.")];
  return [title, make("ol", {}, ...own.map((one) => make("li", {},
    make("time", {}, clock(one.at)), `table ${one.generation}: ${one.reasons.join("; ") || "changed"}`)))];
}

// --- what the server tells ---------------------------------------------------------------------------------------

function show() {
  showQuery();
  for (const [name, join] of Object.entries(last.joins)) {
    if (!joins.has(name)) {
      joins.set(name, new Join(name));
      at("joins").append(joins.get(name).node);
    }
    joins.get(name).update(join);
  }
  showState();
}

const events = new EventSource("/events");
events.onopen = () => { connected = true; points = []; };
events.onmessage = (event) => {
  last = JSON.parse(event.data);
  skew = last.now - Date.now() / 1000;
  points = [...points, ...last.points].slice(-KEPT);
  connected = true;
  if (last.ended) events.close();
  show();
};
events.onerror = () => { connected = false; showState(); };
setInterval(showState, 1000);
addEventListener("resize", () => { if (last !== null) show(); });
