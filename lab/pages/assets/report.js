// The page's only script: interactive timelines, hiding of runs, light and dark. Without it the page is complete, with
// still pictures. It computes nothing that the report says; it only chooses what is drawn.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("Data").textContent);
  const hidden = new Set(); // ids of runs
  const charts = new Map(); // id of a figure -> chart that is drawn
  const zooms = new Map(); // label of a time axis -> [from, to]; charts with the same label move together

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Numbers, as the still pictures show them.

  const KIB = 1024;
  const shown = (unit, largest) => {
    if (unit === "B" || unit === "B/s") {
      const power = Math.max(0, Math.min(4, Math.floor(Math.log(Math.max(largest, 1)) / Math.log(KIB) + 1e-12)));
      return { one: KIB ** power, suffix: ` ${["B", "KiB", "MiB", "GiB", "TiB"][power]}${unit.slice(1)}` };
    }
    if (unit === "s") {
      if (largest < 1e-3) return { one: 1e-6, suffix: " µs" };
      return largest < 1 ? { one: 1e-3, suffix: " ms" } : { one: 1, suffix: " s" };
    }
    const step = [[1e12, " T"], [1e9, " G"], [1e6, " M"]].find(([one]) => largest >= one);
    return step ? { one: step[0], suffix: step[1] } : { one: 1, suffix: "" };
  };
  const number = (value, decimals) =>
    (Math.abs(value) < 0.5 * 10 ** -decimals ? 0 : value)
      .toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
      .replace(/^-/, "\u2212");
  const decimalsOf = (step) => Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const withUnit = (value, unit) => {
    const { one, suffix } = shown(unit, Math.abs(value));
    const scaled = value / one;
    const size = Math.abs(scaled);
    const decimals = size === 0 || (size >= 100 && Number.isInteger(scaled)) ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
    return number(scaled, decimals) + (suffix || (unit === "/s" ? " /s" : ""));
  };
  const duration = (seconds, clock) => {
    const whole = Math.round(Math.abs(seconds));
    const sign = seconds < 0 && whole > 0 ? "\u2212" : "";
    const two = (part) => String(part).padStart(2, "0");
    const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60), whole % 60];
    if (clock === "h:mm") return `${sign}${hours}:${two(minutes % 60)}`;
    if (clock === "m:ss") return `${sign}${minutes}:${two(rest)}`;
    return `${sign}${hours}:${two(minutes % 60)}:${two(rest)}`;
  };

  // Ticks.

  const nice = (rough) => {
    if (!(rough > 0 && Number.isFinite(rough))) return 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5].find((times) => times * power >= rough * 0.999999) ?? 10);
  };
  const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  const timeStep = (rough) =>
    rough <= 0.5 ? nice(rough) : TIME_STEPS.find((step) => step >= rough) ?? Math.max(1, nice(rough / 86400)) * 86400;
  // The step of a time axis, and the form in which its times are written.
  const timeAxis = (u) => {
    const { min, max } = u.scales.x;
    const step = timeStep((max - min) / Math.max(2, Math.min(12, u.bbox.width / devicePixelRatio / 80)));
    const largest = Math.max(Math.abs(min), Math.abs(max));
    return { step, clock: step < 1 ? "s" : largest < 3600 ? "m:ss" : step < 60 ? "h:mm:ss" : "h:mm" };
  };
  const multiples = (low, high, step) => {
    const ticks = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && ticks.length < 200; n++) ticks.push(n * step);
    return ticks;
  };
  const valueAxis = (chart) => {
    const base = chart.unit.startsWith("B") ? 2 : 10;
    const exponent = (value) => Math.log(value) / Math.log(base);
    const stepFor = (low, high) => {
      const { one } = shown(chart.unit, Math.max(Math.abs(low), Math.abs(high)));
      return nice((high - low) / one / 5) * one;
    };
    if (chart.log) {
      return {
        range: (u, low, high) => {
          if (!(low > 0) || !(high > 0)) return [1, 10];
          const first = Math.floor(exponent(low) + 1e-9);
          return [base ** first, base ** Math.max(first + 1, Math.ceil(exponent(high) - 1e-9))];
        },
        splits: (u, axis, low, high) => {
          const [first, last] = [Math.round(exponent(low)), Math.round(exponent(high))];
          const stride = Math.max(1, Math.ceil((last - first) / 5));
          return multiples(first, last, 1).filter((n) => (n - first) % stride === 0).map((n) => base ** n);
        },
        values: (u, splits) => splits.map((value) => {
          const { one, suffix } = shown(chart.unit, value * 1.000001);
          return number(value / one, decimalsOf(value / one)) + suffix;
        }),
      };
    }
    return {
      range: (u, low, high) => {
        if (low == null || high == null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
        if (low > 0 && low < high * 0.7) low = 0;
        if (low >= high) [low, high] = high > 0 ? [0, high] : low < 0 ? [low, 0] : [0, 1];
        const step = stepFor(low, high);
        return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
      },
      splits: (u, axis, low, high) => multiples(low, high, stepFor(low, high)),
      values: (u, splits) => {
        const largest = Math.max(...splits.map(Math.abs), 0);
        const { one, suffix } = shown(chart.unit, largest);
        const step = splits.length > 1 ? (splits[1] - splits[0]) / one : 1;
        return splits.map((value) => number(value / one, decimalsOf(step)) + suffix);
      },
    };
  };

  // One timeline.

  // Times are one by one, or evenly spaced; milliseconds are the smallest part.
  const times = (x) =>
    Array.isArray(x) ? x : Array.from({ length: x.count }, (_, n) => Math.round((x.from + n * x.step) * 1000) / 1000);
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif';
  const ROW = 15; // px between rows of event names above a box
  const ROWS = 3;

  const swatch = (line) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", `swatch ${line.colour}`);
    svg.setAttribute("viewBox", "0 0 28 8");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", "M1 4H27");
    path.setAttribute("stroke-dasharray", line.dash);
    svg.append(path);
    return svg;
  };

  // Where names of events go: right of their line into the first row with room, else left of it, else nowhere.
  const placeMarks = (marks, [left, right], rows, place) => {
    const taken = Array.from({ length: rows }, () => []);
    const placed = [];
    for (const mark of marks) {
      const x = place(mark.at);
      if (x < left - 0.5 || x > right + 0.5) continue;
      const wide = measure(mark.short) + 6;
      const fits = (row, from) =>
        from >= left && from + wide <= right + 14 && row.every(([a, b]) => from > b || from + wide < a);
      let spot = null;
      // One name for several of the same kind at the same time.
      const said = placed.some((one) => one.spot && Math.abs(one.x - x) < 8 && one.mark.short === mark.short);
      for (let row = said ? rows : 0; row < rows && !spot; row++) {
        const from = [x + 1, x - 1 - wide].find((start) => fits(taken[row], start));
        if (from !== undefined) {
          taken[row].push([from, from + wide]);
          spot = { row, x: from + 3 };
        }
      }
      placed.push({ mark, x, spot });
    }
    return placed;
  };
  const scaledFont = () => FONT.replace("12px", `${11 * devicePixelRatio}px`);

  const drawBands = (u, chart) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const band of chart.lanes.length ? [] : chart.bands) {
      const from = u.valToPos(band.from, "x", true);
      const to = u.valToPos(band.to, "x", true);
      ctx.fillStyle = colour(band.tint);
      ctx.fillRect(from, bbox.top, Math.max(to - from, devicePixelRatio), bbox.height);
    }
    ctx.restore();
  };

  // Where several runs have phases, each has a thin strip between the box and the numbers below it.
  const LANE = 6; // px, of which 4 are drawn
  const drawLanes = (u, chart) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const [left, right] = [bbox.left, bbox.left + bbox.width];
    ctx.save();
    ctx.setLineDash([]);
    chart.lanes.forEach((lane, index) => {
      if (hidden.has(lane.run)) return;
      const top = bbox.top + bbox.height + (4 + index * LANE) * ratio;
      ctx.fillStyle = colour(lane.colour);
      ctx.fillRect(left - 7 * ratio, top, 5 * ratio, 4 * ratio);
      for (const band of chart.bands.filter((one) => one.run === lane.run)) {
        const from = Math.max(left, u.valToPos(band.from, "x", true));
        const to = Math.min(right, Math.max(u.valToPos(band.to, "x", true), from + ratio));
        if (to <= from) continue;
        ctx.fillStyle = colour(band.tint);
        ctx.strokeStyle = colour("axis");
        ctx.lineWidth = 0.5 * ratio;
        ctx.fillRect(from, top, to - from, 4 * ratio);
        ctx.strokeRect(from, top, to - from, 4 * ratio);
      }
    });
    ctx.restore();
  };

  const drawMarks = (u, marks, rows) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const left = bbox.left / ratio;
    const placed = placeMarks(marks, [left, left + bbox.width / ratio], rows, (at) => left + u.valToPos(at, "x"));
    ctx.save();
    ctx.font = scaledFont();
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    for (const { mark, x, spot } of placed) {
      const at = Math.round(x * ratio) + 0.5;
      ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(at, bbox.top - (4 + (spot ? spot.row * ROW : 0)) * ratio);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(at - 4 * ratio, bbox.top);
      ctx.lineTo(at + 4 * ratio, bbox.top);
      ctx.lineTo(at, bbox.top + 6 * ratio);
      ctx.fill();
    }
    // Names last, each with a rim of paper, so that no line crosses them.
    ctx.setLineDash([]);
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * ratio;
    ctx.strokeStyle = colour("paper");
    ctx.fillStyle = colour("ink");
    for (const { mark, spot } of placed.filter((one) => one.spot)) {
      const [x, y] = [spot.x * ratio, bbox.top - (5 + spot.row * ROW) * ratio];
      ctx.strokeText(mark.short, x, y);
      ctx.fillText(mark.short, x, y);
    }
    ctx.restore();
  };

  const drawNothing = (u, [, ...lines]) => {
    if (lines.some((line) => line.some((y) => y != null))) return;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = scaledFont();
    ctx.textAlign = "center";
    ctx.fillStyle = colour("soft");
    ctx.fillText("no values", bbox.left + bbox.width / 2, bbox.top + bbox.height / 2);
    ctx.restore();
  };

  // Values between two breaks draw no line; they are drawn as points. (`undefined` is another line's time, no break.)
  const lonePoints = (line) => {
    const own = [];
    line.forEach((y, index) => {
      if (y !== undefined) own.push(index);
    });
    const lone = own.filter((index, n) => line[index] !== null && line[own[n - 1]] == null && line[own[n + 1]] == null);
    return lone.length ? lone : null;
  };

  class Timeline {
    constructor(figure, chart) {
      this.chart = chart;
      this.figure = figure;
      this.box = figure.querySelector(".live");
      this.off = new Set(); // lines of this chart alone
      const tables = chart.lines.map((line) => [times(line.x), line.y]);
      this.data = tables.length ? uPlot.join(tables) : [[]];
      this.lone = this.data.slice(1).map(lonePoints);
      this.full = chart.span;
      this.legend();
      figure.classList.add("drawn"); // gives the box its width
      this.u = new uPlot(this.options(), this.data, this.box);
      this.keys();
      this.show(...(zooms.get(chart.x_label) ?? this.full));
      this.visibility();
      new ResizeObserver(() => this.resize()).observe(this.box);
    }

    marks() {
      return this.chart.marks.filter((mark) => !hidden.has(mark.run));
    }

    options() {
      const chart = this.chart;
      const values = valueAxis(chart);
      const axis = { stroke: () => colour("soft"), font: FONT, ticks: { show: false }, grid: { stroke: () => colour("grid"), width: 1 } };
      const [box, [from, to]] = [[60, this.box.clientWidth - 18], chart.span];
      const roughly = placeMarks(chart.marks, box, ROWS, (at) => box[0] + ((at - from) / (to - from)) * (box[1] - box[0]));
      const rows = Math.max(0, ...roughly.map(({ spot }) => (spot ? spot.row + 1 : 0)));
      const top = 12 + ROW * rows;
      const lanes = chart.lanes.length ? 4 + chart.lanes.length * LANE : 0;
      return {
        width: Math.max(200, this.box.clientWidth),
        height: 290 + top + lanes,
        padding: [top, 18, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: `time ${chart.x_label}`, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => reset(chart.x_label) },
          points: { size: 6 },
        },
        scales: {
          x: { time: false, range: (u, low, high) => [low, high] },
          y: { distr: chart.log ? 3 : 1, log: chart.unit.startsWith("B") ? 2 : 10, range: values.range },
        },
        axes: [
          {
            ...axis,
            label: (u) => `${chart.x_label} (${timeAxis(u).clock})`,
            labelFont: FONT,
            labelSize: 20,
            size: 30 + lanes,
            gap: 5 + lanes,
            splits: (u, n, low, high) => multiples(low, high, timeAxis(u).step),
            values: (u, splits) => {
              const { clock } = timeAxis(u);
              return splits.map((at) => (clock === "s" ? number(at, 2) : duration(at, clock)));
            },
          },
          {
            ...axis,
            splits: values.splits,
            values: values.values,
            filter: (u, splits) => splits,
            size: (u, labels) => 16 + Math.ceil(Math.max(12, ...(labels ?? []).map((label) => measure(label)))),
          },
        ],
        series: [
          {},
          ...chart.lines.map((line) => ({
            label: line.name,
            scale: "y",
            stroke: () => colour(line.colour),
            width: line.weight,
            dash: line.dash !== "none" ? line.dash.split(" ").map((part) => part * devicePixelRatio) : undefined,
            cap: "round",
            points: { show: false, size: 4, fill: () => colour(line.colour), filter: (u, n) => this.lone[n - 1] },
            spanGaps: false,
          })),
        ],
        hooks: {
          drawClear: [(u) => drawBands(u, chart)],
          draw: [(u) => drawNothing(u, this.data), (u) => drawLanes(u, chart), (u) => drawMarks(u, this.marks(), rows)],
          setCursor: [() => this.readout()],
          setSelect: [(u) => this.selected(u)],
        },
      };
    }

    // Below the plot: what is what, and the values under the cursor. Where a run has several lines each has a checkbox;
    // runs and arms have theirs at the top of the page.
    legend() {
      const list = make("ul", { class: "legend" });
      this.time = make("output", { class: "time" }, "");
      this.items = this.chart.lines.map((line, index) => {
        const value = make("output", {}, "");
        const name = make("span", { class: "name" }, line.name);
        let label = make("span", {}, swatch(line), name);
        if (!this.chart.one_line_a_run || !line.run) {
          const box = make("input", { type: "checkbox" });
          box.checked = true;
          box.addEventListener("change", () => {
            this.off[box.checked ? "delete" : "add"](index);
            this.visibility();
          });
          label = make("label", {}, box, swatch(line), name);
        }
        const item = make("li", {}, label, value);
        list.append(item);
        return { item, value };
      });
      const tints = new Map(this.chart.bands.map((band) => [band.name, band.tint]));
      for (const [name, tint] of tints) {
        list.append(make("li", { class: "phase" }, make("span", { class: `tint ${tint}`, "aria-hidden": "true" }), name));
      }
      this.said = make("p", { class: "said", "aria-live": "polite" });
      this.box.before(make("p", { class: "y-label" }, make("span", {}, this.chart.y_label), this.time));
      this.box.after(list, this.said);
    }

    visibility() {
      const show = this.chart.lines.map((line, index) => !hidden.has(line.run) && !this.off.has(index));
      this.u.batch(() => {
        show.forEach((visible, index) => {
          if (this.u.series[index + 1].show !== visible) this.u.setSeries(index + 1, { show: visible });
          this.items[index].item.classList.toggle("off", !visible);
        });
      });
      this.u.redraw(false, false);
    }

    readout() {
      const { idx, idxs, left } = this.u.cursor;
      const none = idx == null || left < 0;
      this.time.textContent = none ? "" : `at ${duration(this.data[0][idx], "h:mm:ss")}`;
      this.items.forEach(({ value }, index) => {
        const at = none ? null : idxs[index + 1];
        const y = at == null ? null : this.data[index + 1][at];
        value.textContent = y == null ? "" : withUnit(y, this.chart.unit);
      });
    }

    selected(u) {
      const { left, width } = u.select;
      if (width < 3) return;
      const [from, to] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      zoom(this.chart.x_label, from, to);
    }

    show(from, to) {
      this.u.setScale("x", { min: from, max: to });
    }

    // Around the cursor, else around the middle.
    zoomBy(factor) {
      const { min, max } = this.u.scales.x;
      const { left } = this.u.cursor;
      const around = left >= 0 ? this.u.posToVal(left, "x") : (min + max) / 2;
      zoom(this.chart.x_label, around - (around - min) * factor, around + (max - around) * factor);
    }

    panBy(share) {
      const { min, max } = this.u.scales.x;
      const by = (max - min) * share;
      zoom(this.chart.x_label, min + by, max + by);
    }

    moveCursor(share) {
      const width = this.u.over.clientWidth;
      const { left } = this.u.cursor;
      const to = left >= 0 ? Math.min(width - 1, Math.max(0, left + share * width)) : width / 2;
      this.u.setCursor({ left: to, top: this.u.over.clientHeight / 2 }, true, true);
      const lines = this.chart.lines.map((line, index) => [line.name, this.items[index].value.textContent]);
      const values = lines.filter(([, value]) => value).map(([name, value]) => `${name} ${value}`);
      this.said.textContent = `${this.time.textContent}: ${values.join(", ") || "no values"}`;
    }

    keys() {
      const actions = {
        "+": () => this.zoomBy(0.5),
        "=": () => this.zoomBy(0.5),
        "-": () => this.zoomBy(2),
        0: () => reset(this.chart.x_label),
        Escape: () => reset(this.chart.x_label),
        ArrowLeft: (event) => (event.shiftKey ? this.panBy(-0.2) : this.moveCursor(-0.01)),
        ArrowRight: (event) => (event.shiftKey ? this.panBy(0.2) : this.moveCursor(0.01)),
      };
      this.box.addEventListener("keydown", (event) => {
        const action = actions[event.key];
        if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        action(event);
      });
      const button = (text, label, action) => {
        const one = make("button", { type: "button", "aria-label": label, title: label }, text);
        one.addEventListener("click", action);
        return one;
      };
      this.figure.querySelector(".tools").append(
        button("\u2212", "Zoom out", actions["-"]),
        button("+", "Zoom in", actions["+"]),
        button("Reset", "Show the whole time again", actions.Escape),
      );
    }

    resize() {
      const width = this.box.clientWidth;
      if (width > 0 && Math.abs(width - this.u.width) > 1) this.u.setSize({ width, height: this.u.height });
    }
  }

  const measure = (() => {
    const context = document.createElement("canvas").getContext("2d");
    context.font = FONT;
    return (text) => context.measureText(text).width;
  })();

  const together = (label) => [...charts.values()].filter((one) => one.chart.x_label === label);
  const zoom = (label, from, to) => {
    const spans = data.charts.filter((chart) => chart.x_label === label).map((chart) => chart.span);
    const [first, last] = [Math.min(...spans.map((span) => span[0])), Math.max(...spans.map((span) => span[1]))];
    const width = Math.min(last - first, Math.max(to - from, Math.min(1, (last - first) / 1000)));
    const start = Math.min(Math.max(from, first), last - width);
    if (width >= (last - first) * 0.9999) return reset(label);
    zooms.set(label, [start, start + width]);
    for (const one of together(label)) one.show(start, start + width);
  };
  const reset = (label) => {
    zooms.delete(label);
    for (const one of together(label)) one.show(...one.full);
  };

  // Runs and arms: a checkbox each, for every figure at once.

  const arms = new Map();
  for (const run of data.runs) arms.set(run.arm, [...(arms.get(run.arm) ?? []), run.id]);
  const apply = () => {
    for (const box of document.querySelectorAll("input[data-of-run]")) box.checked = !hidden.has(box.dataset.ofRun);
    for (const box of document.querySelectorAll("input[data-of-arm]")) {
      const off = arms.get(box.dataset.ofArm).filter((run) => hidden.has(run)).length;
      box.checked = off === 0;
      box.indeterminate = off > 0 && off < arms.get(box.dataset.ofArm).length;
    }
    for (const part of document.querySelectorAll("[data-run]")) part.classList.toggle("hidden", hidden.has(part.dataset.run));
    for (const part of document.querySelectorAll("[data-arm]")) {
      part.classList.toggle("hidden", (arms.get(part.dataset.arm) ?? []).every((run) => hidden.has(run)));
    }
    for (const one of charts.values()) one.visibility();
  };
  document.addEventListener("change", ({ target }) => {
    const { ofRun, ofArm } = target.dataset;
    const runs = ofRun !== undefined ? [ofRun] : ofArm !== undefined ? arms.get(ofArm) : [];
    for (const run of runs) hidden[target.checked ? "delete" : "add"](run);
    if (runs.length) apply();
  });
  apply(); // a reloaded page keeps its form's state: bring it back to what is drawn

  // On a telephone the choice of runs would cover half the page.
  const choice = document.getElementById("Shown");
  if (choice && innerWidth <= 720) choice.open = false;

  // What is folded: all at once, and open in print.

  const folds = [...document.querySelectorAll("details.fold")];
  const unfold = document.getElementById("Unfold");
  unfold.hidden = !folds.length;
  const isAnyClosed = () => folds.some((fold) => !fold.open);
  const labelButton = () => {
    unfold.textContent = isAnyClosed() ? "Unfold all" : "Fold all";
  };
  unfold.addEventListener("click", () => {
    const open = isAnyClosed();
    for (const fold of folds) fold.open = open;
  });
  for (const fold of folds) fold.addEventListener("toggle", labelButton);
  labelButton();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    for (const fold of closed) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of closed) fold.open = false;
  });

  // Light and dark.

  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("Theme");
  const dress = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    for (const one of charts.values()) one.u.redraw(false, false);
  };
  let theme = "auto";
  try {
    theme = themes.find((known) => known === localStorage.getItem("faultline-theme")) ?? "auto";
  } catch {
    // A file opened from a disk may have no storage; then the choice lasts as long as the page.
  }
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    dress(theme);
    try {
      localStorage.setItem("faultline-theme", theme);
    } catch {
      // As above.
    }
  });
  dress(theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress(theme));

  // Boxes that scroll can be reached by keyboard; those that do not are no stop.
  const scrollers = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    }
  };
  scrollers();
  addEventListener("resize", scrollers);

  // A timeline is drawn when it comes near the window: a page of fifty opens at once.
  const draw = (figure) => {
    const chart = data.charts.find((one) => one.id === figure.dataset.chart);
    if (!charts.has(chart.id)) charts.set(chart.id, new Timeline(figure, chart));
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      near.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px 0px" });
  for (const figure of document.querySelectorAll("figure[data-chart]")) near.observe(figure);

  // For scripts and tests: the charts drawn so far, and a way to draw all.
  window.faultline = Object.freeze({
    charts,
    drawAll: () => document.querySelectorAll("figure[data-chart]").forEach(draw),
  });
})();
