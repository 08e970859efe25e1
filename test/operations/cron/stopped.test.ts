import { expect, it } from 'vitest'
import { noteStop } from '../../../src/operations/cron/stopped.ts'
import { type CronStop, Transient } from '../../../src/operations/in-flight.ts'

it('of more than 1,000 stopped entries the newest are known; one that goes on displaces none', () => {
  const transient = new Transient()
  const stop: CronStop = { kind: 'invalid', seq: 1, at: 0, fault: 'no' }
  const known = () => [...transient.cronStops.keys()]
  const names = Array.from({ length: 1_000 }, (_, i) => `e${i}`)
  for (const name of names) noteStop({ transient }, { name }, stop)
  noteStop({ transient }, { name: 'well' }, null)
  noteStop({ transient }, { name: 'e0' }, stop)
  expect(known()).toEqual([...names.slice(1), 'e0'])
  noteStop({ transient }, { name: 'new' }, stop)
  expect(known()).toEqual([...names.slice(2), 'e0', 'new'])
  noteStop({ transient }, { name: 'new' }, null)
  expect(known()).toEqual([...names.slice(2), 'e0'])
})
