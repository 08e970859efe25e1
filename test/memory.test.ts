import { expect, it } from 'vitest'
import { heapBytesOf, MemoryShare, partOfHeap, WorkMemory } from '../src/memory.ts'

const MIB = 1024 * 1024

it('takes the heap for what is left of it without the nursery, where that can be told', () => {
  expect(heapBytesOf(259 * MIB, '')).toBe(259 * MIB)
  expect(heapBytesOf(259 * MIB, '--max-old-space-size=0')).toBe(259 * MIB)
  expect(heapBytesOf(332 * MIB, '--enable-source-maps --max-old-space-size=140')).toBe(140 * MIB)
  const twice = '--max_old_space_size=140 --no-warnings --max-old-space-size=1000'
  expect(heapBytesOf(1192 * MIB, twice)).toBe(1000 * MIB)
  expect(heapBytesOf(100 * MIB, '--max-heap-size=100 --max-old-space-size=140')).toBe(100 * MIB)
})

it('takes for the heap of a worker thread what that was given, unless Node was told', () => {
  expect(heapBytesOf(320 * MIB, '', 128)).toBe(128 * MIB)
  expect(heapBytesOf(448 * MIB, '--max-old-space-size=256', 128)).toBe(256 * MIB)
  expect(heapBytesOf(100 * MIB, '', 128)).toBe(100 * MIB)
  expect(heapBytesOf(320 * MIB, '', 0)).toBe(320 * MIB)
})

it('lets requests have half of the heap together, and one that is alone nearly all of it', () => {
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
  // What it has itself keeps nobody from having more.
  first.require(100 * MIB)
  expect(all.taken).toBe(200 * MIB)
  first.giveBack()
  expect(all.taken).toBe(0)
})

it('tells a request that can never have as much from one that has to wait', () => {
  const share = new MemoryShare(new WorkMemory(300 * MIB))
  share.require(150 * MIB)
  expect(() => share.require(51 * MIB)).toThrow(
    expect.objectContaining({ status: 413, details: { field: 'body', reason: 'memory' } }),
  )
})

it('gives a stored job to a worker that asks alone, however large it is', () => {
  expect(new MemoryShare(new WorkMemory(300 * MIB)).take(1_000 * MIB)).toBe(true)
})

it('takes a part of a small heap only', () => {
  expect(partOfHeap(1 / 4, 256 * MIB, 300 * MIB)).toBe(75 * MIB)
  expect(partOfHeap(1 / 4, 256 * MIB, 4_000 * MIB)).toBe(256 * MIB)
})
