/** Request bodies: unpacked and read within their limits, in UTF-8, and parsed into a JSON object. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Request, Response } from 'express'
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import { partOfHeap, UNCOUNTED_BYTES } from '../../memory.ts'
import { heapOfText } from '../../schemas/json/json-heap.ts'
import {
  type ListMember,
  parseJsonList,
  parseJsonListInSlices,
} from '../../schemas/json/json-list.ts'
import {
  type Afford,
  JSON_LIMITS,
  type JsonLimits,
  parseJsonInSlices,
  parseJsonObject,
  valueLimits,
} from '../../schemas/json/json-text.ts'
import { MAX_IDS } from '../../schemas/requests/shared-members.ts'
import { inSlices } from '../../slices.ts'
import { BodyBudget, type Incoming } from './body-budget.ts'
import { isPacked, UNPACKER_BYTES, type Unpacking, unpack } from './unpacking.ts'

/** Shared by all listeners of the process, since they share its memory. */
const PROCESS_BUDGET = new BodyBudget(partOfHeap(1 / 4, 128 * 1024 * 1024))

interface Body extends Incoming {
  readonly pieces: Pieces
}

/** The longest body that is looked at for an empty list. */
const MAX_EMPTY = 64

interface Reading {
  limits?: JsonLimits | ListMember
  budget?: BodyBudget
}

/**
 * Reads the JSON object in the body of a request (seed 001 §6.1), which may be in gzip: limits count what is in
 * it. Throws 400; 415 for another coding; 503 while all requests together need too much memory; 413 before a
 * byte is read if the declared length is too large, else as soon as too much has arrived. If the client disconnects before the first byte, the server has already answered, and the
 * promise may never settle.
 */
export async function readJson(
  request: Request,
  response: Response,
  maxBytes: number,
  { limits = JSON_LIMITS, budget = PROCESS_BUDGET }: Reading = {},
): Promise<Record<string, unknown>> {
  if (hasBody(request)) requireJson(request.headers)
  const body = await readBody(request, response, maxBytes, budget)
  return parsed(request, body, body.pieces.take(), { limits, budget })
}

/**
 * As `readJson`, for a list `name` of documents each of which may be refused by itself: one that is too deep, or
 * has a number that JavaScript would change, becomes `Unreadable`. What is not JSON is a 400 as a whole.
 */
export async function readJsonList(
  request: Request,
  response: Response,
  { maxBodyBytes, maxBatchBytes }: { maxBodyBytes: number; maxBatchBytes: number },
  name: string,
): Promise<Record<string, unknown>> {
  const { maxHeap } = valueLimits(JSON_LIMITS, maxBatchBytes)
  const item = valueLimits(JSON_LIMITS, maxBodyBytes)
  const limits = { name, maxItems: MAX_IDS, item, maxHeap, mayBeBroken: false }
  return readJson(request, response, maxBatchBytes, { limits })
}

/**
 * As `readJson`, but a request without a body yields `{}` (OJS's public suite). So does a chunked body
 * without a byte: proxies send one for an HTTP/2 request that declares no length. And so does `[]`, which is
 * how PHP writes an object without members.
 */
export async function readOptionalJson(
  request: Request,
  response: Response,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  const body = await readBody(request, response, maxBytes, PROCESS_BUDGET)
  if (body.pieces.size === 0) return {}
  try {
    requireJson(request.headers)
  } catch (error) {
    PROCESS_BUDGET.end(body)
    throw error
  }
  const bytes = body.pieces.take()
  if (bytes.length <= MAX_EMPTY && /^\s*\[\s*\]\s*$/.test(bytes.toString())) return {}
  return parsed(request, body, bytes, { limits: JSON_LIMITS, budget: PROCESS_BUDGET })
}

/** A body of this size is parsed in slices, which would cost a smaller one more than it saves. */
const SLICED_BYTES = 65_536

/** Parses the body. The route gives the heap that this takes back when it is done (`route.ts`). */
function parsed(
  request: Request,
  body: Body,
  bytes: Buffer,
  { limits, budget }: Required<Reading>,
): Record<string, unknown> | Promise<Record<string, unknown>> {
  if (bytes.length < UNCOUNTED_BYTES) return parseWhole(bytes, limits)
  const bounded = isList(limits) ? limits : valueLimits(limits, body.maxBytes)
  return parseLarge(request, bytes, bounded).finally(() => budget.end(body))
}

async function parseLarge({ memory }: Request, bytes: Buffer, limits: JsonLimits | ListMember) {
  const afford = (heap: number) => memory.require(heap)
  afford(heapOfText(bytes))
  if (bytes.length < SLICED_BYTES) return parseWhole(bytes, limits, afford)
  const work = isList(limits)
    ? parseJsonListInSlices(bytes, limits, afford)
    : parseJsonInSlices(bytes, limits, afford)
  return await inSlices(work)
}

function parseWhole(bytes: Buffer, limits: JsonLimits | ListMember, afford?: Afford) {
  return isList(limits)
    ? parseJsonList(bytes, limits, afford)
    : parseJsonObject(bytes, limits, afford)
}

function isList(limits: JsonLimits | ListMember): limits is ListMember {
  return 'item' in limits
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
}

async function readBody(
  request: Request,
  response: Response,
  maxBytes: number,
  budget: BodyBudget,
): Promise<Body> {
  const declared = Number(request.headers['content-length'] ?? 0)
  const packed = isPacked(request.headers)
  if (declared > maxBytes && !packed) throw tooLarge(declared, maxBytes)
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') {
    // Node leaves this to us (`checkContinue`). A client that is refused before need not send its body.
    response.writeContinue()
  }
  const pieces = new Pieces()
  let isOver = false
  let unpacking: Unpacking | undefined
  let reject: (error: OjsError) => void = () => {}
  const refuse = (error: OjsError) => {
    if (isOver) return
    isOver = true
    unpacking?.stop()
    budget.end(body)
    pieces.clear()
    reject(error)
  }
  const body: Body = { maxBytes, size: 0, pieces, refuse }
  await new Promise<void>((resolve, rejectIt) => {
    reject = rejectIt
    if (packed) {
      unpacking = unpack(request, maxBytes, refuse)
      budget.take(body, UNPACKER_BYTES)
      response.once('close', () => refuse(endedEarly()))
    }
    const content = unpacking?.content ?? request
    content.on('data', (chunk: Buffer) => {
      if (isOver) return
      // If the connection ends before the body, the server answers 400 (`parser-errors.ts`), and only the
      // response, not the request, emits an event. Most bodies arrive in one chunk and need no listener for
      // this.
      if (!packed && body.size === 0 && chunk.length !== declared) {
        response.once('close', () => refuse(endedEarly()))
      }
      pieces.add(chunk)
      if (pieces.size > maxBytes) refuse(tooLarge(pieces.size, maxBytes))
      else budget.take(body, chunk.length)
    })
    content.on('end', () => {
      if (isOver) return
      isOver = true
      // The rest is parsed at once.
      if (pieces.size < UNCOUNTED_BYTES) budget.end(body)
      else budget.complete(body)
      resolve()
    })
    request.on('error', () => refuse(endedEarly()))
  })
  // The request keeps its listeners, and so the pieces too, until it has been answered: they are taken out.
  return body
}

/** The client is gone and will not read this error. */
function endedEarly(): OjsError {
  return new OjsError('invalid_payload', 'The request ended before its body was complete.')
}

function tooLarge(size: number, maxBytes: number): OjsError {
  return new OjsError('invalid_request', `The body is larger than ${maxBytes} bytes.`, {
    status: 413,
    details: { field: 'body', actual_bytes: size, max_bytes: maxBytes },
  })
}

/** So many buffers take some 50 kB beside their bytes. */
const MAX_LOOSE = 256

/**
 * Collects a body as it arrives. Each buffer takes some 200 bytes beside its content, and a client may send
 * every byte as a chunk of its own, so small pieces are joined while more arrive.
 */
export class Pieces {
  #whole: Buffer[] = []
  #loose: Buffer[] = []
  #size = 0

  /** In bytes. */
  get size(): number {
    return this.#size
  }

  /** The number of buffers held. */
  get count(): number {
    return this.#whole.length + this.#loose.length
  }

  add(chunk: Buffer): void {
    this.#loose.push(chunk)
    this.#size += chunk.length
    if (this.#loose.length < MAX_LOOSE) return
    this.#whole.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** Returns the whole body, and holds nothing afterwards. */
  take(): Buffer {
    const all = [...this.#whole, ...this.#loose]
    this.clear()
    const [only] = all
    // Nearly every body arrives in one piece.
    return only !== undefined && all.length === 1 ? only : Buffer.concat(all)
  }

  clear(): void {
    this.#whole = []
    this.#loose = []
    this.#size = 0
  }
}

const ACCEPTED = new Set([OJS_MEDIA_TYPE, 'application/json'])

/**
 * Throws 400 if the headers declare a body that is not plain JSON in UTF-8 (seed 001 §4.1: 400, not 415). A
 * missing content type means JSON. `Accept` is ignored, because the answer is the same for every value
 * (§4.3).
 */
function requireJson(headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  if (type && !ACCEPTED.has(type)) requireJsonType(type)
}

const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i

function requireJsonType(received: string): void {
  const [essence = ''] = received.split(';', 1)
  if (!ACCEPTED.has(essence.trim().toLowerCase())) {
    throw invalidField('Content-Type', `The content type must be ${[...ACCEPTED].join(' or ')}.`, {
      expected: [...ACCEPTED],
      received: echoed(received),
    })
  }
  const charset = CHARSET.exec(received)?.[1]?.toLowerCase()
  if (charset === undefined || charset === 'utf-8' || charset === 'utf8') return
  throw invalidField('Content-Type', 'The body must be in UTF-8.', {
    expected: 'utf-8',
    received: echoed(charset),
  })
}
