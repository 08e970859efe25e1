/** Manifest, health and metrics: what monitoring and clients ask first. */
import { withoutReasons } from '../../operations/health.ts'
import { isServed } from '../access/roles.ts'
import { answer, answerText } from '../message/respond.ts'
import type { Route } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Manifest, health and metrics (seed 001 §8, §21). */
export function systemRoutes({ needsKeys, health, manifest, metrics }: Door): Route[] {
  return [
    {
      method: 'GET',
      path: '/ojs/manifest',
      access: 'anybody',
      handle({ headers }, response) {
        answer(response, 200, JSON.stringify(manifest(headers.host)))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/health',
      access: 'anybody',
      handle({ admission: { key }, isOfForeignHost }, response) {
        const { healthy, body } = health()
        const mayKnowWhy = needsKeys
          ? key !== undefined && isServed(key, ['operator'])
          : !isOfForeignHost
        const visibleBody = mayKnowWhy ? body : withoutReasons(body)
        answer(response, healthy ? 200 : 503, JSON.stringify(visibleBody))
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      access: ['operator'],
      async handle(_request, response) {
        answerText(response, metrics.contentType, await metrics.text())
      },
    },
  ]
}
