// The kinds of panel, drawn by the components of Grafana's own panels. @grafana/ui exports none for the state timeline.
import React from 'react';
import * as D from '@grafana/data';
import * as U from '@grafana/ui';

const unchanged = (text) => text;

// As Grafana's panel prepares it: what is no number (a quantile of nothing) is a gap.
const finite = (frame) => ({
  ...frame,
  fields: frame.fields.map((field) =>
    field.type === D.FieldType.number
      ? { ...field, values: field.values.map((value) => (Number.isFinite(value) ? value : null)) }
      : field,
  ),
});

function Lines({ panel, data, width, height, range }) {
  const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...panel.options.legend };
  return (
    <U.TimeSeries
      frames={data.map(finite)}
      structureRev={1}
      width={width}
      height={height}
      timeRange={range}
      timeZone="utc"
      legend={legend}
      options={panel.options}
      replaceVariables={unchanged}
    >
      {() => null}
    </U.TimeSeries>
  );
}

function Values({ panel, data, width, height, theme }) {
  const { options } = panel;
  const bars = panel.type === 'bargauge';
  const values = () =>
    D.getFieldDisplayValues({
      fieldConfig: panel.fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables: unchanged,
      theme,
      data,
      sparkline: options.graphMode === 'area',
      timeZone: 'utc',
    });
  const one = ({ value, width, height, count, alignmentFactors }) =>
    bars ? (
      <U.BarGauge
        value={value.display}
        field={value.field}
        display={value.view?.getFieldDisplayProcessor(value.colIndex)}
        width={width}
        height={height}
        theme={theme}
        orientation={options.orientation}
        displayMode={options.displayMode}
        valueDisplayMode={options.valueMode}
        showUnfilled={options.showUnfilled}
        alignmentFactors={alignmentFactors}
        itemSpacing={8}
      />
    ) : (
      <U.BigValue
        value={value.display}
        count={count}
        sparkline={value.sparkline}
        width={width}
        height={height}
        theme={theme}
        colorMode={options.colorMode}
        graphMode={options.graphMode}
        textMode={options.textMode ?? 'auto'}
        justifyMode="auto"
      />
    );
  return (
    <U.VizRepeater
      source={data}
      getValues={values}
      getAlignmentFactors={(values) => D.getDisplayValueAlignmentFactors(values)}
      renderValue={one}
      renderCounter={1}
      width={width}
      height={height}
      orientation={bars ? options.orientation : 'auto'}
      itemSpacing={8}
      minVizHeight={options.minVizHeight}
      maxVizHeight={options.maxVizHeight}
    />
  );
}

// Samples in a row as one interval; a gap has none.
function intervals({ fields: [time, value] }) {
  const all = [];
  time.values.forEach((from, at) => {
    if (value.values[at] === null) return;
    const to = from + time.config.interval;
    const last = all.at(-1);
    if (last?.to === from) last.to = to;
    else all.push({ from, to });
  });
  return all;
}

function States({ data, width, height, range, theme }) {
  const [left, bottom] = [150, 20];
  const row = (height - bottom) / data.length;
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const x = (moment) => left + ((Math.min(Math.max(moment, from), to) - from) / (to - from)) * (width - left);
  const text = { fill: theme.colors.text.primary, fontSize: 12 };
  const ticks = [0.1, 0.3, 0.5, 0.7, 0.9].map((share) => from + share * (to - from));
  return (
    <svg width={width} height={height}>
      {data.map((frame, at) => {
        const name = D.getFieldDisplayName(frame.fields[1], frame, data);
        const { color } = frame.fields[1].display(1);
        return (
          <g key={name}>
            <text {...text} x={left - 8} y={(at + 0.5) * row + 4} textAnchor="end">{name}</text>
            {intervals(frame).map(({ from, to }) => (
              <rect key={from} x={x(from)} width={x(to) - x(from)} y={(at + 0.05) * row} height={0.9 * row} fill={color} />
            ))}
          </g>
        );
      })}
      {ticks.map((tick) => (
        <text {...text} key={tick} x={x(tick)} y={height - 4} textAnchor="middle">{D.dateTimeFormat(tick, { format: 'HH:mm:ss', timeZone: 'utc' })}</text>
      ))}
    </svg>
  );
}

function Rows({ data, width, height }) {
  return <U.Table data={data[0]} width={width} height={height} />;
}

export function Panel(props) {
  const { type } = props.panel;
  if (type === 'timeseries') return <Lines {...props} />;
  if (type === 'state-timeline') return <States {...props} />;
  if (type === 'table') return <Rows {...props} />;
  if (type === 'stat' || type === 'bargauge') return <Values {...props} />;
  throw new Error(`a panel of type ${type} cannot be drawn here`);
}
