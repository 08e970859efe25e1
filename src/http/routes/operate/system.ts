/** Manifest, health and metrics: what monitoring and clients ask first. */
import type { Request } from 'express'
import { withoutReasons } from '../../../operations/health.ts'
import type { MetricsPage } from '../../../telemetry/exposition.ts'
import { PROBES } from '../../access/admission.ts'
import { isServed } from '../../access/roles.ts'
import { answer, answerText, answerUnchanged } from '../../message/respond.ts'
import { type Description, under } from '../../openapi/description.ts'
import {
  HEALTH,
  LIVENESS,
  MANIFEST,
  METRICS,
  OPENAPI,
  READINESS,
} from '../../openapi/operate/system.ts'
import type { Endpoint } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** Manifest, health, probes and metrics (seed 001 §8, §21). */
export function systemRoutes(door: Door): Endpoint[] {
  const { manifest, metrics, openApi } = door
  return [
    {
      method: 'GET',
      path: '/ojs/manifest',
      about: MANIFEST,
      access: 'anybody',
      handle({ headers }, response) {
        answer(response, 200, JSON.stringify(manifest(headers.host)))
      },
    },
    ...PROBES.health.map((path) => healthRoute(door, path)),
    ...PROBES.liveness.map((path) =>
      probe(path, under(path, PROBES.liveness, LIVENESS), () => 'ok'),
    ),
    ...PROBES.readiness.map((path) =>
      probe(path, under(path, PROBES.readiness, READINESS), () => readiness(door)),
    ),
    {
      method: 'GET',
      path: '/ojs/v1/openapi.json',
      about: OPENAPI,
      access: 'anybody',
      handle(request, response) {
        const { text, tag } = openApi()
        const extra = ['ETag', tag, 'Cache-Control', 'no-cache']
        if (isKnown(request, tag)) answerUnchanged(response, ...extra)
        else answerText(response, 'application/json', text, ...extra)
      },
    },
    ...metricsRoutes(metrics),
  ]
}

/** The second for OJS's command line. */
export function metricsRoutes(metrics: MetricsPage): Endpoint[] {
  return ['/metrics', '/ojs/v1/metrics'].map((path) => ({
    method: 'GET',
    path,
    about: path === '/metrics' ? METRICS : { ...METRICS, id: 'getMetricsOfApi' },
    access: ['operator', 'reader'],
    async handle(_request, response) {
      answerText(response, metrics.contentType, await metrics.text())
    },
  }))
}

/** Whether the client has the answer of this ETag already. */
function isKnown({ headers }: Request, tag: string): boolean {
  const tags = (headers['if-none-match'] ?? '').split(',').map((each) => each.trim())
  return tags.some((each) => each === '*' || each.replace(/^W\//, '') === tag)
}

function healthRoute({ needsKeys, health }: Door, path: string): Endpoint {
  return {
    method: 'GET',
    path,
    about: under(path, PROBES.health, HEALTH),
    access: 'anybody',
    async handle({ admission: { key }, isOfForeignHost }, response) {
      const { healthy, body } = await health()
      const mayKnowWhy = needsKeys
        ? key !== undefined && isServed(key, ['operator', 'reader'])
        : !isOfForeignHost
      const visibleBody = mayKnowWhy ? body : withoutReasons(body)
      answer(response, healthy ? 200 : 503, JSON.stringify(visibleBody))
    },
  }
}

type Status = 'ok' | 'degraded' | 'draining'

/** Alive is alone that the process answers: a restart cures neither RabbitMQ nor a slow disk. */
function probe(path: string, about: Description, ask: () => Status | Promise<Status>): Endpoint {
  return {
    method: 'GET',
    path,
    about,
    access: 'anybody',
    async handle(_request, response) {
      const status = await ask()
      answer(response, status === 'ok' ? 200 : 503, JSON.stringify({ status }))
    },
  }
}

/** Ready: a PUSH would be accepted, and there will be a next request (OJS graceful shutdown). */
async function readiness({ health, isDraining }: Door): Promise<Status> {
  if (isDraining()) return 'draining'
  return (await health()).healthy ? 'ok' : 'degraded'
}
