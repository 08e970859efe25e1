/** What a delivery says of its job, read without trust (seed 002 §6.2). */
import type { Message } from 'amqplib'
import type { Carry } from '../../job/job.ts'
import { jsonOrNull, membersOf } from '../../job/values/json-value.ts'
import { MAX_INT32 } from '../../job/values/limits.ts'
import type { ForeignMessage, ShownDelivery, ShownMessage } from '../broker.ts'
import { DIRECT_REPLY } from './control-message.ts'
import { cleanHeaders, cleanList, cleanText, OJS_HEADERS } from './headers.ts'

/**
 * Bodies above this are not parsed on arrival, whether they are fetched or not: without `message_id` they
 * have no id, and their priority is that of the property.
 */
const MAX_LOOK_BYTES = 4 * 1024 * 1024
const MAX_MEMBERS_SEEN = 16
const GENERATION_MEMBER = '"x_ojs_generation"'
const PRIORITY_MEMBER = '"priority"'

/** What the gateway must know of a delivery before it handles the job. */
export interface MessageFacts {
  id: string
  generation: number
  attempt: number
  maxAttempts: number | null
  /** Exact OJS priority, −100…100. */
  priority: number
}

interface ForeignParts {
  content: Buffer
  properties: { [Name in keyof ForeignMessage['properties']]?: unknown } & {
    headers?: Record<string, unknown> | undefined
  }
}

/**
 * Never throws: values that are missing or of a wrong type have their default (seed 002 §6.2). `id` is empty
 * when neither the properties nor the body contain one.
 */
export function factsOf(message: Message): MessageFacts {
  const { content } = message
  const headers = headersIn(message)
  return {
    id: textIn(message.properties.messageId) ?? idInBody(content),
    generation: generationIn(content),
    attempt: countIn(headers[OJS_HEADERS.attempt], 1) ?? 1,
    maxAttempts: maxAttemptsIn(headers),
    priority: priorityOf(message.properties.priority, content),
  }
}

/** The job model's view of a message; properties that are missing or of a wrong type are left out. */
export function foreignMessage({ content, properties }: ForeignParts): ForeignMessage {
  return {
    content,
    headers: properties.headers ?? {},
    properties: {
      ...textMember('messageId', properties.messageId),
      ...textMember('type', properties.type),
      ...numberMember('priority', properties.priority),
      ...textMember('correlationId', properties.correlationId),
      ...numberMember('timestamp', properties.timestamp),
      ...textMember('appId', properties.appId),
      ...textMember('replyTo', properties.replyTo),
    },
  }
}

/** The same for a delivery that a worker reports, whose properties have AMQP's names. */
export function shownMessage({ content, headers, properties }: ShownDelivery): ShownMessage {
  const { timestamp, correlation_id: correlationId, reply_to: replyTo, app_id: appId } = properties
  const priority = countIn(properties.priority, 0) ?? undefined
  const known = { priority, timestamp, correlationId, replyTo, appId }
  const message = foreignMessage({ content, properties: { ...known, headers } })
  return { message, maxAttempts: maxAttemptsIn(headers), carry: carryOf(message) }
}

/** `x-ojs-max-attempts`; null when missing or unusable. */
function maxAttemptsIn(headers: Readonly<Record<string, unknown>>): number | null {
  return countIn(headers[OJS_HEADERS.maxAttempts], 0)
}

/**
 * What every republish of an adopted message restores (seed 002 §8.3: "preserve all other original message
 * properties and headers"). Not `user_id`: it names the publisher's user, and RabbitMQ closes the channel of
 * any other user that sends it.
 */
export function carryOf({ headers, properties }: ForeignMessage): Carry {
  const foreign = cleanHeaders(headers)
  const tags = tagsIn(headers[OJS_HEADERS.tags])
  const keptProperties = {
    ...(properties.appId !== undefined &&
      properties.appId !== 'ojs' && { appId: properties.appId }),
    ...(properties.replyTo !== undefined &&
      !properties.replyTo.startsWith(DIRECT_REPLY) && { replyTo: properties.replyTo }),
  }
  return {
    ...headerMember('traceparent', headers[OJS_HEADERS.traceId]),
    ...headerMember('tracestate', headers[OJS_HEADERS.traceState]),
    ...textMember('correlationId', properties.correlationId),
    ...headerMember('idempotencyKey', headers[OJS_HEADERS.idempotencyKey]),
    ...headerMember('scheduledAt', headers[OJS_HEADERS.scheduledAt]),
    ...(tags.length > 0 && { tags }),
    ...(Object.keys(foreign).length > 0 && { headers: foreign }),
    ...(Object.keys(keptProperties).length > 0 && { properties: keptProperties }),
  }
}

function headersIn(message: Message): Readonly<Record<string, unknown>> {
  return message.properties.headers ?? {}
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** `a, b` (seed 002 §6.2: "comma-separated tag list"). */
function tagsIn(value: unknown): string[] {
  const texts = cleanList(textIn(value) ?? '').split(',')
  return texts.map((text) => text.trim()).filter((text) => text !== '')
}

function textMember<K extends string>(name: K, value: unknown): Partial<Record<K, string>> {
  const text = textIn(value)
  return text === undefined ? {} : ({ [name]: text } as Record<K, string>)
}

function headerMember<K extends string>(name: K, value: unknown): Partial<Record<K, string>> {
  const text = textIn(value)
  return text === undefined ? {} : ({ [name]: cleanText(text) } as Record<K, string>)
}

function numberMember<K extends string>(name: K, value: unknown): Partial<Record<K, number>> {
  return typeof value === 'number' ? ({ [name]: value } as Record<K, number>) : {}
}

/** Clients send int8, int32, int64, a typed value or digits. Null: none of these. */
function countIn(value: unknown, min: number): number | null {
  const plain =
    typeof value === 'object' && value !== null && 'value' in value ? value.value : value
  const isNumeric = typeof plain === 'number' || typeof plain === 'bigint'
  const isDigits = typeof plain === 'string' && /^\d{1,10}$/.test(plain)
  if (!isNumeric && !isDigits) return null
  const count = Number(plain)
  return Number.isInteger(count) && count >= min && count <= MAX_INT32 ? count : null
}

function idInBody(content: Buffer): string {
  return textIn(membersIn(content)['id']) ?? ''
}

/**
 * We splice our own generation in at the end of the body, so almost every job message is read without
 * parsing.
 */
function generationIn(content: Buffer): number {
  const at = content.lastIndexOf(GENERATION_MEMBER)
  if (at === -1) return 0
  const tail = content.toString('latin1', at - 1, Math.min(content.length, at + 40))
  const spliced = /^,"x_ojs_generation":(\d{1,10})\}$/.exec(tail)
  const isWholeTail = at - 1 + tail.length === content.length
  const value = spliced && isWholeTail ? spliced[1] : membersIn(content)['x_ojs_generation']
  return countIn(value, 0) ?? 0
}

/**
 * The AMQP property is clamped to 0–9. So the body can have another, exact value only when the property is 0,
 * 9 or missing, and only when the member looks negative or has two digits.
 */
function priorityOf(property: unknown, content: Buffer): number {
  const clamped = typeof property === 'number' ? property : 0
  if (clamped > 0 && clamped < 9) return clamped
  if (!mayHavePriorityBeyond(clamped, property !== undefined, content)) return clamped
  const exact = membersIn(content)['priority']
  return typeof exact === 'number' && Number.isFinite(exact) ? exact : clamped
}

function mayHavePriorityBeyond(clamped: number, isGiven: boolean, content: Buffer): boolean {
  let end = 0
  for (let seen = 0; seen < MAX_MEMBERS_SEEN; seen++) {
    const at = content.indexOf(PRIORITY_MEMBER, end)
    if (at === -1) return false
    end = at + PRIORITY_MEMBER.length
    const tail = content.toString('latin1', end, end + 16)
    const value = /^\s*:\s*(-?\d+)/.exec(tail)?.[1]
    if (value !== undefined && isBeyond(clamped, isGiven, Number(value))) return true
  }
  // args full of members of that name: one parse is cheaper than looking at each.
  return true
}

function isBeyond(clamped: number, isGiven: boolean, value: number): boolean {
  if (!isGiven) return value !== 0
  return clamped === 0 ? value < 0 : value > 9
}

function membersIn(content: Buffer): Record<string, unknown> {
  return content.length > MAX_LOOK_BYTES ? {} : membersOf(jsonOrNull(content))
}
