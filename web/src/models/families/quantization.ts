/** Reads the `quantization_config` of config.json, which `quantize` writes in the format of compressed-tensors. */
import type { Settings } from '../../io/settings.js';

/** Whether the checkpoint's embedding tables have 4 bits. */
export function hasInt4Table(settings: Settings): boolean {
  const groups = settings.record('quantization_config')?.record('config_groups')?.entries() ?? [];
  return groups.some(([, group]) => {
    const { targets, weights } = (group ?? {}) as { targets?: unknown; weights?: { num_bits?: unknown } };
    return weights?.num_bits === 4 && [targets].flat().includes('Embedding');
  });
}

/** heed's rotation of the rows of int8 matrices (docs/quantization.md) in a `transform_config`. */
const ROTATION = { type: 'strided-hadamard', block_size: 64 };

/** The `transform_config` for modules whose matrices are rotated. */
export function transformConfig(modules: readonly string[]): object {
  return { config_groups: { rotation: { ...ROTATION, apply: [{ targets: modules, location: 'weight_input' }] } } };
}

/**
 * The modules whose matrices are rotated.
 * @throws HeedError UNSUPPORTED for transforms of other programs
 */
export function rotatedModules(settings: Settings): ReadonlySet<string> {
  const groups = settings.record('quantization_config')?.record('transform_config')?.record('config_groups');
  const modules = new Set<string>();
  for (const [name] of groups?.entries() ?? []) {
    const group = groups!.record(name);
    const type = group?.text('type', '');
    const size = group?.count('block_size', 0);
    if (type !== ROTATION.type || size !== ROTATION.block_size)
      throw groups!.unsupported(name, `type '${ROTATION.type}' with block_size ${ROTATION.block_size}`, `'${type}'`);
    const apply = group!.get('apply');
    for (const each of (Array.isArray(apply) ? apply : [null]) as ({ targets?: unknown } | null)[]) {
      const targets = each?.targets;
      if (!Array.isArray(targets)) throw group!.wrong('apply', "objects with 'targets', names of modules", apply);
      for (const target of targets) modules.add(String(target));
    }
  }
  return modules;
}
