/** `/console`: the page, its hashed files, and the way there from `/`. */
import type { Request, Response } from 'express'
import { OjsError } from '../../errors.ts'
import { answerHeaders } from '../message/answer-headers.ts'
import type { Route } from '../route.ts'
import { BuiltFiles } from './built-files.ts'

/**
 * The page may load its own files and call its own gateway and the codec, nothing else. Nothing is inline, and
 * no other site may frame it.
 */
function policyWith(codecUrl: string | null): string {
  const codec = codecUrl === null ? '' : ` ${new URL(codecUrl).origin}`
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    `connect-src 'self'${codec}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

const HEADERS = [
  'Referrer-Policy',
  'no-referrer',
  'Cross-Origin-Opener-Policy',
  'same-origin',
  'Vary',
  'Accept-Encoding',
]

/** The name of a hashed file tells its content. */
const FOR_EVER = 'public, max-age=31536000, immutable'

/**
 * All locations are relative, so that a proxy may serve the gateway below a path. `codecUrl`: what the page may
 * ask besides (`OJS_CODEC_URL`).
 */
export function consolePages(codecUrl: string | null): Route[] {
  const files = new BuiltFiles()
  const headers = ['Content-Security-Policy', policyWith(codecUrl), ...HEADERS]
  const to = async (name: string, request: Request, response: Response) => {
    const file = await files.file(name)
    if (file === undefined) throw noSuchFile(request.path)
    const isPacked = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
    const bytes = isPacked ? file.packed : file.plain
    const caching = name.startsWith('assets/') ? FOR_EVER : 'no-cache'
    const extra = [...headers, 'Cache-Control', caching]
    if (isPacked) extra.push('Content-Encoding', 'gzip')
    response.writeHead(200, answerHeaders(request, extra, file.type, bytes.length))
    response.end(bytes)
  }
  return [
    {
      method: 'GET',
      path: '/',
      access: 'anybody',
      handle(request, response) {
        if (!wantsPage(request)) throw noSuchFile('/')
        redirect(request, response, 'console/')
      },
    },
    {
      method: 'GET',
      path: '/console',
      access: 'anybody',
      handle: (request, response) => redirect(request, response, 'console/'),
    },
    {
      method: 'GET',
      path: '/console/',
      access: 'anybody',
      handle: (request, response) => to('index.html', request, response),
    },
    {
      method: 'GET',
      path: '/console/assets/:file',
      access: 'anybody',
      handle: (request, response) =>
        to(`assets/${String(request.params['file'])}`, request, response),
    },
  ]
}

/** A browser that opens the address, not a program that looks for an API there. */
function wantsPage({ headers }: Request): boolean {
  return (headers.accept ?? '').includes('text/html')
}

function redirect(request: Request, response: Response, location: string): void {
  response.writeHead(
    302,
    answerHeaders(request, ['Content-Length', '0', 'Location', location, 'Vary', 'Accept']),
  )
  response.end()
}

function noSuchFile(path: string): OjsError {
  return new OjsError('not_found', `No such endpoint: GET ${path}`, {
    details: { resource_type: 'route', resource_id: path },
  })
}
