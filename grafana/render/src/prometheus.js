// Questions to Prometheus, and its answers as Grafana's data frames, as Grafana's data source makes them.
import * as D from '@grafana/data';

export async function ask(path, parameters) {
  const response = await fetch(`/prometheus${path}`, { method: 'POST', body: new URLSearchParams(parameters) });
  const answer = await response.json();
  if (answer.status !== 'success') throw new Error(`${answer.errorType}: ${answer.error}`);
  return answer.data;
}

export async function labelValues(of, label, { from, to }) {
  const response = await fetch(`/prometheus/api/v1/series`, {
    method: 'POST',
    body: new URLSearchParams({ 'match[]': of, start: from, end: to }),
  });
  const answer = await response.json();
  if (answer.status !== 'success') throw new Error(`${answer.errorType}: ${answer.error}`);
  return sorted(answer.data.map((series) => series[label]));
}

const sorted = (values) =>
  [...new Set(values.filter((value) => value))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));

// What `pattern` finds in each series of an answer, written as Grafana's data source writes it for variables.
export async function resultValues(expression, pattern, { to }) {
  const { result } = await ask('/api/v1/query', { query: expression, time: to });
  const text = ({ metric: { __name__: name = '', ...labels }, value: [time, value] }) =>
    `${name}{${Object.entries(labels).map(([label, of]) => `${label}="${of}"`).join(',')}} ${value} ${time * 1e3}`;
  return sorted(result.map((series) => pattern.exec(text(series))?.[1]));
}

function nameOf(format, labels) {
  if (format) return format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => labels[label] ?? '');
  const rest = Object.entries(labels).filter(([label]) => label !== '__name__');
  return `${labels.__name__ ?? ''}{${rest.map(([label, value]) => `${label}="${value}"`).join(', ')}}`;
}

function tableFrame(target, result, many) {
  const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
  const text = (label) => ({
    name: label,
    type: D.FieldType.string,
    values: result.map((series) => series.metric[label] ?? ''),
  });
  return D.toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: D.FieldType.time, values: result.map((series) => series.value[0] * 1e3) },
      ...labels.map(text),
      {
        name: many ? `Value #${target.refId}` : 'Value',
        type: D.FieldType.number,
        values: result.map((series) => Number(series.value[1])),
      },
    ],
  });
}

function seriesFrame(target, series, step) {
  const points = series.values ?? [series.value];
  const name = nameOf(target.legendFormat, series.metric);
  // Where Prometheus tells nothing there is a gap, as Grafana's data source leaves one.
  const [times, values] = [[], []];
  for (const [time, value] of points) {
    const last = times.at(-1);
    if (last !== undefined && time * 1e3 - last > step * 1.5e3) {
      times.push(last + step * 1e3);
      values.push(null);
    }
    times.push(time * 1e3);
    values.push(Number(value));
  }
  return D.toDataFrame({
    refId: target.refId,
    name,
    meta: { type: D.DataFrameType.TimeSeriesMulti },
    fields: [
      { name: 'Time', type: D.FieldType.time, config: { interval: step * 1e3 }, values: times },
      {
        name: 'Value',
        type: D.FieldType.number,
        labels: series.metric,
        config: { displayNameFromDS: name },
        values,
      },
    ],
  });
}

// The frames of one target.
export async function frames(target, expression, { from, to, step, many }) {
  const { result } = target.instant
    ? await ask('/api/v1/query', { query: expression, time: to })
    : await ask('/api/v1/query_range', { query: expression, start: from, end: to, step });
  if (target.format === 'table') return result.length > 0 ? [tableFrame(target, result, many)] : [];
  return result.map((series) => seriesFrame(target, series, step));
}
