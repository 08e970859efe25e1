import { expect, test } from 'vitest'
import type { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import { AmqpNotes } from '../../src/worker/lease-notes.ts'

test('AmqpNotes.lastCheckpoint() of a job that nobody has begun does not wait for a gateway', async () => {
  const asked: string[] = []
  const deps = {
    tell: async () => true,
    checkpointOf: async (_queue: string, id: string) => {
      asked.push(id)
      return null
    },
  }
  const fresh = { id: 'j', queue: 'q', generation: 0, redelivered: false } as LiveDelivery
  const job = { delivery: () => fresh, attempt: 1, workerId: () => 'w' }
  expect(await new AmqpNotes(deps, job).lastCheckpoint()).toBeUndefined()
  expect(asked).toEqual(['j'])
})
