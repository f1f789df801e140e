"use strict";
// Pictures as SVG, without a library: bars of stages, and lines over time. What comes from a node becomes text only.

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// In the order in which a write goes through them; several stages may make one part.
const PARTS = [
  ["compression", "compression", ["compression"]],
  ["intent", "intent", ["intent"]],
  ["crypto", "encryption", ["crypto"]],
  ["link-queue", "queue for the full link", ["link-queue"]],
  ["wire", "wire", ["wire"]],
  ["stack", "kernels", ["stack"]],
  ["peer-queue", "peer queue", ["peer-queue"]],
  ["peer-disk", "peer disk", ["peer-disk"]],
  ["local-disk", "local disk", ["local-disk"]],
  ["queue", "prepare, queue, send, completion", ["prepare", "queue", "send", "completion"]],
];

function partsOf(writeClass) {
  return PARTS.map(([key, name, stages]) =>
    [key, name, stages.reduce((sum, stage) => sum + ((writeClass.stages || {})[stage] || {sum_ns: 0}).sum_ns, 0)]);
}

function threeDigits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  const found = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([unit]) => ns >= unit);
  return found ? `${threeDigits(ns / found[0])} ${found[1]}` : `${Math.round(ns)} ns`;
}

function size(bytes) {
  const found = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([unit]) => bytes >= unit);
  return found ? `${threeDigits(bytes / found[0])} ${found[1]}` : `${bytes} B`;
}

function rate(bytesPerSecond) {
  return `${threeDigits(bytesPerSecond / 1e6)} MB/s`;
}

// A picture is as wide as the text in it wants: narrow screens get a narrow one, not a small one.
function pictureWidth() {
  return window.innerWidth < 500 ? 330 : 600;
}

// One bar for each size of write, as long as its mean; the longest fills the width.
function stageBars(classes) {
  const row = 30, left = 60, right = 70, width = pictureWidth();
  const means = classes.map(each => each.total.sum_ns / Math.max(1, each.total.count));
  const longest = Math.max(...means, 1);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${row * classes.length}`, role: "img",
    "aria-label": "Mean time of a write by its stages; the table that follows has the figures."});
  classes.forEach((each, index) => {
    const y = row * index + 4;
    const total = Math.max(1, each.total.sum_ns);
    const length = (width - left - right) * means[index] / longest;
    picture.append(svg("text", {x: 0, y: y + 16}, each.class));
    let x = left;
    for (const [key, name, sum] of partsOf(each)) {
      const part = length * sum / total;
      if (part <= 0) continue;
      picture.append(svg("rect", {x, y, width: part, height: row - 8, class: `c-${key}`},
        svg("title", {}, `${each.class}: ${name} ${duration(sum / Math.max(1, each.total.count))}`)));
      x += part;
    }
    picture.append(svg("text", {x: x + 6, y: y + 16}, duration(means[index])));
  });
  return picture;
}

// A round number that is no less.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= value);
}

// `points`: with time_ms; `lines`: [[key, name], …]; `format` makes text of a value; the scale ends at `least` or above.
function lineChart(points, lines, format, label, nowMs, least) {
  const width = pictureWidth(), height = 170, left = 74, bottom = 22, top = 8, span = 3600e3;
  const most = ceiling(Math.max(least, ...points.flatMap(point => lines.map(([key]) => point[key] || 0))));
  const x = time => left + (width - left - 6) * (1 - (nowMs - time) / span);
  const y = value => top + (height - top - bottom) * (1 - value / most);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  for (const part of [0, 0.5, 1]) {
    picture.append(svg("line", {x1: left, x2: width - 6, y1: y(most * part), y2: y(most * part), class: "grid"}),
      svg("text", {x: left - 6, y: y(most * part) + 4, "text-anchor": "end"}, format(most * part)));
  }
  for (const minutes of width < 500 ? [60, 30, 0] : [60, 45, 30, 15, 0])
    picture.append(svg("text", {x: x(nowMs - minutes * 60e3), y: height - 6,
      "text-anchor": minutes === 60 ? "start" : minutes === 0 ? "end" : "middle"}, minutes ? `-${minutes} min` : "now"));
  lines.forEach(([key], index) => {
    let path = "", before = null;
    for (const point of points) {
      const there = point[key] !== null && point[key] !== undefined && nowMs - point.time_ms <= span;
      // A gap of more than some points is no line.
      const goesOn = there && before !== null && point.time_ms - before < 20e3;
      if (there) path += `${goesOn ? "L" : "M"}${x(point.time_ms).toFixed(1)} ${y(point[key]).toFixed(1)}`;
      before = there ? point.time_ms : null;
    }
    // One point alone is a dot: a line that goes nowhere, with round ends.
    picture.append(svg("path", {d: path.replace(/M([\d. -]+)(?=M|$)/g, "M$1h0") || "M0 0", class: `l-${index + 1}`}));
  });
  return picture;
}

// One bar for each of [title, value]; the longest fills the width. The table that follows has the figures.
function plainBars(rows, format, label) {
  const row = 26, left = 150, right = 84, width = pictureWidth();
  const most = Math.max(...rows.map(([, value]) => value), 1);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${row * rows.length}`, role: "img", "aria-label": label});
  rows.forEach(([title, value], index) => {
    const y = row * index + 3, length = (width - left - right) * value / most;
    picture.append(svg("text", {x: 0, y: y + 15}, title),
      svg("rect", {x: left, y, width: Math.max(1, length), height: row - 7, class: index ? "c-wire" : "c-local-disk"},
        svg("title", {}, `${title}: ${format(value)}`)),
      svg("text", {x: left + length + 6, y: y + 15}, format(value)));
  });
  return picture;
}

// What came in over a link, interval by interval, and where nothing came.
function gapsPicture(link, label) {
  const stream = link.stream, bytes = stream.interval_bytes;
  const width = pictureWidth(), height = 170, left = 74, bottom = 22, top = 8, columns = width - left - 6;
  const length = Math.max(stream.interval_s, stream.interval_s * bytes.length);
  const most = ceiling(2 * Math.max(1, stream.plateau_bytes_per_s));
  const x = seconds => left + columns * seconds / length;
  const y = value => top + (height - top - bottom) * (1 - Math.min(1, value / most));
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  for (const part of [0, 0.5, 1])
    picture.append(svg("line", {x1: left, x2: width - 6, y1: y(most * part), y2: y(most * part), class: "grid"}),
      svg("text", {x: left - 6, y: y(most * part) + 4, "text-anchor": "end"}, rate(most * part)));
  for (const gap of stream.gaps)
    picture.append(svg("rect", {x: x(gap.begin_s), y: y(most), width: Math.max(0.6, x(gap.length_s) - left),
      height: y(0) - y(most), class: "gap"}, svg("title", {}, `nothing came for ${duration(gap.length_s * 1e9)}`)));
  let bars = "", line = "", sum = 0;
  bytes.forEach((each, index) => {
    const end = stream.interval_s * (index + 1);
    sum += each;
    if (each > 0) bars += `M${x(end - stream.interval_s / 2).toFixed(1)} ${y(0).toFixed(1)}V${y(each / stream.interval_s).toFixed(1)}`;
    line += `${index ? "L" : "M"}${x(end).toFixed(1)} ${y(sum / end).toFixed(1)}`;
  });
  picture.append(svg("path", {d: bars || "M0 0", class: "arrived"}), svg("path", {d: line || "M0 0", class: "l-2"}),
    svg("path", {d: `M${x(stream.steady_from_s).toFixed(1)} ${y(stream.plateau_bytes_per_s).toFixed(1)}H${width - 6}`, class: "plateau"}));
  picture.append(svg("text", {x: left, y: height - 6}, "0 s"),
    svg("text", {x: width - 6, y: height - 6, "text-anchor": "end"}, duration(length * 1e9)));
  return picture;
}
