// The console in Debian's Chromium: its first view, how it answers at 100,000 jobs in the list, and what ten open
// consoles cost the gateway. Everything is real: RabbitMQ, the gateway, the built page. Rows that have a limit
// say whether they keep it.
//
//   npm run build && node bench/console.mjs [--jobs 100000] [--consoles 10] [--seconds 30] [--views 7]

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'
import { say } from '../scripts/process/progress.mjs'
import { DEBIAN_CHROMIUM } from '../scripts/test/environment.mjs'
import { describeMachine } from './machine.mjs'
import { Meter } from './meter.mjs'
import { Stage } from './stage.mjs'
import { median } from './statistics.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '100000' },
    consoles: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '30' },
    views: { type: 'string', default: '7' },
  },
})
const JOBS = Math.ceil(Number(values.jobs) / 1000) * 1000
const CONSOLES = Number(values.consoles)
const SECONDS = Number(values.seconds)
const VIEWS = Number(values.views)
const WINDOW = { width: 1440, height: 900 }
/** What people leave open. */
const PAGES = [
  '/',
  '/jobs',
  '/queues',
  '/',
  '/failures',
  '/workers',
  '/',
  '/jobs',
  '/cron',
  '/events',
]
const PATIENCE_MS = 300_000

/** What each row may be at most. */
const LIMITS = { viewMs: 1_000, viewKb: 250, interactionMs: 100, domNodes: 2_000, cpuPercent: 5 }

/**
 * @param {string} name
 * @param {number} value
 * @param {string} unit
 * @param {number} [most]
 */
function row(name, value, unit, most) {
  const shown = (/** @type {number} */ figure) =>
    figure.toLocaleString('en', { maximumFractionDigits: 1 })
  const verdict = most === undefined ? '' : `  ${value <= most ? 'ok' : 'ABOVE'} (≤ ${shown(most)})`
  console.log(`  ${name.padEnd(38)} ${shown(value).padStart(7)} ${unit}${verdict}`)
}

async function fill() {
  say(`pushing ${JOBS} jobs`)
  for (let i = 0; i < JOBS; i += 1000) {
    const jobs = Array.from({ length: 1000 }, (_, n) => ({
      ...{
        type: `type.t${n % 20}`,
        args: [{ n: i + n }],
        options: { queue: `q${n % 10}`, pending: true },
      },
    }))
    const response = await fetch(`${stage.url}/ojs/v1/jobs/batch`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/openjobspec+json' },
      body: JSON.stringify({ jobs }),
    })
    if (response.status !== 201) throw new Error(`PUSH batch: ${response.status}`)
  }
}

/**
 * @param {import('playwright-core').Browser} browser
 * @param {string} path
 */
async function open(browser, path) {
  const context = await browser.newContext({ viewport: WINDOW, locale: 'en' })
  context.setDefaultTimeout(PATIENCE_MS)
  const page = await context.newPage()
  await page.goto(`${stage.url}/console/#${path}`, { waitUntil: 'commit' })
  return { page, context }
}

/**
 * Of the overview, with an empty cache: when something is seen, when its figures are there, and what it weighs.
 * @param {import('playwright-core').Browser} browser
 */
async function firstView(browser) {
  /** @type {Record<'painted' | 'ready' | 'bytes', number>[]} */
  const seen = []
  for (let i = 0; i < VIEWS; i++) {
    const { page, context } = await open(browser, '/')
    await page.waitForFunction(() => document.querySelector('main .figures') !== null, null, {
      polling: 'raf',
    })
    seen.push(await page.evaluate(FIRST_VIEW))
    await context.close()
  }
  const of = (/** @type {'painted' | 'ready' | 'bytes'} */ name) =>
    median(seen.map((each) => each[name]))
  console.log(`first view, median of ${VIEWS}:`)
  row('first contentful paint', of('painted'), 'ms')
  row('figures there, interactive', of('ready'), 'ms', LIMITS.viewMs)
  row('files, compressed', of('bytes') / 1_000, 'kB', LIMITS.viewKb)
}

const FIRST_VIEW = `(() => {
  const ready = performance.now()
  const files = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter(({ name }) => name.includes('/console/'))
  return {
    ready,
    painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN,
    bytes: files.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
  }
})()`

/**
 * With all jobs read into the list.
 * @param {import('playwright-core').Browser} browser
 */
async function atManyJobs(browser) {
  const { page, context } = await open(browser, '/jobs')
  await page.locator('.job-list tbody tr').first().waitFor()
  say(`reading ${JOBS} jobs into the list`)
  const read = await page.evaluate(READ_ALL(JOBS))
  const cdp = await context.newCDPSession(page)
  // CPU of the page's thread: the time of the clock would count what others do on this machine.
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const busyBefore = await busySeconds(cdp)
  const scrolled = await page.evaluate(SCROLL)
  const busy = (1000 * (await busySeconds(cdp)) - 1000 * busyBefore) / scrolled.frames
  console.log(`list of ${read.toLocaleString('en')} jobs, ${scrolled.frames} frames of scrolling:`)
  row('a frame, median', scrolled.median, 'ms')
  row('a frame, p95', scrolled.p95, 'ms')
  row('frames above 50 ms', scrolled.slow, '')
  row('main thread, for a frame', busy, 'ms', 1_000 / 60)
  row('DOM nodes, at most', scrolled.nodes, '', LIMITS.domNodes)
  console.log('  to the next paint:')
  await page.evaluate(WATCH_EVENTS)
  const search = page.locator('input[data-search]')
  const acts = {
    'select a row': () => page.locator('.job-list tbody input[type=checkbox]').nth(3).click(),
    'select all that were read': () => page.locator('.job-list thead input').click(),
    'x selects with the keyboard': async () => {
      await page.locator('.job-list a[data-row]').nth(4).focus()
      await page.keyboard.press('x')
    },
    'j goes to the next row': () => page.keyboard.press('j'),
    'open the palette': () => page.keyboard.press('Control+k'),
    'type in the palette': () => page.keyboard.type('q'),
    'close the palette': () => page.keyboard.press('Escape'),
    // One of them is not selected any more.
    'select all, and none': async () => {
      await page.locator('.job-list thead input').click()
      await page.locator('.job-list thead input').click()
    },
    'ask for a bulk cancel': () =>
      page.locator('main').getByRole('button', { name: 'Cancel', exact: true }).click(),
    'close the question': () => page.keyboard.press('Escape'),
    'begin a search': async () => {
      await search.click()
      await page.keyboard.type('sta')
    },
    'close the completions': () => page.keyboard.press('Escape'),
    'open a job': () => page.locator('.job-list a[data-row]').nth(4).click(),
    'go to another page': () => page.getByRole('link', { name: 'Queues', exact: true }).click(),
  }
  for (const [name, act] of Object.entries(acts)) {
    await page.evaluate('window.longest = 0')
    await act()
    // Entries come with the frame after the next one.
    await sleep(500)
    row(name, Number(await page.evaluate('window.longest')), 'ms', LIMITS.interactionMs)
  }
  await context.close()
}

/** @param {import('playwright-core').CDPSession} cdp */
async function busySeconds(cdp) {
  const { metrics } = await cdp.send('Performance.getMetrics')
  return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0
}

/** @param {number} count */
const READ_ALL = (count) => `(async () => {
  const box = document.querySelector('.job-list')
  const rows = () => Number(box.querySelector('table').getAttribute('aria-rowcount')) - 1
  while (rows() < ${count}) {
    box.scrollTop = box.scrollHeight
    await new Promise(requestAnimationFrame)
  }
  return rows()
})()`

/** Through the whole list, as somebody who drags its bar, and then as with a wheel. */
const SCROLL = `(async () => {
  const box = document.querySelector('.job-list')
  const times = []
  let nodes = 0
  const step = async (to) => {
    box.scrollTop = to
    const at = await new Promise(requestAnimationFrame)
    times.push(at)
    nodes = Math.max(nodes, document.querySelectorAll('*').length)
  }
  for (let i = 0; i <= 200; i++) await step((box.scrollHeight * i) / 200)
  for (let i = 0; i < 200; i++) await step(box.scrollTop - 120)
  const frames = times.slice(1).map((at, i) => at - times[i]).sort((a, b) => a - b)
  return {
    frames: frames.length,
    median: frames[frames.length >> 1],
    p95: frames[Math.floor(frames.length * 0.95)],
    slow: frames.filter((each) => each > 50).length,
    nodes,
  }
})()`

const WATCH_EVENTS = `(() => {
  window.longest = 0
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration)
  }).observe({ type: 'event', durationThreshold: 16 })
})()`

/**
 * CPU of the gateway, in percent of a core.
 * @param {import('playwright-core').Browser} browser
 */
async function openConsoles(browser) {
  const idle = await cpuOver(SECONDS)
  const alone = await push()
  const consoles = []
  for (let i = 0; i < CONSOLES; i++)
    consoles.push(await open(browser, PAGES[i % PAGES.length] ?? '/'))
  // What they ask for once, at their start, is over.
  await sleep(5_000)
  let requests = 0
  for (const { page } of consoles) page.on('request', () => requests++)
  const watched = await cpuOver(SECONDS)
  const beside = await push()
  console.log(`the gateway's CPU, of a core, at ${JOBS.toLocaleString('en')} jobs:`)
  row('without consoles', idle, '%')
  row(`with ${CONSOLES}, on several pages`, watched, '%', LIMITS.cpuPercent)
  row('  their requests', requests / SECONDS, '/s')
  console.log('PUSH beside them, and what a job costs the gateway:')
  for (const [name, { rate, cpu }] of Object.entries({
    'without consoles': alone,
    [`with ${CONSOLES}, on several pages`]: beside,
  })) {
    row(name, rate, ' jobs/s')
    row('  the gateway', (Number(cpu.gateway) * 10_000) / rate, ' µs of CPU per job')
  }
  for (const path of new Set(PAGES)) {
    await Promise.all(consoles.map(({ page }) => page.goto(`${stage.url}/console/#${path}`)))
    await sleep(3_000)
    requests = 0
    const each = await cpuOver(SECONDS / 2)
    row(`with ${CONSOLES}, all on ${path}`, each, '%', LIMITS.cpuPercent)
    row('  their requests', (2 * requests) / SECONDS, '/s')
  }
  await Promise.all(consoles.map(({ page }) => page.evaluate(HIDE)))
  // What was asked before is answered.
  await sleep(2_000)
  requests = 0
  row(`with ${CONSOLES} in hidden tabs`, await cpuOver(SECONDS / 2), '%', LIMITS.cpuPercent)
  row('  their requests', (2 * requests) / SECONDS, '/s', 0)
  await Promise.all(consoles.map(({ context }) => context.close()))
}

/** PUSH over 16 connections. With consoles Chromium uses the same cores, so the rate is lower whatever they ask. */
async function push() {
  const queue = await stage.newQueue()
  const load = { url: stage.url, queue, connections: 16, jobsPerRequest: 1, seconds: SECONDS }
  const round = await stage.http.push.call('push', { ...load, watch: stage.watch })
  await stage.purge(queue)
  return round
}

/** A headless Chromium has no tab behind another one. */
const HIDE = `(() => {
  Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })
  Object.defineProperty(document, 'hidden', { get: () => true })
  document.dispatchEvent(new Event('visibilitychange'))
})()`

/** @param {number} seconds */
async function cpuOver(seconds) {
  const meter = new Meter(stage.watch)
  await sleep(seconds * 1_000)
  const { cpu } = meter.stop()
  return 'gateway' in cpu ? Number(cpu.gateway) : Number.NaN
}

const stage = new Stage('classic', 'console')
try {
  await stage.openBuilt()
  await fill()
  const browser = await chromium.launch({
    executablePath: DEBIAN_CHROMIUM,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
  try {
    console.log(describeMachine())
    await firstView(browser)
    await atManyJobs(browser)
    await openConsoles(browser)
  } finally {
    await browser.close()
  }
} finally {
  await stage.close()
}
