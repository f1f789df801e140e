"use strict";
// Asks for the figures and shows them. All that comes from a node goes in as text.

const EVERY_MS = 2000;
let history = {volumes: {}};

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

function table(caption, header, rows, label) {
  const body = rows.map(row => element("tr", {}, ...row.map((cell, index) =>
    element(index ? "td" : "th", index ? {} : {scope: "row"}, cell))));
  const head = header && element("thead", {}, element("tr", {}, ...header.map(cell => element("th", {scope: "col"}, cell))));
  const made = element("table", {}, element("caption", {}, caption), head, element("tbody", {}, ...body));
  // Where it is wider than the screen it scrolls by itself, also by the keyboard.
  return element("div", {class: "wide", tabindex: "0", role: "region", "aria-label": label || caption}, made);
}

function mood(volume) {
  if (!volume.answers) return "bad";
  const state = volume.status.state;
  if (volume.status.frozen || ["failed", "refused", "frozen"].includes(state)) return "bad";
  return state === "duplex" ? "good" : "warn";
}

function exact(text, value) {
  return element("span", {title: String(value), "data-value": String(value)}, text);
}

function facts(status) {
  const peer = status.peer || {};
  const rows = [["role", status.role], ["size", exact(size(status.size_bytes), status.size_bytes)],
    ["peer", `${peer.name || "?"}: ${peer.connected ? `${peer.role}, ${peer.data}` : "not connected"}`],
    ["written", exact(size(status.counters.write_bytes), status.counters.write_bytes)],
    ["dirty", exact(size(status.dirty_bytes), status.dirty_bytes)],
    ["clients", String(status.clients)],
    ["compression", (status.compression || {}).mode || "off"]];
  if (status.witness) rows.push(["witness", `${status.witness.name || ""} ${status.witness.state || ""}`.trim()]);
  return table("What it is", null, rows);
}

function links(status) {
  return table("Links", ["name", "state", "round trip", "out", "in", "rate", "protection"],
    (status.links || []).map(link => [link.name, link.state,
      link.round_trip_us === null ? "–" : duration(link.round_trip_us * 1e3),
      exact(rate(link.out_bytes_per_s), link.out_bytes_per_s), exact(rate(link.in_bytes_per_s), link.in_bytes_per_s),
      link.nominal_bits_per_s ? `${link.nominal_bits_per_s / 1e9} Gbit/s` : "–", link.encryption || "none"]));
}

function progressOf(name, percent, words) {
  return element("div", {}, element("h3", {}, name),
    element("progress", {max: "100", value: String(percent), "aria-label": name}), element("p", {}, words));
}

function progress(status) {
  const found = [];
  const resync = status.resync || {};
  if (resync.active) found.push(progressOf("Resync", resync.percent,
    `${resync.percent.toFixed(1)}%, ${size(resync.bytes_done)} of ${size(resync.bytes_total)}, ` +
    `${rate(resync.rate_bytes_per_s)}. ${resync.reason}`));
  const verify = status.verify;
  if (verify && verify.active) {
    const percent = 100 * verify.bytes_done / Math.max(1, verify.bytes_total);
    found.push(progressOf("Verify", percent, `${percent.toFixed(1)}%, ${size(verify.bytes_done)} of ` +
      `${size(verify.bytes_total)}, ${rate(verify.rate_bytes_per_s)}, ${size(verify.differing_bytes)} differ`));
  }
  return found;
}

function where(latency) {
  const classes = latency.classes || [];
  const section = element("section", {}, element("h3", {}, "Where the time of writes goes, the last 10 s"));
  if (!classes.length) {
    section.append(element("p", {class: "faint"}, "No client writes here."));
    return section;
  }
  for (const sentence of latency.verdict || []) section.append(element("p", {}, sentence));
  section.append(stageBars(classes));
  // For who can't see the bars.
  const stages = table("Mean time of a write by its stages", ["size", ...PARTS.map(([, name]) => name)],
    classes.map(each => [each.class, ...partsOf(each).map(([, , sum]) => duration(sum / Math.max(1, each.total.count)))]));
  section.append(element("div", {class: "unseen"}, stages.firstChild));
  section.append(element("ul", {class: "legend"}, ...PARTS.map(([key, name]) =>
    element("li", {}, element("span", {class: `swatch c-${key}`}), name))));
  section.append(table("Writes by size", ["size", "writes", "p50", "p90", "p99", "max"], classes.map(each =>
    [each.class, exact(String(each.writes), each.writes), exact(duration(each.total.p50_ns), each.total.p50_ns),
      exact(duration(each.total.p90_ns), each.total.p90_ns), exact(duration(each.total.p99_ns), each.total.p99_ns),
      exact(duration(each.total.max_ns), each.total.max_ns)])));
  return section;
}

function legend(lines) {
  return element("ul", {class: "legend"}, ...lines.map(([, name], index) =>
    element("li", {}, element("span", {class: `swatch k-${index + 1}`}), name)));
}

function lastHour(volume, nowMs) {
  const points = (history.volumes || {})[volume.volume] || [];
  const moved = [["write_bytes_per_s", "written"], ["read_bytes_per_s", "read"]];
  const took = [["p50_ns", "p50"], ["p99_ns", "p99"]];
  return element("section", {}, element("h3", {}, "The last hour"),
    element("p", {}, "Throughput"), lineChart(points, moved, rate, "Bytes written and read a second, over the last hour", nowMs, 1e6),
    legend(moved),
    element("p", {}, "Latency of writes"), lineChart(points, took, duration, "p50 and p99 of writes, over the last hour", nowMs, 1e5),
    legend(took));
}

function planOf(plan) {
  if (!plan) return null;
  const rows = [plan.now, ...(plan.load.under_way_share < 0.9 ? [plan.while_writing] : []), ...plan.links];
  const seen = shown => shown.map(row => [row.title, `${Math.round(row.busy_share * 100)}%`, rate(row.bytes_per_s),
    ...row.classes.map(each => `${duration(each.p50_ns)} / ${duration(each.p99_ns)}`)]);
  const header = first => [first, "busy", "moved", ...plan.now.classes.map(each => `${each.class} p50 / p99`)];
  return element("section", {}, element("h3", {}, "Would a faster link help?"),
    element("p", {}, plan.recommendation), element("p", {class: "faint"}, `It rests on ${plan.rests_on}; sureness: ${plan.sure.level}.`),
    plainBars(rows.map(row => [row.title, row.bytes_per_s]), rate, "What clients would move over other links; the table that follows has the figures."),
    table("What clients would see", header("link"), seen(rows)),
    plan.changes.length ? table("What they would see over the present link, with another change", header("change"), seen(plan.changes)) : null);
}

function probeOf(probe) {
  if (!probe) return null;
  const stream = probe.stream;
  const gaps = stream.gaps.length;
  return element("section", {}, element("h3", {}, `What link ${probe.link} gave when it was probed`),
    element("p", {}, `${rate(stream.bytes_per_s)}, from ${probe.from} to ${probe.to}; without gaps ` +
      `${rate(stream.plateau_bytes_per_s)}. ` + (gaps ? `${gaps} ${gaps === 1 ? "gap" : "gaps"}, ` +
      `${(100 * stream.gap_share).toFixed(1)}% of the time, the longest ${duration(stream.longest_gap_s * 1e9)}.` : "No gaps.") +
      ` The limit: ${probe.limit}.`),
    gapsPicture(probe, `What came over link ${probe.link}: a rate for each ${duration(stream.interval_s * 1e9)}, gaps marked`),
    element("p", {class: "faint"}, "Bars: each interval; dashed line: the rate up to then; thick dashes: the plateau; red: gaps."));
}

function eventsOf(events) {
  const shown = [...events].reverse().map(event => {
    const words = Object.entries(event).filter(([key, value]) => !["time", "event", "number"].includes(key) && value !== "")
      .map(([key, value]) => `${key}: ${value}`).join(", ");
    return element("li", {}, element("time", {datetime: event.time}, event.time.replace("T", " ").slice(0, 19)),
      element("strong", {}, event.event), words ? ` ${words}` : "");
  });
  return element("ol", {class: "events"}, ...shown);
}

// What the user opened stays open, and the focus where it was, though all is drawn anew.
function volumeOf(volume, nowMs, open) {
  const status = volume.status || {};
  const known = volume.told_ms > 0;
  const section = element("article", {class: "volume", "data-volume": volume.volume, "aria-label": `volume ${volume.volume}`});
  section.append(element("div", {class: "head"}, element("h2", {}, volume.volume + (status.node ? ` on ${status.node}` : "")),
    element("span", {class: `state ${mood(volume)}`},
      volume.answers ? status.state : "does not answer"),
    known ? element("span", {class: "faint"}, status.role) : null));
  if (!volume.answers) {
    section.append(element("p", {class: "bad"}, volume.error),
      volume.action ? element("p", {class: "action"}, `To do: ${volume.action}`) : "");
    if (!known) return section;
    section.append(element("p", {class: "faint"}, `Below is what it said ${duration((nowMs - volume.told_ms) * 1e6)} ago.`));
  }
  section.append(element("p", {class: "status"}, status.status || ""));
  if (status.action && volume.answers) section.append(element("p", {class: "action"}, `To do: ${status.action}`));
  section.append(...progress(status));
  section.append(element("div", {class: "parts"}, facts(status), links(status), where(volume.latency || {}),
    lastHour(volume, nowMs)));
  const plan = planOf(volume.plan);
  if (plan) section.append(plan);
  const probe = probeOf(volume.probe);
  if (probe) section.append(probe);
  const details = element("details", {}, element("summary", {}, "What happened"), eventsOf(volume.events || []));
  details.open = open.has(volume.volume);
  section.append(details);
  return section;
}

function redraw(told) {
  const main = document.getElementById("volumes");
  const open = new Set([...main.querySelectorAll("article")].filter(each => each.querySelector("details[open]"))
    .map(each => each.dataset.volume));
  const focusable = () => [...main.querySelectorAll("summary, [tabindex]")];
  const focused = focusable().indexOf(document.activeElement);
  main.replaceChildren(...told.volumes.map(volume => volumeOf(volume, told.now_ms, open)));
  if (!told.volumes.length)
    main.append(element("p", {}, "No node runs on this host. To do: systemctl start twinblock@VOLUME"));
  const again = focusable()[focused];
  if (again) again.focus({preventScroll: true});
}

function say(text) {
  const line = document.getElementById("connection");
  if (line.textContent !== text) line.textContent = text;
}

async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function turn() {
  try {
    history = await fetched("api/history");
    const told = await fetched("api/volumes");
    redraw(told);
    const silent = told.volumes.filter(volume => !volume.answers).length;
    say(`${told.volumes.length} ${told.volumes.length === 1 ? "volume" : "volumes"} on this host` +
      (silent ? `, ${silent} without an answer` : ""));
  } catch (error) {
    say("twinblock web does not answer; what is shown is old. Start it, and this page goes on by itself.");
  }
  setTimeout(turn, EVERY_MS);
}

turn();
