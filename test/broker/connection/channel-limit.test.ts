import { expect, it } from 'vitest'
import { ChannelLimit } from '../../../src/broker/connection/channel-limit.ts'

const NONE_LEFT = new Error('No channels left to allocate')

function open() {
  const stage = { now: 0, lines: [] as string[] }
  const warn = (_fields: object, message: string) => void stage.lines.push(message)
  const logger = { debug() {}, info() {}, warn, error() {} }
  const limit = new ChannelLimit('consume', logger, () => stage.now)
  return { stage, limit }
}

it('the channel limit is logged once, and is a warning until two minutes after the last failure', () => {
  const { stage, limit } = open()
  expect(limit.warning).toBeNull()
  for (stage.now = 0; stage.now <= 180_000; stage.now += 60_000) limit.notOpened(NONE_LEFT, 8)
  expect(stage.lines).toHaveLength(1)
  expect(limit.warning).toMatchObject({
    code: 'no_channels',
    message: expect.stringContaining('channelMax'),
    details: { connection: 'consume', reason: 'No channels left to allocate (8)' },
  })
  stage.now = 299_999
  expect(limit.warning).not.toBeNull()
  stage.now = 300_000
  expect(limit.warning).toBeNull()
  limit.notOpened(NONE_LEFT, 8)
  expect(stage.lines).toHaveLength(2)
})

it('the channel limit of the user is logged separately and its warning names set_user_limits', () => {
  const { stage, limit } = open()
  limit.notOpened(NONE_LEFT, 8)
  const reason = `number of channels opened for user 'u' has reached the maximum allowed limit of (20)`
  expect(limit.ended(reason)).toBe(true)
  expect(stage.lines).toHaveLength(2)
  expect(limit.warning?.message).toContain('set_user_limits')
})

it('the channel limit ignores other errors of a channel or connection', () => {
  const { stage, limit } = open()
  limit.notOpened(new Error('no consume connection: closed'), 8)
  expect(limit.ended('Heartbeat timeout')).toBe(false)
  expect([limit.warning, stage.lines]).toEqual([null, []])
})
