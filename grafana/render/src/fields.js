// The registries that Grafana's application fills at its start and its panels ask.
import * as D from '@grafana/data';

const KNOWN = [
  ['unit', D.unitOverrideProcessor],
  ['min', D.numberOverrideProcessor],
  ['max', D.numberOverrideProcessor],
  ['decimals', D.numberOverrideProcessor],
  ['displayName', D.displayNameOverrideProcessor],
  ['noValue', D.identityOverrideProcessor],
  ['thresholds', D.thresholdsOverrideProcessor],
  ['mappings', D.valueMappingsOverrideProcessor],
  ['links', D.dataLinksOverrideProcessor],
  ['color', D.identityOverrideProcessor],
];

const entry = (id, process, more) => ({
  id,
  path: id,
  name: id,
  process,
  shouldApply: () => true,
  getItemsCount: () => 0,
  settings: {},
  ...more,
});

export function fillRegistries() {
  const transformers = new Map(
    Object.values(D.standardTransformers).map((one) => [
      one.id,
      { id: one.id, name: one.name, transformation: one, editor: () => null },
    ]),
  );
  D.standardTransformersRegistry.setInit(() => [...transformers.values()]);
  D.standardFieldConfigEditorRegistry.setInit(() => KNOWN.map(([id, process]) => entry(id, process)));
}

// What a panel's plugin would register: the standard ones, and its own under `custom.`, which are not for the time.
export function registryFor({ defaults, overrides }) {
  const registry = new D.FieldConfigOptionsRegistry();
  for (const [id, process] of KNOWN) registry.register(entry(id, process));
  const ids = new Set([
    ...overrides.flatMap((one) => one.properties.map((property) => property.id)).filter((id) => id.startsWith('custom.')),
    ...Object.keys(defaults.custom ?? {}).map((key) => `custom.${key}`),
  ]);
  for (const id of ids) {
    const more = { path: id.slice('custom.'.length), isCustom: true, shouldApply: (field) => field.type !== D.FieldType.time };
    registry.register(entry(id, D.identityOverrideProcessor, more));
  }
  return registry;
}
