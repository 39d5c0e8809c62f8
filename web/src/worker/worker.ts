/** The script of a worker that runs a model. */
import { makeHandler } from './handler.js';
import { listen } from './port.js';

listen((post) => makeHandler(post));
