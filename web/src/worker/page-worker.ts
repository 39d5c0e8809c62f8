/**
 * worker.js as one of the scripts that share chunks, for builds that bundle a page together with its worker, as the
 * demo's: what both need is downloaded once.
 */
import create from 'heed-glue/inference';
import { importing } from '../base/error.js';
import { makeHandler } from './handler.js';
import { listen, loadStore } from './port.js';

const loadThreaded = async () => (await importing('threaded', () => import('../base/wasm/threaded.js'))).threaded;

listen((post) => makeHandler({ create, loadThreaded }, post, loadStore));
