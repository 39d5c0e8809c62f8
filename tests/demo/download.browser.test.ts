/** The page “Your model” downloads public models from hosts that the reader names: after a click, with progress, and with errors that say what happened. */
import { readFile, stat } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { drawn, newVisit, openSite, type Site, type Visit } from './site';

const shipped = fileURLToPath(new URL('../../web/model', import.meta.url));
const hub = 'https://huggingface.co';
const minilm = /^Download 91 MB from huggingface\.co: all-MiniLM-L6-v2$/;

let site: Site;
let visit: Visit;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());
afterEach(() => visit?.context.close());

/** Opens the page in a browser of its own, in which all requests to the hub are answered by `answer`; without it, they wait forever. Returns the requests. */
async function openModelPage(
  answer?: (path: string, route: Parameters<Parameters<BrowserContext['route']>[1]>[0]) => unknown,
): Promise<{ page: Page; requested: string[] }> {
  visit = await newVisit(site.browser, { serviceWorkers: 'block' });
  const requested: string[] = [];
  await visit.context.route(`${hub}/**`, async (route) => {
    requested.push(route.request().url());
    await answer?.(new URL(route.request().url()).pathname, route);
  });
  await visit.page.goto(`${site.url}#meaning?model=own`);
  await visit.page.waitForSelector('.checkpoints');
  return { page: visit.page, requested };
}

const headers = { 'Access-Control-Allow-Origin': '*' };
const cancelled = 'Loading was cancelled. No new model was opened.';
const contents = (page: Page) => page.getByRole('heading', { name: 'Contents' });
const chooseFolder = (page: Page) => page.locator('input[type=file]').first();
/** The progress of a download. Others, such as that of a document that is read again, may be on the page as well. */
const download = (page: Page) => page.getByRole('progressbar', { name: /^The model from/ });
const alert = (page: Page) => page.getByRole('alert').innerText();

/** Answers with the shipped model in place of `owner/name` at `revision`. */
async function serveModel(model: string, path: string, route: { fulfill(with_: object): Promise<void> }) {
  const prefix = `/${model}/resolve/main/`;
  const body = path.startsWith(prefix)
    ? await readFile(join(shipped, path.slice(prefix.length))).catch(() => null)
    : null;
  await route.fulfill(body ? { body, headers } : { status: 404, headers, body: 'Entry not found' });
}

describe('downloading a model', () => {
  it('starts with a click on a button that says how much comes from where, and not before', async () => {
    const id = 'sentence-transformers/all-MiniLM-L6-v2';
    const { page, requested } = await openModelPage((path, route) => serveModel(id, path, route));
    await page.getByText('Loaded: the page makes no further requests of its own.').waitFor();
    expect(requested).toEqual([]);
    await page.getByRole('button', { name: minilm }).click();
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(requested).toContain(`${hub}/${id}/resolve/main/model.safetensors`);
    for (const url of requested) expect(url).toContain(`${hub}/${id}/resolve/main/`);
    expect(await page.getByLabel('Or enter the address').inputValue()).toBe(`${hub}/${id}`);
    expect(visit.complaints.filter((text) => !text.includes('404'))).toEqual([]); // of optional files

    // Kept for the next visit, until the reader deletes it.
    const before = requested.length;
    await page.reload();
    await page.getByRole('button', { name: minilm }).click();
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(requested.slice(before).filter((url) => url.endsWith('.safetensors'))).toEqual([]);
    await page.getByRole('button', { name: 'Delete them' }).click();
    await expect.poll(() => page.getByText('are kept in this browser').count()).toBe(0);
    expect(await page.evaluate(() => caches.has('heed'))).toBe(false);
  });

  it.each([`${hub}/owner/name`, `${hub}/owner/name/tree/main`, 'huggingface.co/owner/name/blob/main/config.json'])(
    'finds the files of %s',
    async (address) => {
      const { page } = await openModelPage((path, route) => serveModel('owner/name', path, route));
      await page.getByLabel('Or enter the address').fill(address);
      await page.getByRole('button', { name: 'Open', exact: true }).click();
      await page.getByRole('heading', { name: 'Contents' }).waitFor();
    },
  );

  it('can be cancelled, after which the page is as before', async () => {
    const { page, requested } = await openModelPage();
    await page.getByRole('button', { name: minilm }).click();
    await page.getByText('Loading the model from huggingface.co').waitFor();
    await expect.poll(() => requested.length).toBeGreaterThan(0);
    expect(await page.getByRole('button', { name: minilm }).isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(cancelled).waitFor();
    expect(await download(page).count()).toBe(0);
    expect(await page.getByRole('alert').count()).toBe(0);
    await page.locator('input[type=file]').first().setInputFiles(shipped);
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(await page.getByText(cancelled).count()).toBe(0);
  });

  it('keeps the open model when it is cancelled, and reopens that in another precision', async () => {
    const { page, requested } = await openModelPage();
    await chooseFolder(page).setInputFiles(shipped);
    await contents(page).waitFor();
    await page.getByRole('button', { name: minilm }).click();
    await expect.poll(() => requested.length).toBeGreaterThan(0);
    await page.getByText('int8: smaller, faster').click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(cancelled).waitFor();
    // Nothing is loaded again, also after the page has reacted: the precision is that of the open model.
    await drawn(page);
    expect(await download(page).count()).toBe(0);
    expect(await page.getByLabel('fp32: full precision').isChecked()).toBe(true);
    const before = requested.length;
    await page.getByText('int8: smaller, faster').click();
    await expect.poll(() => page.locator('.facts-table').first().innerText()).toMatch(/Precision\s+int8/);
    expect(requested).toHaveLength(before);
  });

  it('starts again with a click, not with another precision, when it was cancelled', async () => {
    const { page, requested } = await openModelPage();
    await page.getByRole('button', { name: minilm }).click();
    await expect.poll(() => requested.length).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(cancelled).waitFor();
    await page.getByText('int8: smaller, faster').click();
    await drawn(page);
    expect(await download(page).count()).toBe(0);
    await page.getByText(cancelled).waitFor();
  });

  it('takes no folder until it has ended or been cancelled, and says so', async () => {
    const { page, requested } = await openModelPage();
    await chooseFolder(page).setInputFiles(shipped);
    await contents(page).waitFor();
    await page.getByRole('button', { name: minilm }).click();
    await expect.poll(() => requested.length).toBeGreaterThan(0);
    await page.getByRole('heading', { name: 'Cancel the download to open a folder' }).waitFor();
    expect(await chooseFolder(page).isDisabled()).toBe(true);
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['{}'], 'config.json'));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    });
    await drawn(page);
    await page.getByText('Loading the model from huggingface.co').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(cancelled).waitFor();
    expect(await contents(page).count()).toBe(1); // the drop has not closed the open model
    expect(await page.getByRole('alert').count()).toBe(0);
    await page.getByRole('heading', { name: 'Drop a model folder here' }).waitFor();
    expect(await chooseFolder(page).isDisabled()).toBe(false);
  });

  it.each([
    [404, /status 404.*no model at this address/s],
    [401, /401.*no model of this name, or it may be private/s],
    [503, /503/],
  ])('explains status %d, and opens the next model', async (status, message) => {
    let answers = false;
    const { page } = await openModelPage((path, route) =>
      answers ? serveModel('owner/name', path, route) : route.fulfill({ status, headers, body: 'no' }),
    );
    await page.getByRole('button', { name: minilm }).click();
    await expect.poll(() => alert(page)).toMatch(message);
    answers = true;
    await page.getByLabel('Or enter the address').fill(`${hub}/owner/name`);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  it('explains that one is offline', async () => {
    const { page } = await openModelPage((_, route) => route.abort('internetdisconnected'));
    await page.getByText('Loaded:').waitFor();
    await visit.context.setOffline(true);
    await page.getByText('You are offline; the page still works').waitFor();
    await page.getByRole('button', { name: minilm }).click();
    await expect.poll(() => alert(page)).toContain('You are offline. Connect to the network');
  });

  it('asks for the host of a name without one', async () => {
    const { page, requested } = await openModelPage();
    await page.getByLabel('Or enter the address').fill('owner/name');
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await expect.poll(() => alert(page)).toContain('enter https://huggingface.co/owner/name');
    expect(requested).toEqual([]);
  });
});

describe('another hub', () => {
  let server: Server;
  /** Sends the rest of the weights. */
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const requested: string[] = [];
  beforeAll(async () => {
    server = createServer(async (request, response) => {
      requested.push(request.url!);
      const [, name] = /^\/owner\/name\/resolve\/main\/(.+)/.exec(request.url!) ?? [];
      const body = name ? await readFile(join(shipped, name)).catch(() => null) : null;
      if (!body) return void response.writeHead(404, headers).end();
      response.writeHead(200, { ...headers, 'Content-Length': body.length });
      if (name === 'model.safetensors') {
        response.write(body.subarray(0, 1_000_000));
        await released;
        response.end(body.subarray(1_000_000));
      } else response.end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, resolve));
  });
  afterAll(() => {
    release();
    server.closeAllConnections();
    server.close();
  });

  it('is found by the address of a model’s page, and the progress has the real total', async () => {
    const { page } = await openModelPage();
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/owner/name`;
    await page.getByLabel('Or enter the address').fill(address);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    const { size } = await stat(join(shipped, 'model.safetensors'));
    const total = (size / 1e6).toFixed(1);
    await page.getByText(new RegExp(`[\\d.]+ [KM]B of ${total.slice(0, 2)}\\d MB, `)).waitFor();
    const bar = download(page);
    expect(Number(await bar.getAttribute('max'))).toBeGreaterThanOrEqual(size);
    expect(await page.getByRole('heading', { name: 'Contents' }).count()).toBe(0);
    release();
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(requested).toContain('/owner/name/config.json'); // looked for in the folder first
  });
});
