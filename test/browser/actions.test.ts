import { expect, test } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { browserForAll, openedBy, visit } from './support/console.ts'
import { NIGHTLY_HOUR, sceneForAll } from './support/scene.ts'

const { gateway } = gatewayForAll()
const scene = sceneForAll(gateway)
const browser = browserForAll()
const open = (path: string) => openedBy(browser, gateway.url, path)

const ask = async (path: string) => (await gateway.request('GET', `/ojs/v1${path}`)).body

test('a queue is paused after a question, goes on, and is purged after a count', async () => {
  const page = await open('/queues/default')
  await page.getByRole('button', { name: 'Pause' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Workers get no more jobs').waitFor()
  await dialog.getByRole('button', { name: 'Back' }).click()
  expect((await ask('/admin/queues/default')).paused).toBe(false)
  await page.getByRole('button', { name: 'Pause' }).press('Enter')
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(await page.locator(':focus').textContent()).toBe('Pause')
  await page.getByRole('button', { name: 'Pause' }).click()
  await dialog.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('default is paused.').waitFor()
  expect((await ask('/admin/queues/default')).paused).toBe(true)
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('default goes on.').waitFor()
  expect((await ask('/admin/queues/default')).paused).toBe(false)

  await page.getByRole('button', { name: 'Purge' }).click()
  await dialog.getByLabel('completed').uncheck()
  await dialog.getByLabel('scheduled').check()
  await dialog.getByRole('button', { name: 'Count first' }).click()
  await dialog.getByText('1 job would be deleted.').waitFor()
  expect((await ask('/admin/queues/default')).counts.scheduled).toBe(1)
  await dialog.getByRole('button', { name: 'Delete 1 job' }).click()
  await page.getByText('1 job is deleted.').waitFor()
  expect((await ask('/admin/queues/default')).counts).toMatchObject({ scheduled: 0, available: 2 })
})

test('a job tells everything that keeps it waiting', async () => {
  const pushTo = async (queue: string, more: object) =>
    (await gateway.push(queue, { options: { timeout_ms: 0, ...more } })).body.job.id as string
  const concurrency = { key: 'customer-42', limit: 1 }
  await pushTo('exports-of-one', { concurrency })
  await gateway.fetch(['exports-of-one'], { worker_id: 'exporter', wait_ms: 30_000 })
  const held = await pushTo('exports-of-one', { concurrency })
  const limited = await pushTo('slow-ones', { rate_limit: { max_per_second: 0.01 } })
  const page = await open(`/jobs/${held}`)
  await page.getByText('its concurrency key customer-42 run as may (1)').waitFor()
  await gateway.request('POST', '/ojs/v1/admin/queues/exports-of-one/pause', {})
  await page.getByText('Its queue exports-of-one is paused since').waitFor()
  expect(await page.getByText('No worker takes jobs').count()).toBe(0)
  await page.goto(`${gateway.url}/console/#/jobs/${limited}`)
  await page.getByText('at most 1 may start within 1 m 40 s').waitFor()
  await page.getByText('No worker takes jobs of slow-ones now.').waitFor()
  await page.getByRole('link', { name: 'The queue slow-ones' }).waitFor()
})

test('what comes within the hour is one list, of jobs and of recurring ones', async () => {
  await gateway.push('later', { type: 'soon.job', scheduled_at: '+PT10M' })
  await gateway.push('later', { type: 'late.job', scheduled_at: '+PT3H' })
  await gateway.push('failed-once', { type: 'retry.job', options: { retry: IN_20_MINUTES } })
  const [{ id }] = await gateway.fetch(['failed-once'], { worker_id: 'r', wait_ms: 30_000 })
  const error = { code: 'busy', message: 'busy', retryable: true }
  await gateway.request('POST', '/ojs/v1/workers/nack', { job_id: id, error })
  const far = Array.from({ length: 51 }, () => ({ ...FAR, args: [] }))
  await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: far })
  const minute = new Date(Date.now() + 5 * 60_000).getUTCMinutes()
  const hourly = { name: 'hourly', cron: `${minute} * * * *`, type: 'hourly.job', args: [] }
  await gateway.request('POST', '/ojs/v1/cron', hourly)
  const page = await open('/waiting')
  const row = (name: RegExp) => page.getByRole('row', { name })
  await row(/hourly\.job recurring: hourly/).waitFor()
  await row(/soon\.job scheduled later/).waitFor()
  const order = await page.getByRole('row').allInnerTexts()
  const places = ['hourly.job', 'soon.job', 'retry.job'].map((type) =>
    order.findIndex((text) => text.includes(type)),
  )
  expect(places).toEqual(places.toSorted((a, b) => a - b))
  expect(places).not.toContain(-1)
  expect(await row(/late\.job|nightly/).count()).toBe(0)
  await page.getByRole('button', { name: 'scheduled' }).click()
  await row(/late\.job/).waitFor()
  const pager = page.getByRole('navigation', { name: 'Pages of the list' })
  const total = /of (\d+)$/.exec((await pager.locator('span').textContent()) ?? '')?.[1]
  await pager.getByRole('button', { name: 'Next' }).click()
  await pager.getByText(`51 to ${total} of ${total}`).waitFor()
  await row(/late\.job/).waitFor({ state: 'detached' })
  expect(await row(/far\.job/).count()).toBe(Number(total) - 50)
  await pager.getByRole('button', { name: 'Previous' }).click()
  await row(/late\.job/).waitFor()
  await gateway.request('DELETE', '/ojs/v1/cron/hourly')
})

const IN_20_MINUTES = {
  max_attempts: 3,
  initial_interval: 'PT20M',
  max_interval: 'PT20M',
  jitter: false,
}
const FAR = { type: 'far.job', queue: 'later', scheduled_at: '+PT9H' }

test('a queue drains, is configured and deleted; a refusal says why', async () => {
  await gateway.request('POST', '/ojs/v1/queues', { name: 'exports' })
  const page = await open('/queues/exports')
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Drain' }).click()
  await dialog.getByRole('button', { name: 'Drain' }).click()
  await page.getByText('Drained: no job is left.').waitFor()
  expect((await ask('/admin/queues/exports')).state).toBe('draining')
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('exports goes on.').waitFor()
  expect((await ask('/admin/queues/exports')).state).toBe('active')

  await page.getByRole('button', { name: 'Change' }).click()
  await dialog.getByLabel('Default retry policy').fill('{"max_attempts": 7')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText('The retry policy is not JSON.').waitFor()
  await dialog.getByLabel('Default retry policy').fill('{"max_attempts": 7}')
  await dialog.getByLabel('Most messages that wait').fill('5')
  await dialog.getByRole('button', { name: 'Save' }).click()
  // This gateway may not set policies: what somebody else could set is told.
  await dialog.getByText('Set OJS_MANAGEMENT_URL').waitFor()
  await dialog.getByText('ojs-limits ojs.queue.exports').waitFor()
  await dialog.getByLabel('Most messages that wait').fill('')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('exports is changed.').waitFor()
  const { configuration } = await ask('/admin/queues/exports')
  expect(configuration).toEqual({ default_retry: { max_attempts: 7 } })
  // Only what was changed is sent.
  await page.getByRole('button', { name: 'Change' }).click()
  await dialog.getByLabel('Most bytes').fill('5')
  const put = page.waitForRequest((request) => request.method() === 'PUT')
  await dialog.getByRole('button', { name: 'Save' }).click()
  expect((await put).postDataJSON()).toEqual({ max_size_bytes: 5 })
  await dialog.getByRole('button', { name: 'Back' }).click()

  await page.getByRole('button', { name: 'Delete' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('exports is deleted.').waitFor()
  await page.getByRole('heading', { name: 'Queues' }).waitFor()
  expect((await gateway.request('GET', '/ojs/v1/admin/queues/exports')).status).toBe(404)

  const other = await open('/queues/default')
  await other.getByRole('button', { name: 'Delete' }).click()
  await other.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await other
    .getByRole('dialog')
    .getByText(/Request req_/)
    .waitFor()
  expect((await gateway.request('GET', '/ojs/v1/admin/queues/default')).status).toBe(200)
})

test('a queue and RabbitMQ tell what is in both, and the arguments of a queue', async () => {
  const page = await open('/queues/default')
  await page.getByText('Messages in RabbitMQ').waitFor()
  await page.getByText('Every job that waits or runs has its message.').waitFor()
  await page.goto(`${gateway.url}/console/#/rabbitmq`)
  await page.getByText('Set OJS_MANAGEMENT_URL').waitFor()
  await page
    .getByText(/^Nothing is lost: in all \d+ queues|fewer messages? than jobs/)
    .first()
    .waitFor()
  await page.getByRole('cell', { name: 'consuming' }).waitFor()
  await page.getByRole('button', { name: 'ojs.queue.default', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'ojs.queue.default' })
  await dialog.getByText('x-max-priority').waitFor()
  await dialog.getByRole('link', { name: 'default' }).click()
  await page.getByRole('heading', { name: 'default', exact: true }).waitFor()
})

test('a schema shows what it says and where it is used, and is deleted', async () => {
  const page = await open('/schemas')
  await page.getByRole('button', { name: 'urn:schema:email:1' }).click()
  const dialog = page.getByRole('dialog', { name: 'urn:schema:email:1' })
  await dialog.getByText('minItems').waitFor()
  await dialog.getByRole('link', { name: 'Jobs of the type email.send' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByText('There are no schemas of yours').waitFor()
  const { schemas } = await ask('/schemas')
  expect(schemas.map(({ uri }: { uri: string }) => uri)).not.toContain('urn:schema:email:1')
})

test('a job shows its message, and the system its ledger', async () => {
  const page = await open(`/jobs/${scene.waiting}`)
  await page.getByRole('button', { name: 'Show', exact: true }).click()
  await page.getByText('x-ojs-attempt').waitFor()
  await page.getByText('ojs.exchange.direct').waitFor()
  await page.getByRole('button', { name: 'Hide' }).click()
  await page.getByText('x-ojs-attempt').waitFor({ state: 'hidden' })
  await page.goto(`${gateway.url}/console/#/system`)
  await page.getByText(/of it free/).waitFor()
  await page.getByText('this virtual host').waitFor()
})

test('an error is shown with its jobs, and all that failed with it are retried', async () => {
  const page = await open('/failures')
  const first = await failed('disk_full', 'no space on disk 1')
  const other = await failed('net_down')
  const ids = [first, await failed('disk_full', 'no space on disk 22')]
  await page.reload()
  const names = page.locator('main [data-row]')
  const two = async () => {
    const all = await names.allInnerTexts()
    return all.filter((name) => ['disk_full', 'net_down'].includes(name)).join()
  }
  await page.getByRole('button', { name: 'Newest error' }).click()
  await eventually(async () => (await two()) === 'net_down,disk_full')
  await page.getByRole('button', { name: 'Last seen' }).click()
  await eventually(async () => (await two()) === 'disk_full,net_down')
  const row = page.getByRole('row', { name: 'disk_full' })
  await row.getByText('no space on disk').waitFor()
  await row.getByTitle('Differs from message to message').getByText('a number').waitFor()
  await row.getByRole('cell', { name: '2', exact: true }).waitFor()
  await row.getByRole('button', { name: 'disk_full' }).click()
  await page.getByRole('dialog').getByRole('link', { name: 'Show the jobs' }).click()
  await page.getByText('2 match').waitFor()
  await page.goBack()
  await row.getByRole('button', { name: 'disk_full' }).click()
  const group = page.getByRole('dialog', { name: 'disk_full' })
  // Discarded jobs cannot be cancelled.
  await group.getByRole('button', { name: 'Delete' }).waitFor()
  expect(await group.getByRole('button', { name: 'Cancel' }).count()).toBe(0)
  const retrying = page.getByRole('dialog', { name: 'Retry jobs' })
  await group.getByRole('button', { name: 'Retry' }).click()
  await retrying.waitFor()
  await page.keyboard.press('Escape')
  await retrying.waitFor({ state: 'detached' })
  await group.getByRole('button', { name: 'Retry' }).click()
  await page.getByRole('button', { name: 'Retry 2 jobs' }).click()
  await page.getByText('Done: 2 changed').waitFor()
  for (const id of ids) expect((await gateway.get(id)).body.job.state).toBe('available')
  for (const id of [other, scene.failed]) {
    expect((await gateway.get(id)).body.job.state).toBe('discarded')
  }
  await row.waitFor({ state: 'detached' })
  await gateway.request('POST', `/ojs/v1/admin/jobs/${other}/retry`, {})
})

/** A dead letter. */
async function failed(code: string, message = code): Promise<string> {
  const queue = `of-${code.replace('_', '-')}`
  const { id } = (await gateway.push(queue)).body.job
  const [job] = await gateway.fetch([queue], { worker_id: 'f', wait_ms: 30_000 })
  const error = { code, message, retryable: false }
  await gateway.request('POST', '/ojs/v1/workers/nack', { job_id: job.id, error })
  return id
}

test('a group of dead letters is retried', async () => {
  await failed('gone')
  const page = await open('/dead-letters')
  const dialog = page.getByRole('dialog')
  const retryTheOne = async () => {
    await page.getByRole('button', { name: 'Retry' }).click()
    await dialog.getByRole('button', { name: 'Retry 1 job' }).click()
    await page.getByText('Done: 1 changed').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).last().click()
  }
  const codes = page.locator('main tbody tr td:nth-child(3)')
  await eventually(async () => (await codes.count()) === 2)
  await page.getByRole('button', { name: 'SmtpRefused' }).click()
  await eventually(async () => (await codes.allInnerTexts()).join() === 'smtp_error')
  expect(page.url()).toContain('#/dead-letters?error_type=SmtpRefused')
  await page.reload()
  await eventually(async () => (await codes.allInnerTexts()).join() === 'smtp_error')
  await retryTheOne()
  expect((await gateway.get(scene.failed)).body.job.state).toBe('available')
  await page.getByText('No job matches.').waitFor()
  await page.getByRole('button', { name: 'SmtpRefused' }).click()
  await eventually(async () => (await codes.allInnerTexts()).join() === 'gone')
  await retryTheOne()
  await page.getByText('No dead letters').waitFor()
})

test('a recurring job runs now, pauses, goes on, and shows its runs', async () => {
  const page = await open('/cron')
  await page.getByRole('button', { name: 'Run now' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Run now' }).click()
  await page.getByText('nightly has made a job.').waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('nightly is paused.').waitFor()
  expect(
    (await ask('/cron/nightly')).enabled ?? (await ask('/cron/nightly')).cron_job?.enabled,
  ).toBe(false)
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('nightly goes on.').waitFor()
  await page.getByRole('button', { name: 'nightly', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'nightly' })
  await dialog.getByText('available').waitFor()
  const time = `${String(NIGHTLY_HOUR).padStart(2, '0')}:00`
  await dialog.getByText(`At ${time}`).waitFor()
  expect(await dialog.getByRole('cell', { name: time }).count()).toBe(5)
})

test('a recurring job is made, changed and deleted, and its times are told while they are written', async () => {
  const page = await open('/cron')
  await page.getByRole('button', { name: 'New recurring job' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('weekly')
  await dialog.getByLabel('Time zone').fill('Asia/Tokyo')
  await dialog.getByLabel('When').fill('15 7 * *')
  await dialog.getByText('it has 4 fields, not 5 or 6').waitFor()
  // Words that are wrong are worse than none.
  await dialog.getByLabel('When').fill('0,5,7-30/3 3 29 2 *')
  await dialog
    .getByRole('cell', { name: /Feb 29.* 03:00$/ })
    .first()
    .waitFor()
  expect(await dialog.getByText('past the hour').count()).toBe(0)
  await dialog.getByLabel('When').fill('*/20 * * * * *')
  await dialog
    .getByRole('cell', { name: /:\d\d:20$/ })
    .first()
    .waitFor()
  await dialog.getByLabel('When').fill('15 7 * * mon')
  await dialog.getByText('At 07:15, only on Monday').waitFor()
  await dialog
    .getByRole('cell', { name: /^Mon, .*07:15$/ })
    .first()
    .waitFor()
  await dialog.getByLabel('Type').fill('report.week')
  await dialog.getByLabel('Arguments').fill('{}')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText('The arguments are not a JSON list.').waitFor()
  await dialog.getByLabel('Arguments').fill('[7]')
  await dialog.getByLabel('Queue').fill('reports')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('weekly is saved.').waitFor()
  const made = (await ask('/cron/weekly')).cron_job
  expect(made).toMatchObject({ cron: '15 7 * * mon', timezone: 'Asia/Tokyo', args: [7] })
  expect(made.options).toMatchObject({ queue: 'reports' })

  await page.getByRole('button', { name: 'weekly', exact: true }).click()
  await dialog.getByRole('button', { name: 'Change' }).click()
  await dialog.getByLabel('While an earlier job runs').selectOption('run both')
  // What a program has written beside it stays as it is.
  const patch = page.waitForRequest((request) => request.method() === 'PATCH')
  await dialog.getByRole('button', { name: 'Save' }).click()
  expect((await patch).postDataJSON()).toEqual({ overlap_policy: 'allow' })
  await dialog.waitFor({ state: 'detached' })
  expect((await ask('/cron/weekly')).cron_job).toEqual({ ...made, overlap_policy: 'allow' })

  await page.getByRole('button', { name: 'weekly', exact: true }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog', { name: 'Delete' }).getByRole('button', { name: 'Delete' }).click()
  await page.getByText('weekly is deleted.').waitFor()
  expect((await gateway.request('GET', '/ojs/v1/cron/weekly')).status).toBe(404)
})

test('a workflow is cancelled', async () => {
  const page = await open(`/workflows/${scene.workflow}`)
  await page.getByText('0 of 4 steps are done').waitFor()
  const graph = page.getByRole('region', { name: 'Graph of the steps' })
  await graph.getByText('ship', { exact: true }).waitFor()
  const [pay] = await gateway.fetch(['orders'], { worker_id: 'cashier', wait_ms: 30_000 })
  await graph.locator('.active').getByText('pay', { exact: true }).waitFor()
  await gateway.ack(pay.id, { result: { receipt: 'r-17' } })
  await graph.locator('.completed').getByText('pay', { exact: true }).waitFor()
  await graph.locator('.available').getByText('pack', { exact: true }).waitFor()
  await graph.getByRole('button', { name: 'pay' }).press('Enter')
  await page.locator(':focus').getByText('r-17').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('The workflow is cancelled.').waitFor()
  await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor({ state: 'detached' })
  expect((await ask(`/workflows/${scene.workflow}`)).state).toBe('cancelled')
})

test('a worker shows its jobs, and gets no more of them', async () => {
  const page = await open('/workers')
  // For how long its longest job runs.
  await page.getByRole('row', { name: /resizer-1 .*\d m?s? ?image\.resize/ }).waitFor()
  await page.getByRole('button', { name: 'resizer-1' }).click()
  await page.getByRole('dialog').getByRole('link', { name: 'image.resize' }).waitFor()
  await page.keyboard.press('Escape')
  // A worker that was silent for 30 s is stale; then it could only be removed.
  await gateway.request('POST', '/ojs/v1/workers/heartbeat', { worker_id: 'resizer-1' })
  const row = page.getByRole('row', { name: 'resizer-1' })
  await row.getByRole('button', { name: 'Quiet' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Quiet' }).click()
  await page.getByText('resizer-1 gets no more jobs.').waitFor()
  expect((await ask('/admin/workers/resizer-1')).directive).toBe('quiet')
  await row.getByRole('button', { name: 'Quiet' }).waitFor({ state: 'detached' })
  expect(await page.getByText('stuck').count()).toBe(0)
  await page.clock.setSystemTime(Date.now() + 2 * 3_600_000)
  await page.getByText('resizer-1 may be stuck').waitFor()
  await page.getByText('It has run image.resize for 2 h').waitFor()
  await page.getByText('No job of images has ended within a day.').waitFor()
  await row.getByText('stuck?').waitFor()
})

test('what workers and producers call their things cannot turn the text around it', async () => {
  const worker_id = 'w\u202Eknird'
  await gateway.request('POST', '/ojs/v1/workers/heartbeat', { worker_id, hostname: 'h\u202Etsoh' })
  const steps = [{ id: 'a\u202Ea', type: 'some.step', args: [] }]
  const { workflow } = (
    await gateway.request('POST', '/ojs/v1/workflows', { name: 'f\u202Ewolf', steps })
  ).body
  const entry = { name: 'odd', cron: '0 0 29 2 *', type: 'odd.job', args: [] }
  await gateway.request('POST', '/ojs/v1/cron', { ...entry, description: 'd\u202Ecsed' })
  const { page, go } = await visit(browser, gateway.url)
  await go('/workers')
  await page.getByText('h\\u202etsoh').waitFor()
  await page.getByRole('button', { name: 'w\\u202eknird', exact: true }).click()
  await page.getByRole('dialog', { name: 'w\\u202eknird' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('row', { name: 'knird' }).getByRole('button', { name: 'Quiet' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Quiet' }).click()
  await page.getByText('w\\u202eknird gets no more jobs.').waitFor()
  await go('/workflows')
  await page.getByRole('link', { name: 'f\\u202ewolf' }).waitFor()
  await go(`/workflows/${workflow.id}`)
  await page.getByRole('heading', { name: 'f\\u202ewolf' }).waitFor()
  await page.getByRole('heading', { name: 'a\\u202ea' }).waitFor()
  expect(await page.title()).toContain('f\\u202ewolf')
  await go('/cron')
  // The next leap day is in another year.
  await page
    .getByRole('row', { name: 'odd' })
    .getByText(/Feb 29, 20\d\d/)
    .waitFor()
  await page.getByRole('button', { name: 'odd', exact: true }).click()
  await page.getByRole('dialog').getByText('d\\u202ecsed').waitFor()
  expect(await page.content()).not.toContain('\u202E')
  await gateway.request('DELETE', '/ojs/v1/cron/odd')
})

test('in a narrow window the navigation shows where a detail page belongs', async () => {
  const viewport = { width: 390, height: 844 }
  const { page, go } = await visit(browser, gateway.url, { viewport })
  await go(`/workflows/${scene.workflow}`)
  const nav = page.getByRole('navigation', { name: 'Pages', exact: true })
  const isShown = (name: string) =>
    eventually(async () => {
      const box = await nav.getByRole('link', { name, exact: true }).boundingBox()
      return box !== null && box.x >= 0 && box.x + box.width <= viewport.width
    })
  await isShown('Workflows')
  await go('/')
  await isShown('Overview')
})

test('events appear as they happen', async () => {
  const page = await open('/events')
  await page.getByText('live', { exact: true }).waitFor()
  const { id } = (await gateway.push('events-of-it')).body.job
  await page.getByRole('link', { name: id }).first().waitFor()
  await page.getByText('job.enqueued').first().waitFor()
  await page.getByRole('combobox', { name: 'Events' }).selectOption('queue.*')
  await page.getByText('live', { exact: true }).waitFor()
  await gateway.push('events-of-it')
  await gateway.request('POST', '/ojs/v1/admin/queues/events-of-it/pause', {})
  await page.getByText('queue.paused').waitFor()
  expect(await page.getByText('job.enqueued').count()).toBe(0)
  await page.getByRole('button', { name: 'Hold' }).click()
  await page.getByText('held', { exact: true }).waitFor()
})

test('maintenance begins and ends', async () => {
  const page = await open('/system')
  await page.getByRole('button', { name: 'Begin maintenance' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Begin maintenance' }).click()
  await page.getByText('new jobs are refused until it ends').waitFor()
  expect((await ask('/admin/maintenance')).enabled).toBe(true)
  await page.getByRole('button', { name: 'End maintenance' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'End maintenance' }).click()
  await page.getByText('Maintenance is over.').waitFor()
  expect((await ask('/admin/maintenance')).enabled).toBe(false)
})

test('a gateway that is away is told, and the page heals by itself when it is back', async () => {
  const page = await open('/queues')
  await page.getByRole('link', { name: 'default' }).waitFor()
  const { port } = new URL(gateway.url)
  await gateway.stop()
  await page.getByText('The connection to the gateway is interrupted').waitFor()
  // What was there stays to be read.
  await page.getByRole('link', { name: 'default' }).waitFor()
  // A page of the list is asked for once.
  await page.goto(`${gateway.url}/console/#/jobs?q=queue:default`)
  await page.getByText('The gateway cannot be reached.').waitFor()
  await gateway.restart({ OJS_PORT: port })
  await page.getByText('The connection to the gateway is interrupted').waitFor({ state: 'hidden' })
  await page.getByRole('link', { name: 'invoice.pdf' }).waitFor()
  await page.goto(`${gateway.url}/console/#/queues`)
  await gateway.push('after-the-restart')
  await page.getByRole('link', { name: 'after-the-restart' }).waitFor()
})
