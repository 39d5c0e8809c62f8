/** Makes the package resolvable by its name from the folders below, as an installed one is. */
import * as fs from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));

export default function setup() {
  fs.rmSync(`${here}node_modules/heed`, { recursive: true, force: true });
  fs.symlinkSync('../../..', `${here}node_modules/heed`, 'dir');
}
