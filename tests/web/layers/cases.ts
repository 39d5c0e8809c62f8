/**
 * The cases written by tests/fixtures/layers/generate.py: calls, arguments, and PyTorch's results. write.py describes
 * the format.
 */
import { readFixtures } from './reading.js';

export interface Case {
  name: string;
  /** A function, possibly of a namespace: 'attention', 'masks.causal'. */
  call?: string;
  /** Or a layer with its options and state. */
  layer?: string;
  options?: Record<string, unknown>;
  state?: Record<string, unknown>;
  arguments: unknown[];
  expected: unknown;
}

export const cases = readFixtures('layers', 'layers') as Case[];
