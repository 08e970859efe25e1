/** How the bodies of repeated requests are compared. */
import { beforeEach, expect, it } from 'vitest'
import { canonicalJson, sha256 } from '../../../src/job/values/canonical-json.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, { publish: async () => 'confirmed' })
})

const bodyOf = (text: string) => ({ type: 'a', args: [text], options: { queue: 'q' } })
const [COMPOSED, APART] = [bodyOf('\u00e9'), bodyOf('e\u0301')]
const OTHER_BODY = { code: 'duplicate', details: { reason: 'other_body' } }

async function keyed(body: object): Promise<string> {
  const { job } = await push(stage.deps, body, { requestId: 'req_1', idempotencyKey: 'k' })
  return job.id
}

it('texts count as they were sent, not in NFC', async () => {
  const id = await keyed(APART)
  expect(await keyed(APART)).toBe(id)
  await expect(keyed(COMPOSED)).rejects.toMatchObject(OTHER_BODY)
})

it('a request that an earlier version remembered, by its text in NFC, is answered again', async () => {
  const id = await keyed(APART)
  const hash = sha256(canonicalJson(COMPOSED))
  harness.db.exec(`UPDATE idempotency_keys SET fingerprint = '${hash}'`)
  expect(await keyed(APART)).toBe(id)
  await expect(keyed(bodyOf('e'))).rejects.toMatchObject(OTHER_BODY)
})
