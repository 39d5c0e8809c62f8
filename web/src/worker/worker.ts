/** The script of a worker that runs a model. */
import { imageFamily } from '../images/families.js';
import { setLate } from '../late.js';
import { embedTokens, withResidual } from '../models/late-interaction.js';
import { pagedFolder } from '../models/paged-embeddings.js';
import { makeHandler } from './handler.js';
import { listen } from './port.js';

setLate({
  images: async () => ({ imageFamily }),
  tools: async () => ({ embedTokens, withResidual, pagedFolder }),
});
listen((post) => makeHandler(post));
