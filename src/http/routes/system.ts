/** Manifest, health and metrics: what monitoring and clients ask first. */
import { withoutReasons } from '../../operations/health.ts'
import { PROBES } from '../access/admission.ts'
import { isServed } from '../access/roles.ts'
import { answer, answerText } from '../message/respond.ts'
import type { Route } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Manifest, health, probes and metrics (seed 001 §8, §21). */
export function systemRoutes(door: Door): Route[] {
  const { manifest, metrics } = door
  return [
    {
      method: 'GET',
      path: '/ojs/manifest',
      access: 'anybody',
      handle({ headers }, response) {
        answer(response, 200, JSON.stringify(manifest(headers.host)))
      },
    },
    ...PROBES.health.map((path) => healthRoute(door, path)),
    ...PROBES.liveness.map((path) => probe(path, () => 'ok')),
    ...PROBES.readiness.map((path) => probe(path, () => readiness(door))),
    {
      method: 'GET',
      path: '/metrics',
      access: ['operator', 'reader'],
      async handle(_request, response) {
        answerText(response, metrics.contentType, await metrics.text())
      },
    },
  ]
}

function healthRoute({ needsKeys, health }: Door, path: string): Route {
  return {
    method: 'GET',
    path,
    access: 'anybody',
    handle({ admission: { key }, isOfForeignHost }, response) {
      const { healthy, body } = health()
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
function probe(path: string, ask: () => Status): Route {
  return {
    method: 'GET',
    path,
    access: 'anybody',
    handle(_request, response) {
      const status = ask()
      answer(response, status === 'ok' ? 200 : 503, JSON.stringify({ status }))
    },
  }
}

/** Ready: a PUSH would be accepted, and there will be a next request (OJS graceful shutdown). */
function readiness({ health, isDraining }: Door): Status {
  if (isDraining()) return 'draining'
  return health().healthy ? 'ok' : 'degraded'
}
