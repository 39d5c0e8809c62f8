// One at a time among the processes of a working tree: two builds at once could pair one's glue with the other's module.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, say } from './console.mjs';

/** Runs `body` while no other process runs one under the same name. What a process that died has left behind is cleared away. */
export async function exclusively(name, body) {
  const lock = join(root, 'build', `${name}.lock`);
  fs.mkdirSync(join(root, 'build'), { recursive: true });
  for (let waited = 0; !take(lock); waited++) {
    const owner = ownerOf(lock);
    if (owner !== null && !isAlive(owner)) clear(lock, owner);
    else {
      if (waited === 0) say(`waiting for the other ${name} (process ${owner ?? '?'}) …`);
      await sleep(200);
    }
  }
  try {
    return await body();
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

// Made under another name and linked, so that a lock is never there without its owner's id in it.
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
    return null; // just given back
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

// Moved aside first: another one may have cleared it and taken it anew in between, and then gets it back.
function clear(lock, owner) {
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
