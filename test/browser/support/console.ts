/** A browser for the tests of a file, and what a person does in the console. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { DEBIAN_CHROMIUM } from '../../../scripts/test/environment.mjs'
import { forAll } from '../../support/time/late.ts'

/** A busy machine may stop for seconds; what is waited for comes at once elsewhere. */
const PATIENCE_MS = 60_000

/** What the browser says of an answer that is an error; the page shows these itself. */
const OF_NETWORK = /Failed to load resource|net::ERR/

export interface Console {
  readonly page: Page
  /** Errors that the page logged: exceptions, violations of the policy, React's complaints. */
  readonly troubles: string[]
  /** Opens a page of the console: `/jobs?q=…`. */
  go(path: string): Promise<void>
}

export function browserForAll(): Browser {
  return forAll(
    () =>
      chromium.launch({
        executablePath: DEBIAN_CHROMIUM,
        // As root, as in containers, Chromium has no sandbox; and /dev/shm is small there.
        args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
        timeout: PATIENCE_MS,
      }),
    (browser) => browser.close(),
  )
}

/** A new visitor without cookies. What the page complains of fails the test in the end. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Console> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  context.setDefaultTimeout(PATIENCE_MS)
  const page = await context.newPage()
  const troubles: string[] = []
  page.on('pageerror', (error) => troubles.push(error.message))
  page.on('console', (message) => {
    const text = message.text()
    if (message.type() === 'error' && !OF_NETWORK.test(text)) troubles.push(text)
  })
  onTestFinished(async () => {
    await context.close()
    expect(troubles, 'what the page complained of').toEqual([])
  })
  return {
    page,
    troubles,
    go: async (path) => {
      await page.goto(`${url}/console/#${path}`)
    },
  }
}

/** The page of a new visitor who opens this page of the console. */
export async function openedBy(browser: Browser, url: string, path: string): Promise<Page> {
  const { page, go } = await visit(browser, url)
  await go(path)
  return page
}

/** Requests to such addresses wait until they are let through. */
export async function heldBack(page: Page, url: RegExp): Promise<{ letThrough: () => void }> {
  let letThrough = () => {}
  const isLetThrough = new Promise<void>((resolve) => {
    letThrough = resolve
  })
  await page.route(url, async (route) => {
    await isLetThrough
    await route.continue().catch(() => undefined)
  })
  return { letThrough }
}

/** What axe finds against WCAG 2.2 AA. Put into the page from outside, since its policy lets nothing in. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE_SOURCE)
  const found: { violations: { id: string; nodes: { html: string }[] }[] } =
    await page.evaluate(AXE)
  return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

const AXE_SOURCE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
const AXE = `axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })`

/** How much wider than the window the page is. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  )
}

/** Tables, tiles and facts that are too narrow for what is in them. */
export function cutIn(page: Page): Promise<string[]> {
  return page.evaluate(`
    [...document.querySelectorAll('main :is(.table-wrap, .figure, .counts a, dd)')]
      .filter((box) => box.scrollWidth > box.clientWidth + 1)
      .map((box) => box.getAttribute('aria-label') ?? box.textContent)`)
}
