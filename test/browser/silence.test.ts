import { expect, test } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { browserForAll, type Console, heldBack, visit } from './support/console.ts'

const { gateway } = gatewayForAll()
const browser = browserForAll()

/** Its clock goes on, and may be put forward. */
async function opened(path: string): Promise<Console> {
  const console = await visit(browser, gateway.url)
  await console.page.clock.install()
  await console.go(path)
  return console
}

test('a gateway that hangs is told, and the page heals by itself', async () => {
  await gateway.push('mail')
  const { page, go } = await opened('/queues')
  await page.getByRole('link', { name: 'mail' }).waitFor()
  const { letThrough } = await heldBack(page, /ojs\/v1/)
  const banner = page.getByText('The connection to the gateway is interrupted')
  const untilShown = async (isShown: boolean) =>
    eventually(async () => {
      await page.clock.fastForward(5_000)
      return (await banner.isVisible()) === isShown
    })
  await untilShown(true)
  await page.getByRole('link', { name: 'mail' }).waitFor()
  // A page that had no answer yet.
  await go('/jobs?q=queue:mail')
  await eventually(async () => {
    await page.clock.fastForward(5_000)
    return page.getByText('The gateway cannot be reached.').isVisible()
  })
  letThrough()
  await untilShown(false)
  await page.getByRole('link', { name: 'test.job' }).waitFor()
})

test('an action without an answer says that it may yet happen', async () => {
  await gateway.push('slow')
  const { page } = await opened('/queues/slow')
  const dialog = page.getByRole('dialog')
  const pause = await heldBack(page, /slow\/pause/)
  await page.getByRole('button', { name: 'Pause' }).click()
  await dialog.getByRole('button', { name: 'Pause' }).click()
  await dialog.getByText('Waiting for the answer').waitFor()
  await page.clock.fastForward(11_000)
  await dialog.getByText('There is no answer yet. It may still happen').waitFor()
  pause.letThrough()
  await page.getByText('slow is paused.').waitFor()
  // One that is done without a question has a dialog then.
  const resume = await heldBack(page, /slow\/resume/)
  await page.getByRole('button', { name: 'Resume' }).click()
  expect(await dialog.count()).toBe(0)
  await page.clock.fastForward(11_000)
  await dialog.getByText('There is no answer yet. It may still happen').waitFor()
  resume.letThrough()
  await page.getByText('slow goes on.').waitFor()
  await dialog.waitFor({ state: 'detached' })
})

test('a stream of events that is silent for too long is lost, and opened again', async () => {
  const { page } = await opened('/events')
  const live = page.getByText('live', { exact: true })
  await live.waitFor()
  await gateway.push('first')
  await page.getByText('job.enqueued').first().waitFor()
  const { letThrough } = await heldBack(page, /events\/stream/)
  await page.clock.fastForward(26_000)
  await page.getByText('connecting', { exact: true }).waitFor()
  // It goes on after the last event that came.
  const { id } = (await gateway.push('meanwhile')).body.job
  letThrough()
  await page.clock.fastForward(4_000)
  await live.waitFor()
  await page.getByRole('link', { name: id }).first().waitFor()
})
