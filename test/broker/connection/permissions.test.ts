import { expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { Denials } from '../../../src/broker/connection/permissions.ts'

/** A connection that the test can take down. */
function fakeConnection() {
  let down = () => {}
  const connection = {
    listen: (listener: { down(): void }) => {
      down = listener.down
    },
  } as unknown as Connection
  return { connection, goDown: () => down() }
}

const refusal = (exchange: string) =>
  `ACCESS_REFUSED - access to exchange '${exchange}' in vhost '/' refused for user 'u'`

function open() {
  const lines: string[] = []
  const warn = (_fields: object, message: string) => void lines.push(message)
  const [publish, consume] = [fakeConnection(), fakeConnection()]
  const connections = { publish: publish.connection, consume: consume.connection }
  const denials = new Denials({ debug() {}, info() {}, warn, error() {} }, connections)
  const entities = () => denials.warnings().map(({ details }) => details?.['entity'])
  return { denials, entities, lines, publish, consume }
}

it('a refusal is no longer a warning when its connection is lost', () => {
  const { denials, entities, lines, publish, consume } = open()
  denials.mayNotPublish(refusal('x'))
  denials.mayNotConsume('q', 'ACCESS_REFUSED')
  expect(entities()).toEqual(['x', 'q'])
  publish.goDown()
  expect(entities()).toEqual(['q'])
  consume.goDown()
  expect(entities()).toEqual([])
  denials.mayNotPublish(refusal('x'))
  expect(lines).toHaveLength(3)
})

it('a refusal that names amq.default denies the default exchange, whose name is empty in publishes', () => {
  const { denials, entities } = open()
  denials.mayNotPublish(refusal('amq.default'))
  denials.mayNotPublish(refusal('x'))
  expect(['', 'x', 'y'].map((exchange) => denials.isDenied(exchange))).toEqual([true, true, false])
  denials.mayPublish('')
  expect(denials.isDenied('')).toBe(false)
  expect(entities()).toEqual(['x'])
})
