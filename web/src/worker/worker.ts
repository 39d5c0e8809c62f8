/**
 * Script of a worker that runs a model, with what an ordinary text model needs. The build writes it into one file, and
 * the parts that few models need into another (worker-parts.ts), which is loaded when a model needs one of them. The page
 * says where that file is, because bundlers may have moved it.
 */
import create from 'heed-glue/inference';
import { importing, linked, others } from '../base/error.js';
import type { Threaded } from '../base/wasm/module.js';
import { Threads } from '../base/wasm/threads.js';
import { callParts } from '../call-parts.js';
import { makeHandler } from './handler.js';
import { listen, loadStore } from './port.js';

Object.assign(linked, callParts);

// Threads starts its script by a URL that bundlers recognize, and they read only this file, not the one with the parts.
const loadThreaded = async (): Promise<Threaded> => {
  const { create } = await importing('threads-glue', () => import('../base/wasm/threads-glue.js'));
  return { create, startThreads: Threads.start };
};
const setParts = (url: string) => {
  others.link = () => import(url);
};

listen((post) => makeHandler({ create, loadThreaded }, post, loadStore, {}, undefined, setParts));
