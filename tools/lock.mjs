// A lock between processes of one working tree: two concurrent builds could combine the glue of one with the module of the
// other. Own code, because it runs before any package is installed, and a lock must be released as soon as its owner dies.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, say } from './console.mjs';

/** Runs `body` while no other process holds the lock of this name. Removes the lock of a process that has died. */
export async function exclusively(name, body) {
  const lock = join(root, 'build', `${name}.lock`);
  fs.mkdirSync(join(root, 'build'), { recursive: true });
  for (let waited = 0; !take(lock); waited++) {
    const owner = ownerOf(lock);
    if (owner !== null && !isAlive(owner)) removeStale(lock, owner);
    else {
      if (waited === 0) say(`waiting for process ${owner ?? '?'}, which holds the lock "${name}" …`);
      await sleep(200);
    }
  }
  try {
    return await body();
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

// The file is written under another name and then linked, so that a lock always contains its owner's process id.
function take(lock) {
  const own = `${lock}.${process.pid}`;
  fs.writeFileSync(own, String(process.pid));
  try {
    fs.linkSync(own, lock);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  } finally {
    fs.rmSync(own);
  }
}

function ownerOf(lock) {
  try {
    return Number(fs.readFileSync(lock, 'utf8'));
  } catch {
    return null; // released in the meantime
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

// Renames the lock first: if another process has removed and taken it in the meantime, it is put back.
function removeStale(lock, owner) {
  const aside = `${lock}.${process.pid}`;
  try {
    fs.renameSync(lock, aside);
    if (ownerOf(aside) !== owner) fs.linkSync(aside, lock);
    fs.rmSync(aside);
  } catch (error) {
    if (!['ENOENT', 'EEXIST'].includes(error.code)) throw error;
    fs.rmSync(aside, { force: true });
  }
}
