import { expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import { logger, ofLogger } from '../harness.ts'

const warningOf = (entity: string, message = 'it differs') => ({
  code: 'queue_differs',
  message,
  details: { entity },
})

it('the checker keeps a thousand warnings at most, because names of queues come from clients', () => {
  const lines: string[] = []
  const checker = new EntityChecker({
    options: { declare: 'lazy' },
    observer: SILENT_OBSERVER,
    logger: ofLogger(lines),
  })
  for (let i = 0; i < 1_100; i++) checker.warn(warningOf(`q${i}`))
  expect(checker.warnings()).toHaveLength(1_000)
  expect(lines).toHaveLength(1_000)
  // A warning that is known may still change, and each change is logged once.
  checker.warn(warningOf('q0', 'it is missing'))
  checker.warn(warningOf('q0', 'it is missing'))
  expect(checker.warnings()[0]).toMatchObject({ message: 'it is missing' })
  expect(lines).toHaveLength(1_001)
})

it('the checker drops a passing warning 30 checks after it was last given, and keeps all others', async () => {
  const options = { declare: 'lazy' } as const
  const checker = new EntityChecker({ options, observer: SILENT_OBSERVER, logger })
  // No entity is missing, so RabbitMQ is not asked.
  const scratch = new ScratchChannel({} as Connection)
  const look = async (times: number) => {
    for (let i = 0; i < times; i++) await checker.lookAgain(scratch)
    return checker.warnings().map(({ details }) => details?.['entity'])
  }
  for (const name of ['stays', 'passes']) checker.warn(warningOf(name))
  checker.letPass([{ name: 'passes' }, { name: 'told later' }])
  checker.warn(warningOf('told later'))
  expect(await look(29)).toEqual(['stays', 'passes', 'told later'])
  checker.letPass([{ name: 'passes' }])
  expect(await look(29)).toEqual(['stays', 'passes', 'told later'])
  expect(await look(1)).toEqual(['stays', 'told later'])
  expect(await look(30)).toEqual(['stays', 'told later'])
})
