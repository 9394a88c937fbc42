// Draws each `data-chart` by uPlot, which is fetched only if there is one. The numbers are in the page: see charts.html.
(() => {
  "use strict";
  const heightOf = (given) => (isLanes(given) ? 60 + laneHeight * given.series.length : 190);
  const charts = new Map();
  let loading = null;
  const load = (place) => {
    loading = loading || new Promise((done) => {
      const style = document.createElement("link");
      style.rel = "stylesheet";
      style.href = place.dataset.style;
      const library = document.createElement("script");
      library.src = place.dataset.library;
      library.addEventListener("load", done);
      document.head.append(style, library);
    });
    return loading;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (value, unit) => {
    if (unit !== "s") return value.toLocaleString("en");
    const rounded = (of, name) => `${Number(of.toFixed(1))} ${name}`;
    if (value < 60) return rounded(value, "s");
    return value < 3600 ? rounded(value / 60, "min") : rounded(value / 3600, "h");
  };
  const lengths = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
  const options = (given, width) => {
    const stacked = given.kind === "stack" || given.kind === "stacked-bars";
    const bars = given.kind === "bars" || given.kind === "stacked-bars";
    const mirrored = isMirrored(given);
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: colour("--soft"), font, grid: { stroke: colour("--line"), width: 0.5 }, ticks: { show: false } };
    const series = given.series.map((each, at) => {
      const stroke = colour(`--chart-${each.colour}`);
      // The legend shows the value itself, also where the drawn one is a sum.
      const value = (plot, drawn, index, place) => (place === null ? "" : each.values[place] === null ? given.missing : number(each.values[place], given.unit));
      const common = { label: each.name, stroke, value, spanGaps: false };
      // Areas are bars without a space between them: an area from point to point would lack the last step, and a step between gaps.
      if (given.kind === "stack") return { ...common, fill: stroke, width: 1, points: { show: false }, paths: window.uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 0 }) };
      if (isLanes(given)) return { ...common, fill: stroke, width: 0, points: { show: false }, paths: lane(given) };
      if (!bars) return { ...common, fill: stroke, width: 2, dash: dashes[at % dashes.length], points: { show: false }, paths: levels(given) };
      return { ...common, fill: stroke, width: 0, points: { show: false }, paths: window.uPlot.paths.bars({ size: [0.8, 40, 2], align: 1 }) };
    });
    if (stacked) series.reverse();
    const highest = Math.max(1, ...sums(given, stacked));
    const lastStep = given.series[0].values.length - 1;
    const shown = (plot, at, index, place) => (place === null ? "" : `${moment(new Date(at * 1000))} UTC${place === lastStep ? " (the latest)" : ""}`);
    return {
      width, height: heightOf(given), series: [{ label: "Step from", value: shown }, ...series],
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      // A step is drawn from its begin to its end: the last one would be outside by default.
      scales: { x: { range: [given.begin, given.begin + given.series[0].values.length * given.step] }, y: { range: isLanes(given) ? [-0.05, given.series.length] : [mirrored ? -highest * 1.08 : bars || stacked ? 0 : -highest * 0.02, highest * 1.08] } },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      axes: [
        { ...axis, space: 70, values: [[86400, "{MMM} {D}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1], [60, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1]] },
        {
          ...axis, size: given.unit === "s" ? 62 : given.kind === "stack" || isLanes(given) ? 76 : 50, space: 32,
          incrs: given.unit === "s" ? lengths : undefined,
          values: (plot, marks) => marks.map((each) => (Number.isInteger(each) ? number(Math.abs(each), given.unit) : "")),
          ...(isLanes(given) ? laneTicks(given, highest) : {}),
        },
      ],
      hooks: { draw: [(plot) => drawStrips(plot, given)], ready: [(plot) => {
        const rows = [...plot.root.querySelectorAll(".u-legend tr")];
        if (stacked) rows.forEach((row, at) => { row.style.order = at && at <= series.length ? series.length + 1 - at : at; });
        plot.over.addEventListener("mouseleave", () => plot.setLegend({ idx: lastStep }));
        plot.setLegend({ idx: lastStep });
      }] },
      legend: { markers: { width: 0, fill: (plot, at) => series[at - 1].stroke } },
    };
  };
  // Of two series of bars the second one is drawn downwards: beside each other they would be too thin to tell apart.
  const isMirrored = (given) => given.kind === "bars" && given.series.length === 2;
  // Each series has a row of its own, the first one at the top, and all have one scale: in one row equal values hide each other.
  const isLanes = (given) => given.kind === "lanes";
  const laneHeight = 38, laneShare = 0.62;
  const laneBase = (given, at) => given.series.length - 1 - at;
  const laneTicks = (given, highest) => ({
    splits: () => given.series.flatMap((_, at) => [laneBase(given, at), laneBase(given, at) + laneShare]),
    values: () => given.series.flatMap((each) => [`${each.name} 0`, number(highest, given.unit)]),
  });
  const lane = (given) => (plot, at) => {
    const fill = new Path2D(), base = laneBase(given, at - 1), highest = Math.max(1, ...sums(given, false));
    const y = (value) => plot.valToPos(base + laneShare * value / highest, "y", true);
    plot.data[at].forEach((value, step) => {
      if (value === null) return;
      const [from, to] = [step, step + 1].map((each) => plot.valToPos(given.begin + each * given.step, "x", true));
      const height = value ? Math.max(3 * devicePixelRatio, y(0) - y(value)) : devicePixelRatio; // a zero is a line, a gap is empty
      fill.rect(from, y(0) - height, Math.max(value ? 2 : 0, to - from), height);
    });
    return { fill };
  };
  // A level line across each step, the last one included. Steps between gaps would be dots where steps are narrow: they are
  // bars, each down to the next lower value of its step, so that no bar hides another.
  const narrow = 16;
  const levels = (given) => (plot, at) => {
    const values = plot.data[at], stroke = new Path2D(), fill = new Path2D();
    const x = (step) => plot.valToPos(given.begin + step * given.step, "x", true), y = (value) => plot.valToPos(value, "y", true);
    const isGap = (step) => values[step] === null || values[step] === undefined;
    const least = narrow * devicePixelRatio;
    let begin = 0, end = 0; // of the steps without a gap between them
    values.forEach((value, step) => {
      if (value === null) return;
      const from = x(step), to = x(step + 1);
      if (isGap(step - 1)) for (begin = end = step; !isGap(end); end += 1);
      if (x(end) - x(begin) < least) {
        const lower = Math.max(0, ...plot.data.slice(1).map((each) => each[step]).filter((each) => each !== null && each < value));
        const width = Math.max(4 * devicePixelRatio, to - from);
        fill.rect((from + to - width) / 2, y(value), width, Math.max(2, y(lower) - y(value)));
        return;
      }
      if (isGap(step - 1)) stroke.moveTo(from, y(value));
      else stroke.lineTo(from, y(value));
      stroke.lineTo(to, y(value));
    });
    return { stroke, fill };
  };
  const moment = (at) => at.toISOString().slice(0, 16).replace("T", " ");
  const sums = (given, stacked) => {
    if (!stacked) return given.series.flatMap((each) => each.values.filter((value) => value !== null));
    return given.series[0].values.map((_, at) => given.series.reduce((sum, each) => sum + (each.values[at] || 0), 0));
  };
  const columns = (given) => {
    const times = given.series[0].values.map((_, at) => given.begin + at * given.step);
    if (isMirrored(given)) return [times, given.series[0].values, given.series[1].values.map((value) => (value === null ? null : -value))];
    if (given.kind !== "stack" && given.kind !== "stacked-bars") return [times, ...given.series.map((each) => each.values)];
    const below = times.map(() => 0);
    const stacked = given.series.map((each) => each.values.map((value, at) => value === null ? null : (below[at] += value)));
    return [times, ...stacked.reverse()]; // the highest is drawn first, and the others over it
  };
  // Strips at the top of the steps, below each other: such as those within which runners could not be read.
  const drawStrips = (plot, given) => {
    const { ctx, bbox } = plot, height = Math.round(4 * devicePixelRatio);
    ctx.save();
    given.strips.forEach((strip, row) => {
      ctx.fillStyle = colour(`--chart-${strip.colour}`);
      for (const at of strip.steps) {
        const [from, to] = [at, at + 1].map((step) => plot.valToPos(given.begin + step * given.step, "x", true));
        ctx.fillRect(from, bbox.top + row * height, Math.max(2, to - from), height);
      }
    });
    ctx.restore();
  };
  const draw = (place) => {
    const given = JSON.parse(place.dataset.chart);
    place.hidden = false;
    charts.get(place)?.plot.destroy();
    charts.get(place)?.watch.disconnect();
    const plot = new window.uPlot(options(given, place.clientWidth), columns(given), place);
    const watch = new ResizeObserver(() => {
      if (place.clientWidth && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: plot.height });
    });
    watch.observe(place);
    charts.set(place, { plot, watch });
  };
  const drawAll = async (again) => {
    const places = [...document.querySelectorAll("[data-chart]")];
    for (const [place, { plot, watch }] of charts) {
      if (!place.isConnected) { plot.destroy(); watch.disconnect(); charts.delete(place); }
    }
    if (!places.length) return;
    await load(places[0]);
    places.filter((each) => again || !charts.has(each)).forEach(draw);
  };
  document.addEventListener("htmx:afterSwap", () => drawAll(false));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
  drawAll(false);
})();
