/** The faults that the page once had, in Chromium. */
import { launchChromium } from '../../tools/chromium.mjs';
import { testFaults } from './faults';
import { newVisit } from './site';

testFaults('Chromium', async () => {
  const browser = await launchChromium();
  const { page } = await newVisit(browser);
  return {
    goto: (url) => page.goto(url),
    evaluate: async (script, given) => page.evaluate(script as never, given),
    press: (key) => page.keyboard.press(key),
    resize: (width, height) => page.setViewportSize({ width, height }),
    screenshot: async (path) => void (await page.screenshot({ path })),
    close: () => browser.close(),
  };
});
