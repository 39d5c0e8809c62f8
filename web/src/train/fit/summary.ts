/** `model.summary()`: the layers of a model and their parameters, as text. */

import { maxOf } from '../../base/lists.js';
import type { Composite } from '../../layers/composition/composite.js';
import { layersOf } from '../../layers/composition/composite.js';
import { parametersOf } from '../graph/parameters.js';
import type { Tape } from '../graph/tape.js';

export function summary(tape: Tape, model: Composite): string {
  const rows: [layer: string, count: string][] = [];
  let [trained, frozen] = [0, 0];
  for (const [layer, prefix] of layersOf(model)) {
    let count = 0;
    for (const { shape, requiresGrad } of parametersOf(tape, layer, prefix)) {
      const size = shape.reduce((product, extent) => product * extent, 1);
      count += size;
      if (requiresGrad) trained += size;
      else frozen += size;
    }
    rows.push([`${prefix.slice(0, -1)} (${layer.name})`, String(count)]);
  }
  const all: [string, string][] = [['Layer', 'Parameters'], ...rows];
  const widths = [0, 1].map((column) => maxOf(all.map((row) => row[column as 0].length)));
  const lines = all.map(([layer, count]) => `${layer.padEnd(widths[0]!)}  ${count.padStart(widths[1]!)}`);
  const rule = '-'.repeat(widths[0]! + 2 + widths[1]!);
  const totals = [
    `Total parameters: ${trained + frozen}`,
    `Trained parameters: ${trained}`,
    `Frozen parameters: ${frozen}`,
  ];
  return [model.constructor.name, rule, lines[0], rule, ...lines.slice(1), rule, ...totals].join('\n');
}
