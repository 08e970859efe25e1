import { mkdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { testVariables } from '../../scripts/test/environment.mjs'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import { forAll } from '../support/time/late.ts'
import { browserForAll, overflowOf, violationsOf, visit } from './support/console.ts'
import { playScene, type Scene } from './support/scene.ts'

// `OJS_SCREENSHOTS=/tmp/shots npm test -- --project browser test/browser/pages.test.ts` writes what it sees.
const SCREENSHOTS = process.env['OJS_SCREENSHOTS']

// Without a user: that of the vhost, which may see it.
const MANAGEMENT = `http://127.0.0.1:${process.env[testVariables.managementPort]}`

const vhost = vhostForAll()
const gateway = forAll(
  () => startTestGateway(vhost.url, { OJS_MANAGEMENT_URL: MANAGEMENT }),
  (each) => each.destroy(),
)
const scene = forAll(
  () => playScene(gateway),
  () => undefined,
)
const browser = browserForAll()

/** Each with a text that it shows only when its data is there. */
const PAGES: [name: string, path: (scene: Scene) => string, shows: string | RegExp][] = [
  ['overview', () => '/', /discarded\s*1/],
  ['queues', () => '/queues', 'quarantine'],
  ['queue', () => '/queues/default', 'Messages in RabbitMQ'],
  ['jobs', () => '/jobs', 'email.digest'],
  ['job', ({ failed }) => `/jobs/${failed}`, 'Failed attempts'],
  ['running-job', ({ running }) => `/jobs/${running}`, '40 of 100'],
  ['hostile-job', ({ hostile }) => `/jobs/${hostile}`, 'Arguments'],
  ['failures', () => '/failures', 'mailbox</b> unavailable'],
  ['dead-letters', () => '/dead-letters', 'SmtpRefused'],
  ['waiting', () => '/waiting', 'report.make'],
  ['cron', () => '/cron', 'Europe/Berlin'],
  ['workflows', () => '/workflows', 'order'],
  ['workflow', ({ workflow }) => `/workflows/${workflow}`, 'after pack, mail'],
  ['workers', () => '/workers', 'resizer-1'],
  ['rabbitmq', () => '/rabbitmq', 'ojs-rabbitmq publish'],
  ['schemas', () => '/schemas', 'urn:schema:email:1'],
  ['events', () => '/events', 'live'],
  ['audit', () => '/audit', 'paused a queue'],
  ['system', () => '/system', 'OJS_QUEUE_TYPE'],
]

const VIEWS = [
  ['light', 1440],
  ['dark', 1440],
  ['light', 360],
  ['dark', 360],
] as const

describe.each(VIEWS)('in the %s theme, %i px wide,', (colorScheme, width) => {
  test('each page shows its data and fits the window', async () => {
    const viewport = { width, height: width === 360 ? 740 : 900 }
    const console = await visit(browser, gateway.url, { colorScheme, viewport })
    const found: string[] = []
    for (const [name, path, shows] of PAGES) {
      await console.go(path(scene))
      await console.page.locator('main').getByText(shows).first().waitFor()
      await expect.poll(() => console.page.locator('main .loading').count()).toBe(0)
      // What axe looks for does not depend on the width, and it takes a second for each page.
      const violations = width === 1440 ? await violationsOf(console.page) : []
      found.push(...violations.map((each) => `${name}: ${each}`))
      expect(await overflowOf(console.page), `${name} is wider than the window`).toBeLessThan(1)
      if (SCREENSHOTS === undefined) continue
      mkdirSync(SCREENSHOTS, { recursive: true })
      const file = `${SCREENSHOTS}/${name}-${width}-${colorScheme}.png`
      await console.page.screenshot({ path: file })
    }
    expect(found, 'what axe finds').toEqual([])
  })
})
