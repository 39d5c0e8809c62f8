// The Chromium that tests drive through playwright-core: the system's, or the one that the variable CHROMIUM names.
import * as fs from 'node:fs';
import { PlainError } from './console.mjs';

const kPlaces = [
  process.env.CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

export function chromiumPath() {
  const path = kPlaces.find((place) => place && fs.existsSync(place));
  if (!path) throw new PlainError('no Chromium was found; set the environment variable CHROMIUM to its path');
  return path;
}

/** No sandbox (tests run as root in containers), no GPU, no background traffic. */
export const chromiumArguments = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Starts a playwright-core Browser with an empty profile. */
export async function launchChromium(options = {}) {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: chromiumPath(), args: chromiumArguments, ...options });
}
