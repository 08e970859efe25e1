import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newApiKey } from '../../src/http/access/api-keys.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import { ID_TOKEN_SECONDS, startOidcProvider } from '../support/oidc/provider.ts'
import { forAll } from '../support/time/late.ts'
import { browserForAll, type Console, violationsOf, visit } from './support/console.ts'

const admin = newApiKey('the-admin', 'admin')
const provider = forAll(
  () => startOidcProvider(),
  (each) => each.close(),
)
const vhost = vhostForAll()
const gateway = forAll(
  () => startTestGateway(vhost.url, { OJS_API_KEYS: admin.entry, ...provider.variables }),
  (each) => each.destroy(),
)
const browser = browserForAll()

const host = () => new URL(provider.issuer).host
const byProvider = (page: Page) => page.getByRole('button', { name: `Sign in with ${host()}` })

/** At the provider's own pages. */
async function enter(page: Page, name: string): Promise<void> {
  await page.getByPlaceholder('Enter any login').fill(name)
  await page.getByPlaceholder('and password').fill('x')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

async function visitAs(name: string, path: string): Promise<Console> {
  const console = await visit(browser, gateway.url)
  await console.go(path)
  await byProvider(console.page).click()
  await enter(console.page, name)
  return console
}

test('a person of the provider comes back to the page that was asked for, and may do what their group may', async () => {
  const key = { Authorization: `Bearer ${admin.key}` }
  await gateway.request('POST', '/ojs/v1/jobs', { type: 'pay.roll', args: [], queue: 'pay' }, key)
  const { page, go } = await visitAs('ada', '/jobs?q=queue:pay')
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  await page.getByText('oidc:ada operator').waitFor()
  // Neither the code nor anything else of the way there is left in the page.
  expect(page.url()).toBe(`${gateway.url}/console/#/jobs?q=queue:pay`)
  expect(await page.evaluate('document.cookie')).toBe('')
  const session = await page.evaluate<{ expires_at: string }>(
    `fetch('../ojs/v1/session').then((each) => each.json())`,
  )
  const ends = Date.parse(session.expires_at) - Date.now()
  expect(ends).toBeLessThan(ID_TOKEN_SECONDS * 1_000)
  expect(ends).toBeGreaterThan(0)
  await page.reload()
  await page.getByRole('link', { name: 'pay.roll' }).first().waitFor()
  await go('/audit')
  await page.getByRole('row', { name: /oidc:ada operator signed in/ }).waitFor()
  // The page is loaded anew, so that nothing of her is left in it.
  const loaded = page.waitForEvent('load')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await loaded
  // The provider knows her still, and asks for no name.
  await byProvider(page).click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('oidc:ada').first().waitFor()
})

test('a group of some queues sees these', async () => {
  const { page } = await visitAs('bob', '/queues')
  await page.getByText('oidc:bob reader').waitFor()
  const pages = page.getByRole('navigation', { name: 'Pages', exact: true })
  await pages.getByRole('link', { name: 'Jobs' }).waitFor()
  expect(await pages.getByRole('link', { name: 'Overview' }).count()).toBe(0)
})

test('whoever has no role is told so, with the id of the request, and may still use a key', async () => {
  const { page, go } = await visit(browser, gateway.url)
  const signIns: string[] = []
  page.on('request', (request) => {
    if (request.url().endsWith('/v1/session') && request.method() === 'POST')
      signIns.push(request.postData() ?? '')
  })
  await go('/jobs')
  await byProvider(page).click()
  await enter(page, 'eve')
  await page.getByText(`${host()} knows you, but nothing in your 'groups' has a role`).waitFor()
  await page.getByText(/req_[\w-]+/).waitFor()
  expect(await violationsOf(page)).toEqual([])
  await page.getByLabel('API key').fill(admin.key)
  const isThere = page.waitForResponse(/\/v1\/health/)
  await page.keyboard.press('Enter')
  await page.getByText('the-admin').waitFor()
  await isThere
  expect(page.url()).toBe(`${gateway.url}/console/#/jobs`)
  // What has failed is asked again once the page is there, but what the provider has said is of use only once.
  expect(signIns).toEqual([expect.stringContaining('callback'), JSON.stringify({ key: admin.key })])
})

test('whoever turns back at the provider is told so', async () => {
  const { page, go } = await visit(browser, gateway.url)
  await go('/jobs')
  await byProvider(page).click()
  await page.getByText('[ Cancel ]').click()
  await page.getByText(`${host()} has not let you in: access_denied.`).waitFor()
})

test('an answer that was meant for another browser lets nobody in', async () => {
  const { page, go } = await visit(browser, gateway.url)
  await go('/jobs')
  // The code stays unused: the page cannot hand it in.
  await page.route('**/ojs/v1/session', (route) =>
    route.request().method() === 'POST' ? route.abort() : route.continue(),
  )
  const led = page.waitForRequest(/\/console\/\?/)
  await byProvider(page).click()
  await enter(page, 'ada')
  const other = await visit(browser, gateway.url)
  await other.page.goto((await led).url())
  await other.page.getByText('This sign-in was not begun in this browser').waitFor()
  await byProvider(other.page).waitFor()
})
