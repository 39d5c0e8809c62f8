import type { Browser, LaunchOptions } from 'playwright-core';

export const chromiumArguments: string[];
export function chromiumPath(): string;
export function launchChromium(options?: LaunchOptions): Promise<Browser>;
