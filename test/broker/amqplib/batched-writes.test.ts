import { Writable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { gatherWrites, writePromptly } from '../../../src/broker/amqplib/batched-writes.ts'

/** Takes everything at once, like a socket whose kernel buffer has room, and records each call. */
function openSink() {
  const calls: string[][] = []
  const sink = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      calls.push([String(chunk)])
      done()
    },
    writev(chunks, done) {
      calls.push(chunks.map(({ chunk }) => String(chunk)))
      done()
    },
  })
  return { sink, calls }
}

test('writes of one turn go out together, in order', async () => {
  const { sink, calls } = openSink()
  gatherWrites(sink)
  for (const text of ['a', 'b', 'c']) sink.write(text)
  expect(calls).toEqual([])
  await nextTurn()
  expect(calls).toEqual([['a', 'b', 'c']])
})

test('writes of the next turn go out separately', async () => {
  const { sink, calls } = openSink()
  gatherWrites(sink)
  sink.write('a')
  await nextTurn()
  sink.write('b')
  sink.write('c')
  await nextTurn()
  expect(calls).toEqual([['a'], ['b', 'c']])
})

test('a writer learns that there is no room, and when there is room again', async () => {
  const { sink } = openSink()
  gatherWrites(sink)
  const drained = new Promise<void>((resolve) => sink.once('drain', resolve))
  expect(sink.write('x'.repeat(sink.writableHighWaterMark))).toBe(false)
  await drained
})

test('what was written before end() still goes out', async () => {
  const { sink, calls } = openSink()
  gatherWrites(sink)
  sink.write('a')
  const finished = new Promise<void>((resolve) => sink.once('finish', resolve))
  sink.end('b')
  await finished
  expect(calls.flat()).toEqual(['a', 'b'])
})

test('writePromptly() leaves an amqplib alone whose multiplexer it does not know', () => {
  expect(writePromptly({})).toBe(false)
  const muxer = { _readIncoming: () => {} }
  expect(writePromptly({ muxer })).toBe(false)
  expect(Object.keys(muxer)).toEqual(['_readIncoming'])
})

test('frames of one turn are moved once, at the end of what wrote them, and those of the next turn again', async () => {
  let moves = 0
  const _readIncoming = () => {
    moves += 1
  }
  const muxer = { _readIncoming, _scheduleRead: () => {} }
  expect(writePromptly({ muxer })).toBe(true)
  for (let turn = 1; turn <= 2; turn++) {
    muxer._scheduleRead()
    muxer._scheduleRead()
    expect(moves).toBe(turn - 1)
    await new Promise(process.nextTick)
    expect(moves).toBe(turn)
  }
})
