import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { browserForAll, heldBack, openedBy, visit } from './support/console.ts'
import { HOSTILE, sceneForAll } from './support/scene.ts'

const FAR = '2099-01-01T00:00:00Z'
const { gateway } = gatewayForAll()
const scene = sceneForAll(gateway)
const browser = browserForAll()
const open = (path: string) => openedBy(browser, gateway.url, path)

const stateOf = async (id: string) => (await gateway.get(id)).body.job.state

test('the search completes what is written, finds, and is in the address', async () => {
  const page = await open('/jobs')
  const search = page.getByRole('combobox', { name: 'Search jobs' })
  await page.getByRole('link', { name: 'email.digest' }).waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('sta')
  await page.getByRole('option', { name: 'state:' }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.keyboard.type('dis')
  await page.getByRole('option', { name: 'state:discarded' }).click()
  await page.getByText('1 match').waitFor()
  expect(await page.getByRole('link', { name: 'email.send' }).count()).toBe(1)
  expect(decodeURIComponent(page.url())).toMatch(/#\/jobs\?q=state:discarded$/)
  await search.fill('meta.tenant:t7 type:invoice.*')
  await search.press('Enter')
  await page.getByRole('link', { name: 'invoice.pdf' }).waitFor()
  await page.goBack()
  await page.getByRole('link', { name: 'email.send' }).waitFor()
  expect(await search.inputValue()).toBe('state:discarded')
  await search.fill('nonsense:1 queue:unheard-of')
  await search.press('Enter')
  await page.getByText('Not understood, and left out: nonsense:1').waitFor()
  await page.getByText('No job matches.').waitFor()
})

test('a search goes on until it finds, however many jobs do not match', async () => {
  const job = (n: number) => ({ type: 'vast.job', args: [n], queue: 'vast', delay_until: FAR })
  const push = (jobs: object[]) => gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  await push([job(-1)])
  for (let i = 0; i < 4_000; i += 500) await push(Array.from({ length: 500 }, (_, n) => job(i + n)))
  const page = await open('/jobs?q=queue:vast args:[-1]')
  await page.getByRole('link', { name: 'vast.job' }).waitFor()
  expect(await page.getByRole('link', { name: 'vast.job' }).count()).toBe(1)
  await page.getByRole('combobox', { name: 'Search jobs' }).fill('queue:vast args:[-2]')
  await page.keyboard.press('Enter')
  await page.getByText('No job matches.').waitFor()
})

test('a job of another person is text, whatever it contains', async () => {
  const page = await open(`/jobs/${scene.hostile}`)
  await page.getByText(HOSTILE.script).waitFor()
  expect(await page.title()).toContain('hostile.job')
  await page.getByText('safe\\u202efdp.exe').waitFor()
  await page.getByText(HOSTILE.emoji).waitFor()
  await page.getByRole('button', { name: '998000 more characters' }).waitFor()
  const texts = await page.locator('.tree-text').allTextContents()
  expect(Math.max(...texts.map(({ length }) => length))).toBe(2_002)
  expect(await page.locator('img[src="x"]').count()).toBe(0)
})

test('a dead letter tells why, is retried, and the page shows it at once', async () => {
  const page = await open(`/jobs/${scene.failed}`)
  await page.getByText('550 <b>mailbox</b> unavailable').waitFor()
  await page.getByText('at send (mail.js:7)').first().waitFor({ state: 'attached' })
  await page.getByText('a dead letter').first().waitFor()
  await page.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('The job runs again.').waitFor()
  await page.getByText('It has not begun.').waitFor()
  expect(await stateOf(scene.failed)).toBe('available')
  await page.getByRole('button', { name: 'Retry' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('It was cancelled and will not run.').waitFor()
  expect(await stateOf(scene.failed)).toBe('cancelled')
})

test('a job that is deleted elsewhere is gone from its page, and so is what could be done with it', async () => {
  const { id } = (await gateway.push('short', { type: 'short.lived' })).body.job
  await gateway.request('DELETE', `/ojs/v1/jobs/${id}`)
  const page = await open(`/jobs/${id}`)
  await page.getByRole('button', { name: 'Retry' }).waitFor()
  await gateway.request('DELETE', `/ojs/v1/admin/jobs/${id}`)
  await page.getByText(`Job '${id}' not found.`).waitFor()
  expect(await page.getByRole('button', { name: 'Retry' }).count()).toBe(0)
})

test('a copy with changes is a new job, and a refusal tells the request', async () => {
  const page = await open(`/jobs/${scene.waiting}`)
  await page.getByRole('button', { name: 'Copy with changes' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Arguments').fill('[{"n": 2')
  await dialog.getByRole('button', { name: 'Enqueue the copy' }).click()
  await dialog.getByText('The arguments are not JSON.').waitFor()
  await dialog.getByLabel('Arguments').fill('[{"n": 2}]')
  await dialog.getByLabel('Queue').fill('NO SUCH')
  await dialog.getByRole('button', { name: 'Enqueue the copy' }).click()
  await dialog.getByText(/Request req_/).waitFor()
  await dialog.getByLabel('Queue').fill('copies')
  await dialog.getByLabel('Priority').fill('7')
  await dialog.getByLabel('Arguments').fill('[9007199254740993]')
  await dialog.getByRole('button', { name: 'Enqueue the copy' }).click()
  await dialog.getByText('The number 9007199254740993 cannot be kept exactly.').waitFor()
  await dialog.getByLabel('Arguments').fill('[{ "n": 2 }]')
  await dialog.getByRole('button', { name: 'Enqueue the copy' }).click()
  await page.getByText('Copy of').waitFor()
  const id = /jobs\/([\w-]+)$/.exec(page.url())?.[1] ?? ''
  expect((await gateway.get(id)).body.job).toMatchObject({
    queue: 'copies',
    args: [{ n: 2 }],
    priority: 7,
  })
})

test('what is selected stays so for who comes back from a job, and is nothing in another list', async () => {
  const page = await open('/jobs')
  const some = page.getByText('1 selected:')
  await page.getByRole('row', { name: 'email.digest' }).getByRole('checkbox').check()
  await some.waitFor()
  await page.getByRole('link', { name: 'email.digest' }).click()
  await page.getByRole('heading', { name: 'email.digest' }).waitFor()
  await page.goBack()
  await some.waitFor()
  await page.getByRole('combobox', { name: 'Search jobs' }).fill('type:email.*')
  await page.keyboard.press('Enter')
  await page.getByText('All that match:').waitFor()
  await page.goBack()
  await some.waitFor()
})

test('all that match are cancelled after a dry run; others stay', async () => {
  const batch = Array.from({ length: 30 }, () => ({ type: 'bulk.job', args: [], queue: 'bulk' }))
  await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: batch })
  const page = await open('/jobs?q=queu:bulk state:available')
  // Without the misspelt term the rest finds the jobs of every queue.
  await page.getByText('Select some, or correct the search:').waitFor()
  expect(await page.getByRole('button', { name: 'Cancel' }).isEnabled()).toBe(false)
  await page.getByRole('combobox', { name: 'Search jobs' }).fill('queue:bulk')
  await page.keyboard.press('Enter')
  await page.getByText('30 match').waitFor()
  // The buttons would act on the search that was run.
  await page.getByRole('combobox', { name: 'Search jobs' }).fill('queue:bulk type:one')
  await page.getByText('Select some, or press Enter to search:').waitFor()
  expect(await page.getByRole('button', { name: 'Cancel' }).isEnabled()).toBe(false)
  await page.getByRole('combobox', { name: 'Search jobs' }).fill('queue:bulk ')
  await page.keyboard.press('Escape')
  const dialog = page.getByRole('dialog')
  const { letThrough } = await heldBack(page, /bulk\/cancel/)
  await page.getByRole('button', { name: 'Cancel' }).click()
  // Nobody consents to what is not counted yet.
  expect(await dialog.getByRole('button', { name: 'Cancel 0 jobs' }).isDisabled()).toBe(true)
  letThrough()
  await dialog.getByText('30 jobs would be changed.').waitFor()
  await dialog.getByText('Search: queue: bulk').waitFor()
  expect(await stateOf(scene.waiting)).toBe('available')
  await dialog.getByRole('button', { name: 'Cancel 30 jobs' }).click()
  await dialog.getByText('Done: 30 changed, 0 left alone.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  // The rows in view become what they are now, without moving.
  await page.getByRole('cell', { name: 'cancelled' }).first().waitFor()
  expect(await stateOf(scene.waiting)).toBe('available')
})

test('selected jobs alone are deleted', async () => {
  const batch = Array.from({ length: 3 }, () => ({ type: 'few.job', args: [], queue: 'few' }))
  const { jobs } = (await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: batch })).body
  for (const { id } of jobs) await gateway.cancel(id)
  const page = await open('/jobs?q=queue:few')
  await page.getByRole('checkbox', { name: `Select ${jobs[2].id}` }).check()
  await page.getByText('1 selected:').waitFor()
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByText('1 job would be deleted for good.').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete 1 job' }).click()
  await page.getByText('Done: 1 changed').waitFor()
  expect((await gateway.get(jobs[2].id)).status).toBe(404)
  expect((await gateway.get(jobs[0].id)).status).toBe(200)
  // Another one is the newest when the newest is gone, which is no news.
  await page.getByText('2 match').waitFor()
  await gateway.request('DELETE', `/ojs/v1/admin/jobs/${jobs[1].id}`)
  await page.getByText('1 match').waitFor()
  expect(await page.getByRole('button', { name: 'New jobs' }).count()).toBe(0)
})

test('the list stays where it is read: new jobs wait for a click, rows in view change in place', async () => {
  const { id } = (await gateway.push('live')).body.job
  const page = await open('/jobs?q=queue:live')
  await page.getByText('1 match').waitFor()
  await gateway.push('live')
  await page.getByRole('button', { name: 'New jobs' }).waitFor()
  expect(await page.locator('[data-row]').count()).toBe(1)
  await gateway.cancel(id)
  await page.getByRole('cell', { name: 'cancelled' }).waitFor()
  expect(await page.locator('[data-row]').count()).toBe(1)
  await page.getByRole('button', { name: 'New jobs' }).click()
  await eventually(async () => (await page.locator('[data-row]').count()) === 2)
})

test('all that match are a file of JSON lines or CSV, and a reading that was stopped goes on', async () => {
  await pushPending('exported', 250, (n) => ({ args: [`=${n}`], meta: { n } }))
  const page = await open('/jobs?q=queue:exported')
  await page.getByText('250 match').waitFor()
  const dialog = page.getByRole('dialog')
  // The second page comes when it is let through.
  const { letThrough } = await heldBack(page, /cursor=/)
  await page.getByRole('button', { name: 'Export' }).click()
  await dialog.getByRole('button', { name: 'Begin' }).click()
  await dialog.getByText('100 of 250 …').waitFor()
  await dialog.getByRole('button', { name: 'Stop' }).click()
  await dialog.getByRole('button', { name: 'Save the file' }).waitFor()
  letThrough()
  await dialog.getByRole('button', { name: 'Go on' }).click()
  await dialog.getByText('250 jobs are in the file.').waitFor()
  const lines = (await saved(page)).trimEnd().split('\n')
  const numbers = lines.map((line) => JSON.parse(line).meta.n)
  expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 250 }, (_, n) => n))
  await dialog.getByRole('button', { name: 'Close' }).last().click()

  await page
    .getByRole('checkbox', { name: /^Select \w+-/ })
    .first()
    .check()
  await page.getByRole('button', { name: 'Export' }).click()
  await dialog.getByLabel('CSV').check()
  await dialog.getByRole('button', { name: 'Begin' }).click()
  await dialog.getByText('1 job is in the file.').waitFor()
  const csv = (await saved(page)).split('\r\n')
  expect(csv).toHaveLength(3)
  expect(csv[0]).toMatch(/^id,type,queue,/)
  expect(csv[1]).toContain(',exported,pending,')
})

async function saved(page: Page): Promise<string> {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('dialog').getByRole('button', { name: 'Save the file' }).click(),
  ])
  return readFileSync(await file.path(), 'utf8')
}

test('of 100,000 jobs the page has few rows, which stay where they are when others come', async () => {
  await pushPending('long', 100_000, () => ({ type: 'long.job' }))
  const page = await open('/jobs?q=queue:long')
  await page.getByText('100,000 match').waitFor()
  const list = page.getByRole('region', { name: 'Jobs' })
  await list.getByRole('link').first().waitFor()
  const rows = () => list.getByRole('row').count()
  const readTo = (count: number) =>
    eventually(async () => {
      await list.evaluate((box) => {
        box.scrollTop = box.scrollHeight
      })
      expect(await rows()).toBeLessThan(80)
      return (await list.evaluate((box) => box.scrollHeight)) > 44 * count
    }, 120_000)
  await readTo(900)
  // What was read is not read again after a change.
  await list.getByRole('checkbox').last().check()
  await page.getByRole('button', { name: 'Cancel' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Cancel 1 job' }).click()
  await dialog.getByText('Done: 1 changed').waitFor()
  await eventually(async () => (await list.evaluate((box) => box.scrollHeight)) < 44 * 500)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await readTo(2_000)
  const all = list.getByRole('checkbox', { name: 'Select all that are loaded' })
  await all.check()
  await page.getByText('Select at most 1,000, or none for all that match.').waitFor()
  expect(await page.getByRole('button', { name: 'Cancel' }).isEnabled()).toBe(false)
  await all.uncheck()
  await page.getByText('All that match:').waitFor()
  const middle = await list.evaluate((box) => {
    box.scrollTop = 44 * 1_000
    return box.scrollTop
  })
  const row = list.locator('tr[aria-rowindex="1010"]').getByRole('link')
  const [id, place] = [await row.getAttribute('title'), await row.boundingBox()]
  await gateway.push('long', { type: 'newest.job' })
  await page.getByRole('button', { name: 'New jobs' }).waitFor()
  expect(await list.evaluate((box) => box.scrollTop)).toBe(middle)
  expect([await row.getAttribute('title'), await row.boundingBox()]).toEqual([id, place])
  await page.getByRole('button', { name: 'New jobs' }).click()
  await list.getByRole('link', { name: 'newest.job' }).waitFor()
  expect(await rows()).toBeLessThan(80)
})

/** Jobs that wait for their activation, so that RabbitMQ has nothing to do with them. */
async function pushPending(
  queue: string,
  count: number,
  more: (n: number) => object = () => ({}),
): Promise<void> {
  for (let at = 0; at < count; at += 1_000) {
    const jobs = Array.from({ length: Math.min(1_000, count - at) }, (_, i) => ({
      ...{ type: `job-${at + i}`, args: [], queue, options: { pending: true } },
      ...more(at + i),
    }))
    await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  }
}

test('keys lead along the list and to other pages', async () => {
  const page = await open('/jobs')
  await page.locator('[data-row]').first().waitFor()
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.keyboard.press('x')
  await page.getByText('1 selected:').waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('?gs')
  expect(await page.getByRole('combobox', { name: 'Search jobs' }).inputValue()).toBe('?gs')
  expect(await page.getByRole('dialog').count()).toBe(0)
  await page.locator('[data-row]').first().focus()
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keys' }).waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Go to' }).fill('quarant')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'quarantine' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('y')
  await page.getByRole('heading', { name: 'System' }).waitFor()
})

test('a German browser gets German, and English when that is chosen', async () => {
  await pushPending('deutsch', 1_234)
  const { page, go } = await visit(browser, gateway.url, { locale: 'de-DE' })
  await go('/jobs?q=queue:deutsch')
  await page.getByText('1.234 passen').waitFor()
  expect(await page.locator('html').getAttribute('lang')).toBe('de')
  await page.getByLabel('Sprache').selectOption('English')
  await page.getByText('1,234 match').waitFor()
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  await page.reload()
  await page.getByRole('link', { name: 'Overview' }).waitFor()
})
