/* Curves of what programs report: one small drawing for each metric, with that of the validation data in it. Drawn as
 * SVG by hand: a path is all that is needed, and nothing is fetched. Names and numbers are put in as text. */
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 300;
const HEIGHT = 100;
const EDGE = 4; // room for the width of lines
const VALIDATION = 'val_'; // what Keras puts in front of the names of metrics of validation data

let curvesOf = null; // the node whose curves are shown; null: the one that the coordinator chooses
const figures = new Map(); // name of a metric → its drawing

/* Reports have words for numbers that JSON has not. */
function reported(number) {
  return typeof number === 'string' ? Number(number) : number;
}

function shown(number) {
  if (number === null || number === undefined) {
    return '–';
  }
  if (!Number.isFinite(number)) {
    return String(number);
  }
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}

/* What lines run along: steps, or epochs, or just one report behind the other. */
function axisOf(curves) {
  const name = ['step', 'epoch'].find((each) => curves[each] && !curves[each].includes(null));
  const count = Math.max(0, ...Object.values(curves).map((list) => list.length));
  return { name: name || 'report', at: name ? curves[name].map(reported) : Array.from({ length: count }, (_, i) => i + 1) };
}

function rangeOf(numbers) {
  const finite = numbers.filter((number) => Number.isFinite(number));
  return finite.length === 0 ? null : [Math.min(...finite), Math.max(...finite)];
}

/* A line through all points that have a number, with a gap where a number is not finite. */
function pathOf(list, at, [left, right], [low, high]) {
  const along = (x) => EDGE + (right > left ? (x - left) / (right - left) : 0.5) * (WIDTH - 2 * EDGE);
  const up = (y) => HEIGHT - EDGE - (high > low ? (y - low) / (high - low) : 0.5) * (HEIGHT - 2 * EDGE);
  let path = '';
  let pen = 'M';
  list.forEach((number, i) => {
    if (number === null) {
      return; // this report had no such value
    }
    if (Number.isFinite(number)) {
      path += `${pen}${along(at[i]).toFixed(1)} ${up(number).toFixed(1)}${pen === 'M' ? 'h0' : ''}`;
      pen = 'L';
    } else {
      pen = 'M';
    }
  });
  return path;
}

function makeFigure(box) {
  const figure = { element: make('figure', '', box) };
  const caption = make('figcaption', '', figure.element);
  figure.name = make('span', 'name', caption);
  figure.value = make('span', 'value', caption);
  figure.drawing = document.createElementNS(SVG, 'svg');
  figure.drawing.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  figure.drawing.setAttribute('preserveAspectRatio', 'none');
  figure.drawing.setAttribute('role', 'img');
  figure.element.append(figure.drawing);
  figure.lines = ['validation', 'training'].map((kind) => {
    const line = document.createElementNS(SVG, 'path');
    line.setAttribute('class', kind);
    figure.drawing.append(line);
    return line;
  });
  const foot = make('p', 'scale', figure.element);
  figure.low = make('span', '', foot);
  figure.along = make('span', '', foot);
  return figure;
}

function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== value) {
    target.setAttribute(name, value);
  }
}

function showFigure(figure, name, curves, axis) {
  const lists = [curves[VALIDATION + name], curves[name]].map((list) => (list || []).map(reported));
  const values = rangeOf(lists.flat());
  const ends = rangeOf(axis.at) || [0, 0];
  lists.forEach((list, i) => {
    setAttribute(figure.lines[i], 'd', values === null ? '' : pathOf(list, axis.at, ends, values));
  });
  const [validation, training] = lists.map((list) => shown(list.findLast((number) => number !== null)));
  const checked = lists[0].length > 0;
  const now = checked ? `${training} · validation ${validation}` : training;
  const range = values === null ? 'no finite values' : `${shown(values[0])} to ${shown(values[1])}`;
  setText(figure.name, name);
  setText(figure.value, now);
  setText(figure.low, range);
  setText(figure.along, `${axis.name} ${shown(ends[0])} to ${shown(ends[1])}`);
  setAttribute(figure.drawing, 'aria-label', `${name}: ${now}; ${range}`);
}

/* Names of metrics; that of validation data is drawn with the other one, if there is one. */
function metricsOf(curves) {
  return Object.keys(curves).filter((name) => name !== 'step' && name !== 'epoch'
    && !(name.startsWith(VALIDATION) && curves[name.slice(VALIDATION.length)]));
}

function place(report) {
  const parts = ['epoch', 'step'].filter((name) => report[name] !== undefined)
    .map((name) => `${name} ${shown(report[name])}${report[`${name}s`] ? ` of ${shown(report[`${name}s`])}` : ''}`);
  if (report.rows_per_s !== undefined) {
    parts.push(`${count(Math.round(report.rows_per_s))} rows/s`);
  } else if (report.steps_per_s !== undefined) {
    parts.push(`${shown(report.steps_per_s)} steps/s`);
  }
  return [...parts, `reported ${duration(report.reported_s)} ago`].join(' · ');
}

/* Whoever looks may choose a node, where more than one reports. */
function showChoice(nodes, chosen) {
  const box = element('curves-of');
  const key = nodes.map((node) => node.node).join(' ');
  element('curves-choice').hidden = nodes.length < 2;
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.replaceChildren();
    for (const node of nodes) {
      const option = make('option', '', box);
      option.value = String(node.index);
      option.textContent = node.node;
    }
    box.onchange = () => {
      curvesOf = Number(box.value);
      refresh.now();
    };
  }
  if (box.value !== String(chosen.index)) {
    box.value = String(chosen.index);
  }
}

function showCurves(nodes) {
  const reporting = nodes.filter((node) => node.progress);
  const chosen = reporting.find((node) => node.progress.curves);
  element('curves-section').hidden = chosen === undefined;
  if (chosen === undefined) {
    return;
  }
  const { curves } = chosen.progress;
  const names = metricsOf(curves);
  const axis = axisOf(curves);
  showChoice(reporting, chosen);
  setText(element('curves-place'), `${chosen.node}: ${place(chosen.progress)}`);
  for (const [name, figure] of figures) {
    if (!names.includes(name)) {
      figure.element.remove();
      figures.delete(name);
    }
  }
  for (const name of names) {
    if (!figures.has(name)) {
      figures.set(name, makeFigure(element('curves')));
    }
    showFigure(figures.get(name), name, curves, axis);
  }
}
