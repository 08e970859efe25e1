import { expect, it } from 'vitest'
import { tooFewOpenFiles } from '../../src/cli/open-files.ts'

const limits = (
  soft: string,
) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             96365                96365                processes
Max open files            ${soft.padEnd(20)} 1048576              files
`

it.each(['0', '128', '255'])('%s open files are too few, and that is said', (soft) => {
  expect(tooFewOpenFiles(limits(soft))).toBe(
    `only ${soft} files may be open at a time (ulimit -n), and the gateway needs at least 256`,
  )
})

it.each(['256', '1048576', 'unlimited'])('%s are enough', (soft) => {
  expect(tooFewOpenFiles(limits(soft))).toBeNull()
})

it('does not keep a gateway from starting where nothing is known, nor here', () => {
  expect(tooFewOpenFiles('')).toBeNull()
  expect(tooFewOpenFiles()).toBeNull()
})
