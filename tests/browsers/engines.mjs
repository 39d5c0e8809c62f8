// Firefox (by puppeteer-core, over WebDriver BiDi) and WebKit (Debian's MiniBrowser, by selenium-webdriver) behind one interface.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';

/** The script as it was written: Vitest replaces `import()`. */
const source = (script) => String(script).replaceAll('__vite_ssr_dynamic_import__', 'import');

/** A call of `script` whose result is a text even if it fails, because the drivers report rejections differently. */
const settled = (script, given) =>
  `(${source(script)})(${JSON.stringify(given)}).then(
    (result) => JSON.stringify({ result }),
    (error) => JSON.stringify({ error: \`\${error}\\n\${error?.stack}\` }))`;

function unwrap(text) {
  const { result, error } = JSON.parse(text);
  if (error !== undefined) throw new Error(`in the page: ${error}`);
  return result;
}

/** The Firefox that the variable FIREFOX names, or Debian's. Undefined if there is none. */
export const firefoxPath = () =>
  [process.env.FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox'].find((path) => path && existsSync(path));

async function openFirefox() {
  const { launch } = await import('puppeteer-core');
  const browser = await launch({
    browser: 'firefox',
    executablePath: firefoxPath(),
    headless: true,
    timeout: 120_000, // on a busy machine, several browsers start at once
    protocolTimeout: 280_000,
  });
  const page = await browser.newPage();
  return {
    goto: (url) => page.goto(url, { waitUntil: 'load', timeout: 120_000 }),
    evaluate: async (script, given) => unwrap(await page.evaluate(settled(script, given))),
    press: (key) => page.keyboard.press(key),
    resize: (width, height) => page.setViewport({ width, height }),
    screenshot: async (file) => writeFile(file, await page.screenshot()),
    close: () => browser.close(),
  };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** A virtual screen, which MiniBrowser needs. */
async function openScreen() {
  const screen = spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1600x1200x24', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  const [line] = await once(screen.stdio[3], 'data');
  return { screen, display: `:${String(line).trim()}` };
}

/** Polls WebKitWebDriver until it answers. */
async function answers(driver, url) {
  for (;;) {
    if (driver.exitCode !== null) throw new Error(`WebKitWebDriver ended with code ${driver.exitCode}`);
    const status = await fetch(`${url}/status`).catch(() => null);
    if (status?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** "ArrowUp" is ARROW_UP in selenium-webdriver. */
const webDriverName = (key) => key.replace(/(?<=[a-z])[A-Z]/g, '_$&').toUpperCase();

async function openWebKit() {
  const { Builder, Key } = await import('selenium-webdriver');
  const { screen, display } = await openScreen();
  const port = await freePort();
  const driver = spawn('WebKitWebDriver', ['--host=127.0.0.1', `--port=${port}`], {
    stdio: 'ignore',
    env: { ...process.env, DISPLAY: display, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1' }, // tests run as root
  });
  const url = `http://127.0.0.1:${port}`;
  await answers(driver, url);
  const libraries = '/usr/lib/x86_64-linux-gnu';
  const folder = readdirSync(libraries).findLast((name) => name.startsWith('webkit2gtk-4.'));
  let size;
  const start = async () => {
    const started = await new Builder()
      .usingServer(url)
      .withCapabilities({
        browserName: 'MiniBrowser',
        'webkitgtk:browserOptions': { binary: `${libraries}/${folder}/MiniBrowser`, args: ['--automation'] },
      })
      .build();
    await started.manage().setTimeouts({ script: 280_000, pageLoad: 60_000 });
    if (size) await started.manage().window().setRect(size);
    return started;
  };
  let session = await start();
  /** Opens a page. The driver sometimes waits for ever for one whose process is replaced, as that of an isolated page is, and ends the session if the process crashes; a new browser opens the page. */
  const goto = async (address, again = true) => {
    try {
      await session.get(address);
      await session.executeScript('return document.readyState');
    } catch (error) {
      if (!['TimeoutError', 'NoSuchSessionError'].includes(error.name) || !again) throw error;
      await session.quit().catch(() => {});
      session = await start();
      await goto(address, false);
    }
  };
  return {
    goto: (address) => goto(address),
    evaluate: async (script, given) =>
      unwrap(await session.executeAsyncScript(`${settled(script, given)}.then(arguments[0])`)),
    press: (key) =>
      session
        .actions()
        .sendKeys(Key[webDriverName(key)] ?? key)
        .perform(),
    resize: (width, height) => {
      size = { width, height };
      return session.manage().window().setRect(size);
    },
    screenshot: async (file) => writeFile(file, await session.takeScreenshot(), 'base64'),
    close: async () => {
      await session.quit().catch(() => {});
      driver.kill();
      screen.kill();
    },
  };
}

export const engines = { Firefox: openFirefox, WebKit: openWebKit };
