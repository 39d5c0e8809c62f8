/** Computes vectors in the Node that runs Vitest, for comparison with those of the workers, which run on ARM64. */
import type { TestProject } from 'vitest/node';
import { type Vectors, vectors } from './vectors.js';

export default async function setup(project: TestProject) {
  project.provide('vectors', await vectors());
}

declare module 'vitest' {
  export interface ProvidedContext {
    vectors: Vectors;
  }
}
