import { expect, it } from 'vitest'
import { EntityChecker } from '../../src/broker/entity-checker.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { ofLogger } from './harness.ts'

const warningOf = (entity: string, message = 'it differs') => ({
  code: 'queue_differs',
  message,
  details: { entity },
})

it('keeps a thousand warnings at most: names of queues come from clients', () => {
  const lines: string[] = []
  const checker = new EntityChecker({
    options: { declare: 'lazy' },
    observer: SILENT_OBSERVER,
    logger: ofLogger(lines),
  })
  for (let i = 0; i < 1_100; i++) checker.warn(warningOf(`q${i}`))
  expect(checker.warnings()).toHaveLength(1_000)
  expect(lines).toHaveLength(1_000)
  // What is known may still change, and is told once.
  checker.warn(warningOf('q0', 'it is missing'))
  checker.warn(warningOf('q0', 'it is missing'))
  expect(checker.warnings()[0]).toMatchObject({ message: 'it is missing' })
  expect(lines).toHaveLength(1_001)
})
