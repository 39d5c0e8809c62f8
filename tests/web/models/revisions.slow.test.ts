/** See revisions.ts. With the folder of Node as the cache. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { testRevisions } from './revisions.js';

const folder = mkdtempSync(join(tmpdir(), 'heed-revisions-'));
afterAll(() => rmSync(folder, { recursive: true }));

testRevisions(() => mkdtempSync(join(folder, 'cache-')), true);
