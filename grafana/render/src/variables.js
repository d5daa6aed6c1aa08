// The variables above the panels, as Grafana fills them in.
import { labelValues, resultValues } from './prometheus.js';

// Grafana's Prometheus data source escapes a value for a regular expression only where several values, or All, can be chosen.
// Any other value is escaped for a string. Version 13.2, without its feature toggle prometheusSpecialCharsInLabelValues.
const forString = (text) => text.replace(/\\/g, '\\\\').replace(/'/g, "\\\\'");
const forRegex = (text) => text.replace(/\\/g, '\\\\\\\\').replace(/[$^*{}[\]+?.()|]/g, '\\\\$&');

// What stands in a query for a value, or for the list of all values.
export function interpolated(value, { multi, includeAll }) {
  if (!multi && !includeAll) return forString(value);
  const escaped = [].concat(value).map(forRegex);
  return escaped.length === 1 ? escaped[0] : `(${escaped.join('|')})`;
}

// `field` is what a variable is replaced by: `query` in expressions, `shown` in legends.
export const fill = (text, values, field = 'query') =>
  text.replace(/\$\{(\w+)(?::\w+)?\}|\$(\w+)/g, (all, braced, bare) => values[braced ?? bare]?.[field] ?? all);

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
    values[variable.name] = await valueOf(variable, values, range, chosen[variable.name]);
  }
  return values;
}

async function valueOf(variable, values, range, wanted) {
  const one = (value) => ({ shown: value, query: interpolated(value, variable) });
  if (variable.type === 'datasource') return { shown: 'Prometheus', query: 'prometheus' };
  if (variable.type === 'custom') return one(wanted ?? variable.current.value);
  const found = await choices(variable, values, range);
  if (wanted && !variable.multi) return one(wanted);
  if (variable.includeAll && [].concat(variable.current.value ?? []).includes('$__all')) {
    return { shown: 'All', query: variable.allValue ?? interpolated(found, variable) };
  }
  return found.length > 0 ? one(found[0]) : { shown: 'None', query: '' };
}
