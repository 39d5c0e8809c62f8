/** Files, texts and arrays in Node, for the command line and for runs over corpora. */
export { invalid, invalidFile } from '../base/error.js';
export { batches } from './batches.js';
export { embedTexts, type TextRole } from './embed-texts.js';
export { namesIn, pieces, readRange, statusOf, unreadable } from './folders-and-files.js';
export {
  asRecord,
  type Encoding,
  encodingOf,
  endsInCr,
  FORMATS,
  type Format,
  formatOf,
  hasInnerCr,
  indexOfUnit,
  isBinary,
  type JsonRecord,
  LineSplitter,
  notText,
  type RawLine,
  recordOfLine,
  splitLines,
  textOfLine,
  unitOf,
} from './lines.js';
export { NPY_HEADER_BYTES, npyHeader, npyShape, npyTypeOf } from './npy.js';
export { requireServers } from './servers.js';
export { jsonLine, type Stored } from './stored.js';
export { makeFolderOf, removeOwn, requireWritable, unwritable, writeWhole, writing } from './write.js';
