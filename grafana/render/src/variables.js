// The variables above the panels, as Grafana fills them in.
import { labelValues, resultValues } from './prometheus.js';

// As the Prometheus data source escapes what goes into a regular expression within quotes.
const escaped = (text) => text.replace(/\\/g, '\\\\\\\\').replace(/[$^*{}[\]'+?.()|]/g, '\\\\$&');

export const fill = (text, values) =>
  text.replace(/\$\{(\w+)(?::\w+)?\}|\$(\w+)/g, (all, braced, bare) => values[braced ?? bare]?.query ?? all);

async function choices({ query: { query }, regex }, values, range) {
  const result = /^query_result\((.+)\)$/s.exec(query);
  if (result) {
    const seconds = `${Math.round(range.to - range.from)}s`;
    return resultValues(fill(result[1].replaceAll('$__range', seconds), values), new RegExp(regex.slice(1, -1)), range);
  }
  const parts = /^label_values\((.+),\s*(\w+)\)$/s.exec(query);
  return labelValues(fill(parts[1], values), parts[2], range);
}

// Each variable's text for people and for queries; `chosen` has what the caller wants instead of the first, where one is
// chosen and not many.
export async function resolve(list, range, chosen) {
  const values = {};
  for (const variable of list) {
    const { name } = variable;
    if (variable.type === 'datasource') {
      values[name] = { shown: 'Prometheus', query: 'prometheus' };
    } else if (variable.type === 'custom') {
      const value = chosen[name] ?? variable.current.value;
      values[name] = { shown: value, query: value };
    } else {
      const found = await choices(variable, values, range);
      const all = variable.includeAll && [].concat(variable.current.value ?? []).includes('$__all');
      if (chosen[name] && !variable.multi) {
        values[name] = { shown: chosen[name], query: escaped(chosen[name]) };
      } else if (all) {
        values[name] = { shown: 'All', query: variable.allValue ?? `(${found.map(escaped).join('|')})` };
      } else {
        values[name] = { shown: found[0] ?? 'None', query: escaped(found[0] ?? '') };
      }
    }
  }
  return values;
}
