import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { allowedCpus, onOneCpu } from '../../../scripts/process/one-cpu.mjs'
import { run } from '../../../scripts/process/run.mjs'

const STATUS = '/proc/self/status'

test.each([
  ['0', [0]],
  ['0-3', [0, 1, 2, 3]],
  ['2,5-6,12', [2, 5, 6, 12]],
])('the CPUs of the list %s are %j', (list, cpus) => {
  expect(allowedCpus(`Cpus_allowed:\tff\nCpus_allowed_list:\t${list}\nMems_allowed:\t1\n`)).toEqual(
    cpus,
  )
})

test('there are no CPUs where the system does not tell', () => {
  expect(allowedCpus('')).toEqual([])
})

test('commands run on one CPU, by turns on each that this process may use', async () => {
  const own = allowedCpus(readFileSync(STATUS, 'utf8'))
  const used = new Set()
  for (let i = 0; i < own.length; i++) {
    const [command, ...args] = onOneCpu(['cat', STATUS])
    const cpus = allowedCpus((await run(command, args)).output)
    expect(cpus).toHaveLength(1)
    used.add(cpus[0])
  }
  expect([...used].sort((a, b) => a - b)).toEqual(own)
  expect(allowedCpus(readFileSync(STATUS, 'utf8'))).toEqual(own)
})
