/** The part of csv-parse that the page uses. */
export { parse } from 'csv-parse/browser/esm/sync';
