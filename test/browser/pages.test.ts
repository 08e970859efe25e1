import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { testVariables } from '../../scripts/test/environment.mjs'
import { gatewayForAll } from '../operations/harness.ts'
import { forAll } from '../support/time/late.ts'
import { browserForAll, cutIn, overflowOf, violationsOf, visit } from './support/console.ts'
import { playScene, type Scene } from './support/scene.ts'

// `OJS_SCREENSHOTS=/tmp/shots npm test -- --project browser test/browser/pages.test.ts` writes what it sees;
// with `OJS_SCREENSHOTS=docs` those of the guide, to docs/guide/images.
const SCREENSHOTS = process.env['OJS_SCREENSHOTS']

// Without a user: that of the vhost, which may see it.
const MANAGEMENT = `http://127.0.0.1:${process.env[testVariables.managementPort]}`

/** For a count of four figures. */
const WAITS = { type: 'invoice.render', queue: 'mail', options: { pending: true } }

const { gateway } = gatewayForAll({ OJS_MANAGEMENT_URL: MANAGEMENT })
const scene = forAll(
  async () => {
    // Before the others, so that no list begins with them.
    const jobs = Array.from({ length: 1_000 }, () => ({ ...WAITS, args: [] }))
    for (let i = 0; i < 2; i++) await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    return playScene(gateway)
  },
  () => undefined,
)
const browser = browserForAll()

/** Each with a text that it shows only when its data is there, in each language. */
const PAGES: [name: string, path: (scene: Scene) => string, shows: string | RegExp][] = [
  ['overview', () => '/', /(discarded|gescheitert)\s*1/],
  ['queues', () => '/queues', 'quarantine'],
  ['queue', () => '/queues/default', /Messages in RabbitMQ|Nachrichten in RabbitMQ/],
  ['jobs', () => '/jobs', 'email.digest'],
  ['job', ({ failed }) => `/jobs/${failed}`, /Failed attempts|Gescheiterte Versuche/],
  ['running-job', ({ running }) => `/jobs/${running}`, '40 of 100'],
  ['hostile-job', ({ hostile }) => `/jobs/${hostile}`, /Arguments|Argumente/],
  ['failures', () => '/failures', 'mailbox</b> unavailable'],
  ['dead-letters', () => '/dead-letters', 'SmtpRefused'],
  ['waiting', () => '/waiting', 'report.make'],
  ['cron', () => '/cron', 'Europe/Berlin'],
  ['workflows', () => '/workflows', 'order'],
  ['workflow', ({ workflow }) => `/workflows/${workflow}`, /(after|nach) pack, mail/],
  ['workers', () => '/workers', 'resizer-1'],
  ['rabbitmq', () => '/rabbitmq', 'ojs-rabbitmq publish'],
  ['schemas', () => '/schemas', 'urn:schema:email:1'],
  ['events', () => '/events', 'live'],
  ['audit', () => '/audit', /paused a queue|hat eine Queue pausiert/],
  ['system', () => '/system', 'OJS_QUEUE_TYPE'],
]

/** Each page in one theme and at one width is enough there. */
const OF_DOCS = /^(?!hostile)(.+)-1440-light$/

async function shoot(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return
  const ofDocs = OF_DOCS.exec(name)?.[1]
  if (SCREENSHOTS === 'docs') {
    if (ofDocs !== undefined)
      await page.screenshot({ path: `docs/guide/images/console-${ofDocs}.png` })
    return
  }
  mkdirSync(SCREENSHOTS, { recursive: true })
  await page.screenshot({ path: `${SCREENSHOTS}/${name}.png` })
}

const VIEWS = [
  ['light', 1440, 'en'],
  ['dark', 1440, 'en'],
  ['light', 360, 'en'],
  ['dark', 360, 'en'],
  ['light', 360, 'de'],
] as const

describe.each(VIEWS)('in the %s theme, %i px wide, in "%s",', (colorScheme, width, locale) => {
  test('each page shows its data and fits the window', async () => {
    const viewport = { width, height: width === 360 ? 740 : 900 }
    const { page, go } = await visit(browser, gateway.url, { colorScheme, viewport, locale })
    const found: string[] = []
    for (const [name, path, shows] of PAGES) {
      await go(path(scene))
      await page.locator('main').getByText(shows).first().waitFor()
      await expect.poll(() => page.locator('main .loading').count()).toBe(0)
      const view = `${colorScheme}${locale === 'en' ? '' : `-${locale}`}`
      expect(await overflowOf(page), `${name} is wider than the window`).toBeLessThan(1)
      await shoot(page, `${name}-${width}-${view}`)
      if (width === 360) continue
      // What axe looks for does not depend on the width, and it takes a second for each page.
      found.push(...(await violationsOf(page)).map((each) => `${name}: ${each}`))
      // A small laptop: wide enough that no table has to scroll and no tile is too small for what it says.
      await page.setViewportSize({ width: 1280, height: 900 })
      expect(await cutIn(page), `${name}: what is cut at 1280 px`).toEqual([])
      await shoot(page, `${name}-1280-${view}`)
      await page.setViewportSize(viewport)
    }
    expect(found, 'what axe finds').toEqual([])
  })
})

/** What opens over a page: where, what opens it, and by what it is known to be there. */
const OPENED: [
  name: string,
  path: (scene: Scene) => string,
  open: (page: Page) => Promise<unknown>,
][] = [
  ['palette', () => '/', (page) => page.keyboard.press('Control+k')],
  ['keys', () => '/', (page) => page.keyboard.press('?')],
  ['copy', ({ waiting }) => `/jobs/${waiting}`, click('Copy with changes …')],
  ['cancel', ({ waiting }) => `/jobs/${waiting}`, click('Cancel')],
  ['export', () => '/jobs', click('Export …')],
  ['bulk', () => '/jobs', click('Cancel')],
  ['pause', () => '/queues/default', click('Pause')],
  ['purge', () => '/queues/default', click('Purge …')],
  ['change', () => '/queues/default', click('Change')],
  ['failure', () => '/failures', click('smtp_error')],
  ['new-cron', () => '/cron', click('New recurring job')],
  ['nightly', () => '/cron', click('nightly')],
  ['worker', () => '/workers', click('resizer-1')],
  ['arguments', () => '/rabbitmq', click('ojs.queue.default')],
  ['schema', () => '/schemas', click('urn:schema:email:1')],
]

function click(name: string): (page: Page) => Promise<unknown> {
  return (page) => page.locator('main').getByRole('button', { name, exact: true }).first().click()
}

test.each(['light', 'dark'] as const)(
  'in the %s theme, axe finds nothing in what opens over a page',
  async (colorScheme) => {
    const { page, go } = await visit(browser, gateway.url, { colorScheme })
    const found: string[] = []
    const look = async (name: string) => {
      found.push(...(await violationsOf(page)).map((each) => `${name}: ${each}`))
      await shoot(page, `open-${name}-${colorScheme}`)
    }
    for (const [name, path, open] of OPENED) {
      await go(path(scene))
      await page.getByRole('navigation', { name: 'Pages', exact: true }).waitFor()
      await expect.poll(() => page.locator('main .loading').count()).toBe(0)
      await open(page)
      await page.getByRole('dialog').first().waitFor()
      await expect.poll(() => page.locator('dialog .loading').count()).toBe(0)
      await look(name)
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    }
    await go('/jobs')
    await page.getByRole('link', { name: 'email.digest' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('state:')
    await page.getByRole('option', { name: 'state:retryable' }).waitFor()
    await look('completions')
    expect(found, 'what axe finds').toEqual([])
  },
)
