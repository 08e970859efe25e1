import { expect, test } from 'vitest'
import { infoInOrder } from '../../../src/operations/info.ts'
import { nativeClaim } from '../../../src/operations/native/claim.ts'
import { pushed } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()

/** Another gateway, which stands still, may have been given reports about jobs of the queue. */
function whileReportsAreOut(queue: string) {
  let isOut = true
  const { deps } = onToldBroker(harness, { mayReportsReturn: (name) => isOut && name === queue })
  return { deps, back: () => (isOut = false) }
}

test('a native worker keeps what may have run, until a gateway has all reports about it', async () => {
  const { deps, back } = whileReportsAreOut('default')
  const { id } = await pushed(harness.ledger)
  const ask = (more: object = {}) =>
    nativeClaim(
      deps,
      { job_id: id, attempt: 1, worker_id: 'w', ...more },
      { queue: 'default', redelivered: false },
    )
  const later = { decision: 'requeue', attempt: 1 }
  expect(await ask()).toEqual(later)
  expect(await ask({ redelivered: true })).toEqual(later)
  expect(await ask({ redelivered: false, attempt: 2 })).toEqual({ ...later, attempt: 2 })
  expect(await ask({ redelivered: false, generation: 1 })).toEqual(later)
  expect(await ask({ redelivered: false })).toMatchObject({ decision: 'run' })
  back()
  expect(await ask()).toMatchObject({ decision: 'run' })
})

test('a question for a job is to be repeated until then', async () => {
  const { deps, back } = whileReportsAreOut('default')
  const { id } = await pushed(harness.ledger)
  const info = infoInOrder(deps, id, 'default')
  await expect(info).rejects.toMatchObject({ status: 503, details: { reason: 'busy' } })
  back()
  expect(await infoInOrder(deps, id, 'default')).toMatchObject({ job: { id } })
})

test('a repeated question of a worker whose attempt has begun is answered so all the same', async () => {
  const { deps } = whileReportsAreOut('default')
  const { id } = await pushed(harness.ledger, { carry: { concurrency: { key: 'k', limit: 1 } } })
  const ask = (redelivered: boolean, given: object) =>
    nativeClaim(
      deps,
      { job_id: id, attempt: 1, worker_id: 'w', keyed: true, ...given },
      { queue: 'default', redelivered },
    )
  const begun = { decision: 'run', attempt: 1, started: true }
  expect(await ask(false, { redelivered: false })).toEqual(begun)
  expect(await ask(true, {})).toEqual(begun)
})
