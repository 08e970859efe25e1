import { expect, it } from 'vitest'
import { heapBytesOf, MemoryShare, partOfHeap, WorkMemory } from '../src/memory.ts'

const MIB = 1024 * 1024

it('heapBytesOf is the heap limit without the nursery, as far as the options tell', () => {
  expect(heapBytesOf(259 * MIB, '')).toBe(259 * MIB)
  expect(heapBytesOf(259 * MIB, '--max-old-space-size=0')).toBe(259 * MIB)
  expect(heapBytesOf(332 * MIB, '--enable-source-maps --max-old-space-size=140')).toBe(140 * MIB)
  const twice = '--max_old_space_size=140 --no-warnings --max-old-space-size=1000'
  expect(heapBytesOf(1192 * MIB, twice)).toBe(1000 * MIB)
  expect(heapBytesOf(100 * MIB, '--max-heap-size=100 --max-old-space-size=140')).toBe(100 * MIB)
})

it('heapBytesOf is the limit of a worker thread, unless an option of Node sets the heap', () => {
  expect(heapBytesOf(320 * MIB, '', 128)).toBe(128 * MIB)
  expect(heapBytesOf(448 * MIB, '--max-old-space-size=256', 128)).toBe(256 * MIB)
  expect(heapBytesOf(100 * MIB, '', 128)).toBe(100 * MIB)
  expect(heapBytesOf(320 * MIB, '', 0)).toBe(320 * MIB)
})

it('requests may have half of the heap together, and a single one nearly all of it', () => {
  const all = new WorkMemory(300 * MIB)
  const first = new MemoryShare(all)
  const second = new MemoryShare(all)
  first.require(100 * MIB)
  expect(() => second.require(60 * MIB)).toThrow(
    expect.objectContaining({ status: 503, retryAfterSeconds: 1, details: { reason: 'busy' } }),
  )
  second.require(50 * MIB)
  expect(first.take(1)).toBe(false)
  second.giveBack()
  // The memory of a request itself does not count against its further needs.
  first.require(100 * MIB)
  expect(all.taken).toBe(200 * MIB)
  first.giveBack()
  expect(all.taken).toBe(0)
})

it('a request that can never have enough memory is refused with 413, not 503', () => {
  const share = new MemoryShare(new WorkMemory(300 * MIB))
  share.require(150 * MIB)
  expect(() => share.require(51 * MIB)).toThrow(
    expect.objectContaining({ status: 413, details: { field: 'body', reason: 'memory' } }),
  )
})

it('a worker that asks alone gets a stored job of any size', () => {
  expect(new MemoryShare(new WorkMemory(300 * MIB)).take(1_000 * MIB)).toBe(true)
})

it('partOfHeap is the default for a large heap, and a part of a small one', () => {
  expect(partOfHeap(1 / 4, 256 * MIB, 300 * MIB)).toBe(75 * MIB)
  expect(partOfHeap(1 / 4, 256 * MIB, 4_000 * MIB)).toBe(256 * MIB)
})
