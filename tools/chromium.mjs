// A real Chromium for the tests, through playwright-core: Debian's, or the one that CHROMIUM names.
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
  if (!path) throw new PlainError('no Chromium was found; name one in the environment variable CHROMIUM');
  return path;
}

/** Arguments that keep it quiet: no sandbox (tests run as root in containers), no GPU, nothing sent in the background. */
export const chromiumArguments = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A playwright-core Browser with an empty profile. */
export async function launchChromium(options = {}) {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: chromiumPath(), args: chromiumArguments, ...options });
}
