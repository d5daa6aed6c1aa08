// One dashboard as a page, and a report of what each panel has shown.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import * as D from '@grafana/data';
import * as U from '@grafana/ui';
import { fillRegistries, registryFor } from './fields.js';
import { Panel } from './panels.jsx';
import { frames } from './prometheus.js';
import { fill, resolve } from './variables.js';

const theme = D.createTheme({ colors: { mode: 'dark' } });

class Boundary extends React.Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  componentDidCatch(error) {
    this.props.onError(String(error));
  }
  render() {
    return this.state.error ? <pre>{String(this.state.error)}</pre> : this.props.children;
  }
}

// As Grafana computes them: a point for each pixel, rounded; no step below the panel's own, or else the scrape interval.
function steps(panel, width, time, scrape) {
  const { intervalMs } = D.rangeUtil.calculateInterval(time, Math.floor(width), panel.interval ?? `${scrape}s`);
  const step = intervalMs / 1e3;
  return { step, rate: Math.max(step + scrape, 4 * scrape) };
}

// Grafana's backend moves both ends of a range back to a multiple of the step.
const aligned = ({ from, to }, step) => ({ from: Math.floor(from / step) * step, to: Math.floor(to / step) * step });

async function load(panel, record, width, { range, time, values, scrape }) {
  const { step, rate } = steps(panel, width, time, scrape);
  const same = (text) => ({ shown: text, query: text });
  const inside = {
    ...values,
    __rate_interval: same(`${rate}s`),
    __interval: same(`${step}s`),
    __range: same(`${Math.round(range.to - range.from)}s`),
  };
  const data = [];
  for (const target of panel.targets) {
    const asked = { ...target, legendFormat: fill(target.legendFormat, inside, 'shown') };
    const within = target.instant ? range : aligned(range, step);
    const found = await frames(asked, fill(target.expr, inside), { ...within, step, many: panel.targets.length > 1 });
    record.series[target.refId] = found.reduce((sum, frame) => sum + (target.format === 'table' ? frame.length : 1), 0);
    data.push(...found);
  }
  if (data.length === 0 && panel.type !== 'stat') return data;
  const transformed = await firstValueFrom(D.transformDataFrame(panel.transformations ?? [], data));
  return D.applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig,
    replaceVariables: (text) => fill(text, inside, 'shown'),
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: registryFor(panel.fieldConfig),
  });
}

function Frame({ panel, place, children }) {
  return (
    <div style={{ position: 'absolute', left: place.left, top: place.top }}>
      <U.PanelChrome title={panel.title} description={panel.description} width={place.width} height={place.height}>
        {children}
      </U.PanelChrome>
    </div>
  );
}

function Empty({ panel }) {
  const words = panel.fieldConfig.defaults.noValue ?? 'No data';
  return <div style={{ display: 'grid', placeItems: 'center', height: '100%', color: '#9fa7b3' }}>{words}</div>;
}

function Heading({ title, values, labels, width }) {
  const chosen = Object.entries(labels).map(([name, label]) => `${label}: ${values[name].shown}`);
  return (
    <div style={{ padding: '10px 12px 0', width, color: '#ccccdc', whiteSpace: 'nowrap', overflow: 'hidden' }}>
      <span style={{ fontSize: 20 }}>{title}</span>
      <span style={{ marginLeft: 24, color: '#9fa7b3' }}>{chosen.join('  ·  ')}</span>
    </div>
  );
}

async function drawn(panel, page, report) {
  const { column, row, heading, time } = page;
  const { x, y, w, h } = panel.gridPos;
  const place = { left: x * column + 8, top: heading + y * row, width: w * column - 8, height: h * row - 8 };
  if (panel.type === 'row') {
    const style = { position: 'absolute', left: place.left, top: place.top + 4, color: '#ccccdc', fontWeight: 500 };
    return <div key={panel.id} style={style}>{panel.title}</div>;
  }
  const record = { panel: panel.title, series: {}, errors: [] };
  report.push(record);
  let data = [];
  try {
    data = await load(panel, record, place.width, page);
  } catch (error) {
    record.errors.push(String(error.message ?? error));
  }
  const content = (width, height) => {
    if (record.errors.length > 0) return <pre>{record.errors.join('\n')}</pre>;
    if (data.length === 0 && panel.type !== 'stat') return <Empty panel={panel} />;
    return (
      <Boundary onError={(error) => record.errors.push(error)}>
        <Panel panel={panel} data={data} width={width} height={height} range={time} theme={theme} />
      </Boundary>
    );
  };
  return <Frame key={panel.id} panel={panel} place={place}>{content}</Frame>;
}

async function main() {
  const task = await (await fetch('/task')).json();
  const { dashboard, range, layout, scrape, chosen } = task;
  fillRegistries();
  const values = await resolve(dashboard.templating.list, range, chosen);
  const moment = (seconds) => D.dateTime(seconds * 1e3);
  const time = { from: moment(range.from), to: moment(range.to), raw: { from: moment(range.from), to: moment(range.to) } };
  const report = [];
  const panels = [];
  for (const panel of dashboard.panels) {
    panels.push(await drawn(panel, { ...layout, range, time, values, scrape }, report));
  }
  const labels = Object.fromEntries(
    dashboard.templating.list.filter((one) => one.type !== 'datasource').map((one) => [one.name, one.label]),
  );
  createRoot(document.getElementById('root')).render(
    <D.ThemeContext.Provider value={theme}>
      <U.GlobalStyles />
      <Heading title={dashboard.title} values={values} labels={labels} width={layout.width} />
      {panels}
    </D.ThemeContext.Provider>,
  );
  await new Promise((resolve) => setTimeout(resolve, 2000));
  return { report, faults: window.faults };
}

main()
  .catch((error) => ({ report: [], faults: [String(error.stack ?? error)] }))
  .then((result) => fetch('/report', { method: 'POST', body: JSON.stringify(result) }));
