/** Model folders that heed writes. */
export { folderWriter, writeWhole } from './folder-writer.js';
