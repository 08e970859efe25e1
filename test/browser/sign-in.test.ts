import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { newApiKey, ROLES, type Role } from '../../src/http/access/api-keys.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import { forAll } from '../support/time/late.ts'
import { browserForAll, type Console, visit } from './support/console.ts'

const keys = new Map(ROLES.map((role) => [role, newApiKey(`the-${role}`, role)]))
const some = newApiKey('the-some', 'reader', ['pay*'])
const steersSome = newApiKey('steers-some', 'operator', ['pay*'])
const keyOf = (role: Role) => keys.get(role)?.key ?? ''

/** A codec of an operator, on an origin of its own: here the args are encrypted by Base64. */
const codec = forAll(
  async () => {
    const server = createServer(async (request, response) => {
      const headers = {
        'Access-Control-Allow-Origin': request.headers.origin ?? '',
        'Access-Control-Allow-Credentials': 'true',
        'Access-Control-Allow-Headers': 'content-type',
      }
      const { args } = JSON.parse((await text(request)) || '{}')
      const decoded = args?.map((each: string) => Buffer.from(each, 'base64').toString())
      response.writeHead(200, headers).end(JSON.stringify({ args: decoded }))
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const { port } = server.address() as AddressInfo
    return { server, url: `http://127.0.0.1:${port}/decode` }
  },
  ({ server }) => {
    server.closeAllConnections()
    server.close()
  },
)

const vhost = vhostForAll()
const gateway = forAll(
  () =>
    startTestGateway(vhost.url, {
      OJS_API_KEYS: [...keys.values(), some, steersSome].map(({ entry }) => entry).join(),
      OJS_CODEC_URL: codec.url,
      OJS_TRACE_URL: 'https://traces.example.com/trace/{trace_id}',
    }),
  (each) => each.destroy(),
)
const browser = browserForAll()

async function signedIn(role: Role): Promise<Console> {
  const console = await visit(browser, gateway.url)
  await console.go('/jobs')
  await console.page.getByLabel('API key').fill(keyOf(role))
  await console.page.getByRole('button', { name: 'Sign in' }).click()
  await console.page.getByText(`the-${role}`).waitFor()
  return console
}

async function pushed(): Promise<string> {
  const body = { type: 'pay.roll', args: ['secret-argument'], queue: 'payroll' }
  const headers = { Authorization: `Bearer ${keyOf('producer')}` }
  return (await gateway.request('POST', '/ojs/v1/jobs', body, headers)).body.job.id
}

test('a wrong key is refused, a right one leads to the page that was asked for', async () => {
  const { page, go } = await visit(browser, gateway.url)
  await pushed()
  await go('/jobs?q=queue:payroll')
  await page.getByLabel('API key').fill('ojs_wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('The API key is not known').waitFor()
  await page.getByLabel('API key').fill(keyOf('operator'))
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  // Scripts see neither the key nor the cookie.
  expect(await page.evaluate('document.cookie + JSON.stringify(localStorage)')).not.toMatch(/ojs_/)
  await page.reload()
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('API key').waitFor()
})

test('a session that has ended asks for the key again, on the same page', async () => {
  const { page } = await signedIn('operator')
  await page.context().clearCookies()
  await page.getByRole('heading', { name: 'Jobs' }).waitFor()
  await page.getByLabel('API key').waitFor()
  expect(page.url()).toMatch(/#\/jobs$/)
})

/** The session has ended, and somebody signs in on the page that asks for a key. */
async function signInAgain({ page }: Console, role: Role): Promise<void> {
  await page.getByLabel('API key').fill(keyOf(role))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText(`the-${role}`).waitFor()
}

test('a form that was half filled when the session ended is there again, but for nobody else', async () => {
  const console = await signedIn('operator')
  const { page, go } = console
  await go('/cron')
  await page.getByRole('button', { name: 'New recurring job' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('half-filled')
  await page.context().clearCookies()
  await page.getByLabel('API key').waitFor()
  expect(await dialog.count()).toBe(0)
  await signInAgain(console, 'operator')
  expect(await dialog.getByLabel('Name').inputValue()).toBe('half-filled')
  await dialog.getByLabel('Type').fill('half.job')
  await page.context().clearCookies()
  await signInAgain(console, 'admin')
  await page.getByRole('heading', { name: 'Cron' }).waitFor()
  await page.getByRole('button', { name: 'New recurring job' }).waitFor()
  expect(await page.content()).not.toContain('half-filled')
  expect(await page.locator('dialog').count()).toBe(0)
})

test('events ask for the key again when the session has ended, and go on', async () => {
  const console = await signedIn('operator')
  const { page, go } = console
  await go('/events')
  const live = page.getByText('live', { exact: true })
  await live.waitFor()
  const { port } = new URL(gateway.url)
  await gateway.restart({ OJS_PORT: port })
  // Sooner than the session itself is asked for again.
  await page.getByLabel('API key').waitFor({ timeout: 30_000 })
  await signInAgain(console, 'operator')
  await live.waitFor()
  const id = await pushed()
  await page.getByRole('link', { name: id }).first().waitFor()
})

const CANCEL = { name: 'Cancel', exact: true }

test.each<[Role, sees: string[], not: string[]]>([
  [
    'reader',
    ['Jobs', 'Queues', 'Workers', 'Dead letters'],
    ['Cron', 'Events', 'Workflows', 'RabbitMQ', 'Schemas', 'Audit'],
  ],
  [
    'operator',
    ['Jobs', 'Cron', 'Events', 'Workflows', 'RabbitMQ', 'Schemas', 'Audit', 'System'],
    [],
  ],
  ['admin', ['Jobs', 'Cron', 'Events', 'Workflows', 'RabbitMQ', 'Schemas', 'Audit', 'System'], []],
  ['producer', ['System'], ['Jobs', 'Queues', 'Cron']],
])('%s is offered what the role may do, and no more', async (role, sees, not) => {
  const id = await pushed()
  const { page, go } = await signedIn(role)
  const pages = page.getByRole('navigation', { name: 'Pages', exact: true })
  for (const name of sees) await pages.getByRole('link', { name, exact: true }).waitFor()
  for (const name of not) {
    expect(await pages.getByRole('link', { name, exact: true }).count(), name).toBe(0)
  }
  if (role === 'producer') return
  await go(`/jobs/${id}`)
  await page.getByText('It has not begun.').waitFor()
  const mayAct = role !== 'reader'
  expect(await page.getByRole('button', CANCEL).count()).toBe(mayAct ? 1 : 0)
  if (!mayAct) await page.getByText('Your role may not read arguments').waitFor()
  expect((await page.content()).includes('secret-argument')).toBe(mayAct)
  await go('/jobs')
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  const deletes = await page.getByRole('button', { name: 'Delete', exact: true }).count()
  expect(deletes).toBe(role === 'admin' ? 1 : 0)
  // The gateway refuses it anyway.
  const tried = await page.evaluate(
    `fetch('../ojs/v1/admin/jobs/${id}/cancel', { method: 'POST' }).then((each) => each.status)`,
  )
  expect(tried).toBe(mayAct ? 200 : 403)
})

test('a key of some queues sees these, and no page that is about all', async () => {
  await pushed()
  const { page, go } = await visit(browser, gateway.url)
  await go('/')
  await page.getByLabel('API key').fill(some.key)
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'payroll' }).waitFor()
  expect(await page.getByRole('link', { name: 'default' }).count()).toBe(0)
  const pages = page.getByRole('navigation', { name: 'Pages', exact: true })
  expect(await pages.getByRole('link', { name: 'Overview' }).count()).toBe(0)
  await page.getByRole('link', { name: 'payroll' }).click()
  await page.getByText('Jobs per period').waitFor()
  await go('/jobs')
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  await pages.getByRole('link', { name: 'Dead letters' }).click()
  await page.getByText('No dead letters').waitFor()
})

test('an operator of some queues cancels all that match, and sees that it is done', async () => {
  const id = await pushed()
  const { page, go } = await visit(browser, gateway.url)
  await go('/jobs?q=state:available')
  await page.getByLabel('API key').fill(steersSome.key)
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  await page.getByRole('button', CANCEL).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: /^Cancel \d+ job/ }).click()
  await dialog.getByRole('status').waitFor()
  expect(await dialog.getByText('about all queues').count()).toBe(0)
  const headers = { Authorization: `Bearer ${keyOf('admin')}` }
  const { body } = await gateway.request('GET', `/ojs/v1/jobs/${id}`, undefined, headers)
  expect(body.job.state).toBe('cancelled')
})

test('the audit tells who signed in and what they did, by key', async () => {
  await pushed()
  const { page, go } = await signedIn('admin')
  await go('/queues/payroll')
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click()
  await page.getByText('payroll is paused.').waitFor()
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('payroll goes on.').waitFor()
  const headers = { Authorization: `Bearer ${keyOf('admin')}` }
  for (let i = 0; i < 50; i++) {
    await gateway.request('POST', '/ojs/v1/admin/queues/payroll/resume', {}, headers)
  }
  await go('/audit')
  await page
    .getByRole('row', { name: /the-admin admin resumed a queue/ })
    .first()
    .waitFor()
  expect(await page.getByText('paused a queue').count()).toBe(0)
  await page.getByRole('button', { name: 'Next' }).click()
  const paused = page.getByRole('row', { name: /the-admin admin paused a queue/ })
  await paused.getByText('/admin/queues/payroll/pause').waitFor()
  await page
    .getByRole('row', { name: /the-admin admin signed in/ })
    .first()
    .waitFor()
  await page.getByLabel('Of the key').fill('the-nobody')
  await page.getByText('Nobody has steered anything yet').waitFor()
})

test('a queue offers each role what it may do', async () => {
  await pushed()
  const offers = ['Pause', 'Drain', 'Purge …', 'Delete', 'Change']
  for (const [role, expected] of [
    ['reader', []],
    ['operator', ['Pause', 'Drain']],
    ['admin', offers],
  ] as const) {
    const { page, go } = await signedIn(role)
    await go('/queues/payroll')
    await page.getByText('Messages in RabbitMQ').waitFor()
    await page.getByText('Jobs per period').waitFor()
    const main = page.locator('main')
    const found = []
    for (const name of offers) {
      if ((await main.getByRole('button', { name, exact: true }).count()) > 0) found.push(name)
    }
    expect(found, role).toEqual(expected)
  }
})

test('the browser asks the codec for encrypted args, and a trace has its link', async () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
  const secret = Buffer.from('the plain secret').toString('base64')
  const meta = { traceparent: `00-${trace}-00f067aa0ba902b7-01` }
  const body = { type: 'pay.roll', args: [secret], queue: 'payroll', meta }
  const headers = { Authorization: `Bearer ${keyOf('producer')}` }
  const { id } = (await gateway.request('POST', '/ojs/v1/jobs', body, headers)).body.job
  const { page, go } = await signedIn('operator')
  await go(`/jobs/${id}`)
  await page.getByText(secret).first().waitFor()
  const link = page.getByRole('link', { name: trace })
  expect(await link.getAttribute('href')).toBe(`https://traces.example.com/trace/${trace}`)
  await page.getByRole('button', { name: 'Decode' }).click()
  await page.getByText('the plain secret').waitFor()
  // The policy lets the page ask this origin, and no other.
  const policy = (await page.request.get(page.url().split('#')[0] ?? '')).headers()
  expect(policy['content-security-policy']).toContain(
    `connect-src 'self' ${new URL(codec.url).origin};`,
  )
})
