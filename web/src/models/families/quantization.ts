/** Reads the `quantization_config` of config.json, which `quantize` writes in the format of compressed-tensors. */
import type { RowCode } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';

/** The format of embedding tables with 3 or 4 bits. */
export function tableCodeIn(settings: Settings): RowCode | undefined {
  const groups = settings.record('quantization_config')?.record('config_groups')?.entries() ?? [];
  for (const [, group] of groups) {
    const { targets, weights } = (group ?? {}) as {
      targets?: unknown;
      weights?: { num_bits?: unknown; type?: unknown } | undefined;
    };
    if (![targets].flat().includes('Embedding')) continue;
    const bits = weights?.num_bits;
    if (weights?.type === 'trellis') return bits === 3 ? 'trellis3' : 'trellis4';
    return bits === 4 ? 'int4' : undefined;
  }
  return undefined;
}

/**
 * heed's rotation of the rows of int8 matrices (docs/quantization.md) in a `transform_config`. Only int8 rows are rotated
 * in a file, so that loading as 'q8' takes them over as they are. Rows of 3 and 4 bits are not: error feedback encodes
 * them for the inputs of the fp32 model, and the core rotates the decoded rows when it rounds them to int8.
 */
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
