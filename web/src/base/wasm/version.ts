import { version as packageVersion } from '../../../../package.json';

/** heed's version, as package.json says. */
export const version: string = packageVersion;
