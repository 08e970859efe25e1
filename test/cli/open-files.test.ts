import { expect, it } from 'vitest'
import { tooFewOpenFiles } from '../../src/cli/serve.ts'

const limits = (
  soft: string,
) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             96365                96365                processes
Max open files            ${soft.padEnd(20)} 1048576              files
`

it.each(['0', '128', '255'])('a limit of %s open files is reported as too low', (soft) => {
  expect(tooFewOpenFiles(limits(soft))).toBe(
    `only ${soft} files may be open at a time (ulimit -n), and the gateway needs at least 256`,
  )
})

it.each(['256', '1048576', 'unlimited'])('a limit of %s open files is enough', (soft) => {
  expect(tooFewOpenFiles(limits(soft))).toBeNull()
})

it('an unknown limit of open files does not keep a gateway from starting, nor does the one of this machine', () => {
  expect(tooFewOpenFiles('')).toBeNull()
  expect(tooFewOpenFiles()).toBeNull()
})
