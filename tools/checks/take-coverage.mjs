// Vitest terminates its processes before Node writes their coverage, so it is written after each test file.
import { takeCoverage } from 'node:v8';
import { afterAll } from 'vitest';

afterAll(() => takeCoverage());
