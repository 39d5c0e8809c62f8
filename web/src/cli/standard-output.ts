/** Handles errors of standard output. */
import { fstatSync } from 'node:fs';
import { writeAll } from '../base/own-files.js';
import { unwritable } from '../node/index.js';
import { notice } from './terminal.js';

/** Ends the process when standard output cannot be written. A reader that closes it early (`| head`) is not an error. */
export function checkOutput(): void {
  const { stdout } = process;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    notice(unwritable('standard output', error).message, 'red');
    process.exit(1);
  });
  // Node's own stream ignores short writes to a file.
  if (fstatSync(stdout.fd).isFile())
    stdout._write = (bytes: Uint8Array, _encoding, done) => {
      try {
        writeAll(stdout.fd, bytes);
        done();
      } catch (error) {
        done(error as Error);
      }
    };
}
