import type { Request, Response } from 'express'
import { OjsError } from '../errors.ts'
import { partOfHeap, UNCOUNTED_BYTES } from '../memory.ts'
import { heapOfText } from '../schemas/json-heap.ts'
import { JSON_LIMITS, type JsonLimits, parseJsonObject } from '../schemas/json-text.ts'
import { BodyBudget, type Incoming } from './body-budget.ts'
import { requireJson } from './media-type.ts'
import { Pieces } from './pieces.ts'

/** It is the memory of the process, so one for all listeners in it. */
const PROCESS_BUDGET = new BodyBudget(partOfHeap(1 / 4, 256 * 1024 * 1024))

interface Reading {
  limits?: JsonLimits
  budget?: BodyBudget
}

/**
 * The JSON object in the body of a request (seed 001 §6.1). Throws 400, 503 while too many others
 * are coming or worked on, and 413 before a byte is read where the length is declared, else as soon as
 * too much has come. Where the client ends before the first byte, the answer has been sent already, and this
 * may never settle.
 */
export async function readJson(
  request: Request,
  response: Response,
  maxBytes: number,
  { limits = JSON_LIMITS, budget = PROCESS_BUDGET }: Reading = {},
): Promise<Record<string, unknown>> {
  if (hasBody(request)) requireJson(request.headers)
  return parsed(request, await readBody(request, response, maxBytes, budget), limits)
}

/**
 * As `readJson`, for commands with nothing to say: no body is `{}` (conformance.md §3.5, 10). So are
 * chunks without a byte, which proxies make of a request in HTTP/2 that tells no length.
 */
export async function readOptionalJson(
  request: Request,
  response: Response,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  const body = await readBody(request, response, maxBytes, PROCESS_BUDGET)
  if (body.length === 0) return {}
  requireJson(request.headers)
  return parsed(request, body, JSON_LIMITS)
}

/** What it takes of the heap is given back when the route is done (`route.ts`). */
function parsed({ memory }: Request, body: Buffer, limits: JsonLimits): Record<string, unknown> {
  if (body.length < UNCOUNTED_BYTES) return parseJsonObject(body, limits)
  memory.require(heapOfText(body))
  return parseJsonObject(body, limits, (bytes) => memory.require(bytes))
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
}

async function readBody(
  request: Request,
  response: Response,
  maxBytes: number,
  budget: BodyBudget,
): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > maxBytes) throw tooLarge(declared, maxBytes)
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') {
    // The server leaves this to us (`checkContinue`): a refusal spares the client its body.
    response.writeContinue()
  }
  const pieces = new Pieces()
  await new Promise<void>((resolve, reject) => {
    let isOver = false
    const refuse = (error: OjsError) => {
      if (isOver) return
      isOver = true
      budget.end(body)
      pieces.clear()
      reject(error)
    }
    const body: Incoming = { maxBytes, size: 0, refuse }
    request.on('data', (chunk: Buffer) => {
      if (isOver) return
      // Where the connection ends before the body, the server answers 400 (`parser-errors.ts`), and of the
      // two only the response tells. Most bodies come whole, and need no listener for it.
      if (body.size === 0 && chunk.length !== declared) {
        response.once('close', () => refuse(endedEarly()))
      }
      pieces.add(chunk)
      const size = body.size + chunk.length
      if (size > maxBytes) refuse(tooLarge(size, maxBytes))
      else budget.take(body, chunk.length)
    })
    request.on('end', () => {
      if (isOver) return
      isOver = true
      budget.end(body)
      resolve()
    })
    request.on('error', () => refuse(endedEarly()))
  })
  // The request keeps its listeners, and what they hold, while it waits for its answer.
  return pieces.take()
}

/** The client is gone; nobody will read this. */
function endedEarly(): OjsError {
  return new OjsError('invalid_payload', 'The request ended before its body did.')
}

function tooLarge(size: number, maxBytes: number): OjsError {
  return new OjsError('invalid_request', `The body is larger than ${maxBytes} bytes.`, {
    status: 413,
    details: { field: 'body', actual_bytes: size, max_bytes: maxBytes },
  })
}
