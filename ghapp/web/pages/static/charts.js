// Draws each `data-chart` by uPlot, which is fetched only if there is one. The numbers are in the page: see charts.html.
(() => {
  "use strict";
  const height = 190;
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
      if (!bars) return { ...common, width: 2, dash: dashes[at % dashes.length], points: { size: 5, fill: stroke, show: isSparse(each.values) } };
      return { ...common, fill: stroke, width: 0, points: { show: false }, paths: window.uPlot.paths.bars({ size: [0.8, 40, 2], align: 1 }) };
    });
    if (stacked) series.reverse();
    // Marks are drawn by the hook below; as series they have a row in the legend.
    const marks = given.marks.map((each) => ({ label: each.name, stroke: colour(`--chart-${each.colour}`), paths: () => null, points: { show: false },
      value: (plot, drawn, index, place) => (place === null ? "" : each.values[place] === null ? given.missing : number(each.values[place], given.unit)) }));
    const highest = Math.max(1, ...sums(given, stacked), ...given.marks.flatMap((each) => each.values.filter((value) => value !== null)));
    return {
      width, height, series: [{ label: "From", value: "{YYYY}-{MM}-{DD} {HH}:{mm} UTC" }, ...series, ...marks],
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      // A step is drawn from its begin to its end: the last one would be outside by default.
      scales: { x: { range: [given.begin, given.begin + given.series[0].values.length * given.step] }, y: { range: [mirrored ? -highest * 1.08 : 0, highest * 1.08] } },
      cursor: { drag: { x: false, y: false }, points: { show: !stacked && !bars } },
      axes: [
        { ...axis, space: 70, values: [[86400, "{MMM} {D}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1], [60, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1]] },
        {
          ...axis, size: given.unit === "s" ? 62 : 50, space: 32, incrs: given.unit === "s" ? lengths : undefined,
          values: (plot, marks) => marks.map((each) => (Number.isInteger(each) ? number(Math.abs(each), given.unit) : "")),
        },
      ],
      hooks: { draw: [(plot) => drawBlind(plot, given), (plot) => drawMarks(plot, given)], ready: [(plot) => {
        const last = plot.data[0].length - 1;
        const rows = [...plot.root.querySelectorAll(".u-legend tr")];
        if (stacked) rows.forEach((row, at) => { row.style.order = at && at <= series.length ? series.length + 1 - at : at; });
        plot.over.addEventListener("mouseleave", () => plot.setLegend({ idx: last }));
        plot.setLegend({ idx: last });
      }] },
      legend: { markers: { width: 0, fill: (plot, at) => [...series, ...marks][at - 1].stroke } },
    };
  };
  // Of two series of bars the second one is drawn downwards: beside each other they would be too thin to tell apart.
  const isMirrored = (given) => given.kind === "bars" && given.series.length === 2;
  // A value whose neighbours are gaps has no line, and is drawn as a point.
  const isSparse = (values) => values.some((value, at) => value !== null &&
    (values[at - 1] === null || values[at - 1] === undefined) && (values[at + 1] === null || values[at + 1] === undefined));
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
    return [times, ...stacked.reverse(), ...given.marks.map((each) => each.values)]; // the highest is drawn first, and the others over it
  };
  // A strip at the top of the steps within which runners could not be read.
  const drawBlind = (plot, given) => {
    const { ctx, bbox } = plot, height = Math.round(bbox.height / 24);
    ctx.save();
    ctx.fillStyle = colour("--chart-blind");
    for (const at of given.blind) {
      const [from, to] = [at, at + 1].map((step) => plot.valToPos(given.begin + step * given.step, "x", true));
      ctx.fillRect(from, bbox.top, Math.max(2, to - from), height);
    }
    ctx.restore();
  };
  // A line across each step at the height of the value, with a rim that sets it off from the areas below.
  const drawMarks = (plot, given) => {
    const { ctx } = plot, height = Math.round(2 * devicePixelRatio), rim = Math.round(devicePixelRatio);
    ctx.save();
    const around = colour("--card");
    for (const each of given.marks) {
      const inner = colour(`--chart-${each.colour}`);
      each.values.forEach((value, at) => {
        if (!value) return;
        const [from, to] = [at, at + 1].map((step) => plot.valToPos(given.begin + step * given.step, "x", true));
        const top = plot.valToPos(value, "y", true) - height / 2, width = Math.max(2, to - from);
        ctx.fillStyle = around;
        ctx.fillRect(from, top - rim, width, height + 2 * rim);
        ctx.fillStyle = inner;
        ctx.fillRect(from, top, width, height);
      });
    }
    ctx.restore();
  };
  const draw = (place) => {
    const given = JSON.parse(place.dataset.chart);
    place.hidden = false;
    charts.get(place)?.plot.destroy();
    charts.get(place)?.watch.disconnect();
    const plot = new window.uPlot(options(given, place.clientWidth), columns(given), place);
    const watch = new ResizeObserver(() => {
      if (place.clientWidth && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height });
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
