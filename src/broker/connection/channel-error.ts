/** Errors of channels, classified by reply code (seed 002 §10.1). */
import type { Channel } from 'amqplib'
import { messageOf } from '../../errors.ts'

/** Why the broker closed a channel (seed 002 §10.1), as far as we act on it. */
export type ChannelFailure =
  | { kind: 'not-found' }
  /** The queue exists, but its node is down or its process has ended: declaring it now would not help. */
  | { kind: 'home-node-down'; text: string }
  | { kind: 'access-refused'; text: string }
  /** 406: the virtual host, or the broker, has reached its limit of queues, exchanges etc. */
  | { kind: 'limit-reached'; text: string }
  /** 405: an exclusive queue of another connection. */
  | { kind: 'locked'; text: string }
  /** 406: exists with other arguments, or an argument that this broker refuses. */
  | { kind: 'differs'; text: string }
  /** The connection or the channel was lost; the result is unknown. */
  | { kind: 'unavailable'; text: string }

/** Classifies an error of a channel or an operation by its reply code (seed 002 §10.1). Never throws. */
export function classify(error: unknown): ChannelFailure {
  const text = messageOf(error)
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 404:
      // `no queue 'q' in vhost '/'` and `no exchange …`, but not `home node 'n' of durable queue
      // 'q' in vhost '/' is down or inaccessible`.
      if (/\bno (queue|exchange)\b/.test(text)) return { kind: 'not-found' }
      return { kind: 'home-node-down', text: reasonIn(text) }
    case 403:
      return { kind: 'access-refused', text: reasonIn(text) }
    case 405:
      return { kind: 'locked', text: reasonIn(text) }
    case 406: {
      // `cannot declare queue 'q': queue limit in vhost '/' (10) is reached`.
      const reason = reasonIn(text)
      const isLimit = /: \w+ limit in .* is reached$/s.test(reason)
      return { kind: isLimit ? 'limit-reached' : 'differs', text: reason }
    }
    default:
      return { kind: 'unavailable', text }
  }
}

/** True when RabbitMQ itself gave the reason, as a numeric reply code; socket errors have a text as code. */
export function hasReplyCode(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'number'
}

/** True for the error that amqplib throws for a delivery whose consumer tag its channel does not know. */
export function isUnknownConsumer(error: Error): boolean {
  return error.message.startsWith('Unknown consumer: ')
}

/** True for the error that amqplib itself throws when all channels of its connection are in use. */
export function isNoChannel(error: unknown): boolean {
  return error instanceof Error && error.message === 'No channels left to allocate'
}

/** amqplib wraps the broker's own words: `… with message "PRECONDITION_FAILED - …"`. */
function reasonIn(text: string): string {
  return /with message "(.*)"$/s.exec(text)?.[1] ?? text
}

/**
 * The largest body that RabbitMQ accepts, from `message size 70012 is larger than configured max size 65536`
 * (406; RabbitMQ 4: `… than max size …`). Null for any other error.
 */
export function maxMessageBytesIn(error: Error): number | null {
  const [, bytes] =
    /message size \d+ is larger than (?:configured )?max size (\d+)/.exec(error.message) ?? []
  return bytes === undefined ? null : Number(bytes)
}

export interface Difference {
  argument: string
  /** What we would declare. */
  expected: string
  /** What exists. */
  actual: string
}

/**
 * Parses `… inequivalent arg 'x-max-priority' for queue 'q' in vhost '/': received none but current is the
 * value '10' of type 'long'`. RabbitMQ names the first difference only. Null for any other text, such as
 * `invalid arg 'x-…' for queue …`.
 */
export function differenceIn(text: string): Difference | null {
  const match = INEQUIVALENT.exec(text)
  if (!match) return null
  const [, argument = '', expected = '', actual = ''] = match
  return { argument, expected: valueIn(expected), actual: valueIn(actual) }
}

/**
 * The argument of the first difference (see `differenceIn`; also `durable` and `auto_delete`) and its value in
 * the existing entity, as a declare would send it. Undefined: the entity has no such argument.
 */
export function actualIn(
  text: string,
): { argument: string; value: string | number | boolean | undefined } | null {
  const [, argument, , actual] = INEQUIVALENT.exec(text) ?? []
  if (argument === undefined || actual === undefined) return null
  const said = valueIn(actual)
  const type = /of type '(.*)'/.exec(actual)?.[1]
  if (said === 'none' && type === undefined) return { argument, value: undefined }
  if (said === 'true' || said === 'false') return { argument, value: said === 'true' }
  return { argument, value: type === undefined || type === 'longstr' ? said : Number(said) }
}

const INEQUIVALENT = /inequivalent arg '([^']*)' for .*?: received (.*) but current is (.*?)$/s

function valueIn(text: string): string {
  return /^(?:the value )?'(.*?)'(?: of type '.*')?$/s.exec(text.trim())?.[1] ?? text.trim()
}

/**
 * Resolves when the channel is closed, by the broker's answer or with its connection. amqplib's own promise
 * waits for the answer only, so it may never settle. Never rejects.
 */
export function closeChannel(channel: Channel): Promise<void> {
  return new Promise((resolve) => {
    channel.once('close', () => resolve())
    // Rejects when the channel is closed already.
    channel.close().catch(() => resolve())
  })
}
