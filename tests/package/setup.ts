// Packs the package, and runs it in Node, once for all test files in this folder.
import * as fs from 'node:fs';
import type { TestProject } from 'vitest/node';
import { pack, resultInNode } from './installed.js';

export default async function setup(project: TestProject) {
  const packed = await pack();
  project.provide('packed', packed);
  project.provide('expected', await resultInNode(packed));
  return () => fs.rmSync(packed.place, { recursive: true, force: true });
}
