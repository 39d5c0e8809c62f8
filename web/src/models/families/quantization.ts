/**
 * Reads the `quantization_config` of config.json: that of compressed-tensors
 * (https://github.com/vllm-project/compressed-tensors), whose format `quantize` writes, too.
 */
import type { RowCode } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';

/** The `quant_method` of compressed-tensors. */
export const METHOD = 'compressed-tensors';

/** The format of embedding tables with 2 to 4 bits. */
export function tableCodeIn(settings: Settings): RowCode | undefined {
  for (const group of groupsIn(quantizationIn(settings))) {
    if (![group.get('targets')].flat().includes('Embedding')) continue;
    const weights = group.record('weights');
    const bits = weights?.get('num_bits');
    if (weights?.get('type') === 'trellis') return bits === 2 ? 'trellis2' : bits === 3 ? 'trellis3' : 'trellis4';
    return bits === 4 ? 'int4' : undefined;
  }
  return undefined;
}

/** The settings of quantized weights. */
export const quantizationIn = (settings: Settings) => settings.record('quantization_config');

/** The settings of the groups of modules. */
export function groupsIn(config: Settings | undefined): Settings[] {
  const groups = config?.record('config_groups');
  return (groups?.names() ?? []).flatMap((name) => groups!.record(name) ?? []);
}

/**
 * Whether models/compressed-tensors.ts may have to convert weights when they are read. Int8 with one scale per row, and
 * heed's tables and matrices in 2 to 4 bits, are read as they are.
 */
export function mayBeConverted(settings: Settings): boolean {
  const config = quantizationIn(settings);
  if (!config) return false;
  config.get('ignore'); // has no effect: the types of the tensors tell which weights are quantized
  const has = (of: Settings, key: string, ...values: unknown[]) => values.includes(of.get(key));
  const isOwn = (of: Settings) => has(of, 'format', 'int-quantized', undefined);
  const groups = groupsIn(config).map((group) => {
    const weights = group.record('weights');
    if (!weights || !isOwn(group) || !Array.isArray(group.get('targets'))) return false;
    const keys = ['type', 'symmetric', 'num_bits', 'strategy', 'group_size', 'dynamic', 'actorder', 'block_structure'];
    const [type, symmetric = true, bits, strategy, size, dynamic = false, ...others] = keys.map((key) =>
      weights.get(key),
    );
    if (type === 'trellis') return true;
    if (dynamic !== false || type !== 'int' || symmetric !== true || others.some((value) => value !== undefined))
      return false;
    // heed 0.2.0 wrote tables in 4 bits as groups of 64.
    return bits === 8 ? strategy === 'channel' : bits === 4 && strategy === 'group' && size === 64;
  });
  const isKnown = [
    groups.length > 0 || config.get('transform_config') !== undefined,
    has(config, 'quant_method', METHOD, undefined),
    has(config, 'quantization_status', 'compressed', undefined),
    has(config, 'sparsity_config', undefined),
    isOwn(config),
  ];
  return ![...isKnown, ...groups].every((each) => each);
}

/**
 * A rotation of the rows of int8 matrices (docs/quantization.md), by its type in a `transform_config`: the first one is
 * that of earlier builds, strided and without signs; the second one has signs and mixes neighbours, too. Only int8 rows are rotated in a file, so that loading as
 * 'q8' takes them over as they are. Rows of 2 to 4 bits are not: error feedback encodes them for the inputs of the fp32
 * model, and the core rotates the decoded rows when it rounds them to int8.
 */
export type Rotation = 'strided-hadamard' | 'signed-hadamard';

/** The rotation of new files. */
export const ROTATION: Rotation = 'signed-hadamard';
const BLOCK_SIZE = 64;

/** The types of rows in which the core reads them. */
export const ROTATED_DTYPES = { 'strided-hadamard': 'Hadamard I8', [ROTATION]: 'rotated I8' } as const;

/** The `transform_config` for modules whose matrices are rotated. */
export function transformConfig(modules: ReadonlyMap<string, Rotation>): object {
  const kinds = [...new Set(modules.values())].sort().reverse();
  const groups = kinds.map((type, i) => {
    const targets = [...modules].filter(([, other]) => other === type).map(([module]) => module);
    const group = { type, block_size: BLOCK_SIZE, apply: [{ targets, location: 'weight_input' }] };
    return [`rotation${i || ''}`, group];
  });
  return { config_groups: Object.fromEntries(groups) };
}

/**
 * The modules whose matrices are rotated, and how.
 * @throws HeedError UNSUPPORTED for transforms of other programs
 */
export function rotatedModules(settings: Settings): ReadonlyMap<string, Rotation> {
  const groups = quantizationIn(settings)?.record('transform_config')?.record('config_groups');
  const modules = new Map<string, Rotation>();
  for (const name of groups?.names() ?? []) {
    const group = groups!.record(name);
    const type = group?.text('type', '');
    const size = group?.count('block_size', 0);
    if (type === undefined || !Object.hasOwn(ROTATED_DTYPES, type) || size !== BLOCK_SIZE) {
      const known = Object.keys(ROTATED_DTYPES).map((each) => `'${each}'`);
      throw groups!.unsupported(name, `type ${known.join(' or ')} with block_size ${BLOCK_SIZE}`, `'${type}'`);
    }
    const apply = group!.get('apply');
    for (const each of (Array.isArray(apply) ? apply : [null]) as ({ targets?: unknown } | null)[]) {
      const targets = each?.targets;
      if (!Array.isArray(targets)) throw group!.wrong('apply', "objects with 'targets', names of modules", apply);
      for (const target of targets) modules.set(String(target), type as Rotation);
    }
  }
  return modules;
}
