import { expect, test } from 'vitest'
import { inStatements } from '../../../src/ledger/postgres/group/sizes.ts'

const MIB = 1024 * 1024
const parts = (...lengths: number[]) => inStatements(lengths, (length) => length)

test('what a group stores goes in statements of 2 MiB of text, with nothing left out', () => {
  expect(parts()).toEqual([])
  expect(parts(0)).toEqual([[0]])
  expect(parts(0, 0, 5)).toEqual([[0, 0, 5]])
  expect(parts(MIB, MIB, 1, 3 * MIB, 0)).toEqual([[MIB, MIB], [1], [3 * MIB], [0]])
})
