/** What starts models in workers. Loaded when the first model asks for one. */
export { loadInWorker } from './client.js';
export { loadPool, loadWorkers } from './pool.js';
